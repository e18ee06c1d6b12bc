"""Files that are broken in the ways of their own format: a reader gives a graph, or one sentence that says why not."""

import gzip
import io
import json
import os
import pickle
import warnings
import zipfile
import zlib
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from fuzz_readers import READERS, mutated, outcome, seed_file
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data, HeteroData

from garnet import GARNET, OnDisk, as_graph, load_graph
from garnet.errors import GraphError
from garnet.io.checked import write_note
from garnet.places.build import build_tiles
from garnet.places.graph_size import extent_of
from garnet.places.tiles import MANIFEST, TiledGraph

PATH = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def saved(value, **options):
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):
        torch.save(value, buffer, **options)
    return buffer.getvalue()


def data(**fields):
    return Data(**{"edge_index": PATH, "num_nodes": 3, **fields})


def damaged_data(**inside):
    found = data()
    found.__dict__.update(inside)
    return saved(found)


def loose_storage():
    found = data()
    found._store.__dict__["_mapping"] = 7
    return saved(found)


def deflated(content):
    """The same file of torch.save, but packed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    return buffer.getvalue()


def nested():
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


def quantised():
    with warnings.catch_warnings(action="ignore"):
        return torch.quantize_per_tensor(torch.ones(3, 2), 1.0, 0, torch.qint8)


PT = {
    "meta edges": lambda: saved({"edge_index": torch.zeros(2, 4, dtype=torch.long, device="meta")}),
    "meta features": lambda: saved(data(x=torch.ones(3, 2, device="meta"))),
    "quantised features": lambda: saved(data(x=quantised())),
    "nested features": lambda: saved(data(x=nested())),
    "complex features": lambda: saved(data(x=torch.ones(3, 2, dtype=torch.complex64))),
    "complex edges": lambda: saved({"edge_index": PATH.to(torch.complex64)}),
    "NaN edges": lambda: saved({"edge_index": torch.full((2, 4), float("nan"))}),
    "float edges": lambda: saved({"edge_index": PATH.float()}),
    "sparse edges": lambda: saved({"edge_index": PATH.to_sparse(), "num_nodes": 3}),
    "edges a list": lambda: saved({"edge_index": [[0, 1], [1]]}),
    "edges a text": lambda: saved({"edge_index": "01"}),
    "edges None": lambda: saved({"edge_index": None}),
    "edges absent": lambda: saved({"x": torch.ones(3, 2)}),
    "edges of three rows": lambda: saved({"edge_index": torch.zeros(3, 4, dtype=torch.long)}),
    "edges of no dimension": lambda: saved({"edge_index": torch.tensor(3)}),
    "edges negative": lambda: saved({"edge_index": PATH - 2}),
    "integer keys": lambda: saved({1: PATH, 2: 3}),
    "keys of methods": lambda: saved({"_store": PATH, "__class__": 1, "to_dict": 2}),
    "nothing in a dictionary": lambda: saved({}),
    "nodes absurd": lambda: saved(data(num_nodes=10**15)),
    "nodes beyond any integer": lambda: saved(data(num_nodes=10**400)),
    "nodes negative": lambda: saved(data(num_nodes=-1)),
    "nodes a text": lambda: saved(data(num_nodes="3")),
    "nodes a tensor": lambda: saved(data(num_nodes=torch.tensor([3, 4]))),
    "nodes a float": lambda: saved(data(num_nodes=3.0)),
    "nodes without edges": lambda: saved(data(num_nodes=9_900_000)),
    "features for other nodes": lambda: saved(data(x=torch.ones(5, 2))),
    "features a text": lambda: saved(data(x="x")),
    "features a dictionary": lambda: saved(data(x={"a": 1})),
    "features NaN": lambda: saved(data(x=torch.full((3, 2), float("nan")))),
    "weights of another length": lambda: saved(data(edge_weight=torch.ones(2))),
    "weights a text": lambda: saved(data(edge_weight="heavy")),
    "weights complex": lambda: saved(data(edge_weight=torch.ones(4, dtype=torch.complex64))),
    "a tuple of nothing": lambda: saved(()),
    "a tuple of numbers": lambda: saved((1, 2)),
    "a tensor": lambda: saved(PATH),
    "a text": lambda: saved("graph"),
    "a HeteroData": lambda: saved(HeteroData({"paper": {"x": torch.ones(2, 2)}})),
    "a Data without a store": lambda: damaged_data(_store=None),
    "a Data with a text for a store": lambda: damaged_data(_store="store"),
    "a Data with a store of nothing": loose_storage,
    "an object": lambda: saved(print),
    "a bare pickle": lambda: pickle.dumps({"edge_index": [[0], [1]]}),
    "noise": lambda: np.random.default_rng(0).bytes(500),
    "one byte": lambda: b"\x80",
    "an empty zip file": lambda: b"PK\x05\x06" + b"\0" * 18,
    "repeated without end": lambda: saved({"edge_index": torch.zeros(1, dtype=torch.long).expand(2, 10**9)}),
    "features repeated without end": lambda: saved(data(x=torch.zeros(1).expand(3, 10**9))),
}


@pytest.mark.parametrize("make", PT.values(), ids=PT)
def test_a_hostile_pt_file_is_refused_in_one_sentence(make, tmp_path):
    path = tmp_path / "graph.pt"
    path.write_bytes(make())
    assert_refused(lambda: load_graph(path), path)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pt_file_cut_anywhere_is_refused_in_one_sentence(legacy, tmp_path):
    content = saved(data(x=torch.ones(3, 2)), _use_new_zipfile_serialization=not legacy)
    path = tmp_path / "graph.pt"
    for length in range(1, len(content) - 1, max(1, len(content) // 60)):
        path.write_bytes(content[:length])
        assert_refused(lambda: load_graph(path), path)


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64", "float8_e5m2", "uint16", "int8"])
def test_numbers_of_every_width_are_read_from_a_pt_file(kind, tmp_path):
    x = torch.eye(3).to(getattr(torch, kind))
    (tmp_path / "graph.pt").write_bytes(saved(data(x=x, edge_index=PATH.to(torch.uint16))))
    assert np.array_equal(load_graph(tmp_path / "graph.pt").features, np.eye(3))


def table(**columns):
    return pa.table(columns)


def twice(name):
    return pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([2])], names=[name, name, "target"])


INTEGERS = pa.array([0, 1])
PARQUET = {
    "two columns of one name": lambda: twice("source"),
    "two weights": lambda: pa.Table.from_arrays([INTEGERS] * 4, names=["source", "target", "weight", "weight"]),
    "integers and texts": lambda: table(source=INTEGERS, target=pa.array(["a", "b"])),
    "texts and integers": lambda: table(source=pa.array(["a", "b"]), target=INTEGERS),
    "decimals": lambda: table(source=INTEGERS.cast(pa.decimal128(30, 2)), target=INTEGERS),
    "times": lambda: table(source=INTEGERS.cast(pa.timestamp("s")), target=INTEGERS),
    "lists": lambda: table(source=pa.array([[0], [1]]), target=INTEGERS),
    "structures": lambda: table(source=pa.array([{"a": 1}, {"a": 2}]), target=INTEGERS),
    "nothing": lambda: table(source=pa.nulls(2), target=INTEGERS),
    "bytes": lambda: table(source=pa.array([b"a", b"b"]), target=INTEGERS),
    "truth values": lambda: table(source=pa.array([True, False]), target=INTEGERS),
    "fractions": lambda: table(source=pa.array([0.5, 1.0]), target=INTEGERS),
    "missing names": lambda: table(source=pa.array(["a", None]), target=pa.array(["b", "c"])),
    "missing weights": lambda: table(source=INTEGERS, target=INTEGERS, weight=pa.array([1.0, None])),
    "empty names": lambda: table(source=pa.array(["a", ""]), target=pa.array(["b", "c"])),
    "endless names": lambda: table(source=pa.array(["a", "b" * 5000]), target=pa.array(["b", "c"])),
    "texts for weights": lambda: table(source=INTEGERS, target=INTEGERS, weight=pa.array(["x", "y"])),
    "lists for weights": lambda: table(source=INTEGERS, target=INTEGERS, weight=pa.array([[1], [2]])),
    "times for weights": lambda: table(source=INTEGERS, target=INTEGERS, weight=INTEGERS.cast(pa.timestamp("s"))),
    "no columns": lambda: pa.table({}),
    "one column": lambda: table(source=INTEGERS),
    "9.9 million nodes": lambda: table(source=INTEGERS, target=INTEGERS).replace_schema_metadata(
        {"garnet:num_nodes": "9900000"}
    ),
}


@pytest.mark.parametrize("make", PARQUET.values(), ids=PARQUET)
def test_a_hostile_parquet_file_is_refused_in_one_sentence(make, scratch):
    path = scratch / "graph.parquet"
    pq.write_table(make(), path)
    assert_refused(lambda: load_graph(path), path)
    assert_refused(lambda: build_tiles(path, scratch / "tiles", memory=2 << 30), path)


def test_parts_that_name_nodes_in_different_ways_are_refused(tmp_path):
    folder = tmp_path / "graph"
    folder.mkdir()
    pq.write_table(table(source=INTEGERS, target=INTEGERS), folder / "a.parquet")
    pq.write_table(table(source=pa.array(["x"]), target=pa.array(["y"])), folder / "b.parquet")
    assert_refused(lambda: load_graph(folder), folder / "b.parquet")


def test_parquet_of_odd_but_sound_types_is_read(tmp_path):
    path = tmp_path / "graph.parquet"
    names = pa.array(["a", "b"]), pa.array(["b", "c"])
    for ends in (names, [one.dictionary_encode() for one in names], [one.cast(pa.large_string()) for one in names]):
        weight = INTEGERS.cast(pa.decimal128(30, 2))
        pq.write_table(table(source=ends[0], target=ends[1], weight=weight), path)
        assert load_graph(path).names.tolist() == ["a", "b", "c"]
        assert load_graph(path).num_edges == 1
    pq.write_table(table(source=pa.array([], pa.int64()), target=pa.nulls(0)), path)
    assert load_graph(path).num_nodes == 0


TILES = {
    "bounds of texts": {"bounds": ["a", "b"]},
    "bounds that fall": {"bounds": [0, 3, 1]},
    "bounds not from 0": {"bounds": [1, 3]},
    "no bounds": {"bounds": []},
    "bounds far beyond the files": {"bounds": [0, 10**12]},
    "sizes of texts": {"sizes": {"tile-0-0.bin": "many"}},
    "sizes in a list": {"sizes": ["tile-0-0.bin"]},
    "files elsewhere": {"sizes": {"../../elsewhere": 3}},
    "no files": {"sizes": {}, "checks": {}},
    "features of half a width": {"feature_width": 0.5},
    "features of another width": {"feature_width": 10**9},
    "edges that are text": {"num_edges": "many"},
    "weights that are text": {"weighted": "yes"},
}


@pytest.mark.parametrize("changes", TILES.values(), ids=TILES)
def test_tiles_whose_manifest_lies_are_refused_in_one_sentence(changes, tmp_path):
    folder = seed_file("tiles", tmp_path)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest.pop("check")
    write_note(folder / MANIFEST, manifest | changes)
    with pytest.raises(GraphError, match="Cannot read"):
        TiledGraph.open(folder).to_graph()


def test_tiles_whose_files_lie_are_refused_in_one_sentence(tmp_path):
    folder = seed_file("tiles", tmp_path)
    manifest = json.loads((folder / MANIFEST).read_bytes())
    manifest.pop("check")
    name = "tile-0-0.bin"
    numbers = np.fromfile(folder / name, np.int32)
    numbers[-1] = 2**30
    numbers.tofile(folder / name)
    manifest["checks"][name] = zlib.crc32((folder / name).read_bytes())
    write_note(folder / MANIFEST, manifest)
    with pytest.raises(GraphError, match="Cannot read"):
        TiledGraph.open(folder).to_graph()


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1))
def test_a_file_changed_at_random_is_read_or_refused_in_one_sentence(kind, tmp_path, seed):
    folder = tmp_path / str(seed)
    folder.mkdir(exist_ok=True)
    path = seed_file(kind, Path(mkdtemp(dir=folder)))
    mutated(path, np.random.default_rng(seed))
    assert outcome(kind, path) is None


def assert_refused(read, path):
    with pytest.raises(GraphError) as caught:
        read()
    message = str(caught.value)
    assert message.startswith(f"Cannot read {path}: ")
    assert "\n" not in message
    assert message.endswith(".")
    assert len(message) < 400 + len(os.fspath(path))


def test_a_packed_pt_file_is_read_like_any_other(tmp_path):
    (tmp_path / "graph.pt").write_bytes(deflated(saved(data())))
    try:
        assert load_graph(tmp_path / "graph.pt").num_edges == 2
    except GraphError as error:
        assert "not a whole file" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "content",
    [b"0,1\n", gzip.compress(b"0,1\n" * 1000)[:-9], gzip.compress(b"0,1\n")[:12]],
    ids=["not packed", "cut at its end", "cut at its begin"],
)
def test_the_size_of_a_broken_file_is_not_guessed(content, tmp_path):
    path = tmp_path / "graph.csv.gz"
    path.write_bytes(content)
    assert_refused(lambda: extent_of(path), path)


def test_a_table_in_parquet_is_refused_before_the_work_if_it_cannot_hold_a_name(tmp_path):
    graph = as_graph((PATH.numpy(), 3), names=["a", "b", "\ud800"])
    with pytest.raises(GraphError, match="cannot be kept in Parquet"):
        GARNET().purify(graph, place=OnDisk(memory="2GB", output=tmp_path / "clean.parquet"))
    assert not list(tmp_path.iterdir())


def test_the_end_of_a_gzip_file_is_missed(scratch):
    path = scratch / "graph.csv.gz"
    path.write_bytes(gzip.compress(b"0,1\n" * 1000)[:-4])
    assert_refused(lambda: load_graph(path), path)
    assert_refused(lambda: build_tiles(path, scratch / "tiles", memory=2 << 30), path)
