"""How the directory of a run is recognised: by its name, and by a marker file in it with the same id."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKER = "garnet-run.json"
"""The file that identifies such a directory; the active run holds a lock on it."""

NOTES = "stage-*.json"
"""Files that record what a run has done, so the same run can resume."""

EXCHANGING, ALL_REPLACED = "exchanging", "all-replaced"
"""Files that say that an earlier result is being exchanged, and that all of it has been moved here."""

_NAME = re.compile(r"\.garnet-([0-9a-f]{16})")
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Marker:
    """What a run recorded when it made its directory.

    Attributes:
        id: of the run, 16 hex digits.
        output: what it was to write; empty if nothing permanent.
        key: what it was asked for, if it can resume where it was stopped; None if it can only start again.
        pid: of its process.
        host: where that process ran.
        begun: when, in seconds since 1970.
    """

    id: str
    output: str
    key: dict[str, Any] | None
    pid: int
    host: str
    begun: float


def scratch_of(path: Path) -> Path | None:
    """The directory of a run that a path is in, proven by its marker; None if it is in none."""
    if ".." in path.parts:
        return None
    path = path.absolute()
    for folder in path.parents:
        if marker_of(folder) is not None:
            between = path.parents[: len(path.parts) - len(folder.parts) - 1]
            return None if any(inner.is_symlink() for inner in between) else folder
    return None


def is_scratch_name(name: str) -> bool:
    """Whether a directory of a run could have this name."""
    return _NAME.fullmatch(name) is not None


def marker_of(folder: Path) -> Marker | None:
    """The marker of a directory, if it is one of ours."""
    match = _NAME.fullmatch(folder.name)
    if match is None or folder.is_symlink():
        return None
    try:
        if is_stillborn(folder):
            return Marker(match[1], "", None, 0, "", folder.stat().st_mtime)
        with (folder / MARKER).open("rb") as stream:
            marker = Marker(**json.loads(stream.read(_LONGEST)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    kinds: dict[str, Callable[[Any], bool]] = {
        "output": lambda value: isinstance(value, str),
        "key": lambda value: value is None or isinstance(value, dict),
        "pid": lambda value: isinstance(value, int),
        "host": lambda value: isinstance(value, str),
        "begun": lambda value: isinstance(value, int | float),
    }
    well = marker.id == match[1] and all(fine(getattr(marker, name)) for name, fine in kinds.items())
    return marker if well else None


def is_stillborn(folder: Path) -> bool:
    """Whether a run was killed before it could mark its directory, which is then empty."""
    try:
        # Checked for every file written: do not even list the thousands that may be there.
        if (folder / MARKER).lstat().st_size:
            return False
    except FileNotFoundError:
        pass
    return all(path.name == MARKER and not path.lstat().st_size for path in folder.iterdir())


def is_exchanging(folder: Path) -> bool:
    """Whether a run was stopped while replacing an earlier result, which the directory then holds."""
    try:
        staged = folder / (folder / EXCHANGING).read_text()
        return not (folder / ALL_REPLACED).exists() or any(staged.iterdir())
    except OSError:
        return False


def write_marker(lock: int, marker: Marker) -> None:
    """Write a marker to its open file."""
    text = json.dumps(vars(marker)).encode()
    if os.write(lock, text) < len(text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    os.fsync(lock)
