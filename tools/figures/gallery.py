"""Drawing figures into files, and the page that shows them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from garnet.io.atomic import atomic_path
from garnet.io.failures import writing
from garnet.io.targets import require_file, require_folder
from garnet.registry import known_name
from tools.figures import canvas
from tools.figures.catalogue import FIGURES, Drawing
from tools.records import Benchmark

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(name: str, records: str | Path = "results") -> Figure:
    """One figure, with its heading and a caption that has its records and the command that made them.

    Args:
        name: one of `FIGURES`.
        records: the folder of records.

    Raises:
        ParameterError: there is no such figure.
        GarnetError: a record is missing or damaged; the message has the command that makes it.
        MissingExtra: matplotlib is not installed.
    """
    drawing = FIGURES[known_name(name, FIGURES, "figure")]
    with canvas.style():
        figure = drawing.draw(Path(records))
        text = f"{', '.join(drawing.records)}  ·  {made_by(drawing, Path(records))}"
        canvas.finish(figure, drawing.title, text)
    return figure


def made_by(drawing: Drawing, folder: Path) -> str:
    """The command that made a figure's records: as they have it themselves, if they do."""
    told = [Benchmark(folder / name, drawing.command).command for name in drawing.records if name.endswith(".json")]
    return "; ".join(dict.fromkeys(told)) or drawing.command


def write(
    output: str | Path,
    *,
    records: str | Path = "results",
    only: Iterable[str] = (),
    overwrite: bool = False,
) -> tuple[Path, ...]:
    """Draw figures into a folder, each as SVG and PNG; all of them, unless some are named, with the page `index.md`.

    Nothing is written before all could be drawn. Unless it is named, a figure that has not been measured is left out.

    Args:
        output: the folder, made if need be.
        records: the folder of records.
        only: names of `FIGURES`.
        overwrite: replace figures of these names that are there.

    Returns:
        The files written.

    Raises:
        ParameterError: there is no such figure.
        GarnetError: a record is missing or damaged, or the folder cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    wanted = [known_name(name, FIGURES, "figure") for name in only]
    folder = require_folder(Path(output), inputs=[Path(records)])
    names = wanted or measured(Path(records)) or list(FIGURES)  # of which the first tells which record is missing
    written = [folder / f"{name}.{kind}" for name in names for kind in ("svg", "png")]
    if not wanted:
        written.append(folder / "index.md")
    if folder.is_dir():
        for path in written:
            require_file(path, overwrite=overwrite)
    drawn = {name: draw(name, records) for name in names}
    with writing(folder):
        folder.mkdir(exist_ok=True)
    with canvas.style():
        for path in written:
            if path.stem in drawn:
                canvas.save(drawn[path.stem], path)
    if not wanted:
        with atomic_path(written[-1], durable=False) as unfinished:
            unfinished.write_text(index(Path(records), folder), encoding="utf-8")
    return tuple(written)


def measured(records: Path) -> list[str]:
    """The figures whose records are there."""
    return [name for name, drawing in FIGURES.items() if all((records / record).exists() for record in drawing.records)]


def index(records: Path, shown_in: Path) -> str:
    """The page of all measured figures, in Markdown, with links to their records from the folder that it is in."""
    there = Path(os.path.relpath(records, shown_in)).as_posix()
    parts = [
        "# Figures",
        "The paper's figures and ours, drawn from committed records by `python -m tools.figures --overwrite`. "
        "Error bars are one standard deviation over seeds. Hollow markers and dashed lines are the paper's, from its "
        "tables and text: its own figures have no numbers to read. Drawing needs the records alone; most of the "
        "commands that make the records need the published graphs, in the folder that `GARNET_DATA` names.",
    ]
    for name in measured(records):
        drawing = FIGURES[name]
        files = ", ".join(f"[`{record}`]({there}/{record})" for record in drawing.records)
        parts += [
            f"## {drawing.title}",
            f"![{drawing.title}]({name}.svg)",
            drawing.see,
            f"As [SVG]({name}.svg) and [PNG]({name}.png). "
            f"Drawn by `python -m tools.figures {name}` from {files}, made by:",
            f"<!-- not run: takes minutes to hours -->\n```shell\n{made_by(drawing, records)}\n```",
        ]
    return "\n\n".join(parts) + "\n"
