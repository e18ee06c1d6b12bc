"""Edges at random: the floor that every attack has to beat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
        n, edges = task.graph.num_nodes, task.graph.edges
        share = {"add": 1.0, "drop": 0.0, "both": 0.5}[self.kind]
        absent = n * (n - 1) // 2 - edges.shape[1]
        yield from flips_at_random(task, share, edges, np.arange(n), absent, lambda one, other: one != other)


def flips_at_random(
    task: Task,
    add_share: float,
    droppable: Edges,
    nodes: NDArray[np.int64],
    absent: int,
    joinable: Callable[[int, int], bool],
) -> Iterator[Edges]:
    """Add and drop edges at random, each pair once, until there is nothing left to flip.

    What an earlier call has done is drawn again, so that an attack that goes on is the one that was never stopped.

    Args:
        task: what the attack is asked to do.
        add_share: probability that a flip adds an edge; where there is nothing left to add or to drop, the other is
            done.
        droppable: (2, m) edges that may be dropped.
        nodes: between which edges may be added.
        absent: how many pairs of these nodes are joinable and not joined.
        joinable: whether an edge may be added between two nodes.
    """
    generator = np.random.default_rng(task.seed)
    present, done = (set(map(tuple, pairs.T.tolist())) for pairs in (task.graph.edges, task.done))
    leaving = droppable.T[generator.permutation(droppable.shape[1])].tolist()
    while (absent and add_share) or (leaving and add_share < 1):
        adds = generator.random() < add_share
        if absent and (adds or not leaving):
            one, other = sorted(nodes[generator.integers(len(nodes), size=2)].tolist())
            while not joinable(one, other) or (one, other) in present:
                one, other = sorted(nodes[generator.integers(len(nodes), size=2)].tolist())
            present.add((one, other))
            absent -= 1
        else:
            one, other = leaving.pop()
        if (one, other) not in done:
            yield flips([(one, other)])
