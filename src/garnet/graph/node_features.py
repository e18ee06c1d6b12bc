"""Columns of a table of nodes as features: numbers scaled, categories one-hot, missing values marked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, brief

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "nat", "<na>", "?"})
"""Texts that stand for a missing value, in lower case."""

_MOST_CATEGORIES = 200


def are_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values are missing."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "iub":
        return np.zeros(len(values), bool)
    return np.array(
        [
            value is None or (value.strip().lower() in MISSING if isinstance(value, str) else bool(value != value))
            for value in values.tolist()
        ],
        bool,
    ).reshape(len(values))


def encoded(name: str, values: NDArray[Any]) -> tuple[NDArray[np.float32], str]:
    """A column as features, (n, k), and how it was encoded, in words.

    Numbers are centred and divided by their standard deviation; a missing one becomes the mean, and another feature
    marks which are missing. Other values are categories, with one feature each and one for missing values.

    Raises:
        GraphError: there are too many categories.
    """
    missing = are_missing(values)
    found = _numbers(values, missing)
    if found is not None:
        return _scaled(name, found, missing)
    texts = np.array([str(value).strip() for value in values.tolist()], np.object_)
    known = sorted({*texts[~missing].tolist()})
    if len(known) > _MOST_CATEGORIES:
        raise GraphError(
            f"The column {name!r} has {len(known):,} different values, such as {brief(known[0])}, too many for "
            f"categories ({_MOST_CATEGORIES}); leave it out, or group them."
        )
    features = np.zeros((len(values), len(known) + int(missing.any())), np.float32)
    place = {value: i for i, value in enumerate(known)}
    rows = np.flatnonzero(~missing)
    features[rows, [place[value] for value in texts[rows].tolist()]] = 1
    features[missing, -1] = 1
    said = f"{name}: {len(known)} categories"
    return features, f"{said}, and one for {missing.sum():,} missing" if missing.any() else said


def _numbers(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """The values as numbers, 0 where they are missing; None if some are not numbers."""
    if values.dtype.kind in "iubf":
        return np.where(missing, 0.0, values.astype(np.float64))
    numbers = np.zeros(len(values))
    try:
        for place in np.flatnonzero(~missing):
            value = values[place]
            if isinstance(value, str) and "_" in value:
                return None
            numbers[place] = float(value)
    except (TypeError, ValueError):
        return None
    return numbers


def require_finite(name: str, values: NDArray[Any]) -> None:
    """Refuse a column of numbers if one is infinite."""
    numbers = _numbers(values, are_missing(values))
    endless = [] if numbers is None else np.flatnonzero(~np.isfinite(numbers)).tolist()
    if numbers is not None and endless:
        row = endless[0]
        raise GraphError(
            f"The column {name!r} has {numbers[row]} in row {row}, counted from 0; a feature must be finite."
        )


def _scaled(name: str, numbers: NDArray[np.float64], missing: NDArray[np.bool_]) -> tuple[NDArray[np.float32], str]:
    known = numbers[~missing]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = known.mean() if len(known) else 0.0
        spread = known.std() if len(known) else 0.0
    if not np.isfinite(spread):
        largest = known[np.abs(known).argmax()]
        raise GraphError(f"The column {name!r} has {largest:g}, too large to be scaled; give it in other units.")
    scaled = np.where(missing, 0.0, (numbers - mean) / (spread or 1.0))
    said = f"{name}: a number, scaled" + ("" if spread else "; it is the same everywhere")
    if not missing.any():
        return scaled[:, None].astype(np.float32), said
    both = np.stack([scaled, missing], axis=1).astype(np.float32)
    return both, f"{said}, {missing.sum():,} missing (the mean, and a feature that says so)"
