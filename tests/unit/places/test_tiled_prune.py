"""Pruning tile by tile, against `GARNET.purify`, which holds everything in memory."""

from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from garnet.places.prune import Rule, prune
from garnet.places.score_file import COLUMNS, is_complete, is_unchanged, write_columns
from hypothesis import given, settings
from hypothesis import strategies as st

from garnet import GARNET, Split, as_graph
from garnet.datasets import block_model, cora
from garnet.errors import GarnetError, ParameterError
from garnet.linalg.common_neighbors import shared_neighbors
from garnet.linalg.device_graph import Resident
from garnet.places import common_neighbors as shared_module
from garnet.places.build import build_tiles
from garnet.places.row_store import RowStore, here
from garnet.purify.quantile import digit_counts, quantile

MEMORY = 1 << 30
BLOCKS = as_graph(
    block_model(300, seed=4),
    features=np.random.default_rng(0).random((300, 12)),
    split=Split(np.arange(20), np.arange(20, 30), np.arange(30, 300)),
    names=np.arange(300) * 3 - 7,
)
WEIGHTED = block_model(250, mean_degree=12, seed=2)
WEIGHTED = WEIGHTED.with_edges(WEIGHTED.edges, np.random.default_rng(5).random(WEIGHTED.num_edges) + 0.1)


def lonely_graph():
    """Isolated nodes, and a piece of two nodes that no eigenvector of this rank tells of: their points are zero."""
    edges = block_model(150, mean_degree=6, seed=8).edges * 2
    return as_graph((np.concatenate([edges, [[301], [303]]], axis=1), 320), symmetrize=True)


GRAPHS = {"cora": cora(), "blocks": BLOCKS, "weighted": WEIGHTED, "lonely": lonely_graph()}
SMALL = GARNET(rank=12, k=6)


class Tiled:
    """A graph in tiles, with the points and the base graph that a purifier has for it in memory."""

    def __init__(self, purifier, graph, parts, folder):
        self.folder, work = folder, folder / "work"
        work.mkdir()
        self.graph = build_tiles(graph, folder / "tiles", memory=MEMORY, parts=parts)
        resident = Resident.of(graph)
        spectrum = purifier._embed(graph, resident)
        points = purifier._points(graph, resident, spectrum)
        self.parts = RowStore(work, self.graph.bounds)
        self.points = self.parts.new(points.shape[1], "points")
        for file, (first, last) in zip(self.points.files, pairwise(self.graph.bounds), strict=True):
            points[first:last].numpy().tofile(file)
        self.base = self.buckets(purifier._base(graph, points).numpy())
        signs = torch.ones(points.shape[1])
        signs[: spectrum.rank] = spectrum.values.sign()
        k = purifier.neighbors_of(graph.num_nodes, graph.num_edges)
        weight = purifier.weight if purifier.weight != "auto" else "similarity" if k else "given"
        self.rule = Rule(
            gamma=purifier.gamma,
            gamma_unit=purifier.gamma_unit,
            support=purifier.doubted(k),
            overlap=purifier.overlap,
            score=purifier.score,
            signs=signs if purifier.score == "signed" else None,
            weight=weight,
        )

    def buckets(self, edges):
        """Two files a tile, with pairs that are there twice, and in a tile of one part in both orders."""
        bounds = np.array(self.graph.bounds)
        rows, columns = (np.searchsorted(bounds, ends, side="right") - 1 for ends in edges)
        files = {}
        for i, j in {*zip(rows.tolist(), columns.tolist(), strict=True)}:
            here = (rows == i) & (columns == j)
            pairs = (edges[:, here] - bounds[[[i], [j]]]).T.astype(np.int32)
            again = pairs[::2, ::-1] if i == j else pairs[::2]
            files[i, j] = [self.folder / "work" / f"base-{i}-{j}-{number}.bin" for number in range(2)]
            pairs.tofile(files[i, j][0])
            np.concatenate([again, pairs[::3]]).tofile(files[i, j][1])
        return files

    def prune(self, **changes):
        parts = changes.pop("parts", self.parts)
        rule = replace(self.rule, **changes)
        return prune(self.graph, parts, self.points, self.base, rule, self.folder / "purified")


def assert_same(pruned, purification):
    found, expected = pruned.graph.to_graph(), purification.graph
    np.testing.assert_array_equal(found.adjacency.indptr, expected.adjacency.indptr)
    np.testing.assert_array_equal(found.adjacency.indices, expected.adjacency.indices)
    np.testing.assert_allclose(found.adjacency.data, expected.adjacency.data, rtol=0, atol=1e-6)
    ledger = purification.ledger
    counts = tuple(part.shape[1] for part in (ledger.kept, ledger.dropped, ledger.added, purification.base))
    assert (pruned.kept, pruned.dropped, pruned.added, pruned.base_edges) == counts
    assert pruned.threshold == purification.threshold


