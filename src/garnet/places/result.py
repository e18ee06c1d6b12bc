"""What purifying a graph on disk gives back."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from garnet.errors import GarnetError
from garnet.graph.graph import Graph
from garnet.places.edge_table import EdgeTable, is_table
from garnet.places.neighbors import Effort
from garnet.places.prune import Pruned
from garnet.places.tiles import TiledGraph
from garnet.progress import Stage
from garnet.purify.result import plain

if TYPE_CHECKING:
    from garnet.purify.garnet import GARNET


@dataclass(frozen=True, eq=False)
class TiledPurification:
    """What purifying a graph on disk gave.

    Attributes:
        graph: the purified graph; on disk if a folder was given for it, in tiles or as a table of edges, in memory if
            not.
        values: leading eigenvalues.
        residuals: of the eigenpairs.
        pruned: how many edges were kept, dropped and added, and the score below which edges were pruned.
        stages: cost of each stage; of a run that was stopped, those of all its pieces that counted; none if it was
            done before.
        parts: into how many parts the nodes were cut.
        parameters: the purifier that made it.
        effort: how many cells were searched for neighbours, and the recall that this promises; None if none were.
        done_before: whether the very same call had made the output earlier, and nothing was to be done.
    """

    graph: Graph | TiledGraph | EdgeTable
    values: list[float]
    residuals: list[float]
    pruned: Pruned
    stages: tuple[Stage, ...]
    parts: int
    parameters: GARNET
    effort: Effort | None = None
    done_before: bool = False

    @property
    def seconds(self) -> float:
        """Wall time of all stages."""
        return sum(stage.seconds for stage in self.stages)

    def summary(self) -> dict[str, Any]:
        """The figures of this purification as plain values, ready for JSON."""
        pruned = self.pruned
        return {
            "nodes": self.graph.num_nodes,
            "edges_before": pruned.kept + pruned.dropped,
            "edges_after": self.graph.num_edges,
            "kept": pruned.kept,
            "dropped": pruned.dropped,
            "added": pruned.added,
            "base_edges": pruned.base_edges,
            "probes": None if self.effort is None else self.effort.probes,
            "recall": None if self.effort is None else self.effort.recall,
            "rank": len(self.values),
            "largest_residual": max(self.residuals),
            "threshold": plain(pruned.threshold),
            "seconds": self.seconds,
            "stages": [asdict(stage) for stage in self.stages],
            "parts": self.parts,
            "parameters": plain_parameters(self.parameters),
        }


def to_facts(result: TiledPurification) -> dict[str, Any]:
    """All but graph and parameters as plain values, for the manifest of a result's folder."""
    pruned = {name: value for name, value in vars(result.pruned).items() if name != "graph"}
    return {
        "nodes": result.graph.num_nodes,
        "left_out": list(result.graph.left_out) if isinstance(result.graph, EdgeTable) else [],
        "values": result.values,
        "residuals": result.residuals,
        "pruned": pruned,
        "stages": [asdict(stage) for stage in result.stages],
        "parts": result.parts,
        "effort": None if result.effort is None else asdict(result.effort),
    }


def without_costs(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts that are the same whenever the same run is made."""
    return {**facts, "stages": []}


def from_facts(
    facts: dict[str, Any], output: Path, purifier: GARNET, *, done_before: bool = False
) -> TiledPurification:
    """The purification whose result is in a folder, from what it wrote down about itself.

    Raises:
        GraphError: a file of the result is missing.
        GarnetError: the facts are not those of a purification.
    """
    try:
        edges = facts["pruned"]["kept"] + facts["pruned"]["added"]
        graph: TiledGraph | EdgeTable
        if is_table(output):
            graph = EdgeTable(output, facts["nodes"], edges, tuple(facts["left_out"]))
        else:
            graph = TiledGraph.open(output)
        return TiledPurification(
            graph=graph,
            values=facts["values"],
            residuals=facts["residuals"],
            pruned=Pruned(graph=graph, **facts["pruned"]),
            stages=tuple(Stage(**stage) for stage in facts["stages"]),
            parts=facts["parts"],
            parameters=purifier,
            effort=None if facts["effort"] is None else Effort(**facts["effort"]),
            done_before=done_before,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise GarnetError(f"The manifest in {output} is damaged; remove that folder and purify again.") from error


def plain_parameters(purifier: GARNET) -> dict[str, Any]:
    """The parameters of a purifier as plain values; where it does its work is none."""
    return {field.name: plain(getattr(purifier, field.name)) for field in fields(purifier) if field.name != "cluster"}
