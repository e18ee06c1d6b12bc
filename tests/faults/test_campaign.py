"""The campaign counts each of its cases once."""

import pytest
from campaign import Tally

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


def test_every_case_is_counted_once(tmp_path, capsys):
    (tmp_path / "test_many.py").write_text(MANY)
    tally = Tally()
    pytest.main(["-c", "/dev/null", f"--rootdir={tmp_path}", "-p", "no:cacheprovider", str(tmp_path)], plugins=[tally])
    assert tally.cases == {"test_many.py": {"tried": 6, "failed": 3, "skipped": 1}}
