"""AdaptiveMetattack: what it expects of the defence is what the defence does, and without one it is Metattack."""

import numpy as np
import pytest
import torch

from garnet.attacks import AdaptiveMetattack, Metattack, Stop
from garnet.attacks.gated_flips import Gate, GatedFlips, read_by
from garnet.attacks.pair_scores import ScoreBlock
from garnet.backbones import GCN, MLP
from garnet.datasets import contextual_block_model, cora, load, random_split
from garnet.defenses import Committee, FeatureKNN, GNNGuard, Jaccard, Purified
from garnet.errors import AttackError, ParameterError
from garnet.graph.graph import as_graph
from garnet.purify.garnet import GARNET
from garnet.purify.relaxed import as_it_is

BARE = Purified(None, GCN())


@pytest.fixture(scope="module")
def blocks():
    bare = contextual_block_model(200, classes=3, features=24, signal=2.0, mean_degree=6, seed=2)
    return as_graph(bare, split=random_split(bare.labels, seed=0))


class Equal:
    """Gains that are written down."""

    def __init__(self, matrix):
        self.matrix = torch.as_tensor(matrix, dtype=torch.float32)

    def scores(self, graph):
        for first in range(0, graph.n, 3):
            yield ScoreBlock(np.arange(graph.n), first, self.matrix[first : first + 3, first:].clone())


def test_without_a_purifier_it_is_metattack(blocks):
    found = AdaptiveMetattack(defense=BARE, chunk=1, stride=1)(blocks, budget="15", seed=3)
    assert found.edges.tolist() == Metattack()(blocks, budget="15", seed=3).edges.tolist()
    # So it is for a defence of which nothing is known, and where all is mixed in.
    for attack in (AdaptiveMetattack(defense=GNNGuard(), stride=1), AdaptiveMetattack(mix=1.0, stride=1)):
        assert attack(blocks, budget="5", seed=3).edges.tolist() == found.edges[:, :5].tolist()


@pytest.mark.parametrize("garnet", [GARNET(), GARNET(support=0.3)], ids=["planted", "quantile"])
@pytest.mark.slow
def test_most_of_what_it_adds_is_kept(garnet):
    graph = load("cora", split="random")
    found = AdaptiveMetattack(defense=Purified(garnet), chunk=20, stride=10)(graph, budget="40")
    attacked = found.apply(graph)
    kept = garnet.purify(attacked).graph.adjacency
    added = found.edges[:, np.asarray(graph.adjacency[found.edges[0], found.edges[1]]).ravel() == 0]
    survived = np.asarray(kept[added[0], added[1]]).ravel() > 0
    blind = Metattack(steps=5)(graph, budget="40")
    dropped = np.asarray(garnet.purify(blind.apply(graph)).graph.adjacency[blind.edges[0], blind.edges[1]]).ravel() == 0
    assert added.shape[1] > 20
    assert survived.mean() > 0.8
    assert dropped.mean() > 1 - survived.mean()


def test_what_is_read_is_the_purified_graph():
    graph = cora()
    for defense in (Purified(GARNET()), Purified(GARNET(support=0.3)), Purified(Jaccard()), Purified(FeatureKNN())):
        (view,) = defense.views(graph)
        read = read_by(view.read, graph, "cpu").matrix - defense.purifier.purify(graph).graph.adjacency
        np.testing.assert_allclose(read.diagonal(), 1)
        read.setdiag(0)
        assert abs(read).max() < 1e-5


