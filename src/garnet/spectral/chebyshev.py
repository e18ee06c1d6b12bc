"""Block Krylov iteration with a Chebyshev filter, for large graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.linalg.dense import eigh, eigvalsh
from garnet.linalg.sparse import SparseRows
from garnet.linalg.threads import sharing
from garnet.parameters import Count, NonNegative, number, require_parameters
from garnet.spectral.arpack import Arpack
from garnet.spectral.block_space import Block, Space, lifting
from garnet.spectral.convergence import check
from garnet.spectral.density import largest, level
from garnet.spectral.operator import Operator
from garnet.spectral.spectrum import End, Spectrum

_CROWDED = 0.01
"""Leading eigenvalues that lie within this share of the largest are too close for a filter of moderate degree."""

_PATIENCE = 3
"""Blocks that must halve the residuals of the lagging pairs; otherwise these are searched for directly."""

_BEYOND = 1.4
"""The depth to which a filter lifts below the largest eigenvalue, relative to that of the last wanted one."""

_HOPELESS = 8.0
"""Times the tolerance that residuals may be after one of these."""

_ROUGHLY = 0.25
"""What residuals of a coarser matrix may be, over the tolerance: where eigenvalues crowd, small ones say little."""

_SMOOTHER, _PASSES = 0.1, 3
"""The first filter after a coarser matrix damps values more than this share of the largest eigenvalue below it; later
ones damp values farther below it than the wanted ones; and the maximum number of filters."""


@dataclass(frozen=True, kw_only=True)
class Chebyshev:
    """Leading eigenpairs by a filtered block Krylov basis, in float32, on CPU or CUDA.

    The leading eigenvalues of real graphs are crowded: in a citation graph with 170,000 nodes the 50th and 51st differ
    by 2e-4, and only polynomials of degree 300 separate them. Plain Lanczos gets there with as many blocks, whose
    orthogonalisation costs more than the products; filtered subspace iteration has a small basis, but throws away what
    earlier rounds found. Here the basis grows by blocks as in Lanczos, with the matrix replaced by a Chebyshev
    polynomial of it that is at most 1 on the unwanted part of the spectrum and `growth` at its leading end: few blocks,
    high degree.

    Pairs count as converged when all residuals are within `tol` and stay there after a fresh random block, filtered
    alike, is added: a block Krylov space sees no more copies of a multiple eigenvalue (as in a graph of many
    components) than the block has columns. If the block has as many columns as there are pairs, no fresh block is
    needed.

    Attributes:
        tol: bound on the residuals, relative to the largest eigenvalue; widened to what float32 can reach where a node
            has thousands of neighbours.
        block: columns multiplied at once; None is a quarter of the rank, from 16 to 64.
        growth: how far the filter lifts the leading end; above about 1e4 float32 loses the trailing pairs.
        max_products: matrix-vector products after which to give up; None is 1,000 per pair.
        strict: raise `ConvergenceError` instead of warning when the tolerance is not met.
    """

    tol: NonNegative = 1e-4
    block: Count | None = None
    growth: Annotated[float, number("a number above 1", lambda x: x > 1)] = 300.0
    max_products: Count | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        require_parameters(self)

    def __call__(self, matrix: sp.csr_array | SparseRows, rank: int, *, end: End, seed: int, device: str) -> Spectrum:
        """See `Solver`; the matrix may already be on the device."""
        if isinstance(matrix, sp.csr_array) and self.fills(matrix.shape[0], rank):
            return Arpack(strict=self.strict)(matrix, rank, end=end, seed=seed, device=device)
        with sharing(matrix.nnz + matrix.shape[0] if isinstance(matrix, sp.csr_array) else None):
            operator = Operator(matrix, device, seed)
            found = self.solve(operator, rank, end)
            return Spectrum(found.values, operator.restore(found.vectors), found.residuals, found.products)

    def fills(self, n: int, rank: int) -> bool:
        """Whether the basis would fill the space, which makes a dense solver the better choice."""
        return n < 4 * (rank + self.width(rank))

    def solve(self, space: Space, rank: int, end: End) -> Spectrum:
        """The leading pairs of a space's matrix; their vectors are a tall matrix of that space."""
        top, error = space.alone(largest)
        top, bound = max(top, 1e-6), 1.01 * (top + error)
        begins = level(space, space.random(8), 1.5 * rank, bound, end)
        begun = self._begun(space, rank, top) if end == "algebraic" and top - begins < _CROWDED * top else None
        basis, latest = begun or (self._projection(space, rank), space.random(self.width(rank)))
        # The kernel smears the density outwards: the leading part begins further in than it seems.
        cutoff = max(top - _BEYOND * max(top - begins, 0.01 * top), 0.05 * top)
        # Rounding adds up over a long row: no residual in float32 gets below this.
        tol = max(self.tol, 8 * torch.finfo(torch.float32).eps * float(space.longest) ** 0.5)
        task = _Task(rank=rank, end=end, tol=tol, budget=self.max_products or 1000 * rank, growth=self.growth)
        values, vectors, residuals, top = task.run(space, basis, cutoff, top, latest)
        values, residuals = space.scale * values, space.scale * residuals
        check(residuals, space.scale * tol * top, strict=self.strict, solver="The Chebyshev solver")
        return Spectrum(values, vectors, residuals, space.products)

    def _begun(self, space: Space, rank: int, top: float) -> tuple[_Projection, Block] | None:
        """A basis of a coarser matrix's approximate leading vectors, and more random columns.

        None where a little work does not get them right: a basis grown from nothing is then better.
        """
        if (coarse := space.coarser()) is None:
            return None
        smaller, refined = coarse
        block = self.width(rank)
        wanted = block * math.ceil((rank + block) / block)
        if self.fills(smaller.n, wanted):
            return None
        vectors = self._roughly(smaller, wanted)
        some = [refined(vectors[:, start : start + block]) for start in range(0, wanted, block)]
        share = _SMOOTHER
        for _ in range(_PASSES):
            basis = self._projection(space, rank)
            for columns in some:
                basis.extend(space.filtered(columns, lifting((1 - share) * top, top, self.growth, "algebraic")))
            values, rotation = basis.ritz("algebraic")
            worst = float(basis.pairs(values[:rank], rotation, slice(0, rank))[1].max()) / top
            if worst <= self.tol:
                break
            if worst > _HOPELESS * self.tol:
                return None
            every = [slice(start, start + block) for start in range(0, wanted, block)]
            some = [basis.pairs(values, rotation, which)[0] for which in every]
            share = min(share, max(_BEYOND * (1 - float(values[rank - 1] / values[0])), 1e-4))
        return basis, space.random(block)

    def _roughly(self, space: Space, rank: int) -> Block:
        """Approximate leading vectors of a small matrix with crowded eigenvalues."""
        top, error = largest(space, steps=64)
        begins = level(space, space.random(8), 1.5 * rank, top + 2 * error + 1e-5 * top, "algebraic", steps=400)
        begun = self._begun(space, rank, top) if top - begins < _CROWDED * top else None
        basis, latest = begun or (self._projection(space, rank), space.random(self.width(rank)))
        cutoff = max(top - _BEYOND * max(top - begins, 1e-5 * top), 0.05 * top)
        task = _Task(
            rank=rank, end="algebraic", tol=_ROUGHLY * self.tol, budget=1000 * rank, growth=self.growth, rough=True
        )
        return task.run(space, basis, cutoff, top, latest)[1]

    def _projection(self, space: Space, rank: int) -> _Projection:
        """An empty basis with room for what the pairs need."""
        return _Projection(space, self.width(rank), min(2 * rank + 12 * self.width(rank), space.n // 2))

    def width(self, rank: int) -> int:
        """Columns multiplied at once for this many pairs."""
        return self.block or min(max(16 * round(rank / 64), 16), 64)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """How many pairs are wanted, and when they are good enough.

    Attributes:
        rank: how many pairs.
        end: of the spectrum.
        tol: bound on the residuals, relative to the largest eigenvalue.
        budget: products after which to give up.
        growth: see `Chebyshev`.
        rough: stop when the basis is full, and look for no further copies of multiple eigenvalues.
    """

    rank: int
    end: End
    tol: float
    budget: int
    growth: float
    rough: bool = False

    def run(
        self, space: Space, basis: _Projection, cutoff: float, top: float, latest: Block
    ) -> tuple[Tensor, Block, Tensor, float]:
        """Values, vectors and residuals of the converged pairs, and the largest eigenvalue.

        Args:
            space: the matrix.
            basis: the basis to begin with.
            cutoff: eigenvectors of values above it grow.
            top: estimate of the largest eigenvalue.
            latest: the block it grows from.
        """
        rank, block, end = self.rank, basis.block, self.end
        # A block as wide as the rank sees all the copies of an eigenvalue that are asked for.
        previous, verified = None, self.rough or block >= rank
        lags: list[float] = []
        while True:
            latest = basis.extend(space.filtered(latest, lifting(cutoff, top, self.growth, end)))
            if basis.size < rank + block:
                continue
            values = basis.ritz_values(end)[:rank]
            top = max(top, float(values[0].abs()))
            last = float(values[-1].abs() if end == "magnitude" else values[-1])
            if last < cutoff and basis.size >= 2 * rank:
                cutoff = max(last - 0.1 * (top - last), 0.05 * top)
            exhausted, full = space.products >= self.budget, basis.room < block
            settled = previous is not None and float((values - previous).abs().max()) <= self.tol * top
            previous = values
            if not (settled or exhausted or full):
                continue
            values, rotation = basis.ritz(end)
            values = values[:rank]
            if not (exhausted or full):
                # The last pairs converge last: until they have, there is no need to check the others.
                vectors, residuals = basis.pairs(values, rotation, slice(max(0, rank - block), rank))
                lags.append(float(residuals.max()))
                if lags[-1] > self.tol * top:
                    if len(lags) > _PATIENCE and lags[-1] > 0.5 * lags[-1 - _PATIENCE]:  # more of the same will not do
                        latest, lags = vectors, []
                    continue
                if not verified:
                    latest, verified = space.random(block), True
                    continue
            vectors, residuals = basis.pairs(values, rotation, slice(0, rank))
            converged = bool(residuals.max() <= self.tol * top)
            if exhausted or (converged and verified) or self.rough:
                return values, vectors, residuals, top
            if full:  # start again from the pairs that lag behind
                basis.keep(rotation[:, : rank + 2 * block])
                lagging = residuals.topk(min(block, rank)).indices
                latest = space.map(_columns(lagging), vectors)
            if converged:
                latest, verified = space.random(block), True


class _Projection:
    """An orthonormal basis Q, and H = Q^T A Q, updated as Q grows by blocks of columns."""

    def __init__(self, space: Space, block: int, capacity: int) -> None:
        self._space, self.block = space, block
        self._basis = space.basis(capacity)
        self._capacity = capacity
        self._projected = torch.zeros(0, 0, dtype=torch.float64)

    @property
    def size(self) -> int:
        return self._basis.size

    @property
    def room(self) -> int:
        return self._capacity - self.size

    def extend(self, block: Block) -> Block:
        """Orthonormalise and add what is new in the block, and random columns for the rest; returns what was added."""
        space, wanted = self._space, block.shape[1]
        block = self._orthonormal(space.unit(block))
        while block.shape[1] < wanted:
            more = space.unit(space.random(wanted - block.shape[1]))
            block = self._orthonormal(space.map(_beside, block, more) if block.shape[1] else more)
        self._basis.append(block)
        image = self._basis.dot(space.product(block)).double()
        size, start = self.size, self.size - block.shape[1]
        grown = image.new_zeros(size, size)
        grown[:start, :start] = self._projected.to(grown)
        grown[:, start:] = image
        grown[start:] = image.T
        self._projected = grown
        return block

    def ritz_values(self, end: End) -> Tensor:
        """Eigenvalues of H, the leading one first, at a fraction of the cost of the eigenvectors."""
        values = eigvalsh(self._projected)
        return values[_leading(values, end)].float()

    def ritz(self, end: End) -> tuple[Tensor, Tensor]:
        """Eigenvalues of H, the leading one first, and its eigenvectors."""
        values, vectors = eigh(self._projected)
        order = _leading(values, end)
        return values[order].float(), vectors[:, order]

    def pairs(self, values: Tensor, rotation: Tensor, which: slice) -> tuple[Block, Tensor]:
        """Some of the vectors of a rotated basis, and their residuals as eigenvectors."""
        space, vectors = self._space, self._basis.rotate(rotation[:, which])
        squares = space.sum(_residual(values[which]), space.product(vectors), vectors)
        return vectors, squares.sqrt().float()

    def keep(self, rotation: Tensor) -> None:
        """Keep only these combinations of columns: a thick restart."""
        self._projected = rotation.T @ self._projected @ rotation
        self._basis.keep(rotation)

    def _orthonormal(self, block: Block) -> Block:
        """An orthonormal basis of the part of unit columns outside Q; fewer columns if some add nothing new.

        The Gram matrix is decomposed in float64, and directions that float32 cannot distinguish from rounding are left
        out.
        """
        coefficients = self._basis.dot(block)
        for last in (False, True):
            block, squares = self._basis.remainder(block, coefficients)
            squares, directions = eigh(squares)
            new = squares > 1e-9
            factor = directions[:, new] * squares[new].rsqrt()
            if last or not factor.shape[1]:
                block = self._space.times(block, factor)
                break
            block, coefficients = self._basis.mixed(block, factor)
        return block


def _leading(values: Tensor, end: End) -> Tensor:
    """The order of eigenvalues, the leading one first."""
    return (values if end == "algebraic" else values.abs()).argsort(descending=True)


# Closures sent to the parts of a tall matrix are made by separate functions, so they carry no more than they need.
def _residual(values: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda image, vectors: (image - vectors * values.to(vectors)).square().sum(dim=0)


def _columns(chosen: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda vectors: vectors[:, chosen.to(vectors.device)]


def _beside(left: Tensor, right: Tensor) -> Tensor:
    return torch.cat([left, right], dim=1)
