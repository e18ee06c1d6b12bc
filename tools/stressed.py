"""The stress tests in a folder of records, results/stress-*.jsonl: one defence on one graph each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from garnet.bench.outcomes import Battery, batteries
from garnet.bench.record import Record, latest, read_records
from garnet.bench.schema import STRESS
from garnet.bench.verdict import Stress
from garnet.errors import GarnetError

_GRAPHS = ("cora", "citeseer", "pubmed", "chameleon", "squirrel", "polblogs")
_Stamp = tuple[Path, int, int]


@dataclass(frozen=True, eq=False)
class Stressed:
    """A stress test and the file that it comes from.

    Attributes:
        file: its name.
        found: what the test found.
    """

    file: str
    found: Stress

    @property
    def battery(self) -> Battery:
        """The accuracy under every attack."""
        return self.found.battery

    @property
    def name(self) -> str:
        """The defence, with its backbone if that is not the usual."""
        return self.battery.defense.replace("no defence", "none").removesuffix(", gprgnn")


def stressed(records: Path) -> tuple[Stressed, ...]:
    """All of them, each read once as long as its file stays the same.

    Raises:
        GarnetError: a file is damaged or has no battery, or two batteries are of one defence on one graph.
    """
    found = tuple(one for path in sorted(records.glob("stress-*.jsonl")) for one in stressed_in(path))
    seen: dict[tuple[str, str], Stressed] = {}
    for one in found:
        before = seen.setdefault((one.battery.graph, one.name), one)
        if before is not one:
            raise GarnetError(
                f"Both {before.file} and {one.file} have a stress test of {one.name} on {one.battery.graph}, and the "
                "board has one row for it; take one of them out."
            )
    return found


def stressed_in(path: Path) -> tuple[Stressed, ...]:
    """Those of one file."""
    return _stressed(_stamp(path))


def read(path: Path) -> tuple[Record, ...]:
    """The latest record of each cell of a file; a file that does not exist has none."""
    return _read(_stamp(path))


def in_order(graphs: Iterable[str]) -> list[str]:
    """Names of graphs, each once, those of the field first."""
    known = set(graphs)
    return [*(graph for graph in _GRAPHS if graph in known), *sorted(known - set(_GRAPHS))]


def _stamp(path: Path) -> _Stamp:
    if not path.exists():
        return path, 0, 0
    status = path.stat()
    return path, status.st_mtime_ns, status.st_size


@cache
def _read(stamp: _Stamp) -> tuple[Record, ...]:
    records, damages = read_records(stamp[0])
    if damages:
        raise GarnetError(f"Line {damages[0].line} of the record {stamp[0]} is damaged: {damages[0].why}.")
    return tuple(latest(records).values())


@cache
def _stressed(stamp: _Stamp) -> tuple[Stressed, ...]:
    path, records = stamp[0], _read(stamp)
    found = tuple(Stressed(path.name, Stress(battery)) for battery in batteries(records))
    begun = {record.cell["battery"] for record in records if record.cell["measure"] == STRESS}
    if not found or len(found) < len(begun):
        raise GarnetError(
            f"The record {path} has attempts without the accuracy where nobody attacks; run its command again."
        )
    return found
