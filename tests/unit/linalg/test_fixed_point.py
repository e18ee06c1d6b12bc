"""Sums of fixed-point numbers: the same to the last bit in any order, and as exact as those of floats."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from garnet.linalg.dense import fixed_inner, inner
from garnet.linalg.fixed_point import fixed, number

NUMBERS = st.floats(-1e5, 1e5, width=32)


@given(st.lists(NUMBERS, min_size=1, max_size=60), st.randoms(use_true_random=False), st.integers(1, 59))
def test_a_sum_does_not_depend_on_order_or_groups(numbers, random, cut):
    def total(terms):
        return fixed([torch.tensor(term, dtype=torch.float64) for term in terms]) if terms else torch.zeros(2).double()

    shuffled = random.sample(numbers, len(numbers))
    found = number(total(numbers))
    assert found == number(total(shuffled[:cut]) + total(shuffled[cut:]))
    assert float(found) == pytest.approx(sum(numbers), abs=1e-9)


def test_small_terms_are_kept_beside_large_ones():
    terms = [torch.tensor([1e6, 2.0**-60]).double(), torch.tensor([3e-13, 2.0**-60]).double()]
    torch.testing.assert_close(number(fixed(terms)), terms[0] + terms[1], rtol=1e-12, atol=0)


@pytest.mark.parametrize("shape", [(5000, 7, 3), (100, 1, 1), (0, 4, 2)])
def test_an_inner_product_adds_up_to_the_same_however_it_is_cut(shape):
    rows, left, right = shape
    generator = torch.Generator().manual_seed(0)
    some, others = torch.randn(rows, left, generator=generator), torch.randn(rows, right, generator=generator)
    whole = fixed_inner(some, others, 64)
    torch.testing.assert_close(number(whole), inner(some, others), rtol=1e-5, atol=1e-5)
    for cut in (64, 640, 4480):
        parts = fixed_inner(some[cut:], others[cut:], 64) + fixed_inner(some[:cut], others[:cut], 64)
        assert torch.equal(number(parts), number(whole))
