"""What each member of a committee counts: in all, and at a node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import ParameterError
from garnet.graph.graph import Graph
from garnet.purify.result import Ledger, Purification

_STEPS, _RATE = 200, 0.1  # of Adam, on as many numbers as there are members


def likeliest_weights(given: Tensor, against: Tensor, shrinkage: float) -> Tensor:
    """The logarithms of the weights that make labels likeliest, (members,), up to a constant.

    Args:
        given: (members, k) log-probability that each gives to the true class of a node.
        against: (members, k) what its log-weight loses there.
        shrinkage: so many nodes speak for equal weights.
    """
    weights = torch.zeros(len(given), requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=_RATE)
    for _ in range(_STEPS if given.numel() else 0):
        optimizer.zero_grad()
        likelihood = torch.logsumexp(given + say_at_nodes(weights[None], against)[0], dim=0).sum()
        loss = -(likelihood + shrinkage * weights.log_softmax(dim=0).mean())
        torch.autograd.backward(loss)
        optimizer.step()
    return weights.detach().log_softmax(dim=0)


def say_at_nodes(weights: Tensor, against: Tensor) -> Tensor:
    """(S, members, n) logarithms of what each member counts at a node, of (S, members) and (members, n)."""
    return (weights[..., None] - against).log_softmax(dim=1)


@dataclass(frozen=True, eq=False)
class Suspects:
    """The edges of a graph, and how likely each is made up, if the most trusted edges of its ends are true.

    Attributes:
        edges: (2, m).
        chances: (m,).
    """

    edges: NDArray[np.int64]
    chances: NDArray[np.float64]

    @classmethod
    def of(cls, purified: Purification) -> Suspects:
        """What planted edges told of the input of a purification.

        Raises:
            ParameterError: none were planted.
        """
        ledger, caution = purified.ledger, purified.settings.caution
        if not isinstance(ledger, Ledger) or ledger.trust is None:
            raise ParameterError(f"Planted edges told nothing of {purified.parameters}; purify with support='auto'.")
        edges, trust = ledger.edges[:, ledger.given].cpu(), ledger.trust[ledger.given].double().cpu()
        best = torch.zeros(ledger.num_nodes, dtype=torch.float64)
        for ends in edges:
            best.scatter_reduce_(0, ends, trust, "amax")
        # A node none of whose edges is trusted is of another kind, not attacked.
        trust = trust / torch.minimum(*best[edges])
        return cls(edges.numpy(), ((1 - trust) / (1 - trust + caution * trust)).numpy())


def doubts(suspects: Suspects, views: list[Graph]) -> Tensor:
    """(members, n) share of what each reads at a node that is probably made up."""
    n, (first, second) = views[0].num_nodes, suspects.edges
    suspicion = sp.coo_array((suspects.chances, (first, second)), shape=(n, n)).tocsr()
    suspicion = suspicion + suspicion.T
    shares = []
    for view in views:
        read = view.degrees
        doubted = np.asarray(view.adjacency.multiply(suspicion).sum(axis=1)).ravel()
        shares.append(doubted / np.where(read > 0, read, 1.0))
    return torch.from_numpy(np.stack(shares)).float()
