"""What stress tests found, attack by attack and budget by budget, in Markdown; `tools.leaderboard` has the rows."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from garnet.bench.opponents import THREATS, Threat
from garnet.bench.outcomes import Battery, lowest
from garnet.errors import GarnetError
from tools.leaderboard import NOTES, WARNING, ranked
from tools.markdown import NONE, table
from tools.stressed import Stressed, in_order, stressed, stressed_in

_ROUNDS = {
    "before": "rounds-cora-0.jsonl",
    "first round": "rounds-cora-1.jsonl",
    "second round": "stress-cora-committee.jsonl",
}
_TODAY = "second round, by all attacks of today"


def figure(name: str, records: Path) -> str:
    """One figure, such as `cora committee evasion 5%`: the accuracy under the worst attack, or `cora committee clean`.

    Raises:
        GarnetError: no record has it.
    """
    graph, _, rest = name.partition(" ")
    for one in stressed(records):
        defense, _, asked = rest.partition(f"{one.name} ") if rest.startswith(f"{one.name} ") else ("", "", "")
        kind, _, budget = asked.partition(" ")
        if one.battery.graph != graph or defense or not asked:
            continue
        if asked == "clean":
            return f"{one.battery.clean.mean:.1f}"
        if kind in THREATS and budget in one.battery.budgets:
            return _within(one.battery, kind, budget)
    raise GarnetError(
        f"No record of a stress test has the figure '{name}'; name a graph, a defence, and clean, or a threat and a "
        "budget."
    )


def attacker_who_knows(records: Path) -> str:
    """What one who knows a defence leaves of it, budget by budget, on the first graph of the leaderboard."""
    graph, found = _first(records)
    if not found:
        return "Nothing has been measured yet."
    shares = {one.budget: one.allowed / each.battery.edges for each in found for one in each.battery.outcomes}
    budgets = sorted(shares, key=lambda one: shares[one])
    heads = [graph.capitalize(), "clean", *(f"{when}: {one}" for when in ("after", "before") for one in budgets)]
    rows = []
    for one in found:
        figures = [_within(one.battery, kind, budget) for kind in THREATS for budget in budgets]
        name = f"`{one.name}`" + (f" {WARNING}" if one.found.failed else "")
        rows.append([name, f"{one.battery.clean.mean:.1f}", *figures])
    warning = f"\n\n{WARNING} {NOTES[WARNING]}" if any(one.found.failed for one in found) else ""
    return table(heads, rows) + warning


def rounds(records: Path) -> str:
    """What was left of the committee before it was changed in answer to attacks, and after each change.

    Rounds are compared by the attacks that all of them were tried with; the last row has those that came later, too.
    """
    found = {name: _only(records / file).battery for name, file in _ROUNDS.items()}
    last = found["second round"]
    shared = set.intersection(*({one.attack for one in battery.outcomes} for battery in found.values()))
    heads = ["Cora", "attacks", "clean", *(f"{one}: {budget}" for one in THREATS for budget in last.budgets)]
    rows = []
    for name, battery, some in [*((name, one, shared) for name, one in found.items()), (_TODAY, last, None)]:
        tried = [one for one in battery.tried if some is None or one in {each.split()[0] for each in some}]
        figures = [_lowest(battery, kind, budget, some) for kind in THREATS for budget in last.budgets]
        link = f"[{name}](../../results/{_ROUNDS.get(name, _ROUNDS['second round'])})"
        rows.append([link, str(len(tried)), f"{battery.clean.mean:.1f}", *figures])
    return table(heads, rows)


def attacks_that_know(records: Path) -> str:
    """What each attack leaves of each defence after training, and before, at a budget that all were tried with."""
    _, found = _first(records)
    if not found:
        return "Nothing has been measured yet."
    shared = [one for one in found[0].battery.budgets if all(one in each.battery.budgets for each in found)]
    if not shared:
        return "No budget is common to all."
    budget = shared[(len(shared) - 1) // 2]
    parts = []
    for kind in THREATS:
        attacks = dict.fromkeys(name for one in found for name in one.battery.attacks)
        rows = [[attack, *(_left(one.battery, kind, budget, attack) for one in found)] for attack in attacks]
        heads = [f"{kind}, {budget}", *(f"`{one.name}`" for one in found)]
        clean = ["clean", *(f"{one.battery.clean.mean:.1f}" for one in found)]
        parts.append(table(heads, [clean, *rows]))
    return "\n\n".join(parts)


def restarts(records: Path) -> str:
    """The worst attack at each budget, where attacks were begun anew on models trained anew: mean and spread."""
    found = sorted(
        (one for path in records.glob("restarts-cora-*.jsonl") for one in stressed_in(path)),
        key=lambda one: -min(each.mean for each in one.battery.outcomes),
    )
    if not found:
        return "Nothing has been measured yet."
    budgets = found[0].battery.budgets
    heads = ["Cora", "seeds", "clean", *(f"{kind}: {budget}" for kind in THREATS for budget in budgets)]
    rows = []
    for one in found:
        battery = one.battery
        worst = [
            battery.worst(kind, budget) if budget in battery.budgets else None for kind in THREATS for budget in budgets
        ]
        row = [f"`{one.name}`", str(len(battery.seeds)), f"[{battery.clean}](../../results/{one.file})"]
        rows.append(row + [NONE if each is None else f"{each} ({each.attack})" for each in worst])
    return table(heads, rows)


def _first(records: Path) -> tuple[str, list[Stressed]]:
    """The first graph that something was stressed on, and its stress tests in the order of the leaderboard."""
    known = stressed(records)
    graph = next(iter(in_order(one.battery.graph for one in known)), "")
    order = [row.defense for row in ranked(graph, records)]
    return graph, sorted((one for one in known if one.battery.graph == graph), key=lambda one: order.index(one.name))


def _only(path: Path) -> Stressed:
    found = stressed_in(path)
    if len(found) != 1:
        raise GarnetError(f"The record {path} has {len(found)} stress tests, and a round is one; take the others out.")
    return found[0]


def _lowest(battery: Battery, kind: Threat, budget: str, some: Collection[str] | None) -> str:
    """The accuracy under the worst of some attacks within a budget, where all of them were tried with it."""
    if some is None:
        return _within(battery, kind, budget)
    if not set(some) <= {one.attack for one in battery.at(kind, budget)}:
        return NONE
    allowed = battery.at(kind, budget)[0].allowed
    worst = lowest(
        one for one in battery.outcomes if (one.threat, one.attack in some) == (kind, True) and one.allowed <= allowed
    )
    return NONE if worst is None else f"{worst.mean:.1f}"


def _within(battery: Battery, kind: Threat, budget: str) -> str:
    """The accuracy under the worst attack of a kind within a budget, where it was tried with one."""
    worst = battery.worst(kind, budget) if budget in battery.budgets else None
    return NONE if worst is None else f"{worst.mean:.1f}"


def _left(battery: Battery, kind: Threat, budget: str, attack: str) -> str:
    """The accuracy under an attack; the lowest of all is bold."""
    outcome = lowest(battery.at(kind, budget, attack))
    if outcome is None:
        return NONE
    worst = lowest(battery.at(kind, budget))
    return f"**{outcome.mean:.1f}**" if worst is not None and worst.attack == attack else f"{outcome.mean:.1f}"
