"""Purify a graph of your own: an edge list in, a cleaned edge list out, and what became of each edge."""

import sys
import tempfile
from pathlib import Path

from garnet import GARNET, load_graph
from garnet.datasets import block_model


def main(source: Path, target: Path) -> None:
    graph = load_graph(source)
    result = GARNET().purify(graph)
    result.graph.save(target)
    print(f"{result.ledger.dropped.shape[1]} of {graph.num_edges} edges were not believed")
    worst = result.ledger.dropped_scores.argsort()[:5]
    names = range(graph.num_nodes) if graph.names is None else graph.names
    for u, v in result.ledger.dropped[:, worst].T:
        print(f"least believed: {names[u]} - {names[v]}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        folder = Path(tempfile.mkdtemp())
        block_model(500, seed=0).save(folder / "edges.csv")
        main(folder / "edges.csv", folder / "clean.csv")
