"""What an attack leaves behind: the changes it made, and to which graph."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.errors import GraphError
from garnet.graph.adjacency import build_adjacency
from garnet.graph.graph import Edges, Graph
from garnet.graph.html import html_table
from garnet.io.archive import described
from garnet.io.atomic import atomic_path
from garnet.io.text import reading

_DESCRIBED: dict[str, type] = {
    "fingerprint": str, "result": str, "attack": str, "parameters": dict, "budget": str, "seed": int, "inputs": str,
    "complete": bool,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Entries:
    """Changed entries of the features.

    Attributes:
        places: (2, f) node and column of each.
        before: (f,) values in the clean graph.
        after: (f,) values that the attack put there.
    """

    places: NDArray[np.int64]
    before: NDArray[np.float32]
    after: NDArray[np.float32]

    @classmethod
    def none(cls) -> Entries:
        """No changes at all."""
        return cls(np.zeros((2, 0), dtype=np.int64), *(np.zeros(0, dtype=np.float32) for _ in range(2)))

    def __len__(self) -> int:
        return int(self.places.shape[1])

    def made_in(self, features: Any) -> bool:
        """Whether the features, dense or sparse, have the attack's values; otherwise they have those from before.

        Raises:
            GraphError: they have neither.
        """
        if features is None:
            raise GraphError("The perturbation changes features, and the graph has none.")
        nodes, columns = self.places
        if nodes.max() >= features.shape[0] or columns.max() >= features.shape[1]:
            raise GraphError("The perturbation changes features that the graph does not have.")
        found = entries_at(features, self.places)
        if np.array_equal(found, self.before):
            return False
        if np.array_equal(found, self.after):
            return True
        raise GraphError("The perturbation was made for other features than those of the graph.")

    def put(self, features: Any, values: NDArray[np.float32]) -> Any:
        """A copy of the features with these values at the places; sparse ones store no zeros."""
        nodes, columns = self.places
        if not sp.issparse(features):
            changed = features.copy()
            changed[nodes, columns] = values
            return changed
        old, width = features.tocoo(), np.int64(features.shape[1])
        stays = ~np.isin(old.row.astype(np.int64) * width + old.col, nodes * width + columns) & (old.data != 0)
        new = values != 0
        rows = np.concatenate([old.row[stays], nodes[new]])
        cols = np.concatenate([old.col[stays], columns[new]])
        data = np.concatenate([old.data[stays], values[new]]).astype(np.float32)
        changed = sp.csr_array((data, (rows, cols)), shape=features.shape)
        changed.sort_indices()
        return changed


@dataclass(frozen=True, eq=False, repr=False)
class Perturbation:
    """Edges that were flipped and features that were changed, in the order of the attack.

    Applied twice, it gives the graph back: `p.apply(p.apply(graph)) == graph`.

    Attributes:
        edges: (2, m) undirected edges, each once with the smaller node first; present ones are removed, absent ones
            added.
        weights: (m,) weight of each while it is present.
        fingerprint: of the graph that was attacked.
        result: fingerprint of the attacked graph.
        attack: name of the attack.
        parameters: of the attack.
        budget: the attack's budget, in words.
        seed: of everything random.
        inputs: digest of the victim, and of the features, labels and split if the attack needs any of them.
        targets: nodes it was aimed at; empty for an attack on the whole graph.
        entries: changed features.
        complete: False if the attack was stopped before its budget was spent.
    """

    edges: Edges
    weights: NDArray[np.float32]
    fingerprint: str
    result: str
    attack: str = ""
    parameters: dict[str, Any] = field(default_factory=dict)
    budget: str = ""
    seed: int = 0
    inputs: str = ""
    targets: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    entries: Entries = field(default_factory=Entries.none)
    complete: bool = True

    @classmethod
    def of(cls, graph: Graph, edges: Edges, entries: Entries | None = None, **provenance: Any) -> Perturbation:
        """The perturbation of a graph that flips these edges and changes these features; new edges have weight one."""
        present = _weights_of(graph, edges)
        weights = np.where(present > 0, present, np.float32(1))
        made = cls(edges, weights, graph.fingerprint, "", entries=entries or Entries.none(), **provenance)
        return replace(made, result=made._flipped(graph).fingerprint)

    @property
    def num_changes(self) -> int:
        """Flipped edges and changed features together."""
        return int(self.edges.shape[1]) + len(self.entries)

    def apply(self, graph: Graph) -> Graph:
        """The graph with the changes made, or undone if it already has them.

        Raises:
            GraphError: it was made for another graph.
        """
        found = graph.fingerprint
        if found not in (self.fingerprint, self.result):
            raise GraphError(
                f"The perturbation was made for a graph with the fingerprint {self.fingerprint}. Got one with {found}; "
                "give it the graph that was attacked."
            )
        flipped = self._flipped(graph)
        if not len(self.entries):
            return flipped
        made = self.entries.made_in(graph.features)
        if self.edges.shape[1] and made != (found == self.result):
            raise GraphError("The perturbation is made in either the edges or the features of the graph, not in both.")
        values = self.entries.before if made else self.entries.after
        return replace(flipped, features=self.entries.put(graph.features, values))

    def first(self, edges: int, graph: Graph) -> Perturbation:
        """What the same attack had done after its first edge flips; for attacks that choose one after the other."""
        kept = Perturbation.of(graph, self.edges[:, :edges], self.entries)
        return replace(self, edges=kept.edges, weights=kept.weights, result=kept.result, complete=False)

    def added(self, graph: Graph) -> Edges:
        """The flipped edges that the clean graph does not have."""
        return self.edges[:, _weights_of(graph, self.edges) == 0]

    def dropped(self, graph: Graph) -> Edges:
        """The flipped edges that the clean graph has."""
        return self.edges[:, _weights_of(graph, self.edges) > 0]

    def save(self, path: str | Path) -> None:
        """Write it to an .npz file, whole or not at all; the same perturbation gives the same bytes."""
        if Path(path).suffix.lower() != ".npz":
            raise GraphError(f"A perturbation is saved to a file that ends in .npz. Got {path} instead.")
        described = json.dumps({name: getattr(self, name) for name in _DESCRIBED}).encode()
        arrays: dict[str, Any] = {"perturbation": np.frombuffer(described, dtype=np.uint8), **self._arrays()}
        with atomic_path(path) as unfinished, unfinished.open("wb") as stream:
            np.savez_compressed(stream, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Perturbation:
        """Read what `save` wrote; nothing in the file is unpickled.

        Raises:
            GraphError: there is no such file, or it holds no perturbation.
        """
        with reading(Path(path)):
            if not Path(path).is_file():
                raise GraphError("there is no perturbation in that place.")
            otherwise = "it is an .npz file of another kind; garnet attack makes perturbations."
            with described(Path(path), "perturbation", otherwise) as (archive, text):
                facts = _description(text)
                edges, places = (archive.read(name, "iu", ndim=2).astype(np.int64) for name in ("edges", "places"))
                targets = archive.read("targets", "iu", ndim=1).astype(np.int64)
                weights, before, after = (
                    archive.read(name, "f", ndim=1).astype(np.float32) for name in ("weights", "before", "after")
                )
            made = cls(edges, weights, targets=targets, entries=Entries(places, before, after), **facts)
            made._require_sound()
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Perturbation):
            return NotImplemented
        mine, theirs = self._arrays(), other._arrays()
        same = all(getattr(self, name) == getattr(other, name) for name in _DESCRIBED)
        return same and all(np.array_equal(mine[name], theirs[name]) for name in mine)

    def __repr__(self) -> str:
        parts = [f"{self.edges.shape[1]} edges"] if self.edges.shape[1] or not len(self.entries) else []
        parts += [f"{len(self.entries)} entries"] if len(self.entries) else []
        parts += [f"by {self.attack}, seed {self.seed}"] if self.attack else []
        return f"Perturbation({', '.join(parts)}{'' if self.complete else ', stopped'})"

    def _repr_html_(self) -> str:
        rows = {
            "attack": self.attack,
            "budget": self.budget,
            "seed": str(self.seed),
            "flipped edges": f"{self.edges.shape[1]:,}",
            "changed features": f"{len(self.entries):,}",
            "targets": f"{len(self.targets):,}" if len(self.targets) else "the whole graph",
            "made for the graph": self.fingerprint,
            "stopped early": "no" if self.complete else "yes",
        }
        return html_table("Perturbation", {name: text for name, text in rows.items() if text})

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays by the names under which they are saved, integers in the smaller type that holds them."""
        whole = {"edges": self.edges, "targets": self.targets, "places": self.entries.places}
        small = {name: one.astype(np.int32 if one.max(initial=0) < 2**31 else np.int64) for name, one in whole.items()}
        return {**small, "weights": self.weights, "before": self.entries.before, "after": self.entries.after}

    def _require_sound(self) -> None:
        """Refuse arrays that no attack gives; anybody may have written the file."""
        edges, places = self.edges, self.entries.places
        numbers = (self.weights, self.entries.before, self.entries.after)
        for name, pairs in (("edges", edges), ("places", places)):
            if pairs.shape[0] != 2:
                raise GraphError(f"its array '{name}' has shape {pairs.shape} but must have two rows.")
            if (pairs < 0).any() or np.unique(pairs, axis=1).shape[1] < pairs.shape[1]:
                raise GraphError(f"its array '{name}' has negative numbers or the same pair twice.")
        if (edges[0] >= edges[1]).any():
            raise GraphError("its edges are not pairs of nodes with the smaller one first.")
        if (self.targets < 0).any():
            raise GraphError("its targets are no node numbers.")
        if [len(one) for one in numbers] != [edges.shape[1], places.shape[1], places.shape[1]]:
            raise GraphError("its arrays are not of the same length.")
        if not all(np.isfinite(one).all() for one in numbers) or (self.weights <= 0).any():
            raise GraphError("it has weights or features that are not finite, or weights that are not positive.")

    def _flipped(self, graph: Graph) -> Graph:
        if not self.edges.shape[1]:
            return graph
        present = _weights_of(graph, self.edges) > 0
        gone, come, new = self.edges[:, present], self.edges[:, ~present], self.weights[~present]
        old, n = graph.adjacency.tocoo(), np.int64(graph.num_nodes)
        removed = np.concatenate([gone[0] * n + gone[1], gone[1] * n + gone[0]])
        stays = ~np.isin(old.row.astype(np.int64) * n + old.col, removed)
        rows = np.concatenate([old.row[stays], come[0], come[1]])
        cols = np.concatenate([old.col[stays], come[1], come[0]])
        data = np.concatenate([old.data[stays], new, new])
        return replace(graph, adjacency=build_adjacency(rows, cols, data, graph.num_nodes, False))


def _weights_of(graph: Graph, edges: Edges) -> NDArray[np.float32]:
    """The weight of each pair in a graph, zero where there is no edge."""
    if edges.max(initial=-1) >= graph.num_nodes:
        raise GraphError(f"The perturbation flips edges of node {edges.max()}, which does not exist.")
    return entries_at(graph.adjacency, edges)


def entries_at(matrix: Any, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """The entries of a dense or sparse matrix at places (2, m)."""
    found = matrix[places[0], places[1]]
    # SciPy gives a sparse array for no places at all.
    return np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float32).ravel()


def _description(text: bytes) -> dict[str, Any]:
    try:
        described = {"inputs": "", **json.loads(text)}
        if not all(isinstance(described[name], kind) for name, kind in _DESCRIBED.items()):
            raise TypeError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise GraphError("its description is damaged.") from None
    return {name: described[name] for name in _DESCRIBED}
