"""What a model's file says of the model, and the model that is built of it again."""

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
    """A model by its name and parameters; without either if it is not, or has in it what is not, the library's own."""
    described = {"backbone": BACKBONES.name_of(type(backbone)), "parameters": _plain(backbone)}
    try:
        json.dumps(described)
    except TypeError:
        return {"backbone": None, "parameters": {}}
    return described


def _plain(backbone: Any) -> dict[str, Any]:
    """The parameters of a backbone, if it is a value that can be written down; how it was trained is not part of it."""
    if not any(registry.name_of(type(backbone)) for registry in _NESTED.values()):
        return {}
    values = {one.name: getattr(backbone, one.name) for one in fields(backbone)}
    return {name: _described(value) for name, value in values.items() if name not in ("training", "device")}


def _described(value: Any) -> Any:
    """A parameter as JSON has it; a backbone or purifier inside of another by its name."""
    if isinstance(value, tuple):
        return [_described(one) for one in value]
    for kind, registry in _NESTED.items():
        if (name := registry.name_of(type(value))) is not None:
            return {kind: name, "parameters": _plain(value)}
    return value


def built_model(described: Mapping[str, Any]) -> Any:
    """The backbone that was described."""
    try:
        kind = next(kind for kind in _NESTED if kind in described)
        parameters = {key: _value(one) for key, one in described["parameters"].items()}
        return _NESTED[kind].build(described[kind], parameters)
    except (KeyError, AttributeError, TypeError, StopIteration, RecursionError):
        raise GraphError("its description of the model is damaged.") from None


def _value(described: Any) -> Any:
    """A parameter that was described."""
    if isinstance(described, list):
        return tuple(_value(one) for one in described)
    return built_model(described) if isinstance(described, dict) else described


def read_description(text: bytes, graph: Graph) -> Mapping[str, Any]:
    """What a file says of its model; older files do not say what it cost and where it came from."""
    expected = {"parameters": dict, "seed": int, "epoch": int, "val_accuracy": float, "backbone": str | None}
    with described_as("the model"):
        description = json.loads(text)
        if not all(isinstance(description[name], kind) for name, kind in expected.items()):
            raise TypeError
        unknown = {"command": "", "fingerprints": {"graph": graph.fingerprint}, "versions": {}, "machine": {}}
        made = read_made(description.get("made", unknown))
        return {**description, "stages": read_stages(description.get("stages", [])), "made": made}
