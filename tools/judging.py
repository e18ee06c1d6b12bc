"""How new edges are judged without a new run, in Markdown: the benchmarks `judge_agreement` and `judge`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import NONE, table
from tools.records import Benchmark

_GRAPHS = ("cora", "citeseer", "polblogs", "chameleon")
_KINDS = {"random": "at random", "metattack": "by Metattack"}


def agreement(records: Path) -> str:
    """How well new edges are judged without a new run, and how well in one."""
    rows = []
    for name in _GRAPHS:
        with _agreement(records, name).figures() as found:
            for kind, words in _KINDS.items():
                for method in ("purification", "audit"):
                    run = found[kind][method]
                    rows.append(
                        [
                            f"{name.capitalize()}, {words}",
                            method,
                            f"{run['judge']:.3f}",
                            f"{run['full']:.3f}",
                            f"{run['agree']:.1%}",
                            f"{run['true doubted']:.1%}",
                            f"{run['true doubted, full']:.1%}",
                            f"{run['made up doubted']:.1%}",
                            f"{run['made up doubted, full']:.1%}",
                        ]
                    )
    heads = ["made up", "by", "AUC", "full run", "same verdict", "true doubted", "full run", "made up doubted"]
    return table([*heads, "full run"], rows, labels=2)


def gaps(records: Path) -> str:
    """How far apart the scores of arriving edges and of the graph's own are."""
    rows = []
    for name in _GRAPHS:
        with _agreement(records, name).figures() as found:
            for method in ("purification", "audit"):
                runs = [found[kind][method] for kind in _KINDS]
                half = [f"{run['gap, half made up']:.2f}" for run in runs]
                rows.append([name.capitalize(), method, f"{runs[0]['gap, true']:.2f}", *half])
    return table(["gap", "by", "all true", *(f"half made up {words}" for words in _KINDS.values())], rows, labels=2)


def new_nodes(records: Path) -> str:
    """How well the edges of new nodes are told."""
    rows = []
    for name in _GRAPHS:
        with _agreement(records, name).figures() as found:
            run = found["new nodes"]
            told = [
                cell
                for way in ("edges alone", "features too")
                for cell in ((f"{run[way]:.3f}", f"{run[f'{way}, unknown']:.1%}") if way in run else (NONE, NONE))
            ]
            rows.append([name.capitalize(), *told, f"{run['full']:.3f}"])
    return table(["new nodes of", "edges alone", "unknown", "features too", "unknown", "full run"], rows)


def speed(records: Path) -> str:
    """How fast edges are judged."""
    rows = []
    benchmark = Benchmark(records / "judge.json", "python benchmarks/judge.py")
    with benchmark.figures() as found:
        for name, run in found.items():
            rows.append([_title(name), *_quick(run)])
    heads = ["edges", "edges a second", "by one processor", "of new nodes", "one edge", "a new node with ten"]
    return table([f"on {benchmark.machine}", *heads], rows)


def _quick(run: Mapping[str, Any]) -> list[str]:
    counts = ("edges", "edges a second", "edges a second of one processor", "edges of new nodes a second")
    times = ("ms a single edge", "ms an edge of a new node with ten")
    return [*(f"{run[name]:,.0f}" for name in counts), *(f"{run[name]:.0f} ms" for name in times)]


def _title(name: str) -> str:
    return name if name.startswith("ogbn") else name.capitalize()


def _agreement(records: Path, name: str) -> Benchmark:
    return Benchmark(records / f"judge-agreement-{name}.json", f"python benchmarks/judge_agreement.py {name}")


BLOCKS: dict[str, Callable[[Path], str]] = {
    "judge agreement": agreement,
    "judge gaps": gaps,
    "judge new nodes": new_nodes,
    "judge speed": speed,
}
"""By the name that a page says."""
