"""Words are spelt the British way in all that people read; names in code keep the way of the libraries they meet."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

# How a word begins that is spelt the American way. Titles, and what stands in backticks, are left as they are.
AMERICAN = (
    "neighbor", "defense", "color", "center", "behavior", "favor", "honor", "labeled", "labeling", "modeled",
    "modeling", "canceled", "analyz", "optimiz", "normaliz", "standardiz", "regulariz", "randomiz", "organiz",
    "recogniz", "minimiz", "maximiz", "initializ", "visualiz", "generaliz", "symmetriz", "orthonormaliz",
    "orthogonaliz", "summariz", "serializ", "catalog", "artifact", "judgment", "traveled", "fulfill", "skeptic",
)  # fmt: skip
BRITISH_TOO = ("catalogue",)

PAGES = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
MODULES = sorted((ROOT / "src").rglob("*.py"))

QUOTED = re.compile(r"```.*?```|`[^`]*`|<!--.*?-->|\]\([^)]*\)|https?://\S+|\*[A-Z][^*\n]+\*|\"[^\"\n]*\"", re.DOTALL)
AN_AMERICAN_WORD = re.compile(rf"\b(?:un|re|mis)?(?:{'|'.join(AMERICAN)})\w*", re.IGNORECASE)
A_NAME = re.compile(
    r"\w*[a-z][A-Z]\w*|\w*_\w*|\w+=\S*|\S+/\S+|\b[a-z]+(?:-[a-z]+)+|^\s*\w+: |^\| [a-z]+ \||^\s*(?:>>>|\.\.\.).*",
    re.MULTILINE,
)


def american_words(text):
    prose = A_NAME.sub(" ", QUOTED.sub(" ", text))
    found = (match.group().lower() for match in AN_AMERICAN_WORD.finditer(prose))
    return {word for word in found if not word.startswith(BRITISH_TOO)}


def prose_of(module):
    """Docstrings and comments."""
    source = module.read_text("utf-8")
    with_docstrings = ast.Module | ast.ClassDef | ast.FunctionDef
    yield from (
        ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, with_docstrings)
    )
    yield from re.findall(r"(?<![\"'\w])# (.*)", source)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_are_british(page):
    assert not american_words(page.read_text("utf-8"))


def test_docstrings_and_comments_are_british():
    found = {module.relative_to(ROOT): american_words("\n".join(prose_of(module))) for module in MODULES}
    assert not {str(module): words for module, words in found.items() if words}


def test_an_american_word_would_be_found():
    assert american_words("The neighbor's color is *Neighborhood* in `normalize`.") == {"neighbor", "color"}
