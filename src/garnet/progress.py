"""How work reports its progress, and what each of its stages cost: one protocol for everything that takes time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from garnet.machine import peak_memory


@dataclass(frozen=True)
class Step:
    """How far some work has got; as text, one line.

    Attributes:
        stage: what is being done.
        detail: which part of it, or what it has found so far.
        done: how much of it is done.
        total: how much there is; 0 where unknown.

    Example:
        >>> print(Step("train", done=20, total=200))
        train 20/200
        >>> print(Step("embed", "columns", done=1_024))
        embed: columns 1,024
    """

    stage: str
    detail: str = ""
    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        far = f" {self.done:,}/{self.total:,}" if self.total else f" {self.done:,}" if self.done else ""
        return f"{self.stage}: {self.detail}{far}" if self.detail else f"{self.stage}{far}"


Progress = Callable[[Step], None]
"""Called as a stage begins, and occasionally while it runs; `print` will do."""


class Stop(Exception):
    """Raised by a `Progress` to end an attack early; what was done so far is returned."""


@dataclass(frozen=True)
class Stage:
    """What a stage cost: its seconds, and the largest resident memory of the process by its end, in bytes."""

    name: str
    seconds: float
    peak_bytes: int


def seconds_of(stages: Iterable[Stage]) -> dict[str, float]:
    """Seconds by stage name, with equal names added up: models of one kind are trained one after another."""
    seconds: dict[str, float] = {}
    for stage in stages:
        seconds[stage.name] = seconds.get(stage.name, 0.0) + stage.seconds
    return seconds


class Clock:
    """Times stages, notifies a listener as each begins, and keeps what each cost."""

    def __init__(self, progress: Progress | None) -> None:
        self.stages: list[Stage] = []
        self._progress = progress
        self._name = ""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Run one stage."""
        self._name = name
        self.tell()
        start = time.perf_counter()
        yield
        self.stages.append(Stage(name, time.perf_counter() - start, peak_memory()))

    def tell(self, detail: str = "", done: int = 0, total: int = 0) -> None:
        """Report how far the running stage has got."""
        if self._progress is not None:
            self._progress(Step(self._name, detail, done, total))
