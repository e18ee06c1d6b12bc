"""What is covered, room by room."""

from tools.coverage_record import figures


def test_lines_are_counted_by_room_and_modules_named_that_lack_some():
    counts = {"errors.py": (10, 0), "io/npz.py": (20, 5), "io/ogb.py": (30, 10), "cli/__init__.py": (4, 4)}
    files = {
        f"src/garnet/{name}": {"summary": {"num_statements": lines, "missing_lines": missed}}
        for name, (lines, missed) in counts.items()
    }
    found = figures({"files": files})
    assert (found["statements"], found["missed"]) == (64, 19)
    assert found["rooms"]["io"] == {"statements": 50, "missed": 15}
    assert found["rooms"]["ground"] == {"statements": 10, "missed": 0}
    assert [one["module"] for one in found["least"]] == ["io/ogb.py", "io/npz.py", "cli/__init__.py"]
