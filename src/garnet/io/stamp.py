"""Which run wrote a file, noted in the file itself, so the same command recognises its own result.

An .npz file has it as the comment of its zip directory, a page as a final comment, and any other file as an extended
attribute; each with a checksum of the rest. Where there are no such attributes, nothing is noted, and the file belongs
to no run.
"""

from __future__ import annotations

import os
import re
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

_ATTRIBUTE = "user.garnet.run"
_NOTE = "garnet run {} {:08x}"
_NOTED = re.compile(rb"garnet run ([0-9a-f]{16}) ([0-9a-f]{8})")
_IN_PAGE = b"<!-- %s -->\n"
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
    blank = _NOTE.format(run, 0).encode()
    if ending == ".npz":
        with zipfile.ZipFile(path, "a") as archive:
            archive.comment = blank
    elif ending in (".html", ".htm"):
        blank = _IN_PAGE % blank
        with path.open("ab") as stream:
            stream.write(blank)
    elif hasattr(os, "setxattr"):
        with suppress(OSError):
            os.setxattr(path, _ATTRIBUTE, _NOTE.format(run, _checksum(path, 0)).encode())
        return
    else:
        return
    note = _NOTE.format(run, _checksum(path, len(blank))).encode()
    with path.open("r+b") as stream:
        stream.seek(-len(blank), os.SEEK_END)
        stream.write(_IN_PAGE % note if ending != ".npz" else note)


def stamp_of(path: Path) -> str | None:
    """The run that wrote a file; None if none did, or the file has changed since."""
    ending, length = path.suffix.lower(), 0
    try:
        if ending in (".npz", ".html", ".htm"):
            shape = b"%s" if ending == ".npz" else _IN_PAGE
            length = len(shape % _NOTE.format("0" * 16, 0).encode())
            with path.open("rb") as stream:
                stream.seek(-length, os.SEEK_END)
                text = stream.read()
            found = _NOTED.search(text)
            if found is None or shape % found[0] != text:
                return None
        else:
            found = _NOTED.fullmatch(os.getxattr(path, _ATTRIBUTE)) if hasattr(os, "getxattr") else None
        same = found is not None and int(found[2], 16) == _checksum(path, length)
        return found[1].decode() if found is not None and same else None
    except (OSError, ValueError):
        return None


def _checksum(path: Path, without: int) -> int:
    """CRC-32 of a file without this many bytes at its end."""
    check, left = 0, path.stat().st_size - without
    with path.open("rb") as stream:
        while left > 0 and (chunk := stream.read(min(_CHUNK, left))):
            check = zlib.crc32(chunk, check)
            left -= len(chunk)
    return check
