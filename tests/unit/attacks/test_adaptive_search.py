"""The search that a gradient guides: what it proposes does harm, and it finds no less than one that only asks."""

import numpy as np
import pytest

from garnet import as_graph
from garnet.attacks import AdaptiveSearch, QuerySearch, Stop
from garnet.attacks.adaptive import Oracle
from garnet.attacks.answer import Answer
from garnet.attacks.base import Task
from garnet.attacks.slopes import Slopes
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.purify.garnet import GARNET
from garnet.training.loop import Training

QUICK = Training(epochs=60, lr=0.01)
NOTHING = np.zeros((2, 0), dtype=np.int64)
DEFENSES = {"none": Purified(None, GCN(hidden=8), QUICK), "garnet": Purified(GARNET(rank=20), GCN(hidden=8), QUICK)}


@pytest.fixture(scope="module")
def graph():
    drawn = contextual_block_model(200, classes=3, mean_degree=5.0, features=8, signal=1.5, seed=0)
    return as_graph(drawn, split=random_split(drawn.labels, train=0.3, val=0.1, seed=0))


def oracle_of(graph, defense):
    return Oracle.of(Task(graph, 10, None, np.zeros(0, dtype=np.int64), None, 0), defense, "tanh-margin", "true")


def wrong(defense, victim, graph, nodes=None):
    return 1 - defense.predict(victim, graph).accuracy(graph.split.test if nodes is None else nodes)


@pytest.mark.parametrize("name", DEFENSES)
def test_what_a_gradient_proposes_does_more_harm_than_chance(graph, name):
    oracle = oracle_of(graph, DEFENSES[name])
    clean = oracle.after(NOTHING)
    answer, generator = Answer.of(clean), np.random.default_rng(0)
    owners = oracle.nodes.numpy()[answer.margins[oracle.nodes.numpy()] > 0][:30]
    others = Slopes(oracle, "still", generator).of(owners, answer, NOTHING)
    assert (others[others >= 0] != owners[others >= 0]).all()
    proposed, drawn = [], []
    for owner, other in zip(owners[others >= 0], others[others >= 0], strict=True):
        proposed.append(oracle.after(np.sort([[owner], [other]], axis=0)).harm[1] - clean.harm[1])
        stranger = generator.choice(np.setdiff1d(np.arange(graph.num_nodes), owner))
        drawn.append(oracle.after(np.sort([[owner], [stranger]], axis=0)).harm[1] - clean.harm[1])
    assert len(proposed) > 10
    assert np.mean(proposed) > 2 * max(np.mean(drawn), 0)
    assert np.mean(np.array(proposed) > 0) > 0.7


def test_a_node_that_is_asked_for_twice_gets_two_pairs_and_none_that_are_flipped(graph):
    oracle = oracle_of(graph, DEFENSES["none"])
    answer = Answer.of(oracle.after(NOTHING))
    owner = int(oracle.nodes[int(np.argmax(answer.margins[oracle.nodes.numpy()]))])
    first = Slopes(oracle, "still", np.random.default_rng(0)).of(np.array([owner] * 4), answer, NOTHING)
    assert len(set(first[first >= 0])) == (first >= 0).sum() > 1
    made = np.stack([np.full((first >= 0).sum(), owner), first[first >= 0]])
    again = Slopes(oracle, "still", np.random.default_rng(0)).of(np.array([owner] * 4), answer, made)
    assert not set(again[again >= 0]) & set(made[1])


@pytest.mark.parametrize("name", ["none", pytest.param("garnet", marks=pytest.mark.slow)])
def test_it_does_no_less_harm_than_the_search_that_only_asks(graph, name):
    defense = DEFENSES[name]
    victim = defense.fit(graph)
    harm = {
        attack: np.mean(
            [
                wrong(
                    defense,
                    victim,
                    attack(defense=defense, queries=40)(graph, budget="5%", victim=victim, seed=s).apply(graph),
                )
                for s in range(4)
            ]
        )
        for attack in (QuerySearch, AdaptiveSearch)
    }
    one_node = 1 / len(graph.split.test)
    assert harm[AdaptiveSearch] >= harm[QuerySearch] - one_node
    assert harm[AdaptiveSearch] > wrong(defense, victim, graph) + 5 * one_node


def test_same_seed_same_flips_and_a_budget_for_each_target(graph):
    defense = DEFENSES["garnet"]
    victim, targets = defense.fit(graph), graph.split.test[:4]
    attack = AdaptiveSearch(defense=defense, queries=25)
    made = attack(graph, budget="2/target", targets=targets, victim=victim, seed=3)
    assert made == attack(graph, budget="2/target", targets=targets, victim=victim, seed=3)
    assert made.num_changes <= 8
    assert np.isin(made.edges, targets).any(axis=0).all()
    assert wrong(defense, victim, made.apply(graph), targets) >= wrong(defense, victim, graph, targets)


def test_stopped_it_gives_the_best_so_far(graph):
    def after_ten(step):
        if step.total and step.done >= 10:
            raise Stop

    made = AdaptiveSearch(defense=DEFENSES["none"])(graph, budget="12", progress=after_ten)
    assert made.num_changes == 12
