"""Tables of what things cost on large graphs and busy machines, and of how near that comes to what a machine can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.markdown import table
from tools.measured import measured

_STAGES = ("embed", "neighbours", "prune")

# NVIDIA's own figures for the H200, SXM: bytes a second of its memory, operations a second in both precisions.
_MEMORY, _SINGLE, _HALF = 4.8e12, 67e12, 989e12

_FAMILIES = {
    "rmat": "R-MAT, with hubs",
    "line": "a line",
    "knn": "nearest neighbours of points in a cube",
}


def _seconds(run: Mapping[str, Any], names: tuple[str, ...] = (*_STAGES, "seconds")) -> list[str]:
    return [f"{run[name]:.1f} s" for name in names]


def _millions(graph: str) -> tuple[float, float]:
    """Millions of nodes and of edges that a graph's own words say."""
    nodes, edges = (int(part.split()[0]) for part in graph.removeprefix("Graph(").split(", ")[:2])
    return nodes / 1e6, edges / 1e6


def _size(graph: str) -> str:
    nodes, edges = _millions(graph)
    return f"{nodes:.1f} M nodes, {edges:,.0f} M edges"


@measured("products-families")
def families(found: Mapping[str, Any]) -> str:
    """Other graphs of the size of ogbn-products on one GPU, each at rank 500 and by default."""
    rows = []
    for name, label in _FAMILIES.items():
        one = found[name]
        size = _size(one["graph"])
        for which, run in (("r = 500, k = 50", one["runs"][-1]), ("default", one["default"][-1])):
            told = f"{one['recall of 10,000']:.3f}" if which != "default" else ""
            rows.append([label, size, which, *_seconds(run), told, f"{run['residual']:.1e}"])
            label = size = ""
    return table(["graph", "", "", *_STAGES, "in all", "recall", "largest residual"], rows, labels=3)


@measured("billion")
def billion(found: Mapping[str, Any]) -> str:
    """A billion edges on one GPU."""
    one = found["rmat"]
    rows = [
        [label, *_seconds(run), f"{run['peak_gb']:.0f} GB", f"{run['edges'] / 1e6:,.0f} M"]
        for label, run in zip(("first run", "second run"), one["default"], strict=True)
    ]
    return table([_size(one["graph"]), *_STAGES, "in all", "held by the card", "edges that stay"], rows)


def _gathering(graph: str, run: Mapping[str, Any]) -> list[str]:
    """What the embedding of a run gathers, and how near that comes to the pace of the memory."""
    gathered = 8e6 * _millions(graph)[1] * run["columns"]
    least = gathered / _MEMORY
    return [
        f"{run['columns']:,}", f"{gathered / 1e12:.1f} TB", f"{least:.1f} s", f"{run['embed']:.1f} s",
        f"{100 * least / run['embed']:.0f} %", f"{run['seconds']:.1f} s",
    ]  # fmt: skip


@measured("products", "products-families", "billion")
def limits(products: Mapping[str, Any], others: Mapping[str, Any], large: Mapping[str, Any]) -> str:
    """What the eigenvectors take on one GPU, beside the time in which its memory could hand out what they gather."""

    def rows() -> Iterator[list[str]]:
        graphs = [("communities within communities", products)]
        graphs += [(label, others[name]) for name, label in _FAMILIES.items()]
        for label, one in graphs:
            yield [label, "500", *_gathering(one["graph"], one["runs"][-1])]
            yield ["", "70", *_gathering(one["graph"], one["default"][-1])]
        one = large["rmat"]
        yield [f"R-MAT, {_size(one['graph'])}", "70", *_gathering(one["graph"], one["default"][-1])]

    heads = ["graph", "rank", "columns", "gathered", "at 4.8 TB/s", "embed", "share", "in all"]
    return table(heads, list(rows()), labels=1)


