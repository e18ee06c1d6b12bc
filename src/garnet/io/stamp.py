"""Which run a file was written by, noted in the file itself, so that the same command knows its own result again.

An .npz file has it as the comment of its zip directory, a page as a last comment, and any other file as an attribute of
the file system, with a checksum. Where there are no such attributes, nothing is noted, and the file is nobody's.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

_ATTRIBUTE = "user.garnet.run"
_COMMENT = re.compile(rb"garnet run ([0-9a-f]{16})")
_LAST_LINE = re.compile(rb"<!-- garnet run ([0-9a-f]{16}) -->\n\Z")
_TAIL = 64
_CHUNK = 1 << 20


def stamp(path: Path, run: str) -> None:
    """Note in a finished file which run wrote it.

    Args:
        path: the file, not yet in its place.
        run: 16 hex digits.

    Raises:
        OSError: the file cannot be written.
    """
    ending = path.suffix.lower()
    if ending == ".npz":
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = f"garnet run {run}".encode()
    elif ending in (".html", ".htm"):
        with path.open("ab") as stream:
            stream.write(f"<!-- garnet run {run} -->\n".encode())
    elif hasattr(os, "setxattr"):
        with suppress(OSError):
            os.setxattr(path, _ATTRIBUTE, f"{run} {_checksum(path):08x}".encode())


def stamp_of(path: Path) -> str | None:
    """The run that a file was written by; None if it was none, or the file has changed since."""
    ending = path.suffix.lower()
    with suppress(OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        if ending == ".npz":
            with zipfile.ZipFile(path) as archive:
                found = _COMMENT.fullmatch(archive.comment)
                return found[1].decode() if found else None
        if ending in (".html", ".htm"):
            with path.open("rb") as stream:
                stream.seek(max(0, path.stat().st_size - _TAIL))
                found = _LAST_LINE.search(stream.read())
                return found[1].decode() if found else None
        if hasattr(os, "getxattr"):
            run, check = os.getxattr(path, _ATTRIBUTE).decode("ascii").split()
            return run if int(check, 16) == _checksum(path) else None
    return None


def _checksum(path: Path) -> int:
    check = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            check = zlib.crc32(chunk, check)
    return check
