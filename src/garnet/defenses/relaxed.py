"""Trained defences as functions of edge weights, whose gradient an attacker who knows them can follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from garnet.attacks.models import EdgeFunction
from garnet.defenses.beliefs import Beliefs
from garnet.graph.graph import Graph
from garnet.purify.relaxed import Relaxed

_NEXT_TO_NOTHING = 1e-9


@dataclass(frozen=True, eq=False)
class ThroughPurifier:
    """A model that reads the purified graph.

    Attributes:
        purifier: the purifier's map of edges, near one graph.
        model: the model that reads the result.
    """

    purifier: Relaxed
    model: EdgeFunction

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.model.nodes

    @property
    def device(self) -> str:
        """Where it computes."""
        return self.model.device

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """See `EdgeFunction`."""
        return self.model.logits(*self.purifier(edges, weights))

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """See `EdgeFunction`."""
        return self.model.edges(graph)


@dataclass(frozen=True, eq=False)
class RelaxedCommittee:
    """Several models, each on its own view, mixed by their weights at a node.

    Attributes:
        members: view and model of each.
        temperatures: (members,) temperature of each.
        weights: (members,) log-weight of each.
        temperature: temperature of the mixture.
        doubt: how fast a member loses weight where its edges are doubted.
        chance: how likely edges (2, m) are made up, (m,); None if none is doubted. Edges added by a view are not
            doubted.
    """

    members: tuple[tuple[Relaxed, EdgeFunction], ...]
    temperatures: Tensor
    weights: Tensor
    temperature: Tensor
    doubt: float
    chance: Callable[[Tensor], Tensor] | None

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.members[0][1].nodes

    @property
    def device(self) -> str:
        """Where it computes."""
        return self.members[0][1].device

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """See `EdgeFunction`."""
        return self.members[0][1].edges(graph)

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """See `EdgeFunction`."""
        chance = None if self.chance is None else self.chance(edges)
        say, said = self.weights[:, None].expand(-1, self.nodes), []
        against = torch.zeros_like(say)
        for row, ((view, model), temperature) in enumerate(zip(self.members, self.temperatures, strict=True)):
            read, weigh = view(edges, weights)
            said.append((model.logits(read, weigh) / temperature).log_softmax(dim=1))
            if chance is not None:
                against = against.index_put((torch.tensor(row),), doubted(read, weigh, chance, self.nodes))
        say = (say - self.doubt * against).log_softmax(dim=0)
        return torch.logsumexp(torch.stack(said) + say[..., None], dim=0) / self.temperature


@dataclass(frozen=True, eq=False)
class RelaxedBeliefs:
    """Beliefs as a function of edge weights, with the trust in edges held fixed.

    Attributes:
        beliefs: the learnt beliefs.
        own: (1, n, classes) log-probabilities from the features alone.
        trusted: how far any pairs (2, m) are trusted, (m,); None if planted edges showed nothing.
        device: where it computes.
    """

    beliefs: Beliefs
    own: Tensor
    trusted: Callable[[Tensor], Tensor] | None
    device: str

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return self.own.shape[1]

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """See `EdgeFunction`."""
        return torch.from_numpy(graph.edges).to(self.device), torch.from_numpy(graph.weights).to(self.device)

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """See `EdgeFunction`."""
        return self.beliefs.after(self.own, edges, weights, self._trust(edges, weights))[0]

    def heard(self, pairs: Tensor, logits: Tensor) -> Tensor:
        """(q, classes) what edges of weight one to the second ends would add to the logits of the first ends.

        Args:
            pairs: (2, q) pairs that are not edges.
            logits: (n, classes) logits of all nodes.
        """
        pairs, logits = pairs.to(self.device), logits.to(self.device)
        weights = torch.ones(pairs.shape[1], device=self.device)
        return self.beliefs.heard(logits[pairs[1]], weights, self._trust(pairs.sort(dim=0).values, weights))

    def _trust(self, edges: Tensor, weights: Tensor) -> Tensor:
        return torch.ones_like(weights) if self.trusted is None else self.trusted(edges).to(weights)


def doubted(edges: Tensor, weights: Tensor, chance: Tensor, nodes: int) -> Tensor:
    """(n,) share of the input at a node that is probably made up.

    Args:
        edges: (2, m + q) edges that are read.
        weights: (m + q,) their weights.
        chance: (m,) how likely the first of them are made up; the others are not doubted.
        nodes: n.
    """
    suspect = torch.cat([chance, chance.new_zeros(len(weights) - len(chance))]) * weights
    both = torch.stack([suspect, weights])
    sums = torch.zeros(2, nodes, dtype=weights.dtype, device=weights.device)
    sums = sums.index_add(1, edges[0], both).index_add(1, edges[1], both)
    return sums[0] / sums[1].clamp_min(_NEXT_TO_NOTHING)
