"""The description of a model in its file, and rebuilding the model from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from garnet.errors import GraphError
from garnet.graph.graph import Graph
from garnet.purify.result_file import described_as, read_made, read_stages
from garnet.registry import BACKBONES, PURIFIERS

_NESTED = {"backbone": BACKBONES, "purifier": PURIFIERS}


def described_model(backbone: Any) -> dict[str, Any]:
    """A model as name and parameters; empty if it is, or contains, anything not from the library itself."""
    described = {"backbone": BACKBONES.name_of(type(backbone)), "parameters": _plain(backbone)}
    try:
        json.dumps(described)
    except TypeError:
        return {"backbone": None, "parameters": {}}
    return described


def _plain(backbone: Any) -> dict[str, Any]:
    """The parameters of a backbone, if it is a value that can be written down; without its training settings."""
    if not any(registry.name_of(type(backbone)) for registry in _NESTED.values()):
        return {}
    values = {one.name: getattr(backbone, one.name) for one in fields(backbone)}
    return {name: _described(value) for name, value in values.items() if name not in ("training", "device")}


def _described(value: Any) -> Any:
    """A parameter for JSON; a backbone or purifier inside another by its name."""
    if isinstance(value, tuple):
        return [_described(one) for one in value]
    for kind, registry in _NESTED.items():
        if (name := registry.name_of(type(value))) is not None:
            return {kind: name, "parameters": _plain(value)}
    return value


def built_model(described: Mapping[str, Any]) -> Any:
    """The backbone from its description."""
    try:
        kind = next(kind for kind in _NESTED if kind in described)
        parameters = {key: _value(one) for key, one in described["parameters"].items()}
        return _NESTED[kind].build(described[kind], parameters)
    except (KeyError, AttributeError, TypeError, StopIteration, RecursionError):
        raise GraphError("its description of the model is damaged.") from None


def _value(described: Any) -> Any:
    """A parameter from its description."""
    if isinstance(described, list):
        return tuple(_value(one) for one in described)
    return built_model(described) if isinstance(described, dict) else described


def read_description(text: bytes, graph: Graph) -> Mapping[str, Any]:
    """A file's description of its model; older files lack its cost and origin."""
    expected = {"parameters": dict, "seed": int, "epoch": int, "val_accuracy": float, "backbone": str | None}
    with described_as("the model"):
        description = json.loads(text)
        if not all(isinstance(description[name], kind) for name, kind in expected.items()):
            raise TypeError
        unknown = {"command": "", "fingerprints": {"graph": graph.fingerprint}, "versions": {}, "machine": {}}
        made = read_made(description.get("made", unknown))
        return {**description, "stages": read_stages(description.get("stages", [])), "made": made}
