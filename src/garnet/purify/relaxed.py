"""What a purifier would make of edges that are half there, or not there at all: for attackers who know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from garnet.graph.edges import numbers
from garnet.graph.graph import Graph

Way = Literal["still", "turning", "open"]
"""How gradients pass a purifier. `still`: eigenvectors stay as they are, and a pair that would be dropped has none.
`turning`: they pass the eigenvectors too, as perturbation theory has these turn. `open`: as if all pairs were kept, for
what a purifier drops bends what it makes of others all the same."""
Judge = Callable[[Tensor], Tensor]
"""Pairs of nodes (2, q), none of them an edge -> (q,) what each would weigh for the model as an edge of weight one."""


class Relaxed(Protocol):
    """A purifier near one graph, as a function of the weights of edges that gradients pass."""

    def __call__(self, edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """What a model reads of a graph with these edges (2, m), smaller node first, of these weights (m,).

        Returns:
            Edges (2, m + q), of which the first m are the same, and weights (m + q,); an edge of weight zero is none.
        """
        ...


@dataclass(frozen=True, eq=False)
class View:
    """What one of a defence's models reads of a graph.

    Attributes:
        read: what it reads, near that graph.
        share: how much the model counts: at all nodes, or (n,) at each of them.
    """

    read: Relaxed
    share: float | Tensor = 1.0


def as_it_is(edges: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """No purifier: the model reads the graph."""
    return edges, weights


def kept_whole(pairs: Tensor) -> Tensor:
    """A judge that takes every pair for an edge like any other."""
    return torch.ones(pairs.shape[1], device=pairs.device)


def never_kept(pairs: Tensor) -> Tensor:
    """A judge of a purifier that does not read the edges."""
    return torch.zeros(pairs.shape[1], device=pairs.device)


@dataclass(frozen=True, eq=False)
class Frozen:
    """What a purification decided of one graph stays decided, and other pairs are judged as if each came alone.

    Attributes:
        nodes: n.
        keys: (m0,) numbers of the edges of that graph, sorted.
        factors: (m0,) what is left of the weight of each.
        added: (2, q) edges that a model reads whether the graph has them or not.
        added_weights: (q,) of these.
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
        """From the graph before and after, for a purifier of which no more is known.

        Args:
            graph: as it was given.
            cleaned: as it came back; what it did not have before is added in any case.
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
    """Where numbers are among others, which are sorted, and whether they are there at all."""
    if not len(keys):
        return torch.zeros_like(wanted), torch.zeros_like(wanted, dtype=torch.bool)
    place = torch.searchsorted(keys, wanted).clamp_max(len(keys) - 1)
    return place, keys[place] == wanted


def taken(values: Tensor, places: Tensor) -> Tensor:
    """Values at some places; of none there are, zeros."""
    return values[places] if len(values) else values.new_zeros(len(places))
