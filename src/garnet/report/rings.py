"""Groups of nodes with suspicious edges among them: a small picture of each."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from garnet.audit.audit import Audit
from garnet.audit.groups import Group
from garnet.report.sections import Section, plural

_SHOWN_GROUPS, _MOST_DRAWN, _MOST_NAMED = 6, 40, 12
_RADIUS, _ROUNDS = 100.0, 10


def groups_section(audit: Audit, name: Callable[[int], str]) -> list[Section]:
    """The densest groups, each drawn and with its members; nothing where the audit sees nothing.

    Args:
        audit: the audit.
        name: what a node is called.
    """
    found = audit.groups()
    if audit.blind:
        return []
    if not found:
        text = "No group of nodes has more suspicious edges among its members than chance would put there."
        return [Section("Groups", text)]
    more = f", of which the densest {_SHOWN_GROUPS} are drawn" if len(found) > _SHOWN_GROUPS else ""
    text = (
        f"{plural(len(found), 'group')} of nodes with more suspicious edges among the members than there are anywhere "
        f"when the same suspicion is dealt out among the edges at random{more}: rings of nodes that were made up "
        "together look so. Red edges are more likely made up than not, by all reasons or by the profiles of their ends "
        "alone. The score is suspicious edges a member."
    )
    pictures = (_picture(audit, one, number, name) for number, one in enumerate(found[:_SHOWN_GROUPS], start=1))
    return [Section("Groups", text, Markup('<div class="rings">{}</div>').format(Markup().join(pictures)), wide=True)]


def _picture(audit: Audit, group: Group, number: int, name: Callable[[int], str]) -> Markup:
    """The members on a circle, two sides of a group apart, and the edges between them."""
    ends = np.searchsorted(group.members, audit.edges[:, group.edges])
    counts = np.bincount(ends.ravel(), minlength=len(group.members))
    drawn = np.sort(np.argsort(-counts, kind="stable")[:_MOST_DRAWN])
    order = drawn[np.argsort(_sides(ends, len(group.members))[drawn], kind="stable")]
    spots = {
        int(place): (_RADIUS * math.sin(turn), -_RADIUS * math.cos(turn))
        for place, turn in zip(order, np.arange(len(order)) * 2 * math.pi / len(order), strict=True)
    }
    marked = audit.group_suspicion[group.edges] > 0.5
    lines = [
        Markup('<line class="ink{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
            " marked" if red else "", *spots[first], *spots[second]
        )
        # Red ones are drawn last, and lie on top.
        for red, first, second in sorted(zip(marked.tolist(), *ends.tolist(), strict=True))
        if first in spots and second in spots
    ]
    dots = [
        Markup('<circle class="node" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>').format(
            *spots[place], name(int(group.members[place]))
        )
        for place in order.tolist()
    ]
    head = (
        f"{number}. {plural(len(group.members), 'node')}, {plural(len(group.edges), 'edge')}, score {group.score:.2f}"
    )
    if len(order) < len(group.members):
        head += f"; the {len(order)} with the most edges are drawn"
    said = f"{plural(int(marked.sum()), 'suspicious edge')} between {plural(len(group.members), 'node')}."
    named = [Markup("<bdi>{}</bdi>").format(name(int(node))) for node in group.members[:_MOST_NAMED]]
    rest = len(group.members) - len(named)
    return Markup(
        '<figure><figcaption>{}</figcaption><svg class="ring" role="img" viewBox="-110 -110 220 220"><title>{}</title>'
        '<desc>{}</desc>{}{}</svg><p class="hint">{}{}</p></figure>'
    ).format(
        head, f"Group {number}", said, Markup().join(lines), Markup().join(dots),
        Markup(", ").join(named), f" and {rest:,} more" if rest else "",
    )  # fmt: skip


def _sides(ends: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Two sides with many edges between them and few within: who has more on the own side changes over."""
    side = np.zeros(count, dtype=bool)
    both = np.concatenate([ends, ends[::-1]], axis=1)
    beside = [both[1, both[0] == node] for node in range(count)]
    for _ in range(_ROUNDS):
        before = side.copy()
        for node in range(count):
            if 2 * (side[beside[node]] == side[node]).sum() > len(beside[node]):
                side[node] = not side[node]
        if (side == before).all():
            break
    return side
