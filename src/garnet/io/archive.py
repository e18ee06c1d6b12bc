"""Arrays from untrusted .npz files."""

from __future__ import annotations

import ast
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.limits import require_memory, require_unfolding

_LONGEST_HEADER = 4096
_LONGEST_DESCRIPTION = 1 << 20
_CHUNK = 1 << 20
_LEAST_WIDTH = 4
# No deflate stream unpacks to more than 1,032 times its size; a member that claims more is lying.
_LARGEST_RATIO = 1032
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, OverflowError, RuntimeError, KeyError,
)  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What an array says about itself before its data.

    Attributes:
        shape: its shape.
        dtype: its dtype, never one of Python objects.
        fortran: whether its data are in column order.
        offset: bytes before its data.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """An open .npz file; each array's header is checked against the zip directory before its data are read.

    Nothing is unpickled, nothing is extracted to disk, and arrays that are not asked for are not touched.
    """

    def __init__(self, path: Path) -> None:
        with _damage("it is not a whole .npz (zip) file"):
            self._zip = zipfile.ZipFile(path)
        self._size = path.stat().st_size
        self._members = {info.filename[:-4]: info for info in self._zip.infolist() if info.filename.endswith(".npy")}
        self._headers: dict[str, Header] = {}
        self._unfolded: dict[str, int] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def header(self, name: str, kinds: str = "biuf", ndim: int | None = None) -> Header:
        """The header of array `name`, whose dtype must be one of `kinds`, in NumPy's letters."""
        header = self._header(name)
        if header.dtype.kind not in kinds:
            raise GraphError(f"its array '{name}' has dtype {header.dtype}, which makes no sense there.")
        if ndim is not None and len(header.shape) != ndim:
            raise GraphError(f"its array '{name}' has shape {header.shape} but must have {ndim} dimension(s).")
        return header

    def require_memory(self, names: Sequence[str], times: int) -> None:
        """Refuse arrays that would take more memory than there is, with each held `times` over while it is read.

        Arrays that, with those taken before, unpack to far more than their file are refused, too.
        """
        headers = [self._header(name) for name in names]
        for name, header in zip(names, headers, strict=True):
            # Small integers do not stay small: they become weights, indices or features.
            self._unfolded[name] = math.prod(header.shape) * max(header.dtype.itemsize, _LEAST_WIDTH)
        require_unfolding(sum(self._unfolded.values()), self._size, "it")
        require_memory(times * sum(header.nbytes for header in headers), "it")

    def read(self, name: str, kinds: str = "biuf", ndim: int | None = None) -> NDArray[Any]:
        """The data of array `name`, checked against its checksum, in this machine's byte order."""
        header = self.header(name, kinds, ndim)
        self.require_memory([name], times=1)
        (flat,) = self.pieces(name, None, kinds)
        # An empty array can claim a side longer than any array may have.
        with _damage(f"its array '{name}' is damaged"):
            return flat.reshape(header.shape, order="F" if header.fortran else "C")

    def pieces(self, name: str, length: int | None, kinds: str = "biuf") -> Iterator[NDArray[Any]]:
        """The numbers of array `name` in file order, `length` at a time, so it is never held whole.

        They are in this machine's byte order, and checked against the checksum once the last has been taken. There is
        at least one piece; a `length` of None gives all in one.
        """
        header = self.header(name, kinds)
        self.require_memory([name], times=0)
        left = math.prod(header.shape)
        with _damage(f"its array '{name}' is damaged"), self._zip.open(self._members[name]) as stream:
            stream.read(header.offset)
            more = True
            while more:
                numbers = np.empty(left if length is None else min(length, left), header.dtype)
                left -= len(numbers)
                more = left > 0
                # Only reading to the end of the member makes zipfile compare the checksum.
                if not _fill(numbers.view(np.uint8), stream) or (not more and stream.read(1)):
                    raise GraphError(f"its array '{name}' is not as long as it declares.")
                yield numbers.astype(header.dtype.newbyteorder("="), copy=False)

    def _header(self, name: str) -> Header:
        if name not in self._members:
            raise GraphError(f"it has no array '{name}'.")
        if name not in self._headers:
            with _damage(f"its array '{name}' is damaged"):
                self._headers[name] = self._parse(name)
        return self._headers[name]

    def _parse(self, name: str) -> Header:
        info = self._members[name]
        if info.flag_bits & 1:
            raise GraphError(f"its array '{name}' is encrypted.")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise GraphError(f"its array '{name}' is compressed in a way .npz files do not use.")
        packed = info.compress_size
        if packed > self._size or info.file_size > packed * _LARGEST_RATIO:
            raise GraphError(
                f"its array '{name}' declares sizes that cannot be true, {info.file_size} bytes packed in {packed}."
            )
        with self._zip.open(info) as stream:
            return _header(stream, f"its array '{name}'", info.file_size)


