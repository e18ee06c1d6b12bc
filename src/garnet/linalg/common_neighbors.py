"""How many neighbours two nodes have in common: evidence for an edge that no spectrum of low rank has."""

from __future__ import annotations

import torch
from torch import Tensor

from garnet.graph.edges import among, numbers
from garnet.linalg.device_graph import Resident

_CHUNK = 1 << 22  # neighbours looked up at once
_CHUNK_ON_GPU = 1 << 28


def shared_neighbors(graph: Resident, edges: Tensor) -> Tensor:
    """Common neighbours of each pair, over the most it could have: those of the end with fewer, but for the other end.

    The neighbours of the end with fewer are looked up among those of the other, so a hub costs no more than its
    neighbours do: the time is that of the sum of the smaller degrees.

    Args:
        graph: the graph; weights do not count.
        edges: (2, m) pairs of nodes, as `pairs` leaves them, joined or not.

    Returns:
        (m,) shares from 0 to 1.
    """
    n, here = graph.num_nodes, edges.device
    starts, columns, degrees = graph.starts.long(), graph.columns.long(), graph.counts
    entries = numbers(graph.rows, columns, n)
    first, second = edges
    fewer = torch.where(degrees[first] <= degrees[second], first, second)
    other = first + second - fewer
    ends = degrees[fewer].cumsum(0)
    common = torch.zeros(len(fewer), device=here)
    chunk = _CHUNK if here.type == "cpu" else _CHUNK_ON_GPU
    low, done = 0, 0
    while low < len(fewer):
        high = max(int(torch.searchsorted(ends, done + chunk, right=True)), low + 1)
        counts = degrees[fewer[low:high]]
        pair = torch.repeat_interleave(torch.arange(high - low, device=here), counts)
        begins = starts[fewer[low:high]] - (ends[low:high] - counts - done)
        sought = numbers(other[low:high][pair], columns[torch.arange(len(pair), device=here) + begins[pair]], n)
        place = torch.searchsorted(entries, sought).clamp_max(max(len(entries) - 1, 0))
        common[low:high] = torch.bincount(pair[entries[place] == sought], minlength=high - low)
        low, done = high, int(ends[high - 1])
    most = degrees[fewer] - among(graph.edges, edges, n).long()
    return common / most.clamp_min(1)
