"""`garnet judge`."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from garnet.cli.console import Json, err, out, printable, say_json, stages
from garnet.cli.outputs import Outputs, Overwrite
from garnet.cli.tables import said_of_tables
from garnet.progress import Step

if TYPE_CHECKING:
    import numpy as np

    from garnet.purify.verdicts import Verdicts

_TABLES = (".csv", ".tsv", ".txt", ".edges", ".parquet")
_HEAD = ("source", "target", "score", "verdict", "reason")
_STREAM = "-"
_REMEMBERED = 256
"""Edges of a new node that are remembered, so that a line takes milliseconds to answer however many come."""


def judge(
    context: typer.Context,
    result: Annotated[
        Path, typer.Argument(metavar="RESULT", help="A file from garnet purify --result or garnet audit --result.")
    ],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            help="Edges that came later, by node names: .csv, .tsv, .txt, .edges (may be .gz) or "
            ".parquet; or - to read lines from standard input, and answer each at once.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write source, target, score, verdict and reason: .csv or .parquet."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="Edges to show, the least believable.")] = 10,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Score edges that arrive later against a saved result, without a new run."""
    from garnet.errors import GarnetError
    from garnet.io.table_file import save_table

    if str(new) == _STREAM:
        if output is not None or as_json:
            raise GarnetError(
                "Lines from standard input are answered on standard output; leave -o and --json out, and say > FILE."
            )
        if said := said_of_tables()[0].said:
            raise GarnetError(f"Lines from standard input are source and target, as in a,b; leave the {said[0]} out.")
        _answer(result)
        return
    ending = Path(new.name.lower().removesuffix(".gz")).suffix
    if ending not in _TABLES:
        raise GarnetError(
            f"New edges are read from a table that ends in {', '.join(_TABLES)}. Got {str(new)!r} instead."
        )
    if output is not None and output.suffix.lower() not in (".csv", ".parquet"):
        raise GarnetError(f"Scores are written to a .csv or a .parquet file. Got {str(output)!r} instead.")
    outputs = Outputs(context, written=["output"], read=["result", "new"])
    if outputs.done:
        return
    with outputs, stages() as progress:
        progress(Step("read"))
        judging = _judging(result)
        columns = _columns(new, texts=judging.node_names.are_texts)
        progress(Step("judge"))
        found = judging(columns)
        progress(Step("write"))
        if output is not None:
            table = found.table()
            if output.suffix.lower() == ".csv":
                table["score"] = _texts(found)
            save_table(table, outputs.staged(output))
    if as_json:
        say_json({"result": str(result), "input": str(new), **found.summary()})
    else:
        _say(found, new, top)
    if found.purify_again is not None:
        err.print(f"note: purify again: {found.purify_again}", soft_wrap=True)


def _judging(path: Path) -> Any:
    """The judge for a file that a command's `--result` wrote."""
    from garnet.errors import GraphError
    from garnet.io.archive import Archive
    from garnet.io.text import reading
    from garnet.purify.judge_file import AGAIN, load_judge

    with reading(path):
        if not path.is_file():
            raise GraphError("there is no such file.")
        with Archive(path) as archive:
            is_audit = "audit" in archive
    if is_audit:
        from garnet.audit.file import load_audit

        audit = load_audit(path)
        if audit.later is None:
            raise GraphError(f"Cannot read {path}: {AGAIN.format('garnet audit --result')}")
        return audit.judging
    return load_judge(path)


def _columns(path: Path, *, texts: bool) -> list[np.ndarray[Any, Any]]:
    """The names of both endpoints of each row."""
    import numpy as np

    from garnet.io.formats import open_path

    pieces = list(open_path(path, options=said_of_tables()[0]).edges(None))
    columns = [np.concatenate([piece[end] for piece in pieces]) for end in (0, 1)]
    # The reader turns a list whose names are all integers into integers.
    return [column.astype(str) for column in columns] if texts else columns


