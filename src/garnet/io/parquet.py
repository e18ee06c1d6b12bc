"""Edge lists in Parquet: one file, or a folder of them as Dask and Spark write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, MissingExtra, ParameterError
from garnet.io.checks import Pairs, checked_pairs
from garnet.io.edge_source import EdgeSource
from garnet.io.limits import require_memory, require_plausible, require_unfolding
from garnet.io.table_layout import Layout, TableOptions, layout_of
from garnet.io.text import reading
from garnet.io.text_rows import LONGEST_NAME
from garnet.io.times import Before

NUM_NODES = b"garnet:num_nodes"
"""A key of the schema's metadata: the number of nodes, in digits, where nodes are known by numbers from 0 on."""

# The columns of a list in memory, their concatenation, and what checking the adjacency for symmetry holds.
_BYTES_A_ROW = 120
_BYTES_OF_A_ROW = 24
_AT_ONCE = 1 << 20
_INDEX = re.compile(r"__index_level_\d+__")  # which pandas adds to the columns of a table


class _Header(NamedTuple):
    """What the footer of a file says.

    Attributes:
        columns: the two endpoint columns and, if there is one, the weights.
        layout: how the table is read.
        num_rows: of the file.
        num_nodes: number of nodes if the metadata give it; None if the endpoints are names.
        names_are: "integer" or "text"; None if there are none.
    """

    columns: tuple[str, ...]
    layout: Layout
    num_rows: int
    num_nodes: int | None
    names_are: str | None


def open_parquet(path: Path, options: TableOptions = TableOptions()) -> EdgeSource:  # noqa: B008
    """A table of edges, by the rules of `load_graph`; only the footers of the files are read now.

    Raises:
        GraphError: a file is not a complete Parquet file, lacks these columns, or differs from those before it.
        MissingExtra: pyarrow is not installed.
    """
    with reading(path):
        files = parts_of(path)
    _require_no_text(path, options)
    headers = [_header(file, options) for file in files]
    _require_alike(files, headers)
    columns, layout, _, n, _ = headers[0]
    until = options.until
    read = [*columns, *([] if until is None or layout.time is None else [layout.called(layout.time)])]
    num_rows = sum(header.num_rows for header in headers)
    with reading(path):
        require_plausible(n or 0, num_rows, "nodes")
    texts = any(header.names_are == "text" for header in headers)

    def edges(at_once: int | None) -> Iterator[Pairs]:
        if at_once is None:
            with reading(path):
                require_memory(_BYTES_A_ROW * num_rows, "it")
        for file in files:
            # Texts stay in a dictionary that holds each once, however many rows name it.
            done, named = 0, "".join(columns[2:]) if until is None else ""
            with opened_parquet(file, columns[:2] if texts else ()) as rows:
                batches = rows.iter_batches(batch_size=at_once or _AT_ONCE, columns=read, use_threads=False)
                for batch in batches:
                    if until is not None:
                        batch = batch.filter(import_module("pyarrow").array(counted(batch, layout, until)))
                    only_integers = at_once is not None or n is not None
                    heads, tails = (_names(batch.column(name), name, only_integers) for name in columns[:2])
                    weights = _weights(batch.column(columns[2]), columns[2]) if columns[2:] else None
                    yield checked_pairs(heads, tails, weights, n, named, done)
                    done += len(heads)

    return EdgeSource(
        edges=edges,
        num_nodes=n,
        row_is="either",
        count=lambda: num_rows,
        path=path,
        table=str(layout),
        duplicates=options.duplicates,
        later=lambda: 0 if until is None else until.left_out,
    )


def layout_of_parquet(file: Path, options: TableOptions) -> Layout:
    """Which columns of a file are read."""
    with reading(file):
        return _header(file, options).layout


def counted(batch: Any, layout: Layout, until: Before | None) -> NDArray[np.bool_]:
    """Which rows of a batch count, by their times."""
    if until is None or layout.time is None:
        return np.ones(batch.num_rows, bool)
    name = layout.called(layout.time)
    return until.column(batch.column(name).to_numpy(zero_copy_only=False), name)


def parts_of(path: Path) -> tuple[Path, ...]:
    """The file itself; or a folder's files that end in .parquet, except those that begin with _ or a dot."""
    if not path.is_dir():
        return (path,)
    parts = (file for file in path.iterdir() if file.suffix.lower() == ".parquet" and file.name[0] not in "_.")
    return tuple(sorted(parts))


def _require_alike(files: tuple[Path, ...], headers: list[_Header]) -> None:
    """Refuse a file with other columns, names, or number of nodes than the first."""
    first = headers[0]
    named = [(file.name, header.names_are) for file, header in zip(files, headers, strict=True) if header.names_are]
    for file, (columns, _, _, num_nodes, kind) in zip(files, headers, strict=True):
        with reading(file):
            if columns != first.columns:
                raise GraphError(
                    f"its columns are {', '.join(columns)} where those of {files[0].name} are "
                    f"{', '.join(first.columns)}."
                )
            if kind and kind != named[0][1]:
                raise GraphError(f"it names nodes by {kind}s where {named[0][0]} names them by {named[0][1]}s.")
            if num_nodes != first.num_nodes:
                raise GraphError(
                    f"it gives the number of nodes as {num_nodes} where {files[0].name} has {first.num_nodes}."
                )


