"""Poisoning with knowledge of the whole defence: Metattack on what the defence would keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.attacks.adaptive import KnownDefense, changed, device_of, known
from garnet.attacks.base import Attack, Task, flips
from garnet.attacks.gated_flips import Gate, GatedFlips, read_by
from garnet.attacks.meta_gradient import Aim, Descent, aim_of, linear_meta_gradient
from garnet.attacks.models import Labels
from garnet.attacks.relaxation import target_groups
from garnet.backbones import LinearGCN
from garnet.graph.graph import Edges, Graph
from garnet.parameters import Count, Device, Positive, Share
from garnet.purify.relaxed import Frozen, View, as_it_is, never_kept

_LR = 3.0
"""Of the surrogate, as for Metattack."""


@dataclass(frozen=True, kw_only=True)
class AdaptiveMetattack(Attack):
    """The meta-gradient on the purified graph, times the share of each flip that the purifier would let through.

    A surrogate is trained on the graph that the defence produces, and the gradient of its loss is followed back through
    all of its training, as in `Metattack`. The defence shows what it would do with every promising pair: flips that it
    would undo gain nothing. Each gradient gives several flips, and after a chunk of them the defence is run again on
    the changed graph. For a defence of several views, such as a committee, the gains of all views are added with the
    views' weights; a view without a purifier reads the graph as it is.

    Threat model: poisoning with knowledge of all edges and features, the labels of the training nodes, and the defence
    with all of its parameters and random choices, but for the weights that its model will learn. On the whole graph, or
    aimed at some nodes; flips may be anywhere in either case. No node loses its last edge.

    Attributes:
        defense: the known defence, or its name.
        chunk: flips after which the defence is run again.
        stride: flips per gradient; on Cora, fewer did more harm, and ten times as many far less.
        mix: share of these that follows the gradient on the unpurified graph, whatever the defence would do.
        candidates: pairs with the largest gradient, besides the edges, on which the defence is queried each time.
        labels: the classes that nodes without a label should lose: those that the victim or else a surrogate has
            `predicted` on the clean graph, or the `true` ones as far as known.
        sharpness: sharpness of the tanh of the margin, as in Metattack.
        steps: training steps of the surrogate.
        device: where gradients are computed; the defence uses its own device.
    """

    scope: ClassVar[Literal["either"]] = "either"
    needs: ClassVar[tuple[str, ...]] = ("features", "labels", "split")
    threat: ClassVar[Literal["poisoning"]] = "poisoning"

    defense: KnownDefense = "garnet"
    chunk: Count = 50
    stride: Count = 5
    mix: Share = 0.0
    candidates: Count = 20_000
    labels: Labels = "predicted"
    sharpness: Positive = 0.3
    steps: Count = 40
    device: Device = "cpu"

    def _run(self, task: Task) -> Iterator[Edges]:
        defense, aim, made = known(self.defense), self._aim(task), task.done
        start, views = -1, tuple[View, ...]()
        for targets, chunk, begin, end in self._windows(task):
            if made.shape[1] >= end:
                continue
            if chunk != start:
                task.tell("run the defence", chunk, task.budget)
                start, views = chunk, _reached(defense.views(changed(task.graph, made[:, :chunk])))
            # One that was stopped within a window finds the rest of it again.
            found = self._window(task, views, _aimed_at(aim, targets), made[:, :begin])[:, : end - begin]
            for flip in found.T[made.shape[1] - begin :]:
                made = np.concatenate([made, flip[:, None]], axis=1)
                yield flip[:, None]
            if made.shape[1] < end:
                return  # no other pair is allowed

    def _windows(self, task: Task) -> Iterator[tuple[NDArray[np.int64], int, int, int]]:
        """The targets of the flips of each gradient, where the chunk of these begins, and where they begin and end."""
        start = 0
        for targets, budget in target_groups(task):
            for chunk in range(start, start + budget, self.chunk):
                last = min(chunk + self.chunk, start + budget)
                for begin in range(chunk, last, self.stride):
                    yield targets, chunk, begin, min(begin + self.stride, last)
            start += budget

    def _aim(self, task: Task) -> Aim:
        aim = aim_of(task, LinearGCN(), "self", self.device, unit=True)
        if self.labels == "true":
            true = torch.from_numpy(task.labels).to(aim.labels)
            aim = replace(aim, labels=torch.where(true >= 0, true, aim.labels))
        return replace(aim, loss="tanh-margin", sharpness=self.sharpness)

    def _window(self, task: Task, views: tuple[View, ...], aim: Aim, made: Edges) -> Edges:
        """The next flips, (2, stride), the best first; fewer if no more are allowed."""
        seed = int(np.random.default_rng((task.seed, made.shape[1])).integers(2**62))
        bare = round(self.mix * self.stride)
        chosen: list[tuple[int, int]] = []
        for some, count in ((views, self.stride - bare), ((View(as_it_is),), bare)):
            if count:
                taken = np.concatenate([made, flips(chosen)], axis=1)
                graph = changed(task.graph, taken)
                gates = [self._gate(view, graph, aim, seed) for view in some]
                chosen += GatedFlips(graph, gates, self.candidates, taken.T, self._views_at).best(count)
        return flips(chosen)

    @property
    def _views_at(self) -> str:
        """Where views compute, which need not be where gradients do."""
        return device_of(known(self.defense))

    def _gate(self, view: View, graph: Graph, aim: Aim, seed: int) -> Gate:
        """A view, and the gradient on what it gives; every view's surrogate begins with the same weights."""
        read = read_by(view.read, graph, self._views_at)
        counted = replace(aim, share=aim.share * torch.as_tensor(view.share).to(aim.share))
        descent = Descent(steps=self.steps, lr=_LR, hidden=None)
        generator = torch.Generator(self.device).manual_seed(seed)
        return Gate(view.read, read, linear_meta_gradient(read, counted, descent, generator))


def _reached(views: tuple[View, ...]) -> tuple[View, ...]:
    """Those that an edge could reach; if it reaches none, the graph as it is, where it may do harm yet."""
    deaf = [isinstance(view.read, Frozen) and view.read.judge is never_kept for view in views]
    return tuple(view for view, none in zip(views, deaf, strict=True) if not none) or (View(as_it_is),)


def _aimed_at(aim: Aim, targets: NDArray[np.int64]) -> Aim:
    """The same, of which only some nodes count; none are all of them."""
    if not len(targets):
        return aim
    share = torch.zeros_like(aim.share)
    share[torch.from_numpy(targets).to(share.device)] = 1 / len(targets)
    return replace(aim, share=share)
