"""The adjacency of a graph on the device where it is processed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.linalg.sparse import SparseRows, row_pieces, row_sums


@dataclass(frozen=True, eq=False)
class Resident:
    """Compressed rows of an adjacency; on a CPU nothing is copied.

    Attributes:
        starts: (n + 1,) where each row begins.
        columns: (nnz,) neighbours, sorted within each row.
        weights: (nnz,) float32.
    """

    starts: Tensor
    columns: Tensor
    weights: Tensor

    @classmethod
    def of(cls, graph: Graph, device: str = "cpu") -> Resident:
        """The adjacency of a graph."""
        matrix = graph.adjacency if graph.adjacency.has_sorted_indices else graph.adjacency.sorted_indices()
        starts, columns, weights = (
            torch.from_numpy(part).to(device) for part in (matrix.indptr, matrix.indices, matrix.data)
        )
        # Halves the bytes of every product.
        narrow = device != "cpu" and max(matrix.nnz, *matrix.shape) < 2**31
        return cls(starts.int(), columns.int(), weights) if narrow else cls(starts, columns, weights)

    def joining(self, new: Tensor, weight: float) -> Resident:
        """The same with additional new undirected edges, (2, p), all of one weight."""
        n, device = self.num_nodes, self.starts.device
        keys = torch.cat([numbers(new[0], new[1], n), numbers(new[1], new[0], n)]).sort().values.to(device)
        place = torch.searchsorted(numbers(self.rows, self.columns, n), keys) + torch.arange(len(keys), device=device)
        old = torch.ones(len(self.columns) + len(keys), dtype=torch.bool, device=device)
        old[place] = False
        columns, weights = self.columns.new_empty(len(old)), self.weights.new_full((len(old),), weight)
        columns[old], weights[old] = self.columns, self.weights
        columns[place] = (keys % max(n, 1)).to(columns)
        more = torch.bincount(torch.div(keys, max(n, 1), rounding_mode="floor"), minlength=n).cumsum(0)
        starts = self.starts.clone()
        starts[1:] += more.to(starts)
        return Resident(starts, columns, weights)

    def looped(self) -> Resident:
        """A + I, where A has no loops; each loop leads its row."""
        nodes = torch.arange(self.num_nodes, device=self.starts.device)
        starts = self.starts.long() + torch.arange(len(self.starts), device=nodes.device)
        old = torch.ones(len(self.columns) + len(nodes), dtype=torch.bool, device=nodes.device)
        old[starts[:-1]] = False
        columns, weights = self.columns.new_empty(len(old)), self.weights.new_ones(len(old))
        columns[old], weights[old] = self.columns, self.weights
        columns[starts[:-1]] = nodes.to(columns)
        return Resident(starts.to(self.starts), columns, weights)

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> Tensor:
        """Neighbours of each node, (n,)."""
        return self.starts.long().diff()

    @property
    def rows(self) -> Tensor:
        """The row of each entry, (nnz,). A GPU recomputes them each time: it has more time than memory."""
        return self._made_rows() if self.starts.is_cuda else self._kept_rows

    @property
    def edges(self) -> Tensor:
        """The undirected edges, (2, m); likewise."""
        return self._made_edges() if self.starts.is_cuda else self._kept_edges

    @cached_property
    def _kept_rows(self) -> Tensor:
        return self._made_rows()

    @cached_property
    def _kept_edges(self) -> Tensor:
        return self._made_edges()

    def _made_rows(self) -> Tensor:
        return torch.arange(self.num_nodes, device=self.starts.device).to(self.columns).repeat_interleave(self.counts)

    def _made_edges(self) -> Tensor:
        edges = self.columns.new_empty(2, len(self.columns) // 2, dtype=torch.int64)
        upper = self.columns > (rows := self.rows)
        edges[0], edges[1] = rows[upper], self.columns[upper]
        return edges

    @property
    def edge_weights(self) -> Tensor:
        """The weight of each of `edges`, (m,)."""
        return self.weights[self.columns > self.rows]

    @cached_property
    def degrees(self) -> Tensor:
        """Weighted degree of each node, (n,) float64."""
        return row_sums(self.matrix())

    def components(self) -> Tensor:
        """A number for each node, (n,), equal for nodes joined by a path."""
        if self.starts.device.type == "cpu":
            return torch.from_numpy(connected_components(self.matrix().to_scipy(), directed=False)[1]).long()
        return self.least_of_component()

    def least_of_component(self) -> Tensor:
        """For each node the smallest number of a node joined to it by a path, (n,).

        Every node takes the smallest number among its neighbours, then that of the node with this number.
        """
        label = torch.arange(self.num_nodes, device=self.starts.device)
        while True:
            least = label.clone()
            for nodes, entries in row_pieces(self.starts):
                rows = torch.arange(nodes.start, nodes.stop, device=label.device).repeat_interleave(self.counts[nodes])
                least.scatter_reduce_(0, rows, label[self.columns[entries].long()], "amin")
            least = least.scatter_reduce(0, label, least, "amin")
            while not torch.equal(further := least[least], least):
                least = further
            if torch.equal(least, label):
                return label
            label = least

    def matrix(self) -> SparseRows:
        """A itself."""
        return SparseRows(self.starts, self.columns, self.weights, self.num_nodes)

    def normalized(self, tau: float) -> SparseRows:
        """(D + tau I)^(-1/2) A (D + tau I)^(-1/2), whose entries are at most 1: in float64, or on a GPU in float32.

        See `garnet.spectral.spectrum.normalized_adjacency`.
        """
        root = torch.where(self.degrees > 0, (self.degrees + tau).rsqrt(), 0.0)
        values = torch.empty_like(self.weights, dtype=torch.float32 if self.weights.is_cuda else torch.float64)
        for nodes, entries in row_pieces(self.starts):
            scaled = self.weights[entries].double() * root[nodes].repeat_interleave(self.counts[nodes])
            values[entries] = scaled * root[self.columns[entries]]
        return SparseRows(self.starts, self.columns, values, self.num_nodes)


def restricted(matrix: SparseRows, nodes: Tensor) -> SparseRows:
    """Rows and columns of some sorted nodes that no entry joins to any others."""
    counts = matrix.starts.long().diff()
    chosen = torch.zeros(matrix.width, dtype=torch.bool, device=nodes.device)
    chosen[nodes] = True
    entries = chosen.repeat_interleave(counts)
    number = (chosen.long().cumsum(0) - 1).to(matrix.columns)
    starts = torch.cat([counts.new_zeros(1), counts[nodes].cumsum(0)])
    columns = number[matrix.columns[entries]]
    return SparseRows(starts.to(matrix.starts), columns, matrix.values[entries], len(nodes))


def joined(edges: Tensor, weights: Tensor, n: int) -> sp.csr_array:
    """The adjacency of undirected edges (2, m), each once with the smaller node first, and weights (m,).

    A graph made from it needs no further check: it is symmetric by construction.
    """
    if edges.device.type == "cpu":
        first, second = (edges.int() if n < 2**31 else edges).numpy()
        upper = sp.coo_array((weights.numpy(), (first, second)), shape=(n, n)).tocsr()
        matrix = sp.csr_array(upper + upper.T)
        matrix.sort_indices()
        return matrix
    return joined_by_sorting(edges, weights, n)


def joined_by_sorting(edges: Tensor, weights: Tensor, n: int) -> sp.csr_array:
    """The same by sorting both directions of each edge, some rows at a time, which is fast on a GPU."""
    counts = torch.bincount(edges.flatten(), minlength=n)
    starts = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    narrow = torch.int32 if 2 * len(weights) < 2**31 else torch.int64
    # Copying from a GPU is many times faster into memory that all threads have touched.
    columns = torch.empty(2 * len(weights), dtype=narrow).zero_()
    values = torch.empty(2 * len(weights)).zero_()
    for nodes, entries in row_pieces(starts):
        sides = [(edges[i] >= nodes.start) & (edges[i] < nodes.stop) for i in (0, 1)]
        keys = torch.cat([numbers(edges[i][side], edges[1 - i][side], n) for i, side in enumerate(sides)])
        keys, order = keys.sort()
        columns[entries].copy_((keys % max(n, 1)).to(narrow))
        values[entries].copy_(torch.cat([weights[side] for side in sides])[order])
    parts = (part.cpu().numpy() for part in (values, columns, starts.to(narrow)))
    matrix = sp.csr_array(tuple(parts), shape=(n, n))
    matrix.has_sorted_indices = matrix.has_canonical_format = True
    return matrix
