"""Where new nodes lie in an embedding that was computed without them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.graph.edges import numbers, pairs
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.purify.features import scale
from garnet.purify.joining import Joining
from garnet.purify.suspicion import looks

ENOUGH_EDGES = 3
"""Edges to nodes that have a place of their own, for a new node to have one: with fewer, the edge that is judged is
half or all of what says where its end is."""


@dataclass(frozen=True, eq=False)
class Newcomers:
    r"""New nodes and the known ones they are joined to, with all edges of the new nodes present at once.

    The row of a new node v follows from :math:`\lambda_k u_k = \hat A u_k` and the rows of the nodes it is joined to
    (one step of the Nyström extension),

    .. math:: u_k(v) = \frac{1}{\lambda_k} \sum_j \frac{w}{\sqrt{d_v d_j'}} \sqrt{\frac{d_j}{d_j'}} \, u_k(j),

    where :math:`d_j' = d_j + w` for each of its new edges; the rows of these nodes move to first order, as in
    `Joining`. An edge between two new nodes tells neither where it lies.

    Attributes:
        nodes: (l,) the new nodes and those they are joined to, sorted.
        edges: (2, e) the edges of new nodes, each once, as positions in `nodes`.
        graph: the graph with these edges.
        points: (l, r + d) points of the nodes.
        placed: (l,) which nodes the spectrum says something about.
        described: (l,) which nodes have features.
    """

    nodes: Tensor
    edges: Tensor
    graph: Resident
    points: Tensor
    placed: Tensor
    described: Tensor

    @classmethod
    def beside(cls, joining: Joining, ends: Tensor, features: Tensor) -> Newcomers:
        """Add new nodes to a graph of n nodes.

        Args:
            joining: the graph.
            ends: (2, m) edges with new nodes, which are numbered from n; no loops.
            features: (k, d) their rows of the feature block; zero where they have no features.
        """
        n, weight, rank = joining.graph.num_nodes, joining.weight, joining.rank
        found = pairs(ends[0], ends[1], n + len(features))
        nodes = torch.unique(found)
        edges = torch.searchsorted(nodes, found)
        known = nodes < n
        counts = torch.bincount(edges.flatten(), minlength=len(nodes))
        before = torch.zeros(len(nodes))
        before[known] = joining.degrees[nodes[known]] - joining.tau
        now = before + weight * counts
        rows = torch.zeros(len(nodes), rank)
        rows[known] = joining.bare[nodes[known]] * ((before + joining.tau) / (now + joining.tau))[known].sqrt()[:, None]
        there = rows.abs().amax(dim=1) > 0
        # Known nodes have the smaller numbers, so they come first.
        told = edges[:, there[edges[0]] & ~known[edges[1]]]
        pull = weight * ((now + joining.tau)[told]).prod(dim=0).rsqrt()[:, None] * joining.pulls
        placed = there | (torch.bincount(told[1], minlength=len(nodes)) >= ENOUGH_EDGES)
        moved = rows.index_add(0, told[1], pull * rows[told[0]])
        moved = moved.index_add(0, told[0], pull * moved[told[1]])
        block = torch.zeros(len(nodes), features.shape[1])
        block[known], block[~known] = joining.points[nodes[known], rank:], features[nodes[~known] - n]
        points = torch.cat([scale(moved, joining.scaling), block], dim=1)
        return cls(nodes, edges, _with(joining, found, len(features)), points, placed, block.abs().sum(dim=1) > 0)

    def looks(self, joining: Joining) -> Tensor:
        """(4, e) what is observed about the edges of new nodes; see `garnet.purify.suspicion.looks`."""
        counts, rank = self.graph.counts[self.nodes], joining.rank
        shared = shared_neighbors(self.graph, self.nodes[self.edges])
        return looks(self.edges, (self.points, self.points), (counts, counts), shared, rank, joining.mean)

    def of(self, ends: Tensor) -> Tensor:
        """(m,) the position in `edges` of each of the pairs they came from."""
        ends = torch.searchsorted(self.nodes, ends.sort(dim=0).values)
        width = len(self.nodes)
        return torch.searchsorted(numbers(self.edges[0], self.edges[1], width), numbers(ends[0], ends[1], width))


def _with(joining: Joining, edges: Tensor, count: int) -> Resident:
    """The graph with this many new nodes and their edges."""
    here = joining.graph
    starts = torch.cat([here.starts, here.starts[-1:].expand(count)])
    return Resident(starts, here.columns, here.weights).joining(edges, joining.weight)
