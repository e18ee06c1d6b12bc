"""Graphs as text, one edge a line."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.checks import Pairs, checked_pairs
from garnet.io.edge_source import EdgeSource, GraphArrays, rows_between
from garnet.io.text import BYTE_ORDER_MARK, line_breaks, parse_table, read_lines, read_text, reading

HEADERS = {("source", "target"), ("src", "dst"), ("u", "v"), ("from", "to"), ("node1", "node2")}
"""What the columns of the two ends are called, in small letters, where a list says so."""

LONGEST_NAME = 1000
"""Characters that the name of a node may have in a list."""

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[np.float64] | None]
"""The two ends of some rows, integers or Python's texts, and the rows' weights; None if they have none."""

_ROW_LINES = re.compile(rb"(?<![^\r\n])[ \t]*[^\s#%][^\r\n]*")
_COMMENT_LINES = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
_ONLY_INTEGERS = "with a memory limit the names of nodes must be integers of 64 bits"
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_DTYPES = {2: "i8,i8", 3: "i8,i8,f8"}
_ROWS_AT_ONCE = 1 << 16
_CHUNK = 1 << 20
_SHORTEST_ROW = 4
_LONGEST_LINE = 1 << 20


def open_edge_list(path: Path, delimiter: str | None) -> EdgeSource:
    """Rows `u, v` or `u, v, weight`, by the rules that `load_graph` states.

    Args:
        path: the text, in UTF-8.
        delimiter: what stands between the cells of a row, a blank for any number of blanks; None to take a tab, a comma
            or blanks, whichever comes first in this order and is in the first row.
    """

    def edges(at_once: int | None) -> Iterator[Pairs]:
        with reading(path):
            for columns in _columns(_texts_of(path, at_once), delimiter, only_integers=at_once is not None):
                yield checked_pairs(*columns, None)

    return EdgeSource(edges=edges, num_nodes=None, row_is="either", text=path, path=path)


def _texts_of(path: Path, at_once: int | None) -> Iterator[tuple[int, bytes]]:
    """The whole text, or pieces of it with at most so many rows, each with the number of its first line."""
    if at_once is None:
        yield 1, read_text(path).removeprefix(BYTE_ORDER_MARK)
        return
    # As no row is shorter, no piece has more rows than wanted.
    for line, text in read_lines(path, _SHORTEST_ROW * at_once, _LONGEST_LINE):
        if b"\0" in text:
            raise GraphError("it holds NUL bytes, so it is not a text file.")
        yield line, text


def _columns(pieces: Iterable[tuple[int, bytes]], delimiter: str | None, *, only_integers: bool) -> Iterator[Columns]:
    """The columns of each piece of a list in which there is any row.

    Args:
        pieces: the text, in UTF-8 and without a byte order mark, cut at ends of lines; with the number of the first
            line of each. More than one only if names are `only_integers`, because other names could be a header or
            not, by what is in rows that are not there yet.
        delimiter: as for `open_edge_list`.
        only_integers: refuse other names.

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


def write_edge_list(graph: GraphArrays, stream: BinaryIO, delimiter: str) -> None:
    """Write each undirected edge once, under a header, with the nodes' own names.

    Raises:
        GraphError: a name would not come back as it is from a line of text.
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
    writer.writerow(("source", "target", "weight"))
    for begin in range(0, matrix.nnz, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, matrix.nnz)
        heads, tails = rows_between(matrix.indptr, begin, end), matrix.indices[begin:end]
        # Nine digits are what it takes to tell any two numbers of 32 bits apart.
        digits = map("{:.9g}".format, matrix.data[begin:end].tolist())
        writer.writerows(zip(names[heads].tolist(), names[tails].tolist(), digits, strict=True))
    text.detach()


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
    return table["f0"], table["f1"], table["f2"] if width == 3 else None


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
        if width == 3:
            weights.append(float(cells[2]))

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
    kind = np.int64 if all(map(_fits, known)) else np.object_
    return np.array(heads, kind), np.array(tails, kind), np.array(weights, np.float64) if width == 3 else None


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


def _fits(cell: str) -> bool:
    return bool(_INTEGER.fullmatch(cell)) and -(2**63) <= int(cell) < 2**63


def _survives(name: str) -> bool:
    return (
        0 < len(name) <= LONGEST_NAME
        and name == name.strip()
        and not any(letter in "\0\r\n" or "\ud800" <= letter <= "\udfff" for letter in name)
    )
