"""Graphs in JSON that lists nodes and links, as NetworkX and D3 write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from garnet.errors import GraphError, brief
from garnet.io.edge_source import EdgeSource
from garnet.io.listed_graph import ListedGraph
from garnet.io.text import BYTE_ORDER_MARK, read_text, reading
from garnet.io.xml_text import require_held


def open_node_link(path: Path) -> EdgeSource:
    """An object with lists `nodes`, and `links` or `edges`.

    A node has an `id`, used by edges as `source` and `target`, and may have an integer `label`, its class. If no node
    has an id, edges use node positions, and unique `name`s are the nodes' names. Edges may have a `weight`. Without the
    key `directed`, edges are read like those of an edge list.
    """
    with reading(path):
        data = read_text(path).removeprefix(BYTE_ORDER_MARK)
        require_held(len(data))
        try:
            said = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise GraphError(f"it is not JSON: {' '.join(str(error).split())}.") from None
        del data
        nodes, edges = _lists(said)
        found, known = ListedGraph(), any("id" in node for node in nodes)
        for number, node in enumerate(nodes):
            if known and "id" not in node:
                raise GraphError(f"its node number {number} has no id, though others have.")
            title = None if known else node.get("name")
            name, title = _key(node["id"]) if known else str(number), title if isinstance(title, str) else None
            found.add_node(name, _class(node.get("label"), number), title)
        directed = said.get("directed", None)
        if directed not in (None, True, False):
            raise GraphError(f"its 'directed' is {brief(directed)}, which must be true or false.")
        for edge in edges:
            source, target = (_key(edge[end]) if end in edge else None for end in ("source", "target"))
            found.add_edge(source, target, edge.get("weight", 1.0), directed=directed is True)
        return found.source(path, either=directed is None)


def _lists(said: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The nodes and the edges."""
    if not isinstance(said, dict):
        raise GraphError(f"it holds a {type(said).__name__} where an object with 'nodes' and 'links' is wanted.")
    nodes, edges = said.get("nodes"), said.get("links", said.get("edges"))
    for name, items in (("nodes", nodes), ("links", edges)):
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            found = ", ".join(map(brief, list(said)[:8])) or "nothing"
            raise GraphError(f"it has no list {name!r} of objects; it holds {found}.")
    return nodes, edges  # type: ignore[return-value]


def _key(value: Any) -> str:
    """The text that identifies a node."""
    return value if isinstance(value, str) else json.dumps(value)


def _class(label: Any, number: int) -> int | None:
    if not isinstance(label, int) or isinstance(label, bool):
        return None
    if not -(2**63) <= label < 2**63:
        raise GraphError(f"the label of its node number {number} is an integer of more than 64 bits.")
    return label
