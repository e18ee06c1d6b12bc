"""Polynomials of the adjacency times all columns of a block, computed by workers that each hold some of its rows.

A step of the recurrence needs all rows of the previous step. So the members of a gang meet in a folder: each writes its
rows of a step into that step's table, and then a file of its own. When every part has its file, the table is complete,
and the next step begins. Tables are mapped, not read: all workers of a machine share the same pages in memory.

Whatever happens to a member, its parts resume from its files of the last two steps. A member that waits in vain gives
its thread back, since others may need it, and is sent again with the other unfinished ones. So a gang of any size
finishes, even if its members take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from garnet.errors import GarnetError
from garnet.io.failures import writing
from garnet.io.removal import remove
from garnet.linalg.fixed_point import fixed, number
from garnet.places.cluster import ClusterRun
from garnet.places.held_columns import squares, unit_factors
from garnet.places.held_matrix import held, release
from garnet.places.meeting import Apart, Meeting
from garnet.places.row_files import RowFile, read, write, write_array
from garnet.places.row_store import RowMatrix, RowStore, grains, temporary
from garnet.places.tiles import TiledGraph
from garnet.spectral.block_space import Polynomial, columnwise

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Gang:
    """What the members of a gang are given.

    Attributes:
        folder: where they meet.
        graph: with the adjacency A.
        roots: files of the diagonal of S, part by part.
        scale: what S A S is divided by.
        polynomial: the polynomial of that.
        files: the files of the parts of the block.
        width: of the block.
        columns: which of its columns to take.
        grain: rows summed at a time.
        targets: where the results go; None if moments are wanted.
        unit: whether to scale the results' columns to a length of about one.
    """

    folder: Path
    graph: TiledGraph
    roots: tuple[RowFile, ...]
    scale: float
    polynomial: Polynomial
    files: tuple[RowFile, ...]
    width: int
    columns: slice
    grain: int
    targets: tuple[RowFile, ...] | None
    unit: bool

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of a table."""
        return self.graph.num_nodes, self.columns.stop - self.columns.start

    def table(self, step: int) -> Path:
        """The rows of a step, times the diagonal of S."""
        return self.folder / f"table-{step}"

    def mapped(self, step: int) -> Tensor:
        """The rows of all parts in a table; read-only."""
        return torch.from_numpy(np.memmap(self.table(step), np.float32, "c", shape=self.shape))

    def state(self, step: int, i: int) -> Path:
        """The rows of part i after a step, and their squares after the last; the table has its rows, too."""
        return self.folder / f"{step}-{i}"

    def sums(self, step: int, i: int) -> Path:
        """What part i adds to the moments of a step."""
        return self.folder / f"sums-{step}-{i}"

    def latest(self, i: int) -> int:
        """The last step whose rows of part i exist; -1 if there is none."""
        names = (path.name.split("-") for path in self.folder.iterdir())
        steps = (int(name[0]) for name in names if name[0].isdigit() and name[1] == str(i))
        return max((step for step in steps if step < self.polynomial.degree), default=-1)

    def unit_factors(self) -> Tensor:
        """The factors that scale columns to about unit length, once the squares of all parts exist."""
        files = (self.state(self.polynomial.degree, i) for i in range(self.graph.parts))
        return unit_factors(number(torch.from_numpy(sum(map(np.fromfile, files), np.zeros(()))).view(2, -1)))

    def make_tables(self) -> None:
        """Make empty tables: members never do, so a late one cannot bring a table back."""
        rows, width = self.shape
        with writing(self.folder):
            for step in range(self.polynomial.degree):
                with self.table(step).open("wb") as stream:
                    stream.truncate(4 * rows * width)


