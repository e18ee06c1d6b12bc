"""Edges that arrive later, by the names of their nodes, some of which may be new."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from garnet.errors import GraphError, brief

Names = NDArray[Any]

_DIGITS = 18
"""Digits that every 64-bit integer can have."""


class Arrivals(NamedTuple):
    """Edges as numbers.

    Attributes:
        source: (m,) source nodes as given.
        target: (m,) target nodes as given.
        ends: (2, m) numbers of the nodes; new ones follow those of the graph, in the order of their names.
        newcomers: names of the new nodes.
    """

    source: Names
    target: Names
    ends: Tensor
    newcomers: list[Any]


class NodeNames:
    """The nodes of a graph by name.

    Args:
        names: (n,) integers or texts; None if nodes are known by number.
        n: number of nodes.
    """

    def __init__(self, names: Names | None, n: int) -> None:
        self._names, self._n = names, n

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        names = range(self._n) if self._names is None else self._names.tolist()
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return self._numbers if self.are_texts else {str(name): number for name, number in self._numbers.items()}

    @property
    def are_texts(self) -> bool:
        """Whether names are texts, rather than integers or node numbers."""
        return self._names is not None and self._names.dtype.kind == "U"

    def spelt(self, text: str) -> str:
        """A name spelt like the others: 7 for 007 where names are integers."""
        if self.are_texts or not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > _DIGITS:
            return text
        return str(int(text))

    def has(self, text: str) -> bool:
        """Whether a node has this name."""
        return text in self._by_text

    def arrivals(self, edges: Any, *, numbers: bool) -> Arrivals:
        """Edges with node numbers in place of names.

        Args:
            edges: (2, m): the names of the source nodes, and those of the target nodes.
            numbers: whether these are node numbers even though the graph has names.

        Raises:
            GraphError: they are not edges, or do not use the graph's kind of names.
        """
        source, target = _columns(edges)
        if numbers and source.dtype.kind not in "iu":
            raise GraphError(f"With numbers=True edges are node numbers, integers. Got dtype {source.dtype} instead.")
        both = np.concatenate([source, target])
        if numbers or (self._names is None and both.dtype.kind in "iu"):
            return self._by_number(source, target, both)
        if self.are_texts and len(both) and both.dtype.kind != "U":
            raise GraphError(
                f"The nodes of this result have names that are texts, such as {brief(str(self._names[0]))}; give edges "
                "by these names, or node numbers with numbers=True."
                if self._names is not None and len(self._names)
                else "The nodes of this result have names that are texts; give edges by these names."
            )
        known: Mapping[Any, int] = self._by_text if both.dtype.kind == "U" else self._numbers
        called = both.tolist()
        newcomers = sorted({name for name in called if name not in known})
        place = {name: self._n + number for number, name in enumerate(newcomers)}
        ends = [known[name] if name in known else place[name] for name in called]
        return Arrivals(source, target, torch.tensor(ends, dtype=torch.int64).reshape(2, -1), newcomers)

    def _by_number(self, source: Names, target: Names, both: Names) -> Arrivals:
        both = both.astype(np.int64)
        beyond = (both < 0) | (both >= self._n)
        new, place = np.unique(both[beyond], return_inverse=True)
        both[beyond] = self._n + place
        return Arrivals(source, target, torch.from_numpy(both).reshape(2, -1), new.tolist())


def _columns(edges: Any) -> tuple[Names, Names]:
    """The two columns of names: 64-bit integers, or texts."""
    try:
        columns = [np.asarray(column) for column in edges]
    except (TypeError, ValueError):
        columns = []
    if len(columns) != 2 or any(column.ndim != 1 for column in columns) or len(columns[0]) != len(columns[1]):
        shape = getattr(edges, "shape", None)
        got = f"shape {tuple(shape)}" if shape is not None else brief(edges)
        raise GraphError(f"New edges must be two columns of node names, of shape (2, m). Got {got} instead.")
    kinds = {_kind(column) for column in columns if len(column)} or {"integer"}
    if len(kinds) > 1 or None in kinds:
        odd = next((name for column in columns for name in column.tolist() if _bad(name)), columns[0][0])
        raise GraphError(f"Names of nodes must be all integers or all texts. Got {brief(odd)} among them.")
    wanted: Any = np.int64 if kinds == {"integer"} else np.str_
    return columns[0].astype(wanted), columns[1].astype(wanted)


def _kind(column: Names) -> str | None:
    if column.dtype.kind in "iu":
        return "integer"
    if column.dtype.kind in "UT":
        return "text"
    if column.dtype.kind == "O":
        kinds = {"text" if isinstance(name, str) else "integer" if _whole(name) else None for name in column.tolist()}
        return kinds.pop() if len(kinds) == 1 else None
    return None


def _whole(name: Any) -> bool:
    return isinstance(name, int | np.integer) and not isinstance(name, bool) and -(2**63) <= int(name) < 2**63


def _bad(name: Any) -> bool:
    return not isinstance(name, str) and not _whole(name)


def feature_rows(features: Any, newcomers: list[Any], width: int) -> tuple[Tensor, Tensor]:
    """(k, d) the features of new nodes, and (k,) which nodes have any.

    Args:
        features: rows of numbers by node name: a mapping, or a pandas DataFrame indexed by name.
        newcomers: the names of the k new nodes.
        width: the length of a row, d.

    Raises:
        GraphError: the features are something else.
    """
    rows = np.zeros((len(newcomers), width))
    there = np.zeros(len(newcomers), dtype=bool)
    if features is None:
        return torch.from_numpy(rows), torch.from_numpy(there)
    if hasattr(features, "index") and hasattr(features, "to_numpy"):
        features = dict(zip(features.index.tolist(), features.to_numpy(), strict=True))
    if not isinstance(features, Mapping):
        raise GraphError(
            f"Features of new nodes are rows by the nodes' names, such as {{'new-1': [0.5, 2]}}. Got {brief(features)}."
        )
    for number, name in enumerate(newcomers):
        if name not in features:
            continue
        try:
            row = np.asarray(features[name], dtype=np.float64)
        except (TypeError, ValueError):
            row = np.full(width, np.nan)
        if row.shape != (width,) or not np.isfinite(row).all():
            raise GraphError(
                f"The features of the new node {brief(name)} must be {width} finite numbers, as those of the graph."
            )
        rows[number], there[number] = row, True
    return torch.from_numpy(rows), torch.from_numpy(there)