def read_npy(path: Path, kinds: str, ndim: int | None = None) -> NDArray[Any]:
    """The array in an .npy file, whose dtype must be of one of `kinds`, in this machine's byte order.

    Raises:
        GraphError: it is not a complete file of that format, or holds something else.
    """
    with path.open("rb") as stream:
        header = _header(stream, "it", path.stat().st_size)
        if header.dtype.kind not in kinds or (ndim is not None and len(header.shape) != ndim):
            raise GraphError(f"it has shape {header.shape} and dtype {header.dtype}, which makes no sense there.")
        flat = np.fromfile(stream, header.dtype)
    return flat.reshape(header.shape, order="F" if header.fortran else "C").astype(header.dtype.newbyteorder("="))


def _header(stream: IO[bytes], what: str, size: int) -> Header:
    """The header of an array in NumPy's format, checked against the number of its bytes."""
    text, offset = _header_text(stream, what)
    try:
        fields = ast.literal_eval(text)
        descr, fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
        well_formed = isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)
        dtype = np.dtype(descr)
    except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError, OverflowError) as error:
        raise GraphError(f"{what} has a malformed header.") from error
    if dtype.hasobject:
        raise GraphError(f"{what} holds Python objects, which can run code when read.")
    if not well_formed or not dtype.itemsize:
        raise GraphError(f"{what} has a malformed header.")
    header = Header(shape, dtype, fortran is True, offset)
    if header.nbytes != size - offset:
        raise GraphError(f"{what} declares {header.nbytes} bytes in its header but has {size - offset}.")
    return header


def _fill(raw: NDArray[np.uint8], stream: IO[bytes]) -> bool:
    """Whether the stream had enough bytes to fill `raw`."""
    done = 0
    while done < len(raw) and (chunk := stream.read(min(_CHUNK, len(raw) - done))):
        raw[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
        done += len(chunk)
    return done == len(raw)


def _header_text(stream: IO[bytes], what: str) -> tuple[str, int]:
    """The text of an array's header, and where its data begin."""
    start = stream.read(8)
    if len(start) < 8 or start[:6] != b"\x93NUMPY" or start[6] not in (1, 2, 3):
        raise GraphError(f"{what} is not in NumPy's .npy format.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    # NumPy reads a header of any declared length, up to 4 GB; one of ours has a hundred bytes.
    if length > _LONGEST_HEADER:
        raise GraphError(f"{what} has a malformed header.")
    return stream.read(length).decode("utf-8" if start[6] == 3 else "latin-1"), 8 + width + length


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Turn the many errors of a broken zip file into one sentence."""
    try:
        yield
    except (GraphError, PermissionError):
        raise
    except _DAMAGE as error:
        raise GraphError(f"{what} ({error}).") from error


@contextmanager
def described(path: Path, name: str, otherwise: str) -> Iterator[tuple[Archive, bytes]]:
    """An open .npz file and its description, the text in array `name`.

    Args:
        path: the file.
        name: the byte array that identifies such files.
        otherwise: what to report of a file without it.

    Raises:
        GraphError: there is no such file, or it is not one of these.
    """
    if not path.is_file():
        raise GraphError("there is no such file.")
    with Archive(path) as archive:
        if name not in archive:
            raise GraphError(otherwise)
        if archive.header(name, "u", ndim=1).nbytes > _LONGEST_DESCRIPTION:
            raise GraphError("its description is absurdly long.")
        yield archive, archive.read(name, "u").astype(np.uint8).tobytes()
