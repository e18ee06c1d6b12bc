"""A PyTorch Geometric `Data`, in a .pt file or in memory."""

from __future__ import annotations

import pickle
import struct
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.io.arrays import as_array
from garnet.io.checks import Parts, are_classes, checked_features, checked_pairs, checked_size
from garnet.io.edge_source import EdgeSource, rows_of
from garnet.io.limits import require_plausible, require_unfolding
from garnet.io.text import reading

if TYPE_CHECKING:
    from torch_geometric.data import Data

_FIELDS = ("edge_index", "edge_weight", "x", "y", "train_mask", "val_mask", "test_mask", "num_nodes", "pos", "batch")
"""What a `Graph` is read from; positions and batches tell how many nodes there are."""

_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, RuntimeError, TypeError,
    ValueError, struct.error,
)  # fmt: skip
"""How a broken file of torch.save shows itself, depending on where it is broken."""


def open_pt(path: Path) -> EdgeSource:
    """A `Data`, its `to_dict()`, or what an `InMemoryDataset` of one graph has saved; read at once, and whole.

    PyTorch's restricted reader builds tensors, plain containers and the few classes a `Data` is made of; a file that
    names anything else is refused, because unpacking it could run code.
    """
    from torch_geometric.data import Data

    with reading(path):
        loaded = _load(path)
        if isinstance(loaded, tuple) and loaded:
            loaded = loaded[0]
        try:
            found = loaded.to_dict() if isinstance(loaded, Data) else loaded
            # No others are read, and some names are those of methods.
            fields = {name: found[name] for name in _FIELDS if name in found} if isinstance(found, dict) else None
        except _DAMAGE:
            raise GraphError("its Data is damaged.") from None
        if fields is None:
            raise GraphError(f"it holds a {type(loaded).__name__} where a Data is wanted.")
        data = Data.from_dict(fields)
        if fields.get("edge_index") is not None:
            entries = as_array(fields["edge_index"], "An edge_index").shape[-1:]
            n = _num_nodes(data)
            if isinstance(n, int) and n < 2**63:
                require_plausible(n, sum(entries), "nodes")
        return replace(data_source(data), path=path)


def data_source(data: Data) -> EdgeSource:
    """The `edge_index`, `edge_weight`, `x`, `y` and the three masks of a homogeneous `Data`.

    A `y` that is not one integer a node, and masks that hold several splits or overlap, say nothing a `Graph` can hold
    and are left out; the `Data` a purifier gives back still has them. A part that has no mask has no nodes.
    """
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise GraphError(f"The {type(data).__name__} has no edge_index; convert it to a homogeneous Data with one.")
    edges = as_array(edge_index, "An edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise GraphError(f"An edge_index must have shape (2, m). Got {edges.shape} instead.")
    if edges.size and edges.dtype.kind not in "iu":
        raise GraphError(f"An edge_index must hold integers. Got dtype {edges.dtype} instead.")
    n = _num_nodes(data)
    weight = getattr(data, "edge_weight", None)
    weights = None if weight is None else as_array(weight, "An edge_weight").reshape(-1)
    if weights is not None and len(weights) != edges.shape[1]:
        raise GraphError(f"The Data has {edges.shape[1]} edges but {len(weights)} edge weights; give one for each.")
    n = checked_size(n)
    pairs = checked_pairs(edges[0], edges[1], weights, n)
    x = getattr(data, "x", None)
    return EdgeSource(
        edges=lambda _: iter([pairs]),
        num_nodes=n,
        row_is="direction",
        features=None if x is None else rows_of(checked_features(x, n)),
        labels=_class_labels(getattr(data, "y", None), n),
        split=_split_of(data, n),
    )


def _num_nodes(data: Data) -> Any:
    """What a `Data` says, or lets be told from its parts, of its number of nodes."""
    try:
        with warnings.catch_warnings():
            # PyG warns where it can only guess, and then the largest node of an edge tells.
            warnings.simplefilter("ignore")
            return data.num_nodes
    except (RuntimeError, ValueError, TypeError, AttributeError, LookupError, OverflowError) as error:
        raise GraphError("The Data does not tell how many nodes it has; set its num_nodes.") from error


def _class_labels(y: Any, n: int) -> NDArray[Any] | None:
    values = np.zeros(0) if y is None else as_array(y, "A y")
    return values.reshape(-1) if values.dtype.kind in "iu" and values.size == n and are_classes(values) else None


def _split_of(data: Data, n: int) -> Parts | None:
    found = [getattr(data, f"{part}_mask", None) for part in ("train", "val", "test")]
    if found[0] is None:
        return None
    masks = [np.zeros(n, dtype=bool) if mask is None else as_array(mask, "A mask") for mask in found]
    if any(mask.shape != (n,) or mask.dtype.kind not in "biu" for mask in masks):
        return None
    train, val, test = map(np.flatnonzero, masks)
    disjoint = len(np.unique(np.concatenate([train, val, test]))) == len(train) + len(val) + len(test)
    return (train, val, test) if disjoint else None


def _load(path: Path) -> Any:
    """What PyTorch's restricted reader makes of a file."""
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.data.storage import GlobalStorage

    if not hasattr(torch.serialization, "safe_globals"):
        raise GraphError(
            f"a .pt file is read with torch 2.5 or later, and this is {torch.__version__}; save it as .npz."
        )
    _require_unfolding(path)
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, EdgeLayout, GlobalStorage]),
        ):
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise GraphError(
            "it holds more than tensors and a Data, or is no file of torch.save; what else is in it could run code, so "
            "it is not read. Save the Data by itself."
        ) from None
    except _DAMAGE:
        raise GraphError("it is not a whole file of torch.save.") from None


def _require_unfolding(path: Path) -> None:
    """Refuse a zip file whose members are packed, as torch never does, and unfold to far more than they are."""
    try:
        with zipfile.ZipFile(path) as archive:
            unfolded = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, *_DAMAGE):
        return  # torch says what is wrong with it, or reads the format that it had before
    require_unfolding(unfolded, path.stat().st_size, "it")
