"""What the commands share: two consoles, the graph they are given, and a line that follows the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from garnet.errors import ParameterError

if TYPE_CHECKING:
    from garnet.graph import Graph
    from garnet.purification import Progress

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Source = Annotated[
    Path,
    typer.Argument(
        help="A graph: .npz, .csv, .tsv, .txt, .edges, .mtx (with .gz too), .pt, OGB's folder, or a name such as cora."
    ),
]
Symmetrize = Annotated[bool, typer.Option("--symmetrize", help="Accept a directed graph; keep each edge both ways.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def read_graph(source: Path, symmetrize: bool) -> Graph:
    """The graph in a file or folder or, if there is none, the one of that name in the catalogue."""
    from garnet.datasets import load, load_graph, names

    if not source.exists() and str(source) in names():
        return load(str(source))
    return load_graph(source, symmetrize=symmetrize)


@contextmanager
def stages() -> Iterator[Progress]:
    """A line on the terminal that follows the stages as they run."""
    with err.status("starting") as status:
        yield lambda stage: status.update(f"{escape(stage)} ...")


def number(text: str, name: str, word: str, kind: type) -> Any:
    """A number, or the one word that may stand for it."""
    if text == word:
        return word
    try:
        return kind(text)
    except ValueError:
        raise ParameterError(f"The '{name}' parameter must be a number or '{word}'. Got {text!r} instead.") from None
