"""An audit in tiles as a task that can be stopped, with its result in a folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from garnet.audit.tiled_audit import TiledAudit
from garnet.audit.tiled_table import ending_of, ranked_nodes
from garnet.audit.tiled_verdict import read_nodes
from garnet.errors import GarnetError
from garnet.io.scratch import Scratch
from garnet.places.edge_table import TABLE_MANIFEST
from garnet.places.tiled_place import TILES, Task
from garnet.places.tiles import TiledGraph
from garnet.progress import Stage


class AuditTask(Task):
    """An audit on disk or on a cluster, with its settings."""

    what = "a finished audit"

    def key(self, output: Path) -> dict[str, Any]:
        """See `Task`."""
        return {**super().key(output), "what": "audit"}

    def manifest(self, output: Path) -> str:
        """See `Task`."""
        return TABLE_MANIFEST

    @property
    def as_table(self) -> bool:
        """See `Task`."""
        return self.place.output is not None and ending_of(Path(self.place.output)) == ".parquet"

    def found(self, facts: dict[str, Any], output: Path | None, *, done_before: bool = False) -> TiledAudit:
        """See `Task`."""
        try:
            return TiledAudit(
                **{name: facts[name] for name in ("figures", "share", "power", "weights", "labels", "parts", "ending")},
                planted=np.array(facts["planted"], dtype=np.float64),
                top={name: np.array(values, dtype=kind) for name, (kind, values) in facts["top"].items()},
                folder=output,
                place=repr(self.place),
                stages=tuple(Stage(**stage) for stage in facts["stages"]),
                done_before=done_before,
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise GarnetError(f"The manifest in {output} is damaged; remove that folder and audit again.") from error

    def held(self, facts: dict[str, Any], made: Scratch) -> TiledAudit:
        """See `Task`."""
        graph = TiledGraph.open(made.folder / TILES)
        return replace(self.found(facts, None), node_columns=ranked_nodes(graph, read_nodes(made.folder, graph)))
