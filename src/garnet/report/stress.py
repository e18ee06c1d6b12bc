"""The sections of a report on a stress test: accuracy against budget, what the worst attack cost, and the checks."""

from __future__ import annotations

from markupsafe import Markup

from garnet.bench.checks import Check
from garnet.bench.opponents import THREATS, Threat
from garnet.bench.outcomes import Battery, Outcome
from garnet.bench.verdict import Stress
from garnet.graph.provenance import Provenance
from garnet.report.charts import Bar, Line, bars, lines
from garnet.report.sections import Section, made_section, plural, table

_WHEN = {
    "evasion": "The model was trained on the clean graph, which was changed afterwards.",
    "poisoning": "The graph was changed before the model was trained on it.",
}
_NOTHING = "–"


def stress_sections(found: Stress) -> list[Section]:
    """Verdict, checks that failed, curves, the worst attacks, every attack, all checks, cost and provenance."""
    battery = found.battery
    shown = [threat for threat in THREATS if any(one.threat == threat for one in battery.outcomes)]
    return [
        Section("", found.verdict),
        *([_failed(found)] if found.failed else []),
        *([_curves(battery, shown)] if shown else []),
        *(_worst(battery, threat) for threat in shown),
        *(_attacks(battery, threat) for threat in shown),
        Section("Checks", _about_checks(found), _checks(found.checks), wide=True),
        *_failures(battery),
        *([_cost(battery)] if battery.outcomes else []),
        _made(battery),
    ]


def _failed(found: Stress) -> Section:
    items = Markup().join(
        Markup('<li><span class="failed">{}: failed.</span> {}. It means: {}.</li>').format(
            _capital(one.name), _capital(one.found), one.meaning
        )
        for one in found.failed
    )
    text = "A weak attack looks like a strong defence. These figures may be the former."
    return Section("Do not quote these figures yet", text, Markup("<ul>{}</ul>").format(items), wide=True)


def _curves(battery: Battery, shown: list[Threat]) -> Section:
    text = (
        f"Accuracy on {plural(battery.test_nodes, 'test node')}, mean over {plural(len(battery.seeds), 'seed')}. The "
        "bold line is the worst of all attacks at a budget or any smaller one, its band one standard deviation."
    )
    if len(battery.seeds) > 1:
        text += " Here and below, ± is the standard deviation over the seeds."
    drawn = Markup().join(_curve(battery, threat) for threat in shown)
    return Section("Accuracy against budget", text, Markup('<div class="pair">{}</div>').format(drawn), wide=True)


def _curve(battery: Battery, threat: Threat) -> Markup:
    """Every attack, and the worst of them, from where nobody attacks."""
    clean = battery.clean if threat == "poisoning" else battery.clean_evasion
    worst = [one for budget in battery.budgets if (one := battery.worst(threat, budget)) is not None]
    allowed = {one.budget: one.allowed for one in battery.outcomes}
    places = [100 * allowed[budget] / battery.edges for budget in battery.budgets[-len(worst) :]]
    series = []
    for attack in battery.attacks:
        found = [one for budget in battery.budgets for one in battery.at(threat, budget, attack)]
        if found:
            x = [0.0, *(100 * one.allowed / battery.edges for one in found)]
            series.append(Line(name=_named(found[0]), x=x, y=[clean.mean, *(one.mean for one in found)]))
    ends = [(one.mean, one.sd or 0.0) for one in (clean, *worst)]
    bold = Line(
        name="worst",
        x=[0.0, *places],
        y=[mean for mean, _ in ends],
        low=[max(mean - sd, 0.0) for mean, sd in ends],
        high=[min(mean + sd, 100.0) for mean, sd in ends],
        bold=True,
    )
    return lines([bold, *series], title=_capital(threat), x="flips, percent of the edges", y="accuracy, percent")


