"""Whether recorded cells come out again: a sample of them is measured anew and compared."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from garnet.bench.cell import Cell, Facts, is_own_class, is_own_file
from garnet.bench.measure import of_the_method
from garnet.bench.record import Record
from garnet.bench.schema import STRESS
from garnet.errors import brief

ERRORS = 2.0
"""Standard errors of the difference by which two means may differ; by chance, one pair in twenty does by more."""
LAST_DIGIT = {"accuracy": 0.1, "evasion": 0.1, "homophily": 0.01, "recovery": 0.01, "rank": 0.0}
"""What tables show of a measure: by as little as that figures may always differ."""

_INFINITE = {"inf": math.inf, "-inf": -math.inf}


@dataclass(frozen=True)
class Comparison:
    """A cell as it was recorded and as it is now.

    Attributes:
        then: the record.
        now: the same cell, measured again.
        difference: what is now less what was then; of several figures, the one that is furthest off; None if it failed.
        allowed: by how much it may differ.
    """

    then: Record
    now: Record
    difference: float | None
    allowed: float

    @property
    def agrees(self) -> bool:
        """Whether it came out again."""
        return self.difference is not None and abs(self.difference) <= self.allowed

    @property
    def why(self) -> str:
        """What is known to differ between the two, or why it failed; empty if nothing is."""
        if self.now.status == "failed":
            return self.now.reason
        then, now = self.then.fingerprints, self.now.fingerprints
        other = [f"another {what}" for what, one in then.items() if now.get(what, one) != one]
        if changed := _changed(*(of_the_method(one.parameters) for one in (self.then, self.now))):
            other.append(f"another {changed}")
        return ", ".join(other)


def compare(then: Record, now: Record) -> Comparison:
    """A record beside what was measured again.

    Means of accuracies agree if they differ by at most two standard errors of the difference, over the models of both,
    or by the last digit that a table shows; other figures have no spread and agree to that digit. The same figures to
    the last bit are not to be expected on another machine or with other versions.
    """
    measure = then.cell["measure"]
    least = LAST_DIGIT[measure]
    if now.status == "failed":
        return Comparison(then, now, None, least)
    if then.mean is None or now.mean is None:
        numbers = [name for name in then.values if _is_number(then.values[name]) and _is_number(now.values.get(name))]
        differences = [float(now.values[name]) - float(then.values[name]) for name in numbers]
        return Comparison(then, now, max(differences, key=abs, default=None), least)
    errors = [(one.sd or 0.0) / math.sqrt(max(1, len(one.values["accuracy"]))) for one in (then, now)]
    return Comparison(then, now, now.mean - then.mean, max(least, ERRORS * math.hypot(*errors)))


def can_be_checked(record: Record) -> bool:
    """Whether a record alone says all that it takes to measure it again.

    One of a stress test is of another kind. Files and classes of one's own are found through the study that names them,
    and a module is imported only because a study of one's own says so, never because of a file of records.
    """
    cell = record.cell
    own = is_own_file(cell["graph"]) or any(is_own_class(cell[name]) for name in ("attack", "defense"))
    return record.status == "done" and cell["measure"] != STRESS and not own


def drawn(records: Iterable[Record], sample: int, seed: int) -> tuple[Record, ...]:
    """Some of the records, drawn by a seed and in the order they had; all of them if there are no more."""
    records = list(records)
    by_key = sorted(range(len(records)), key=lambda place: records[place].key)  # whatever the order of the file
    chosen = random.Random(seed).sample(by_key, min(sample, len(records)))
    return tuple(records[place] for place in sorted(chosen))


def cell_of(facts: Facts) -> Cell:
    """The cell with these facts, as `Cell.facts` had given them."""
    pairs = {name: tuple((key, _value(one)) for key, one in facts[name].items()) for name in ("parameters", "training")}
    known = {name: facts[name] for name in Cell.__dataclass_fields__ if name in facts}
    return Cell(**{**known, **pairs, "seeds": tuple(facts["seeds"])})


def _value(value: Any) -> Any:
    if isinstance(value, str):
        return _INFINITE.get(value, value)
    return tuple(value) if isinstance(value, list) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _changed(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first parameter that a record has otherwise than today, with its path; empty if there is none."""
    for name, value in then.items():
        today = now.get(name, value)
        if isinstance(value, Mapping) and isinstance(today, Mapping):
            if inner := _changed(value, today):
                return f"{name}.{inner}"
        elif value != today:
            return f"{name}: {brief(value)} before, {brief(today)} now"
    return ""
