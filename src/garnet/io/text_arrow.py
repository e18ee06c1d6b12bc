"""Large plain tables read by Arrow, several times as fast as row by row; others are left to the row reader."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from garnet.io.limits import require_memory
from garnet.io.text_table import BLANKS, TextTable

Places: TypeAlias = "NDArray[np.int64]"

_WORTH_IT = 1 << 20
_BYTES_A_ROW = 60


def arrow_columns(
    text: bytes, table: TextTable, *, skip: bool
) -> tuple[Places, Places, NDArray[np.float64] | None, list[str]] | None:
    """Both endpoints as positions among names, weights, and these names; None for a text that is small or not plain.

    A plain text has no quotes or comments, and equally many cells in every row. Names are taken unchanged.

    Args:
        text: in UTF-8, whole lines; the first is a row.
        table: how to read it.
        skip: whether the first row is a header.
    """
    if len(text) < _WORTH_IT or table.delimiter == BLANKS or table.decimal != "." or table.until is not None:
        return None
    if any(mark in text for mark in (b'"', b"#", b"%", b"\0")) or text.count(b"\r") != text.count(b"\r\n"):
        return None
    # Arrow compares rows with the first only.
    begun = text[: text.find(b"\n", text.find(b"\n") + 1)]
    if any(line.count(table.delimiter.encode()) != table.layout.width - 1 for line in begun.split(b"\n")):
        return None
    try:
        arrow, csv = import_module("pyarrow"), import_module("pyarrow.csv")
    except ImportError:
        return None
    require_memory(_BYTES_A_ROW * text.count(b"\n"), "it")
    layout = table.layout
    ends = [f"f{place}" for place in layout.ends]
    types = dict.fromkeys(ends, arrow.dictionary(arrow.int32(), arrow.string()))
    if layout.weight is not None:
        types[f"f{layout.weight}"] = arrow.float64()
    try:
        found = csv.read_csv(
            arrow.BufferReader(text),
            csv.ReadOptions(autogenerate_column_names=True, skip_rows=int(skip)),
            csv.ParseOptions(delimiter=table.delimiter, quote_char=False),
            csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        ).unify_dictionaries()
    except arrow.ArrowException:
        return None
    weights = None if layout.weight is None else found[f"f{layout.weight}"].to_numpy()
    number: dict[str, int] = {}
    heads, tails = (_numbered(found[end].combine_chunks(), number) for end in ends)
    return heads, tails, weights, list(number)


def _numbered(column: Any, number: dict[str, int]) -> Places:
    """A column as positions among the names, to which its own are added."""
    own = [number.setdefault(name, len(number)) for name in column.dictionary.to_pylist()]
    places: Places = np.array(own, np.int64)[column.indices.to_numpy(zero_copy_only=False)]
    return places
