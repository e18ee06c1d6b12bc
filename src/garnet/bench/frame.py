"""Records as flat rows: dictionaries, CSV, or a DataFrame of pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from garnet.bench.record import Record, latest, read_records
from garnet.errors import GarnetError, MissingExtra

if TYPE_CHECKING:
    import pandas as pd

_CELL = ("graph", "attack", "budget", "defense", "backbone", "model", "split", "measure")
_STRESS = ("role", "threat", "adaptive", "allowed")
_NESTED = ("parameters", "training")
_LONG = ("changed", "singular_values", "accuracy", "val_accuracy")
"""Values that are lists, which a flat row cannot hold."""


def load_records(path: str | Path, *, per_seed: bool = False) -> pd.DataFrame:
    """The records in a file as a DataFrame, one row per cell, or one per model.

    Args:
        path: the file (.jsonl).
        per_seed: for cells that train, a row for each seed, with columns `seed`, `accuracy` and `val_accuracy`.

    Raises:
        GarnetError: there is no such file, it cannot be read, or a line of it is no record.
        MissingExtra: pandas is not installed; `as_rows` gives the same as dictionaries.
    """
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise MissingExtra("pandas", "A DataFrame of records", "pandas") from error
    frame: pd.DataFrame = pandas.DataFrame(as_rows(path, per_seed=per_seed))
    return frame


def as_rows(path: str | Path, *, per_seed: bool = False) -> list[dict[str, Any]]:
    """The records in a file as flat dictionaries with the same names, one per cell, or one per model.

    Each has the cell's facts; its parameters as `parameters.NAME` and `training.NAME`; `status` and `reason`; `mean`,
    `sd` and the number of models, `models`; other measured numbers by their names; total `seconds`; and its `key`.
    What a cell lacks is None. If a cell was measured several times, the last one counts.

    Args:
        path: the file (.jsonl).
        per_seed: as for `load_records`.

    Raises:
        GarnetError: there is no such file, it cannot be read, or a line of it is no record.
    """
    if not Path(path).is_file():
        raise GarnetError(f"There are no records at {path}; garnet bench run makes some.")
    records, damages = read_records(path)
    if damages:
        raise GarnetError(f"Line {damages[0].line} of the records in {path} is damaged: {damages[0].why}.")
    return rows_of(latest(records).values(), per_seed=per_seed)


def rows_of(records: Iterable[Record], *, per_seed: bool = False) -> list[dict[str, Any]]:
    """The same for records that have been read."""
    rows = [row for record in records for row in (_of_seeds(record) if per_seed else [_of_cell(record)])]
    names = dict.fromkeys(name for row in rows for name in row)
    ordered = sorted(names, key=lambda name: name in ("status", "reason", "seconds", "key"))
    return [{name: row.get(name) for name in ordered} for row in rows]


def as_csv_text(records: Iterable[Record]) -> str:
    """The same as CSV with a head; None is an empty field, and infinity `inf`."""
    rows = rows_of(records)
    stream = io.StringIO()
    if rows:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return stream.getvalue()


def _facts(record: Record) -> dict[str, Any]:
    cell = record.cell
    facts: dict[str, Any] = {name: cell.get(name) for name in _CELL}
    facts |= {name: cell[name] for name in (*_STRESS, "made") if name in cell}
    for part in _NESTED:
        facts |= {f"{part}.{name}": _flat(value) for name, value in cell[part].items()}
    return facts


def _of_cell(record: Record) -> dict[str, Any]:
    numbers = {name: value for name, value in record.values.items() if name not in _LONG and _is_flat(value)}
    return {
        **_facts(record),
        "mean": record.mean,
        "sd": record.sd,
        "models": len(record.seeds),
        **numbers,
        "status": record.status,
        "reason": record.reason,
        "seconds": record.seconds.get("total"),
        "key": record.key,
    }


def _of_seeds(record: Record) -> list[dict[str, Any]]:
    accuracies: Sequence[Any] = record.values.get("accuracy") or ()
    validated: Sequence[Any] = record.values.get("val_accuracy") or ()
    return [
        {
            **_facts(record),
            "seed": record.seeds[number] if number < len(record.seeds) else None,
            "accuracy": accuracy,
            "val_accuracy": validated[number] if number < len(validated) else None,
            "key": record.key,
        }
        for number, accuracy in enumerate(accuracies)
    ]


def _is_flat(value: Any) -> bool:
    return not isinstance(value, Mapping | list | tuple)


def _flat(value: Any) -> Any:
    return value if _is_flat(value) else str(value)
