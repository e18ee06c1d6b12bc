"""How eigenvectors turn when a matrix changes a little: products with its reduced resolvents, by MINRES."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from garnet.errors import ParameterError
from garnet.linalg.linear_map import LinearMap
from garnet.linalg.low_rank import LowRank

Product = Callable[[Tensor], Tensor]
"""A symmetric (n, n) matrix as its product with a block (n, c)."""


def resolvent(
    product: Product, values: Tensor, vectors: Tensor, block: Tensor, *, tol: float = 1e-5, steps: int = 1_000
) -> Tensor:
    r""":math:`R_k b_k` for every column k, with :math:`R_k = Q (\lambda_k I - A)^+ Q` and :math:`Q = I - U U^T`.

    The reduced resolvent gives the first-order change of an eigenvector: where A becomes A + E, :math:`u_k` moves out
    of the space of U by :math:`R_k E u_k`.

    Each column is a symmetric system with its own shift; all are solved together by MINRES (Paige and Saunders, 1975),
    with one product with A per step, in the complement of U. The number of steps grows with the root of the spectrum's
    width over the gap between :math:`\lambda_k` and the eigenvalues outside U; converged columns are dropped. Where
    there is no gap, no derivative exists, and the result grows as large as `tol` and `steps` allow.

    Args:
        product: multiplies A with a block.
        values: (c,) shifts, eigenvalues of A.
        vectors: (n, r) orthonormal eigenvectors U of A to leave out, including those of the shifts.
        block: (n, c), its columns the :math:`b_k`; their part in the space of U is ignored.
        tol: residual at which a column stops, relative to the part of :math:`b_k` in the complement.
        steps: maximum number of steps.

    Returns:
        (n, c) in the block's precision and on its device; gradients flow to the block, by the same solve, since
        :math:`R_k` is symmetric.

    Raises:
        ParameterError: the shapes do not match.
    """
    if block.ndim != 2 or values.shape != block.shape[1:] or vectors.ndim != 2 or len(vectors) != len(block):
        shapes = ", ".join(str(tuple(one.shape)) for one in (values, vectors, block))
        raise ParameterError(f"resolvent takes (c,) values, (n, r) vectors and an (n, c) block. Got {shapes} instead.")
    values, vectors = values.detach().to(block), vectors.detach().to(block)
    return _resolvent(lambda columns: _minres(product, values, vectors, columns, tol, steps), block)


def truncated(
    adjacency: LinearMap,
    product: Product,
    values: Tensor,
    vectors: Tensor,
    *,
    tol: float = 1e-5,
    steps: int = 1_000,
) -> LowRank:
    r"""A matrix truncated to rank r, to first order about one whose leading eigenpairs are known.

    With :math:`U, \Lambda` the pairs of :math:`A_0` and :math:`E = A - A_0`, it is :math:`V C V^T` with
    :math:`C = U^T A U` and :math:`u_k + R_k E u_k` the columns of V. At :math:`A = A_0` this is the truncated matrix
    :math:`U \Lambda U^T`, and its derivative is that of the truncation:

    .. math:: P E P + \sum_k \lambda_k (u_k u_k^T E R_k + R_k E u_k u_k^T), \qquad P = U U^T.

    Kept eigenvalues may coincide with each other, but not with one that is left out.

    Args:
        adjacency: A, symmetric; gradients flow to it if it allows them, as `WeightedMatrix.adjacency` does.
        product: multiplies :math:`A_0` with a block.
        values: (r,) leading eigenvalues of :math:`A_0`.
        vectors: (n, r) their eigenvectors, orthonormal, in the precision of A.
        tol: see `resolvent`; there is one solve, and another for a gradient.
        steps: likewise.
    """
    vectors = vectors.detach()
    image = adjacency @ vectors
    return LowRank(vectors + resolvent(product, values, vectors, image, tol=tol, steps=steps), vectors.T @ image)


class _Resolvent(torch.autograd.Function):
    """A linear map that is its own transpose."""

    @staticmethod
    def forward(ctx: Any, solve: Product, block: Tensor) -> Tensor:
        ctx.solve = solve
        return solve(block)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, _resolvent(ctx.solve, gradient)


# Torch does not type `apply`.
_resolvent: Callable[[Product, Tensor], Tensor] = _Resolvent.apply


class _State(NamedTuple):
    """MINRES after some steps; a column of each tensor, or an entry, belongs to one system.

    Attributes:
        numbers: the numbers of these systems.
        shifts: their eigenvalues.
        goals: the residuals at which they stop.
        residuals: their current residuals, up to sign.
        before: the last Lanczos vector but one.
        now: the last Lanczos vector.
        further: the last search direction but one.
        direction: the last search direction.
        found: the solution so far.
        below: the last off-diagonal entry of the tridiagonal matrix.
        cosines: (2, c) of the last rotation but one and of the last.
        sines: (2, c) likewise.
    """

    numbers: Tensor
    shifts: Tensor
    goals: Tensor
    residuals: Tensor
    before: Tensor
    now: Tensor
    further: Tensor
    direction: Tensor
    found: Tensor
    below: Tensor
    cosines: Tensor
    sines: Tensor


@torch.no_grad()
def _minres(product: Product, shifts: Tensor, vectors: Tensor, block: Tensor, tol: float, steps: int) -> Tensor:
    """Lanczos for each column, and Givens rotations that minimise the residual of its tridiagonal system."""
    kind = torch.finfo(block.dtype)

    def deflated(columns: Tensor) -> Tensor:
        return columns - vectors @ (vectors.T @ columns)

    start = deflated(block)
    norms = start.norm(dim=0)
    # What rounding leaves of a column that lies in the space of U is not worth solving for.
    goals = torch.maximum(tol * norms, 10 * kind.eps * block.norm(dim=0))
    solution, nothing = torch.zeros_like(block), torch.zeros_like(block)
    numbers, rotations = torch.arange(len(norms), device=block.device), norms.new_ones(2, len(norms))
    state = _State(
        numbers, shifts, goals, norms, nothing, start / norms.clamp_min(kind.tiny), nothing, nothing, nothing,
        torch.zeros_like(norms), rotations, torch.zeros_like(rotations),
    )  # fmt: skip
    for _ in range(steps):
        active = state.residuals.abs() > state.goals
        left = int(active.sum())
        if 2 * left <= len(active):
            solution[:, state.numbers] = state.found
            if not left:
                return solution
            state = _State(*(one[..., active] for one in state))
            active = active[active]
        image = deflated(state.shifts * state.now - product(state.now))
        state = _stepped(state, image, active, kind.tiny)
    solution[:, state.numbers] = state.found
    return solution


def _stepped(state: _State, image: Tensor, active: Tensor, least: float) -> _State:
    """One step, given the matrix times the last Lanczos vector; inactive solutions stay."""
    now, below, (c_old, c), (s_old, s) = state.now, state.below, state.cosines, state.sines
    after = image - below * state.before
    diagonal = (now * after).sum(dim=0)
    after = after - diagonal * now
    beyond = after.norm(dim=0)
    rotated = c * diagonal - c_old * s * below
    pivot = torch.hypot(rotated, beyond).clamp_min(least)
    newest = now - (s_old * below) * state.further - (s * diagonal + c_old * c * below) * state.direction
    newest = newest / pivot
    cosine, sine = rotated / pivot, beyond / pivot
    return state._replace(
        residuals=torch.where(active, -sine * state.residuals, state.residuals),
        before=now,
        now=after / beyond.clamp_min(least),
        further=state.direction,
        direction=newest,
        found=state.found + torch.where(active, cosine * state.residuals, 0.0) * newest,
        below=beyond,
        cosines=torch.stack([c, cosine]),
        sines=torch.stack([s, sine]),
    )
