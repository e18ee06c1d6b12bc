"""The documentation: pages in Markdown, the reference from docstrings. `make docs` builds it."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.domains.python import PyObject
from sphinx.util import logging

from garnet import __version__

DOCS = Path(__file__).resolve().parent

project = "GARNET"
author = "The GARNET developers"
version = release = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3

# Docstrings put code between single backticks.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
add_module_names = False
maximum_signature_line_length = 100

html_theme = "furo"
html_math_renderer = "mathml"
html_title = f"GARNET {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False

# What NumPy's two names for arrays are expanded to.
_ARRAY = re.compile(r"~?[\w.]*ndarray\[tuple\[~?[\w.]*Any, \.\.\.\], ~?[\w.]*dtype\[~?(?:\w+\.)*(\w+)\]\]")
_ARRAY_LIKE = re.compile(r"\S*_Buffer \| .*? \| \S*_NestedSequence\[complex \| bytes \| str\]")
# MathML stretches brackets by itself.
_SIZES = re.compile(r"\\[bB]igg?[lr]?(?![A-Za-z])")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?:#[^)\s]*)?\)")


def _unlink_elsewhere(app: Any, docname: str, source: list[str]) -> None:
    """Leave the text of links to folders and pages that are not the site's; other files become downloads."""
    here = (DOCS / docname).parent

    def plain(found: re.Match[str]) -> str:
        target = (here / found["target"]).resolve()
        elsewhere = target.suffix == ".md" and not target.is_relative_to(DOCS)
        return found["text"] if elsewhere or target.is_dir() else found[0]

    source[0] = _LINK.sub(plain, source[0])


def _with_short_types(text: str) -> str:
    return (
        _ARRAY_LIKE.sub("ArrayLike", _ARRAY.sub(r"NDArray[\1]", text))
        .replace("scipy.sparse._csr.", "")
        .replace("[str_]", "[str]")
    )


def _shorten_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    return signature and _with_short_types(signature), returns and _with_short_types(returns)


def _shorten_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = map(_with_short_types, lines)


def _as_mathml(tex: str, node: Any, *, block: bool) -> str:
    """An equation that browsers draw themselves, so that the site needs no script from elsewhere."""
    try:
        return tex2mathml(_SIZES.sub("", tex.replace(r"\dots", r"\ldots")), as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("cannot read the equation %s: %s", tex, error, location=node)
        return f"<code>{html.escape(tex)}</code>"


def _visit_math(translator: Any, node: nodes.math) -> None:
    translator.body.append(_as_mathml(node.astext(), node, block=False))
    raise nodes.SkipNode


def _visit_displayed_math(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_as_mathml(node.astext(), node, block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """What Sphinx calls."""
    for field in PyObject.doc_field_types:
        if field.name == "variable":
            field.label = "Attributes"
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_displayed_math, None))
    app.connect("source-read", _unlink_elsewhere)
    app.connect("autodoc-process-signature", _shorten_signature)
    # After napoleon, which writes the types of attributes.
    app.connect("autodoc-process-docstring", _shorten_docstring, priority=900)
