"""What every reader returns: a graph as a stream of pairs, and its node data; plain arrays, all checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.io.checks import (
    Pairs,
    Parts,
    RowIs,
    checked_label_names,
    checked_labels,
    checked_names,
    checked_sides,
    checked_size,
    checked_split,
)
from garnet.io.table_layout import Duplicates
from garnet.io.text import reading

FeatureBlock: TypeAlias = "NDArray[np.float32] | sp.csr_array"
"""Some rows of features, dense or sparse."""


@dataclass(frozen=True, kw_only=True, eq=False)
class FeatureRows:
    """Features read some rows at a time.

    Attributes:
        width: number of features.
        sparse: whether the rows are CSR.
        nbytes: bytes of all of them, as stored in tiles.
        rows: yields the rows of all nodes in order, in pieces of about this many numbers, or of any size for None; each
            piece has passed `checked_features`.
        by_columns: whether they are stored by column, and can only be read whole.
    """

    width: int
    sparse: bool
    nbytes: int
    rows: Callable[[int | None], Iterator[FeatureBlock]]
    by_columns: bool = False


NamedPairs: TypeAlias = "tuple[Pairs, list[str] | None]"
"""Pairs, and the names of nodes, if their ends are places among these, each of which has some pair; or None."""


def named(pairs: Pairs, names: list[str]) -> Pairs:
    """Pairs whose endpoints are names, in arrays of Python objects."""
    table = np.array(names, np.object_)
    return table[pairs[0]], table[pairs[1]], pairs[2]


@dataclass(frozen=True, kw_only=True, eq=False)
class EdgeSource:
    """A graph as its reader returns it; node data are checked when it is made, the rest as it is read.

    Attributes:
        edges: yields the pairs in pieces of at most this many, in any order, with repeats and loops; each piece has
            passed `checked_pairs`. For None, given by callers that will hold them all, pieces are of any size.
        num_nodes: number of nodes, n; None if pairs are given by name, and nodes are numbered in the order of their
            names. Names are 64-bit integers, or in pieces of any size also texts, in arrays of Python objects.
        row_is: what a pair stands for.
        named: returns all pairs at once by the positions of names, which is faster; None if these are not known.
        features: of the nodes; or None.
        labels: (n,) int64 classes, -1 where unknown; or None.
        split: nodes for training, validation and testing; or None.
        names: (n,) integers or texts; None if they are node numbers, or come with the pairs.
        sides: (n,) true for the nodes of the second side of a bipartite graph; None for other graphs.
        label_names: names of the classes; None if they have none.
        count: returns the number of pairs; None if only reading them all would show it.
        text: the file of the pairs, if it is a text file.
        path: the file, or the folder; None for a graph in memory.
        table: how a table of edges is read, in words; empty for other sources.
        duplicates: how several pairs of the same nodes are merged.
        later: returns, once all is read, how many rows were left out because of their times.
    """

    edges: Callable[[int | None], Iterator[Pairs]]
    num_nodes: int | None
    row_is: RowIs
    named: Callable[[], NamedPairs] | None = None
    features: FeatureRows | None = None
    labels: NDArray[Any] | None = None
    split: Parts | None = None
    names: NDArray[Any] | None = None
    sides: NDArray[Any] | None = None
    label_names: NDArray[Any] | None = None
    count: Callable[[], int | None] = lambda: None
    text: Path | None = None
    path: Path | None = None
    table: str = ""
    duplicates: Duplicates = "max"
    later: Callable[[], int] = lambda: 0

    def __post_init__(self) -> None:
        if self.num_nodes is None:
            return
        with self.reading():
            n = checked_size(self.num_nodes)
            checks = {"labels": checked_labels, "split": checked_split, "names": checked_names, "sides": checked_sides}
            for name, check in checks.items():
                if getattr(self, name) is not None:
                    object.__setattr__(self, name, check(getattr(self, name), n))
            if self.label_names is not None:
                object.__setattr__(self, "label_names", checked_label_names(self.label_names, self.labels))

    def reading(self) -> AbstractContextManager[None]:
        """Report faults of the graph as a whole: the sentence begins with the name of the file."""
        return nullcontext() if self.path is None else reading(self.path)


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """A whole graph, for writers; its fields are those of `Graph`, with the parts of the split in a tuple."""

    adjacency: sp.csr_array
    features: FeatureBlock | None = None
    labels: NDArray[np.int64] | None = None
    split: Parts | None = None
    names: NDArray[Any] | None = None
    sides: NDArray[np.bool_] | None = None
    label_names: NDArray[np.str_] | None = None


def rows_between(starts: NDArray[Any], begin: int, end: int) -> NDArray[Any]:
    """The row of each of the entries `begin` to `end` of a CSR matrix, in 32 bits where these suffice."""
    first = int(np.searchsorted(starts, begin, side="right")) - 1
    last = int(np.searchsorted(starts, end, side="left"))
    kind = np.int32 if len(starts) < 2**31 else np.int64
    return np.repeat(np.arange(first, last, dtype=kind), np.diff(np.clip(starts[first : last + 1], begin, end)))


def rows_of(features: FeatureBlock) -> FeatureRows:
    """Features in memory, which have been checked."""
    n, width = features.shape

    def rows(at_once: int | None) -> Iterator[FeatureBlock]:
        if at_once is None:
            yield features
            return
        step = max(1, at_once // max(1, width))
        for begin in range(0, n, step):
            yield features[begin : begin + step]

    sparse = sp.issparse(features)
    nbytes = 8 * sp.csr_array(features).nnz + 4 * n if sparse else 4 * n * width
    return FeatureRows(width=width, sparse=sparse, nbytes=nbytes, rows=rows)
