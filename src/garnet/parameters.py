"""What parameters may be: the annotations of a dataclass's fields say it, and one place refuses everything else."""

from __future__ import annotations

import collections.abc
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch

from garnet.errors import ParameterError, brief

# No count in a model or an attack is larger; torch and NumPy would fail with messages of their own.
_MOST = 2**31 - 1
# Nor is any number, except infinity: float32 ends at 3.4e38, and numbers are multiplied.
_LARGEST = 1e30
LATER = "later"
"""In the metadata of a dataclass's field: records that are older do not have it. What says, in records and their keys,
what was measured leaves it out while it has its default, so that older records stay what they were."""


def _python(value: Any) -> Any:
    """A NumPy value as a Python one, which torch and JSON want."""
    return value.item() if issubclass(type(value), np.generic) else value


@dataclass(frozen=True)
class Rule:
    """What a value must be; the metadata of an `Annotated` field.

    Attributes:
        broken: given a value, what it must be, in words that follow "must be"; None if it is that already.
        plain: what is stored of a valid value.
    """

    broken: Callable[[Any], str | None]
    plain: Callable[[Any], Any] = _python


def is_whole(value: Any) -> bool:
    """Whether it is an integer, and not a boolean."""
    # The type itself is asked, here and below: `isinstance` believes what an object says of its class.
    return issubclass(type(value), int | np.integer) and type(value) is not bool


def is_number(value: Any) -> bool:
    """Whether it is a number that a float can hold, and not NaN or a boolean."""
    if not is_whole(value) and not issubclass(type(value), float | np.floating):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def whole(least: int, most: int = _MOST) -> Rule:
    """An integer within these bounds."""

    def broken(value: Any) -> str | None:
        if not is_whole(value) or value < least:
            return f"an integer >= {least}"
        return None if value <= most else f"an integer <= {most}"

    return Rule(broken)


def number(wanted: str, holds: Callable[[float], bool], *, infinite: bool = False) -> Rule:
    """A number that meets a condition; finite unless stated otherwise."""

    def broken(value: Any) -> str | None:
        if not is_number(value) or not (infinite or math.isfinite(value)) or not holds(value):
            return wanted
        return None if abs(value) <= _LARGEST or math.isinf(value) else f"within {_LARGEST:g}"

    return Rule(broken, float)


def _device(value: Any) -> str | None:
    """Whether torch has it is checked when work begins, because only allocating on the device shows it."""
    try:
        if issubclass(type(value), str) and torch.device(value):
            return None
    except RuntimeError:
        pass
    return "a device that torch has here"


def _seed(value: Any) -> str | None:
    return None if is_whole(value) and 0 <= value < 2**63 else "an integer from 0 to 2^63 - 1"


Count = Annotated[int, whole(1)]
Natural = Annotated[int, whole(0)]
Bytes = Annotated[int, whole(1, 2**60)]
Width = Annotated[int, whole(1, 2**20)]
"""Units of a layer."""
Depth = Annotated[int, whole(1, 1000)]
"""Layers or rounds, all of which are held in memory for the gradient."""
Hops = Annotated[int, whole(0, 1000)]
Seed = Annotated[int, Rule(_seed)]
AnyNumber = Annotated[float, number("a number", lambda _: True, infinite=True)]
NonNegative = Annotated[float, number("a number >= 0", lambda x: x >= 0)]
Positive = Annotated[float, number("a positive number", lambda x: x > 0)]
PositiveOrInfinite = Annotated[float, number("a positive number", lambda x: x > 0, infinite=True)]
Share = Annotated[float, number("between 0 and 1", lambda x: 0 <= x <= 1)]
ShareBelowOne = Annotated[float, number("at least 0 and below 1", lambda x: 0 <= x < 1)]
ShareAboveZero = Annotated[float, number("above 0 and at most 1", lambda x: 0 < x <= 1)]
ShareWithin = Annotated[float, number("above 0 and below 1", lambda x: 0 < x < 1)]
Device = Annotated[str, Rule(_device)]


class Checked:
    """A dataclass whose constructor refuses what the annotations of its fields do not allow."""

    def __post_init__(self) -> None:
        require_parameters(self)


def require_parameters(owner: Any) -> None:
    """Refuse, in one sentence, a parameter of a dataclass that its annotation or the rules of its class do not allow.

    To be called by `__post_init__`. Annotations that say nothing about values, such as `Any`, allow everything. A class
    yields rules that involve several parameters from `_rules`; see `require_rules`. NumPy numbers become Python
    numbers, integers become floats where floats are meant, and lists become tuples, so torch and JSON take them all.

    Raises:
        ParameterError: a parameter is not allowed.
    """
    kind: Any = type(owner)
    for name, rule in _rules_of(kind).items():
        value = getattr(owner, name)
        _require(rule, value, name, kind.__name__)
        object.__setattr__(owner, name, rule.plain(value))
    if hasattr(kind, "_rules"):
        require_rules(owner, owner._rules())


def require_arguments(function: str, **arguments: tuple[Any, Any]) -> None:
    """Refuse, in one sentence, an argument of a function; each is given as its value and an annotation.

    Raises:
        ParameterError: an argument is not allowed.
    """
    for name, (value, annotation) in arguments.items():
        _require(_rule(annotation), value, name, function)


