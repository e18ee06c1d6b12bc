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
    """All names: `none`, purifiers, which precede a backbone, and other defences."""
    return ("none", *PURIFIERS.names(), *DEFENSES.names())


def is_purifier(name: str) -> bool:
    """Whether a defence of this name is a purifier before a model."""
    return name in PURIFIERS.names()


def takes_backbone(name: str) -> bool:
    """Whether a defence of this name trains a backbone of your choice."""
    return "backbone" in field_types(_kind(name))


def takes_training(name: str) -> bool:
    """Whether the training of a defence of this name can be configured."""
    return "training" in field_types(_kind(name))


def gives_model(name: str) -> bool:
    """Whether what a defence of this name learns can be saved and used on another graph."""
    return _kind(name).gives_model


def _kind(name: str) -> type[Defense]:
    kind: type[Defense] = Purified if name == "none" or is_purifier(name) else DEFENSES.get(name)
    return kind


def named_purifier(name: str, parameters: Mapping[str, Any]) -> Purifier:
    """The purifier of this name."""
    purifier: Purifier = PURIFIERS.build(name, dict(parameters))
    return purifier


def named_defense(
    name: str,
    *,
    backbone: Any = None,
    training: Mapping[str, Any] | Training | None = None,
    device: str = "cpu",
    parameters: Mapping[str, Any] | None = None,
) -> Defense:
    """A defence ready to fit.

    Args:
        name: one of `defense_names`.
        backbone: the model, or its name; None means the defence's own, or `gprgnn` for a purifier. The name of the
            defence's own backbone means that one, with its settings. Ignored if the defence does not take a backbone.
        training: how it is trained, or the fields of `Training` that differ from the defence's own.
        device: where to train.
        parameters: parameters of the purifier or the defence that differ from its defaults.
    """
    name = known_name(name, defense_names(), "defence")
    built: Any = Purified(None)
    if is_purifier(name):
        built = Purified(named_purifier(name, parameters or {}))
    elif name != "none":
        built = DEFENSES.build(name, parameters or {})
    return equipped(built, backbone=backbone, training=training, device=device)


def equipped(
    defense: Defense,
    *,
    backbone: Any = None,
    training: Mapping[str, Any] | Training | None = None,
    device: str = "cpu",
) -> Defense:
    """A defence with this backbone, training and device, as far as it takes them; see `named_defense`."""
    built: Any = defense
    named = isinstance(backbone, str)
    backbone = BACKBONES.build(backbone, {}) if named else backbone
    known = field_types(type(built))
    if backbone is not None and "backbone" in known and not (named and type(built.backbone) is type(backbone)):
        built = replace(built, backbone=backbone)
    if "device" in known:
        built = replace(built, device=device)
    if "training" in known and not isinstance(training, Training):
        own = built.training or getattr(built.backbone, "training", Training())
        training = replace(own, **(training or {}))
    whole: Defense = replace(built, training=training) if "training" in known else built
    return whole
