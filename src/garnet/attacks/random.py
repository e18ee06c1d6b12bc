"""Edges at random: the floor that every attack has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from garnet.attacks.base import Attack, Task, flips
from garnet.graph.graph import Edges


@dataclass(frozen=True, kw_only=True)
class Random(Attack):
    """Flips pairs of nodes at random.

    Threat model: knows the number of nodes and their edges, no labels, no features, no model. Poisoning or evasion, on
    the whole graph. It adds edges, drops them, or tosses a coin each time.

    Attributes:
        kind: `add`, `drop` or `both`.
    """

    kind: Literal["add", "drop", "both"] = "add"

    def _run(self, task: Task) -> Iterator[Edges]:
        chances = {"add": 1.0, "drop": 0.0, "both": 0.5}
        generator, n = np.random.default_rng(task.seed), task.graph.num_nodes
        edges = task.graph.edges
        present, done = set(map(tuple, edges.T.tolist())), set(map(tuple, task.done.T.tolist()))
        leaving = edges.T[generator.permutation(edges.shape[1])].tolist()
        chance, absent = chances[self.kind], n * (n - 1) // 2 - len(leaving)
        # What is done is drawn again, so that an attack that goes on is the one that was never stopped.
        while (absent and chance) or (leaving and chance < 1):
            adds = generator.random() < chance
            # Of what there is none left, the other is taken.
            if absent and (adds or not leaving):
                one, other = sorted(generator.integers(n, size=2).tolist())
                while one == other or (one, other) in present:
                    one, other = sorted(generator.integers(n, size=2).tolist())
                present.add((one, other))
                absent -= 1
            else:
                one, other = leaving.pop()
            if (one, other) not in done:
                yield flips([(one, other)])
