"""What all purifiers share: they read any graph, check it, report what they did, and are PyG transforms."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, final

from garnet.errors import GraphError
from garnet.graph.edges import contains
from garnet.graph.graph import Graph, as_graph
from garnet.graph.sides import warn_of_sides
from garnet.io.pyg_data import are_graphs, is_pyg
from garnet.linalg.threads import sharing
from garnet.parameters import require_device, require_parameters
from garnet.progress import Progress, Stage
from garnet.purify.relaxed import Frozen, Relaxed, Way
from garnet.purify.result import Ledger
from garnet.purify.transform import Fill, purified_data


class Cleaned(Protocol):
    """The least a purifier returns: GARNET's `Purification` is one, and so is a `CleanedGraph`."""

    @property
    def graph(self) -> Graph:
        """The same nodes, joined by other edges."""
        ...

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Cost of each stage."""
        ...


@dataclass(frozen=True, eq=False)
class CleanedGraph:
    """A purified graph, and how it came about.

    Attributes:
        graph: the same nodes, joined by other edges.
        ledger: what became of each edge, with the score that decided it.
        stages: cost of each stage.
    """

    graph: Graph
    ledger: Ledger
    stages: tuple[Stage, ...]


class Purifier(ABC):
    """A purifier as a value: a frozen dataclass that stores its parameters and writes `_purify`.

    It is also a PyTorch Geometric transform: called with a `Data`, it returns a new `Data`.

    Example:
        >>> from dataclasses import dataclass
        >>> import torch
        >>> from garnet.datasets import cora
        >>> @dataclass(frozen=True, kw_only=True)
        ... class HeavyEdges(Purifier):
        ...     '''Keeps the edges of some weight.'''
        ...
        ...     least: float = 1.0
        ...
        ...     def _purify(self, graph, *, progress):
        ...         weights = torch.from_numpy(graph.weights)
        ...         stays = weights >= self.least
        ...         edges = torch.from_numpy(graph.edges)
        ...         ledger = Ledger(edges, weights, torch.ones_like(stays), stays, graph.num_nodes)
        ...         return CleanedGraph(graph.with_edges(ledger.kept, graph.weights[stays]), ledger, ())
        >>> HeavyEdges(least=2.0).purify(cora()).graph.num_edges
        0
    """

    needs_features: ClassVar[str] = ""
    """Why it needs features, in words that follow its name; empty if it does not."""

    @final
    def __post_init__(self) -> None:
        """Refuse what the annotations of its parameters and its `_rules` do not allow; `@dataclass` calls it."""
        require_parameters(self)
        _register_transform()

    @abstractmethod
    def _purify(self, graph: Graph, *, progress: Progress | None) -> Cleaned:
        """Purify a graph that has been checked."""

    def purify(self, graph: Any, *, device: str = "cpu", progress: Progress | None = None) -> Cleaned:
        """Purify a graph, without changing it.

        Args:
            graph: the untrusted graph, or anything that `as_graph` reads.
            device: where to compute, for purifiers that can use more than the CPU.
            progress: called as each stage begins.

        Raises:
            GraphError: it is not a graph, or lacks what the purifier needs.
            ParameterError: there is no such device.
        """
        graph = as_graph(graph)
        if self.needs_features and not graph.num_features:
            name = type(self).__name__
            raise GraphError(f"The graph has no features, and {name} {self.needs_features}; give it some.")
        require_device(device, type(self).__name__)
        with sharing(graph):
            cleaned = self._purify(graph, progress=progress)
        if graph.sides is not None:
            _require_sides(type(self).__name__, graph, cleaned)
        else:
            warn_of_sides(graph.adjacency, cleaned.graph.adjacency)
        return cleaned

    def relaxed(self, graph: Any, *, device: str = "cpu", way: Way = "still") -> Relaxed:
        """The purifier near a graph, as a differentiable function of edge weights: for adaptive attackers.

        Unless a purifier overrides this, its decisions about the graph's edges stay fixed, and any other pair is
        assumed to be kept with its full weight.

        Args:
            graph: the graph, or anything that `as_graph` reads.
            device: where to compute.
            way: how gradients flow; see `garnet.purify.relaxed.Way`.
        """
        graph = as_graph(graph)
        return Frozen.of(graph, self.purify(graph, device=device).graph, device=device)

    @final
    def __call__(self, data: Any, *, fill: Fill = "zeros") -> Any:
        """Purify a PyG `Data`: returns a new one with other edges and all attributes of the nodes and the graph.

        Each graph of a `Batch`, a dataset or a list is purified separately, and a graph without edges stays as it is; a
        `Batch` gives a `Batch`, the others a list. Anything else that `as_graph` reads gives a `Graph`.

        * `edge_index` has the kept edges in their original directions, and new ones in both; sorted, without loops, and
          only the heaviest of parallel edges.
        * `edge_weight` has their new weights. Their old weights, if the `Data` had any, are in `edge_weight_given`.
        * `edge_added` says which of them are new.
        * `edge_attr` and anything else that PyG takes for an edge attribute follows its edge; see `fill`.
        * `adj_t` would repeat `edge_index`, and is left out; if there is no `edge_index`, the purified edges are an
          `adj_t`, too.

        Args:
            data: the `Data`, or any of the others; it is not changed.
            fill: how to fill the attributes of new edges: `zeros`, or for floats the `mean` of all edges and for other
                numbers zero. In a list they have None, and in `edge_weight_given` zero.

        Raises:
            GraphError: it is not a graph, or lacks what the purifier needs.
            ParameterError: a graph does not allow a parameter.
        """
        _register_transform()
        if are_graphs(data):
            return [self(one, fill=fill) for one in data]
        if not is_pyg(data) or hasattr(data, "edge_types"):
            return self.purify(data).graph
        return purified_data(data, lambda graph: self.purify(graph).graph, fill=fill)

    @final
    def forward(self, data: Any) -> Any:
        """The same under PyG's name for it."""
        return self(data)


def _require_sides(name: str, graph: Graph, cleaned: Cleaned) -> None:
    """Refuse the result if it joins two nodes of one side of a bipartite graph."""
    sides, edges = graph.sides, cleaned.graph.edges
    new = edges[:, ~contains(graph.edges, edges, graph.num_nodes)]
    if sides is not None and (sides[new[0]] == sides[new[1]]).any():
        raise GraphError(f"The graph is bipartite, and {name} would join nodes of one side; GARNET does not.")


def _register_transform() -> None:
    """Register purifiers with PyG's `BaseTransform`, if it has been imported.

    To inherit from it, every program that purifies would have to import PyG, which takes seconds. But it is an abstract
    base class, and accepts whatever registers with it. Any caller of `isinstance(GARNET(), BaseTransform)` has imported
    it by then, so it is enough to look for it when this module is imported, and whenever a purifier is made or called.
    """
    base = getattr(sys.modules.get("torch_geometric.transforms"), "BaseTransform", None)
    if base is not None:
        base.register(Purifier)


_register_transform()
