"""A graph for viewing in another program: nodes and edges with columns of anything known about them."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple
from xml.sax.saxutils import escape as escaped
from xml.sax.saxutils import quoteattr

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError, brief
from garnet.io.edge_source import GraphArrays
from garnet.io.text_rows import LONGEST_NAME

KINDS = ("integer", "number", "truth", "text")
"""What a column may hold."""

_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


class Column(NamedTuple):
    """A column as written: its name, one of `KINDS`, and its values, leaving out NaN and None."""

    name: str
    kind: str
    values: NDArray[Any]

    def text(self, row: int) -> str | None:
        """The value of a row; None if it has none."""
        value = self.values[row]
        if value is None or (self.kind == "number" and math.isnan(value)):
            return None
        if self.kind == "truth":
            return "true" if value else "false"
        if self.kind == "number":
            # Nine digits distinguish any two 32-bit numbers.
            return f"{value:.9g}" if self.values.dtype.itemsize <= 4 else repr(float(value))
        return str(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Drawing:
    """Nodes, edges between them, and what to show of both.

    Attributes:
        num_nodes: number of nodes, n.
        edges: (2, m) undirected edges, as node numbers.
        names: (n,) names of the nodes; None for their numbers.
        node_columns: (n,) each, by name: integers, numbers, booleans or texts.
        edge_columns: (m,) each, by name; programs take `weight` for the edge weight.
    """

    num_nodes: int
    edges: NDArray[np.int64]
    names: NDArray[Any] | None = None
    node_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    edge_columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: GraphArrays) -> Drawing:
        """A graph with the weights of its edges, and its labels as the column `class`."""
        upper = sp.triu(graph.adjacency, k=1, format="coo")
        edges = np.stack([upper.row, upper.col]).astype(np.int64)
        nodes = {} if graph.labels is None else {"class": graph.labels}
        n = int(graph.adjacency.shape[0])
        return cls(num_nodes=n, edges=edges, names=graph.names, node_columns=nodes, edge_columns={"weight": upper.data})

    @property
    def texts(self) -> list[str]:
        """The names of the nodes as texts.

        Raises:
            GraphError: one is empty, or too long to be read back.
        """
        texts = list(map(str, range(self.num_nodes) if self.names is None else self.names.tolist()))
        bad = next((text for text in texts if not 0 < len(text) <= LONGEST_NAME), None)
        if bad is not None:
            raise GraphError(f"The node name {brief(bad)} is empty or has more than {LONGEST_NAME} letters; rename it.")
        return texts

    def ends(self) -> Iterator[tuple[str, str]]:
        """The names of both endpoints of each edge."""
        texts = self.texts
        return ((texts[one], texts[other]) for one, other in self.edges.T.tolist())


def columns_of(columns: Mapping[str, NDArray[Any]]) -> list[Column]:
    """Columns in the form in which they are written.

    Raises:
        GraphError: one holds something that cannot be written.
    """
    kinds = {"i": "integer", "u": "integer", "f": "number", "b": "truth", "U": "text", "O": "text"}
    found = []
    for name, values in columns.items():
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in kinds:
            raise GraphError(f"A column must be numbers, booleans or texts. Got {array.dtype} for {brief(name)}.")
        found.append(Column(name, kinds[array.dtype.kind], array))
    return found


def element(name: str, attributes: Mapping[str, str], inside: str | None = None, *, escape: bool = True) -> str:
    """An XML element.

    Args:
        name: of the element.
        attributes: of it, as texts.
        inside: the text in it, or with `escape` false already written elements; None for nothing.
        escape: whether `inside` is a text.

    Raises:
        GraphError: a text cannot be kept in XML.
    """
    said = "".join(f" {key}={quoteattr(_writable(value))}" for key, value in attributes.items())
    if inside is None:
        return f"<{name}{said}/>"
    return f"<{name}{said}>{escaped(_writable(inside)) if escape else inside}</{name}>"


def _writable(text: str) -> str:
    if _NOT_IN_XML.search(text):
        raise GraphError(f"The text {brief(text)} has a letter that XML cannot keep; rename it, or write .npz instead.")
    return text


@contextmanager
def lines(stream: BinaryIO) -> Iterator[Callable[[str], Any]]:
    """A writer of UTF-8 text lines to a byte stream."""
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=False)
    try:
        yield lambda line: text.write(line + "\n")
    finally:
        text.flush()
        text.detach()
