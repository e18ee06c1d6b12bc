"""The directory of a run: who may have it, what may be removed from it, and how what is finished leaves it."""

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from garnet.errors import GarnetError
from garnet.io.marker import MARKER, scratch_of
from garnet.io.publish import publish, publish_folder
from garnet.io.removal import remove
from garnet.io.scratch import Scratch, discard, forget, left_behind, state_of

NOTE = "stage-first.json"
fcntl = pytest.importorskip("fcntl", reason="locks of POSIX")


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out.npz"


def names(folder):
    return {path.name for path in folder.iterdir()}


def dead(output, key=None):
    """The directory of a run that was stopped."""
    made = Scratch.make(output.parent, output=output, key=key)
    (made.folder / NOTE).write_text("half")
    made.close()
    return made.folder


def test_a_directory_has_a_name_of_its_own_and_goes_with_its_run(tmp_path, output):
    with Scratch.make(tmp_path, output=output) as first, Scratch.make(tmp_path, output=output) as second:
        assert first.folder != second.folder
        (first.folder / "some" / "folder").mkdir(parents=True)
        (first.folder / "some" / "file").touch()
    assert not names(tmp_path)


@pytest.mark.parametrize("key", [None, {"rank": 3}])
def test_a_run_that_fails_leaves_only_what_the_same_run_can_go_on_with(tmp_path, output, key):
    with pytest.raises(KeyboardInterrupt), Scratch.claim(output, key=key):
        raise KeyboardInterrupt
    assert len(names(tmp_path)) == (0 if key is None else 1)


def test_the_same_run_takes_over_what_a_stopped_one_left(output):
    folder = dead(output, {"rank": 3})
    with Scratch.claim(output, key={"rank": 3}) as taken:
        assert taken.folder == folder
        assert names(folder) == {MARKER, NOTE}


def test_what_cannot_go_on_is_removed_by_the_next_run_for_the_output_alone(tmp_path, output):
    folder, other = dead(output), dead(tmp_path / "other.npz")
    with Scratch.claim(output) as taken:
        assert names(tmp_path) == {taken.folder.name, other.name}
        assert names(taken.folder) == {MARKER}
    assert not folder.exists()
    assert names(tmp_path) == {other.name}


def test_a_stopped_run_that_was_asked_for_something_else_is_kept(output):
    folder = dead(output, {"rank": 3, "k": 1})
    with pytest.raises(GarnetError, match="differs in rank; repeat that one"):
        Scratch.claim(output, key={"rank": 4, "k": 1})
    with Scratch.claim(output) as other:  # one that begins anew takes nothing from it
        assert other.folder != folder
    assert names(folder) == {MARKER, NOTE}


def test_while_a_run_is_at_work_nobody_has_its_directory(output):
    with Scratch.claim(output, key={"rank": 3}) as first:
        for key in ({"rank": 3}, None):
            with pytest.raises(GarnetError, match=r"Another run is writing .*out.npz; wait until it has ended"):
                Scratch.claim(output, key=key)
        ((folder, marker),) = left_behind(output.parent)
        assert state_of(folder, marker) == "at work"
        assert not discard(folder, marker)
        assert first.folder.is_dir()


def test_what_a_dead_run_left_is_removed_when_told_to(tmp_path, output):
    dead(output, {"rank": 3})
    ((folder, marker),) = left_behind(tmp_path)
    assert state_of(folder, marker) == "dead"
    assert discard(folder, marker)
    assert not names(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '"x"', "\0", '{"id": "0123456789abcdef"}', "null", "[" * 10_000])
def test_a_directory_without_a_marker_of_ours_is_nobodys(tmp_path, output, text):
    folder = tmp_path / ".garnet-0123456789abcdef"
    folder.mkdir()
    (folder / MARKER).write_text(text)
    (folder / "thesis.txt").write_text("mine")
    assert not list(left_behind(tmp_path))
    assert scratch_of(folder / "thesis.txt") is None
    with pytest.raises(GarnetError, match="Will not remove"):
        remove(folder / "thesis.txt")
    with Scratch.claim(output):
        pass
    assert names(folder) == {MARKER, "thesis.txt"}


def test_a_marker_of_another_directory_does_not_count(tmp_path, output):
    folder = dead(output)
    copied = tmp_path / ".garnet-0123456789abcdef"
    shutil.copytree(folder, copied)
    assert [found for found, _ in left_behind(tmp_path)] == [folder]
    with pytest.raises(GarnetError, match="Will not remove"):
        remove(copied / NOTE)


def test_nothing_is_removed_outside_of_a_directory_of_a_run(tmp_path):
    mine = tmp_path / "thesis.txt"
    mine.write_text("mine")
    with Scratch.make(tmp_path) as made:
        (made.folder / "work").mkdir()
        for path in (mine, tmp_path, made.folder / ".." / "thesis.txt", made.folder / "work" / ".." / ".." / mine.name):
            with pytest.raises(GarnetError, match="Will not remove"):
                remove(path)
        remove(made.folder / "nothing")
    assert mine.read_text() == "mine"


