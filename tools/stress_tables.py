"""What stress tests found, attack by attack and budget by budget, in Markdown; `tools.leaderboard` has the rows."""

from __future__ import annotations

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
    """What was left of the committee before it was changed in answer to attacks, and after each change."""
    found = {name: _only(records / file).battery for name, file in _ROUNDS.items()}
    budgets = found["second round"].budgets
    heads = ["Cora", "attacks tried", "clean", *(f"{one}: {budget}" for one in THREATS for budget in budgets)]
    rows = [
        [
            f"[{name}](../../results/{_ROUNDS[name]})",
            str(len(battery.tried)),
            f"{battery.clean.mean:.1f}",
            *(
                _within(battery, kind, budget) if _whole(battery, kind, budget) else NONE
                for kind in THREATS
                for budget in budgets
            ),
        ]
        for name, battery in found.items()
    ]
    return table(heads, rows)


def attacks_that_know(records: Path) -> str:
    """What each attack leaves of each defence after training, and before, at a budget that all were tried with."""
    _, found = _first(records)
    if not found:
        return "Nothing has been measured yet."
    shared = [one for one in found[0].battery.budgets if all(one in each.battery.budgets for each in found)]
    if not shared:
        return "No budget is common to all."
    budget = shared[len(shared) // 2]
    parts = []
    for kind in THREATS:
        attacks = dict.fromkeys(name for one in found for name in one.battery.attacks)
        rows = [[attack, *(_left(one.battery, kind, budget, attack) for one in found)] for attack in attacks]
        heads = [f"{kind}, {budget}", *(f"`{one.name}`" for one in found)]
        clean = ["clean", *(f"{one.battery.clean.mean:.1f}" for one in found)]
        parts.append(table(heads, [clean, *rows]))
    return "\n\n".join(parts)


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


def _whole(battery: Battery, kind: Threat, budget: str) -> bool:
    """Whether everything that was tried with the smallest budget was tried with another, too."""
    tried = [{one.attack for one in battery.at(kind, some)} for some in (battery.budgets[0], budget)]
    return tried[0] <= tried[1]


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
