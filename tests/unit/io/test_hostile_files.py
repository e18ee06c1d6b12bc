"""Files that are broken, or made to break their reader: each is refused in one sentence, without a large allocation."""

import gzip
import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from garnet import load_graph, machine
from garnet.errors import GraphError

MEMORY = 64 << 20
"""What the reader is told this machine has, so that bombs can be small."""

GOOD = {
    "adj_data": np.ones(2, dtype=np.float32),
    "adj_indices": np.array([1, 0]),
    "adj_indptr": np.array([0, 1, 2]),
    "adj_shape": np.array([2, 2]),
}
COORDINATE = "%%MatrixMarket matrix coordinate real general\n"


def npz(**changes):
    """A good file but for these arrays; None leaves one out, bytes are put in as they are."""
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            archive.writestr(f"{name}.npy", array if isinstance(array, bytes) else npy(array))
    return buffer.getvalue()


def npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def header(text, data=b"", *, version=1, length=None):
    text = text.encode()
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def described(descr="'<f4'", shape="(2,)", data=b"\0" * 8):
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n", data)


def patched(content, member, field, value):
    """Change a number in the directory of a zip file: what it says of a member, not what the member is."""
    offset, form = {"flags": (8, "<H"), "packed": (20, "<I"), "unpacked": (24, "<I")}[field]
    content = bytearray(content)
    entry = content.rindex(b"PK\x01\x02", 0, content.rindex(member.encode()))
    struct.pack_into(form, content, entry + offset, value)
    return bytes(content)


def scipy_npz(matrix, **changes):
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix)
    with np.load(io.BytesIO(buffer.getvalue())) as arrays:
        arrays = {**arrays, **changes}
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def damaged_byte():
    buffer = io.BytesIO()
    np.savez(buffer, **GOOD)
    content = bytearray(buffer.getvalue())
    content[content.index(GOOD["adj_data"].tobytes())] ^= 0xFF
    return bytes(content)


def lzma_npz():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in GOOD.items():
            archive.writestr(f"{name}.npy", npy(array))
    return buffer.getvalue()


def odd_names():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in GOOD.items():
            for odd in (f"../{name}.npy", f"/{name}.npy", f"folder/{name}.npy", name):
                archive.writestr(odd, npy(array))
    return buffer.getvalue()


def dense_bomb(n=20_000_000):
    return npz(adj_data=np.zeros(n, np.int8), adj_indices=np.zeros(n, np.int8), adj_indptr=np.array([0, n, n]))


CRASH = "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 2\n\n\n2 1 3 2 5 6"
LONG_LABELS = described("'<i8'", "(20,)", b"\0" * 8)
"""Labels that declare 160 bytes but have 8."""

