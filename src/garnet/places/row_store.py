"""Tall matrices in parts, one file a part, and work that is done on them part by part, here or on a cluster."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path
from garnet.io.removal import remove

_AGAIN = "remove its folder, and the work begins again."


Tell = Callable[[str, int, int], None]
"""Called with the name of a step, how many of its tasks are done, and how many there are."""

Done = Callable[[int, int], None]
"""Called with the number of tasks that are done, and with that of all."""


class Run(Protocol):
    """Whoever does the work: the same function on many arguments, the results in their order.

    A task may be done twice, if a worker is lost, so it writes files under names that nobody reads before it is done.
    """

    def __call__(
        self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Done | None = None
    ) -> list[Any]:
        """What the function gives for the arguments of each task; `done` is called as they are done, if given."""


def run_locally(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Done | None = None) -> list[Any]:
    """Do it in this process, one task after the other."""
    if done is None:
        return [work(*task) for task in tasks]
    tasks = list(tasks)
    results: list[Any] = []
    for task in tasks:
        done(len(results), len(tasks))
        results.append(work(*task))
    done(len(results), len(tasks))
    return results


class Slot:
    """Rows that stay in memory as long as there is room, and else lie in a file.

    Args:
        file: where they lie if there is none.
        room: a list of one number, the bytes that are left to all who share it.
    """

    def __init__(self, file: Path, room: list[int]) -> None:
        self.file, self._room = file, room
        self._rows: Tensor | None = None

    def place(self) -> Tensor | Path:
        """The rows, which nobody may change, or their file."""
        return self.file if self._rows is None else self._rows

    def put(self, rows: Tensor) -> bool:
        """Keep the rows, if there is room."""
        self.clear()
        if rows.nbytes > self._room[0]:
            return False
        self._room[0] -= rows.nbytes
        # What is part of something larger would keep it all alive.
        self._rows = rows.contiguous() if rows.nbytes == rows.untyped_storage().nbytes() else rows.clone()
        return True

    def clear(self) -> None:
        """Forget the rows."""
        if self._rows is not None:
            self._room[0] += self._rows.nbytes
            self._rows = None

    def remove(self) -> None:
        """Forget the rows, wherever they are."""
        self.clear()
        remove(self.file)


RowFile = Path | Slot
"""Where the rows of a part are."""


class RowMatrix:
    """A tall matrix in float32 whose rows lie in files, or in memory, and go when the last who knows it goes.

    Attributes:
        files: one for each part of the rows.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        width: columns.
    """

    def __init__(self, files: Sequence[RowFile], bounds: Sequence[int], width: int, *, keep: bool = False) -> None:
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


class RowStore:
    """Where tall matrices of the same rows live, and who works on them.

    Attributes:
        folder: of their files, in the directory of a run; every worker must see it under this path.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        run: who does the work.
        tell: told of steps that take long: the name of each, tasks done, and all tasks.
    """

    def __init__(
        self, folder: Path, bounds: Sequence[int], run: Run = run_locally, tell: Tell = lambda name, done, total: None
    ) -> None:
        self.folder, self.bounds, self.run, self.tell = folder, tuple(bounds), run, tell
        self._room = [0]

    def hold(self, room: int) -> None:
        """Keep matrices without a name in memory while there is room for so many bytes; no worker sees them."""
        self._room = [max(room, 0)]

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    def each(self, work: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        """What a function gives for the i-th of each of some sequences, which may be endless, for every part i."""
        return self.run(work, itertools.islice(zip(*columns, strict=False), self.count))

    def do(self, name: str, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """What a function gives for the arguments of each task of a step that takes long, and says how far it is."""
        return self.run(work, tasks, done=partial(self.tell, name))

    def new(self, width: int, name: str | None = None) -> RowMatrix:
        """Files for a matrix yet to be written; one with a name stays, one without goes when it is forgotten."""
        stem = name or f"tmp-{secrets.token_hex(8)}"
        files = self.files(stem)
        if name is None and self._room[0]:
            return RowMatrix([Slot(file, self._room) for file in files], self.bounds, width)
        return RowMatrix(files, self.bounds, width, keep=name is not None)

    def files(self, name: str) -> list[Path]:
        """The files of a matrix of this name."""
        return [self.folder / f"{name}-{i}.bin" for i in range(self.count)]

    def map(self, work: Callable[..., Tensor], *matrices: RowMatrix, name: str | None = None) -> RowMatrix:
        """What `work` makes of the rows of some matrices, row by row."""
        matrix = self.new(0, name)
        widths = self.each(_map, itertools.repeat(work), self._sources(matrices), matrix.files)
        matrix.width = widths[0]
        return matrix

    def sum(self, work: Callable[..., Tensor], *matrices: RowMatrix) -> Tensor:
        """The sum over the parts, in their order, of what `work` makes of their rows; in float64."""
        partial = self.each(_partial, itertools.repeat(work), self._sources(matrices))
        return torch.stack(partial).sum(dim=0)

    def take(self, matrix: RowMatrix, rows: Tensor) -> Tensor:
        """Some rows, in any order."""
        owner = torch.searchsorted(torch.tensor(self.bounds[1:]), rows, right=True)
        found = torch.empty(len(rows), matrix.width)
        chosen = [(owner == i).nonzero()[:, 0] for i in range(self.count)]
        local = [rows[some] - self.bounds[i] for i, some in enumerate(chosen)]
        parts = self.each(_take, matrix.files, itertools.repeat(matrix.width), local)
        for some, part in zip(chosen, parts, strict=True):
            found[some] = part
        return found

    def _sources(self, matrices: Sequence[RowMatrix]) -> list[list[tuple[RowFile, int]]]:
        return [[(one.files[i], one.width) for one in matrices] for i in range(self.count)]


def read(place: RowFile, width: int) -> Tensor:
    """The rows in a place, which are not to be changed; a missing or truncated file is an error."""
    file = place.place() if isinstance(place, Slot) else place
    if isinstance(file, Tensor):
        return file
    try:
        numbers = np.fromfile(file, np.float32)
    except OSError as error:
        raise GarnetError(f"Cannot read {file}: {error.strerror}; {_AGAIN}") from error
    if width and len(numbers) % width:
        raise truncated(file)
    return torch.from_numpy(numbers).view(-1, width)


def whole(matrix: RowMatrix) -> Tensor:
    """All rows, in memory."""
    return torch.cat([matrix.part(i) for i in range(len(matrix.files))])


def truncated(file: Path) -> GarnetError:
    """What to say of a file that is shorter than it was."""
    return GarnetError(f"Cannot read {file}: it is truncated; {_AGAIN}")


def write(place: RowFile, rows: Tensor) -> int:
    """Put rows in a place, in a file whole or not at all; gives the number of columns."""
    rows = rows.float()
    if not isinstance(place, Slot):
        write_array(place, rows.numpy())
    elif not place.put(rows):
        write_array(place.file, rows.numpy())
    return int(rows.shape[1])


def write_array(file: Path, array: NDArray[Any]) -> None:
    """Write the bytes of an array to a file, whole or not at all."""
    # Not `tofile`, which loses the last bytes without a word when the disk is full.
    with atomic_path(file, durable=False) as unfinished, unfinished.open("wb") as stream:
        stream.write(np.ascontiguousarray(array).data)


def _take(place: RowFile, width: int, rows: Tensor) -> Tensor:
    return read(place, width)[rows] if len(rows) else torch.empty(0, width)


def _map(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]], target: RowFile) -> int:
    return write(target, work(*(read(*source) for source in sources)))


def _partial(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]]) -> Tensor:
    return work(*(read(*source) for source in sources)).double()


def _remove(places: Iterable[RowFile]) -> None:
    for place in places:
        if isinstance(place, Slot):
            place.remove()
        else:
            remove(place)
