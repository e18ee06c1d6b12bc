"""What was measured: one line of JSON per cell, appended whole; reading names every damaged line."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from garnet.bench.cell import Facts, describe, key_of
from garnet.bench.reading import read_small, reason_of
from garnet.bench.schema import check_record
from garnet.errors import GarnetError
from garnet.io.failures import writing


@dataclass(frozen=True, kw_only=True, eq=False)
class Record:
    """One measured cell, in plain values.

    Attributes:
        key: key of the cell.
        cell: its facts.
        status: `done`, or `failed` with a `reason`.
        reason: one sentence; empty if done.
        values: what was measured, by name; for each seed, if there are seeds.
        mean: mean of the accuracies, in percent; None for other measures.
        sd: their standard deviation as a sample; None for fewer than two.
        seconds: of each stage, and `total`.
        peak_bytes: largest resident memory of the process by the end of the cell.
        parameters: all parameters, given or default, of the defence or purifier, the backbone and the training.
        seeds: one model each.
        fingerprints: of the graph it was measured on and of its split.
        versions: of Python and the packages.
        machine: processor, cores, memory and GPU.
    """

    key: str
    cell: Facts
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

    @property
    def outcome(self) -> str:
        """The outcome of the cell in a few words: `82.5 ± 0.3`, `done`, or why it failed."""
        if self.status == "failed":
            return f"failed: {self.reason}"
        if self.mean is None:
            return "done"
        return f"{self.mean:.1f}" + ("" if self.sd is None else f" ± {self.sd:.1f}")

    def line(self) -> str:
        """The record as one line of JSON, without its end."""
        return json.dumps(asdict(self), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Damage:
    """A line of a file that is not a record.

    Attributes:
        line: its number, from 1.
        why: what is wrong with it.
        begun: whether it begins like a record, as a line cut short by a killed run does.
    """

    line: int
    why: str
    begun: bool = False


_MOST_BYTES = 64 << 20
_MOST_LINES = 100_000
_LONGEST_LINE = 1 << 20
_BEGINNING = b'{"key": "'


def spread(values: list[float]) -> tuple[float | None, float | None]:
    """Mean and standard deviation of a sample; None where there is nothing to compute it from."""
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else None


def read_records(path: str | Path) -> tuple[tuple[Record, ...], tuple[Damage, ...]]:
    """The records of a file and its damaged lines; a file that does not exist has neither.

    A record is checked here, all of it, and nowhere else.

    Raises:
        GarnetError: the file is there but cannot be read at all, or is too large for a file of records.
    """
    try:
        content = read_small(path, _MOST_BYTES)
    except FileNotFoundError:
        return (), ()
    except OSError as error:
        raise GarnetError(f"Cannot read the records in {path}: {reason_of(error)}.") from None
    if content.count(b"\n") > _MOST_LINES:
        raise GarnetError(f"Cannot read the records in {path}: it has more than {_MOST_LINES:,} lines.")
    records: list[Record] = []
    damages: list[Damage] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            records.append(_parse(line))
        except ValueError as error:
            damages.append(Damage(number, str(error), begun=line.startswith(_BEGINNING)))
    return tuple(records), tuple(damages)


def read_to_add(path: str | Path) -> tuple[tuple[Record, ...], tuple[Damage, ...]]:
    """The same, of a file to which more records are to be added.

    Raises:
        GarnetError: it cannot be read, or has something else in it.
    """
    records, damages = read_records(path)
    if damages and not records and not any(damage.begun for damage in damages):
        raise GarnetError(f"Cannot add records to {path}: it has something else in it; choose another file.")
    return records, damages


def latest(records: tuple[Record, ...]) -> dict[str, Record]:
    """The last record of each key."""
    return {record.key: record for record in records}


def append_record(path: str | Path, record: Record) -> None:
    """Add a record to the end of a file, whole or not at all, and have it on the disk before returning.

    A run that was killed may have left half a line behind; the new record then begins a line of its own.

    Raises:
        GarnetError: the file cannot be written, or not all of the line.
    """
    # JSON has the same escapes for half of a surrogate pair as Python, which UTF-8 cannot write.
    line = record.line().encode(errors="backslashreplace") + b"\n"
    with writing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            _lock(descriptor)
            size = os.fstat(descriptor).st_size
            os.lseek(descriptor, max(size - 1, 0), os.SEEK_SET)
            unfinished = size > 0 and os.read(descriptor, 1) != b"\n"
            _write(descriptor, b"\n" + line if unfinished else line, size)
        finally:
            os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Wait until no other run is writing; go ahead where the system or the file system has no locks."""
    if sys.platform != "win32":
        import fcntl

        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _write(descriptor: int, line: bytes, size: int) -> None:
    """Write a line at the end of a file of this size; if that fails, cut the file back to it."""
    written = 0
    try:
        with _no_signal_of_size():
            # One call, so that two runs that share a file cannot mix their lines; a second one only tells why not all
            # of it could be written.
            while written < len(line):
                written += os.write(descriptor, line[written:])
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            # Without locks another run may have added a line since, and that must stay.
            if os.fstat(descriptor).st_size == size + written:
                os.ftruncate(descriptor, size)
        raise


@contextmanager
def _no_signal_of_size() -> Iterator[None]:
    """When a file hits the limit on its size, get the error, not the signal, which may end the process.

    Python ignores the signal, but a program that has Python in it, or one that was told to, does not.
    """
    if not hasattr(signal, "SIGXFSZ") or signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGXFSZ})
    try:
        yield
    finally:
        while signal.SIGXFSZ not in before and signal.SIGXFSZ in signal.sigpending():
            signal.sigwait({signal.SIGXFSZ})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _parse(line: bytes) -> Record:
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"it is longer than {_LONGEST_LINE >> 10:,} KiB")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not a whole line of JSON") from None
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")
    check_record(found)
    if found["key"] != key_of(found["cell"]):
        raise ValueError("its key does not belong to its cell")
    known = {one.name: found[one.name] for one in fields(Record)}
    return Record(**known | {"seeds": tuple(found["seeds"])})
