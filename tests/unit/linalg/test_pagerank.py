"""The largest entries of personalised PageRank, beside a dense inverse."""

import numpy as np
import pytest
import scipy.sparse as sp

import garnet.linalg.pagerank as ppr
from garnet.datasets import load
from garnet.linalg.pagerank import top_pagerank


def random_graph(n, edges, seed, *, weighted=False):
    rng = np.random.default_rng(seed)
    upper = sp.coo_array(
        (rng.random(edges) * 5 if weighted else np.ones(edges), rng.integers(0, n, (2, edges))), shape=(n, n)
    ).tocsr()
    upper = sp.csr_array(sp.triu(upper, 1))
    if not weighted:
        upper.data[:] = 1
    return sp.csr_array(upper + upper.T).astype(np.float32)


def dense_pagerank(adjacency, alpha):
    looped = adjacency.toarray().astype(float) + np.eye(adjacency.shape[0])
    root = np.sqrt(looped.sum(axis=1))
    return alpha * np.linalg.inv(np.eye(len(root)) - (1 - alpha) * looped / root[:, None] / root)


def largest(dense, k):
    kept = np.argsort(-dense, axis=1, kind="stable")[:, :k]
    rows = np.arange(len(dense))[:, None]
    result = np.zeros_like(dense)
    result[rows, kept] = dense[rows, kept]
    return result


@pytest.mark.parametrize("alpha", [0.05, 0.15, 0.7])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_rows_are_those_of_the_inverse(alpha, weighted):
    adjacency = random_graph(120, 260, 0, weighted=weighted)
    dense = dense_pagerank(adjacency, alpha)
    found = top_pagerank(adjacency, alpha=alpha, k=120).toarray()
    np.testing.assert_allclose(found, np.where(dense > 1e-6, dense, 0), atol=2e-6)
    few = top_pagerank(adjacency, alpha=alpha, k=7)
    assert (np.diff(few.indptr) <= 7).all()
    # Entries that tie may be kept either way, so the masses are compared and not the places.
    np.testing.assert_allclose(few.sum(axis=1), largest(dense, 7).sum(axis=1), atol=1e-5)
    kept = few.toarray() > 0
    np.testing.assert_allclose(few.toarray()[kept], dense[kept], atol=2e-6)


def test_blocks_of_columns_change_nothing(monkeypatch):
    adjacency = random_graph(90, 200, 1)
    whole = top_pagerank(adjacency, alpha=0.2, k=10).toarray()
    monkeypatch.setattr(ppr, "_BLOCK", 90 * 7)
    np.testing.assert_allclose(top_pagerank(adjacency, alpha=0.2, k=10).toarray(), whole, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-5])
def test_pushes_err_by_no_more_than_they_say(error, weighted):
    adjacency = random_graph(150, 400, 2, weighted=weighted)
    dense = dense_pagerank(adjacency, 0.1)
    found = top_pagerank(adjacency, alpha=0.1, k=150, error=error).toarray()
    degrees = 1 + np.asarray(adjacency.sum(axis=0)).ravel()
    missing = dense - found
    assert (missing > -1e-6).all()
    assert (missing <= error * np.sqrt(degrees) + 1e-6).all()


def test_pushes_keep_the_largest_in_every_block(monkeypatch):
    adjacency = random_graph(150, 400, 3)
    dense = dense_pagerank(adjacency, 0.15)
    monkeypatch.setattr(ppr, "_BLOCK_OF_PUSHES", 150 * 40)
    found = top_pagerank(adjacency, alpha=0.15, k=12, error=1e-6)
    assert np.array_equal(np.diff(found.indptr), np.minimum(12, (dense > 1e-9).sum(axis=1)))
    assert found.has_canonical_format
    np.testing.assert_allclose(found.sum(axis=1), largest(dense, 12).sum(axis=1), atol=1e-4)


@pytest.mark.parametrize("error", [None, 1e-5])
def test_components_do_not_mix(error):
    path, pair, alone = [(0, 1), (1, 2)], [(3, 4)], 5
    rows, columns = np.array(path + pair).T
    half = sp.coo_array((np.ones(3), (rows, columns)), shape=(6, 6))
    found = top_pagerank(sp.csr_array(half + half.T), alpha=0.3, k=64, error=error)
    assert np.diff(found.indptr).tolist() == [3, 3, 3, 2, 2, 1]
    assert found[alone, alone] == pytest.approx(1, abs=1e-5)
    # Two nodes joined: the average has eigenvalue 1, the difference 0, so the entries are (1 + alpha) / 2 and below.
    assert found[3, 3] == pytest.approx(0.65, abs=1e-4)
    assert found[3, 4] == pytest.approx(0.35, abs=1e-4)


@pytest.mark.parametrize("error", [None, 0.01])
def test_a_walk_that_always_returns_stays(error):
    found = top_pagerank(random_graph(20, 40, 4), alpha=1.0, k=5, error=error)
    np.testing.assert_allclose(found.toarray(), np.eye(20), atol=1e-6)


def test_a_graph_without_edges():
    empty = sp.csr_array((4, 4), dtype=np.float32)
    np.testing.assert_allclose(top_pagerank(empty, alpha=0.15, k=3).toarray(), np.eye(4), atol=1e-6)
    np.testing.assert_allclose(top_pagerank(empty, alpha=0.15, k=3, error=1e-3).toarray(), np.eye(4), atol=1e-2)


def test_approximate_rows_of_cora_hold_nearly_all_of_the_exact_ones():
    adjacency = load("cora", split="random").adjacency
    exact = top_pagerank(adjacency, alpha=0.15, k=32)
    found = top_pagerank(adjacency, alpha=0.15, k=32, error=ppr._ERROR)
    assert exact.multiply(found > 0).sum() > 0.98 * exact.sum()
