"""Flips of pairs that are not decided yet: numbers for pairs, a loss in probabilities, and how to climb it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.base import Task
from garnet.attacks.models import EdgeFunction, Labels, attack_loss, attacked_labels, attacked_nodes
from garnet.graph.graph import Edges
from garnet.progress import Stop

Loss = Literal["tanh-margin", "masked-cross-entropy", "cross-entropy", "margin"]

# Pairs that stay in a block that is renewed, for each flip of the budget: with more of them, probabilities spread thin
# and say little of the few flips that can be made; with fewer, first guesses stay.
_KEPT = 3


def target_groups(task: Task) -> list[tuple[NDArray[np.int64], int]]:
    """Targets that are attacked together, and with how many flips: one after the other if each has its own budget."""
    if task.per_target is None:
        return [(task.targets, task.budget)]
    return [(target, task.per_target) for target in task.targets[:, None]]


def pair_numbers(pairs: Tensor, n: int) -> Tensor:
    """The places of pairs (2, j), the smaller node first, among all pairs of n nodes in lexicographic order."""
    first, second = pairs[0], pairs[1]
    return first * (2 * n - first - 1) // 2 + second - first - 1


def numbered_pairs(numbers: Tensor, n: int) -> Tensor:
    """(2, j) pairs of nodes at these places; integers alone, so that no place is too far to be exact."""
    nodes = torch.arange(n, device=numbers.device)
    starts = nodes * (2 * n - nodes - 1) // 2
    first = torch.searchsorted(starts, numbers, right=True) - 1
    return torch.stack([first, numbers - starts[first] + first + 1])


def as_edges(numbers: Tensor, n: int) -> Edges:
    """Numbered pairs as an attack yields them."""
    return numbered_pairs(numbers, n).cpu().numpy()


@dataclass(frozen=True, eq=False)
class Candidates:
    """Pairs that may be flipped.

    Attributes:
        n: number of nodes.
        targets: one of which every pair touches; empty if any pair will do.
        taken: numbers of pairs that may not be flipped any more.
    """

    n: int
    targets: NDArray[np.int64]
    taken: Tensor

    @property
    def size(self) -> int:
        """How many there are."""
        others = self.n - len(self.targets) if len(self.targets) else 0
        taken = numbered_pairs(self.taken, self.n).cpu().numpy()
        touching = np.isin(taken, self.targets).any(axis=0).sum() if len(self.targets) else taken.shape[1]
        return self.n * (self.n - 1) // 2 - others * (others - 1) // 2 - int(touching)

    def all(self) -> Tensor:
        """The numbers of all of them, ascending."""
        return self._free(np.arange(self._places, dtype=np.int64))

    def draw(self, count: int, generator: np.random.Generator, least: int) -> Tensor:
        """The numbers of some of them, ascending: `count`, less what was drawn twice or is taken; at least `least`."""
        if count >= self._places:
            return self.all()
        drawn = self._free(generator.integers(self._places, size=count))
        # Only where most pairs are taken, so all of them are not many more.
        return drawn if len(drawn) >= least else self.all()

    @property
    def _places(self) -> int:
        """Of pairs; those of two targets have two."""
        return len(self.targets) * (self.n - 1) if len(self.targets) else self.n * (self.n - 1) // 2

    def _free(self, places: NDArray[np.int64]) -> Tensor:
        numbers = torch.from_numpy(places).to(self.taken.device)
        if len(self.targets):
            targets = torch.from_numpy(self.targets).to(self.taken.device)
            first, second = targets[numbers // (self.n - 1)], numbers % (self.n - 1)
            second = second + (second >= first)
            numbers = pair_numbers(torch.stack([first.minimum(second), first.maximum(second)]), self.n)
        distinct: Tensor = torch.unique(numbers)
        return distinct[~torch.isin(distinct, self.taken)] if len(self.taken) else distinct


@dataclass(frozen=True, eq=False)
class Relaxation:
    """A graph with undecided flips, and what they do to the nodes under attack.

    Attributes:
        model: the model to be fooled.
        nodes: under attack.
        labels: that they are to lose.
        name: of the loss.
        edges: (2, m) edges there are, in lexicographic order.
        weights: (m,) of the edges.
    """

    model: EdgeFunction
    nodes: Tensor
    labels: Tensor
    name: str
    edges: Tensor
    weights: Tensor

    @classmethod
    def of(cls, task: Task, model: EdgeFunction, loss: Loss, labels: Labels, targets: NDArray[np.int64]) -> Relaxation:
        """The clean graph of a task, with no flips yet."""
        nodes = targets if len(targets) else attacked_nodes(task)
        edges, weights = model.edges(task.graph)
        wanted = attacked_labels(task, nodes, labels, lambda: model.logits(edges, weights), model.device)
        return cls(model, torch.from_numpy(nodes).to(model.device), wanted, loss, edges, weights)

    def after(self, flips: Tensor) -> Relaxation:
        """The same after flips that are decided."""
        if not len(flips):
            return self
        edges, weights = self.weighted(flips, torch.ones(len(flips), device=self.weights.device))
        keep = weights > 0
        edges, weights = edges[:, keep], weights[keep]
        order = pair_numbers(edges, self.model.nodes).argsort()
        return replace(self, edges=edges[:, order], weights=weights[order])

    def weighted(self, numbers: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Edges and weights of the graph in which these pairs are flipped with these probabilities."""
        n = self.model.nodes
        known = pair_numbers(self.edges, n)
        place = torch.searchsorted(known, numbers).clamp(max=max(len(known) - 1, 0))
        there = known[place] == numbers if len(known) else torch.zeros_like(numbers, dtype=torch.bool)
        stays = torch.ones_like(self.weights).index_put((place[there],), 1 - p[there])
        edges = torch.cat([self.edges, numbered_pairs(numbers[~there], n)], dim=1)
        return edges, torch.cat([self.weights * stays, p[~there]])

    def loss(self, numbers: Tensor, p: Tensor) -> Tensor:
        """What the attacker wants large, as a function of the probabilities."""
        return attack_loss(self.name, self.model.logits(*self.weighted(numbers, p))[self.nodes], self.labels)

    def gradient(self, numbers: Tensor, p: Tensor) -> Tensor:
        """By how much the loss grows with each probability."""
        p = p.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(self.loss(numbers, p), p)
        # A model without loops may have none at nodes that a flip would be the first to join.
        return gradient.nan_to_num(0, 0, 0)

    @torch.no_grad()
    def flipped(self, flips: Tensor) -> float:
        """The loss after flips that are decided."""
        after = self.after(flips)
        return float(after.loss(flips[:0], torch.zeros(0, device=flips.device)))


