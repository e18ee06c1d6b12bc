"""What the records say, in Markdown: the tables of the pages, and numbers within their sentences, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from garnet.bench import published
from garnet.bench.record import Record, latest, read_records
from garnet.bench.shipped import study_file
from garnet.bench.study import load_study
from garnet.bench.table import as_markdown, make_tables
from garnet.errors import GarnetError
from garnet.registry import known_name
from tools import front_page, judging, leave_it_on, scaling, searches
from tools.leaderboard import leaderboard
from tools.markdown import NONE, table
from tools.measured import measured
from tools.records import Cells, read_json
from tools.stress_tables import attacker_who_knows, attacks_that_know, figure, restarts, rounds

_STAGES = ("embed", "neighbours", "prune")
_STUDY = "study "
_STRESS = "stress "


def block(name: str, records: Path) -> str:
    """What stands at the place of this name.

    `study table-2` is that study's tables, `stress cora committee evasion 5%` one figure of a stress test; all others
    are in `BLOCKS`.

    Raises:
        ParameterError: there is no such block.
        GarnetError: a record that it needs is missing or damaged.
    """
    if name.startswith(_STUDY):
        return study(name.removeprefix(_STUDY), records)
    if name.startswith(_STRESS):
        return figure(name.removeprefix(_STRESS), records)
    return BLOCKS[known_name(name, BLOCKS, "block", exact=True)](records)


def study(name: str, records: Path) -> str:
    """The tables of a study."""
    wanted = load_study(study_file(name))
    found, damages = read_records(records / f"{wanted.record or name}.jsonl")
    if damages:
        raise GarnetError(f"Line {damages[0].line} of the records of {name} is damaged: {damages[0].why}.")
    cells = [cell.facts() for cell in wanted.cells]
    made = make_tables(wanted.title, latest(found).values(), cells=cells, note=wanted.note)
    return "\n\n".join(as_markdown(one).rstrip() for one in made)


def _seconds(run: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    return [f"{run[name]:.1f} s" for name in names]


# --- accuracy: the README's table, and ogbn-arxiv

_ATTACKS = {
    "clean": ("metattack", 0.0),
    "Metattack 20 %": ("metattack", 0.2),
    "Nettack 5": ("nettack", 5.0),
}
_SHOWN = (
    ("cora", "clean"), ("cora", "Metattack 20 %"), ("cora", "Nettack 5"),
    ("citeseer", "Metattack 20 %"), ("citeseer", "Nettack 5"),
    ("pubmed", "Metattack 20 %"), ("pubmed", "Nettack 5"),
    ("chameleon", "Metattack 20 %"), ("squirrel", "Metattack 20 %"),
    ("chameleon", "Nettack 5"), ("squirrel", "Nettack 5"),
)  # fmt: skip


def accuracy(records: Path) -> str:
    """GPRGNN undefended, with the authors' settings and with the default, beside the paper and two floors."""
    studies = "garnet bench run table-7-GRAPH and table-8-GRAPH"
    citations, heterophilic = (Cells(records / f"{name}.jsonl", studies) for name in ("citations", "heterophilic"))
    rows = []
    for graph, attacked in _SHOWN:
        attack, budget = _ATTACKS[attacked]
        cells = heterophilic if graph in ("chameleon", "squirrel") else citations
        here = {"graph": graph, "attack": attack, "budget": budget, "measure": "accuracy"}
        own = {**here, "backbone": "gprgnn", "parameters": {}, "training": {}}
        (none,) = cells.some(**own, defense="none", model="paper")
        (authors,) = cells.some(**own, defense="garnet-paper", model="paper")
        (ours,) = cells.some(**own, defense="garnet", model="default")
        (features,) = cells.some(**here, defense="none", backbone="mlp")
        (floor,) = cells.some(**here, defense="linear-floor")
        rows.append([
            f"{graph.capitalize()} {attacked}", _spread(none), _paper(none), _spread(authors), f"**{_spread(ours)}**",
            _paper(ours), f"{features.mean:.0f} / {floor.mean:.0f}",
        ])  # fmt: skip
    heads = ["GPRGNN on", "no defence", "paper's", "authors' settings", "**`GARNET()`**", "paper's GARNET"]
    return table([*heads, "features alone / linear floor"], rows)


def _spread(record: Record) -> str:
    return f"{record.mean:.1f} ± {record.sd:.1f}"


