"""Graphs fetched by PyTorch Geometric's downloader, kept in the layout of a data folder."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from garnet.errors import GraphError, MissingExtra
from garnet.graph.graph import Graph, as_graph
from garnet.io.atomic import atomic_path
from garnet.io.failures import writing
from garnet.io.scratch import Scratch

_FETCHED = {
    "citeseer": ("Planetoid", "CiteSeer", {}),
    "pubmed": ("Planetoid", "PubMed", {}),
    "chameleon": ("WikipediaNetwork", "chameleon", {"geom_gcn_preprocess": True}),
    "squirrel": ("WikipediaNetwork", "squirrel", {"geom_gcn_preprocess": True}),
    "coauthor-physics": ("Coauthor", "Physics", {}),
}


def can_fetch(name: str) -> bool:
    """Whether PyTorch Geometric knows where to get the graph."""
    return name in _FETCHED


def fetch(name: str, path: Path) -> Graph:
    """Download a graph to `path`, with its Geom-GCN splits, if it has them, in a folder `splits` beside it.

    Only arrays of numbers are kept: PyTorch Geometric's own files, some of them pickled, are removed again.

    Args:
        name: of the graph, one that `can_fetch` knows.
        path: the .npz file to write; its folder is created if necessary.

    Returns:
        The graph, without a split.

    Raises:
        GraphError: the download failed, or the folder cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise GraphError(
            f"Cannot make the folder {path.parent} ({error.strerror}); set GARNET_CACHE to one that can be written."
        ) from error
    data = _download(name)
    masks = [getattr(data, f"{part}_mask", None) for part in ("train", "val", "test")]
    for part in ("train", "val", "test"):
        data[f"{part}_mask"] = None
    graph = as_graph(data, symmetrize=True)
    if isinstance(graph.features, np.ndarray):
        graph = as_graph(graph, features=sp.csr_array(graph.features))
    if name == "citeseer":
        graph = _largest_component(graph)
    several = [mask.cpu().numpy().astype(bool) for mask in masks if mask is not None and mask.ndim == 2]
    if len(several) == len(masks):
        _keep_splits(several, path.parent)
    graph.save(path)
    return graph


def _download(name: str) -> Any:
    try:
        from torch_geometric import datasets
    except ImportError as error:
        raise MissingExtra("torch_geometric", f"Downloading {name}", "torch_geometric") from error
    kind, title, options = _FETCHED[name]
    # PyTorch Geometric reports its progress on standard error.
    with Scratch.make(Path(tempfile.gettempdir())) as scratch, contextlib.redirect_stderr(io.StringIO()):
        try:
            return getattr(datasets, kind)(root=str(scratch.folder), name=title, **options)[0]
        # Whichever library fetches or unpacks the file raises its own errors, and not all are OS errors.
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise GraphError(f"PyTorch Geometric could not download it ({reason[:200]})") from error


def _largest_component(graph: Graph) -> Graph:
    _, component = sp.csgraph.connected_components(graph.adjacency, directed=False)
    nodes = np.flatnonzero(component == np.bincount(component).argmax())
    return as_graph(
        graph.adjacency[nodes][:, nodes],
        features=None if graph.features is None else graph.features[nodes],
        labels=None if graph.labels is None else graph.labels[nodes],
    )


def _keep_splits(masks: list[Any], folder: Path) -> None:
    with writing(folder):
        (folder / "splits").mkdir(exist_ok=True)
    for number in range(masks[0].shape[1]):
        train, val, test = (mask[:, number] for mask in masks)
        path = folder / "splits" / f"{folder.name}_split_0.6_0.2_{number}.npz"
        if path.exists():
            continue
        with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
            np.savez_compressed(stream, train_mask=train, val_mask=val, test_mask=test)
