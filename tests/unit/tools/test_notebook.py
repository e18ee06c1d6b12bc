import json
from pathlib import Path

import pytest

from tools.notebook import executed, main

NOTEBOOKS = sorted((Path(__file__).resolve().parents[3] / "examples").glob("*.ipynb"))


def notebook(*codes):
    cells = [
        {
            "cell_type": "code",
            "id": str(number),
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": [code],
        }
        for number, code in enumerate(codes)
    ]
    text = {"cell_type": "markdown", "id": "text", "metadata": {}, "source": ["# Head"]}
    return {"cells": [text, *cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def kinds(made):
    return [[sorted(one.get("data", one["output_type"])) for one in cell.get("outputs", [])] for cell in made["cells"]]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_of_the_examples_still_shows_what_it_holds(path):
    pytest.importorskip("pandas")
    held = json.loads(path.read_text(encoding="utf-8"))
    assert kinds(executed(held)) == kinds(held)
    assert any(cell.get("outputs") for cell in held["cells"])


def test_cells_share_names_and_show_what_they_print_and_end_with():
    made = executed(notebook("a = 2\nprint('hello')\na + 1", "a * 10", "b = a"))
    _, first, second, third = (cell.get("outputs") for cell in made["cells"])
    assert first[0]["text"] == ["hello\n"]
    assert first[1]["data"]["text/plain"] == ["3"]
    assert second[0]["data"]["text/plain"] == ["20"]
    assert third == []
    assert [cell.get("execution_count") for cell in made["cells"]] == [None, 1, 2, 3]


def test_what_a_cell_writes_is_not_left_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.ipynb").write_text(
        json.dumps(notebook("from pathlib import Path\nPath('mine.txt').write_text('x')"))
    )
    main(["one.ipynb"])
    assert [one.name for one in tmp_path.iterdir()] == ["one.ipynb"]
    assert json.loads((tmp_path / "one.ipynb").read_text())["cells"][1]["outputs"][0]["data"]["text/plain"] == ["1"]


def test_what_a_cell_raises_leaves_the_notebook_as_it_was(tmp_path):
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps(notebook("1 / 0")))
    before = path.read_text()
    with pytest.raises(ZeroDivisionError):
        main([str(path)])
    assert path.read_text() == before
