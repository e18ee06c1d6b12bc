"""Attacks on features: words are flipped, numbers are shifted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from garnet.attacks.base import Attack, Task
from garnet.attacks.feature_changes import Bounds, FeatureGroup, as_entries, is_binary, no_changes, promising
from garnet.attacks.feature_model import FeatureModel, Gains
from garnet.attacks.models import Labels, Surrogate, attacked_labels, attacked_nodes
from garnet.attacks.relaxation import Loss
from garnet.backbones.base import require_features
from garnet.errors import GraphError
from garnet.graph.perturbation import Entries
from garnet.parameters import Count, Device, Natural, Positive, Share

FeatureLoss = Literal["auto", Loss]


@dataclass(frozen=True, kw_only=True)
class FeatureFlip(Attack):
    """Flips words, 0 to 1 and 1 to 0, greedily: always those to which the loss is most sensitive.

    The feature half of the attack of Zügner, Akbarnejad and Günnemann (KDD 2018), with a gradient in place of the
    closed form of their linear model, so that other models can be attacked. A flip is never undone.

    Threat model: knows the graph, the features, and either the victim, which is evaded, or the labels to train a
    surrogate on, to poison by transfer. It also knows the true labels of the nodes under attack, unless `labels` says
    otherwise. On the whole graph, or on targets; a budget for each target is spent on one target after the other, any
    other on all at once. It changes words of any node that the model looks at, or, if it is `direct`, of the nodes
    under attack alone. Edges stay. There is no limit but the budget, which is spent even where no flip helps.

    Attributes:
        loss: the loss to maximise; see `attack_loss`. `auto` is the `margin` of a single node, which has a gradient
            however sure the model is; of several nodes it is the `masked-cross-entropy` of a victim, and the
            `tanh-margin` of a surrogate, whose flips do more to other models.
        labels: the classes that the nodes should lose: their `true` ones, or those `predicted` on the clean graph.
        direct: change only the words of the nodes under attack.
        at_once: flips per gradient; more are faster, and a little weaker.
        surrogate: the model to attack if there is no victim, or its name.
        device: where to compute.
    """

    scope: ClassVar[Literal["either"]] = "either"
    changes: ClassVar[Literal["entries"]] = "entries"
    needs: ClassVar[tuple[str, ...]] = ("features",)

    loss: FeatureLoss = "auto"
    labels: Labels = "true"
    direct: bool = False
    at_once: Count = 1
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Entries]:
        _require_binary(require_features(task.graph, "the attack reads them"))
        model = FeatureModel.of_task(task, self.surrogate, self.device)
        done = torch.from_numpy(task.done_entries.places).to(self.device)
        places = done[:, :0]
        for group in _groups(self, task, model):
            quota = group.quota(places)
            for first in range(0, quota, self.at_once):
                start, count = places.shape[1], min(self.at_once, quota - first)
                # What an earlier call had done of this step is not looked for again.
                chosen = done[:, start : start + count]
                if chosen.shape[1] < count:
                    _, gradient = model.gradient(group.loss, places, 1 - 2 * model.at(places))
                    chosen, _ = group.best(gradient, count, _flips_of(model), places)
                places = torch.cat([places, chosen], dim=1)
                new = places[:, max(start, done.shape[1]) :]
                if new.shape[1]:
                    yield as_entries(model, new, 1 - model.at(new))


@dataclass(frozen=True, kw_only=True)
class FeaturePGD(Attack):
    r"""Shifts a few numbers within bounds, by projected gradient ascent (Madry et al., ICLR 2018).

    Each step follows the sign of the gradient as far as the bounds allow and projects onto as many entries as the
    budget
    allows: those that promise most to first order. In the first `rounds` the number of entries grows to the budget; in
    the `steps` after that the least promising ones make room for others, and the best state is kept.

    Threat model: that of `FeatureFlip`, for features of any kind. Entry j of a node moves by at most
    :math:`\epsilon s_j`, with :math:`s_j` the feature's standard deviation over the nodes, or by at most
    :math:`\epsilon`; and it stays between the least and the largest value that the feature has in the clean graph. The
    budget counts entries, and is not spent where no change helps.

    Attributes:
        epsilon: the most that an entry moves.
        unit: whether that is in units of the feature's `spread` (standard deviation) or `absolute`.
        rounds: steps in which the number of entries grows to the budget.
        steps: further steps after that.
        renewed: share of the entries replaced in the first of the steps; in the t-th step this is divided by the root
            of t.
        loss: the loss to maximise; see `attack_loss`. `auto` is the `margin` of a single node, which has a gradient
            however sure the model is, and the `tanh-margin` of several.
        labels, direct, surrogate, device: as for `FeatureFlip`.
    """

    scope: ClassVar[Literal["either"]] = "either"
    changes: ClassVar[Literal["entries"]] = "entries"
    needs: ClassVar[tuple[str, ...]] = ("features",)
    goes_on: ClassVar[bool] = False

    epsilon: Positive = 1.0
    unit: Literal["spread", "absolute"] = "spread"
    rounds: Count = 10
    steps: Natural = 40
    renewed: Share = 0.5
    loss: FeatureLoss = "auto"
    labels: Labels = "true"
    direct: bool = False
    surrogate: Surrogate = "linear-gcn"
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Entries]:
        model = FeatureModel.of_task(task, self.surrogate, self.device)
        bounds = Bounds.of(model, self.epsilon, self.unit)
        settled, fixed = no_changes(self.device)
        for group in _groups(self, task, model):
            places, changes = no_changes(self.device)
            best, most, quota = (places, changes), -math.inf, group.quota(settled)
            for step in range(self.rounds + self.steps + 1):
                taken = torch.cat([settled, places], dim=1)
                value, gradient = model.gradient(group.loss, taken, torch.cat([fixed, changes]))
                task.tell(f"step {step} of {self.rounds + self.steps}, loss {value:.4f}")
                if step >= self.rounds and value > most:
                    best, most = (places, changes), float(value)
                worth = gradient.at(places) * bounds.corner(gradient, places)
                kept, size = promising(step, self.rounds, self.renewed, quota, worth)
                chosen, worth = group.best(gradient, size - len(kept), bounds.worth, taken)
                places = torch.cat([places[:, kept], chosen[:, worth > 0]], dim=1)
                changes = bounds.corner(gradient, places)
            settled, fixed = torch.cat([settled, best[0]], dim=1), torch.cat([fixed, best[1]])
            yield as_entries(model, best[0], bounds.inside(best[0], model.at(best[0]) + best[1]))


def _groups(attack: FeatureFlip | FeaturePGD, task: Task, model: FeatureModel) -> Iterator[FeatureGroup]:
    """All nodes under attack at once, or one target after the other if each has a budget of its own."""
    numbers = attacked_nodes(task)
    nodes = torch.from_numpy(numbers).to(attack.device)
    classes = attacked_labels(
        task, numbers, attack.labels, lambda: model.logits(*no_changes(attack.device)), attack.device
    )
    width, each = model.features.shape[1], task.per_target
    together = len(nodes) if each is None else 1
    evaded = isinstance(attack, FeatureFlip) and task.victim is not None
    several = "masked-cross-entropy" if evaded else "tanh-margin"
    loss = attack.loss if attack.loss != "auto" else "margin" if together == 1 else several
    for own, lost in zip(torch.split(nodes, together), torch.split(classes, together), strict=True):
        yield FeatureGroup(own, lost, each or task.budget, loss, own if attack.direct else None, width)


def _flips_of(model: FeatureModel) -> Gains:
    """What flips are worth: a word that is there can only go."""

    def gains(nodes: Tensor, slopes: Tensor) -> Tensor:
        rows, columns = model.nonzero(nodes)
        return slopes.index_put_((rows, columns), -slopes[rows, columns])

    return gains


def _require_binary(features: Any) -> None:
    if not is_binary(features):
        raise GraphError(
            "Words are flipped where features are 0 or 1, and the graph has others; make them binary, or bend them "
            "with the attack feature-pgd."
        )
