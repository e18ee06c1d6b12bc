"""Tables in memory: a pandas or polars DataFrame, an Arrow table, or a list of pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, MissingExtra, ParameterError, brief
from garnet.io.arrays import as_array
from garnet.io.checks import checked_pairs
from garnet.io.edge_source import EdgeSource
from garnet.io.table_layout import TableOptions, layout_of, layout_without_names
from garnet.io.text_rows import LONGEST_NAME

_LIBRARIES = ("pandas", "polars", "pyarrow", "modin", "cudf")


def data_frame(columns: Mapping[str, NDArray[Any]]) -> Any:
    """A pandas DataFrame of columns.

    Raises:
        MissingExtra: pandas is not installed.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise MissingExtra("pandas", "A data frame", "pandas") from error
    return pandas.DataFrame(columns)


def is_frame(source: Any) -> bool:
    """Whether it is a table with named columns."""
    known = any(kind.__module__.partition(".")[0] in _LIBRARIES for kind in type(source).__mro__)
    return known and (hasattr(source, "columns") or hasattr(source, "column_names"))


def is_list_of_pairs(source: Any) -> bool:
    """Whether it is a list of pairs, or of pairs with weights."""
    return isinstance(source, list) and all(isinstance(one, tuple | list) and len(one) in (2, 3) for one in source)


def column_names(frame: Any) -> tuple[Any, ...]:
    """The names of the columns, unchanged."""
    return tuple(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def column(frame: Any, place: int) -> NDArray[Any]:
    """A column of a frame as an array; missing values are None, or NaN among numbers."""
    name = column_names(frame)[place]
    if column_names(frame).count(name) > 1:
        raise GraphError(f"The table has {column_names(frame).count(name)} columns of the name {name!r}; rename them.")
    return np.asarray(frame[name].to_numpy())


def frame_source(frame: Any, options: TableOptions) -> EdgeSource:
    """A table of edges, by the rules of `load_graph`.

    Raises:
        GraphError: the columns are in doubt, or do not hold edges.
        ParameterError: an option applies to text files only.
    """
    texts = [name for name in options.said if name in ("header", "delimiter", "decimal", "encoding")]
    if texts:
        raise ParameterError(f"A table in memory has no {texts[0]} to choose; leave that out.")
    names = [str(name) for name in column_names(frame)]
    try:
        layout = layout_of(names, options)
    except GraphError as error:
        raise GraphError(f"The table cannot be read as edges: {error}") from error
    heads, tails = (_names(column(frame, place), names[place]) for place in layout.ends)
    if heads.dtype != tails.dtype:
        kinds = ["texts" if ends.dtype.kind == "O" else "integers" for ends in (heads, tails)]
        raise GraphError(
            f"The columns {names[layout.source]!r} and {names[layout.target]!r} name nodes by {kinds[0]} and "
            f"{kinds[1]}; make both one."
        )
    weights = None if layout.weight is None else _weights(column(frame, layout.weight), names[layout.weight])
    until = options.until
    if until is not None and layout.time is not None:
        count = until.column(column(frame, layout.time), names[layout.time])
        heads, tails, weights = heads[count], tails[count], None if weights is None else weights[count]
    named = "" if layout.weight is None or until is not None else names[layout.weight]
    pairs = checked_pairs(heads, tails, weights, None, named)
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=None,
        row_is="either",
        table=str(layout),
        duplicates=options.duplicates,
        later=lambda: 0 if until is None else until.left_out,
    )


def pairs_source(rows: Sequence[Sequence[Any]], options: TableOptions) -> EdgeSource:
    """A list of pairs `(u, v)`, or `(u, v, weight)`; nodes may be integers or texts.

    Raises:
        GraphError: rows differ in length, or do not hold edges.
    """
    if options.time is not None:
        raise GraphError(f"A list of pairs has no times, so there is no column {options.time!r}; give a DataFrame.")
    widths = sorted({len(row) for row in rows})
    if len(widths) > 1:
        raise GraphError("Some rows of the list are pairs and others have a weight; give all of them one.")
    layout = layout_without_names(["0"] * (widths[0] if rows else 2), True, options)
    ends = [_names(np.array([row[place] for row in rows], np.object_), f"{place + 1}") for place in layout.ends]
    if ends[0].dtype != ends[1].dtype:
        ends = [np.array([str(name) for name in end.tolist()], np.object_) for end in ends]
    weights = None if layout.weight is None else as_array([row[2] for row in rows], "Edge weights")
    pairs = checked_pairs(ends[0], ends[1], weights, None, "3")
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=None,
        row_is="either",
        table=str(layout),
        duplicates=options.duplicates,
    )


def _names(values: NDArray[Any], called: str) -> NDArray[Any]:
    """Node names: 64-bit integers, or Python strings."""
    if values.dtype.kind in "iu":
        if values.dtype.kind == "u" and values.max(initial=0) >= 2**63:
            raise GraphError(f"The column {called!r} has {values.max()}; names must be integers of 64 bits, or texts.")
        return values.astype(np.int64)
    found = values.tolist()
    for place, value in enumerate(found):
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is None or value != value:  # NaN, NaT and pandas' NA do not equal themselves
            raise GraphError(f"The column {called!r} has no name in row {place}, counted from 0; fill it or drop it.")
        if not whole and not (isinstance(value, str) and 0 < len(value) <= LONGEST_NAME):
            raise GraphError(
                f"The column {called!r} has {brief(value)} in row {place}, counted from 0; nodes are named by "
                f"integers, or by texts of 1 to {LONGEST_NAME} characters."
            )
    if all(not isinstance(value, str) for value in found):
        return as_array(found, f"The column {called!r}").astype(np.int64)
    return np.array([str(value) for value in found], np.object_)


def _weights(values: NDArray[Any], called: str) -> NDArray[Any]:
    if values.dtype.kind in "biuf":
        missing = np.flatnonzero(np.isnan(values.astype(np.float64)))
        if len(missing):
            raise GraphError(
                f"The column {called!r} has no weight in row {missing[0]}, counted from 0; fill it or drop it."
            )
        return values
    try:
        return np.array([float(value) for value in values.tolist()])
    except (TypeError, ValueError):
        raise GraphError(f"The column {called!r} of weights has type {values.dtype}, which is no number.") from None
