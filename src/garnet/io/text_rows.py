"""The rows of an edge table in a text, as columns."""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, compress, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.checks import are_weights
from garnet.io.text import line_breaks, parse_table
from garnet.io.text_arrow import arrow_columns
from garnet.io.text_table import BLANKS, TextTable, as_number, is_integer, is_number

LONGEST_NAME = 1000
"""Characters that the name of a node may have in a list."""

LONGEST_LINE = 1 << 20
"""Characters that a line may have."""

ONLY_INTEGERS = "with a memory limit the names of nodes must be integers of 64 bits"

Ends = NDArray[np.int64]
Weights = NDArray[np.float64] | None
"""Of rows; None if they have none."""

Columns = tuple[NDArray[Any], NDArray[Any], Weights, list[str] | None]
"""The endpoints of some rows, as integers; the rows' weights; and names, if endpoints are positions among these."""

_DTYPES = {2: "i8,i8", 3: "i8,i8,f8"}
_ROWS_AT_ONCE = 1 << 16
COMMENT_LINES = re.compile(rb"^[ \t]*[#%][^\r\n]*", re.MULTILINE)
_CHUNK = 1 << 20


def columns_of(text: bytes, first: int, table: TextTable, *, header: bool | None, only_integers: bool) -> Columns:
    """The columns of a text, or what is wrong with it and on which line.

    Args:
        text: in UTF-8, whole lines.
        first: number of its first line.
        table: how to read it.
        header: whether its first row is a header; None if the names in the other rows show it.
        only_integers: refuse other names.

    Raises:
        GraphError: a row is malformed, and its line is named; or it remains unclear whether there is a header.
    """
    plain = header is False or (header is True and table.certain)
    try:
        found = (_quick(text, table, skip=bool(header)) or _large(text, table, skip=bool(header))) if plain else None
        found = found or _thorough(text, first, table, header)
        if (not only_integers or found[3] is None) and (found[2] is None or are_weights(found[2])):
            return found
    except (csv.Error, _FaultyRow):
        pass
    raise _fault(text, first, table, bool(header), only_integers)


class _FaultyRow(Exception):
    """One of the rows read is not an edge."""


class _Numbers(dict[str, int]):
    """The number of each name by its cells: a name that comes a million times is kept once."""

    def __init__(self) -> None:
        self.of_names: dict[str, int] = {}

    def __missing__(self, cell: str) -> int:
        name = cell.strip()
        if not 0 < len(name) <= LONGEST_NAME or "\n" in name:
            raise _FaultyRow
        self[cell] = number = self.of_names.setdefault(name, len(self.of_names))
        return number


class _Growing:
    """Columns that grow by some rows at a time."""

    def __init__(self, table: TextTable) -> None:
        self._layout, self._decimal, self._until = table.layout, table.decimal, table.until
        self._numbers, self._ends, self._weights = _Numbers(), (array("q"), array("q")), array("d")

    def __len__(self) -> int:
        return len(self._ends[0])

    def name_one_of(self, row: list[str]) -> bool:
        """Whether an endpoint of a row is a known node's name."""
        return any(row[place].strip() in self._numbers.of_names for place in self._layout.ends if place < len(row))

    def add(self, rows: list[list[str]]) -> None:
        """Read some more rows.

        Raises:
            _FaultyRow: one of them is not an edge.
        """
        if {*map(len, rows)} != {self._layout.width}:
            raise _FaultyRow
        columns: list[Sequence[str]] = list(zip(*rows, strict=True))
        if self._until is not None and self._layout.time is not None:
            try:
                count = self._until.mask(map(str.strip, columns[self._layout.time])).tolist()
            except ValueError:
                raise _FaultyRow from None
            columns = [list(compress(cells, count)) for cells in columns]
        for end, place in zip(self._ends, self._layout.ends, strict=True):
            end.extend(map(self._numbers.__getitem__, columns[place]))
        if self._layout.weight is None:
            return
        cells = columns[self._layout.weight]
        if "_" in "".join(cells):
            raise _FaultyRow
        try:
            plain = cells if self._decimal == "." else [as_number(cell, self._decimal) for cell in cells]
            self._weights.extend(map(float, plain))
        except ValueError:
            raise _FaultyRow from None

    def begin_with(self, row: list[str]) -> None:
        """Read a row that comes before the others."""
        lead = _Growing.__new__(_Growing)
        lead._layout, lead._decimal, lead._numbers = self._layout, self._decimal, self._numbers
        lead._until = self._until
        lead._ends, lead._weights = (array("q"), array("q")), array("d")
        lead.add([row])
        self._ends = lead._ends[0] + self._ends[0], lead._ends[1] + self._ends[1]
        self._weights = lead._weights + self._weights

    def columns(self) -> Columns:
        """All rows read so far."""
        weights = None if self._layout.weight is None else np.array(self._weights, np.float64)
        heads, tails = (np.array(end, np.int64) for end in self._ends)
        return _as_integers(heads, tails, weights, list(self._numbers.of_names))


