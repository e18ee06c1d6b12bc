"""Sums over the edges of scored tiles at their nodes, and how they revise the tiles."""

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
    """Sums, at nodes, over the edges of a row of tiles from the diagonal on; or the largest values.

    Args:
        files: of the tiles.
        sizes: nodes of the part of the rows, which is also that of the first columns, and of the parts that follow.
        of: what to sum.
        largest: ask for the largest.

    Returns:
        The results at the nodes of the rows, and at those of all columns, part by part.
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
    """The results of two sets of edges at the same nodes, combined."""
    return torch.maximum(one, other) if largest else one + other


def revise_tile(file: Path, target: Path, of: Revised, left: RowFile, right: RowFile, width: int) -> None:
    """Write the edges of a tile, revised by the values of the nodes on either side."""
    edges, measured = read_tile(file)
    write_tile(target, *of(edges._replace(ends=edges.ends.long()), measured, read(left, width), read(right, width)))
