"""Measuring one cell: whatever happens, the result is a record."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from garnet.bench.build import build, build_attack, build_graphs
from garnet.bench.cell import Cell, plain
from garnet.bench.record import Record, spread
from garnet.bench.schema import LONGEST_REASON
from garnet.errors import GarnetError, GraphError
from garnet.graph.graph import Graph, as_graph
from garnet.machine import machine, peak_memory, versions
from garnet.parameters import LATER
from garnet.progress import Clock, Progress, Stage, Step, seconds_of
from garnet.training.predictor import Predictor

Measured = tuple[dict[str, Any], tuple[Stage, ...]]
"""Values by name, ready for JSON, and what they cost."""

_MOST_DENSE = 6000  # nodes; the dense matrix of a larger graph takes too much memory and time
_ROWS = 256  # nodes whose two-hop neighbourhoods are held at once
_SMALLEST_RATIO = 1e-6
_SINGULAR_VALUES = 200
_WHERE = ("device", "memory", "cluster", "solver", "neighbors")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class Trial:
    """A cell that is ready to be measured.

    Attributes:
        cell: the cell.
        graph: as it is attacked.
        clean: the same graph before.
        defense: or, where no model is trained, the purifier; None if there is none.
        device: where to compute.
        progress: told how far it is.
    """

    cell: Cell
    graph: Graph
    clean: Graph
    defense: Any
    device: str
    progress: Progress | None

    def purified(self) -> tuple[Graph, tuple[Stage, ...]]:
        """The graph after the purifier, if there is one, and what that cost."""
        if self.defense is None:
            return self.graph, ()
        cleaned = self.defense.purify(self.graph, device=self.device, progress=self.progress)
        return cleaned.graph, cleaned.stages


def measure_cell(cell: Cell, device: str = "cpu", progress: Progress | None = None) -> Record:
    """Measure a cell; an error of any kind makes a failed record with its reason."""
    start = time.perf_counter()
    known: dict[str, Any] = {}
    try:
        if progress is not None:
            progress(Step("load"))
        defense = build(cell, device)
        known["parameters"] = _parameters(cell, defense, device)
        graph, clean = build_graphs(cell, defense, device, progress)
        split = {} if graph.split is None else {"split": graph.split.fingerprint}
        known["fingerprints"] = {"graph": graph.fingerprint, **split}
        values, stages = _MEASURES[cell.measure](Trial(cell, graph, clean, defense, device, progress))
    except Exception as error:  # a cell must not end the study, whatever is wrong with it
        return failed(cell, why_failed(error), time.perf_counter() - start, **known)
    else:
        mean, sd = spread(values.get("accuracy", []))
        known |= {"values": {name: _finite(value) for name, value in values.items()}, "mean": mean, "sd": sd}
        seconds = seconds_of(stages) | {"total": time.perf_counter() - start}
        return _record(cell, seconds, status="done", **known)


def why_failed(error: Exception) -> str:
    """What stopped a measurement, in a sentence."""
    if isinstance(error, GarnetError):
        return str(error)
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return f"there was not enough memory: {error}" if str(error) else "there was not enough memory"
    return f"internal error: {type(error).__name__}: {error}"


def failed(cell: Cell, reason: str, seconds: float, **known: Any) -> Record:
    """The record of a cell that could not be measured, with whatever fields are known nevertheless."""
    return _record(cell, {"total": seconds}, status="failed", reason=reason[:LONGEST_REASON], **known)


def _record(cell: Cell, seconds: dict[str, float], **known: Any) -> Record:
    return Record(
        key=cell.key,
        cell=cell.facts(),
        seeds=cell.seeds,
        seconds=seconds,
        peak_bytes=peak_memory(),
        versions=versions(),
        machine=machine(),
        **known,
    )


def effective_parameters(value: Any) -> Any:
    """All parameters of a defence and of its parts, as plain values, but for what is `LATER` and as it always was."""
    if value is None:
        return {}
    if isinstance(value, list | tuple):
        return [effective_parameters(part) for part in value]
    if not is_dataclass(value):
        return plain(value) if isinstance(value, int | float | str) else without_addresses(repr(value))
    return {"name": type(value).__name__} | {
        one.name: None if (part := getattr(value, one.name)) is None else effective_parameters(part)
        for one in fields(value)
        if LATER not in one.metadata or getattr(value, one.name) != one.default
    }


def without_addresses(text: str) -> str:
    """The text of a value, without where it lies in memory: that is no part of what it is, and differs in each run."""
    return _ADDRESS.sub("", text)


def _parameters(cell: Cell, defense: Any, device: str) -> dict[str, Any]:
    """All parameters of a cell's defence, and of its attack if that is made here."""
    attack = {"attack": effective_parameters(build_attack(cell, defense, device))} if cell.made else {}
    return {**effective_parameters(defense), **attack}


def of_the_method(parameters: Any) -> Any:
    """The parameters but for those that say where it ran, which older records have beside them."""
    if not isinstance(parameters, dict):
        return parameters
    return {name: of_the_method(value) for name, value in parameters.items() if name not in _WHERE}


def is_outdated(record: Record, cell: Cell, device: str) -> bool:
    """Whether a record was made with other parameters than the cell has today, because a default has changed.

    A parameter that is newer than the record says nothing against it: its default is what was done before.
    """
    if record.status != "done":
        return False
    try:
        today = json.loads(json.dumps(_parameters(cell, build(cell, device), device)))
    except GarnetError:
        return False
    return not _has(today, of_the_method(record.parameters))