def _paper(record: Record) -> str:
    known = published.accuracy(record.cell)
    return NONE if known is None else f"{known.mean:.1f}"


_ARXIV = {
    "arxiv-gcn": "GCN, no defence",
    "arxiv-garnet": "GARNET, GCN",
    "arxiv-gnnguard": "GNNGuard, GCN",
    "arxiv-jaccard": "Jaccard, GCN",
    "arxiv-soft-median-gdc": "Soft Median GDC",
}


@measured(*_ARXIV)
def arxiv(*figures: Mapping[str, Any]) -> str:
    """Defences on ogbn-arxiv, clean and under GR-BCD, the paper's numbers in brackets."""
    rows = []
    for label, found in zip(_ARXIV.values(), figures, strict=True):
        row: list[object] = [label, found["seeds"], found["epochs"]]
        for budget in ("clean", "25%", "50%"):
            mean, sd = found[budget]["mean"], found[budget]["sd"]
            wide = "" if sd is None else f" ± {sd:.1f}"
            row.append(f"{mean:.1f}{wide} ({found['paper, official features'][budget]:.2f})")
        rows.append(row)
    return table(["defence", "seeds", "steps", "clean", "25 %", "50 %"], rows)


# --- speed: the README's tables, defences and attacks


_RECIPES = {
    "recipe-r50": "rank 50",
    "recipe-r500": "rank 500",
    "recipe-r50-regularised": 'rank 50, `tau="mean"`; the recipe without',
}


@measured(*_RECIPES)
def recipe(*figures: Mapping[str, Any]) -> str:
    """Purifying ogbn-arxiv against the usual recipe."""
    rows = []
    for label, found in zip(_RECIPES.values(), figures, strict=True):
        usual, ours = found["usual"], found["garnet"]
        stages = [f"{usual[stage]:.1f} → {ours[stage]:.1f} s" for stage in ("embed", "neighbours")]
        error = f"1e{math.log10(ours['score_error']):.0f}" if "score_error" in ours else NONE
        rows.append([
            label, f"{usual['seconds']:.0f} s", f"{ours['seconds']:.1f} s", f"**{found['ratio']:.1f}×**", *stages,
            f"{ours['recall']:.3f}", error,
        ])  # fmt: skip
    heads = ["", "usual recipe", "GARNET", "ratio", "eigenvectors", "neighbours", "recall", "score error"]
    return table(heads, rows)


@measured(
    "growth", "products", "defenses", "attack-metattack", "training", "training-cuda", "memory-r50", "audit-cuda",
    "tables",
)  # fmt: skip
def speed(*figures: Mapping[str, Any]) -> str:
    """Everything else that the README times."""
    growth, products, defenses, attack, training, training_cuda, held, audit, read = figures
    cuda, step, memory = training_cuda["ten seeds on cora"], training["step on purified pubmed"], held["stages"]
    both = [defenses[graph] for graph in ("cora", "squirrel")]
    slower = {
        label: " and ".join(f"{one[name]['times_garnet']:.0f}" for one in both)
        for name, label in (("tsvd", "TSVD"), ("prognn", "Pro-GNN"), ("gnnguard", "GNNGuard"))
    }
    cores, card = "two cores", "one NVIDIA H200"
    size = "a drawn graph of the size of ogbn-products (2.4 M nodes, 65 M edges)"
    fastest = min(run["seconds"] for run in products["runs"])
    ratios = [f"{ratio:.0f}" for ratio in step["ratio"].values()]
    rows = [
        (f"read {read['rows'] / 1e6:.0f} million payments between {read['accounts'] / 1e6:.0f} million accounts, CSV",
         f"{read['garnet']['seconds']:.0f} s and {read['garnet']['peak_gb']:.1f} GB; as rows alone, by pandas, "
         f"{read['pandas']['seconds']:.1f} s", cores, "tables"),
        ("purify Cora; Pubmed", f"{growth['small']['cora']:.1f} s; {growth['small']['pubmed']:.1f} s", cores, "growth"),
        ("purify from 10,000 to 300,000 nodes", f"grows with the power {growth['slope']:.2f} of the nodes", cores,
         "growth"),
        ("purify ogbn-arxiv at rank 50", f"{max(stage['peak_gb'] for stage in memory.values()):.1f} GB at most", cores,
         "memory"),
        ("purify ogbn-arxiv, rank 500, k = 50", f"{products['arxiv']['seconds']:.1f} s", card, "products"),
        (f"purify {size}, rank 500, k = 50",
         f"{fastest:.1f} s, with a neighbour recall of {products['recall of 10,000']:.3f}", card, "products"),
        ("train a GCN on the result, 200 steps", f"{products['training']['seconds']:.0f} s", card, "products"),
        ("audit that graph", f"{audit['drawn']['seconds']:.0f} s", card, "audit_cuda"),
        ("purify and train on Cora; Squirrel",
         f"{both[0]['garnet']['seconds']:.1f} s; {both[1]['garnet']['seconds']:.1f} s. TSVD takes {slower['TSVD']} "
         f"times as long, Pro-GNN {slower['Pro-GNN']}, GNNGuard {slower['GNNGuard']}", cores, "defenses"),
        ("a step of a GCN on purified Pubmed (869,385 edges)",
         f"{1000 * step['seconds']['garnet']:.0f} ms, {ratios[0]} times less than PyG on `edge_index`, {ratios[1]} "
         "times less than on its CSR tensor", cores, "training"),
        ("ten seeds on Cora, trained together",
         f"{training['ten seeds on cora']['ratio']:.1f} times less than in a row; {cuda['ratio']:.1f} times less",
         f"{cores}; {card}", "training"),
        ("a flip of Metattack on Cora",
         f"{1000 * attack['seconds_a_flip']:.0f} ms, {round(attack['ratio'], -1):.0f} times less than DeepRobust's",
         cores, "attacks"),
    ]  # fmt: skip
    shown = [(*row, f"`{script}.py`") for *row, script in rows]
    return table(["what", "takes", "on", "measured by"], shown, labels=4)


