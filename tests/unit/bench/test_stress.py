"""A stress test: the worst of many attacks, and the checks that tell a strong defence from a weak attack."""

import json
import multiprocessing
import signal
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.attacks import DICE, AdaptiveSearch, Attack, QuerySearch, Random, Stop
from garnet.backbones import GCN
from garnet.bench.attempt import replay
from garnet.bench.outcomes import Battery, batteries
from garnet.bench.record import read_records
from garnet.bench.stress import stress
from garnet.bench.verdict import Stress
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Defense, Purified
from garnet.errors import BudgetError, GarnetError, GraphError, ParameterError
from garnet.training import Training

QUICK = {"budgets": ["5%", "20%"], "attacks": ["dice"], "seeds": 2}


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def drawn(nodes, homophily):
    made = contextual_block_model(nodes, classes=3, mean_degree=6, homophily=homophily, features=8, signal=1.0, seed=0)
    return as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))


@pytest.fixture(scope="module")
def graph():
    return drawn(120, homophily=0.9)


def plain():
    return Purified(None, GCN(hidden=8), Training(epochs=20, lr=0.05))


@dataclass(frozen=True, kw_only=True)
class Between(Attack):
    """Joins test nodes with strangers, and knows which model it is up against: adaptive, after training."""

    threat: ClassVar = "evasion"
    needs: ClassVar = ("labels", "split")
    defense: Defense
    clumsy: bool = False

    def _run(self, task):
        assert task.victim is not None
        if self.clumsy:
            yield from Random()._run(task)
            return
        random, joined = np.random.default_rng(task.seed), set(map(tuple, task.graph.edges.T.tolist()))
        for one in np.tile(random.permutation(task.graph.split.test), 8):
            other = random.choice(np.flatnonzero(task.labels != task.labels[one]))
            pair = tuple(sorted((int(one), int(other))))
            if pair not in joined:
                joined.add(pair)
                yield np.array(pair)[:, None]


@dataclass(frozen=True, kw_only=True)
class Guided(Between):
    """The same by one who knows the defence, and goes by what it answers."""

    asks: ClassVar = True


@dataclass(frozen=True, kw_only=True)
class Blindfold(Between):
    """The same by one who can do nothing but ask."""

    black_box: ClassVar = True


@dataclass(frozen=True)
class OfOneGraph(Defense):
    """A plain model that is forgotten with its graph."""

    learns_one_graph: ClassVar = True

    def _fit(self, graph, seeds, progress):
        return tuple(replace(one, backbone=None) for one in plain().fit_seeds(graph, seeds))


@dataclass(frozen=True)
class Learning(Defense):
    """A plain model that at first can say nothing of another graph, and later can."""

    can: ClassVar = False

    def _fit(self, graph, seeds, progress):
        return tuple(one if self.can else replace(one, backbone=None) for one in plain().fit_seeds(graph, seeds))


@dataclass(frozen=True)
class Picky(Defense):
    """A plain model that can be asked nothing once it is trained, though it should."""

    def _fit(self, graph, seeds, progress):
        return plain().fit_seeds(graph, seeds)

    def _predict(self, predictor, graph):
        raise GraphError("Picky has lost its glasses.")


@dataclass(frozen=True)
class Remembering(Defense):
    """It keeps no model that the library knows, and can be asked of any graph all the same."""

    def _fit(self, graph, seeds, progress):
        return tuple(replace(one, backbone=None) for one in plain().fit_seeds(graph, seeds))

    def _predict(self, predictor, graph):
        return plain().predict(plain().fit(graph), graph)


@dataclass(frozen=True, kw_only=True)
class Helpful(Attack):
    """Drops edges between classes: the more it may, the better for the defender."""

    needs: ClassVar = ("labels",)
    defense: Defense | None = None
    threat: ClassVar = "poisoning"

    def _run(self, task):
        edges = task.graph.edges
        first, second = task.labels[edges]
        yield edges[:, first != second]


@dataclass(frozen=True)
class Moody(Defense):
    """Says something else each time it is asked."""

    inner: Defense = field(default_factory=plain)

    def _fit(self, graph, seeds, progress):
        return self.inner.fit_seeds(graph, seeds)

    def _predict(self, predictor, graph):
        emptied = as_graph(graph).with_edges(np.zeros((2, 0), dtype=np.int64))
        return self.inner.predict(predictor, emptied)


