"""One cell measured: whatever happens, a record comes out."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from garnet.bench.build import build_defense, build_graphs, build_purifier
from garnet.bench.measures import MEASURES
from garnet.bench.record import Record, spread
from garnet.bench.schema import LONGEST_REASON
from garnet.bench.study import Cell, plain
from garnet.errors import GarnetError
from garnet.graph.graph import Graph
from garnet.machine import machine, peak_memory, versions
from garnet.progress import Progress, Stage, Step


def run_cell(cell: Cell, device: str = "cpu", progress: Progress | None = None) -> Record:
    """Measure a cell; an error of any kind makes a failed record with its reason."""
    start = time.perf_counter()
    parameters: dict[str, Any] = {}
    fingerprints: dict[str, str] = {}
    try:
        if progress is not None:
            progress(Step("load"))
        build = build_defense if cell.measure == "accuracy" else build_purifier
        defense = build(cell, device)
        parameters = effective_parameters(defense)
        graph, clean = build_graphs(cell)
        fingerprints = _fingerprints(graph)
        values, stages = MEASURES[cell.measure](cell, graph, clean, defense, cell.seeds, progress)
    except GarnetError as error:
        reason = str(error)
    except (MemoryError, torch.OutOfMemoryError) as error:
        reason = f"there was not enough memory: {error}" if str(error) else "there was not enough memory"
    except Exception as error:  # a cell must not end the study, whatever is wrong with it
        reason = f"internal error: {type(error).__name__}: {error}"
    else:
        mean, sd = spread(values.get("accuracy", []))
        return Record(
            key=cell.key,
            cell=cell.facts(),
            status="done",
            values={name: _finite(value) for name, value in values.items()},
            mean=mean,
            sd=sd,
            seconds=_seconds(stages, time.perf_counter() - start),
            peak_bytes=peak_memory(),
            parameters=parameters,
            seeds=cell.seeds,
            fingerprints=fingerprints,
            versions=versions(),
            machine=machine(),
        )
    return failed(cell, reason, time.perf_counter() - start, parameters, fingerprints)


def failed(
    cell: Cell,
    reason: str,
    seconds: float,
    parameters: dict[str, Any] | None = None,
    fingerprints: dict[str, str] | None = None,
) -> Record:
    """The record of a cell that could not be measured."""
    return Record(
        key=cell.key,
        cell=cell.facts(),
        status="failed",
        reason=reason[:LONGEST_REASON],
        seconds={"total": seconds},
        peak_bytes=peak_memory(),
        parameters=parameters or {},
        seeds=cell.seeds,
        fingerprints=fingerprints or {},
        versions=versions(),
        machine=machine(),
    )


def effective_parameters(value: Any) -> Any:
    """All parameters of a defence and of what it is made of, as plain values."""
    if value is None:
        return {}
    if isinstance(value, list | tuple):
        return [effective_parameters(part) for part in value]
    if not is_dataclass(value):
        return plain(value) if isinstance(value, int | float | str) else repr(value)
    return {"name": type(value).__name__} | {
        field.name: None if (part := getattr(value, field.name)) is None else effective_parameters(part)
        for field in fields(value)
    }


def is_outdated(record: Record, cell: Cell, device: str) -> bool:
    """Whether a record was made with other parameters than the cell has today, because a default has changed."""
    if record.status != "done":
        return False
    try:
        build = build_defense if cell.measure == "accuracy" else build_purifier
        today = json.loads(json.dumps(effective_parameters(build(cell, device))))
    except GarnetError:
        return False
    return bool(_without_device(today) != _without_device(record.parameters))


def _without_device(parameters: Any) -> Any:
    if not isinstance(parameters, dict):
        return parameters
    return {name: _without_device(value) for name, value in parameters.items() if name != "device"}


def _fingerprints(graph: Graph) -> dict[str, str]:
    split = {} if graph.split is None else {"split": graph.split.fingerprint}
    return {"graph": graph.fingerprint, **split}


def _seconds(stages: Sequence[Stage], total: float) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for stage in stages:
        seconds[stage.name] = seconds.get(stage.name, 0.0) + stage.seconds
    return seconds | {"total": total}


def _finite(value: Any) -> Any:
    """The value with None for what is not a number: JSON has no word for it."""
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
