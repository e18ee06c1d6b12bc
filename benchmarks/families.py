"""Graphs of four families, drawn on the device where they are wanted: what is fast on one may be slow on another.

`nested`: communities within communities (`nested_block_model`), drawn on the CPU.
`rmat`: R-MAT (Chakrabarti, Zhan and Faloutsos, 2004) with the probabilities of Graph500; hubs, and many lone nodes.
`line`: each node joined to others at most `REACH` places away: eigenvalues crowd at 1 as in no other graph.
`knn`: each node joined to the nearest of random points in a cube.
"""

from __future__ import annotations

import torch
from torch import Tensor

from garnet import Graph
from garnet.datasets import nested_block_model
from garnet.graph.edges import pairs
from garnet.linalg.device_graph import joined
from garnet.neighbors.search import choose_neighbors, union

FAMILIES = ("nested", "rmat", "line", "knn")
REACH = 60
CORNERS = (0.57, 0.19, 0.19, 0.05)
_DRAWN = 1 << 26  # edges of R-MAT at a time


def drawn(family: str, nodes: int, edges: int, *, device: str = "cpu", seed: int = 0) -> Graph:
    """A graph of a family, of about as many nodes and edges.

    Args:
        family: one of `FAMILIES`.
        nodes: how many; R-MAT has the next power of two below.
        edges: how many are drawn; those that are drawn twice, and loops, count once and not at all.
        device: where to draw; other devices draw other graphs.
        seed: the same seed gives the same graph.
    """
    if family == "nested":
        return nested_block_model(nodes, mean_degree=2 * edges / nodes, seed=seed)
    generator = torch.Generator(device).manual_seed(seed)
    if family == "rmat":
        nodes = 1 << (nodes.bit_length() - 1)
        ends = torch.empty(2, edges, dtype=torch.int64, device=device)
        for start in range(0, edges, _DRAWN):
            size = min(_DRAWN, edges - start)
            ends[:, start : start + size] = _rmat(nodes, size, generator)
    elif family == "line":
        first = torch.randint(nodes, (edges,), generator=generator, device=device)
        second = first + torch.randint(1, REACH + 1, (edges,), generator=generator, device=device)
        ends = torch.stack([first, second])[:, second < nodes]
    else:
        points = torch.rand(nodes, 3, generator=generator, device=device)
        ends = union(choose_neighbors(nodes, device)(points, max(1, round(1.35 * edges / nodes)), seed=seed))
    loops = ends[0] == ends[1]
    if loops.any():
        ends = ends[:, ~loops]
    ends = pairs(ends[0], ends[1], nodes)
    return Graph(joined(ends, torch.ones(ends.shape[1], device=ends.device), nodes))  # which needs no proof


def _rmat(nodes: int, edges: int, generator: torch.Generator) -> Tensor:
    """(2, edges) both ends of each, bit by bit."""
    ends = torch.zeros(2, edges, dtype=torch.int64, device=generator.device)
    a, b, c, _ = CORNERS
    for _ in range(nodes.bit_length() - 1):
        chance = torch.rand(edges, generator=generator, device=generator.device)
        ends <<= 1
        ends[0] |= chance >= a + b
        ends[1] |= ((chance >= a) & (chance < a + b)) | (chance >= a + b + c)
    return ends
