"""Products with entries that a model computes, against dense matrices."""

import numpy as np
import scipy.sparse as sp
import torch

from garnet.linalg.edge_weighted import Pattern


def example(seeds=3, n=7, f=4):
    generator = torch.Generator().manual_seed(5)
    upper = sp.random_array((n, n), density=0.4, rng=np.random.default_rng(2))
    pattern = Pattern(sp.csr_array(upper + upper.T))

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float32).requires_grad_()

    return pattern, draw(seeds, len(pattern.rows)), draw(seeds, n, f), draw(seeds, n, f)


def dense(pattern, values):
    whole = torch.zeros(len(values), pattern.size, pattern.size)
    return whole.index_put((torch.arange(len(values))[:, None], pattern.rows, pattern.columns), values)


def test_products_and_their_gradients_are_those_of_dense_matrices():
    pattern, values, blocks, weights = example()
    ours = pattern.product(values, blocks)
    theirs = dense(pattern, values) @ blocks
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad((ours * weights).sum(), (values, blocks)),
        torch.autograd.grad((theirs * weights).sum(), (values, blocks)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_inner_products_and_their_gradients_are_those_of_dense_matrices():
    pattern, values, left, right = example()
    ours = pattern.inner(left, right)
    theirs = (left @ right.mT)[:, pattern.rows, pattern.columns]
    torch.testing.assert_close(ours, theirs)
    for one, other in zip(
        torch.autograd.grad((ours * values).sum(), (left, right)),
        torch.autograd.grad((theirs * values).sum(), (left, right)),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


def test_row_sums_and_reverse():
    pattern, values, _, _ = example()
    torch.testing.assert_close(pattern.row_sums(values), dense(pattern, values).sum(dim=2))
    torch.testing.assert_close(dense(pattern, values[:, pattern.reverse]), dense(pattern, values).mT)


def test_no_edges():
    pattern = Pattern(sp.csr_array((3, 3)))
    blocks = torch.ones(2, 3, 4)
    assert pattern.product(torch.zeros(2, 0), blocks).eq(0).all()
    assert pattern.inner(blocks, blocks).shape == (2, 0)


def test_a_pattern_of_edges_is_that_of_their_adjacency():
    edges = torch.tensor([[4, 0, 2, 1], [1, 3, 0, 2]])
    pattern, numbers = Pattern.joining(edges, 6)
    matrix = sp.coo_array((np.ones(8), (edges.flatten(), edges.flip(0).flatten())), (6, 6)).tocsr()
    expected = Pattern(matrix)
    for name in ("rows", "columns", "reverse", "_starts"):
        assert torch.equal(getattr(pattern, name), getattr(expected, name))
    for number, (i, j) in enumerate(edges.T.tolist()):
        found = {(int(pattern.rows[p]), int(pattern.columns[p])) for p in (numbers == number).nonzero()[:, 0]}
        assert found == {(i, j), (j, i)}
    nothing, _ = Pattern.joining(edges[:, :0], 3)
    assert not nothing.product(torch.zeros(1, 0), torch.ones(1, 3, 2)).any()
