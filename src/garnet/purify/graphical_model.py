"""The graphical model of section 3.3: its objective, its gradient, and the distortion that approximates it."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.graph import Edges, Graph
from garnet.linalg.edge_products import squared_distances
from garnet.spectral.spectrum import Solver, laplacian

_SOLVE = 1 << 24  # numbers in a block of right-hand sides


def base_embedding(base: Graph, rank: int, sigma2: float, solver: Solver, *, seed: int, device: str) -> Tensor:
    """U of section 3.3: the smallest eigenpairs of the base graph's Laplacian as u_k / sqrt(lambda_k + 1 / sigma^2).

    Vectors that are constant on each component cancel in every difference over an edge, so they are left out, which
    also makes an infinite sigma^2 harmless.

    Args:
        base: the base graph.
        rank: number of columns of U.
        sigma2: prior variance sigma^2 of the graphical model; infinite for Theta = L.
        solver: eigensolver.
        seed: for the solver.
        device: where to put U.
    """
    pieces = connected_components(base.adjacency, directed=False, return_labels=False)
    if pieces > 4 * rank + 100:
        raise ParameterError(
            f"The score 'distortion' needs a base graph in few pieces. This one has {pieces}; raise k, or use "
            "the score 'distance'."
        )
    ceiling = 2.0 * float(base.degrees.max())
    flipped = sp.csr_array(sp.diags_array(np.full(base.num_nodes, ceiling)) - laplacian(base))
    spectrum = solver(flipped, min(rank + pieces, base.num_nodes), end="algebraic", seed=seed, device=device)
    eigenvalues = (ceiling - spectrum.values[pieces:]).clamp_min(1e-9 * ceiling)
    return (spectrum.vectors[:, pieces:] * (eigenvalues + 1 / sigma2).rsqrt()).float()


def distortion(embedding: Tensor, points: Tensor, edges: Edges | Tensor) -> Tensor:
    """Spectral embedding distortion s_ij = ||U^T e_ij||^2 / ||V^T e_ij||^2, shape (m,).

    Args:
        embedding: (n, r) U, on the base graph.
        points: (n, d) V, on the input graph.
        edges: (2, m) edges to score.
    """
    tiny = torch.finfo(points.dtype).tiny
    return squared_distances(embedding, embedding, edges) / squared_distances(points, points, edges).clamp_min(tiny)


def objective(graph: Graph, points: np.ndarray, *, sigma2: float = math.inf, alpha: float = 0.0) -> float:
    """F of equation 2: log det Theta - tr(V V^T Theta) / r - alpha ||Theta||_1 with Theta = L + I / sigma^2.

    With an infinite sigma^2 the determinant is the product of the non-zero eigenvalues of L.

    Args:
        graph: the graph whose Laplacian is L.
        points: (n, r) embedding V.
        sigma2: prior variance.
        alpha: weight of the l1 term.
    """
    theta = laplacian(graph) + sp.diags_array(np.full(graph.num_nodes, 1 / sigma2))
    fit = float((points * (theta @ points)).sum()) / points.shape[1]
    return float(_log_determinant(graph, theta, sigma2) - fit - alpha * abs(theta).sum())


def edge_gradient(
    graph: Graph, points: np.ndarray, edges: Edges, *, sigma2: float = math.inf, alpha: float = 0.0
) -> np.ndarray:
    """dF/dw_ij of equation 4, exactly: e_ij^T Theta^+ e_ij - ||V^T e_ij||^2 / r - 4 alpha, shape (m,).

    The sum over eigenpairs in the paper is the effective resistance of the edge, here by one sparse factorisation.
    Large and positive means critical. An edge between two components has no finite gradient when sigma^2 is infinite.

    Args:
        graph: the graph at which to differentiate.
        points: (n, r) embedding V.
        edges: (2, m) edges, of the graph or not.
        sigma2: prior variance.
        alpha: weight of the l1 term.
    """
    n = graph.num_nodes
    theta = laplacian(graph) + sp.diags_array(np.full(n, 1 / sigma2))
    _, component = connected_components(graph.adjacency, directed=False)
    grounded = _first_of_each(component) if math.isinf(sigma2) else np.empty(0, dtype=np.int64)
    free = np.setdiff1d(np.arange(n), grounded)
    factor = splu(sp.csc_array(theta)[free][:, free])
    resistance = np.empty(edges.shape[1])
    width = max(1, _SOLVE // max(n, 1))
    for start in range(0, edges.shape[1], width):
        u, v = edges[:, start : start + width]
        ends = np.zeros((n, len(u)))
        ends[u, np.arange(len(u))] += 1
        ends[v, np.arange(len(u))] -= 1
        resistance[start : start + width] = (ends[free] * factor.solve(ends[free])).sum(axis=0)
    if len(grounded):
        resistance[component[edges[0]] != component[edges[1]]] = math.inf
    distance = np.square(points[edges[0]] - points[edges[1]]).sum(axis=1)
    gradient: np.ndarray = resistance - distance / points.shape[1] - 4 * alpha
    return gradient


def _log_determinant(graph: Graph, theta: sp.csr_array, sigma2: float) -> float:
    if not math.isinf(sigma2):
        return _log_det(theta)
    # Matrix-tree theorem: the non-zero eigenvalues of a component multiply to its size times any cofactor.
    _, component = connected_components(graph.adjacency, directed=False)
    free = np.setdiff1d(np.arange(graph.num_nodes), _first_of_each(component))
    return float(np.log(np.bincount(component)).sum()) + (_log_det(theta[free][:, free]) if len(free) else 0.0)


def _log_det(matrix: sp.csr_array) -> float:
    factor = splu(sp.csc_array(matrix))
    return float(np.log(np.abs(factor.U.diagonal())).sum())


def _first_of_each(component: np.ndarray) -> np.ndarray:
    return np.unique(component, return_index=True)[1]
