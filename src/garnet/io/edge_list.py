"""Graphs as text, one edge per line."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.atomic import atomic_path
from garnet.io.checks import Pairs, checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays, NamedPairs, named, rows_between
from garnet.io.table_layout import TableOptions
from garnet.io.text import BYTE_ORDER_MARK, line_breaks, read_chunks, read_lines, read_text, reading, require_text_alone
from garnet.io.text_rows import LONGEST_LINE, LONGEST_NAME, columns_of, decoded, rows_in
from garnet.io.text_table import BLANKS, TextTable, text_table

TEXT_MARKS = {
    ".csv": (",", ";", "\t", "|"),
    ".tsv": ("\t", ",", ";", "|"),
    ".txt": ("\t", ",", ";", "|", BLANKS),
    ".edges": ("\t", ",", ";", "|", BLANKS),
}
"""Possible delimiters of a text with this extension, likeliest first; the first is used for writing."""

_ROWS_AT_ONCE = 1 << 16
_SHORTEST_ROW = 4
_HEAD = 1 << 16
FIRST_ROW = re.compile(rb"(?<![^\r\n])[ \t]*[^\s#%][^\r\n]*")


def open_edge_list(path: Path, options: TableOptions, *, candidates: Sequence[str]) -> EdgeSource:
    """A table of edges, by the rules of `load_graph`; only its beginning is read now.

    Args:
        path: the text.
        options: the user's options.
        candidates: possible delimiters, likeliest first.
    """
    with reading(path):
        table = _begins(path, options, candidates)

    def numbered(at_once: int | None) -> Iterator[NamedPairs]:
        with reading(path):
            yield from _pairs(_texts_of(path, at_once, options.encoding), table, only_integers=at_once is not None)

    def edges(at_once: int | None) -> Iterator[Pairs]:
        for pairs, names in numbered(at_once):
            yield pairs if names is None else named(pairs, names)

    return EdgeSource(
        edges=edges,
        named=lambda: next(numbered(None)),
        num_nodes=None,
        row_is="either",
        text=path,
        path=path,
        table="" if table is None else str(table),
        duplicates=options.duplicates,
        later=lambda: 0 if table is None or table.until is None else table.until.left_out,
    )


def _begins(path: Path, options: TableOptions, candidates: Sequence[str]) -> TextTable | None:
    """How to read the rows, judging by the first; None if there are none."""
    head, line = b"", 1
    for chunk in read_chunks(path, _HEAD, options.encoding):
        head = (head + chunk).removeprefix(BYTE_ORDER_MARK)
        require_text_alone(head)
        start = FIRST_ROW.search(head)
        if start is None:  # comments, the last of which may continue
            done = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
            line, head = line + line_breaks(head[:done]), head[done:][:_HEAD]
            continue
        line, head = line + line_breaks(head[: start.start()]), head[start.start() :]
        if len(head) >= _HEAD and line_breaks(head) > 1:
            return _table(head, line, False, candidates, options)
        if len(head) > LONGEST_LINE:
            raise GraphError(f"it has a line of more than {LONGEST_LINE} characters.")
    return _table(head, line, True, candidates, options)


def _table(head: bytes, line: int, whole: bool, candidates: Sequence[str], options: TableOptions) -> TextTable | None:
    text = head.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    try:
        return text_table(text, whole=whole, candidates=candidates, options=options)
    except GraphError:
        for _ in decoded(head, line):  # if the encoding is to blame, this reports it
            pass
        raise


def _texts_of(path: Path, at_once: int | None, encoding: str) -> Iterator[tuple[int, bytes]]:
    """The whole text, or pieces of at most this many rows, each with the number of its first line."""
    if at_once is None:
        yield 1, read_text(path, encoding).removeprefix(BYTE_ORDER_MARK)
        return
    # As no row is shorter, no piece has more rows than wanted.
    for line, text in read_lines(path, _SHORTEST_ROW * at_once, LONGEST_LINE, encoding):
        require_text_alone(text)
        yield line, text


def _pairs(
    pieces: Iterator[tuple[int, bytes]], table: TextTable | None, *, only_integers: bool
) -> Iterator[NamedPairs]:
    """The edges of each non-empty piece of a text, and names, if endpoints are positions among these.

    Args:
        pieces: the text, in UTF-8 and without a byte order mark, cut at line ends, with the number of each piece's
            first line. More than one only with `only_integers`, because whether other names are a header may depend on
            later rows.
        table: how to read it; None if it has no rows.
        only_integers: refuse other names.

    Raises:
        GraphError: a row is malformed, and its line is named; or there are no rows.
    """
    begun = False
    for line, text in pieces:
        if table is None:
            continue
        header: bool | None = False
        if not begun:
            start = FIRST_ROW.search(text)
            if start is None:
                continue
            line, text = line + line_breaks(text[: start.start()]), text[start.start() :]
            begun, header = True, table.header
            if only_integers and header is None:
                header = False  # the names of a header could not be distinguished from others
            if only_integers and header and not table.certain:
                table = table.with_header(True)
        heads, tails, weights, names = columns_of(text, line, table, header=header, only_integers=only_integers)
        yield checked_pairs(heads, tails, weights, None), names
    if table is None or not begun:
        raise GraphError("it has no edges.")


def filter_rows(
    path: Path,
    options: TableOptions,
    candidates: Sequence[str],
    kept: Callable[[Sequence[str], Sequence[str]], NDArray[np.bool_]],
    output: Path,
) -> tuple[int, int]:
    """Write the chosen rows of a table, with its header; returns how many, and out of how many.

    Rows left out because of their times count as rows, but are not written.

    Args:
        path: a text that has been read before.
        options: how it was read.
        candidates: as for `open_edge_list`.
        kept: says which rows to write, given both endpoints.
        output: the text file; its extension gives the delimiter.
    """
    stayed = every = 0
    table, rows = _known_rows(path, options, candidates)
    with atomic_path(output) as unfinished, unfinished.open("wb") as file:
        stream = io.TextIOWrapper(_packing(output, file), encoding="utf-8", newline="", write_through=True)
        ending = Path(output.name.lower().removesuffix(".gz")).suffix
        writer = csv.writer(stream, delimiter=TEXT_MARKS[ending][0], lineterminator="\n")
        if table.header:
            writer.writerow(next(rows))
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            heads, tails = ([row[place].strip() for row in some] for place in table.layout.ends)
            mask = _counted(some, table)
            mask[mask] = kept(list(compress(heads, mask)), list(compress(tails, mask)))
            writer.writerows(compress(some, mask.tolist()))
            stayed, every = stayed + int(mask.sum()), every + len(some)
        stream.close()
    return stayed, every


def timed_rows(
    path: Path, options: TableOptions, candidates: Sequence[str]
) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """Endpoints and times of the rows that count, some at a time; the arguments are those of `filter_rows`."""
    table, rows = _known_rows(path, options, candidates)
    if table.header:
        next(rows)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        count = list(compress(some, _counted(some, table)))
        heads, tails, times = (
            [row[place].strip() for row in count] for place in (*table.layout.ends, table.layout.time or 0)
        )
        yield heads, tails, times


def _known_rows(path: Path, options: TableOptions, candidates: Sequence[str]) -> tuple[TextTable, Iterator[list[str]]]:
    """How to read a text that has been read before, and its rows."""
    with reading(path):
        table = _begins(path, options, candidates)
        if table is None:
            raise GraphError("it has no edges.")
        return table, rows_in(read_text(path, options.encoding).removeprefix(BYTE_ORDER_MARK), table.delimiter)


def _counted(rows: list[list[str]], table: TextTable) -> NDArray[np.bool_]:
    """Which rows count, by their times."""
    place = table.layout.time
    if table.until is None or place is None:
        return np.ones(len(rows), bool)
    return table.until.mask(row[place].strip() for row in rows)


def _packing(output: Path, file: BinaryIO) -> BinaryIO:
    if not output.name.lower().endswith(".gz"):
        return file
    return cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6))


def save_edge_list(graph: GraphArrays, path: Path, more: Mapping[str, NDArray[Any]]) -> None:
    """Write a text file, with the delimiter of its extension, whole or not at all; see `write_edge_list`."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    with atomic_path(path) as unfinished, unfinished.open("wb") as file, _packing(path, file) as stream:
        write_edge_list(graph, stream, TEXT_MARKS[ending][0], more)


