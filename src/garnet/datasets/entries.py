"""The graphs of the catalogue: where their files are, and what to report if they are missing."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from garnet.datasets.folders import find, roots, sought
from garnet.errors import GraphError, ParameterError
from garnet.io.ogb import is_ogb
from garnet.parameters import NonNegative, require_arguments

ATTACKS = ("metattack", "nettack")

PUBLISHED = (
    "the poisoned graphs are in the folder data of github.com/cornell-zhang/GARNET, those of cora, citeseer and pubmed "
    "also in github.com/ChandlerBang/Pro-GNN, and those of polblogs in the latter alone"
)


@dataclass(frozen=True)
class Entry:
    """One graph of the catalogue.

    Attributes:
        folder: where its files are, inside a data folder; their names begin with the same word.
        file: the clean graph.
        split: the usual split.
        shares: for training and validation, when a random split has to replace the usual one; None if none can.
        poisoned: file of the graph poisoned by each attack, for a budget.
        targets: file of Nettack's target nodes.
        split_file: file of the usual split, if not under its authors' name.
        source: where to get the graph, if PyTorch Geometric has no version known to number its nodes alike.
    """

    folder: str
    file: str
    split: str
    shares: tuple[float, float] | None = (0.1, 0.1)
    poisoned: tuple[str, str] | None = None
    targets: str = ""
    split_file: str = ""
    source: str = ""


def _attacked_by_prognn(name: str, file: str) -> Entry:
    attacked = (f"{name}_meta_adj_{{}}.npz", f"{name}_nettack_adj_{{}}.npz")
    return Entry(name, file, "prognn", poisoned=attacked, targets=f"{name}_nettacked_nodes.json")


def _wikipedia(name: str) -> Entry:
    attacked = (f"{name}_perturbed_{{}}.npz",) * 2
    return Entry(name, f"{name}_full.npz", "geom-gcn", (0.48, 0.32), attacked, f"{name}_idx_test.npy")


def _with_split_beside(entry: Entry, source: str = "github.com/EdisonLeeeee/GraphData") -> Entry:
    return replace(entry, split_file=f"{entry.folder}_splits.json", source=source)


CATALOG = {
    "cora": _attacked_by_prognn("cora", "cora_lcc.npz"),
    "citeseer": _attacked_by_prognn("citeseer", "citeseer_lcc.npz"),
    "pubmed": _attacked_by_prognn("pubmed", "pubmed.npz"),
    "chameleon": _wikipedia("chameleon"),
    "squirrel": _wikipedia("squirrel"),
    "ogbn-arxiv": Entry("ogbn_arxiv", "ogbn_arxiv.npz", "ogb", shares=None),
    "ogbn-products": Entry("ogbn_products", "ogbn_products.npz", "ogb", shares=None),
    "coauthor-physics": Entry("coauthor_phy", "coauthor_phy.npz", "random"),
    "polblogs": _with_split_beside(_attacked_by_prognn("polblogs", "polblogs.npz")),
    "acm": _with_split_beside(Entry("acm", "acm.npz", "file")),
    "dblp": _with_split_beside(Entry("dblp", "dblp.npz", "file")),
    "uai": _with_split_beside(Entry("uai", "uai.npz", "file")),
    # One of its classes has a single node, and a random split wants one for every part.
    "texas": _with_split_beside(
        Entry("texas", "texas.npz", "geom-gcn", shares=None), "github.com/yandex-research/heterophilous-graphs"
    ),
}


SIZES: dict[str, tuple[int, int | None]] = {
    "cora": (2_485, 5_069),
    "citeseer": (2_110, 3_668),
    "pubmed": (19_717, 44_324),
    "chameleon": (2_277, 31_371),
    "squirrel": (5_201, 198_353),
    "ogbn-arxiv": (169_343, 1_157_799),
    "ogbn-products": (2_449_029, None),
    "coauthor-physics": (34_493, 247_962),
    "polblogs": (1_222, 16_714),
    "acm": (3_025, 13_128),
    "dblp": (17_716, 52_867),
    "uai": (3_067, 28_308),
    "texas": (183, 279),
}
"""Nodes and edges of each, to compare with what others offer under its name; None if not counted."""


def graph_file(name: str, entry: Entry) -> Path | None:
    """The file, or OGB's folder, of the clean graph, in the first place that has it."""
    short = entry.folder.removeprefix("ogbn_")
    for root in roots().values():
        if name.startswith("ogbn-"):
            unpacked = next((folder for folder in (root / entry.folder, root / short) if is_ogb(folder)), None)
            if unpacked is not None:
                return unpacked
        path = root / entry.folder / entry.file
        if path.is_file():
            return path
    return None