@dataclass(frozen=True, eq=False)
class BestFlips:
    """What an ascent has found: a block, its probabilities, and the loss after the most probable flips."""

    loss: float
    flips: Tensor
    numbers: Tensor
    p: Tensor


class ProjectedAscent:
    """Projected gradient ascent of a loss in the probabilities of flips.

    Attributes:
        problem: whose loss it is.
        budget: flips at most.
        numbers: of the pairs in the block.
        p: their probabilities.
        best: the best so far.
    """

    def __init__(self, problem: Relaxation, budget: int, numbers: Tensor) -> None:
        self.problem, self.budget, self.numbers = problem, budget, numbers
        self.p = torch.zeros(len(numbers), device=numbers.device)
        self.best = BestFlips(-math.inf, numbers[:0], numbers, self.p)

    def face(self, model: EdgeFunction) -> None:
        """Go on against another model, for which nothing has been found yet."""
        self.problem = replace(self.problem, model=model)
        self.best = BestFlips(-math.inf, self.numbers[:0], self.numbers, self.p)

    def step(self, rate: float) -> None:
        """One step along the gradient; the largest of it, as many as the budget, are `rate` on average."""
        gradient = self.problem.gradient(self.numbers, self.p)
        largest = gradient.topk(min(self.budget, len(gradient))).values.clamp_min(0).mean()
        self.p = projected(self.p + rate / largest.clamp_min(1e-30) * gradient, self.budget)
        flips = _likeliest(self.numbers, self.p, self.budget)
        loss = self.problem.flipped(flips)
        if loss > self.best.loss:
            self.best = BestFlips(loss, flips, self.numbers, self.p)

    def climb(
        self, task: Task, rates: Sequence[float], before_step: Callable[[int], None] = lambda step: None
    ) -> Iterator[Edges]:
        """Take steps of these rates; where the attack is stopped among them, it gets the best flips so far."""
        try:
            for step, rate in enumerate(rates):
                before_step(step)
                self.step(rate)
                task.tell(f"loss {self.best.loss:.4f}, step", step + 1, len(rates))
        except Stop:
            yield as_edges(self.best.flips, task.graph.num_nodes)
            raise

    def renew(self, pairs: Candidates, size: int, generator: np.random.Generator) -> None:
        """Keep the likeliest pairs of the block, none of probability zero, and fill it up with others to this size."""
        kept = self.p.topk(min(size // 2, _KEPT * self.budget, int((self.p > 0).sum()))).indices
        numbers, p = self.numbers[kept], self.p[kept]
        drawn = pairs.draw(size - len(numbers), generator, 0)
        drawn = drawn[~torch.isin(drawn, numbers)]
        self.numbers, self.p = torch.cat([numbers, drawn]), torch.cat([p, p.new_zeros(len(drawn))])

    def begin(self, flips: Tensor) -> None:
        """With these flips decided, beside the pairs of the block."""
        others = self.numbers[~torch.isin(self.numbers, flips)]
        self.numbers = torch.cat([flips, others])
        self.p = torch.cat([torch.ones(len(flips), device=flips.device), self.p.new_zeros(len(others))])

    def refill(self, numbers: Tensor, least: float) -> None:
        """Keep the pairs of at least this probability, and take others in for the rest."""
        kept = self.p >= least
        others = numbers[~torch.isin(numbers, self.numbers[kept])]
        self.numbers = torch.cat([self.numbers[kept], others])
        self.p = torch.cat([self.p[kept], self.p.new_zeros(len(others))])

    def go_back(self) -> None:
        """To the best block so far."""
        self.numbers, self.p = self.best.numbers, self.best.p

    def sampled(self, samples: int, generator: np.random.Generator) -> Tensor:
        """Of the likeliest flips, and of some sets drawn from the best probabilities, those that do most harm."""
        best = self.best
        loss, flips = best.loss, best.flips
        for _ in range(samples):
            draws = torch.from_numpy(generator.random(len(best.p), dtype=np.float32)).to(best.p.device)
            drawn = _likeliest(best.numbers, torch.where(draws < best.p, best.p, 0), self.budget)
            found = self.problem.flipped(drawn)
            if found > loss:
                loss, flips = found, drawn
        return flips


def projected(p: Tensor, budget: float) -> Tensor:
    r"""The point nearest to `p` with :math:`0 \le p \le 1` and :math:`\sum p \le` budget: shifted, then cut off."""
    if p.clamp(0, 1).sum(dtype=torch.float64) <= budget:
        return p.clamp(0, 1)
    positive = p[p > 0]
    low, high = 0.0, float(positive.max())
    while high - low > 1e-7 * max(1.0, high):
        middle = (low + high) / 2
        if (positive - middle).clamp(0, 1).sum(dtype=torch.float64) > budget:
            low = middle
        else:
            high = middle
    return (p - high).clamp(0, 1)


def _likeliest(numbers: Tensor, p: Tensor, budget: int) -> Tensor:
    return numbers[p.topk(min(budget, int((p > 0).sum()))).indices]
