from dataclasses import replace

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.datasets import contextual_block_model, poisoned, random_split
from garnet.defenses import Purified
from garnet.defenses.feature_knn import FeatureKNN
from garnet.defenses.rung import RUNG
from garnet.errors import ParameterError
from garnet.training.loop import Training

NORMS = ["MCP", "L1", "L2"]


@pytest.fixture(scope="module")
def graph():
    """Weighted, with an isolated node."""
    rng = np.random.default_rng(0)
    n = 24
    pairs = np.stack(np.triu_indices(n - 1, k=1))
    edges = pairs[:, rng.random(pairs.shape[1]) < 0.2]
    plain = as_graph((edges, n), features=rng.standard_normal((n, 5)), labels=np.arange(n) % 3, symmetrize=True)
    return plain.with_edges(edges, rng.uniform(0.1, 3.0, edges.shape[1]))


def outputs(model, graph, *, seeds=(0, 1, 2), scale=3.0):
    """What the perceptron gives, and what the layers make of it, for some random parameters."""
    models = [model.initial(graph.features.shape[1], 3, torch.Generator().manual_seed(seed)) for seed in seeds]
    parameters = {name: scale * torch.stack([one[name] for one in models]) for name in models[0]}
    inputs = model.prepare(graph, "cpu")
    given = replace(model, hops=0).logits(parameters, inputs, None)
    return given.double().numpy(), model.logits(parameters, inputs, None).double().numpy()


class Dense:
    """The method on all pairs of nodes, in float64."""

    def __init__(self, graph, model):
        self.model, self.fidelity = model, 1 / model.lambda_hat - 1
        self.adjacency = graph.adjacency.toarray().astype(np.float64)
        self.degrees = 1 + self.adjacency.sum(axis=1)
        self.normalized = self.adjacency / np.sqrt(np.outer(self.degrees, self.degrees))

    def distances(self, block):
        points = block / np.sqrt(self.degrees)[:, None]
        return np.linalg.norm(points[:, None] - points[None], axis=2)

    def weights(self, block):
        distances = np.maximum(self.distances(block), 0.01)
        if self.model.norm == "L2":
            return np.ones_like(distances)
        inside = np.where(distances < self.model.gamma, 1 / (2 * distances) - 1 / (2 * self.model.gamma), 0)
        return inside if self.model.norm == "MCP" else 1 / (2 * distances)

    def step(self, block, given):
        weights = self.weights(block)
        inverse = np.diag(1 / ((weights * self.adjacency).sum(axis=1) / self.degrees + self.fidelity))
        return inverse @ ((weights * self.normalized) @ block + self.fidelity * given)

    def objective(self, block, given):
        """Each edge once; the penalty is a parabola below the least distance, so that its slope is continuous."""
        y, least, gamma = self.distances(block), 0.01, self.model.gamma
        curved = np.where(y < least, y**2 / (2 * least) + least / 2, y)
        concave = np.where(y < gamma, curved - np.minimum(y, gamma) ** 2 / (2 * gamma), gamma / 2)
        penalty = {"MCP": concave, "L1": curved, "L2": y**2}[self.model.norm]
        return (self.adjacency * penalty).sum() / 2 + self.fidelity * ((block - given) ** 2).sum()


