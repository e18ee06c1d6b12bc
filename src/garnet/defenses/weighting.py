"""What each member of a committee counts: in all, and at a node."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.audit import Audit
from garnet.graph.graph import Graph

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
