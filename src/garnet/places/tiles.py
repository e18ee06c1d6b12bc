"""A graph on disk, cut into tiles that are read one at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.fingerprint import fingerprint_of
from garnet.graph.graph import Graph, Split, as_graph
from garnet.io.archive import read_npy
from garnet.io.checked import checksum, read_note
from garnet.io.edge_source import FeatureBlock
from garnet.io.text import reading

MANIFEST = "tiles.json"
"""Written last; a folder without it is unfinished."""

VERSION = 3
"""Of the layout of the files."""

SPLIT_FILES = ("node-train.npy", "node-val.npy", "node-test.npy")
"""In the order of the parts of a `Split`."""

_PIECE = 1 << 20


@dataclass(frozen=True, eq=False)
class Tile:
    """The part of the adjacency with the rows of one part of the nodes and the columns of another.

    Attributes:
        starts: (rows + 1,) where each row begins among the entries.
        columns: (nnz,) counted from the first node of the part of the columns, sorted within each row.
        weights: (nnz,); None where all weights of the graph are one.
    """

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    weights: NDArray[np.float32] | None


@dataclass(frozen=True, eq=False)
class TiledGraph:
    """A graph whose adjacency is on disk as parts x parts tiles; `open` reads one that `finish` has completed.

    Files are read, never mapped: mapped pages would count as memory of this process. Their sizes are checked at each
    read, their checksums only by `verify`, because tiles are read again and again.

    Attributes:
        folder: where the files are.
        bounds: parts + 1 numbers; part i has the nodes bounds[i] .. bounds[i + 1] - 1.
        num_edges: undirected edges, m.
        weighted: whether any weight is not one.
        feature_width: number of features; None without any.
        sizes: bytes of each file.
        checks: CRC-32 of each file.
        sparse_features: whether features are kept as CSR.
    """

    folder: Path
    bounds: tuple[int, ...]
    num_edges: int
    weighted: bool
    feature_width: int | None
    sizes: dict[str, int] = field(repr=False)
    checks: dict[str, int] = field(repr=False)
    sparse_features: bool = False

    @property
    def num_nodes(self) -> int:
        """Number of nodes, n."""
        return self.bounds[-1]

    @property
    def parts(self) -> int:
        """Number of parts that the nodes are cut into."""
        return len(self.bounds) - 1

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the same graph in memory, however it is cut into tiles; verifies and reads all of them."""
        self.verify()
        entries = 2 * self.num_edges
        return fingerprint_of(
            (self.num_nodes + 1, self._row_starts(), "<i8"),
            (entries, (strip.indices for strip in self._strips()), "<i8"),
            (entries, (strip.data for strip in self._strips()), "<f4"),
        )

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> TiledGraph:
        """Open a finished folder.

        Args:
            folder: where the files are.
            verify: read all files once, to find any whose bytes have changed.

        Raises:
            GraphError: it is unfinished, or a file is missing, truncated or, with `verify`, changed; the message names
                it.
        """
        folder = Path(folder)
        path = folder / MANIFEST
        if not path.is_file():
            raise GraphError(f"Cannot read {folder}: it has no {MANIFEST}, so it is unfinished; build the tiles again.")
        try:
            manifest = read_note(path)
            manifest.pop("result", None)
            if (version := manifest.pop("version")) == VERSION:
                graph = cls(folder=folder, **(manifest | {"bounds": tuple(manifest["bounds"])}))
                sound = graph._is_sound()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise GraphError(f"Cannot read {path}: it is damaged; build the tiles again.") from error
        if version != VERSION:
            raise GraphError(f"Cannot read {folder}: its tiles have version {version}; this library reads {VERSION}.")
        if not sound:
            raise GraphError(f"Cannot read {path}: it is damaged; build the tiles again.")
        for name in graph.sizes:
            graph._path(name)
        if verify:
            graph.verify()
        return graph

    def verify(self) -> None:
        """Read every file once, and report the first that is not as written.

        Raises:
            GraphError: a file is missing, truncated or changed.
        """
        for name, check in self.checks.items():
            if checksum(self._path(name)) != check:
                raise self._fault(name, "has other bytes than were written")
        # Code that trusts them reads the contents of tiles, again and again after this one check.
        for i in range(self.parts):
            for j in range(self.parts):
                starts, columns = (tile := self.tile(i, j)).starts, tile.columns
                outside = columns.min(initial=0) < 0 or columns.max(initial=-1) >= self._length(j)
                if outside or (starts[1:] < starts[:-1]).any():
                    raise self._fault(f"tile-{i}-{j}.bin", "has indices that do not exist")

    def tile(self, i: int, j: int) -> Tile:
        """The entries with rows in part i and columns in part j."""
        rows = self._length(i)
        name = f"tile-{i}-{j}.bin"
        numbers = self._numbers(name, np.int32)
        entries = int(numbers[rows]) if len(numbers) > rows else -1
        if entries < 0 or numbers[0] != 0 or len(numbers) - rows - 1 not in (entries, 2 * entries):
            raise self._fault(name, "is not as long as it declares")
        starts = numbers[: rows + 1]
        columns = numbers[rows + 1 : rows + 1 + entries]
        if not self.weighted:
            return Tile(starts, columns, None)
        weights = numbers[rows + 1 + entries :].view(np.float32)
        return Tile(starts, columns, weights if len(weights) == entries else np.ones(entries, np.float32))

    def edges(self, i: int, j: int) -> NDArray[np.int64]:
        """The undirected edges between part i and part j, not before it: (2, m), sorted, the smaller node first."""
        tile = self.tile(i, j)
        rows = np.repeat(np.arange(self.bounds[i], self.bounds[i + 1]), np.diff(tile.starts))
        ends = np.stack([rows, tile.columns + np.int64(self.bounds[j])])
        return ends[:, ends[0] < ends[1]] if i == j else ends

    def degrees(self, i: int) -> NDArray[np.float64]:
        """Weighted degree of each node of part i."""
        return self._numbers(f"degrees-{i}.bin", np.float64)

    def total_weight(self) -> float:
        """The sum of the degrees, which does not depend on how the nodes are cut."""
        return float(np.concatenate([self.degrees(i) for i in range(self.parts)]).sum())

    def counts(self, i: int) -> NDArray[np.int64]:
        """Number of neighbours of each node of part i."""
        return self._numbers(f"counts-{i}.bin", np.int64)

    def features(self, i: int) -> FeatureBlock | None:
        """The feature rows of part i, dense or sparse as given; None without any."""
        if self.feature_width is None:
            return None
        shape = (self._length(i), self.feature_width)
        name = f"node-features-{i}.bin"
        numbers = self._numbers(name, np.int32)
        if not self.sparse_features:
            if len(numbers) != shape[0] * shape[1]:
                raise self._fault(name, "is not as long as it declares")
            return numbers.view(np.float32).reshape(shape)
        starts, entries = numbers[: shape[0] + 1], numbers[shape[0] + 1 :]
        if len(entries) % 2 or len(starts) <= shape[0] or 2 * int(starts[-1]) != len(entries):
            raise self._fault(name, "is not as long as it declares")
        columns, values = np.split(entries, 2)
        rows: FeatureBlock = sp.csr_array((values.view(np.float32), columns, starts), shape=shape)
        return rows

    def labels(self) -> NDArray[np.int64] | None:
        """The class of each node, -1 where unknown; None without labels."""
        labels: NDArray[np.int64] | None = self._array("node-labels.npy", "iu")
        return labels

    def split(self) -> Split | None:
        """Nodes for training, validation and testing; None without them."""
        if SPLIT_FILES[0] not in self.sizes:
            return None
        return Split(*(self._array(name, "iu") for name in SPLIT_FILES))

    def names(self, i: int) -> NDArray[Any] | None:
        """The user's own names of the nodes of part i; None if they are node numbers."""
        names: NDArray[Any] | None = self._array(f"node-names-{i}.npy", "iuU")
        return names

    def to_graph(self) -> Graph:
        """The whole graph in memory, from files that `verify` has checked."""
        self.verify()
        matrix = sp.vstack(list(self._strips()), "csr")
        blocks = [block for i in range(self.parts) if (block := self.features(i)) is not None]
        stack = sp.vstack if self.sparse_features else np.concatenate
        names = [part for i in range(self.parts) if (part := self.names(i)) is not None]
        with reading(self.folder):
            return as_graph(
                Graph(matrix),
                features=stack(blocks) if blocks else None,
                labels=self.labels(),
                split=self.split(),
                names=np.concatenate(names) if names else None,
            )

    def _strips(self) -> Iterator[sp.csr_array]:
        """The adjacency, part by part, from verified files."""
        for i in range(self.parts):
            blocks = []
            for j in range(self.parts):
                tile = self.tile(i, j)
                weights = np.ones(len(tile.columns), np.float32) if tile.weights is None else tile.weights
                shape = (self._length(i), self._length(j))
                blocks.append(sp.csr_array((weights, tile.columns, tile.starts), shape=shape))
            yield sp.hstack(blocks, "csr")

    def _row_starts(self) -> Iterator[NDArray[np.int64]]:
        """Where each row of the adjacency begins, and where the last ends."""
        begin = 0
        yield np.zeros(1, np.int64)
        for i in range(self.parts):
            ends = begin + np.cumsum(self.counts(i))
            begin = int(ends[-1]) if len(ends) else begin
            yield ends

    def _length(self, i: int) -> int:
        return self.bounds[i + 1] - self.bounds[i]

    def _path(self, name: str) -> Path:
        """The path of a file that exists and is as long as when it was written."""
        path, size = self.folder / name, self.sizes[name]
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            raise self._fault(name, "is missing" if found is None else f"has {found} bytes but must have {size}")
        return path

    def _fault(self, name: str, what: str) -> GraphError:
        return GraphError(f"Cannot read {self.folder}: its file {name} {what}; build the tiles again.")

    def _numbers(self, name: str, kind: type[Any]) -> NDArray[Any]:
        return np.fromfile(self._path(name), kind)

    def _array(self, name: str, kinds: str) -> Any:
        if name not in self.sizes:
            return None
        path = self._path(name)
        with reading(path):
            return read_npy(path, kinds, ndim=1)

    def _is_sound(self) -> bool:
        """Whether the manifest is well formed."""
        whole = (*self.bounds, self.num_edges, *self.sizes.values(), *self.checks.values(), self.feature_width or 0)
        flags = self.weighted, self.sparse_features
        if not all(type(one) is int and one >= 0 for one in whole) or not all(type(flag) is bool for flag in flags):
            return False
        if len(self.bounds) < 2 or self.bounds[0] or any(first > last for first, last in pairwise(self.bounds)):
            return False
        # No more nodes than the tiles have rows, before anything is allocated for them.
        rows = {f"tile-{i}-{j}.bin": self._length(i) + 1 for i in range(self.parts) for j in range(self.parts)}
        return self.sizes.keys() == self.checks.keys() and all(self.sizes.get(one, 0) >= 4 * rows[one] for one in rows)
