"""A basis of tall matrices in parts, and what a task does with its part of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from garnet.linalg.dense import fixed_inner, product
from garnet.places.row_files import RowFile, read, write
from garnet.places.row_store import RowMatrix, RowStore

Known = list[tuple[RowFile, int]]
"""Where a part of each block of the basis is, and how many columns it has."""


class TiledBasis:
    """A basis as the list of blocks it grew by; a task holds one at a time. See `Basis`.

    Args:
        parts: where tall matrices are kept.
    """

    def __init__(self, parts: RowStore) -> None:
        self._parts = parts
        self._blocks: list[RowMatrix] = []

    @property
    def size(self) -> int:
        """Columns so far."""
        return sum(block.width for block in self._blocks)

    def dot(self, block: RowMatrix) -> Tensor:
        """See `Basis`."""
        if not self._blocks:
            return torch.zeros(0, block.width)
        widths = itertools.repeat(block.width)
        return self._parts.total(_dot, self._known(), block.files, widths, self._grain).float()

    def less(self, block: RowMatrix, coefficients: Tensor) -> RowMatrix:
        """See `Basis`."""
        return self.remainder(block, coefficients)[0]

    def remainder(self, block: RowMatrix, coefficients: Tensor) -> tuple[RowMatrix, Tensor]:
        """See `Basis`."""
        target, repeated = self._parts.new(block.width), itertools.repeat(coefficients.float())
        squares = self._parts.total(_remainder, self._known(), block.files, repeated, self._grain, target.files)
        return target, squares

    def mixed(self, block: RowMatrix, factor: Tensor) -> tuple[RowMatrix, Tensor]:
        """See `Basis`."""
        target, repeated = self._parts.new(factor.shape[1]), itertools.repeat(factor.float())
        found = self._parts.total(_mixed, self._known(), block.files, repeated, self._grain, target.files)
        return target, found.float()

    def append(self, block: RowMatrix) -> None:
        """See `Basis`."""
        self._blocks.append(block)

    def rotate(self, rotation: Tensor) -> RowMatrix:
        """See `Basis`."""
        target = self._parts.new(rotation.shape[1])
        self._parts.each(_rotate, self._known(), itertools.repeat(rotation.float()), self._grain, target.files)
        return target

    def keep(self, rotation: Tensor) -> None:
        """See `Basis`."""
        self._blocks = [self.rotate(rotation)]

    @property
    def _grain(self) -> Iterator[int]:
        return itertools.repeat(self._parts.grain)

    def _known(self) -> list[Known]:
        return [[(block.files[i], block.width) for block in self._blocks] for i in range(self._parts.count)]


def times(block: RowFile, width: int, factor: Tensor, grain: int, target: RowFile) -> None:
    """Write the rows of a part times a small matrix."""
    write(target, product(read(block, width), factor, rows=grain))


def _dot(known: Known, file: RowFile, width: int, grain: int) -> Tensor:
    return _inner(known, read(file, width), grain)


def _inner(known: Known, block: Tensor, grain: int) -> Tensor:
    none = torch.zeros(2, 0, block.shape[1], dtype=torch.float64)
    return torch.cat([none, *(fixed_inner(read(*one), block, grain) for one in known)], dim=1)


def _remainder(known: Known, file: RowFile, coefficients: Tensor, grain: int, target: RowFile) -> Tensor:
    block = read(file, coefficients.shape[1]).clone()
    for one, part in zip(known, torch.split(coefficients, [width for _, width in known]), strict=True):
        product(read(*one), part, onto=block, factor=-1.0, rows=grain)
    write(target, block)
    return fixed_inner(block, block, grain)


def _mixed(known: Known, file: RowFile, factor: Tensor, grain: int, target: RowFile) -> Tensor:
    block = product(read(file, len(factor)), factor, rows=grain)
    write(target, block)
    return _inner(known, block, grain)


def _rotate(known: Known, rotation: Tensor, grain: int, target: RowFile) -> None:
    image: Tensor | None = None
    for one, part in zip(known, torch.split(rotation, [width for _, width in known]), strict=True):
        image = product(read(*one), part, onto=image, rows=grain)
    if image is not None:
        write(target, image)
