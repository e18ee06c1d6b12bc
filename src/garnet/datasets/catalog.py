"""The field's graphs by name, clean or poisoned by published attacks."""

from __future__ import annotations

import re

from garnet.datasets import download
from garnet.datasets.embedded import cora
from garnet.datasets.entries import (
    ATTACKS,
    CATALOG,
    Entry,
    absent,
    graph_file,
    no_split,
    not_found,
    poisoned_file,
    split_file,
    targets_file,
)
from garnet.datasets.folders import find, roots
from garnet.datasets.splits import aimed_at, random_split, read_geom_gcn, read_node_lists, read_targets, require_split
from garnet.datasets.unit_test_file import Flips, parse_attack, unit_test
from garnet.errors import GraphError, ParameterError, brief
from garnet.graph.files import load_graph
from garnet.graph.graph import Graph, Split, as_graph
from garnet.parameters import NonNegative, require_arguments
from garnet.registry import DATASETS, known_name

_SPLITS = ("prognn", "geom-gcn", "ogb", "random", "file", "unit-test")
_SPLIT = re.compile(
    r"prognn|ogb|file|(geom-gcn|unit-test)(-(?P<number>\d))?|random(-(?P<train>0?\.\d+)-(?P<val>0?\.\d+))?"
)
UNIT_TEST = {"unit-test-cora-ml": "cora_ml", "unit-test-citeseer": "citeseer"}


def names() -> tuple[str, ...]:
    """The names that `load` knows, the library's own first; other packages bring more (`garnet.registry.DATASETS`).

    Example:
        >>> names()[:3]
        ('cora', 'citeseer', 'pubmed')
    """
    return tuple(dict.fromkeys([*CATALOG, *UNIT_TEST, *DATASETS.names()]))


def load(name: str, *, split: str | None = None, seed: int = 0) -> Graph:
    """Load one of the field's graphs, undirected, with its labels, a split, and features if it has any.

    The graph is read from the first of these that has it: the library itself (cora), the folder named by the
    environment variable GARNET_DATA, the cache (the folder named by GARNET_CACHE, else `garnet` in XDG_CACHE_HOME or
    `~/.cache`), and PyTorch Geometric's downloader, which fills the cache. Both folders hold one folder per graph, as
    in `pubmed/pubmed.npz`. The graphs named ogbn-* are not downloaded: they may be an .npz file or the unpacked zip
    file of ogb.stanford.edu, in `ogbn_arxiv` or `arxiv`, which takes precedence because it has the features. Nor are
    polblogs, acm, dblp, uai and texas: put their files into the data folder.

    Cora and citeseer are the largest connected components in the node order of the gnn-benchmark collection, which
    published attacks rely on. PyTorch Geometric's citeseer is a different graph, reduced here to its largest component;
    neither the published attacks nor Pro-GNN's split fit it. Polblogs is also a largest component, and has no features:
    models read one-hot node numbers instead, and purifiers nothing.

    The usual split is Pro-GNN's for cora, citeseer, pubmed and polblogs (10/10/80 %), Geom-GCN's first for chameleon,
    squirrel and texas (48/32/20 %, though its files are named 0.6 and 0.2), OGB's own for ogbn-*, the file beside the
    graph for acm, dblp and uai (`acm/acm_splits.json`; stratified by class, 10/10/80 %), and a random one for
    coauthor-physics (10/10/80 %). If its file is not found, as for cora without a data folder, a random split replaces
    it: stratified by class, with the usual shares, drawn with `seed`. Only ogbn-* and texas, where one class has a
    single node, then have no split.

    The graphs named unit-test-* are those of `unit_test()`; their usual split is the first.

    A graph of another package comes with its own split, unless another is asked for.

    Args:
        name: one of `names()`; capitals and `_` for `-` are fine.
        split: `"prognn"`; `"geom-gcn"` or `"geom-gcn-3"`, one of ten from 0; `"ogb"`; `"file"`, a JSON file beside the
            graph with the lists `idx_train`, `idx_val` and `idx_test`; `"random"` or `"random-0.6-0.2"`, with shares
            for training and validation (0.1 and 0.1 if not given); `"unit-test-3"`, for the graphs of the unit test;
            None for the usual.
        seed: of a random split.

    Returns:
        The graph.

    Raises:
        ParameterError: the name or the split is unknown.
        GraphError: the graph, or the split asked for, is nowhere to be found; the message says where it was looked for.

    Example:
        >>> load("cora", split="random")
        Graph(2485 nodes, 5069 edges, 1433 features, 7 classes)
    """
    name, wanted = known_name(name, names(), "graph"), _known_split(split)
    if name in UNIT_TEST:
        return unit_test().graph(UNIT_TEST[name], _unit_test_split(name, wanted))
    if (wanted or "").startswith("unit-test"):
        raise ParameterError(
            f"The split {wanted!r} is for the graphs of the unit test alone; choose another for {name}."
        )
    if name not in CATALOG:
        return with_split(as_graph(DATASETS.get(name)()), name, wanted, seed)
    entry = CATALOG[name]
    if wanted == "ogb" and entry.split != "ogb":
        raise ParameterError(f"The split 'ogb' is for the graphs of OGB alone; choose another for {name}.")
    train, val = (_shares(wanted) if wanted else entry.shares) or _shares("random")
    require_split(train, val, seed)
    graph = _clean(name, entry)
    published = wanted or entry.split
    found = None if published.startswith("random") else _published_split(graph, entry, published)
    if found is None and wanted is not None and not wanted.startswith("random"):
        raise no_split(name, entry, wanted)
    if found is None and (wanted is not None or entry.shares is not None):
        found = random_split(graph.labels, train=train, val=val, seed=seed)
    return as_graph(graph, split=found)