@measured("defenses")
def defense_speed(found: Mapping[str, Any]) -> str:
    """Defences end to end, beside GARNET with the same model."""
    names = {
        "garnet": "GARNET, GPRGNN",
        "tsvd": "TSVD, GPRGNN",
        "gnnguard": "GNNGuard, GPRGNN",
        "prognn": "Pro-GNN, GPRGNN",
        "garnet, gcn": "GARNET, GCN",
        "lfr": "LFR",
    }
    rows = []
    for name, label in names.items():
        cora, squirrel = found["cora"][name], found["squirrel"][name]
        rows.append([
            label, f"{cora['seconds']:.1f} s", f"{cora['times_garnet']:.1f}×",
            f"{squirrel['seconds']:.0f} s", f"{squirrel['times_garnet']:.1f}×",
        ])  # fmt: skip
    return table(["two cores, Metattack 20 %", "Cora", "", "Squirrel", ""], rows)


@measured(
    "attack-metattack", "attack-cora", "attack-cora-cuda", "attack-nettack",
    "attack-pubmed", "attack-pubmed-cuda", "attack-arxiv", "attack-arxiv-cuda",
)  # fmt: skip
def attack_speed(*figures: Mapping[str, Any]) -> str:
    """Attacks on two cores and on a GPU."""
    flip, cora, cora_cuda, nettack, pubmed, pubmed_cuda, arxiv, arxiv_cuda = figures
    fast = 1000 * cora_cuda["seconds"] / cora_cuda["flips"]
    rows = [
        ("Metattack on Cora, a flip", f"{1000 * flip['seconds_a_flip']:.0f} ms", f"{fast:.0f} ms",
         f"DeepRobust's takes {flip['deeprobust_seconds_a_flip']:.0f} s in the same run, "
         f"**{round(flip['ratio'], -1):.0f} times** as long"),
        ("Metattack 20 % on Cora, whole", f"{cora['seconds']:.0f} s", f"{cora_cuda['seconds']:.0f} s",
         f"{cora['flips']:,} flips, the surrogate's training included"),
        (f"Nettack on Cora, {nettack['targets']} targets × {nettack['flips'] // nettack['targets']} edges",
         f"{nettack['seconds']:.1f} s", "", ""),
        ("Metattack 20 % on Pubmed, first order", f"{pubmed['hours_of_the_whole']:.1f} h", "",
         f"from {pubmed['flips']} of {pubmed['flips_of_the_whole']:,} flips, {pubmed['seconds_a_flip']:.2f} s each; "
         f"{pubmed['peak_gb']:.1f} GB"),
        ("Metattack 20 % on Pubmed, exact", "", f"{60 * pubmed_cuda['hours_of_the_whole']:.0f} min",
         f"from {pubmed_cuda['flips']} of {pubmed_cuda['flips_of_the_whole']:,} flips, "
         f"{1000 * pubmed_cuda['seconds_a_flip']:.0f} ms each; {pubmed_cuda['peak_gb']:.1f} GB on the GPU"),
        ("GR-BCD 25 % on ogbn-arxiv", f"{arxiv['seconds'] / 60:.1f} min", f"{arxiv_cuda['seconds']:.1f} s",
         f"{arxiv['flips']:,} flips; {arxiv['peak_gb']:.1f} GB on the CPU"),
    ]  # fmt: skip
    return table(["", "two CPU cores", "one NVIDIA H200", ""], rows, labels=4)


