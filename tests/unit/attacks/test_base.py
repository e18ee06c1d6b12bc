import contextlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import Budget, Perturbation, Split, as_graph
from garnet.attacks import DICE, Attack, Random, Stop
from garnet.backbones import GCN
from garnet.datasets import block_model, contextual_block_model, random_split
from garnet.errors import AttackError, BudgetError, GraphError, ParameterError
from garnet.graph.perturbation import Entries
from garnet.progress import Step
from garnet.training.loop import Training, train


def ring(n, **parts):
    nodes = np.arange(n)
    return as_graph((np.stack([nodes, (nodes + 1) % n]), n), symmetrize=True, **parts)


def chords(n):
    """Pairs that a ring of n nodes does not have."""
    return [(one, other) for one in range(n) for other in range(one + 2, n) if (one, other) != (0, n - 1)]


@dataclass(frozen=True, kw_only=True)
class Scripted(Attack):
    """Yields what it was told to."""

    script: tuple = ()

    def _run(self, task):
        done = task.done.shape[1]
        yield from self.script[done:]


@dataclass(frozen=True, kw_only=True)
class Local(Scripted):
    """The same, on targets."""

    scope: ClassVar[str] = "local"
    spares_training: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class OnFeatures(Attack):
    """Changes the entries it was told to."""

    changes: ClassVar[str] = "entries"
    needs: ClassVar[tuple] = ("features",)

    script: tuple = ()

    def _run(self, task):
        for node, column, after in self.script[len(task.done_entries) :]:
            yield Entries(np.array([[node], [column]]), np.zeros(1, np.float32), np.array([after], np.float32))


def pairs(*edges):
    return tuple(np.array([[one], [other]]) for one, other in edges)


# --- budgets ----------------------------------------------------------------------------------------------------------

COUNTS = st.integers(1, 2**63 - 1)
BUDGETS = st.one_of(
    COUNTS.map(Budget.edges),
    COUNTS.map(Budget.entries),
    COUNTS.map(Budget.per_target),
    st.floats(1e-12, 1e12, exclude_min=True).map(Budget.fraction),
)


@settings(deadline=None)
@given(BUDGETS)
def test_a_budget_is_what_its_words_say(budget):
    assert Budget.parse(str(budget)) == budget


@settings(deadline=None)
@given(st.text(max_size=12) | st.from_regex(r"[0-9. ]{0,6}(%|/target| edges)?", fullmatch=True))
def test_any_text_is_a_budget_or_a_budget_error(text):
    with contextlib.suppress(BudgetError):
        assert Budget.parse(text).amount > 0


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("20%", Budget.fraction(0.2)),
        (" 0.5 % ", Budget.fraction(0.005)),
        ("100", Budget.edges(100)),
        ("1 edge", Budget.edges(1)),
        ("7 entries", Budget.entries(7)),
        ("5/target", Budget.per_target(5)),
    ],
)
def test_budgets_in_words(text, budget):
    assert Budget.parse(text) == budget
    assert Budget.parse("7", "entries") == Budget.entries(7)


@pytest.mark.parametrize(
    "text", ["", "ten", "-5", "0", "0%", "1.5", "1.5/target", "5 nodes", "inf", "nan%", "9" * 9999]
)
def test_words_that_are_no_budget(text):
    with pytest.raises(BudgetError, match=r"^A budget .* Got .* instead\.$"):
        Budget.parse(text)


@pytest.mark.parametrize("count", [0, -1, 1.0, True, "5", None, 2**63, float("nan")])
def test_counts_that_are_no_budget(count):
    for kind in (Budget.edges, Budget.entries, Budget.per_target):
        with pytest.raises(BudgetError, match="must be a number of"):
            kind(count)


@pytest.mark.parametrize("share", [0, -0.1, float("nan"), float("inf"), True, "20%", None])
def test_shares_that_are_no_budget(share):
    with pytest.raises(BudgetError, match=r"must be a positive share, such as 0\.2"):
        Budget.fraction(share)


def test_how_many_changes_a_budget_is():
    features = np.zeros((10, 4), dtype=np.float32)
    features[:3] = 1
    for matrix in (features, sp.csr_array(features)):
        graph = ring(10, features=matrix)
        assert Budget.fraction(0.2).changes(graph, 0, "edges") == 2
        assert Budget.fraction(0.5).changes(graph, 0, "entries") == 6
        assert Budget.entries(40).changes(graph, 0, "entries") == 40
    # In floating point, 0.29 of 100 is a little less than 29.
    assert Budget.fraction(0.29).changes(ring(100), 0, "edges") == 29
    assert Budget.edges(45).changes(graph, 0, "edges") == 45
    assert Budget.per_target(3).changes(graph, 4, "edges") == 12


