"""Lists of edges in Parquet: one file, or a folder of them as Dask and Spark write it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, MissingExtra
from garnet.graph.graph import Graph
from garnet.io.edge_list import HEADERS, LONGEST_NAME, listed_graph
from garnet.io.limits import require_memory, require_plausible, require_unfolding
from garnet.io.text import reading

Piece = tuple[Path, Any, Any, NDArray[Any] | None]
"""A file, the ends of some of its rows, arrays of integers or lists of texts, and weights; None if it has none."""

NUM_NODES = b"garnet:num_nodes"
"""A key of the schema's metadata: the number of nodes, in digits, where nodes are known by numbers from 0 on."""

# The columns of a list in memory, their concatenation, and what proving the adjacency symmetric holds.
_BYTES_A_ROW = 120
_BYTES_OF_A_ROW = 24
_AT_ONCE = 1 << 20
_INDEX = re.compile(r"__index_level_\d+__")  # which pandas writes beside the columns of a table


@dataclass(frozen=True, kw_only=True)
class ParquetList:
    """A list of edges in Parquet whose rows have not been read.

    Attributes:
        files: the parts in the order of their names, or the one file.
        columns: of the two ends and, if there are three, of weights; the same in all parts.
        num_rows: of all parts.
        num_nodes: where the metadata give it, which all parts then do alike; None where the ends are names.
        texts: whether these are texts.
    """

    files: tuple[Path, ...]
    columns: tuple[str, ...]
    num_rows: int
    num_nodes: int | None
    texts: bool

    @classmethod
    def open(cls, path: Path) -> ParquetList:
        """What the ends of the files, where Parquet has its headers, tell.

        Ends are in the columns source, target (or src, dst and so on), or else in the first two; weights in the column
        weight, or in the third of three.

        Raises:
            GraphError: a file is not a whole Parquet file, has no such columns, or other ones than those before it.
            MissingExtra: pyarrow is not installed.
        """
        with reading(path):
            files = parts_of(path)
        found = [_header(file) for file in files]
        columns, _, num_nodes, _ = found[0]
        named = [(file.name, kind) for file, (*_, kind) in zip(files, found, strict=True) if kind]
        for file, (others, _, number, kind) in zip(files, found, strict=True):
            with reading(file):
                if others != columns:
                    raise GraphError(
                        f"its columns are {', '.join(others)} where those of {files[0].name} are {', '.join(columns)}."
                    )
                if kind and kind != named[0][1]:
                    raise GraphError(f"it names nodes by {kind}s where {named[0][0]} names them by {named[0][1]}s.")
                if number != num_nodes:
                    raise GraphError(f"it gives the number of nodes as {number} where {files[0].name} has {num_nodes}.")
        num_rows = sum(rows for _, rows, _, _ in found)
        with reading(path):
            require_plausible(num_nodes or 0, num_rows, "nodes")
        texts = bool(named) and named[0][1] == "text"
        return cls(files=files, columns=columns, num_rows=num_rows, num_nodes=num_nodes, texts=texts)

    def pieces(self, at_once: int, *, only_integers: bool) -> Iterator[Piece]:
        """The rows, at most so many at a time, each piece with the file that it is in.

        Args:
            at_once: rows of a piece, at most.
            only_integers: refuse names that are texts, which come as lists.
        """
        for file in self.files:
            # Texts stay in the dictionary in which each of them is kept once, however many rows name it.
            with _opened(file, self.columns[:2] if self.texts else ()) as rows:
                for batch in rows.iter_batches(batch_size=at_once, columns=list(self.columns), use_threads=False):
                    heads, tails = (_names(batch.column(name), name, only_integers) for name in self.columns[:2])
                    weights = [_weights(batch.column(name), name) for name in self.columns[2:]]
                    yield file, heads, tails, weights[0] if weights else None


def parts_of(path: Path) -> tuple[Path, ...]:
    """The file itself; or of a folder the files that end in .parquet, but for those that begin with _ or a dot."""
    if not path.is_dir():
        return (path,)
    parts = (file for file in path.iterdir() if file.suffix.lower() == ".parquet" and file.name[0] not in "_.")
    return tuple(sorted(parts))


