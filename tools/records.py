"""Reading committed records; what is missing or damaged is told in one sentence with its cure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from garnet.bench.cell import Cell
from garnet.bench.published import Published, accuracy
from garnet.bench.record import Record, latest, read_records
from garnet.errors import GarnetError


class Cells:
    """The measured cells of a study: the lines of one .jsonl file.

    Args:
        path: the file.
        cure: the command that makes it.

    Raises:
        GarnetError: it is not there, or has a damaged line.
    """

    def __init__(self, path: Path, cure: str) -> None:
        self._path, self._cure = path, cure
        if not path.exists():
            _missing(path, cure)
        records, damages = read_records(path)
        if damages:
            first = damages[0]
            raise GarnetError(f"Line {first.line} of the record {path} is damaged: {first.why}. To make it: {cure}")
        self._records = tuple(record for record in latest(records).values() if record.status == "done")

    def at(self, cell: Cell) -> Record | None:
        """What was measured of a cell, if it was."""
        return next((record for record in self._records if record.key == cell.key), None)

    def where(self, **facts: Any) -> tuple[Record, ...]:
        """The cells with these facts, such as graph="cora"; of facts that are mappings, all must be equal."""
        return tuple(
            record for record in self._records if all(record.cell[name] == value for name, value in facts.items())
        )

    def some(self, **facts: Any) -> tuple[Record, ...]:
        """The same, where a figure cannot do without them."""
        return self.where(**facts) or self._lacking(facts)

    def along(self, parameter: str, **facts: Any) -> dict[float, Record]:
        """The cells with these facts in which a parameter was set to a number, by its value, the smallest first."""
        found = {
            float(record.cell["parameters"][parameter]): record
            for record in self.some(**facts)
            if isinstance(record.cell["parameters"].get(parameter), int | float)
        }
        return dict(sorted(found.items())) or self._lacking({**facts, "a value of": parameter})

    def _lacking(self, facts: Mapping[str, Any]) -> NoReturn:
        wanted = ", ".join(f"{name} {value}" for name, value in facts.items())
        raise GarnetError(f"The record {self._path} has no cell with {wanted}. To make it: {self._cure}")


class Benchmark:
    """The record that a benchmark left: one JSON object.

    Args:
        path: the file.
        cure: the command that makes it.

    Raises:
        GarnetError: it is not there, or is not such a record.
    """

    def __init__(self, path: Path, cure: str) -> None:
        self._path, self._cure = path, cure
        found = read_json(path, cure)
        for name, kind in (("figures", dict), ("command", str), ("machine", dict)):
            if not isinstance(found, dict) or not isinstance(found.get(name), kind):
                self._damaged(f"it has no '{name}'")
        self.command: str = found["command"]
        self._figures: dict[str, Any] = found["figures"]
        self._machine: dict[str, Any] = found["machine"]

    @property
    def machine(self) -> str:
        """What it was measured on, in a few words."""
        return str(self._machine.get("gpu") or f"{self._machine.get('cores', '?')} CPU cores")

    @contextmanager
    def figures(self) -> Iterator[Mapping[str, Any]]:
        """The figures, to be taken apart in the block: what is not as it should be there is damage to the record."""
        try:
            yield self._figures
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            what = f"it lacks {error}" if isinstance(error, KeyError) else "a value is of the wrong kind"
            self._damaged(what)

    def _damaged(self, why: str) -> NoReturn:
        _damaged(self._path, why, self._cure)


def read_json(path: Path, cure: str) -> Any:
    """What a JSON file holds.

    Raises:
        GarnetError: it is not there, cannot be read, or is not JSON.
    """
    try:
        return json.loads(path.read_bytes(), parse_constant=_refuse)
    except FileNotFoundError:
        _missing(path, cure)
    except OSError as error:
        raise GarnetError(f"Cannot read the record {path}: {str(error.strerror).lower()}.") from None
    except (ValueError, RecursionError):
        _damaged(path, "it is not JSON", cure)


def mean_sd(record: Record) -> tuple[float, float]:
    """Mean accuracy and its standard deviation; none is drawn where there is one seed."""
    if record.mean is None:
        raise GarnetError(f"The cell '{record}' has no accuracy, so it cannot be drawn.")
    return record.mean, record.sd or 0.0


def in_paper(record: Record) -> Published | None:
    """The paper's accuracy for the same graph, attack, model and defence, at the parameters of its own."""
    tuned = record.cell["defense"] in ("prognn", "gnnguard")
    return accuracy(record.cell if tuned else {**record.cell, "parameters": {}})


def _damaged(path: Path, why: str, cure: str) -> NoReturn:
    raise GarnetError(f"The record {path} is damaged: {why}. To make it: {cure}") from None


def _missing(path: Path, cure: str) -> NoReturn:
    raise GarnetError(f"There is no record {path}. To make it: {cure}") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