def require_rules(owner: Any, rules: Iterable[tuple[str, bool, str]]) -> None:
    """Refuse, in one sentence, the first parameter of an object that breaks its rule.

    Args:
        owner: whose parameters they are.
        rules: name, whether it is valid, and what it must be; one at a time, so a rule may rely on those before it.

    Raises:
        ParameterError: a rule is broken.
    """
    for name, fine, wanted in rules:
        if not fine:
            raise _refusal(wanted, getattr(owner, name), name, type(owner).__name__)


def _require(rule: Rule, value: Any, name: str, owner: str) -> None:
    if (wanted := rule.broken(value)) is not None:
        raise _refusal(wanted, value, name, owner)


def _refusal(wanted: str, value: Any, name: str, owner: str) -> ParameterError:
    return ParameterError(f"The '{name}' parameter of {owner} must be {wanted}. Got {brief(value)} instead.")


@cache
def _rules_of(kind: type) -> dict[str, Rule]:
    """What the annotations of a dataclass say about its fields; nothing where they cannot be resolved."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except (NameError, AttributeError, TypeError):
        return {}
    # Where None is the default, the reader of the message did not want it.
    return {one.name: _rule(hints[one.name], default=one.default) for one in fields(kind) if one.init}


def _rule(annotation: Any, *, default: Any = ...) -> Rule:
    """What an annotation says about a value."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        own = next((one for one in parts[1:] if isinstance(one, Rule)), None)
        return own or _rule(parts[0], default=default)
    if origin in (Union, UnionType):
        return _either([_rule(part) for part in parts], unsaid="None" if default is None else None)
    if origin is Literal:
        listed = ", ".join(map(repr, parts))
        wanted = listed if len(parts) == 1 else f"one of {listed}"
        return _holding(wanted, lambda value: issubclass(type(value), str) and value in parts)
    if origin is tuple and len(parts) == 2 and parts[1] is ...:
        return _several(_rule(parts[0]))
    if origin is collections.abc.Callable:
        return _holding("a function", callable)
    # No value shows the type arguments of a generic protocol.
    return _simple(origin if getattr(origin, "_is_protocol", False) else annotation)


def _simple(kind: Any) -> Rule:
    if kind is bool:
        return _holding("True or False", lambda value: type(value) in (bool, np.bool_))
    if kind is int:
        return _holding("an integer", is_whole)
    if kind is float:
        return number("a finite number", lambda _: True)
    if kind is str:
        return _holding("text", lambda value: issubclass(type(value), str))
    if kind in (None, NoneType):
        return _holding("None", lambda value: value is None)
    try:
        issubclass(object, kind)
    except TypeError:  # no class, or a protocol that cannot be checked
        return Rule(lambda value: None, lambda value: value)
    abstract = getattr(kind, "_is_protocol", False) or inspect.isabstract(kind)
    named = kind.__name__.lower() if abstract else kind.__name__
    # A class is callable, too, but is not a solver: its parentheses were forgotten.
    return _holding(f"a {named}", lambda value: issubclass(type(value), kind) and not issubclass(type(value), type))


def _holding(wanted: str, holds: Callable[[Any], bool]) -> Rule:
    return Rule(lambda value: None if holds(value) else wanted)


def _either(rules: Sequence[Rule], unsaid: str | None) -> Rule:
    """One of several rules; a message names all of them but one."""

    def broken(value: Any) -> str | None:
        wanted = [rule.broken(value) for rule in rules]
        if None in wanted:
            return None
        *others, last = [one for one in wanted if one is not None and one != unsaid]
        return f"{', '.join(others)} or {last}" if others else last

    return Rule(broken, lambda value: next(rule for rule in rules if rule.broken(value) is None).plain(value))


def _several(rule: Rule) -> Rule:
    """A non-empty tuple or list of values that each satisfy a rule."""

    def broken(value: Any) -> str | None:
        if not issubclass(type(value), tuple | list) or not len(value):
            return "a tuple, not empty"
        wanted = next((wanted for one in value if (wanted := rule.broken(one)) is not None), None)
        return wanted and f"a tuple of which each is {wanted}"

    return Rule(broken, lambda value: tuple(map(rule.plain, value)))


def require_device(name: Any, owner: str) -> None:
    """Refuse, in one sentence, a device that torch does not have here.

    Raises:
        ParameterError: there is no such device.
    """
    require_arguments(owner, device=(name, Device))
    try:
        torch.zeros(1, device=name).cpu()
    # What an absent backend raises is up to the backend.
    except (RuntimeError, AssertionError, TypeError, ImportError) as error:
        raise _refusal("a device that torch has here", name, "device", owner) from error


def require_seeds(seeds: Sequence[int]) -> None:
    """Refuse, in one sentence, seeds that torch cannot take.

    Raises:
        ParameterError: there are none, or one is not an integer that torch takes as a seed.
    """
    if not issubclass(type(seeds), Sequence) or not len(seeds):
        raise ParameterError(f"Training needs a list of seeds, at least one, such as (0,). Got {brief(seeds)} instead.")
    for seed in seeds:
        require_seed(seed)


def require_seed(seed: Any) -> None:
    """Refuse, in one sentence, a seed that torch cannot take.

    Raises:
        ParameterError: it is not such an integer.
    """
    if (wanted := _seed(seed)) is not None:
        raise ParameterError(f"A seed must be {wanted}. Got {brief(seed)} instead.")