def figures(found):
    return {(one.attack, one.threat, one.budget): one.accuracies for one in found.battery.outcomes}


def verdicts(found):
    return [one.verdict for one in found.checks]


def test_the_worst_attack_is_told_for_each_threat_and_budget(graph):
    found = stress(graph, plain(), budgets=["20%", "5%"], attacks=["dice", "prbcd", Between], seeds=2)
    battery = found.battery
    assert (battery.budgets, battery.attacks) == (("5%", "20%"), ("random", "dice", "prbcd", "Between"))
    assert (found.ran, battery.missing, battery.failures) == (2 * 2 * 4 + 1, 0, ())
    for threat in ("evasion", "poisoning"):
        small, large = (found.worst(threat, budget) for budget in battery.budgets)
        assert small.mean == min(one.mean for one in battery.at(threat, "5%"))
        assert large.mean <= small.mean < battery.clean.mean
        assert len(large.accuracies) == 2
        assert large.sd is not None
        assert 0 < small.flips <= small.allowed == graph.num_edges // 20
    (transferred,) = battery.at("poisoning", "5%", "Between")
    assert (transferred.adaptive, transferred.transferred) == (True, True)
    assert not battery.at("evasion", "5%", "Between")[0].transferred
    assert not battery.at("poisoning", "5%", "dice")[0].transferred
    assert [one.threat for one in battery.unbounded] == ["evasion"]
    assert "under the worst evasion at 20%" in found.verdict
    with pytest.raises(ParameterError, match="has the budgets 5%, 20%"):
        found.worst("evasion", "7%")


def test_what_a_small_budget_finds_counts_at_a_larger_one(graph):
    found = stress(graph, plain(), budgets=["1", "30"], attacks=[Helpful], seeds=1)
    battery = found.battery
    known = [one for one in battery.outcomes if one.threat == "poisoning"]
    assert found.worst("poisoning", "30 edges").mean == min(one.mean for one in known)


def test_the_battery_has_every_attack_that_fits(graph):
    bare = as_graph(graph.adjacency, labels=graph.labels, split=graph.split)
    found = stress(bare, OfOneGraph(), budgets=["5%"], seeds=1)
    assert set(found.battery.attacks) == {"random", "dice"}
    assert {one.threat for one in found.battery.outcomes} == {"poisoning"}
    assert "where nobody attacks" in found.verdict
    assert "evasion" not in found.verdict
    assert found.checks[-1].verdict == "not run"


def test_what_comes_after_training_is_no_attack_on_what_learns_of_one_graph(graph):
    with pytest.raises(ParameterError, match=r"query-search needs what .* and OfOneGraph learns"):
        stress(graph, OfOneGraph(), budgets=["5%"], attacks=["query-search"], seeds=1)


@pytest.mark.slow
def test_what_is_recorded_is_not_run_again_and_can_be_made_again(graph, tmp_path):
    path = tmp_path / "s.jsonl"
    whole = stress(graph, plain(), **QUICK, path=path)
    content = path.read_bytes()
    again = stress(graph, plain(), **QUICK, path=path)
    assert (again.ran, path.read_bytes()) == (0, content)
    assert figures(again) == figures(whole) == figures(stress(graph, plain(), **QUICK))
    records, damages = read_records(path)
    assert (len(records), damages) == (2 + 8 + 1, ())
    (battery,) = batteries(records)
    assert (battery.outcomes, battery.clean) == (whole.battery.outcomes, whole.battery.clean)

    one = next(record for record in records if record.cell["attack"] == "dice")
    assert one.parameters["attack"]["name"] == "DICE"
    assert one.parameters["defense"]["backbone"]["hidden"] == 8
    assert set(one.fingerprints) == {"graph", "split"}
    assert {"attack", "evasion", "poisoning", "total"} == set(one.seconds)
    made = replay(one, graph)
    attacked = made.apply(graph)
    assert (made.num_changes, attacked.fingerprint) == (one.values["flips"], one.values["result"])
    assert 100 * plain().fit(attacked, seed=one.seeds[0]).accuracy() == one.values["poisoning"]
    with pytest.raises(GraphError, match="another graph"):
        replay(one, attacked)

    verdict = records[-1]
    assert verdict.cell["role"] == "verdict"
    assert [check["verdict"] for check in verdict.values["checks"]] == verdicts(whole)

    more = stress(graph, plain(), **QUICK | {"seeds": 3}, path=path)
    assert more.ran == 4
    other = stress(graph, Purified(None, GCN(hidden=9), Training(epochs=5)), **QUICK, path=path)
    assert other.ran == 8
    assert len(batteries(read_records(path)[0])) == 2