def test_links_are_removed_and_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    with Scratch.make(tmp_path) as made:
        (made.folder / "link").symlink_to(tmp_path / "mine")
        (made.folder / "deep").mkdir()
        (made.folder / "deep" / "link").symlink_to(tmp_path / "mine")
        with pytest.raises(GarnetError, match="Will not remove"):
            remove(made.folder / "link" / "thesis.txt")
        remove(made.folder / "link")
        remove(made.folder / "deep")
        (made.folder / "again").symlink_to(tmp_path / "mine")
    assert names(tmp_path) == {"mine"}
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "mine"


def test_a_link_to_the_directory_of_a_run_is_not_one(tmp_path, output):
    folder = dead(output)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder.rename(elsewhere / folder.name)
    (tmp_path / folder.name).symlink_to(elsewhere / folder.name)
    assert not list(left_behind(tmp_path))
    with pytest.raises(GarnetError, match="Will not remove"):
        remove(tmp_path / folder.name / NOTE)


def test_a_file_that_has_appeared_meanwhile_is_not_replaced(tmp_path, output):
    output.write_text("theirs")
    with Scratch.make(tmp_path, output=output) as made:
        (made.folder / "new").write_text("ours")
        with pytest.raises(GarnetError, match="has appeared meanwhile"):
            publish(made.folder / "new", output, replace=False)
        assert output.read_text() == "theirs"
        publish(made.folder / "new", output, replace=True)
    assert output.read_text() == "ours"


def test_only_what_is_in_the_directory_of_a_run_is_moved(tmp_path, output):
    (tmp_path / "thesis.npz").write_text("mine")
    (tmp_path / "mine").mkdir()
    with pytest.raises(GarnetError, match="Cannot move"):
        publish(tmp_path / "thesis.npz", output, replace=True)
    with pytest.raises(GarnetError, match="Cannot move"):
        publish_folder(tmp_path / "mine", tmp_path / "other", old=(), last="x")
    assert names(tmp_path) == {"thesis.npz", "mine"}


@pytest.mark.parametrize("missing", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
def test_a_file_system_without_hard_links_is_no_obstacle(tmp_path, output, monkeypatch, missing):
    def refuse(*_):
        raise OSError(missing, os.strerror(missing))

    monkeypatch.setattr("os.link", refuse)
    with Scratch.make(tmp_path, output=output) as made:
        for text in ("first", "second"):
            (made.folder / "new").write_text(text)
            if text == "second":
                with pytest.raises(GarnetError, match="has appeared meanwhile"):
                    publish(made.folder / "new", output, replace=False)
            else:
                publish(made.folder / "new", output, replace=False)
    assert output.read_text() == "first"


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, output, monkeypatch):
    def refuse(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refuse)
    folder = dead(output, {"rank": 3})
    with Scratch.claim(output, key={"rank": 3}) as taken:
        assert taken.folder == folder
    # Of a run on another machine nothing is known there, so it is left alone.
    folder = dead(output, {"rank": 3})
    marker = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps({**marker, "host": "elsewhere"}))
    with pytest.raises(GarnetError, match="Another run is writing"):
        Scratch.claim(output, key={"rank": 3})
    ((folder, found),) = left_behind(tmp_path)
    assert state_of(folder, found) == "unknown"
    assert not discard(folder, found)


