"""The proximal step of the nuclear norm, for symmetric matrices, with no more eigenvectors than it needs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# A block as wide as this share of the matrix costs about as much as all eigenvectors.
_WIDEST = 0.3
# The allowed error, as a share of what the step changes.
_TOLERANCE = 0.03
_SPARE, _ROUNDS, _DEGREE, _GROWTH = 24, 12, 8, 1e5


def shrink_(
    matrix: Tensor, threshold: float, start: Tensor | None, *, rank: int | None, generator: torch.Generator
) -> Tensor:
    r"""Move all eigenvalues of a symmetric matrix towards zero by a threshold; those within it become zero.

    This minimises :math:`\tau \|S\|_* + \frac12 \|S - M\|_F^2` over S. Eigenvalues within the threshold leave nothing
    behind, so only the others and their vectors are sought: by a filtered subspace iteration from `start`, in a block
    with spare vectors drawn at random, which grows until some of the values found lie within the threshold. If V holds
    the vectors kept, :math:`\Theta` their values and :math:`R = M V - V \Theta`, and no other value lies outside, the
    error is at most :math:`\sqrt 2 \|R\|_F`, because the step never moves two matrices apart. The iteration ends when
    this is small beside what the step changes, :math:`\tau` for each value kept, and no further value has appeared;
    one just outside may be missed, and would leave little behind. If too many vectors are wanted, all are computed at
    once.

    Args:
        matrix: (n, n), changed in place.
        threshold: :math:`\tau`.
        start: (n, k) vectors kept last time, or None.
        rank: most eigenvalues to keep, the largest in magnitude; None keeps all that the threshold leaves.
        generator: draws the vectors added to `start`, on the device of the matrix.

    Returns:
        (n, k) eigenvectors kept.
    """
    found = None
    if rank is not None and start is None:
        start = matrix.new_empty(len(matrix), 0)
    if start is not None:
        found = _outside(matrix, threshold, start, rank, generator)
    if found is None:
        values, vectors = torch.linalg.eigh(matrix)
        kept = _largest(values, threshold, rank)
        found = values[kept], vectors[:, kept]
    values, vectors = found
    torch.mm(vectors * (values - threshold * values.sign()), vectors.T, out=matrix)
    return vectors


def _outside(
    matrix: Tensor, threshold: float, start: Tensor, rank: int | None, generator: torch.Generator
) -> tuple[Tensor, Tensor] | None:
    """The eigenvalues outside of the threshold with their vectors; None if they are too many for a block."""
    n, known = start.shape
    width = known if rank is None else max(known, rank)
    width += max(_SPARE, width // 4)
    while width < _WIDEST * n:
        others = torch.randn(n, width - known, generator=generator, device=matrix.device)
        block = torch.cat([start, others], dim=1)
        before = -1
        for _ in range(_ROUNDS):
            basis = torch.linalg.qr(block).Q
            image = matrix @ basis
            values, turn = torch.linalg.eigh(basis.T @ image)
            vectors, image = basis @ turn, image @ turn
            kept = _largest(values, threshold, rank)
            residual = torch.linalg.vector_norm((image - vectors * values)[:, kept])
            error, largest = torch.stack([2**0.5 * residual, values.abs().max()]).tolist()
            if len(kept) == width:
                break
            # What is missing from the start appears only as the random vectors are filtered.
            if len(kept) == before and error <= _TOLERANCE * threshold * max(before, 1) ** 0.5:
                return values[kept], vectors[:, kept]
            before = len(kept)
            block = _filtered(matrix, vectors, image, threshold, largest)
        if len(kept) < width:
            # Too many values lie close to the threshold; with a bound on the rank, what was found is enough.
            return None if rank is None else (values[kept], vectors[:, kept])
        start, known = vectors, width
        width += max(_SPARE, width // 2)
    return None


def _filtered(matrix: Tensor, vectors: Tensor, image: Tensor, threshold: float, largest: float) -> Tensor:
    """A Chebyshev polynomial of the matrix times the vectors: at most one within the threshold, large outside."""
    ratio = max(largest / threshold, 1.01)
    # Beyond this growth the largest values would drown the others in rounding errors.
    degree = max(1, min(_DEGREE, int(math.log(_GROWTH) / math.acosh(ratio))))
    before, block = vectors, image / threshold
    for _ in range(degree - 1):
        before, block = block, (matrix @ block).mul_(2 / threshold).sub_(before)
    return block


def _largest(values: Tensor, threshold: float, rank: int | None) -> Tensor:
    """The positions of the values outside the threshold, or of the largest of them."""
    outside = (values.abs() > threshold).nonzero()[:, 0]
    if rank is None or len(outside) <= rank:
        return outside
    return outside[values[outside].abs().topk(rank).indices]
