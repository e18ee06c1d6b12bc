"""What is refused as a place to write to, before any work."""

import os
from pathlib import Path

import pytest

from garnet.errors import GarnetError
from garnet.io.targets import require_apart, require_file, require_folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory, with a home folder of its own beside it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.mark.parametrize(
    ("place", "what"),
    [
        ("/", "the root"),
        ("~", "the home folder"),
        (".", "the working directory"),
        ("../work", "the working directory"),
        ("../link", "the working directory"),
        ("/proc", "a mount point"),
        ("input", "the folder of the input"),
        ("..", "contains it"),
    ],
)
def test_places_of_the_system_or_the_user_are_no_output_folder(here, place, what):
    (here / "link").symlink_to(here / "work")
    Path("input").mkdir()
    Path("input/graph.csv").write_text("0,1\n")
    with pytest.raises(GarnetError, match=what):
        require_folder(Path(place).expanduser(), inputs=[Path("input/graph.csv")])


def test_the_folder_of_the_input_is_known_through_links(here):
    Path("data").mkdir()
    Path("data/graph.csv").write_text("0,1\n")
    Path("graph.csv").symlink_to("data/graph.csv")
    Path("other").symlink_to("data")
    for output in ("data", "other"):
        with pytest.raises(GarnetError, match="the folder of the input"):
            require_folder(Path(output), inputs=[Path("graph.csv")])
    assert require_folder(Path("data/clean"), inputs=[Path("graph.csv")]) == here / "work" / "data" / "clean"


@pytest.mark.parametrize("name", ["a\nb.npz", "a\x1b[2J.npz", "a\udc80.npz", "a\0.npz", "x" * 5000 + ".npz"])
@pytest.mark.parametrize("ask", [require_file, require_folder])
def test_names_that_no_line_could_show_or_no_file_can_have_are_one_sentence(here, name, ask):
    with pytest.raises(GarnetError) as refused:
        ask(Path(name))
    said = str(refused.value)
    assert said.startswith("Cannot write ")
    assert len(said) < 1000
    assert said.isprintable()


@pytest.mark.parametrize("name", ["Zürich.npz", "東京\u3000都.npz", "a b.npz", "[red].npz"])
def test_names_in_any_script_are_fine(here, name):
    require_file(Path(name))
    require_folder(Path(name))


def test_only_what_was_said_may_be_replaced(here):
    Path("mine.npz").write_text("mine")
    Path("link.npz").symlink_to("mine.npz")
    os.link("mine.npz", "hard.npz")
    require_file("mine.npz")
    require_file("new.npz", inputs=[Path("mine.npz")], overwrite=False)
    for name in ("mine.npz", "link.npz", "hard.npz"):
        with pytest.raises(GarnetError, match="exists already"):
            require_file(name, overwrite=False)
        with pytest.raises(GarnetError, match="is read by this command"):
            require_file(name, inputs=[Path("mine.npz")], overwrite=False)


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere/out.npz", "does not exist"), ("folder", "is a folder"), ("pipe", "not a regular file")]
)
def test_what_cannot_be_a_file_is_said(here, name, why):
    Path("folder").mkdir()
    os.mkfifo("pipe")
    with pytest.raises(GarnetError, match=why):
        require_file(name)


def test_two_outputs_are_two_files(here):
    require_apart(Path("a"), None, Path("b"), None)
    with pytest.raises(GarnetError, match="written twice"):
        require_apart(Path("a"), Path("../work/a"))
