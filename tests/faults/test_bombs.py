"""Small files and objects that would cost far more than they are: refused before they are unfolded, with the cure."""

import gzip
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from fuzz_readers import READERS, seed_file
from torch_geometric.data import Data

from garnet import Split, as_graph, load_graph
from garnet.backbones import GCN
from garnet.defenses import LinearFloor
from garnet.errors import GraphError, ParameterError
from garnet.io.limits import UNFOLD
from garnet.places.build import build_tiles
from garnet.training.loop import train

MANY = 9_900_000
PATH = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
FEW_BYTES = 120 << 20
"""What refusing a file may take at most; unfolded, the files here would take gigabytes."""


def zeros(*shape, kind=np.int8):
    return np.broadcast_to(np.zeros(1, kind), shape)


def npz(path, **arrays):
    """A packed .npz file of numbers that are all alike, without holding them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            facts = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
            with archive.open(f"{name}.npy", "w") as stream:
                np.lib.format.write_array_header_1_0(stream, facts)
                if array.strides == (0,) * array.ndim:
                    stream.write(bytes(array.nbytes))
                else:
                    stream.write(array.tobytes())
    return path


def packed(path, text):
    path.write_bytes(gzip.compress(text))
    return path


def matrix(path, n, entries):
    starts = np.zeros(n + 1, np.int64)
    starts[1:] = entries
    shape = np.array([n, n])
    return npz(path, adj_data=zeros(entries), adj_indices=zeros(entries), adj_indptr=starts, adj_shape=shape)


def ogb(folder, name, text):
    path = seed_file("ogb", folder)
    packed(path / name, text)
    return path


def changed(kind, folder, **arrays):
    """A valid file of that kind with other arrays."""
    path = seed_file(kind, folder)
    with np.load(path) as found:
        return npz(path, **{**found, **arrays})


def data(**fields):
    return Data(edge_index=torch.from_numpy(PATH), **fields)


def saved(path, value):
    torch.save(value, path)
    return path


def table(path, source, target, nodes=None):
    found = pa.table({"source": source, "target": target})
    pq.write_table(found if nodes is None else found.replace_schema_metadata({"garnet:num_nodes": str(nodes)}), path)
    return path


def one_text(rows):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), ["x" * 900])


FILES = {
    "newlines": ("csv.gz", lambda f: packed(f / "a.csv.gz", b"\n" * 40_000_000)),
    "rows": ("csv.gz", lambda f: packed(f / "a.csv.gz", b"0,1\n" * 10_000_000)),
    "many gzip files in one": ("csv.gz", lambda f: joined(f / "a.csv.gz")),
    "comments": ("mtx", lambda f: packed(f / "a.mtx.gz", b"%%MatrixMarket" + b"%\n" * 20_000_000)),
    "rows that do not exist": ("mtx", lambda f: written(f / "a.mtx", f"{MANY} {MANY} 1\n1 2 1\n")),
    "entries in an .npz file": ("npz", lambda f: matrix(f / "a.npz", 2, 40_000_000)),
    "nodes in an .npz file": ("npz", lambda f: matrix(f / "a.npz", MANY, 4)),
    "nodes in a SciPy file": ("npz", lambda f: scipy_file(f / "a.npz")),
    "features in an .npz file": ("npz", lambda f: changed("npz", f, attr_matrix=zeros(40, 2_000_000))),
    "names in an .npz file": ("npz", lambda f: changed("npz", f, names=zeros(40, kind="U2000000"))),
    "rows in Parquet": ("parquet", lambda f: table(f / "a.parquet", *2 * [pa.repeat(pa.scalar(0), 12_000_000)])),
    "names in Parquet": ("parquet", lambda f: table(f / "a.parquet", *2 * [one_text(12_000_000)])),
    "nodes in Parquet": ("parquet", lambda f: table(f / "a.parquet", [0], [1], MANY)),
    "nodes of OGB": ("ogb", lambda f: ogb(f, "raw/num-node-list.csv.gz", str(MANY).encode())),
    "edges of OGB": ("ogb", lambda f: ogb(f, "raw/edge.csv.gz", b"0,1\n" * 10_000_000)),
    "blank labels of OGB": ("ogb", lambda f: ogb(f, "raw/node-label.csv.gz", b"\n" * 40_000_000)),
    "features of OGB": ("ogb", lambda f: ogb(f, "raw/node-feat.csv.gz", b"0," * 20_000_000)),
    "nodes in a .pt file": ("pt", lambda f: saved(f / "a.pt", data(num_nodes=MANY))),
    "features without columns in a .pt file": (
        "pt",
        lambda f: saved(f / "a.pt", data(x=torch.zeros(MANY, 0))),
    ),
    "edges repeated in a .pt file": (
        "pt",
        lambda f: saved(f / "a.pt", {"edge_index": torch.zeros(1, dtype=torch.long).expand(2, 10**8)}),
    ),
    "a packed .pt file": ("pt", lambda f: npz(f / "a.pt", **{"archive/data": zeros(300_000_000)})),
    "a perturbation": ("perturbation", lambda f: changed("perturbation", f, edges=zeros(2, 40_000_000))),
    "the weights of a model": ("predictor", lambda f: changed("predictor", f, weight_more=zeros(80_000_000))),
    "the edges of a result": ("result", lambda f: changed("result", f, edges=zeros(2, 40_000_000))),
    "the reasons of an audit": ("audit", lambda f: changed("audit", f, **{"reason x": zeros(80_000_000, kind="f4")})),
    "masks": ("masks", lambda f: changed("masks", f, train_mask=zeros(80_000_000))),
}

STREAMED = [name for name, (kind, _) in FILES.items() if kind in ("npz", "parquet", "ogb") and "SciPy" not in name]
STREAMED = ["newlines", *(name for name in STREAMED if not name.startswith(("names", "edges")))]


def joined(path):
    path.write_bytes(gzip.compress(b"0,1\n" * 1_000_000) * 10)
    return path


def written(path, text):
    path.write_text("%%MatrixMarket matrix coordinate real general\n" + text)
    return path


def scipy_file(path):
    sp.save_npz(path, sp.coo_array(([1.0], ([0], [1])), shape=(MANY, MANY)))
    return path


def assert_refused_cheaply(read):
    tracemalloc.start()
    try:
        with pytest.raises(GraphError) as caught:
            read()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert UNFOLD in message
    assert "\n" not in message
    assert peak < FEW_BYTES


@pytest.mark.parametrize(("kind", "make"), FILES.values(), ids=FILES)
def test_a_small_file_is_refused_before_it_becomes_a_large_one(kind, make, tmp_path):
    path = make(tmp_path)
    assert_refused_cheaply(lambda: READERS[kind](path))


@pytest.mark.parametrize("name", STREAMED)
def test_so_it_is_when_it_is_read_in_pieces(name, scratch):
    path = FILES[name][1](scratch)
    assert_refused_cheaply(lambda: build_tiles(path, scratch / "tiles", memory=2 << 30))


OBJECTS = {
    "edges": lambda: as_graph((np.broadcast_to(np.int64(0), (2, 10**10)), 3)),
    "edges with strides": lambda: as_graph((np.lib.stride_tricks.as_strided(PATH, (2, 10**9), (8, 0)), 3)),
    "edges in a tensor": lambda: as_graph((torch.zeros(1, dtype=torch.long).expand(2, 10**10), 3)),
    "a dense matrix": lambda: as_graph(np.broadcast_to(np.float32(1), (10**5, 10**5))),
    "features": lambda: as_graph((PATH, 3), features=np.broadcast_to(np.float32(1), (3, 10**9))),
    "features in a tensor": lambda: as_graph((PATH, 3), features=torch.zeros(1).expand(3, 10**9)),
    "labels": lambda: as_graph((PATH, 3), labels=np.broadcast_to(np.int64(0), 10**10)),
    "names": lambda: as_graph((PATH, 3), names=np.broadcast_to(np.array("a"), 10**10)),
    "the data of a matrix": lambda: as_graph(repeated_matrix()),
    "the features of a Data": lambda: as_graph(data(x=torch.zeros(1).expand(3, 10**9))),
}


def repeated_matrix():
    found = sp.coo_array(([1.0], ([0], [1])), shape=(2, 2))
    ends = np.broadcast_to(np.int32(0), 10**9)
    found.coords, found.data = (ends, ends), np.broadcast_to(np.float32(1), 10**9)
    return found


@pytest.mark.parametrize("read", OBJECTS.values(), ids=OBJECTS)
def test_an_array_that_repeats_itself_without_end_is_refused(read):
    assert_refused_cheaply(read)


def test_an_array_that_repeats_itself_a_little_is_read():
    ones = np.broadcast_to(np.float32(1), (3, 1000))
    assert as_graph((PATH, 3), features=ones).features.sum() == 3000


def test_the_limit_is_raised_as_the_message_says(tmp_path, monkeypatch):
    path = packed(tmp_path / "a.csv.gz", b"\n" * 20_000_000 + b"0,1\n")
    with pytest.raises(GraphError, match=rf"limit of 16 MB; .*{UNFOLD}=2"):
        load_graph(path)
    monkeypatch.setenv(UNFOLD, "2")
    assert load_graph(path).num_edges == 1
    written(path := tmp_path / "a.mtx", "300000 300000 1\n1 2 1\n")
    assert load_graph(path, symmetrize=True).num_nodes == 300_000


@pytest.mark.parametrize("said", ["much", "", "0", "-1", "nan"])
def test_a_limit_that_is_no_number_is_refused(said, tmp_path, monkeypatch):
    monkeypatch.setenv(UNFOLD, said)
    with pytest.raises(ParameterError, match=rf"{UNFOLD} must be a positive number"):
        load_graph(packed(tmp_path / "a.csv.gz", b"0,1\n"))


def test_a_model_is_not_made_for_as_many_classes_as_nodes():
    n = 6000
    ring = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    split = Split(*(np.arange(n)[part::3] for part in range(3)))
    graph = as_graph((ring, n), symmetrize=True, labels=np.arange(n), features=np.ones((n, 1)), split=split)
    for fit in (lambda: train(GCN(), graph, seeds=(0,)), lambda: LinearFloor().fit(graph)):
        with pytest.raises(GraphError, match="number 6000 classes"):
            fit()


@pytest.mark.slow
@pytest.mark.parametrize("line", ["0,1", "a,b", "#", "", '"a",b', "a,b,1"])
def test_what_a_small_file_may_unfold_to_takes_less_than_one_and_a_half_gigabytes(line, tmp_path):
    text = f"{line}\n" * (15_900_000 // (len(line) + 1)) + "x,y"
    path = packed(tmp_path / "a.csv.gz", text.encode())
    program = "import sys; from garnet import errors, load_graph, machine\n"
    program += "try: load_graph(sys.argv[1])\nexcept errors.GarnetError as error: print(error)\n"
    program += "sys.exit(machine.peak_memory() > 1.5e9)"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=120)
