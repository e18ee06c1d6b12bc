"""Topology attacks by projected gradients over all pairs of nodes, Xu et al. (IJCAI 2019): for small graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.attacks.base import Attack, Task
from garnet.attacks.models import EdgeModel, Labels, Surrogate, edge_model
from garnet.attacks.relaxation import Candidates, Loss, ProjectedAscent, Relaxation, as_edges
from garnet.backbones.base import BUFFER
from garnet.errors import GraphError
from garnet.graph.graph import Edges, Graph
from garnet.parameters import Count, Device, Natural, Positive
from garnet.training.adam import Adam
from garnet.training.supervision import require_trainable

MOST_NODES = 5_000
"""Beyond, all pairs of nodes are too many: at this number a step takes half a gigabyte and some seconds."""


@dataclass(frozen=True, kw_only=True)
class PGD(Attack):
    r"""Projected gradient descent: every pair of nodes has a probability to be flipped, and a gradient step at a time.

    It is `PRBCD` with all pairs in its block: each step follows the gradient of the loss in all probabilities p and
    projects onto :math:`\sum p \le` budget; in the end, flips are drawn from them. Step t is smaller by the root of t.

    Threat model: that of `PRBCD`, on the whole graph. Graphs of more than 5,000 nodes are refused.

    Attributes:
        steps: along the gradient.
        lr: by how much the first raises the probabilities of the most promising flips, as many as the budget, in the
            mean.
        samples: how many graphs are drawn from the probabilities in the end, of which the worst one counts.
        loss: the loss to maximise; see `attack_loss`.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
        surrogate: the model to attack if there is no victim, or its name.
        device: where to compute.
    """

    needs: ClassVar[tuple[str, ...]] = ("features",)
    goes_on: ClassVar[bool] = False

    steps: Count = 200
    lr: Positive = 0.1
    samples: Natural = 20
    loss: Loss = "tanh-margin"
    labels: Labels = "true"
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        yield from _climbed(self, task, _all_pairs(self, task, _model(self, task)))


@dataclass(frozen=True, kw_only=True)
class MinMax(Attack):
    """Projected gradient descent against a model that learns meanwhile: flips and weights take their steps in turn.

    After each step of `PGD` the model takes a few steps of Adam on its training loss, on the graph whose edges have the
    weights that the probabilities give them; so flips are found that training does not undo.

    Threat model: that of `PGD`, for poisoning. It knows the training nodes; a victim is where the weights begin.

    Attributes:
        steps: along the gradient in the flips.
        lr: as for `PGD`.
        inner_steps: of the model's weights after each.
        inner_lr: their size.
        samples, loss, labels, surrogate, device: as for `PGD`.
    """

    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")
    goes_on: ClassVar[bool] = False

    steps: Count = 200
    lr: Positive = 0.1
    inner_steps: Count = 1
    inner_lr: Positive = 0.01
    samples: Natural = 20
    loss: Loss = "tanh-margin"
    labels: Labels = "true"
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        model = _model(self, task)
        ascent, learner = _all_pairs(self, task, model), Learner(model, task.graph, self.inner_lr)

        def learn(step: int) -> None:
            edges, weights = ascent.problem.weighted(ascent.numbers, ascent.p)
            for _ in range(self.inner_steps):
                learner.step(edges, weights)
            ascent.face(learner.model)

        yield from _climbed(self, task, ascent, learn)


class Learner:
    """A model that is trained on, on graphs with weighted edges."""

    def __init__(self, model: EdgeModel, graph: Graph, rate: float) -> None:
        split, labels, _ = require_trainable(graph)
        self._model = model
        # Copies, because the victim's own must not change.
        self._parameters = {name: value.detach().clone() for name, value in model.parameters.items()}
        learnt = [value.requires_grad_() for name, value in self._parameters.items() if not name.startswith(BUFFER)]
        self._optimizer = Adam(learnt, rate, 5e-4)
        self._nodes = torch.from_numpy(split.train).to(model.device)
        self._labels = torch.from_numpy(labels[split.train]).to(model.device)

    @property
    def model(self) -> EdgeModel:
        """As it is now."""
        return replace(self._model, parameters={name: value.detach() for name, value in self._parameters.items()})

    def step(self, edges: Tensor, weights: Tensor) -> None:
        """One step of the training loss."""
        logits = replace(self._model, parameters=self._parameters).logits(edges, weights)
        self._optimizer.forget()
        torch.autograd.backward(cross_entropy(logits[self._nodes], self._labels))
        self._optimizer.step()


def _model(attack: PGD | MinMax, task: Task) -> EdgeModel:
    """The model to be fooled, if the graph is small enough."""
    n = task.graph.num_nodes
    if n > MOST_NODES:
        raise GraphError(
            f"The attack {attack.name} looks at all pairs of nodes, for graphs of at most {MOST_NODES} nodes. Got {n}; "
            "use prbcd, which looks at a block of them at a time."
        )
    return edge_model(task, attack.surrogate, attack.device)


def _all_pairs(attack: PGD | MinMax, task: Task, model: EdgeModel) -> ProjectedAscent:
    """The ascent of an attack before its first step, with every pair in its block."""
    n = task.graph.num_nodes
    pairs = Candidates(n, task.targets, torch.zeros(0, dtype=torch.int64, device=attack.device))
    problem = Relaxation.of(task, model, attack.loss, attack.labels, task.targets)
    return ProjectedAscent(problem, task.budget, pairs.all())


def _climbed(
    attack: PGD | MinMax, task: Task, ascent: ProjectedAscent, before_step: Callable[[int], None] = lambda step: None
) -> Iterator[Edges]:
    """All steps, each smaller than the last, and what is drawn in the end."""
    yield from ascent.climb(task, [attack.lr / math.sqrt(step + 1) for step in range(attack.steps)], before_step)
    yield as_edges(ascent.sampled(attack.samples, np.random.default_rng(task.seed)), task.graph.num_nodes)
