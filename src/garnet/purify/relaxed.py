"""How a purifier would treat edges that are half present, or absent: for adaptive attackers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.graph.graph import Graph

Way = Literal["still", "turning", "open"]
"""How gradients flow through a purifier. `still`: eigenvectors are fixed, and a pair that would be dropped has none.
`turning`: they also flow through the eigenvectors, which turn as in perturbation theory. `open`: as if all pairs were
kept, since what a purifier drops still affects how it treats others."""
Judge = Callable[[Tensor], Tensor]
"""Pairs of nodes (2, q), none an edge -> (q,) what the model would see of each as an edge of weight one."""


class Relaxed(Protocol):
    """A purifier near one graph, as a differentiable function of edge weights."""

    def __call__(self, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """What a model reads of a graph with these edges (2, m), smaller node first, and these weights (m,).

        Returns:
            Edges (2, m + q), the first m unchanged, and weights (m + q,); weight zero means no edge.
        """
        ...


@dataclass(frozen=True, eq=False)
class View:
    """What one of a defence's models reads.

    Attributes:
        read: what the model reads, near that graph.
        share: how much the model counts, at all nodes, or (n,) at each of them.
    """

    read: Relaxed
    share: float | Tensor = 1.0


def as_it_is(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """No purifier: the model reads the graph."""
    return edges, weights


def kept_whole(pairs: Tensor) -> Tensor:
    """A judge that treats every pair like an ordinary edge."""
    return torch.ones(pairs.shape[1], device=pairs.device)


def never_kept(pairs: Tensor) -> Tensor:
    """The judge of a purifier that does not read the edges."""
    return torch.zeros(pairs.shape[1], device=pairs.device)


@dataclass(frozen=True, eq=False)
class Frozen:
    """The decisions of one purification stay fixed, and other pairs are judged as if each came alone.

    Attributes:
        nodes: n.
        keys: (m0,) numbers of the edges of the purified graph, sorted.
        factors: (m0,) the factor on the weight of each.
        added: (2, q) edges that a model reads whether or not the graph has them.
        added_weights: (q,) the weights of these.
        judge: what other pairs would weigh.
    """

    nodes: int
    keys: Tensor
    factors: Tensor
    added: Tensor
    added_weights: Tensor
    judge: Judge

    @classmethod
    def of(cls, graph: Graph, cleaned: Graph, judge: Judge = kept_whole, device: str = "cpu") -> Frozen:
        """From the graph before and after, for a purifier about which nothing else is known.

        Args:
            graph: the input.
            cleaned: the output; its new edges are added in any case.
            judge: what other pairs would weigh.
            device: where to compute.
        """
        n = graph.num_nodes
        before, after = (torch.from_numpy(one.edges).to(device) for one in (graph, cleaned))
        own, left = (torch.from_numpy(one.weights).to(device) for one in (graph, cleaned))
        keys, kept = numbers(before[0], before[1], n), numbers(after[0], after[1], n)
        place, there = located(kept, keys)
        factors = torch.where(there, taken(left, place), 0.0) / own
        new = ~located(keys, kept)[1]
        return cls(n, keys, factors, after[:, new], left[new], judge)

    def __call__(self, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """See `Relaxed`."""
        wanted = numbers(edges[0], edges[1], self.nodes)
        place, there = located(self.keys, wanted)
        factors = torch.where(there, taken(self.factors, place), 0.0)
        others = (~there).nonzero()[:, 0]
        if len(others):
            factors = factors.index_put((others,), self.judge(edges[:, others]))
        read, order = weights * factors, wanted.argsort()
        place, there = located(wanted[order], numbers(self.added[0], self.added[1], self.nodes))
        read = read.index_add(0, taken(order, place[there]), self.added_weights[there])
        return torch.cat([edges, self.added[:, ~there]], dim=1), torch.cat([read, self.added_weights[~there]])


def located(keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """The positions of numbers among sorted others, and whether they occur there at all."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return place, keys[place] == wanted


def taken(values: Tensor, places: Tensor) -> Tensor:
    """Values at some positions; zeros if there are no values."""
    return values[places] if len(values) else values.new_zeros(len(places))
