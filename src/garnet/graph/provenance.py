"""Where a result came from: command, graphs, versions and machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from garnet.graph.graph import Graph
from garnet.machine import machine, versions


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What is needed to reproduce a result, and to check that it is the same.

    Attributes:
        command: the command that made it; empty if none did.
        fingerprints: of the graphs, by their role.
        versions: of Python and the packages.
        machine: the machine it was made on.
    """

    command: str
    fingerprints: Mapping[str, str]
    versions: Mapping[str, str | None]
    machine: Mapping[str, Any]

    @classmethod
    def here(cls, command: str, **graphs: Graph) -> Provenance:
        """The provenance of a result made now, on this machine, with these graphs."""
        fingerprints = {name: graph.fingerprint for name, graph in graphs.items()}
        return cls(command=command, fingerprints=fingerprints, versions=versions(), machine=machine())
