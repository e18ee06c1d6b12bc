"""Models as functions of the weights of edges, so that an attack can follow their gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from garnet.attacks.base import Task
from garnet.backbones.base import Backbone, Parameters, Rewirable
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.parameters import Rule
from garnet.registry import BACKBONES, known_name
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

Labels = Literal["true", "predicted"]


def _surrogate(value: Any) -> str | None:
    names = BACKBONES.names()
    if issubclass(type(value), Backbone):
        return None
    try:
        known_name(value, names, "backbone")
    except ParameterError:
        near = get_close_matches(value[:100], names) if issubclass(type(value), str) else []
        return f"a backbone, or the name of one: {' or '.join(near) or ', '.join(names)}"
    return None


Surrogate = Annotated[str | Backbone[Any], Rule(_surrogate)]
"""A model that stands in for a victim, or its name."""
LOSSES = ("tanh-margin", "masked-cross-entropy", "cross-entropy", "margin")


class EdgeFunction(Protocol):
    """Logits that depend on the weights of edges: a model, or a whole defence."""

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        ...

    @property
    def device(self) -> str:
        """Where it computes."""
        ...

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """(n, classes) on the graph of undirected edges (2, m) with weights (m,); gradients flow to the weights."""
        ...

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """The edges (2, m) and weights (m,) of a graph, where it computes."""
        ...


@dataclass(frozen=True, eq=False)
class EdgeModel:
    """A trained model whose logits depend on the weights of any edges it is given.

    Attributes:
        backbone: the model.
        parameters: what it has learnt, with a leading dimension of one.
        inputs: what it needs of the clean graph.
        nodes: number of nodes.
        device: where it computes.
    """

    backbone: Backbone[Any]
    parameters: Parameters
    inputs: Any
    nodes: int
    device: str

    @classmethod
    def of(cls, predictor: Predictor, graph: Graph, device: str = "cpu") -> EdgeModel:
        """The model of a predictor on a graph.

        Raises:
            ParameterError: no gradient of the model reaches the edges.
        """
        backbone = fitting_backbone(predictor, graph, device)
        model = cls(
            backbone,
            {name: value[None].to(device) for name, value in predictor.parameters.items()},
            backbone.prepare(graph, device),
            graph.num_nodes,
            device,
        )
        model._require_gradient(graph)
        return model

    def logits(self, edges: Tensor, weights: Tensor) -> Tensor:
        """(n, classes) logits on the graph of undirected edges (2, m) with weights (m,); gradients flow to the weights.

        An edge of weight zero is no edge.
        """
        if not isinstance(self.inputs, Rewirable):
            raise ParameterError(_no_gradient(self.backbone))
        return self.backbone.logits(self.parameters, self.inputs.with_edges(edges, weights), None)[0]

    def edges(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """The edges (2, m) and weights (m,) of a graph, where the model computes."""
        return torch.from_numpy(graph.edges).to(self.device), torch.from_numpy(graph.weights).to(self.device)

    def _require_gradient(self, graph: Graph) -> None:
        """One gradient, to see whether it arrives."""
        edges, weights = self.edges(graph)
        if not len(weights):
            edges, weights = torch.tensor([[0], [1]], device=self.device), torch.ones(1, device=self.device)
        weights.requires_grad_()
        logits = self.logits(edges, weights)
        reached = logits.requires_grad and torch.autograd.grad(logits.square().sum(), weights, allow_unused=True)[0]
        if not isinstance(reached, Tensor) or not reached.any():
            raise ParameterError(_no_gradient(self.backbone))


def fitting_backbone(predictor: Predictor, graph: Graph, device: str) -> Backbone[Any]:
    """The backbone of a predictor whose weights fit a graph.

    Raises:
        ParameterError: it has none.
        GraphError: its weights do not fit.
    """
    if predictor.backbone is None:
        raise ParameterError("The victim is no model with a gradient; give a trained backbone, or none.")
    predictor.on(graph, device=device)
    return predictor.backbone


def edge_model(task: Task, surrogate: str | Backbone[Any], device: str = "cpu") -> EdgeModel:
    """The victim of a task, or a surrogate trained on its clean graph.

    Args:
        task: what the attack is asked to do.
        surrogate: the model that stands in for a victim, or its name.
        device: where to train and compute.
    """
    if task.victim is not None:
        return EdgeModel.of(task.victim, task.graph, device)
    return EdgeModel.of(fitted(task, built(surrogate), device), task.graph, device)


def built(surrogate: str | Backbone[Any]) -> Backbone[Any]:
    """A surrogate, by its name if it has no more than that."""
    backbone: Backbone[Any] = BACKBONES.build(surrogate, {}) if isinstance(surrogate, str) else surrogate
    return backbone


def fitted(task: Task, backbone: Backbone[Any], device: str = "cpu") -> Predictor:
    """A model trained on the clean graph of a task."""
    task.tell("train the surrogate")
    training = Training(epochs=200, lr=0.01, weight_decay=5e-4)
    return train(backbone, task.graph, seeds=(task.seed,), training=training, device=device)[0]


def margins(logits: Tensor, labels: Tensor) -> Tensor:
    """(n,) by how much the logit of the label leads, negative where another class is ahead."""
    own = logits.gather(1, labels[:, None])[:, 0]
    others = logits.scatter(1, labels[:, None], -torch.inf)
    return own - others.max(dim=1).values


def attack_loss(name: str, logits: Tensor, labels: Tensor) -> Tensor:
    """What an attacker wants large, Geisler et al. (NeurIPS 2021).

    Args:
        name: `tanh-margin`, which saturates for nodes that are surely right or wrong; `masked-cross-entropy`, of the
            nodes that are still right; `cross-entropy`; or `margin`.
        logits: (m, classes) of the nodes under attack.
        labels: (m,) what they are.
    """
    match name:
        case "tanh-margin":
            return torch.tanh(-margins(logits, labels)).mean()
        case "margin":
            return -margins(logits, labels).mean()
        case "cross-entropy":
            return cross_entropy(logits, labels)
        case "masked-cross-entropy":
            right = logits.argmax(dim=1) == labels
            return cross_entropy(logits[right], labels[right]) if right.any() else cross_entropy(logits, labels)
    raise ParameterError(f"There is no loss named {name!r}. Choose one of {', '.join(LOSSES)}.")


def attacked_nodes(task: Task) -> NDArray[np.int64]:
    """The targets; without any, the test nodes, or all nodes with a label outside of training and validation.

    Raises:
        GraphError: there is no such node.
    """
    if len(task.targets):
        return task.targets
    split, labels = task.graph.split, task.graph.labels
    nodes = np.arange(task.graph.num_nodes)
    if split is not None:
        nodes = split.test if len(split.test) else np.setdiff1d(nodes, np.concatenate([split.train, split.val]))
    nodes = nodes if labels is None else nodes[labels[nodes] >= 0]
    if not len(nodes):
        raise GraphError("No node with a label is outside of training and validation; there is nothing to attack.")
    return nodes


def attacked_labels(
    task: Task, nodes: NDArray[np.int64], kind: Labels, clean_logits: Callable[[], Tensor], device: str
) -> Tensor:
    """(m,) the classes that nodes are to lose: their true ones, or those the model sees in the clean graph.

    Raises:
        GraphError: a true one is not known.
    """
    if kind == "predicted":
        with torch.no_grad():
            return clean_logits()[torch.from_numpy(nodes)].argmax(dim=1)
    labels = task.labels[nodes]
    if (labels < 0).any():
        raise GraphError(f"Node {nodes[labels < 0][0]} has no label; attack what the model says (labels='predicted').")
    return torch.from_numpy(labels).to(device)


def _no_gradient(backbone: Backbone[Any]) -> str:
    return (
        f"No gradient of {type(backbone).__name__} reaches the edges here; attack "
        "through a surrogate, such as 'linear-gcn', 'gcn' or 'gprgnn'."
    )
