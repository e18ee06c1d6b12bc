"""Edges that are known to be false: what made-up edges look like in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.graph.edges import among, numbers, pairs
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident, joined

# Of the edges: enough to learn from, and too few to change what the others look like.
_SHARE = 0.05


def planted(graph: Graph, *, seed: Sequence[int] | int, device: str = "cpu") -> tuple[Graph, NDArray[np.bool_]]:
    """The graph with a twentieth more edges, and which of the edges of this one are the new ones.

    The ends of a new edge are drawn as a rewiring that keeps all degrees would draw them (the configuration model).

    Args:
        graph: the graph; it has edges.
        seed: of the new edges.
        device: where to compute.
    """
    here, n = Resident.of(graph, device), graph.num_nodes
    edges, rng = here.edges, np.random.default_rng(seed)
    count = max(1, round(_SHARE * graph.num_edges))
    drawn = edges.reshape(-1)[torch.from_numpy(rng.integers(edges.numel(), size=(2, 4 * count))).to(device)]
    first, second = drawn[:, drawn[0] != drawn[1]]
    new = pairs(first, second, n)
    new = new[:, ~among(edges, new, n)]
    new = new[:, torch.from_numpy(np.sort(rng.permutation(new.shape[1])[:count])).to(device)]
    usual = torch.from_numpy(np.median(graph.weights, keepdims=True)).to(here.weights)
    weights = torch.cat([here.edge_weights, usual.expand(new.shape[1])])
    both = torch.cat([edges, new], dim=1)
    order = numbers(both[0], both[1], n).argsort()
    copy = replace(graph, adjacency=joined(both[:, order], weights[order], n))
    return copy, (order >= edges.shape[1]).cpu().numpy()
