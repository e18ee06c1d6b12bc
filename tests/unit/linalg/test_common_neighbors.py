"""Shared neighbours, against counting them in a dense matrix."""

import numpy as np
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from garnet import Graph, as_graph
from garnet.datasets import block_model
from garnet.linalg import common_neighbors as module
from garnet.linalg.device_graph import Resident


def shared_neighbors(graph, edges):
    return module.shared_neighbors(Resident.of(graph), torch.from_numpy(edges)).numpy()


def counted(graph, edges):
    dense = graph.adjacency.toarray() > 0
    shares = []
    for u, v in edges.T:
        common = (dense[u] & dense[v]).sum()
        most = min(dense[u].sum(), dense[v].sum()) - dense[u, v]
        shares.append(common / max(most, 1))
    return np.array(shares)


@given(st.integers(0, 2**31), st.integers(2, 25), st.floats(0.05, 0.9))
def test_shares_are_those_of_a_dense_count(seed, n, density):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    graph = as_graph((upper | upper.T).astype(float))
    pairs = np.stack(np.triu_indices(n, 1))
    found = shared_neighbors(graph, pairs)
    np.testing.assert_allclose(found, counted(graph, pairs), rtol=1e-6)
    assert found.min(initial=0) >= 0
    assert found.max(initial=0) <= 1


def test_chunks_do_not_show(monkeypatch):
    graph = block_model(500, mean_degree=12, seed=2)
    whole = shared_neighbors(graph, graph.edges)
    # So few marks that columns fall on the same, and so few rows that there are several pieces.
    for name, value in {"_LOOKUPS": 37, "_ROWS": 3, "_BITS": 2}.items():
        monkeypatch.setattr(module, name, value)
    np.testing.assert_array_equal(shared_neighbors(graph, graph.edges), whole)


def test_weights_do_not_count_and_no_pairs_give_none():
    graph = block_model(50, seed=3)
    weighted = graph.with_edges(graph.edges, np.linspace(0.1, 9, graph.num_edges))
    np.testing.assert_array_equal(shared_neighbors(graph, graph.edges), shared_neighbors(weighted, graph.edges))
    assert shared_neighbors(graph, graph.edges[:, :0]).shape == (0,)


def test_pairs_of_many_nodes_have_numbers_of_their_own():
    """Nodes may be stored in 32 bits; the pairs of 60,000 nodes have no room there."""
    corners = np.arange(60_000, dtype=np.int32).reshape(-1, 3)
    others = np.sort(corners[:, [1, 2, 0, 2, 0, 1]].reshape(60_000, 2), axis=1)
    starts = np.arange(60_001, dtype=np.int32) * 2
    triangles = Graph(sp.csr_array((np.ones(120_000, dtype=np.float32), others.ravel(), starts)))
    assert triangles.adjacency.indices.dtype == np.int32
    assert (shared_neighbors(triangles, triangles.edges) == 1).all()
    apart = np.stack([corners[:-1, 2], corners[1:, 0]]).astype(np.int64)
    assert (shared_neighbors(triangles, apart) == 0).all()