def test_gains_are_what_arrives():
    # A path; the view drops what joins node 0, halves other new edges, and does not read the edge (1, 2).
    graph = as_graph((np.array([[0, 1, 2, 3], [1, 2, 3, 4]]), 5), symmetrize=True)

    def view(edges, weights):
        new = (edges[1] - edges[0]) > 1
        factors = torch.where(new, 0.5, 1.0)
        factors[(edges[0] == 0) & new] = 0
        factors[(edges[0] == 1) & (edges[1] == 2)] = 0
        return edges, weights * factors

    gains = np.zeros((5, 5))
    gains[0, 4], gains[1, 4], gains[2, 4], gains[0, 2] = 9, 8, 2, 7
    gains[1, 2], gains[2, 3], gains[3, 4], gains[0, 1] = -6, -3, -50, -50
    gate = Gate(view, read_by(view, graph, "cpu"), Equal(gains))
    chosen = GatedFlips(graph, [gate], 10, np.zeros((0, 2), dtype=np.int64), "cpu").best(6)
    # Gains of 4, 3 and 1, then what does not arrive, by what it would gain. Nodes 0 and 4 keep their last edges.
    assert chosen == [(1, 4), (2, 3), (2, 4), (0, 4), (0, 2), (1, 2)]
    gate = Gate(view, gate.read, Equal(gains * np.nan))
    with pytest.raises(AttackError, match="diverged"):
        GatedFlips(graph, [gate], 10, np.zeros((0, 2), dtype=np.int64), "cpu").best(1)


def test_several_views_add_up(blocks):
    views = Committee(members=(None, GARNET(support=0.3), FeatureKNN())).views(blocks)
    assert len(views) == 3
    assert views[0].read is as_it_is
    total = torch.stack([view.share for view in views]).sum(dim=0)
    torch.testing.assert_close(total, torch.ones(blocks.num_nodes))
    alone = AdaptiveMetattack(defense=Committee(members=(None,), doubt=0), stride=1)(blocks, budget="5")
    beside = AdaptiveMetattack(defense=Committee(members=(None, FeatureKNN()), doubt=0), stride=1)(blocks, budget="5")
    assert alone.edges.tolist() == beside.edges.tolist() == Metattack()(blocks, budget="5").edges.tolist()


class StopAfter:
    def __init__(self, changes):
        self.changes = changes

    def __call__(self, step):
        if step.detail == "edges" and step.done >= self.changes:
            raise Stop


@pytest.mark.parametrize("changes", [3, 8, 10, 13])
@pytest.mark.slow
def test_it_goes_on_anywhere_within_a_chunk(blocks, changes):
    attack = AdaptiveMetattack(chunk=8, stride=3, mix=0.4)
    whole = attack(blocks, budget="16", seed=1)
    part = attack(blocks, budget="16", seed=1, progress=StopAfter(changes))
    assert part.num_changes == changes
    assert attack(blocks, budget="16", seed=1, resume=part) == whole
    less = attack(blocks, budget=str(changes), seed=1)
    assert attack(blocks, budget="16", seed=1, resume=less) == whole


@pytest.mark.parametrize("seed", [0, 1])
def test_no_node_loses_its_last_edge_where_the_graph_as_it_is_is_mixed_in(seed):
    bare = contextual_block_model(120, classes=3, features=12, signal=2.0, mean_degree=2.5, seed=seed)
    graph = as_graph(bare, split=random_split(bare.labels, train=0.2, val=0.1, seed=0))
    # With so few candidates most flips part nodes.
    attack = AdaptiveMetattack(defense=BARE, mix=0.5, stride=20, candidates=1)
    before, after = (
        np.diff(one.adjacency.indptr) for one in (graph, attack(graph, budget="30", seed=seed).apply(graph))
    )
    assert (after < before).sum() > 20
    assert not ((before > 0) & (after == 0)).any()


def test_aimed_at_nodes_it_harms_those(blocks):
    targets = blocks.split.test[:5]
    for budget in ("10", "2/target"):
        found = AdaptiveMetattack(defense=BARE, stride=1)(blocks, budget=budget, targets=targets)
        assert found.num_changes == 10
        near = np.isin(found.edges, targets).any(axis=0)
        assert near.mean() > 0.5


def test_true_labels_are_another_aim(blocks):
    true, predicted = (
        AdaptiveMetattack(defense=BARE, labels=one)(blocks, budget="20") for one in ("true", "predicted")
    )
    assert true.parameters["labels"] == "true"
    assert true.num_changes == predicted.num_changes == 20


def test_a_defence_that_is_none_is_refused():
    with pytest.raises(ParameterError, match="The 'defense' parameter of AdaptiveMetattack must be"):
        AdaptiveMetattack(defense="nothing of the kind")
    with pytest.raises(ParameterError, match="The 'defense' parameter of AdaptiveMetattack must be"):
        AdaptiveMetattack(defense=MLP())
