"""Checksums of files, and JSON notes that carry their own."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

from garnet.io.atomic import atomic_path
from garnet.io.text import reading

_PIECE = 1 << 20


def checksum(path: Path) -> int:
    """CRC-32 of a file, read a little at a time.

    Raises:
        GraphError: it cannot be read.
    """
    check = 0
    with reading(path), path.open("rb") as stream:
        while piece := stream.read(_PIECE):
            check = zlib.crc32(piece, check)
    return check


def write_note(path: Path, facts: dict[str, Any]) -> None:
    """Write plain values to a file, whole or not at all, with a checksum of their contents."""
    with atomic_path(path) as unfinished:
        unfinished.write_text(json.dumps({**facts, "check": _check(facts)}))


def read_note(path: Path) -> dict[str, Any]:
    """What `write_note` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is damaged.
    """
    try:
        facts: dict[str, Any] = json.loads(path.read_bytes())
        if facts.pop("check") == _check(facts):
            return facts
    except (KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise ValueError(path)


def _check(facts: dict[str, Any]) -> int:
    """CRC-32 of the contents of a JSON file, however it is formatted."""
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())
