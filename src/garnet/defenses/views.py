"""What the members of a committee read of a graph."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from garnet.errors import GarnetError, GarnetWarning
from garnet.graph.graph import Graph
from garnet.progress import Clock
from garnet.purify.base import Cleaned, Purifier
from garnet.purify.garnet import GARNET
from garnet.purify.memory import InMemory
from garnet.purify.result import Purification
from garnet.spectral.spectrum import Spectrum

Members = Sequence[Purifier | None]
"""The purifier of each view; None is the graph as it is."""


class CommitteeWarning(GarnetWarning):
    """A committee goes without a member that cannot read the graph, or without validation nodes."""


def called(purifier: Purifier | None) -> str:
    """A name for a purifier, with the parameters that differ from its defaults.

    Example:
        >>> called(None), called(GARNET(rank=16))
        ('as it is', 'GARNET(rank=16)')
    """
    if purifier is None:
        return "as it is"
    known: Any = purifier
    own = {one.name: getattr(known, one.name) for one in fields(known) if getattr(known, one.name) != one.default}
    return f"{type(purifier).__name__}({', '.join(f'{name}={value!r}' for name, value in own.items())})"


def views_of(
    members: Members, graph: Graph, found: Purification | None, *, device: str, clock: Clock
) -> dict[int, Graph]:
    """The graph of each member that can read it, by the member's index.

    Args:
        members: the purifiers.
        graph: the graph.
        found: a purification that one of them has already made.
        device: where to purify.
        clock: times each member.
    """
    views, spectra = {}, Spectra(members, graph, device)
    for place, purifier in enumerate(members):
        if purifier is not None and purifier.needs_features and not graph.num_features:
            continue
        try:
            with clock("purify"):
                views[place] = _view(purifier, graph, found, spectra)
        except GarnetError as error:
            reason = f"{called(purifier)} is left out of the committee: {error}"
            warnings.warn(reason, CommitteeWarning, stacklevel=6)
    return views


def _view(purifier: Purifier | None, graph: Graph, found: Purification | None, spectra: Spectra) -> Graph:
    if purifier is None:
        return graph
    if found is not None and purifier == found.parameters:
        purified_before: Graph = found.graph
        return purified_before
    if isinstance(purifier, GARNET) and purifier.support != "auto":
        place = InMemory(device=spectra.device, spectrum=spectra.of(purifier))
        purified: Cleaned = purifier.purify(graph, place=place)
    else:
        purified = purifier.purify(graph, device=spectra.device)
    return purified.graph


@dataclass(frozen=True, eq=False)
class Spectra:
    """The spectra of one graph that several purifiers need: each is computed once, at the largest rank.

    A purifier that plants edges reads another graph, and computes its own.

    Attributes:
        members: the purifiers.
        graph: the graph.
        device: where to compute.
    """

    members: Members
    graph: Graph
    device: str
    _known: dict[tuple[Any, ...], Spectrum] = field(default_factory=dict)

    def of(self, purifier: GARNET) -> Spectrum:
        """A spectrum with at least what a purifier needs."""
        kind = _kind(purifier)
        if kind not in self._known:
            alike = [one for one in self.members if isinstance(one, GARNET) and _kind(one) == kind]
            alike = [one for one in alike if one.support != "auto"]
            largest = max(purifier.on(self.graph).rank, *map(self._rank, alike))
            self._known[kind] = replace(purifier, rank=largest).embed(self.graph, device=self.device)
        return self._known[kind]

    def _rank(self, purifier: GARNET) -> int:
        """Number of pairs that it needs; none if the graph does not allow it, which does not affect the others."""
        try:
            return purifier.on(self.graph).rank
        except GarnetError:
            return 0


def _kind(purifier: GARNET) -> tuple[Any, ...]:
    """What distinguishes the spectra of two purifiers, apart from the rank."""
    return purifier.end, purifier.normalize, purifier.tau, purifier.seed
