"""The sections of a report on a committee: its members, and who of them decided."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from garnet.report.charts import BLUE, GREEN, Bar, bars
from garnet.report.neighbourhood import MOST_LISTED, require_nodes
from garnet.report.sections import Section, embedded, fragment, percent, plural, table
from garnet.training.predictor import Predictor
from garnet.training.votes import Votes

# A node takes about ten bytes a member, so that a page with all nodes of a graph, or with some of a larger one, stays
# below half a megabyte.
_WHOLE, _MOST_NODES = 5_000, 500


def committee_sections(
    model: Predictor,
    votes: Votes,
    alone: NDArray[np.float64],
    nodes: Sequence[int] | None,
    names: Sequence[str] | None,
) -> list[Section]:
    """The members, the nodes where they disagree most, and who decided at any node that is in the page.

    Args:
        model: the committee's.
        votes: its members'.
        alone: (members,) share of the test nodes that each would have got right.
        nodes: those to show besides the ones where members disagree most.
        names: n texts to call the nodes by; None takes the graph's own.
    """
    against = votes.disagreement(model.predictions())
    order = np.argsort(-against, kind="stable")
    disputed = order[: np.count_nonzero(against)]
    called = model.graph.names if names is None else names
    return [
        _members(votes, alone),
        _disputed(model, votes, against, disputed, called),
        _any_node(model, votes, require_nodes(model.graph.num_nodes, nodes or ()), order, called),
    ]


def _members(votes: Votes, alone: NDArray[np.float64]) -> Section:
    charts = Markup().join(
        bars(
            [
                Bar(name=name, value=100 * share, note=f"{100 * share:.1f}", colour=colour)
                for name, share in zip(votes.members, shares.tolist(), strict=True)
            ],
            title=title,
            x=x,
        )
        for title, x, shares, colour in (
            ("What each member counts where nothing is doubted", "percent of the say", votes.weights, BLUE),
            ("How often each member decided", "percent of all nodes", votes.decided_shares, GREEN),
        )
    )
    shares = np.stack([votes.say.mean(axis=1), votes.doubt.mean(axis=1), alone], axis=1).tolist()
    rows = [
        [name, percent(say, 0), percent(doubt, 0), percent(right)]
        for name, (say, doubt, right) in zip(votes.members, shares, strict=True)
    ]
    heads = ["member", "mean say", "doubted", "right alone"]
    text = (
        "Each member is a model that reads the graph in its own way. Its weight is what it earned on the validation "
        "nodes, the same for all without such; at a node it has less say the more of what it reads there looks made "
        "up. The member that decides is the one that spoke most for the class that was chosen, even if "
        "it leant to another. The table has means over all nodes, and how many test nodes each would have got right "
        "alone."
    )
    if votes.strength is not None:
        text += (
            " The answer itself is not their mixture: they taught a student that reads features and no edge, and what "
            f"it says of a node's neighbours counts {percent(votes.strength, 0)} of what it would if they were right "
            "independently of each other. An edge that is flipped later can change no more than that."
        )
    body = Markup('<div class="pair">{}</div>').format(charts) + table(heads, rows, name="Members")
    return Section("The committee", text, body, wide=True)


def _disputed(
    model: Predictor, votes: Votes, against: NDArray[np.float32], disputed: NDArray[np.int64], names: Any
) -> Section:
    """A table of the nodes where members disagree most."""
    title, n = "Where members disagree most", model.graph.num_nodes
    if not len(disputed):
        return Section(title, "All members would have chosen the same class, at every node.", wide=True)
    text = (
        f"At {percent(1 - len(disputed) / n)} of {plural(n, 'node')} all members would have chosen the same class. "
        "These are the nodes where members that would have chosen another class than the committee had the most say; "
        "for each member, the class that it would have chosen and its say."
    )
    chosen, labels = model.predictions(), model.graph.labels
    rows = [
        [
            Markup("<bdi>{}</bdi>").format(_name(names, node)),
            votes.members[votes.decided[node]],
            _class(None if labels is None else labels[node]),
            _class(chosen[node]),
            percent(float(against[node]), 0),
            *(
                f"{said}, {percent(say, 0)}"
                for said, say in zip(votes.predictions[:, node].tolist(), votes.say[:, node].tolist(), strict=True)
            ),
        ]
        for node in disputed[:MOST_LISTED].tolist()
    ]
    heads = ["node", "decided by", "label", "answer", "against it", *votes.members]
    return Section(title, text, table(heads, rows, labels=2, name=title), wide=True)


def _any_node(model: Predictor, votes: Votes, asked: list[int], order: NDArray[np.int64], names: Any) -> Section:
    """For a node of the reader's choice, what each member would have said, and who decided."""
    n, labels = model.graph.num_nodes, model.graph.labels
    whole = n <= _WHOLE
    nodes = np.arange(n) if whole else np.array(list(dict.fromkeys([*asked, *order[:_MOST_NODES].tolist()])))
    listed = list(dict.fromkeys([*asked, *order[:MOST_LISTED].tolist()]))
    data = {
        "members": votes.members,
        "count": n,
        "ids": None if whole else nodes.tolist(),
        "names": None if names is None else [_name(names, node) for node in nodes.tolist()],
        "labels": None if labels is None else labels[nodes].tolist(),
        "chosen": model.predictions()[nodes].tolist(),
        "sure": _percents(model.probabilities()[nodes].max(axis=1)),
        "decided": votes.decided[nodes].tolist(),
        "said": votes.predictions[:, nodes].tolist(),
        "say": [_percents(one) for one in votes.say[:, nodes]],
        "doubt": [_percents(one) for one in votes.doubt[:, nodes]],
    }
    text = (
        "Each member's own prediction for a node, its weight there, and how much of its input there is doubted. "
        f"The list begins with {'those asked for, then with ' if asked else ''}the nodes where members disagree most."
    )
    if not whole:
        text += (
            f" Of {plural(n, 'node')}, this page holds the {_MOST_NODES:,} where they disagree most"
            f"{' and those asked for' if asked else ''}; garnet report --node adds others."
        )
    body = fragment("votes.html", listed=[(node, _name(names, node)) for node in listed], data=embedded(data))
    return Section("Who decided", text, body, wide=True)


def _name(names: Any, node: int) -> str:
    return str(node) if names is None else str(names[node])


def _class(number: Any) -> str:
    return "–" if number is None or number < 0 else str(number)


def _percents(shares: NDArray[Any]) -> list[int]:
    """Shares in whole percent: they are many, and a page should stay small."""
    return [round(100 * share) for share in shares.tolist()]
