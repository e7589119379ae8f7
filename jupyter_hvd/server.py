"""The server's part: `POST convert`, `POST script`, `GET rules`, `POST verify`, under `/jupyter-hvd/`.

Conversion runs in a process of its own, see `worker.py`; verification is the
command `jupyter hvd verify`, its events passed on as they come. Nothing here
imports the converter or TensorFlow, so that the server starts as fast as before.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import AsyncGenerator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from .bodies import RequestError, check_keys, parse, read_folder, read_options, whole_number
from .worker import OK, read_frame, write_frame

#: A notebook's code is far smaller; outputs need not be sent.
MAX_BODY = 16 * 1024 * 1024
CONVERT_SECONDS = 30.0
VERIFY_SECONDS = 1800.0
MAX_RANKS = 64
MAX_STEPS = 1000
#: Names a verification in the environment of its processes, so that all of them can be ended.
VERIFY_VARIABLE = "JUPYTER_HVD_VERIFY"
GRACE = 10.0
#: Neither from the server's working folder nor from a notebook's is anything imported.
SAFE_PYTHON = [sys.executable, "-P", "-m"]
#: Where the server's processes work: nothing lies here that a user or a notebook could have put.
NOWHERE = "/"
VERIFY_COMMAND = [sys.executable, "-m", "jupyter_hvd", "verify"]


class WorkerError(Exception):
    """The worker gave no answer; the message is for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Worker:
    """A process that converts, started at its first use and anew after a failure."""

    def __init__(self, root: Path, limit: float = CONVERT_SECONDS) -> None:
        self.root = root
        self.limit = limit
        self._process: subprocess.Popen[bytes] | None = None
        # One thread: requests wait for one another, and the event loop for none.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="jupyter-hvd")

    async def ask(self, kind: str, body: bytes = b"{}") -> tuple[int, bytes]:
        """The HTTP status and the JSON that answer a request.

        Raises:
            WorkerError: it took too long, or the process died of it.
        """
        return await asyncio.wrap_future(self._thread.submit(self._ask, kind, body))

    def _ask(self, kind: str, body: bytes) -> tuple[int, bytes]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(self.limit, expire)
        timer.start()
        try:
            write_frame(process.stdin, kind, body)
            answer = read_frame(process.stdout)
        except OSError:
            answer = None
        finally:
            timer.cancel()
        if answer is not None:
            return int(answer[0]), answer[1]
        self.stop()
        if expired.is_set():
            raise WorkerError(504, f"the conversion took more than {self.limit:g} s and was ended")
        raise WorkerError(500, "the converter broke down; the server's log says more")

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
                [*SAFE_PYTHON, "jupyter_hvd.worker", str(self.root)],
                cwd=NOWHERE,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        return self._process

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


class Verifier:
    """Runs `jupyter hvd verify`, one notebook at a time."""

    def __init__(self, limit: float = VERIFY_SECONDS) -> None:
        self.limit = limit
        self.busy = False

    async def events(self, notebook: Any, arguments: list[str]) -> AsyncGenerator[bytes, None]:
        """The command's events, a line each; leaving the iterator ends all its processes."""
        self.busy = True
        mark = uuid.uuid4().hex
        try:
            with tempfile.TemporaryDirectory(prefix="jupyter-hvd-") as folder:
                file = Path(folder) / "notebook.ipynb"
                file.write_text(json.dumps(notebook), encoding="utf-8")
                with (Path(folder) / "errors").open("w+b") as errors:
                    process = await asyncio.create_subprocess_exec(
                        *VERIFY_COMMAND,
                        str(file),
                        *arguments,
                        cwd=folder,
                        # No terminal, whatever the server's own environment says.
                        env={**os.environ, "FORCE_COLOR": "", VERIFY_VARIABLE: mark},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        start_new_session=True,
                    )
                    try:
                        event = b""
                        async for event in self._read(process):
                            yield event
                        if b'"done"' not in event:
                            errors.seek(0)
                            yield failure(errors.read().decode(errors="replace"))
                    finally:
                        await end(process, mark)
        finally:
            self.busy = False

    async def _read(self, process: asyncio.subprocess.Process) -> AsyncGenerator[bytes, None]:
        assert process.stdout is not None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limit
        try:
            while line := await asyncio.wait_for(process.stdout.readline(), deadline - loop.time()):
                yield line
        except TimeoutError:
            yield failure(f"the verification took more than {self.limit:g} s and was ended")


