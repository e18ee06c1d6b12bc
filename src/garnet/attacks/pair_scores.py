r"""What every pair of nodes is worth to an attacker, from a gradient that is never written down whole.

A loss L of :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}` has a gradient
:math:`G = \partial L / \partial \hat A` with as many entries as there are pairs, but of a simple form: tall factors,
and a few dense rows. What is wanted is the derivative by the weight of an undirected edge, which also changes the
degrees d of both its ends:

.. math:: S_{ij} = s_i s_j (G_{ij} + G_{ji}) + t_i + t_j, \quad s = d^{-1/2}, \quad
          t_i = -\frac{1}{2 d_i} \sum_j (G_{ij} + G_{ji}) \hat A_{ij}.

S is made in blocks of rows, so that memory does not grow with the square of the nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.attacks.mutable_graph import MutableGraph
from garnet.linalg.sparse import SparseMatrix

DIVERGED = (
    "The gradient is not a number: the surrogate's training diverged; scale the features down, or lower the attack's "
    "'lr' if it has one."
)

# Rows that are looked at first where few will do; and how many scores are held at a time: few enough for the caches of
# a CPU, as many as a GPU has room for.
_FEW = 512
_AT_ONCE = {"cpu": 1 << 24, "cuda": 1 << 28}


def rows_at_once(n: int, device: str) -> int:
    """How many rows of scores are made together."""
    return max(1, _AT_ONCE.get(torch.device(device).type, _AT_ONCE["cpu"]) // n)


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """Some rows of the scores of all pairs, from the diagonal on.

    Attributes:
        nodes: (n,) the nodes in the order of rows and columns.
        first: the first row, and the first column.
        entries: the scores.
        rest: no score in later blocks is larger than this, or smaller than its negative.
    """

    nodes: NDArray[np.int64]
    first: int
    entries: Tensor
    rest: float = math.inf


@dataclass(frozen=True, eq=False)
class PairGradient:
    r""":math:`G = L R^\top + E_T B \hat A + \hat A E_T B`, with the columns of the identity at some nodes T.

    Attributes:
        left: (n, r), L.
        right: (n, r), R.
        nodes: (m,) the nodes T; may be empty.
        rows: (m, n), B.
    """

    left: Tensor
    right: Tensor
    nodes: Tensor
    rows: Tensor

    def scores(self, graph: MutableGraph) -> Iterator[ScoreBlock]:
        """S, block after block of rows."""
        convolution, n, device = graph.normalized(), graph.n, str(self.left.device)
        matrix = SparseMatrix(convolution, device, symmetric=True)
        root = torch.from_numpy(1 / np.sqrt(graph.degrees)).to(device, self.left.dtype)
        far = matrix @ self.rows.T.contiguous()  # (n, m), the transposed of B Â
        slope = -0.5 * root.square() * self._sums(convolution, matrix, far)
        left, right = root[:, None] * self.left, root[:, None] * self.right
        if not len(self.nodes):
            yield from _largest_first(left, right, slope, rows_at_once(n, device))
            return
        far = far * root[:, None] * root[self.nodes]
        near = self.rows * root
        beside = sp.csr_array(convolution[:, self.nodes.cpu().numpy()] / np.sqrt(graph.degrees)[:, None])
        left, right = _symmetric(left, right, slope)
        step = rows_at_once(n, device)
        for first in range(0, n, step):
            block = left[first : first + step] @ right[first:].T
            self._add_rows(block, first, far, near, beside, device)
            yield ScoreBlock(np.arange(n), first, block)

    def _add_rows(
        self, block: Tensor, first: int, far: Tensor, near: Tensor, beside: sp.csr_array, device: str
    ) -> None:
        r"""Add what :math:`E_T B \hat A + \hat A E_T B` and its transposed give to a block of S."""
        last = first + len(block)
        later = (self.nodes >= first).nonzero()[:, 0]
        block[:, self.nodes[later] - first] += far[first:last, later]
        inside = ((self.nodes >= first) & (self.nodes < last)).nonzero()[:, 0]
        block[self.nodes[inside] - first] += far[first:, inside].T
        direct = SparseMatrix(beside[first:last], device, learnt=False) @ near[:, first:].contiguous()
        block += direct
        if len(block) < len(far):
            direct = SparseMatrix(beside[first:], device, learnt=False) @ near[:, first:last].contiguous()
        block += direct.T

    def _sums(self, convolution: sp.csr_array, matrix: SparseMatrix, far: Tensor) -> Tensor:
        r"""(n,) :math:`\sum_j (G_{ij} + G_{ji}) \hat A_{ij}`."""
        spread = matrix @ torch.cat([self.left, self.right], dim=1)
        width = self.left.shape[1]
        sums = (self.left * spread[:, width:]).sum(dim=1) + (self.right * spread[:, :width]).sum(dim=1)
        if not len(self.nodes):
            return sums
        beside = convolution[:, self.nodes.cpu().numpy()].tocoo()
        rows, columns = (torch.from_numpy(part.astype(np.int64)).to(sums.device) for part in (beside.row, beside.col))
        values = torch.from_numpy(beside.data).to(sums.device, sums.dtype)
        # Both E_T B Â, transposed, and Â E_T B meet Â at the neighbours of T; E_T B Â itself only at T.
        met = values * far[rows, columns]
        sums = sums.index_add(0, rows, 2 * met).index_add(0, self.nodes[columns], met)
        near = torch.zeros(len(sums), len(self.nodes), device=sums.device, dtype=sums.dtype)
        near[rows, columns] = values
        return sums + (self.rows.T * (matrix @ near)).sum(dim=1)


def _symmetric(left: Tensor, right: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Factors of L R^T + R L^T + t 1^T + 1 t^T."""
    both, one = torch.cat([left, right], dim=1), torch.ones_like(slope)[:, None]
    turned = both.roll(left.shape[1], dims=1)
    return torch.cat([both, slope[:, None], one], dim=1), torch.cat([turned, one, slope[:, None]], dim=1)


def _largest_first(left: Tensor, right: Tensor, slope: Tensor, step: int) -> Iterator[ScoreBlock]:
    r"""Blocks of L R^T + R L^T + t 1^T + 1 t^T, those first that may have large entries.

    An entry is at most :math:`\lVert a_i \rVert \lVert a_j \rVert + |t_i| + |t_j|` with the rows a of [L | R]. With
    nodes in the order of that bound, whoever looks for the largest entry seldom needs more than a few hundred rows.
    """
    # Equal lengths of the columns of L and R make the bound sharp.
    balance = (right.norm(dim=0) / left.norm(dim=0).clamp_min(1e-30)).clamp(1e-30, 1e30).sqrt()
    left, right = left * balance, right / balance
    lengths = torch.cat([left, right], dim=1).norm(dim=1)
    order = (lengths.square() + 2 * slope.abs()).argsort(descending=True)
    left, right = _symmetric(left[order], right[order], slope[order])
    from_there_on = [part[order].flip(0).cummax(dim=0).values.flip(0) for part in (lengths, slope.abs())]
    bounds = from_there_on[0].square() + 2 * from_there_on[1]
    nodes, first = order.cpu().numpy(), 0
    step = min(step, _FEW)
    while first < len(nodes):
        last = first + step
        rest = float(bounds[last]) * (1 + 1e-4) if last < len(nodes) else -math.inf
        yield ScoreBlock(nodes, first, left[first:last] @ right[first:].T, rest)
        first = last
