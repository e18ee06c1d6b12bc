"""The jail itself: what is done in it is seen, and nothing outside of it can be reached."""

import signal
import tempfile
from pathlib import Path

import pytest
from jail import Refused
from warden import CHECKOUT

HARM = """
import os, shutil, sys
for place in sys.argv[1:]:
    beside = os.path.join(os.path.dirname(place), "harm")
    for attempt in (os.remove, shutil.rmtree, lambda one: open(one, "w").write("harm"), lambda one: os.chmod(one, 0),
                    lambda one: os.rename(one, one + "2"), lambda one: os.mkdir(beside)):
        try:
            attempt(place)
        except OSError:
            continue
        print("harmed", place, attempt)
"""


@pytest.fixture
def canary():
    """A file and a folder outside of the jail that anybody may write to: not permissions keep commands out of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "folder").mkdir()
        (folder / "file").write_text("alive")
        for path, mode in ((folder, 0o777), (folder / "folder", 0o777), (folder / "file", 0o666)):
            path.chmod(mode)
        yield folder


def test_a_hostile_command_reaches_nothing_outside_of_the_jail(jail, canary):
    if not jail.jailer.mounts:
        pytest.skip("an ordinary user without mounts of its own is not kept from its own files")
    unmade = [Path.home() / ".garnet-canary", CHECKOUT / "garnet-canary", Path("/garnet-canary")]
    done = jail.run(canary / "file", canary / "folder", *unmade, program=HARM)
    assert (done.status, done.out) == (0, ""), done
    assert (canary / "file").read_text() == "alive"
    assert {path.name for path in canary.iterdir()} == {"file", "folder"}
    assert not any(path.exists() for path in unmade)


def test_a_command_in_the_jail_has_no_privileges_and_a_home_of_its_own(jail):
    program = (
        "import os, pathlib; print(pathlib.Path.home(), os.getcwd(), os.environ['TMPDIR'], "
        "os.access('../surroundings/locked', os.W_OK))"
    )
    assert jail.run(program=program).out.split() == [*map(str, (jail.home, jail.work, jail.tmp)), "False"]


@pytest.mark.parametrize(
    ("harm", "seen"),
    [
        ("import os; os.remove('work/thesis.txt')", "gone: work/work/thesis.txt"),
        ("open('../surroundings/letters/to-ada.txt', 'a').write('x')", "changed: surroundings/letters/to-ada.txt"),
        ("import os; os.utime('thesis.txt', (1, 1))", "changed: work/thesis.txt"),
        ("import os; os.chmod('thesis.txt', 0o700)", "changed: work/thesis.txt"),
        ("import os; os.remove('letters'); os.symlink('/', 'letters')", "changed: work/letters"),
        ("import tempfile; tempfile.mkstemp()", "new: tmp/"),
        ("open('output/.litter', 'w')", "new: work/output/.litter"),
        ("import os; os.mkdir('.garnet-1'); os.mkdir('.garnet-2')", "new: work/.garnet-1"),
    ],
)
def test_what_a_command_does_to_other_files_than_its_outputs_is_seen(jail, harm, seen):
    (jail.work / "output").mkdir()
    with pytest.raises(AssertionError, match=seen):
        jail.run(program=harm, outputs=["output/named.npz"])


def test_outputs_may_change_and_a_killed_run_may_leave_one_directory(jail):
    program = "import os; os.makedirs('out/.garnet-1/x'); os.mkdir('out/new'); open('out/new/file', 'w').write('made')"
    before = jail.fingerprint()
    jail.start(program=program).wait()
    with pytest.raises(AssertionError, match=r"new: work/out/\.garnet-1"):
        jail.require_unchanged(before, ["out/new"])
    jail.require_unchanged(before, ["out/new", "out"])
    two = jail.fingerprint()
    jail.start(program="import os; os.mkdir('out/.garnet-2'); os.mkdir('out/.garnet-3')").wait()
    with pytest.raises(AssertionError, match="left"):
        jail.require_unchanged(two, ["out/new"], leftover=True)


def test_a_signal_comes_when_a_change_of_the_file_system_is_about_to_be_made(jail):
    program = "import os\nfor name in 'abc': os.mkdir(name)"
    assert jail.run(program=program, outputs="abc").steps == 3
    for name in "abc":
        (jail.work / name).rmdir()
    done = jail.run(program=program, outputs="a", at=(signal.SIGKILL, 1))
    assert done.status == -signal.SIGKILL
    assert (jail.work / "a").is_dir()
    done = jail.run(program="open('x', 'w').write('late')", outputs="axy", at=((jail.work / "a", jail.work / "y"), 0))
    assert done.status == 0
    assert (jail.work / "y").is_dir()


def test_a_small_disk_and_a_limit_on_files(jail):
    program = "import sys; open(sys.argv[1], 'wb').write(bytes(100_000))"
    assert "File too large" in jail.run("big", program=program, limit=50_000, outputs=["big"]).err
    (jail.work / "disk").mkdir()
    try:
        jail.mount(jail.work / "disk", size=65536)
    except Refused as why:
        pytest.skip(str(why))
    assert "No space left" in jail.run("disk/big", program=program, outputs=["disk/big"]).err
    assert jail.inside("disk/big").stat().st_size <= 65536
    assert not (jail.work / "disk" / "big").exists()


def test_the_command_of_a_shell_runs_in_it_too(jail):
    done = jail.run("--version", fresh=True)
    assert done.status == 0
    assert "garnet" in done.out
