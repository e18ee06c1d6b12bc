"""Bytes and tables of numbers from untrusted text files."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet import machine
from garnet.errors import GraphError, warnings_are
from garnet.io.limits import require_text

TEXT_SHARE = 4
"""A text may fill one part in this many of the memory; the graph read from it needs the others."""

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Some programs begin a text with it."""

_CANNOT_READ = "Cannot read"
_CHUNK = 1 << 20
_BLANK_LINES = re.compile(rb"\n[\r\n]+")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one sentence that begins with its name.

    If nested, as for a file in a folder, the inner name is reported.
    """
    try:
        yield
        return
    except GraphError as error:
        reason = str(error)
        if reason.startswith(_CANNOT_READ):
            raise
    except OSError as error:
        reason = f"{error.strerror or ' '.join(str(error).split())}."
    except MemoryError:
        reason = "it does not fit in memory."
    raise GraphError(f"{_CANNOT_READ} {path}: {reason[:1].lower()}{reason[1:]}")


def read_text(path: Path, encoding: str = "utf-8") -> bytes:
    """A text file in UTF-8, unpacked if its name ends in .gz, and never more of it than `TEXT_SHARE` allows."""
    limit = machine.physical_memory() // TEXT_SHARE
    pieces = bytearray()
    for chunk in read_chunks(path, _CHUNK, encoding):
        pieces += chunk
        if len(pieces) > limit:
            raise GraphError(f"its text is longer than {limit / 1e9:.3g} GB, too much for this machine's memory.")
    text = bytes(pieces)
    require_text_alone(text)
    return text


def require_text_alone(text: bytes) -> None:
    """Refuse bytes that no UTF-8 text has, and recognise UTF-16."""
    if b"\0" in text:
        marked = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        every_second = len(text) > 1 and max(text[:256:2].count(0), text[1:256:2].count(0)) > len(text[:256]) // 4
        wide = text.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)) or text[:256].count(0) > len(text[:256]) // 2
        name = "utf-32" if wide else "utf-16" if marked or every_second else None
        likely = f"; it looks like {name.upper()}: say --encoding {name} (encoding='{name}')" if name else ""
        raise GraphError(f"it holds NUL bytes, so it is not a text file{likely}.")


def read_chunks(path: Path, size: int, encoding: str = "utf-8") -> Iterator[bytes]:
    """The bytes of a text file, this many at a time, unpacked if its name ends in .gz; in UTF-8 whatever its encoding.

    Text declared to be UTF-8 is not checked.

    Raises:
        GraphError: it is not a complete gzip file, or unpacks to more than `require_text` allows; or it is not in its
            encoding.
    """
    if codecs.lookup(encoding).name == "utf-8":
        yield from _chunks(path, size)
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        for chunk in _chunks(path, size):
            yield decoder.decode(chunk).encode("utf-8")
        yield decoder.decode(b"", True).encode("utf-8")
    except UnicodeError as error:
        raise GraphError(f"it is not text in {encoding} ({' '.join(str(error).split())}).") from None


def _chunks(path: Path, size: int) -> Iterator[bytes]:
    packed, unfolded = path.stat().st_size, 0
    zipped = path.name.lower().endswith(".gz")
    with unzipping(), gzip.open(path) if zipped else path.open("rb") as stream:
        while chunk := stream.read(size):
            unfolded += len(chunk)
            if zipped:
                require_text(unfolded, packed)
            yield chunk


def read_lines(path: Path, size: int, longest: int, encoding: str = "utf-8") -> Iterator[tuple[int, bytes]]:
    """The text in pieces of whole lines, of about this many bytes, each with the number of its first line.

    Lines end with a line feed, a carriage return or both; a byte order mark is left out.

    Args:
        path: the file, which `read_chunks` reads.
        size: bytes of a piece; one that ends within a line waits for its rest.
        longest: maximum bytes in a line.
        encoding: of the text; the pieces are in UTF-8.

    Raises:
        GraphError: a line is longer.
    """
    line, rest, begun = 1, b"", False
    for chunk in read_chunks(path, size, encoding):
        text = rest + chunk
        if not begun and len(text) >= len(BYTE_ORDER_MARK):
            text, begun = text.removeprefix(BYTE_ORDER_MARK), True
        # A carriage return at the very end may be the first half of a line ending.
        end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
        if not end and len(text) > longest:
            raise GraphError(f"it has a line of more than {longest} characters.")
        rest = text[end:]
        if end:
            yield line, text[:end]
            line += line_breaks(text[:end])
    if rest:
        yield line, rest


def line_breaks(text: bytes) -> int:
    """How many lines end in a text, with a line feed, a carriage return or both."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


@contextmanager
def unzipping() -> Iterator[None]:
    """Turn the errors of a broken gzip file into one sentence."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise GraphError(f"it is not a whole gzip file ({error}).") from error


def parse_table(data: bytes, dtype: str, *, delimiter: str | None = None, skip_rows: int = 0) -> NDArray[Any]:
    """A table of numbers, one row per line, in the columns of `dtype`.

    Args:
        data: the text; blank lines are skipped.
        dtype: a NumPy dtype, such as "i8,i8,f8" for two integer columns and one of floats.
        delimiter: what separates columns; None for any blanks.
        skip_rows: how many lines to skip first.

    Raises:
        ValueError: a row has other columns, or there are no rows.
    """
    # NumPy only warns where it truncates 1.5 to an integer, and where there are no rows.
    with warnings_are("error", Warning):
        try:
            # NumPy is slow on blank lines.
            stream = io.BytesIO(_BLANK_LINES.sub(b"\n", data) if b"\n\n" in data or b"\n\r\n" in data else data)
            return np.loadtxt(
                stream, dtype, comments=None, delimiter=delimiter, skiprows=skip_rows, ndmin=1, encoding="utf-8"
            )
        except Warning as warning:
            raise ValueError(str(warning)) from warning
