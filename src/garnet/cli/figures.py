"""What the commands report of models' predictions: every metric, the one that suits the labels first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from garnet.cli.console import printable

if TYPE_CHECKING:
    from garnet.training.verdict import Verdict

_FIGURES = ("accuracy", "balanced_accuracy", "f1", "macro_f1", "auc", "average_precision")
_MISSED = ("never_predicted", "never_found")
_MOST_CLASSES = 10


def figures(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts on several models, on the same nodes, for JSON: means, and each model's own."""
    first = verdicts[0]
    return {
        "headline": first.headline,
        **{name: _over_models([getattr(one, name) for one in verdicts]) for name in _FIGURES},
        **{name: _by_class([getattr(one, name) for one in verdicts]) for name in ("recall", "precision")},
        "positive": first.positive,
        "largest": first.largest,
        "largest_share": first.largest_share,
        "always_largest": first.always_largest,
        "judged": list(first.counts),
        **{name: _models_by_class([getattr(one, name) for one in verdicts]) for name in _MISSED},
    }


def lines(facts: dict[str, Any], *, test: bool = True) -> list[tuple[str, str]]:
    """The same as names and text, the headline first.

    Args:
        facts: what `figures` returns, and `classes`, their names.
        test: whether they are for test nodes, as the first lines then say.
    """
    count, where = len(facts["accuracy"]["seeds"]), "test " if test else ""
    models = f", {count} seed{'' if count == 1 else 's'}" if test else ""
    called = [printable(name) for name in facts["classes"]]
    shown = {
        "accuracy": f"{_percent(facts['accuracy'])}{models}",
        "balanced accuracy": f"{_percent(facts['balanced_accuracy'])}{models}",
    }
    if facts["headline"] != "accuracy":
        shown["accuracy"] += f"; always saying {called[facts['largest']]} has {facts['always_largest']:.1%}"
    headline = facts["headline"]
    first = [(f"{where}{name}", shown[name]) for name in sorted(shown, key=lambda name: (name != headline, name))]
    positive = facts["positive"]
    of = ", mean over classes" if positive is None else f" of class {called[positive]}"
    chance = "" if positive is None else f"; chance is {facts['judged'][positive] / sum(facts['judged']):.3f}"
    return [
        *first,
        (f"F1{of}", _number(facts["f1"])),
        ("AUC" if positive is not None else f"AUC{of}", f"{_number(facts['auc'])}; chance is 0.5"),
        (f"average precision{of}", f"{_number(facts['average_precision'])}{chance}"),
        ("recall of each class", _recalls(facts["recall"], called)),
    ]


def _over_models(values: Iterable[float]) -> dict[str, Any]:
    import numpy as np

    seeds = [value if math.isfinite(value) else None for value in values]
    known = [value for value in seeds if value is not None]
    return {
        "mean": float(np.mean(known)) if known else None,
        "sd": float(np.std(known, ddof=1)) if len(known) > 1 else None,
        "seeds": seeds,
    }


def _by_class(rows: Iterable[Sequence[float]]) -> list[float | None]:
    """The mean over models for each class; None where no model has a value."""
    columns = [[value for value in column if math.isfinite(value)] for column in zip(*rows, strict=True)]
    return [sum(column) / len(column) if column else None for column in columns]


def _models_by_class(missed: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """How many models miss each class that any of them misses."""
    every = sorted({one for classes in missed for one in classes})
    return {str(one): sum(one in classes for classes in missed) for one in every}


def _percent(figure: dict[str, Any]) -> str:
    spread = "" if figure["sd"] is None else f" ± {figure['sd']:.1%}"
    return "-" if figure["mean"] is None else f"{figure['mean']:.1%}{spread}"


def _number(figure: dict[str, Any]) -> str:
    spread = "" if figure["sd"] is None else f" ± {figure['sd']:.3f}"
    return "-" if figure["mean"] is None else f"{figure['mean']:.3f}{spread}"


def _recalls(shares: Sequence[float | None], called: Sequence[str]) -> str:
    """Recalls of a few classes in their order; of many classes, the lowest."""
    known = {one: share for one, share in enumerate(shares) if share is not None}
    order = list(known) if len(known) <= _MOST_CLASSES else sorted(known, key=lambda one: known[one])
    said = ", ".join(f"{called[one]}: {known[one]:.0%}" for one in order[:_MOST_CLASSES])
    return said if len(known) <= _MOST_CLASSES else f"{said}, and more in {len(known) - _MOST_CLASSES} others"
