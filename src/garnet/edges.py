"""Sets of undirected edges as sorted arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.graph import Edges


def canonical(first: NDArray[Any], second: NDArray[Any], n: int) -> Edges:
    """Each undirected pair once, the smaller node first, in lexicographic order; shape (2, m)."""
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    # Torch sorts here; NumPy would hash, which takes tens of times longer.
    keys = torch.unique(torch.from_numpy(low * n + high)).numpy()
    return np.stack(np.divmod(keys, max(n, 1)))


def contains(edges: Edges, wanted: Edges, n: int) -> NDArray[np.bool_]:
    """Which columns of `wanted` are among `edges`; both as `canonical` leaves them."""
    keys, sought = edges[0] * n + edges[1], wanted[0] * n + wanted[1]
    if not len(keys):
        return np.zeros(len(sought), dtype=bool)
    place = np.searchsorted(keys, sought)
    found: NDArray[np.bool_] = keys[np.minimum(place, len(keys) - 1)] == sought
    return found
