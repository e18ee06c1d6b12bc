"""Disconnect internally, connect externally: Waniek et al. (Nature Human Behaviour 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from garnet.attacks.base import Attack, Task
from garnet.attacks.random import flips_at_random
from garnet.graph.graph import Edges
from garnet.parameters import Share


@dataclass(frozen=True, kw_only=True)
class DICE(Attack):
    """Adds edges between classes and drops edges within them, at random.

    Threat model: knows the edges and all labels, but no features and no model. Poisoning or evasion, on the whole
    graph. Nodes without a label are left alone.

    Attributes:
        add_share: probability that a flip adds an edge.
    """

    needs: ClassVar[tuple[str, ...]] = ("labels",)

    add_share: Share = 0.5

    def _run(self, task: Task) -> Iterator[Edges]:
        edges, labels = task.graph.edges, task.labels
        first, second = labels[edges]
        within = edges[:, (first == second) & (first >= 0)]
        known = np.flatnonzero(labels >= 0)
        joined = int(((first != second) & (first >= 0) & (second >= 0)).sum())
        apart = (len(known) ** 2 - int((np.bincount(labels[known]) ** 2).sum())) // 2 - joined
        yield from flips_at_random(
            task, self.add_share, within, known, apart, lambda one, other: bool(labels[one] != labels[other])
        )
