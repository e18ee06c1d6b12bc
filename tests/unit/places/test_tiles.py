import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import GARNET, OnDisk, Split, as_graph
from garnet.datasets import block_model
from garnet.errors import GarnetError, GraphError, ParameterError
from garnet.io.checked import write_note
from garnet.places.build import build_tiles
from garnet.places.tile_writer import finish, finish_like, write_strip
from garnet.places.tiles import TiledGraph

MEMORY = 1 << 30
PLAIN = block_model(200, seed=4)
WEIGHTED = PLAIN.with_edges(PLAIN.edges, np.random.default_rng(5).random(PLAIN.num_edges).astype(np.float32) + 0.1)
FULL = as_graph(
    WEIGHTED,
    features=np.arange(600).reshape(200, 3),
    split=Split(np.arange(20), np.arange(20, 30), np.arange(30, 200)),
    names=np.arange(200) * 3 - 7,
)


@pytest.fixture
def tiles(scratch):
    return build_tiles(FULL, scratch / "tiles", memory=MEMORY, parts=3)


@pytest.mark.parametrize("graph", [PLAIN, WEIGHTED], ids=["plain", "weighted"])
@pytest.mark.parametrize("parts", [1, 4])
def test_every_tile_is_its_block_of_the_matrix(scratch, graph, parts):
    tiled = build_tiles(graph, scratch / "tiles", memory=MEMORY, parts=parts)
    assert (tiled.num_nodes, tiled.num_edges, tiled.parts) == (200, graph.num_edges, parts)
    assert tiled.weighted == (graph is WEIGHTED)
    dense = graph.adjacency.toarray()
    for i, (top, bottom) in enumerate(pairwise(tiled.bounds)):
        for j, (left, right) in enumerate(pairwise(tiled.bounds)):
            tile = tiled.tile(i, j)
            assert (tile.weights is None) == (graph is PLAIN)
            weights = np.ones(len(tile.columns), np.float32) if tile.weights is None else tile.weights
            block = sp.csr_array((weights, tile.columns, tile.starts), shape=(bottom - top, right - left))
            assert block.has_canonical_format
            np.testing.assert_array_equal(block.toarray(), dense[top:bottom, left:right])
        np.testing.assert_array_equal(tiled.counts(i), (dense[top:bottom] > 0).sum(axis=1))
        np.testing.assert_array_equal(tiled.degrees(i), graph.degrees[top:bottom])


def test_what_belongs_to_nodes_comes_by_part(tiles):
    for i, (first, last) in enumerate(pairwise(tiles.bounds)):
        np.testing.assert_array_equal(tiles.features(i), FULL.features[first:last])
        np.testing.assert_array_equal(tiles.names(i), FULL.names[first:last])
    np.testing.assert_array_equal(tiles.labels(), FULL.labels)
    assert tiles.split() == FULL.split
    assert tiles.to_graph() == FULL
    assert TiledGraph.open(str(tiles.folder)).to_graph() == FULL


@pytest.mark.parametrize("n", [0, 1, 3])
def test_graphs_without_edges(scratch, n):
    graph = as_graph(([[], []], n), features=np.zeros((n, 2)), labels=np.zeros(n, int))
    tiled = build_tiles(graph, scratch / "tiles", memory=MEMORY, parts=2)
    assert tiled.to_graph() == graph
    assert tiled.parts == max(1, min(n, 2))


def test_parts_share_nodes_and_entries(scratch):
    # A star with a long tail: the hub has a third of all entries, the tail most of the nodes.
    hub, tail = np.arange(1, 501), np.arange(500, 2000)
    edges = np.concatenate([[np.zeros(500, int), hub], [tail, tail + 1]], axis=1)
    graph = as_graph((edges, 2001), symmetrize=True)
    tiled = build_tiles(graph, scratch / "tiles", memory=MEMORY, parts=8)
    nodes = np.diff(tiled.bounds)
    entries = np.array([tiled.counts(i).sum() for i in range(8)])
    assert nodes.sum() == 2001
    assert entries.sum() == 2 * graph.num_edges
    assert nodes.max() <= 2 * 2001 / 8 + 1
    assert entries.max() <= 2 * entries.sum() / 8 + graph.degrees.max()


def names(folder):
    return {path.name for path in folder.iterdir()}


