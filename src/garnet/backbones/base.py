"""What every backbone is made of: inputs prepared once, parameters stacked over seeds, dropout, linear maps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.linalg.dense import stacked
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.sparse import SparseMatrix

Parameters = dict[str, Tensor]
"""The tensors of a model by name; those of S models trained together have a leading dimension of S."""

BUFFER = "buffer."
"""Prefix of the tensors that a model itself changes in training: saved with it, neither learnt nor decayed."""

ONE_HOT = "one-hot node numbers"
"""What models read instead of features, in words."""

# Dense features with fewer nonzero entries than this share are multiplied as sparse ones.
_SPARSE_BELOW = 0.25

# With this few columns the matrix takes the time, with more the activations and their place in a CPU's cache.
_NARROW = 32


Convolve = Callable[[Tensor, int, Tensor | None], Tensor]
"""A replacement for a model's convolution: from the output of a layer, (S, n, f), the layer's number and its input
(None if that is the features), it makes what each node receives, (S, n, f)."""

Inputs = TypeVar("Inputs")
"""What a backbone prepares from a graph."""


@runtime_checkable
class Backbone(Protocol[Inputs]):
    """A model as a value: the constructor stores its settings, and the methods compute with them."""

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of one model before training."""
        ...

    def prepare(self, graph: Graph, device: str) -> Inputs:
        """What the model needs of the graph, computed once."""
        ...

    def logits(self, parameters: Parameters, inputs: Inputs, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of S models; `noise` is None in evaluation."""
        ...


@runtime_checkable
class Penalized(Protocol):
    """A backbone whose loss has more terms than the cross-entropy of its logits."""

    def logits_and_penalties(self, parameters: Parameters, inputs: Any, noise: Noise) -> tuple[Tensor, Tensor]:
        """(S, n, classes) logits in training, and (S,) terms to add to each model's loss."""
        ...


@runtime_checkable
class NodeWise(Protocol):
    """A backbone with weights for each node, which therefore only fits graphs of the same nodes."""

    def node_weights(self, nodes: int, generator: torch.Generator) -> Parameters:
        """The parameters of one model with a row for each node, before training; `initial` gives the others."""
        ...


@runtime_checkable
class Rewirable(Protocol):
    """Inputs of a model whose edges can be replaced, with gradients to their weights."""

    def with_edges(self, edges: Tensor, weights: Tensor) -> Self:
        """The same nodes, joined by undirected edges (2, m) with weights (m,)."""
        ...


@runtime_checkable
class Dense(Protocol):
    """Inputs of a model that also works with a matrix of all pairs of nodes."""

    def with_matrix(self, adjacency: Tensor) -> Self:
        """The same nodes, joined by a symmetric (n, n) adjacency with entries of either sign; may modify it."""
        ...


class Noise:
    """Dropout and other noise, with a generator for each seed: a model does not depend on others trained with it."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = generators

    def normal(self, shape: tuple[int, ...]) -> Tensor:
        """(S, *shape) standard normal numbers."""
        draws = [torch.randn(shape, generator=one, device=one.device) for one in self.generators]
        return torch.stack(draws)

    def mask(self, shape: tuple[int, ...], rate: float) -> Tensor:
        """(S, *shape) factors: 0 with probability `rate`, else 1 / (1 - rate)."""
        device = self.generators[0].device
        masks = torch.empty((len(self.generators), *shape), device=device)
        for mask, generator in zip(masks, self.generators, strict=True):
            if device.type == "cpu":
                mask.copy_(_kept(shape, rate, generator))
            else:
                mask.bernoulli_(1 - rate, generator=generator)
        return masks.div_(max(1 - rate, 1e-9))


def _kept(shape: tuple[int, ...], rate: float, generator: torch.Generator) -> Tensor:
    """True with probability 1 - `rate`, to a 65,536th; four per random number, because a CPU draws those slowly."""
    size = math.prod(shape)
    draws = torch.empty((size + 3) // 4, dtype=torch.int64).random_(-(2**63), None, generator=generator)
    below = min(round((1 - rate) * 2**16) - 2**15, 2**15 - 1)
    return (draws.view(torch.int16)[:size] < below).view(shape)


def dropout(hidden: Tensor, rate: float, noise: Noise | None) -> Tensor:
    """Dropout of (S, n, f) activations; nothing in evaluation."""
    if noise is None or not rate:
        return hidden
    return hidden * noise.mask(tuple(hidden.shape[1:]), rate)


def standardized(hidden: Tensor) -> Tensor:
    """Units (S, n, f) with mean zero and variance one over the nodes."""
    spread, mean = torch.var_mean(hidden, dim=1, keepdim=True, correction=0)
    return (hidden - mean) * torch.rsqrt(spread + 1e-5)


@dataclass(frozen=True, eq=False)
class Features:
    """The nodes' features, (n, d), on a device.

    Attributes:
        matrix: dense or sparse, whichever multiplies faster; or, without dropout, anything that multiplies.
    """

    matrix: LinearMap

    @classmethod
    def of(cls, graph: Graph, device: str) -> Features:
        """What models read of a graph's nodes; see `model_features`."""
        matrix = model_features(graph)
        if not sp.issparse(matrix):
            filled = np.count_nonzero(matrix) / max(matrix.size, 1)
            if filled >= _SPARSE_BELOW:
                return cls(torch.from_numpy(np.ascontiguousarray(matrix)).to(device))
            matrix = sp.csr_array(matrix)
        return cls(SparseMatrix(matrix, device))

    def linear(self, weight: Tensor, rate: float, noise: Noise | None) -> Tensor:
        """Features, after dropout, times (S, d, f): shape (S, n, f)."""
        if weight.shape[1] != self.matrix.shape[1]:
            # A product with sparse features would not notice weights with too many rows.
            raise ValueError(f"weights for {weight.shape[1]} features, and there are {self.matrix.shape[1]}")
        if noise is None or not rate:
            return propagate(self.matrix, weight)
        matrix = self.stored()
        if isinstance(matrix, SparseMatrix):
            return matrix.each(noise.mask(tuple(matrix.values.shape), rate), weight)
        return stacked(matrix * noise.mask(tuple(matrix.shape), rate), weight)

    def stored(self) -> Tensor | SparseMatrix:
        """The matrix, for uses other than products."""
        if isinstance(self.matrix, Tensor | SparseMatrix):
            return self.matrix
        raise TypeError(f"{type(self.matrix).__name__} has products, but no entries")


def model_features(graph: Graph) -> sp.csr_array | NDArray[np.float32]:
    """What a model reads of each node: its features or, in a graph without features, its number.

    Numbers are one-hot, an (n, n) sparse identity: the first weights of a model then hold a row for each node, and the
    model is only of use on these nodes. Whatever compares nodes calls `require_features` instead, since all numbers
    are equally dissimilar.
    """
    if graph.features is None or not graph.num_features:
        return sp.csr_array(sp.eye_array(graph.num_nodes, dtype=np.float32, format="csr"))
    return graph.features


def require_features(graph: Graph, why: str) -> sp.csr_array | NDArray[np.float32]:
    """The features of a graph, for uses to which node numbers are no substitute.

    Args:
        graph: the graph.
        why: who wants them for what, such as `GNNGuard compares them`.

    Raises:
        GraphError: it has no features.
    """
    if graph.features is None or not graph.num_features:
        raise GraphError(f"The graph has no features, and {why}; give it some (as_graph(features=...)).")
    return graph.features


def initial_parameters(backbone: Backbone[Any], graph: Graph, classes: int, generator: torch.Generator) -> Parameters:
    """The parameters of one model for a graph before training, node weights included."""
    parameters = backbone.initial(int(model_features(graph).shape[1]), classes, generator)
    if isinstance(backbone, NodeWise):
        parameters |= backbone.node_weights(graph.num_nodes, generator)
    return parameters


def dense_features(features: sp.csr_array | NDArray[np.float32]) -> NDArray[np.float32]:
    """Features as a dense array."""
    return np.asarray(features.toarray() if isinstance(features, sp.csr_array) else features, dtype=np.float32)


def propagate(matrix: LinearMap, hidden: Tensor) -> Tensor:
    """A matrix (m, n) times the activations of all seeds, (S, n, f): shape (S, m, f)."""
    seeds, n, f = hidden.shape
    if f > _NARROW and seeds > 1 and isinstance(matrix, SparseMatrix) and hidden.device.type == "cpu":
        return torch.stack([matrix @ one for one in hidden])
    # All seeds share one wide product, which reads the matrix once.
    wide = hidden.transpose(0, 1).reshape(n, seeds * f)
    return (matrix @ wide).view(-1, seeds, f).transpose(0, 1).contiguous()


def linear(hidden: Tensor, weight: Tensor) -> Tensor:
    """Activations (S, n, f) times weights (S, f, c)."""
    return stacked(hidden, weight)


def glorot(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """A weight matrix drawn uniformly within the bounds of Glorot and Bengio (2010)."""
    bound = math.sqrt(6 / max(rows + columns, 1))
    return (torch.rand(rows, columns, generator=generator, device=generator.device) * 2 - 1) * bound


def fan_in(rows: int, columns: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A weight and a bias drawn uniformly within one over the root of the inputs, as torch's `Linear` does."""
    bound = 1 / math.sqrt(max(rows, 1))
    draws = torch.rand(rows + 1, columns, generator=generator, device=generator.device)
    weight = (draws * 2 - 1) * bound
    return weight[:-1].clone(), weight[-1:].clone()
