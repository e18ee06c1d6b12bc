"""Change valid files at random and read them: all that may come out is a graph, or one sentence.

    python tests/faults/fuzz_readers.py --seconds 60

Everything happens in a temporary folder. A file that breaks its reader is named at the end and kept there. With atheris
installed its fuzzer chooses the changes, by what of the library they reach; otherwise they are drawn from a seed.
"""

import argparse
import atexit
import gzip
import inspect
import io
import json
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
import zlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import torch

from garnet import GARNET, OnDisk, as_graph, load_graph
from garnet.audit import audit
from garnet.audit.file import load_audit, save_audit
from garnet.backbones import GCN
from garnet.datasets import contextual_block_model, random_split
from garnet.datasets.splits import read_geom_gcn, read_node_lists, read_targets
from garnet.errors import GarnetError
from garnet.graph.files import open_source
from garnet.graph.perturbation import Perturbation
from garnet.io.checked import write_note
from garnet.places.tiles import MANIFEST, TiledGraph
from garnet.report.purification_record import PurificationRecord
from garnet.training.loop import Training, train
from garnet.training.predictor import Predictor

TOKENS = [b"", b"\0", b"\n", b"\r", b",", b'"', b"#", b"-1", b"nan", b"1e999", b"9" * 30, b"\xff\xfe", b"\xed\xa0\x80"]
VALUES = [0, 1, -1, 2**31 - 1, -(2**31), 2**62, 255]


def _stream(path):
    """Read everything of a graph piece by piece."""
    source = open_source(path)
    for _ in source.edges(64):
        pass
    if source.features is not None:
        for _ in source.features.rows(64):
            pass


def _tiles(path):
    TiledGraph.open(path, verify=True).to_graph()


READERS = {
    "npz": load_graph,
    "coo.npz": load_graph,
    "csv": load_graph,
    "txt": load_graph,
    "csv.gz": load_graph,
    "mtx": load_graph,
    "parquet": load_graph,
    "texts.parquet": load_graph,
    "graphml": load_graph,
    "gexf": load_graph,
    "gml": load_graph,
    "json": load_graph,
    "pt": load_graph,
    "ogb": load_graph,
    "npz in pieces": _stream,
    "csv.gz in pieces": _stream,
    "parquet in pieces": _stream,
    "ogb in pieces": _stream,
    "perturbation": Perturbation.load,
    "predictor": Predictor.load,
    "result": PurificationRecord.load,
    "audit": load_audit,
    "tiles": _tiles,
    "split": read_node_lists,
    "masks": read_geom_gcn,
    "targets": read_targets,
}


