"""How many processors this process may use, and how many of them no one else is using."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
_TICKS = 100.0  # of /proc/stat in a second, everywhere
_IDLE = slice(3, 5)  # of its columns: idle, and idle while a disk is waited for
_ROUNDED = 0.25  # share of a processor that other programs may use before it counts as taken


@dataclass(frozen=True)
class Allowed:
    """The processors that this process may use.

    Attributes:
        numbers: those it may run on.
        quota: how much processor time it may use in a second, in seconds; None where there is no limit.
    """

    numbers: frozenset[int]
    quota: float | None

    @property
    def count(self) -> int:
        """How many threads can run at the same time without being throttled, at least one."""
        whole = len(self.numbers)
        return max(1, whole if self.quota is None else min(whole, int(self.quota + _ROUNDED)))


def allowed() -> Allowed:
    """What the affinity of this process and the quotas of its control groups allow."""
    try:
        numbers = frozenset(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        numbers = frozenset(range(os.cpu_count() or 1))
    return Allowed(numbers, min(_quotas(), default=None))


def _quotas() -> Iterator[float]:
    """Every quota that is set on a control group of this process or on one above it."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = GROUPS / "cpu" if controllers else GROUPS
            group = root / path.lstrip("/")
            # In a container the path may be the host's, of which only the last group is visible, as the root.
            for folder in {root, *(one for one in (group, *group.parents) if one.is_relative_to(root))}:
                yield from _quota_of(folder)


def _quota_of(group: Path) -> Iterator[float]:
    """The quota of one control group, of either version."""
    with suppress(OSError, ValueError):
        limit, period = (group / "cpu.max").read_text().split()
        yield int(limit) / int(period)
    with suppress(OSError, ValueError):
        limit, period = ((group / f"cpu.cfs_{one}_us").read_text() for one in ("quota", "period"))
        if int(limit) > 0:
            yield int(limit) / int(period)


@dataclass
class Load:
    """How many processors are left for this process, from one look to the next.

    Others use what is neither idle nor used by this process. Only Linux reports it; elsewhere we assume there are none.
    """

    _before: _Look | None = field(default=None, init=False)

    def left(self) -> int:
        """Processors that nobody else has used since the last look, at least one."""
        able = allowed()
        look = _Look.now(able.numbers)
        before, self._before = self._before, look
        if look is None:
            return able.count
        taken = _waiting(len(able.numbers)) if before is None else look.taken_since(before)
        return max(1, min(able.count, int(len(able.numbers) - taken + _ROUNDED)))


@dataclass(frozen=True)
class _Look:
    """Seconds so far: of the clock, of all processors at rest, and of this process at work."""

    clock: float
    idle: dict[int, float]
    own: float

    @classmethod
    def now(cls, numbers: frozenset[int]) -> _Look | None:
        """A look at /proc/stat; None where there is none."""
        try:
            lines = Path("/proc/stat").read_text().splitlines()
            rows = (line.split() for line in lines if line.startswith("cpu") and not line.startswith("cpu "))
            idle = {int(name[3:]): sum(map(int, times[_IDLE])) / _TICKS for name, *times in rows}
            return cls(time.monotonic(), {one: idle[one] for one in numbers}, time.process_time())
        except (OSError, ValueError, KeyError):
            return None

    def taken_since(self, before: _Look) -> float:
        """Processors that others have used since then, on average."""
        seconds = max(self.clock - before.clock, 1e-3)
        idle = sum(now - before.idle.get(one, now) for one, now in self.idle.items())
        return max(0.0, len(self.idle) - (idle + self.own - before.own) / seconds)


def _waiting(processors: int) -> float:
    """How many of these processors are wanted by the programs ready to run at this moment; a first guess."""
    with suppress(OSError, ValueError, IndexError):
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        return max(0, running - _own_running()) * processors / _machine()
    return 0.0


def _own_running() -> int:
    """Threads of this process that are running or ready to run, this one included."""
    states = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError, IndexError):
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
    return max(1, states.count("R"))


@cache
def _machine() -> int:
    return os.cpu_count() or 1
