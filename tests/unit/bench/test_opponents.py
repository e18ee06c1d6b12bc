"""Which attacks a battery has, and which defence they are told of."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.attacks import DICE, AdaptiveEvasion, Attack, QuerySearch
from garnet.attacks.adaptive import KnownDefense
from garnet.backbones import GCN, TorchModule
from garnet.bench.opponents import opponents
from garnet.bench.stress import stress
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Committee, Defense, Purified
from garnet.errors import ParameterError
from garnet.training import Training

QUICK = {"budgets": ["5%"], "seeds": 1, "unbounded": False}
SHORT = Training(epochs=5, lr=0.05)


def drawn(nodes):
    made = contextual_block_model(nodes, classes=3, mean_degree=6, homophily=0.9, features=8, signal=1.0, seed=0)
    return as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))


@pytest.fixture(scope="module")
def graph():
    return drawn(120)


def plain(hidden=8):
    return Purified(None, GCN(hidden=hidden), SHORT)


class Linear(torch.nn.Module):
    """A model of the user's own."""

    def __init__(self, features, classes):
        super().__init__()
        self.inner = torch.nn.Linear(features, classes)

    def forward(self, x, edge_index):
        return self.inner(x)


class Build:
    """Builds it; its `repr` has an address, as that of a function has."""

    def __call__(self, features, classes):
        return Linear(features, classes)


def own_model():
    return Purified(None, TorchModule(Build()), SHORT)


@dataclass(frozen=True, kw_only=True)
class Told(Attack):
    """Flips nothing, and remembers which defence it was told of."""

    heard: ClassVar[list[Defense]] = []
    threat: ClassVar = "poisoning"
    defense: KnownDefense = "garnet"
    share: float = 0.5

    def _run(self, task):
        self.heard.append(self.defense)
        yield task.graph.edges[:, :1]


@dataclass(frozen=True, kw_only=True)
class ToldOne(Told):
    """The same, with a defence of its own that is made anew each time."""

    defense: KnownDefense = field(default_factory=lambda: plain(hidden=3))


def test_a_model_of_ones_own_is_the_same_in_the_next_run_wherever_it_lies_in_memory(graph, tmp_path):
    path, first, second = tmp_path / "s.jsonl", own_model(), own_model()
    assert repr(first) != repr(second)
    assert stress(graph, first, **QUICK, attacks=[Told], path=path).ran == 2
    assert stress(graph, second, **QUICK, attacks=[Told], path=path).ran == 0


@pytest.mark.slow
def test_a_model_of_ones_own_can_be_attacked_by_several_processes(graph):
    found = stress(graph, own_model(), **QUICK, attacks=[Told], jobs=2)
    assert (found.ran, found.battery.failures) == (2, ())


@pytest.mark.parametrize("kind", [Told, ToldOne])
def test_an_attack_that_names_no_defence_is_told_of_the_one_under_stress(graph, kind):
    Told.heard.clear()
    stress(graph, plain(), **QUICK, attacks=[kind(share=0.1)])
    stress(graph, plain(), **QUICK, attacks=[kind(share=0.1, defense=plain())])
    assert Told.heard == [plain(), plain()]


def test_the_name_of_the_defence_under_stress_may_be_given(graph):
    (_, one) = opponents([QuerySearch(defense="committee")], graph, Committee(), "cpu")
    assert one.attack.defense == Committee()


@pytest.mark.parametrize("other", ["gnnguard", plain(hidden=9)])
def test_an_attack_that_is_built_for_another_defence_is_refused(graph, other):
    with pytest.raises(ParameterError, match=r"query-search is built for the defence .* is of Purified; give it"):
        stress(graph, plain(), **QUICK, attacks=[QuerySearch(defense=other)])


def test_what_looks_at_all_pairs_is_left_out_on_a_large_graph():
    large = drawn(5_100)
    names = {one.name for one in opponents(None, large, plain(), "cpu")}
    assert "prbcd" in names
    assert not names & {"metattack", "adaptive-metattack", "pgd"}


@pytest.mark.parametrize(("nodes", "attempts"), [(120, 3), (5_100, 2)])
def test_and_is_not_given_as_many_flips_as_there_are_edges_there(nodes, attempts):
    planned = []

    def stop(step):
        planned.append(step.total)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stress(drawn(nodes), plain(), budgets=["1"], seeds=1, attacks=["adaptive-metattack"], progress=stop)
    assert planned == [attempts]


@pytest.mark.parametrize(
    ("attacks", "twice"),
    [
        (["dice", "dice"], "dice"),
        (["adaptive-evasion", "adaptive-evasion"], "adaptive-evasion"),
        (["adaptive-evasion", AdaptiveEvasion()], "adaptive-evasion"),
        ([DICE(), DICE(add_share=0.1), "dice"], "dice add_share="),
    ],
)
def test_an_attack_that_is_there_twice_is_refused(graph, attacks, twice):
    with pytest.raises(ParameterError, match=f"The attack {twice}.* is in the battery twice"):
        opponents(attacks, graph, plain(), "cpu")


def test_the_same_attack_with_other_parameters_is_another(graph):
    named = [one.name for one in opponents([DICE(), DICE(add_share=0.1)], graph, plain(), "cpu")]
    assert len(set(named)) == 3


def test_names_have_no_addresses(graph):
    @dataclass(frozen=True, kw_only=True)
    class Odd(Attack):
        share: Build | float = 0.5

        def _run(self, task):
            yield np.zeros((2, 0), dtype=np.int64)

    twice = [Odd(share=Build()), Odd()]
    assert [one.name for one in opponents(twice, graph, plain(), "cpu")][1].endswith("Build object>")
    with pytest.raises(ParameterError, match="Odd is in the battery twice"):
        opponents([Odd(share=Build()), replace(twice[0], share=Build())], graph, plain(), "cpu")
