"""Pro-GNN: the proximal step, the whole method against a dense one with gradients by torch, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from garnet import Split, as_graph
from garnet.backbones import GCN, GPRGNN, H2GCN
from garnet.datasets import contextual_block_model, inter_class_edges, load, random_split
from garnet.defenses.prognn import ProGNN
from garnet.errors import GarnetError, GraphError
from garnet.linalg.nuclear_norm import shrink_
from garnet.training.loop import Training, train

SHORT = Training(epochs=3, lr=0.02, weight_decay=1e-3, patience=None)


def ring(n=14, weights=None, val=True):
    """Two classes along a ring with two chords; node n - 1 has no edge."""
    rng = np.random.default_rng(0)
    edges = [(i, (i + 1) % (n - 1)) for i in range(n - 1)] + [(0, 5), (2, 9)]
    labels = (np.arange(n) >= n // 2).astype(np.int64)
    split = Split(np.arange(0, n, 2), np.arange(1, n, 4) if val else np.arange(0), np.arange(3, n, 4))
    graph = as_graph(
        (np.array(edges).T, n), features=rng.standard_normal((n, 5)) + labels[:, None], labels=labels, split=split,
        symmetrize=True,
    )  # fmt: skip
    return graph if weights is None else graph.with_edges(graph.edges, weights)


def spectral(values, seed=0):
    """A symmetric matrix with these eigenvalues, and its vectors."""
    generator = torch.Generator().manual_seed(seed)
    vectors = torch.linalg.qr(torch.randn(len(values), len(values), generator=generator, dtype=torch.float64)).Q
    return ((vectors * values) @ vectors.T).float(), vectors


def shrunk(matrix, threshold, rank=None):
    """By the singular values, all of them."""
    left, values, right = torch.linalg.svd(matrix.double())
    values = (values - threshold).clamp_min(0)
    if rank is not None:
        values[rank:] = 0
    return ((left * values) @ right).float()


VALUES = torch.cat([torch.linspace(-9, -2, 20), torch.linspace(2, 12, 25), torch.linspace(-0.8, 0.8, 255)]).double()


class TestShrink:
    def test_eigenvalues_of_both_signs_move_towards_zero(self):
        matrix, _ = spectral(VALUES)
        expected = shrunk(matrix, 1.0)
        kept = shrink_(matrix, 1.0, None, rank=None, generator=torch.Generator())
        assert kept.shape == (300, 45)
        torch.testing.assert_close(matrix, expected, rtol=0, atol=1e-4)

    @pytest.mark.parametrize("columns", [1, 30, 45, 60])
    def test_whatever_it_starts_from(self, columns):
        matrix, vectors = spectral(VALUES)
        expected = shrunk(matrix, 1.0)
        generator = torch.Generator().manual_seed(1)
        start = vectors[:, :columns].float() + 0.02 * torch.randn(300, columns, generator=generator)
        kept = shrink_(matrix, 1.0, start, rank=None, generator=generator)
        # The bound that it promises: three hundredths of the threshold for each value kept, in the Frobenius norm.
        assert kept.shape == (300, 45)
        assert torch.linalg.norm(matrix - expected) <= 0.03 * 45**0.5

    def test_values_at_the_threshold_change_little(self):
        close = torch.cat([VALUES[:45], torch.linspace(0.9, 1.1, 40).double(), VALUES[85:]])
        matrix, vectors = spectral(close)
        expected = shrunk(matrix, 1.0)
        start = vectors[:, :45].float()
        shrink_(matrix, 1.0, start, rank=None, generator=torch.Generator().manual_seed(1))
        # Such values leave next to nothing behind; no more than that may be missed.
        left_behind = torch.linalg.norm((close[45:85] - 1).clamp_min(0))
        assert torch.linalg.norm(matrix - expected) <= 0.03 * 65**0.5 + left_behind

    def test_at_most_so_many(self):
        matrix, _ = spectral(VALUES)
        expected = shrunk(matrix, 1.0, rank=6)
        kept = shrink_(matrix, 1.0, None, rank=6, generator=torch.Generator().manual_seed(0))
        assert kept.shape == (300, 6)
        assert torch.linalg.norm(matrix - expected) <= 0.03 * 6**0.5

    def test_nothing_outside(self):
        matrix, _ = spectral(VALUES)
        kept = shrink_(matrix, 20.0, None, rank=None, generator=torch.Generator())
        assert kept.shape == (300, 0)
        assert not matrix.any()
        kept = shrink_(matrix, 20.0, kept, rank=None, generator=torch.Generator().manual_seed(0))
        assert kept.shape == (300, 0)
        assert not matrix.any()


def reference(method, graph, seed):
    """The same method, dense, with torch's gradients and all singular values; the logits of the last epoch."""
    method = replace(method, backbone=replace(method.backbone, dropout=0.0))
    original = torch.from_numpy(graph.adjacency.toarray()).double()
    features = torch.from_numpy(np.asarray(graph.features)).double()
    labels, train = torch.from_numpy(graph.labels), torch.from_numpy(graph.split.train)
    start = method.backbone.initial(features.shape[1], 2, torch.Generator().manual_seed(seed))
    weights = {name: value.double().requires_grad_() for name, value in start.items()}
    optimizer = torch.optim.Adam(weights.values(), lr=method.training.lr, weight_decay=method.training.weight_decay)

    def logits(graph):
        looped = graph + torch.eye(len(graph))
        root = torch.diag(looped.sum(dim=1) ** -0.5)
        matrix = root @ looped @ root
        if isinstance(method.backbone, GCN):
            hidden = (matrix @ features @ weights["weight0"] + weights["bias0"]).relu()
            return matrix @ hidden @ weights["weight1"] + weights["bias1"]
        hidden = (features @ weights["weight0"] + weights["bias0"]).relu() @ weights["weight1"] + weights["bias1"]
        powers = [torch.linalg.matrix_power(matrix, hop) @ hidden for hop in range(method.backbone.hops + 1)]
        return sum(weights["coefficients"][hop] * power for hop, power in enumerate(powers))

    def smoothness(graph):
        degrees = graph.sum(dim=1)
        root = torch.diag((degrees + 1e-3) ** -0.5)
        return torch.trace(features.T @ root @ (torch.diag(degrees) - graph) @ root @ features)

    structure, top = original.clone(), max(1.0, float(original.max()))
    for _ in range(method.training.epochs):
        for _ in range(method.outer_steps):
            leaf = structure.clone().requires_grad_()
            symmetric = (leaf + leaf.T) / 2
            loss = method.gamma * cross_entropy(logits(symmetric)[train], labels[train])
            loss = loss + method.smoothness * smoothness(symmetric)
            (gradient,) = torch.autograd.grad(loss, leaf)
            step = method.lr_graph / (1 - method.momentum)
            away, distance = structure - original, torch.linalg.norm(structure - original)
            towards = away * min(1, step / float(distance)) if distance > 0 else away
            structure = (structure - towards - step * gradient).clamp(0, top)
            structure = shrunk(structure, method.beta * method.lr_graph).double()
            structure = (structure - method.alpha * method.lr_graph).clamp(0, top)
        for _ in range(method.inner_steps):
            optimizer.zero_grad()
            cross_entropy(logits(structure)[train], labels[train]).backward()
            optimizer.step()
    return logits(structure).detach()


