"""The edges of one tile on disk, with all that decides which of them stay: a file of columns."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path

NEAR, GIVEN = 1, 2
"""Flags of an edge: it is of the base graph; it is of the input."""

COLUMNS: dict[str, type[Any]] = {
    "first": np.int32,
    "second": np.int32,
    "flags": np.uint8,
    "score": np.float32,
    "support": np.float32,
    "weight": np.float32,
}
"""Ends, counted from the first node of their part; flags; how critical it is; what speaks for it, if it is the input's;
and its weight before any floor."""

_HEAD = 16  # bytes of the number of edges, and of the checksum of their columns
_PIECE = 1 << 20
_EDGE = sum(np.dtype(kind).itemsize for kind in COLUMNS.values())


def write_columns(file: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write all columns of a tile, whole or not at all."""
    with atomic_path(file, durable=False) as unfinished, unfinished.open("wb") as stream:
        ready = [np.ascontiguousarray(columns[name], kind) for name, kind in COLUMNS.items()]
        check = 0
        for column in ready:
            check = zlib.crc32(column.data, check)
        stream.write(np.array([len(columns["first"]), check], np.int64).data)
        for column in ready:
            stream.write(column.data)


def read_columns(file: Path, *names: str) -> list[NDArray[Any]]:
    """Some of the columns of a tile.

    Raises:
        GarnetError: the file is missing or truncated.
    """
    if not is_complete(file):
        fault = "is truncated" if file.is_file() else "is missing"
        raise GarnetError(f"Cannot read {file}: it {fault}; purify again, and it is made anew.")
    edges = int(np.fromfile(file, np.int64, 1)[0])
    offsets, end = {}, _HEAD
    for name, kind in COLUMNS.items():
        offsets[name] = end
        end += edges * np.dtype(kind).itemsize
    return [np.fromfile(file, COLUMNS[name], edges, offset=offsets[name]) for name in names]


def is_complete(file: Path) -> bool:
    """Whether the file is there and as long as it says."""
    size = file.stat().st_size if file.is_file() else 0
    return size >= _HEAD and size == _HEAD + _EDGE * int(np.fromfile(file, np.int64, 1)[0])


def is_unchanged(file: Path) -> bool:
    """Whether the file is there with all the bytes that were written."""
    if not is_complete(file):
        return False
    with file.open("rb") as stream:
        wanted, check = int(np.frombuffer(stream.read(_HEAD), np.int64)[1]), 0
        while piece := stream.read(_PIECE):
            check = zlib.crc32(piece, check)
    return check == wanted
