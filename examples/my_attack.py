"""An attack of one's own: one class with one method. The base class keeps budget, symmetry, seed and provenance.

python examples/my_attack.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from garnet import GARNET, Budget
from garnet.attacks import Attack, Random, Task
from garnet.backbones import GCN
from garnet.datasets import load
from garnet.defenses import Purified
from garnet.graph import Edges
from garnet.training import Training


@dataclass(frozen=True, kw_only=True)
class Crowd(Attack):
    """Joins training nodes of one class with test nodes of others.

    Threat model: knows all labels and the training nodes; poisoning, on the whole graph.
    """

    needs: ClassVar[tuple[str, ...]] = ("labels", "split")

    def _run(self, task: Task) -> Iterator[Edges]:
        random, split = np.random.default_rng(task.seed), task.graph.split
        assert split is not None  # the base class has seen to it, because the attack needs one
        seen = set(map(tuple, np.concatenate([task.graph.edges, task.done], axis=1).T.tolist()))
        while True:
            one, other = sorted([int(random.choice(split.train)), int(random.choice(split.test))])
            if task.labels[one] != task.labels[other] and (one, other) not in seen:
                seen.add((one, other))
                yield np.array([[one], [other]])


def main() -> None:
    """Compare it with chance, without and with purification."""
    graph = load("cora", split="random")
    training = Training(epochs=100, lr=0.01)
    for attack in (Random(), Crowd()):
        poisoned = attack(graph, budget=Budget.fraction(0.2), seed=0).apply(graph)
        plain = Purified(None, GCN(), training).fit(poisoned)
        purified = Purified(GARNET(), GCN(), training).fit(poisoned)
        print(f"{attack.name}: {plain.accuracy():.1%} undefended, {purified.accuracy():.1%} purified")


if __name__ == "__main__":
    main()
