"""The weighted spectral embedding of a graph: the paper's V (definition 3.1)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.errors import RankWarning
from garnet.graph.graph import Graph

End = Literal["algebraic", "magnitude"]
"""Which end of the spectrum leads: the largest eigenvalues, or those of largest absolute value."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The leading eigenpairs of a symmetric matrix.

    Attributes:
        values: (r,) eigenvalues, the leading one first.
        vectors: (n, r) orthonormal eigenvectors U.
        residuals: (r,) norms of A u - u lambda, the solver's stopping criterion.
        products: number of matrix-vector products.
    """

    values: Tensor
    vectors: Tensor
    residuals: Tensor
    products: int

    @property
    def rank(self) -> int:
        """Number of eigenpairs, r."""
        return len(self.values)

    @cached_property
    def embedding(self) -> Tensor:
        """`V = U |L|^(1/2)`, shape (n, r): one row per node (definition 3.1)."""
        return self.vectors * self.values.abs().sqrt()

    def inner(self, u: Tensor, v: Tensor) -> Tensor:
        """Entries (u, v) of U L U^T, the rank-r matrix nearest to the input (proposition 3.2)."""
        return ((self.vectors[u] * self.values) * self.vectors[v]).sum(dim=1)

    def scatter(self, nodes: Tensor, n: int) -> Spectrum:
        """The same pairs on `n` nodes, of which only `nodes` were in the matrix; other rows are zero."""
        if len(nodes) == n:
            return self
        vectors = self.vectors.new_zeros(n, self.rank)
        vectors[nodes.to(vectors.device)] = self.vectors
        return Spectrum(self.values, vectors, self.residuals, self.products)

    def truncate(self, rank: int) -> Spectrum:
        """The first `rank` pairs."""
        return Spectrum(self.values[:rank], self.vectors[:, :rank], self.residuals[:rank], self.products)


@runtime_checkable
class Solver(Protocol):
    """Anything that finds the leading eigenpairs of a symmetric CSR matrix."""

    def __call__(self, matrix: sp.csr_array, rank: int, *, end: End, seed: int, device: str) -> Spectrum:
        """The `rank` leading eigenpairs of the (n, n) `matrix`, with tensors on `device`."""


def normalized_adjacency(graph: Graph, tau: float = 0.0) -> sp.csr_array:
    """(D + tau I)^(-1/2) A (D + tau I)^(-1/2) in float64; rows of isolated nodes are zero.

    Args:
        graph: the graph with adjacency A and weighted degrees D.
        tau: degree regularisation. A value near the mean degree moves the leading eigenvectors away from dangling
            corners of the graph, and widens the gaps whose smallness slows an eigensolver.
    """
    degrees = graph.degrees
    connected = degrees > 0
    scale = np.zeros_like(degrees)
    scale[connected] = (degrees[connected] + tau) ** -0.5
    matrix = graph.adjacency.astype(np.float64)
    rows = np.repeat(scale, np.diff(matrix.indptr))
    return sp.csr_array((matrix.data * rows * scale[matrix.indices], matrix.indices, matrix.indptr), matrix.shape)


def laplacian(graph: Graph) -> sp.csr_array:
    """The combinatorial Laplacian D - A in float64."""
    return sp.csr_array(sp.diags_array(graph.degrees) - graph.adjacency.astype(np.float64))


def spread_components(component: Tensor, rank: int) -> Tensor:
    """The nodes that the spectrum should separate, sorted: those of components with more than `rank` nodes.

    Every component adds an eigenvalue 1 whose vector shows only which nodes belong to it. The many small components of
    a real graph would use up the whole rank, and leave the large ones without an embedding. If no component is large,
    all nodes count.

    Args:
        component: (n,) component number of each node.
        rank: number of eigenpairs asked for.
    """
    sizes = torch.bincount(component)
    large = (sizes[component] > rank).nonzero()[:, 0]
    if (several := int((sizes > rank).sum())) > rank:
        warnings.warn(
            f"The graph has {several} components of more than {rank} nodes, and as many eigenpairs only tell those "
            f"apart; raise the rank above {several}, or regularise the degrees with tau='mean'.",
            RankWarning,
            stacklevel=2,
        )
    return large if len(large) else torch.arange(len(component), device=component.device)


def eigengap(values: Tensor, least: int = 2) -> int:
    """The rank after which the leading eigenvalues drop most, never below `least` (appendix F)."""
    if len(values) <= least:
        return len(values)
    drops = values.abs()[least - 1 : -1] - values.abs()[least:]
    return least + int(drops.argmax())
