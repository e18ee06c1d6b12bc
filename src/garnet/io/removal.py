"""The only module that removes anything; and it does so only in the directory of a run, as its marker proves."""

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
    """Remove a file, or a folder with all in it, from a run's directory. What is not there is no matter.

    Links are removed, never followed.

    Raises:
        GarnetError: it is in no such directory.
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
    """Remove all from the directory of a run, its marker last; whether that was possible.

    One that holds an earlier result which is half replaced is left as it is. The directory itself is left to
    `remove_empty`, because on some file systems it cannot go while a file of it is open.
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
        # Last, so that whoever comes meanwhile is kept out of what is being removed.
        (folder / MARKER).unlink()
    except OSError:
        return False
    return True


def remove_empty(folder: Path) -> None:
    """Remove a directory, if there is nothing in it."""
    with suppress(OSError):
        folder.rmdir()


def remove_unmarked(folder: Path) -> None:
    """Remove a directory that was made just now, and has at most a marker that was not yet written."""
    with suppress(OSError):
        (folder / MARKER).unlink(missing_ok=True)
    remove_empty(folder)
