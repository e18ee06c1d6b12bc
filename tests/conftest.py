"""What all tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with real graphs, which are not part of the project; tests that need them are skipped without it."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GARNET_DATA", default))
    if not (folder / "cora").is_dir():
        pytest.skip(f"no real graphs in {folder}; set GARNET_DATA to the folder that has them")
    return folder
