r"""How a loss after training depends on the edges: gradients through the training itself.

The linear surrogate :math:`Z = \hat A^2 X W_1 W_2`, or :math:`Z = \hat A^2 X W_1` where it is a single map, is trained
by gradient descent with momentum. Training sees of the graph only the rows :math:`M = (\hat A^2 X)_T` of the labelled
nodes T, and :math:`W_1` stays in :math:`W_1^{(0)} + M^\top C`. All steps are therefore taken, and retraced, in the
space of the labelled nodes, with the kernel :math:`K = M M^\top`; nothing in them is as large as the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import one_hot

from garnet.attacks.base import Task
from garnet.attacks.cuda_graph import Replay
from garnet.attacks.models import fitted
from garnet.attacks.mutable_graph import MutableGraph
from garnet.attacks.pair_scores import DIVERGED, PairGradient
from garnet.backbones.base import Backbone, Features, glorot
from garnet.errors import AttackError, ParameterError
from garnet.graph.graph import as_graph
from garnet.linalg.sparse import SparseMatrix
from garnet.purify.features import unit_rows
from garnet.training.supervision import require_trainable

T = TypeVar("T")

Loss = Literal["tanh-margin", "cross-entropy"]

# A sum over training steps is held in at most so many directions, without those weaker than a share of the strongest.
_DIRECTIONS, _NEGLIGIBLE = 64, 1e-6


@dataclass(frozen=True, eq=False)
class Aim:
    """What is learnt, and what the attacker wants to go wrong.

    Attributes:
        features: of the nodes.
        train: (m,) labelled nodes.
        target: (m,) their classes.
        labels: (n,) classes that the attacker believes in.
        share: (n,) weight of each node in the attacker's loss.
        classes: number of classes.
        loss: of a node; `cross-entropy`, or `tanh-margin`, minus the tanh of how far the logit of its class is ahead.
        sharpness: what the margin is multiplied by before the tanh.
        given_up: of the cross-entropy, a node whose class has at most this probability is lost and counts no more.
        replays: what a GPU has recorded.
    """

    features: Features
    train: Tensor
    target: Tensor
    labels: Tensor
    share: Tensor
    classes: int
    loss: Loss = "cross-entropy"
    sharpness: float = 1.0
    given_up: float = 0.0
    replays: dict[Any, Any] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """Where it is learnt."""
        return str(self.train.device)

    @cached_property
    def wanted(self) -> Tensor:
        """(m, classes) ones at the classes of the labelled nodes."""
        return one_hot(self.target, self.classes).to(torch.float32)

    @cached_property
    def dense(self) -> Tensor:
        """(n, d) the features, zeros too."""
        matrix = self.features.stored()
        return matrix if isinstance(matrix, Tensor) else matrix.dense()

    def recorded(self, function: Callable[..., T], descent: Descent) -> Callable[..., T]:
        """A function of tensors alone: as it is on a CPU; on a GPU, recorded once and replayed for every later flip."""
        if not self.share.is_cuda:
            return partial(function, descent)
        replay: Callable[..., T] = self.replays.setdefault((function, descent), Replay(partial(function, descent)))
        return replay

    def loss_slope(self, logits: Tensor) -> Tensor:
        """Gradient of the attacker's loss by the logits, (n, ..., classes)."""
        shape = (len(logits), *[1] * (logits.ndim - 2), self.classes)
        wanted = one_hot(self.labels, self.classes).to(logits.dtype).view(shape)
        slope = self._margin_slope if self.loss == "tanh-margin" else self._entropy_slope
        return self.share.view(-1, *[1] * (logits.ndim - 1)) * slope(logits, wanted)

    def _entropy_slope(self, logits: Tensor, wanted: Tensor) -> Tensor:
        chance = logits.softmax(dim=-1)
        open_still = (chance * wanted).sum(dim=-1, keepdim=True) > self.given_up
        return (chance - wanted) * open_still

    def _margin_slope(self, logits: Tensor, wanted: Tensor) -> Tensor:
        own = (logits * wanted).sum(dim=-1, keepdim=True)
        best, rival = logits.masked_fill(wanted > 0, -torch.inf).max(dim=-1, keepdim=True)
        bend = self.sharpness * (1 - torch.tanh(self.sharpness * (own - best)).square())
        return bend * (torch.zeros_like(logits).scatter(-1, rival, 1.0) - wanted)


