"""Training in batches: the neighbourhoods of a few nodes at a time, as small graphs.

Imported only where batches are asked for, because PyTorch Geometric takes seconds to import. Its own `NeighborLoader`
needs compiled packages; its `NodeLoader` does not, and takes the sampler below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NodeLoader
from torch_geometric.sampler import BaseSampler, NodeSamplerInput, SamplerOutput

from garnet.backbones.base import model_features
from garnet.graph.adjacency import build_adjacency
from garnet.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Batch:
    """Some nodes and a sample of their neighbourhoods.

    Attributes:
        graph: the sampled nodes with their features, and the sampled edges in both directions, with their weights. If
            the whole graph has no features, these are one-hot node numbers in it.
        nodes: (b,) their numbers in the whole graph; the requested nodes come first.
        asked: number of requested nodes.
    """

    graph: Graph
    nodes: Tensor
    asked: int


def batches(
    graph: Graph, nodes: Tensor, *, size: int, fanout: tuple[int, ...], generator: torch.Generator
) -> Iterator[Batch]:
    """Pass once over some nodes in random order.

    Args:
        graph: the whole graph.
        nodes: the nodes to pass over.
        size: nodes per batch; the last may have fewer.
        fanout: most neighbours to sample for each node, for each hop.
        generator: generator for the order and the neighbours, on the CPU.
    """
    loader = NodeLoader(
        # The edges come from the sampler; without an edge_index, even an empty one, the loader would not pass them on.
        Data(num_nodes=graph.num_nodes, edge_index=torch.empty(2, 0, dtype=torch.long)),
        NeighborSampler(graph, fanout, generator),
        input_nodes=nodes,
        batch_size=size,
        shuffle=True,
        generator=generator,
    )
    features = model_features(graph)
    for part in loader:
        yield Batch(_small_graph(graph, features[part.n_id.numpy()], part), part.n_id, part.batch_size)


class NeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples neighbours without replacement, whatever their weight; each hop starts from the last hop's new nodes."""

    def __init__(self, graph: Graph, fanout: tuple[int, ...], generator: torch.Generator) -> None:
        self._starts, self._neighbors = graph.adjacency.indptr.astype(np.int64), graph.adjacency.indices
        self._fanout, self._generator = fanout, generator

    def sample_from_nodes(self, index: NodeSamplerInput) -> SamplerOutput:
        """Nodes, the requested ones first, and edges from each sampled neighbour to the node it was sampled for."""
        nodes = newest = index.node.numpy()
        drawn: list[NDArray[np.int64]] = []
        targets: list[NDArray[np.int64]] = []
        for count in self._fanout:
            places, of = self._draw(newest, count)
            drawn.append(places)
            targets.append(newest[of])
            newest = np.setdiff1d(self._neighbors[places], nodes)
            nodes = np.concatenate([nodes, newest])
        entries = np.concatenate(drawn)
        order = np.argsort(nodes)

        def number(found: NDArray[Any]) -> Tensor:
            return torch.from_numpy(order[np.searchsorted(nodes, found, sorter=order)])

        return SamplerOutput(
            torch.from_numpy(nodes),
            number(self._neighbors[entries]),
            number(np.concatenate(targets)),
            torch.from_numpy(entries),
            metadata=(index.input_id, None),
        )

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> SamplerOutput:
        """Batches of edges are not supported."""
        raise NotImplementedError("this sampler begins from nodes")

    def _draw(self, nodes: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Entries of the adjacency, up to `count` of each node's row, and the position in `nodes` of each."""
        starts = self._starts[nodes]
        degrees = self._starts[nodes + 1] - starts
        few = np.flatnonzero(degrees <= count)
        of_few = np.repeat(few, degrees[few])
        before = np.repeat(np.cumsum(degrees[few]) - degrees[few], degrees[few])
        all_of_few = starts[of_few] + np.arange(len(of_few)) - before

        # Floyd's sampling, all rows at once: a hub costs no more than any other node.
        many = np.flatnonzero(degrees > count)
        chosen = np.full((len(many), count), -1, dtype=np.int64)
        draws = torch.rand(len(many), count, generator=self._generator, dtype=torch.float64).numpy()
        for step in range(count):
            last = degrees[many] - count + step
            ticket = (draws[:, step] * (last + 1)).astype(np.int64)
            taken = (chosen == ticket[:, None]).any(axis=1)
            chosen[:, step] = np.where(taken, last, ticket)
        entries = np.concatenate([all_of_few, (starts[many, None] + chosen).ravel()])
        return entries, np.concatenate([of_few, np.repeat(many, count)])


def _small_graph(graph: Graph, features: sp.csr_array | NDArray[np.float32], part: Data) -> Graph:
    nodes, (rows, columns) = part.n_id, part.edge_index.numpy()
    weights = graph.adjacency.data[part.e_id.numpy()]
    return Graph(build_adjacency(rows, columns, weights, len(nodes), True), features=features)
