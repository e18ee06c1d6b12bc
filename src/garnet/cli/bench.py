"""The commands `garnet bench run` and `garnet bench show`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.console import Console

from garnet.cli.console import err, out, printable

if TYPE_CHECKING:
    from garnet.bench.entry import Entry
    from garnet.bench.record import Damage, Record
    from garnet.bench.study import Study
    from garnet.bench.table import Table
    from garnet.progress import Progress, Step

bench_app = typer.Typer(
    help="Measure the cells of a study and show them as a table.", no_args_is_help=True, rich_markup_mode=None
)


_MOST_NAMED = 20


@bench_app.command()
def run(
    study: Annotated[Path, typer.Argument(help="A study: a TOML file, or unit-test.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where records are appended.  [default: results/STUDY.jsonl, or what the study says]"
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes side by side.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    retry: Annotated[
        bool, typer.Option("--retry", help="Run cells again that failed before or had other parameters.")
    ] = False,
    defense: Annotated[
        list[str] | None, typer.Option(help="What unit-test tests; may be repeated.  [default: garnet]")
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="What unit-test trains.  [default: gcn]")] = None,
    scenario: Annotated[str | None, typer.Option(help="Of unit-test: evasion or poisoning.  [default: both]")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Models of unit-test for each cell.  [default: 1]")] = None,
) -> None:
    """Measure what the records lack, cell by cell, and show the table. Stopped, it goes on where it was.

    The study unit-test needs no file of its own: it tests defences on all graphs and perturbations of unit_test.npz,
    which is looked for in GARNET_DATA.
    """
    from garnet.bench import runner
    from garnet.io.failures import writing
    from garnet.io.targets import require_file, require_other

    wanted = _study(study, defense, backbone, scenario, seeds)
    path = output or records_of(study, wanted)
    if output is None:
        with writing(path.parent):
            path.parent.mkdir(exist_ok=True)
    require_file(path)
    require_other(path, study)
    with live(len(wanted.cells)) as progress:
        summary = runner.run(wanted, path, jobs=jobs, device=device, retry=retry, progress=progress)
    say_damages(path, summary.damages)
    _show(wanted.title, wanted.note, [cell.facts() for cell in wanted.cells], summary.records, markdown=False)
    if summary.failures:
        err.print(f"{len(summary.failures)} of {len(wanted.cells)} cells failed; --retry runs them again")
    if summary.outdated:
        err.print(f"{summary.outdated} cells were measured with other parameters than today's; --retry does it again")
    if summary.interrupted:
        err.print(f"stopped with {summary.missing} cells left; the same command goes on")
        raise typer.Exit(130)
    if summary.failures:
        raise typer.Exit(1)


def _study(
    study: Path, defenses: list[str] | None, backbone: str | None, scenario: str | None, seeds: int | None
) -> Study:
    """The study in a file, or that of the unit test, which alone is told what to measure."""
    from garnet.bench.study import load_study
    from garnet.bench.unit_test import unit_test_study
    from garnet.datasets import unit_test
    from garnet.datasets.unit_test_file import SCENARIOS
    from garnet.errors import ParameterError

    if _is_unit_test(study):
        scenarios = SCENARIOS if scenario is None else (scenario,)
        tested = unit_test()
        return unit_test_study(
            tested, defenses or ["garnet"], backbone=backbone or "gcn", scenarios=scenarios, seeds=seeds or 1
        )
    for name, given in {"defense": defenses, "backbone": backbone, "scenario": scenario, "seeds": seeds}.items():
        if given:
            raise ParameterError(f"The option --{name} is for the study unit-test alone; say it in {study} instead.")
    return load_study(study)


def _is_unit_test(study: Path) -> bool:
    """Whether it is the name of the unit test, and not of a file."""
    from garnet.bench.unit_test import UNIT_TEST

    return str(study) == UNIT_TEST and not study.is_file()


@bench_app.command()
def show(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RECORDS|STUDY...", help="Records (.jsonl), studies (.toml), or unit-test.")
    ],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Show records as tables; of a study, those in results/STUDY.jsonl."""
    from garnet.errors import GarnetError

    for source in (Path("results") / f"{one}.jsonl" if _is_unit_test(one) else one for one in sources):
        if source.suffix != ".toml" and not os.path.exists(source):  # noqa: PTH110 - Path.exists fails on a long name
            raise GarnetError(f"There are no records at {source}; garnet bench run makes some.")
        found = read_recorded(source)
        if not found.records:
            err.print(f"{printable(found.path)} has no records yet", soft_wrap=True)
        _show(found.title, found.note, found.cells, tuple(found.records.values()), markdown=markdown)


class Recorded(NamedTuple):
    """What has been measured of a study, or is in a file of records.

    Attributes:
        path: of the records.
        title: of the study, or the name of the file.
        note: of the study.
        cells: that the study has; None for a file of records.
        records: the latest of each key, those of other studies in the same file among them.
    """

    path: Path
    title: str
    note: str
    cells: list[dict[str, object]] | None
    records: dict[str, Record]


def read_recorded(source: Path) -> Recorded:
    """The records in a file, or those of a study (.toml); lines that are no records are named on standard error."""
    from garnet.bench.record import latest, read_records
    from garnet.bench.study import load_study

    path, title, note, cells = source, source.stem, "", None
    if source.suffix.lower() == ".toml":
        study = load_study(source)
        path, title, note = records_of(source, study), study.title, study.note
        cells = [cell.facts() for cell in study.cells]
    records, damages = read_records(path)
    say_damages(path, damages)
    return Recorded(path, title, note, cells, latest(records))


def records_of(path: Path, study: Study) -> Path:
    """Where the records of a study are kept."""
    return Path("results") / f"{study.record or path.stem}.jsonl"


def say_damages(path: Path, damages: tuple[Damage, ...]) -> None:
    """Name the lines of a file of records that could not be read."""
    for damage in damages[:_MOST_NAMED]:
        err.print(f"{printable(path)}, line {damage.line}: {printable(damage.why)}; left out", soft_wrap=True)
    if (more := len(damages) - _MOST_NAMED) > 0:
        err.print(f"{printable(path)}: {more:,} more lines are no records; left out", soft_wrap=True)


def _show(
    title: str, note: str, cells: list[dict[str, object]] | None, records: tuple[Record, ...], *, markdown: bool
) -> None:
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
    records = others
    for table in make_tables(title, records, cells=cells, note=note):
        if markdown:
            typer.echo("\n".join(map(printable, as_markdown(table).split("\n"))))
        else:
            _draw(table)


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
        # A note may have lines of its own.
        out.print("\n".join(map(printable, line.splitlines())), soft_wrap=True)


def _stacked(entry: Entry) -> str:
    """Ours above the paper's, so that many columns fit on a terminal."""
    text = f"{entry.text} {entry.mark}" if entry.mark else entry.text
    return f"{text}\n({entry.paper})" if entry.paper else text


@contextmanager
def live(total: int = 0) -> Iterator[Progress]:
    """A bar on standard error with the cells, or attempts, that run, and a line for each that has ended."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=total)
        running: dict[str, Step] = {}

        def follow(step: Step) -> None:
            running[step.stage] = replace(step, done=0, total=0)
            if step.total:  # it counts cells: one has ended if it says what came of it, or else begins
                bar.update(task, completed=step.done, total=step.total)
                if step.detail:
                    bar.console.print(printable(running.pop(step.stage)), soft_wrap=True)
            bar.update(task, description=printable(" | ".join(map(str, running.values()))))

        yield follow
