"""The code blocks of README, CONTRIBUTING and documentation are run as a reader would run them, page by page.

`python` blocks of a page share one namespace. In `console` blocks the lines after `$ garnet ...` are what it prints; a
`text` block is what the block before it prints. `shell` blocks hold commands alone. Those that need a
GPU, several machines or minutes say so in a comment before them (`<!-- not run: needs a GPU -->`): of these it is only
checked that their code compiles, and that commands, options and files of the repository exist.

A page makes the files that it speaks of, but for the README, whose reader has some.
"""

import doctest
import importlib
import inspect
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from typer.main import get_command

from garnet.bench.shipped import shipped
from garnet.cli import app
from garnet.datasets import contextual_block_model, random_split
from garnet.graph.graph import as_graph
from tools.tables import pages

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = pages()
FENCE = re.compile(r"(?P<skip><!-- not run: [^>]+ -->\n+)?^```(?P<kind>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S)
PACKAGES = ["garnet", *sorted(f"garnet.{one.parent.name}" for one in (ROOT / "src/garnet").glob("*/__init__.py"))]
PACKAGES = [name for name in PACKAGES if hasattr(importlib.import_module(name), "__all__")]
SLOW = ("attack", "big-graphs", "cluster", "leave-it-on", "my-model", "stress")
LOOSE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
STUBS = "".join(
    f'{name}() {{ printf "%q " {name} "$@"; echo; }}\n' for name in ("garnet", "python", "pip", "make", "export")
)


class Block(NamedTuple):
    page: Path
    line: int
    kind: str
    code: str
    runs: bool

    @property
    def place(self):
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def blocks(page):
    text = page.read_text()
    for found in FENCE.finditer(text):
        kind = found["kind"].strip()
        if not kind.startswith("{"):
            line = text.count("\n", 0, found.start("code")) + 1
            yield Block(page, line, kind, found["code"], found["skip"] is None)


def require_output(expected, got, place):
    assert doctest.OutputChecker().check_output(expected, got, LOOSE), f"{place} prints\n{got}\nnot\n{expected}"


def require_command(words, place):
    """That a command exists and understands its options, and that the files of the repository it names exist."""
    for word in words:
        if word.startswith(("studies/", "benchmarks/", "tools/", "examples/")):
            assert (ROOT / word).is_file(), f"{place}: there is no {word}"
    if words[:3] == ["garnet", "bench", "run"] and "." not in words[3]:
        assert words[3] in (*shipped(), "unit-test", "NAME"), f"{place}: there is no study {words[3]}"
    if words[0] == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M)
        assert words[1] in targets, f"{place}: the Makefile has no {words[1]}"
    if words[0] == "garnet":
        chosen, rest = get_command(app), words[1:]
        while rest and hasattr(chosen, "commands"):
            chosen, rest = chosen.commands[rest[0]], rest[1:]
        chosen.make_context("garnet", rest)


