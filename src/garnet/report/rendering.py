"""The templates, filled in: all text is escaped, and the page may load nothing and run no script but its own."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def fragment(template: str, **values: Any) -> Markup:
    """A template of this package with these values, as HTML that is safe."""
    return Markup(_environment().get_template(template).render(**values))


def page(**values: Any) -> str:
    """The whole page; see `templates/page.html` for what it needs."""
    style, script = _source("page.css"), _source("neighbourhood.js") + _source("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return fragment("page.html", style=Markup(style), script=Markup(script), policy=policy, **values)


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def _source(name: str) -> str:
    return files("garnet.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """By this a browser knows that a style or script is the page's own."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
