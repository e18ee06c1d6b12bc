"""Products cut into pieces are the products that NumPy makes in one, for shapes of one piece and of several."""

import numpy as np
import pytest
import torch

from garnet.linalg.dense import inner, product, stacked

SHAPES = [(0, 3, 2), (1, 1, 1), (70, 5, 0), (63, 7, 9), (500, 300, 700), (40_000, 40, 30)]


@pytest.mark.parametrize(("rows", "depth", "columns"), SHAPES)
def test_a_product_of_many_rows(rows, depth, columns):
    left, right = torch.randn(rows, depth, dtype=torch.float64), torch.randn(depth, columns, dtype=torch.float64)
    np.testing.assert_allclose(product(left, right), left.numpy() @ right.numpy(), rtol=1e-12, atol=1e-12)


def test_a_product_is_added_to_what_is_there():
    left, right, onto = torch.randn(300, 400), torch.randn(400, 900), torch.randn(300, 900)
    expected = onto.double() - 2 * left.double() @ right.double()
    found = product(left, right, onto=onto, factor=-2.0)
    assert found is onto
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(("left", "right"), [(3, 2), (1, 1), (0, 4), (130, 90)])
@pytest.mark.parametrize("rows", [0, 1, 500, 9_000])
def test_the_inner_product_of_tall_matrices(left, right, rows):
    some, others = torch.randn(rows, left), torch.randn(rows, right)
    expected = some.double().T @ others.double()
    found = inner(some, others)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(2, 30, 5, 3), (1, 4_000, 300, 80), (2, 3_000, 400, 64)])
def test_stacked_products_and_their_gradients_are_those_of_torch(shape):
    seeds, n, f, c = shape
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(seeds, n, f, generator=generator).requires_grad_()
    right = torch.randn(seeds, f, c, generator=generator).requires_grad_()
    towards = torch.randn(seeds, n, c, generator=generator)
    found = stacked(left, right)
    torch.testing.assert_close(found, left @ right, rtol=1e-4, atol=1e-3)
    ours = torch.autograd.grad((found * towards).sum(), (left, right))
    theirs = torch.autograd.grad(((left @ right) * towards).sum(), (left, right))
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-2)


def test_stacked_products_can_be_differentiated_twice():
    left, right = (torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (3, 2)))
    assert torch.autograd.gradgradcheck(stacked, (left, right))