def _names(column: Any, name: str, only_integers: bool) -> NDArray[Any]:
    """Integers, or Python strings."""
    _require_values(column, name)
    kind = _kind(column.type)
    if kind == "text" and not only_integers:
        texts = column.dictionary.to_pylist()
        if any(text is None or not 0 < len(text) <= LONGEST_NAME for text in texts):
            raise GraphError(f"its column '{name}' has a name that is empty or longer than {LONGEST_NAME} characters.")
        places = column.indices.to_numpy(zero_copy_only=False)
        if places.size and not (places.min() >= 0 and places.max() < len(texts)):
            raise GraphError(f"its column '{name}' is damaged.")
        names: NDArray[Any] = np.array(texts, np.object_)[places]
        return names
    if kind == "integer":
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "i" or numbers.max(initial=0) < 2**63:
            return numbers.astype(np.int64, copy=False)
    raise _no_names(column.type, name)


def _weights(column: Any, name: str) -> NDArray[Any]:
    _require_values(column, name)
    values: NDArray[Any] = (column if _kind(column.type) else column.cast("float64")).to_numpy(zero_copy_only=False)
    return values


def _require_values(column: Any, name: str) -> None:
    if column.null_count:
        raise GraphError(f"its column '{name}' has missing values.")


def _no_names(kind: Any, name: str) -> GraphError:
    kind = getattr(kind, "value_type", kind)
    return GraphError(
        f"its column '{name}' has type {kind}; the names of nodes must be integers of 64 bits, or without a memory "
        "limit texts."
    )


def _kind(arrow_type: Any) -> str | None:
    """Whether a column is of integers or of texts; None if it is of neither."""
    types = import_module("pyarrow").types
    if types.is_integer(arrow_type):
        return "integer"
    if types.is_dictionary(arrow_type):
        return _kind(arrow_type.value_type)
    return "text" if types.is_string(arrow_type) or types.is_large_string(arrow_type) else None


def _header(file: Path, options: TableOptions) -> _Header:
    with opened_parquet(file) as rows:
        schema, facts = rows.schema_arrow, rows.metadata
        number = (schema.metadata or {}).get(NUM_NODES)
        if number is not None and not (number.isdigit() and len(number) <= 18):
            raise GraphError(f"its metadata give the number of nodes as {number[:40]!r}, which is no number.")
        names = [name for name in schema.names if not _INDEX.fullmatch(name)]
        layout = layout_of(names, options)
        places = (*layout.ends, *([] if layout.weight is None else [layout.weight]))
        columns = tuple(names[place] for place in places)
        twice = next((name for name in columns if names.count(name) > 1), None)
        if twice is not None:
            raise GraphError(f"it has {names.count(twice)} columns of the name '{twice}'; rename all but one.")
        kind = _kind_of_names(schema, columns) if facts.num_rows else None
        # Do not ask for a single column's metadata: if they are malformed, Arrow aborts the process.
        held = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
        require_unfolding(held + _BYTES_OF_A_ROW * facts.num_rows, file.stat().st_size, "it")
        return _Header(columns, layout, facts.num_rows, None if number is None else int(number), kind)


def _kind_of_names(schema: Any, columns: tuple[str, ...]) -> str:
    """Whether both endpoints are integers or texts; other types, and weights that are not numbers, are refused."""
    types = import_module("pyarrow").types
    for name in columns[2:]:
        found = schema.field(name).type
        numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        if not any(check(found) for check in numbers):
            raise GraphError(f"its column '{name}' of weights has type {found}, which is no number.")
    kinds = [_kind(schema.field(name).type) for name in columns[:2]]
    for name, kind in zip(columns[:2], kinds, strict=True):
        if kind is None:
            raise _no_names(schema.field(name).type, name)
    if kinds[0] != kinds[1]:
        raise GraphError(
            f"its columns '{columns[0]}' and '{columns[1]}' are of {kinds[0]}s and {kinds[1]}s; make both one."
        )
    return str(kinds[0])


@contextmanager
def opened_parquet(file: Path, texts: tuple[str, ...] = ()) -> Iterator[Any]:
    """A Parquet file; these text columns stay in dictionaries that hold each text once."""
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error
    with reading(file):
        try:
            # By default whole row groups, of any size, would be read ahead.
            with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, read_dictionary=texts) as rows:
                yield rows
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise GraphError(f"it is not a whole Parquet file ({' '.join(str(error).split())}).") from error


def _require_no_text(path: Path, options: TableOptions) -> None:
    """Refuse options that apply to text files only."""
    texts = [name for name in options.said if name in ("header", "delimiter", "decimal", "encoding")]
    if texts:
        raise ParameterError(f"{path.name} is in Parquet, which has no {texts[0]} to choose; leave that out.")