# --- scale: disk, cluster, GPU


_ON_DISK = {
    "disk-products": "the size of ogbn-products, drawn",
    "disk-arxiv": "ogbn-arxiv",
    "disk-products-default": "the size of ogbn-products, by default",
}


@measured(*_ON_DISK)
def disk(*figures: Mapping[str, Any]) -> str:
    """Purifying in less memory than the graph would take."""
    rows = []
    for label, run in zip(_ON_DISK.values(), figures, strict=True):
        tile, embed, near, prune = (f"{stage['seconds']:,.0f} s" for stage in run["stages"])
        millions = run["edges_before"] / 1e6
        whole = run["seconds"]
        rows.append([
            label, f"{run['nodes']:,}", f"{millions:.1f} M" if millions > 10 else f"{millions:.2f} M", run["rank"],
            run["memory"].replace("GB", " GB"), f"{run['peak_bytes'] / 1e9:.1f} GB", run["parts"], tile, embed,
            near if run["base_edges"] else "–", prune, f"{whole / 60:.0f} min" if whole > 300 else f"{whole:.0f} s",
        ])  # fmt: skip
    heads = ["", "nodes", "edges", "rank", "allowed", "held", "parts", "tile", *_STAGES, "in all"]
    return table(heads, rows)


@measured("products")
def products(found: Mapping[str, Any]) -> str:
    """A graph of the size of ogbn-products on one GPU."""
    runs = ("first run, which compiles the kernels", "second run", "third run", "fourth run")
    best = min(found["runs"], key=lambda run: float(run["seconds"]))
    rows = []
    for label, run in zip(runs, found["runs"], strict=False):
        *stages, whole = _seconds(run, (*_STAGES, "seconds"))
        rows.append([label, *stages, f"**{whole}**" if run is best else whole])
    rows += [
        [label, *_seconds(run, (*_STAGES, "seconds"))]
        for label, run in (("by default", found["default"][-1]), ("ogbn-arxiv", found["arxiv"]))
    ]
    return table(["", *_STAGES, "in all"], rows)


_MULTILEVEL = {
    "multilevel-arxiv-r50": "ogbn-arxiv, rank 50",
    "multilevel-arxiv-r500": "ogbn-arxiv, rank 500",
    "multilevel-products-r500": "products size, rank 500",
}


@measured(*_MULTILEVEL)
def multilevel(*runs: Mapping[str, Any]) -> str:
    """Columns through the matrix from several starts."""
    starts = {
        "plain": "the solver, from random numbers",
        "start": "the same, from coarse eigenvectors",
        "coarse": "… and before, on the coarse graph",
        "ideal": "the same, from the true ones blurred by 1 %: no coarse graph can do better",
    }
    rows = [[label, *(f"{_first(run, start)['columns']:,}" for run in runs)] for start, label in starts.items()]
    stalled = [_first(run, "polish") for run in runs]
    told = [f"still {run['residual']:.1g} after {run['columns']:,}" for run in stalled]
    rows.append(["coarse eigenvectors, filtered round after round", f"residual {told[0]}", *told[1:]])
    return table(["columns through the matrix", *_MULTILEVEL.values()], rows)


def _first(run: Mapping[str, Any], start: str) -> Mapping[str, Any]:
    """What a start gave, at the first of the levels of coarsening that were tried."""
    return next(value for name, value in run.items() if name.partition(" ")[0] == start)