@pytest.mark.parametrize(
    ("budget", "what", "sentence"),
    [
        (Budget.edges(46), "edges", "is 46 changes, but there are only 45 pairs of nodes"),
        (Budget.fraction(1e300), "edges", "but there are only 45 pairs of nodes"),
        (Budget.edges(2**63 - 1), "edges", "but there are only 45 pairs of nodes"),
        (Budget.entries(21), "entries", "but there are only 20 entries of features"),
        (Budget.fraction(0.05), "edges", "5% allows no change of a graph with 10 edges"),
        (Budget.fraction(0.5), "entries", "allows no change of a graph with 0 entries"),
        (Budget.edges(1), "entries", "changes entries, and the budget is 1 edges"),
        (Budget.entries(1), "edges", "changes edges, and the budget is 1 entries"),
        (Budget.per_target(1), "edges", "needs targets, and there are none"),
    ],
)
def test_budgets_that_a_graph_does_not_allow(budget, what, sentence):
    graph = ring(10, features=np.zeros((10, 2)))
    with pytest.raises(BudgetError, match=sentence):
        budget.changes(graph, 0, what)


# --- what the base class owns -----------------------------------------------------------------------------------------


def test_flips_come_back_in_their_order_with_the_smaller_node_first_and_never_too_many():
    attack = Scripted(script=(np.array([[5, 0], [2, 1]]), np.array([[7, 3, 9], [1, 6, 8]], dtype=np.int32)))
    made = attack(ring(10), budget="4")
    assert made.edges.tolist() == [[2, 0, 1, 3], [5, 1, 7, 6]]
    assert made.edges.dtype == np.int64
    assert made.complete
    assert (made.attack, made.budget, made.seed, made.targets.size) == ("Scripted", "4 edges", 0, 0)
    assert made.added(ring(10)).tolist() == [[2, 1, 3], [5, 7, 6]]
    assert made.dropped(ring(10)).tolist() == [[0], [1]]


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (pairs((3, 3)), r"flipped \(3, 3\), which is no pair"),
        (pairs((0, 10)), r"flipped \(0, 10\), which is no pair"),
        (pairs((-1, 2)), r"flipped \(-1, 2\), which is no pair"),
        (pairs((2, 5), (5, 2)), r"flipped \(2, 5\) twice"),
        ((np.array([[0.0], [2.0]]),), r"must give flips of shape \(2, j\)"),
        ((np.array([0, 2]),), r"must give flips of shape \(2, j\)"),
        ((np.array([[0], [2], [4]]),), r"must give flips of shape \(2, j\)"),
    ],
)
def test_an_attack_that_breaks_a_rule(script, sentence):
    with pytest.raises(AttackError, match=sentence):
        Scripted(script=script)(ring(10), budget="5")


def test_changes_of_features_come_back_with_what_was_there():
    features = np.array([[0, 1], [2, 0], [0, 0]], dtype=np.float32)
    for matrix in (features, sp.csr_array(features)):
        graph = ring(3, features=matrix)
        made = OnFeatures(script=((0, 1, 5.0), (2, 0, -1.0), (1, 0, 0.0)))(graph, budget="2")
        assert made.entries.places.tolist() == [[0, 2], [1, 0]]
        assert made.entries.before.tolist() == [1, 0]
        assert made.entries.after.tolist() == [5, -1]
        assert made.budget == "2 entries"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (((0, 1, 1.0),), "changed the feature 1 of node 0 twice, or not at all"),
        (((0, 0, 1.0), (0, 0, 2.0)), "changed the feature 0 of node 0 twice, or not at all"),
        (((0, 0, np.nan),), "changed the feature 0 of node 0"),
        (((3, 0, 1.0),), "features that the graph does not have"),
        (((0, 2, 1.0),), "features that the graph does not have"),
        (((-1, 0, 1.0),), "features that the graph does not have"),
    ],
)
def test_an_attack_on_features_that_breaks_a_rule(script, sentence):
    graph = ring(3, features=np.array([[0, 1], [2, 0], [0, 0]]))
    with pytest.raises(AttackError, match=sentence):
        OnFeatures(script=script)(graph, budget="5")


