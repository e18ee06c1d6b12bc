"""A few digits that identify a graph, wherever it is stored and however it is divided."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 1 << 20


def fingerprint_of(*arrays: tuple[int, Iterable[NDArray[Any]], str]) -> str:
    """The first 16 hex digits of SHA-256 over arrays, each with its length, in pieces, and in the given type."""
    digest = hashlib.sha256()
    for length, pieces, kind in arrays:
        digest.update(length.to_bytes(8, "little"))
        for piece in pieces:
            for begin in range(0, len(piece), _AT_ONCE):
                digest.update(np.ascontiguousarray(piece[begin : begin + _AT_ONCE], dtype=kind).data)
    return digest.hexdigest()[:16]