@cache
def _templates():
    """A valid file, or folder, of every kind."""
    folder = Path(tempfile.mkdtemp(prefix="garnet-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    graph = contextual_block_model(40, classes=3, mean_degree=6, features=4, seed=0)
    graph = as_graph(graph, split=random_split(graph.labels, seed=0))
    named = as_graph(graph, names=[f"node {i}" for i in range(40)])
    paths = {name: folder / name.replace(" in pieces", "-pieces") for name in READERS}
    for name in ("perturbation", "predictor", "result", "audit", "masks"):
        paths[name] = folder / f"{name}.npz"
    paths |= {"split": folder / "split.json", "targets": folder / "targets.npy"}
    for name in ("npz", "csv", "txt", "csv.gz", "mtx", "graphml", "gexf", "gml", "json", "parquet", "pt"):
        paths[name] = folder / f"graph.{name}"
    named.save(paths["npz"])
    named.save(paths["csv"])
    for name in ("txt", "csv.gz", "mtx", "graphml", "gexf"):
        graph.save(paths[name])
    drawn = graph.to_networkx()
    paths["json"].write_text(json.dumps(nx.node_link_data(drawn)))
    nx.write_gml(nx.Graph(drawn.edges(data=True)), paths["gml"])
    sp.save_npz(paths["coo.npz"], graph.adjacency.tocoo())
    first, second = graph.edges
    ends = {"source": first, "target": second, "weight": graph.weights}
    pq.write_table(pa.table(ends).replace_schema_metadata({"garnet:num_nodes": "40"}), paths["parquet"])
    pq.write_table(pa.table({"a": named.names[first], "b": named.names[second]}), paths["texts.parquet"])
    torch.save(graph.to_pyg(), paths["pt"])
    _write_ogb(paths["ogb"], graph)
    for name in ("npz", "csv.gz", "parquet", "ogb"):
        pieces = folder / "pieces" / paths[name].name
        pieces.parent.mkdir(exist_ok=True)
        (shutil.copytree if paths[name].is_dir() else shutil.copy)(paths[name], pieces)
        paths[f"{name} in pieces"] = pieces
    Perturbation.of(graph, graph.edges[:, :5], attack="random", budget="5 edges").save(paths["perturbation"])
    train(GCN(hidden=4), graph, seeds=(0,), training=Training(epochs=2))[0].save(paths["predictor"])
    with warnings.catch_warnings(action="ignore"):
        PurificationRecord.of(named, GARNET(rank=4, k=3).purify(named)).save(paths["result"])
        save_audit(audit(named), paths["audit"])
    GARNET(rank=4, k=3, weight="one").purify(paths["npz"], place=OnDisk(memory="2GB", parts=2, output=paths["tiles"]))
    parts = {f"idx_{part}": getattr(graph.split, part).tolist() for part in ("train", "val", "test")}
    paths["split"].write_text(json.dumps(parts))
    masks = {f"{part}_mask": np.isin(np.arange(40), getattr(graph.split, part)) for part in ("train", "val", "test")}
    np.savez(paths["masks"], **masks)
    np.save(paths["targets"], graph.split.test)
    return paths


def _write_ogb(folder, graph):
    (folder / "raw").mkdir(parents=True)
    (folder / "split" / "time").mkdir(parents=True)
    files = {"raw/edge": graph.edges.T, "raw/num-node-list": [40], "raw/node-label": graph.labels}
    files |= {"raw/node-feat": graph.features, "split/time/train": graph.split.train}
    files |= {"split/time/valid": graph.split.val, "split/time/test": graph.split.test}
    for name, rows in files.items():
        text = io.BytesIO()
        np.savetxt(text, rows, "%g", delimiter=",")
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.getvalue()))


def seed_file(kind, folder):
    """A valid file of that kind, or a folder, in a folder of one's own."""
    source = _templates()[kind]
    target = folder / source.name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return target


