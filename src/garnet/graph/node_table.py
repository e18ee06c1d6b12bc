"""A table with a row for each node: names, features, labels and split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from garnet.errors import GraphError, brief
from garnet.graph.node_features import are_missing, encoded, require_finite
from garnet.io.checks import Parts, checked_features, checked_labels
from garnet.io.columns import NamedColumns
from garnet.io.edge_source import GraphArrays
from garnet.io.table_layout import TableOptions, listed
from garnet.io.text_rows import fits

ALL = "all"
"""For features: every column with no other role."""

_IDS = ("id", "node", "node_id", "nodeid", "name")
_PARTS = {"train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2}


@dataclass(frozen=True, eq=False)
class NodeTable:
    """What a table says about the nodes of a graph.

    A node that the table does not name has no label, is in no part of the split, and has missing features. A node that
    only the table names has no edges.

    Attributes:
        table: a DataFrame, a dictionary of columns, or the path of a .csv, .tsv, .txt or .parquet file with a header.
        id: the column of the names; by default one called id, node, node_id or name.
        features: the columns of the features, or `all` for every column with no other role. Numbers are scaled to mean
            0 and standard deviation 1, other values are categories with a feature each. A missing value (an empty cell,
            NA, NaN) becomes the mean, and another feature marks it; or it is a category of its own.
        labels: the column of the classes, of any type; they are numbered in the order of their values. Missing values
            are unknown labels.
        split: the column of the parts: train, val or test, empty for nodes in none.
        encoding: of a text file.
        delimiter: what separates the cells of a text file; None to detect it.
    """

    table: Any
    id: str | None = None
    features: Sequence[str] | str | None = None
    labels: str | None = None
    split: str | None = None
    encoding: str = "utf-8"
    delimiter: str | None = None

    def __post_init__(self) -> None:
        TableOptions(encoding=self.encoding, delimiter=self.delimiter)
        features = [] if self.features in (None, ALL) else self.features
        if isinstance(features, str) or not isinstance(features, Sequence) or not _are_texts(features):
            raise GraphError(
                "With a table of nodes, features are a list of the names of its columns, or 'all'. Got "
                f"{brief(self.features)} instead."
            )
        for name in ("id", "labels", "split"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and value):
                raise GraphError(
                    f"With a table of nodes, '{name}' is the name of one of its columns. Got {brief(value)} instead."
                )
        twice = [one for one in self._asked if self._asked.count(one) > 1]
        if twice:
            raise GraphError(f"The column {twice[0]!r} of the table of nodes is asked for twice; it can be one thing.")

    @property
    def names(self) -> NDArray[Any]:
        """(k,) the names of its nodes: integers if all are integers, otherwise texts."""
        return self._read[0]

    def joined(self, arrays: GraphArrays) -> tuple[GraphArrays, tuple[str, ...]]:
        """The graph with the table's data about its nodes, and a description of these in words.

        Raises:
            GraphError: their names do not match, or a column cannot be read in its stated role.
        """
        n = arrays.adjacency.shape[0]
        at = self._places(np.arange(n) if arrays.names is None else arrays.names)
        notes = [self._joining(arrays, at)]
        labels, parts, features, called = arrays.labels, arrays.split, arrays.features, arrays.label_names
        if self._features:
            for name in self._features:
                require_finite(name, self._read[1][name])
            blocks, said = zip(*(encoded(name, self._spread(name, at, n)) for name in self._features), strict=True)
            features = checked_features(np.hstack(blocks), n)
            notes.append(f"features: {'; '.join(said)}")
        if self.labels is not None:
            labels, called, note = self._classes(self.labels, at, n)
            notes.append(note)
        if self.split is not None:
            parts, note = self._parts(self.split, at)
            notes.append(note)
        return replace(arrays, features=features, labels=labels, split=parts, label_names=called), tuple(notes)

    @property
    def _asked(self) -> list[str]:
        some = [] if self.features in (None, ALL) else list(self.features or ())
        return [*(one for one in (self.id, self.labels, self.split) if one is not None), *some]

    @cached_property
    def _columns(self) -> NamedColumns:
        return NamedColumns(self.table, encoding=self.encoding, delimiter=self.delimiter)

    @cached_property
    def _features(self) -> tuple[str, ...]:
        if self.features == ALL:
            others = {self._id, self.labels, self.split}
            asked = (name for name in self._columns.names if name not in others)
            return tuple(self._columns.place(name, "features") for name in asked)
        return tuple(self.features or ())

    @cached_property
    def _id(self) -> str:
        if self.id is not None:
            return self._columns.place(self.id, "the names of nodes")
        found = [name for name in self._columns.names if name.strip().lower() in _IDS]
        if len(found) != 1:
            raise GraphError(
                f"{self._columns.called} has the columns {listed(self._columns.names)}; say which one has the names of "
                f"the nodes, such as --id {listed(self._columns.names[:1])} (id={brief(self._columns.names[0])})."
            )
        return found[0]

    @cached_property
    def _read(self) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """The names, and all requested columns."""
        wanted = [self._id, *(self._columns.place(one, "labels, split or features") for one in self._asked)]
        wanted = list(dict.fromkeys([*wanted, *self._features]))
        columns = self._columns.read(wanted)
        return self._named(columns[self._id]), columns

    def _named(self, values: NDArray[Any]) -> NDArray[Any]:
        missing = np.flatnonzero(are_missing(values))
        if len(missing):
            raise GraphError(
                f"{self._columns.called} has no name in row {missing[0]}, counted from 0, of its column {self._id!r}."
            )
        texts = [str(value).strip() for value in values.tolist()]
        if values.dtype.kind == "f":
            raise GraphError(f"The column {self._id!r} has the type {values.dtype}; names are integers or texts.")
        names = np.array(texts, np.int64) if all(map(fits, texts)) else np.array(texts, np.str_)
        different, counts = np.unique(names, return_counts=True)
        if len(different) < len(names):
            twice = different[counts > 1][0]
            raise GraphError(f"{self._columns.called} names the node {twice} twice in its column {self._id!r}.")
        return names

    def _places(self, names: NDArray[Any]) -> NDArray[np.int64]:
        """(k,) the node of the graph that each row describes."""
        own = self.names.astype(np.str_) if names.dtype.kind == "U" else self.names
        if own.dtype.kind == "U" != names.dtype.kind:
            raise GraphError(
                f"{self._columns.called} names nodes by texts, such as {brief(str(own[0]))}, and the graph by integers."
            )
        order = np.argsort(names, kind="stable")
        at = np.clip(np.searchsorted(names, own, sorter=order), 0, max(0, len(names) - 1))
        found = order[at] if len(names) else np.zeros(len(own), np.int64)
        stranger = np.flatnonzero(names[found] != own) if len(names) else np.arange(len(own))
        if len(stranger):
            raise GraphError(f"{self._columns.called} has the node {own[stranger[0]]}, which the graph does not have.")
        return found

    def _joining(self, arrays: GraphArrays, at: NDArray[np.int64]) -> str:
        n = arrays.adjacency.shape[0]
        lonely = int((np.diff(arrays.adjacency.indptr)[at] == 0).sum())
        if arrays.adjacency.nnz and lonely == len(at):
            raise GraphError(
                f"No edge has a node of {self._columns.called}, whose column {self._id!r} has names such as "
                f"{brief(str(self.names[0])) if len(at) else 'none'}; check which column has the names."
            )
        said = [f"{len(at):,} nodes from {self._columns.called}, by {self._id}"]
        said += [f"{lonely:,} of them without edges"] if lonely else []
        said += [f"{n - len(at):,} nodes are not in it"] if n > len(at) else []
        used = {self._id, *self._asked, *self._features}
        unread = [name for name in self._columns.names if name not in used]
        said += [f"not read: {listed(unread)}"] if unread else []
        return "; ".join(said)

    def _spread(self, name: str, at: NDArray[np.int64], n: int) -> NDArray[Any]:
        """A column expanded to one row for each node of the graph."""
        values = self._read[1][name]
        if len(at) == n and values.dtype.kind in "iubf":
            spread = np.empty(n, values.dtype)
        else:
            spread = np.full(n, np.nan) if values.dtype.kind in "iubf" else np.full(n, None, np.object_)
        spread[at] = values
        return spread

    def _classes(
        self, name: str, at: NDArray[np.int64], n: int
    ) -> tuple[NDArray[np.int64], NDArray[np.str_] | None, str]:
        values = self._read[1][name]
        missing = are_missing(values)
        texts = [str(value).strip() for value in values.tolist()]
        known = {text for text, gone in zip(texts, missing, strict=True) if not gone}
        classes = sorted(known, key=(lambda text: (int(text), text)) if all(map(fits, known)) else None)
        number = {text: i for i, text in enumerate(classes)}
        labels = np.full(n, -1, np.int64)
        labels[at] = [-1 if gone else number[text] for text, gone in zip(texts, missing, strict=True)]
        told = ", ".join(f"{i} = {text[:40]}" for i, text in enumerate(classes[:10]))
        more = f" and {len(classes) - 10} more" if len(classes) > 10 else ""
        unknown = int((labels < 0).sum())
        said = f"labels from {name}: {told}{more}" + (f"; {unknown:,} unknown" if unknown else "")
        labels = checked_labels(labels, n)
        return labels, None if classes == [str(i) for i in range(len(classes))] else np.array(classes, np.str_), said

    def _parts(self, name: str, at: NDArray[np.int64]) -> tuple[Parts, str]:
        values = self._read[1][name]
        missing = are_missing(values)
        parts: tuple[list[int], list[int], list[int]] = ([], [], [])
        for row, (value, gone) in enumerate(zip(values.tolist(), missing, strict=True)):
            if gone:
                continue
            part = _PARTS.get(str(value).strip().lower())
            if part is None:
                raise GraphError(
                    f"The column {name!r} has {brief(value)} in row {row}, counted from 0; a part is train, val or "
                    "test, or nothing."
                )
            parts[part].append(int(at[row]))
        train, val, test = (np.array(sorted(part), np.int64) for part in parts)
        said = f"split from {name}: {len(train):,} train, {len(val):,} val, {len(test):,} test"
        return (train, val, test), said


def _are_texts(values: Sequence[Any]) -> bool:
    return all(isinstance(value, str) and value for value in values)
