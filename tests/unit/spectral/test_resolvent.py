import pytest
import torch

from garnet.datasets import block_model
from garnet.errors import ParameterError
from garnet.linalg.sparse import SparseMatrix
from garnet.spectral import Arpack, normalized_adjacency
from garnet.spectral.perturbation import resolvent


def leading(matrix, rank, end):
    values, vectors = torch.linalg.eigh(matrix)
    order = (values if end == "algebraic" else values.abs()).argsort(descending=True)[:rank]
    return values[order], vectors[:, order]


def dense(matrix, value, vectors):
    inside = torch.eye(len(matrix), dtype=matrix.dtype) - vectors @ vectors.T
    shifted = inside @ (value * torch.eye(len(matrix), dtype=matrix.dtype) - matrix) @ inside
    return torch.linalg.pinv(shifted, rtol=1e-10, hermitian=True)


@pytest.fixture(scope="module")
def matrix():
    return torch.from_numpy(normalized_adjacency(block_model(120, mean_degree=6, seed=1)).toarray())


@pytest.mark.parametrize("end", ["algebraic", "magnitude"])
@pytest.mark.parametrize("rank", [1, 5])
def test_a_resolvent_is_the_dense_pseudo_inverse_in_the_complement(matrix, rank, end):
    values, vectors = leading(matrix, rank, end)
    block = torch.randn(120, rank, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
    found = resolvent(matrix.matmul, values, vectors, block, tol=1e-12)
    wanted = torch.stack([dense(matrix, value, vectors) @ one for value, one in zip(values, block.T, strict=True)], 1)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-8)
    assert (vectors.T @ found).abs().max() < 1e-10


def test_shifts_may_lie_inside_the_spectrum(matrix):
    values, vectors = torch.linalg.eigh(matrix)
    values, vectors = values[50:53], vectors[:, 50:53]
    block = torch.randn(120, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = resolvent(matrix.matmul, values, vectors, block, tol=1e-11)
    wanted = torch.stack([dense(matrix, value, vectors) @ one for value, one in zip(values, block.T, strict=True)], 1)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-6 * float(wanted.abs().max()))


def test_eigenvectors_move_by_it(matrix):
    values, vectors = leading(matrix, 3, "algebraic")
    change = torch.zeros_like(matrix)
    change[3, 90] = change[90, 3] = 1.0
    moved = resolvent(matrix.matmul, values, vectors, change @ vectors, tol=1e-12)
    step = 1e-5
    ahead, behind = (leading(matrix + sign * step * change, 3, "algebraic")[1] for sign in (1, -1))
    # The space turns by the same, whatever happens within.
    expected = (ahead @ ahead.T - behind @ behind.T) / (2 * step)
    torch.testing.assert_close(moved @ vectors.T + vectors @ moved.T, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_gradients_flow_to_the_block(matrix):
    values, vectors = leading(matrix, 4, "magnitude")
    block = torch.randn(120, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda one: resolvent(matrix.matmul, values, vectors, one, tol=1e-13)[::7], block, eps=1e-3, atol=1e-6
    )


def test_single_precision_and_sparse_products():
    graph = block_model(800, mean_degree=8, seed=3)
    adjacency = normalized_adjacency(graph)
    spectrum = Arpack()(adjacency, 10, end="magnitude", seed=0, device="cpu")
    product = SparseMatrix(adjacency, symmetric=True).__matmul__
    block = torch.randn(800, 10, generator=torch.Generator().manual_seed(0))
    found = resolvent(product, spectrum.values, spectrum.vectors, block)
    assert found.dtype == torch.float32
    whole = torch.from_numpy(adjacency.toarray())
    exact = resolvent(whole.matmul, spectrum.values, spectrum.vectors, block.double(), tol=1e-11)
    assert float((found - exact).norm(dim=0).div(exact.norm(dim=0)).max()) < 1e-3


def test_what_lies_within_the_space_has_no_answer(matrix):
    values, vectors = leading(matrix, 3, "algebraic")
    assert resolvent(matrix.matmul, values, vectors, vectors).abs().max() < 1e-12
    assert not resolvent(matrix.matmul, values, vectors, torch.zeros_like(vectors)).any()


def test_an_eigenvalue_without_a_gap_stays_finite():
    matrix = torch.diag(torch.tensor([2.0, 2.0, 1.0, 0.5]))
    vectors = torch.eye(4)[:, :1]
    found = resolvent(matrix.matmul, torch.tensor([2.0]), vectors, torch.tensor([[1.0], [0.0], [3.0], [3.0]]))
    torch.testing.assert_close(found, torch.tensor([[0.0], [0.0], [3.0], [2.0]]))


def test_shapes_are_refused_in_a_sentence(matrix):
    values, vectors = leading(matrix, 3, "algebraic")
    with pytest.raises(ParameterError, match=r"^resolvent takes .* Got \(3,\), \(120, 3\), \(120, 2\) instead\.$"):
        resolvent(matrix.matmul, values, vectors, vectors[:, :2])