@pytest.mark.parametrize(
    "method",
    [
        ProGNN(lr_graph=0.05),
        ProGNN(lr_graph=0.05, smoothness=0.0),
        ProGNN(lr_graph=0.02, smoothness=0.05, gamma=5.0, alpha=0.1, outer_steps=2, inner_steps=3, momentum=0.5),
        ProGNN(lr_graph=0.05, gamma=20.0, backbone=GPRGNN(hops=3, hidden=8)),
    ],
    ids=["defaults", "fs", "strong", "gprgnn"],
)
@pytest.mark.parametrize("weights", [None, np.linspace(0.1, 3, 15)], ids=["plain", "weighted"])
def test_the_same_as_a_dense_implementation(method, weights):
    graph = ring(weights=weights, val=False)
    method = replace(method, training=SHORT, backbone=replace(method.backbone, dropout=0.0))
    found = method.fit(graph, seed=4).logits().double()
    expected = reference(method, graph, 4)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


def test_every_term_of_the_graph_counts():
    graph, base = ring(val=False), ProGNN(lr_graph=0.05, training=SHORT)
    logits = base.fit(graph).logits()
    for change in ({"alpha": 1.0}, {"beta": 4.0}, {"gamma": 50.0}, {"smoothness": 0.5}, {"rank": 1}):
        assert not torch.allclose(replace(base, **change).fit(graph).logits(), logits, atol=1e-3), change


