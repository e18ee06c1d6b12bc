"""How large a graph is, as far as its file shows without being read."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from garnet.graph.files import open_source
from garnet.graph.graph import Graph
from garnet.io.edge_source import EdgeSource
from garnet.io.text import unzipping
from garnet.purify.settings import Shape, count_classes

_SAMPLE = 1 << 22  # bytes of a text file to look at
_ROWS = 1 << 18


@dataclass(frozen=True, kw_only=True)
class Extent:
    """The size of a graph.

    Attributes:
        shape: nodes, edges (with `symmetrize` an upper bound), features and classes.
        pairs: rows of the edge list, or entries of the matrix, to read.
        feature_bytes: bytes of all features as stored in tiles.
        text: whether the edges are text, which takes longer to read.
        teaches: whether labels and a split give the class of some nodes.
        exact: false if the numbers of nodes and edges are estimated from the size of the file.
    """

    shape: Shape
    pairs: int
    feature_bytes: int = 0
    text: bool = False
    teaches: bool = False
    exact: bool = True


def extent_of(source: str | Path | Graph, *, symmetrize: bool = False) -> Extent:
    """The size of what `open_source` reads, from headers, or for edge lists from their beginning."""
    opened = open_source(source)
    exact = True
    with opened.reading():
        pairs = opened.count()
        if pairs is None:
            pairs, exact = (0, False) if opened.text is None else _rows_of_text(opened.text)
    nodes, whole = (opened.num_nodes, True) if opened.num_nodes is not None else _named_nodes(opened, pairs)
    edges, features = pairs if symmetrize or opened.row_is != "direction" else pairs // 2, opened.features
    return Extent(
        shape=Shape(
            nodes=nodes,
            edges=edges,
            features=0 if features is None else features.width,
            classes=count_classes(opened.labels),
            mean_degree=2 * edges / max(nodes, 1),
        ),
        pairs=pairs,
        feature_bytes=0 if features is None else features.nbytes,
        text=opened.text is not None,
        teaches=opened.labels is not None and opened.split is not None,
        exact=exact and whole,
    )


def _rows_of_text(path: Path) -> tuple[int, bool]:
    """How many lines a text has, estimated from its beginning, and whether that was all of it."""
    with path.open("rb") as raw:
        if path.suffix.lower() == ".gz":
            with unzipping(), gzip.GzipFile(fileobj=raw) as stream:
                text, more = stream.read(_SAMPLE), bool(stream.read(1))
        else:
            text, more = raw.read(_SAMPLE), bool(raw.read(1))
        share = raw.tell() / path.stat().st_size if more else 1.0
    return max(1, round(text.count(b"\n") / share)), not more


def _named_nodes(source: EdgeSource, pairs: int) -> tuple[int, bool]:
    """How many nodes an edge list names, estimated from its first rows, and whether those were all."""
    heads, tails, _ = next(source.edges(_ROWS), (np.zeros(0, np.int64), np.zeros(0, np.int64), None))
    if not len(heads):
        return 0, True
    names = np.unique(np.concatenate([heads, tails]))
    # A text has lines that are not rows, but hardly as many as rows.
    if 2 * len(heads) > pairs:
        return len(names), len(heads) < _ROWS
    # Names are mostly numbers that begin near 0 and leave few out.
    return min(int(names[-1]) - int(names[0]) + 1, 2 * pairs), False
