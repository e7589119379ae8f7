"""A process in which the server converts: `python -P -m jupyter_hvd.server.worker ROOT`.

So the server itself stays responsive. The process writes `ready 0` once it has imported the converter. A request is a
line `KIND LENGTH` and a body of that many bytes; so is an answer, with an HTTP status for its kind. The process ends when its
input does or the server is gone, and where one request takes far longer than the server waits.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from .request_bodies import (
    RequestError,
    check_keys,
    parse_body,
    read_folder,
    read_notebook,
    read_options,
)

OK, BAD_REQUEST, UNPROCESSABLE, BROKEN = 200, 400, 422, 500
#: The server has given up long before; this is for a process whose server is gone.
LONGEST_SECONDS = 120
#: Seconds between two looks whether the server is still there.
PAUSE = 0.5
Route = Callable[[dict[str, Any]], Any]


def read_frame(stream: IO[bytes]) -> tuple[str, bytes] | None:
    """Read the next kind and body; None at the end of the stream."""
    kind, _, length = stream.readline().decode().partition(" ")
    if not length.endswith("\n"):
        return None
    body = stream.read(int(length))
    return (kind, body) if len(body) == int(length) else None


def write_frame(stream: IO[bytes], kind: str, body: bytes) -> None:
    """Write a message, a header line with kind and length and then the body, and flush."""
    stream.write(f"{kind} {len(body)}\n".encode() + body)
    stream.flush()


def answer_request(route: Route, body: bytes) -> tuple[int, bytes]:
    """Return the HTTP status and JSON for a request.

    The JSON is ASCII, since a lone surrogate in a notebook has no encoding.
    """
    try:
        return OK, json.dumps(route(parse_body(body))).encode()
    except RequestError as error:
        return BAD_REQUEST, failure_answer(str(error))
    except (RecursionError, MemoryError):
        return UNPROCESSABLE, failure_answer("the program is nested too deeply to be converted")
    except Exception:
        traceback.print_exc()
        return BROKEN, failure_answer("the converter broke down; the server's log says more")


def failure_answer(message: str) -> bytes:
    """Encode a failure as JSON."""
    return json.dumps({"message": message}).encode()


def answer_rules(_: dict[str, Any]) -> list[dict[str, str]]:
    """Return the list of rules: the answer to `GET rules`."""
    from ..convert.documentation import format_rule_page
    from ..convert.rules import RULES

    return [
        {"code": r.code, "name": r.name, "why": r.rationale, "page": format_rule_page(r)}
        for r in RULES
    ]


def answer_convert(request: dict[str, Any], root: Path) -> dict[str, Any]:
    """Convert the notebook in a request: the answer to `POST convert`.

    Raises:
        RequestError: the request has another form than documented, or contains no Python notebook.
    """
    from ..convert import NotPythonError, OptionError, Options
    from ..convert.documents import Notebook, check_size
    from ..convert.model_parameters import list_model_sizes
    from ..convert.training_numbers import read_training_numbers
    from ..files import UnusableInputError

    check_keys(request, {"notebook", "options", "path"})
    notebook = Notebook(read_notebook(request.get("notebook")))
    try:
        check_size(notebook)
        options = Options.resolve(read_options(request), read_folder(request, root))
        if options.standalone:
            raise RequestError(
                "`standalone`: this makes a file beside the program: jupyter hvd convert does that"
            )
        outcome, converted = notebook.convert(options)
    except OptionError as error:
        raise RequestError(f"`{error.name}`: {error.problem}") from None
    except (NotPythonError, UnusableInputError) as error:
        raise RequestError(str(error)) from None
    sources = list(notebook.sources.values())
    return {
        "path": None,
        **outcome.as_json(),
        "output": None,
        "notebook": converted.notebook,
        "batch": options.batch,
        "models": list_model_sizes(sources),
        "training": read_training_numbers(notebook.sources),
    }


def answer_script(request: dict[str, Any]) -> dict[str, str]:
    """Convert the notebook in a request to a script: the answer to `POST script`.

    Raises:
        RequestError: as for `answer_convert`.
    """
    from ..source.export import to_script

    check_keys(request, {"notebook"})
    return {"script": to_script(read_notebook(request.get("notebook")))}


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent ends, even during a conversion."""
    while os.getppid() == parent:
        time.sleep(PAUSE)
    os._exit(0)


def main(root: Path) -> None:
    """Answer requests until the input ends. Only answers are written to standard output."""
    threading.Thread(target=end_with_parent, args=(os.getppid(),), daemon=True).start()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for name in ("notebook", "documents", "training_numbers"):
        importlib.import_module(f"jupyter_hvd.convert.{name}")
    write_frame(answers, "ready", b"")
    routes: dict[str, Route] = {
        "convert": partial(answer_convert, root=root),
        "rules": answer_rules,
        "script": answer_script,
    }
    # A program's tree holds nothing to collect while it is converted; what is left of it is collected behind the answer.
    gc.disable()
    while (request := read_frame(sys.stdin.buffer)) is not None:
        kind, body = request
        signal.alarm(LONGEST_SECONDS)
        status, result = answer_request(routes[kind], body)
        signal.alarm(0)
        write_frame(answers, str(status), result)
        gc.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
