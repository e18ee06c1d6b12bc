"""The command `garnet`. Heavy imports wait until a command needs them, so that help answers at once."""

from __future__ import annotations

import warnings
from typing import Annotated, TextIO

import typer
from rich.table import Table
from rich.text import Text

from garnet.cli.attack import attack
from garnet.cli.audit import audit
from garnet.cli.bench import bench_app
from garnet.cli.bench_check import check
from garnet.cli.clean import clean
from garnet.cli.completion import completion, prepare
from garnet.cli.console import err, out, printable, warn
from garnet.cli.data import data_app
from garnet.cli.demo import demo
from garnet.cli.judge import judge
from garnet.cli.predict import predict
from garnet.cli.purify import info, purify
from garnet.cli.report import report
from garnet.cli.stress import stress
from garnet.cli.tables import reads_tables
from garnet.cli.train import train
from garnet.errors import GarnetError, GarnetWarning
from garnet.machine import __version__

app = typer.Typer(
    help="Clean a graph that strangers could have written to, then train any GNN on it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (demo, purify, audit, judge, attack, train, predict, stress, report, info, clean, completion):
    reads = command in (purify, audit, judge, attack, train, predict, stress, info)
    app.command()(reads_tables(command, nodes=command is not judge) if reads else command)
bench_app.command()(check)
app.add_typer(bench_app, name="bench")
app.add_typer(data_app, name="data")


def main() -> None:
    """Run the command; warnings and errors of the library are one line each, errors with exit status 1."""
    prepare()
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        try:
            app()
        except GarnetError as error:
            err.print(Text("error:", style="bold red"), printable(error), soft_wrap=True)
            raise SystemExit(1) from None


def _say_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    if issubclass(category, GarnetWarning):
        warn([str(message)])
    else:
        err.print(printable(warnings.formatwarning(message, category, filename, lineno, line).strip()), soft_wrap=True)


def _version(wanted: bool) -> None:
    if wanted:
        out.print(f"garnet {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@app.command()
def doctor() -> None:
    """Show the installed versions, the devices, and what is missing."""
    from garnet.cli.doctor import diagnose

    table = Table(show_header=False)
    for name, finding in diagnose():
        table.add_row(name, printable(finding))
    out.print(table)