@measured("cuda")
def cuda_agreement(found: Mapping[str, Any]) -> str:
    """Share of edges that ogbn-arxiv purified on a GPU and by ARPACK have in common."""
    return f"{found['agreement']['arxiv']['edge_jaccard']:.2f}"


# --- the audit

_SCORES = {
    "audit": "audit",
    "audit without labels": "no labels",
    "gradient of the graphical model": "gradient",
    "spectral distance": "spectral",
    "shared neighbours": "shared",
    "cosine of features": "cosine",
    "Jaccard of features": "Jaccard",
    "degree product, small": "degrees small",
    "degree product, large": "degrees large",
    "gradient of a GCN": "GCN",
}


def _audited(figures: Mapping[str, Any], *, clean: bool) -> dict[str, Mapping[str, Any]]:
    return {name: one for name, one in figures.items() if name.endswith(" clean") is clean}


def _audit_scores(figures: Mapping[str, Any], kind: str) -> str:
    rows = []
    for name, found in _audited(figures, clean=False).items():
        values = [found["scores"][score][kind] for score in _SCORES]
        best = values.index(max(values))
        shown = [f"**{value:.3f}**" if place == best else f"{value:.3f}" for place, value in enumerate(values)]
        rows.append([name, f"{100 * found['false']:.1f} %", *shown])
    return table(["graph", "edges made up", *_SCORES.values()], rows)


@measured("audit")
def audit_areas(figures: Mapping[str, Any]) -> str:
    """The area under the ROC curve of the audit and of single scores."""
    return _audit_scores(figures, "auc")


@measured("audit")
def audit_precisions(figures: Mapping[str, Any]) -> str:
    """Their average precision."""
    return _audit_scores(figures, "ap")


@measured("audit")
def audit_doubts(figures: Mapping[str, Any]) -> str:
    """What the audit doubts in attacked graphs."""
    rows = [
        [
            name, f"{100 * found['false']:.1f} %", f"{100 * found['share']:.1f} %",
            f"{100 * found['doubted of false']:.0f} %", f"{100 * found['doubted of true']:.1f} %",
            f"{100 * found['false alarms']:.0f} %", f"{100 * found['false alarms, estimated']:.0f} %",
            f"{found['power']:.2f}", f"{found['seconds']:.1f}",
        ]
        for name, found in _audited(figures, clean=False).items()
    ]  # fmt: skip
    heads = ["graph", "made up", "estimated", "doubted of these", "doubted of the true ones", "wrongly doubted"]
    return table([*heads, "by its own estimate", "power", "seconds"], rows)


@measured("audit")
def audit_clean(figures: Mapping[str, Any]) -> str:
    """What it doubts in clean graphs, and in the same rewired."""
    rows = [
        [
            name.removesuffix(" clean"), f"{100 * found['doubted']:.2f} %", f"{100 * found['share']:.1f} %",
            f"{found['power']:.2f}", f"{100 * found['null doubted']:.2f} %", f"{found['null power']:.2f}",
        ]
        for name, found in _audited(figures, clean=True).items()
    ]  # fmt: skip
    heads = ["clean graph", "edges doubted: false alarms", "estimated share", "power"]
    return table([*heads, "all edges rewired: doubted", "power there"], rows)


# --- what becomes of the edges


@measured("ledger")
def ledger(figures: Mapping[str, Any]) -> str:
    """Edges of attacks dropped and true ones kept, by setting, with the paper's homophily and two-hop neighbours."""
    rows = []
    for name, found in figures.items():
        graph, attack = name.partition(" ")[::2]
        label = f"{graph.capitalize()} {attack.capitalize().replace('%', ' %')}"
        for setting in ("default", "paper", "distortion", "distortion, neighbours alone"):
            one = found[setting]
            beside = _published_measures(graph, attack) if setting in ("default", "paper") else (NONE,) * 3
            measured = (f"{one[key]:.2f}" for key in ("homophily", "two_hop_recall", "two_hop_precision"))
            rows.append([
                label if setting == "default" else "", setting, f"{100 * one['attack_edges_dropped']:.1f}",
                f"{100 * one['true_edges_kept']:.1f}", f"{one['new_edges']:,}",
                *(part for pair in zip(measured, beside, strict=True) for part in pair),
            ])  # fmt: skip
    heads = ["graph", "setting", "attack's edges dropped", "true edges kept", "new edges", "homophily", "paper"]
    return table([*heads, "two-hop recall", "paper", "two-hop precision", "paper"], rows, labels=2)


