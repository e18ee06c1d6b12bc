"""Tall matrices in parts, and work on them part by part, here or on a cluster."""

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
    """Anything that does the work: one function applied to many arguments, with results in order.

    A task may run twice, if a worker is lost, so it writes files under names that nobody reads before it is done.
    """

    def __call__(
        self, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Done | None = None
    ) -> list[Any]:
        """The results of the function for the arguments of each task; `done`, if given, is called as they finish."""


def run_locally(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], *, done: Done | None = None) -> list[Any]:
    """Run the tasks in this process, one after another."""
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
    """A tall matrix in float32 whose rows are in files or in memory, and are removed with its last reference.

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
    """Where tall matrices with the same rows are kept, and what works on them.

    Attributes:
        folder: folder of their files, in the directory of a run; every worker must see it under this path.
        bounds: parts + 1 numbers; part i has the rows bounds[i] .. bounds[i + 1] - 1.
        run: what does the work.
        tell: called with the progress of long steps: name, tasks done, and number of tasks.
        threads: tasks run at the same time.
        grain: rows processed at a time.
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
        """Keep unnamed matrices in memory while there is room for this many bytes; no worker sees them."""
        self._room = [max(room, 0)]

    @property
    def count(self) -> int:
        """Number of parts."""
        return len(self.bounds) - 1

    def each(self, work: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        """The results of a function for the i-th of each of some sequences, which may be endless, for every part i."""
        return self.run(work, itertools.islice(zip(*columns, strict=False), self.count))

    def do(self, name: str, work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]]) -> list[Any]:
        """The results of a function for the arguments of each task of a long step, with its progress reported."""
        return self.run(work, tasks, done=partial(self.tell, name))

    def everywhere(self, work: Callable[[], None]) -> None:
        """Call a function in every process that does the work and can be reached."""
        getattr(self.run, "everywhere", lambda work: work())(work)

    def new(self, width: int, name: str | None = None) -> RowMatrix:
        """Files for a matrix yet to be written; a named one stays, an unnamed one is removed with its last reference.

        Args:
            width: number of columns it will have.
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
        """`work` applied to the rows of some matrices, row by row."""
        matrix = self.new(0, name)
        repeated = itertools.repeat(work), self._sources(matrices), itertools.repeat(self.grain)
        matrix.width = self.each(_map, *repeated, matrix.files)[0]
        return matrix

    def sum(self, work: Callable[..., Tensor], *matrices: RowMatrix) -> Tensor:
        """The sum of `work` over all groups of rows; in float64, the same however they are cut."""
        return self.total(_partial, itertools.repeat(work), self._sources(matrices), itertools.repeat(self.grain))

    def total(self, work: Callable[..., Tensor], *columns: Iterable[Any]) -> Tensor:
        """The total of the sums of all parts; see `each`, and `garnet.linalg.fixed_point`."""
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
    """The prefix of the names of temporary files."""
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
    """How many rows to process at a time, for a matrix with this many rows: a power of two.

    Parts are cut between grains where there are enough of them. The result then does not depend on the number of parts,
    to the last bit: a matrix product may round as it likes, as long as it is always the same product.
    """
    return min(max(_LEAST_GRAIN, 1 << max((rows // _GRAINS).bit_length() - 1, 0)), _LARGEST_GRAIN)


def grains(rows: int, grain: int) -> list[slice]:
    """The rows of a part, grain by grain; one empty grain if there are none."""
    return [slice(start, start + grain) for start in range(0, max(rows, 1), grain)]


def _take(place: RowFile, width: int, rows: Tensor) -> Tensor:
    return read(place, width)[rows] if len(rows) else torch.empty(0, width)


def _map(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]], grain: int, target: RowFile) -> int:
    rows = [read(*source) for source in sources]
    return write(target, torch.cat([work(*(x[some] for x in rows)) for some in grains(len(rows[0]), grain)]))


def _partial(work: Callable[..., Tensor], sources: list[tuple[RowFile, int]], grain: int) -> Tensor:
    rows = [read(*source) for source in sources]
    return fixed([work(*(x[some] for x in rows)) for some in grains(len(rows[0]), grain)])
