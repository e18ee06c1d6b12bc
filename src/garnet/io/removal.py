"""The only module that removes anything, and only in the directory of a run, as its marker proves."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from garnet.errors import GarnetError
from garnet.io.marker import MARKER, is_exchanging, scratch_of

SPENT = "spent"
"""A file in a directory that is being removed: what is left of it after a kill is no work to go on with."""


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, from a run's directory; a missing one is no error.

    Links are removed, never followed.

    Raises:
        GarnetError: it is not in such a directory.
        OSError: the system refuses.
    """
    if not os.path.lexists(path):
        return
    if scratch_of(path) is None:
        raise GarnetError(f"Will not remove {path}: it is not in a directory of a run's own.")
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def empty_run(folder: Path) -> bool:
    """Empty the directory of a run, its marker last; returns whether that was possible.

    One that holds a half-replaced earlier result is left as it is. The directory itself is left to `remove_empty`,
    because some file systems cannot remove it while one of its files is open.
    """
    if is_exchanging(folder):
        return False
    try:
        with suppress(OSError):
            (folder / SPENT).touch()
        for path in folder.iterdir():
            if path.name not in (MARKER, SPENT):
                remove(path)
        (folder / SPENT).unlink(missing_ok=True)
        # Last, to keep others out of what is being removed.
        (folder / MARKER).unlink()
    except OSError:
        return False
    return True


def remove_empty(folder: Path) -> None:
    """Remove a directory if it is empty."""
    with suppress(OSError):
        folder.rmdir()


def remove_unmarked(folder: Path) -> None:
    """Remove a directory that was just made, and has at most an unwritten marker."""
    with suppress(OSError):
        (folder / MARKER).unlink(missing_ok=True)
    remove_empty(folder)
