"""Records and studies as commands read and show them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer
from rich.console import Console

from garnet.cli.console import err, out, printable

if TYPE_CHECKING:
    from garnet.bench.cell import Cell
    from garnet.bench.entry import Entry
    from garnet.bench.record import Damage, Record
    from garnet.bench.table import Table

_MOST_NAMED = 20


class Recorded(NamedTuple):
    """What has been measured of a study, or what a file of records holds.

    Attributes:
        path: path of the records.
        title: title of the study, or name of the file.
        note: note of the study.
        cells: cells of the study; None for a file of records.
        records: the latest for each key, including those of other studies in the same file.
    """

    path: Path
    title: str
    note: str
    cells: tuple[Cell, ...] | None
    records: dict[str, Record]

    @property
    def chosen(self) -> tuple[Record, ...]:
        """The records of the study's cells that have been measured, or all records of the file."""
        if self.cells is None:
            return tuple(self.records.values())
        return tuple(self.records[cell.key] for cell in self.cells if cell.key in self.records)


def read_recorded(source: Path) -> Recorded:
    """The records in a file or of a study; lines that are not records are reported on standard error.

    Args:
        source: the records, or the file or the name of the study.
    """
    from garnet.bench.record import latest, read_records
    from garnet.bench.shipped import is_study, records_of, study_file
    from garnet.bench.study import load_study
    from garnet.errors import GarnetError

    path, title, note, cells = source, source.stem, "", None
    if is_study(source):
        study = load_study(study_file(source))
        path, title, note, cells = records_of(study_file(source), study), study.title, study.note, study.cells
    elif not os.path.exists(source):  # noqa: PTH110 - Path.exists fails on a long name
        raise GarnetError(f"There are no records at {source}; garnet bench run makes some.")
    records, damages = read_records(path)
    say_damages(path, damages)
    return Recorded(path, title, note, cells, latest(records))


def say_damages(path: Path, damages: tuple[Damage, ...]) -> None:
    """Report the lines of a file of records that could not be read."""
    for damage in damages[:_MOST_NAMED]:
        err.print(f"{printable(path)}, line {damage.line}: {printable(damage.why)}; left out", soft_wrap=True)
    if (more := len(damages) - _MOST_NAMED) > 0:
        err.print(f"{printable(path)}: {more:,} more lines are no records; left out", soft_wrap=True)


def show_tables(
    title: str, note: str, cells: tuple[Cell, ...] | None, records: tuple[Record, ...], *, style: str = "drawn"
) -> None:
    """Print records as tables.

    Args:
        title: shown above each table.
        note: shown below each table.
        cells: cells to show; None takes those of the records, stress tests included.
        records: one for each cell.
        style: `drawn`, `markdown` or `latex`.
    """
    from garnet.bench.latex import as_latex
    from garnet.bench.outcomes import batteries
    from garnet.bench.schema import STRESS
    from garnet.bench.table import as_markdown, make_tables
    from garnet.bench.verdict import Stress
    from garnet.cli.stress_table import draw_stress

    for battery in batteries(records) if cells is None else ():
        draw_stress(Stress(battery))
    others = tuple(record for record in records if record.cell["measure"] != STRESS)
    if records and not others:
        return
    wanted = None if cells is None else [cell.facts() for cell in cells]
    for table in make_tables(title, others, cells=wanted, note=note):
        if style == "drawn":
            _draw(table)
        else:
            text = as_latex(table) if style == "latex" else as_markdown(table)
            typer.echo("\n".join(map(printable, text.split("\n"))))


def _draw(table: Table) -> None:
    from rich import table as rich_table

    drawn = rich_table.Table(title=printable(table.title), title_justify="left")
    for number, column in enumerate(table.columns):
        label = number < table.labels
        drawn.add_column(
            printable(column),
            justify="left" if label else "right",
            overflow="fold",
        )
    for row in table.rows:
        drawn.add_row(*map(printable, row.labels), *map(_stacked, row.entries))
    # A file has no edge to wrap at.
    console = out if out.is_terminal else Console(highlight=False, markup=False, emoji=False, width=10_000)
    console.print(drawn)
    for line in table.below:
        # A note may have line breaks of its own.
        out.print("\n".join(map(printable, line.splitlines())), soft_wrap=True)


def _stacked(entry: Entry) -> str:
    """Ours above the paper's, so that many columns fit on a terminal."""
    text = f"{entry.text} {entry.mark}" if entry.mark else entry.text
    return f"{text}\n({entry.paper})" if entry.paper else text