@pytest.mark.slow
def test_a_defence_that_can_be_evaded_at_last_is_evaded(graph, tmp_path, monkeypatch):
    path = tmp_path / "s.jsonl"
    before = stress(graph, Learning(), **QUICK, path=path)
    content = path.read_bytes()
    assert {one.threat for one in before.battery.outcomes} == {"poisoning"}
    assert (stress(graph, Learning(), **QUICK, path=path).ran, path.read_bytes()) == (0, content)
    monkeypatch.setattr(Learning, "can", True)

    def interrupt(step):
        if step.done == 3:
            signal.raise_signal(signal.SIGINT)

    stopped = stress(graph, Learning(), **QUICK, path=path, progress=interrupt)
    assert (stopped.ran, stopped.battery.missing) == (3, 5)
    after = stress(graph, Learning(), **QUICK, path=path)
    assert (after.ran, after.battery.missing) == (5, 0)
    assert path.read_bytes().startswith(content)
    assert figures(after) == figures(stress(graph, plain(), **QUICK))
    assert after.checks[-1].verdict == "ok"
    assert stress(graph, Learning(), **QUICK, path=path).ran == 0


def test_a_seed_that_could_not_be_asked_again_is_not_compared_with_another(graph):
    found = stress(graph, plain(), **QUICK)
    left = {0: (80.0, None), 1: (60.0, 60.0)}
    records = tuple(
        replace(one, values=one.values | dict(zip(("poisoning", "evasion"), left[one.seeds[0]], strict=True)))
        if one.cell["role"] == "clean"
        else one
        for one in found.battery.records
    )
    (check,) = [one for one in Stress(Battery(records)).checks if "says the same twice" in one.name]
    assert check.verdict == "ok"
    assert "60.0 %" in check.found


def test_only_a_defence_that_learns_on_one_graph_is_spared_evasion(graph):
    with pytest.raises(GraphError, match="glasses"):
        stress(graph, Picky(), **QUICK)
    found = stress(graph, Remembering(), **QUICK)
    assert {one.threat for one in found.battery.outcomes} == {"evasion", "poisoning"}


@pytest.mark.parametrize("where", ["dice 5%, seed 0", "dice 20%, seed 1", "random 20%, seed 0"])
@pytest.mark.slow
def test_a_stop_within_an_attempt_ends_the_run_and_the_attempt_is_made_again(graph, tmp_path, where):
    path = tmp_path / "s.jsonl"

    def stop(step):
        if step.stage == where and step.detail:
            raise Stop

    stopped = stress(graph, plain(), **QUICK, path=path, progress=stop)
    assert stopped.battery.missing > 0
    assert where not in {
        f"{one.cell['attack']} {one.cell['allowed']}, seed {one.seeds[0]}" for one in stopped.battery.records
    }
    after = stress(graph, plain(), **QUICK, path=path)
    assert (after.ran, after.battery.missing) == (stopped.battery.missing, 0)
    assert figures(after) == figures(stress(graph, plain(), **QUICK))


@dataclass(frozen=True, kw_only=True)
class Stopping(Attack):
    """An attack that ends itself, which is its own affair."""

    def _run(self, task):
        yield task.graph.edges[:, :1]
        raise Stop


