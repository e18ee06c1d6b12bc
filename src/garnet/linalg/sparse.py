"""Constant sparse matrices, and the products through which a model learns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from garnet.errors import warnings_are
from garnet.linalg.threads import share
from garnet.linalg.triton_ops import Multiplier, usable

_ENTRIES = 1 << 27
"""Entries of a matrix converted to double precision at a time."""


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix in compressed rows on a device."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    width: int

    def product(self, block: Tensor) -> Tensor:
        """The matrix times a block of columns.

        On a CPU it is `embedding_bag`, a sum of weighted rows of a table: the arithmetic of torch's CSR product, two to
        five times faster. On a GPU it is our own kernel, where available.
        """
        if block.device.type == "cpu":
            share()
            return embedding_bag(
                self.columns, block.contiguous(), self.starts, mode="sum", per_sample_weights=self.values,
                include_last_offset=True,
            )  # fmt: skip
        if self.multiplier is not None and block.dtype == torch.float32:
            return self.multiplier.product(block)
        return self._csr @ block

    def to_scipy(self) -> sp.csr_array:
        """The same matrix for SciPy."""
        parts = (to_host(part).numpy() for part in (self.values, self.columns, self.starts))
        return sp.csr_array(tuple(parts), shape=(len(self.starts) - 1, self.width))

    @cached_property
    def multiplier(self) -> Multiplier | None:
        """The kernel for products with it; None on a CPU, or if there is none."""
        return Multiplier(self.starts, self.columns, self.values) if usable(self.values) else None

    @cached_property
    def _csr(self) -> Tensor:
        with warnings_are("ignore", UserWarning):  # that torch's sparse matrices are new
            shape = (len(self.starts) - 1, self.width)
            return torch.sparse_csr_tensor(self.starts, self.columns, self.values, shape, check_invariants=False)


def row_pieces(starts: Tensor) -> Iterator[tuple[slice, slice]]:
    """Some rows at a time, and their entries, few enough for the work done on each."""
    ends = torch.tensor(range(_ENTRIES, int(starts[-1]), _ENTRIES), dtype=torch.int64, device=starts.device)
    cuts = [0, *torch.unique(torch.searchsorted(starts.long(), ends)).tolist(), len(starts) - 1]
    for first, last in pairwise(cuts):
        yield slice(first, last), slice(int(starts[first]), int(starts[last]))


def row_sums(matrix: SparseRows) -> Tensor:
    """(rows,) the sum of the absolute values of each row, in float64."""
    sums = [
        torch.segment_reduce(
            matrix.values[entries].double().abs(), "sum", initial=0,
            offsets=matrix.starts[rows.start : rows.stop + 1].long() - entries.start,
        )
        for rows, entries in row_pieces(matrix.starts)
    ]  # fmt: skip
    return torch.cat(sums)


def to_host(tensor: Tensor) -> Tensor:
    """A tensor in host memory. Copying from a GPU is many times faster into memory that all threads have touched."""
    return tensor if tensor.device.type == "cpu" else torch.empty_like(tensor, device="cpu").zero_().copy_(tensor)


class SparseMatrix:
    """A constant matrix, ready for products with what is being learnt.

    Args:
        matrix: its entries.
        device: where products are computed.
        symmetric: whether it equals its transpose.
        learnt: whether gradients will flow through its products; without them no transpose is made.
        dtype: of its entries, and of what it is multiplied with.

    Attributes:
        shape: rows and columns.
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        device: str = "cpu",
        *,
        symmetric: bool = False,
        learnt: bool = True,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.shape: tuple[int, int] = (int(matrix.shape[0]), int(matrix.shape[1]))
        self._rows = to_rows(matrix, device, dtype)
        self._columns = self._rows
        # The position of each entry of the transposed matrix in the matrix itself.
        self._places: Tensor | None = None
        if learnt and not symmetric:
            numbered = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
            places = numbered.T.tocsr().data
            self._columns = to_rows(sp.csr_array(matrix.T.tocsr()), device, dtype)
            self._places = torch.from_numpy(places.astype(np.int64)).to(device)

    @classmethod
    def differences(cls, edges: Tensor, n: int, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """(m, n), the incidence matrix of edges (2, m): one at the first endpoint of each, minus one at the second."""
        count, device = edges.shape[1], edges.device
        ends, signs = edges.T.flatten(), torch.tensor([1.0, -1.0], dtype=dtype, device=device).repeat(count)
        order = ends.argsort(stable=True)
        starts = torch.searchsorted(ends.index_select(0, order), torch.arange(n + 1, device=device))
        matrix = object.__new__(cls)
        matrix.shape, matrix._places = (count, n), None
        matrix._rows = SparseRows(torch.arange(0, 2 * count + 1, 2, device=device), ends, signs, n)
        matrix._columns = SparseRows(starts, order // 2, signs.index_select(0, order), count)
        return matrix

    @classmethod
    def symmetric(cls, rows: SparseRows) -> SparseMatrix:
        """A symmetric matrix that is already on its device."""
        matrix = object.__new__(cls)
        matrix.shape, matrix._places = (rows.width, rows.width), None
        matrix._rows = matrix._columns = rows
        return matrix

    @property
    def values(self) -> Tensor:
        """Its entries, row by row."""
        return self._rows.values

    def __matmul__(self, block: Tensor) -> Tensor:
        """The matrix times (columns, f); gradients flow to the block."""
        return _product(self._rows, self._columns, block)

    def transposed(self) -> SparseMatrix:
        """The transpose; nothing is copied."""
        other = object.__new__(SparseMatrix)
        other.shape = (self.shape[1], self.shape[0])
        other._rows, other._columns, other._places = self._columns, self._rows, None
        return other

    def dense(self) -> Tensor:
        """All entries, zeros too."""
        whole = torch.zeros(self.shape, dtype=self.values.dtype, device=self.values.device)
        starts = self._rows.starts.long()
        rows = torch.repeat_interleave(torch.arange(self.shape[0], device=whole.device), starts.diff())
        whole[rows, self._rows.columns.long()] = self.values
        return whole

    def each(self, factors: Tensor, blocks: Tensor) -> Tensor:
        """One product per seed, each with its own scaling of the entries.

        Args:
            factors: (S, nnz) by which the entries are multiplied.
            blocks: (S, columns, f).

        Returns:
            (S, rows, f); gradients flow to the blocks.
        """
        if self._places is None:
            raise TypeError("a symmetric matrix has no products of this kind")
        seeds, (rows, columns) = len(factors), self.shape
        forward = side_by_side(self._rows, self.values * factors, columns)
        backward = side_by_side(self._columns, (self.values * factors)[:, self._places], rows)
        product = _product(forward, backward, blocks.reshape(seeds * columns, -1))
        return product.view(seeds, rows, -1)


class _Product(torch.autograd.Function):
    """A product with a constant matrix; its gradient is the product with the transpose."""

    @staticmethod
    def forward(ctx: Any, rows: SparseRows, transposed: SparseRows, block: Tensor) -> Tensor:
        ctx.rows, ctx.transposed = rows, transposed
        return rows.product(block)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _product(ctx.transposed, ctx.rows, gradient)


# Torch does not type `apply`; here and below, a typed name.
_product: Callable[[SparseRows, SparseRows, Tensor], Tensor] = _Product.apply


def to_rows(matrix: sp.csr_array, device: str, dtype: torch.dtype = torch.float32) -> SparseRows:
    """The matrix on a device, in float32 or another precision."""
    integer = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    return SparseRows(
        torch.from_numpy(matrix.indptr.astype(integer)).to(device),
        torch.from_numpy(matrix.indices.astype(integer)).to(device),
        torch.from_numpy(matrix.data.astype(np.float32 if dtype == torch.float32 else np.float64)).to(device, dtype),
        int(matrix.shape[1]),
    )


def side_by_side(rows: SparseRows, values: Tensor, width: int) -> SparseRows:
    """The block-diagonal matrix whose blocks share a pattern and each have a row of `values`."""
    seeds, entries = values.shape
    numbers = torch.arange(seeds, device=values.device)[:, None]
    starts = torch.cat([(rows.starts[:-1].long() + numbers * entries).flatten(), numbers.new_tensor([seeds * entries])])
    columns = (rows.columns.long() + numbers * width).flatten()
    return SparseRows(starts, columns, values.flatten(), seeds * width)


class WeightedMatrix:
    """A symmetric matrix whose entries are being learnt, or attacked: gradients flow to them, too.

    Attributes:
        shape: rows and columns.
        starts: where the entries of each row begin, and the end.
        rows: row of each stored entry, in order.
        columns: column of each.
        values: the entries; gradients flow to what they were computed from.
    """

    def __init__(self, starts: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        self.starts, self.rows, self.columns, self.values = starts, rows, columns, values
        self.shape = (len(starts) - 1, len(starts) - 1)

    @classmethod
    def adjacency(cls, edges: Tensor, weights: Tensor, n: int) -> WeightedMatrix:
        """A, of undirected edges (2, m) with weights (m,), no loops among them."""
        rows, columns = torch.cat([edges[0], edges[1]]), torch.cat([edges[1], edges[0]])
        return cls._sorted(rows, columns, torch.cat([weights, weights]), n)

    @classmethod
    def looped(cls, edges: Tensor, weights: Tensor, n: int) -> WeightedMatrix:
        """A + I, of undirected edges (2, m) with weights (m,), no loops among them."""
        loops = torch.arange(n, device=edges.device)
        rows, columns = torch.cat([edges[0], edges[1], loops]), torch.cat([edges[1], edges[0], loops])
        return cls._sorted(rows, columns, torch.cat([weights, weights, weights.new_ones(n)]), n)

    @classmethod
    def normalized(cls, edges: Tensor, weights: Tensor, n: int) -> WeightedMatrix:
        r""":math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}` of undirected edges (2, m) with weights (m,)."""
        looped = cls.looped(edges, weights, n)
        rows, columns, values = looped.rows, looped.columns, looped.values
        root = torch.zeros(n, dtype=values.dtype, device=values.device).index_add(0, rows, values).rsqrt()
        return cls(looped.starts, rows, columns, root.index_select(0, rows) * values * root.index_select(0, columns))

    @classmethod
    def _sorted(cls, rows: Tensor, columns: Tensor, values: Tensor, n: int) -> WeightedMatrix:
        """The matrix of entries in any order."""
        order = (rows * n + columns).argsort()
        # Not rows[order], here and above: that is several times slower on a CPU.
        rows, columns = rows.index_select(0, order), columns.index_select(0, order)
        starts = torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))
        return cls(starts, rows, columns, values.index_select(0, order))

    def __matmul__(self, block: Tensor) -> Tensor:
        """The matrix times (n, f)."""
        return _weighted_product(self, self.values, block)


# Where at least this share of the entries is stored, a dense matrix is no larger than what stands for a sparse one, and
# several times faster.
_FULL = 0.25


def normalized_matrix(edges: Tensor, weights: Tensor, n: int) -> WeightedMatrix | Tensor:
    r""":math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}` of edges (2, m) with weights (m,); dense if rather full."""
    if 2 * len(weights) + n < _FULL * n * n:
        return WeightedMatrix.normalized(edges, weights, n)
    upper = torch.zeros(n, n, dtype=weights.dtype, device=weights.device).index_put((edges[0], edges[1]), weights)
    looped = upper + upper.T + torch.eye(n, dtype=weights.dtype, device=weights.device)
    root = looped.sum(dim=1).rsqrt()
    return root[:, None] * looped * root


def edge_degrees(edges: Tensor, weights: Tensor, n: int) -> Tensor:
    """(n,) weighted degrees of undirected edges (2, m) with weights (m,); gradients flow to the weights."""
    degrees = torch.zeros(n, dtype=weights.dtype, device=weights.device)
    return degrees.index_add(0, edges[0], weights).index_add(0, edges[1], weights)


# Numbers gathered at a time for inner products: what a CPU's cache holds; a GPU needs more.
_GATHERED, _GATHERED_ON_GPU = 1 << 20, 1 << 26


def pair_products(rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """(..., m) inner products of row i of one block (..., n, f) and row j of another, for each of m pairs (i, j)."""
    # Gathering rows from a column-major tensor takes minutes.
    left, right = left.contiguous(), right.contiguous()
    step = max(
        1, (_GATHERED if left.device.type == "cpu" else _GATHERED_ON_GPU) * left.shape[-2] // max(left.numel(), 1)
    )
    parts = zip(torch.split(rows, step), torch.split(columns, step), strict=True)
    pairs = ((left.index_select(-2, one), right.index_select(-2, other)) for one, other in parts)
    return torch.cat([(one * other).sum(dim=-1) for one, other in pairs], dim=-1)


class _WeightedProduct(torch.autograd.Function):
    """A product with a symmetric matrix; its gradient reaches block and entries."""

    @staticmethod
    def forward(ctx: Any, matrix: WeightedMatrix, values: Tensor, block: Tensor) -> Tensor:
        ctx.matrix = matrix
        ctx.save_for_backward(values, block)
        return _compressed(matrix, values, len(block)).product(block)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        matrix, (values, block) = ctx.matrix, ctx.saved_tensors
        to_block = _compressed(matrix, values, len(block)).product(gradient) if ctx.needs_input_grad[2] else None
        to_values = None
        if ctx.needs_input_grad[1]:
            to_values = pair_products(matrix.rows, matrix.columns, gradient, block)
        return None, to_values, to_block


_weighted_product: Callable[[WeightedMatrix, Tensor, Tensor], Tensor] = _WeightedProduct.apply


def _compressed(matrix: WeightedMatrix, values: Tensor, width: int) -> SparseRows:
    return SparseRows(matrix.starts, matrix.columns, values.detach(), width)
