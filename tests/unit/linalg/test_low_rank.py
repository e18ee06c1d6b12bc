import pytest
import torch

from garnet.backbones import GCN, GPRGNN
from garnet.backbones.base import initial_parameters
from garnet.backbones.gcn import GCNInputs
from garnet.backbones.matrices import dense_matrix
from garnet.datasets import contextual_block_model
from garnet.linalg.low_rank import LowRank
from garnet.linalg.sparse import SparseMatrix, WeightedMatrix
from garnet.spectral.perturbation import truncated

GRAPH = contextual_block_model(50, classes=2, mean_degree=5, features=6, seed=1)
EDGES = torch.from_numpy(GRAPH.edges)
PAIRS = torch.cat([EDGES, torch.tensor([[0, 3, 8, 20], [45, 31, 40, 49]])], dim=1)
RANK = 4


def whole(weights):
    matrix = torch.zeros(50, 50, dtype=weights.dtype).index_put((PAIRS[0], PAIRS[1]), weights)
    return matrix + matrix.T


def cut(matrix, rank=RANK):
    values, vectors = torch.linalg.eigh(matrix)
    order = values.abs().argsort(descending=True)
    assert values[order[rank - 1]].abs() - values[order[rank]].abs() > 0.05
    return values[order[:rank]], vectors[:, order[:rank]]


@pytest.fixture
def weights():
    drawn = torch.rand(PAIRS.shape[1], dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    return 0.5 + drawn


def built(kind, weights, start):
    values, vectors = cut(start)
    adjacency = WeightedMatrix.adjacency(PAIRS, weights, 50)
    if kind == "within":
        return LowRank.within(adjacency, vectors)
    return truncated(adjacency, start.matmul, values, vectors, tol=1e-13)


@pytest.mark.parametrize("kind", ["within", "first order"])
def test_at_its_own_graph_it_is_the_truncated_matrix(kind, weights):
    values, vectors = cut(whole(weights))
    block = torch.randn(50, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    low = built(kind, weights, whole(weights))
    assert low.shape == (50, 50)
    torch.testing.assert_close(low @ block, (vectors * values) @ vectors.T @ block)
    for loops in (0.0, 1.0):
        expected = dense_matrix((vectors * values) @ vectors.T, loops=loops)
        torch.testing.assert_close(low.normalized(loops) @ block, expected @ block)


def test_rows_whose_sum_is_not_positive_are_left_out():
    vectors = torch.tensor([[0.6], [-0.8], [0.0]])
    low = LowRank(vectors, torch.tensor([[50.0]]))
    expected = dense_matrix(50.0 * vectors @ vectors.T, loops=1.0)
    assert not expected[0].any()
    torch.testing.assert_close(low.normalized(1.0) @ torch.eye(3), expected)


@pytest.mark.parametrize("kind", ["within", "first order"])
def test_derivatives_are_finite_differences_of_the_dense_matrix(kind, weights):
    start = whole(weights)
    towards = torch.randn(50, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights.requires_grad_()
    said = (built(kind, weights, start) @ torch.eye(50, dtype=torch.float64) * towards).sum()
    (gradient,) = torch.autograd.grad(said, weights)
    weights, step = weights.detach(), 1e-6
    _, fixed = cut(start)

    def dense(weights):
        if kind == "within":
            inside = fixed @ fixed.T
            return (inside @ whole(weights) @ inside * towards).sum()
        values, vectors = cut(whole(weights))
        return ((vectors * values) @ vectors.T * towards).sum()

    for number in range(0, len(weights), 4):
        away = torch.zeros_like(weights)
        away[number] = step
        difference = (dense(weights + away) - dense(weights - away)) / (2 * step)
        torch.testing.assert_close(gradient[number], difference, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("backbone", [GCN(hidden=8), GPRGNN(hidden=8)])
def test_models_read_it(backbone):
    inputs = backbone.prepare(GRAPH, "cpu")
    parameters = initial_parameters(backbone, GRAPH, 2, torch.Generator().manual_seed(0))
    parameters = {name: value[None] for name, value in parameters.items()}
    values, vectors = (one.float() for one in cut(torch.from_numpy(GRAPH.adjacency.toarray()).double()))
    expected = backbone.logits(parameters, inputs.with_matrix((vectors * values) @ vectors.T), None)
    weights = torch.ones(EDGES.shape[1], requires_grad=True)
    product = SparseMatrix(GRAPH.adjacency, symmetric=True).__matmul__
    low = truncated(WeightedMatrix.adjacency(EDGES, weights, 50), product, values, vectors)
    found = backbone.logits(parameters, GCNInputs(inputs.features, low.normalized(1.0)), None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    (gradient,) = torch.autograd.grad(found.square().sum(), weights)
    assert gradient.all()
