"""Graphs as text, one edge a line."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.adjacency import build_adjacency
from garnet.graph.graph import Graph, as_graph
from garnet.io.limits import require_memory
from garnet.io.text import parse_table

HEADERS = {("source", "target"), ("src", "dst"), ("u", "v"), ("from", "to"), ("node1", "node2")}
"""What the columns of the two ends are called, in small letters, where a list says so."""

LONGEST_NAME = 1000
"""Characters that the name of a node may have in a list."""

Columns = tuple[Any, Any, NDArray[np.float64]]
"""The two ends of some rows, arrays of integers or lists of texts, and the rows' weights."""

_ROW_LINES = re.compile(rb"(?<![^\r\n])[ \t]*[^\s#%][^\r\n]*")
_COMMENT_LINES = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
_ONLY_INTEGERS = "with a memory limit the names of nodes must be integers of 64 bits"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DTYPES = {2: "i8,i8", 3: "i8,i8,f8"}
_ROWS_AT_ONCE = 1 << 16
_CHUNK = 1 << 20


def read_edge_list(data: bytes, delimiter: str | None, symmetrize: bool) -> Graph:
    """Read rows `u, v` or `u, v, weight`; `load_graph` states the rules.

    Args:
        data: the text, in UTF-8.
        delimiter: as for `read_columns`.
        symmetrize: accept a list that gives some of its pairs in both directions and others in one.
    """
    (columns,) = read_columns([(1, data.removeprefix(b"\xef\xbb\xbf"))], delimiter)
    return listed_graph(columns, symmetrize)


def read_columns(
    pieces: Iterable[tuple[int, bytes]], delimiter: str | None, *, only_integers: bool = False
) -> Iterator[Columns]:
    """The columns of each piece of a list in which there is any row; `load_graph` states the rules.

    Args:
        pieces: the text, in UTF-8 and without a byte order mark, cut at ends of lines; with the number of the first
            line of each. More than one only if names are `only_integers`, because other names could be a header or
            not, by what is in rows that are not there yet.
        delimiter: what stands between the cells of a row, a blank for any number of blanks; None to take a tab, a comma
            or blanks, whichever comes first in this order and is in the first row.
        only_integers: refuse other names, and give arrays of integers.

    Raises:
        GraphError: a row is malformed, and its line is named; or there is none.
    """
    first_row: list[str] = []
    found, mark = 0, delimiter or ""
    try:
        for line, text in pieces:
            begins = not first_row
            if begins:
                start = _ROW_LINES.search(text)
                if start is None:
                    continue
                mark = mark or next((mark for mark in "\t," if mark.encode() in start[0]), " ")
                line, text = line + line_breaks(text[: start.start()]), text[start.start() :]
                _, first_row = next(_rows(text, line, mark), (0, []))
                if not first_row:
                    continue
                if len(first_row) not in _DTYPES:
                    raise GraphError(f"its first row has {len(first_row)} column(s); rows must be u,v or u,v,weight.")
            header = begins and not any(map(_INTEGER.fullmatch, first_row[:2]))
            columns = _quick(text, len(first_row), mark, header)
            if columns is None:
                columns = _thorough(text, line, len(first_row), mark, header, only_integers)
            found += len(columns[0])
            yield columns
    except csv.Error as error:
        raise GraphError(f"its rows are malformed ({error}).") from error
    if not first_row:
        raise GraphError("it has no edges.")
    if only_integers and not found and not _known(first_row):
        raise GraphError(f"its only row has the name {first_row[0][:40]!r}; {_ONLY_INTEGERS}.")


def listed_graph(
    columns: Columns, symmetrize: bool, num_nodes: int | None = None, *, texts_stay: bool = False
) -> Graph:
    """The graph of a whole list, whose nodes are numbered in the order of their names.

    Args:
        columns: the ends and weights of its rows.
        symmetrize: accept a list that gives some of its pairs in both directions and others in one.
        num_nodes: given where names are numbers from 0 on, and there may be nodes without edges.
        texts_stay: whether names that are texts stay texts where all of them are integers.
    """
    rows, cols, weights = columns
    names, n = None, num_nodes
    if n is None:
        names, rows, cols = _relabel(rows, cols, texts_stay)
        n = len(names)
    # A list that gives no pair both ways is how most undirected graphs are written down: one row an edge.
    proper = (rows != cols) & (weights != 0)
    symmetrize = symmetrize or not _any_both_ways(rows[proper], cols[proper], n)
    adjacency = build_adjacency(rows, cols, weights, n, symmetrize)
    return as_graph(Graph(adjacency), names=names)


