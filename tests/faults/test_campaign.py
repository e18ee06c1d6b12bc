"""The page on reliability says what the campaign found."""

import json

import pytest
from campaign import FIGURES, PAGE, Tally, table

MANY = """
import pytest

@pytest.mark.parametrize("number", range(6))
def test_some(number):
    if number == 1:
        pytest.skip("not here")
    assert number < 4

@pytest.fixture
def broken():
    raise OSError

def test_none(broken):
    pass
"""


def test_the_page_shows_the_figures_that_were_recorded():
    if not FIGURES.is_file():
        pytest.skip("the campaign has not been run: make campaign")
    assert table(json.loads(FIGURES.read_text())) in PAGE.read_text()


def test_every_case_is_counted_once(tmp_path, capsys):
    (tmp_path / "test_many.py").write_text(MANY)
    tally = Tally()
    pytest.main(["-c", "/dev/null", f"--rootdir={tmp_path}", "-p", "no:cacheprovider", str(tmp_path)], plugins=[tally])
    assert tally.cases == {"test_many.py": {"tried": 6, "failed": 3, "skipped": 1}}