def _thorough(text: bytes, first: int, table: TextTable, header: bool | None) -> Columns:
    """The columns of any table.

    Raises:
        GraphError: it remains unclear whether there is a header, or the text is not in UTF-8.
        _FaultyRow: something is wrong with a row.
    """
    rows, read = rows_in(text, table.delimiter, first), _Growing(table)
    begin = next(rows, None) if header is not False else None
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        read.add(some)
    if begin is None or (header and table.certain):
        return read.columns()
    known = read.name_one_of(begin)
    # No header contains a node's name, and a table of one row has no header.
    if known == bool(header) and len(read):
        raise table.doubtful
    if not header:
        read.begin_with(begin)
    return read.columns()


def rows_of_text(text: bytes, delimiter: str, places: Sequence[int], width: int) -> list[NDArray[np.object_]]:
    """Some columns of a table with a header, as texts stripped of blanks.

    Raises:
        GraphError: a row has another number of cells.
    """
    found: list[list[str]] = [[] for _ in places]
    rows = rows_in(text, delimiter)
    try:
        next(rows, None)
        done = 1
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            odd = next((place for place, row in enumerate(some) if len(row) != width), None)
            if odd is not None:
                raise GraphError(f"its row {done + odd} has {len(some[odd])} column(s) where its header has {width}.")
            columns = list(zip(*some, strict=True))
            for cells, place in zip(found, places, strict=True):
                cells.extend(map(str.strip, columns[place]))
            done += len(some)
    except csv.Error as error:
        raise GraphError(f"its rows are malformed ({error}).") from error
    return [np.array(cells, np.object_) for cells in found]


def rows_in(text: bytes, delimiter: str, first: int = 1) -> Iterator[list[str]]:
    """The cells of the rows of a text, unchanged.

    Raises:
        GraphError: as in `decoded`; or a quote is never closed.
        csv.Error: a cell is too long.
    """
    pieces = decoded(text, first)
    if delimiter != BLANKS and b'"' in text:
        return (row for _, row in _numbered_rows(pieces, delimiter, first))
    lines = chain.from_iterable(map(_lines, pieces))
    return map(str.split, lines) if delimiter == BLANKS else _cells(lines, delimiter)


def _numbered_rows(pieces: Iterable[str], delimiter: str, first: int) -> Iterator[tuple[int, list[str]]]:
    """The cells of rows, each with the number of its first line; within quotes lines may be blank, or begin with #."""
    within, begun = False, first

    def lines() -> Iterator[str]:
        nonlocal within, begun
        number = first - 1
        for piece in pieces:
            for line in piece.split("\n"):
                number += 1
                if not within:
                    start = line.lstrip()
                    if not start or start[0] in "#%":
                        continue
                    within, begun = True, number
                yield line + "\n"
        if within:
            raise csv.Error("a quote is never closed")

    try:
        for row in map(str.split, lines()) if delimiter == BLANKS else _cells(lines(), delimiter):
            within = False
            yield begun, row
    except csv.Error:
        most = f"{csv.field_size_limit():,}"
        raise GraphError(
            f"line {begun} has a quote that is never closed, or a cell of more than {most} characters."
        ) from None


def _cells(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True)


def _lines(text: str) -> Iterable[str]:
    """The lines of a text without quotes that hold a row."""
    full = filter(str.strip, text.split("\n"))
    return (line for line in full if line.lstrip()[0] not in "#%") if "#" in text or "%" in text else full


def decoded(text: bytes, first: int) -> Iterator[str]:
    """The text in pieces of some lines, without the last line ending; all line endings are line feeds.

    Raises:
        GraphError: it is not in UTF-8, or a line is longer than `LONGEST_LINE`; the line is named.
    """
    begin = 0
    while begin < len(text):
        end = text.find(b"\n", begin + _CHUNK) + 1 or len(text)
        piece = text[begin:end]
        try:
            found = piece.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first + line_breaks(text[: begin + error.start])
            raise GraphError(
                f"line {line} is not text in UTF-8; say which encoding it has, such as --encoding latin-1 "
                "(encoding='latin-1')."
            ) from None
        if "\r" in found:
            found = found.replace("\r\n", "\n").replace("\r", "\n")
        if len(piece) > LONGEST_LINE + _CHUNK:
            _require_lines(found, first + line_breaks(text[:begin]))
        yield found.removesuffix("\n")
        begin = end


