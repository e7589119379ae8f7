"""A converted document as a Python script that needs neither Jupyter nor this package."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

from ..convert.documents import Document, Script
from ..files import UnusableInputError
from ..source.export import to_script
from ..source.magics import INSTALLING_MAGICS, PROCESS_MAGICS, SHOWING_MAGICS
from ..source.masking import extract_statement, mask_cell
from ..source.parsing import UnparsableError, parse_program, parse_python, syntax_error

#: The blanks in front are not given back, since what is bound may hold blanks too.
_LINE = re.compile(r"\s*+(?P<bound>[\w.,\[\]'\" ]+=\s*)?(?:(?P<bang>!)|%{1,2}(?P<name>[\w!]+))")


@dataclass(frozen=True)
class LeftOut:
    """A line of a notebook that a script cannot run, by its cell and line.

    Attributes:
        fatal: whether the program does not do the same without it.
    """

    cell: int
    line: int
    text: str
    fatal: bool


def left_out(sources: Mapping[int | None, str]) -> Iterator[LeftOut]:
    """Yield the lines of a notebook's cells that are IPython's, except those that only show or time something."""
    for cell, source in sources.items():
        if cell is None:
            continue
        masked = mask_cell(source).split("\n")
        magic = re.match(r"\s*%%", source)
        for number, line in enumerate(source.split("\n"), 1):
            found = _LINE.match(line)
            if (
                found is None
                or line == masked[number - 1]
                or extract_statement(line, masked[number - 1])
            ):
                continue
            name = "!" if found["bang"] else str(found["name"])
            if name not in SHOWING_MAGICS or found["bound"]:
                before = PROCESS_MAGICS | INSTALLING_MAGICS  # somebody can do that before the job
                fatal = bool(found["bound"]) or name not in before
                yield LeftOut(cell, number, line.strip(), fatal)
            if magic and set(masked[-1].strip()) <= {"#"} and name not in ("time", "capture"):
                break  # the rest of the cell is the magic's


def script_of(document: Document, original: Document | None = None) -> str:
    """Return the document's program as a script.

    Args:
        original: what the document was converted from, if anything. Errors name its lines.

    Raises:
        UnusableInputError: the notebook does what only IPython can do.
    """
    if isinstance(document, Script):
        return document.source
    for lost in left_out((original or document).sources):
        if lost.fatal:
            raise UnusableInputError(
                f"cell {lost.cell}, line {lost.line}: `{lost.text}` cannot run in a script; "
                "write it in Python"
            )
    script = to_script(document.notebook)
    try:
        tree = parse_program(script)
    except UnparsableError as error:
        raise UnusableInputError(
            f"the cells, one after the other, are not a Python script: {error}; write it in plain Python"
        ) from None
    named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if "get_ipython" in named:
        raise UnusableInputError("`get_ipython` exists in notebooks only; write it in Python")
    if "display" in named:
        after = [n.end_lineno or 0 for n in tree.body if _from_future(n)]
        lines = script.split("\n")
        lines.insert(max(after, default=0), "display = print  # a script has nothing to show it in")
        script = "\n".join(lines)
    return script


def _from_future(node: ast.stmt) -> bool:
    """Whether a statement is `from __future__ import`."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def imported_names(source: str) -> set[str]:
    """Return the top-level names of the modules that a program imports, anywhere in it.

    Raises:
        UnparsableError: it is no Python.
    """
    names: set[str] = set()
    for node in ast.walk(parse_python(source)):
        match node:
            case ast.Import(names=aliases):
                names.update(alias.name.partition(".")[0] for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                names.add(module.partition(".")[0])
    return names


def modules_beside(source: str, folder: Path) -> tuple[Path, ...]:
    """Return the modules and packages of a folder that a program imports, directly or through others of them."""
    found: dict[str, Path] = {}
    todo = [source]
    while todo:
        for name in sorted(imported_names(todo.pop()) - found.keys()):
            for path in (folder / name, folder / f"{name}.py"):
                texts = path.rglob("*.py") if path.is_dir() else iter([path])
                if path.exists():
                    found[name] = path
                    todo += [text for file in texts if (text := _python_text(file)) is not None]
                    break
    return tuple(found[name] for name in sorted(found))


def _python_text(file: Path) -> str | None:
    """Return the text of a Python file; None if it cannot be read or parsed."""
    try:
        text = file.read_text()
    except (OSError, ValueError):
        return None
    return text if syntax_error(text) is None else None


def find_distributions(names: set[str]) -> dict[str, str]:
    """Return the installed packages that modules come from, with their versions.

    What pip has left of a package that it removed, or is about to replace (`~name-1.0.dist-info`), is not installed.
    """
    known = packages_distributions()
    found: dict[str, str] = {}
    for package in sorted({package for name in names for package in known.get(name, ())}):
        with suppress(PackageNotFoundError):
            found[package.replace("_", "-").lower()] = version(package)
    return found


def missing_modules(names: set[str], local_modules: tuple[Path, ...]) -> set[str]:
    """Return the modules that are neither in Python's standard library nor beside the program."""
    return names - set(sys.stdlib_module_names) - {path.stem for path in local_modules}
