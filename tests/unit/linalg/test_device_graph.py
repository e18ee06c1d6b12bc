"""The adjacency on a device, against SciPy."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from garnet import as_graph
from garnet.datasets import block_model
from garnet.linalg.device_graph import Resident, joined, joined_by_sorting, restricted
from garnet.spectral.spectrum import normalized_adjacency


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    upper = sp.triu(block_model(400, mean_degree=3, seed=4).adjacency, 1).tocsr()
    upper.data = rng.uniform(0.5, 2, upper.nnz).astype(np.float32)
    return as_graph(upper + upper.T)


def test_it_has_what_the_graph_has(graph):
    here = Resident.of(graph)
    np.testing.assert_array_equal(here.edges, graph.edges)
    np.testing.assert_array_equal(here.edge_weights, graph.weights)
    np.testing.assert_allclose(here.degrees, graph.degrees)
    for tau in (0.0, 2.5):
        difference = here.normalized(tau).to_scipy() - normalized_adjacency(graph, tau)
        assert abs(difference).max() < 1e-7


def test_a_whole_component_is_cut_out_as_scipy_does(graph):
    here = Resident.of(graph)
    component = here.components()
    nodes = (component == component[int(graph.degrees.argmax())]).nonzero()[:, 0]
    assert 1 < len(nodes) < graph.num_nodes
    cut = restricted(here.matrix(), nodes).to_scipy()
    assert abs(cut - graph.adjacency[nodes.numpy()][:, nodes.numpy()]).max() == 0


@given(st.integers(0, 2**31), st.integers(1, 40), st.floats(0.0, 0.2))
def test_components_by_the_least_number_are_those_of_scipy(seed, n, density):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1)
    here = Resident.of(as_graph((upper | upper.T).astype(float)))
    number, expected = connected_components(upper, directed=False)
    found = here.least_of_component().numpy()
    assert len(np.unique(found)) == number
    assert len(np.unique(np.stack([found, expected]), axis=1).T) == number


@given(st.integers(0, 2**31), st.integers(1, 30))
def test_edges_joined_are_the_graph_again(seed, n):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.3), 1)
    graph = as_graph(upper + upper.T)
    edges, weights = torch.from_numpy(graph.edges), torch.from_numpy(graph.weights)
    for build in (joined, joined_by_sorting):
        matrix = build(edges, weights, n)
        assert matrix.has_sorted_indices
        assert abs(matrix - graph.adjacency).max() == 0
        assert matrix.dtype == np.float32
