"""Which flips get through: what a search by queries takes from a committee on Cora, before and after the answer.

5 % of the edges are flipped after training. Of the test nodes that were right and no longer are: how many edges they
had, how many flips touch them, and whether their features alone would have been enough.

    python benchmarks/through.py
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any

import numpy as np
from record import data_folder, save

from garnet.attacks import Budget, QuerySearch
from garnet.datasets import load
from garnet.defenses import Committee
from garnet.defenses.views import CommitteeWarning
from garnet.graph.graph import Graph
from garnet.training.predictor import Predictor
from garnet.training.supervision import require_trainable


def main() -> None:
    """Attack both committees and write the record."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    os.environ["GARNET_DATA"] = str(data_folder())
    graph = load("cora", split="prognn")
    figures: dict[str, Any] = {}
    for name, committee in {"members alone": Committee(leeway=None), "beliefs": Committee()}.items():
        figures[name] = taken(graph, committee)
        print(name, figures[name])
    save("through", figures)


def taken(graph: Graph, committee: Committee) -> dict[str, Any]:
    """What the search takes of a committee, and what the nodes have in common."""
    fitted = committee.fit(graph, seed=0)
    flips = QuerySearch(defense=committee)(graph, budget=Budget.fraction(0.05), victim=fitted, seed=0)
    test = require_trainable(graph)[0].test
    was, now = right(fitted, graph)[test], right(fitted.on(flips.apply(graph)), graph)[test]
    lost = test[was & ~now]
    touched = np.bincount(flips.edges.ravel(), minlength=graph.num_nodes)[lost]
    degrees = np.bincount(graph.edges.ravel(), minlength=graph.num_nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CommitteeWarning)  # purifiers have nothing to say of a graph without edges
        bare = right(fitted.on(graph.with_edges(graph.edges[:, :0])), graph)
    return {
        "strength": fitted.votes.strength if fitted.votes else None,
        "accuracy": 100 * was.mean(),
        "attacked": 100 * now.mean(),
        "without_edges": 100 * bare[test].mean(),
        "right_thanks_to_edges": 100 * (was & ~bare[test]).mean(),
        "flips": flips.num_changes,
        "added": flips.added(graph).shape[1],
        "lost": len(lost),
        "lost_with_two_edges_or_fewer": 100 * (degrees[lost] <= 2).mean(),
        "with_two_edges_or_fewer": 100 * (degrees[test] <= 2).mean(),
        "lost_touched_once": 100 * (touched == 1).mean(),
        "lost_touched_more": 100 * (touched > 1).mean(),
        "lost_though_features_know": 100 * bare[lost].mean(),
    }


def right(predictor: Predictor, graph: Graph) -> Any:
    """(n,) whether each node is classified rightly."""
    return predictor.predictions() == graph.labels


if __name__ == "__main__":
    main()
