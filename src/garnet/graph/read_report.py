"""What was read from a source, in one line: a guess that is not reported is sooner or later a wrong one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ReadReport:
    """What became of the rows of a source.

    Attributes:
        table: how a table of edges was read, in words; empty for other sources.
        pairs: rows or pairs in the source.
        later: rows left out because of their times.
        nodes: of the graph.
        edges: of the graph.
        loops: pairs of a node with itself, dropped.
        zeros: pairs of weight zero, dropped.
        repeated: pairs that had come before in the same direction, merged.
        duplicates: the rule for merging them.
        isolated: nodes without an edge.
        notes: what was read about the nodes, a line each.
    """

    table: str = ""
    pairs: int = 0
    later: int = 0
    nodes: int = 0
    edges: int = 0
    loops: int = 0
    zeros: int = 0
    repeated: int = 0
    duplicates: str = "max"
    isolated: int = 0
    notes: tuple[str, ...] = ()

    @property
    def worth_saying(self) -> bool:
        """Whether there was anything to guess, to drop or to merge."""
        return bool(self.table or self.notes or self.loops or self.zeros or self.repeated)

    def __str__(self) -> str:
        said = [f"{self.pairs:,} rows, {self.table}"] if self.table else []
        said.append(f"{_several(self.edges, 'edge')} between {_several(self.nodes, 'node')}")
        said += [f"{_several(count, what)} {became}" for count, what, became in self._changed() if count]
        return "\n".join(["; ".join(said), *self.notes])

    def _changed(self) -> tuple[tuple[int, str, str], ...]:
        return (
            (self.later, "later row", "left out"),
            (self.loops, "loop", "dropped"),
            (self.zeros, "row", "of weight zero dropped"),
            (self.repeated, "duplicate", f"merged ({self.duplicates})"),
            (self.isolated, "node", "without edges"),
        )


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
