"""The commands `garnet bench run`, `list` and `show`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Column

from garnet.cli.bench_records import read_recorded, say_damages, show_tables
from garnet.cli.console import err, out, printable

if TYPE_CHECKING:
    from garnet.bench.record import Record
    from garnet.bench.runner import Summary
    from garnet.bench.study import Study
    from garnet.progress import Progress, Step

bench_app = typer.Typer(
    help="Measure the cells of a study and show them as a table.", no_args_is_help=True, rich_markup_mode=None
)


@bench_app.command()
def run(
    study: Annotated[
        Path,
        typer.Argument(help="A study: a name from 'garnet bench list', your own TOML file, or unit-test."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Where records are appended.  [default: STUDY.jsonl, or as the study says, in the folder results if "
            "there is one here]",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to run in parallel.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    retry: Annotated[
        bool, typer.Option("--retry", help="Rerun cells that failed before or had other parameters.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Rerun all cells; tables then show the latest measurements.")
    ] = False,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Skip the cells whose graphs are not here.")
    ] = False,
    defense: Annotated[
        list[str] | None, typer.Option(help="Defence for unit-test; repeatable.  [default: garnet]")
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="Model for unit-test.  [default: gcn]")] = None,
    scenario: Annotated[str | None, typer.Option(help="For unit-test: evasion or poisoning.  [default: both]")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Models per cell of unit-test.  [default: 1]")] = None,
) -> None:
    """Measure the cells that have no record yet, and show the table. A stopped run continues where it was.

    The study unit-test needs no TOML file: it tests defences on all graphs and perturbations of unit_test.npz, which
    is looked for in GARNET_DATA.
    """
    from garnet.bench import runner
    from garnet.bench.shipped import records_of, require_outside
    from garnet.io.targets import require_file, require_other

    file, wanted = _study(study, defense, backbone, scenario, seeds)
    path = output or records_of(file, wanted)
    require_outside(path)
    require_file(path)
    require_other(path, file)
    with live(len(wanted.cells)) as progress:
        summary = runner.run(
            wanted,
            path,
            jobs=jobs,
            device=device,
            retry=retry,
            again=again,
            skip_missing=skip_missing,
            progress=progress,
        )
    say_damages(path, summary.damages)
    show_tables(wanted.title, wanted.note, wanted.cells, summary.records)
    _say(summary, path, len(wanted.cells))
    if summary.interrupted:
        raise typer.Exit(130)
    if summary.failures or summary.skipped:
        raise typer.Exit(1)


def _say(summary: Summary, path: Path, cells: int) -> None:
    """What was read, what was measured, and what to type next."""
    read, here = len(summary.records) - summary.ran, str(path)
    if summary.ran == 0 and read == cells:
        lines = [
            f"all {cells:,} cells were read from {here} and none was measured now; --again measures them again, and "
            "-o FILE keeps what it measures in another file"
        ]
    else:
        lines = [f"{summary.ran:,} of {cells:,} cells measured now, {read:,} read from {here}"]
    if summary.failures:
        lines.append(f"{len(summary.failures)} of {cells} cells failed; --retry runs them again")
    if summary.outdated:
        lines.append(
            f"{summary.outdated} cells were measured with other parameters than today's; --retry does it again"
        )
    if summary.drawn:
        graphs = " and ".join(summary.drawn)
        lines.append(
            f"the usual split of {graphs} is not here, so a random one stood in for it, and figures on others compare "
            "little with these; set GARNET_DATA to the folder that has it, or say split = 'random' in the study"
        )
    if summary.skipped:
        lines.append(f"{len(summary.skipped):,} cells left out: {next(iter(summary.skipped.values()))}")
    if summary.interrupted:
        lines.append(f"stopped with {summary.missing} cells left; the same command goes on")
    for line in lines:
        err.print(printable(line), soft_wrap=True)


@bench_app.command("list")
def list_studies() -> None:
    """Name the studies that come with the library, each with its title and how many cells it has."""
    from rich.table import Table

    from garnet.bench.shipped import shipped, study_file
    from garnet.bench.study import load_study

    table = Table("study", "title", Column("cells", justify="right"), box=None)
    for name in shipped():
        study = load_study(study_file(name))
        table.add_row(name, study.title, f"{len(study.cells):,}")
    table.add_row("unit-test", "Black-box unit test: what unit_test.npz in GARNET_DATA has", "")
    console = out if out.is_terminal else Console(highlight=False, markup=False, emoji=False, width=10_000)
    console.print(table)


def _study(
    study: Path, defenses: list[str] | None, backbone: str | None, scenario: str | None, seeds: int | None
) -> tuple[Path, Study]:
    """A study by name or from a file, or the unit test, the only one whose options say what to measure."""
    from garnet.bench.shipped import study_file
    from garnet.bench.study import load_study
    from garnet.bench.unit_test import unit_test_study
    from garnet.datasets import unit_test
    from garnet.datasets.unit_test_file import SCENARIOS
    from garnet.errors import ParameterError

    if _is_unit_test(study):
        scenarios = SCENARIOS if scenario is None else (scenario,)
        tested = unit_test()
        return study, unit_test_study(
            tested, defenses or ["garnet"], backbone=backbone or "gcn", scenarios=scenarios, seeds=seeds or 1
        )
    for name, given in {"defense": defenses, "backbone": backbone, "scenario": scenario, "seeds": seeds}.items():
        if given:
            raise ParameterError(f"The option --{name} is for the study unit-test alone; say it in {study} instead.")
    file = study_file(study)
    return file, load_study(file)


def _is_unit_test(study: Path) -> bool:
    """Whether this is the name of the unit test and not of a file."""
    from garnet.bench.unit_test import UNIT_TEST

    return str(study) == UNIT_TEST and not study.is_file()


@bench_app.command()
def show(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="RECORDS|STUDY...", help="Records (.jsonl), names or files of studies, or unit-test."),
    ],
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
    latex: Annotated[
        bool, typer.Option("--latex", help="Print LaTeX, with the best of each column in bold and its ties marked.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one row per cell.")] = False,
) -> None:
    """Show records as tables; for a study, the records that 'garnet bench run' keeps in this folder."""
    from garnet.bench.frame import as_csv_text
    from garnet.bench.shipped import records_file
    from garnet.errors import ParameterError

    if markdown + latex + as_csv > 1:
        raise ParameterError("Records are shown in one way at a time; choose one of --markdown, --latex and --csv.")
    style = "markdown" if markdown else "latex" if latex else "drawn"
    rows: list[Record] = []
    for source in (records_file(str(one)) if _is_unit_test(one) else one for one in sources):
        found = read_recorded(source)
        if not found.records:
            err.print(f"{printable(found.path)} has no records yet", soft_wrap=True)
        records = found.chosen
        if as_csv:
            rows += records
        else:
            show_tables(found.title, found.note, found.cells, records, style=style)
    if as_csv:
        typer.echo(as_csv_text(rows), nl=False)


@contextmanager
def live(total: int = 0) -> Iterator[Progress]:
    """A bar on standard error for the running cells or attempts, and a line for each one that has ended."""
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Bar(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("", total=total)
        running: dict[str, Step] = {}

        def follow(step: Step) -> None:
            running[step.stage] = replace(step, done=0, total=0)
            if step.total:  # it counts cells: one with an outcome has ended, any other begins
                bar.update(task, completed=step.done, total=step.total)
                if step.detail:
                    bar.console.print(printable(running.pop(step.stage)), soft_wrap=True)
            bar.update(task, description=printable(" | ".join(map(str, running.values()))))

        yield follow
