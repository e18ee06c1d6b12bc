"""Node features as a block of coordinates beside the spectral ones (appendix L)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, svds
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.graph import Edges, Graph
from garnet.linalg import dense
from garnet.purify.settings import Features, Scaling
from garnet.spectral.spectrum import normalized_adjacency

_COMPARED = 20_000  # edges, and node pairs, whose similarity is compared
_SHUFFLED_UP_TO = 10_000_000  # endpoints of edges; of more, a sample is drawn


def feature_block(graph: Graph, kind: Features, rank: int | None, *, seed: int, device: str) -> Tensor | None:
    """Coordinates of the nodes' features, shape (n, d), or None.

    Args:
        graph: the graph with features X.
        kind: `none`; `raw`, X itself; `low-rank`, the leading singular directions of X with unit rows, which drop what
            a feature attack adds; `propagated`, A (A X) / 2 with the normalised adjacency A; `auto`, low-rank if the
            graph has features.
        rank: how many singular directions to keep of low-rank and propagated features; None keeps X as it is.
        seed: of the truncated decomposition.
        device: where to put the block.
    """
    matrix = require_features(graph, kind)
    if matrix is None:
        return None
    if kind == "propagated":
        step = normalized_adjacency(graph).astype(np.float32)
        matrix = step @ (step @ matrix) / 2
    if kind != "raw" and rank is not None:
        block = _singular_coordinates(unit_rows(matrix), rank, seed)
    else:
        block = _dense(matrix)
    return torch.from_numpy(np.ascontiguousarray(block, dtype=np.float32)).to(device)


@dataclass(frozen=True, eq=False, kw_only=True)
class Described:
    """How features become coordinates, for nodes that arrive later.

    Attributes:
        block: (n, d) coordinates of the known nodes, scaled and weighted.
        directions: (f, d) on which the unit rows of features are projected; None if coordinates are the features
            themselves, or include those of neighbours.
        kind: the kind of block; see `feature_block`.
        scaling: how the block was scaled.
        weight: the weight of the block.
        width: number of features, f.
    """

    block: Tensor
    directions: Tensor | None
    kind: Features
    scaling: Scaling
    weight: float
    width: int

    @classmethod
    def of(
        cls, graph: Graph, kind: Features, rank: int | None, *, scaling: Scaling, weight: float, seed: int
    ) -> Described | None:
        """The description for a graph; see `feature_block`. None if there are no features, or they weigh nothing."""
        block = feature_block(graph, kind, rank, seed=seed, device="cpu") if kind != "none" and weight else None
        if block is None:
            return None
        directions = None
        if kind not in ("raw", "propagated") and rank is not None:
            # With X = U S W^T, the block is B = X W, so that W = X^T B (B^T B)^-1.
            found = block.double().numpy()
            directions = torch.from_numpy(product(unit_rows(graph.features).T, found) @ np.linalg.pinv(found.T @ found))
        block = weight * scale(block, scaling)
        return cls(
            block=block, directions=directions, kind=kind, scaling=scaling, weight=weight, width=graph.num_features
        )

    @property
    def takes_new(self) -> bool:
        """Whether a node's own features are enough."""
        return self.kind != "propagated"

    def coordinates(self, rows: NDArray[np.float64]) -> Tensor:
        """(k, d) in float32, coordinates of nodes with the features `rows`, (k, f)."""
        if self.directions is not None:
            rows = product(unit_rows(rows), self.directions.numpy())
        return self.weight * scale(torch.from_numpy(rows).float(), self.scaling)


def require_features(graph: Graph, kind: Features) -> Any:
    """The features of a graph, or None if none are wanted.

    Raises:
        ParameterError: they are wanted, and the graph has none.
    """
    if kind == "none" or (kind == "auto" and not graph.num_features):
        return None
    if not graph.num_features:
        raise ParameterError(f"The 'features' parameter of GARNET is {kind!r}, but the graph has no features.")
    return graph.features


def scale(block: Tensor, scaling: Scaling) -> Tensor:
    """Put a block of coordinates on a common scale: unit rows (a zero row stays), or scaled columns."""
    if scaling == "unit":
        peaks = block.abs().amax(dim=1, keepdim=True)  # first, so that no square leaves float32's range
        block = torch.where(peaks > 0, block / torch.where(peaks > 0, peaks, 1.0), 0.0)
        lengths = block.norm(dim=1, keepdim=True)
        return block / torch.where(lengths > 0, lengths, 1.0)
    if scaling == "standardize":
        spread = block.std(dim=0, correction=0)
        return (block - block.mean(dim=0)) / torch.where(spread > 0, spread, 1.0)
    if scaling == "minmax":
        low, high = block.amin(dim=0), block.amax(dim=0)
        return (block - low) / torch.where(high > low, high - low, 1.0)
    return block


