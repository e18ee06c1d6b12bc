"""What identifies a run: the bytes it reads, and what it was asked for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from garnet.io.marker import is_scratch_name

_READ_WHOLE = 1 << 30
_CHUNK = 1 << 20


def file_identity(path: Path, *, without: Iterable[Path] = ()) -> list[Any]:
    """What identifies a file, or a folder of files: their bytes, or size and time of those above a GiB.

    Args:
        path: of a file or folder; a missing or unreadable one is identified by its name alone.
        without: files and folders that may be in it but do not belong to it, as directories of runs never do.
    """
    try:
        if path.is_file():
            return [_file(path)]
        return _files(path, without) if path.is_dir() else [str(path)]
    except (OSError, ValueError):
        return [str(path)]


def digest_of(facts: Mapping[str, Any]) -> str:
    """Sixteen hex digits that depend only on the facts, which are plain values."""
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _files(path: Path, without: Iterable[Path]) -> list[Any]:
    top, left_out = path.resolve(), [folder.resolve() for folder in without]
    found = []
    seen: set[str] = set()
    for folder, folders, files in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen or any(map(Path(real).is_relative_to, left_out)):
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not is_scratch_name(name))
        inside = (Path(folder) / name for name in sorted(files))
        found += [[str(file.relative_to(top)), _file(file)] for file in inside if file.resolve() not in left_out]
    return found


def _file(path: Path) -> list[Any]:
    try:
        return _contents(path) if path.is_file() else ["no file"]
    except OSError as error:
        return [error.errno]


def _contents(path: Path) -> list[Any]:
    status = path.stat()
    if status.st_size > _READ_WHOLE:
        return [status.st_size, status.st_mtime_ns]
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return [status.st_size, digest.hexdigest()[:32]]
