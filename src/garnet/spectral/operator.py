"""A symmetric sparse matrix in memory, prepared for many products with blocks of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from garnet.linalg.dense import inner, product
from garnet.linalg.sparse import SparseRows, row_sums, to_rows
from garnet.spectral.block_space import Polynomial, Space, by_products, moments_by_products
from garnet.spectral.coarse import coarsened
from garnet.spectral.ordering import clustered, permuted

T = TypeVar("T")

_CACHED = 200_000  # rows of 64 columns that a GPU's cache holds whatever their order


class Operator:
    """The matrix in float32 on a device, and the tall matrices beside it: see `Space`.

    The rows are renumbered to put neighbours close together, so that products read mostly from cache: on a CPU by
    reverse Cuthill-McKee, on a GPU by `clustered`.

    Args:
        matrix: its entries; `SparseRows` are already on the device.
        device: where to keep it.
        seed: of `random`.

    Attributes:
        n: number of rows.
        products: how many columns the matrix has multiplied so far.
        scale: what the matrix was divided by.
        longest: number of entries of the fullest row.
        device: where it is kept.
    """

    def __init__(self, matrix: sp.csr_array | SparseRows, device: str, seed: int = 0) -> None:
        self.products = 0
        self.device = torch.device(device)
        self._generator = torch.Generator(device).manual_seed(seed)
        self._order: Tensor | None = None
        if isinstance(matrix, SparseRows):
            self.scale = float(row_sums(matrix).max()) or 1.0
            self._rows = replace(matrix, values=(matrix.values / self.scale).float())
        else:
            # In float64: float32 has room for neither 1e30 nor 1e-30 here.
            self.scale = float(abs(matrix).sum(axis=1).max()) or 1.0
            if self.device.type == "cpu":
                order = reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64)
                matrix = matrix[order][:, order]
                matrix.sort_indices()
                self._order = torch.from_numpy(order)
            self._rows = to_rows(matrix / self.scale, device)
        self.n = self._rows.width
        if self._order is None and self.n > _CACHED:
            self._order = clustered(self._rows, self._generator)
            self._rows = permuted(self._rows, self._order)
        self.longest = int(self._rows.starts.diff().max()) if self.n else 0
        self._sloped = self._rows, 1.0

    def product(self, block: Tensor, *, slope: float = 1.0, shift: float = 0.0, minus: Tensor | None = None) -> Tensor:
        """See `Space`."""
        self.products += block.shape[1]
        if self._rows.multiplier is not None:
            return self._rows.multiplier.product(block, slope, shift, minus)
        if self._sloped[1] != slope:
            self._sloped = replace(self._rows, values=self._rows.values * slope), slope
        image = self._sloped[0].product(block)
        if minus is not None:
            image -= minus
        return image.sub_(block, alpha=shift) if shift else image

    def __matmul__(self, block: Tensor) -> Tensor:
        return self.product(block)

    def random(self, columns: int) -> Tensor:
        """See `Space`."""
        return torch.randn(self.n, columns, generator=self._generator, device=self.device)

    def constant(self, value: float) -> Tensor:
        """See `Space`."""
        return torch.full((self.n, 1), value, device=self.device)

    def filtered(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """See `Space`."""
        found: Tensor = by_products(self, block, polynomial)
        return found

    def moments(self, block: Tensor, polynomial: Polynomial) -> Tensor:
        """See `Space`."""
        return moments_by_products(self, block, polynomial)

    def alone(self, work: Callable[[Space], T]) -> T:
        """See `Space`."""
        return work(self)

    def times(self, block: Tensor, factor: Tensor) -> Tensor:
        """See `Space`."""
        return product(block, factor.to(block))

    def unit(self, block: Tensor) -> Tensor:
        """See `Space`."""
        lengths = block.square().sum(dim=0).double().sqrt()
        return self.times(block, torch.diag(1 / lengths.clamp_min(1e-30)))

    def map(self, work: Callable[..., Tensor], *blocks: Tensor) -> Tensor:
        """See `Space`."""
        return work(*blocks)

    def sum(self, work: Callable[..., Tensor], *blocks: Tensor) -> Tensor:
        """See `Space`."""
        return work(*blocks).double()

    def basis(self, capacity: int) -> Columns:
        """See `Space`."""
        return Columns(self.n, capacity, self.device)

    def coarser(self) -> tuple[Operator, Callable[[Tensor], Tensor]] | None:
        """See `Space`."""
        if int((self._rows.values < 0).any()):
            return None
        coarse = coarsened(self._rows, self._generator)
        smaller = Operator(coarse.matrix, str(self.device), self._generator.initial_seed())
        return smaller, lambda vectors: coarse.refined(smaller.restore(vectors))

    def restore(self, vectors: Tensor) -> Tensor:
        """Rows put back in the order of the input matrix."""
        if self._order is None:
            return vectors
        restored = torch.empty_like(vectors)
        restored[self._order] = vectors
        return restored


class Columns:
    """A basis in one piece of memory: see `Basis`."""

    def __init__(self, n: int, capacity: int, device: torch.device) -> None:
        self._all = torch.empty(n, capacity, device=device)
        self.size = 0

    @property
    def _used(self) -> Tensor:
        return self._all[:, : self.size]

    def dot(self, block: Tensor) -> Tensor:
        """See `Basis`."""
        return inner(self._used, block).to(block)

    def less(self, block: Tensor, coefficients: Tensor) -> Tensor:
        """See `Basis`."""
        return product(self._used, coefficients, onto=block.clone(), factor=-1.0)

    def remainder(self, block: Tensor, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        """See `Basis`."""
        if self.size:
            block = self.less(block, coefficients)
        return block, inner(block, block)

    def mixed(self, block: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
        """See `Basis`."""
        image = product(block, factor.to(block))
        return image, self.dot(image)

    def append(self, block: Tensor) -> None:
        """See `Basis`."""
        start, self.size = self.size, self.size + block.shape[1]
        self._all[:, start : self.size] = block

    def rotate(self, rotation: Tensor) -> Tensor:
        """See `Basis`."""
        return product(self._used, rotation.to(self._all))

    def keep(self, rotation: Tensor) -> None:
        """See `Basis`."""
        kept = self.rotate(rotation)
        self.size = kept.shape[1]
        self._all[:, : self.size] = kept
