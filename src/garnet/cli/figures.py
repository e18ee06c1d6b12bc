"""`garnet figures`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from garnet.cli.console import out, printable, stages
from garnet.cli.outputs import Overwrite


def figures(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Figures to draw, such as rank.  [default: all]")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="A folder for the figures.")] = Path("docs/figures"),
    records: Annotated[Path, typer.Option(help="The folder of records that they are drawn from.")] = Path("results"),
    overwrite: Overwrite = False,
) -> None:
    """Draw the paper's figures from records, each as SVG and PNG, and a page that shows them."""
    from garnet.figures import write

    with stages() as progress:
        written = write(output, records=records, only=names or (), overwrite=overwrite, progress=progress)
    for path in written:
        if path.suffix != ".png":
            out.print(printable(path), soft_wrap=True)
