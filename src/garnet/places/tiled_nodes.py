"""What is counted of scored tiles at nodes, and how tiles are revised by it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from garnet.places.row_files import RowFile, read
from garnet.places.tiled_scores import read_tile, write_tile
from garnet.purify.place import Counted, Revised
from garnet.purify.scores import gathered


def row_at_nodes(files: Sequence[Path], sizes: Sequence[int], of: Counted, largest: bool) -> tuple[Tensor, Tensor]:
    """Sums at nodes of what is counted of the edges of a row of tiles, from the one on the diagonal on; or the largest.

    Args:
        files: of the tiles.
        sizes: nodes of the part of the rows, which is also that of the first columns, and of the parts that follow.
        of: what is counted.
        largest: ask for the largest.

    Returns:
        What is found at the nodes of the rows, and at those of all columns, one part after the other.
    """
    at_rows, at_columns = None, []
    for file, size in zip(files, sizes, strict=True):
        edges, measured = read_tile(file)
        found, (first, second) = of(edges, measured), edges.ends.long()
        at_columns.append(gathered(found, second, size, largest=largest))
        here = gathered(found, first, sizes[0], largest=largest)
        at_rows = here if at_rows is None else together(at_rows, here, largest=largest)
    return torch.zeros(0) if at_rows is None else at_rows, torch.cat(at_columns)


def together(one: Tensor, other: Tensor, *, largest: bool) -> Tensor:
    """What two sets of edges make at the same nodes."""
    return torch.maximum(one, other) if largest else one + other


def revise_tile(file: Path, target: Path, of: Revised, left: RowFile, right: RowFile, width: int) -> None:
    """Write the edges of a tile as they become when the numbers of the nodes at either side are known."""
    edges, measured = read_tile(file)
    write_tile(target, *of(edges._replace(ends=edges.ends.long()), measured, read(left, width), read(right, width)))
