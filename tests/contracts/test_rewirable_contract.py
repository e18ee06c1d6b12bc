"""What every model promises whose edges can be replaced: the same logits, and their derivatives by the weights."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
import torch

from garnet import Graph, as_graph
from garnet.attacks.models import EdgeModel
from garnet.backbones.base import Rewirable, initial_parameters
from garnet.datasets import contextual_block_model, random_split
from garnet.linalg.sparse import SparseMatrix
from garnet.registry import BACKBONES
from garnet.training.loop import Training, train
from tests.contracts.test_defenses_contract import Largest

PLAIN = contextual_block_model(60, classes=3, mean_degree=4, features=12, signal=2.0, seed=4)
WEIGHTED = PLAIN.with_edges(PLAIN.edges, np.random.default_rng(0).uniform(0.3, 2.0, PLAIN.num_edges))
NAMES = [name for name in BACKBONES.names() if name != "mlp"]


def built(name):
    """The model, its parameters for three classes in double precision, and its inputs."""
    model = BACKBONES.build(name, {})
    parameters = initial_parameters(model, PLAIN, 3, torch.Generator().manual_seed(1))
    return model, {key: value[None] for key, value in parameters.items()}


def rewirable(name, graph):
    model, parameters = built(name)
    inputs = model.prepare(graph, "cpu")
    if not isinstance(inputs, Rewirable):
        pytest.skip(f"no gradient of {name} reaches the edges")
    return model, parameters, inputs


def wide(value):
    """The same in double precision, and dense."""
    if isinstance(value, SparseMatrix):
        return value.dense().double()
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value
    if is_dataclass(value) and not isinstance(value, Graph):
        return replace(value, **{one.name: wide(getattr(value, one.name)) for one in fields(value)})
    return value


def edges_of(graph):
    return torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)


def candidates(graph, count, seed=0):
    """Edges of the graph and pairs that are none."""
    rng, n = np.random.default_rng(seed), graph.num_nodes
    pairs = np.sort(rng.integers(n, size=(2, 3 * count)), axis=0)
    numbers = np.unique(pairs[0] * n + pairs[1])
    pairs = np.stack([numbers // n, numbers % n])
    new = (pairs[0] != pairs[1]) & ~np.isin(numbers, graph.edges[0] * n + graph.edges[1])
    pairs = pairs[:, new][:, rng.permutation(int(new.sum()))[:count]]
    return torch.from_numpy(np.concatenate([graph.edges, pairs], axis=1))


@pytest.mark.parametrize("graph", [PLAIN, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", NAMES)
def test_its_own_edges_are_the_graph(name, graph):
    model, parameters, inputs = rewirable(name, graph)
    expected = model.logits(parameters, inputs, None)
    found = model.logits(parameters, inputs.with_edges(*edges_of(graph)), None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    # In any order, and beside pairs of weight zero.
    edges = candidates(graph, 40)
    weights = torch.cat([torch.from_numpy(graph.weights), torch.zeros(edges.shape[1] - graph.num_edges)])
    order = torch.randperm(edges.shape[1], generator=torch.Generator().manual_seed(0))
    found = model.logits(parameters, inputs.with_edges(edges[:, order], weights[order]), None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_edges_that_come_and_go_are_those_of_another_graph(name):
    model, parameters, inputs = rewirable(name, PLAIN)
    edges = candidates(PLAIN, 20)
    weights = torch.ones(edges.shape[1])
    weights[:10] = 0.0
    changed = PLAIN.with_edges(edges[:, 10:].numpy())
    expected = model.logits(parameters, model.prepare(changed, "cpu"), None)
    found = model.logits(parameters, inputs.with_edges(edges, weights), None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_by_the_weights_are_finite_differences(name):
    model, parameters, inputs = rewirable(name, PLAIN)
    inputs, parameters = wide(inputs), {key: value.double() for key, value in parameters.items()}
    edges = candidates(PLAIN, 30)
    generator = torch.Generator().manual_seed(2)
    weights = 0.2 + 0.6 * torch.rand(edges.shape[1], generator=generator, dtype=torch.float64)
    towards = torch.randn(1, 60, 3, generator=generator, dtype=torch.float64)

    def said(weights):
        return (model.logits(parameters, inputs.with_edges(edges, weights), None) * towards).sum()

    (gradient,) = torch.autograd.grad(said(weights.requires_grad_()), weights)
    weights, step = weights.detach(), 1e-6
    for number in range(0, len(weights), 5):
        away = torch.zeros_like(weights)
        away[number] = step
        difference = (said(weights + away) - said(weights - away)) / (2 * step)
        torch.testing.assert_close(gradient[number], difference, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.slow
def test_gradients_of_a_trained_model_arrive_at_many_candidates_without_a_matrix_of_all_pairs(name):
    n = 3_000
    graph = contextual_block_model(n, classes=2, mean_degree=4, features=8)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    model = BACKBONES.build(name, {})
    if not isinstance(model.prepare(PLAIN, "cpu"), Rewirable):
        pytest.skip(f"no gradient of {name} reaches the edges")
    edge_model = EdgeModel.of(train(model, graph, training=Training(epochs=1, lr=0.01))[0], graph)
    edges = candidates(graph, 20_000)
    weights = torch.cat([torch.ones(graph.num_edges), torch.full((edges.shape[1] - graph.num_edges,), 0.01)])
    weights.requires_grad_()
    with Largest() as largest:
        (gradient,) = torch.autograd.grad(edge_model.logits(edges, weights).square().sum(), weights)
    assert largest.numbers < n * n / 2
    assert torch.isfinite(gradient).all()
    assert gradient[graph.num_edges :].count_nonzero() > 1_000
