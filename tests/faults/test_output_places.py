"""Wherever a command is told to write: what is not its own stays as it is, and a refusal is one sentence."""

import os
import shutil

import pytest
from commands import BY_NAME, COMMANDS, FILES, FOLDERS, contents, each, few
from jail import Refused, lay_bait_in, require_done, require_refused

BAD = {
    "an existing file": lambda jail, ending: _existing(jail.work / f"mine{ending}"),
    "a link to a file": lambda jail, ending: _link(
        jail.work / f"link{ending}", jail.surroundings / "letters/to-ada.txt"
    ),
    "a folder of a stranger": lambda jail, ending: _stranger(jail.work / f"folder{ending}"),
    "a link to a folder of a stranger": lambda jail, ending: _link(
        jail.work / f"link{ending}", jail.surroundings / "letters"
    ),
    "a link to itself": lambda jail, ending: _link(jail.work / f"loop{ending}", f"loop{ending}"),
    "a folder without permission": lambda jail, ending: jail.surroundings / "locked" / f"out{ending}",
    "a folder that is a file": lambda jail, ending: f"thesis.txt/out{ending}",
    "a name of 5,000 characters": lambda jail, ending: "x" * 5000 + ending,
    "a path of 5,000 characters": lambda jail, ending: "x/" * 2500 + f"out{ending}",
    "nothing": lambda jail, ending: "",
    "the root": lambda jail, ending: "/",
    "the home folder": lambda jail, ending: jail.home,
    "the working directory": lambda jail, ending: ".",
    "the working directory by its full name": lambda jail, ending: jail.work,
    "the folder above": lambda jail, ending: "..",
    "the folder of the input": lambda jail, ending: "data",
    "the folder of the input, through a link": lambda jail, ending: _link(jail.surroundings / "in", jail.work / "data"),
    "/dev/full": lambda jail, ending: "/dev/full",
    "/dev/null": lambda jail, ending: "/dev/null",
    "a link to /dev/full": lambda jail, ending: _link(jail.work / f"full{ending}", "/dev/full"),
    "a link to /dev/null": lambda jail, ending: _link(jail.work / f"null{ending}", "/dev/null"),
    "a pipe": lambda jail, ending: _pipe(jail.work / f"pipe{ending}"),
}
OTHERWISE = {
    "report": ("--title", "Another"),
    "train": ("--epochs", "3"),
    "stress": ("--epochs", "3"),
    "predict": ("--symmetrize",),
    "judge": ("--duplicates", "sum"),
}
STRANGE = {
    "a name with a newline": "two\nlines",
    "a name with a lone surrogate": "caf\udce9",
    "a name with markup": "[bold]x[/red]",
    "a name that begins with a dash": "-x",
    "a name of spaces": "  ",
    "a name that is ours": ".garnet-0",
    "a missing folder": "nowhere/out",
    "two missing folders": "nowhere/at/all",
}


def _existing(path):
    path.write_text("mine\n")
    return path.name


def _link(path, target):
    path.symlink_to(target)
    return path


def _stranger(folder):
    folder.mkdir()
    lay_bait_in(folder)
    return folder.name


def _pipe(path):
    os.mkfifo(path)
    return path.name


@pytest.mark.parametrize("command", few())
@pytest.mark.parametrize("place", BAD)
def test_a_place_that_cannot_be_meant_is_refused_and_stays_as_it_is(furnished, command, place):
    if command.appends and place in ("an existing file", "a link to a file", "a link to /dev/null", "/dev/null"):
        pytest.skip("records are added to what is there")
    output = BAD[place](furnished, command.ending)
    require_refused(furnished.run(*command(output), outputs=command.spare, timeout=20))


@pytest.mark.parametrize("command", few())
@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_is_written_to_or_refused_in_one_sentence(furnished, command, name):
    output = STRANGE[name] + command.ending
    top = output.partition("/")[0]
    done = furnished.run(*command(output), outputs=command.outputs(top))
    if done.status == 0:
        require_done(done)
        assert contents(furnished.work / output)
    else:
        require_refused(done)
        assert not (furnished.work / top).exists()


@pytest.mark.parametrize("command", each())
@pytest.mark.parametrize("way", ["name", "other name", "link", "hard link", "mount"])
def test_an_input_is_not_an_output(furnished, command, way):
    source, output = furnished.work / command.source, furnished.work / f"again{command.ending}"
    if way == "name":
        output = command.source
    elif way == "other name":
        output = f"letters/../../work/./{command.source}"
    elif way == "link":
        output.symlink_to(source)
    elif way == "hard link":
        output.hardlink_to(source)
    else:
        output.touch()
        try:
            furnished.mount(output, of=source)
        except Refused as why:
            pytest.skip(str(why))
    require_refused(furnished.run(*command(output), outputs=command.spare))


@pytest.mark.parametrize("command", each(FOLDERS))
@pytest.mark.parametrize("file", ["work/thesis.txt", "_work/thesis.txt", ".hidden", "mine.parquet", "lock", "tiles/x"])
def test_a_file_in_a_folder_that_is_written_to_is_never_lost(furnished, command, file):
    output = f"out{command.ending}"
    path = furnished.work / output / file
    path.parent.mkdir(parents=True)
    path.write_text("an only copy\n")
    require_refused(furnished.run(*command(output), "--memory", "2GB"))