def test_an_attack_that_stops_itself_has_failed_and_does_not_end_the_run(graph):
    found = stress(graph, plain(), budgets=["5%"], attacks=[Stopping, "dice"], seeds=1)
    assert (found.battery.missing, found.battery.tried) == (0, ("dice",))
    (failure,) = found.battery.failures
    assert "stopped before" in failure.reason


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_interrupt_keeps_what_was_done_and_the_next_run_does_the_rest(graph, tmp_path, jobs):
    path = tmp_path / "s.jsonl"

    def interrupt(step):
        if step.done == 3:
            signal.raise_signal(signal.SIGINT)

    stopped = stress(graph, plain(), **QUICK, path=path, jobs=jobs, progress=interrupt)
    assert (stopped.ran, stopped.battery.missing) == (3, 5)
    assert "no worst case yet" in stopped.verdict
    before = path.read_bytes()
    steps = []
    resumed = stress(graph, plain(), **QUICK, path=path, progress=steps.append)
    assert (resumed.ran, resumed.battery.missing) == (5, 0)
    assert path.read_bytes().startswith(before)
    keys = [record.key for record in read_records(path)[0]]
    assert len(keys) == len(set(keys)) == 2 + 8 + 1
    assert figures(resumed) == figures(stress(graph, plain(), **QUICK))
    assert [step.done for step in steps if step.total and step.detail][-1] == 8
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_processes_side_by_side_find_the_same(graph):
    assert figures(stress(graph, plain(), **QUICK, jobs=2)) == figures(stress(graph, plain(), **QUICK))


def test_what_cannot_be_given_to_another_process_is_refused_in_a_sentence(graph):
    @dataclass(frozen=True)
    class Here(Attack):
        def _run(self, task):
            yield from ()

    with pytest.raises(ParameterError, match="Here cannot be given to another process"):
        stress(graph, plain(), **{**QUICK, "attacks": [Here()]}, jobs=2)


def test_an_attack_that_fails_is_recorded_and_the_others_go_on(graph, tmp_path):
    @dataclass(frozen=True)
    class Broken(Attack):
        def _run(self, task):
            raise ZeroDivisionError("nothing")
            yield

    path, choice = tmp_path / "s.jsonl", {**QUICK, "attacks": [Broken(), "dice"]}
    found = stress(graph, plain(), **choice, path=path)
    assert {one.reason for one in found.battery.failures} == {"internal error: ZeroDivisionError: nothing"}
    assert found.battery.attacks == ("random", "dice")
    assert found.battery.tried == ("dice",)
    assert "4 attempts failed" in found.verdict
    assert stress(graph, plain(), **choice, path=path).ran == 0
    assert stress(graph, plain(), **choice, path=path, retry=True).ran == 4


def test_a_strong_attack_on_a_weak_defence_passes_all_checks():
    found = stress(drawn(500, homophily=0.9), plain(), budgets=["5%", "20%"], attacks=["dice", Between], seeds=2)
    assert verdicts(found) == ["ok"] * 6, found.checks
    assert found.verdict.endswith("All 6 checks hold.")


def test_budget_that_helps_the_defender_is_said():
    found = stress(drawn(400, homophily=0.5), plain(), budgets=["2%", "45%"], attacks=[Helpful], seeds=2)
    budget = found.checks[1]
    assert budget.name == "more budget never helps the defender"
    assert budget.verdict == "failed"
    assert "poisoning (Helpful)" in budget.found
    assert "do not quote" in budget.meaning
    assert "checks failed: do not quote these figures" in found.verdict


def test_an_attack_that_knows_all_and_does_nothing_is_masked(graph):
    clumsy = Between(defense=plain(), clumsy=True)
    found = stress(graph, plain(), budgets=["20%"], attacks=["prbcd", clumsy], seeds=1)
    floor, budget, knowing, random, seeds, twice = found.checks
    assert (floor.verdict, knowing.verdict) == ("failed", "failed")
    assert "masked" in floor.meaning
    assert "prbcd" in knowing.found
    assert (budget.verdict, seeds.verdict) == ("not run", "not run")
    assert (random.verdict, twice.verdict) == ("ok", "ok")


def test_a_search_that_knows_the_defence_does_not_vouch_for_gradients(graph):
    clumsy = Between(defense=plain(), clumsy=True)
    found = stress(graph, plain(), budgets=["20%"], attacks=["prbcd", Guided, clumsy], seeds=1, unbounded=False)
    assert found.checks[2].verdict == "failed"
    alone = stress(graph, plain(), budgets=["20%"], attacks=["prbcd", Guided], seeds=1, unbounded=False)
    assert alone.checks[2].verdict == "not run"


def test_an_attack_that_only_asks_is_known_as_such_without_a_name(graph, tmp_path):
    path, clumsy = tmp_path / "s.jsonl", Between(defense=plain(), clumsy=True)
    stress(graph, plain(), budgets=["20%"], attacks=[Blindfold, clumsy], seeds=1, unbounded=False, path=path)
    (battery,) = batteries(read_records(path)[0])
    assert {one.attack for one in battery.outcomes if one.black_box and one.asks} == {"Blindfold"}
    assert "% (Between) against" in Stress(battery).checks[2].found