def _texts(found: Verdicts) -> Any:
    """Scores for a text table: an empty cell where there is none."""
    import numpy as np

    return np.array(["" if score != score else f"{score:.6g}" for score in found.score.tolist()], dtype=np.str_)


def _say(found: Verdicts, source: Path, top: int) -> None:
    counts = found.counts
    out.print(
        f"{printable(source)}: of {len(found):,} edges {counts['believe']:,} are believed, {counts['doubt']:,} "
        f"doubted, and of {counts['unknown']:,} nothing can be said.",
        soft_wrap=True,
    )
    rows = [row for row in found.score.argsort(kind="stable").tolist() if found.verdict[row] == "doubt"][:top]
    if not rows:
        return
    table = Table("source", "target", "score", "because")
    for row in rows:
        ends = printable(found.source[row]), printable(found.target[row])
        table.add_row(*ends, f"{found.score[row]:.2f}", str(found.reason[row]))
    out.print(table)


def _answer(result: Path) -> None:
    """Judge each line of standard input as it comes, and answer with one line.

    A new node's edges are remembered: its next edge is judged together with those before.
    """
    from garnet.errors import GraphError
    from garnet.purify.verdicts import Tally

    judging = _judging(result)
    names, tally, said = judging.node_names, Tally(judging.usual), None
    seen: dict[Any, list[tuple[Any, Any]]] = {}
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(_HEAD)
    for line, ends in _pairs(sys.stdin):
        pair = tuple(names.spelt(end) for end in ends)
        before = [edge for end in pair for edge in seen.get(end, [])]
        try:
            found = judging([list(column) for column in zip(*before, pair, strict=True)])
        except GraphError as error:
            raise GraphError(f"Line {line} of standard input: {error}") from error
        for end in pair:
            if not names.has(end):
                seen[end] = [*seen.get(end, []), (pair[0], pair[1])][-_REMEMBERED:]
        writer.writerow((*ends, _texts(found)[-1], found.verdict[-1], found.reason[-1]))
        sys.stdout.flush()
        if said is None:
            tally.add(found)
            said = tally.purify_again
            if said is not None:
                err.print(f"note: purify again: {said}", soft_wrap=True)


def _pairs(lines: io.TextIOBase | Any) -> Iterator[tuple[int, tuple[str, str]]]:
    """The two names on each line that is not empty, with its number; a header of known words is skipped."""
    from garnet.errors import GraphError
    from garnet.io.table_layout import HEADERS
    from garnet.io.text_rows import LONGEST_NAME

    mark = ""
    for number, line in _numbered(lines):
        if not line.strip() or line.lstrip()[0] in "#%":
            continue
        begins = not mark
        mark = mark or next((one for one in "\t," if one in line), " ")
        try:
            row = line.split() if mark == " " else next(csv.reader([line.strip("\r\n")], delimiter=mark), [])
        except csv.Error as error:
            raise GraphError(f"Line {number} of standard input is malformed ({error}).") from None
        cells = [cell.strip() for cell in row]
        if begins and tuple(cell.lower() for cell in cells[:2]) in HEADERS:
            continue
        if len(cells) not in (2, 3) or not all(0 < len(cell) <= LONGEST_NAME for cell in cells[:2]):
            raise GraphError(
                f"Line {number} of standard input has {len(cells)} cell(s); give source and target, as in a,b."
            )
        yield number, (cells[0], cells[1])


def _numbered(lines: io.TextIOBase | Any) -> Iterator[tuple[int, str]]:
    """Lines as they come, numbered from 1."""
    from garnet.errors import GraphError

    number = 0
    try:
        for number, line in enumerate(lines, 1):
            # Bytes from the terminal that could not be decoded appear as lone surrogates.
            line.encode()
            yield number, line
    except UnicodeError:
        raise GraphError(f"Line {number} of standard input, or one soon after it, is not text in UTF-8.") from None