def poisoned(name: str, *, attack: str, budget: float, split: str | None = None, seed: int = 0) -> Graph:
    """One of the field's graphs as a published attack left it; features and labels are the clean ones.

    The files are looked for in the same folders as by `load`, under their authors' names, such as
    `cora/cora_meta_adj_0.2.npz`; for those of the unit test see `unit_test`. Nettack is evaluated on its targets alone:
    they are the test nodes of the result, and are removed from its training and validation nodes.

    Args:
        name: cora, citeseer, pubmed, chameleon, squirrel or polblogs; unit-test-cora-ml or unit-test-citeseer.
        attack: `"metattack"` or `"nettack"`; on the graphs of the unit test a name such as
            `"unit-test/evasion/jaccard_gcn"`, with the scenario and the model it was found against.
        budget: for Metattack the share of edges changed, such as 0.2; for Nettack the number of edges changed per
            target, 1 to 5; for the unit test the number of edges it may flip; 0 for the clean graph.
        split: as for `load`.
        seed: of a random split.

    Returns:
        The poisoned graph.

    Raises:
        ParameterError: the name, attack, budget or split is unknown; the message lists those that exist.
        GraphError: a file is nowhere to be found, or does not fit the clean graph.
    """
    name = known_name(name, names(), "graph")
    if name in UNIT_TEST:
        return _flipped(name, attack, budget, split)
    attack = known_name(attack, ATTACKS, "published attack")
    entry = CATALOG.get(name)
    if entry is None or entry.poisoned is None:
        attacked = ", ".join(known for known, other in CATALOG.items() if other.poisoned)
        raise ParameterError(f"No attack on {name} has been published. Choose one of {attacked}.")
    path = poisoned_file(name, entry.folder, entry.poisoned[ATTACKS.index(attack)], attack, budget)
    clean = load(name, split=split, seed=seed)
    parts = clean.split
    if attack == "nettack":
        parts = aimed_at(parts, read_targets(targets_file(name, entry)))
    graph = clean if path is None else load_graph(path, symmetrize=True)
    if graph.num_nodes != clean.num_nodes:
        raise GraphError(
            f"The graph in {path} has {graph.num_nodes} nodes, but {name} has {clean.num_nodes}: it was made from "
            f"another version of {name}; see load() for which one fits."
        )
    return as_graph(graph, features=clean.features, labels=clean.labels, split=parts)


def require_files(name: str, *, attack: str = "none", budget: float = 0.0, split: str | None = None) -> None:
    """Refuse a graph, or an attacked version of it, whose files are missing, without reading them.

    A graph that can be downloaded is downloaded.

    Args:
        name: as for `load`.
        attack: as for `poisoned`, or `"none"`.
        budget: as for `poisoned`.
        split: as for `load`.

    Raises:
        ParameterError: the name, attack or budget is unknown.
        GraphError: a file is nowhere to be found; the message says where it was looked for.
    """
    name = known_name(name, names(), "graph")
    if name in UNIT_TEST:
        unit_test()
        return
    if name not in CATALOG:
        return
    entry = CATALOG[name]
    if name != "cora" and graph_file(name, entry) is None:
        if not download.can_fetch(name):
            raise absent(name, entry)
        _clean(name, entry)
    if split is not None and _is_file(split) and find(f"{entry.folder}/{split_file(entry, split)}") is None:
        raise no_split(name, entry, split)
    if attack in ATTACKS and entry.poisoned is not None:
        poisoned_file(name, entry.folder, entry.poisoned[ATTACKS.index(attack)], attack, budget)
        if attack == "nettack":
            targets_file(name, entry)


