"""The battery: which attacks a defence has to withstand, and what each of them knows of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from typing import Any, Literal

from garnet.attacks.base import Attack
from garnet.attacks.pgd import MOST_NODES
from garnet.bench.measure import effective_parameters, of_the_method, without_addresses
from garnet.defenses.base import Defense
from garnet.errors import GarnetError, ParameterError, brief
from garnet.graph.graph import Graph
from garnet.io.identity import digest_of
from garnet.registry import ATTACKS, defense_named, field_types, known_name

Threat = Literal["evasion", "poisoning"]
"""Whether the graph is changed after the model was trained on it, or before."""

THREATS: tuple[Threat, ...] = ("evasion", "poisoning")
CONTROL = "random"
"""The control in every battery: an attack that cannot beat random flips does not count as one."""

# They look at every pair of nodes, again and again.
_FOR_SMALL_GRAPHS = ("metattack", "adaptive-metattack", "lowblow", "pgd", "min-max")


@dataclass(frozen=True, eq=False)
class Opponent:
    """An attack of a battery.

    Attributes:
        name: what it is called in records and tables; no two of a battery share it.
        attack: the attack.
    """

    name: str
    attack: Attack

    @property
    def adaptive(self) -> bool:
        """Whether it knows the defence."""
        return is_adaptive(type(self.attack))

    @property
    def threat(self) -> Threat | None:
        """When it attacks; None for one that knows no defence, whose changes serve for both."""
        return getattr(self.attack, "threat", None)

    @property
    def settings(self) -> str:
        """Sixteen hex digits that tell its parameters from others."""
        return digest_of({"attack": _method(self.attack)})

    def is_for_smaller(self, graph: Graph) -> bool:
        """Whether it looks at every pair of nodes, and the graph has too many."""
        return _is_for_smaller(self.name.split()[0], graph)


def is_adaptive(kind: type) -> bool:
    """Whether attacks of a class are built with the defence that they are to break."""
    return is_dataclass(kind) and any(field.name == "defense" for field in fields(kind))


def kind_of(attack: type) -> dict[str, bool]:
    """What the checks have to know of a class of attacks, for the record: whether it asks, and does nothing but ask."""
    black_box = bool(getattr(attack, "black_box", False))
    return {"black_box": black_box, "asks": black_box or bool(getattr(attack, "asks", False))}


def opponents(
    attacks: Sequence[str | Attack | type[Attack]] | None, graph: Graph, defense: Defense, device: str
) -> tuple[Opponent, ...]:
    """The attacks of a battery, random flips first.

    Args:
        attacks: names, attacks, or classes of such; one that has a field `defense` is given the defence there. None
            takes every attack by name that is on the edges of a whole graph and fits this one.
        graph: the graph that is attacked.
        defense: the defence.
        device: where the attacks that are built here compute.

    Raises:
        ParameterError: one cannot be used here, or two are alike.
    """
    if attacks is None:
        chosen = [*_fitting(graph, defense, device)]
    elif isinstance(attacks, str) or not isinstance(attacks, Sequence) or not attacks:
        raise ParameterError(f"The 'attacks' must be a list of attacks, at least one. Got {brief(attacks)} instead.")
    else:
        chosen = [opponent for one in attacks for opponent in _variants(one, defense, device)]
    control = [] if any(one.name == CONTROL for one in chosen) else [_opponent(CONTROL, defense, device)]
    return _each_once(_told_apart([*control, *chosen]))


def _fitting(graph: Graph, defense: Defense, device: str) -> Iterable[Opponent]:
    """Every registered attack that can be made on this graph against this defence."""
    for name in ATTACKS.names():
        if _is_for_smaller(name, graph):
            continue
        kind = ATTACKS.get(name)
        lacks = [part for part in getattr(kind, "needs", ()) if not _has(graph, part)]
        if _refusal(kind) or lacks:
            continue
        try:
            yield from _variants(name, defense, device)
        except GarnetError:  # an attack on one kind of defence, which is not this one
            continue


def _is_for_smaller(name: str, graph: Graph) -> bool:
    return name in _FOR_SMALL_GRAPHS and graph.num_nodes > MOST_NODES


def _has(graph: Graph, part: str) -> bool:
    return graph.num_features > 0 if part == "features" else getattr(graph, part) is not None


def _refusal(kind: Any) -> str:
    """Why attacks of a class are no part of a battery; empty if they may be."""
    if getattr(kind, "scope", "") == "local":
        return "aims at single nodes"
    return "changes features" if getattr(kind, "changes", "edges") != "edges" else ""


def _variants(wanted: str | Attack | type[Attack], defense: Defense, device: str) -> tuple[Opponent, ...]:
    """An attack that was given with its parameters, with these; of another, all variants that its class has."""
    one = _opponent(wanted, defense, device)
    own: Any = one.attack
    variants: Sequence[dict[str, Any]] = () if isinstance(wanted, Attack) else getattr(type(own), "variants", ())
    return tuple(replace(one, attack=replace(own, **variant)) for variant in variants) or (one,)


def _opponent(wanted: str | Attack | type[Attack], defense: Defense, device: str) -> Opponent:
    if isinstance(wanted, Attack):
        name, kind = wanted.name, type(wanted)
    elif isinstance(wanted, str):
        name = known_name(wanted, ATTACKS.names(), "attack")
        kind = ATTACKS.get(name)
    elif isinstance(wanted, type) and issubclass(wanted, Attack):
        name, kind = ATTACKS.name_of(wanted) or wanted.__name__, wanted
    else:
        raise ParameterError(f"An attack is a name, an Attack or a class of such. Got {brief(wanted)} instead.")
    if why := _refusal(kind):
        raise ParameterError(f"The attack {name} {why}; a stress test takes attacks on the edges of a whole graph.")
    if (getattr(kind, "threat", None) == "evasion" or getattr(kind, "asks", False)) and defense.learns_one_graph:
        raise ParameterError(
            f"The attack {name} needs what a trained model says of other graphs, and {type(defense).__name__} learns "
            "on one graph only; leave it out."
        )
    if isinstance(wanted, Attack):
        return Opponent(name, _aimed(wanted, defense))
    known = field_types(kind)
    given: dict[str, Any] = {"defense": defense} if is_adaptive(kind) else {}
    given |= {"device": device} if "device" in known else {}
    try:
        return Opponent(name, kind(**given))
    except TypeError as error:
        raise ParameterError(
            f"The attack {name} cannot be built ({error}); give an attack with its parameters."
        ) from None


def _aimed(attack: Attack, defense: Defense) -> Attack:
    """An attack that was given with its parameters, and with the defence if it is to know one.

    Raises:
        ParameterError: it was built for another defence.
    """
    if not is_adaptive(type(attack)):
        return attack
    own: Any = attack
    usual = _default(next(one for one in fields(own) if one.name == "defense"))
    if all(_method(own.defense) != _method(known) for known in (usual, defense)):
        raise ParameterError(
            f"The attack {attack.name} is built for the defence {brief(own.defense)}, and the stress test is of "
            f"{type(defense).__name__}; give it that one, or none."
        )
    aimed: Attack = replace(own, defense=defense)
    return aimed


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _method(part: Any) -> Any:
    """All parameters of an attack or of a defence, which may be given by its name."""
    return of_the_method(effective_parameters(defense_named(part) if isinstance(part, str) else part))


def _told_apart(chosen: Sequence[Opponent]) -> Iterable[Opponent]:
    """The same attacks; those that share a name have the parameters that tell them apart behind it."""
    for one in chosen:
        alike = [other for other in chosen if other.name == one.name]
        if len(alike) == 1:
            yield one
            continue
        given = [_shown(other.attack) for other in alike]
        differ = [name for name in given[0] if len({each.get(name) for each in given}) > 1]
        own = _shown(one.attack)
        yield replace(one, name=" ".join([one.name, *(f"{name}={own.get(name)}" for name in differ)]))


def _each_once(chosen: Iterable[Opponent]) -> tuple[Opponent, ...]:
    """The same attacks.

    Raises:
        ParameterError: one is there twice, with parameters that nothing tells apart.
    """
    found: dict[str, Opponent] = {}
    for one in chosen:
        if found.setdefault(one.name, one) is not one:
            raise ParameterError(f"The attack {one.name} is in the battery twice; leave one of them out.")
    return tuple(found.values())


def _shown(attack: Attack) -> dict[str, str]:
    return {name: without_addresses(str(value)) for name, value in attack.parameters.items()}
