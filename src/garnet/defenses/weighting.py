"""What each member of a committee counts: in all, and at a node."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.audit import Audit
from garnet.graph.graph import Graph

_STEPS, _RATE = 200, 0.1  # of Adam, on as many numbers as there are members
_HALVINGS = 4  # of the doubt; a sixteenth of it is none


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


def bearable(given: Tensor, doubt: Tensor, *, strongest: float, shrinkage: float, price: float) -> tuple[float, Tensor]:
    """How strongly to doubt, and the weights that go with it.

    Nodes whose labels are known have most to lose by doubt where the true edges of a graph look made up. So it is
    halved until they lose no more than a price, on the mean, of the log-likelihood they had without any.

    Args:
        given: (members, k) log-probability that each gives to the true class of a node.
        doubt: (members, k) share of what each reads there that is probably made up.
        strongest: what its log-weight loses where all of it is, at most.
        shrinkage: so many nodes speak for equal weights.
        price: in nats.
    """

    def told(strength: float) -> tuple[Tensor, float]:
        weights = likeliest_weights(given, strength * doubt, shrinkage)
        return weights, float(torch.logsumexp(given + say_at_nodes(weights[None], strength * doubt)[0], dim=0).mean())

    without, most = told(0.0)
    for halvings in range(_HALVINGS):
        strength = strongest / 2**halvings
        weights, likelihood = told(strength)
        if not likelihood < most - price:  # nor where there is no node to ask
            return strength, weights
    return 0.0, without


def say_at_nodes(weights: Tensor, against: Tensor) -> Tensor:
    """(S, members, n) logarithms of what each member counts at a node, of (S, members) and (members, n)."""
    return (weights[..., None] - against).log_softmax(dim=1)


def doubts(found: Audit, views: list[Graph]) -> Tensor:
    """(members, n) share of what each reads at a node that an audit takes for made up."""
    n, (first, second) = found.graph.num_nodes, found.edges
    suspicion = sp.coo_array((found.suspicion, (first, second)), shape=(n, n)).tocsr()
    suspicion = suspicion + suspicion.T
    shares = []
    for view in views:
        read = view.degrees
        doubted = np.asarray(view.adjacency.multiply(suspicion).sum(axis=1)).ravel()
        shares.append(doubted / np.where(read > 0, read, 1.0))
    return torch.from_numpy(np.stack(shares)).float()
