"""Any PyTorch module as a backbone, including those of PyTorch Geometric."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from garnet.backbones.base import BUFFER, Noise, Parameters, dense_features, model_features
from garnet.errors import GraphError, ParameterError
from garnet.graph.graph import Graph
from garnet.io.checks import most_classes
from garnet.io.limits import require_memory
from garnet.parameters import Checked

_SIZES = BUFFER + "sizes"
_OWN = BUFFER + "own."
_LEARNT = "learnt."

Build = Callable[[int, int], torch.nn.Module]


@dataclass(frozen=True, eq=False)
class TorchModuleInputs:
    """A graph in PyTorch Geometric's form: features (n, d), edge_index (2, 2m) and edge_weight (2m,).

    Attributes:
        x: features, dense.
        edge_index: both directions of every edge.
        edge_weight: the weight of each.
        built: the module, once it has been used on this graph.
    """

    x: Tensor
    edge_index: Tensor
    edge_weight: Tensor
    built: list[torch.nn.Module] = field(default_factory=list)

    def with_edges(self, edges: Tensor, weights: Tensor) -> TorchModuleInputs:
        """The same nodes, joined by undirected edges (2, m) with weights (m,); gradients flow to the weights."""
        both = torch.cat([edges, edges.flip(0)], dim=1)
        # Not the built module: layers that cache their first edges must not be used with these.
        return replace(self, edge_index=both, edge_weight=torch.cat([weights, weights]), built=[])


@dataclass(frozen=True)
class TorchModule(Checked):
    """A model of your own: `TorchModule(lambda features, classes: GraphSAGE(features, 64, 2, classes))`.

    The module's `forward` takes `(x, edge_index)` or `(x, edge_index, edge_weight)` and returns (n, classes) logits.
    Edge weights are passed if a parameter is named `edge_weight`, or if a third one has no default. Within a step,
    seeds are trained one after the other, each with its own random numbers; batch-norm statistics and other buffers
    belong to the seed, are saved with it, and are not learnt. Any other state of a module is shared by the seeds.

    Attributes:
        build: makes a new module from the numbers of features and classes.

    Example:
        >>> from torch_geometric.nn.models import GraphSAGE
        >>> from garnet import GARNET
        >>> from garnet.defenses import Purified
        >>> defense = Purified(GARNET(), TorchModule(lambda features, classes: GraphSAGE(features, 32, 2, classes)))
    """

    build: Build

    def initial(self, features: int, classes: int, generator: torch.Generator) -> Parameters:
        """Parameters and buffers of a module that is built with its own random numbers."""
        with _drawing_from(generator):
            module = self.build(features, classes)
        if any(is_lazy(value) for value in (*module.parameters(), *module.buffers())):
            raise ParameterError(
                "The module has parameters without a shape (lazy ones, or in_channels=-1); build it with the number of "
                f"features, here {features}."
            )
        module = module.to(generator.device)
        return {
            _SIZES: torch.tensor([features, classes], device=generator.device),
            **{
                (_LEARNT if value.requires_grad else _OWN) + name: value.detach().clone()
                for name, value in (*module.named_parameters(), *module.named_buffers())
            },
        }

    def prepare(self, graph: Graph, device: str) -> TorchModuleInputs:
        """Dense features, and every edge in both directions.

        Raises:
            GraphError: the features do not fit in memory, such as one-hot numbers of many nodes.
        """
        features = model_features(graph)
        require_memory(4 * math.prod(features.shape), f"A dense matrix of {features.shape[1]} features, for a module,")
        edges = graph.adjacency.tocoo()
        return TorchModuleInputs(
            # A copy, because a module may work in place.
            torch.from_numpy(dense_features(features).copy()).to(device),
            torch.from_numpy(np.stack([edges.row, edges.col]).astype(np.int64)).to(device),
            torch.from_numpy(edges.data.astype(np.float32)).to(device),
        )

    def logits(self, parameters: Parameters, inputs: TorchModuleInputs, noise: Noise | None) -> Tensor:
        """(S, n, classes); in training the buffers among `parameters` change."""
        features, classes = parameters[_SIZES][0].tolist()
        module = self._module(inputs, features, classes)
        module.train(noise is not None)
        outputs = []
        for seed in range(len(parameters[_SIZES])):
            values = {name.removeprefix(_LEARNT): v[seed] for name, v in parameters.items() if name.startswith(_LEARNT)}
            # Copies, because a module writes to its buffers while the gradient still needs those of the other seeds.
            own = {name: value[seed].clone() for name, value in parameters.items() if name.startswith(_OWN)}
            values |= {name.removeprefix(_OWN): value for name, value in own.items()}
            if noise is None:
                outputs.append(_run(module, values, inputs))
                continue
            with _drawing_from(noise.generators[seed]):
                outputs.append(_run(module, values, inputs))
            for name, value in own.items():
                parameters[name][seed] = value.detach()
        stacked = torch.stack(outputs)
        if stacked.shape[1:] != (len(inputs.x), classes):
            raise ParameterError(
                f"The module must give logits of shape ({len(inputs.x)}, {classes}), a row for each node. Got "
                f"{tuple(stacked.shape[1:])} instead."
            )
        return stacked

    def _module(self, inputs: TorchModuleInputs, features: int, classes: int) -> torch.nn.Module:
        """The module for this graph: what some layers cache of the edges (`cached=True`) must not outlive them."""
        if not inputs.built:
            if features != inputs.x.shape[1] or not 0 < classes <= most_classes(len(inputs.x)):
                raise GraphError(
                    f"The model was trained on {features} features and {classes} classes, and the graph has "
                    f"{inputs.x.shape[1]} features."
                )
            with _drawing_from(torch.Generator().manual_seed(0)):
                inputs.built.append(self.build(features, classes).to(inputs.x.device))
        return inputs.built[0]


def _run(module: torch.nn.Module, values: Parameters, inputs: TorchModuleInputs) -> Tensor:
    given: tuple[Tensor, ...] = (inputs.x, inputs.edge_index)
    named: dict[str, Tensor] = {}
    expected = list(inspect.signature(module.forward).parameters.values())
    third = expected[2] if len(expected) > 2 else None
    if any(parameter.name == "edge_weight" for parameter in expected):
        named["edge_weight"] = inputs.edge_weight
    elif third is not None and third.kind <= third.POSITIONAL_OR_KEYWORD and third.default is third.empty:
        given = (*given, inputs.edge_weight)
    result: Tensor = functional_call(module, values, given, named, strict=True)
    return result


@contextmanager
def _drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Seed torch's global random numbers from a generator, and restore them afterwards."""
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    cuda = generator.device.type == "cuda"
    with torch.random.fork_rng([generator.device.index or 0] if cuda else []):
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.default_generators[generator.device.index or 0].manual_seed(seed)
        yield
