"""A graph that is flipped pair by pair, against a dense matrix that is."""

import numpy as np
import pytest
import scipy.sparse as sp

from garnet.attacks.mutable_graph import MutableGraph


def adjacency(n=30, seed=1):
    random = np.random.default_rng(seed)
    upper = np.triu(random.random((n, n)) < 0.1, 1) * (random.random((n, n)) + 0.5)
    return upper + upper.T


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("looked_at", [False, True])
def test_it_follows_flips(loops, looked_at):
    """Whether or not the matrix is asked for on the way."""
    clean, random = adjacency(), np.random.default_rng(2)
    graph, dense = MutableGraph(sp.csr_array(clean), loops=loops), clean + loops * np.eye(30)
    flipped = {node: set() for node in range(30)}
    for _ in range(60):
        one, other = random.choice(30, size=2, replace=False).tolist()
        expected = -dense[one, other] if dense[one, other] else 1.0
        dense[one, other] = dense[other, one] = dense[one, other] + expected
        assert graph.flip(one, other) == expected
        flipped[one].add(other)
        flipped[other].add(one)
        if looked_at:
            np.testing.assert_array_equal(graph.matrix.toarray(), dense)
        for node in (one, other):
            columns, weights = graph.row(node)
            np.testing.assert_array_equal(columns, np.flatnonzero(dense[node]))
            np.testing.assert_array_equal(weights, dense[node][columns])
            assert set(graph.flipped(node)) == flipped[node]
        assert graph.weight(one, other) == dense[one, other]
    np.testing.assert_array_equal(graph.matrix.toarray(), dense)
    assert graph.matrix.has_canonical_format
    bare = dense - loops * np.eye(30)
    np.testing.assert_array_equal(graph.counts, (bare > 0).sum(axis=1))
    np.testing.assert_allclose(graph.degrees, dense.sum(axis=1), rtol=1e-12)
    rows, columns, weights = graph.entries
    np.testing.assert_array_equal(sp.csr_array((weights, (rows, columns)), shape=(30, 30)).toarray(), bare)


def test_it_normalises_with_its_loops():
    graph, looped = MutableGraph(sp.csr_array(adjacency()), loops=True), adjacency() + np.eye(30)
    change = graph.flip(3, 4)
    looped[[3, 4], [4, 3]] += change
    root = 1 / np.sqrt(looped.sum(axis=1))
    np.testing.assert_allclose(graph.normalized().toarray(), root[:, None] * looped * root, rtol=1e-12)


def test_a_copy_is_flipped_by_itself_and_the_clean_matrix_stays():
    clean = sp.csr_array(adjacency())
    graph = MutableGraph(clean, loops=True)
    graph.flip(0, 1)
    before = graph.matrix.toarray()
    other = graph.copy()
    other.flip(2, 3)
    np.testing.assert_array_equal(graph.matrix.toarray(), before)
    assert (graph.matrix != other.matrix).nnz == 2
    assert (other.flipped(1), other.flipped(2), graph.flipped(2)) == ((0,), (3,), ())
    np.testing.assert_array_equal(other.counts, (other.matrix.toarray() > 0).sum(axis=1) - 1)
    np.testing.assert_array_equal(clean.toarray(), adjacency())