@pytest.mark.parametrize("parts", [1, 2, 5])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_result_is_that_of_memory(scratch, name, parts):
    graph, purifier = GRAPHS[name], SMALL if name != "cora" else GARNET(rank=20)
    assert_same(Tiled(purifier, graph, parts, scratch).prune(), purifier.purify(graph))


RULES = {
    "no edge for having been there": {"support": None},
    "signed": {"score": "signed", "weight": "score", "end": "magnitude"},
    "absolute": {"gamma": -0.9, "gamma_unit": "absolute"},
    "one": {"weight": "one", "gamma": 0.5},
    "no overlap": {"overlap": 0.0, "scaling": "none"},
    "nothing at all": {"gamma": 10.0, "gamma_unit": "absolute", "support": None},
}


@pytest.mark.parametrize("name", ["blocks", "weighted", "lonely"])
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_gives_what_it_gives_in_memory(scratch, name, rule):
    purifier = replace(SMALL, **RULES[rule])
    assert_same(Tiled(purifier, GRAPHS[name], 3, scratch).prune(), purifier.purify(GRAPHS[name]))


@pytest.mark.parametrize("weight", ["auto", "similarity", "one"])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_graph_with_edges_enough_is_given_none(scratch, weight, weighted):
    graph, purifier = block_model(300, mean_degree=50, exponent=6, seed=3), GARNET(rank=12, weight=weight)
    if weighted:
        graph = graph.with_edges(graph.edges, np.random.default_rng(5).random(graph.num_edges) + 0.1)
    tiled = Tiled(purifier, graph, 3, scratch)
    assert not tiled.base
    assert_same(tiled.prune(), purifier.purify(graph))


def test_tasks_may_be_done_in_other_processes_twice_and_in_any_order(scratch):
    purifier = replace(SMALL, score="signed")
    tiled = Tiled(purifier, BLOCKS, 3, scratch)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:

        def elsewhere(work, tasks):
            tasks = list(tasks)
            again = [pool.submit(work, *task) for task in reversed(tasks)]
            results = [pool.submit(work, *task) for task in tasks]
            wait(again)
            return [result.result() for result in results]

        pruned = tiled.prune(parts=RowStore(tiled.parts.folder, tiled.graph.bounds, elsewhere))
    assert_same(pruned, purifier.purify(BLOCKS))


def test_what_belongs_to_nodes_stays(scratch):
    found = Tiled(SMALL, BLOCKS, 3, scratch).prune().graph.to_graph()
    assert replace(found, adjacency=BLOCKS.adjacency) == BLOCKS


def test_an_unknown_end_speaks_for_an_edge(scratch):
    graph = GRAPHS["lonely"]
    tiled = Tiled(SMALL, graph, 4, scratch)
    points = torch.cat([tiled.points.part(i) for i in range(4)])
    unknown = points.abs().amax(dim=1) == 0
    assert unknown[[301, 303]].all()
    assert tiled.prune(support=1.0).graph.to_graph().adjacency[301, 303] == 1


@pytest.mark.parametrize("stop", [("score_tile", 1), ("score_tile", 6), ("_count", 9), ("_tally", 2), ("_strip", 2)])
def test_what_was_killed_goes_on(scratch, stop):
    tiled = Tiled(SMALL, BLOCKS, 3, scratch)
    done = []

    def some(work, tasks):
        results = []
        for task in tasks:
            done.append(work.__name__)
            if (work.__name__, done.count(work.__name__)) == stop:
                raise KeyboardInterrupt
            results.append(work(*task))
        return results

    with pytest.raises(KeyboardInterrupt):
        tiled.prune(parts=RowStore(tiled.parts.folder, tiled.graph.bounds, some))
    scored = done.count("score_tile") - (done[-1] == "score_tile")
    rest = []

    def recorded(work, tasks):
        tasks = list(tasks)
        rest.extend([work.__name__] * len(tasks))
        return here(work, tasks)

    pruned = tiled.prune(parts=RowStore(tiled.parts.folder, tiled.graph.bounds, recorded))
    assert rest.count("score_tile") == 6 - scored
    assert rest.count("_strip") == 3 - (stop == ("_strip", 2))
    assert_same(pruned, SMALL.purify(BLOCKS))


