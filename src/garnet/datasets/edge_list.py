"""Graphs as text, one edge a line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.datasets.limits import require_memory
from garnet.datasets.text import parse_table
from garnet.errors import GraphError
from garnet.graph import Graph, as_graph

_COMMENT_LINES = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_HEADERS = {("source", "target"), ("src", "dst"), ("u", "v"), ("from", "to"), ("node1", "node2")}
_DTYPES = {2: "i8,i8", 3: "i8,i8,f8"}
_LONGEST_NAME = 1000
_ROWS_AT_ONCE = 1 << 16

Columns = tuple[Any, Any, NDArray[np.float64]]
"""The two ends of every row, arrays of integers or lists of texts, and the rows' weights."""


def read_edge_list(data: bytes, delimiter: str | None, symmetrize: bool) -> Graph:
    """Read rows `u, v` or `u, v, weight`; `load_graph` states the rules.

    Args:
        data: the text, in UTF-8.
        delimiter: what stands between the cells of a row, a blank for any number of blanks; None to take a tab, a comma
            or blanks, whichever comes first in this order and is in the first row.
        symmetrize: accept a list that gives some of its pairs in both directions and others in one.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    start = next((line for line in _lines(data) if line.strip()), None)
    if start is None:
        raise GraphError("it has no edges.")
    if delimiter is None:
        delimiter = next((mark for mark in "\t," if mark in start), " ")
    try:
        _, first_row = next(_rows(data, delimiter))
        if len(first_row) not in _DTYPES:
            raise GraphError(f"its first row has {len(first_row)} column(s); rows must be u,v or u,v,weight.")
        columns = _quick(data, first_row, delimiter) or _thorough(data, len(first_row), delimiter)
    except csv.Error as error:
        raise GraphError(f"its rows are malformed ({error}).") from error
    names, rows, cols = _relabel(columns[0], columns[1])
    weights, n = columns[2], len(names)

    # A list that gives no pair both ways is how most undirected graphs are written down: one row an edge.
    proper = (rows != cols) & (weights != 0)
    one_row_an_edge = not np.isin((rows * n + cols)[proper], (cols * n + rows)[proper]).any()
    matrix = sp.coo_array((weights, (rows, cols)), shape=(n, n))
    return as_graph(matrix, names=names, symmetrize=symmetrize or one_row_an_edge)


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


def _lines(data: bytes) -> Iterator[str]:
    """The lines with their ends; those that are comments or blank as empty ones, so that counting stays right."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape", newline="")
    for number, line in enumerate(text, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "%")):
            yield "\n"
            continue
        if not line.isascii() and any("\ud800" <= letter <= "\udfff" for letter in line):
            raise GraphError(f"line {number} is not text in UTF-8.")
        yield line


def _rows(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each row, and the number of the line it ends on."""
    if delimiter == " ":
        rows = enumerate((line.split() for line in _lines(data)), start=1)
    else:
        reader = csv.reader(_lines(data), delimiter=delimiter, skipinitialspace=True)
        rows = ((reader.line_num, cells) for cells in reader)  # type: ignore[assignment]
    return ((line, [cell.strip() for cell in cells]) for line, cells in rows if cells)


def _quick(data: bytes, first_row: list[str], delimiter: str) -> Columns | None:
    """The columns of a list whose ids are all integers, read by NumPy; None if NumPy finds anything else in it."""
    has_header = not any(_INTEGER.fullmatch(cell) for cell in first_row[:2])
    if b"#" in data or b"%" in data:
        data = _COMMENT_LINES.sub(b"", data)
    blanks_or = None if delimiter == " " else delimiter
    try:
        table = parse_table(
            data.lstrip(b"\r\n"), _DTYPES[len(first_row)], delimiter=blanks_or, skip_rows=int(has_header)
        )
    except ValueError:
        return None
    weights = table["f2"] if len(first_row) == 3 else np.ones(len(table))
    return table["f0"], table["f1"], weights


def _thorough(data: bytes, width: int, delimiter: str) -> Columns:
    """The columns of any list, read row by row, or what is wrong with it and on which line."""
    rows = list(_rows(data, delimiter))
    if _has_header([cells for _, cells in rows]):
        del rows[0]
    for line, cells in rows:
        if len(cells) != width:
            raise GraphError(f"line {line} has {len(cells)} column(s) where the first row has {width}.")
        if not all(0 < len(name) <= _LONGEST_NAME for name in cells[:2]):
            raise GraphError(f"line {line} has a node name that is empty or longer than {_LONGEST_NAME} characters.")
    weights = [_weight(cells[2], line) if width == 3 else 1.0 for line, cells in rows]
    return [cells[0] for _, cells in rows], [cells[1] for _, cells in rows], np.array(weights)


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row has well-known words, or the only ids that are no integers."""
    first, *others = ([bool(_INTEGER.fullmatch(cell)) for cell in cells[:2]] for cells in rows)
    words = tuple(cell.lower() for cell in rows[0][:2])
    return words in _HEADERS or (bool(others) and not any(first) and all(map(all, others)))


def _weight(cell: str, line: int) -> float:
    try:
        if "_" not in cell:  # Python takes 1_000 for a number; no other program that reads edge lists does.
            return float(cell)
    except ValueError:
        pass
    raise GraphError(f"line {line} has the weight {cell[:40]!r}, which is not a number.")


def _relabel(heads: Any, tails: Any) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.int64]]:
    """The sorted names, and both columns as positions among them."""
    if isinstance(heads, list):
        if all(map(_fits, heads)) and all(map(_fits, tails)):
            heads, tails = np.array(heads, dtype=np.int64), np.array(tails, dtype=np.int64)
        else:
            texts = sorted({*heads, *tails})
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
        0 < len(name) <= _LONGEST_NAME
        and name == name.strip()
        and not any(letter in "\0\r\n" or "\ud800" <= letter <= "\udfff" for letter in name)
    )
