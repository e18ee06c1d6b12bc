"""Disconnect internally, connect externally: Waniek et al. (Nature Human Behaviour 2018)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from garnet.attacks.base import Attack, Task, flips
from garnet.graph.graph import Edges
from garnet.parameters import Share


@dataclass(frozen=True, kw_only=True)
class DICE(Attack):
    """Adds edges between classes and drops edges within them, at random.

    Threat model: knows the edges and all labels, no features, no model. Poisoning or evasion, on the whole graph. Nodes
    without a label are left alone.

    Attributes:
        add_share: probability that a flip adds an edge.
    """

    needs: ClassVar[tuple[str, ...]] = ("labels",)

    add_share: Share = 0.5

    def _run(self, task: Task) -> Iterator[Edges]:
        share = self.add_share
        generator, edges, labels = np.random.default_rng(task.seed), task.graph.edges, task.labels
        present, done = set(map(tuple, edges.T.tolist())), set(map(tuple, task.done.T.tolist()))
        first, second = labels[edges]
        within = edges[:, (first == second) & (first >= 0)]
        leaving = within.T[generator.permutation(within.shape[1])].tolist()
        known = np.flatnonzero(labels >= 0)
        joined = int(((first != second) & (first >= 0) & (second >= 0)).sum())
        apart = (len(known) ** 2 - int((np.bincount(labels[known]) ** 2).sum())) // 2 - joined
        # What is done is drawn again, so that an attack that goes on is the one that was never stopped.
        while (apart and share) or (leaving and share < 1):
            adds = generator.random() < share
            # Of what there is none left, the other is taken.
            if apart and (adds or not leaving):
                one, other = sorted(known[generator.integers(len(known), size=2)].tolist())
                while labels[one] == labels[other] or (one, other) in present:
                    one, other = sorted(known[generator.integers(len(known), size=2)].tolist())
                present.add((one, other))
                apart -= 1
            else:
                one, other = leaving.pop()
            if (one, other) not in done:
                yield flips([(one, other)])