def aim_of(task: Task, backbone: Backbone[Any], variant: str, device: str, *, unit: bool = False) -> Aim:
    """What the attacker of a task wants: nodes without a label wrong (`self`), those with one (`train`), or `both`.

    Labels that are not known are those that the victim, or else a surrogate, predicts on the clean graph. With `unit`
    the features of each node are scaled to length one.
    """
    split, labels, classes = require_trainable(task.graph)
    believed = (task.victim or fitted(task, backbone, device)).predictions().copy()
    if believed.shape != labels.shape or believed.max() >= classes:
        raise ParameterError("The victim was trained on another graph: it has other nodes or classes than this one.")
    believed[split.train] = labels[split.train]
    taught = np.zeros(task.graph.num_nodes, dtype=bool)
    taught[split.train] = True
    weight = {"self": 0.0, "train": 1.0, "both": 0.5}[variant]
    share = np.where(taught, weight / taught.sum(), (1 - weight) / max(1, (~taught).sum()))
    train = torch.from_numpy(split.train).to(device)
    graph = as_graph(task.graph, features=unit_rows(task.graph.features)) if unit else task.graph
    return Aim(
        Features.of(graph, device),
        train,
        torch.from_numpy(labels).to(device)[train],
        torch.from_numpy(believed).to(device),
        torch.from_numpy(share.astype(np.float32)).to(device),
        classes,
    )


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Training of the surrogate.

    Attributes:
        steps: of gradient descent.
        lr: step size.
        momentum: of the steps.
        hidden: width of the surrogate; None if it is a single map.
    """

    steps: int = 100
    lr: float = 0.1
    momentum: float = 0.9
    hidden: int | None = 16

    @property
    def second_lr(self) -> float:
        """Step size of W_2, which is the identity, and stays it, where the surrogate is a single map."""
        return 0.0 if self.hidden is None else self.lr


class Operator(Protocol):
    """A symmetric matrix, known by its products."""

    def __matmul__(self, block: Tensor, /) -> Tensor:
        """The matrix times (n, f)."""
        ...


def linear_meta_gradient(graph: MutableGraph, aim: Aim, descent: Descent, generator: torch.Generator) -> PairGradient:
    """The exact gradient of the attacker's loss after training, by the convolution."""
    course = _course(graph, aim, descent, generator)
    slope, drawn, rows = course.retraced()
    return _through_both(course.matrix, slope, drawn, aim.train, rows)


def first_order_gradient(graph: MutableGraph, aim: Aim, descent: Descent, generator: torch.Generator) -> PairGradient:
    """The sum over the steps of the gradient with that step's weights held fixed: training itself is not followed."""
    course = _course(graph, aim, descent, generator)
    weights = course.maps()  # (d, steps, classes)
    wide = weights.flatten(1)
    drawn = aim.features.matrix @ wide
    logits = (course.matrix @ (course.matrix @ drawn)).view(len(drawn), -1, aim.classes)
    slopes = aim.loss_slope(logits).flatten(1)
    if not slopes.isfinite().all() or not wide.isfinite().all():
        raise AttackError(DIVERGED)
    # The steps resemble one another: a few directions hold the sum of all their outer products.
    drawn_at_random = torch.randn(len(wide), _DIRECTIONS, generator=generator, device=wide.device)
    basis = torch.linalg.qr(slopes @ (wide.T @ drawn_at_random)).Q
    mixing = slopes.T @ basis
    strength, turn = torch.linalg.svd(wide @ mixing, full_matrices=False)[1:]
    turn = turn[strength > _NEGLIGIBLE * strength[0]].T
    slopes, drawn = basis @ turn, drawn @ (mixing @ turn)
    none = drawn.new_zeros(0, dtype=torch.long)
    return _through_both(course.matrix, slopes, drawn, none, drawn.new_zeros(0, len(drawn)))


def _course(graph: MutableGraph, aim: Aim, descent: Descent, generator: torch.Generator) -> Course:
    """A training on the whole graph."""
    convolution = graph.normalized()
    twice = sp.csr_array(convolution[aim.train.cpu().numpy()] @ convolution)
    seen = SparseMatrix(twice, aim.device, learnt=False) @ aim.dense
    return Course(SparseMatrix(convolution, aim.device, symmetric=True), seen, aim, descent, generator)


