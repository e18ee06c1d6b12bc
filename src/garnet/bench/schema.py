"""What the fields of a record may hold, checked when it is read; those of a cell also when a study names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from garnet.errors import brief
from garnet.parameters import is_number, is_whole

Check = Callable[[Any, str], None]
"""(value, name of its field) -> nothing, or a ValueError that names the field and says what it must be."""

MEASURES = ("accuracy", "evasion", "homophily", "recovery", "rank")
TRAINED = ("accuracy", "evasion")
"""Those that train a model."""
STRESS = "stress"
"""The measure of records that no study asks for: attacks on one defence, as `garnet.bench.attempt` writes them."""
MOST_SEEDS = 10_000
LONGEST_NAME = 255
LONGEST_REASON = 10_000

_LARGEST = 1e100  # squares of more would overflow in a standard deviation, and differences on an axis
_LARGEST_INTEGER = 2**63 - 1
_DEEPEST = 20
_MOST_FLIPS = 1_000_000


def check_cell(cell: Any) -> None:
    """Refuse a cell in which a field is not what it must be.

    Raises:
        ValueError: the field, and what it must be.
    """
    _CELL(cell, "cell")


def check_record(found: Any) -> None:
    """Refuse a record in which a field is not what it must be; fields that are not known are not looked at.

    Raises:
        ValueError: the field, and what it must be.
    """
    _RECORD(found, "")
    cell = found["cell"]
    if cell["measure"] == STRESS:
        _ATTEMPT(cell, "cell")
    if found["status"] == "done":
        check = _ROLES[cell["role"]] if cell["measure"] == STRESS else _VALUES[cell["measure"]]
        check(found["values"], "values")


def _require(holds: bool, value: Any, field: str, must: str) -> None:
    if not holds:
        raise ValueError(f"its field {brief(field)} must be {must}, not {brief(value)}")


def _holding(holds: Callable[[Any], bool], must: str) -> Check:
    return lambda value, field: _require(holds(value), value, field, must)


def _one_of(*names: str) -> Check:
    return _holding(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}")


def _text(longest: int = LONGEST_NAME, *, least: int = 0, printable: bool = True) -> Check:
    def fits(value: Any) -> bool:
        return isinstance(value, str) and least <= len(value) <= longest and (value.isprintable() or not printable)

    return _holding(fits, f"{'printable text' if printable else 'text'} of {least} to {longest} characters")


def _number(low: float = -_LARGEST, high: float = _LARGEST) -> Check:
    return _holding(lambda value: is_number(value) and low <= value <= high, f"a number from {low:g} to {high:g}")


_whole = _holding(
    lambda value: is_whole(value) and 0 <= value <= _LARGEST_INTEGER, f"an integer from 0 to {_LARGEST_INTEGER}"
)


def _maybe(check: Check) -> Check:
    return lambda value, field: None if value is None else check(value, field)


def _several(check: Check, *, least: int = 0, most: int = MOST_SEEDS) -> Check:
    def check_all(values: Any, field: str) -> None:
        fits = isinstance(values, list | tuple) and least <= len(values) <= most
        _require(fits, values, field, f"a list of {least} to {most}")
        for place, value in enumerate(values):
            check(value, f"{field}[{place}]")

    return check_all


def _table(
    needed: Mapping[str, Check] | None = None, known: Mapping[str, Check] | None = None, other: Check | None = None
) -> Check:
    """An object that has all of `needed`, may have `known` fields, and others that pass `other` if it is given."""
    checks = {**(needed or {}), **(known or {})}
    within = "{}.{}".format

    def check(values: Any, field: str) -> None:
        _require(isinstance(values, dict), values, field, "an object")
        for name in needed or ():
            if name not in values:
                raise ValueError(f"it lacks {within(field, name) if field else name!r}")
        for name, value in values.items():
            if other is not None:
                _NAME(name, f"{field}.{name}")
            if one := checks.get(name, other):
                one(value, within(field, name) if field else name)

    return check


def _setting(value: Any, field: str) -> None:
    """A parameter of a cell, as a study can give it."""
    if isinstance(value, list | tuple):
        _several(_number())(value, field)
    elif isinstance(value, str):
        _text()(value, field)
    elif value is not None and not isinstance(value, bool):
        _require(isinstance(value, int | float), value, field, "text, a number or a list of numbers")
        _number()(value, field)


def _plain(value: Any, field: str, depth: int = 0) -> None:
    """Anything that can be written as JSON and read back."""
    _require(depth < _DEEPEST, value, field, f"no more than {_DEEPEST} levels deep")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        if isinstance(name, str):
            _NAME(name, f"{field}.{name}")
        _plain(part, f"{field}.{name}" if isinstance(name, str) else f"{field}[{name}]", depth + 1)
    if isinstance(value, float):
        _require(math.isfinite(value), value, field, "a finite number")


_NAME = _text(least=1)
_PERCENT, _SHARE = _number(0, 100), _number(0, 1)
_SETTINGS = _table(other=_setting)
_SEEDS = _several(_whole)

_CELL = _table(
    {
        "graph": _NAME,
        "attack": _NAME,
        "budget": _maybe(_number(0)),
        "defense": _NAME,
        "backbone": _maybe(_NAME),
        "model": _maybe(_NAME),
        "split": _maybe(_NAME),
        "measure": _one_of(*MEASURES, STRESS),
        "parameters": _SETTINGS,
        "training": _SETTINGS,
        "seeds": _SEEDS,
    },
    other=_plain,
)
_ATTEMPT = _table(
    {
        "role": _one_of("clean", "attack", "unbounded", "verdict"),
        "threat": _one_of("evasion", "poisoning", "both"),
        "adaptive": _holding(lambda value: isinstance(value, bool), "true or false"),
        "allowed": _maybe(_NAME),
        "battery": _NAME,
        "settings": _text(),
    }
)
_RECORD = _table(
    {
        "key": _NAME,
        "cell": _CELL,
        "status": _one_of("done", "failed"),
        "reason": _text(LONGEST_REASON, printable=False),
        "values": _table(other=_plain),
        "mean": _maybe(_PERCENT),
        "sd": _maybe(_PERCENT),
        "seconds": _table(other=_number(0)),
        "peak_bytes": _whole,
        "parameters": _table(other=_plain),
        "seeds": _SEEDS,
        "fingerprints": _table(other=_text()),
        "versions": _table(other=_maybe(_text())),
        "machine": _table(
            known={
                "processor": _maybe(_text()),
                "cores": _maybe(_whole),
                "memory_gb": _maybe(_number(0)),
                "gpu": _maybe(_text()),
            },
            other=_plain,
        ),
    }
)
_ACCURACIES = _table({"accuracy": _several(_PERCENT, least=1)}, {"val_accuracy": _several(_maybe(_PERCENT))})
_VALUES = {
    "accuracy": _ACCURACIES,
    "evasion": _ACCURACIES,
    "homophily": _table(dict.fromkeys(("clean", "input", "after"), _maybe(_SHARE))),
    "recovery": _table(dict.fromkeys(("recall", "precision"), _maybe(_SHARE))),
    "rank": _table({"rank": _whole}, {"singular_values": _several(_number(0))}),
}
_UNDER_THREATS = dict.fromkeys(("evasion", "poisoning"), _maybe(_PERCENT))
_ATTACKED = _table(
    {
        **_UNDER_THREATS,
        "allowed": _whole,
        "flips": _whole,
        "changed": _maybe(_several(_several(_whole, most=_MOST_FLIPS), least=2, most=2)),
        "result": _text(),
    }
)
_ROLES = {
    "clean": _table(
        {
            **_UNDER_THREATS,
            "features": _maybe(_PERCENT),
            "largest_class": _PERCENT,
            "test_nodes": _whole,
            "edges": _whole,
        }
    ),
    "attack": _ATTACKED,
    "unbounded": _ATTACKED,
    "verdict": _table(other=_plain),
}
