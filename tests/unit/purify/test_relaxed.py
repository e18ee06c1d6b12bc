"""What an attacker who knows a purifier is told of it: the truth at the graph, and near it about the truth."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import GARNET, as_graph
from garnet.datasets import contextual_block_model, random_split
from garnet.defenses import Audited, FeatureKNN, Jaccard
from garnet.purify.relaxed import Frozen

PURIFIERS = {
    "garnet": GARNET(rank=12),
    "share": GARNET(rank=12, support=0.3),
    "only drop": GARNET(rank=12, only_drop=True),
    "share, nothing added": GARNET(rank=12, support=0.3, k=0),
    "paper": GARNET(rank=12, support=None, k=5),
    "not normalised": GARNET(rank=12, support=0.2, normalize=False, end="magnitude"),
    "jaccard": Jaccard(threshold=0.1, similarity="cosine"),
    "features": FeatureKNN(k=4),
    "audited": Audited(),
}


@pytest.fixture(scope="module")
def graph():
    made = contextual_block_model(200, classes=3, mean_degree=8, features=24, signal=3.0, seed=1)
    return as_graph(made, split=random_split(made.labels, train=0.2, val=0.2, seed=0))


def tensors(graph):
    return torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)


def absent(graph, count, seed=0):
    drawn = np.random.default_rng(seed).integers(graph.num_nodes, size=(2, 3 * count))
    drawn = np.unique(np.sort(drawn[:, drawn[0] != drawn[1]], axis=0), axis=1)
    free = np.asarray(graph.adjacency[drawn[0], drawn[1]]).ravel() == 0
    kept = np.random.default_rng(seed).permutation(np.flatnonzero(free))[:count]
    return drawn[:, np.sort(kept)]


@pytest.mark.parametrize("name", PURIFIERS)
def test_at_the_graph_itself_it_is_the_purifier(name, graph):
    purifier = PURIFIERS[name]
    edges, weights = purifier.relaxed(graph)(*tensors(graph))
    there = weights > 0
    read = graph.with_edges(edges[:, there].numpy(), weights[there].numpy())
    assert abs(read.adjacency - purifier.purify(graph).graph.adjacency).max() < 1e-5


@pytest.mark.parametrize("name", ["garnet", "share", "share, nothing added", "only drop", "jaccard"])
def test_pairs_are_judged_as_the_purifier_judges_them_once_they_are_written(name, graph):
    purifier, pairs = PURIFIERS[name], absent(graph, 300)
    own, weights = tensors(graph)
    together = torch.cat([own, torch.from_numpy(pairs)], dim=1)
    judged = purifier.relaxed(graph)(together, torch.cat([weights, torch.ones(300)]))[1][graph.num_edges :][:300] > 0
    added = []
    for first in range(0, 300, 10):  # few at a time, so that each comes almost alone
        some = pairs[:, first : first + 10]
        written = purifier.purify(graph.with_edges(np.concatenate([graph.edges, some], axis=1))).graph
        added.append(np.asarray(written.adjacency[some[0], some[1]]).ravel() > 0)
    added = np.concatenate(added)
    assert (judged.numpy() == added).mean() > 0.8
    assert 0 < added.mean() < 1 or name == "jaccard"


def test_what_a_purifier_adds_stays_whether_the_graph_has_it_or_not(graph):
    relaxed = FeatureKNN(k=4).relaxed(graph)
    edges, weights = tensors(graph)
    full, none = relaxed(edges, weights), relaxed(edges, torch.zeros_like(weights))
    for one, other in zip(full, none, strict=True):
        assert torch.equal(one, other)


def test_a_purifier_of_which_nothing_is_known_passes_pairs_on_whole(graph):
    frozen = Frozen.of(graph, graph.with_edges(graph.edges[:, 5:], graph.weights[5:]))
    pairs = torch.from_numpy(absent(graph, 20))
    edges, weights = frozen(torch.cat([tensors(graph)[0], pairs], dim=1), torch.full((graph.num_edges + 20,), 0.5))
    assert not weights[:5].any()
    assert (weights[5:] == 0.5).all()
    assert edges.shape[1] == graph.num_edges + 20


@pytest.mark.parametrize("normalize", [True, False])
def test_eigenvectors_turn_as_they_do_when_a_weight_changes(graph, normalize):
    """Against the eigenvectors of the changed matrix, by what no rotation among near ones changes: the projector."""
    method = GARNET(rank=12, support=0.3, normalize=normalize, features="none", scaling="none", k=0)
    relaxed = method.relaxed(graph, way="turning")
    edges, weights = tensors(graph)
    mixed = torch.from_numpy(np.random.default_rng(0).standard_normal((graph.num_nodes, graph.num_nodes))).float()

    def value(embedding):
        return ((embedding @ embedding.T) * (mixed + mixed.T)).sum()

    from garnet.purify.relaxed_garnet import turned

    weights = weights.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(value(turned(relaxed, edges, weights)), weights)
    step, chosen, found = 1e-3, np.arange(0, graph.num_edges, 40), []
    for number in chosen:
        sides = []
        for sign in (1, -1):
            moved = graph.weights.copy()
            moved[number] += sign * step
            spectrum = method.embed(graph.with_edges(graph.edges, moved))
            sides.append(value(spectrum.embedding.float()).item())
        found.append((sides[0] - sides[1]) / (2 * step))
    assert np.corrcoef(found, slopes[chosen].numpy())[0, 1] > 0.9


def test_gradients_pass_the_eigenvectors_only_if_asked_to(graph):
    edges, weights = tensors(graph)
    method, leaf = replace(PURIFIERS["share"], k=5), weights.clone().requires_grad_()
    slopes = []
    for way in ("still", "turning"):
        read = method.relaxed(graph, way=way)(edges, leaf)[1]
        slopes.append(torch.autograd.grad(read.square().sum(), leaf)[0])
    assert not torch.allclose(*slopes)
    assert all(one.isfinite().all() for one in slopes)
