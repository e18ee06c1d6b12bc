"""Metattack, Zügner and Günnemann (ICLR 2019): the graph as a hyperparameter, optimised by gradients to do harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch

from garnet.attacks.base import Attack, Task
from garnet.attacks.greedy import GreedyFlips
from garnet.attacks.meta_gradient import Descent, Loss, aim_of, first_order_gradient, linear_meta_gradient
from garnet.attacks.models import Surrogate, built
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import PairGradient
from garnet.attacks.unrolled import unrolled_meta_gradient
from garnet.backbones import LinearGCN
from garnet.graph.graph import Edges
from garnet.parameters import Count, Device, Positive, ShareBelowOne, Width

_LR_OF_ONE_MAP, _LR_OF_LAYERS = 3.0, 0.1


@dataclass(frozen=True, kw_only=True)
class Metattack(Attack):
    """Flips, one by one, the edge that most raises the loss of a model trained on the graph afterwards.

    Threat model: poisoning of the whole graph. The attacker knows all edges and features and the labels of the training
    nodes, and trains a surrogate in place of the victim, whose model and parameters stay unknown; of a victim that is
    given, only its predictions are used. No node loses its last edge.

    After every flip the surrogate is retrained from new random weights, and the gradient of its loss is followed back
    through all steps of that training; `approx` holds the weights of each step fixed instead.

    It differs from the paper in three ways, chosen together by the trials on Cora in docs/results/attacks.md. The
    surrogate is a single linear map in place of two. Features have length one. And the attacker's loss is minus the
    tanh of a margin, which levels off where a node is surely right or surely wrong, in place of the cross-entropy,
    which grows without bound where a node is already lost. The attack of the paper is
    `Metattack(loss="cross-entropy", given_up=0, unit_rows=False, hidden=16, steps=100)`.

    Attributes:
        variant: `self` aims to misclassify nodes without a label, relative to a surrogate's predictions on the clean
            graph, `train` the training nodes, relative to their labels, `both` half of each.
        loss: what the attacker wants large at these nodes: `tanh-margin`, minus the tanh of the lead of a node's class
            over the next, or `cross-entropy`.
        sharpness: how soon the tanh levels off: the margin is multiplied by it.
        given_up: of the cross-entropy, nodes to which the surrogate gives their class with at most this probability are
            lost already and are not pushed further. The paper's attacker pushes them all the same, 0.
        unit_rows: scale the features of each node to length one, so that `lr` suits features of any scale.
        unnoticeable: preserve the degree distribution, by Nettack's test.
        approx: the first-order approximation of the paper.
        surrogate: `linear-gcn`, which is fastest, or another backbone that averages over neighbours, or its name.
        steps: training steps of the surrogate.
        lr: its learning rate; None is 3 for a single linear map and 0.1 for a model of several layers, which would
            diverge with a larger one.
        momentum: momentum of its steps.
        hidden: width of the linear surrogate, which then has two maps; None makes it one.
        device: where gradients are computed.
    """

    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")

    variant: Literal["self", "train", "both"] = "self"
    loss: Loss = "tanh-margin"
    sharpness: Positive = 0.3
    given_up: ShareBelowOne = 0.01
    unit_rows: bool = True
    unnoticeable: bool = False
    approx: bool = False
    surrogate: Surrogate = "linear-gcn"
    steps: Count = 40
    lr: Positive | None = None
    momentum: ShareBelowOne = 0.9
    hidden: Width | None = None
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        backbone = built(self.surrogate)
        linear = isinstance(backbone, LinearGCN)
        aim = replace(
            aim_of(task, backbone, self.variant, self.device, unit=self.unit_rows),
            loss=self.loss,
            sharpness=self.sharpness,
            given_up=self.given_up,
        )
        graph = MutableGraph(task.graph.adjacency, loops=True)
        lr = self.lr or (_LR_OF_ONE_MAP if linear and self.hidden is None else _LR_OF_LAYERS)
        descent = Descent(steps=self.steps, lr=lr, momentum=self.momentum, hidden=self.hidden)

        def gradient(generator: torch.Generator) -> PairGradient:
            if not linear:
                return unrolled_meta_gradient(graph, aim, descent, generator, backbone)
            chosen = first_order_gradient if self.approx else linear_meta_gradient
            return chosen(graph, aim, descent, generator)

        yield from GreedyFlips(graph, unnoticeable=self.unnoticeable).run(task, gradient, self.device)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        backbone = built(self.surrogate)
        linear = isinstance(backbone, LinearGCN)
        yield "surrogate", not isinstance(backbone, LinearGCN) or backbone.hops == 2, "of two hops where it is linear"
        yield "approx", linear or not self.approx, "False where the surrogate is not linear"
