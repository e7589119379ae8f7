"""Settings: of a project, in `[tool.jupyter-hvd]` of the nearest `pyproject.toml`, and of a notebook, in its metadata."""

from __future__ import annotations

import json
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from .files import UnusableInputError, is_notebook
from .removed_options import removed_option

TABLE = "jupyter-hvd"
#: Where a notebook's metadata keep the options that were chosen beside its conversion.
METADATA = "jupyter_hvd"


#: A project's file is far shorter, in characters, and its keys have far fewer parts.
MAX_SETTINGS = 1_000_000
MAX_PARTS = 50
DEEP_KEY = re.compile(
    rf"^[ \t]*+\[{{0,2}}+[ \t]*+[\w\"'-]++(?:[ \t]*+\.[ \t]*+[\w\"'-]++){{{MAX_PARTS}}}",
    re.MULTILINE,
)


class OptionError(ValueError):
    """Raised for a value that an option does not accept.

    Attributes:
        name: of the option. problem: what is wrong with the value, for the user.
    """

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name, self.problem = name, problem


def settings_near(path: Path, options: type) -> dict[str, Any]:
    """Return the settings for a file, from the nearest `pyproject.toml` in its folder or above.

    Args:
        options: the dataclass of the options; constructing it checks the values.

    Raises:
        UnusableInputError: the file is not TOML, or has an unknown setting, or one of a wrong type.
    """
    for folder in project_folders(path):
        file = folder / "pyproject.toml"
        if file.is_file():
            return read_settings(file, options)
    return {}


def notebook_settings(path: Path, options: type) -> dict[str, Any]:
    """Return the options in a notebook's metadata; none if the file is not a readable notebook.

    Args:
        options: the dataclass of the options.

    Raises:
        UnusableInputError: one of them is wrong or unknown.
    """
    if not is_notebook(path):
        return {}
    try:
        metadata = json.loads(path.read_bytes())["metadata"].get(METADATA, {})
        kept = dict(metadata.get("options", {}))
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return {}
    kept = {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}
    place = f"{path}: its metadata, {METADATA}.options"
    for name, value in kept.items():
        if name not in {field.name for field in fields(options)} - {"open_ended"}:
            advice = removed_option(name) or f"there is no option {name!r}"
            raise UnusableInputError(f"{place}: {advice}")
        try:
            options(**{name: value})
        except OptionError as error:
            raise UnusableInputError(f"{place}: {error}") from None
    return kept


def project_folders(path: Path) -> Iterator[Path]:
    """Yield the folder of a file and those above, up to the first shared folder, such as `/tmp`."""
    start = path.resolve()
    for folder in (start if start.is_dir() else start.parent, *start.parents):
        if is_shared(folder):
            return
        yield folder


def is_shared(folder: Path) -> bool:
    """Whether several users can create files in a folder."""
    with suppress(FileNotFoundError):  # no place for temporary files is writable
        if folder == Path(tempfile.gettempdir()).resolve():
            return True
    sticky = stat.S_ISVTX | stat.S_IWOTH
    return folder.is_dir() and folder.stat().st_mode & sticky == sticky


def read_settings(file: Path, options: type) -> dict[str, Any]:
    """Return the entries of `[tool.jupyter-hvd]` in a file by the names of the options; none without that table.

    Raises:
        UnusableInputError: as for `settings_near`.
    """
    try:
        text = file.read_text(encoding="utf-8")
        _check_size(text)
        tables = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableInputError(f"{file}: {error}") from None
    tools = tables.get("tool", {})
    table = tools.get(TABLE, {}) if isinstance(tools, dict) else {}
    if not isinstance(table, dict):
        raise UnusableInputError(f"{file}: [tool.{TABLE}] must be a table")
    known = {field.name.replace("_", "-") for field in fields(options)} - {"open-ended"}
    settings: dict[str, Any] = {}
    for key, value in table.items():
        place = f"{file}:{line_of(text, key)}"
        # An underscore is taken for a hyphen: it is how Python spells these names.
        name = key.replace("_", "-")
        if name not in known:
            advice = removed_option(name) or f"there is no setting {key!r} in [tool.{TABLE}]"
            raise UnusableInputError(f"{place}: {advice}")
        setting: dict[str, Any] = {
            name.replace("-", "_"): tuple(value) if isinstance(value, list) else value
        }
        try:
            options(**setting)
        except OptionError as error:
            raise UnusableInputError(f"{place}: {key}: {error.problem}") from None
        settings |= setting
    return settings


def _check_size(text: str) -> None:
    """Refuse files that Python's TOML parser takes minutes for: its time is quadratic in the number of parts of a key.

    Raises:
        ValueError: the file is too large, or a key has too many parts.
    """
    if len(text) > MAX_SETTINGS:
        raise ValueError(f"{len(text) / 1e6:.1f} MB are too much for settings")
    found = DEEP_KEY.search(text)
    if found is not None:
        line = text.count("\n", 0, found.start()) + 1
        raise ValueError(f"line {line}: a key has more than {MAX_PARTS} parts")


def line_of(text: str, key: str) -> int:
    """Return the line number, from 1, of a setting: the first line with its name after the table's header."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if TABLE in line), 0)
    named = re.compile(rf"\b{re.escape(key)}\b")
    return next((i for i, line in enumerate(lines) if i >= start and named.search(line)), start) + 1
