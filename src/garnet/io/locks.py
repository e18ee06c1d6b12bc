"""Locks on open files, which the system releases when their process ends, in whatever way."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from garnet.io.failures import writing

_TRIES, _WAIT = 500, 0.01


def lock_now(file: int) -> bool | None:
    """Whether an open file was unlocked, and is now locked by this process; None if locks are not available.

    The system releases a lock when its process ends, in whatever way, so none is ever left behind.
    """
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:
        return None
    return True


@contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Make others that would claim a directory in this folder wait, where the system can; it takes an instant."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with writing(folder):
        file = os.open(folder, os.O_RDONLY)
    try:
        for _ in range(_TRIES):
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_WAIT)
            except OSError:  # no locks here
                break
        yield
    finally:
        os.close(file)


def is_running(pid: int) -> bool:
    """Whether there is a process with that number on this machine; on POSIX only."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
