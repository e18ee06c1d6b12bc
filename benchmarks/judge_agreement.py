"""How far `result.judge` can be relied on: edges judged without a new run, against a full run with all of them.

Needs the graphs of the data folder. Of each graph a twentieth of the edges is hidden, and as many made-up ones are put
beside them: pairs drawn as a rewiring would draw them, or edges that the published Metattack (20 %) added. What is left
is purified, and audited, and both judge the hidden and made-up edges; then the graph with all of these edges is
purified, and audited, from scratch. Means over three draws of: how often a true edge scores better than a made-up one
(the area under the ROC curve), how often both come to the same verdict, what share of either kind is doubted, and the
largest gap between the scores of arriving edges and of the graph's own, if all are true and if half are made up.

Also, of new nodes: all edges of a twentieth of the nodes are hidden, and arrive with as many made-up ones.

    python benchmarks/judge_agreement.py cora         # or citeseer, polblogs, chameleon
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from record import real_graph, save

from garnet import GARNET, Graph, Purification, as_graph
from garnet.audit import audit
from garnet.datasets import poisoned
from garnet.graph.edges import canonical, contains
from garnet.purify.verdicts import Verdicts, apart

SHARE, DRAWS = 0.05, 3
NEW_NODES = 0.05


def main() -> None:
    """Measure a graph, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graph")
    name = parser.parse_args().graph
    graph, figures = real_graph(name), {}
    for kind, edges in {"random": None, "metattack": added(graph, name)}.items():
        found = [row for draw in range(DRAWS) for row in draws(graph, edges, draw)]
        figures[kind] = {
            method: mean([row for which, row in found if which == method]) for method in ("purification", "audit")
        }
        print(name, kind, figures[kind], flush=True)
    figures["new nodes"] = mean([newcomers(graph, draw) for draw in range(DRAWS)])
    print(name, "new nodes", figures["new nodes"], flush=True)
    save(f"judge-agreement-{name}", figures)


def added(graph: Graph, name: str) -> np.ndarray:
    """The edges that the published attack added."""
    found = poisoned(name, attack="metattack", budget=0.2).edges
    return found[:, ~contains(graph.edges, found, graph.num_nodes)]


def draws(graph: Graph, made_up: np.ndarray | None, seed: int) -> Iterator[tuple[str, dict[str, float]]]:
    """The figures of one draw, for a purification and for an audit."""
    rng, n, count = np.random.default_rng(seed), graph.num_nodes, round(SHARE * graph.num_edges)
    hidden = np.zeros(graph.num_edges, dtype=bool)
    hidden[rng.choice(graph.num_edges, count, replace=False)] = True
    true = graph.edges[:, hidden]
    if made_up is None:
        false = rewired(graph, count, rng)
    else:
        false = made_up[:, np.sort(rng.permutation(made_up.shape[1])[:count])]
    rest, whole = graph.with_edges(graph.edges[:, ~hidden]), joined(graph, false)
    before, after = GARNET().purify(rest), GARNET().purify(whole)
    edges, trust = trusted(after)
    full = [of(trust, edges, some, n) for some in (true, false)]
    yield "purification", compared(before.judge(true, numbers=True), before.judge(false, numbers=True), full, 0.25)
    first, second = audit(rest), audit(whole)
    full = [of(1 - second.suspicion, second.edges, some, n) for some in (true, false)]
    yield "audit", compared(first.judge(true, numbers=True), first.judge(false, numbers=True), full, 0.5)


