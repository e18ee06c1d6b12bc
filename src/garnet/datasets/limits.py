"""How much a file may claim before it is believed."""

from __future__ import annotations

from garnet import memory
from garnet.errors import GraphError


def require_memory(needed: int, what: str) -> None:
    """Refuse what this machine cannot hold before anything is allocated for it."""
    if needed > memory.physical_memory():
        raise GraphError(f"{what} needs {needed / 1e9:.3g} GB, more than this machine's memory.")


def require_plausible(size: int, entries: int, what: str) -> None:
    """Refuse a matrix so much larger than its number of entries that only a faulty or hostile file declares it."""
    if size > 10_000_000 + 100 * entries:
        raise GraphError(f"it declares {size} {what} for {entries} entries, which no real graph has.")
