"""What every backbone is made of: inputs prepared once, parameters stacked over seeds, dropout, linear maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.errors import GraphError
from garnet.graph import Graph
from garnet.sparse import SparseMatrix

Parameters = dict[str, Tensor]
"""The tensors of a model by name; those of S models trained together have a leading dimension of S."""

# Dense features with fewer nonzero entries than this share are multiplied as sparse ones.
_SPARSE_BELOW = 0.25


class Backbone(Protocol):
    """A model as a value: the constructor stores its parameters, the methods say what to do with them."""

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """The parameters of one model before training."""
        ...

    def prepare(self, graph: Graph, device: str) -> Any:
        """What of the graph the model needs, computed once."""
        ...

    def logits(self, parameters: Parameters, inputs: Any, noise: Noise | None) -> Tensor:
        """(S, n, classes) logits of S models; `noise` is None in evaluation."""
        ...


class Noise:
    """Dropout with a generator for each seed, so that a model does not depend on those it is trained beside."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self.generators = generators

    def mask(self, shape: tuple[int, ...], rate: float) -> Tensor:
        """(S, *shape) factors: 0 with probability `rate`, else 1 / (1 - rate)."""
        device = self.generators[0].device
        masks = torch.empty((len(self.generators), *shape), device=device)
        for mask, generator in zip(masks, self.generators, strict=True):
            mask.bernoulli_(1 - rate, generator=generator)
        return masks.div_(max(1 - rate, 1e-9))


def dropout(hidden: Tensor, rate: float, noise: Noise | None) -> Tensor:
    """Dropout of (S, n, f) activations; nothing in evaluation."""
    if noise is None or not rate:
        return hidden
    return hidden * noise.mask(tuple(hidden.shape[1:]), rate)


@dataclass(frozen=True, eq=False)
class Features:
    """The nodes' features, (n, d), on a device.

    Attributes:
        matrix: dense or sparse, whichever multiplies faster.
    """

    matrix: Tensor | SparseMatrix

    @classmethod
    def of(cls, graph: Graph, device: str) -> Features:
        """The features of a graph, which must have some."""
        matrix = graph.features
        if matrix is None:
            raise GraphError(
                "The graph has no features, and models learn from them; give it some (as_graph(features=...))."
            )
        if not sp.issparse(matrix):
            filled = np.count_nonzero(matrix) / max(matrix.size, 1)
            if filled >= _SPARSE_BELOW:
                return cls(torch.from_numpy(np.ascontiguousarray(matrix)).to(device))
            matrix = sp.csr_array(matrix)
        return cls(SparseMatrix(matrix, device))

    def linear(self, weight: Tensor, rate: float, noise: Noise | None) -> Tensor:
        """Features, after dropout, times (S, d, f): shape (S, n, f)."""
        seeds, d, f = weight.shape
        if noise is not None and rate:
            if isinstance(self.matrix, SparseMatrix):
                return self.matrix.each(noise.mask(tuple(self.matrix.values.shape), rate), weight)
            return torch.bmm(self.matrix * noise.mask(tuple(self.matrix.shape), rate), weight)
        # All seeds share one product, as wide as all of them.
        wide = weight.transpose(0, 1).reshape(d, seeds * f)
        return (self.matrix @ wide).view(-1, seeds, f).transpose(0, 1)


def propagate(matrix: SparseMatrix | Tensor, hidden: Tensor) -> Tensor:
    """A graph's matrix times the activations of all seeds at once, (S, n, f)."""
    seeds, n, f = hidden.shape
    wide = hidden.transpose(0, 1).reshape(n, seeds * f)
    return (matrix @ wide).view(-1, seeds, f).transpose(0, 1)


def gcn_matrix(graph: Graph, device: str) -> SparseMatrix:
    r""":math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}`: a loop of weight one at every node, so none is isolated."""
    looped = graph.adjacency.astype(np.float64) + sp.eye_array(graph.num_nodes, format="csr")
    return symmetric_matrix(looped, device)


def symmetric_matrix(adjacency: sp.csr_array, device: str) -> SparseMatrix:
    r""":math:`D^{-1/2} A D^{-1/2}`; rows of isolated nodes are zero."""
    degrees = np.asarray(adjacency.sum(axis=1), dtype=np.float64).ravel()
    root = sp.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1)))
    return SparseMatrix(sp.csr_array(root @ adjacency @ root), device, symmetric=True)


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