def _require_lines(text: str, first: int) -> None:
    """Refuse a line that is longer than any real one, before it is split into cells."""
    for number, line in enumerate(text.split("\n"), first):
        if len(line) > LONGEST_LINE:
            raise GraphError(f"line {number} has more than {LONGEST_LINE} characters.")


def fits(name: str) -> bool:
    """Whether a name is a 64-bit integer."""
    return is_integer(name) and -(2**63) <= int(name) < 2**63


def _quick(text: bytes, table: TextTable, *, skip: bool) -> Columns | None:
    """The columns where all names are integers, read by NumPy; None if NumPy finds anything else."""
    layout = table.layout
    places = (*layout.ends, *([] if layout.weight is None else [layout.weight]))
    # NumPy does not notice if a row is longer than requested.
    if places != tuple(range(layout.width)) or table.decimal != ".":
        return None
    if b"#" in text or b"%" in text:
        text = COMMENT_LINES.sub(b"", text)
    mark = None if table.delimiter == BLANKS else table.delimiter
    try:
        rows = parse_table(text.lstrip(b"\r\n"), _DTYPES[layout.width], delimiter=mark, skip_rows=int(skip))
    except ValueError:
        return None
    return rows["f0"], rows["f1"], rows["f2"] if layout.width == 3 else None, None


def _large(text: bytes, table: TextTable, *, skip: bool) -> Columns | None:
    """The columns of a large plain table; None for any other, and if a name is not valid."""
    found = arrow_columns(text, table, skip=skip)
    if found is None or not all(name == name.strip() and 0 < len(name) <= LONGEST_NAME for name in found[3]):
        return None
    try:
        for _ in () if text.isascii() else decoded(text, 1):  # unread columns have to be text, too
            pass
    except GraphError:
        return None
    return _as_integers(*found)


def _as_integers(heads: Ends, tails: Ends, weights: Weights, names: list[str]) -> Columns:
    """The same with the names themselves as endpoints, if all of them are integers."""
    if not all(map(fits, names)):
        return heads, tails, weights, names
    table = np.array([int(name) for name in names], np.int64)
    return table[heads], table[tails], weights, None


def _fault(text: bytes, first: int, table: TextTable, header: bool, only_integers: bool) -> GraphError:
    """What is wrong with the first row that is not an edge, and on which line it begins."""
    for place, (line, row) in enumerate(_numbered_rows(decoded(text, first), table.delimiter, first)):
        cells = [cell.strip() for cell in row]
        if (place or not header) and (wrong := _wrong(cells, table, only_integers)):
            return GraphError(f"line {line} has {wrong}.")
    return GraphError("its rows are malformed.")


def _wrong(cells: list[str], table: TextTable, only_integers: bool) -> str | None:
    """What is wrong with a row, in words that follow "line 7 has"."""
    layout, decimal = table.layout, table.decimal
    if len(cells) != layout.width:
        return f"{len(cells)} column(s) where the first row has {layout.width}"
    if table.until is not None and layout.time is not None:
        time = cells[layout.time]
        if (wrong := table.until.wrong(time)) or not table.until.mask([time]).all():
            return wrong
    names = [cells[place] for place in layout.ends]
    if only_integers and not all(map(fits, names)):
        return f"the name {next(name for name in names if not fits(name))[:40]!r}; {ONLY_INTEGERS}"
    if not all(0 < len(name) <= LONGEST_NAME for name in names):
        return f"a node name that is empty or longer than {LONGEST_NAME} characters"
    if any("\n" in name for name in names):
        return "a quote that is closed on another line, with a line break in the name of a node; close it, or drop it"
    if layout.weight is None:
        return None
    cell = cells[layout.weight]
    if not is_number(cell, decimal):
        comma = decimal == "." and is_number(cell, ",")
        cure = "; if that is its decimal comma, say --decimal , (decimal=',')" if comma else ""
        return f"the weight {cell[:40]!r}, which is not a number{cure}"
    if are_weights(np.array([float(as_number(cell, decimal))])):
        return None
    place = layout.called(layout.weight) if layout.names is None else f"column {layout.called(layout.weight)!r}"
    negative = float(as_number(cell, decimal)) < 0
    said = "weights must not be negative" if negative else "it must not be NaN or infinite in 32 bits"
    return f"the weight {cell[:40]!r} in its {place}; {said}"
