import os
import stat

import pytest

from garnet.errors import GarnetError
from garnet.io.atomic import atomic_path


def test_file_appears_only_when_complete(tmp_path):
    target = tmp_path / "out.txt"
    with atomic_path(target) as unfinished:
        assert unfinished.is_relative_to(tmp_path)
        unfinished.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
def test_exception_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "out.txt"
    target.write_text("old")
    with pytest.raises(error), atomic_path(target) as unfinished:  # noqa: PT012
        unfinished.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_full_disk_is_said_in_one_sentence(tmp_path):
    with (
        pytest.raises(GarnetError, match=r"Cannot write .*out.txt: no space left on device\."),
        atomic_path(tmp_path / "out.txt"),
    ):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_missing_folder_is_named(tmp_path):
    with (
        pytest.raises(GarnetError, match=r"the folder .*nowhere does not exist"),
        atomic_path(tmp_path / "nowhere" / "out.txt"),
    ):
        pytest.fail("the block must not run")


def test_folder_in_the_place_of_the_file(tmp_path):
    with pytest.raises(GarnetError, match="it is a folder"), atomic_path(tmp_path):
        pytest.fail("the block must not run")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_folder_without_permission(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(GarnetError, match="permission denied"), atomic_path(tmp_path / "out.txt"):
            pytest.fail("the block must not run")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_permissions_and_links_are_kept(tmp_path):
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    with atomic_path(link) as unfinished:
        unfinished.write_text("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_longest_name_the_file_system_allows(tmp_path):
    target = tmp_path / ("x" * 255)
    with atomic_path(target) as unfinished:
        unfinished.write_text("fits")
    assert target.read_text() == "fits"