def purify(graph, output, *, parts=1, overwrite=False):
    """The tiles of a purified graph; of this rank a dense solver finds the eigenvectors, which is quicker."""
    place = OnDisk(memory="1GiB", output=output, parts=parts, overwrite=overwrite)
    return GARNET(rank=60, k=4).purify(graph, place=place).graph


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a stranger's file"])
def test_an_older_tiled_graph_is_replaced_when_told_and_other_files_stay(tmp_path, beside):
    folder = tmp_path / "tiles"
    before = purify(FULL, folder, parts=5).to_graph()
    if beside:
        (folder / "labels.npy").write_text("mine")
    with pytest.raises(GarnetError, match="holds a finished graph"):
        purify(PLAIN, folder, parts=2)
    assert TiledGraph.open(folder, verify=True).to_graph() == before
    tiled = purify(PLAIN, folder, parts=2, overwrite=True)
    assert tiled.to_graph() == purify(PLAIN, tmp_path / "other", parts=2).to_graph()
    assert names(folder) == {*tiled.sizes, "tiles.json", *(["labels.npy"] * beside)}
    assert names(tmp_path) == {"tiles", "other"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_a_strangers_files_is_refused(tmp_path, overwrite):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with pytest.raises(GarnetError, match=r"no result of ours \(thesis\.txt\)"):
        purify(PLAIN, tmp_path / "mine", overwrite=overwrite)
    assert names(tmp_path / "mine") == {"thesis.txt"}
    assert names(tmp_path) == {"mine"}


def test_a_manifest_that_names_a_strangers_file_has_nothing_replaced(tmp_path):
    folder = tmp_path / "tiles"
    purify(PLAIN, folder)
    (folder / "thesis.txt").write_text("mine")
    manifest = json.loads((folder / "tiles.json").read_text())
    del manifest["check"]
    for part in ("sizes", "checks"):
        manifest[part]["thesis.txt"] = 4
    write_note(folder / "tiles.json", manifest)
    with pytest.raises(GarnetError, match="no result of ours"):
        purify(FULL, folder, overwrite=True)
    assert (folder / "thesis.txt").read_text() == "mine"


def test_a_failed_run_leaves_what_was_there_and_nothing_else(tmp_path):
    before = purify(PLAIN, tmp_path / "tiles").to_graph()
    (tmp_path / "list.csv").write_text("0,1\n1,0\n1,2\n")
    for folder in ("tiles", "other"):
        with pytest.raises(GraphError, match="directed: 1 of its 3 edges have no reverse edge"):
            purify(tmp_path / "list.csv", tmp_path / folder, overwrite=True)
    assert names(tmp_path) == {"tiles", "list.csv"}
    assert TiledGraph.open(tmp_path / "tiles", verify=True).to_graph() == before
    with pytest.raises(GraphError, match=r"it has no tiles\.json, so it is unfinished"):
        TiledGraph.open(tmp_path / "other")


def test_wrong_parameters_are_said(tmp_path, scratch):
    with pytest.raises(ParameterError, match=r"'parts' parameter of build_tiles must be an integer >= 1\. Got 0"):
        build_tiles(PLAIN, scratch / "tiles", memory=MEMORY, parts=0)
    with pytest.raises(GarnetError, match=r"Cannot write .*: the folder .*no does not exist"):
        purify(PLAIN, tmp_path / "no" / "folder")


def test_every_file_is_missed(tiles):
    for name in tiles.sizes:
        path = tiles.folder / name
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(GraphError, match=rf"Cannot read .*: its file {name} is missing; build the tiles again\."):
            TiledGraph.open(tiles.folder)
        path.write_bytes(content[:-1])
        with pytest.raises(GraphError, match=rf"its file {name} has {len(content) - 1} bytes but must have"):
            TiledGraph.open(tiles.folder)
        path.write_bytes(content)
    assert TiledGraph.open(tiles.folder).to_graph() == FULL


def test_a_file_that_goes_after_opening_is_missed_too(tiles):
    os.truncate(tiles.folder / "tile-1-2.bin", 8)
    with pytest.raises(GraphError, match=r"its file tile-1-2\.bin has 8 bytes"):
        tiles.tile(1, 2)
    (tiles.folder / "degrees-0.bin").unlink()
    with pytest.raises(GraphError, match=r"its file degrees-0\.bin is missing"):
        tiles.degrees(0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 3}', '{"version": 4}'])
def test_a_manifest_of_another_kind_is_refused(tiles, text):
    (tiles.folder / "tiles.json").write_text(text)
    with pytest.raises(GraphError, match=r"damaged|version 4"):
        TiledGraph.open(tiles.folder)


def test_a_changed_bit_is_found_wherever_it_is(tiles):
    assert set(tiles.checks) == set(tiles.sizes)
    for name in tiles.checks:
        path = tiles.folder / name
        content = path.read_bytes()
        for place in (0, len(content) // 2, len(content) - 1):
            changed = bytearray(content)
            changed[place] ^= 1 << (place % 8)
            path.write_bytes(changed)
            message = rf"its file {name} has other bytes than were written; build the tiles again\.$"
            with pytest.raises(GraphError, match=message):
                TiledGraph.open(tiles.folder, verify=True)
            with pytest.raises(GraphError, match=message):
                tiles.to_graph()
        path.write_bytes(content)
    assert TiledGraph.open(tiles.folder, verify=True).to_graph() == FULL


def test_a_changed_bit_of_the_manifest_is_found_whether_or_not_one_looks_for_it(tiles):
    path = tiles.folder / "tiles.json"
    content = path.read_bytes()
    for place in range(0, len(content), 5):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(changed)
        with pytest.raises(GraphError, match=r"damaged|have version"):
            TiledGraph.open(tiles.folder)


def test_what_is_taken_from_another_graph_keeps_its_checksums(tmp_path, tiles):
    for strip in strips_of(WEIGHTED, tiles.bounds):
        write_strip(tmp_path, *strip)
    taken = finish_like(tmp_path, tiles)
    assert taken.checks == tiles.checks
    path = tmp_path / "node-features-1.bin"
    changed = bytearray(path.read_bytes())
    changed[5] ^= 4
    path.unlink()
    path.write_bytes(changed)
    with pytest.raises(GraphError, match=r"node-features-1\.bin has other bytes"):
        taken.verify()
    tiles.verify()


def strips_of(graph, bounds):
    for i, (first, last) in enumerate(pairwise(bounds)):
        rows = graph.adjacency[first:last]
        yield i, bounds, rows.indptr, rows.indices, rows.data


def test_strips_written_in_any_order_are_the_same_graph(tmp_path, scratch, tiles):
    purified = WEIGHTED.with_edges(WEIGHTED.edges[:, ::2], WEIGHTED.weights[::2])
    jobs = [(tmp_path, *strip) for strip in strips_of(purified, tiles.bounds)]
    with pytest.raises(GarnetError, match=r"strip-0\.json is missing"):
        finish(tmp_path, tiles.bounds)
    with get_context("spawn").Pool(2) as pool:
        pool.starmap(write_strip, jobs[::-1])
    with pytest.raises(GraphError, match="unfinished"):
        TiledGraph.open(tmp_path)
    with pytest.raises(GarnetError, match=r"strip-0\.json is missing or has other bounds"):
        finish(tmp_path, (0, 100, 200))
    record = (tmp_path / "strip-1.json").read_text()
    (tmp_path / "strip-1.json").write_text(record[:-1])
    with pytest.raises(GarnetError, match=r"strip-1\.json is missing or"):
        finish(tmp_path, tiles.bounds)
    (tmp_path / "strip-1.json").write_text(record)
    assert finish(tmp_path, tiles.bounds).to_graph() == as_graph(purified.adjacency)
    with_nodes = finish_like(tmp_path, tiles)
    assert with_nodes.to_graph() == FULL.with_edges(purified.edges, purified.weights)
    assert with_nodes.fingerprint == build_tiles(purified, scratch / "again", memory=MEMORY).fingerprint


def test_a_strip_whose_weights_are_one_in_a_weighted_graph(tmp_path):
    dense = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 2], [0, 0, 2, 0]], np.float32)
    for strip in strips_of(as_graph(dense), (0, 2, 4)):
        write_strip(tmp_path, *strip)
    tiled = finish(tmp_path, (0, 2, 4))
    assert tiled.weighted
    np.testing.assert_array_equal(tiled.tile(0, 0).weights, [1, 1])
    assert tiled.to_graph() == as_graph(dense)


