"""docs/modules.md: every Python module, with the first sentence of its docstring.

python scripts/modules_page.py > docs/modules.md
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jupyter_hvd"
#: The end of a sentence; initials, versions and file names have no space behind their full stop.
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
#: What Markdown would read as markup.
MARKUP = re.compile(r"([*_<\[\]|])")


def page() -> Iterator[str]:
    yield "# Modules"
    yield ""
    yield "All Python modules by package. `make docs` writes this page from their docstrings;"
    yield "[architecture.md](architecture.md) says how they work together."
    for folder in packages():
        yield ""
        yield f"## {'.'.join(folder.relative_to(ROOT).parts)}"
        yield ""
        yield summary(folder / "__init__.py")
        modules = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if modules:
            yield ""
        for path in modules:
            yield f"- `{path.name}`: {summary(path)}"


def packages() -> list[Path]:
    """The folders of all packages, each before those within it."""
    return sorted(path.parent for path in PACKAGE.rglob("__init__.py"))


def summary(path: Path) -> str:
    """The first sentence of a module's docstring, as one line of Markdown.

    Raises `ValueError` where the module has no docstring.
    """
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    if docstring is None:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring: say what the module is for")
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    parts = END.split(paragraph)[0].split("`")
    parts[::2] = [MARKUP.sub(r"\\\1", part) for part in parts[::2]]
    text = "`".join(parts).rstrip(":")
    return text if text.endswith((".", "?", "!")) else f"{text}."


def main() -> None:
    for line in page():
        print(line)


if __name__ == "__main__":
    main()
