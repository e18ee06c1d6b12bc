import sys
from dataclasses import dataclass

import pytest

from garnet.backbones import GCN
from garnet.errors import ParameterError
from garnet.purify.garnet import GARNET
from garnet.registry import BACKBONES, DEFENSES, PURIFIERS, Registry, known_name


@pytest.mark.parametrize("registry", [BACKBONES, DEFENSES, PURIFIERS])
def test_every_name_leads_to_something_that_can_be_built(registry):
    for name in registry.names():
        assert registry.name_of(registry.get(name)) == name
        assert isinstance(registry.build(name, {}), registry.get(name))


def test_capitals_and_underscores_are_fine():
    assert BACKBONES.get("GCN") is GCN
    assert PURIFIERS.get("Feature_KNN") is PURIFIERS.get("feature-knn")


def test_parameters_are_passed_on():
    assert BACKBONES.build("gcn", {"hidden": 7}) == GCN(hidden=7)
    assert PURIFIERS.build("garnet", {"k": 3}) == GARNET(k=3)


def test_did_you_mean():
    with pytest.raises(ParameterError, match=r"There is no backbone named 'gprgn'. Did you mean gprgnn"):
        BACKBONES.get("gprgn")
    with pytest.raises(
        ParameterError,
        match=r"no backbone named 'transformer'. Choose one of gcn, gprgnn, h2gcn, linkx, mlp, linear-gcn,",
    ):
        BACKBONES.get("transformer")
    with pytest.raises(ParameterError, match=r"no parameter of backbone 'gcn' named 'hiden'. Did you mean hidden\?"):
        BACKBONES.build("gcn", {"hiden": 3})
    with pytest.raises(ParameterError, match=r"named 'Hidden'. Did you mean hidden"):
        BACKBONES.build("gcn", {"Hidden": 3})
    with pytest.raises(ParameterError, match="no thing named 3"):
        known_name(3, ["one"], "thing")


def test_a_class_that_is_not_the_library_s_has_no_name():
    @dataclass(frozen=True)
    class Other(GCN):
        pass

    assert BACKBONES.name_of(Other) is None


# --- entry points -----------------------------------------------------------------------------------------------------

CODE = """
class Plain:
    def __init__(self, size, *, depth=1):
        self.size, self.depth = size, depth

def anything(**parameters):
    return parameters
"""
POINTS = """
[garnet.defenses]
Plain_One = stranger:Plain
anything = stranger:anything
broken = stranger:Missing
absent = no_such_package_at_all:Thing
tsvd = stranger:Plain
"""


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """An installed package that brings defences."""
    (tmp_path / "stranger.py").write_text(CODE)
    info = tmp_path / "stranger-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("stranger", None)


@pytest.mark.usefixtures("stranger")
def test_other_packages_bring_names():
    assert {"Plain_One", "anything", "broken"} <= set(DEFENSES.names())
    built = DEFENSES.build("Plain_One", {"size": 3, "depth": 2})
    assert (built.size, built.depth) == (3, 2)
    assert DEFENSES.build("anything", {"whatever": 1}) == {"whatever": 1}
    assert DEFENSES.names().index("tsvd") < DEFENSES.names().index("anything")


@pytest.mark.usefixtures("stranger")
def test_the_library_s_own_names_are_its_own():
    assert DEFENSES.get("tsvd").__module__ == "garnet.defenses.tsvd"
    assert DEFENSES.names().count("tsvd") == 1


@pytest.mark.usefixtures("stranger")
def test_what_other_packages_may_get_wrong():
    with pytest.raises(ParameterError, match=r"The defence 'broken', stranger:Missing, cannot be imported"):
        DEFENSES.get("broken")
    with pytest.raises(ParameterError, match=r"The defence 'absent', .* cannot be imported"):
        DEFENSES.get("absent")
    with pytest.raises(ParameterError, match=r"no parameter of defence 'Plain_One' named 'dept'. Did you mean depth"):
        DEFENSES.build("Plain_One", {"dept": 2})
    with pytest.raises(ParameterError, match=r"'Plain_One' cannot be built: missing a required argument: 'size'\."):
        DEFENSES.build("Plain_One", {})


def test_a_registry_of_nothing():
    with pytest.raises(ParameterError, match=r"no toy named 'ball'. Choose one of none"):
        Registry("toy", "garnet.toys", {}).get("ball")
