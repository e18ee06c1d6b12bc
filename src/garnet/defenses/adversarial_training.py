"""Training against the worst that a few flipped edges can do, which PR-BCD finds as the model learns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch

from garnet.attacks.models import EdgeModel
from garnet.attacks.relaxation import Candidates, ProjectedAscent, Relaxation
from garnet.backbones import GCN, GPRGNN
from garnet.backbones.base import Parameters
from garnet.backbones.gcn import GCNInputs
from garnet.defenses.base import Defense
from garnet.errors import ParameterError
from garnet.graph.budget import Budget
from garnet.graph.graph import Graph
from garnet.parameters import Count, Device, Positive, ShareBelowOne, number
from garnet.progress import Clock, Progress
from garnet.training.loop import Course, Epochs, Round, Training
from garnet.training.predictor import Predictor
from garnet.training.supervision import Supervision

_LEAST_BLOCK, _PAIRS_PER_FLIP = 10_000, 10


@dataclass(frozen=True, kw_only=True)
class AdversarialTraining(Defense):
    r"""Adversarial training with projected randomised block coordinate descent.

    The min-max problem of Xu et al. (IJCAI 2019),

    .. math:: \min_\theta \max_{\tilde A \in \Phi(A)} \sum_{i \in T} \ell(f_\theta(X, \tilde A)_i, y_i),

    in which :math:`\Phi(A)` holds the graphs within a budget of flips. The inner problem is solved with the PR-BCD of
    Geisler et al. (NeurIPS 2021), whose block of pairs is kept from epoch to epoch: a few attack steps against the
    current model, then a step of the model on the graph with edges weighted by the probabilities of their flips.

    Gosch et al. (NeurIPS 2023) explain what makes it work, and how far to trust it:

    * With only the few labelled nodes, a model becomes robust there by memorising them, and no other node gains. So T
      holds all nodes except those for validation, with labels predicted by a first, plainly trained model
      (`Training.confidence`), and all nodes are attacked.
    * Even so, T includes the test nodes, and a model may memorise their labels. Robustness measured at nodes seen in
      training says little about new ones.
    * GPRGNN can shift to other hops, or to features alone, and gains most; the filter of a GCN is fixed.

    It is meant for graphs that are changed after training. It trusts every edge of a poisoned graph, as plain training
    does.

    The best epoch is chosen on the validation nodes of the given graph, not of an attacked one: the attack grows
    stronger all the time, so accuracy under it would favour the epochs that it has hardly touched. For the same reason
    nothing counts as best before `settle`.

    Attacks continue from epoch to epoch, one of the two ways of Gosch et al., so one step per epoch is enough. Unlike
    in their code, the training loss is the cross-entropy, with which a budget of zero is plain training, and not the
    tanh margin (which the attack maximises), and validation nodes are not learnt.

    Attributes:
        backbone: GPRGNN or GCN; a smaller dropout than usual is worth trying.
        training: how it is trained; without `confidence`, only the labelled nodes are learnt.
        device: where it is trained.
        budget: flips of the attacks: a share of the edges, at least one flip if it is not zero, or a `Budget`.
        steps: attack steps in each epoch.
        step_size: mean increase, per step, of the probabilities of the most promising flips, as many as the budget.
        block_size: pairs that the attack considers together, at least twice the flips; memory and time are those of a
            graph with that many more edges. None means 10,000, or ten for each flip if that is more.
        warmup: share of the epochs, at the start, without an attack.
        settle: share of the epochs, at the start, in which no model counts as best; at least `warmup`.
        attacked: nodes whose classes the attack targets: `all`, with predicted classes where they are not learnt, or
            only the `taught` ones.
    """

    whole_graph: ClassVar[bool] = True

    # Dropping half of all units is enough noise to hide what the attacks teach.
    backbone: GPRGNN | GCN = field(default_factory=lambda: GPRGNN(dropout=0.2))
    # Any confidence will do: the first model is stopped early, so it is seldom sure and often right.
    training: Training = field(default_factory=lambda: Training(epochs=200, lr=0.01, confidence=0.01))
    device: Device = "cpu"
    budget: Annotated[float, number("a share >= 0", lambda x: x >= 0)] | Budget = 0.2
    steps: Count = 1
    step_size: Positive = 0.25
    block_size: Count | None = None
    warmup: ShareBelowOne = 0.1
    settle: ShareBelowOne = 0.5
    attacked: Literal["all", "taught"] = "all"

    def _fit(self, graph: Graph, seeds: Sequence[int], progress: Progress | None) -> tuple[Predictor, ...]:
        flips, clock = self._flips(graph), Clock(None)
        with clock("train"):
            inputs = self.backbone.prepare(graph, self.device)
            course = Course(self.backbone, graph, self.training, self.device, progress)
            plain = course.plain_epochs(inputs)
            epochs = self._attacked_epochs(graph, inputs, flips) if flips else plain
            # One after the other, because each is attacked in its own way; the teacher model is not attacked.
            predictors = course.predictors(seeds, epochs, inputs, teacher=plain)
        return tuple(replace(one, stages=tuple(clock.stages)) for one in predictors)

    def _attacked_epochs(self, graph: Graph, inputs: GCNInputs, flips: int) -> Epochs[GCNInputs]:
        """Epochs of one step, each on the graph as the adversary has left it by then."""
        begins = int(self.warmup * self.training.epochs)
        counts = max(begins, int(self.settle * self.training.epochs))

        def epochs(
            parameters: Parameters, supervision: Supervision, seeds: Sequence[int]
        ) -> Iterator[Sequence[Round[GCNInputs]]]:
            adversary = _Adversary(self, graph, flips, supervision, seeds[0])
            for epoch in count():
                seen = adversary.attacked(parameters, inputs) if epoch >= begins else inputs
                yield [Round([(seen, supervision)], inputs if epoch >= counts else None)]

        return epochs

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        convolves = isinstance(self.backbone, GCN) or self.backbone.hops != 0
        yield "backbone", convolves, "GPRGNN with at least one hop or GCN, whose edges can be weighed"

    def _flips(self, graph: Graph) -> int:
        """Number of pairs that the attacks may flip; the block must hold twice as many."""
        pairs = graph.num_nodes * (graph.num_nodes - 1) // 2
        if isinstance(self.budget, Budget):
            flips = self.budget.changes(graph, 0, "edges")
        else:
            # A billionth more, as in Budget.
            flips = math.floor(self.budget * graph.num_edges + 1e-9)
            flips = min(max(flips, int(self.budget * graph.num_edges > 0)), pairs)
        if self.block_size is not None and self.block_size < min(2 * flips, pairs):
            raise ParameterError(
                f"The 'block_size' parameter of AdversarialTraining must be at least {min(2 * flips, pairs)}, twice "
                f"the number of flips or all pairs. Got {self.block_size!r} instead."
            )
        return flips


class _Adversary:
    """An attack that continues while the model learns."""

    def __init__(
        self, defense: AdversarialTraining, graph: Graph, flips: int, supervision: Supervision, seed: int
    ) -> None:
        n, device = graph.num_nodes, defense.device
        self._defense, self._graph, self._flips, self._supervision = defense, graph, flips, supervision
        self._generator = np.random.default_rng(seed)
        self._size = defense.block_size or max(_LEAST_BLOCK, _PAIRS_PER_FLIP * flips)
        self._pairs = Candidates(n, np.zeros(0, dtype=np.int64), torch.zeros(0, dtype=torch.int64, device=device))
        self._nodes = supervision.nodes if defense.attacked == "taught" else torch.arange(n, device=device)
        self._edges = torch.from_numpy(graph.edges).to(device), torch.from_numpy(graph.weights).to(device)
        self._descent: ProjectedAscent | None = None

    def attacked(self, parameters: Parameters, inputs: GCNInputs) -> GCNInputs:
        """The graph after a few more steps against a model, which sees `inputs` of the clean one."""
        defense, flips = self._defense, self._flips
        learnt = {name: value.detach() for name, value in parameters.items()}
        model = EdgeModel(defense.backbone, learnt, inputs, self._graph.num_nodes, defense.device)
        with torch.no_grad():
            predicted = defense.backbone.logits(learnt, inputs, None)[0].argmax(dim=1)
        labels = torch.where(self._supervision.taught[0], self._supervision.target[0], predicted)[self._nodes]
        problem = Relaxation(model, self._nodes, labels, "tanh-margin", *self._edges)
        if self._descent is None:
            self._descent = ProjectedAscent(problem, flips, self._pairs.taken)
        descent = self._descent
        descent.problem = problem
        for _ in range(defense.steps):
            if len(descent.numbers) < self._pairs.size:
                descent.renew(self._pairs, self._size, self._generator)
            descent.step(defense.step_size)
        edges, weights = problem.weighted(descent.numbers, descent.p)
        there = weights > 0
        return inputs.with_edges(edges[:, there], weights[there])