def is_stood_in(name: str, split: str | None = None) -> bool:
    """Whether a random split replaces the usual one of a graph, whose file is missing."""
    entry = CATALOG.get(name)
    if split is not None or entry is None or entry.shares is None or not _is_file(entry.split):
        return False
    return find(f"{entry.folder}/{split_file(entry, entry.split)}") is None


def _is_file(split: str) -> bool:
    """Whether a split, by its name, comes in a file of its own."""
    return _SPLIT.fullmatch(split) is not None and not split.startswith(("random", "unit-test", "ogb"))


def _flipped(name: str, attack: str, budget: float, split: str | None) -> Graph:
    """A graph of the unit test with one of its perturbations applied."""
    found = parse_attack(attack)
    if found is None:
        raise ParameterError(
            f"An attack on {name} is named as unit-test/evasion/jaccard_gcn, with its scenario and its source. "
            f"Got {brief(attack)} instead."
        )
    require_arguments("poisoned", budget=(budget, NonNegative))
    test, number = unit_test(), _unit_test_split(name, _known_split(split))
    clean = test.graph(UNIT_TEST[name], number)
    flips = Flips(UNIT_TEST[name], *found, number, float(budget))
    return clean if budget == 0 and flips not in test.arrays else test.perturbation(flips, clean).apply(clean)


def _unit_test_split(name: str, wanted: str | None) -> int:
    """The number of a split of the unit test."""
    if not (wanted or "unit-test").startswith("unit-test"):
        raise ParameterError(f"The split {wanted!r} is not for {name}; choose one as 'unit-test-0', or none.")
    return int((wanted or "").removeprefix("unit-test").removeprefix("-") or 0)


def with_split(graph: Graph, name: str, wanted: str | None, seed: int = 0) -> Graph:
    """A graph from outside the catalogue with its own split, or with a random one.

    Args:
        graph: the graph.
        name: its name in errors.
        wanted: `"random"`, or with shares as for `load`; None for the graph's own, if it has one.
        seed: of the draw.

    Raises:
        ParameterError: it is another split.
    """
    if wanted is None:
        return graph
    wanted = _known_split(wanted) or ""
    if not wanted.startswith("random"):
        raise ParameterError(f"The split {wanted!r} is not for {name}; choose 'random', or none for its own.")
    train, val = _shares(wanted)
    return as_graph(graph, split=random_split(graph.labels, train=train, val=val, seed=seed))


def _clean(name: str, entry: Entry) -> Graph:
    """The graph from the first place that has it."""
    if name == "cora":
        return cora()
    path = graph_file(name, entry)
    if path is not None:
        return load_graph(path, symmetrize=True)
    if not download.can_fetch(name):
        raise absent(name, entry)
    try:
        return download.fetch(name, roots()["cache"] / entry.folder / entry.file)
    except GraphError as error:
        reason = str(error).rstrip(".")
        raise GraphError(
            f"{not_found(name, entry)}; {reason}. Put the file there, or try again with a network."
        ) from error


def _published_split(graph: Graph, entry: Entry, wanted: str) -> Split | None:
    """The split that comes in a file of its own or with the graph; None if it was not found."""
    if wanted == "ogb":
        return graph.split
    path = None if wanted == "random" else find(f"{entry.folder}/{split_file(entry, wanted)}")
    if path is None:
        return None
    split = read_node_lists(path) if path.suffix == ".json" else read_geom_gcn(path)
    try:
        return as_graph(graph, split=split).split
    except GraphError as error:
        raise GraphError(f"The split in {path} does not fit the graph. {error}") from error


def _shares(wanted: str) -> tuple[float, float]:
    """The shares of a random split, from its name."""
    found = _SPLIT.fullmatch(wanted)
    train, val = (float(found[part]) if found and found[part] else 0.1 for part in ("train", "val"))
    return train, val


def _known_split(split: str | None) -> str | None:
    if split is None:
        return None
    wanted = split.lower().replace("_", "-") if isinstance(split, str) else ""
    if _SPLIT.fullmatch(wanted):
        return wanted
    if wanted.startswith(("geom-gcn-", "random-", "unit-test-")):
        raise ParameterError(
            f"The split {split!r} is malformed; write 'geom-gcn-0' to 'geom-gcn-9', 'unit-test-0' to 'unit-test-9', "
            "or 'random-0.6-0.2' with the shares for training and validation."
        )
    return known_name(split, _SPLITS, "split")