def newcomers(graph: Graph, seed: int) -> dict[str, float]:
    """The figures of a twentieth of the nodes that come later, with all of their edges and as many made-up ones."""
    rng, n = np.random.default_rng(seed), graph.num_nodes
    order = rng.permutation(n)
    known = n - round(NEW_NODES * n)
    # Known nodes come first, so that numbers from `known` on are new to the graph of these.
    matrix: Any = graph.adjacency[order][:, order]
    features: Any = None if graph.features is None else graph.features[order]
    whole = as_graph(matrix, features=features)
    rest = as_graph(matrix[:known][:, :known], features=None if features is None else features[:known])
    true = whole.edges[:, (whole.edges >= known).any(axis=0)]
    partners = rng.choice(whole.edges.ravel(), true.shape[1])
    false = canonical(np.maximum(*true), partners, n)
    false = false[:, (false[0] != false[1]) & ~contains(whole.edges, false, n)]
    edges, trust = trusted(GARNET().purify(joined(whole, false)))
    rows = None
    if features is not None:
        dense = features[known:].toarray() if sp.issparse(features) else features[known:]
        rows = dict(enumerate(dense, known))
    before, figures = GARNET().purify(rest), {}
    figures["full"] = area(*(of(trust, edges, some, n) for some in (true, false)))
    ways = {"edges alone": None} if rows is None else {"edges alone": None, "features too": rows}
    for name, given in ways.items():
        found = before.judge(np.concatenate([true, false], axis=1), features=given)
        both = np.split(found.score, [true.shape[1]])
        figures[name] = area(*both)
        figures[f"{name}, unknown"] = float(np.isnan(found.score).mean())
        figures[f"{name}, true doubted"], figures[f"{name}, made up doubted"] = (
            float((one < 0.25).mean()) for one in both
        )
    return figures


def trusted(found: Purification) -> tuple[np.ndarray, np.ndarray]:
    """The edges of the graph that was purified, and how far each is trusted."""
    ledger: Any = found.ledger
    return ledger.edges[:, ledger.given].numpy(), ledger.trust[ledger.given].numpy()


def compared(true: Verdicts, false: Verdicts, full: list[np.ndarray], least: float) -> dict[str, float]:
    """What was made of hidden and of made-up edges without a new run, and in one."""
    usual = true.usual.scores
    sure = [~np.isnan(one.score) for one in (true, false)]
    same = [(one.score < least) == (other < least) for one, other in zip((true, false), full, strict=True)]
    told = np.concatenate([one[told] for one, told in zip(same, sure, strict=True)])
    known = [one.score[told] for one, told in zip((true, false), sure, strict=True)]
    return {
        "judge": area(*known),
        "full": area(*full),
        "agree": float(told.mean()) if len(told) else 0.0,
        "unknown": 1 - float(np.concatenate(sure).mean()),
        "true doubted": float((true.verdict == "doubt").mean()),
        "true doubted, full": float((full[0] < least).mean()),
        "made up doubted": float((false.verdict == "doubt").mean()),
        "made up doubted, full": float((full[1] < least).mean()),
        "gap, true": apart(known[0], usual),
        "gap, half made up": apart(np.concatenate(known), usual),
    }


def rewired(graph: Graph, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs that are no edges, whose ends are drawn as a rewiring that keeps all degrees would draw them."""
    first, second = rng.choice(graph.edges.ravel(), (2, 4 * count))
    found = canonical(first[first != second], second[first != second], graph.num_nodes)
    found = found[:, ~contains(graph.edges, found, graph.num_nodes)]
    return found[:, np.sort(rng.permutation(found.shape[1])[:count])]


def joined(graph: Graph, edges: np.ndarray) -> Graph:
    """The graph with more edges."""
    both = np.concatenate([graph.edges, edges], axis=1)
    return graph.with_edges(canonical(both[0], both[1], graph.num_nodes))


def of(scores: np.ndarray, edges: np.ndarray, some: np.ndarray, n: int) -> np.ndarray:
    """The scores of some of the edges, which are sorted."""
    return scores[np.searchsorted(edges[0] * n + edges[1], some[0] * n + some[1])]


def area(good: np.ndarray, bad: np.ndarray) -> float:
    """How often a good edge scores better than a bad one; ties, and what nothing is known of, count half."""
    good, bad = (np.nan_to_num(one.astype(np.float64), nan=0.5) for one in (good, bad))
    good = np.sort(good)
    below = (np.searchsorted(good, bad, "left") + np.searchsorted(good, bad, "right")) / 2
    return 1 - float(below.mean()) / len(good)


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of each figure."""
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


if __name__ == "__main__":
    main()
