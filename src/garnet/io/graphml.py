"""Graphs in GraphML."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from garnet.errors import GraphError, brief
from garnet.io.drawing import KINDS, Column, Drawing, columns_of, element, lines
from garnet.io.edge_source import EdgeSource, GraphArrays
from garnet.io.listed_graph import ListedGraph, integer_of
from garnet.io.text import reading
from garnet.io.xml_text import read_xml

_INTEGERS = ("int", "long")
_TYPES = dict(zip(KINDS, ("long", "double", "boolean", "string"), strict=True))


def open_graphml(path: Path) -> EdgeSource:
    """Nodes by a unique `name` or else by id, `weight` of edges, integer `class` or else `label` of nodes."""
    with reading(path):
        listener = _Listener()
        read_xml(path, listener)
        if not listener.graphs:
            raise GraphError("it holds no element 'graph', so it is not GraphML.")
        return listener.found.source(path)


def write_graphml(graph: GraphArrays, stream: BinaryIO) -> None:
    """Write the weighted edges, the nodes' names as ids, and their classes as `class`."""
    draw_graphml(Drawing.of(graph), stream)


def draw_graphml(drawing: Drawing, stream: BinaryIO) -> None:
    """Write a drawing, with its columns as attributes.

    Raises:
        GraphError: a text cannot be kept in XML.
    """
    nodes, edges = columns_of(drawing.node_columns), columns_of(drawing.edge_columns)
    keys = [("node", f"n{i}", column) for i, column in enumerate(nodes)]
    keys += [("edge", f"e{i}", column) for i, column in enumerate(edges)]
    with lines(stream) as write:
        write('<?xml version="1.0" encoding="UTF-8"?>')
        write('<graphml xmlns="http://graphml.graphdrawing.org/xmlns">')
        for where, key, column in keys:
            said = {"id": key, "for": where, "attr.name": column.name, "attr.type": _TYPES[column.kind]}
            write(element("key", said))
        write('<graph edgedefault="undirected">')
        for node, name in enumerate(drawing.texts):
            inside = "".join(element("data", {"key": f"n{i}"}, value) for i, value in _told(nodes, node))
            write(element("node", {"id": name}, inside or None, escape=False))
        for edge, (source, target) in enumerate(drawing.ends()):
            inside = "".join(element("data", {"key": f"e{i}"}, value) for i, value in _told(edges, edge))
            write(element("edge", {"source": source, "target": target}, inside or None, escape=False))
        write("</graph>")
        write("</graphml>")


def _told(columns: list[Column], row: int) -> list[tuple[int, str]]:
    return [(i, text) for i, column in enumerate(columns) if (text := column.text(row)) is not None]


class _Listener:
    """See `Listener`."""

    def __init__(self) -> None:
        self.found = ListedGraph()
        self.graphs = 0
        self._inside: list[str] = []
        self._keys: dict[str, tuple[str, str, str]] = {}
        self._defaults: dict[str, str] = {}
        self._key = ""
        self._directed = False
        self._item: dict[str, str] = {}
        self._data: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """See `Listener`."""
        if name == "graph":
            self.graphs += 1
            if self.graphs > 1:
                within = "a graph within another" if "graph" in self._inside else "several graphs"
                raise GraphError(f"it holds {within}; write one of them alone.")
            self._directed = attributes.get("edgedefault") == "directed"
        elif name == "hyperedge":
            raise GraphError("it holds hyperedges, which join more than two nodes; write them as edges.")
        elif name == "key":
            self._key = attributes.get("id", "")
            said = (attributes.get(word, "") for word in ("for", "attr.name", "attr.type"))
            where, title, kind = said
            self._keys[self._key] = where, title.lower(), kind
        elif name == "data":
            self._key = attributes.get("key", "")
        elif name in ("node", "edge"):
            self._item, self._data = attributes, {}
        self._inside.append(name)

    def end(self, name: str, text: str) -> None:
        """See `Listener`."""
        self._inside.pop()
        around = self._inside[-1] if self._inside else ""
        if name == "default" and around == "key":
            self._defaults[self._key] = text.strip()
        elif name == "data" and around in ("node", "edge"):
            self._data[self._key] = text.strip()
        elif name == "node":
            if "id" not in self._item:
                raise GraphError("one of its nodes has no id.")
            self.found.add_node(self._item["id"], self._class(), self._said("node", "name", ("string",)))
        elif name == "edge":
            said = self._item.get("directed")
            if said not in (None, "true", "false"):
                raise GraphError(f"an edge of it says directed={brief(said)}, which must be true or false.")
            directed = self._directed if said is None else said == "true"
            weight = self._said("edge", "weight")
            ends = self._item.get("source"), self._item.get("target")
            self.found.add_edge(*ends, 1.0 if weight is None else weight, directed=directed)

    def _class(self) -> int | None:
        for title in ("class", "label"):
            text = self._said("node", title, _INTEGERS)
            if text is not None:
                return integer_of(text, f"the {title} of node {brief(self._item['id'])}")
        return None

    def _said(self, where: str, title: str, kinds: tuple[str, ...] | None = None) -> str | None:
        """The value of the node or edge under a title, or the default for those without one."""
        for key, (of, named, kind) in self._keys.items():
            if of in (where, "all", "") and named == title and (kinds is None or kind in kinds):
                return self._data.get(key, self._defaults.get(key))
        return None
