"""Which columns of a table are its edges' endpoints and weights: as given, or where there is no doubt."""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, Literal, get_args

from garnet.errors import GraphError, ParameterError, brief
from garnet.io.times import Before

Column = str | int
"""A column by its name, or by its number from 1 on."""

Duplicates = Literal["max", "sum", "count", "first"]
"""How to merge several rows for one edge: the largest weight, the sum, the number of rows, or the first weight."""

HEADERS = (
    ("source", "target"), ("src", "dst"), ("u", "v"), ("from", "to"), ("node1", "node2"),
    ("sender", "receiver"), ("payer", "payee"), ("source_id", "target_id"), ("from_id", "to_id"), ("id_1", "id_2"),
    ("follower", "followee"), ("citing", "cited"), ("origin", "destination"), ("head", "tail"),
)  # fmt: skip
"""Recognised names of the endpoint columns, in lower case."""

WEIGHTS = ("weight", "weights", "w")
"""Recognised names of a weight column, likewise."""

_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_FIRST_WORDS = ("from", "src", "source", "sender", "payer", "orig", "origin", "debtor", "follower", "citing")
_SECOND_WORDS = ("to", "dst", "target", "receiver", "payee", "dest", "destination", "creditor", "followee", "cited")
_SHOWN = 12


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How to read a table of edges; None means detected, and refused if in doubt.

    Attributes:
        source: the column of the source nodes.
        target: of the second ends.
        weight: the column of the weights; an unnamed one is used only if it is called weight, weights or w.
        time: the column of times, which by themselves do not affect the graph.
        before: rows with this time or a later one are left out.
        header: whether the first row of a text file has the column names.
        delimiter: what separates the cells of a text file; a blank stands for any number of blanks.
        decimal: the decimal mark of a text file.
        encoding: of a text file.
        duplicates: how several rows for one edge are merged.
    """

    source: Column | None = None
    target: Column | None = None
    weight: Column | None = None
    time: Column | None = None
    before: Any = None
    header: bool | None = None
    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    duplicates: Duplicates = "max"

    def __post_init__(self) -> None:
        for name in ("source", "target", "weight", "time"):
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if value is not None and not whole and not (isinstance(value, str) and value):
                raise _refused(name, "the name of a column, or its number from 1 on", value)
        if (self.source is None) != (self.target is None):
            given, missing = ("source", "target") if self.target is None else ("target", "source")
            raise ParameterError(
                f"The column of one end is given, {given} {getattr(self, given)!r}, and the other is not; give "
                f"{missing} as well."
            )
        if self.source is not None and self.source == self.target:
            raise ParameterError(f"Both ends of an edge cannot be the column {self.source!r}; give two columns.")
        if self.before is not None:
            if self.time is None:
                raise ParameterError(f"To leave out rows from {brief(self.before)} on, give the column of times, time.")
            Before(self.before)
        if self.header not in (None, True, False):
            raise _refused("header", "True, False or None", self.header)
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter) != 1):
            raise _refused("delimiter", "one character", self.delimiter)
        if self.delimiter in ('"', "\n", "\r", "\0"):
            raise _refused("delimiter", "one that can stand between cells", self.delimiter)
        if self.decimal not in (".", ","):
            raise _refused("decimal", "'.' or ','", self.decimal)
        if self.duplicates not in get_args(Duplicates):
            raise _refused("duplicates", "max, sum, count or first", self.duplicates)
        try:
            bytes_of_it = codecs.lookup(self.encoding)
            "0".encode(bytes_of_it.name)
        except (LookupError, TypeError, ValueError):
            raise _refused("encoding", "one that Python knows, such as latin-1 or utf-16", self.encoding) from None

    @property
    def until(self) -> Before | None:
        """What selects the rows that count, if not all do."""
        return None if self.before is None else Before(self.before)

    @property
    def said(self) -> tuple[str, ...]:
        """The options given, by name."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) != one.default)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which columns of a table are read.

    Attributes:
        width: number of columns.
        source: position of the source column, from 0.
        target: of the second ends.
        weight: of the weights; None if there are none.
        time: of the times; None if not given.
        names: of the columns; None if they have none.
    """

    width: int
    source: int
    target: int
    weight: int | None = None
    time: int | None = None
    names: tuple[str, ...] | None = None

    @property
    def ends(self) -> tuple[int, int]:
        """Positions of both endpoint columns."""
        return self.source, self.target

    @property
    def unread(self) -> tuple[str, ...]:
        """The columns that say nothing about the graph."""
        read = (self.source, self.target, self.weight, self.time)
        return tuple(self.called(place) for place in range(self.width) if place not in read)

    def called(self, place: int) -> str:
        """A column, as a person would name it."""
        return f"column {place + 1}" if self.names is None else self.names[place]

    def __str__(self) -> str:
        said = f"{self.called(self.source)} -> {self.called(self.target)}, "
        said += "no weights" if self.weight is None else f"weights from {self.called(self.weight)}"
        said += "" if self.time is None else f", times from {self.called(self.time)}"
        return f"{said} (not read: {listed(self.unread)})" if self.unread else said


def layout_of(names: Sequence[str], options: TableOptions) -> Layout:
    """The layout of a table with column names.

    Raises:
        GraphError: the columns do not exist, or are not given and not beyond doubt.
    """
    width, lower = len(names), [name.strip().lower() for name in names]
    if width < 2:
        raise GraphError(f"it has {width} column(s); a table of edges needs two, and may have one of weights.")
    weight, time = (None if one is None else _place(one, names) for one in (options.weight, options.time))
    rest = [place for place in range(width) if place != time]
    if options.source is not None and options.target is not None:
        ends = _place(options.source, names), _place(options.target, names)
    else:
        pair = next((pair for pair in HEADERS if set(pair) <= set(lower)), None)
        if pair is not None:
            ends = _place(_as_written(pair[0], names), names), _place(_as_written(pair[1], names), names)
        elif len(rest) == 2 or (len(rest) == 3 and (weight == rest[2] or lower[rest[2]] in WEIGHTS)):
            ends = rest[0], rest[1]
        else:
            raise GraphError(f"its columns are {listed(names)}; {_asking(names)}")
    _require_two(ends, repr(names[ends[0]]))
    others = [place for place in rest if place not in ends]
    if weight is None:
        found = [place for place in others if lower[place] in WEIGHTS]
        if len(found) > 1:
            told = " and ".join(repr(names[place]) for place in found)
            raise GraphError(f"it has the columns {told}, which could both be weights; name the one to take.")
        weight = found[0] if found else None
    elif weight in ends:
        raise GraphError(f"its column {names[weight]!r} is an end of the edges, and cannot be their weight as well.")
    _require_own(time, (*ends, weight), names)
    return Layout(width=width, source=ends[0], target=ends[1], weight=weight, time=time, names=tuple(names))


def layout_without_names(first: Sequence[str], third_is_number: bool, options: TableOptions) -> Layout:
    """The layout of a table without column names.

    Args:
        first: its first row.
        third_is_number: whether the third column has only numbers.
        options: how to read it.

    Raises:
        GraphError: as for `layout_of`.
    """
    width = len(first)
    if width < 2:
        raise GraphError(f"its first row has {width} column(s); a table of edges needs two, and may have weights.")
    weight, time = (None if one is None else _number(one, width) for one in (options.weight, options.time))
    rest = [place for place in range(width) if place != time]
    if options.source is not None and options.target is not None:
        ends = _number(options.source, width), _number(options.target, width)
    elif len(rest) == 2 and weight is None:
        ends = rest[0], rest[1]
    elif rest == [0, 1, 2] and third_is_number and weight in (None, 2):
        ends, weight = (0, 1), 2
    else:
        told = ", ".join(f"{place + 1}: {brief(cell[:20])}" for place, cell in enumerate(first[:_SHOWN]))
        raise GraphError(
            f"its rows have {width} columns without names ({told}{', ...' if width > _SHOWN else ''}); say by number "
            "which two are the ends of an edge, such as --source 1 --target 2 (source=1, target=2)."
        )
    _require_two(ends, str(ends[0] + 1))
    if weight in ends:
        raise GraphError(f"its column {weight + 1} is an end of the edges, and cannot be their weight as well.")
    _require_own(time, (*ends, weight), [str(place + 1) for place in range(width)])
    return Layout(width=width, source=ends[0], target=ends[1], weight=weight, time=time)


def _require_own(time: int | None, others: Sequence[int | None], names: Sequence[str]) -> None:
    if time is not None and time in others:
        raise GraphError(f"its column {names[time]!r} is an end of the edges or their weight, and cannot be the time.")


def _refused(name: str, wanted: str, got: object) -> ParameterError:
    return ParameterError(f"The '{name}' of a table must be {wanted}. Got {brief(got)} instead.")


def _require_two(ends: tuple[int, int], name: str) -> None:
    if ends[0] == ends[1]:
        raise GraphError(f"its column {name} cannot be both ends of an edge; give two columns.")


def _place(wanted: Column, names: Sequence[str]) -> int:
    """The position of a column."""
    if isinstance(wanted, int) or (wanted not in names and wanted.isdecimal()):
        return _number(wanted, len(names))
    found = [place for place, name in enumerate(names) if name == wanted] or [
        place for place, name in enumerate(names) if name.strip().lower() == wanted.strip().lower()
    ]
    if len(found) > 1:
        raise GraphError(f"it has {len(found)} columns of the name {brief(wanted)}; rename all but one.")
    if not found:
        near = get_close_matches(wanted, names, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else "."
        raise GraphError(f"it has no column {brief(wanted)}, only {listed(names)}{meant}")
    return found[0]


def _number(wanted: Column, width: int) -> int:
    if isinstance(wanted, str) and not (wanted.isdecimal() and len(wanted) < 10):
        raise GraphError(
            f"its columns have no names, so there is none called {brief(wanted)}; give its number, from 1 to {width}, "
            "or say that the first row is a header."
        )
    if not 1 <= int(wanted) <= width:
        raise GraphError(f"it has no column {int(wanted)}, only 1 to {width}.")
    return int(wanted) - 1


def _as_written(name: str, names: Sequence[str]) -> str:
    return next(one for one in names if one.strip().lower() == name)


def listed(names: Sequence[str]) -> str:
    """The names of columns on one line, as many as fit in a sentence."""
    shown = ", ".join(" ".join(name[:40].split()) for name in names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _typed(name: str) -> str:
    return shlex.quote(listed([name]))


def _asking(names: Sequence[str]) -> str:
    """What to type, with the endpoint columns recognised by name, or else the first two."""

    def named(words: Sequence[str]) -> str | None:
        return next((name for name in names if {*words} & {one.lower() for one in _WORD.findall(name)}), None)

    first, second = named(_FIRST_WORDS), named(_SECOND_WORDS)
    if first is None or second is None:
        first, second = names[:2]
    return (
        f"say which two are the ends of an edge, such as --source {_typed(first)} --target {_typed(second)} "
        f"(source={brief(first)}, target={brief(second)})."
    )
