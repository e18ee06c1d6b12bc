"""Sparse matrices whose entries a model computes afresh for every seed and layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from garnet.linalg.sparse import SparseRows, pair_products, side_by_side


class Pattern:
    """The sparsity pattern of a symmetric matrix; the entries come with each product.

    Both directions of an edge have a place, so a model may weight them differently.

    Args:
        matrix: its nonzero entries are the places; it must have a place (j, i) for every (i, j).
        device: where products are computed.

    Attributes:
        size: number of rows, and of columns.
        rows: (m,) row of each place, in order.
        columns: (m,) column of each.
        reverse: (m,) number of the place (j, i) for each place (i, j).
    """

    def __init__(self, matrix: sp.csr_array, device: str = "cpu") -> None:
        self.size = int(matrix.shape[0])
        ordered = matrix.sorted_indices()
        numbered = sp.csr_array((np.arange(ordered.nnz), ordered.indices, ordered.indptr), shape=ordered.shape)
        rows = np.repeat(np.arange(self.size), np.diff(ordered.indptr))
        self.rows = torch.from_numpy(rows).to(device)
        self.columns = torch.from_numpy(ordered.indices.astype(np.int64)).to(device)
        self.reverse = torch.from_numpy(numbered.T.tocsr().data.astype(np.int64)).to(device)
        self._starts = torch.from_numpy(ordered.indptr.astype(np.int64)).to(device)

    @classmethod
    def joining(cls, edges: Tensor, n: int) -> tuple[Self, Tensor]:
        """The places of distinct undirected edges (2, e) between n nodes, and (m,) which edge is at each."""
        count = edges.shape[1]
        rows, columns = torch.cat([edges[0], edges[1]]), torch.cat([edges[1], edges[0]])
        order = (rows * n + columns).argsort()
        place = torch.empty_like(order)
        place[order] = torch.arange(2 * count, device=order.device)
        pattern = object.__new__(cls)
        pattern.size = n
        pattern.rows, pattern.columns = rows.index_select(0, order), columns.index_select(0, order)
        # Both directions of an edge were half the list apart.
        pattern.reverse = place.roll(-count).index_select(0, order)
        pattern._starts = torch.searchsorted(pattern.rows, torch.arange(n + 1, device=order.device))
        return pattern, order % max(count, 1)

    def product(self, values: Tensor, blocks: Tensor) -> Tensor:
        """The matrices with these entries times the blocks, one per seed.

        Args:
            values: (S, m) entries.
            blocks: (S, n, f).

        Returns:
            (S, n, f); gradients flow to entries and blocks.
        """
        return _product(self, values, blocks)

    def inner(self, left: Tensor, right: Tensor) -> Tensor:
        """(S, m) inner products of row i of one block (S, n, f) and row j of another, for each place (i, j)."""
        return _inner(self, left, right)

    def row_sums(self, values: Tensor) -> Tensor:
        """(S, n) sums of the entries (S, m) of each row."""
        return values.new_zeros(len(values), self.size).index_add(1, self.rows, values)

    def undirected(self) -> tuple[Tensor, Tensor]:
        """(2, e) the endpoints of each undirected edge, the smaller first, and (m,) which edge is at each place."""
        upper = self.rows < self.columns
        number = upper.cumsum(0) - 1
        return torch.stack([self.rows[upper], self.columns[upper]]), torch.where(upper, number, number[self.reverse])

    def _product(self, values: Tensor, blocks: Tensor) -> Tensor:
        rows = [SparseRows(self._starts, self.columns, one, self.size) for one in values.detach().contiguous()]
        if blocks.device.type == "cpu" or len(blocks) == 1:
            return torch.stack([one.product(block) for one, block in zip(rows, blocks, strict=True)])
        wide = side_by_side(rows[0], values.detach(), self.size)
        return wide.product(blocks.reshape(-1, blocks.shape[2])).view(blocks.shape)

    def _inner(self, left: Tensor, right: Tensor) -> Tensor:
        return pair_products(self.rows, self.columns, left, right)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, values: Tensor, blocks: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, blocks)
        return pattern._product(values, blocks)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        pattern, (values, blocks) = ctx.pattern, ctx.saved_tensors
        to_values = pattern._inner(gradient, blocks) if ctx.needs_input_grad[1] else None
        to_blocks = pattern._product(values[:, pattern.reverse], gradient) if ctx.needs_input_grad[2] else None
        return None, to_values, to_blocks


class _Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, pattern: Pattern, left: Tensor, right: Tensor) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(left, right)
        return pattern._inner(left, right)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        pattern, (left, right) = ctx.pattern, ctx.saved_tensors
        to_left = pattern._product(gradient, right) if ctx.needs_input_grad[1] else None
        to_right = pattern._product(gradient[:, pattern.reverse], left) if ctx.needs_input_grad[2] else None
        return None, to_left, to_right


# Torch does not type `apply`; these names are typed.
_product: Callable[[Pattern, Tensor, Tensor], Tensor] = _Product.apply
_inner: Callable[[Pattern, Tensor, Tensor], Tensor] = _Inner.apply