@pytest.mark.parametrize("norm", NORMS)
def test_layers_are_those_of_the_dense_method(graph, norm):
    model = RUNG(gamma=1.0, norm=norm, hops=7, hidden=6)
    dense = Dense(graph, model)
    for given, smooth in zip(*outputs(model, graph), strict=True):
        block = given
        for _ in range(model.hops):
            block = dense.step(block, given)
        np.testing.assert_allclose(smooth, block, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_no_layer_increases_the_objective(graph, norm):
    dense = Dense(graph, RUNG(gamma=1.0, norm=norm))
    reached = []
    for hops in range(12):
        given, smooth = outputs(replace(dense.model, hops=hops), graph, seeds=(0,))
        reached.append(dense.objective(smooth[0], given[0]))
    assert np.diff(reached).max() <= 1e-5 * reached[0]
    assert reached[-1] < 0.9 * reached[0]


def test_with_l2_it_is_personalised_pagerank(graph):
    model = RUNG(norm="L2", lambda_hat=0.7, hops=200)
    looped = graph.adjacency.toarray().astype(np.float64) + np.eye(graph.num_nodes)
    root = np.sqrt(looped.sum(axis=1))
    given, smooth = outputs(model, graph)
    exact = 0.3 * np.linalg.solve(np.eye(graph.num_nodes) - 0.7 * looped / np.outer(root, root), given)
    np.testing.assert_allclose(smooth, exact, rtol=1e-4, atol=1e-5)


def test_edges_longer_than_gamma_do_not_count(graph):
    given, _ = outputs(RUNG(), graph, seeds=(0,))
    shortest = Dense(graph, RUNG()).distances(given[0])[tuple(graph.edges)].min()
    _, below = outputs(RUNG(gamma=0.99 * float(shortest)), graph, seeds=(0,))
    np.testing.assert_allclose(below, given, rtol=1e-5)
    _, above = outputs(RUNG(gamma=1.5 * float(shortest)), graph, seeds=(0,))
    assert np.abs(above - given).max() > 0.01


def test_a_stranger_does_not_move_a_node_however_strange_it_is():
    """Two cliques of equal features, and a node that is joined to one of theirs and has features of its own."""
    cliques = [(a, b) for group in (range(5), range(5, 10)) for a in group for b in group if a < b]
    edges = np.array([*cliques, (0, 10)]).T
    identity = {"weight0": torch.eye(2)[None], "weight1": torch.eye(2)[None]}
    parameters = {**identity, "bias0": torch.zeros(1, 1, 2), "bias1": torch.zeros(1, 1, 2)}
    moved = {}
    for norm in NORMS:
        for size in (10.0, 1000.0):
            features = np.vstack([np.repeat(np.eye(2), 5, axis=0), [[0.0, size]]])
            strange = as_graph((edges, 11), features=features, symmetrize=True)
            model = RUNG(gamma=3.0, norm=norm)
            smooth = model.logits(parameters, model.prepare(strange, "cpu"), None)
            moved[norm, size] = float((smooth[0, 0] - torch.tensor([1.0, 0.0])).norm())
    # Its one more edge makes the node's degree another than its friends', which moves it a little in any case.
    assert moved["MCP", 1000.0] == moved["MCP", 10.0] < 0.1
    assert moved["MCP", 10.0] < moved["L1", 10.0] < moved["L2", 10.0]
    assert moved["L2", 1000.0] > 50 * moved["L2", 10.0]


def test_gradients_are_those_of_the_layers_with_fixed_weights(graph):
    """No gradient flows through the weights: that of a sum of outputs is the transposed map applied to ones."""
    model = RUNG(gamma=2.0, hops=3)
    dense = Dense(graph, model)
    parameters = {name: 3 * one[None] for name, one in model.initial(5, 3, torch.Generator().manual_seed(0)).items()}
    parameters["bias1"].requires_grad_()
    model.logits(parameters, model.prepare(graph, "cpu"), None).sum().backward()
    given = replace(model, hops=0).logits(parameters, model.prepare(graph, "cpu"), None)[0].detach().double().numpy()
    block, through = given, np.eye(graph.num_nodes)
    for _ in range(model.hops):
        weights = dense.weights(block)
        inverse = np.diag(1 / ((weights * dense.adjacency).sum(axis=1) / dense.degrees + dense.fidelity))
        through = inverse @ ((weights * dense.normalized) @ through + dense.fidelity * np.eye(graph.num_nodes))
        block = dense.step(block, given)
    np.testing.assert_allclose(parameters["bias1"].grad[0, 0], np.full(3, through.sum()), rtol=1e-3)


def test_a_graph_without_edges_leaves_the_perceptron(graph):
    alone = graph.with_edges(np.zeros((2, 0), dtype=np.int64))
    given, smooth = outputs(RUNG(), alone)
    np.testing.assert_allclose(smooth, given, rtol=1e-5)


def test_it_withstands_metattack(data_folder, monkeypatch):
    monkeypatch.setenv("GARNET_DATA", str(data_folder))
    attacked = poisoned("cora", attack="metattack", budget=0.2)
    quick = Training(epochs=60, lr=0.01, weight_decay=5e-4)
    robust, plain = (RUNG(norm=norm, training=quick).fit(attacked).accuracy() for norm in ("MCP", "L2"))
    assert robust > plain + 0.05


def test_a_purifier_may_come_first():
    graph = contextual_block_model(120, classes=3, features=8, signal=2.5, mean_degree=6.0, seed=3)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    purifier = FeatureKNN(k=3)
    one = Purified(purifier, RUNG(hidden=4), Training(epochs=5)).fit(graph)
    assert one.graph == purifier.purify(graph).graph
    assert torch.equal(one.on(one.graph).logits(), one.logits())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"gamma": 0}, "The 'gamma' parameter of RUNG must be a positive number. Got 0 instead."),
        ({"gamma": float("nan")}, "The 'gamma' parameter of RUNG must be a positive number. Got nan instead."),
        ({"lambda_hat": 1.0}, "The 'lambda_hat' parameter of RUNG must be above 0 and below 1. Got 1.0 instead."),
        ({"norm": "l2"}, "The 'norm' parameter of RUNG must be one of 'MCP', 'L1', 'L2'. Got 'l2' instead."),
        ({"hops": -1}, "The 'hops' parameter of RUNG must be an integer >= 0. Got -1 instead."),
    ],
)
def test_what_no_smoothing_allows_is_refused(graph, wrong, said):
    split = as_graph(graph, split=random_split(graph.labels, seed=0))
    with pytest.raises(ParameterError) as raised:
        RUNG(**wrong).fit(split)
    assert str(raised.value) == said
