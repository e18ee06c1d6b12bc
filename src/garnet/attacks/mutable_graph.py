"""The edges of a graph while an attack flips them one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Nodes = NDArray[np.int64]
Floats = NDArray[np.float64]


class MutableGraph:
    """A symmetric sparse matrix in which pairs of nodes are joined, with weight one, and parted.

    A flip costs the two rows that it touches, however large the graph is. The whole matrix is put together when
    somebody asks for it.

    Args:
        adjacency: of the graph, with sorted rows; it stays as it is.
        loops: whether every node has a loop of weight one, which makes the matrix A + I, in float64.
    """

    def __init__(self, adjacency: sp.csr_array, *, loops: bool) -> None:
        self.n, self._loops, self._matrix = int(adjacency.shape[0]), int(loops), adjacency
        if loops:
            self._matrix = sp.csr_array(adjacency.astype(np.float64) + sp.eye_array(self.n, format="csr"))
            self._matrix.sort_indices()
        # Rows that are not yet as they are in the matrix, and the other ends of all that was flipped.
        self._rows: dict[int, tuple[Nodes, Floats]] = {}
        self._flipped: dict[int, tuple[int, ...]] = {}

    def copy(self) -> MutableGraph:
        """One that can be flipped by itself."""
        other = MutableGraph(self.matrix, loops=False)
        other._loops, other._flipped = self._loops, dict(self._flipped)
        return other

    def flip(self, one: int, other: int) -> float:
        """Join two nodes, or part them; by how much the weight between them changed."""
        weight = self.weight(one, other)
        for node, end in ((one, other), (other, one)):
            columns, weights = self.row(node)
            place = int(np.searchsorted(columns, end))
            if weight:
                self._rows[node] = np.delete(columns, place), np.delete(weights, place)
            else:
                self._rows[node] = np.insert(columns, place, end), np.insert(weights, place, 1.0)
            self._flipped[node] = (*self._flipped.get(node, ()), end)
        return -weight if weight else 1.0

    def row(self, node: int) -> tuple[Nodes, Floats]:
        """The neighbours of a node, ascending, and the weights of its edges to them; its loop is among them."""
        if node in self._rows:
            return self._rows[node]
        inside = slice(*self._matrix.indptr[node : node + 2])
        return self._matrix.indices[inside].astype(np.int64), self._matrix.data[inside].astype(np.float64)

    def weight(self, one: int, other: int) -> float:
        """Of the edge between two nodes, zero if there is none."""
        columns, weights = self.row(one)
        return float(weights[columns == other].sum())

    def flipped(self, node: int) -> tuple[int, ...]:
        """The other ends of its pairs that were flipped."""
        return self._flipped.get(node, ())

    @property
    def matrix(self) -> sp.csr_array:
        """The matrix as it is now."""
        if self._rows:
            old, counts = self._matrix, np.diff(self._matrix.indptr)
            changed = sorted(self._rows)
            counts[changed] = [len(self._rows[node][0]) for node in changed]
            starts = np.concatenate([[0], np.cumsum(counts)]).astype(old.indptr.dtype)
            columns, weights = (
                _spliced(part, old.indptr, {node: self._rows[node][place] for node in changed})
                for place, part in enumerate((old.indices, old.data))
            )
            self._matrix, self._rows = sp.csr_array((weights, columns, starts), shape=old.shape), {}
        return self._matrix

    @property
    def counts(self) -> Nodes:
        """Neighbours of each node, loops left out."""
        return np.asarray(np.diff(self.matrix.indptr), dtype=np.int64) - self._loops

    @property
    def degrees(self) -> Floats:
        """Sums of the rows, loops included."""
        return np.asarray(self.matrix.sum(axis=1)).ravel()

    @property
    def entries(self) -> tuple[Nodes, Nodes, Floats]:
        """Row, column and weight of both directions of every edge, without loops."""
        rows, columns = np.repeat(np.arange(self.n), np.diff(self.matrix.indptr)), self.matrix.indices.astype(np.int64)
        apart = rows != columns
        return rows[apart], columns[apart], self.matrix.data[apart]

    def normalized(self) -> sp.csr_array:
        r""":math:`D^{-1/2} M D^{-1/2}` of the matrix M, whose rows have the sums D."""
        matrix, root = self.matrix, 1 / np.sqrt(self.degrees)
        rows = np.repeat(np.arange(self.n), np.diff(matrix.indptr))
        values = root[rows] * matrix.data * root[matrix.indices]
        return sp.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _spliced(values: NDArray[Any], starts: NDArray[Any], rows: dict[int, NDArray[Any]]) -> NDArray[Any]:
    """What a matrix of compressed rows holds, with some rows, in their order, in the place of its own."""
    pieces, begin = [], 0
    for node, row in rows.items():
        pieces += [values[begin : starts[node]], row.astype(values.dtype)]
        begin = starts[node + 1]
    return np.concatenate([*pieces, values[begin:]])