FULL_DISK = """
import resource, signal, sys
from garnet import GARNET, OnDisk
from garnet.errors import GarnetError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    GARNET(rank=8, k=4).purify(sys.argv[1], place=OnDisk(memory="1GiB", output=sys.argv[2]), symmetrize=True)
except GarnetError as error:
    print(type(error).__name__, error)
"""


def test_a_file_that_cannot_grow_is_said(tmp_path):
    (tmp_path / "list.csv").write_text("".join(f"{node},{node + 1}\n" for node in range(500)))
    folder = tmp_path / "tiles"
    command = [sys.executable, "-c", FULL_DISK, tmp_path / "list.csv", folder]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.fullmatch(rf"GarnetError Cannot write {tmp_path}/.*: file too large\.\n", run.stdout)
    assert names(tmp_path) == {"list.csv"}


STATUS = Path("/proc/self/status")
BOUNDED = """
import json, sys
import torch
from pathlib import Path
from garnet.io.scratch import Scratch
from garnet.places.build import build_tiles
with Scratch.make(Path(sys.argv[2])) as made:
    tiled = build_tiles(sys.argv[1], made.folder / "tiles", memory=600_000_000)
(peak,) = [line.split()[1] for line in Path(sys.argv[3]).read_text().splitlines() if line.startswith("VmHWM")]
print(json.dumps([int(peak) * 1024, tiled.num_edges, tiled.parts]))
"""


@pytest.mark.skipif(not STATUS.exists(), reason="ru_maxrss of a new process counts the process that started it, too")
@pytest.mark.slow
def test_memory_is_a_promise(tmp_path):
    generator = np.random.default_rng(0)
    heads, tails = generator.integers(0, 300_000, (2, 3_000_000))
    weights = generator.random(3_000_000, dtype=np.float32) + 0.5
    matrix = sp.csr_array((weights, (heads, tails)), shape=(300_000, 300_000))
    matrix = matrix.maximum(matrix.T.tocsr())
    sp.save_npz(tmp_path / "graph.npz", matrix, compressed=False)
    command = [sys.executable, "-c", BOUNDED, tmp_path / "graph.npz", tmp_path, STATUS]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, edges, parts = json.loads(run.stdout)
    assert peak < 600_000_000
    assert edges == (matrix.nnz - np.count_nonzero(matrix.diagonal())) // 2
    assert parts > 1