HOSTILE = [
    # (ending of the file and what is wrong with it, its content, what the message says)
    ("npz not a zip", lambda: b"hello world" * 50, "not a whole .npz"),
    ("npz of a pickle", lambda: b"\x80\x04]\x94.", "not a whole .npz"),
    ("npz cut short", lambda: npz()[:-40], "not a whole .npz"),
    ("npz cut to its head", lambda: npz()[:60], "not a whole .npz"),
    ("npz without arrays", lambda: b"PK\x05\x06" + b"\0" * 18, "its arrays are: none"),
    ("npz with a wrong checksum", damaged_byte, "'adj_data' is damaged"),
    ("npz with a garbled stream", lambda: npz()[:60] + b"\xff" * 30 + npz()[90:], "'adj_"),
    ("npz with lzma", lzma_npz, "compressed in a way"),
    ("npz encrypted", lambda: patched(npz(), "adj_shape", "flags", 1), "encrypted"),
    ("npz with an impossible size", lambda: patched(npz(), "adj_shape", "unpacked", 2**31), "cannot be true"),
    (
        "npz with a size too large",
        lambda: patched(npz(labels=LONG_LABELS), "labels", "unpacked", len(LONG_LABELS) + 152),
        "'labels' is not as long as it declares",
    ),
    ("npz with a size too small", lambda: patched(npz(), "adj_data", "unpacked", 40), "'adj_data' "),
    ("npz with a packed size past the end", lambda: patched(npz(), "adj_shape", "packed", 2**31), "cannot be true"),
    ("npz with odd member names", odd_names, "has neither the arrays"),
    ("npz of something else", lambda: npz(adj_indptr=None, other=np.ones(2)), "its arrays are: adj_data"),
    ("npz without adj_data", lambda: npz(adj_data=None), "no array 'adj_data'"),
    ("npz with half its features", lambda: npz(attr_indptr=np.zeros(3, int)), "no array 'attr_shape'"),
    ("npz with objects", lambda: npz(adj_data=np.array([{}, 1], dtype=object)), "Python objects, which can run code"),
    ("npz with labels as objects", lambda: npz(labels=np.array([None, 1], dtype=object)), "Python objects"),
    ("npz with objects in records", lambda: npz(adj_data=np.zeros(2, "f4,O")), "Python objects"),
    ("npz with records", lambda: npz(adj_data=np.zeros(2, "f4,f4")), "makes no sense there"),
    ("npz with complex weights", lambda: npz(adj_data=np.ones(2, complex)), "makes no sense there"),
    ("npz with text for indices", lambda: npz(adj_indices=np.array(["a", "b"])), "makes no sense there"),
    ("npz with fractions for indices", lambda: npz(adj_indices=np.ones(2)), "makes no sense there"),
    ("npz member not npy", lambda: npz(adj_data=b"just some text"), "not in NumPy's"),
    ("npz member empty", lambda: npz(adj_data=b""), "not in NumPy's"),
    ("npz header of 4 GB", lambda: npz(adj_data=header("{}", version=2, length=2**32 - 1)), "malformed header"),
    ("npz header cut short", lambda: npz(adj_data=header("{'descr'", length=300)), "malformed header"),
    ("npz header of code", lambda: npz(adj_data=header("__import__('os').abort()")), "malformed header"),
    ("npz header nested", lambda: npz(adj_data=header("(" * 4000)), "malformed header"),
    ("npz header of minus signs", lambda: npz(adj_data=header("-" * 4000 + "1")), "malformed header"),
    ("npz header without shape", lambda: npz(adj_data=header("{'descr': '<f4', 'fortran_order': False}")), "malformed"),
    ("npz header with a number for a dtype", lambda: npz(adj_data=described(descr="7")), "malformed header"),
    ("npz header with an unknown dtype", lambda: npz(adj_data=described(descr="'<q99'")), "malformed header"),
    ("npz header with an empty dtype", lambda: npz(names=described("'<U0'", "(10000000000,)", b"")), "malformed"),
    ("npz header with negative shape", lambda: npz(adj_data=described(shape="(-2,)")), "malformed header"),
    ("npz header with fractional shape", lambda: npz(adj_data=described(shape="(2.0,)")), "malformed header"),
    (
        "npz header with absurd shape",
        lambda: npz(adj_data=described(shape="(1000000000000,)")),
        "declares 4000000000000",
    ),
    ("npz header with shape that wraps", lambda: npz(adj_data=described(shape=f"({2**62 + 2},)")), "declares"),
    ("npz bomb", dense_bomb, "more than this machine's memory"),
    ("npz bomb in features", lambda: npz(attr_matrix=np.zeros((2, 10_000_000))), "more than this machine's memory"),
    ("npz adj_shape negative", lambda: npz(adj_shape=np.array([-2, -2])), "two integers >= 0"),
    ("npz adj_shape absurd", lambda: npz(adj_shape=np.array([2**62, 2**62])), "'adj_indptr' has 3 numbers but must"),
    ("npz adj_shape fractional", lambda: npz(adj_shape=np.array([2.0, 2.0])), "two integers >= 0"),
    ("npz adj_shape of three", lambda: npz(adj_shape=np.array([2, 2, 2])), "must hold two numbers"),
    ("npz adj_shape single", lambda: npz(adj_shape=np.array(2)), "must hold two numbers"),
    ("npz not square", lambda: npz(adj_shape=np.array([2, 3])), "must be square"),
    ("npz indptr too short", lambda: npz(adj_indptr=np.array([0, 2])), "'adj_indptr' has 2 numbers but must have 3"),
    ("npz indptr two-dimensional", lambda: npz(adj_indptr=np.zeros((3, 1), int)), "must have 1 dimension"),
    ("npz indptr not from 0", lambda: npz(adj_indptr=np.array([1, 1, 2])), "does not rise from 0"),
    ("npz indptr falling", lambda: npz(adj_indptr=np.array([0, 5, 2])), "does not rise from 0"),
    ("npz indptr falling unsigned", lambda: npz(adj_indptr=np.array([0, 2**63, 2], np.uint64)), "does not rise from 0"),
    ("npz indptr past the entries", lambda: npz(adj_indptr=np.array([0, 1, 10**9])), "does not rise from 0"),
    ("npz index past the end", lambda: npz(adj_indices=np.array([1, 2**40])), "index 1099511627776"),
    ("npz index negative", lambda: npz(adj_indices=np.array([-1, 0])), "index -1"),
    ("npz indices too few", lambda: npz(adj_indices=np.array([1])), "'adj_indices' has 1 numbers but must have 2"),
    ("npz weights NaN", lambda: npz(adj_data=np.array([np.nan, 1])), "NaN or infinite"),
    ("npz weights too large", lambda: npz(adj_data=np.array([1e300, 1e300])), "NaN or infinite"),
    ("npz weights negative", lambda: npz(adj_data=np.array([-1.0, -1.0])), "must not be negative"),
    ("npz directed", lambda: npz(adj_indices=np.array([1, 1])), "graph is directed"),
    ("npz labels too many", lambda: npz(labels=np.zeros(3, int)), "labels must have shape"),
    ("npz labels in a table", lambda: npz(labels=np.zeros((2, 1), int)), "must have 1 dimension"),
    ("npz features for other nodes", lambda: npz(attr_matrix=np.zeros((3, 1))), "features must have shape"),
    (
        "npz features too wide",
        lambda: npz(
            attr_data=np.ones(1),
            attr_indices=np.zeros(1, int),
            attr_indptr=np.array([0, 1, 1]),
            attr_shape=np.array([2, 10**15]),
        ),
        "declares 1000000000000000 columns",
    ),
    ("npz split outside", lambda: npz(idx_train=np.array([5])), "a split must hold node numbers"),
    ("npz names alike", lambda: npz(names=np.array(["a", "a"])), "names must be distinct"),
    ("npz scipy bsr", lambda: scipy_npz(sp.eye_array(4).tobsr()), "save it as csr, csc or coo"),
    ("npz scipy dia", lambda: scipy_npz(sp.eye_array(4).todia()), "save it as csr, csc or coo"),
    (
        "npz scipy format of a novel",
        lambda: scipy_npz(sp.eye_array(4).tocsr(), format="x" * 999),
        "does not name a format",
    ),
    ("npz scipy format a number", lambda: scipy_npz(sp.eye_array(4).tocsr(), format=3), "makes no sense there"),
    ("npz scipy csr broken", lambda: scipy_npz(sp.eye_array(4).tocsr(), indices=np.full(4, 9)), "index 9"),
    (
        "npz scipy coo absurd",
        lambda: scipy_npz(sp.eye_array(4).tocoo(), shape=np.array([10**15] * 2)),
        "no real graph has",
    ),
    ("npz scipy coo ragged", lambda: scipy_npz(sp.eye_array(4).tocoo(), row=np.zeros(3, int)), "'row' has 3 numbers"),
    ("npz scipy coo outside", lambda: scipy_npz(sp.eye_array(4).tocoo(), col=np.full(4, 4)), "index 4"),
    ("csv of bytes", lambda: bytes(range(128, 256)) * 20, "line 1 is not text in UTF-8"),
    ("csv of noise", lambda: np.random.default_rng(0).bytes(5000), "NUL bytes"),
    ("csv with NUL", lambda: b"0,1\n1,\x002\n", "NUL bytes"),
    ("csv in UTF-16", lambda: "0,1\n1,2\n".encode("utf-16"), "NUL bytes"),
    ("csv not in UTF-8", lambda: b"a,b\nb,caf\xe9\n", "line 2 is not text in UTF-8"),
    ("csv of one column", lambda: b"0\n1\n", "1 column"),
    ("csv with decimal commas", lambda: b"1;2;1,5\n2;3;2,5\n", "can be divided at"),
    ("csv with or without a header", lambda: b"teller,hearer\na,b\nc,d\n", "may be a header or an edge"),
    ("csv of four named columns", lambda: b"id,a,b,c\n1,x,y,z\n", "its columns are id, a, b, c"),
    ("csv with a line of a million columns", lambda: b"1," * 10**6 + b"1\n1,2\n", "a line of more than"),
    ("csv of four columns", lambda: b"0,1,2,3\n", "4 column"),
    ("csv ragged", lambda: b"# note\n0,1\n1,2,3\n", "line 3 has 3 column"),
    ("csv ragged names", lambda: b"a,b\nb\n", "line 2 has 1 column"),
    ("csv weight text", lambda: b"0,1,1\n1,2,heavy\n", "line 2 has the weight 'heavy'"),
    ("csv weight missing", lambda: b"0,1,1\n1,2,\n", "line 2 has the weight ''"),
    ("csv weight in Python's way", lambda: b"a,b,1_0\n", "weight '1_0'"),
    ("csv weight NaN", lambda: b"0,1,nan\n", "NaN or infinite"),
    ("csv weight too large", lambda: b"0,1,1e300\n", "NaN or infinite"),
    ("csv weight negative", lambda: b"0,1,-1\n", "must not be negative"),
    ("csv name missing", lambda: b"a,b\n,c\n", "line 2 has a node name that is empty"),
    ("csv name endless", lambda: b"a,b\nb," + b"x" * 5000 + b"\n", "line 2 has a node name"),
    ("csv cell endless", lambda: b"a,b\nb," + b"x" * 200_000 + b"\n", "rows are malformed"),
    ("csv quote never closed", lambda: b'a,b\n"b,c\n' + b"c,d\n" * 50, "line 2 has a quote that is never closed"),
    ("csv of comments", lambda: b"# nothing\n\n%\n", "it has no edges"),
    ("txt of blanks", lambda: b"   \n\t\n", "it has no edges"),
    ("csv directed", lambda: b"0,1\n1,0\n1,2\n", "graph is directed"),
    ("csv.gz not packed", lambda: b"0,1\n", "not a whole gzip file"),
    ("csv.gz cut short", lambda: gzip.compress(b"0,1\n" * 1000)[:-9], "not a whole gzip file"),
    ("csv.gz garbled", lambda: gzip.compress(b"0,1\n" * 1000)[:20] + b"\xff" * 40, "not a whole gzip file"),
    ("csv.gz with a wrong checksum", lambda: gzip.compress(b"0,1\n")[:-8] + b"\0" * 8, "not a whole gzip file"),
    ("csv.gz bomb", lambda: gzip.compress(b"\n" * (MEMORY // 2)), "unfold to a text of more than the limit of"),
    ("mtx.gz bomb in mtx", lambda: gzip.compress(b"%" * (MEMORY // 2)), "unfold to a text of more than the limit of"),
    ("csv too long", lambda: b"\n" * (MEMORY // 2), "text is longer than"),
    ("mtx of nothing known", lambda: b"1 2 3\n", "does not begin with a header such as"),
    ("mtx of a vector", lambda: b"%%MatrixMarket vector coordinate real general\n", "does not begin with"),
    ("mtx without sizes", lambda: COORDINATE.encode(), "line of sizes"),
    ("mtx with negative sizes", lambda: f"{COORDINATE}-2 -2 1\n1 1 1\n".encode(), "line of sizes"),
    (
        "mtx with 5,000 digits",
        lambda: f"{COORDINATE}{'9' * 5000} {'9' * 5000} 1\n1 1 1\n".encode(),
        "no real graph has",
    ),
    (
        "mtx with 10^12 entries",
        lambda: f"{COORDINATE}9 9 1000000000000\n1 1 1\n".encode(),
        "1000000000000 are declared",
    ),
    ("mtx with 10^15 rows", lambda: f"{COORDINATE}{10**15} {10**15} 1\n1 1 1\n".encode(), "no real graph has"),
    ("mtx with 10^15 rows and none", lambda: f"{COORDINATE}{10**15} {10**15} 0\n".encode(), "no real graph has"),
    (
        "mtx dense and too large",
        lambda: b"%%MatrixMarket matrix array real general\n99999 99999\n1\n",
        "9999800001 are declared",
    ),
    ("mtx not square", lambda: f"{COORDINATE}2 3 1\n1 1 1\n".encode(), "must be square"),
    ("mtx complex", lambda: COORDINATE.replace("real", "complex").encode() + b"2 2 0\n", "complex entries"),
    ("mtx skew", lambda: COORDINATE.replace("general", "skew-symmetric").encode() + b"2 2 0\n", "skew-symmetric"),
    ("mtx cut short", lambda: f"{COORDINATE}2 2 2\n1 2 1.0000\n".encode(), "entries are malformed"),
    ("mtx with too many entries", lambda: f"{COORDINATE}2 2 1\n1 2 1\n2 1 1\n".encode(), "entries are malformed"),
    ("mtx outside", lambda: f"{COORDINATE}2 2 1\n1 3 1\n".encode(), "entries are malformed"),
    ("mtx at row 0", lambda: f"{COORDINATE}2 2 1\n0 1 1\n".encode(), "entries are malformed"),
    ("mtx with text", lambda: f"{COORDINATE}2 2 1\n1 2 heavy\n".encode(), "entries are malformed"),
    ("mtx that crashes SciPy", lambda: CRASH.encode(), "entries are malformed"),
    ("mtx with NUL", lambda: f"{COORDINATE}2 2 1\n1 2 \0\n".encode(), "NUL bytes"),
    ("mtx directed", lambda: f"{COORDINATE}2 2 1\n1 2 1\n".encode(), "graph is directed"),
    ("mtx negative", lambda: f"{COORDINATE}2 2 2\n1 2 -1\n2 1 -1\n".encode(), "must not be negative"),
    ("npz empty", lambda: b"", "it is empty"),
    ("csv.gz empty packed", lambda: gzip.compress(b""), "it has no edges"),
]


@pytest.mark.parametrize(("name", "content", "phrase"), HOSTILE, ids=[name for name, *_ in HOSTILE])
def test_hostile_file_is_refused_in_one_sentence(name, content, phrase, tmp_path, monkeypatch):
    path = tmp_path / f"graph.{name.split()[0]}"
    path.write_bytes(content())
    monkeypatch.setattr(machine, "physical_memory", lambda: MEMORY)
    tracemalloc.start()
    try:
        with pytest.raises(GraphError) as caught:
            load_graph(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    message = str(caught.value)
    assert message.startswith(f"Cannot read {path}: ")
    assert phrase in message
    assert "\n" not in message
    assert message.endswith(".")
    assert peak < MEMORY


def test_the_files_are_refused_for_their_faults_alone(tmp_path):
    for name, content in (("a.npz", npz()), ("b.npz", scipy_npz(sp.coo_array(np.ones((2, 2)) - np.eye(2))))):
        (tmp_path / name).write_bytes(content)
        assert load_graph(tmp_path / name).num_edges == 1
