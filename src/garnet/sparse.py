"""Sparse matrices that stay as they are, and the products through which a model learns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag


@dataclass(frozen=True, eq=False)
class _Rows:
    """A matrix in compressed rows on a device."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int

    def product(self, block: Tensor) -> Tensor:
        """The matrix times a block of columns.

        On a CPU it is `embedding_bag`, a sum of weighted rows of a table: the arithmetic of torch's CSR product, two to
        five times faster.
        """
        if block.device.type == "cpu":
            return embedding_bag(
                self.columns, block.contiguous(), self.starts, mode="sum", per_sample_weights=self.values,
                include_last_offset=True,
            )  # fmt: skip
        return self._csr @ block

    @cached_property
    def _csr(self) -> Tensor:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse")
            shape = (len(self.starts) - 1, self.width)
            return torch.sparse_csr_tensor(self.starts, self.columns, self.values, shape, check_invariants=False)


class SparseMatrix:
    """A constant matrix, ready for products with what is being learnt.

    Attributes:
        shape: rows and columns.
    """

    def __init__(self, matrix: sp.csr_array, device: str = "cpu", *, symmetric: bool = False) -> None:
        self.shape: tuple[int, int] = tuple(map(int, matrix.shape))  # type: ignore[assignment]
        self._rows = _to_rows(matrix, device)
        self._columns = self._rows
        # Where each entry of the transposed matrix stands in the matrix itself.
        self._places: Tensor | None = None
        if not symmetric:
            numbered = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
            places = numbered.T.tocsr().data
            self._columns = _to_rows(sp.csr_array(matrix.T.tocsr()), device)
            self._places = torch.from_numpy(places.astype(np.int64)).to(device)

    @property
    def values(self) -> Tensor:
        """Its entries, row by row."""
        return self._rows.values

    def __matmul__(self, block: Tensor) -> Tensor:
        """The matrix times (columns, f); gradients flow to the block."""
        return _product(self._rows, self._columns, block)

    def each(self, factors: Tensor, blocks: Tensor) -> Tensor:
        """As many products as there are seeds, each with the entries scaled its own way.

        Args:
            factors: (S, nnz) by which the entries are multiplied.
            blocks: (S, columns, f).

        Returns:
            (S, rows, f); gradients flow to the blocks.
        """
        if self._places is None:
            raise TypeError("a symmetric matrix has no products of this kind")
        seeds, (rows, columns) = len(factors), self.shape
        forward = _side_by_side(self._rows, self.values * factors, columns)
        backward = _side_by_side(self._columns, (self.values * factors)[:, self._places], rows)
        product = _product(forward, backward, blocks.reshape(seeds * columns, -1))
        return product.view(seeds, rows, -1)


class _Product(torch.autograd.Function):
    """A product with a constant matrix; its gradient is the product with the transposed one."""

    @staticmethod
    def forward(ctx: Any, rows: _Rows, transposed: _Rows, block: Tensor) -> Tensor:
        ctx.transposed = transposed
        return rows.product(block)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transposed.product(gradient)


def _product(rows: _Rows, transposed: _Rows, block: Tensor) -> Tensor:
    result: Tensor = _Product.apply(rows, transposed, block)  # type: ignore[no-untyped-call]
    return result


def _to_rows(matrix: sp.csr_array, device: str) -> _Rows:
    integer = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    return _Rows(
        torch.from_numpy(matrix.indptr.astype(integer)).to(device),
        torch.from_numpy(matrix.indices.astype(integer)).to(device),
        torch.from_numpy(matrix.data.astype(np.float32)).to(device),
        int(matrix.shape[1]),
    )


def _side_by_side(rows: _Rows, values: Tensor, width: int) -> _Rows:
    """The block-diagonal matrix whose blocks have the same pattern and each its row of `values`."""
    seeds, entries = values.shape
    numbers = torch.arange(seeds, device=values.device)[:, None]
    starts = torch.cat([(rows.starts[:-1].long() + numbers * entries).flatten(), numbers.new_tensor([seeds * entries])])
    columns = (rows.columns.long() + numbers * width).flatten()
    return _Rows(starts, columns, values.flatten(), seeds * width)
