"""The adjacency of a graph on the device where it is worked on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.linalg.sparse import SparseRows


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
        # Half as many bytes for every product.
        narrow = device != "cpu" and max(matrix.nnz, *matrix.shape) < 2**31
        return cls(starts.int(), columns.int(), weights) if narrow else cls(starts, columns, weights)

    def joining(self, new: Tensor, weight: float) -> Resident:
        """The same with more undirected edges, (2, p), none of which it has, all of one weight."""
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

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return len(self.starts) - 1

    @cached_property
    def counts(self) -> Tensor:
        """Neighbours of each node, (n,)."""
        return self.starts.long().diff()

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, (nnz,)."""
        return torch.arange(self.num_nodes, device=self.starts.device).to(self.columns).repeat_interleave(self.counts)

    @cached_property
    def edges(self) -> Tensor:
        """The undirected edges, (2, m)."""
        upper = self.columns > self.rows
        return torch.stack([self.rows[upper], self.columns[upper]]).long()

    @property
    def edge_weights(self) -> Tensor:
        """The weight of each of `edges`, (m,)."""
        return self.weights[self.columns > self.rows]

    @cached_property
    def degrees(self) -> Tensor:
        """Weighted degree of each node, (n,) float64."""
        return torch.segment_reduce(self.weights.double(), "sum", offsets=self.starts.long(), initial=0)

    def components(self) -> Tensor:
        """A number for each node, (n,), the same for those that are joined by a path."""
        if self.starts.device.type == "cpu":
            return torch.from_numpy(connected_components(self.matrix().to_scipy(), directed=False)[1]).long()
        return self.least_of_component()

    def least_of_component(self) -> Tensor:
        """The smallest number of a node among those that are joined to each by a path, (n,).

        Every node takes the smallest number among its neighbours', then that of the node it was taken from.
        """
        label = torch.arange(self.num_nodes, device=self.starts.device)
        rows, columns = self.rows.long(), self.columns.long()
        while True:
            least = label.scatter_reduce(0, rows, label[columns], "amin")
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
        """(D + tau I)^(-1/2) A (D + tau I)^(-1/2) in float64; see `garnet.spectral.spectrum.normalized_adjacency`."""
        root = torch.where(self.degrees > 0, (self.degrees + tau).rsqrt(), 0.0)
        values = self.weights.double() * root[self.rows] * root[self.columns]
        return SparseRows(self.starts, self.columns, values, self.num_nodes)


def restricted(matrix: SparseRows, nodes: Tensor) -> SparseRows:
    """Rows and columns of some nodes, sorted, that no entry joins to any other."""
    counts = matrix.starts.long().diff()
    chosen = torch.zeros(matrix.width, dtype=torch.bool, device=nodes.device)
    chosen[nodes] = True
    entries = chosen.repeat_interleave(counts)
    number = chosen.long().cumsum(0) - 1
    starts = torch.cat([counts.new_zeros(1), counts[nodes].cumsum(0)])
    columns = number[matrix.columns[entries]]
    return SparseRows(starts.to(matrix.starts), columns.to(matrix.columns), matrix.values[entries], len(nodes))


def joined(edges: Tensor, weights: Tensor, n: int) -> sp.csr_array:
    """The adjacency of undirected edges (2, m), each once with the smaller node first, and weights (m,).

    A graph made of it needs no further proof: it is symmetric by construction.
    """
    if edges.device.type == "cpu":
        first, second = (edges.int() if n < 2**31 else edges).numpy()
        upper = sp.coo_array((weights.numpy(), (first, second)), shape=(n, n)).tocsr()
        matrix = sp.csr_array(upper + upper.T)
        matrix.sort_indices()
        return matrix
    return joined_by_sorting(edges, weights, n)


def joined_by_sorting(edges: Tensor, weights: Tensor, n: int) -> sp.csr_array:
    """The same by sorting both directions of each edge, which a GPU does in no time."""
    keys, order = torch.sort(torch.cat([numbers(edges[0], edges[1], n), numbers(edges[1], edges[0], n)]))
    rows = keys // n
    starts = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
    narrow = len(keys) < 2**31
    columns, starts = ((part.int() if narrow else part) for part in (keys - rows * n, starts))
    return SparseRows(starts, columns, torch.cat([weights, weights])[order], n).to_scipy()