@measured("products")
def parts(found: Mapping[str, Any]) -> str:
    """Where the time goes in one purification, part by part, against what the card can do."""
    spent: Mapping[str, Mapping[str, float]] = found["parts"]

    def paced(label: str, names: tuple[str, ...], cost: str, limit: float, unit: str) -> list[str]:
        seconds = sum(spent[name]["seconds"] for name in names)
        done = sum(spent[name][cost] for name in names)
        tera = "TB" if cost == "bytes" else "T operations"
        what = f"{done / 1e12:.1f} {tera}"
        return [label, f"{seconds:.2f} s", what, f"{done / seconds / 1e12:.1f} {unit}", f"{limit / 1e12:g}"]

    def waited(label: str, *names: str) -> list[str]:
        calls = sum(int(spent[name]["calls"]) for name in names)
        return [label, f"{sum(spent[name]['seconds'] for name in names):.2f} s", f"{calls} calls", "", ""]

    rows = [
        paced("products of the sparse matrix", ("product",), "bytes", _MEMORY, "TB/s, some of it from the cache"),
        paced("the basis, in single precision", ("dot", "less", "rotate"), "operations", _SINGLE, "Tflop/s"),
        waited("eigenvalues of the small matrix", "ritz_values", "ritz"),
        waited("cells: means and owners", "fit_quantizer", "assign"),
        paced("neighbours within cells, in half precision", ("nearest",), "operations", _HALF, "Tflop/s"),
        paced("scores and weights of edges", ("squared_distances", "inner_products"), "bytes", _MEMORY, "TB/s"),
        waited("the purified graph to the host", "joined"),
    ]
    return table(["part", "takes", "has to do", "pace", "of at most"], rows)


def _pace(graph: str, run: Mapping[str, Any]) -> str:
    return f"eigenvectors at {_gathering(graph, run)[4]} of the memory's pace"


@measured(
    "recipe-r50",
    "recipe-r500",
    "disk-products-default",
    "busy",
    "cluster-16-cores",
    "products",
    "products-families",
    "billion",
)
def glance(*figures: Mapping[str, Any]) -> str:
    """What things take, from the smallest machine to the largest."""
    low, high, disk, loaded, workers, products, others, large = figures
    cores, card = "two cores", "one H200"
    rows = [
        (f"purify ogbn-arxiv, r = {found['rank']}", cores, f"{found['garnet']['seconds']:.0f} s",
         f"{found['ratio']:.1f} times as fast as the usual recipe")
        for found in (low, high)
    ]  # fmt: skip
    worst = max(loaded[task]["busy / idle"] for task in _TASKS)
    arxiv = loaded["ours arxiv"]
    rows.append((
        "the same at r = 50, beside a process that never rests", cores, f"{arxiv['busy']:.0f} s",
        f"{arxiv['busy / idle']:.1f} times idle; the usual recipe takes {loaded['usual arxiv']['busy']:.0f} s",
    ))  # fmt: skip
    rows.append(("purify by default, train, attack or audit beside one", cores, "", f"at most {worst:.1f} times idle"))
    rows.append((
        f"purify {disk['edges_before'] / 1e6:.0f} M edges from disk, by default",
        f"{cores}, {disk['memory'].replace('GB', ' GB')}",
        f"{disk['seconds'] / 60:.0f} min", f"{disk['peak_bytes'] / 1e9:.1f} GB held",
    ))  # fmt: skip
    run, alone = workers["runs"][0], workers["in_memory"][0]
    rows.append((
        f"purify {run['nodes']:,} nodes on a cluster", f"{run['workers']} workers on {workers['cores']} cores",
        f"{run['seconds']:.0f} s", f"one thread in memory takes {alone['seconds']:.0f} s",
    ))  # fmt: skip
    graphs = [("communities", products), *((label, others[name]) for name, label in _FAMILIES.items())]
    for label, one in graphs:
        run = one["runs"][-1]
        rows.append((
            f"purify {label}, {_millions(one['graph'])[1]:.0f} M edges, r = 500, k = 50", card,
            f"{run['seconds']:.1f} s", _pace(one["graph"], run),
        ))  # fmt: skip
    one = large["rmat"]
    run = one["default"][-1]
    rows.append((
        f"purify R-MAT, {_millions(one['graph'])[1]:,.0f} M edges, by default", card, f"{run['seconds']:.0f} s",
        f"{run['peak_gb']:.0f} GB held; {_pace(one['graph'], run)}",
    ))  # fmt: skip
    rows.append(("train a GCN on the purified communities, 200 steps", card,
                 f"{products['training']['seconds']:.0f} s", ""))  # fmt: skip
    return table(["", "on", "takes", ""], rows, labels=4)


