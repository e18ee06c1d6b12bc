"""How fast `result.judge` is: edges a second in a batch, and milliseconds for a single one, on one thread.

Needs the graphs of the data folder. Of each graph with its default purification, and its audit: a batch of 200,000
pairs of known nodes; single edges; a batch of 20,000 edges of new nodes, ten each; and a new node with ten. Best of
five, after one that warms up; beside the wall time, that of the processors, which other programs do not lengthen.

    python benchmarks/judge.py
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from record import real_graph, save
from torch import set_num_threads

from garnet import GARNET, Graph
from garnet.audit import audit
from garnet.purify.judge_file import load_judge
from garnet.purify.verdicts import Judging
from garnet.report.purification_record import PurificationRecord

GRAPHS = ("cora", "pubmed")

BATCH, NEW, EACH, SINGLE, REPEATS = 200_000, 20_000, 10, 20, 5


def main() -> None:
    """Measure every graph, and write the record."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    set_num_threads(1)
    figures: dict[str, Any] = {}
    for name in GRAPHS:
        graph = real_graph(name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "result.npz"
            PurificationRecord.of(graph, GARNET().purify(graph)).save(path)
            loading, judge = best(partial(load_judge, path), 1)
            figures[f"{name}, purification"] = {
                "file MB": path.stat().st_size / 1e6,
                "load seconds": loading["seconds"],
                **speed(judge, graph),
            }
        figures[f"{name}, audit"] = speed(audit(graph).judging, graph)
        print(name, figures, flush=True)
    save("judge", figures)


def speed(judge: Judging, graph: Graph) -> dict[str, float]:
    """The figures of one graph."""
    rng, n = np.random.default_rng(0), graph.num_nodes
    pairs = rng.integers(n, size=(2, BATCH))
    new = np.stack([n + np.arange(NEW) // EACH, rng.integers(n, size=NEW)])
    batch, _ = best(lambda: judge(pairs, numbers=True))
    fresh, _ = best(lambda: judge(new, numbers=True))
    single, _ = best(lambda: [judge(pairs[:, one : one + 1], numbers=True) for one in range(SINGLE)])
    alone, _ = best(lambda: [judge(new[:, :EACH], numbers=True) for _ in range(SINGLE)])
    return {
        "nodes": n,
        "edges": graph.num_edges,
        "edges a second": BATCH / batch["seconds"],
        "edges a second of one processor": BATCH / batch["of processors"],
        "edges of new nodes a second": NEW / fresh["seconds"],
        "ms a single edge": 1e3 * single["seconds"] / SINGLE,
        "ms an edge of a new node with ten": 1e3 * alone["seconds"] / SINGLE,
    }


def best(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[dict[str, float], Any]:
    """The least seconds that work takes, by the clock and of all processors together; and what it gives."""
    taken, found = [], work()
    for _ in range(repeats):
        wall, own = time.perf_counter(), time.process_time()
        found = work()
        taken.append((time.perf_counter() - wall, time.process_time() - own))
    seconds, own = (min(one) for one in zip(*taken, strict=True))
    return {"seconds": seconds, "of processors": own}, found


if __name__ == "__main__":
    main()
