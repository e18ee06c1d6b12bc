"""Made-up edges, planted among the others to learn what such edges look like in a graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from garnet.graph.edges import pairs

PLANTED = 0.1
"""Of the edges: enough to learn from, and too few to change what the others look like."""
MOST_PLANTED = 50_000
"""Enough to learn from in any graph."""


def planted_pairs(counts: Tensor, joined: Callable[[Tensor], Tensor], *, seed: int) -> Tensor:
    """Pairs of nodes to join, (2, p), sorted: a tenth as many as the graph has edges.

    Their endpoints are drawn as in a rewiring that keeps all degrees (the configuration model). The pairs depend on the
    graph and the seed, not on where the graph is stored.

    Args:
        counts: (n,) number of neighbours of each node.
        joined: says which of the pairs (2, q) are already edges.
        seed: for drawing the pairs.
    """
    ends = counts.cpu().cumsum(0)
    n, entries = len(counts), int(ends[-1]) if len(ends) else 0
    count = min(MOST_PLANTED, max(1, round(PLANTED * entries / 2)))
    rng = np.random.default_rng((seed, 0))
    drawn = torch.from_numpy(rng.integers(max(entries, 1), size=(2, 4 * count)))
    first, second = torch.searchsorted(ends, drawn, right=True).clamp_max(n - 1)
    apart = first != second
    new = pairs(first[apart], second[apart], n)
    new = new[:, ~joined(new)]
    return new[:, torch.from_numpy(np.sort(rng.permutation(new.shape[1])[:count]))]
