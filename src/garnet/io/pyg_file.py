"""A PyTorch Geometric `Data` in a .pt file."""

from __future__ import annotations

import pickle
import struct
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from garnet.errors import GraphError
from garnet.io.edge_source import EdgeSource
from garnet.io.limits import require_plausible, require_unfolding
from garnet.io.pyg_data import nodes_of, pairs_of, pyg_source
from garnet.io.text import reading

_FIELDS = (
    "edge_index", "edge_weight", "adj_t", "x", "y", "train_mask", "val_mask", "test_mask", "num_nodes", "pos", "batch",
)  # fmt: skip
"""What a `Graph` is read from; positions and batches show how many nodes there are."""

_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, RuntimeError, TypeError,
    ValueError, struct.error,
)  # fmt: skip
"""The errors of a broken torch.save file, depending on where it is broken."""


def open_pt(path: Path) -> EdgeSource:
    """A `Data`, its `to_dict()`, or what an `InMemoryDataset` of one graph has saved; read in one go.

    PyTorch's restricted reader builds tensors, plain containers and the few classes a `Data` is made of; a file that
    names anything else is refused, because unpickling it could run code.
    """
    from torch_geometric.data import Data

    with reading(path):
        loaded = _load(path)
        if isinstance(loaded, tuple) and loaded:
            _require_one(loaded[1] if len(loaded) > 1 else None)
            loaded = loaded[0]
        try:
            found = loaded.to_dict() if isinstance(loaded, Data) else loaded
            # No others are read, and some names are also methods.
            fields = {name: found[name] for name in _FIELDS if name in found} if isinstance(found, dict) else None
        except _DAMAGE:
            raise GraphError("its Data is damaged.") from None
        if fields is None:
            raise GraphError(f"it holds a {type(loaded).__name__} where a Data is wanted.")
        data = Data.from_dict(fields)
        entries, n = len(pairs_of(fields, "Data")[0]), nodes_of(data)
        if isinstance(n, int) and n < 2**63:
            require_plausible(n, entries, "nodes")
        return replace(pyg_source(data), path=path)


def _require_one(slices: Any) -> None:
    """Refuse what an `InMemoryDataset` of several graphs has saved: its slices say where each begins."""
    cuts = slices.values() if isinstance(slices, dict) else ()
    graphs = max((cut.numel() for cut in cuts if isinstance(cut, torch.Tensor)), default=2) - 1
    if graphs > 1:
        raise GraphError(f"it holds a dataset of {graphs} graphs, not one; purify these in Python, GARNET()(dataset).")


def _load(path: Path) -> Any:
    """The contents of a file, by PyTorch's restricted reader."""
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
    """Refuse a zip file with compressed members, which torch never writes, that unpack to far more than their size."""
    try:
        with zipfile.ZipFile(path) as archive:
            unfolded = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, *_DAMAGE):
        return  # torch reports what is wrong with it, or reads its older format
    require_unfolding(unfolded, path.stat().st_size, "it")
