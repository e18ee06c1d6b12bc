"""Tall matrices in parts, one file a part, and work that is done on them part by part, here or on a cluster."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.atomic import atomic_path
from garnet.errors import GarnetError

_AGAIN = "remove its folder, and the work begins again."


class Run(Protocol):
    """Whoever does the work: the same function on many arguments, the results in their order.

    A task may be done twice, if a worker is lost, so it writes files under names that nobody reads before it is done.
    """

    def __call__(self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """What the function gives for the arguments of each task."""


def here(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Do it in this process, one task after the other."""
    return [work(*task) for task in tasks]


class Tall:
    """A tall matrix in float32 whose rows lie in files, which go when the last who knows it goes.

    Attributes:
        files: one for each part of the rows.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        width: columns.
    """

    def __init__(self, files: Sequence[Path], bounds: Sequence[int], width: int, *, keep: bool = False) -> None:
        self.files, self.bounds, self.width = tuple(files), tuple(bounds), width
        if not keep:
            weakref.finalize(self, _remove, self.files)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.bounds[-1], self.width

    def part(self, i: int) -> Tensor:
        """The rows of part i."""
        return read(self.files[i], self.width)


class Parts:
    """Where tall matrices of the same rows live, and who works on them.

    Attributes:
        folder: of their files; every worker must see it under this path.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        run: who does the work.
    """

    def __init__(self, folder: Path, bounds: Sequence[int], run: Run = here) -> None:
        self.folder, self.bounds, self.run = folder, tuple(bounds), run

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    def each(self, work: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        """What a function gives for the i-th of each of some sequences, which may be endless, for every part i."""
        return self.run(work, itertools.islice(zip(*columns, strict=False), self.count))

    def new(self, width: int, name: str | None = None) -> Tall:
        """Files for a matrix yet to be written; one with a name stays, one without goes when it is forgotten."""
        stem = name or f"tmp-{secrets.token_hex(8)}"
        files = [self.folder / f"{stem}-{i}.bin" for i in range(self.count)]
        return Tall(files, self.bounds, width, keep=name is not None)

    def map(self, work: Callable[..., Tensor], *talls: Tall, name: str | None = None) -> Tall:
        """What `work` makes of the rows of some matrices, row by row."""
        tall = self.new(0, name)
        widths = self.each(_map, itertools.repeat(work), self._sources(talls), tall.files)
        tall.width = widths[0]
        return tall

    def sum(self, work: Callable[..., Tensor], *talls: Tall) -> Tensor:
        """The sum over the parts, in their order, of what `work` makes of their rows; in float64."""
        partial = self.each(_partial, itertools.repeat(work), self._sources(talls))
        return torch.stack(partial).sum(dim=0)

    def _sources(self, talls: Sequence[Tall]) -> list[list[tuple[Path, int]]]:
        return [[(tall.files[i], tall.width) for tall in talls] for i in range(self.count)]


def read(file: Path, width: int) -> Tensor:
    """The rows in a file; a missing or truncated one is an error."""
    try:
        numbers = np.fromfile(file, np.float32)
    except OSError as error:
        raise GarnetError(f"Cannot read {file}: {error.strerror}; {_AGAIN}") from error
    if width and len(numbers) % width:
        raise truncated(file)
    return torch.from_numpy(numbers).view(-1, width)


def whole(tall: Tall) -> Tensor:
    """All rows, in memory."""
    return torch.cat([tall.part(i) for i in range(len(tall.files))])


def truncated(file: Path) -> GarnetError:
    """What to say of a file that is shorter than it was."""
    return GarnetError(f"Cannot read {file}: it is truncated; {_AGAIN}")


def write(file: Path, rows: Tensor) -> int:
    """Write rows to a file, whole or not at all; gives the number of columns."""
    write_array(file, rows.float().numpy())
    return int(rows.shape[1])


def write_array(file: Path, array: NDArray[Any]) -> None:
    """Write the bytes of an array to a file, whole or not at all."""
    # Not `tofile`, which loses the last bytes without a word when the disk is full.
    with atomic_path(file, durable=False) as unfinished, unfinished.open("wb") as stream:
        stream.write(np.ascontiguousarray(array).data)


def _map(work: Callable[..., Tensor], sources: list[tuple[Path, int]], target: Path) -> int:
    return write(target, work(*(read(*source) for source in sources)))


def _partial(work: Callable[..., Tensor], sources: list[tuple[Path, int]]) -> Tensor:
    return work(*(read(*source) for source in sources)).double()


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
