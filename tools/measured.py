"""Blocks that are made of what benchmarks measured; a record that lacks something is told in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

from garnet.errors import GarnetError
from tools.records import Benchmark

_UNKNOWN = "the benchmark that writes it"


def measured(*names: str, by: str = "") -> Callable[[Callable[..., str]], Callable[[Path], str]]:
    """Have a function of the figures of some benchmarks make a block of a folder of records.

    Args:
        names: of the records, in the order in which the function takes their figures.
        by: the command that makes them; without it, their names have to do.
    """

    def of(make: Callable[..., str]) -> Callable[[Path], str]:
        @wraps(make)
        def made(records: Path) -> str:
            figures = [_figures(records / f"{name}.json", by) for name in names]
            try:
                return make(*figures)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                what = f"it lacks {error}" if isinstance(error, KeyError) else "a value is of the wrong kind"
                which = " or ".join(str(records / f"{name}.json") for name in names)
                raise GarnetError(f"The record {which} is damaged: {what}. To make it: {by or _UNKNOWN}") from None

        return made

    return of


def _figures(path: Path, by: str) -> Mapping[str, Any]:
    with Benchmark(path, by or _UNKNOWN).figures() as found:
        return found
