"""Graphs in GEXF, the format of Gephi."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from garnet.errors import GraphError, brief
from garnet.io.drawing import KINDS, Column, Drawing, columns_of, element, lines
from garnet.io.edge_source import EdgeSource, GraphArrays
from garnet.io.listed_graph import ListedGraph, integer_of
from garnet.io.text import reading
from garnet.io.xml_text import read_xml

_INTEGERS = ("integer", "long", "short", "byte")
_TYPES = dict(zip(KINDS, ("long", "double", "boolean", "string"), strict=True))
_DIRECTED = {"directed": True, "undirected": False, "mutual": False}


def open_gexf(path: Path) -> EdgeSource:
    """The nodes by id, the `weight` of edges, and the integer node attribute `class`, or else `label`."""
    with reading(path):
        listener = _Listener()
        read_xml(path, listener)
        if not listener.graphs:
            raise GraphError("it holds no element 'graph', so it is not GEXF.")
        return listener.found.source(path)


def write_gexf(graph: GraphArrays, stream: BinaryIO) -> None:
    """Write the weighted edges, the nodes' names as ids and displayed labels, and their classes as `class`."""
    draw_gexf(Drawing.of(graph), stream)


def draw_gexf(drawing: Drawing, stream: BinaryIO) -> None:
    """Write a drawing, with its columns as attributes; `weight` is Gephi's own.

    Raises:
        GraphError: a text cannot be kept in XML.
    """
    nodes, every = columns_of(drawing.node_columns), columns_of(drawing.edge_columns)
    weight = next((column for column in every if column.name == "weight"), None)
    edges = [column for column in every if column is not weight]
    with lines(stream) as write:
        write('<?xml version="1.0" encoding="UTF-8"?>')
        write('<gexf xmlns="http://gexf.net/1.3" version="1.3">')
        write('<graph defaultedgetype="undirected" mode="static">')
        for where, columns in (("node", nodes), ("edge", edges)):
            told = [{"id": str(i), "title": c.name, "type": _TYPES[c.kind]} for i, c in enumerate(columns)]
            if told:
                inside = "".join(element("attribute", said) for said in told)
                write(element("attributes", {"class": where}, inside, escape=False))
        write("<nodes>")
        for node, name in enumerate(drawing.texts):
            write(element("node", {"id": name, "label": name}, _values(nodes, node), escape=False))
        write("</nodes>")
        write("<edges>")
        for edge, (source, target) in enumerate(drawing.ends()):
            said = {"id": str(edge), "source": source, "target": target}
            heavy = None if weight is None else weight.text(edge)
            if heavy is not None:
                said["weight"] = heavy
            write(element("edge", said, _values(edges, edge), escape=False))
        write("</edges>")
        write("</graph>")
        write("</gexf>")


def _values(columns: list[Column], row: int) -> str | None:
    told = ((i, column.text(row)) for i, column in enumerate(columns))
    inside = "".join(element("attvalue", {"for": str(i), "value": text}) for i, text in told if text is not None)
    return f"<attvalues>{inside}</attvalues>" if inside else None


class _Listener:
    """See `Listener`."""

    def __init__(self) -> None:
        self.found = ListedGraph()
        self.graphs = 0
        self._directed = False
        self._of = ""
        self._titles: dict[str, str] = {}
        self._defaults: dict[str, str] = {}
        self._attribute = ""
        self._node: str | None = None
        self._told: dict[str, str] = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """See `Listener`."""
        if name == "graph":
            self.graphs += 1
            if self.graphs > 1:
                raise GraphError("it holds several graphs; write one of them alone.")
            if attributes.get("mode") == "dynamic":
                raise GraphError("its graph is dynamic, and says when an edge is there; export it as a static one.")
            self._directed = self._is_directed(attributes.get("defaultedgetype", "undirected"))
        elif name == "attributes":
            self._of = attributes.get("class", "")
        elif name == "attribute" and self._of == "node":
            self._attribute = attributes.get("id", "")
            if attributes.get("type") in _INTEGERS:
                self._titles[attributes.get("title", "").lower()] = self._attribute
        elif name == "node":
            self._settle()
            if "id" not in attributes:
                raise GraphError("one of its nodes has no id.")
            self._node, self._told = attributes["id"], {}
        elif name == "attvalue" and self._node is not None:
            self._told[attributes.get("for", attributes.get("id", ""))] = attributes.get("value", "")
        elif name == "edge":
            said = attributes.get("type")
            directed = self._directed if said is None else self._is_directed(said)
            ends = attributes.get("source"), attributes.get("target")
            self.found.add_edge(*ends, attributes.get("weight", 1.0), directed=directed)

    def end(self, name: str, text: str) -> None:
        """See `Listener`."""
        if name == "node":
            self._settle()
        elif name == "default" and self._of == "node":
            self._defaults[self._attribute] = text.strip()

    def _settle(self) -> None:
        """Add the node that has been read; a nested node comes after its parent."""
        if self._node is None:
            return
        label = None
        for title in ("class", "label"):
            key = self._titles.get(title)
            text = None if key is None else self._told.get(key, self._defaults.get(key))
            if text is not None:
                label = integer_of(text, f"the {title} of node {brief(self._node)}")
                break
        self.found.add_node(self._node, label)
        self._node = None

    def _is_directed(self, said: str) -> bool:
        if said not in _DIRECTED:
            raise GraphError(f"its edges are {brief(said)}, which must be one of {', '.join(_DIRECTED)}.")
        return _DIRECTED[said]
