"""Evasion of a whole defence by changing features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from garnet.attacks.adaptive import KnownDefense, Oracle, Reached, device_of
from garnet.attacks.base import Attack, Task, best_so_far
from garnet.attacks.feature_changes import Bounds, FeatureGroup, as_entries, is_binary, no_changes, promising
from garnet.attacks.feature_model import FeatureModel
from garnet.attacks.features import FeatureLoss
from garnet.attacks.models import Labels
from garnet.graph.perturbation import Entries
from garnet.parameters import Count, Positive, Share
from garnet.training.predictor import Predictor

Changes = tuple[Tensor, Tensor]
"""(2, m) nodes and columns of entries, and (m,) what is added to them."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveFeatures(Attack):
    r"""Changes features by the gradient through the model of a defence, which is run again after every round.

    A round follows the gradient of the loss in the features through the model on the defence's graph, as in
    `FeaturePGD`: the number of entries grows to the budget, and then the least promising make room for others. Anything
    else that the defence derives from features, such as a graph of near nodes, is fixed during a round. Then the
    defence itself is queried on the changes; those that really did most harm are kept.

    Edges are unchanged. To change both, run this attack on the graph that another has changed, with the same victim.

    Threat model: evasion with knowledge of the graph, the defence with all of its parameters and random choices, the
    trained weights, and the true labels of the nodes under attack, unless `labels` says otherwise. On the whole graph,
    or on targets. It changes features of any node that the model looks at, or, if it is `direct`, of the nodes under
    attack alone. Where all features are 0 or 1 they are flipped; others move by at most :math:`\epsilon` times the
    feature's standard deviation, or :math:`\epsilon`, and stay between its least and largest value.

    Attributes:
        defense: the known defence, or its name.
        epsilon: the most that an entry moves, where features are not binary.
        unit: whether that is in units of the feature's `spread` (standard deviation) or `absolute`.
        rounds: number of rounds; after each the defence is queried and run again.
        steps: gradient steps in each round.
        growing: share of all steps in which the number of entries grows to the budget.
        renewed: share of the entries replaced in the first step after that; in the t-th step this is divided by the
            square root of t.
        loss: the loss to maximise; see `attack_loss`. `auto` is the `margin` of a single node, and the `tanh-margin` of
            several.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
        direct: change only the features of the nodes under attack.
    """

    scope: ClassVar[Literal["either"]] = "either"
    changes: ClassVar[Literal["entries"]] = "entries"
    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")
    goes_on: ClassVar[bool] = False
    threat: ClassVar[Literal["evasion"]] = "evasion"

    defense: KnownDefense = "garnet"
    epsilon: Positive = 1.0
    unit: Literal["spread", "absolute"] = "spread"
    rounds: Count = 10
    steps: Count = 4
    growing: Share = 0.4
    renewed: Share = 0.5
    loss: FeatureLoss = "auto"
    labels: Labels = "true"
    direct: bool = False

    def _run(self, task: Task) -> Iterator[Entries]:
        single = task.per_target is not None or len(task.targets) == 1
        loss = self.loss if self.loss != "auto" else "margin" if single else "tanh-margin"
        oracle = Oracle.of(task, self.defense, loss, self.labels)
        climb = _Climb(self, task, oracle)
        together = len(oracle.nodes) if task.per_target is None else 1
        for nodes, labels in zip(
            torch.split(oracle.nodes, together), torch.split(oracle.labels, together), strict=True
        ):
            some = replace(oracle, nodes=nodes, labels=labels)
            yield from best_so_far(partial(climb.go, some), lambda: climb.entries)


class _Climb:
    """Features that are changed bit by bit.

    Attributes:
        settled: (2, j) entries that were changed for earlier targets, and (j,) what was added to them.
        best: the same of the nodes that are under attack now, as it did most harm.
        model: what is followed, which is the defence near the last try.
        around: the same near the best one, where the next target begins.
    """

    def __init__(self, attack: AdaptiveFeatures, task: Task, oracle: Oracle) -> None:
        self.attack, self.task = attack, task
        self.device = device_of(oracle.defense)
        self.settled = self.best = no_changes(self.device)
        self.model = self.around = self._model(self._said(oracle))
        binary = is_binary(self.model.features)
        self.bounds = Bounds.binary(self.model) if binary else Bounds.of(self.model, attack.epsilon, attack.unit)

    @property
    def entries(self) -> Entries:
        """The best changes of the nodes under attack now."""
        return self._entries(self.best)

    def go(self, oracle: Oracle) -> None:
        """Change features for some nodes."""
        attack, task = self.attack, self.task
        self.settled = _joined(self.settled, self.best)
        self.best, self.model = no_changes(self.device), self.around
        now = self.best
        most, growing = (-1.0, -1.0), max(1, round(attack.growing * attack.rounds * attack.steps))
        group = FeatureGroup(
            oracle.nodes.to(self.device),
            oracle.labels.to(self.device),
            task.per_target or task.budget,
            oracle.loss,
            oracle.nodes.to(self.device) if attack.direct else None,
            self.model.features.shape[1],
        )
        for number in range(attack.rounds):
            for step in range(number * attack.steps, (number + 1) * attack.steps):
                now = self._stepped(group, now, step, growing)
            said = self._said(oracle, now)
            harm = Reached(oracle, said.graph, said.logits().float()).harm
            self.model = self._model(said)
            if harm > most and now[0].shape[1]:
                most, self.best, self.around = harm, now, self.model
            task.tell(f"{harm[0]:.1%} wrong, round", number + 1, attack.rounds)

    def _stepped(self, group: FeatureGroup, now: Changes, step: int, growing: int) -> Changes:
        """Entries and what is added to them, after one more step along the gradient."""
        taken, changes = _joined(self.settled, now)
        _, gradient = self.model.gradient(group.loss, taken, changes)
        worth = gradient.at(now[0]) * self.bounds.corner(gradient, now[0])
        kept, size = promising(step, growing, self.attack.renewed, group.quota(self.settled[0]), worth)
        chosen, gain = group.best(gradient, max(size - len(kept), 0), self.bounds.worth, taken)
        places = torch.cat([now[0][:, kept], chosen[:, gain > 0]], dim=1)
        return places, self.bounds.corner(gradient, places)

    def _said(self, oracle: Oracle, now: Changes | None = None) -> Predictor:
        """What the defence says after all changes."""
        entries = self._entries(_joined(self.settled, now)) if now is not None else Entries.none()
        graph = self.task.graph
        if len(entries):
            graph = replace(graph, features=entries.put(graph.features, entries.after))
        return oracle.defense.predict(oracle.predictor, graph)

    def _model(self, said: Predictor) -> FeatureModel:
        return FeatureModel.read_by(said, self.task.graph, self.device)

    def _entries(self, now: Changes) -> Entries:
        places, changes = now
        return as_entries(self.model, places, self.bounds.inside(places, self.model.at(places) + changes))


def _joined(one: Changes, other: Changes) -> Changes:
    return torch.cat([one[0], other[0]], dim=1), torch.cat([one[1], other[1]])
