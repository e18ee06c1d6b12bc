"""How many neighbours two nodes have in common: evidence for an edge that no spectrum of low rank has."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.edges import contains
from garnet.graph import Edges, Graph

_CHUNK = 1 << 22  # neighbours looked up at once


def shared_neighbors(graph: Graph, edges: Edges) -> NDArray[np.float32]:
    """Common neighbours of each pair, over the most it could have: those of the end with fewer, but for the other end.

    The neighbours of the end with fewer are looked up among those of the other, so a hub costs no more than its
    neighbours do: the time is that of the sum of the smaller degrees.

    Args:
        graph: the graph; weights do not count.
        edges: (2, m) pairs of nodes, as `canonical` leaves them, joined or not.

    Returns:
        (m,) shares from 0 to 1.
    """
    n = graph.num_nodes
    starts = torch.from_numpy(graph.adjacency.indptr.astype(np.int64))
    columns = torch.from_numpy(graph.adjacency.indices.astype(np.int64))
    degrees = starts.diff()
    entries = torch.repeat_interleave(torch.arange(n), degrees) * n + columns
    first, second = torch.from_numpy(edges)
    fewer = torch.where(degrees[first] <= degrees[second], first, second)
    other = first + second - fewer
    ends = degrees[fewer].cumsum(0)
    common = torch.zeros(len(fewer))
    low, done = 0, 0
    while low < len(fewer):
        high = max(int(torch.searchsorted(ends, done + _CHUNK, right=True)), low + 1)
        counts = degrees[fewer[low:high]]
        pair = torch.repeat_interleave(torch.arange(high - low), counts)
        begins = starts[fewer[low:high]] - (ends[low:high] - counts - done)
        sought = other[low:high][pair] * n + columns[torch.arange(len(pair)) + begins[pair]]
        place = torch.searchsorted(entries, sought).clamp_max(max(len(entries) - 1, 0))
        common[low:high] = torch.bincount(pair[entries[place] == sought], minlength=high - low)
        low, done = high, int(ends[high - 1])
    joined = torch.from_numpy(contains(graph.edges, edges, n))
    most = degrees[fewer] - joined.long()
    share: NDArray[np.float32] = (common / most.clamp_min(1)).numpy()
    return share
