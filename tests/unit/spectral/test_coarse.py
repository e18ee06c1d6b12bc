"""Graphs whose eigenvalues crowd at 1, and the coarser ones that help with them."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import as_graph
from garnet.linalg.sparse import to_rows
from garnet.spectral import Chebyshev, normalized_adjacency
from garnet.spectral.coarse import coarsened


def ring(n, reach):
    """Each node joined to all at most `reach` places away."""
    steps = np.arange(1, reach + 1)
    rows = np.repeat(np.arange(n), reach)
    columns = (rows + np.tile(steps, n)) % n
    upper = sp.coo_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    return as_graph((upper + upper.T).tocsr())


def in_closed_form(n, reach, rank):
    steps = np.arange(1, reach + 1)
    values = np.cos(2 * np.pi * np.arange(rank)[:, None] * steps / n).mean(axis=1)
    return np.sort(np.concatenate([values, values[1:]]))[::-1][:rank]


@pytest.mark.parametrize(("n", "rank"), [(10_000, 5), (20_000, 9)])
def test_crowded_eigenvalues_of_a_ring_are_those_of_the_closed_form(n, rank):
    matrix = normalized_adjacency(ring(n, 30))
    found = Chebyshev(tol=1e-5)(matrix, rank, end="algebraic", seed=0, device="cpu")
    expected = in_closed_form(n, 30, rank)
    assert 1 - expected[-1] < 0.001  # they do crowd
    np.testing.assert_allclose(found.values, expected, atol=2e-6)
    vectors = found.vectors.double().numpy()
    assert np.linalg.norm(matrix @ vectors - vectors * expected, axis=0).max() < 2e-5


def test_groups_are_neighbours_and_their_matrix_is_that_of_the_smooth_vectors():
    graph = ring(600, 4)
    rows = to_rows(normalized_adjacency(graph), "cpu")
    coarse = coarsened(rows, torch.Generator().manual_seed(0))
    group = coarse.group.numpy()
    count = coarse.matrix.width
    assert sorted(set(group)) == list(range(count))
    assert count < 600 / 3
    dense = graph.adjacency.toarray() > 0
    for one in range(count):
        members = np.flatnonzero(group == one)
        assert (dense[np.ix_(members, members)].sum(axis=1).max(initial=0)) >= len(members) - 1  # one is joined to all
    lifted = coarse.refined(torch.eye(count)).numpy()
    np.testing.assert_allclose(lifted.T @ lifted, np.eye(count), atol=1e-5)
    expected = lifted.T @ rows.to_scipy().toarray() @ lifted
    np.testing.assert_allclose(coarse.matrix.to_scipy().toarray(), expected, atol=1e-5)


def test_nodes_without_edges_are_groups_of_their_own():
    graph = as_graph(sp.csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4)))
    coarse = coarsened(to_rows(normalized_adjacency(graph), "cpu"), torch.Generator().manual_seed(0))
    assert coarse.matrix.width == 3
    assert coarse.group[0] == coarse.group[1]
