"""What has to hold before the figures of a battery mean anything: a weak attack looks like a strong defence."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal

from garnet.bench.opponents import CONTROL, THREATS
from garnet.bench.outcomes import Battery, Outcome, lowest

LEAST_NOISE = 1.0
"""Points that two accuracies may differ by and count as the same, however little their seeds do."""
LEAST_NODES = 5
"""Test nodes by which they may, which is more on a small graph: about as many change sides when nothing else does."""
TIES = 2
"""Test nodes that another order of a sum may decide otherwise."""
ERRORS = 3.0
"""Standard errors by which they may; a battery compares dozens of pairs, and a masked gradient costs tens of points."""
WIDEST = 5.0
"""Standard deviation over the seeds, in points, beyond which a worst case is a matter of luck."""

Verdict = Literal["ok", "failed", "not run"]


@dataclass(frozen=True)
class Check:
    """Something that has to hold.

    Attributes:
        name: what, in a few words.
        verdict: whether it does.
        found: what was looked at, or why it was not.
        meaning: what it means that it failed; empty otherwise.
    """

    name: str
    verdict: Verdict
    found: str
    meaning: str = ""


def checks(battery: Battery) -> tuple[Check, ...]:
    """All checks on a battery."""
    return tuple(
        _checked(battery, look, name, meaning)
        for look, name, meaning in (
            (
                _reaches_floor,
                "an attack without limit reaches the floor",
                "the attack does not find what must be there, probably because the gradient is masked: do not quote "
                "these figures",
            ),
            (
                _more_is_worse,
                "more budget never helps the defender",
                "an attack does not use what it is given, so a stronger one exists: do not quote these figures",
            ),
            (
                _knowing_helps,
                "who knows the defence does at least as well",
                "knowing the defence did not help, so the attacks that know it are stuck, probably because the "
                "gradient is masked: do not quote these figures as a worst case",
            ),
            (
                _beats_random,
                "random flips do not help, and an attack beats them",
                "either changes at random do the defence good, or no attack of the battery is one: do not quote these "
                "figures",
            ),
            (
                _seeds_agree,
                f"seeds agree to {WIDEST:g} points",
                "the worst case depends on the draw: take more seeds before quoting it",
            ),
            (
                _says_it_twice,
                "the same model says the same twice",
                "the defence draws something that no seed decides, so nobody can make these figures again",
            ),
        )
    )


def noise(battery: Battery, *outcomes: Outcome) -> float:
    """Points by which accuracies may differ and count as the same: a few standard errors, and a little at least.

    Two or three seeds may agree by luck, so no outcome is taken to vary less than half of the battery does.
    One seed says nothing of its error; that of as many draws as there are test nodes stands in for it.
    """
    known = [one.sd**2 for one in (battery.clean, *battery.outcomes) if one.sd is not None]
    usual = median(known) if known else 0.0
    drawn = [one.mean * (100 - one.mean) / battery.test_nodes if one.sd is None else one.sd**2 for one in outcomes]
    errors = [max(own, usual) / len(one.accuracies) for own, one in zip(drawn, outcomes, strict=True)]
    return max(LEAST_NOISE, 100 * LEAST_NODES / battery.test_nodes, ERRORS * math.sqrt(sum(errors)))


# What a look yields: whether it holds, and what was seen; nothing at all says that there was nothing to look at.
_Look = Callable[[Battery], Iterator[tuple[bool, str]]]


def _checked(battery: Battery, look: _Look, name: str, meaning: str) -> Check:
    seen = list(look(battery))
    if not seen:
        return Check(name, "not run", _WHY_NOT[look])
    wrong = [text for holds, text in seen if not holds]
    if wrong:
        return Check(name, "failed", "; ".join(wrong), meaning)
    return Check(name, "ok", "; ".join(dict.fromkeys(text for _, text in seen[-2:])))


def _reaches_floor(battery: Battery) -> Iterator[tuple[bool, str]]:
    """Without honest edges a defence can be no better than a model that ignores them."""
    for threat in THREATS:
        best = lowest(one for one in battery.unbounded if one.threat == threat and not one.transferred)
        if best is not None:
            floor = battery.floor
            holds = best.mean <= floor + noise(battery, best)
            text = f"{threat} with {best.allowed:,} flips leaves {best.mean:.1f} % ({best.attack}), "
            yield holds, text + f"{'the floor is' if holds else 'above the floor of'} {floor:.1f} %"


def _more_is_worse(battery: Battery) -> Iterator[tuple[bool, str]]:
    """The worst of all attacks at each budget, and each that knows the defence, before any minimum over budgets."""
    for threat in THREATS:
        known = dict.fromkeys(
            one.attack for one in battery.outcomes if one.adaptive and one.threat == threat and not one.transferred
        )
        for attack in (None, *known):
            found = (lowest(battery.at(threat, budget, attack)) for budget in battery.budgets)
            series = [one for one in found if one is not None]
            for less, more in pairwise(series):
                whose = f" ({more.attack})" if attack or less.attack == more.attack else ""
                holds = more.mean <= less.mean + noise(battery, less, more)
                yield holds, f"{threat}{whose}: {less.mean:.1f} % at {less.budget}, {more.mean:.1f} % at {more.budget}"


def _knowing_helps(battery: Battery) -> Iterator[tuple[bool, str]]:
    """A search that asks gets around a masked gradient, so it cannot vouch for gradients, however much it knows."""
    for threat in THREATS:
        for budget in battery.budgets:
            found = battery.at(threat, budget)
            knows = lowest(one for one in found if one.adaptive and not one.asks and not one.transferred)
            blind = lowest(one for one in found if (not one.adaptive or one.black_box) and one.attack != CONTROL)
            if knows is not None and blind is not None:
                holds = knows.mean <= blind.mean + noise(battery, knows, blind)
                text = f"{threat} at {budget}: {knows.mean:.1f} % ({knows.attack}) against {blind.mean:.1f} %"
                yield holds, f"{text} ({blind.attack})"


def _beats_random(battery: Battery) -> Iterator[tuple[bool, str]]:
    for threat in THREATS:
        for budget in battery.budgets:
            found = battery.at(threat, budget)
            control = next((one for one in found if one.attack == CONTROL), None)
            if control is None:
                continue
            clean = battery.clean if threat == "poisoning" else battery.clean_evasion
            raised = control.mean > clean.mean + noise(battery, control, clean)
            yield not raised, f"{threat} at {budget}: random flips {control.mean:.1f} %, clean {clean.mean:.1f} %"
            best = lowest(one for one in found if one.attack != CONTROL)
            if best is not None:
                holds = best.mean <= control.mean + noise(battery, best, control)
                yield holds, f"{threat} at {budget}: {best.attack} {best.mean:.1f} %, random flips {control.mean:.1f} %"


def _seeds_agree(battery: Battery) -> Iterator[tuple[bool, str]]:
    for threat in THREATS:
        for budget in battery.budgets:
            worst = battery.worst(threat, budget)
            if worst is not None and worst.sd is not None:
                yield worst.sd <= WIDEST, f"{threat} at {budget}: {worst} % ({worst.attack})"


def _says_it_twice(battery: Battery) -> Iterator[tuple[bool, str]]:
    """Asked again of the graph that it was trained on, a model must say what it said."""
    for first, again in battery.asked_again:
        holds = abs(first - again) <= 100 * TIES / battery.test_nodes
        yield holds, f"{first:.1f} % when it was trained, {again:.1f} % when asked again"


_WHY_NOT: dict[_Look, str] = {
    _reaches_floor: "no attack that knows the defence was given an unlimited budget, and one that does not know it may "
    "stay above the floor",
    _more_is_worse: "there is only one budget",
    _knowing_helps: "the battery has no attack that follows gradients through the defence, or none that does not know "
    "it; from an attacker who knows it expect less than these figures",
    _beats_random: "the attempt with random flips failed",
    _seeds_agree: "there is only one seed",
    _says_it_twice: "the defence learns on one graph only, and cannot be asked again",
}