def test_strips_that_are_written_are_not_written_again(scratch):
    tiled = Tiled(SMALL, BLOCKS, 3, scratch)
    before = tiled.prune().graph
    times = {path: path.stat().st_mtime_ns for path in before.folder.glob("tile-*.bin")}
    (before.folder / "strip-1.json").unlink()
    assert tiled.prune().graph.to_graph() == before.to_graph()
    changed = {path.name for path, time in times.items() if path.stat().st_mtime_ns != time}
    assert changed == {"tile-1-0.bin", "tile-1-1.bin", "tile-1-2.bin"}


@pytest.mark.parametrize("fault", ["is missing", "is truncated"])
def test_a_spoilt_file_between_two_stages_is_an_error(scratch, fault):
    tiled = Tiled(SMALL, BLOCKS, 3, scratch)
    file = tiled.parts.folder / "scored-0-2.bin"

    def spoiling(work, tasks):
        results = here(work, tasks)
        file.unlink() if fault == "is missing" else file.write_bytes(file.read_bytes()[:-21])
        return results

    with pytest.raises(GarnetError, match=rf"scored-0-2\.bin: it {fault}; purify again"):
        tiled.prune(parts=RowStore(tiled.parts.folder, tiled.graph.bounds, spoiling))


def test_missing_and_wrong_inputs_are_errors(scratch):
    tiled = Tiled(SMALL, BLOCKS, 2, scratch)
    first, rows = tiled.points.files[0], tiled.points.part(0).numpy()
    rows[1:].tofile(first)
    with pytest.raises(GarnetError, match=rf"points-0\.bin: it has {len(rows) - 1} rows, not {len(rows)}"):
        tiled.prune()
    first.unlink()
    with pytest.raises(GarnetError, match=r"points-0\.bin: No such file"):
        tiled.prune()
    rows.tofile(first)
    file = tiled.base[0, 1][1]
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(GarnetError, match=r"base-0-1-1\.bin: it is truncated"):
        tiled.prune()
    np.array([[0, 299]], np.int32).tofile(file)
    with pytest.raises(GarnetError, match=r"base-0-1-1\.bin: it has nodes outside its part"):
        tiled.prune()
    file.unlink()
    with pytest.raises(GarnetError, match=r"base-0-1-1\.bin: it is missing"):
        tiled.prune()
    with pytest.raises(ParameterError, match="new ones have no weight"):
        tiled.prune(weight="given")
    with pytest.raises(ParameterError, match="'signed', and no other, needs 'signs'"):
        tiled.prune(score="signed")


FINITE = st.floats(-(2.0**100), 2.0**100, width=32)


@given(
    st.lists(st.one_of(FINITE, st.sampled_from([0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan])), max_size=60),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_quantiles_are_those_of_numpy(numbers, share, pieces):
    array = np.array(numbers, np.float32)

    def count(place, beginnings):
        return sum(digit_counts(piece, place, beginnings) for piece in np.array_split(array, pieces))

    known = array[np.isfinite(array)]
    expected = np.quantile(known, share) if len(known) else -np.inf
    assert quantile(count, share) == expected


@settings(max_examples=30)
@given(
    st.integers(0, 2**31), st.integers(2, 25), st.floats(0.05, 0.9), st.integers(1, 4), st.sampled_from([1, 7, 1000])
)
def test_shared_neighbours_are_those_of_memory(tmp_path_factory, seed, n, density, parts, chunk):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < density, 1)
    graph = as_graph((upper | upper.T).astype(float))
    tiled = build_tiles(graph, tmp_path_factory.mktemp("tiles"), memory=MEMORY, parts=parts)
    expected = np.zeros((n, n), np.float32)
    expected[*graph.edges] = shared_neighbors(Resident.of(graph), torch.from_numpy(graph.edges)).numpy()
    bounds = tiled.bounds
    with pytest.MonkeyPatch.context() as patch:
        # So few marks that columns fall on the same, and so few rows that there are several pieces.
        for name, value in {"_CHUNK": chunk, "_ROWS": 3, "_BITS": 2}.items():
            patch.setattr(shared_module, name, value)
        for i in range(tiled.parts):
            for j in range(i, tiled.parts):
                first, second = upper[bounds[i] : bounds[i + 1], bounds[j] : bounds[j + 1]].nonzero()
                edges = first.astype(np.int32), second.astype(np.int32)
                found = shared_module.shared_neighbors(tiled, i, j, edges)
                np.testing.assert_array_equal(found, expected[first + bounds[i], second + bounds[j]])


def test_scored_edges_that_are_not_what_was_written_are_told(scratch):
    file, count = scratch / "scored.bin", 10
    write_columns(file, {name: np.arange(count) for name in COLUMNS})
    assert is_unchanged(file)
    damaged = bytearray(file.read_bytes())
    damaged[-3] ^= 4
    file.write_bytes(damaged)
    assert is_complete(file)
    assert not is_unchanged(file)
