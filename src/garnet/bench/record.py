"""What was measured: one JSON line a cell, appended whole, read with every damaged line named."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from garnet.bench.study import Cell, describe, key_of
from garnet.errors import GarnetError


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """One measured cell; all of it is plain values.

    Attributes:
        key: of the cell.
        cell: its facts.
        status: `done`, or `failed` and then for a `reason`.
        reason: one sentence; empty if done.
        values: what was measured, by name; for each seed where there are seeds.
        mean: of the accuracies, in percent; None for other measures.
        sd: their standard deviation as a sample; None for fewer than two.
        seconds: of each stage, and `total`.
        peak_bytes: largest resident memory of the process by the end of the cell.
        parameters: all of them, given or not: of the defence or purifier, the backbone and the training.
        seeds: one model each.
        fingerprints: of the graph it was measured on and of its split.
        versions: of Python and the packages.
        machine: processor, cores, memory and GPU.
    """

    key: str
    cell: Mapping[str, Any]
    status: Literal["done", "failed"]
    reason: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    mean: float | None = None
    sd: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    peak_bytes: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str | None] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return describe(self.cell)

    def line(self) -> str:
        """The record as one line of JSON, without its end."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Damage:
    """A line of a file that is no record, and why."""

    line: int
    why: str


_KINDS: dict[str, type | tuple[type, ...]] = {
    "key": str,
    "cell": dict,
    "status": str,
    "reason": str,
    "values": dict,
    "mean": (int, float, type(None)),
    "sd": (int, float, type(None)),
    "seconds": dict,
    "peak_bytes": int,
    "parameters": dict,
    "seeds": list,
    "fingerprints": dict,
    "versions": dict,
    "machine": dict,
}


def spread(values: list[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of a sample; None where there is nothing to compute it from."""
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def read_records(path: str | Path) -> tuple[tuple[Record, ...], tuple[Damage, ...]]:
    """The records of a file and its damaged lines; a file that does not exist has neither.

    Raises:
        GarnetError: the file is there but cannot be read at all.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        raise GarnetError(f"Cannot read the records in {path}: {str(error.strerror).lower()}.") from None
    records: list[Record] = []
    damages: list[Damage] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(_parse(line))
        except ValueError as error:
            damages.append(Damage(number, str(error)))
    return tuple(records), tuple(damages)


def latest(records: tuple[Record, ...]) -> dict[str, Record]:
    """The last record of each key."""
    return {record.key: record for record in records}


def append_record(path: str | Path, record: Record) -> None:
    """Add a record to the end of a file and have it on the disk before returning.

    A run that was killed may have left half a line behind; the new record then begins a line of its own.

    Raises:
        GarnetError: the file cannot be written, or not all of the line.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
            unfinished = size > 0 and os.read(descriptor, 1) != b"\n"
            line = (b"\n" if unfinished else b"") + record.line().encode() + b"\n"
            # One call, so that two runs that share a file cannot mix their lines.
            if os.write(descriptor, line) < len(line):
                raise GarnetError(f"Cannot write {path}: the disk is full.")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise GarnetError(f"Cannot write {path}: {str(error.strerror).lower()}.") from error


def _parse(line: bytes) -> Record:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not a whole line of JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    for name, kind in _KINDS.items():
        if name not in found:
            raise ValueError(f"it lacks {name!r}")
        if not isinstance(found[name], kind):
            raise ValueError(f"its {name!r} is of the wrong kind")
    if found["status"] not in ("done", "failed"):
        raise ValueError(f"its status is {found['status']!r}, neither 'done' nor 'failed'")
    if found["key"] != key_of(found["cell"]) or not {one.name for one in fields(Cell)} <= found["cell"].keys():
        raise ValueError("its key does not belong to its cell")
    if not all(isinstance(seed, int) for seed in found["seeds"]):
        raise ValueError("its 'seeds' are not integers")
    if found["status"] == "done" and found["cell"]["measure"] == "accuracy":
        accuracies = found["values"].get("accuracy")
        if not isinstance(accuracies, list) or not accuracies or not all(map(_is_finite, accuracies)):
            raise ValueError("its accuracies are not numbers")
    known = {name: found[name] for name in _KINDS}
    return Record(**known | {"seeds": tuple(found["seeds"])})


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
