"""How the members of a gang keep in step: through a folder where each leaves a file for every part it has.

Only the folder is consulted, so a step costs no round of tasks.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from garnet.linalg.fixed_point import number
from garnet.places.row_files import write_array
from garnet.places.row_store import RowStore

_FIRST_LOOK, _LAST_LOOK = 2e-4, 4e-3  # seconds between two looks into the folder, growing each time
_PATIENCE, _STEPS = 2.0, 4  # seconds to wait for the others, or this many times one's own longest step


class Apart(Exception):
    """The others do not follow: perhaps they are waiting for this one's thread."""


class Meeting:
    """Where a member meets the others after each step.

    Args:
        folder: where they meet.
        parts: number of parts that all have together.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.folder, self._parts = folder, parts
        self._began, self._longest = time.monotonic(), 0.0

    def wait(self, step: int) -> None:
        """Wait until all parts have left their files for a step.

        Raises:
            Apart: none did for a while.
        """
        self._longest = max(self._longest, time.monotonic() - self._began)
        patience = max(_PATIENCE, _STEPS * self._longest)
        seen, since, pause = 0, time.monotonic(), _FIRST_LOOK
        while (there := self._count(step)) < self._parts:
            now = time.monotonic()
            if there > seen:
                seen, since = there, now
            elif now - since > patience:
                raise Apart
            time.sleep(pause)
            pause = min(1.5 * pause, _LAST_LOOK)
        self._began = time.monotonic()

    def _count(self, step: int) -> int:
        # A listing: a lookup by name may not find what other machines have written since it last failed.
        return sum(path.name.startswith(f"{step}-") for path in self.folder.iterdir())


class SharedStore(RowStore):
    """A member's parts of tall matrices, in its memory; it shares sums and products with the others.

    All members make the same calls in the same order. One that restarts finds what it shared before.

    Args:
        folder: where they meet.
        bounds: of all parts.
        hand: the parts that this member has.
    """

    def __init__(self, folder: Path, bounds: Sequence[int], hand: Sequence[int]) -> None:
        super().__init__(folder, bounds)
        self._hand, self._meeting, self._steps = hand, Meeting(folder, self.count), itertools.count()
        self.hold(sys.maxsize)

    def each(self, work: Callable[..., Any], *columns: Iterable[Any]) -> list[Any]:
        """See `RowStore`: for its own parts."""
        tasks = list(itertools.islice(zip(*columns, strict=False), self.count))
        return [work(*tasks[i]) for i in self._hand]

    def total(self, work: Callable[..., Tensor], *columns: Iterable[Any]) -> Tensor:
        """See `RowStore`: over the parts of all."""
        return number(torch.stack(self.told(self.each(work, *columns))).sum(dim=0))

    def told(self, own: Sequence[Tensor]) -> list[Tensor]:
        """What every part shares, given what this member's parts share; only their lengths may differ."""
        step, example = next(self._steps), own[0]
        files = [self.folder / f"{step}-{i}" for i in range(self.count)]
        for i, value in zip(self._hand, own, strict=True):
            if not files[i].exists():
                write_array(files[i], value.numpy())
        self._meeting.wait(step)
        kind = example.numpy().dtype
        return [torch.from_numpy(np.fromfile(file, kind)).view(-1, *example.shape[1:]) for file in files]
