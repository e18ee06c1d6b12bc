"""Pockets that pull nodes to false neighbours."""

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.attacks import FalseNeighbors, Random, Stop
from garnet.attacks.pockets import pulls_of
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Committee, Purified
from garnet.defenses.feature_knn import FeatureKNN
from garnet.graph.perturbation import Perturbation
from garnet.purify.features import scale
from garnet.purify.garnet import GARNET
from garnet.purify.relaxed import Frozen
from garnet.training.loop import Training

QUICK = Training(epochs=60, lr=0.01)
MODEL = GCN(hidden=8)
DEFENSES = {
    "none": Purified(None, MODEL, QUICK),
    "garnet": Purified(GARNET(rank=20), MODEL, QUICK),
    "support": Purified(GARNET(rank=20, support=0.3, k=8), MODEL, QUICK),
    "committee": Committee(members=(None, GARNET(rank=20), FeatureKNN()), backbone=MODEL, training=QUICK),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked(Purified):
    """A defence that notes what it is asked about."""

    graphs: list = field(default_factory=list)

    def _predict(self, predictor, graph):
        self.graphs.append(graph)
        return super()._predict(predictor, graph)


@pytest.fixture(scope="module")
def graph():
    drawn = contextual_block_model(200, classes=3, mean_degree=5.0, features=12, signal=2.0, seed=0)
    return as_graph(drawn, split=random_split(drawn.labels, train=0.3, val=0.1, seed=0))


def wrong(defense, victim, graph, nodes=None):
    return 1 - defense.predict(victim, graph).accuracy(graph.split.test if nodes is None else nodes)


@pytest.mark.parametrize("name", DEFENSES)
def test_it_does_more_harm_than_chance_and_as_much_as_it_says(graph, name):
    defense, told = DEFENSES[name], []
    victim, attack = defense.fit(graph), FalseNeighbors(defense=defense, rounds=5)
    made = attack(graph, budget="5%", victim=victim, progress=told.append)
    assert 0 < made.num_changes <= 0.05 * graph.num_edges
    assert not made.dropped(graph).size
    harm = wrong(defense, victim, made.apply(graph))
    random = [wrong(defense, victim, Random()(graph, budget="5%", seed=s).apply(graph)) for s in range(3)]
    assert harm > max(random) + 0.03
    assert [step.detail for step in told if step.total == 5][-1] == f"{harm:.1%} wrong, round"
    assert attack(graph, budget="5%", victim=victim) == made


def test_nothing_is_asked_twice_in_a_row(graph):
    defense = Asked(purifier=None, backbone=MODEL, training=QUICK)
    FalseNeighbors(defense=defense, rounds=8)(graph, budget="4")
    assert len(defense.graphs) > 1
    assert all(one != other for one, other in pairwise(defense.graphs))


def test_targets_have_a_budget_each(graph):
    defense = DEFENSES["support"]
    victim = defense.fit(graph)
    # Four test nodes that are right, but not sure of it, and have edges.
    sure, labels = victim.probabilities().max(axis=1), graph.labels
    nodes = graph.split.test[(victim.predictions() == labels)[graph.split.test]]
    nodes = nodes[np.diff(graph.adjacency.indptr)[nodes] > 0]
    targets = nodes[sure[nodes].argsort()[:4]]
    made = FalseNeighbors(defense=defense, rounds=6)(graph, budget="3/target", targets=targets, victim=victim)
    assert np.isin(made.edges, targets).any(axis=0).all()
    assert 0 < made.num_changes <= 12
    assert wrong(defense, victim, made.apply(graph), targets) > wrong(defense, victim, graph, targets)


def test_a_pocket_moves_a_node_about_as_far_as_estimated(graph):
    purifier = GARNET(rank=20, support=0.3, k=8)
    judge = purifier.relaxed(graph).judge
    degrees = np.diff(graph.adjacency.indptr)
    owner = int(np.flatnonzero(degrees == 3)[0])
    others = [one for one in range(200) if one not in {owner, *graph.adjacency[[owner]].indices}]
    pocket = [one for one in others if graph.labels[one] != graph.labels[owner]][:3]
    estimated = judge.joining.moved(torch.tensor([owner]), torch.tensor([pocket]))[0]
    flips = np.sort(np.array([[owner] * 3, pocket]), axis=0)
    after = purifier.relaxed(Perturbation.of(graph, flips).apply(graph)).judge
    before, now = (one.embedding.points for one in (judge, after))

    # Eigenvectors have no sign, but inner products with other nodes do not need one.
    def seen(point, points):
        return scale(points, "unit") @ scale(point[None], "unit")[0]

    truth = seen(now[owner], now)
    error, stayed = ((one - truth).square().mean() for one in (seen(estimated, before), seen(before[owner], before)))
    assert error < stayed


def test_a_purifier_knows_what_is_added_and_that_a_bare_model_adds_nothing(graph):
    for name, adds in (("none", False), ("support", True)):
        defense = DEFENSES[name]
        (pull,) = pulls_of(defense.relaxed(defense.fit(graph), graph), graph)
        assert bool(pull.added.any()) == adds
        assert (pull.judge is not None) == adds
        assert (pull.given >= 1).all()
    committee = DEFENSES["committee"]
    pulls = pulls_of(committee.relaxed(committee.fit(graph), graph), graph)
    assert sum(pull.say for pull in pulls) == pytest.approx(1)


def test_a_purifier_is_asked_where_it_computes(graph):
    """Another device stands for a GPU here: it has no numbers, so what is asked there is answered from the side."""
    judge, asked = GARNET(rank=20).relaxed(graph), []

    def keep(pairs):
        asked.append(pairs.device.type)
        return torch.ones(pairs.shape[1])

    @dataclass(frozen=True)
    class Elsewhere:
        still: Frozen

        def __call__(self, edges, weights):
            asked.extend([edges.device.type, weights.device.type])
            return torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)

    @dataclass(frozen=True)
    class Function:
        purifier: Elsewhere

        def edges(self, of):
            return torch.from_numpy(of.edges).to("meta"), torch.from_numpy(of.weights).to("meta")

    (pull,) = pulls_of(Function(Elsewhere(replace(judge.still, judge=keep))), graph)
    after = pull.after(torch.tensor([0, 1]), torch.tensor([[5, 6], [7, -1]]), torch.eye(200)[:, :3])
    assert after.device.type == "cpu"
    assert asked == ["meta"] * 3


def test_stopped_it_gives_what_it_has(graph):
    def after_two(step):
        if step.total == 20 and step.done >= 2:
            raise Stop

    made = FalseNeighbors(defense=DEFENSES["none"])(graph, budget="8", progress=after_two)
    assert 0 < made.num_changes <= 8
