"""How the members of a gang keep step: in a folder, where each leaves a file for every part that it has.

Nobody but the folder is asked, so that a step costs no round of tasks.
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

_FIRST_LOOK, _LAST_LOOK = 2e-4, 4e-3  # seconds between two looks into the folder, which grow from look to look
_PATIENCE, _STEPS = 2.0, 4  # seconds that are waited for the others, or so many times the longest step of one's own


class Apart(Exception):
    """The others do not follow: perhaps they wait for the thread of this one."""


class Meeting:
    """Where a member meets the others after each step.

    Args:
        folder: where they meet.
        parts: that all have together.
    """

    def __init__(self, folder: Path, parts: int) -> None:
        self.folder, self._parts = folder, parts
        self._began, self._longest = time.monotonic(), 0.0

    def wait(self, step: int) -> None:
        """Wait until all parts have left their file of a step.

        Raises:
            Apart: for a while, none did.
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
        # A listing: what other machines have written since is not looked for under a name that was not there before.
        return sum(path.name.startswith(f"{step}-") for path in self.folder.iterdir())


class SharedStore(RowStore):
    """The parts of tall matrices that a member has, in its memory; of sums and products it tells the others.

    All members call the same in the same order. One that begins again finds what it has told before.

    Args:
        folder: where they meet.
        bounds: of all parts.
        hand: the parts that it has.
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
        """What every part has to tell, from what its own have; all but their lengths is alike."""
        step, example = next(self._steps), own[0]
        files = [self.folder / f"{step}-{i}" for i in range(self.count)]
        for i, value in zip(self._hand, own, strict=True):
            if not files[i].exists():
                write_array(files[i], value.numpy())
        self._meeting.wait(step)
        kind = example.numpy().dtype
        return [torch.from_numpy(np.fromfile(file, kind)).view(-1, *example.shape[1:]) for file in files]
