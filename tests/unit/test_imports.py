"""The rooms of the house: imports point one way, and none goes round in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import garnet
from tools.import_graph import imports, modules

SOURCE = Path(garnet.__file__).parent
# A room may import from those on lines above its own.
ORDER = (
    ("errors", "machine", "parameters", "processors", "progress", "registry"),
    ("io",),
    ("graph",),
    ("linalg",),
    ("neighbors", "spectral"),
    ("purify",),
    ("places",),
    ("backbones",),
    ("training",),
    ("attacks", "audit", "datasets"),
    ("defenses",),
    ("bench",),
    ("report",),
    ("cli",),
)
HEAVY = ("garnet.linalg.triton_kernels", "garnet.training.sampling")  # which need Triton, and PyTorch Geometric
FLOOR = {room: floor for floor, rooms in enumerate(ORDER) for room in rooms}


MODULES = modules(SOURCE)
GRAPH = imports(MODULES)


def room(module):
    return module.split(".")[1]


def test_no_import_goes_round_in_a_circle():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        raise AssertionError(" -> ".join(error.args[1])) from None


def test_every_room_has_its_floor():
    assert {room(name) for name in MODULES if name.count(".")} - {"__main__"} == set(FLOOR)


def test_imports_point_one_way():
    wrong = [
        f"{name} imports {other}"
        for name, others in GRAPH.items()
        for other in others
        if name.count(".") and other.count(".") and "__main__" not in name
        if room(name) != room(other) and FLOOR[room(other)] > FLOOR[room(name)] - (FLOOR[room(name)] > 0)
    ]
    assert not wrong


def test_the_root_has_few_modules():
    assert len(list(SOURCE.glob("*.py"))) <= 8


def test_only_the_command_line_and_what_is_heavy_import_late():
    """Inside of functions: commands, so that `--help` is quick, and what needs a package that is heavy or optional."""
    late = {
        f"{path.relative_to(SOURCE)} imports {node.module}"
        for path in MODULES.values()
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        if path.parent.name != "cli" and node.module not in HEAVY
    }
    assert not late
