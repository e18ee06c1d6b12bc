"""What attacks on a whole defence have in common: the defence they know, and its predictions on changed graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.base import Task
from garnet.attacks.models import EdgeFunction, Labels, attack_loss, attacked_labels, attacked_nodes
from garnet.attacks.relaxation import Loss, Relaxation
from garnet.errors import ParameterError
from garnet.graph.graph import Edges, Graph
from garnet.graph.perturbation import Perturbation
from garnet.parameters import Rule
from garnet.purify.relaxed import View, Way
from garnet.registry import defense_named
from garnet.training.predictor import Predictor


@runtime_checkable
class Known(Protocol):
    """The part of a defence that an attacker uses; `garnet.defenses.Defense` has it."""

    def fit(self, graph: Any, *, seed: int = 0) -> Predictor:
        """A trained model."""
        ...

    def predict(self, predictor: Predictor, graph: Any) -> Predictor:
        """Its predictions on another graph."""
        ...

    def answers(self, predictor: Predictor) -> Callable[[Graph], Tensor]:
        """The same as plain logits, for many graphs."""
        ...

    def relaxed(self, predictor: Predictor, graph: Graph, *, way: Way = "still") -> EdgeFunction:
        """The same as a function of edge weights."""
        ...

    def views(self, graph: Graph) -> tuple[View, ...]:
        """What its models would read of a graph."""
        ...


def _defense(value: Any) -> str | None:
    # The type is asked: a value may answer for itself with anything.
    if issubclass(type(value), str):
        try:
            defense_named(value)
        except ParameterError:
            return "the name of a defence, such as 'committee' or 'garnet'"
        return None
    return (
        None if issubclass(type(value), Known) else "a defence, such as Committee() or Purified(GARNET()), or its name"
    )


KnownDefense = Annotated[str | Known, Rule(_defense)]
"""The defence that an attack knows, with all of its parameters; or its name."""


def known(defense: str | Known) -> Known:
    """A defence, looked up if given by name."""
    built: Known = defense_named(defense) if isinstance(defense, str) else defense
    return built


def device_of(defense: Known) -> str:
    """Where a defence computes: its own device, or else that of the model behind it."""
    own = (getattr(one, "device", None) for one in (defense, getattr(defense, "backbone", None)))
    return next((device for device in own if device), "cpu")


def changed(graph: Graph, flips: Edges) -> Graph:
    """A graph after flips (2, j)."""
    return Perturbation.of(graph, flips).apply(graph) if flips.shape[1] else graph


def _asked(defense: Known, predictor: Predictor, clean: Graph) -> Callable[[Graph], Tensor]:
    """What a defence says of graphs, (n, classes); of the clean one it is asked once."""
    ask, said = defense.answers(predictor), list[Tensor]()

    def answer(graph: Graph) -> Tensor:
        if graph is not clean:
            return ask(graph).float()
        if not said:
            said.append(ask(clean).float())
        return said[0]

    return answer


@dataclass(frozen=True, eq=False)
class Oracle:
    """A trained defence that an attacker may ask, and look into.

    Attributes:
        defense: the defence.
        predictor: what it has trained, on the clean graph unless `trained_on` says otherwise.
        graph: the clean graph.
        nodes: (k,) nodes under attack.
        labels: (k,) labels that they should lose.
        loss: name of the loss to maximise.
        answer: what the defence says of a graph, (n, classes).
    """

    defense: Known
    predictor: Predictor
    graph: Graph
    nodes: Tensor
    labels: Tensor
    loss: Loss
    answer: Callable[[Graph], Tensor]

    @classmethod
    def of(cls, task: Task, defense: str | Known, loss: Loss, labels: Labels) -> Oracle:
        """The victim of a task, or what the defence trains on its graph if there is none."""
        built = known(defense)
        if task.victim is None:
            task.tell("train the defence")
        predictor = task.victim or built.fit(task.graph, seed=task.seed)
        answer, nodes = _asked(built, predictor, task.graph), attacked_nodes(task)
        wanted = attacked_labels(task, nodes, labels, lambda: answer(task.graph), "cpu")
        return cls(built, predictor, task.graph, torch.from_numpy(nodes), wanted, loss, answer)

    def aimed_at(self, targets: NDArray[np.int64]) -> Oracle:
        """The same, of which only some nodes count; none are all of them."""
        if not len(targets):
            return self
        some = torch.isin(self.nodes, torch.from_numpy(targets))
        return replace(self, nodes=self.nodes[some], labels=self.labels[some])

    def after(self, flips: Edges) -> Reached:
        """The defence's predictions after flips (2, j)."""
        graph = changed(self.graph, flips)
        return Reached(self, graph, self.answer(graph))

    def trained_on(self, flips: Edges, seed: int) -> Oracle:
        """The same defence, trained on the graph after flips instead."""
        predictor = self.defense.fit(changed(self.graph, flips), seed=seed)
        return replace(self, predictor=predictor, answer=_asked(self.defense, predictor, self.graph))

    def reads_edges(self) -> bool:
        """Whether flips change what the defence says; every other edge is cut to see it."""
        # Not all of them, as there are defences that refuse a graph without edges.
        some = self.graph.edges[:, ::2] if self.graph.num_edges else np.array([[0], [1]])
        return not torch.equal(self.after(some).logits, self.answer(self.graph))

    def relaxed(self, near: Graph, way: Way = "still") -> EdgeFunction:
        """The defence as a function of edges near a graph.

        Raises:
            ParameterError: no gradient reaches the edges.
        """
        return self.defense.relaxed(self.predictor, near, way=way)

    def relaxation(self, near: Graph, way: Way) -> Relaxation:
        """The clean graph with undecided flips, as the defence sees it near another one; raises as `relaxed` does."""
        model = self.relaxed(near, way)
        edges, weights = model.edges(self.graph)
        nodes, labels = self.nodes.to(model.device), self.labels.to(model.device)
        return Relaxation(model, nodes, labels, self.loss, edges, weights)


@dataclass(frozen=True, eq=False)
class Reached:
    """A graph that an attacker has reached, and what the defence says of it.

    Attributes:
        oracle: the defence.
        graph: as it is now.
        logits: (n, classes) what is said.
    """

    oracle: Oracle
    graph: Graph
    logits: Tensor

    @property
    def harm(self) -> tuple[float, float]:
        """The share of the nodes under attack that lose their class, and the loss."""
        said, labels = self.logits[self.oracle.nodes], self.oracle.labels
        wrong = (said.argmax(dim=1) != labels).double().mean()
        return float(wrong), float(attack_loss(self.oracle.loss, said, labels))

    def relaxation(self, way: Way) -> Relaxation:
        """The clean graph with undecided flips, as the defence sees it near this one."""
        return self.oracle.relaxation(self.graph, way)
