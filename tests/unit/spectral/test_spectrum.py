import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from garnet import as_graph
from garnet.spectral import Arpack
from garnet.spectral.spectrum import eigengap, laplacian, normalized_adjacency


def random_graph(n, density, seed, weighted=True):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) < density, 1) * (rng.random((n, n)) + 0.1 if weighted else 1.0)
    return as_graph(upper + upper.T)


def dense_normalized(graph, tau=0.0):
    adjacency = graph.adjacency.toarray().astype(float)
    degrees = adjacency.sum(1)
    scale = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees + tau, 1e-300)), 0)
    return scale[:, None] * adjacency * scale


def star(leaves):
    hub = np.zeros(leaves, dtype=int)
    return as_graph((np.stack([hub, np.arange(1, leaves + 1)]), leaves + 1), symmetrize=True)


@pytest.mark.parametrize("tau", [0.0, 2.5])
def test_normalised_adjacency_is_the_formula_with_zero_rows_for_isolated_nodes(tau):
    graph = random_graph(30, 0.05, seed=3)
    assert (graph.degrees == 0).any()
    np.testing.assert_allclose(normalized_adjacency(graph, tau).toarray(), dense_normalized(graph, tau), atol=1e-12)


def test_laplacian_has_zero_row_sums_and_degrees_on_its_diagonal():
    graph = random_graph(20, 0.3, seed=1)
    np.testing.assert_allclose(laplacian(graph).sum(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(laplacian(graph).diagonal(), graph.degrees)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(1, 6), density=st.floats(0.1, 0.9))
def test_inner_products_are_entries_of_the_nearest_rank_r_matrix(seed, rank, density):
    graph = random_graph(25, density, seed)
    matrix = dense_normalized(graph)
    spectrum = Arpack()(normalized_adjacency(graph), rank, end="magnitude", seed=0, device="cpu")
    left, values, right = np.linalg.svd(matrix)
    assume(values[rank - 1] - values[rank] > 1e-6)  # otherwise the nearest matrix is not unique
    nearest = left[:, :rank] * values[:rank] @ right[:rank]
    u, v = (torch.from_numpy(ends.ravel()) for ends in np.meshgrid(np.arange(25), np.arange(25)))
    np.testing.assert_allclose(spectrum.inner(u, v).numpy(), nearest[u, v], atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), rank=st.integers(1, 5))
def test_proposition_3_2_the_gram_matrix_of_the_embedding_is_the_nearest_matrix(seed, rank):
    # Five cliques, weakly joined: as many large positive eigenvalues, and none that is as negative.
    rng = np.random.default_rng(seed)
    cliques = sp.kron(sp.eye_array(5), np.ones((6, 6)) - np.eye(6)).toarray()
    bridges = np.triu(rng.random((30, 30)) < 0.1, 1) * 0.2
    graph = as_graph(np.maximum(cliques, bridges + bridges.T))
    spectrum = Arpack()(normalized_adjacency(graph), rank, end="magnitude", seed=0, device="cpu")
    assert (spectrum.values > 0).all()
    left, values, right = np.linalg.svd(dense_normalized(graph))
    assume(values[rank - 1] - values[rank] > 1e-6)
    nearest = left[:, :rank] * values[:rank] @ right[:rank]
    np.testing.assert_allclose(spectrum.embedding @ spectrum.embedding.T, nearest, atol=1e-9)


def test_proposition_3_2_needs_its_condition_on_the_signs():
    spectrum = Arpack()(normalized_adjacency(star(9)), 2, end="magnitude", seed=0, device="cpu")
    assert sorted(spectrum.values.tolist()) == pytest.approx([-1, 1])
    gram = spectrum.embedding @ spectrum.embedding.T
    assert np.abs(gram.numpy() - dense_normalized(star(9))).max() > 0.3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), density=st.floats(0.1, 0.6), rank=st.integers(1, 8))
def test_theorem_3_3_holds_for_rows_divided_by_the_root_of_the_degree(seed, density, rank):
    graph = random_graph(24, density, seed)
    spectrum = Arpack()(normalized_adjacency(graph), rank, end="algebraic", seed=0, device="cpu")
    laplacian_values = 1 - spectrum.values.numpy()
    assume(laplacian_values.max() <= 1)  # the theorem asks for lambda_r <= 1
    rows = spectrum.embedding.numpy() / np.sqrt(np.maximum(graph.degrees, 1e-300))[:, None]
    first, second = graph.edges
    total = (graph.weights * np.square(rows[first] - rows[second]).sum(axis=1)).sum()
    connected = graph.degrees > 0
    # An isolated node has eigenvalue 0 of the adjacency here, which adds (1 - 1) * 1 = 0 on the right as well.
    assert connected.any()
    assert total == pytest.approx(((1 - laplacian_values) * laplacian_values).sum(), abs=1e-5)
    assert total <= 0.25 * rank + 1e-5


def test_theorem_3_3_fails_for_plain_rows_on_a_star():
    graph = star(100)
    spectrum = Arpack()(normalized_adjacency(graph), 1, end="algebraic", seed=0, device="cpu")
    first, second = graph.edges
    rows = spectrum.embedding.numpy()
    # The proof takes v^T L v for the sum of (v_i - v_j)^2, which has degrees in it: here 40 and not 0.25.
    assert np.square(rows[first] - rows[second]).sum() == pytest.approx((10 - 1) ** 2 / 2)


def test_eigengap_counts_communities():
    cliques = sp.kron(sp.eye_array(5), np.ones((12, 12)) - np.eye(12)).tolil()
    for i in range(4):
        cliques[12 * i, 12 * (i + 1)] = cliques[12 * (i + 1), 12 * i] = 0.5
    graph = as_graph(cliques)
    spectrum = Arpack()(normalized_adjacency(graph), 20, end="algebraic", seed=0, device="cpu")
    assert eigengap(spectrum.values) == 5
