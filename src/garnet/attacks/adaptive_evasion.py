"""Evasion of a whole defence by the gradient through all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.adaptive import KnownDefense, Oracle
from garnet.attacks.base import Attack, Task
from garnet.attacks.bcd import PRBCD
from garnet.attacks.models import Labels
from garnet.attacks.relaxation import Candidates, Loss, ProjectedAscent, as_edges, pair_numbers, target_groups
from garnet.graph.graph import Edges
from garnet.parameters import Count, Positive, Share
from garnet.purify.relaxed import Way

_STILL_LIKELY = 1e-3
"""A pair with a smaller probability makes room for another in the next round."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveEvasion(Attack):
    """Projected gradients through the whole defence, which is run anew after every round.

    Pairs have probabilities to be flipped, as in `PRBCD`. In a round, the gradient of the loss in these is followed
    through model, weights and support of the defence, near the graph that the likeliest flips make. Then the defence
    itself is asked what they do, and made differentiable anew around them; what really did most harm counts. Before
    each round, pairs that are no longer likely make room for others: half of them at random, half of them such that
    join a node that is still right to one of the class which comes second there.

    Threat model: evasion by one who knows the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or local: only pairs that touch a target are flipped.

    Attributes:
        defense: the defence that is known, or its name.
        flips: whether `any` pair may be flipped, or there are `additions` or `deletions` alone.
        way: how gradients pass what comes before the model. `still` holds eigenvectors as they are during a round, and
            looks for flips that the defence keeps; `turning` passes the eigenvectors too, as perturbation theory has
            them turn; `open` takes every flip for kept, and finds those that do harm by what they cost the others.
        start: with `nothing`, or with the flips of a `blind` attacker, `PRBCD` on a model without a defence.
        block_size: pairs looked at together, beside the edges that there are.
        guided: share of these that join a node to its second class.
        rounds: after each of which the defence is asked, and made differentiable anew.
        steps: along the gradient in each round.
        lr: by how much a step raises the probabilities of the most promising flips, as many as the budget, in the mean.
        loss: what is made large; see `attack_loss`.
        labels: which classes the nodes are to lose, the `true` ones or those that are `predicted` in the clean graph.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {},
        {"way": "open", "start": "blind"},
        {"flips": "deletions"},
    )
    """What differs from the defaults where all that it can do is tried."""

    defense: KnownDefense = "garnet"
    flips: Literal["any", "additions", "deletions"] = "any"
    way: Way = "still"
    start: Literal["nothing", "blind"] = "nothing"
    block_size: Count = 60_000
    guided: Share = 0.5
    rounds: Count = 10
    steps: Count = 15
    lr: Positive = 0.25
    loss: Loss = "tanh-margin"
    labels: Labels = "true"

    def _run(self, task: Task) -> Iterator[Edges]:
        oracle, n = Oracle.of(task, self.defense, self.loss, self.labels), task.graph.num_nodes
        done = torch.zeros(0, dtype=torch.int64)
        for number, (targets, budget) in enumerate(target_groups(task)):
            generator = np.random.default_rng([task.seed, number])
            chosen = self._climb(task, oracle.aimed_at(targets), budget, Candidates(n, targets, done), generator)
            done = torch.cat([done, chosen])
            yield as_edges(chosen, n)

    def _blind(self, task: Task, budget: int, pairs: Candidates) -> Tensor:
        """What one would flip who does not know the defence."""
        steps = self.rounds * self.steps
        attack = PRBCD(block_size=max(self.block_size, 2 * budget), steps=steps, fine_steps=0, loss=self.loss)
        alone = replace(task, targets=pairs.targets, budget=budget, per_target=None, victim=None)
        flips = np.sort(np.concatenate(list(attack._run(alone)), axis=1), axis=0)
        numbers = pair_numbers(torch.from_numpy(flips), pairs.n)
        free: Tensor = numbers[~torch.isin(numbers, pairs.taken)]
        return free

    def _climb(
        self, task: Task, oracle: Oracle, budget: int, pairs: Candidates, generator: np.random.Generator
    ) -> Tensor:
        """The numbers of the flips that did most harm."""
        n, done = task.graph.num_nodes, pairs.taken
        reached = oracle.after(as_edges(done, n))
        problem = reached.relaxation(self.way)
        block = _Block(self, task, pairs, generator).fresh(oracle, reached.logits).to(problem.model.device)
        ascent = ProjectedAscent(problem, min(budget, pairs.size), block)
        best, found = (-1.0, -1.0), done[:0]
        if self.start == "blind":
            found = self._blind(task, budget, pairs)
            reached = oracle.after(as_edges(torch.cat([done, found]), n))
            best = reached.harm
            ascent.begin(found.to(block.device))
            ascent.face(reached.relaxation(self.way).model)
        for number in range(self.rounds):
            for _ in range(self.steps):
                ascent.step(self.lr)
            flips = ascent.best.flips.cpu()
            reached = oracle.after(as_edges(torch.cat([done, flips]), n))
            if reached.harm > best:
                best, found = reached.harm, flips
            task.tell(f"{best[0]:.1%} wrong, round", number + 1, self.rounds)
            if number + 1 < self.rounds:
                block = _Block(self, task, pairs, generator).fresh(oracle, reached.logits).to(problem.model.device)
                ascent.refill(block, _STILL_LIKELY)
                ascent.face(reached.relaxation(self.way).model)
        return found


@dataclass(frozen=True, eq=False)
class _Block:
    """Draws pairs that may be flipped."""

    attack: AdaptiveEvasion
    task: Task
    pairs: Candidates
    generator: np.random.Generator

    def fresh(self, oracle: Oracle, logits: Tensor) -> Tensor:
        """The numbers of some of them: edges that there are, and others, by what the defence says of the nodes now."""
        own, kind = self._own(), self.attack.flips
        if kind == "deletions":
            return own
        guided = round(self.attack.guided * self.attack.block_size)
        drawn = self.pairs.draw(max(self.attack.block_size - guided, 1), self.generator, 1)
        joined: Tensor = torch.unique(torch.cat([drawn, self._guided(oracle, logits, guided)]))
        joined = joined[~torch.isin(joined, torch.cat([self.pairs.taken, own]))]
        return joined if kind == "additions" else torch.cat([own, joined]).sort().values

    def _own(self) -> Tensor:
        edges, targets = self.task.graph.edges, self.pairs.targets
        if len(targets):
            edges = edges[:, np.isin(edges, targets).any(axis=0)]
        numbers = pair_numbers(torch.from_numpy(edges), self.pairs.n)
        free: Tensor = numbers[~torch.isin(numbers, self.pairs.taken)]
        return free

    def _guided(self, oracle: Oracle, logits: Tensor, count: int) -> Tensor:
        """Pairs of a node that is still right and one of the class that comes second there."""
        others = logits.scatter(1, logits.argmax(dim=1, keepdim=True), -torch.inf).argmax(dim=1).numpy()
        said, nodes = logits.argmax(dim=1).numpy(), oracle.nodes.numpy()
        nodes = nodes[said[nodes] == oracle.labels.numpy()]
        order = np.argsort(said, kind="stable")
        starts = np.searchsorted(said[order], np.arange(logits.shape[1] + 1))
        nodes = nodes[np.diff(starts)[others[nodes]] > 0] if len(nodes) else nodes
        if not len(nodes) or not count:
            return torch.zeros(0, dtype=torch.int64)
        first = self.generator.choice(nodes, size=count)
        low, high = starts[others[first]], starts[others[first] + 1]
        second = order[low + np.floor(self.generator.random(count) * (high - low)).astype(np.int64)]
        ends: NDArray[np.int64] = np.sort(np.stack([first, second]), axis=0)
        return pair_numbers(torch.from_numpy(ends[:, ends[0] != ends[1]]), self.pairs.n)
