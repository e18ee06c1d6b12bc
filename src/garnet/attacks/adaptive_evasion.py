"""Evasion of a whole defence by the gradient through all of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.adaptive import KnownDefense, Oracle, Reached
from garnet.attacks.base import Attack, Task, best_so_far
from garnet.attacks.bcd import PRBCD
from garnet.attacks.models import Labels
from garnet.attacks.relaxation import Candidates, Loss, ProjectedAscent, as_edges, pair_numbers, target_groups
from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.parameters import Count, Positive, Share
from garnet.purify.relaxed import Way

_STILL_LIKELY = 1e-3
"""A pair with a smaller probability makes room for another in the next round."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveEvasion(Attack):
    """Projected gradients through the whole defence, which is run again after every round.

    Pairs have probabilities of being flipped, as in `PRBCD`. A round follows the gradient of the loss in these through
    model, weights and support of the defence, near the graph that the likeliest flips make. Then the defence itself is
    queried on these flips, and made differentiable again around them; the flips that really did most harm are kept.
    Before each round, pairs that are no longer likely make room for others: some random, the rest pairs that would join
    a node still classified correctly to one of its second-best class. Against a defence that does not read the edges
    there is nothing to gain, and nothing is flipped.

    Threat model: evasion with knowledge of the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or local: only pairs that touch a target are flipped.

    Attributes:
        defense: the known defence, or its name.
        flips: whether `any` pair may be flipped, or only `additions` or `deletions` are made.
        way: how gradients pass through what precedes the model. `still` fixes eigenvectors
            during a round, and looks for flips that the defence keeps; `turning` also passes through the eigenvectors,
            by perturbation theory; `open` assumes that every flip is kept, and finds flips that harm by what they cost
            the other edges.
        start: start with `nothing`, or with the flips of a `blind` attacker, `PRBCD` on a model without a defence, as
            far as `flips` allows them.
        block_size: pairs considered together, besides the existing edges.
        guided: share of these that join a node to its second-best class.
        rounds: number of rounds; after each the defence is queried and made differentiable again.
        steps: gradient steps in each round.
        lr: mean increase, per step, of the probabilities of the most promising flips, as many as the budget.
        loss: the loss to maximise; see `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
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
            block = _Block(self, task, Candidates(n, targets, done), np.random.default_rng([task.seed, number]))
            climb = _Climb(self, replace(task, budget=budget), oracle.aimed_at(targets), block)
            yield from best_so_far(climb.go, climb.edges)
            done = torch.cat([done, climb.found])


class _Climb:
    """What is known in the course of an ascent.

    Attributes:
        found: numbers of the flips that did most harm.
    """

    def __init__(self, attack: AdaptiveEvasion, task: Task, oracle: Oracle, block: _Block) -> None:
        self.attack, self.task, self.oracle, self.block = attack, task, oracle, block
        self.found = block.pairs.taken[:0]

    def edges(self) -> Edges:
        """The flips that did most harm."""
        return as_edges(self.found, self.block.pairs.n)

    def go(self) -> None:
        """Climb, ask the defence after every round, and keep what did most harm."""
        attack, block, pairs = self.attack, self.block, self.block.pairs
        reached = self._reached(self.found)
        try:
            problem = reached.relaxation(attack.way)
        except ParameterError:
            if self.oracle.reads_edges():
                raise
            return  # flips change nothing
        device = problem.model.device
        fresh = block.fresh(self.oracle, reached.logits).to(device)
        ascent, most = ProjectedAscent(problem, min(self.task.budget, pairs.size), fresh), (-1.0, -1.0)
        if attack.start == "blind":
            self._start_blind()
            reached = self._reached(self.found)
            most = reached.harm
            ascent.begin(self.found.to(device))
            ascent.face(reached.relaxation(attack.way).model)
        for number in range(attack.rounds):
            for _ in range(attack.steps):
                ascent.step(attack.lr)
            flips = ascent.best.flips.cpu()
            reached = self._reached(flips)
            if reached.harm > most:
                most, self.found = reached.harm, flips
            self.task.tell(f"{most[0]:.1%} wrong, round", number + 1, attack.rounds)
            if number + 1 < attack.rounds:
                ascent.refill(block.fresh(self.oracle, reached.logits).to(device), _STILL_LIKELY)
                ascent.face(reached.relaxation(attack.way).model)

    def _reached(self, flips: Tensor) -> Reached:
        """What the defence says after flips, and those made for earlier targets."""
        return self.oracle.after(as_edges(torch.cat([self.block.pairs.taken, flips]), self.block.pairs.n))

    def _start_blind(self) -> None:
        """Find what one would flip who does not know the defence."""
        own, budget, pairs = self.attack, self.task.budget, self.block.pairs
        attack = PRBCD(
            block_size=max(own.block_size, 2 * budget),
            steps=own.rounds * own.steps,
            fine_steps=0,
            loss=own.loss,
            labels=own.labels,
        )
        # What it yields last is its best, also where it is stopped.
        for flips in attack._run(replace(self.task, targets=pairs.targets, per_target=None, victim=None)):
            self.found = self.block.allowed(pair_numbers(torch.from_numpy(np.sort(flips, axis=0)), pairs.n))


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

    def allowed(self, numbers: Tensor) -> Tensor:
        """Those of some pairs that may be flipped."""
        kind, free = self.attack.flips, self._free(numbers)
        return free if kind == "any" else free[torch.isin(free, self._own()) == (kind == "deletions")]

    def _own(self) -> Tensor:
        edges, targets = self.task.graph.edges, self.pairs.targets
        if len(targets):
            edges = edges[:, np.isin(edges, targets).any(axis=0)]
        return self._free(pair_numbers(torch.from_numpy(edges), self.pairs.n))

    def _free(self, numbers: Tensor) -> Tensor:
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