def failure(text: str) -> bytes:
    """The last event of a verification that came to no verdict."""
    message = (text.strip().splitlines() or ["the verification gave no answer"])[-1]
    return json.dumps({"done": True, "holds": False, "message": message}).encode() + b"\n"


async def end(process: asyncio.subprocess.Process, mark: str) -> None:
    """Interrupt a verification, give it time to clean up, and end what is left of it."""
    if process.returncode is None:
        process.send_signal(signal.SIGINT)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE)
    await asyncio.to_thread(kill_marked, mark)
    await process.wait()


def kill_marked(mark: str) -> None:
    import psutil

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(VERIFY_VARIABLE) == mark:
                process.kill()


class Handler(APIHandler):
    """Errors are JSON with a `message`."""

    auth_resource = "jupyter-hvd"

    def initialize(self, worker: Worker, verifier: Verifier, root: Path) -> None:
        self.root = root
        self.worker = worker
        self.verifier = verifier

    def body(self) -> bytes:
        """The request's body.

        Raises:
            HTTPError: it is too large.
        """
        size = len(self.request.body)
        if size > MAX_BODY:
            limit = MAX_BODY // 1024**2
            raise web.HTTPError(413, f"{size / 1e6:.0f} MB are too much; the limit is {limit} MiB")
        return self.request.body

    async def answer(self, kind: str, body: bytes = b"{}") -> None:
        try:
            status, result = await self.worker.ask(kind, body)
        except WorkerError as error:
            raise web.HTTPError(error.status, str(error)) from None
        if status != OK:
            raise web.HTTPError(status, json.loads(result)["message"])
        await self.finish(result)


class ConvertHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        await self.answer("convert", self.body())


class ScriptHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        await self.answer("script", self.body())


class RulesHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        await self.answer("rules")


class VerifyHandler(Handler):
    """Streams one JSON object a line; a client that goes away cancels."""

    @web.authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        try:
            request = await asyncio.to_thread(parse, self.body())
            arguments = verify_arguments(request, self.root)
        except RequestError as error:
            raise web.HTTPError(400, str(error)) from None
        if self.verifier.busy:
            raise web.HTTPError(409, "another verification is running; wait for it or cancel it")
        self.set_header("Content-Type", "application/x-ndjson")
        self.set_header("X-Accel-Buffering", "no")
        self.running = asyncio.ensure_future(self.stream(request["notebook"], arguments))
        with suppress(asyncio.CancelledError, StreamClosedError):
            await self.running

    async def stream(self, notebook: Any, arguments: list[str]) -> None:
        async with aclosing(self.verifier.events(notebook, arguments)) as events:
            await self.flush()
            async for event in events:
                self.write(event)
                await self.flush()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if running := getattr(self, "running", None):
            running.cancel()


def verify_arguments(request: Mapping[str, Any], root: Path) -> list[str]:
    """What follows the file on the command line.

    Args:
        root: the folder below which the server shows files, and the notebook's path leads.

    Raises:
        RequestError: the request has another form than documented.
    """
    check_keys(request, {"notebook", "n", "steps", "options", "path"})
    if not isinstance(request.get("notebook"), dict):
        raise RequestError("`notebook` must be a notebook in nbformat's JSON")
    arguments = ["-n", str(whole_number(request, "n", MAX_RANKS)), "--events"]
    if "steps" in request:
        arguments += ["--steps", str(whole_number(request, "steps", MAX_STEPS))]
    if (folder := read_folder(request, root)) is not None:
        arguments.append(f"--beside={folder}")
    for name, value in read_options(request).items():
        if isinstance(value, bool):
            arguments.append(f"--{name}" if value else f"--no-{name}")
        else:
            text = value if isinstance(value, str) else ",".join(value)
            arguments.append(f"--{name}={text}")
    return arguments


ROUTES = {
    "convert": ConvertHandler,
    "rules": RulesHandler,
    "script": ScriptHandler,
    "verify": VerifyHandler,
}


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "jupyter_hvd.server"}]


def _load_jupyter_server_extension(server_app: Any) -> None:
    settings = server_app.web_app.settings
    root = Path(settings["server_root_dir"]).expanduser().resolve()
    parts = {"worker": Worker(root), "verifier": Verifier(), "root": root}
    base = settings["base_url"]
    routes = [
        (url_path_join(base, "jupyter-hvd", name), handler, parts)
        for name, handler in ROUTES.items()
    ]
    server_app.web_app.add_handlers(".*$", routes)
