import math

import numpy as np
import pytest
import torch

from garnet import as_graph
from garnet.linalg.edge_products import inner_products, squared_distances
from garnet.purify.graphical_model import base_embedding, distortion, edge_gradient, objective
from garnet.spectral import Arpack, Chebyshev
from garnet.spectral.spectrum import laplacian


def weighted_graph(n=14, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1) * (rng.random((n, n)) + 0.5)
    return as_graph(upper + upper.T)


def in_two_pieces():
    matrix = np.zeros((14, 14))
    matrix[:8, :8] = weighted_graph(8, seed=1, density=0.7).adjacency.toarray()
    matrix[8:, 8:] = weighted_graph(6, seed=2, density=0.8).adjacency.toarray()
    return as_graph(matrix)


def embedding(n=14, r=3):
    return np.random.default_rng(9).standard_normal((n, r))


@pytest.mark.parametrize("sigma2", [0.7, 10.0])
@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_objective_is_equation_2(sigma2, alpha):
    graph, points = weighted_graph(), embedding()
    theta = laplacian(graph).toarray() + np.eye(14) / sigma2
    expected = np.linalg.slogdet(theta)[1] - np.trace(points @ points.T @ theta) / 3 - alpha * np.abs(theta).sum()
    assert objective(graph, points, sigma2=sigma2, alpha=alpha) == pytest.approx(expected)


@pytest.mark.parametrize("graph", [weighted_graph(), in_two_pieces()], ids=["connected", "two pieces"])
def test_without_a_prior_the_determinant_is_that_of_the_nonzero_eigenvalues(graph):
    values = np.linalg.eigvalsh(laplacian(graph).toarray())
    points = np.zeros((14, 3))
    assert objective(graph, points) == pytest.approx(np.log(values[values > 1e-9]).sum())


@pytest.mark.parametrize("sigma2", [0.7, math.inf])
@pytest.mark.parametrize("alpha", [0.0, 0.2])
@pytest.mark.parametrize("graph", [weighted_graph(), in_two_pieces()], ids=["connected", "two pieces"])
def test_edge_gradient_is_the_derivative_of_the_objective(graph, sigma2, alpha):
    points, edges = embedding(), graph.edges
    gradient = edge_gradient(graph, points, edges, sigma2=sigma2, alpha=alpha)
    step = 1e-2  # weights are float32, so the step is coarse and the difference is central
    for i, (u, v) in enumerate(edges.T):
        changed = []
        for sign in (1, -1):
            matrix = graph.adjacency.toarray().astype(np.float64)
            matrix[u, v] = matrix[v, u] = np.float32(matrix[u, v] + sign * step)
            changed.append((matrix[u, v], objective(as_graph(matrix), points, sigma2=sigma2, alpha=alpha)))
        (high, above), (low, below) = changed
        assert gradient[i] == pytest.approx((above - below) / (high - low), abs=2e-3, rel=2e-3)


def test_an_edge_between_pieces_would_raise_the_objective_without_bound():
    gradient = edge_gradient(in_two_pieces(), embedding(), np.array([[0, 0], [1, 13]]))
    assert np.isinf(gradient).tolist() == [False, True]


@pytest.mark.parametrize("solver", [Arpack(), Chebyshev()], ids=["arpack", "chebyshev"])
@pytest.mark.parametrize("sigma2", [2.0, math.inf])
def test_distortion_is_the_ratio_of_the_two_embeddings(solver, sigma2):
    base = weighted_graph(150, seed=4, density=0.06)
    points = torch.from_numpy(embedding(150)).float()
    values, vectors = np.linalg.eigh(laplacian(base).toarray())
    assert values[1] > 1e-6  # connected, so that one constant vector is left out
    columns = vectors[:, 1:9] / np.sqrt(values[1:9] + 1 / sigma2)
    first, second = base.edges
    above, below = (np.square(x[first] - x[second]).sum(axis=1) for x in (columns, points.numpy()))
    found = distortion(base_embedding(base, 8, sigma2, solver, seed=0, device="cpu"), points, base.edges)
    np.testing.assert_allclose(found, above / below, rtol=2e-2)


def test_all_eigenpairs_make_the_distortion_the_effective_resistance():
    base = weighted_graph(30, seed=5)
    points = torch.eye(30)
    found = distortion(base_embedding(base, 29, math.inf, Arpack(), seed=0, device="cpu"), points, base.edges)
    resistance = edge_gradient(base, np.zeros((30, 1)), base.edges)
    np.testing.assert_allclose(found, resistance / 2, rtol=1e-4)  # two unit vectors lie sqrt(2) apart


def test_scores_do_not_depend_on_the_size_of_a_chunk(monkeypatch):
    points = torch.from_numpy(embedding(60, 5)).float()
    edges = weighted_graph(60, seed=6).edges
    whole = squared_distances(points, points, edges), inner_products(points, -points, edges)
    monkeypatch.setattr("garnet.linalg.edge_products._GATHERED", 64)
    assert torch.equal(squared_distances(points, points, edges), whole[0])
    assert torch.equal(inner_products(points, -points, edges), whole[1])
    difference = points[edges[0]] - points[edges[1]]
    np.testing.assert_allclose(whole[0], difference.square().sum(dim=1), rtol=1e-6)


def test_no_edges_no_scores():
    assert squared_distances(torch.zeros(3, 2), torch.zeros(3, 2), np.empty((2, 0), dtype=np.int64)).shape == (0,)
