"""How much a file may claim before it is believed."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from garnet import memory
from garnet.errors import GraphError

TEXT_SHARE = 4
"""A text may fill one part in this many of the memory; the graph read from it needs the others."""

_CHUNK = 1 << 20


def require_memory(needed: int, what: str) -> None:
    """Refuse what this machine cannot hold before anything is allocated for it."""
    if needed > memory.physical_memory():
        raise GraphError(f"{what} needs {needed / 1e9:.3g} GB, more than this machine's memory.")


def require_plausible(size: int, entries: int, what: str) -> None:
    """Refuse a matrix so much larger than its number of entries that only a faulty or hostile file declares it."""
    if size > 10_000_000 + 100 * entries:
        raise GraphError(f"it declares {size} {what} for {entries} entries, which no real graph has.")


def read_text(path: Path) -> bytes:
    """The bytes of a text file, unpacked if its name ends in .gz, and never more of them than `TEXT_SHARE` allows."""
    limit = memory.physical_memory() // TEXT_SHARE
    pieces = bytearray()
    try:
        with gzip.open(path) if path.name.lower().endswith(".gz") else path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                pieces += chunk
                if len(pieces) > limit:
                    raise GraphError(
                        f"its text is longer than {limit / 1e9:.3g} GB, too much for this machine's memory."
                    )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GraphError(f"it is not a whole gzip file ({error}).") from error
    if b"\0" in pieces:
        raise GraphError("it holds NUL bytes, so it is not a text file.")
    return bytes(pieces)
