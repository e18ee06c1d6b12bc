"""A PyTorch Geometric `Data` in a .pt file."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from garnet.errors import GraphError
from garnet.graph import Graph, as_graph


def read_pt(path: Path, symmetrize: bool) -> Graph:
    """Read a `Data`, its `to_dict()`, or what an `InMemoryDataset` of one graph has saved.

    PyTorch's restricted reader builds tensors, plain containers and the few classes a `Data` is made of; a file that
    names anything else is refused, because unpacking it could run code.

    Args:
        path: the file.
        symmetrize: accept a directed graph and keep each of its edges in both directions.
    """
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.data.storage import GlobalStorage

    if not hasattr(torch.serialization, "safe_globals"):
        raise GraphError(
            f"a .pt file is read with torch 2.5 or later, and this is {torch.__version__}; save it as .npz."
        )
    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, EdgeLayout, GlobalStorage]):
            loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise GraphError(
            "it holds more than tensors and a Data, or is no file of torch.save; what else is in it could run code, so "
            "it is not read. Save the Data by itself."
        ) from None
    except (RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        raise GraphError("it is not a whole file of torch.save.") from None
    if isinstance(loaded, tuple) and loaded:
        loaded = loaded[0]
    if isinstance(loaded, dict):
        loaded = Data.from_dict(loaded)
    if not isinstance(loaded, Data):
        raise GraphError(f"it holds a {type(loaded).__name__} where a Data is wanted.")
    return as_graph(loaded, symmetrize=symmetrize)