def test_an_attack_may_not_change_what_it_is_given():
    class Vandal(Attack):
        needs = ("features",)

        def __init__(self, part):
            self.part = part

        def _run(self, task):
            if self.part == "edges":
                task.graph.adjacency.data[:] = 3
            else:
                task.graph.features[:] = 3
            yield np.array([[0], [2]])

    for part in ("edges", "features"):
        with pytest.raises(AttackError, match="changed the graph or the victim it was given"):
            Vandal(part)(ring(5, features=np.zeros((5, 2))), budget="1")


class Teller:
    """Stops an attack when it has made so many changes."""

    def __init__(self, last):
        self.last, self.steps = last, []

    def __call__(self, step):
        self.steps.append(step)
        if step.done >= self.last:
            raise Stop


def test_stopped_it_gives_what_it_has_and_goes_on_from_there():
    graph, attack = ring(10), Scripted(script=pairs(*chords(10)[:6]))
    whole = attack(graph, budget="6")
    teller = Teller(4)
    part = attack(graph, budget="6", progress=teller)
    assert teller.steps == [Step("Scripted", "edges", count, 6) for count in (1, 2, 3, 4)]
    assert not part.complete
    assert part.num_changes == 4
    assert attack(graph, budget="6", resume=part) == whole
    # A larger budget goes on too, and from what is complete.
    assert attack(graph, budget="6", resume=attack(graph, budget="2")) == whole
    # With nothing left to do, nothing is done.
    assert attack(graph, budget="6", resume=whole, progress=pytest.fail) == whole
    assert attack(graph, budget="3", resume=whole).edges.tolist() == whole.edges[:, :3].tolist()


def test_stopped_before_its_first_change_it_gives_none():
    class Waiting(Attack):
        def _run(self, task):
            task.tell("thinking")
            yield np.array([[0], [2]])

    def impatient(step):
        assert step == Step("Waiting", "thinking")
        raise Stop

    made = Waiting()(ring(5), budget="1", progress=impatient)
    assert (made.num_changes, made.complete) == (0, False)
    assert made.apply(ring(5)) == ring(5)


def test_changes_of_features_go_on_too():
    graph = ring(5, features=np.zeros((5, 3)))
    attack = OnFeatures(script=tuple((node, 1, 1.0) for node in range(5)))
    part = attack(graph, budget="4", progress=Teller(2))
    assert len(part.entries) == 2
    assert attack(graph, budget="4", resume=part) == attack(graph, budget="4")


def test_only_the_same_attack_on_the_same_graph_goes_on():
    n = 8
    graph = ring(n, features=np.zeros((n, 2)), labels=np.arange(n) % 2)
    attack = Scripted(script=pairs(*chords(n)[:5]))
    part = attack(graph, budget="5", progress=Teller(2), seed=3)
    with pytest.raises(ParameterError, match=f"fingerprint {graph.fingerprint}. Got one with {ring(9).fingerprint}"):
        attack(ring(9), budget="5", resume=part, seed=3)
    with pytest.raises(ParameterError, match=r"had another 'seed', 3\. Got 0 instead"):
        attack(graph, budget="5", resume=part)
    with pytest.raises(ParameterError, match="had another 'script'"):
        Scripted(script=pairs((0, 2)))(graph, budget="5", resume=part, seed=3)
    with pytest.raises(ParameterError, match=r"had another 'attack', 'Scripted'\. Got 'random' instead"):
        Random()(graph, budget="5", resume=part, seed=3)
    with pytest.raises(ParameterError, match=r"goes on from a Perturbation\. Got ndarray instead"):
        attack(graph, budget="5", resume=part.edges, seed=3)

    local = Local(script=pairs(*chords(n)[:6]))
    part = local(graph, budget="2/target", targets=[1, 2, 3], progress=Teller(2))
    with pytest.raises(ParameterError, match="aimed at other targets"):
        local(graph, budget="2/target", targets=[1, 2, 4], resume=part)
    with pytest.raises(ParameterError, match=r"had a budget of 2/target, not 3/target, .* begin it anew"):
        local(graph, budget="3/target", targets=[1, 2, 3], resume=part)

    dice = DICE()(graph, budget="4", progress=Teller(2))
    with pytest.raises(ParameterError, match="another victim, or other features, labels or split"):
        DICE()(as_graph(graph, labels=np.arange(n) % 3), budget="4", resume=dice)

    @dataclass(frozen=True)
    class AtItsEnd(Scripted):
        goes_on = False

    with pytest.raises(ParameterError, match="decides at its end and cannot go on"):
        AtItsEnd()(graph, budget="5", resume=part)


