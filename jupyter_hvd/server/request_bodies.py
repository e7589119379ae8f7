"""Reads request bodies, and refuses malformed ones with a reason.

Nothing here imports the converter, so that the server can use it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..removed_options import removed_option

#: A rule's code or the beginning of one.
CODE = re.compile(r"[A-Z]{1,3}[0-9]{0,3}")
#: Options that are true or false, and those whose values `Options` itself checks.
FLAGS = ("standalone", "guard")
PASSED_ON = ("warmup_epochs", "batch", "data")
MAX_RANKS = 64
MAX_STEPS = 1000


class RequestError(Exception):
    """Raised where a request cannot be answered; the message is for the user."""


def parse_body(body: bytes) -> dict[str, Any]:
    """Parse a request's body as a JSON object.

    Raises:
        RequestError: it is something else.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RequestError(f"the request is not JSON: {error}") from None
    except RecursionError:
        raise RequestError("the request's JSON is nested too deeply") from None
    if not isinstance(request, dict):
        raise RequestError("the request must be a JSON object")
    return request


def check_keys(body: Mapping[str, Any], allowed: set[str]) -> None:
    """Raise RequestError if a request has unknown fields."""
    if unknown := sorted(body.keys() - allowed):
        if advice := removed_option(unknown[0]):
            raise RequestError(advice)
        raise RequestError(f"unknown field `{unknown[0]}`; there are {', '.join(sorted(allowed))}")


def read_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options in a request, in the form that `Options.resolve` takes.

    Raises:
        RequestError: the options have another form than documented.
    """
    options = request.get("options", {})
    if not isinstance(options, dict):
        raise RequestError("`options` must be an object")
    check_keys(options, {"select", "ignore", *FLAGS, *PASSED_ON})
    read: dict[str, Any] = {}
    for name, value in options.items():
        if name in FLAGS:
            if not isinstance(value, bool):
                raise RequestError(f"`{name}` must be true or false")
            read[name] = value
        elif name in PASSED_ON:
            read[name] = value
        elif isinstance(value, list) and all(CODE.fullmatch(str(code)) for code in value):
            read[name] = tuple(value)
        else:
            raise RequestError(f"`{name}` must be a list of codes such as HVD2 or HVD301")
    return read


def read_folder(request: Mapping[str, Any], root: Path) -> Path | None:
    """Return the folder of the notebook at `path` below the server's root folder.

    None for a notebook that is not in a folder of this machine: its contents come from elsewhere.

    Raises:
        RequestError: there can be no such path, or it leads out of the server's folder.
    """
    path = request.get("path")
    if path is None:
        return None
    if not isinstance(path, str):
        raise RequestError("`path` must be the notebook's path on the server")
    try:
        folder = (root / path.lstrip("/")).resolve().parent
        is_there = folder.is_dir()
    except (OSError, ValueError, RuntimeError):  # a null character, a name too long, a circle
        raise RequestError("`path` cannot be a path on this server") from None
    if not folder.is_relative_to(root):
        raise RequestError("`path` must lie in the folder that the server shows")
    return folder if is_there else None


def read_verification_request(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Check a request for a verification, and return it in the form that `verify.attached` takes.

    Args:
        root: the server's root folder, below which the notebook's path leads.

    Raises:
        RequestError: the request has another form than documented.
    """
    check_keys(
        request,
        {"notebook", "n", "steps", "options", "path", "confirmed", "left", "converted"},
    )
    if not isinstance(request.get("notebook"), dict):
        raise RequestError("`notebook` must be a notebook in nbformat's JSON")
    options = read_options(request)
    confirmed = request.get("confirmed", False)
    if not isinstance(confirmed, bool):
        raise RequestError("`confirmed` must be true or false")
    folder = read_folder(request, root)
    return {
        "notebook": request["notebook"],
        "n": read_positive_integer(request, "n", MAX_RANKS),
        "steps": read_positive_integer(request, "steps", MAX_STEPS) if "steps" in request else None,
        "options": options,
        "folder": None if folder is None else str(folder),
        "name": "notebook.ipynb" if folder is None else Path(request["path"]).name,
        "confirmed": confirmed,
        **read_part(request),
    }


def read_part(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read which changes are left out, and the notebook with the others; None where all changes are made.

    Raises:
        RequestError: only one of the two is given, or it has another form than documented.
    """
    if "left" not in request and "converted" not in request:
        return {}
    left, converted = request.get("left"), request.get("converted")
    if not isinstance(left, list) or not all(type(index) is int and index >= 0 for index in left):
        raise RequestError("`left` must be a list of whole numbers from 0; `converted` needs it")
    if not isinstance(converted, dict):
        raise RequestError("`converted` must be a notebook in nbformat's JSON; `left` needs it")
    return {"left": left, "converted": converted}


def read_positive_integer(
    request: Mapping[str, Any], name: str, maximum: int, default: int | None = None
) -> int:
    """Return a field that is an integer from 1 to `maximum`.

    Raises:
        RequestError: it is missing without a default, or is something else.
    """
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= maximum:
        raise RequestError(f"`{name}` must be a whole number from 1 to {maximum}")
    return value


def read_notebook(value: Any) -> Any:
    """Convert a notebook of any nbformat version to version 4.

    Raises:
        RequestError: the value is not a notebook.
    """
    from ..convert.documents import parse_notebook

    if not isinstance(value, dict):
        raise RequestError("`notebook` must be a notebook in nbformat's JSON")
    try:
        return parse_notebook(json.dumps(value))
    except (ValueError, RecursionError) as error:
        raise RequestError(f"`notebook` is not a Jupyter notebook: {error}") from None
