"""Metattack, Zügner and Günnemann (ICLR 2019): the graph as a hyperparameter, learnt by gradients to do harm."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from garnet.attacks.base import Attack, Task
from garnet.attacks.greedy import GreedyFlips
from garnet.attacks.meta_gradient import Descent, aim_of, first_order_gradient, linear_meta_gradient
from garnet.attacks.models import Surrogate, built
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import PairGradient
from garnet.attacks.unrolled import unrolled_meta_gradient
from garnet.backbones import LinearGCN
from garnet.graph.graph import Edges
from garnet.parameters import Count, Device, Positive, ShareBelowOne, Width


@dataclass(frozen=True, kw_only=True)
class Metattack(Attack):
    """Flips, one by one, the edge that most raises the loss of a model that is trained on the graph afterwards.

    Threat model: poisoning of the whole graph. The attacker knows all edges and features and the labels of the training
    nodes, and trains a surrogate in place of the victim, whose model and parameters stay unknown; of a victim that is
    given, only its predictions are used. No node loses its last edge.

    After every flip the surrogate is trained anew, from other random weights, and the gradient of its loss is followed
    back through all steps of that training; `approx` holds the weights of each step fixed instead.

    Attributes:
        variant: `self` has nodes without a label misclassified against what a surrogate predicts for them on the clean
            graph, `train` the training nodes against their labels, `both` half of each.
        given_up: nodes to which the surrogate gives their class with at most this probability are lost already and are
            not pushed further. The paper's attacker pushes them all the same, 0, and does less harm; see
            docs/results/attacks.md.
        unnoticeable: keep the distribution of degrees, by the test of Nettack.
        approx: the first-order approximation of the paper.
        surrogate: `linear-gcn`, which is fastest, or another backbone that averages over neighbours, or its name.
        steps: of the surrogate's training.
        lr: its step size.
        momentum: of its steps.
        hidden: width of the linear surrogate.
        device: where gradients are computed.
    """

    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")

    variant: Literal["self", "train", "both"] = "self"
    given_up: ShareBelowOne = 0.01
    unnoticeable: bool = False
    approx: bool = False
    surrogate: Surrogate = "linear-gcn"
    steps: Count = 100
    lr: Positive = 0.1
    momentum: ShareBelowOne = 0.9
    hidden: Width = 16
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        backbone = built(self.surrogate)
        aim = aim_of(task, backbone, self.variant, self.given_up, self.device)
        graph = MutableGraph(task.graph.adjacency, loops=True)
        descent = Descent(steps=self.steps, lr=self.lr, momentum=self.momentum, hidden=self.hidden)

        def gradient(generator: torch.Generator) -> PairGradient:
            if not isinstance(backbone, LinearGCN):
                return unrolled_meta_gradient(graph, aim, descent, generator, backbone)
            chosen = first_order_gradient if self.approx else linear_meta_gradient
            return chosen(graph, aim, descent, generator)

        yield from GreedyFlips(graph, unnoticeable=self.unnoticeable).run(task, gradient, self.device)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        backbone = built(self.surrogate)
        linear = isinstance(backbone, LinearGCN)
        yield "surrogate", not isinstance(backbone, LinearGCN) or backbone.hops == 2, "of two hops where it is linear"
        yield "approx", linear or not self.approx, "False where the surrogate is not linear"
