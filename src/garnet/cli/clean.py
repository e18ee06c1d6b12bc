"""`garnet clean`."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from garnet.cli.console import err, out, printable
from garnet.cli.disk import amount


def clean(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where to look.")] = Path(),
    yes: Annotated[bool, typer.Option("--yes", help="Remove what dead runs have left.")] = False,
) -> None:
    """Show what killed runs have left in a folder, and remove it with --yes.

    Only directories that a run made itself are ever removed, never those of a run still at work. One that holds an
    earlier result, because its run was killed while replacing it, is kept too: repeat its command. Do not remove one
    whose command you mean to repeat: it continues from there.
    """
    from garnet.errors import GarnetError
    from garnet.io.scratch import discard, left_behind, state_of

    if not os.path.isdir(folder):  # noqa: PTH112 - the method of a path fails where a name is too long
        raise GarnetError(f"{folder} is no folder; give the one in which the outputs are.")
    table = Table("directory", "for", "begun", "state")
    table.add_column("size", justify="right")
    found = list(left_behind(folder))
    dead = []
    for scratch, marker in found:
        state = state_of(scratch, marker)
        dead += [(scratch, marker)] * (state == "dead")
        wanted = printable(Path(marker.output).name) or "-"
        table.add_row(scratch.name, wanted, _time(marker.begun), state, amount(_size(scratch)))
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


def _time(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "-"


def _size(folder: Path) -> int:
    """Bytes in a folder whose files may vanish meanwhile."""
    size = 0
    for inner, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                size += (Path(inner) / name).lstat().st_size
    return size
