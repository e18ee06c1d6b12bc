"""The edges of a graph while an attack flips them one by one."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


class Wiring:
    """A symmetric matrix with loops, kept sorted through every flip.

    Attributes:
        n: number of nodes.
        device: where gradients are computed.
    """

    def __init__(self, adjacency: sp.csr_array, device: str) -> None:
        self.n, self.device = int(adjacency.shape[0]), device
        self._looped = sp.csr_array(adjacency.astype(np.float64) + sp.eye_array(self.n, format="csr"))
        self._looped.sort_indices()

    def flip(self, one: int, other: int) -> None:
        """Join two nodes with weight one, or part them."""
        for row, column in ((one, other), (other, one)):
            start, end = self._looped.indptr[row : row + 2]
            place = start + int(np.searchsorted(self._looped.indices[start:end], column))
            present = place < end and self._looped.indices[place] == column
            if present:
                indices, data = np.delete(self._looped.indices, place), np.delete(self._looped.data, place)
            else:
                indices = np.insert(self._looped.indices, place, column)
                data = np.insert(self._looped.data, place, 1.0)
            indptr = self._looped.indptr.copy()
            indptr[row + 1 :] += -1 if present else 1
            self._looped = sp.csr_array((data, indices, indptr), shape=(self.n, self.n))

    def joined(self, one: int, other: int) -> bool:
        """Whether there is an edge between two nodes."""
        start, end = self._looped.indptr[one : one + 2]
        return bool((self._looped.indices[start:end] == other).any())

    @property
    def degrees(self) -> NDArray[np.float64]:
        """Weighted, the loop of one included."""
        return np.asarray(self._looped.sum(axis=1)).ravel()

    @property
    def counts(self) -> NDArray[np.int64]:
        """Neighbours of each node."""
        return np.asarray(np.diff(self._looped.indptr), dtype=np.int64) - 1

    @property
    def entries(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Row, column and weight of both directions of every edge, without loops."""
        rows = np.repeat(np.arange(self.n), np.diff(self._looped.indptr))
        columns = self._looped.indices.astype(np.int64)
        apart = rows != columns
        return rows[apart], columns[apart], self._looped.data[apart]

    def adjacency(self) -> sp.csr_array:
        """The matrix of the graph as it is now, without loops."""
        rows, columns, weights = self.entries
        return sp.csr_array((weights, (rows, columns)), shape=(self.n, self.n))

    def normalized(self) -> sp.csr_array:
        r""":math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}`."""
        root = 1 / np.sqrt(self.degrees)
        rows = np.repeat(np.arange(self.n), np.diff(self._looped.indptr))
        values = root[rows] * self._looped.data * root[self._looped.indices]
        return sp.csr_array((values, self._looped.indices, self._looped.indptr), shape=(self.n, self.n))
