"""What all tests share."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# A console asks once, when it is first imported, and in a terminal that is none has 80 columns otherwise.
os.environ["COLUMNS"] = "200"

from garnet.cli import main
from garnet.io.scratch import Scratch

# A shell has commands in the background ignore Ctrl-C, and so would all that is started here to be stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real graphs, which are not part of the project; tests that need them are skipped without it."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GARNET_DATA", default))
    if not (folder / "cora").is_dir():
        pytest.skip(f"no real graphs in {folder}; set GARNET_DATA to the folder that has them")
    return folder


@pytest.fixture
def scratch(tmp_path) -> Iterator[Path]:
    """An empty folder in the directory of a run, from which the library may remove what it likes."""
    with Scratch.make(tmp_path) as made:
        folder = made.folder / "work"
        folder.mkdir()
        yield folder


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `garnet` with arguments; gives exit status, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["garnet", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        written = capsys.readouterr()
        return stopped.value.code or 0, written.out, written.err

    return run
