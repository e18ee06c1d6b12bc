"""A file says which run wrote it, and nothing else about it changes."""

import os

import numpy as np
import pytest

from garnet.io.identity import digest_of, file_identity
from garnet.io.stamp import stamp, stamp_of

RUN = "0123456789abcdef"


@pytest.fixture(params=["graph.npz", "page.html", "edges.csv"])
def file(request, tmp_path):
    path = tmp_path / request.param
    if path.suffix == ".npz":
        np.savez_compressed(path, numbers=np.arange(5))
    else:
        path.write_text("a,b\n1,2\n")
    if path.suffix == ".csv":
        try:
            os.setxattr(path, "user.try", b"")
        except (AttributeError, OSError):
            pytest.skip("the file system has no attributes")
    return path


def test_what_was_stamped_is_known_again_until_it_is_changed(file):
    assert stamp_of(file) is None
    stamp(file, RUN)
    assert stamp_of(file) == RUN
    if file.suffix == ".npz":
        np.testing.assert_array_equal(np.load(file)["numbers"], np.arange(5))
    with file.open("ab") as stream:
        stream.write(b"more\n")
    assert stamp_of(file) is None


@pytest.mark.parametrize("contents", [b"", b"x", b"PK\x05\x06" + b"\0" * 18, b"garnet run 0123456789abcdef"])
@pytest.mark.parametrize("ending", [".npz", ".html", ".csv", ""])
def test_any_other_file_was_written_by_nobody(tmp_path, contents, ending):
    path = tmp_path / f"file{ending}"
    path.write_bytes(contents)
    assert stamp_of(path) is None
    assert stamp_of(tmp_path / f"nothing{ending}") is None
    assert stamp_of(tmp_path) is None


def test_a_file_is_told_by_its_bytes_and_a_folder_by_its_files(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        (folder / "raw").mkdir(parents=True)
        (folder / "raw" / "edges.csv").write_text("0,1\n")
    assert file_identity(one) == file_identity(other)
    assert file_identity(one / "raw" / "edges.csv") == file_identity(other / "raw" / "edges.csv")
    (other / "clean").mkdir()
    (other / "clean" / "part").write_text("x")
    (other / ".garnet-0123456789abcdef").mkdir()
    (other / ".garnet-0123456789abcdef" / "part").write_text("x")
    assert file_identity(other, without=[other / "clean"]) == file_identity(one)
    (other / "raw" / "edges.csv").write_text("0,2\n")
    assert file_identity(one) != file_identity(other, without=[other / "clean"])


def test_what_is_not_there_or_cannot_be_read_has_its_name(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "nothing", tmp_path / "pipe", tmp_path / ("x" * 5000)):
        assert file_identity(path) == [str(path)]


def test_runs_differ_where_anything_differs():
    facts = [{"rank": 3}, {"rank": 4}, {"rank": "3"}, {"rank": None}, {"k": 3}, {"rank": 3, "name": "\udc80"}]
    assert len({digest_of(one) for one in facts}) == len(facts)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
