"""The commands `garnet data list` and `garnet data fetch`."""

from __future__ import annotations

from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Column, Table

from garnet.cli.console import Json, err, out, printable, say_json

data_app = typer.Typer(
    help="The graphs known by name: list them, and download those that are missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@data_app.command("list")
def list_graphs(as_json: Json = False) -> None:
    """List the graphs known by name, with what is here of each and where to get what is not."""
    from garnet.datasets.holdings import holdings

    found = holdings()
    if as_json:
        say_json([one.facts() for one in found])
        return
    right = [Column(name, justify="right") for name in ("nodes", "edges")]
    table = Table("graph", *right, "here", "split", "poisoned by", "where from", box=box.SIMPLE)
    for one in found:
        sizes = [f"{size:,}" if size else "" for size in (one.nodes, one.edges)]
        here = str(one.path or "in the library") if one.is_here else "-"
        attacks = ", ".join(f"{attack} {budgets}" for attack, budgets in one.attacks.items())
        table.add_row(*map(printable, (one.name, *sizes, here, one.split, attacks, one.source)))
    console = out if out.is_terminal else Console(highlight=False, markup=False, emoji=False, width=10_000)
    console.print(table)


@data_app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Graphs that 'garnet data list' names.")],
) -> None:
    """Download missing graphs into the cache, and check each download against the catalogue.

    Graphs come from PyTorch Geometric's sources, as plain arrays of numbers. The cache is the folder named by
    GARNET_CACHE, else garnet in XDG_CACHE_HOME or ~/.cache.
    """
    from garnet.datasets.holdings import fetched, holding

    chosen = [holding(name) for name in names]  # an unknown name stops everything before the first download
    for one in chosen:
        if one.is_here:
            err.print(f"{one.name} is here already: {printable(one.path or 'a part of the library')}", soft_wrap=True)
            continue
        got = fetched(one.name)
        err.print(f"downloaded {one.name}, {got.graph}, to {printable(got.path)}", soft_wrap=True)
        if got.note:
            err.print(f"note: {got.note}", soft_wrap=True)