def alikeness(rows: Tensor | Callable[[Tensor], Tensor], edges: Edges | Tensor, *, seed: int = 0) -> float:
    """How much more alike joined nodes are than others: 1 if always, 0 if no more than by chance.

    It is Somers' d: the share of comparisons that an edge wins, less the share that it loses, against pairs of the same
    nodes joined at random.

    Args:
        rows: (n, d) features, rows of equal length; or a function that returns those of some nodes.
        edges: (2, m) edges.
        seed: of the random pairs, and of the sample of edges if there are many.
    """
    take = rows.__getitem__ if isinstance(rows, Tensor) else rows
    edges = torch.as_tensor(edges).cpu().numpy()
    if not edges.shape[1]:
        return 0.0

    def alike(ends: NDArray[np.int64]) -> NDArray[np.float32]:
        first, second = take(torch.from_numpy(ends.reshape(-1))).reshape(2, ends.shape[1], -1)
        likeness: NDArray[np.float32] = (first * second).sum(dim=1).cpu().numpy()
        return likeness

    rng = np.random.default_rng(seed)
    sample = edges
    if edges.shape[1] > _COMPARED:
        sample = edges[:, rng.choice(edges.shape[1], _COMPARED, replace=False)]
    ends = edges.ravel()
    if len(ends) <= _SHUFFLED_UP_TO:
        shuffled = np.stack([rng.permutation(ends)[:_COMPARED], rng.permutation(ends)[:_COMPARED]])
    else:
        shuffled = ends[rng.integers(len(ends), size=(2, _COMPARED))]
    true, chance = alike(sample), alike(shuffled)
    # Against many random pairs at once; ties count as neither.
    chance.sort()
    wins = np.searchsorted(chance, true, side="left").sum(dtype=np.float64)
    losses = (len(chance) - np.searchsorted(chance, true, side="right")).sum(dtype=np.float64)
    return float((wins - losses) / (len(true) * len(chance)))


def _dense(matrix: Any) -> np.ndarray:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)


def unit_rows(matrix: Any) -> Any:
    """Rows of length one, in float64; a zero row stays."""
    lengths = row_lengths(matrix)
    lengths = np.where(lengths > 0, lengths, 1)
    if sp.issparse(matrix):
        return sp.csr_array(sp.diags_array(1 / lengths) @ matrix.astype(np.float64))
    return matrix.astype(np.float64) / lengths[:, None]


def row_lengths(matrix: Any) -> np.ndarray:
    """(n,) lengths of the rows, in float64."""
    matrix = matrix.astype(np.float64)
    squares = matrix.multiply(matrix) if sp.issparse(matrix) else matrix * matrix
    lengths: np.ndarray = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    return lengths


def _singular_coordinates(matrix: Any, rank: int, seed: int) -> np.ndarray:
    """X W, with W the leading right singular vectors of X: the rank-r approximation in its own coordinates."""
    rows, columns = matrix.shape
    rank = min(rank, rows, columns)
    if not abs(matrix).max():
        return np.zeros((rows, rank))
    if rows <= 512 and rows < columns:
        values, vectors = dense.eigh(torch.from_numpy(product(matrix, matrix.T)))
        return (vectors.flip(1)[:, :rank] * values.flip(0)[:rank].clamp_min(0).sqrt()).numpy()
    if columns <= 512 or rank > min(rows, columns) // 3:
        directions = leading_directions(product(matrix.T, matrix), rank)
    else:
        start = np.random.default_rng(seed).standard_normal(min(rows, columns))
        directions = svds(_operator(matrix), k=rank, v0=start, tol=1e-6)[2][::-1].T
    return product(matrix, directions)


def leading_directions(squares: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """The leading right singular vectors of X, by way of X^T X, (d, rank)."""
    leading: NDArray[np.float64] = dense.eigh(torch.from_numpy(squares))[1].flip(1)[:, :rank].numpy()
    return leading


def product(matrix: Any, other: Any) -> NDArray[np.float64]:
    """A product in dense form."""
    if sp.issparse(matrix):
        return _dense(matrix @ other)
    columns = np.ascontiguousarray(other).reshape(len(other), -1)
    return dense.product(torch.from_numpy(matrix), torch.from_numpy(columns)).numpy()


def _operator(matrix: Any) -> Any:
    """The operator that `svds` multiplies with."""
    if sp.issparse(matrix):
        return matrix

    def times(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        return product(matrix, vectors)

    def transposed_times(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        return product(matrix.T, vectors)

    return LinearOperator(
        matrix.shape, matvec=times, matmat=times, rmatvec=transposed_times, rmatmat=transposed_times, dtype=np.float64
    )
