"""The process in which the server converts, so that the server itself stays responsive.

A request is a line `KIND LENGTH` and a body of that many bytes; so is an answer,
with an HTTP status for its kind. The process ends when its input does.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import IO, Any

#: A rule's code or the beginning of one.
CODE = re.compile(r"[A-Z]{1,3}[0-9]{0,3}")
TARGETS = ("keras2", "tf_keras")
OK, BAD_REQUEST, UNPROCESSABLE = 200, 400, 422


class RequestError(Exception):
    """A request that cannot be answered; the message is for the user."""


def read_frame(stream: IO[bytes]) -> tuple[str, bytes] | None:
    """The next kind and body, None at the end of the stream."""
    kind, _, length = stream.readline().decode().partition(" ")
    if not length.endswith("\n"):
        return None
    body = stream.read(int(length))
    return (kind, body) if len(body) == int(length) else None


def write_frame(stream: IO[bytes], kind: str, body: bytes) -> None:
    stream.write(f"{kind} {len(body)}\n".encode() + body)
    stream.flush()


def answer(kind: str, body: bytes) -> tuple[int, Any]:
    """The HTTP status and JSON that answer a request."""
    try:
        return OK, rules() if kind == "rules" else ROUTES[kind](parse(body))
    except RequestError as error:
        return BAD_REQUEST, {"message": str(error)}
    except RecursionError:
        return UNPROCESSABLE, {"message": "the program is nested too deeply to be converted"}


def parse(body: bytes) -> dict[str, Any]:
    """The JSON object in a request's body.

    Raises:
        RequestError: it is something else.
    """
    try:
        request = json.loads(body)
    except ValueError as error:
        raise RequestError(f"the request is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise RequestError("the request must be a JSON object")
    return request


def rules() -> list[dict[str, str]]:
    from .convert.documentation import rule_page
    from .convert.rules import RULES

    return [{"code": r.code, "name": r.name, "why": r.message, "page": rule_page(r)} for r in RULES]


def convert(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to `POST convert`.

    Raises:
        RequestError: the request has another form than documented, or is no Python notebook.
    """
    from .convert import NotPythonError, Options, convert_notebook
    from .parameters import model_sizes

    check_keys(request, {"notebook", "options"})
    notebook = read_notebook(request.get("notebook"))
    options = Options(**read_options(request))
    try:
        outcome = convert_notebook(notebook, options=options)
    except NotPythonError as error:
        raise RequestError(str(error)) from None
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return {
        "path": None,
        **outcome.as_json(),
        "output": None,
        "notebook": outcome.notebook,
        "models": model_sizes(sources),
    }


def script(request: dict[str, Any]) -> dict[str, str]:
    """The answer to `POST script`.

    Raises:
        RequestError: as for `convert`.
    """
    from .export import to_script

    check_keys(request, {"notebook"})
    return {"script": to_script(read_notebook(request.get("notebook")))}


ROUTES = {"convert": convert, "script": script}


def check_keys(given: Mapping[str, Any], known: set[str]) -> None:
    if unknown := sorted(given.keys() - known):
        raise RequestError(f"unknown field `{unknown[0]}`; there are {', '.join(sorted(known))}")


def read_options(request: Mapping[str, Any]) -> dict[str, Any]:
    """What `Options` and, joined by commas, the command line take.

    Raises:
        RequestError: the options have another form than documented.
    """
    options = request.get("options", {})
    if not isinstance(options, dict):
        raise RequestError("`options` must be an object")
    check_keys(options, {"select", "ignore", "target"})
    read: dict[str, Any] = {}
    for name, value in options.items():
        if name == "target":
            if value not in TARGETS:
                raise RequestError(f"`target` must be one of {', '.join(TARGETS)}")
            read[name] = value
        elif isinstance(value, list) and all(CODE.fullmatch(str(code)) for code in value):
            read[name] = tuple(value)
        else:
            raise RequestError(f"`{name}` must be a list of codes such as HVD2 or HVD301")
    return read


def read_notebook(value: Any) -> Any:
    """A notebook of any version of nbformat, as version 4.

    Raises:
        RequestError: it is none.
    """
    import nbformat

    if not isinstance(value, dict):
        raise RequestError("`notebook` must be a notebook in nbformat's JSON")
    try:
        notebook = nbformat.reads(json.dumps(value), as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        # nbformat raises whatever the broken place happens to cause.
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise RequestError(f"`notebook` is not a Jupyter notebook: {reason}") from None
    return notebook


def main() -> None:
    """Answer until the input ends; the output belongs to the answers alone."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while (request := read_frame(sys.stdin.buffer)) is not None:
        status, result = answer(*request)
        write_frame(answers, str(status), json.dumps(result, ensure_ascii=False).encode())


if __name__ == "__main__":
    main()