def _worst(battery: Battery, threat: Threat) -> Section:
    rows = []
    for budget in battery.budgets:
        worst = battery.worst(threat, budget)
        if worst is None:
            rows.append([budget, *[_NOTHING] * 5])
            continue
        lost = battery.clean.mean - worst.mean
        by = _named(worst) + ("" if worst.budget == budget else f" at {worst.budget}")
        rows.append([budget, by, f"{worst}", f"{lost:.1f}", f"{worst.seconds:.1f}", f"{worst.flips:,.0f}"])
    heads = ["budget", "attack", "accuracy", "lost", "seconds", "flips"]
    body = table(heads, rows, labels=2, name=f"The worst {threat} at each budget")
    return Section(f"The worst {threat}", f"{_WHEN[threat]} Seconds and flips are those of one attack.", body)


def _attacks(battery: Battery, threat: Threat) -> Section:
    rows = [["nobody", *[str(battery.clean)] * len(battery.budgets)]]
    for attack in battery.attacks:
        found = {budget: battery.at(threat, budget, attack) for budget in battery.budgets}
        first = next((some[0] for some in found.values() if some), None)
        if first is not None:
            cells = [_cell(battery, some[0]) if some else _NOTHING for some in found.values()]
            rows.append([_named(first), *cells])
    text = "Before any minimum over budgets; the worst at each budget is in bold."
    body = table(["attack", *battery.budgets], rows, name=f"Accuracy under every {threat}")
    return Section(f"Every {threat}", text, body)


def _cell(battery: Battery, one: Outcome) -> str | Markup:
    return Markup("<strong>{}</strong>").format(str(one)) if one == battery.worst(one.threat, one.budget) else str(one)


def _named(one: Outcome) -> str:
    """The attack, and what sets it apart."""
    knows = "asks the defence" if one.black_box else "knows the defence"
    marks = [knows] * one.adaptive + ["transferred"] * one.transferred
    return one.attack + (f" ({', '.join(marks)})" if marks else "")


def _about_checks(found: Stress) -> str:
    return f"What has to hold before such figures mean anything. {found.confidence}"


def _checks(checks: tuple[Check, ...]) -> Markup:
    styles = {"ok": "passed", "failed": "failed", "not run": ""}
    rows = [
        [
            _capital(one.name),
            Markup('<span class="{}">{}</span>').format(styles[one.verdict], one.verdict),
            f"{one.found}. It means: {one.meaning}" if one.meaning else one.found,
        ]
        for one in checks
    ]
    return table(["check", "verdict", "what was seen"], rows, labels=3, name="Checks")


def _failures(battery: Battery) -> list[Section]:
    if not battery.failures:
        return []
    rows = [
        [str(one.cell["attack"]), str(one.cell["allowed"]), one.cell["seeds"][0], one.reason]
        for one in battery.failures
    ]
    text = f"{plural(len(rows), 'attempt')} of {len(battery.records):,} failed; the others are above."
    body = table(["attack", "budget", "seed", "why"], rows, labels=4, name="Attempts that failed")
    return [Section("What failed", text, body, wide=True)]


def _cost(battery: Battery) -> Section:
    """Seconds of each attack at the largest budget it was given."""
    found = {one.attack: one for one in battery.outcomes}
    entries = [Bar(name=name, value=one.seconds, note=f"{one.seconds:.1f} s") for name, one in found.items()]
    total = sum(one.seconds.get("total", 0.0) for one in battery.records)
    text = f"Seconds to find the changes at the largest budget, on average; {total:,.0f} s with all training."
    return Section("What the attacks cost", text, bars(entries, title="Seconds of one attack", x="seconds"))


def _made(battery: Battery) -> Section:
    last = battery.records[-1]
    made = Provenance(
        command=battery.command, fingerprints=last.fingerprints, versions=last.versions, machine=last.machine
    )
    seeds = ", ".join(map(str, battery.seeds))
    return made_section(
        made, f"Seeds {seeds}, each of an attack and of a model. Every attempt has a record with its changes."
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
