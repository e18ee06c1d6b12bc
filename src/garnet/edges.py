"""Sets of undirected edges as sorted arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.graph import Edges


def canonical(first: NDArray[Any], second: NDArray[Any], n: int) -> Edges:
    """Each undirected pair once, the smaller node first, in lexicographic order; shape (2, m)."""
    low, high = np.minimum(first, second).astype(np.int64), np.maximum(first, second).astype(np.int64)
    return np.stack(np.divmod(np.unique(low * n + high), max(n, 1)))


def contains(edges: Edges, wanted: Edges, n: int) -> NDArray[np.bool_]:
    """Which columns of `wanted` are among `edges`; both as `canonical` leaves them."""
    return np.isin(wanted[0] * n + wanted[1], edges[0] * n + edges[1], assume_unique=True)