def mutated(path, rng):
    """Change a file, or one in a folder, at random; mostly inside of its packing, and checksums are made good."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    file = files[rng.integers(len(files))]
    content = file.read_bytes()
    inside = rng.random() < 0.7
    if inside and content[:2] == b"PK":
        content = _changed_zip(content, rng)
    elif inside and content[:2] == b"\x1f\x8b":
        content = gzip.compress(_changed(gzip.decompress(content), rng))
    elif inside and file.name == MANIFEST:
        _seal(file, _changed_manifest(json.loads(content), rng))
        return
    else:
        content = _changed(content, rng)
    file.write_bytes(content)
    if inside and (path / MANIFEST).is_file():
        manifest = json.loads((path / MANIFEST).read_bytes())
        manifest["sizes"][file.name] = len(content)
        manifest["checks"][file.name] = zlib.crc32(content)
        _seal(path / MANIFEST, manifest)


def _changed(content, rng):
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        place = int(rng.integers(len(content) + 1))
        match rng.integers(6):
            case 0:
                content[place : place + 1] = bytes([rng.integers(256)])
            case 1:
                content[place:place] = TOKENS[rng.integers(len(TOKENS))]
            case 2:
                del content[place : place + int(rng.integers(1, 40))]
            case 3:
                del content[place:]
            case 4:
                number = int(VALUES[rng.integers(len(VALUES))])
                width = int(rng.choice([4, 8]))
                content[place : place + width] = (number % 2 ** (8 * width)).to_bytes(width, "little")
            case _:
                begin = int(rng.integers(len(content) + 1))
                content[place:place] = content[begin : begin + int(rng.integers(1, 200))]
    return bytes(content)


def _changed_zip(content, rng):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[rng.integers(len(members))]
    match rng.integers(4):
        case 0:
            members[name] = _changed_array(members[name], rng)
        case 1:
            other = list(members)[rng.integers(len(members))]
            members[name] = members[other]
        case 2:
            del members[name]
        case _:
            members[name] = _changed(members[name], rng)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return buffer.getvalue()


def _changed_array(member, rng):
    """An array with other numbers, of another type or another shape."""
    if member[:6] != b"\x93NUMPY":
        return _changed(member, rng)
    array = np.load(io.BytesIO(member))
    match rng.integers(5):
        case 0 if array.size and array.dtype.kind in "iuf":
            array = array.copy()
            with np.errstate(all="ignore"):
                array.flat[rng.integers(array.size)] = np.array(VALUES[rng.integers(len(VALUES))]).astype(array.dtype)
        case 1:
            kinds = ["f4", "f8", "i1", "u8", ">i4", "U3", "?", "c8", "S2", "M8[s]", "f2", "i4,f4"]
            array = np.zeros(array.shape, kinds[rng.integers(len(kinds))])
        case 2:
            array = array[None] if rng.random() < 0.5 else array.ravel()
        case 3:
            array = np.resize(array, int(rng.integers(0, 2 * array.size + 2)))
        case _:
            array = np.asfortranarray(array)
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _changed_manifest(manifest, rng):
    strange = [None, -1, 2**62, 0.5, "x", [], {}, [0, 1], [0, 20, 10, 40], True, {"a": 1}]
    name = list(manifest)[rng.integers(len(manifest))]
    manifest[name] = strange[rng.integers(len(strange))]
    return manifest


def _seal(file, manifest):
    write_note(file, {name: value for name, value in manifest.items() if name != "check"})


def outcome(kind, path):
    """What a reader makes of a file: None if it is as it should be, otherwise what went wrong."""
    try:
        with warnings.catch_warnings(action="ignore"):
            READERS[kind](path)
    except GarnetError as error:
        return f"several lines: {error}" if "\n" in str(error) else None
    except Exception:  # whatever else comes out is what is looked for
        return traceback.format_exc()
    return None


def _once(kind, rng, broken):
    """Read one changed file; it is kept if it breaks its reader."""
    folder = Path(tempfile.mkdtemp(prefix="garnet-case-"))
    path = seed_file(kind, folder)
    mutated(path, rng)
    trouble = outcome(kind, path)
    if trouble is None:
        shutil.rmtree(folder)
    else:
        broken.setdefault((kind, trouble.strip().splitlines()[-1]), (path, trouble))
    return trouble


def _drawn(seconds, seed):
    """Draw changes from a seed until the time is up."""
    broken, tried, end = {}, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        kind = list(READERS)[tried % len(READERS)]
        _once(kind, np.random.default_rng(seed + tried), broken)
        tried += 1
    return broken, tried


class _Choices:
    """What `mutated` asks of a random generator, answered from the bytes of a fuzzer."""

    def __init__(self, data):
        self._data = data

    def integers(self, low, high=None):
        low, high = (0, low) if high is None else (low, high)
        return self._data.ConsumeIntInRange(int(low), int(high) - 1)

    def random(self):
        return self._data.ConsumeProbability()

    def choice(self, values):
        return values[self.integers(len(values))]


def _guided(seconds):
    """Have atheris choose the changes, by which lines of the library they reach; it ends the process itself."""
    import atheris

    for module in [module for name, module in sys.modules.items() if name.startswith("garnet.")]:
        for value in list(vars(module).values()):
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                atheris.instrument_func(value)

    def case(content):
        choices = _Choices(atheris.FuzzedDataProvider(content))
        trouble = _once(choices.choice(list(READERS)), choices, {})
        if trouble:
            raise RuntimeError(trouble)

    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-max_len=256", "-len_control=0"], case)
    atheris.Fuzz()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    _templates()
    if find_spec("atheris"):
        _guided(options.seconds)
        return
    broken, tried = _drawn(options.seconds, options.seed)
    for (kind, last), (path, trouble) in broken.items():
        sys.stderr.write(f"\n{kind}, {path}: {last}\n{trouble}\n")
    sys.stdout.write(f"{tried} files read, {len(broken)} ways to break a reader\n")
    sys.exit(bool(broken))


if __name__ == "__main__":
    main()
