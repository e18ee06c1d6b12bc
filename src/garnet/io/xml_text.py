"""Untrusted XML: read as a stream of elements, without its own entities, and without fetching anything else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol
from xml.parsers import expat

from garnet import machine
from garnet.errors import GraphError
from garnet.io.text import read_chunks

_SHARE = 16
"""A text of markup may fill one part in this many of the memory: as Python's objects, what it lists takes more."""
_CHUNK = 1 << 16
_LONGEST_TEXT = 1 << 20
_DEEPEST = 100


class Listener(Protocol):
    """Receives each element, by its name without a namespace prefix."""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def end(self, name: str, text: str) -> None:
        """An element ends, with the text in it; only that after its last child counts."""


def require_held(size: int) -> None:
    """Refuse markup whose nodes and edges would not fit in memory."""
    limit = machine.physical_memory() // _SHARE
    if size > limit:
        raise GraphError(
            f"its text is longer than {limit / 1e9:.3g} GB, too much for this machine's memory; write it as a list of "
            "edges, or as .npz."
        )


def read_xml(path: Path, listener: Listener) -> None:
    """Pass all elements of a file to a listener, unpacked if its name ends in .gz.

    Raises:
        GraphError: it is not XML, is too large for this machine's memory, or declares entities.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    pieces: list[str] = []
    state = {"depth": 0, "text": 0}

    def start(name: str, attributes: dict[str, str]) -> None:
        state["depth"] += 1
        if state["depth"] > _DEEPEST:
            raise GraphError(f"its elements are nested more than {_DEEPEST} deep, which no graph needs.")
        forget()
        listener.start(name.rpartition(":")[2], attributes)

    def end(name: str) -> None:
        state["depth"] -= 1
        text = "".join(pieces)
        forget()
        listener.end(name.rpartition(":")[2], text)

    def hear(text: str) -> None:
        state["text"] += len(text)
        if state["text"] > _LONGEST_TEXT:
            raise GraphError(f"it has a text of more than {_LONGEST_TEXT} characters in one element.")
        pieces.append(text)

    def forget() -> None:
        pieces.clear()
        state["text"] = 0

    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, hear
    parser.EntityDeclHandler = _refuse_entities
    parser.StartDoctypeDeclHandler = _refuse_subset
    _feed(path, parser.Parse)


def _feed(path: Path, parse: Callable[[bytes, bool], object]) -> None:
    size = 0
    try:
        for chunk in read_chunks(path, _CHUNK):
            size += len(chunk)
            require_held(size)
            parse(chunk, False)
        parse(b"", True)
    except expat.ExpatError as error:
        raise GraphError(f"it is not well-formed XML: {error}.") from None
    except (LookupError, ValueError) as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(f"it is not well-formed XML: {error}.") from None


def _refuse_entities(*_: object) -> None:
    raise GraphError("it declares entities, which could unfold without end; write it without.")


def _refuse_subset(name: str, system: str | None, public: str | None, has_subset: bool) -> None:
    if has_subset:
        _refuse_entities()
