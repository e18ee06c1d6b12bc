"""The picture of the rooms is what the code says."""

from graphlib import CycleError
from xml.etree import ElementTree

import pytest

from tools.import_graph import arrows, draw, floors, imports, modules, needed

HOUSE = {
    "__init__": "from garnet.roof.tiles import lay",
    "errors": "",
    "cellar/__init__": "",
    "cellar/stones": "from garnet.errors import Crack",
    "cellar/wine": "from garnet.cellar.stones import stone\nimport garnet.errors",
    "roof/__init__": "from garnet.roof import tiles",
    "roof/tiles": "def lay():\n    from garnet.cellar import stones, wine\n    from garnet import errors",
}


@pytest.fixture
def house(tmp_path):
    """A package of two rooms above the ground."""
    for name, code in HOUSE.items():
        file = tmp_path / "garnet" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return tmp_path / "garnet"


def test_imports_anywhere_in_a_module_are_found(house):
    found = imports(modules(house))
    assert found["garnet.roof.tiles"] == {"garnet.cellar.stones", "garnet.cellar.wine", "garnet.errors"}
    assert found["garnet.cellar.wine"] == {"garnet.cellar.stones", "garnet.errors"}
    assert found["garnet.errors"] == set()


def test_arrows_are_counted_between_rooms_and_decide_the_floors(house):
    led = arrows(modules(house))
    assert led == {("cellar", "ground"): 2, ("roof", "cellar"): 2, ("roof", "ground"): 1}
    assert floors(led) == [["ground"], ["cellar"], ["roof"]]
    assert needed(led) == {("roof", "cellar"), ("cellar", "ground")}


def test_a_circle_has_no_floors(house):
    (house / "cellar" / "wine.py").write_text("from garnet.roof.tiles import lay")
    with pytest.raises(CycleError):
        floors(arrows(modules(house)))


def test_the_picture_has_every_room_and_every_arrow(house):
    known = modules(house)
    tag = "{http://www.w3.org/2000/svg}"
    picture = ElementTree.fromstring(draw(known))
    names = [text.text for text in picture.iter(f"{tag}text") if text.get("class") == "name"]
    assert names[1:] == ["roof", "cellar", "ground"]
    assert len(picture.findall(f"{tag}g")) == len(arrows(known))