_TASKS = {
    "purify cora": "purify Cora",
    "purify pubmed": "purify Pubmed",
    "purify arxiv": "purify ogbn-arxiv",
    "train gcn cora": "train a GCN on Cora",
    "train gprgnn pubmed": "train a GPRGNN on Pubmed",
    "defend cora": "the default defence on Cora",
    "attack prbcd cora": "PR-BCD on Cora",
    "attack metattack cora": "Metattack on Cora",
    "attack nettack cora": "Nettack on Cora",
    "audit cora": "audit Cora",
    "audit pubmed": "audit Pubmed",
}


def _times(value: float) -> str:
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


@measured("busy")
def busy(found: Mapping[str, Any]) -> str:
    """What everything takes on an idle machine, beside a process that never rests, and on half of the processors."""
    rows = []
    for name, label in _TASKS.items():
        one = found[name]
        ratios = [f"{one[f'{load} / idle']:.1f}" for load in ("busy", "quota")]
        rows.append([label, _times(one["idle"]), _times(one["busy"]), ratios[0], _times(one["quota"]), ratios[1]])
    heads = ["", "idle", "busy", "busy / idle", "quota of one processor", "quota / idle"]
    return table(heads, rows)


@measured("busy")
def busy_recipe(found: Mapping[str, Any]) -> str:
    """The stages of rank 50 beside those of the usual recipe, under the same load."""
    rows = []
    for name, label in (("cora", "Cora"), ("pubmed", "Pubmed"), ("arxiv", "ogbn-arxiv")):
        ours, usual = found[f"ours {name}"], found[f"usual {name}"]
        cells = [f"{_times(usual[load])} → {_times(ours[load])}" for load in ("idle", "busy", "quota")]
        rows.append([label, *cells])
    return table(["usual recipe → GARNET", "idle", "busy", "quota of one processor"], rows)


@measured("cluster")
def cluster(found: Mapping[str, Any]) -> str:
    """One worker and more, how many times faster they are, and what one process takes in memory."""
    rows: list[list[str]] = []
    for run in found["in_memory"]:
        threads, stages = int(run["threads"]), run["stages"]
        label = f"in memory, {threads} thread{'s' * (threads > 1)}"
        rows.append([label, "", *_seconds({**stages, **run}), "", f"{run['peak_bytes'] / 1e9:.1f} GB"])
    first = found["runs"][0]["seconds"]
    for run in found["runs"]:
        count, held = int(run["workers"]), max(run["peak_bytes_of_each_worker"]) / 1e9
        label = f"{count} worker{'s' * (count > 1)}"
        seconds = _seconds({**run["stages"], **run}, ("tile", *_STAGES, "seconds"))
        rows.append([label, *seconds, f"{first / run['seconds']:.1f}", f"{held:.1f} GB"])
    return table(["", "tile", *_STAGES, "in all", "times faster", "held by each process"], rows)


BLOCKS: dict[str, Callable[[Path], str]] = {
    one.__name__.replace("_", " "): one
    for one in (billion, busy, busy_recipe, cluster, families, glance, limits, parts)
}
"""By the name that a page says."""
