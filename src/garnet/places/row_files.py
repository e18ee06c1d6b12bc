"""Where the rows of a part of a tall matrix are kept: in memory, or in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path
from garnet.io.removal import remove

_AGAIN = "remove its folder, and the work begins again."


class Slot:
    """Rows that stay in memory while there is room, and otherwise in a file.

    Args:
        file: where they are if there is no room.
        room: a list of one number, the bytes left to all who share it.
    """

    def __init__(self, file: Path, room: list[int]) -> None:
        self.file, self._room = file, room
        self._rows: Tensor | None = None

    def place(self) -> Tensor | Path:
        """The rows, which must not be changed, or their file."""
        return self.file if self._rows is None else self._rows

    def put(self, rows: Tensor) -> bool:
        """Keep the rows, if there is room."""
        self.clear()
        if rows.nbytes > self._room[0]:
            return False
        self._room[0] -= rows.nbytes
        # A view of a larger tensor would keep all of it alive.
        self._rows = rows.contiguous() if rows.nbytes == rows.untyped_storage().nbytes() else rows.clone()
        return True

    def clear(self) -> None:
        """Forget the rows."""
        if self._rows is not None:
            self._room[0] += self._rows.nbytes
            self._rows = None

    def remove(self) -> None:
        """Forget the rows, wherever they are kept."""
        self.clear()
        remove(self.file)


RowFile = Path | Slot
"""Where the rows of a part are kept."""


def read(place: RowFile, width: int) -> Tensor:
    """The rows in a place, which must not be changed; a missing or truncated file is an error."""
    file = place.place() if isinstance(place, Slot) else place
    if isinstance(file, Tensor):
        return file
    numbers = _numbers(file)
    if width and len(numbers) % width:
        raise truncated(file)
    return numbers.view(-1, width)


def write(place: RowFile, rows: Tensor) -> int:
    """Put rows in a place, in a file whole or not at all; returns the number of columns."""
    rows = rows.float()
    if not isinstance(place, Slot):
        write_array(place, rows.numpy())
    elif not place.put(rows):
        write_array(place.file, rows.numpy())
    return int(rows.shape[1])


def write_array(file: Path, array: NDArray[Any]) -> None:
    """Write the bytes of an array to a file, whole or not at all."""
    # Not `tofile`, which silently loses the last bytes when the disk is full.
    with atomic_path(file, durable=False) as unfinished, unfinished.open("wb") as stream:
        stream.write(np.ascontiguousarray(array).data)


def remove_all(places: Sequence[RowFile]) -> None:
    """Remove the rows, wherever they are kept."""
    for place in places:
        if isinstance(place, Path):
            remove(place)
        else:
            place.remove()


def truncated(file: Path) -> GarnetError:
    """What to report of a file that is shorter than it was."""
    return GarnetError(f"Cannot read {file}: it is truncated; {_AGAIN}")


def _numbers(file: Path) -> Tensor:
    try:
        with file.open("rb", buffering=0) as stream:
            count = stream.seek(0, 2) // 4
            stream.seek(0)
            # Torch's own memory always begins at the same offset in a cache line, so all work on it rounds alike.
            numbers = torch.empty(count)
            left = memoryview(numbers.numpy().data).cast("B") if count else memoryview(b"")
            while len(left):
                if not (found := stream.readinto(left)):
                    raise truncated(file)
                left = left[found:]
    except OSError as error:
        raise GarnetError(f"Cannot read {file}: {error.strerror}; {_AGAIN}") from error
    return numbers
