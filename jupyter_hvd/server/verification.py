"""A verification for the server: `python -P -m jupyter_hvd.server.verification`.

The request is a frame on standard input, which stays open: when it ends, the client or the server
has gone, and so does this process with all that it has started. Events are lines of JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..convert import NotPythonError, OptionError, Options
from ..convert.documents import Notebook, check_size
from ..convert.unconverted_programs import common_variables, require_single_process
from ..files import UnusableInputError
from ..launch.hosts import LaunchError
from ..launch.signals import ended_by_signals
from ..verify.exact.scaled_program import verify_scaled
from ..verify.exact.verification import SEED, ExactVerification, verify_exact
from ..verify.workspace import UnconfirmedError
from .request_bodies import RequestError, read_notebook
from .worker import read_frame


def print_event(event: dict[str, Any]) -> None:
    """Write an event to standard output, as a line of JSON."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def follow_verification(request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested verification, and print each check; return the last event.

    Args:
        request: as checked by the server, with `folder` instead of `path`: see `server.VerifyHandler`.
    """
    if request["folder"] is not None:
        return run_verification(Path(request["folder"]), request)
    with TemporaryDirectory(prefix="jupyter-hvd-nothing-") as nothing:
        return run_verification(Path(nothing), request)


def run_verification(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Run the requested verification on copies of the files in `folder`; print each check as it ends.

    Returns:
        The last event: the verdict, or `message` if it could not run, or `confirm` if the user must agree first.
    """
    given = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in request["options"].items()
    }
    path, size = folder / request["name"], request["n"]
    common: dict[str, Any] = {
        "beside": folder,
        "confirmed": request["confirmed"],
        "listener": lambda check: print_event(check.as_json()),
    }
    verification: ExactVerification
    try:
        document = Notebook(read_notebook(request["notebook"]))
        check_size(document)
        part = None
        if "converted" in request:
            part = Notebook(read_notebook(request["converted"]))
            check_size(part)
        options = Options.resolve(given, folder)
        if options.batch == "global":
            verification = verify_exact(
                path,
                require_single_process(path, document),
                (size,),
                variables=common_variables(options, SEED),
                steps=request["steps"],
                **common,
            )
        else:
            verification = verify_scaled(
                path,
                document,
                (size,),
                options=options,
                part=part,
                steps=request["steps"],
                **common,
            )
    except UnconfirmedError as question:
        return {"done": True, "holds": False, "confirm": str(question)}
    except (RequestError, OptionError, NotPythonError, UnusableInputError, LaunchError) as error:
        return {"done": True, "holds": False, "message": str(error)}
    return {"done": True, **verification.as_json()}


def terminate_at_eof() -> None:
    """Wait for the end of standard input, then send this process SIGTERM so that it cleans up."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run the verification that standard input requests, and print its events."""
    frame = read_frame(sys.stdin.buffer)
    if frame is None:
        return
    with ended_by_signals():
        threading.Thread(target=terminate_at_eof, daemon=True).start()
        print_event(follow_verification(json.loads(frame[1])))


if __name__ == "__main__":
    main()
