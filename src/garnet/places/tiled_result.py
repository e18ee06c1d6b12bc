"""The result of purifying a tiled graph, from its own record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from garnet.errors import GarnetError
from garnet.places.edge_table import EdgeTable, is_table
from garnet.places.tiled_scores import TiledLedger
from garnet.places.tiled_work import ledger_name
from garnet.places.tiles import TiledGraph
from garnet.progress import Stage
from garnet.purify.result import AnyLedger, Ledger, Purification, without_vectors
from garnet.purify.scores import Choice, Tally
from garnet.purify.settings import Settings


def held(ledger: AnyLedger) -> Ledger:
    """A sorted ledger in memory, from one on disk that is about to be removed."""
    batches = list(ledger.batches())
    columns = [torch.from_numpy(np.concatenate(every, axis=-1)) for every in zip(*batches, strict=True)]
    order = (columns[0][0] * ledger.num_nodes + columns[0][1]).argsort()
    edges, scores, given, stays, near = (column[..., order] for column in columns)
    return Ledger(edges, scores, given, stays, ledger.num_nodes, near)


def from_facts(
    facts: dict[str, Any],
    output: Path,
    method: Any,
    place: str,
    *,
    done_before: bool = False,
    scored: Path | None = None,
) -> Purification:
    """The purification whose result is in a folder, from its own record.

    Args:
        facts: what `GraphOnDisk.result` delivered.
        output: the folder.
        method: the purifier that made it.
        place: where.
        done_before: whether it was made by an earlier call.
        scored: the directory of a run that still has the scored edges.

    Raises:
        GraphError: a file of the result is missing.
        GarnetError: the facts are not those of a purification.
    """
    try:
        bounds, tally, choice = tuple(facts["bounds"]), Tally(*facts["tally"]), Choice(**facts["choice"])
        tiles = [(i, j) for i in range(len(bounds) - 1) for j in range(i, len(bounds) - 1)]
        files = {(i, j): output / ledger_name(i, j) for i, j in tiles if (output / ledger_name(i, j)).is_file()}
        if scored is not None:
            files = {(i, j): scored / f"{facts['tiles']}-{i}-{j}.bin" for i, j in tiles}
        graph: TiledGraph | EdgeTable
        if is_table(output):
            graph = EdgeTable(output, bounds[-1], tally.kept + tally.added, tuple(facts["left_out"]))
        else:
            graph = TiledGraph.open(output)
        return Purification(
            graph=graph,
            spectrum=without_vectors(facts["values"], facts["residuals"], facts["products"]),
            threshold=choice.threshold,
            ledger=TiledLedger(files, bounds, choice, tally, bounds[-1]),
            settings=Settings.of_plain(facts["settings"]),
            parameters=method,
            place=place,
            stages=tuple(Stage(**stage) for stage in facts["stages"]),
            parts=len(bounds) - 1,
            probes=facts["probes"],
            recall=facts["recall"],
            done_before=done_before,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise GarnetError(f"The manifest in {output} is damaged; remove that folder and purify again.") from error
