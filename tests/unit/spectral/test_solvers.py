import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from garnet import as_graph
from garnet.datasets import block_model, cora
from garnet.errors import ConvergenceError, ConvergenceWarning
from garnet.linalg.device_graph import Resident
from garnet.linalg.sparse import to_rows
from garnet.spectral import Arpack, Chebyshev, choose_solver
from garnet.spectral.block_space import lifting
from garnet.spectral.density import largest, level
from garnet.spectral.operator import Operator
from garnet.spectral.ordering import clustered, permuted
from garnet.spectral.spectrum import normalized_adjacency

SOLVERS = {"arpack": Arpack(), "chebyshev": Chebyshev()}
ENDS = ("algebraic", "magnitude")


def graph_matrix(n=900, **parameters):
    return normalized_adjacency(block_model(n, mean_degree=8, seed=2, **parameters))


def leading(values, end, rank):
    return np.sort(values)[::-1][:rank] if end == "algebraic" else values[np.argsort(-np.abs(values))][:rank]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
@pytest.mark.parametrize(
    "matrix",
    [
        graph_matrix(),
        graph_matrix(homophily=0.05, classes=2),
        block_model(700, mean_degree=6, seed=5).adjacency.astype(np.float64),
        pytest.param(normalized_adjacency(cora(), tau=4.0), marks=pytest.mark.slow),
    ],
    ids=["homophilic", "nearly bipartite", "not normalised", "cora regularised"],
)
def test_pairs_are_those_of_a_dense_solver(solver, end, matrix):
    spectrum = solver(matrix, 12, end=end, seed=0, device="cpu")
    values, vectors = np.linalg.eigh(matrix.toarray())
    top = np.abs(values).max()
    np.testing.assert_allclose(spectrum.values, leading(values, end, 12), atol=1e-5 * top)
    mine = spectrum.vectors.double().numpy()
    np.testing.assert_allclose(mine.T @ mine, np.eye(12), atol=1e-4)
    truth = vectors[:, np.isin(values, leading(values, end, 12))]
    cosines = np.linalg.svd(truth.T @ mine, compute_uv=False)
    assert cosines.min() > 0.999


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_residuals_are_what_they_say(solver):
    matrix = graph_matrix(n=1500)
    spectrum = solver(matrix, 10, end="algebraic", seed=0, device="cpu")
    vectors, values = spectrum.vectors.double().numpy(), spectrum.values.double().numpy()
    true = np.linalg.norm(matrix @ vectors - vectors * values, axis=0)
    np.testing.assert_allclose(spectrum.residuals, true, atol=2e-6)
    assert spectrum.residuals.max() <= 1e-4
    assert spectrum.products > 0


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_every_copy_of_a_multiple_eigenvalue_is_found(solver):
    # 60 pieces: the eigenvalue 1 has 60 vectors, far more than a block of 16 columns can tell apart by itself.
    pieces = [
        block_model(int(size), classes=1, mean_degree=6, seed=i).adjacency for i, size in enumerate(range(20, 80))
    ]
    graph = as_graph(sp.block_diag(pieces))
    spectrum = solver(normalized_adjacency(graph), 40, end="algebraic", seed=0, device="cpu")
    np.testing.assert_allclose(spectrum.values, 1, atol=1e-4)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(40), atol=1e-4)


def numbered(pairs, n):
    return as_graph((np.array(pairs).reshape(-1, 2).T, n), symmetrize=True)


