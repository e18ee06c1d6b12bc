"""Where a result came from: the command, the graphs, the versions and the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from garnet.graph.graph import Graph
from garnet.machine import machine, versions


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to make something again, and to see that it is the same.

    Attributes:
        command: that made it; empty if it was no command.
        fingerprints: of the graphs, by what they are to it.
        versions: of Python and the packages.
        machine: that it was made on.
    """

    command: str
    fingerprints: Mapping[str, str]
    versions: Mapping[str, str | None]
    machine: Mapping[str, Any]

    @classmethod
    def here(cls, command: str, **graphs: Graph) -> Provenance:
        """Of something that is made now, on this machine, with these graphs."""
        fingerprints = {name: graph.fingerprint for name, graph in graphs.items()}
        return cls(command=command, fingerprints=fingerprints, versions=versions(), machine=machine())