def absent(name: str, entry: Entry) -> GraphError:
    """What to report if a graph is nowhere to be found, and cannot be downloaded."""
    missing = not_found(name, entry)
    if entry.source:
        return GraphError(
            f"{missing}; it is not downloaded, because PyTorch Geometric may number its nodes otherwise: put the file "
            f"there, made from that of {entry.source}."
        )
    short = entry.folder.removeprefix("ogbn_")
    return GraphError(f"{missing}; unpack the official zip file of ogb.stanford.edu there, as the folder {short}.")


def not_found(name: str, entry: Entry) -> str:
    """The beginning of a sentence: that a graph was not found, and where it was looked for."""
    return f"The graph {name} was not found: {sought(f'{entry.folder}/{entry.file}')}"


def split_file(entry: Entry, wanted: str) -> str:
    """The name of the file that holds a split."""
    if wanted == "ogb":
        return entry.file
    # The split "geom-gcn" is the one with the number 0.
    if entry.split_file and wanted.removesuffix("-0") == entry.split:
        return entry.split_file
    if wanted == "file":
        return f"{entry.folder}_splits.json"
    if wanted == "prognn":
        return f"{entry.folder}_prognn_splits.json"
    number = wanted.removeprefix("geom-gcn").removeprefix("-") or "0"
    return f"splits/{entry.folder}_split_0.6_0.2_{number}.npz"


def no_split(name: str, entry: Entry, wanted: str) -> GraphError:
    """What to report if the file of a split is nowhere to be found."""
    where = sought(f"{entry.folder}/{split_file(entry, wanted)}")
    return GraphError(f"The split '{wanted}' of {name} was not found: {where}; put it there, or choose 'random'.")


def targets_file(name: str, entry: Entry) -> Path:
    """The target nodes of Nettack."""
    file = f"{entry.folder}/{entry.targets}"
    targets = find(file)
    if targets is None:
        raise GraphError(f"The targets of Nettack on {name} were not found: {sought(file)}; {PUBLISHED}.")
    return targets


def poisoned_file(name: str, folder: str, pattern: str, attack: str, budget: float) -> Path | None:
    """The file for a budget; None for a budget of 0."""
    require_arguments("poisoned", budget=(budget, NonNegative))
    if budget == 0:
        return None
    before, after = pattern.split("{}")
    found: dict[float, Path] = {}
    for root in reversed(roots().values()):
        for path in (root / folder).glob(f"{before}*{after}"):
            text = path.name[len(before) : -len(after)]
            # One name serves both attacks on chameleon and squirrel: a share is below 1, an edge count is not.
            if re.fullmatch(r"\d+\.\d+", text) and (float(text) < 1) == (attack == "metattack"):
                found[float(text)] = path
    if not found:
        file = f"{folder}/{pattern.format(float(budget))}"
        raise GraphError(f"No graph poisoned by {attack} was found for {name}: {sought(file)}; {PUBLISHED}.")
    nearest = min(found, key=lambda known: abs(known - budget))
    if not math.isclose(nearest, budget):
        known = ", ".join(f"{value:g}" for value in sorted({0.0, *found}))
        raise ParameterError(
            f"There is no graph of {name} poisoned by {attack} with a budget of {budget!r}. Those that exist: {known}."
        )
    return found[nearest]
