"""The weight of each member of a committee: overall, and at a node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.edges import numbers
from garnet.graph.graph import Graph
from garnet.purify.relaxed import located
from garnet.purify.relaxed_garnet import RelaxedGarnet
from garnet.purify.result import Ledger, Purification
from garnet.training.adam import Adam

_NEXT_TO_NOTHING = 1e-9
_STEPS, _RATE = 200, 0.1  # of Adam, on one number per member


def likeliest_weights(given: Tensor, against: Tensor, shrinkage: float, counts: Tensor | None = None) -> Tensor:
    """The log-weights that make the labels likeliest, (members,), up to a constant.

    Args:
        given: (members, k) log-probability that each member gives to the true class of a node.
        against: (members, k) reduction of its log-weight there.
        shrinkage: number of pseudo-nodes in favour of equal weights.
        counts: (k,) weight of each node, with mean one; None weights all the same. If a few nodes hold most of the
            weight, they count as few nodes, and less is learnt from them.
    """
    if counts is not None and len(counts):
        counts = counts * counts.sum() / counts.square().sum()  # these add up to Kish's effective sample size
    weights = torch.zeros(len(given), requires_grad=True)
    optimizer = Adam([weights], _RATE)
    for _ in range(_STEPS if given.numel() else 0):
        optimizer.forget()
        likelihoods = torch.logsumexp(given + say_at_nodes(weights[None], against)[0], dim=0)
        likelihood = likelihoods.sum() if counts is None else (likelihoods * counts).sum()
        loss = -(likelihood + shrinkage * weights.log_softmax(dim=0).mean())
        torch.autograd.backward(loss)
        optimizer.step()
    return weights.detach().log_softmax(dim=0)


def say_at_nodes(weights: Tensor, against: Tensor) -> Tensor:
    """(S, members, n) log-weight of each member at a node, from (S, members) and (members, n)."""
    return (weights[..., None] - against).log_softmax(dim=1)


@dataclass(frozen=True, eq=False)
class Suspects:
    """The edges of a graph, and how likely each is made up, assuming that the most trusted edges of its ends are true.

    Attributes:
        edges: (2, m).
        chances: (m,).
    """

    edges: NDArray[np.int64]
    chances: NDArray[np.float64]

    @classmethod
    def of(cls, purified: Purification) -> Suspects:
        """What planted edges showed about the input of a purification.

        Raises:
            ParameterError: none were planted.
        """
        ledger = purified.ledger
        if not isinstance(ledger, Ledger) or ledger.trust is None:
            raise ParameterError(f"Planted edges told nothing of {purified.parameters}; purify with support='auto'.")
        edges, trust = ledger.edges[:, ledger.given].cpu(), ledger.trust[ledger.given].double().cpu()
        best = most_trusted(edges, trust, ledger.num_nodes)
        return cls(edges.numpy(), made_up(trust, torch.minimum(*best[edges]), purified.settings.caution).numpy())


def most_trusted(edges: Tensor, trust: Tensor, nodes: int) -> Tensor:
    """(n,) how far each node trusts the edge that it trusts most."""
    best = torch.zeros(nodes, dtype=trust.dtype, device=trust.device)
    for ends in edges:
        best.scatter_reduce_(0, ends, trust, "amax")
    return best


def made_up(trust: Tensor, best: Tensor, caution: float) -> Tensor:
    """(m,) how likely edges with this trust are made up, assuming that the best edge of both their ends is true.

    A node without a trusted edge is of another kind, not attacked.
    """
    trust = (trust / best).clamp_max(1.0)
    return (1 - trust) / (1 - trust + caution * trust)


def trusts(garnet: RelaxedGarnet) -> Callable[[Tensor], Tensor]:
    """How far any pairs (2, m) are trusted, (m,), as edges or as possible edges."""
    known, trust = garnet.still.keys, garnet.trust
    if trust is None:
        raise ParameterError("Planted edges told nothing; relax a GARNET with support='auto'.")

    def trusted(edges: Tensor) -> Tensor:
        place, there = located(known, numbers(edges[0], edges[1], garnet.still.nodes))
        found, others = trust[place], ~there
        found[others] = garnet.judge.trust(edges[:, others])
        return found

    return trusted


def chances(garnet: RelaxedGarnet, caution: float) -> Callable[[Tensor], Tensor]:
    """How likely any pairs (2, m) are made up, (m,), as edges or as possible edges."""
    trusted = trusts(garnet)
    best = most_trusted(garnet.edges, cast(Tensor, garnet.trust), garnet.still.nodes)

    def chance(edges: Tensor) -> Tensor:
        return made_up(trusted(edges), torch.minimum(*best[edges]).clamp_min(_NEXT_TO_NOTHING), caution)

    return chance


def doubts(suspects: Suspects, views: list[Graph]) -> Tensor:
    """(members, n) share of each member's input at a node that is probably made up."""
    n, (first, second) = views[0].num_nodes, suspects.edges
    suspicion = sp.coo_array((suspects.chances, (first, second)), shape=(n, n)).tocsr()
    suspicion = suspicion + suspicion.T
    shares = []
    for view in views:
        read = view.degrees
        doubted = np.asarray(view.adjacency.multiply(suspicion).sum(axis=1)).ravel()
        shares.append(doubted / np.where(read > 0, read, 1.0))
    return torch.from_numpy(np.stack(shares)).float()
