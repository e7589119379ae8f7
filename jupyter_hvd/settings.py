"""Settings of a project: the table `[tool.jupyter-hvd]` of the nearest `pyproject.toml`."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from .files import UnusableInputError


def settings_near(path: Path) -> dict[str, Any]:
    """The settings for a file, from its folder or the nearest above that has a `pyproject.toml`.

    Raises:
        UnusableInputError: the file is no TOML, or names a setting that there is none of.
    """
    from .convert import Options

    start = path.resolve()
    for folder in (start if start.is_dir() else start.parent, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            break
    else:
        return {}
    try:
        table = tomllib.loads(file.read_text()).get("tool", {}).get("jupyter-hvd", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnusableInputError(f"{file}: {error}") from None
    known = {field.name for field in fields(Options)}
    settings = {name.replace("-", "_"): value for name, value in table.items()}
    for name, value in settings.items():
        if name not in known:
            raise UnusableInputError(f"{file}: there is no setting {name!r} in [tool.jupyter-hvd]")
        if isinstance(value, list):
            settings[name] = tuple(value)
    return settings


def installed_target() -> Literal["keras2", "tf_keras"]:
    """Keras 2 came with TensorFlow up to 2.15; beside newer ones it is a package of its own."""
    for name in ("tensorflow", "tensorflow-cpu", "tensorflow-gpu"):
        try:
            major, minor = version(name).split(".")[:2]
        except (PackageNotFoundError, ValueError):
            continue
        return "tf_keras" if (int(major), int(minor)) >= (2, 16) else "keras2"
    return "keras2"
