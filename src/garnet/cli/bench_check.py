"""`garnet bench check`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from garnet.cli.bench import live
from garnet.cli.bench_records import read_recorded
from garnet.cli.console import err, out, printable

if TYPE_CHECKING:
    from garnet.bench.cell import Cell
    from garnet.bench.recheck import Comparison
    from garnet.bench.record import Record
    from garnet.cli.bench_records import Recorded


def check(
    source: Annotated[
        Path, typer.Argument(metavar="RECORDS|STUDY", help="Records (.jsonl), or the name or file of a study.")
    ],
    sample: Annotated[int, typer.Option(min=1, help="Number of cells to draw.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    match: Annotated[
        str | None, typer.Option(help="Draw only from cells whose name contains this, such as 'nettack 5, gcn'.")
    ] = None,
    longest: Annotated[
        float | None, typer.Option(min=0, help="Draw only from cells that took at most this many seconds.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Append the new measurements to this file of records.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run in parallel.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
) -> None:
    """Measure a sample of recorded cells again and compare. Exits with 1 if one disagrees; records are not changed.

    Two means agree if they differ by at most two standard errors, which one pair in twenty does not by chance alone.
    """
    from garnet.bench import runner
    from garnet.bench.recheck import compare
    from garnet.bench.study import Study
    from garnet.errors import GarnetError
    from garnet.io.targets import require_file, require_other

    found = read_recorded(source)
    if output is not None:
        require_file(output)
        require_other(output, found.path)
    chosen = _chosen(found, sample, seed, match, longest)
    if not chosen:
        raise GarnetError(f"No record in {found.path} can be checked so; choose others with --match and --longest.")
    took = sum(record.seconds.get("total", 0.0) for record in chosen.values())
    err.print(f"measuring {len(chosen)} cells again; they took {took:.0f} s when they were recorded", soft_wrap=True)
    study = Study(str(source), "", tuple(chosen))
    with _records(output) as kept, live(len(chosen)) as progress:
        summary = runner.run(study, kept, jobs=jobs, device=device, again=True, progress=progress)
    if summary.interrupted:
        raise typer.Exit(130)
    compared = [compare(chosen[cell], now) for cell, now in zip(chosen, summary.records, strict=True)]
    _draw(compared)
    wrong = [one for one in compared if not one.agrees]
    err.print(
        f"{len(compared) - len(wrong)} of {len(compared)} cells came out as they are in {printable(found.path)}",
        soft_wrap=True,
    )
    if wrong:
        raise typer.Exit(1)


@contextmanager
def _records(output: Path | None) -> Iterator[Path]:
    """The file named for the new records, or else a temporary one."""
    from garnet.io.failures import writing
    from garnet.io.scratch import Scratch

    if output is not None:
        yield output
        return
    with writing("intermediate files"):
        folder = Path(tempfile.gettempdir())
    with Scratch.make(folder) as scratch:
        yield scratch.folder / "now.jsonl"


def _chosen(found: Recorded, sample: int, seed: int, match: str | None, longest: float | None) -> dict[Cell, Record]:
    """The drawn records, by cell."""
    from garnet.bench.recheck import can_be_checked, cell_of, drawn

    cells = {cell.key: cell for cell in found.cells or ()}
    possible = [
        record
        for record in found.chosen
        if (record.status == "done" if record.key in cells else can_be_checked(record))
        and (match is None or match.lower() in str(record).lower())
        and (longest is None or record.seconds.get("total", 0.0) <= longest)
    ]
    return {cells.get(one.key) or cell_of(one.cell): one for one in drawn(possible, sample, seed)}


def _draw(compared: list[Comparison]) -> None:
    names = ("recorded", "now", "difference", "allowed", "")
    table = Table(Column("cell", overflow="fold"), *names, Column("", overflow="fold"), box=box.SIMPLE)
    for one in compared:
        off = "" if one.difference is None else f"{one.difference:+.2f}"
        verdict = "agrees" if one.agrees else "DISAGREES"
        cells = (str(one.then), _figures(one.then), _figures(one.now), off, f"{one.allowed:.2f}", verdict, one.why)
        table.add_row(*map(printable, cells))
    console = out if out.is_terminal else Console(highlight=False, markup=False, emoji=False, width=10_000)
    console.print(table)


def _figures(record: Record) -> str:
    if record.status == "failed":
        return "failed"
    if record.mean is not None:
        return record.outcome
    return ", ".join(f"{value:.4g}" for value in record.values.values() if isinstance(value, int | float))
