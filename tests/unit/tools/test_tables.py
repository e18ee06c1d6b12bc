"""What stands between the markers of a page is made of the records."""

import json
import shutil
from pathlib import Path

import pytest

from garnet.errors import GarnetError, ParameterError
from tools.tables import PLACE, pages, rendered

ROOT = Path(__file__).resolve().parents[3]
RECORDS = ROOT / "results"


def test_a_place_within_a_sentence_gets_a_value_and_one_of_its_own_a_block():
    record = json.loads((RECORDS / "cuda.json").read_text())["figures"]["agreement"]["arxiv"]["edge_jaccard"]
    text = "They share <!-- begin: cuda agreement -->0.5<!-- end --> of them.\n"
    assert rendered(text) == f"They share <!-- begin: cuda agreement -->{record:.2f}<!-- end --> of them.\n"
    lines = rendered("Before.\n\n<!-- begin: products -->\n<!-- end -->\n\nAfter.\n").split("\n")
    assert lines[:4] == ["Before.", "", "<!-- begin: products -->", ""]
    assert lines[-5:] == ["", "<!-- end -->", "", "After.", ""]
    assert all(line.startswith("| ") for line in lines[4:-5])


def test_what_is_written_once_stays_as_it_is():
    text = rendered("<!-- begin: study figure-1 -->\n<!-- end -->\n")
    assert "Singular values of the adjacency" in text
    assert rendered(text) == text


def test_a_page_follows_its_record(tmp_path):
    records = Path(shutil.copytree(RECORDS, tmp_path / "records"))
    path = records / "determinism.json"
    record = json.loads(path.read_text())
    record["figures"]["cora_pairs_of_nodes_at_one_point"] = 9_999
    path.write_text(json.dumps(record))
    place = "<!-- begin: determinism -->\n<!-- end -->\n"
    assert "9999 pairs of nodes" in rendered(place, records)
    path.unlink()
    with pytest.raises(GarnetError, match="There is no record"):
        rendered(place, records)


@pytest.mark.parametrize(
    ("place", "record", "lost"),
    [
        ("through", "through", ["beliefs", "lost"]),
        ("questions", "questions-cora", []),
        ("targets", "targets-cora", ["committee", "1", "nettack"]),
        ("products", "products", ["runs"]),
        ("recipe", "recipe-r500", ["usual"]),
        ("audit areas", "audit", []),
        ("speed", "training-cuda", ["ten seeds on cora"]),
    ],
)
def test_what_a_record_lacks_is_told_in_a_sentence(tmp_path, place, record, lost):
    """What is lost is a part of the figures, or, of some, all: there is a number instead of every part."""
    path = Path(shutil.copytree(RECORDS, tmp_path / "records")) / f"{record}.json"
    kept = json.loads(path.read_text())
    part = kept["figures"]
    for name in lost[:-1]:
        part = part[name]
    if lost:
        del part[lost[-1]]
    else:
        kept["figures"] = dict.fromkeys(part, 7)
    path.write_text(json.dumps(kept))
    with pytest.raises(GarnetError, match=rf"The record .*{record}\.json.* is damaged: .*\. To make it: "):
        rendered(f"<!-- begin: {place} -->\n<!-- end -->\n", path.parent)


def test_a_name_that_nobody_knows_is_told():
    with pytest.raises(ParameterError, match=r"no block named 'product'\. Did you mean products"):
        rendered("<!-- begin: product --><!-- end -->")


def test_every_page_closes_what_it_opens():
    for page in pages():
        text = page.read_text()
        assert text.count("<!-- begin: ") == len(PLACE.findall(text)) == text.count("<!-- end -->"), page