class Course:
    """One training of the linear surrogate, and the way back.

    Attributes:
        matrix: the convolution.
        seen: (m, d) what of it and of the features the training sees, M.
    """

    def __init__(self, matrix: Operator, seen: Tensor, aim: Aim, descent: Descent, generator: torch.Generator) -> None:
        self.matrix, self.seen, self.aim, self.descent = matrix, seen, aim, descent
        self.kernel = seen @ seen.T
        self.first = glorot(seen.shape[1], descent.hidden or aim.classes, generator)
        self.second = (
            torch.eye(aim.classes, device=seen.device)
            if descent.hidden is None
            else glorot(descent.hidden, aim.classes, generator)
        )
        self.steps = aim.recorded(_descend, descent)(self.kernel, seen @ self.first, self.second, aim.wanted)

    def maps(self) -> Tensor:
        """(d, steps, classes) product of the two weights after each step."""
        places, seconds = self.steps[0][1:], self.steps[1][1:]
        wide = places.transpose(0, 1).flatten(1)
        firsts = (self.seen.T @ wide).view(len(self.first), len(places), -1) + self.first[:, None]
        return torch.einsum("dsh,shc->dsc", firsts, seconds)

    def retraced(self) -> tuple[Tensor, Tensor, Tensor]:
        """From the attacker's loss back through every step.

        Returns:
            (n, classes) gradient by the logits; (n, classes) features times both weights; and (m, n) gradient by M
            times the transposed features.
        """
        places, seconds, hiddens, chances = self.steps
        place, second = places[-1], seconds[-1]
        first = self.first + self.seen.T @ place
        both = first @ second
        drawn = self.aim.features.matrix @ both
        slope = self.aim.loss_slope(self.matrix @ (self.matrix @ drawn))
        by_map = _transposed_times(self.aim.features, self.matrix @ (self.matrix @ slope))  # (d, classes)
        by_first = by_map @ second.T
        by_seen = place @ by_first.T  # the last weights hold M themselves
        by_place, by_second = self.seen @ by_first, first.T @ by_map
        by_hidden = self.aim.recorded(_ascend, self.descent)(
            self.kernel, seconds, hiddens, chances, self.aim.wanted, by_place, by_second
        )
        by_begin = by_hidden.sum(dim=0)
        by_kernel = torch.einsum("smh,snh->mn", by_hidden, places[:-1])
        by_seen = by_seen + by_begin @ self.first.T + (by_kernel + by_kernel.T) @ self.seen
        rows = (self.aim.features.matrix @ by_seen.T.contiguous()).T.contiguous()
        return slope, drawn, rows


def _descend(descent: Descent, kernel: Tensor, begin: Tensor, second: Tensor, wanted: Tensor) -> tuple[Tensor, ...]:
    """Gradient descent with momentum: C and W_2 before each step and after the last, hidden layer and probabilities."""
    place = torch.zeros_like(begin)
    speed, turn = torch.zeros_like(place), torch.zeros_like(second)
    kept: tuple[list[Tensor], ...] = ([place], [second], [], [])
    for _ in range(descent.steps):
        hidden = torch.addmm(begin, kernel, place)
        chance = (hidden @ second).softmax(dim=1)
        error = (chance - wanted) / len(wanted)
        speed = torch.add(error @ second.T, speed, alpha=descent.momentum)
        turn = torch.addmm(turn, hidden.T, error, beta=descent.momentum)
        place = torch.sub(place, speed, alpha=descent.lr)
        second = torch.sub(second, turn, alpha=descent.second_lr)
        for those, one in zip(kept, (place, second, hidden, chance), strict=True):
            those.append(one)
    return tuple(torch.stack(those) for those in kept)


def _ascend(
    descent: Descent, kernel: Tensor, seconds: Tensor, hiddens: Tensor, chances: Tensor, wanted: Tensor,
    by_place: Tensor, by_second: Tensor,
) -> Tensor:  # fmt: skip
    """The way back: (steps, m, hidden) gradient by the hidden layer of each step, from that by C and W_2 at the end."""
    by_speed, by_turn = torch.zeros_like(by_place), torch.zeros_like(by_second)
    collected = []
    for second, hidden, chance in zip(seconds[:-1].flip(0), hiddens.flip(0), chances.flip(0), strict=True):
        by_speed = torch.sub(descent.momentum * by_speed, by_place, alpha=descent.lr)
        by_turn = torch.sub(descent.momentum * by_turn, by_second, alpha=descent.second_lr)
        error = (chance - wanted) / len(wanted)
        by_error = torch.addmm(hidden @ by_turn, by_speed, second)
        by_logits = chance * (by_error - (by_error * chance).sum(dim=1, keepdim=True)) / len(wanted)
        by_hidden = torch.addmm(error @ by_turn.T, by_logits, second.T)
        by_second = torch.addmm(torch.addmm(by_second, by_speed.T, error), hidden.T, by_logits)
        by_place = torch.addmm(by_place, kernel, by_hidden)
        collected.append(by_hidden)
    return torch.stack(collected[::-1])


def _through_both(matrix: Operator, slope: Tensor, drawn: Tensor, nodes: Tensor, rows: Tensor) -> PairGradient:
    r"""Of :math:`\hat A \hat A X W` by both of its convolutions."""
    left = torch.cat([slope, matrix @ slope], dim=1)
    right = torch.cat([matrix @ drawn, drawn], dim=1)
    return PairGradient(left, right, nodes, rows)


def _transposed_times(features: Features, block: Tensor) -> Tensor:
    matrix = features.stored()
    return matrix.T @ block if isinstance(matrix, Tensor) else matrix.transposed() @ block
