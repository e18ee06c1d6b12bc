"""One module removes, one moves and replaces, and no other does either."""

import ast
from pathlib import Path

import garnet

SOURCE = Path(garnet.__file__).parent
ALONE = {"io/removal.py", "io/publish.py"}
HARMFUL = {"rmtree", "unlink", "rmdir", "removedirs", "rename", "renames", "TemporaryDirectory"}
FROM_OS = {"remove", "replace", "truncate", "ftruncate", "move"}


def removals(tree):
    """The calls in a module that take a file away or put another in its place."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name, owner = node.func.attr, node.func.value
        of_os = isinstance(owner, ast.Name) and owner.id in ("os", "shutil")
        # A text's replace has two arguments, and that of a dataclass or a date has names for them.
        of_path = name == "replace" and len(node.args) == 1 and not node.keywords
        if name in HARMFUL or (of_os and name in FROM_OS) or of_path:
            yield node


def test_no_other_module_removes_or_replaces():
    found = [
        (path.relative_to(SOURCE).as_posix(), call.func.attr)
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).as_posix() not in ALONE
        for call in removals(ast.parse(path.read_text()))
    ]
    # A record that could be written only in part is taken back.
    assert found == [("bench/record.py", "ftruncate")]
    assert all(any(removals(ast.parse((SOURCE / name).read_text()))) for name in ALONE)


def test_the_search_for_removals_finds_them():
    lines = ["shutil.rmtree(x)", "p.unlink()", "os.remove(p)", "os.replace(a, b)", "p.replace(q)", "p.rename(q)"]
    for line in lines:
        assert list(removals(ast.parse(line))), line
    for line in ("text.replace('a', 'b')", "items.remove(x)", "replace(graph, features=None)", "day.replace(year=1)"):
        assert not list(removals(ast.parse(line))), line
