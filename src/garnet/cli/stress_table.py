"""A stress test on the terminal: every attack, the worst in bold, what it cost, and which checks hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from garnet.cli.console import out, printable

if TYPE_CHECKING:
    from garnet.bench.opponents import Threat
    from garnet.bench.outcomes import Battery, Outcome
    from garnet.bench.verdict import Stress

_MARKS = {"ok": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("–", "yellow")}
_WHEN = {"evasion": "changed after training", "poisoning": "changed before training"}


def draw_stress(found: Stress) -> None:
    """Print the tables, the checks and the verdict."""
    from garnet.bench.opponents import THREATS

    battery = found.battery
    console = out if out.is_terminal else Console(highlight=False, markup=False, emoji=False, width=10_000)
    seeds = "1 seed" if len(battery.seeds) == 1 else f"{len(battery.seeds)} seeds"
    shown = [threat for threat in THREATS if any(one.threat == threat for one in battery.outcomes)]
    for threat in shown:
        title = f"{battery.graph}, {battery.defense}: {threat} ({_WHEN[threat]}), accuracy in percent, {seeds}"
        out.print(Text(printable(title), style="bold"), soft_wrap=True)
        console.print(_table(battery, threat))
    out.print(printable(_below(battery)), soft_wrap=True)
    for one in battery.failures[:10]:
        attempt = f"{one.cell['attack']} {one.cell['allowed']}, seed {one.cell['seeds'][0]}"
        out.print(printable(f"Failed: {attempt}: {one.reason}"), soft_wrap=True)
    out.print()
    for check in found.checks:
        mark, style = _MARKS[check.verdict]
        said = f"FAILED: {check.found}. It means: {check.meaning}." if check.verdict == "failed" else check.found
        name = Text(f"{check.name}: ", style="bold" if check.verdict == "failed" else "")
        out.print(Text(f"{mark} ", style=style) + name + Text(printable(said)), soft_wrap=True)
    out.print()
    out.print(Text(printable(found.verdict), style="bold red" if found.failed else "bold"), soft_wrap=True)


def _table(battery: Battery, threat: Threat) -> Table:
    table = Table()
    table.add_column("attack", no_wrap=True)
    for budget in battery.budgets:
        table.add_column(budget, justify="right", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    clean = battery.clean if threat == "poisoning" else battery.clean_evasion
    table.add_row("nobody", *[str(clean)] * len(battery.budgets), "", style="dim", end_section=True)
    for attack in battery.attacks:
        found = [battery.at(threat, budget, attack) for budget in battery.budgets]
        flat = [one for some in found for one in some]
        if flat:
            cells = [_cell(battery, threat, some[0]) if some else Text("–") for some in found]
            mean = sum(one.seconds for one in flat) / len(flat)
            name = f"{attack} *" if flat[0].adaptive else attack
            table.add_row(printable(name), *cells, f"{mean:.1f}")
    table.add_section()
    worst = [battery.worst(threat, budget) for budget in battery.budgets]
    table.add_row("worst", *(str(one) if one else "–" for one in worst), "", style="bold")
    table.add_row("  by", *(_by(one, budget) for one, budget in zip(worst, battery.budgets, strict=True)), "")
    table.add_row("  seconds", *(f"{one.seconds:.1f}" if one else "–" for one in worst), "")
    table.add_row("  flips", *(f"{one.flips:,.0f}" if one else "–" for one in worst), "")
    return table


def _cell(battery: Battery, threat: Threat, one: Outcome) -> Text:
    worst = battery.worst(threat, one.budget)
    return Text(f"{'→ ' if one.transferred else ''}{one}", style="bold red" if one == worst else "")


def _by(worst: Outcome | None, budget: str) -> str:
    if worst is None:
        return "–"
    return printable(worst.attack if worst.budget == budget else f"{worst.attack} {worst.budget}")


def _below(battery: Battery) -> str:
    lines = ["Of attacks tried so far; a stronger one may exist. What is found within a budget counts at larger ones."]
    if len(battery.seeds) > 1:
        lines.append("± is the standard deviation over the seeds.")
    if any(one.adaptive for one in battery.outcomes):
        lines.append("* knows the defence, or asks it.")
    if any(one.transferred for one in battery.outcomes):
        lines.append("→ found for the other threat.")
    if not battery.clean_evasion.accuracies:
        lines.append("The defence learns on one graph only, so it cannot be evaded.")
    return " ".join(lines)