def _published_measures(graph: str, attack: str) -> tuple[str, ...]:
    """The paper's homophily, recall and precision, which it has under Metattack."""
    cell = {"graph": graph, "attack": attack.partition(" ")[0], "budget": 0.2, "defense": "garnet", "parameters": {}}
    if cell["attack"] != "metattack":
        return (NONE,) * 3
    known = (
        published.other({**cell, "measure": measure}, column)
        for measure, column in (("homophily", "after"), ("recovery", "recall"), ("recovery", "precision"))
    )
    return tuple(NONE if one is None else f"{one:.2f}" for one in known)


# --- reliability


def campaign(records: Path) -> str:
    """Cases of the campaign that were tried and that failed, by kind."""
    found = read_json(records / "campaign.json", "make campaign")
    rows: list[tuple[str, int, int]] = [(one["kind"], one["tried"], one["failed"]) for one in found["kinds"]]
    rows.append(("**All**", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    skipped = sum(one["skipped"] for one in found["kinds"])
    shown = table(["kind of case", "tried", "failed"], [(kind, f"{a:,}", f"{b:,}") for kind, a, b in rows])
    return (
        f"{shown}\n\n`{found['command']}`, {found['date']}, {found['minutes']} minutes; {versions}, Python "
        f"{found['python']}, {found['system']}. The jail: {found['jail']}. {skipped:,} cases do not apply to a "
        "command or to this system, and were skipped."
    )


@measured("determinism")
def determinism(found: Mapping[str, Any]) -> str:
    """Which threads give the same bytes, and what a permutation of the nodes changes."""
    same = found["same_bytes_as_one_thread"]
    rows = [(name, ", ".join(map(str, threads))) for name, threads in same.items()]
    shown = table(["graph", "threads that give the bytes of one thread"], rows, labels=2)
    shared, pairs = found["cora_shared_after_permutation"], found["cora_pairs_of_nodes_at_one_point"]
    return (
        f"{shown}\n\nOf Cora's edges, {shared['with features']:.4f} are the same after a permutation of the nodes, and "
        f"{shared['without features']:.4f} without features, where {pairs} pairs of "
        "nodes have the very same point in the spectral embedding. `python benchmarks/determinism.py`, record in "
        "[`results/determinism.json`](../results/determinism.json)."
    )


@measured("coverage")
def coverage(found: Mapping[str, Any]) -> str:
    """Which share of the lines the tests reach, room by room, and where most are left."""
    rows = [
        (room, f"{one['statements']:,}", f"{one['missed']:,}", _covered(one)) for room, one in found["rooms"].items()
    ]
    rows.append(("**all**", f"{found['statements']:,}", f"{found['missed']:,}", f"**{_covered(found)}**"))
    least = ", ".join(f"`{one['module']}` ({one['missed']} of {one['statements']})" for one in found["least"])
    shown = table(["room", "lines", "not reached", "covered"], rows)
    return f"{shown}\n\nMost lines that no test reaches, of those in the module: {least}."


def _covered(one: Mapping[str, Any]) -> str:
    return f"{100 * (1 - one['missed'] / one['statements']):.1f} %"


# --- the committee's time


@measured("committee")
def committee_speed(found: Mapping[str, Any]) -> str:
    """How long a committee takes beside one model, and where the time goes."""
    rows = []
    for name, run in found.items():
        if isinstance(run, Mapping):
            stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in run["stages"].items())
            times = _seconds(run, ("one_seconds", "committee_seconds"))
            rows.append((name.capitalize(), *times, f"{run['ratio']:.1f}", stages))
    return table(["GPRGNN on", "one model", "committee", "ratio", "of which"], rows)


BLOCKS: dict[str, Callable[[Path], str]] = {
    one.__name__.replace("_", " "): one
    for one in (
        accuracy, arxiv, attack_speed, attacker_who_knows, attacks_that_know,
        audit_areas, audit_clean, audit_doubts, audit_precisions,
        campaign,
        committee_speed, coverage, cuda_agreement, defense_speed, determinism, disk, leaderboard, ledger, multilevel,
        products, recipe, restarts, rounds, speed,
    )
} | leave_it_on.BLOCKS | searches.BLOCKS | judging.BLOCKS | scaling.BLOCKS | front_page.BLOCKS  # fmt: skip
"""By the name that a page says."""