def accuracy(trial: Trial) -> Measured:
    """Accuracy on the test and the validation nodes in percent, for each seed."""
    predictors = trial.defense.fit_seeds(trial.graph, trial.cell.seeds, progress=trial.progress)
    return {
        "accuracy": [100 * one.accuracy() for one in predictors],
        "val_accuracy": [100 * one.val_accuracy for one in predictors],
    }, predictors[0].stages


def evasion(trial: Trial) -> Measured:
    """Accuracy on the attacked graph in percent, for each seed, of models that were trained on the clean one.

    Nothing is learnt of the attacked graph, but it is defended as the clean one was; see `Defense.predict`. The
    validation accuracy is that of training.
    """
    clock = Clock(trial.progress)
    with clock("fit"):
        models = _fitted(_Fit.of(trial))
    with clock("predict"):
        attacked = [trial.defense.predict(one, trial.graph) for one in models]
    return {
        "accuracy": [100 * one.accuracy() for one in attacked],
        "val_accuracy": [100 * one.val_accuracy for one in models],
    }, tuple(clock.stages)


def homophily(trial: Trial) -> Measured:
    """Share of edges between equal labels, each edge once: clean, as attacked, and purified (table 11)."""
    purified, stages = trial.purified()
    return {"clean": trial.clean.homophily, "input": trial.graph.homophily, "after": purified.homophily}, stages


def recovery(trial: Trial) -> Measured:
    """How much of each node's two-hop neighbourhood in the clean graph the purified one has (table 12).

    With N the nodes within two edges of a node, itself left out, recall is |N_clean & N_purified| / |N_clean| and
    precision the same over |N_purified|. The paper has the mean over five nodes, this is the mean over all for which
    the quotient is defined.
    """
    clean, (purified, stages) = trial.clean, trial.purified()
    clock = Clock(trial.progress)
    with clock("compare"):
        nodes = (np.arange(n, min(n + _ROWS, clean.num_nodes)) for n in range(0, clean.num_nodes, _ROWS))
        both, known, found = np.concatenate([_shared(clean, purified, some) for some in nodes], axis=1)
        values = {"recall": _mean_ratio(both, known), "precision": _mean_ratio(both, found)}
    return values, (*stages, *clock.stages)


def rank(trial: Trial) -> Measured:
    """Numerical rank of the adjacency and its leading singular values (the opening figure).

    A singular value counts if it exceeds a millionth of the largest.
    """
    graph = trial.graph
    if graph.num_nodes > _MOST_DENSE:
        raise GraphError(
            f"The rank is counted with a dense decomposition, of at most {_MOST_DENSE} nodes; {trial.cell.graph} has "
            f"{graph.num_nodes}. Choose a smaller graph."
        )
    clock = Clock(trial.progress)
    with clock("decompose"):
        # The matrix is symmetric: its singular values are the sizes of its eigenvalues.
        eigenvalues = scipy.linalg.eigvalsh(graph.adjacency.astype(np.float64).toarray(), overwrite_a=True)
        values = np.sort(np.abs(eigenvalues))[::-1]
    counted = int((values > _SMALLEST_RATIO * values.max(initial=0)).sum())
    return {"rank": counted, "singular_values": values[:_SINGULAR_VALUES].tolist()}, tuple(clock.stages)


_MEASURES: dict[str, Callable[[Trial], Measured]] = {
    "accuracy": accuracy,
    "evasion": evasion,
    "homophily": homophily,
    "recovery": recovery,
    "rank": rank,
}


@dataclass(frozen=True)
class _Fit:
    """A defence and the clean graph it is fitted on; equal where the models would be."""

    parameters: str
    graph: str
    fingerprints: tuple[str, ...]
    seeds: tuple[int, ...]
    device: str
    trial: Trial = field(compare=False)

    @classmethod
    def of(cls, trial: Trial) -> _Fit:
        parts = trial.graph.split  # which keeps the targets of an attack out of training
        fingerprints = (trial.clean.fingerprint, "" if parts is None else parts.fingerprint)
        parameters = json.dumps(effective_parameters(trial.defense))
        return cls(parameters, trial.cell.graph, fingerprints, trial.cell.seeds, trial.device, trial)


@lru_cache(maxsize=1)
def _fitted(fit: _Fit) -> tuple[Predictor, ...]:
    """Models for each seed; cells that come one after another and differ in the attack alone share them."""
    trial = fit.trial
    clean = as_graph(trial.clean, split=trial.graph.split)
    models: tuple[Predictor, ...] = trial.defense.fit_seeds(clean, trial.cell.seeds, progress=trial.progress)
    return models


def _shared(clean: Graph, purified: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """(3, nodes) sizes of the two-hop neighbourhoods: of both graphs, of the clean one, of the purified one."""
    truth, found = (_within_two_hops(graph, nodes) for graph in (clean, purified))
    return np.stack([np.asarray(one.sum(axis=1)).ravel() for one in (truth.multiply(found), truth, found)])


def _within_two_hops(graph: Graph, nodes: NDArray[np.int64]) -> sp.csr_array:
    """0/1 rows: which nodes are within two edges of each of `nodes`, itself left out."""
    adjacency = graph.adjacency.astype(bool).astype(np.float32)
    one = adjacency[nodes]
    reach = (one + one @ adjacency).tocoo()
    others = reach.col != nodes[reach.row]
    entries = np.ones(int(others.sum()))
    return sp.coo_array((entries, (reach.row[others], reach.col[others])), reach.shape).tocsr()


def _mean_ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> float | None:
    defined = whole > 0
    return float((part[defined] / whole[defined]).mean()) if defined.any() else None


def _has(today: Any, before: Any) -> bool:
    """Whether all parameters of a record are the same today."""
    if isinstance(today, dict) and isinstance(before, dict):
        return all(name in today and _has(today[name], value) for name, value in before.items())
    return bool(today == before)


def _finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON lacks."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
