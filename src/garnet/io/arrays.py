"""Untrusted arrays, tensors and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.limits import require_unfolding


def as_array(values: Any, what: str) -> NDArray[Any]:
    """Anything array-like as an array; an empty list becomes an integer array.

    Args:
        values: an array, a tensor of any floating or integer type, or nested sequences.
        what: what it is, to begin a sentence with.

    Raises:
        GraphError: it cannot become one, some of it is masked, or it is far larger than the memory behind it.
    """
    if isinstance(values, torch.Tensor):
        array = _of_tensor(values, what)
    else:
        if np.ma.is_masked(values):
            raise GraphError(f"{what} must not have masked entries; fill them first.")
        try:
            array = np.asarray(values)
        except (ValueError, TypeError, RuntimeError, OverflowError, AttributeError) as error:
            raise GraphError(f"{what} cannot be made an array ({_line(error)}).") from error
    # A view can repeat one number without end; nothing is copied before this is checked.
    extent = sum((length - 1) * abs(step) for length, step in zip(array.shape, array.strides, strict=True))
    require_unfolding(array.nbytes, max(0, extent) + array.itemsize, what)
    return array.astype(np.int64) if array.shape == (0,) else array


def _of_tensor(tensor: torch.Tensor, what: str) -> NDArray[Any]:
    kind = f"a {str(tensor.layout).removeprefix('torch.')} tensor of {str(tensor.dtype).removeprefix('torch.')}"
    try:
        if tensor.layout == torch.strided:
            require_unfolding(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes(), what)
        # NumPy has no bfloat16, and a Graph keeps 32 bits anyway.
        values = tensor.detach().float() if tensor.is_floating_point() else tensor.detach()
        return np.asarray(values.cpu().numpy())
    except (RuntimeError, TypeError) as error:
        kind += f" on the device {tensor.device}"
        raise GraphError(f"{what} cannot be made an array from {kind}; give a dense one of plain numbers.") from error


def is_sparse_tensor(values: Any) -> bool:
    """Whether it is a tensor that `sound_matrix` takes."""
    return isinstance(values, torch.Tensor) and values.layout in (torch.sparse_coo, torch.sparse_csr)


def sound_matrix(matrix: Any, what: str) -> Any:
    """A SciPy matrix with every index checked, because SciPy's own code trusts them; it shares memory.

    Args:
        matrix: a sparse matrix or array in any format, or a sparse tensor in COO or CSR format.
        what: what it is, to begin a sentence with.

    Raises:
        GraphError: its arrays do not make a matrix of numbers.
    """
    try:
        return _sound(matrix, what)
    except (ValueError, TypeError, RuntimeError, AttributeError, LookupError, OverflowError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"{what} is a damaged {type(matrix).__name__} ({_line(error)}).") from error


def _sound(matrix: Any, what: str) -> Any:
    if isinstance(matrix, torch.Tensor):
        matrix = _of_sparse_tensor(matrix.detach(), what)
    shape = tuple(map(int, matrix.shape))
    if matrix.format in ("csr", "csc", "bsr"):
        return _compressed(matrix, shape, what)
    if matrix.format == "dia":
        data, offsets = _numbers(matrix.data, what), _indices(matrix.offsets, what)
        if data.ndim != 2 or len(data) != len(offsets):
            raise ValueError("it does not have an offset for each diagonal")
        return sp.dia_array((data, offsets), shape=shape)
    if matrix.format == "lil":
        lengths = [len(row) for row in matrix.rows]
        if len(lengths) != shape[0] or lengths != [len(row) for row in matrix.data]:
            raise ValueError("it does not have an index for each entry")
        columns, values = ([one for row in part for one in row] for part in (matrix.rows, matrix.data))
        places: list[Any] = [np.repeat(np.arange(shape[0]), lengths), columns]
    elif matrix.format == "dok":
        places, values = list(zip(*matrix.keys(), strict=True)) or [[]] * len(shape), list(matrix.values())
    else:
        places, values = list(matrix.coords), matrix.data
    places, entries = [_indices(place, what) for place in places], _numbers(values, what)
    if len(places) != len(shape) or any(place.shape != entries.shape for place in places):
        raise ValueError("it does not have an index for each entry")
    for place, bound in zip(places, shape, strict=True):
        _require_between(place, bound)
    return sp.coo_array((entries, tuple(places)), shape=shape)


def _of_sparse_tensor(tensor: torch.Tensor, what: str) -> Any:
    shape = tuple(tensor.shape)
    if tensor.layout == torch.sparse_coo:
        # Not coalesced, which trusts the indices; duplicates are summed later.
        return sp.coo_array((as_array(tensor._values(), what), tuple(as_array(tensor._indices(), what))), shape=shape)
    parts = (tensor.values(), tensor.col_indices(), tensor.crow_indices())
    return sp.csr_array(tuple(as_array(part, what) for part in parts), shape=shape)


def _compressed(matrix: Any, shape: tuple[int, ...], what: str) -> Any:
    starts, places, data = _indices(matrix.indptr, what), _indices(matrix.indices, what), _numbers(matrix.data, what)
    height, width = data.shape[1:] if matrix.format == "bsr" else (1, 1)
    if (
        data.ndim != (3 if matrix.format == "bsr" else 1)
        or 0 in (height, width)
        or shape[0] % height + shape[1] % width
    ):
        raise ValueError(f"its data have the shape {data.shape}")
    rows, columns = shape[0] // height, shape[1] // width
    if matrix.format == "csc":
        rows, columns = columns, rows
    if len(starts) != rows + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"its indptr does not have {rows + 1} numbers that rise from 0")
    entries = int(starts[-1])
    if entries > min(len(places), len(data)):
        raise ValueError(f"it has {len(places)} indices and {len(data)} numbers where its indptr has {entries}")
    _require_between(places[:entries], columns)
    kind = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}[matrix.format]
    return kind((data[:entries], places[:entries], starts), shape=shape)


def _indices(values: Any, what: str) -> NDArray[Any]:
    array = as_array(values, what)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(f"its indices have the shape {array.shape} and the dtype {array.dtype}")
    return array


def _numbers(values: Any, what: str) -> NDArray[Any]:
    array = as_array(values, what)
    if array.dtype.kind not in "biuf":
        raise GraphError(f"{what} must be numbers. Got dtype {array.dtype} instead.")
    # SciPy's own code knows neither 16-bit numbers nor those of more than 64 bits.
    return array.astype(np.float64) if array.dtype.char in "eg" else array


def _require_between(places: NDArray[Any], bound: int) -> None:
    if places.size and not (places.min() >= 0 and places.max() < bound):
        bad = places[(places < 0) | (places >= bound)][0]
        raise ValueError(f"it has the index {bad}, outside of 0 to {bound - 1}")


def _line(error: Exception) -> str:
    """The first line of an error message, without the full stop at its end."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