def commands_of(block):
    """The commands that a shell would run, loops and variables expanded."""
    done = subprocess.run(["bash", "-euc", STUBS + block.code], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, f"{block.place}: {done.stderr}"
    return [shlex.split(line) for line in done.stdout.splitlines()]


class Reader:
    """Somebody who follows a page in a folder of their own."""

    def __init__(self, page, command, capsys):
        self.module = ModuleType(f"page_{page.stem.replace('-', '_')}")
        self.command, self.capsys, self.printed = command, capsys, None

    def follow(self, block):
        known = {"python": self.python, "console": self.console, "text": self.text, "toml": self.toml}
        known.get(block.kind, self.shell)(block)

    def python(self, block):
        code = compile("\n" * (block.line - 1) + block.code, str(block.page), "exec", dont_inherit=True)
        if block.runs:
            exec(code, vars(self.module))
            self.printed = self.capsys.readouterr().out

    def console(self, block):
        before, *entries = re.split(r"^\$ ", block.code, flags=re.M)
        assert entries, f"{block.place}: which line is the command?"
        assert not before, f"{block.place}: {before!r} stands before the first command"
        for entry in entries:
            line, _, expected = entry.partition("\n")
            words = shlex.split(line, comments=True)
            require_command(words, block.place)
            if block.runs:
                self.garnet(words, block)
                if expected.strip():
                    require_output(expected, self.printed, block.place)

    def shell(self, block):
        assert block.kind in ("", "shell", "bash"), f"{block.place}: nobody knows how to run {block.kind!r}"
        for words in commands_of(block):
            require_command(words, block.place)
            if block.runs:
                self.garnet(words, block)

    def garnet(self, words, block):
        assert words[0] == "garnet", f"{block.place}: only garnet is run, not {words[0]}"
        status, self.printed, told = self.command(*words[1:])
        assert status == 0, f"{block.place}: {' '.join(words)}\n{self.printed}{told}"

    def text(self, block):
        assert self.printed is not None, f"{block.place}: what prints this?"
        require_output(block.code, self.printed, block.place)

    def toml(self, block):
        tomllib.loads(block.code)


@pytest.fixture
def small():
    graph = contextual_block_model(120, classes=3, mean_degree=6, features=16, signal=3.0, seed=0)
    return as_graph(graph, split=random_split(graph.labels, train=0.2, val=0.2, seed=0))


def followed(page):
    """A page as a parameter; those that attack, train for long or need many processes are slow tests."""
    slow = page.parent.name == "howto" and page.stem in SLOW
    return pytest.param(page, id=str(page.relative_to(ROOT).with_suffix("")), marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("page", [followed(page) for page in PAGES])
def test_the_blocks_of_a_page_run(page, command, capsys, monkeypatch, tmp_path, small):
    todo = list(blocks(page))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GARNET_DATA", raising=False)
    reader = Reader(page, command, capsys)
    if page.name == "README.md":
        for name in ("graph.npz", "big.npz", "transactions.csv"):
            small.save(tmp_path / name)
        reader.module.data = small.to_pyg()
    monkeypatch.setitem(sys.modules, reader.module.__name__, reader.module)
    for block in todo:
        reader.follow(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT).with_suffix("")))
def test_no_block_of_a_page_is_overlooked(page):
    text = page.read_text()
    assert len(re.findall(r"^ *(?:```|~~~)", text, re.M)) == 2 * len(FENCE.findall(text))


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_the_site_has_a_language_to_be_coloured_by(page):
    assert [block.place for block in blocks(page) if not block.kind] == []


def test_every_page_is_in_the_table_of_contents():
    listed = set()
    for page in (DOCS / "index.md", DOCS / "reference" / "index.md"):
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(), re.M | re.S):
            names = [re.sub(r".*<(.*)>", r"\1", line) for line in tree.splitlines() if line and line[0] != ":"]
            listed |= {(page.parent / f"{name}.md").resolve() for name in names}
    assert listed == {page for page in PAGES if DOCS in page.parents} - {DOCS / "index.md"}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_reference_has_every_public_name(package):
    text = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    whole = re.findall(r"^\.\. automodule:: (\S+)\n   :members:", text, re.M)
    single = re.findall(r"^\.\. auto(?:class|function|data):: (\S+)", text, re.M)
    described = [
        getattr(importlib.import_module(module), name) for module, _, name in (s.rpartition(".") for s in single)
    ]
    for name in whole:
        module = importlib.import_module(name)
        public = [getattr(module, one) for one in getattr(module, "__all__", ())]
        # Of a whole module Sphinx shows what has a docstring, which a dictionary has not.
        described += [one for one in public if inspect.isclass(one) or inspect.isroutine(one)]
    module = importlib.import_module(package)
    assert not [name for name in module.__all__ if not any(getattr(module, name) is one for one in described)]


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    line = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-d",
        tmp_path / "trees",
        DOCS,
        tmp_path / "site",
    ]
    done = subprocess.run(line, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "<math" in (tmp_path / "site" / "method.html").read_text()
    # A reader without a network sees the same.
    fetched = re.compile(r'<(?:script|link|img)[^>]+(?:src|href)="(?:https?:)?//')
    assert not [page.name for page in (tmp_path / "site").rglob("*.html") if fetched.search(page.read_text())]