class ByRows:
    """Has gangs of a cluster's workers compute polynomials of S A S divided by a number.

    Args:
        run: the cluster.
        graph: with the adjacency A.
        parts: where tall matrices are kept.
        roots: diagonal of S.
        most: maximum number of columns at a time.
    """

    def __init__(self, run: ClusterRun, graph: TiledGraph, parts: RowStore, roots: RowMatrix, most: int) -> None:
        self._run, self._graph, self._parts, self._roots, self._most = run, graph, parts, roots, most
        self._seats: list[str] = []

    def times(self, block: RowMatrix, polynomial: Polynomial, scale: float, *, unit: bool = False) -> RowMatrix:
        """The polynomial times a block; with columns of about unit length if wanted."""
        found = []
        for columns in self._groups(block.width):
            target = self._parts.new(columns.stop - columns.start)
            with self._gang(block, polynomial, scale, columns, target, unit=unit) as gang:
                self._played(take_part, gang.folder, gang)
            found.append(target)
        whole = found[0] if len(found) == 1 else self._parts.map(_beside, *found)
        whole.unit = unit
        return whole

    def moments(self, block: RowMatrix, polynomial: Polynomial, scale: float) -> Tensor:
        """See `garnet.spectral.block_space.moments_by_products`."""
        found = []
        for columns in self._groups(block.width):
            with self._gang(block, polynomial, scale, columns) as gang:
                found.append(number(torch.stack(self._played(take_part, gang.folder, gang)).sum(dim=0)))
        return torch.cat(found, dim=1)

    def together(self, work: Callable[[Any, Sequence[int]], list[T] | None], *told: Any) -> T:
        """The result of a function that all members call with a folder, the given arguments, and their parts."""
        with self._folder() as folder:
            return self._played(work, folder, (folder, *told))[0]

    def _groups(self, width: int) -> list[slice]:
        """Equal groups of columns, none above the maximum."""
        count = -(-width // self._most)
        return [slice(*some) for some in pairwise(width * k // count for k in range(count + 1))]

    @contextmanager
    def _gang(
        self,
        block: RowMatrix,
        polynomial: Polynomial,
        scale: float,
        columns: slice,
        target: RowMatrix | None = None,
        *,
        unit: bool = False,
    ) -> Iterator[Gang]:
        with self._folder() as folder:
            gang = Gang(
                folder=folder,
                graph=self._graph,
                roots=self._roots.files,
                scale=scale,
                polynomial=polynomial,
                files=block.files,
                width=block.width,
                columns=columns,
                grain=self._parts.grain,
                targets=None if target is None else target.files,
                unit=unit,
            )
            gang.make_tables()
            yield gang

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        """Where a gang meets."""
        folder = self._parts.folder / temporary()
        with writing(folder):
            folder.mkdir()
        try:
            yield folder
        finally:
            with suppress(OSError):  # an abandoned worker may still write to it; it goes with the run
                remove(folder)

    def _played(self, work: Callable[[Any, Sequence[int]], list[T] | None], folder: Path, told: Any) -> list[T]:
        """What the parts of a gang find; unfinished ones are dealt again to the workers at hand."""
        found: dict[int, T] = {}
        while left := [i for i in range(self._graph.parts) if i not in found]:
            seats = self._run.seats()
            if seats != self._seats:
                self._run.everywhere(release)
                self._seats = seats
            seats = seats[: len(left)]
            bounds = [len(left) * k // len(seats) for k in range(len(seats) + 1)]
            hands = [left[first:last] for first, last in pairwise(bounds)]
            answers = self._run(work, [(told, hand) for hand in hands], where=seats)
            for hand, answer in zip(hands, answers, strict=True):
                found |= zip(hand, answer or (), strict=False)
            if not folder.is_dir():
                raise GarnetError(f"Cannot read {folder}: it is gone; repeat this, which goes on from what is done.")
        return [found[i] for i in range(self._graph.parts)]


def take_part(gang: Gang, hand: Sequence[int]) -> list[Tensor] | None:
    """Take some parts to the end; returns their terms of the moments, if wanted. None if others do not follow."""
    meeting = Meeting(gang.folder, gang.graph.parts)
    try:
        with ThreadPoolExecutor(1) as aside:
            return _taken(gang, meeting, [_Member(gang, i, aside) for i in hand])
    except (Apart, FileNotFoundError):  # if a file is gone, another worker has these parts, and is further on
        return None


def _taken(gang: Gang, meeting: Meeting, members: Sequence[_Member]) -> list[Tensor]:
    for step in range(min(member.step for member in members) + 1, gang.polynomial.degree + 1):
        if step:
            meeting.wait(step - 1)
        table = gang.mapped(step - 1) if step else None
        for member in members:
            if member.step < step:
                member.advance(table)
    if gang.unit:
        meeting.wait(gang.polynomial.degree)
        factors = gang.unit_factors()
        for member in members:
            member.put(factors)
    return [member.found() for member in members]


class _Member:
    """A part of the rows in progress."""

    def __init__(self, gang: Gang, i: int, aside: Executor) -> None:
        self._gang, self._i, self._aside = gang, i, aside
        self._matrix, self._roots = held(gang.graph, i), read(gang.roots[i], 1)
        self.step = gang.latest(i)
        self._now = self._state(self.step) if self.step >= 0 else torch.empty(0)
        self._before = self._state(self.step - 1) if self.step > 0 else None

    def advance(self, table: Tensor | None) -> None:
        """Take the next step, from the table of the previous step."""
        gang, i, before = self._gang, self._i, None if table is None else self._now
        now = read(gang.files[i], gang.width)[:, gang.columns].contiguous() if table is None else self._image(table)
        self._now, self._before, self.step = now, before, self.step + 1
        if gang.targets is None and before is not None:
            self._sum(before)
        if self.step < gang.polynomial.degree:
            self._leave()
        elif gang.unit:
            pieces = grains(len(now), gang.grain)
            write_array(gang.state(self.step, i), fixed([squares(now[some]) for some in pieces]).numpy())
        else:
            self.put()

    def put(self, factors: Tensor | None = None) -> None:
        """Write the rows of the last step, times the factors of the columns, where the result goes."""
        if self._gang.targets is not None:
            write(self._gang.targets[self._i], self._now if factors is None else self._now * factors)

    def found(self) -> Tensor:
        """The terms of the moments; nothing if these are not wanted."""
        gang = self._gang
        if gang.targets is not None:
            return torch.empty(0)
        shape = 2, -1, gang.shape[1]
        files = (gang.sums(step, self._i) for step in range(1, gang.polynomial.degree + 1))
        return torch.from_numpy(np.concatenate([np.fromfile(file).reshape(shape) for file in files], axis=1))

    def _image(self, table: Tensor) -> Tensor:
        gang, centre, half = self._gang, self._gang.polynomial.centre, self._gang.polynomial.half
        times = 2 if self.step else 1
        factors = times / half / gang.scale * self._roots
        return self._matrix.image(table, factors, self._now, shift=times * centre / half, minus=self._before)

    def _sum(self, before: Tensor) -> None:
        gang, last = self._gang, self.step == self._gang.polynomial.degree
        terms = []
        for some in grains(len(self._now), gang.grain):
            now = self._now[some]
            pairs = [(before[some], now)] if last else [(before[some], now), (now, now)]
            terms.append(torch.stack([columnwise(*pair) for pair in pairs]))
        write_array(gang.sums(self.step, self._i), fixed(terms).numpy())

    def _leave(self) -> None:
        """Leave what the others need, and what this part resumes from if restarted."""
        gang, step, rows = self._gang, self.step, self._now * self._roots
        stream = gang.table(step).open("r+b")
        with writing(gang.folder), stream:
            stream.seek(rows.element_size() * rows.shape[1] * gang.graph.bounds[self._i])
            stream.write(rows.numpy().data)
        write_array(gang.state(step, self._i), self._now.numpy())
        # All others have taken the previous step, or this one could not be taken. Nobody waits for the system to do it.
        self._aside.submit(remove, gang.state(step - 2, self._i))
        if self._i == 0:
            self._aside.submit(remove, gang.table(step - 2))

    def _state(self, step: int) -> Tensor:
        return torch.from_numpy(np.fromfile(self._gang.state(step, self._i), np.float32)).view(-1, self._gang.shape[1])


def _beside(*blocks: Tensor) -> Tensor:
    return torch.cat(blocks, dim=1)
