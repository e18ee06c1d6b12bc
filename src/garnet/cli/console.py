"""What the commands share: two consoles, reading the graph, and a progress line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Live
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from garnet.cli.tables import said_of_tables
from garnet.errors import ParameterError

if TYPE_CHECKING:
    from garnet.graph.graph import Graph
    from garnet.progress import Progress, Step

# Most of what is printed is the user's own text, in which [red] and :bell: are not markup.
out = Console(highlight=False, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, markup=False, emoji=False)

Source = Annotated[
    Path,
    typer.Argument(
        help="A graph: .npz, .csv, .tsv, .txt, .edges, .parquet, .mtx, .graphml, .gexf, .gml, .json (text may be .gz), "
        ".pt, an OGB folder, or a name such as cora."
    ),
]
Symmetrize = Annotated[bool, typer.Option("--symmetrize", help="Accept a directed graph; make its edges undirected.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def printable(text: object) -> str:
    r"""Text of a file, or a path, safe to print: characters that could control or break a terminal are escaped.

    Example:
        >>> print(printable("[red]\x1b[2J\ud800"))
        [red]\x1b[2J\ud800
    """
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in str(text))


def printable_lines(text: object) -> str:
    """The same for text of several lines."""
    return "\n".join(map(printable, str(text).split("\n")))


def warn(sentences: Iterable[str]) -> None:
    """Print sentences that nobody should overlook, one per line."""
    for sentence in sentences:
        err.print(Text("warning:", style="bold yellow"), printable(sentence), soft_wrap=True)


def say_json(facts: object) -> None:
    """Print one JSON value in ASCII."""
    out.print_json(json.dumps(facts), ensure_ascii=True)


def read_graph(source: Path, symmetrize: bool) -> Graph:
    """The graph in a file or folder or, failing that, the catalogue's graph of that name.

    Prints what was inferred about a table, and what was dropped and merged.
    """
    from garnet.graph.graph import read_graph

    options, nodes = said_of_tables()
    named = named_graph(source)
    graph, report = read_graph(source if named is None else named, options, nodes=nodes, symmetrize=symmetrize)
    if report is not None and report.worth_saying:
        err.print(f"read {printable(source.name)}: {printable_lines(report)}", soft_wrap=True)
    return graph


def named_graph(source: Path) -> Graph | None:
    """The catalogue's graph of that name; None if there is none, or if a file has that name."""
    from garnet.datasets import load, names

    return load(str(source)) if not source.exists() and str(source) in names() else None


def with_split(graph: Graph, split: str | None, seed: int) -> Graph:
    """The graph with its own split, or with a random one of these shares."""
    from garnet.datasets import random_split
    from garnet.errors import GraphError, ParameterError
    from garnet.graph.graph import as_graph
    from garnet.training.supervision import require_labels

    labels = require_labels(graph)
    if split is None:
        if graph.split is None:
            raise GraphError(
                "The graph has no split, or its masks overlap or hold several; draw one with shares for training and "
                "validation: --split 0.1,0.1."
            )
        if not (labels[graph.split.test] >= 0).any():
            raise GraphError("The split has no test node with a label, so a model's accuracy could not be told.")
        return graph
    try:
        train, val = (float(part) for part in split.split(","))
    except ValueError:
        raise ParameterError(f"The 'split' parameter must be two shares, such as 0.1,0.1. Got {split!r}.") from None
    return as_graph(graph, split=random_split(labels, train=train, val=val, seed=seed))


@contextmanager
def stages(*, lasting: bool = False) -> Iterator[Progress]:
    """A line on the terminal that follows the stages as they run, and times each.

    Args:
        lasting: for work of hours: without a terminal, print a line with the time of day for each stage instead.
    """
    if not err.is_terminal:
        yield (
            lambda step: (
                err.print(f"{time.strftime('%H:%M:%S')} {printable(step)}") if lasting and not step.detail else None
            )
        )
        return
    columns = SpinnerColumn(), TextColumn("{task.description} ...", markup=False), TimeElapsedColumn()
    with Live(*columns, console=err, transient=True) as line:
        yield _Line(line)


class _Line:
    """The line on the terminal: the stage, its progress and the time since it began."""

    def __init__(self, line: Live) -> None:
        self._line, self._stage = line, ""
        self._task = line.add_task("starting", total=None)

    def __call__(self, step: Step) -> None:
        if step.stage != self._stage:
            self._line.reset(self._task, total=None)
            self._stage = step.stage
        self._line.update(self._task, description=printable(step))


def number(text: str, name: str, word: str, kind: type, *others: str) -> Any:
    """A number, or one of the words allowed in its place."""
    if text in (word, *others):
        return text
    try:
        return kind(text)
    except ValueError:
        allowed = " or ".join([", ".join(["a number", *map(repr, others)]), repr(word)])
        raise ParameterError(f"The '{name}' parameter must be {allowed}. Got {text!r} instead.") from None