def write_edge_list(graph: Graph, stream: BinaryIO, delimiter: str) -> None:
    """Write each undirected edge once, under a header, with the nodes' own names.

    Raises:
        GraphError: a name would not come back as it is from a line of text.
    """
    names = np.arange(graph.num_nodes) if graph.names is None else graph.names
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
    (first, second), weights = graph.edges, graph.weights
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(
        text, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL
    )
    writer.writerow(("source", "target", "weight"))
    for start in range(0, len(weights), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        # Nine digits are what it takes to tell any two numbers of 32 bits apart.
        digits = map("{:.9g}".format, weights[part].tolist())
        writer.writerows(zip(names[first[part]].tolist(), names[second[part]].tolist(), digits, strict=True))
    text.detach()


def line_breaks(text: bytes) -> int:
    """How many lines end in a text, with a line feed, a carriage return or both."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def _rows(data: bytes, first: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, and the number of the line it ends on."""
    number = first - 1

    def lines() -> Iterator[str]:
        nonlocal number
        for text in _texts(data, first):
            for line in text.split("\n"):
                number += 1
                start = line.lstrip()
                if start and start[0] not in "#%":
                    yield line + "\n"

    if delimiter == " ":
        return ((number, line.split()) for line in lines())
    rows = csv.reader(lines(), delimiter=delimiter, skipinitialspace=True)
    return ((number, [cell.strip() for cell in cells]) for cells in rows)


def _texts(data: bytes, first: int) -> Iterator[str]:
    """The text in pieces of some lines, without the end of the last of them; all ends are line feeds."""
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", begin + _CHUNK) + 1 or len(data)
        piece = data[begin:end]
        try:
            text = piece.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first + line_breaks(data[: begin + error.start])
            raise GraphError(f"line {line} is not text in UTF-8.") from None
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        yield text.removesuffix("\n")
        begin = end


def _quick(data: bytes, width: int, delimiter: str, header: bool) -> Columns | None:
    """The columns of a list whose ids are all integers, read by NumPy; None if NumPy finds anything else in it."""
    if b"#" in data or b"%" in data:
        data = _COMMENT_LINES.sub(b"", data)
    blanks_or = None if delimiter == " " else delimiter
    try:
        table = parse_table(data.lstrip(b"\r\n"), _DTYPES[width], delimiter=blanks_or, skip_rows=int(header))
    except ValueError:
        return None
    weights = table["f2"] if width == 3 else np.ones(len(table))
    return table["f0"], table["f1"], weights


def _thorough(data: bytes, first: int, width: int, delimiter: str, header: bool, only_integers: bool) -> Columns:
    """The columns of any list, read row by row, or what is wrong with it and on which line."""
    heads: list[str] = []
    tails: list[str] = []
    weights = array("d")
    known: dict[str, str] = {}

    def add(line: int, cells: list[str]) -> None:
        if fault := _fault(cells, width, only_integers):
            raise GraphError(f"line {line} has {fault}.")
        # A name that comes a million times is kept once.
        heads.append(known.setdefault(cells[0], cells[0]))
        tails.append(known.setdefault(cells[1], cells[1]))
        weights.append(float(cells[2]) if width == 3 else 1.0)

    rows = _rows(data, first, delimiter)
    begin = next(rows) if header else None
    if begin is not None and (only_integers or _known(begin[1])):
        begin = None
    for line, cells in rows:
        # Where any other row has no integers either, the first is no header.
        if begin is not None and not all(map(_INTEGER.fullmatch, cells[:2])):
            add(*begin)
            begin = None
        add(line, cells)
    if begin is not None and not heads:
        add(*begin)
    values = np.array(weights, np.float64)
    return (np.array(heads, np.int64), np.array(tails, np.int64), values) if only_integers else (heads, tails, values)


def _fault(cells: list[str], width: int, only_integers: bool) -> str | None:
    """What is wrong with a row, to go on after "line 7 has"."""
    if len(cells) != width:
        return f"{len(cells)} column(s) where the first row has {width}"
    if only_integers and not all(map(_fits, cells[:2])):
        return f"the name {next(name for name in cells if not _fits(name))[:40]!r}; {_ONLY_INTEGERS}"
    if not (0 < len(cells[0]) <= LONGEST_NAME and 0 < len(cells[1]) <= LONGEST_NAME):
        return f"a node name that is empty or longer than {LONGEST_NAME} characters"
    if width == 3 and not _is_number(cells[2]):
        return f"the weight {cells[2][:40]!r}, which is not a number"
    return None


def _known(cells: list[str]) -> bool:
    return tuple(cell.lower() for cell in cells[:2]) in HEADERS


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # Python takes 1_000 for a number; no other program that reads edge lists does.


def _any_both_ways(rows: NDArray[np.int64], cols: NDArray[np.int64], n: int) -> bool:
    """Whether there is a pair that comes in both directions; none is a loop."""
    there = rows < cols
    forth, back = np.sort((rows * n + cols)[there]), np.sort((cols * n + rows)[~there])
    # Sorted, both are walked through once; NumPy's own isin takes ten times as long.
    return bool((np.searchsorted(forth, back, "left") != np.searchsorted(forth, back, "right")).any())


def _relabel(heads: Any, tails: Any, texts_stay: bool) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted names, and both columns as positions among them."""
    if isinstance(heads, list):
        if not texts_stay and all(map(_fits, heads)) and all(map(_fits, tails)):
            heads, tails = np.array(heads, dtype=np.int64), np.array(tails, dtype=np.int64)
        else:
            texts = sorted(set(heads).union(tails))
            require_memory(4 * len(texts) * max(map(len, texts)), "the table of its node names")
            position = {name: i for i, name in enumerate(texts)}
            rows, cols = (np.array([position[name] for name in column], np.int64) for column in (heads, tails))
            return np.array(texts), rows, cols
    names, places = np.unique(np.concatenate([heads, tails]), return_inverse=True)
    rows, cols = places.reshape(2, -1).astype(np.int64)
    return names, rows, cols


def _fits(cell: str) -> bool:
    return bool(_INTEGER.fullmatch(cell)) and -(2**63) <= int(cell) < 2**63


def _survives(name: str) -> bool:
    return (
        0 < len(name) <= LONGEST_NAME
        and name == name.strip()
        and not any(letter in "\0\r\n" or "\ud800" <= letter <= "\udfff" for letter in name)
    )
