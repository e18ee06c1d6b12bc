"""Randomised block coordinate descent, Geisler et al. (NeurIPS 2021): attacks whose memory is a block of pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar, Literal

import numpy as np
import torch

from garnet.attacks.base import Attack, Task
from garnet.attacks.models import Labels, Surrogate, edge_model
from garnet.attacks.relaxation import (
    Candidates,
    Loss,
    ProjectedAscent,
    Relaxation,
    as_edges,
    pair_numbers,
    target_groups,
)
from garnet.errors import ParameterError
from garnet.graph.graph import Edges
from garnet.parameters import Count, Device, Natural, Positive


@dataclass(frozen=True, kw_only=True)
class PRBCD(Attack):
    r"""Projected randomised block coordinate descent: flip probabilities, learnt for one block of pairs at a time.

    A pair in the block is flipped with probability p: it has weight p if it is not an edge, and w (1 - p) if it is an
    edge of weight w. Each step follows the gradient of the loss in p and projects onto :math:`\sum p \le` budget; then
    the likeliest flips, three times as many as the budget allows but at most half of the block, stay, and the rest is
    resampled. In the end, the best block is kept, and the probabilities are refined and sampled from.

    Threat model: knows the graph, the features, and either the victim, which is evaded, or the labels to train a
    surrogate on, to poison by transfer. It also knows the true labels of the nodes under attack, unless `labels` says
    otherwise. On the whole graph, or local: only pairs that touch a target are flipped. A budget for each target is
    spent on one target after the other, any other on all of them at once. No limit but the budget.

    Attributes:
        block_size: pairs considered together; memory and time of a step are those of a graph with that many more edges.
        steps: steps with resampling of part of the block.
        fine_steps: steps with a fixed block.
        lr: mean increase, per step, of the probabilities of the most promising flips, as many as the budget.
        samples: graphs to sample from the probabilities in the end; the worst one is kept.
        loss: the loss to maximise; see `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
        surrogate: the model to attack if there is no victim, or its name.
        device: where to compute.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    goes_on: ClassVar[bool] = False

    block_size: Count = 250_000
    steps: Count = 100
    fine_steps: Natural = 25
    lr: Positive = 0.25
    samples: Natural = 20
    loss: Loss = "tanh-margin"
    labels: Labels = "true"
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        # Before the surrogate is trained; where there are more groups, they are alike.
        targets, budget = target_groups(task)[0]
        self._require_room(Candidates(task.graph.num_nodes, targets, torch.zeros(0, dtype=torch.int64)), budget)
        model = edge_model(task, self.surrogate, self.device)
        flips = torch.zeros(0, dtype=torch.int64, device=self.device)
        rates = [self.lr] * self.steps + [self.lr / math.sqrt(step + 1) for step in range(self.fine_steps)]
        for number, (targets, budget) in enumerate(target_groups(task)):
            problem = Relaxation.of(task, model, self.loss, self.labels, targets).after(flips)
            pairs = Candidates(task.graph.num_nodes, targets, flips)
            budget = min(budget, pairs.size)
            generator = np.random.default_rng([task.seed, number])
            ascent = ProjectedAscent(problem, budget, pairs.draw(self.block_size, generator, budget))
            others = pairs if len(ascent.numbers) < pairs.size else None
            yield from ascent.climb(task, rates, partial(self._renew, ascent, others, generator))
            chosen = ascent.sampled(self.samples, generator)
            flips = torch.cat([flips, chosen])
            yield as_edges(chosen, task.graph.num_nodes)

    def _renew(
        self, ascent: ProjectedAscent, others: Candidates | None, generator: np.random.Generator, step: int
    ) -> None:
        """Before a step, draw a part of the block anew, if there are other pairs; for the last ones, take the best."""
        if step == self.steps:
            ascent.go_back()
        elif others is not None and 0 < step < self.steps:
            ascent.renew(others, self.block_size, generator)

    def _require_room(self, pairs: Candidates, budget: int) -> None:
        """Refuse a block in which the flips of a budget have no others beside them."""
        if self.block_size < min(2 * budget, pairs.size):
            raise ParameterError(
                f"The 'block_size' parameter of PRBCD must be at least {2 * budget}, twice the number of flips. "
                f"Got {self.block_size!r} instead."
            )


@dataclass(frozen=True, kw_only=True)
class GRBCD(Attack):
    """Greedy randomised block coordinate descent: flips the pairs with the largest gradient in each random block.

    The budget is spread evenly over the steps. Blocks depend only on seed and step, so a stopped attack continues as if
    it had never stopped.

    Threat model: as for `PRBCD`.

    Attributes:
        block_size: pairs considered together; memory and time of a step are those of a graph with that many more edges.
        steps: number of steps over which the budget is spread; never more than there are flips.
        loss: the loss to maximise; see `attack_loss`. None is `masked-cross-entropy` against a victim, and
            `tanh-margin` through a surrogate, which may be too unsure of all nodes for the entropy to show which ones
            waver.
        labels, surrogate, device: as for `PRBCD`.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("features",)

    block_size: Count = 250_000
    steps: Count = 125
    loss: Loss | None = None
    labels: Labels = "true"
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        model, n = edge_model(task, self.surrogate, self.device), task.graph.num_nodes
        loss = self.loss or ("tanh-margin" if task.victim is None else "masked-cross-entropy")
        done = pair_numbers(torch.from_numpy(task.done).to(self.device), n)
        flips = done[:0]
        for number, (targets, budget) in enumerate(target_groups(task)):
            clean = Relaxation.of(task, model, loss, self.labels, targets)
            budget = min(budget, Candidates(n, targets, flips).size)
            steps = min(self.steps, budget)
            bounds = [len(flips) + budget * step // steps for step in range(steps + 1)]
            for step, (first, last) in enumerate(pairwise(bounds)):
                if last <= len(done):
                    flips = done[:last]
                    continue
                generator = np.random.default_rng([task.seed, number, step])
                block = Candidates(n, targets, flips).draw(self.block_size, generator, last - first)
                gradient = clean.after(flips).gradient(block, torch.zeros(len(block), device=self.device))
                chosen = block[gradient.topk(last - first).indices]
                # What an earlier call had done of this step.
                chosen = torch.cat([done[first:last], chosen[~torch.isin(chosen, done[first:last])]])[: last - first]
                flips = torch.cat([flips, chosen])
                yield as_edges(chosen[max(0, len(done) - first) :], n)
