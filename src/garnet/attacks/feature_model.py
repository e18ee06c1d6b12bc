"""Models as functions of the features, so that an attack can follow their gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.base import Task
from garnet.attacks.models import fitted, fitting_backbone
from garnet.backbones.base import Backbone, Features, Parameters, require_features
from garnet.backbones.torch_module import TorchModuleInputs
from garnet.errors import ParameterError
from garnet.graph.graph import Graph
from garnet.graph.perturbation import entries_at
from garnet.linalg.linear_map import LinearMap
from garnet.registry import BACKBONES
from garnet.training.predictor import Predictor

# So many numbers of a product, or of rows of features, are held at a time.
_AT_ONCE = 1 << 20

Gains = Callable[[Tensor, Tensor], Tensor]
"""From nodes (b,) and the gradient to their features (b, d), what a change of each is worth (b, d)."""


@dataclass(frozen=True, eq=False)
class FeatureGradient:
    """The gradient of a loss to all features, (n, d), as a product of two tall matrices.

    The library's models begin with a product X W, to whose result the gradient is G; that to X is G W^T, of which only
    the rows are made that somebody asks for. The n x d matrix as a whole never is.

    Attributes:
        left: (n, f) G; or the gradient itself, for a module that takes dense features anyway.
        right: (d, f) W; None for such a module.
    """

    left: Tensor
    right: Tensor | None

    @property
    def width(self) -> int:
        """Number of features, d."""
        return len(self.right) if self.right is not None else self.left.shape[1]

    def rows(self, nodes: Tensor) -> Tensor:
        """(b, d) the gradient to the features of some nodes."""
        return self.left[nodes] if self.right is None else self.left[nodes] @ self.right.T

    def at(self, places: Tensor) -> Tensor:
        """(m,) the gradient to some entries, (2, m) nodes and columns."""
        if self.right is None:
            return self.left[places[0], places[1]]
        parts = torch.split(places, max(1, _AT_ONCE // self.left.shape[1]), dim=1)
        return torch.cat([(self.left[nodes] * self.right[columns]).sum(dim=1) for nodes, columns in parts])

    def largest(self, count: int, gains: Gains, nodes: Tensor, taken: Tensor) -> tuple[Tensor, Tensor]:
        """The entries of some nodes whose change is worth most.

        Args:
            count: how many.
            gains: what changes are worth.
            nodes: (b,) whose features may be changed.
            taken: (2, t) entries that may not be changed any more.

        Returns:
            (2, m) nodes and columns, the best first, and (m,) what they are worth; m is below `count` if there are no
            more of them.
        """
        step = max(1, _AT_ONCE // max(self.width, 1))
        worth, found = self.left.new_zeros(0), taken[:, :0]
        for part in torch.split(nodes, step):
            block = gains(part, self.rows(part))
            position = torch.full((len(self.left),), -1, device=part.device)
            position[part] = torch.arange(len(part), device=part.device)
            closed = taken[:, position[taken[0]] >= 0]
            block[position[closed[0]], closed[1]] = -torch.inf
            # The best entries lie in the rows whose best entry is best; few of them are faster to look through.
            rows = block.amax(dim=1).topk(min(count, len(part))).indices
            values, numbers = block[rows].flatten().topk(min(count, len(rows) * self.width))
            places = torch.stack([part[rows[numbers // self.width]], numbers % self.width])
            best = torch.cat([worth, values]).argsort(descending=True, stable=True)[:count]
            worth, found = torch.cat([worth, values])[best], torch.cat([found, places], dim=1)[:, best]
        free = worth > -torch.inf
        return found[:, free], worth[free]


@dataclass(frozen=True, eq=False)
class FeatureModel:
    """A trained model whose logits depend on what is added to the features of a graph.

    Attributes:
        backbone: the model.
        parameters: what it has learnt, with a leading dimension of one.
        inputs: what it needs of the clean graph.
        features: those of the clean graph, where they are.
        clean: the same where the model computes.
        device: where it computes.
    """

    backbone: Backbone[Any]
    parameters: Parameters
    inputs: Any
    features: sp.csr_array | NDArray[np.float32]
    clean: Features
    device: str

    @classmethod
    def of(cls, predictor: Predictor, graph: Graph, device: str = "cpu") -> FeatureModel:
        """The model of a predictor on a graph.

        Raises:
            ParameterError: no gradient of the model reaches the features.
            GraphError: the model was trained on other features.
        """
        backbone = fitting_backbone(predictor, graph, device)
        parameters = {name: value[None].to(device) for name, value in predictor.parameters.items()}
        inputs, clean = backbone.prepare(graph, device), Features.of(graph, device)
        model = cls(backbone, parameters, inputs, require_features(graph, "the attack reads them"), clean, device)
        model._require_gradient()
        return model

    @classmethod
    def read_by(cls, said: Predictor, clean: Graph, device: str = "cpu") -> FeatureModel:
        """The model behind what a defence says of a graph, on what the defence made of that graph.

        All else that the defence makes of features stays as it is there; what is added is added to the clean ones.

        Args:
            said: what is said of a graph, whose features may have been changed.
            clean: with features as they were.
            device: where to compute.

        Raises:
            ParameterError: no gradient of the model reaches the features.
        """
        if said.backbone is None:
            raise ParameterError("The victim is no model with a gradient; give a trained backbone, or none.")
        parameters = {name: value[None].to(device) for name, value in said.parameters.items()}
        inputs, features = said.backbone.prepare(said.graph, device), require_features(clean, "the attack reads them")
        if isinstance(inputs, TorchModuleInputs):
            inputs = said.backbone.prepare(replace(said.graph, features=features), device)
        model = cls(said.backbone, parameters, inputs, features, Features.of(clean, device), device)
        model._require_gradient()
        return model

    @classmethod
    def of_task(cls, task: Task, surrogate: str | Backbone[Any], device: str = "cpu") -> FeatureModel:
        """The victim of a task, or a surrogate trained on its clean graph."""
        if task.victim is not None:
            return cls.of(task.victim, task.graph, device)
        backbone = BACKBONES.build(surrogate, {}) if isinstance(surrogate, str) else surrogate
        return cls.of(fitted(task, backbone, device), task.graph, device)

    def gradient(
        self, loss: Callable[[Tensor], Tensor], places: Tensor, changes: Tensor
    ) -> tuple[Tensor, FeatureGradient]:
        """A loss of the logits (n, classes) and its gradient to the features.

        Args:
            loss: of the logits.
            places: (2, m) nodes and columns of entries, each once.
            changes: (m,) what is added to them.
        """
        logits, products = self._logits(places, changes)
        value = loss(logits)
        leaves = [product for product, _ in products]
        found = torch.autograd.grad(value, leaves, allow_unused=True) if value.requires_grad else [None] * len(leaves)
        lefts = [torch.zeros_like(leaf) if one is None else one for one, leaf in zip(found, leaves, strict=True)]
        rights = [right for _, right in products if right is not None]
        return value.detach(), FeatureGradient(torch.cat(lefts, dim=1), torch.cat(rights, dim=1) if rights else None)

    def logits(self, places: Tensor, changes: Tensor) -> Tensor:
        """(n, classes) with so much added to some entries, as in `gradient`."""
        return self._logits(places, changes)[0].detach()

    def rows(self, nodes: Tensor) -> Tensor:
        """(b, d) the clean features of some nodes, dense."""
        found: Any = self.features[nodes.cpu().numpy()]
        return torch.from_numpy(found.toarray() if sp.issparse(found) else found).to(self.device)

    def nonzero(self, nodes: Tensor) -> Tensor:
        """(2, m) where the clean features of some nodes are not zero; rows are counted among those nodes."""
        found: Any = self.features[nodes.cpu().numpy()]
        return torch.from_numpy(np.stack(found.nonzero()).astype(np.int64)).to(self.device)

    def at(self, places: Tensor) -> Tensor:
        """(m,) clean features at (2, m) nodes and columns."""
        return torch.from_numpy(entries_at(self.features, places.cpu().numpy())).to(self.device)

    def _logits(self, places: Tensor, changes: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor | None]]]:
        """Logits, and on what they depend: products with the features and their other factors, or features."""
        inputs: Any
        products: list[tuple[Tensor, Tensor | None]] = []
        watched = Features(_Watched(self.clean.matrix, places, changes, products))
        if isinstance(self.inputs, TorchModuleInputs):
            x = self.inputs.x.index_put((places[0], places[1]), changes, accumulate=True).requires_grad_()
            products.append((x, None))
            # A new list: layers that keep what they have made of their first features must not see these.
            inputs = replace(self.inputs, x=x, built=[])
        elif (inputs := _with_features(self.inputs, watched)) is None:
            raise ParameterError(_no_gradient(self.backbone))
        return self.backbone.logits(self.parameters, inputs, None)[0], products

    def _require_gradient(self) -> None:
        """One gradient, to see whether it arrives."""
        none = torch.zeros((2, 0), dtype=torch.int64, device=self.device)
        _, gradient = self.gradient(lambda logits: logits.square().sum(), none, none[0].float())
        if not gradient.left.any():
            raise ParameterError(_no_gradient(self.backbone))


class _Watched:
    """Features to which something is added, as far as models need them: for products, which are written down."""

    def __init__(
        self,
        clean: LinearMap,
        places: Tensor,
        changes: Tensor,
        products: list[tuple[Tensor, Tensor | None]],
    ) -> None:
        self.shape = clean.shape
        self._clean, self._places, self._changes, self._products = clean, places, changes, products

    def __matmul__(self, block: Tensor) -> Tensor:
        product = (self._clean @ block).detach()
        step = max(1, _AT_ONCE // block.shape[1])
        for places, changes in zip(
            torch.split(self._places, step, dim=1), torch.split(self._changes, step), strict=True
        ):
            product.index_add_(0, places[0], changes[:, None] * block[places[1]])
        self._products.append((product.requires_grad_(), block.detach()))
        return product


def _with_features(inputs: Any, features: Features) -> Any:
    """The inputs of a model, or of each of several that have a view of their own, with other features; None of none."""
    if isinstance(inputs, Features):
        return features
    if isinstance(getattr(inputs, "features", None), Features):
        return replace(inputs, features=features)
    views = getattr(inputs, "views", None)
    if not isinstance(views, dict):
        return None
    changed = {name: _with_features(view, features) for name, view in views.items()}
    if any(view is None for view in changed.values()):
        return None
    evidence = getattr(inputs, "evidence", None)
    beside = {} if evidence is None else {"evidence": evidence.with_features(features)}
    return replace(inputs, views=changed, **beside)


def _no_gradient(backbone: Backbone[Any]) -> str:
    return (
        f"This model does not use features: no gradient of {type(backbone).__name__} reaches them; attack through a "
        "surrogate, such as 'linear-gcn', 'gcn' or 'mlp'."
    )
