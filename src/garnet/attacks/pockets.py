"""What would become of a node that is joined to several others at once, as a purifier sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from garnet.attacks.models import EdgeFunction
from garnet.graph.graph import Graph
from garnet.purify.features import scale
from garnet.purify.pair_judge import PairJudge
from garnet.purify.relaxed import Frozen, as_it_is, kept_whole

_AT_ONCE = 1 << 22
"""Numbers of a product of points that are held at a time."""


@dataclass(frozen=True, eq=False)
class Pull:
    """A purifier near one graph, as far as false neighbours go.

    Attributes:
        say: what the purifier counts among others.
        keep: what pairs (2, q) would weigh as edges.
        device: where it is asked that; all else is on the CPU.
        given: (n,) weight of what a node reads of the graph, and of itself.
        added: (n,) weight of what the purifier joins to it.
        judge: with the points of all nodes; None if the purifier has none, or joins nothing.
    """

    say: float
    keep: Callable[[Tensor], Tensor]
    device: torch.device
    given: Tensor
    added: Tensor
    judge: PairJudge | None

    @classmethod
    def of(cls, say: float, purifier: Any, nodes: int, ends: Tensor, weights: Tensor) -> Pull:
        """From a purifier near a graph of so many nodes, with the edges of that graph where the purifier computes."""
        frozen, none, device = getattr(purifier, "still", purifier), torch.zeros(nodes), ends.device
        with torch.no_grad():
            given = 1 + _at_ends(none, *purifier(ends, weights))
        if not isinstance(frozen, Frozen):
            return cls(say, kept_whole, device, given, none, None)
        added = _at_ends(none, frozen.added, frozen.added_weights)
        judge = getattr(purifier, "judge", None)
        judge = judge if isinstance(judge, PairJudge) and judge.settings.k else None
        return cls(say, frozen.judge, device, (given - added).clamp_min(1), added, judge)

    def after(self, owners: Tensor, pockets: Tensor, logits: Tensor) -> Tensor:
        """(q, classes) about what is said of nodes (q,) that are joined to pockets (q, s), of which -1 is no node.

        What a node says itself, what the purifier keeps of the pocket, and the near neighbours that the node has once
        the pocket has pulled it there, each by its weight.
        """
        there = pockets >= 0
        rows, slots = there.nonzero(as_tuple=True)
        pairs = torch.stack([owners[rows], pockets[rows, slots]])
        weights = self.keep(pairs.sort(dim=0).values.to(self.device)).cpu()
        kept = torch.zeros(pockets.shape).index_put((rows, slots), weights)
        # Models divide by the root of a neighbour's degree, too: one with few edges says more.
        kept = kept * (self.given[owners, None] / self.given[pockets.clamp_min(0)]).sqrt()
        said = logits[pockets.clamp_min(0)]
        own, near = self.given[owners, None], self.added[owners, None]
        total = own * logits[owners] + (kept[..., None] * said).sum(dim=1)
        if self.judge is None:
            return (total + near * logits[owners]) / (own + near + kept.sum(dim=1, keepdim=True))
        return (total + near * self._neighbors(owners, pockets, logits)) / (own + near + kept.sum(dim=1, keepdim=True))

    def _neighbors(self, owners: Tensor, pockets: Tensor, logits: Tensor) -> Tensor:
        """(q, classes) mean of what is said of the nearest neighbours that nodes would then have."""
        judge: Any = self.judge
        points, k = scale(judge.embedding.points.cpu(), "unit"), min(judge.settings.k, len(logits) - 1)
        moved, means = judge.joining.moved(owners.to(self.device), pockets.to(self.device)).cpu(), list[Tensor]()
        step = max(1, _AT_ONCE // len(points))
        for rows, some in zip(torch.split(scale(moved, "unit"), step), torch.split(owners, step), strict=True):
            alike = rows @ points.T
            alike.scatter_(1, some[:, None], -torch.inf)
            means.append(logits[alike.topk(k, dim=1).indices].mean(dim=1))
        return torch.cat(means)


@dataclass(frozen=True, eq=False)
class Told:
    """A defence whose nodes tell each other what they believe, as far as false neighbours go.

    Attributes:
        heard: from pairs (2, q) and logits (n, classes), what the first ends of the pairs would hear, (q, classes).
        say: of the only one there is.
        judge: none.
    """

    heard: Callable[[Tensor, Tensor], Tensor]
    say: float = 1.0
    judge: None = None

    def after(self, owners: Tensor, pockets: Tensor, logits: Tensor) -> Tensor:
        """See `Pull.after`."""
        rows, slots = (pockets >= 0).nonzero(as_tuple=True)
        heard = self.heard(torch.stack([owners[rows], pockets[rows, slots]]), logits).to(logits)
        return logits[owners].index_add(0, rows, heard)


def pulls_of(function: EdgeFunction, graph: Graph) -> Sequence[Pull | Told]:
    """The purifiers within a defence near a graph, each with what it counts; the graph as it is, of a bare model."""
    heard = getattr(function, "heard", None)
    if heard is not None:
        return [Told(heard)]
    edges, weights = function.edges(graph)
    members, says = getattr(function, "members", None), getattr(function, "weights", None)
    if members is None or says is None:
        return [Pull.of(1.0, getattr(function, "purifier", as_it_is), graph.num_nodes, edges, weights)]
    return [
        Pull.of(say, view, graph.num_nodes, edges, weights)
        for say, (view, _) in zip(says.softmax(dim=0).tolist(), members, strict=True)
    ]


def _at_ends(start: Tensor, ends: Tensor, weights: Tensor) -> Tensor:
    ends, weights = ends.cpu(), weights.cpu().float()
    return start.index_add(0, ends[0], weights).index_add(0, ends[1], weights)
