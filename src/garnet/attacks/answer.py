"""What a defence says of a graph, in the terms of an attacker."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.attacks.adaptive import Reached
from garnet.attacks.models import margins


class Answer(NamedTuple):
    """What a defence said of a graph.

    Attributes:
        harm: share of the nodes under attack that are wrong, and the loss.
        said: (n,) classes.
        second: (n,) the likeliest wrong class of nodes under attack; of the others, the runner-up.
        margins: (n,) by how much nodes under attack are right; infinite for others.
        at_nodes: (n,) harm done to each node under attack, between -1 and 2; 0 for others.
    """

    harm: tuple[float, float]
    said: NDArray[np.int64]
    second: NDArray[np.int64]
    margins: NDArray[np.float32]
    at_nodes: NDArray[np.float32]

    @classmethod
    def of(cls, reached: Reached) -> Answer:
        """From what was reached."""
        logits, nodes, labels = reached.logits, reached.oracle.nodes, reached.oracle.labels
        said = logits.argmax(dim=1)
        lost = said.clone()
        lost[nodes] = labels
        second = logits.scatter(1, lost[:, None], -torch.inf).argmax(dim=1)
        ahead = torch.full((len(logits),), torch.inf).index_put((nodes,), margins(logits[nodes], labels))
        harmed = (said != lost).float() - torch.tanh(ahead)
        attacked = torch.zeros(len(logits), dtype=torch.bool).index_fill(0, nodes, True)
        harmed = torch.where(attacked, harmed, 0.0)
        return cls(reached.harm, said.numpy(), second.numpy(), ahead.numpy(), harmed.numpy())