def test_it_may_go_on_elsewhere():
    @dataclass(frozen=True, kw_only=True)
    class Somewhere(Scripted):
        device: str = "cpu"

    script = pairs(*chords(8)[:5])
    part = Somewhere(script=script, device="cpu:0")(ring(8), budget="5", progress=Teller(2))
    assert Somewhere(script=script)(ring(8), budget="5", resume=part).num_changes == 5


# --- what it refuses --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        ([0, 6], r"The target 6 does not exist: nodes are 0 to 5\."),
        ([-1], r"The target -1 does not exist"),
        ([], "must be node numbers, at least one"),
        ([0.0], "must be node numbers"),
        (["a"], "must be node numbers"),
        ([5], r"The target 5 has no edges"),
        ([0, 1], r"The target 1 is a training node, .* the attack Local does not aim at those"),
        (None, "The attack Local needs targets"),
    ],
)
def test_targets_that_make_no_sense(targets, sentence):
    split = Split(np.array([1]), np.array([2]), np.array([0, 3]))
    graph = as_graph(([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]], 6), symmetrize=True, split=split)
    with pytest.raises(ParameterError, match=sentence):
        Local(script=pairs((0, 2)))(graph, budget="1", targets=targets)


def test_targets_count_once_and_keep_their_order():
    made = Local(script=pairs(*chords(8)[:9]))(ring(8), budget="2/target", targets=np.array([[3, 1], [3, 2]]))
    assert made.targets.tolist() == [3, 1, 2]
    assert made.num_changes == 6


def test_an_attack_on_the_whole_graph_takes_no_targets():
    with pytest.raises(ParameterError, match="The attack random is on the whole graph and takes no targets"):
        Random()(ring(5), budget="1", targets=[0])


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0", None, 2**63])
def test_seeds_that_are_none(seed):
    with pytest.raises(ParameterError, match="A seed must be an integer from 0"):
        Random()(ring(5), budget="1", seed=seed)


@pytest.mark.parametrize("budget", [5, 0.2, None, ("edges", 5)])
def test_budgets_that_are_none(budget):
    with pytest.raises(BudgetError, match="A budget is written as"):
        Random()(ring(5), budget=budget)


def test_what_a_victim_has_to_be():
    with pytest.raises(ParameterError, match=r"must be a trained model, a Predictor\. Got GCN instead"):
        Random()(ring(5), budget="1", victim=GCN())


def test_what_an_attack_needs_is_said():
    with pytest.raises(GraphError, match="The graph has no labels, and the attack dice needs them"):
        DICE()(ring(5), budget="1")
    with pytest.raises(GraphError, match=r"at least two nodes\. Got 1"):
        Random()(as_graph(np.zeros((1, 1))), budget="1")

    class Learned(Scripted):
        needs = ("split",)

    nobody = Split(*(np.zeros(0, dtype=np.int64),) * 3)
    for graph in (ring(5), ring(5, split=nobody)):
        with pytest.raises(GraphError, match="The graph has no training nodes, and the attack Learned needs them"):
            Learned()(graph, budget="1")


def test_the_victim_is_part_of_what_goes_on():
    graph = contextual_block_model(40, classes=2, features=4, seed=0)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    one, other = train(GCN(hidden=2), graph, seeds=(0, 1), training=Training(epochs=2))
    part = Random()(graph, budget="5", victim=one, progress=Teller(2))
    assert Random()(graph, budget="5", victim=one, resume=part).num_changes == 5
    for victim in (other, None):
        with pytest.raises(ParameterError, match="made with another victim"):
            Random()(graph, budget="5", victim=victim, resume=part)


