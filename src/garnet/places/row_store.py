"""Tall matrices in parts, and work that is done on them part by part, here or on a cluster."""

from __future__ import annotations

import itertools
import secrets
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from garnet.linalg.fixed_point import fixed, number
from garnet.places.row_files import RowFile, Slot, read, remove_all, write

_GRAINS, _LEAST_GRAIN, _LARGEST_GRAIN = 128, 16, 8192

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


class RowMatrix:
    """A tall matrix in float32 whose rows lie in files, or in memory, and go when the last who knows it goes.

    Attributes:
        files: one for each part of the rows.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        width: columns.
        unit: whether the columns are known to have a length of about one.
    """

    def __init__(
        self, files: Sequence[RowFile], bounds: Sequence[int], width: int, *, keep: bool = False, unit: bool = False
    ) -> None:
        self.files, self.bounds, self.width, self.unit = tuple(files), tuple(bounds), width, unit
        if not keep:
            weakref.finalize(self, remove_all, self.files)

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
        threads: tasks that are done at the same time.
        grain: rows that are worked on at a time.
    """

    def __init__(
        self,
        folder: Path,
        bounds: Sequence[int],
        run: Run = run_locally,
        tell: Tell = lambda name, done, total: None,
        *,
        threads: int = 1,
    ) -> None:
        self.folder, self.bounds, self.run, self.tell = folder, tuple(bounds), run, tell
        self.threads, self.grain = threads, grain_of(self.bounds[-1])
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

    def everywhere(self, work: Callable[[], None]) -> None:
        """Call a function in every process that does the work, as far as it can be reached."""
        getattr(self.run, "everywhere", lambda work: work())(work)

    def new(self, width: int, name: str | None = None) -> RowMatrix:
        """Files for a matrix yet to be written; one with a name stays, one without goes when it is forgotten.

        Args:
            width: columns that it will have.
            name: of its files.
        """
        if name is not None:
            return RowMatrix(self.files(name), self.bounds, width, keep=True)
        files = self.files(temporary())
        held = [Slot(file, self._room) for file in files] if self._room[0] else files
        return RowMatrix(held, self.bounds, width)

    def files(self, name: str) -> list[Path]:
        """The files of a matrix of this name."""
        return [self.folder / f"{name}-{i}.bin" for i in range(self.count)]

    def map(self, work: Callable[..., Tensor], *matrices: RowMatrix, name: str | None = None) -> RowMatrix:
        """What `work` makes of the rows of some matrices, row by row."""
        matrix = self.new(0, name)
        repeated = itertools.repeat(work), self._sources(matrices), itertools.repeat(self.grain)
        matrix.width = self.each(_map, *repeated, matrix.files)[0]
        return matrix

    def sum(self, work: Callable[..., Tensor], *matrices: RowMatrix) -> Tensor:
        """The sum over all rows of what `work` makes of some of them; in float64, the same however they are cut."""
        return self.total(_partial, itertools.repeat(work), self._sources(matrices), itertools.repeat(self.grain))

    def total(self, work: Callable[..., Tensor], *columns: Iterable[Any]) -> Tensor:
        """What the sums of all parts add up to: see `each`, and `garnet.linalg.fixed_point`."""
        return number(torch.stack(self.each(work, *columns)).sum(dim=0))

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


def temporary() -> str:
    """The beginning of the name of files that go when they are forgotten."""
    return f"tmp-{secrets.token_hex(8)}"


def whole(matrix: RowMatrix) -> Tensor:
    """All rows, in memory."""
    return torch.cat([matrix.part(i) for i in range(len(matrix.files))])


def columns_of(matrix: RowMatrix, first: int, last: int) -> Tensor:
    """Some of the columns, in memory."""
    found = torch.empty(matrix.bounds[-1], last - first)
    for place, (begin, end) in zip(matrix.files, itertools.pairwise(matrix.bounds), strict=True):
        found[begin:end] = read(place, matrix.width)[:, first:last]
    return found


def grain_of(rows: int) -> int:
    """So many rows are worked on at a time, of a matrix that has so many in all: a power of two.

    Parts are cut between two grains where there are enough of them. Then what comes out does not depend on how many
    parts there are, to the last bit: a product of matrices may round as it likes, if only it is always the same one.
    """
    return min(max(_LEAST_GRAIN, 1 << max((rows // _GRAINS).bit_length() - 1, 0)), _LARGEST_GRAIN)


def grains(rows: int, grain: int) -> list[slice]:
    """The rows of a part, one grain after the other; one that is empty if there are none."""
    return [slice(start, start + grain) for start in range(0, max(rows, 1), grain)]


def _take(place: RowFile, width: int, rows: Tensor) -> Tensor:
    return read(place, width)[rows] if len(rows) else torch.empty(0, width)


def _map(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]], grain: int, target: RowFile) -> int:
    rows = [read(*source) for source in sources]
    return write(target, torch.cat([work(*(x[some] for x in rows)) for some in grains(len(rows[0]), grain)]))


def _partial(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]], grain: int) -> Tensor:
    rows = [read(*source) for source in sources]
    return fixed([work(*(x[some] for x in rows)) for some in grains(len(rows[0]), grain)])
