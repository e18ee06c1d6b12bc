"""Lists of edges in text or Parquet, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from garnet.errors import GraphError
from garnet.io.edge_list import line_breaks, read_columns
from garnet.io.edge_source import Chunk, EdgeSource, bare_graph, checked_pairs
from garnet.io.parquet import ParquetList
from garnet.io.text import read_chunks, reading

_LONGEST_LINE = 1 << 20
_SHORTEST_ROW = 4
_MARK = b"\xef\xbb\xbf"
"""The byte order mark with which some programs begin a text."""


def text_source(path: Path, delimiter: str | None) -> EdgeSource:
    """Rows `u, v` or `u, v, weight` by the rules that `load_graph` states, with integers for names."""

    def edges(at_once: int) -> Iterator[Chunk]:
        with reading(path):
            # As no row is shorter, no piece has more rows than wanted.
            pieces = _pieces(path, _SHORTEST_ROW * at_once)
            for heads, tails, weights in read_columns(pieces, delimiter, only_integers=True):
                yield checked_pairs(heads, tails, weights, None)

    return EdgeSource(edges=edges, nodes=None, one_row_an_edge=True, path=path)


def parquet_source(path: Path) -> EdgeSource:
    """A file or a folder that `ParquetList` opens."""
    found = ParquetList.open(path)
    n = found.num_nodes

    def edges(at_once: int) -> Iterator[Chunk]:
        for file, heads, tails, weights in found.pieces(at_once, only_integers=True):
            with reading(file):
                yield checked_pairs(heads, tails, weights, n)

    nodes = None if n is None else bare_graph(n)
    return EdgeSource(edges=edges, nodes=nodes, one_row_an_edge=True, path=path)


def _pieces(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """The text in pieces of whole lines, each with the number of its first."""
    line, rest, begun = 1, b"", False
    for chunk in read_chunks(path, size):
        text = rest + chunk
        if b"\0" in text:
            raise GraphError("it holds NUL bytes, so it is not a text file.")
        if not begun and len(text) >= len(_MARK):
            text, begun = text.removeprefix(_MARK), True
        # A carriage return at the very end may be the first half of the end of a line.
        end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
        if not end and len(text) > _LONGEST_LINE:
            raise GraphError(f"it has a line of more than {_LONGEST_LINE} characters.")
        rest = text[end:]
        if end:
            yield line, text[:end]
            line += line_breaks(text[:end])
    if rest:
        yield line, rest
