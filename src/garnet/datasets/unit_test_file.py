"""The black-box unit test of robustness: graphs, splits, and the most damaging edge flips that others found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from garnet.datasets.folders import find, sought
from garnet.errors import GraphError, ParameterError, brief
from garnet.graph.graph import Graph, Split, as_graph
from garnet.graph.perturbation import Perturbation
from garnet.io.archive import Archive
from garnet.io.limits import require_plausible
from garnet.io.text import reading

UNIT_TEST_FILE = "unit_test.npz"
SCENARIOS = ("evasion", "poisoning")
"""Whether an attack comes after training or before it."""

_GRAPHS = ("cora_ml", "citeseer")
_PARTS = ("train", "val", "test")
_SOURCE = "[a-z0-9_]{1,40}"
_PERTURBATION = re.compile(
    rf"perturbations/(?P<scenario>{'|'.join(SCENARIOS)})/(?P<source>{_SOURCE})/"
    r"split_(?P<split>[0-9])/budget_(?P<budget>[0-9]{1,9}(?:\.[0-9]{1,9})?)"
)
_SPLIT = re.compile(rf"splits/(?P<split>[0-9])/(?:{'|'.join(_PARTS)})")
_ATTACK = re.compile(rf"unit-test/(?P<scenario>{'|'.join(SCENARIOS)})/(?P<source>{_SOURCE})")


class Flips(NamedTuple):
    """One perturbation of the file.

    Attributes:
        graph: `cora_ml` or `citeseer`.
        scenario: `evasion` or `poisoning`.
        source: the model it was found against, such as `jaccard_gcn`.
        split: number of the split whose test nodes it targets.
        budget: number of edges it may flip.
    """

    graph: str
    scenario: str
    source: str
    split: int
    budget: float

    @property
    def attack(self) -> str:
        """Its name in `garnet.datasets.poisoned` and in studies, such as `unit-test/evasion/jaccard_gcn`."""
        return f"unit-test/{self.scenario}/{self.source}"


@dataclass(frozen=True)
class UnitTest:
    """The contents of a file of the unit test; arrays are read and checked when asked for.

    Attributes:
        path: the file.
        splits: numbers of the splits of each graph.
        arrays: name of the array of each perturbation.
    """

    path: Path
    splits: dict[str, tuple[int, ...]]
    arrays: dict[Flips, str]

    @property
    def flips(self) -> tuple[Flips, ...]:
        """All perturbations, by graph, scenario, source, split and budget."""
        return tuple(self.arrays)

    def graph(self, name: str, split: int = 0) -> Graph:
        """One of the graphs with one of its splits.

        Raises:
            ParameterError: there is no such split.
            GraphError: an array is missing, or does not belong to a graph.
        """
        return self._read(name, split)[0]

    def guesses(self, name: str) -> str:
        """What the file does not say about a graph, and what was assumed."""
        return self._read(name, self.splits[name][0])[1]

    def perturbation(self, flips: Flips, graph: Graph) -> Perturbation:
        """One perturbation of its graph; whether an edge is listed once or in both directions makes no difference.

        Raises:
            ParameterError: there is none with that name.
            GraphError: the array is not a list of edges of the graph, or is longer than its budget.
        """
        if flips not in self.arrays:
            alike = sorted({one.budget for one in self.arrays if one[:4] == flips[:4]})
            known = f"Those that exist: {', '.join(f'{one:g}' for one in alike)}." if alike else "It has none at all."
            raise ParameterError(
                f"There is no perturbation of {flips.graph}, split {flips.split}, by {flips.attack} with a budget of "
                f"{flips.budget:g} in {self.path}. {known}"
            )
        name = self.arrays[flips]
        with reading(self.path), Archive(self.path) as archive:
            pairs = np.sort(_pairs(archive, name, graph.num_nodes, graph.num_nodes), axis=1)
            if (loops := pairs[:, 0] == pairs[:, 1]).any():
                raise GraphError(f"its array '{name}' flips an edge from node {pairs[loops][0, 0]} to itself.")
            _, first = np.unique(pairs, axis=0, return_index=True)
            if flips.budget >= 1 and len(first) > flips.budget:
                raise GraphError(f"its array '{name}' flips {len(first)} edges, more than the budget in its name.")
        edges = pairs[np.sort(first)].T
        return Perturbation.of(graph, edges, attack=flips.attack, budget=f"{flips.budget:g} edges")

    def _read(self, name: str, split: int) -> tuple[Graph, str]:
        """A graph, and what was guessed about it."""
        if split not in self.splits.get(name, ()):
            known = ", ".join(map(str, self.splits.get(name, ()))) or "none"
            raise ParameterError(f"There is no split {split} of {name} in {self.path}. Those that exist: {known}.")
        with reading(self.path), Archive(self.path) as archive:
            labels = archive.read(f"{name}/dataset/labels", "iu", ndim=1)
            n = len(labels)
            if not n or labels.min() < 0:
                raise GraphError(f"its array '{name}/dataset/labels' must have a class >= 0 for each node.")
            pairs = _pairs(archive, f"{name}/dataset/adjacency", n, n)
            entries = _pairs(archive, f"{name}/dataset/features", n, None)
            columns = int(entries[:, 1].max(initial=-1)) + 1
            require_plausible(columns, len(entries), "columns of features")
            parts = Split(*(archive.read(f"{name}/splits/{split}/{part}", "iu", ndim=1) for part in _PARTS))
            if not all(len(getattr(parts, part)) for part in _PARTS):
                raise GraphError(f"its split {split} of {name} has a part without nodes.")
            graph = as_graph((pairs.T, n), features=_ones(entries, (n, columns)), labels=labels, split=parts,
                             symmetrize=True)  # fmt: skip
        told = (
            f"{name} has {n:,} nodes, one for each label; {columns:,} columns of features, up to the last one that has "
            f"an entry; and {graph.num_edges:,} edges, {_listed(pairs)}."
        )
        return graph, told


def unit_test(path: str | Path | None = None) -> UnitTest:
    """The black-box unit test of Mujkanovic, Geisler, Günnemann and Bojchevski (NeurIPS 2022).

    "Are Defenses for Graph Neural Networks Robust?" comes with the strongest perturbations that its authors found
    against eight models, on five splits of two graphs: `unit_test/unit_test.npz` in
    github.com/LoadingByte/are-gnn-defenses-robust. A defence is as good as its accuracy under the worst of them.

    Args:
        path: the file; None looks for `unit_test.npz` in the data folder (GARNET_DATA), and in the cache.

    Raises:
        GraphError: there is no such file, or it is something else.
    """
    found = find(UNIT_TEST_FILE) if path is None else Path(path)
    if found is None:
        raise GraphError(
            f"The unit test was not found: {sought(UNIT_TEST_FILE)}; put the file unit_test/{UNIT_TEST_FILE} of "
            "github.com/LoadingByte/are-gnn-defenses-robust there."
        )
    with reading(found):
        if not found.is_file():
            raise GraphError("there is no such file.")
        with Archive(found) as archive:
            return _listing(found, sorted(archive))


def parse_attack(attack: Any) -> tuple[str, str] | None:
    """Scenario and source of an attack such as `unit-test/evasion/jaccard_gcn`; None for any other attack."""
    found = _ATTACK.fullmatch(attack) if isinstance(attack, str) else None
    return found and (found["scenario"], found["source"])


def _listing(path: Path, names: list[str]) -> UnitTest:
    """What a file contains, by the names of its arrays."""
    splits: dict[str, tuple[int, ...]] = {}
    arrays: dict[Flips, str] = {}
    for graph in _GRAPHS:
        own = [name.removeprefix(f"{graph}/") for name in names if name.startswith(f"{graph}/")]
        numbers = {int(found["split"]) for name in own if (found := _SPLIT.fullmatch(name))}
        if own and not numbers:
            raise GraphError(f"it has no split of {graph}, such as '{graph}/splits/0/train'.")
        if own:
            splits[graph] = tuple(sorted(numbers))
        for name in own:
            if not name.startswith("perturbations/"):
                continue
            found = _PERTURBATION.fullmatch(name)
            if found is None or int(found["split"]) not in numbers:
                raise GraphError(f"its array {brief(f'{graph}/{name}')} has no scenario, model, split or budget.")
            scenario, source, split, budget = found.group("scenario", "source", "split", "budget")
            flips = Flips(graph, scenario, source, int(split), float(budget))
            if flips in arrays:
                raise GraphError(f"its arrays '{arrays[flips]}' and '{graph}/{name}' mean the same perturbation.")
            arrays[flips] = f"{graph}/{name}"
    for graph, scenario in product(splits, SCENARIOS):
        if not any(flips[:2] == (graph, scenario) for flips in arrays):
            raise GraphError(f"it has no perturbations of {graph} for {scenario}.")
    if not splits:
        raise GraphError(f"it is not the unit test, since it has nothing of {' or '.join(_GRAPHS)}.")
    return UnitTest(path, splits, {flips: arrays[flips] for flips in sorted(arrays)})


def _pairs(archive: Archive, name: str, rows: int, columns: int | None) -> NDArray[np.int64]:
    """(m, 2) positions in a matrix of this many rows and columns; None for no limit."""
    shape = archive.header(name, "iu", ndim=2).shape
    if shape[1] != 2:
        raise GraphError(f"its array '{name}' has shape {shape} but must have two columns.")
    pairs = archive.read(name, "iu", ndim=2)
    for place, bound in zip(pairs.T, (rows, columns or 2**31), strict=True):
        if place.size and (place.min() < 0 or place.max() >= bound):
            bad = place[(place < 0) | (place >= bound)][0]
            raise GraphError(f"its array '{name}' has the index {bad}, outside of 0 to {bound - 1}.")
    return pairs.astype(np.int64)


def _ones(places: NDArray[np.int64], shape: tuple[int, int]) -> sp.csr_array:
    """A matrix of ones at these positions; one listed twice is still one."""
    matrix = sp.csr_array((np.ones(len(places), dtype=np.float32), tuple(places.T)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _listed(pairs: NDArray[np.int64]) -> str:
    """Whether a list of undirected edges has each once or in both directions."""
    proper = pairs[pairs[:, 0] != pairs[:, 1]]
    loops = len(pairs) - len(proper)
    ordered, edges = (len(np.unique(some, axis=0)) for some in (proper, np.sort(proper, axis=1)))
    told = "listed once each" if ordered == edges else "listed in both directions"
    if edges < ordered < 2 * edges:
        told = "some of them listed in both directions"
    return told + (f", without {loops:,} loops" if loops else "")
