import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet.linalg.sparse import SparseMatrix


@st.composite
def sparse_matrices(draw, square=False):
    rows = draw(st.integers(1, 12))
    columns = rows if square else draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    dense = rng.standard_normal((rows, columns)) * (rng.random((rows, columns)) < draw(st.sampled_from([0, 0.2, 0.9])))
    return dense.astype(np.float32)


def block_of(rows, columns, *seeds, seed=0):
    return torch.randn(*seeds, rows, columns, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def value_and_gradient(product, block, pull):
    value = product(block)
    (gradient,) = torch.autograd.grad((value * pull).sum(), block)
    return value.detach(), gradient


@given(sparse_matrices(), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_product_and_its_gradient_are_those_of_the_dense_matrix(dense, width):
    matrix = SparseMatrix(sp.csr_array(dense))
    block, pull = block_of(dense.shape[1], width), block_of(dense.shape[0], width, seed=1).detach()
    found = value_and_gradient(lambda b: matrix @ b, block, pull)
    expected = value_and_gradient(lambda b: torch.from_numpy(dense) @ b, block, pull)
    assert matrix.shape == dense.shape
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@given(sparse_matrices(square=True))
@settings(max_examples=30, deadline=None)
def test_a_symmetric_matrix_is_its_own_transpose(dense):
    dense = dense + dense.T
    matrix = SparseMatrix(sp.csr_array(dense), symmetric=True)
    block, pull = block_of(len(dense), 3), block_of(len(dense), 3, seed=1).detach()
    found = value_and_gradient(lambda b: matrix @ b, block, pull)
    expected = value_and_gradient(lambda b: torch.from_numpy(dense) @ b, block, pull)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@given(sparse_matrices(), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_each_is_a_loop_over_the_seeds(dense, seeds, width):
    csr = sp.csr_array(dense)
    matrix = SparseMatrix(csr)
    factors = torch.rand(seeds, csr.nnz, generator=torch.Generator().manual_seed(2))
    blocks, pull = block_of(dense.shape[1], width, seeds), block_of(dense.shape[0], width, seeds, seed=1).detach()

    def loop(blocks):
        scaled = [sp.csr_array((csr.data * f.numpy(), csr.indices, csr.indptr), dense.shape) for f in factors]
        return torch.stack([torch.from_numpy(one.toarray()) @ b for one, b in zip(scaled, blocks, strict=True)])

    found = value_and_gradient(lambda b: matrix.each(factors, b), blocks, pull)
    for one, other in zip(found, value_and_gradient(loop, blocks, pull), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_blocks_that_are_not_contiguous():
    dense = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    block = torch.randn(3, 6, generator=torch.Generator().manual_seed(0)).T
    torch.testing.assert_close(SparseMatrix(sp.csr_array(dense)) @ block, torch.from_numpy(dense) @ block)


def test_the_caller_may_change_what_the_matrix_was_made_of():
    source = sp.csr_array(np.eye(3, dtype=np.float32))
    matrix = SparseMatrix(source)
    source.data[:] = 7
    torch.testing.assert_close(matrix @ torch.ones(3, 1), torch.ones(3, 1))


def test_a_symmetric_matrix_has_no_products_for_each_seed():
    matrix = SparseMatrix(sp.csr_array(np.eye(3)), symmetric=True)
    with pytest.raises(TypeError, match="symmetric"):
        matrix.each(torch.ones(2, 3), torch.ones(2, 3, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_differences_of_the_ends_of_edges(dtype):
    edges = torch.tensor([[4, 0, 2, 1], [1, 3, 0, 2]])
    matrix = SparseMatrix.differences(edges, 6, dtype)
    assert matrix.shape == (4, 6)
    block = torch.randn(6, 3, dtype=dtype, generator=torch.Generator().manual_seed(0), requires_grad=True)
    pull = torch.randn(4, 3, dtype=dtype, generator=torch.Generator().manual_seed(1))
    value, gradient = value_and_gradient(matrix.__matmul__, block, pull)
    torch.testing.assert_close(value, (block[edges[0]] - block[edges[1]]).detach())
    torch.testing.assert_close(gradient, matrix.dense().T @ pull)
    torch.testing.assert_close(matrix.transposed() @ pull, gradient)
    assert not (SparseMatrix.differences(edges[:, :0], 6).transposed() @ torch.ones(0, 2)).any()


def test_double_precision():
    matrix = sp.csr_array(np.array([[0, 1 / 3], [2.0, 0]]))
    product = SparseMatrix(matrix, dtype=torch.float64) @ torch.ones(2, 1, dtype=torch.float64)
    assert product[0, 0] == 1 / 3
