"""Runs the cells of a study that a file of records lacks, and appends a record of each."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from garnet.bench.cell import Cell
from garnet.bench.measure import failed, is_outdated, measure_cell
from garnet.bench.needs import lacking, require_here
from garnet.bench.record import Damage, Record, append_record, latest, read_to_add
from garnet.bench.study import Study
from garnet.bench.workers import DIED, side_by_side
from garnet.datasets.catalog import is_stood_in
from garnet.parameters import Count, require_arguments, require_device
from garnet.progress import Progress, Step


@dataclass(frozen=True, eq=False)
class Summary:
    """What a run left behind.

    Attributes:
        records: the records of the study's cells that the file has now.
        ran: cells that this run tried, whether or not they failed.
        missing: cells that the file still lacks.
        damages: lines of the file that were not records before the run.
        interrupted: whether somebody stopped the run.
        outdated: records made with other parameters than the cell has today.
        skipped: cells that were left out because a file of theirs is not here, each with the sentence that says so.
        drawn: graphs whose usual split is not here, so that a random one stood in for it where cells were measured.
    """

    records: tuple[Record, ...]
    ran: int
    missing: int
    damages: tuple[Damage, ...]
    interrupted: bool
    outdated: int = 0
    skipped: Mapping[Cell, str] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()

    @property
    def failures(self) -> tuple[Record, ...]:
        """The records of cells that failed."""
        return tuple(record for record in self.records if record.status == "failed")


def run(
    study: Study,
    path: str | Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    retry: bool = False,
    again: bool = False,
    skip_missing: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Measure the cells of a study, in its order, and append a record of each to a file.

    Cells that the file has are skipped, so a run that was stopped, even killed, continues where it was. A cell that
    fails is recorded with the reason, and the others continue. The same cell gives the same figures on a CPU.

    Args:
        study: what to measure.
        path: the file, which need not exist; its folder must.
        jobs: processes to run in parallel; 1 runs everything in this one.
        device: where models are trained and graphs purified.
        retry: rerun cells that failed before, or had other parameters then.
        again: rerun all cells; their old records stay in the file, but no longer count.
        skip_missing: leave out the cells whose graphs are not here, instead of measuring none at all.
        progress: told of each cell, by its name, as it begins and as it has ended, then with what came of it; both say
            how many cells the file has of all. In between, a cell that runs in this process tells what it is doing.

    Raises:
        ParameterError: `jobs` or `device` is not possible here.
        GraphError: a graph that is to be measured, or its attacked version, is not here.
        GarnetError: the file cannot be read or written, or is not one of records.
    """
    require_arguments("run", jobs=(jobs, Count))
    require_device(device, "run")
    before, damages = read_to_add(path)
    known = latest(before)
    cells = {cell.key: cell for cell in study.cells}
    outdated = {key for key, cell in cells.items() if key in known and is_outdated(known[key], cell, device)}
    had = {key for key, record in known.items() if not retry or (record.status == "done" and key not in outdated)}
    todo = [cell for key, cell in cells.items() if again or key not in had]
    skipped = lacking(todo) if skip_missing else {}
    if not skip_missing:
        require_here(todo)
    todo = [cell for cell in todo if cell not in skipped]
    drawn = dict.fromkeys(cell.graph for cell in todo if is_stood_in(cell.graph, cell.split))
    tell = _Teller(progress or (lambda step: None), done=len(cells) - len(todo), total=len(cells))
    ran, interrupted = 0, False
    results = _one_by_one(todo, device, tell) if jobs == 1 else _side_by_side(todo, jobs, device, tell)
    try:
        with closing(results):
            for record in results:
                append_record(path, record)
                known[record.key] = record
                ran += 1
                tell.ended(record)
    except KeyboardInterrupt:
        interrupted = True
    records = tuple(known[key] for key in cells if key in known)
    left = 0 if retry or again else len(outdated)
    return Summary(records, ran, len(cells) - len(records), damages, interrupted, left, skipped, tuple(drawn))


class _Teller:
    """Says of each cell that it begins, what it is doing and what came of it."""

    def __init__(self, progress: Progress, done: int, total: int) -> None:
        self._progress, self._done, self._total = progress, done, total

    def begins(self, cell: Cell) -> None:
        self._progress(Step(str(cell), done=self._done, total=self._total))

    def within(self, cell: Cell) -> Progress:
        return lambda step: self._progress(Step(str(cell), str(step)))

    def ended(self, record: Record) -> None:
        self._done += 1
        self._progress(Step(str(record), record.outcome, self._done, self._total))


def _one_by_one(cells: Sequence[Cell], device: str, tell: _Teller) -> Generator[Record, None, None]:
    for cell in cells:
        tell.begins(cell)
        yield measure_cell(cell, device, tell.within(cell))


def _side_by_side(cells: Sequence[Cell], jobs: int, device: str, tell: _Teller) -> Generator[Record, None, None]:
    yield from side_by_side(
        cells,
        partial(measure_cell, device=device),
        jobs=jobs,
        begins=tell.begins,
        died=lambda cell, seconds: failed(cell, DIED, seconds),
    )
