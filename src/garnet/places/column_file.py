"""Equally long columns in one file, readable by column and by rows, with a checksum over all of them."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path

Layout = Mapping[str, type[Any]]
"""The names of the columns, in their order, and what each holds."""

_HEAD = 16  # bytes for the number of rows and the checksum of the columns
_PIECE = 1 << 20


def write_columns(file: Path, layout: Layout, columns: Sequence[Any]) -> None:
    """Write columns, whole or not at all."""
    arrays = [np.ascontiguousarray(column, kind) for column, kind in zip(columns, layout.values(), strict=True)]
    check = 0
    for array in arrays:
        check = zlib.crc32(array.data, check)
    with atomic_path(file, durable=False) as unfinished, unfinished.open("wb") as stream:
        stream.write(np.array([len(arrays[0]), check], np.int64).data)
        for array in arrays:
            stream.write(array.data)


def read_columns(
    file: Path, layout: Layout, names: Sequence[str], *, begin: int = 0, end: int | None = None
) -> list[NDArray[Any]]:
    """Read some of the columns, or some of their rows.

    Raises:
        GarnetError: the file is missing or truncated.
    """
    if not is_complete(file, layout):
        fault = "is truncated" if file.is_file() else "is missing"
        raise GarnetError(f"Cannot read {file}: it {fault}; repeat the command, and it is made anew.")
    rows, offsets, place = int(np.fromfile(file, np.int64, 1)[0]), {}, _HEAD
    for name, kind in layout.items():
        offsets[name] = place + begin * np.dtype(kind).itemsize
        place += rows * np.dtype(kind).itemsize
    count = (rows if end is None else end) - begin
    return [np.fromfile(file, layout[name], count, offset=offsets[name]) for name in names]


def is_complete(file: Path, layout: Layout) -> bool:
    """Whether the file exists and is as long as it says."""
    size = file.stat().st_size if file.is_file() else 0
    row = sum(np.dtype(kind).itemsize for kind in layout.values())
    return size >= _HEAD and size == _HEAD + row * int(np.fromfile(file, np.int64, 1)[0])


def is_unchanged(file: Path, layout: Layout) -> bool:
    """Whether the file exists with all the bytes that were written."""
    if not is_complete(file, layout):
        return False
    with file.open("rb") as stream:
        wanted, check = int(np.frombuffer(stream.read(_HEAD), np.int64)[1]), 0
        while piece := stream.read(_PIECE):
            check = zlib.crc32(piece, check)
    return check == wanted