def test_what_is_moved_to_another_file_system_arrives_whole(tmp_path, output, monkeypatch):
    def refuse(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with Scratch.make(tmp_path, output=output) as made, monkeypatch.context() as patch:
        (made.folder / "new").write_text("ours")
        link = os.link
        patch.setattr(
            "os.link", lambda source, target: (refuse if made.folder in source.parents else link)(source, target)
        )
        publish(made.folder / "new", output, replace=False)
    assert output.read_text() == "ours"
    assert names(tmp_path) == {"out.npz"}


@pytest.mark.parametrize("marked", [False, True])
def test_a_run_killed_before_it_could_mark_its_directory_is_found(tmp_path, marked):
    folder = tmp_path / ".garnet-0123456789abcdef"
    folder.mkdir()
    if marked:
        (folder / MARKER).touch()
    ((found, marker),) = left_behind(tmp_path)
    assert found == folder
    assert state_of(folder, marker) == "dead"
    assert discard(folder, marker)
    assert not names(tmp_path)


def test_a_run_that_was_stopped_before_any_stage_was_done_keeps_nobody_out(output):
    made = Scratch.make(output.parent, output=output, key={"rank": 3})
    (made.folder / "half").write_text("half")
    made.close()
    with Scratch.claim(output, key={"rank": 4}) as other:
        assert names(output.parent) == {other.folder.name}


def staged(made, **files):
    folder = made.folder / "graph"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def filled(folder, **files):
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def read(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_folder_that_has_got_a_strangers_files_meanwhile_is_left_alone(tmp_path):
    out = filled(tmp_path / "out", thesis="mine")
    with Scratch.make(tmp_path, output=out) as made:
        new = staged(made, a="new", manifest="new")
        for old in ((), ("a", "manifest")):
            with pytest.raises(GarnetError, match="meanwhile"):
                publish_folder(new, out, old=old, last="manifest")
    assert read(out) == {"thesis": "mine"}


def test_files_of_others_beside_an_earlier_result_stay_and_its_own_are_exchanged(tmp_path):
    out = filled(tmp_path / "out", a="old", b="old", manifest="old", thesis="mine")
    with Scratch.make(tmp_path, output=out) as made:
        publish_folder(staged(made, a="new", c="new", manifest="new"), out, old=["a", "b", "manifest"], last="manifest")
    assert read(out) == {"a": "new", "c": "new", "manifest": "new", "thesis": "mine"}
    assert names(tmp_path) == {"out"}


@pytest.mark.parametrize("kind", ["file in the place of a new one", "folder in the place of an old one"])
def test_what_is_in_the_way_is_said_before_anything_moves(tmp_path, kind):
    out = filled(tmp_path / "out", a="old", manifest="old")
    if kind.startswith("file"):
        (out / "c").write_text("mine")
    else:
        (out / "a").unlink()
        filled(out / "a", thesis="mine")
    with Scratch.make(tmp_path, output=out) as made, pytest.raises(GarnetError, match="move it away"):
        publish_folder(staged(made, a="new", c="new", manifest="new"), out, old=["a", "manifest"], last="manifest")
    assert (out / "manifest").read_text() == "old"
    assert (out / "c").read_text() == "mine" if kind.startswith("file") else (out / "a" / "thesis").is_file()


def test_an_exchange_that_was_stopped_keeps_the_earlier_result_and_goes_on(tmp_path, monkeypatch):
    out = filled(tmp_path / "out", a="old", b="old", manifest="old", thesis="mine")
    link, made = os.link, Scratch.make(tmp_path, output=out, key={"rank": 3})
    new, old = staged(made, a="new", b="new", manifest="new"), ["a", "b", "manifest"]

    def stopped(source, target):
        if target.name == "b":
            raise KeyboardInterrupt
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", stopped)
        with pytest.raises(KeyboardInterrupt):
            publish_folder(new, out, old=old, last="manifest")
    made.close()
    ((folder, marker),) = left_behind(tmp_path)
    assert state_of(folder, marker) == "holds an earlier result"
    assert not discard(folder, marker)
    assert read(folder / "replaced") == {"a": "old", "b": "old", "manifest": "old"}
    with Scratch.claim(out, key={"rank": 3}) as again:
        assert again.folder == folder
        publish_folder(new, out, old=old, last="manifest")
    assert read(out) == {"a": "new", "b": "new", "manifest": "new", "thesis": "mine"}
    assert names(tmp_path) == {"out"}


def test_a_folder_keeps_its_permissions(tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o700)
    with Scratch.make(tmp_path, output=out) as made:
        publish_folder(staged(made, manifest="new"), out, old=(), last="manifest")
    assert out.stat().st_mode & 0o777 == 0o700


def test_only_what_the_same_run_left_is_forgotten(tmp_path, output):
    mine, other, short = dead(output, {"rank": 3}), dead(output, {"rank": 4}), dead(output)
    forget(output, key={"rank": 3})
    assert (mine.exists(), other.exists(), short.exists()) == (False, True, False)


@pytest.mark.parametrize("stop", [False, True])
def test_a_folder_from_another_file_system_is_exchanged_or_goes_on(tmp_path, monkeypatch, stop):
    afar = Path("/dev/shm")
    if not os.access(afar, os.W_OK) or afar.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("no other file system to be had")
    out = filled(tmp_path / "out", a="old", b="old", manifest="old", thesis="mine")
    link, old = os.link, ["a", "b", "manifest"]

    def stopped(source, target):
        if target == out / "b":
            raise KeyboardInterrupt
        link(source, target)

    with Scratch.make(afar) as made:
        new = staged(made, a="new", b="new", manifest="new")
        if stop:
            with monkeypatch.context() as patch:
                patch.setattr(os, "link", stopped)
                with pytest.raises(KeyboardInterrupt):
                    publish_folder(new, out, old=old, last="manifest")
        publish_folder(new, out, old=old, last="manifest")
    assert read(out) == {"a": "new", "b": "new", "manifest": "new", "thesis": "mine"}
    assert names(tmp_path) == {"out"}