def write_edge_list(
    graph: GraphArrays, stream: BinaryIO, delimiter: str, more: Mapping[str, NDArray[Any]] | None = None
) -> None:
    """Write each undirected edge once, under a header, with the nodes' own names.

    Args:
        graph: its edges are written in the order of `Graph.edges`.
        stream: the stream to write to.
        delimiter: what separates cells.
        more: columns to write after the weight, one row per edge; NaN leaves its cell empty.

    Raises:
        GraphError: a name would not survive being written to a line of text and read back.
    """
    matrix = sp.triu(graph.adjacency, k=1, format="csr")
    names = np.arange(matrix.shape[0]) if graph.names is None else graph.names
    quote_all = False
    if names.dtype.kind == "U":
        texts = [str(name) for name in names]
        bad = next((name for name in texts if not _survives(name)), None)
        if bad is not None:
            raise GraphError(
                f"The node name {bad!r} cannot be kept in a line of text; rename it or write .npz instead."
            )
        # Unquoted, a line that begins with such a name would be taken for a comment.
        quote_all = any(name.startswith(("#", "%")) for name in texts)
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(
        text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    )
    others = dict(more or {})
    writer.writerow(("source", "target", "weight", *others))
    for begin in range(0, matrix.nnz, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, matrix.nnz)
        heads, tails = rows_between(matrix.indptr, begin, end), matrix.indices[begin:end]
        # Nine digits are what it takes to tell any two numbers of 32 bits apart.
        digits = map("{:.9g}".format, matrix.data[begin:end].tolist())
        cells = (map(_cell, column[begin:end].tolist()) for column in others.values())
        writer.writerows(zip(names[heads].tolist(), names[tails].tolist(), digits, *cells, strict=True))
    text.detach()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "" if value != value else f"{value:.9g}"
    return str(value)


def _survives(name: str) -> bool:
    return (
        0 < len(name) <= LONGEST_NAME
        and name == name.strip()
        and not any(letter in "\0\r\n" or "\ud800" <= letter <= "\udfff" for letter in name)
    )
