"""What can go wrong: each error is one sentence that names the value and says what to do about it."""

from __future__ import annotations

import reprlib
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal


class GarnetError(Exception):
    """Everything the library raises on purpose; the command line turns it into one line."""


class GraphError(GarnetError, ValueError):
    """The input is not a graph this library can read or purify."""


class ParameterError(GarnetError, ValueError):
    """A parameter lies outside what is allowed."""


class BudgetError(GarnetError, ValueError):
    """An attack may not, or cannot, change that much."""


class AttackError(GarnetError, RuntimeError):
    """An attack broke its rules, or cannot do what it was asked to do."""


class ConvergenceError(GarnetError, RuntimeError):
    """An eigensolver that was asked to be strict did not reach its tolerance."""


class MissingExtra(GarnetError, ImportError):
    """A package that only this call needs is not installed."""

    def __init__(self, package: str, purpose: str, cure: str) -> None:
        super().__init__(f"{purpose} needs the package '{package}': pip install '{cure}'.")
        self._said = package, purpose, cure

    def __reduce__(self) -> tuple[type[MissingExtra], tuple[str, str, str]]:
        """Pickle it by its arguments, on its way from a worker."""
        return type(self), self._said


class GarnetWarning(UserWarning):
    """Every warning of the library; the command line turns it into one line."""


class RankWarning(GarnetWarning):
    """The rank is too small to say more than which component a node is in."""


class BipartiteWarning(GarnetWarning):
    """A graph that looks bipartite was given edges within a side; the message says how to mark the sides."""


class RecallWarning(GarnetWarning):
    """A search found fewer neighbours than it was asked for; the message says how many."""


class ConvergenceWarning(GarnetWarning):
    """An eigensolver stopped short of its tolerance; the message has the residual it reached."""


_SHORT = reprlib.Repr()
_SHORT.maxother = 120


def brief(value: object) -> str:
    """A value in a form that fits a sentence: its `repr` on one line, cut short, whatever its class makes of `repr`.

    Example:
        >>> brief([[[]]]), len(brief("x" * 1000))
        ('[[[]]]', 120)
    """
    text = " ".join(_SHORT.repr_instance(value, 0).split())
    return text.encode("utf-8", "backslashreplace").decode()


_LOCK = threading.RLock()


@contextmanager
def warnings_are(action: Literal["ignore", "error"], *categories: type[Warning]) -> Iterator[None]:
    """Treat warnings of some categories this way for a while, then restore the filters.

    The filters belong to the process. Two threads that saved and restored them in turn could leave one thread's filters
    behind for good, so they wait for each other.
    """
    with _LOCK, warnings.catch_warnings():
        for category in categories:
            warnings.simplefilter(action, category)
        yield