def read_parquet(path: Path, symmetrize: bool) -> Graph:
    """Read a list of edges by the rules that `load_graph` states for those in text."""
    found = ParquetList.open(path)
    with reading(path):
        require_memory(_BYTES_A_ROW * found.num_rows, "it")
    pieces = list(found.pieces(_AT_ONCE, only_integers=found.num_nodes is not None))
    heads, tails = ([piece[end] for piece in pieces] for end in (1, 2))
    weights = [np.ones(len(piece[1])) if piece[3] is None else piece[3].astype(np.float64) for piece in pieces]
    with reading(path):
        columns = _joined(heads), _joined(tails), np.concatenate([np.zeros(0), *weights])
        return listed_graph(columns, symmetrize, found.num_nodes, texts_stay=True)


def _joined(pieces: list[Any]) -> Any:
    """One array of integers, or one list of texts."""
    if any(isinstance(piece, list) for piece in pieces):
        return [name for piece in pieces for name in piece]
    return np.concatenate([np.zeros(0, np.int64), *pieces])


def _names(column: Any, name: str, only_integers: bool) -> Any:
    _require_values(column, name)
    kind = _kind(column.type)
    if kind == "text" and not only_integers:
        texts = column.dictionary.to_pylist()
        if any(text is None or not 0 < len(text) <= LONGEST_NAME for text in texts):
            raise GraphError(f"its column '{name}' has a name that is empty or longer than {LONGEST_NAME} characters.")
        places = column.indices.to_numpy(zero_copy_only=False)
        if places.size and not (places.min() >= 0 and places.max() < len(texts)):
            raise GraphError(f"its column '{name}' is damaged.")
        return [texts[place] for place in places.tolist()]
    if kind == "integer":
        numbers = column.to_numpy(zero_copy_only=False)
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


def _header(file: Path) -> tuple[tuple[str, ...], int, int | None, str | None]:
    """The columns that count, the number of rows, that of nodes if it is there, and what names are if there are any."""
    with _opened(file) as rows:
        schema, facts = rows.schema_arrow, rows.metadata
        number = (schema.metadata or {}).get(NUM_NODES)
        if number is not None and not (number.isdigit() and len(number) <= 18):
            raise GraphError(f"its metadata give the number of nodes as {number[:40]!r}, which is no number.")
        columns = _columns(schema.names)
        kind = _kind_of_names(schema, columns) if facts.num_rows else None
        # Of a single column the metadata must not be asked: where those are malformed, Arrow ends the process.
        held = sum(facts.row_group(i).total_byte_size for i in range(facts.num_row_groups))
        require_unfolding(held + _BYTES_OF_A_ROW * facts.num_rows, file.stat().st_size, "it")
        return columns, facts.num_rows, None if number is None else int(number), kind


def _kind_of_names(schema: Any, columns: tuple[str, ...]) -> str:
    """Whether both ends are integers or texts; other columns than such, and other weights than numbers, are refused."""
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
def _opened(file: Path, texts: tuple[str, ...] = ()) -> Iterator[Any]:
    try:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error
    with reading(file):
        try:
            # By default whole groups of rows, of any size, would be read ahead.
            with parquet.ParquetFile(file, buffer_size=1 << 20, pre_buffer=False, read_dictionary=texts) as rows:
                yield rows
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise GraphError(f"it is not a whole Parquet file ({' '.join(str(error).split())}).") from error


def _columns(names: list[str]) -> tuple[str, ...]:
    """The columns of both ends and, if there is one, of weights."""
    names = [name for name in names if not _INDEX.fullmatch(name)]
    lower = [name.lower() for name in names]
    pair = next((pair for pair in HEADERS if set(pair) <= set(lower)), None)
    ends = [names[lower.index(end)] for end in pair] if pair else names[:2]
    if len(ends) < 2:
        raise GraphError(f"it has {len(names)} column(s); an edge list needs two, and may have a third of weights.")
    twice = next((name for name in ends if names.count(name) > 1), None)
    if twice is not None:
        raise GraphError(f"it has {names.count(twice)} columns of the name '{twice}'; rename all but one.")
    others = [name for name in names if name not in ends]
    weights = [name for name in others if name.lower() == "weight"] or (others if len(others) == 1 else [])
    if len(weights) > 1:
        raise GraphError(f"it has {len(weights)} columns of weights; rename all but one.")
    return (*ends, *weights)
