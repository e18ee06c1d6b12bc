"""`garnet clean`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from garnet.cli.console import err, out, printable
from garnet.cli.scale import amount


def clean(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look.")] = Path(),
    yes: Annotated[bool, typer.Option("--yes", help="Remove what dead runs have left there.")] = False,
) -> None:
    """Show what runs that were killed have left in a folder, and remove it when told to.

    Only directories that a run made itself are ever removed, and those of runs at work never. Do not remove one whose
    command you mean to repeat: it goes on from there.
    """
    from garnet.errors import GarnetError
    from garnet.io.scratch import discard, left_behind, state_of

    if not folder.is_dir():
        raise GarnetError(f"{folder} is no folder; give the one in which the outputs are.")
    table = Table("directory", "for", "begun", "state")
    table.add_column("size", justify="right")
    found = list(left_behind(folder))
    dead = []
    for scratch, marker in found:
        state = state_of(scratch, marker)
        dead += [(scratch, marker)] * (state == "dead")
        begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(marker.begun))
        wanted = printable(Path(marker.output).name) or "-"
        table.add_row(scratch.name, wanted, begun, state, amount(_size(scratch)))
    if not found:
        err.print(f"nothing is left in {printable(folder)}", soft_wrap=True)
        return
    out.print(table)
    if not yes:
        err.print("nothing was removed; --yes removes what is dead" if dead else "nothing of it is dead")
        return
    gone = sum(discard(scratch, marker) for scratch, marker in dead)
    err.print(f"removed {gone} of {len(found)}")
    if gone < len(dead):
        raise GarnetError(
            f"{len(dead) - gone} directories in {folder} could not be removed; look at their permissions."
        )


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))
