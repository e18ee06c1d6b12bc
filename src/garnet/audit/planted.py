"""Edges that are known to be false: what made-up edges look like in a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.graph.edges import among, numbers, pairs
from garnet.graph.graph import Graph
from garnet.linalg.device_graph import Resident, joined

COPIES = 3
"""Copies with planted edges; three times a twentieth of the edges show well enough what made-up ones look like."""

# Share of the edges: enough to learn from, and too few to change how the others look.
_SHARE = 0.05
_MOST = 100_000
"""Enough to learn from in any graph: `garnet.purify.calibration.learn` never takes more."""


def planted(graph: Graph, *, seed: Sequence[int] | int, device: str = "cpu") -> tuple[Graph, NDArray[np.bool_]]:
    """The graph with a twentieth more edges, and which of its edges are the new ones.

    Args:
        graph: the graph; it has edges.
        seed: seed of the new edges.
        device: where to compute.
    """
    here, n = Resident.of(graph, device), graph.num_nodes
    edges = here.edges
    new = new_pairs(
        graph.num_edges,
        n,
        lambda places: edges.reshape(-1)[places.to(edges.device)],
        lambda wanted: among(edges, wanted, n),
        seed=seed,
    )
    usual = torch.from_numpy(np.median(graph.weights, keepdims=True)).to(here.weights)
    weights = torch.cat([here.edge_weights, usual.expand(new.shape[1])])
    both = torch.cat([edges, new], dim=1)
    order = numbers(both[0], both[1], n).argsort()
    copy = replace(graph, adjacency=joined(both[:, order], weights[order], n))
    return copy, (order >= edges.shape[1]).cpu().numpy()


def new_pairs(
    m: int,
    n: int,
    ends_at: Callable[[Tensor], Tensor],
    are_joined: Callable[[Tensor], Tensor],
    *,
    seed: Sequence[int] | int,
) -> Tensor:
    """Pairs of nodes to join, (2, p), sorted; they do not depend on where the graph is stored.

    Their ends are drawn as in a degree-preserving rewiring (the configuration model).

    Args:
        m: number of edges of the graph.
        n: number of nodes of the graph.
        ends_at: gives nodes by index into the first ends of all edges followed by the second ones.
        are_joined: tells which of the pairs (2, q) are edges already.
        seed: seed of the pairs.
    """
    rng = np.random.default_rng(seed)
    count = min(_MOST, max(1, round(_SHARE * m)))
    drawn = ends_at(torch.from_numpy(rng.integers(2 * m, size=(2, 4 * count))))
    first, second = drawn[:, drawn[0] != drawn[1]]
    new = pairs(first, second, n)
    new = new[:, ~are_joined(new)]
    return new[:, torch.from_numpy(np.sort(rng.permutation(new.shape[1])[:count])).to(new.device)]
