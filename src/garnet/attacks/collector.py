"""The changes of an attack as they come, each of them checked."""

from __future__ import annotations

import numpy as np

from garnet.errors import AttackError
from garnet.graph.graph import Edges, Graph
from garnet.graph.perturbation import Entries, entries_at

Change = Edges | Entries


class Collector:
    """Changes as they come, checked one by one."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self._n, self._budget, self._graph = graph.num_nodes, budget, graph
        self._keys: dict[int, None] = {}
        self._values: dict[tuple[int, int], tuple[float, float]] = {}

    @property
    def size(self) -> int:
        """How many so far."""
        return len(self._keys) + len(self._values)

    @property
    def full(self) -> bool:
        """Whether the budget is spent."""
        return self.size >= self._budget

    @property
    def edges(self) -> Edges:
        """(2, m), in the order they came."""
        keys = np.fromiter(self._keys, dtype=np.int64, count=len(self._keys))
        return np.stack(np.divmod(keys, self._n))

    @property
    def entries(self) -> Entries:
        """Likewise."""
        if not self._values:
            return Entries.none()
        before, after = np.array(list(self._values.values()), dtype=np.float32).T
        return Entries(np.array(list(self._values), dtype=np.int64).T, before, after)

    def take(self, change: Change) -> None:
        """Add changes, as many as the budget has room for.

        Raises:
            AttackError: a change is not allowed.
        """
        if isinstance(change, Entries):
            self._take_entries(change)
            return
        pairs = np.asarray(change)
        if pairs.ndim != 2 or pairs.shape[0] != 2 or pairs.dtype.kind not in "iu":
            raise AttackError(f"An attack must give flips of shape (2, j). Got {pairs.shape}, {pairs.dtype} instead.")
        for one, other in np.sort(pairs.astype(np.int64), axis=0).T[: self._budget - self.size].tolist():
            if one == other or one < 0 or other >= self._n:
                raise AttackError(f"An attack flipped ({one}, {other}), which is no pair of nodes of the graph.")
            if one * self._n + other in self._keys:
                raise AttackError(f"An attack flipped ({one}, {other}) twice.")
            self._keys[one * self._n + other] = None

    def _take_entries(self, change: Entries) -> None:
        features, room = self._graph.features, self._budget - self.size
        if not len(change):
            return
        if features is None:
            raise AttackError("An attack changed features of a graph that has none.")
        places = change.places[:, :room]
        if (places < 0).any() or (places >= np.array(features.shape)[:, None]).any():
            raise AttackError("An attack changed features that the graph does not have.")
        values = np.stack([entries_at(features, places), change.after[:room]], axis=1).tolist()
        for (node, column), (before, after) in zip(places.T.tolist(), values, strict=True):
            if (node, column) in self._values or before == after or not np.isfinite(after):
                raise AttackError(f"An attack changed the feature {column} of node {node} twice, or not at all.")
            self._values[node, column] = (before, after)
