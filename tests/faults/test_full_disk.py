"""A disk that is full, a file that may not grow, a folder that disappears: one sentence, and nothing lost or left."""

import pytest
from commands import COMMANDS, contents, each, few
from jail import Refused, require_done, require_refused

ROOM = [0, 16 << 10]  # a page is the least that a disk in memory has
SLOW_ROOM = [pages << 12 for pages in (1, 2, 3, 6, 8, 12, 16, 24, 32, 48, 64)]
SIZES = [1000]
SLOW_SIZES = [0, 1, 100, 3000, 10_000, 30_000, 100_000]


def sizes(usual, slow):
    return [*usual, *(pytest.param(size, marks=pytest.mark.campaign) for size in slow)]


def require_whole_or_refused(jail, before, command, output, **limits):
    """That a command short of room either has enough of it, or leaves nothing and says so.

    What a long one leaves to go on from is removed by `garnet clean`.
    """
    done = jail.start(*command(output), **limits).wait()
    # Records that were made are kept, whole.
    written = command.outputs(output) if done.status == 0 or command.appends else command.spare
    if done.status == 0:
        require_done(done)
        assert contents(jail.inside(output))
    else:
        require_refused(done)
    if done.status != 0 and command.long:
        jail.require_unchanged(before, [output], leftover=True)
        require_done(jail.start("clean", (jail.work / output).parent, "--yes").wait())
    jail.require_unchanged(before, written)


@pytest.mark.parametrize("command", each())
@pytest.mark.parametrize("room", sizes(ROOM, SLOW_ROOM))
def test_a_full_disk_is_one_sentence(furnished, command, room):
    (furnished.work / "disk").mkdir()
    try:
        furnished.mount(furnished.work / "disk", size=max(room, 4096))
    except Refused as why:
        pytest.skip(str(why))
    mine = furnished.inside("disk/mine.txt")
    mine.write_bytes(b"m" * (100 if room else 4096))
    output = f"disk/out{command.ending}"
    require_whole_or_refused(furnished, furnished.fingerprint(), command, output)


@pytest.mark.parametrize("command", each())
@pytest.mark.parametrize("size", sizes(SIZES, SLOW_SIZES))
def test_a_limit_on_the_size_of_files_is_one_sentence(furnished, command, size):
    require_whole_or_refused(furnished, furnished.fingerprint(), command, f"out{command.ending}", limit=size)


@pytest.mark.parametrize("command", few([one for one in COMMANDS if not one.appends]))
@pytest.mark.parametrize("share", sizes([0.5], [0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9, 0.99]))
def test_a_folder_that_disappears_meanwhile_is_one_sentence(furnished, command, share):
    (furnished.work / "place").mkdir()
    output = f"place/out{command.ending}"
    steps = furnished.run(*command(output), outputs=command.outputs(output)).steps
    for path in (furnished.work / "place", *(furnished.work / name for name in command.spare)):
        path.rename(furnished.tmp / path.name)
    (furnished.work / "place").mkdir()
    moved = (furnished.work / "place", furnished.work / "moved")
    done = furnished.run(
        *command(output), at=(moved, int(share * steps)), outputs=["place", "moved", *command.spare], leftover=True
    )
    if done.status != 0:
        require_refused(done)
