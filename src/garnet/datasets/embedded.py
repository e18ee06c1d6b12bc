"""The graph that comes with the library, and an attack on it."""

from __future__ import annotations

from importlib.resources import as_file, files

from garnet.graph.files import load_graph
from garnet.graph.graph import Graph
from garnet.graph.perturbation import Perturbation


def cora() -> Graph:
    """Cora, a citation network of papers on machine learning, as most papers on robustness use it.

    Its largest connected component, with words as binary features and seven fields of research as classes, in the order
    of nodes, words and classes of the gnn-benchmark collection, so that published attacks on it fit. `NOTICE`, beside
    this file, says where it comes from.

    Example:
        >>> cora()
        Graph(2485 nodes, 5069 edges, 1433 features, 7 classes)
    """
    with as_file(files("garnet.datasets") / "cora.npz") as path:
        return load_graph(path)


def cora_metattack() -> Perturbation:
    """Our Metattack on `load("cora", split="random")`: flips numbering a fifth of Cora's edges.

    It was made with the defaults of Metattack at the time: `garnet attack cora --attack metattack --budget 20% --split
    0.1,0.1 --set loss=cross-entropy --set unit_rows=false --set hidden=16 --set steps=100`.

    Example:
        >>> cora_metattack().edges.shape
        (2, 1013)
    """
    with as_file(files("garnet.datasets") / "cora-metattack-0.2.npz") as path:
        return Perturbation.load(path)