def test_numbers_of_numpy_are_written_down_as_numbers(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Numbers(Scripted):
        count: int = 3
        share: float = 0.5
        surrogate: str | GCN = "gcn"

    attack = Numbers(script=pairs((0, 2)), count=np.int64(3), share=np.float32(0.5), surrogate=GCN(hidden=4))
    made = attack(ring(5), budget="1")
    made.save(tmp_path / "made.npz")
    loaded = Perturbation.load(tmp_path / "made.npz")
    assert loaded == made
    assert {name: loaded.parameters[name] for name in ("count", "share")} == {"count": 3, "share": 0.5}
    assert loaded.parameters["surrogate"].startswith("GCN(layers=2, hidden=4")


# --- random -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "chance"), [("add", 1), ("drop", 0), ("both", 0.5)])
def test_random_adds_and_drops_as_it_was_told(kind, chance):
    graph = block_model(400, mean_degree=8, seed=1)
    made = Random(kind=kind)(graph, budget="600", seed=4)
    added = made.added(graph).shape[1]
    # Within five standard deviations of a coin.
    assert abs(added - 600 * chance) <= 5 * np.sqrt(600 * chance * (1 - chance))
    assert made.apply(graph).num_edges == graph.num_edges + 2 * added - 600


def test_random_can_flip_every_pair_and_ends_when_there_are_no_more():
    graph = ring(7)
    assert Random()(graph, budget="21").num_changes == 14
    assert Random(kind="drop")(graph, budget="21").num_changes == 7
    both = Random(kind="both")(graph, budget="21")
    assert both.num_changes == 21
    complement = np.ones((7, 7)) - np.eye(7) - graph.adjacency.toarray()
    np.testing.assert_array_equal(both.apply(graph).adjacency.toarray(), complement)


def test_random_draws_all_pairs_alike():
    counts = np.zeros((7, 7))
    for seed in range(500):
        one, other = Random()(ring(7), budget="1", seed=seed).edges[:, 0]
        counts[one, other] += 1
    drawn = counts[np.triu_indices(7, 2)]
    drawn = drawn[drawn > 0]
    assert len(drawn) == 14
    # Chi-squared with 13 degrees of freedom is above 40 once in 10,000 times.
    assert ((drawn - 500 / 14) ** 2 / (500 / 14)).sum() < 40


def test_random_refuses_other_kinds():
    with pytest.raises(
        ParameterError, match=r"The 'kind' parameter of Random must be one of 'add', 'drop', 'both'\. Got"
    ):
        Random(kind="swap")(ring(5), budget="1")


# --- DICE -------------------------------------------------------------------------------------------------------------


def test_dice_joins_classes_and_splits_them():
    graph = block_model(300, classes=3, mean_degree=8, seed=1)
    made = DICE()(graph, budget="400", seed=2)
    added, dropped = graph.labels[made.added(graph)], graph.labels[made.dropped(graph)]
    assert (added[0] != added[1]).all()
    assert (dropped[0] == dropped[1]).all()
    assert abs(added.shape[1] - 200) <= 5 * 10
    assert made.apply(graph).homophily < graph.homophily


@pytest.mark.parametrize(("share", "added"), [(0, 0), (1, 1), (0.25, 0.25)])
def test_dice_adds_its_share(share, added):
    graph = block_model(300, classes=3, mean_degree=8, seed=1)
    made = DICE(add_share=share)(graph, budget="400")
    assert abs(made.added(graph).shape[1] - 400 * added) <= 5 * np.sqrt(400 * added * (1 - added))


def test_dice_ends_when_classes_are_all_joined_and_empty():
    labels = np.array([0, 0, 0, 1, 1, 1, -1])
    made = DICE()(ring(7, labels=labels), budget="21")
    after = made.apply(ring(7)).adjacency.toarray()
    # Every pair of a 0 and a 1, no pair of equals, and the node without a label as it was.
    expected = np.zeros((7, 7))
    expected[:3, 3:6] = expected[3:6, :3] = 1
    expected[6] = expected[:, 6] = [1, 0, 0, 0, 0, 1, 0]
    np.testing.assert_array_equal(after, expected)
    with_one_class = ring(7, labels=np.zeros(7, dtype=int))
    assert DICE(add_share=1)(with_one_class, budget="5").num_changes == 0
    assert DICE(add_share=1e-300)(ring(7, labels=labels), budget="21").num_changes == made.num_changes


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan"), "half", None])
def test_dice_refuses_other_shares(share):
    with pytest.raises(ParameterError, match="The 'add_share' parameter of DICE must be between 0 and 1"):
        DICE(add_share=share)(ring(5, labels=np.zeros(5, dtype=int)), budget="1")


@pytest.mark.parametrize("attack", [Random(), Random(kind="both"), DICE()])
def test_they_go_on_as_if_they_had_not_been_stopped(attack):
    graph = block_model(100, classes=3, mean_degree=4, seed=1)
    part = attack(graph, budget="30", seed=5, progress=Teller(11))
    assert attack(graph, budget="30", seed=5, resume=part) == attack(graph, budget="30", seed=5)