def test_what_older_records_do_not_say_of_an_attack_its_name_does(graph, tmp_path):
    path, searches = tmp_path / "s.jsonl", [QuerySearch(queries=4), AdaptiveSearch(queries=4)]
    stress(graph, plain(), budgets=["5%"], attacks=searches, seeds=1, unbounded=False, path=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line["parameters"].pop("kind", None)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (battery,) = batteries(read_records(path)[0])
    kinds = {one.attack: (one.black_box, one.asks) for one in battery.outcomes}
    assert kinds == {"random": (False, False), "query-search": (True, True), "adaptive-search": (False, True)}


def test_a_defence_that_changes_its_mind_is_found_out(graph):
    found = stress(graph, Moody(), budgets=["10%"], attacks=["dice"], seeds=1)
    assert (found.checks[-1].name, found.checks[-1].verdict) == ("the same model says the same twice", "failed")


def test_seeds_that_disagree_and_random_flips_that_help_are_said(graph, tmp_path):
    path = tmp_path / "s.jsonl"
    stress(graph, plain(), **QUICK, path=path)
    changed = []
    for line in path.read_text().splitlines():
        record = json.loads(line)
        if record["cell"]["role"] == "attack":
            record["values"]["evasion"] = 100.0 if record["cell"]["attack"] == "random" else 30.0 * record["seeds"][0]
        changed.append(json.dumps(record))
    path.write_text("\n".join(changed) + "\n")
    found = stress(graph, plain(), **QUICK, path=path)
    *_, random, seeds, _ = found.checks
    assert (random.verdict, seeds.verdict) == ("failed", "failed")
    assert "random flips 100.0 %" in random.found
    assert "15.0 ± 21.2 % (dice)" in seeds.found


def test_two_of_a_kind_are_told_apart(graph):
    kinds = [DICE(add_share=0.1), DICE(add_share=0.9)]
    found = stress(graph, plain(), budgets=["5%"], attacks=kinds, seeds=1)
    assert found.battery.attacks == ("random", "dice add_share=0.1", "dice add_share=0.9")
    with pytest.raises(ParameterError, match="dice is in the battery twice"):
        stress(graph, plain(), budgets=["5%"], attacks=["dice", DICE()], seeds=1)


@pytest.mark.parametrize(
    ("choice", "kind", "message"),
    [
        ({"budgets": ["0%"]}, BudgetError, "positive share"),
        ({"budgets": ["x"]}, BudgetError, "written as 20%"),
        ({"budgets": []}, BudgetError, "must be a list"),
        ({"budgets": ["2/target"]}, BudgetError, "counts flips of edges"),
        ({"budgets": ["5 entries"]}, BudgetError, "counts flips of edges"),
        ({"attacks": ["nettak"]}, ParameterError, "Did you mean nettack"),
        ({"attacks": ["nettack"]}, ParameterError, "nettack aims at single nodes"),
        ({"attacks": ["feature-pgd"]}, ParameterError, "feature-pgd changes features"),
        ({"attacks": [3]}, ParameterError, "Got 3 instead"),
        ({"attacks": []}, ParameterError, "at least one"),
        ({"seeds": 0}, ParameterError, "'seeds'"),
        ({"jobs": 0}, ParameterError, "'jobs'"),
        ({"device": "cupid"}, ParameterError, "'device'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_trained(graph, choice, kind, message):
    with pytest.raises(kind, match=message):
        stress(graph, plain(), **{**QUICK, **choice})


def test_a_graph_that_nothing_can_be_told_of_is_refused(graph):
    for lacking, message in (
        (as_graph(graph.adjacency, split=graph.split), "no labels"),
        (as_graph(graph.adjacency, labels=graph.labels), "no training nodes"),
        (graph.with_edges(np.zeros((2, 0), dtype=np.int64)), "no edges"),
    ):
        with pytest.raises(GraphError, match=message):
            stress(lacking, plain(), **QUICK)
    with pytest.raises(ParameterError, match="is of a Defense"):
        stress(graph, GCN(), **QUICK)
    with pytest.raises(GarnetError, match="accuracy without an attack is missing"):
        Battery(())
