"""Graphs in GML, the Graph Modelling Language."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path

from garnet.errors import GraphError, brief
from garnet.io.edge_source import EdgeSource
from garnet.io.listed_graph import ListedGraph
from garnet.io.text import BYTE_ORDER_MARK, line_breaks, read_text, reading
from garnet.io.xml_text import require_held

_BLANK = r"\s*+(?:#[^\n]*+\s*+)*+"  # and comments
_TOKEN = re.compile(_BLANK + r'(?:("[^"]*+")|(\[)|(\])|([^\s"\[\]#]++))')
_REST = re.compile(_BLANK)
_KEY = re.compile(r"[A-Za-z_]\w*")
_DEEPEST = 100

Item = dict[str, str]
"""The values of a node or an edge; texts keep their quotes."""


def open_gml(path: Path) -> EdgeSource:
    """The nodes by `label`, or else `name`, if these are unique, otherwise by `id`; the edges' `weight`."""
    with reading(path):
        data = read_text(path).removeprefix(BYTE_ORDER_MARK)
        require_held(len(data))
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise GraphError(f"line {line_breaks(data[: error.start]) + 1} is not text in UTF-8.") from None
        del data
        found, directed, edges = ListedGraph(), False, []
        for kind, item in _items(text):
            if kind == "directed":
                directed = item["directed"] == "1"
            elif kind == "node":
                if "id" not in item:
                    raise GraphError("one of its nodes has no id.")
                title = item.get("label", item.get("name"))
                found.add_node(_text(item["id"]), title=None if title is None else _text(title))
            else:
                edges.append(item)
        for item in edges:  # whether they are directed may be stated after them
            source, target = (_text(item[end]) if end in item else None for end in ("source", "target"))
            weight = _text(item["weight"]) if "weight" in item else 1.0
            found.add_edge(source, target, weight, directed=directed)
        return found.source(path)


def _text(value: str) -> str:
    """A value without its quotes, in which non-ASCII characters are written as in HTML."""
    return html.unescape(value[1:-1]) if value.startswith('"') else value


def _items(text: str) -> Iterator[tuple[str, Item]]:
    """The nodes, the edges, and any statement whether these are directed, of the only graph."""
    inside: list[str] = []
    key, item, graphs, place = "", Item(), 0, 0
    while (token := _TOKEN.match(text, place)) is not None:
        quoted, opens, closes, word = token.groups()
        place = token.end()
        value = quoted or word
        if opens:
            if not key or len(inside) >= _DEEPEST:
                raise GraphError(f"line {_line(text, place)} has a '[' without a word before it, or nested too deep.")
            graphs += not inside and key == "graph"
            if graphs > 1:
                raise GraphError("it holds several graphs; write one of them alone.")
            if inside == ["graph"] and key in ("node", "edge"):
                item = Item()
            inside.append(key)
            key = ""
        elif closes:
            if key or not inside:
                raise GraphError(f"line {_line(text, place)} has a ']' where none belongs.")
            last = inside.pop()
            if inside == ["graph"] and last in ("node", "edge"):
                yield last, item
        elif not key:
            if quoted or not _KEY.fullmatch(value):
                raise GraphError(f"line {_line(text, place)} has {brief(value)} where a word is wanted.")
            key = value
        else:
            if inside == ["graph"] and key == "directed":
                yield key, {key: value}
            elif len(inside) == 2 and inside[0] == "graph" and inside[1] in ("node", "edge"):
                item[key] = value
            key = ""
    rest = _REST.match(text, place)
    if inside or key or not graphs or (rest is not None and rest.end() < len(text)):
        raise GraphError("it is not a whole GML file, of which all is within 'graph [' and ']'.")


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
