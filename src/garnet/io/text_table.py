"""The format of an edge table in a text: its delimiter, and whether it has a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from garnet.errors import GraphError, brief
from garnet.io.table_layout import HEADERS, Layout, TableOptions, layout_of, layout_without_names
from garnet.io.times import Before

BLANKS = " "
"""Stands for any number of blanks."""

_SAMPLE = 200
_HEAD = 1 << 20
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, kw_only=True)
class TextTable:
    """How to read the rows of a text.

    Attributes:
        delimiter: what separates cells.
        header: whether the first row is a header; None if in doubt.
        certain: whether the user said so, or the row contains known names.
        first: the first row.
        layout: which columns are read.
        decimal: the decimal mark.
        until: what selects the rows that count; None if all do.
    """

    delimiter: str
    header: bool | None
    certain: bool
    first: tuple[str, ...]
    layout: Layout
    decimal: str = "."
    until: Before | None = None

    def with_header(self, header: bool) -> TextTable:
        """The same once the header is settled."""
        return replace(self, header=header, certain=True)

    @property
    def doubtful(self) -> GraphError:
        """The message if it cannot be decided."""
        return GraphError(
            f"its first row, {self.delimiter.join(self.first)[:80]!r}, may be a header or an edge; say which: --header "
            "or --no-header (header=True or header=False)."
        )

    def __str__(self) -> str:
        mark = {"\t": "tabs", BLANKS: "blanks", ",": "commas", ";": "semicolons"}.get(self.delimiter, self.delimiter)
        return f"{'a header' if self.header else 'no header'}, {mark} between cells; {self.layout}"


def text_table(text: str, *, whole: bool, candidates: Sequence[str], options: TableOptions) -> TextTable | None:
    """How to read a text, judging by its beginning; None if it has no rows.

    Args:
        text: the beginning, with line feeds.
        whole: whether it is the whole text; if not, its last line may be incomplete.
        candidates: possible delimiters, likeliest first.
        options: the user's options.

    Raises:
        GraphError: it is in doubt.
    """
    every = text.split("\n")[: None if whole else -1]
    lines = [line for line in every if (start := line.lstrip()) and start[0] not in "#%"][:_SAMPLE]
    if not lines:
        return None
    delimiter = options.delimiter or _delimiter(lines, candidates)
    first, *others = list(split_rows(lines, delimiter))
    _require_closed(first)
    others = [row for row in others if len(row) == len(first)]
    header, certain = _header(first, others, options)
    numbers = len(first) == 3 and is_number(first[2].replace("_", ""), options.decimal)
    if header or (header is None and len(first) > 2):
        layout = layout_of(first, options)
    else:
        layout = layout_without_names(first, numbers, options)
    return TextTable(
        delimiter=delimiter,
        header=header,
        certain=certain,
        first=tuple(first),
        layout=layout,
        decimal=options.decimal,
        until=options.until,
    )


def cells_of_header(text: bytes, delimiter: str | None, candidates: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The delimiter of a table with a header, and the names in this header.

    Raises:
        GraphError: it has no rows, or the delimiter is in doubt.
    """
    every = text[:_HEAD].decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    whole = len(text) <= _HEAD or len(every) == 1
    lines = [line for line in (every if whole else every[:-1]) if line.strip() and line.lstrip()[0] not in "#%"]
    if not lines:
        raise GraphError("it has no rows.")
    mark = delimiter or _delimiter(lines[:_SAMPLE], candidates)
    names = next(split_rows(lines[:_SAMPLE], mark))
    _require_closed(names)
    return mark, tuple(names)


def split_rows(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    """The cells of lines."""
    if delimiter == BLANKS:
        yield from (line.split() for line in lines)
        return
    try:
        for row in csv.reader((line + "\n" for line in lines), delimiter=delimiter, skipinitialspace=True):
            yield [cell.strip() for cell in row]
    except csv.Error as error:
        raise GraphError(f"its rows are malformed ({error}).") from error


def _require_closed(first: Sequence[str]) -> None:
    if len(first) < 2 and "\n" in first[0]:
        raise GraphError("its first row begins with a quote that is not closed on its line; close it, or drop it.")


def is_integer(cell: str) -> bool:
    """Whether a name is an integer."""
    return bool(_INTEGER.fullmatch(cell))


def is_number(cell: str, decimal: str = ".") -> bool:
    """Whether a cell is a number with this decimal mark."""
    try:
        float(as_number(cell, decimal))
    except ValueError:
        return False
    return "_" not in cell  # Python takes 1_000 for a number; no other program that reads tables does.


def as_number(cell: str, decimal: str) -> str:
    """A number as Python reads it."""
    return cell if decimal == "." else cell.replace(".", "x").replace(decimal, ".")


def _delimiter(lines: Sequence[str], candidates: Sequence[str]) -> str:
    """The delimiter that divides every line into equally many cells, at least two.

    Raises:
        GraphError: more than one does.
    """
    found: dict[str, list[str]] = {}
    for mark in (one for one in candidates if one != BLANKS):
        if mark not in lines[0]:
            continue
        try:
            rows = list(split_rows(lines, mark))
        except GraphError:
            continue
        if len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            found[mark] = rows[0]
    if BLANKS in candidates and "\t" not in found and _have_decimal_commas(lines):
        found[BLANKS] = lines[0].split()
    if len(found) > 1 and not (candidates[0] == "\t" and "\t" in found):  # whose extension says it
        (one, first), (other, second) = list(found.items())[:2]
        raise GraphError(
            f"its rows can be divided at {one!r}, into {brief(first)}, and at {other!r}, into {brief(second)}; say "
            f"which with --delimiter {one!r} or --delimiter {other!r} (delimiter={other!r})."
        )
    usual = BLANKS if BLANKS in candidates else candidates[0]
    return next((mark for mark in (*found, *candidates) if mark in lines[0]), usual)


def _have_decimal_commas(lines: Sequence[str]) -> bool:
    """Whether all commas in lines that blanks divide into equally many cells may be decimal marks."""
    rows = [line.split() for line in lines]
    cells = [cell for row in rows for cell in row if "," in cell]
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and all(is_number(cell, ",") for cell in cells)


def _header(first: Sequence[str], others: Sequence[Sequence[str]], options: TableOptions) -> tuple[bool | None, bool]:
    """Whether the first row is a header, None if it is in doubt; and whether that is certain."""
    if options.header is not None:
        return options.header, True
    if any(
        isinstance(one, str) and not one.isdecimal()
        for one in (options.source, options.target, options.weight, options.time)
    ):
        return True, True
    lower = [cell.lower() for cell in first]
    if any(set(pair) <= set(lower) for pair in HEADERS):
        return True, True
    if any(is_number(cell, options.decimal) for cell in first):
        return False, False
    if not others:
        return False, False
    if all(is_integer(cell) for row in others for cell in row[:2]):
        return True, False
    columns = list(zip(*others, strict=True))[2:]
    if any(all(is_number(cell, options.decimal) for cell in column) for column in columns):
        return True, False
    return None, False
