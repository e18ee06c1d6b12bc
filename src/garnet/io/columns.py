"""The named columns of a table other than an edge table, in a file or in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, MissingExtra
from garnet.io.frames import column, column_names, is_frame
from garnet.io.limits import require_memory, require_unfolding
from garnet.io.table_layout import listed
from garnet.io.text import BYTE_ORDER_MARK, read_text, reading
from garnet.io.text_rows import rows_of_text
from garnet.io.text_table import cells_of_header

_TEXTS = (".csv", ".tsv", ".txt")
_MOST_COLUMNS = 100_000


class NamedColumns:
    """A table whose columns are read when asked for.

    Attributes:
        names: names of all columns, in order.
        called: how sentences name the table.

    Raises:
        GraphError: it is not such a table; the message says why.
    """

    def __init__(self, table: Any, *, encoding: str = "utf-8", delimiter: str | None = None) -> None:
        self._file: Path | None = None
        if isinstance(table, str | Path):
            self._file, self.called = Path(table), Path(table).name
            with reading(self._file):
                self.names = self._names_in_file(self._file, encoding, delimiter)
        elif isinstance(table, Mapping) or is_frame(table):
            self.called = "the table of nodes"
            self._table = table
            self.names = tuple(str(name) for name in (table if isinstance(table, Mapping) else column_names(table)))
        else:
            raise GraphError(
                f"A table of nodes is a DataFrame, or the path of a .csv, .tsv, .txt or .parquet file. Got "
                f"{type(table).__name__} instead."
            )

    def read(self, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Read some columns by name: numbers, or objects with texts as they are in the file."""
        if self._file is not None:
            with reading(self._file):
                return self._of_file(self._file, wanted)
        if isinstance(self._table, Mapping):
            found = {name: np.asarray(self._table[name]) for name in wanted}
        else:
            found = {name: column(self._table, self.names.index(name)) for name in wanted}
        odd = next((name for name, values in found.items() if values.ndim != 1), None)
        if odd is not None:
            raise GraphError(
                f"The column {odd!r} of {self.called} has the shape {found[odd].shape}; give one value a row."
            )
        if len({len(values) for values in found.values()}) > 1:
            raise GraphError(f"The columns of {self.called} differ in length.")
        return found

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter(self.names)

    def place(self, wanted: str, what: str) -> str:
        """The name of a column as written.

        Raises:
            GraphError: there is none, or several.
        """
        count = self._counts[wanted]
        if count > 1:
            raise GraphError(f"{self.called} has {count} columns of the name {wanted!r}; rename all but one.")
        if not count:
            raise GraphError(f"{self.called} has no column {wanted!r} for {what}, only {listed(self.names)}.")
        return wanted

    def _names_in_file(self, path: Path, encoding: str, delimiter: str | None) -> tuple[str, ...]:
        if not path.is_file():
            raise GraphError("there is no such file." if not path.exists() else "it is not a regular file.")
        ending = Path(path.name.lower().removesuffix(".gz")).suffix
        if ending == ".parquet":
            self._encoding, self._delimiter = "", ""
            return tuple(self._parquet(path, None))
        if ending not in _TEXTS:
            raise GraphError("a table of nodes ends in .csv, .tsv, .txt (with .gz, too) or .parquet.")
        self._encoding = encoding
        text = read_text(path, encoding).removeprefix(BYTE_ORDER_MARK)
        marks = ("\t", ",", ";", "|") if ending == ".tsv" else (",", ";", "\t", "|")
        self._delimiter, names = cells_of_header(text, delimiter, marks)
        if len(names) > _MOST_COLUMNS:
            raise GraphError(f"it has {len(names):,} columns; a table of nodes may have {_MOST_COLUMNS:,}.")
        return names

    def _of_file(self, path: Path, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
        if not self._delimiter:
            return dict(self._parquet(path, wanted))
        text = read_text(path, self._encoding).removeprefix(BYTE_ORDER_MARK)
        place_of = {name: place for place, name in enumerate(self.names)}
        places = [place_of[name] for name in wanted]
        found = rows_of_text(text, self._delimiter, places, len(self.names))
        return dict(zip(wanted, found, strict=True))

    def _parquet(self, path: Path, wanted: Sequence[str] | None) -> Any:
        """The column names if given None, or some of the columns."""
        try:
            arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError as error:
            raise MissingExtra("pyarrow", "A Parquet file", "pygarnet[parquet]") from error
        try:
            with parquet.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
                if wanted is None:
                    return tuple(file.schema_arrow.names)
                rows = file.metadata.num_rows
                require_unfolding(8 * rows * len(wanted), path.stat().st_size, "it")
                require_memory(80 * rows * len(wanted), "it")
                table = file.read(columns=list(wanted), use_threads=False)
                return {name: np.asarray(table[name].to_numpy(zero_copy_only=False)) for name in wanted}
        except (arrow.ArrowException, UnicodeDecodeError) as error:
            raise GraphError(f"it is not a whole Parquet file ({' '.join(str(error).split())}).") from error
