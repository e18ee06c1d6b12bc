"""Reading files that ought to be small, such as studies and records."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_small(path: str | Path, most: int) -> bytes:
    """The bytes of a regular file of at most `most` bytes; devices and pipes, which may never end, are refused.

    Raises:
        OSError: it cannot be read, or is not such a file; the reason is its `strerror`.
    """
    try:
        stream = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - Path.open has no opener
    except ValueError:
        raise OSError(errno.EINVAL, "a path has no null characters") from None
    with stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = stream.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it is larger than {most >> 10:,} KiB, the most that such a file may have")
    return content


def reason_of(error: OSError) -> str:
    """Why the system refused something, as the end of a sentence."""
    text = error.strerror or "for a reason the system does not tell"
    return text[:1].lower() + text[1:]


def _without_waiting(path: str, flags: int) -> int:
    """Open without blocking: opening a pipe that nobody writes to would never return."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
