"""HTML by Jinja2's templates, which escape what comes from the user's notebook."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader


def render_html(template: str, **values: Any) -> str:
    """Render a Jinja2 template of this folder."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """Return the Jinja2 environment, which escapes values."""
    return Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
