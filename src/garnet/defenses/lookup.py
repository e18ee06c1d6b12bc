"""Defences by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from garnet.defenses.base import Defense
from garnet.defenses.purified import Purified
from garnet.purify.base import Purifier
from garnet.registry import BACKBONES, DEFENSES, PURIFIERS, field_types, known_name
from garnet.training.loop import Training


def defense_names() -> tuple[str, ...]:
    """All names: `none`, purifiers, which come before a backbone, and defences of their own."""
    return ("none", *PURIFIERS.names(), *DEFENSES.names())


def is_purifier(name: str) -> bool:
    """Whether a defence of this name is a purifier before a model."""
    return name in PURIFIERS.names()


def takes_backbone(name: str) -> bool:
    """Whether a defence of this name trains a backbone of one's choice."""
    return name == "none" or is_purifier(name) or "backbone" in field_types(DEFENSES.get(name))


def takes_training(name: str) -> bool:
    """Whether it may be said how a defence of this name trains."""
    return takes_backbone(name) or "training" in field_types(DEFENSES.get(name))


def gives_model(name: str) -> bool:
    """Whether what a defence of this name has learnt can be saved, and used on another graph."""
    if name == "none" or is_purifier(name):
        return True
    kind: type[Defense] = DEFENSES.get(name)
    return kind.gives_model


def named_purifier(name: str, parameters: Mapping[str, Any], device: str) -> Purifier:
    """The purifier of this name; it works on the device if it can."""
    placed = {"device": device} if "device" in field_types(PURIFIERS.get(name)) else {}
    purifier: Purifier = PURIFIERS.build(name, dict(parameters) | placed)
    return purifier


def named_defense(
    name: str,
    *,
    backbone: Any = None,
    training: Mapping[str, Any] | Training | None = None,
    device: str = "cpu",
    parameters: Mapping[str, Any] | None = None,
) -> Defense:
    """A defence ready to be fitted.

    Args:
        name: one of `defense_names`.
        backbone: the model, or its name; None is the defence's own, and `gprgnn` for a purifier. The name of the
            defence's own stands for that as it is there. One that trains no backbone of one's choice does without.
        training: how it is trained, or the fields of `Training` that differ from the defence's own.
        device: where.
        parameters: of the purifier or the defence, where they differ from its own.
    """
    name = known_name(name, defense_names(), "defence")
    named = isinstance(backbone, str)
    backbone = BACKBONES.build(backbone, {}) if named else backbone
    if name == "none" or is_purifier(name):
        purifier = None if name == "none" else named_purifier(name, parameters or {}, device)
        bare = Purified(purifier) if backbone is None else Purified(purifier, backbone)
        own = getattr(bare.backbone, "training", Training())
        return replace(bare, training=_changed(own, training), device=device)
    known = field_types(DEFENSES.get(name))
    placed = {"device": device} if "device" in known else {}
    built: Any = DEFENSES.build(name, dict(parameters or {}) | placed)
    if backbone is not None and "backbone" in known and not (named and type(built.backbone) is type(backbone)):
        built = replace(built, backbone=backbone)
    if "training" in known:
        built = replace(built, training=_changed(built.training, training))
    defense: Defense = built
    return defense


def _changed(own: Training, training: Mapping[str, Any] | Training | None) -> Training:
    return training if isinstance(training, Training) else replace(own, **(training or {}))