def test_several_rates_and_a_second_training():
    graph = ring()
    both = ProGNN(training=replace(SHORT, lr=(0.001, 0.1))).fit(graph, seed=1)
    each = [ProGNN(training=replace(SHORT, lr=rate)).fit(graph, seed=1) for rate in (0.001, 0.1)]
    assert both.val_accuracy == max(one.val_accuracy for one in each)
    taught = ProGNN(training=replace(SHORT, confidence=0.5)).fit(graph, seed=1)
    assert taught.logits().shape == (14, 2)


def test_patience_ends_the_training():
    lines = []
    ProGNN(training=Training(epochs=500, lr=0.01, patience=2)).fit_seeds(ring(), [0], progress=lines.append)
    assert len(lines) < 20  # of 50 that all epochs would say


def test_the_model_is_of_no_use_on_another_graph():
    with pytest.raises(GraphError, match="no model"):
        ProGNN(training=SHORT).fit(ring()).on(ring())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"alpha": -1.0}, "The 'alpha' parameter of ProGNN must be a number >= 0. Got -1.0 instead."),
        ({"beta": float("nan")}, "The 'beta' parameter of ProGNN must be a number >= 0. Got nan instead."),
        ({"smoothness": "fs"}, "The 'smoothness' parameter of ProGNN must be a number >= 0. Got 'fs' instead."),
        ({"lr_graph": 0}, "The 'lr_graph' parameter of ProGNN must be a positive number. Got 0 instead."),
        ({"momentum": 1.0}, "The 'momentum' parameter of ProGNN must be at least 0 and below 1. Got 1.0 instead."),
        ({"inner_steps": 0}, "The 'inner_steps' parameter of ProGNN must be an integer >= 1. Got 0 instead."),
        ({"rank": 0}, "The 'rank' parameter of ProGNN must be an integer >= 1. Got 0 instead."),
        ({"device": "nowhere"}, "The 'device' parameter of ProGNN must be a device that torch has here."),
        ({"backbone": H2GCN()}, "The 'backbone' parameter of ProGNN must be a GCN or a GPRGNN."),
        ({"backbone": GPRGNN(hops=0)}, "The 'backbone' parameter of ProGNN must be GCN, or GPRGNN with"),
        ({"training": Training(batch_size=4)}, "ProGNN looks at the whole graph at once; leave 'batch_size' out."),
        ({"most_bytes": 700}, "ProGNN forms a dense matrix of 14 x 14 numbers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_is_refused(change, text):
    with pytest.raises(GarnetError) as refused:
        replace(ProGNN(training=SHORT), **change).fit(ring())
    assert str(refused.value).startswith(text)


def test_more_accurate_than_a_model_on_the_poisoned_graph():
    graph = contextual_block_model(200, classes=3, mean_degree=8, features=32, signal=1.5, seed=1)
    added = inter_class_edges(graph, graph.num_edges // 2, seed=1)
    graph = graph.with_edges(np.concatenate([graph.edges, added], axis=1))
    graph = replace(graph, split=random_split(graph.labels, seed=1))
    defended, (plain,) = ProGNN().fit(graph), train(GCN(hidden=16), graph)
    assert defended.accuracy() > plain.accuracy() + 0.02


def test_embedded_graph_keeps_its_edges():
    graph = load("cora", split="random")
    before = graph.adjacency.copy()
    model = ProGNN(rank=10, training=replace(SHORT, epochs=1)).fit(graph)
    assert model.logits().isfinite().all()
    assert (graph.adjacency != before).nnz == 0