@pytest.mark.parametrize("command", few(FOLDERS))
@pytest.mark.parametrize("file", ["work/thesis.txt", "_work/thesis.txt", ".garnet-fake/mine", "tmp-1", ".012.tmp"])
def test_a_file_in_a_folder_with_a_result_is_never_lost(furnished, command, file):
    output = f"out{command.ending}"
    require_done(furnished.run(*command(output), outputs=[output]))
    path = furnished.work / output / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("an only copy\n")
    before = {str(one.relative_to(furnished.work)) for one in (furnished.work / output).rglob("*") if one.is_file()}
    require_refused(furnished.run(*command(output), "--seed", "1"))
    furnished.run(*command(output))
    ours = before - {f"{output}/{file}"}
    require_done(furnished.run(*command(output), "--seed", "1", "--overwrite", outputs=ours))


@pytest.mark.parametrize("command", each(FOLDERS))
def test_a_mount_point_is_no_output_folder(furnished, command):
    output = f"disk{command.ending}"
    (furnished.work / output).mkdir()
    try:
        furnished.mount(furnished.work / output, size=1 << 26)
    except Refused as why:
        pytest.skip(str(why))
    require_refused(furnished.run(*command(output)))


@pytest.mark.parametrize("command", each(FOLDERS))
def test_a_folder_that_holds_the_input_is_no_output_folder(furnished, command):
    output = f"around{command.ending}"
    (furnished.work / output / "deep").mkdir(parents=True)
    shutil.copytree(furnished.work / "data", furnished.work / output / "deep" / "data")
    arguments = [word.replace("data/", f"{output}/deep/data/") for word in command(output)]
    require_refused(furnished.run(*arguments))


@pytest.mark.parametrize("command", each(FOLDERS))
def test_an_empty_folder_may_be_written_to(furnished, command):
    (furnished.work / f"out{command.ending}").mkdir()
    require_done(furnished.run(*command(f"out{command.ending}"), outputs=[f"out{command.ending}"]))


@pytest.mark.parametrize("command", few())
def test_a_link_to_a_folder_leads_there(furnished, command):
    place = f"../surroundings/letters/out{command.ending}"
    require_done(furnished.run(*command(f"letters/out{command.ending}"), outputs=command.outputs(place)))
    assert contents(furnished.work / place)


@pytest.mark.parametrize("command", each([one for one in COMMANDS if not one.anew]))
def test_the_same_command_again_is_done_already_and_changes_nothing(furnished, command):
    output = f"out{command.ending}"
    require_done(furnished.run(*command(output), outputs=command.outputs(output)))
    again = furnished.run(*command(output))
    require_done(again)
    assert command.appends or "done already" in again.err


@pytest.mark.parametrize("command", each([one for one in COMMANDS if not one.appends]))
def test_another_command_does_not_replace_a_result_unless_told_to(furnished, command):
    output = f"out{command.ending}"
    require_done(furnished.run(*command(output), outputs=command.outputs(output)))
    other = OTHERWISE.get(command.words.split()[0], ("--seed", "1"))
    require_refused(furnished.run(*command(output), *other))
    require_done(furnished.run(*command(output), *other, "--overwrite", outputs=command.outputs(output)))


@pytest.mark.parametrize(
    "command", few([one for one in COMMANDS if one.source == "data/graph.npz" and not one.appends])
)
def test_a_result_of_another_input_is_not_done_already(furnished, command):
    from garnet.datasets import contextual_block_model, random_split
    from garnet.graph.graph import as_graph

    output = f"out{command.ending}"
    require_done(furnished.run(*command(output), outputs=command.outputs(output)))
    graph = contextual_block_model(90, classes=3, mean_degree=8, features=12, seed=1)
    graph = as_graph(graph, split=random_split(graph.labels, train=0.3, val=0.2, seed=0))
    graph.save(furnished.work / "other.npz")
    (furnished.work / "other.npz").replace(furnished.work / command.source)
    require_refused(furnished.run(*command(output)))


@pytest.mark.parametrize("command", each([one for one in FILES if not one.appends]))
def test_a_file_of_the_users_is_replaced_when_told_to_and_nothing_else_is(furnished, command):
    output = _existing(furnished.work / f"mine{command.ending}")
    require_done(furnished.run(*command(output), "--overwrite", outputs=command.outputs(output)))
    assert contents(furnished.work / output)


@pytest.mark.parametrize("command", few())
def test_an_input_that_cannot_be_read_leaves_nothing_behind(furnished, command):
    (furnished.work / command.source).write_bytes(b"no graph")
    require_refused(furnished.run(*command(f"out{command.ending}")))


@pytest.mark.parametrize("command", each([BY_NAME["purify --memory"], *FOLDERS]))
def test_a_scratch_folder_is_left_as_it_was(furnished, command):
    _stranger(furnished.work / "scratch")
    output = f"out{command.ending}"
    require_done(furnished.run(*command(output), "--scratch", "scratch", outputs=[output]))


@pytest.mark.campaign
def test_the_demo_leaves_other_files_alone(furnished):
    _existing(furnished.work / "mine.html")
    require_refused(furnished.run("demo", "--report", "mine.html"))
    require_refused(furnished.run("demo", "--report", furnished.surroundings / "locked" / "page.html"))