HARD = {
    "star": numbered([(0, i) for i in range(1, 3000)], 3000),
    "complete bipartite": as_graph(sp.block_array([[None, np.ones((10, 2000))], [np.ones((2000, 10)), None]])),
    "complete": as_graph(np.ones((1200, 1200)) - np.eye(1200)),
    "matching": numbered([(2 * i, 2 * i + 1) for i in range(1000)], 2000),
    "one edge": numbered([(0, 1)], 2000),
    "cycle": numbered([(i, (i + 1) % 2000) for i in range(2000)], 2000),
    "hypercube": numbered([(i, i ^ (1 << b)) for i in range(2048) for b in range(11)], 2048),
    "tree": numbered([(i, (i - 1) // 3) for i in range(1, 2000)], 2000),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("graph", HARD.values(), ids=HARD)
@pytest.mark.slow
def test_matrices_of_low_rank_and_with_many_equal_eigenvalues(graph, end):
    matrix = normalized_adjacency(graph)
    spectrum = Chebyshev()(matrix, 50, end=end, seed=0, device="cpu")
    truth = leading(np.linalg.eigvalsh(matrix.toarray()), end, 50)
    size = np.abs if end == "magnitude" else np.asarray  # of two that differ in sign, either may come first
    np.testing.assert_allclose(size(spectrum.values.numpy()), size(truth), atol=1e-4)
    np.testing.assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(50), atol=1e-4)


@pytest.mark.parametrize("weight", [1e-30, 1e30])
def test_eigenvalues_of_any_size(weight):
    matrix = block_model(1500, seed=0).adjacency.astype(np.float64)
    small, large = (Chebyshev()(m, 5, end="algebraic", seed=0, device="cpu") for m in (matrix, matrix * weight))
    np.testing.assert_allclose(large.values.double() / weight, small.values.double(), rtol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
def test_same_seed_same_bytes_and_another_seed_the_same_space(solver):
    matrix = graph_matrix()
    one, two, other = (solver(matrix, 10, end="algebraic", seed=seed, device="cpu") for seed in (4, 4, 5))
    assert torch.equal(one.vectors, two.vectors)
    assert torch.linalg.svdvals(one.vectors.T @ other.vectors).min() > 0.999


def test_stopping_short_is_a_warning_with_the_residual_or_an_error_when_strict():
    matrix = graph_matrix()
    with pytest.warns(ConvergenceWarning, match=r"stopped at a residual of .* where 1\.0e-04 was asked for"):
        spectrum = Chebyshev(max_products=60)(matrix, 20, end="algebraic", seed=0, device="cpu")
    assert spectrum.residuals.max() > 1e-4
    with pytest.raises(ConvergenceError, match="stopped at a residual"):
        Chebyshev(max_products=60, strict=True)(matrix, 20, end="algebraic", seed=0, device="cpu")


def test_rank_close_to_the_size_of_the_graph():
    matrix = graph_matrix(n=120)
    for solver in SOLVERS.values():
        spectrum = solver(matrix, 100, end="algebraic", seed=0, device="cpu")
        np.testing.assert_allclose(spectrum.values, np.linalg.eigvalsh(matrix.toarray())[::-1][:100], atol=1e-6)


def test_an_operator_multiplies_as_its_matrix_does_and_counts():
    matrix = graph_matrix()
    operator = Operator(matrix, "cpu")
    block = torch.randn(matrix.shape[0], 5, generator=torch.Generator().manual_seed(0))
    image = operator.scale * operator.restore(operator @ block)
    np.testing.assert_allclose(image, matrix @ operator.restore(block).numpy(), atol=1e-5)
    assert operator.products == 5


def test_a_matrix_that_is_on_the_device_already_gives_the_same_pairs():
    graph = block_model(3000, mean_degree=8, seed=5)
    matrix = Resident.of(graph).normalized(1.0)
    found = Chebyshev(tol=1e-5)(matrix, 10, end="algebraic", seed=0, device="cpu")
    expected = Chebyshev(tol=1e-5)(matrix.to_scipy(), 10, end="algebraic", seed=0, device="cpu")
    np.testing.assert_allclose(found.values, expected.values, atol=1e-5)
    assert torch.linalg.svdvals(found.vectors.T @ expected.vectors).min() > 0.999


@pytest.mark.parametrize("end", ENDS)
def test_a_filter_is_the_chebyshev_polynomial_of_the_shifted_matrix(end):
    matrix = graph_matrix(n=300)
    operator = Operator(matrix, "cpu")
    block = torch.randn(300, 3, generator=torch.Generator().manual_seed(1))
    image = operator.restore(operator.filtered(block, lifting(0.6, 1.0, 50.0, end))).double().numpy()
    low = -0.6 if end == "magnitude" else -1.0
    mapped = (matrix.toarray() / operator.scale - (0.6 + low) / 2 * np.eye(300)) / ((0.6 - low) / 2)
    values, vectors = np.linalg.eigh(mapped)
    start = operator.restore(block).double().numpy()
    errors = []
    for degree in range(1, 12):
        polynomial = np.polynomial.chebyshev.Chebyshev.basis(degree)(values)
        errors.append(np.abs(vectors * polynomial @ vectors.T @ start - image).max())
    degree = 1 + int(np.argmin(errors))
    assert errors[degree - 1] < 1e-3
    assert abs(np.polynomial.chebyshev.Chebyshev.basis(degree)((1 - (0.6 + low) / 2) / ((0.6 - low) / 2))) > 10
    assert end == "algebraic" or degree % 2 == 1


def test_the_edges_of_a_spectrum_are_found_without_eigenvectors():
    matrix = graph_matrix(n=2000)
    operator = Operator(matrix, "cpu")
    top, error = largest(operator)
    values = np.linalg.eigvalsh(matrix.toarray()) / operator.scale
    assert top == pytest.approx(values.max(), abs=1e-3)
    assert error < 1e-2
    probes = torch.randn(2000, 8, generator=torch.Generator().manual_seed(0))
    for count in (100, 400):
        found = level(operator, probes, count, 1.01 * top, "algebraic")
        assert 0.5 * count < (values > found).sum() < 1.6 * count


def test_small_graphs_get_arpack_and_large_ones_the_filter():
    assert isinstance(choose_solver(1_000), Arpack)
    assert isinstance(choose_solver(100_000), Chebyshev)


def test_a_converged_solve_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Chebyshev()(graph_matrix(), 5, end="algebraic", seed=0, device="cpu")
        assert Arpack()(graph_matrix(), 5, end="algebraic", seed=0, device="cpu").rank == 5


def test_a_basis_that_fills_up_is_restarted_from_the_pairs_that_lag_behind():
    # The 50th eigenvalue lies at the crowded edge of the bulk, 3e-4 from the next.
    graph = block_model(6000, mean_degree=7, classes=8, seed=3)
    matrix = normalized_adjacency(graph, tau=float(graph.degrees.mean()))
    spectrum = Chebyshev(tol=1e-5, strict=True)(matrix, 50, end="algebraic", seed=0, device="cpu")
    truth = Arpack(tol=1e-10)(matrix, 50, end="algebraic", seed=0, device="cpu")
    np.testing.assert_allclose(spectrum.values, truth.values, atol=1e-6)
    assert torch.linalg.svdvals(spectrum.vectors.double().T @ truth.vectors).min() > 0.9999


def test_renumbering_changes_neither_a_matrix_nor_its_spectrum(monkeypatch):
    graph = block_model(600, seed=3)
    matrix = normalized_adjacency(graph)
    rows = to_rows(matrix, "cpu")
    order = clustered(rows, torch.Generator().manual_seed(0))
    assert torch.equal(order.sort().values, torch.arange(600))
    expected = matrix.toarray()[order][:, order]
    np.testing.assert_allclose(permuted(rows, order).to_scipy().toarray(), expected, rtol=1e-6)
    plain = Chebyshev()(rows, 20, end="algebraic", seed=0, device="cpu")
    monkeypatch.setattr("garnet.spectral.operator._CACHED", 100)
    renumbered = Chebyshev()(rows, 20, end="algebraic", seed=0, device="cpu")
    torch.testing.assert_close(renumbered.values, plain.values, atol=1e-5, rtol=0)
    apart = matrix @ renumbered.vectors.double().numpy() - renumbered.vectors.numpy() * renumbered.values.numpy()
    assert np.linalg.norm(apart, axis=0).max() < 2e-4


def test_nodes_of_a_cluster_follow_each_other():
    graph = block_model(3000, mean_degree=20, seed=1)
    order = clustered(to_rows(normalized_adjacency(graph), "cpu"), torch.Generator().manual_seed(0))
    place = torch.empty_like(order)
    place[order] = torch.arange(3000)
    first, second = graph.edges
    apart = (place[first] - place[second]).abs().float().mean()
    assert apart < 0.5 * 1000  # of nodes that are chosen at random: a third of them all
