"""The search by queries alone: it asks as often as it may, gives what it has measured, and does harm."""

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.attacks import QuerySearch, Random, Stop
from garnet.attacks.adaptive import Oracle
from garnet.attacks.answer import Answer
from garnet.attacks.base import Task
from garnet.attacks.proposals import Proposals
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Purified
from garnet.defenses.base import Defense
from garnet.training.loop import Training

NOTHING = np.zeros((2, 0), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Counting(Defense):
    """A GCN that counts how often it is asked, and has no gradient to give."""

    inner: Purified = field(default_factory=lambda: Purified(None, GCN(hidden=8), Training(epochs=60, lr=0.01)))
    asked: list = field(default_factory=list)

    def _fit(self, graph, seeds, progress):
        return self.inner.fit_seeds(graph, seeds, progress=progress)

    def _predict(self, predictor, graph):
        self.asked.append(graph)
        return self.inner.predict(predictor, graph)

    def relaxed(self, predictor, graph, *, turn=False):
        raise AssertionError("no gradient is asked for")


@pytest.fixture(scope="module")
def graph():
    drawn = contextual_block_model(200, classes=3, mean_degree=5.0, features=8, signal=1.5, seed=0)
    return as_graph(drawn, split=random_split(drawn.labels, train=0.3, val=0.1, seed=0))


@pytest.fixture(scope="module")
def victim(graph):
    return Counting().fit(graph)


def wrong_after(graph, victim, made, nodes=None):
    said = Counting().predict(victim, made.apply(graph))
    return 1 - said.accuracy(graph.split.test if nodes is None else nodes)


def oracle_of(graph, victim):
    task = Task(graph, 10, None, np.zeros(0, dtype=np.int64), victim, 0)
    return Oracle.of(task, Counting(), "tanh-margin", "true")


@pytest.mark.parametrize("labels", ["true", "predicted"])
@pytest.mark.parametrize("queries", [1, 2, 3, 17, 40])
def test_it_asks_no_more_often_than_it_may(graph, victim, queries, labels):
    defense = Counting()
    made = QuerySearch(defense=defense, queries=queries, labels=labels)(graph, budget="12", victim=victim)
    assert len(defense.asked) <= queries
    assert made.num_changes == 12


def test_same_seed_same_flips_and_another_seed_others(graph, victim):
    runs = [QuerySearch(defense=Counting(), queries=20)(graph, budget="12", victim=victim, seed=s) for s in (3, 3, 4)]
    assert runs[0] == runs[1]
    assert set(map(tuple, runs[0].edges.T)) != set(map(tuple, runs[2].edges.T))


def test_it_returns_the_worst_graph_it_has_asked_about(graph, victim):
    defense, told = Counting(), []
    made = QuerySearch(defense=defense, queries=30)(graph, budget="12", victim=victim, progress=told.append)
    seen = [1 - defense.inner.predict(victim, one).accuracy(graph.split.test) for one in defense.asked[1:]]
    assert wrong_after(graph, victim, made) == pytest.approx(max(seen))
    assert f"{max(seen):.1%} wrong, query" in [step.detail for step in told]


def test_it_does_far_more_harm_than_chance_and_more_the_more_it_asks(graph, victim):
    clean = 1 - Counting().predict(victim, graph).accuracy(graph.split.test)
    random = np.mean([wrong_after(graph, victim, Random()(graph, budget="5%", seed=s)) for s in range(3)])
    few, many = (
        wrong_after(graph, victim, QuerySearch(defense=Counting(), queries=q)(graph, budget="5%", victim=victim))
        for q in (4, 120)
    )
    assert many > few > random >= clean - 0.02
    assert many - clean > 4 * max(random - clean, 0.02)


def test_targets_are_touched_by_every_flip_and_each_has_its_share(graph, victim):
    targets = graph.split.test[:5]
    for budget, each in (("10", None), ("2/target", 2)):
        made = QuerySearch(defense=Counting(), queries=30)(graph, budget=budget, targets=targets, victim=victim)
        touched = np.isin(made.edges, targets)
        assert touched.any(axis=0).all()
        assert made.num_changes == 10
        if each is not None:
            assert all((made.edges == target).any(axis=0).sum() >= each for target in targets)
        assert wrong_after(graph, victim, made, targets) >= 0.6


def test_stopped_it_gives_the_best_so_far(graph, victim):
    def after_ten(step):
        if step.total and step.done >= 10:
            raise Stop

    defense = Counting()
    made = QuerySearch(defense=defense)(graph, budget="12", victim=victim, progress=after_ten)
    assert made.num_changes == 12
    assert len(defense.asked) <= 11


def test_harm_at_nodes_is_owed_to_the_flips_beside_them(graph, victim):
    oracle = oracle_of(graph, victim)
    proposals = Proposals(graph, oracle, np.random.default_rng(0))
    before = Answer.of(oracle.after(NOTHING))
    owners = proposals.promising(6, before)
    assert (before.margins[owners] > 0).all()
    others, _ = proposals.of(owners, before, np.zeros(0, dtype=np.int64))
    changed = before._replace(at_nodes=before.at_nodes.copy())
    changed.at_nodes[owners[0]] += 1
    credit = proposals.credit([owners, others], before, changed)
    assert credit.argmax() == 0
    assert credit.sum() == pytest.approx(1)


def test_an_answer_says_of_each_node_what_the_whole_adds_up_to(graph, victim):
    reached = oracle_of(graph, victim).after(NOTHING)
    answer, nodes = Answer.of(reached), graph.split.test
    wrong, loss = answer.harm
    assert (answer.margins[nodes] < 0).mean() == pytest.approx(wrong)
    assert answer.at_nodes[nodes].mean() == pytest.approx(wrong + loss, abs=1e-6)
    assert not answer.at_nodes[graph.split.train].any()
    assert torch.equal(reached.logits.argmax(dim=1), torch.from_numpy(answer.said))
    assert (answer.second[nodes] != graph.labels[nodes]).all()
