"""Routes of the Jupyter server: `POST convert`, `POST script`, `GET rules`, `POST verify`, under `/jupyter-hvd/`.

Conversions run in a few processes of their own, see `worker.py`; verification in
another, see `verification.py`, its events passed on as they come. Nothing here
imports the converter or TensorFlow, so that the server starts as fast as before.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import threading
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.iostream import StreamClosedError

from ..convert.conversion_limit import CONVERSION_SECONDS
from .request_bodies import RequestError, parse_body, read_verification_request
from .worker import OK, read_frame, write_frame

#: A notebook's code is far smaller; outputs need not be sent.
MAX_BODY = 16 * 1024 * 1024
#: So much is read of a body that is too large, before the connection is closed.
MAX_DRAINED = 4 * MAX_BODY
#: The last event of a verification has all changes in it.
MAX_EVENT = 256 * 1024 * 1024
#: Processes that convert: so many slow notebooks hold up no other.
MAX_WORKERS = 3
#: Seconds in which a process must be ready to convert.
START_SECONDS = 120.0
VERIFY_SECONDS = 1800.0
#: Names a verification in the environment of its processes, so that all of them can be ended.
VERIFY_VARIABLE = "JUPYTER_HVD_VERIFY"
GRACE = 10.0
#: Neither from the server's working folder nor from a notebook's is anything imported.
SAFE_PYTHON = [sys.executable, "-P", "-m"]
#: Where the server's processes work: nothing lies here that a user or a notebook could have put.
NOWHERE = "/"


class WorkerError(Exception):
    """Raised where the worker does not answer; the message is for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Worker:
    """A process that converts, started on first use and again after a failure. It handles one request at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._process: subprocess.Popen[bytes] | None = None

    def ask_worker(self, kind: str, body: bytes, limit: float) -> tuple[int, bytes]:
        """Return the HTTP status and JSON for a request.

        Args:
            limit: seconds after which the process is ended.

        Raises:
            WorkerError: it took too long, or the process crashed.
        """
        process = self._running_process()
        answer, has_expired = self._exchange_message(process, limit, (kind, body))
        if answer is not None:
            return int(answer[0]), answer[1]
        self.stop()
        if has_expired:
            raise WorkerError(
                504,
                f"the conversion took more than {limit:g} s and was ended; make the notebook shorter, move parts of it "
                "into modules, or use `jupyter hvd convert --conversion-limit` in a terminal",
            )
        raise WorkerError(500, "the converter broke down; the server's log says more")

    def _exchange_message(
        self,
        process: subprocess.Popen[bytes],
        limit: float,
        request: tuple[str, bytes] | None = None,
    ) -> tuple[tuple[str, bytes] | None, bool]:
        """Send a request and return the process's next message, None where it ends, and whether it was ended after
        `limit` seconds.
        """
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def end_expired() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(limit, end_expired)
        timer.daemon = True
        timer.start()
        try:
            if request is not None:
                write_frame(process.stdin, *request)
            return read_frame(process.stdout), expired.is_set()
        except (OSError, ValueError):  # it has ended, or been stopped
            return None, expired.is_set()
        finally:
            timer.cancel()

    def _running_process(self) -> subprocess.Popen[bytes]:
        """Return the process after it has imported the converter, which on a busy machine takes longer than most conversions."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
                [*SAFE_PYTHON, "jupyter_hvd.server.worker", str(self.root)],
                cwd=NOWHERE,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            self._exchange_message(self._process, START_SECONDS)
        return self._process

    def stop(self) -> None:
        """Kill the process, if there is one, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


#: A request to a worker: its kind, its body, and where the answer goes.
Request = tuple[str, bytes, "Future[tuple[int, bytes]]"]


class Workers:
    """A pool of workers. A new one is started if all others are busy; a request waits only at the maximum number.

    Each is served by a thread that does not keep the server from exiting. Workers end with the server.

    Attributes:
        limit: seconds for one request.
        most: the maximum number of workers.
    """

    def __init__(
        self, root: Path, limit: float = CONVERSION_SECONDS, most: int = MAX_WORKERS
    ) -> None:
        self.root = root
        self.limit = limit
        self.most = most
        self._workers: list[Worker] = []
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._unanswered = 0
        self._lock = threading.Lock()

    async def ask_worker(self, kind: str, body: bytes = b"{}") -> tuple[int, bytes]:
        """Return the HTTP status and JSON for a request.

        Raises:
            WorkerError: it took too long, or the process crashed.
        """
        answer: Future[tuple[int, bytes]] = Future()
        with self._lock:
            if self._unanswered >= len(self._workers) < self.most:
                worker = Worker(self.root)
                self._workers.append(worker)
                threading.Thread(target=self._serve_requests, args=(worker,), daemon=True).start()
            self._unanswered += 1
            self._requests.put((kind, body, answer))
        return await asyncio.wrap_future(answer)

    def _serve_requests(self, worker: Worker) -> None:
        """Pass requests to a worker and set their results, in a thread that never returns."""
        while True:
            kind, body, answer = self._requests.get()
            tell: Callable[[], None] | None = None
            if answer.set_running_or_notify_cancel():  # else nobody waits for it any more
                try:
                    tell = partial(answer.set_result, worker.ask_worker(kind, body, self.limit))
                except Exception as error:
                    tell = partial(answer.set_exception, error)
            # This worker is free before anybody can ask again.
            with self._lock:
                self._unanswered -= 1
            if tell is not None:
                tell()

    def stop(self) -> None:
        """End all processes; the next request starts a new one."""
        with self._lock:
            for worker in self._workers:
                worker.stop()


class Claim:
    """The exclusive right of one verification, from its beginning until all its processes have ended."""

    def __init__(self) -> None:
        self.cancelled = False
        self.over = asyncio.Event()


class Verifier:
    """Verifies one notebook at a time, in a process of its own (`verification.py`)."""

    def __init__(self, limit: float = VERIFY_SECONDS) -> None:
        self.limit = limit
        self._claim: Claim | None = None

    @asynccontextmanager
    async def claim_verifier(self) -> AsyncIterator[Claim]:
        """Claim the verifier for a block; wait for a cancelled verification to end first.

        Raises:
            BusyError: another verification is running.
        """
        while self._claim is not None:
            if not self._claim.cancelled:
                raise BusyError
            await self._claim.over.wait()
        # Nothing is awaited between the question and the claim.
        claim = self._claim = Claim()
        try:
            yield claim
        finally:
            self._claim = None
            claim.over.set()

    async def stream_events(self, request: Mapping[str, Any]) -> AsyncGenerator[bytes, None]:
        """Yield the process's events, one line each; leaving the iterator ends all its processes."""
        mark = uuid.uuid4().hex
        frame = io.BytesIO()
        write_frame(frame, "verify", json.dumps(request).encode())
        with tempfile.TemporaryFile() as errors:
            process = await asyncio.create_subprocess_exec(
                *SAFE_PYTHON,
                "jupyter_hvd.server.verification",
                cwd=NOWHERE,
                # No terminal, whatever the server's own environment says.
                env={**os.environ, "FORCE_COLOR": "", VERIFY_VARIABLE: mark},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                limit=MAX_EVENT,
            )
            try:
                event = b""
                async for event in self._read_events(process, frame.getvalue()):
                    yield event
                if b'"done"' not in event:
                    errors.seek(0)
                    yield failure_event(errors.read().decode(errors="replace"))
            finally:
                await end_verification(process, mark)

    async def _read_events(
        self, process: asyncio.subprocess.Process, frame: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Send the request to the process and yield its lines; at the time limit, a failure event."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self.limit):
                with suppress(ConnectionError):
                    process.stdin.write(frame)
                    await process.stdin.drain()
                while line := await process.stdout.readline():
                    yield line
        except TimeoutError:
            yield failure_event(f"the verification took more than {self.limit:g} s and was ended")
        except ValueError:
            yield failure_event(
                f"the verification has more than {MAX_EVENT // 1024**2} MiB to say at once"
            )


class BusyError(Exception):
    """Raised where another verification is running."""


def failure_event(text: str) -> bytes:
    """Return the last event of a verification without a verdict."""
    message = (text.strip().splitlines() or ["the verification gave no answer"])[-1]
    return json.dumps({"done": True, "holds": False, "message": message}).encode() + b"\n"


async def end_verification(process: asyncio.subprocess.Process, mark: str) -> None:
    """Close a verification's input so that it cleans up, wait for a while, and kill its remaining processes."""
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)
    from ..launch.processes import end_processes

    await asyncio.to_thread(end_processes, mark, variable=VERIFY_VARIABLE)
    await process.wait()


@web.stream_request_body
class Handler(APIHandler):
    """Base of all handlers. Errors are JSON with a `message`; the body of an unauthorized request is not read."""

    auth_resource = "jupyter-hvd"

    def initialize(self, workers: Workers, verifier: Verifier, root: Path) -> None:
        """Store the shared objects; called by Tornado."""
        self.root = root
        self.workers = workers
        self.verifier = verifier
        self.chunks: list[bytes] = []
        self.received = 0
        self.is_refused = False

    async def prepare(self) -> None:  # type: ignore[override]
        """Refuse users who are not logged in, and bodies that are too long; called before the body is read."""
        await super().prepare()
        if self.current_user is None:
            raise web.HTTPError(403)
        length = self.request.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > MAX_BODY:
            self.refuse_body()

    def data_received(self, chunk: bytes) -> None:
        """Collect a piece of the body; refuse a body that is too long."""
        self.received += len(chunk)
        if self.received > MAX_BODY and not self.is_refused:
            self.refuse_body()
        if not self.is_refused:
            self.chunks.append(chunk)
        elif self.received > MAX_DRAINED and not self._finished:
            self.finish()  # which closes the connection, since there is more to read

    def refuse_body(self) -> None:
        """Answer at once that the body is too large.

        The rest of the body is read for a while and discarded, since most clients read the answer only after sending.
        """
        self.is_refused = True
        self.chunks.clear()
        message = f"the request is larger than {MAX_BODY // 1024**2} MiB; leave the outputs out"
        answer = json.dumps({"message": message})
        self.set_status(413)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", str(len(answer)))
        self.write(answer)
        self.flush()

    def read_body(self) -> bytes | None:
        """Return the request's body; None where it was refused, and an answer was sent."""
        return None if self.is_refused else b"".join(self.chunks)

    async def answer_request(self, kind: str, body: bytes | None = b"{}") -> None:
        """Send a request to a worker and finish with its answer; do nothing if `body` is None.

        Raises:
            HTTPError: the worker failed, or refused the request.
        """
        if body is None:
            return
        try:
            status, result = await self.workers.ask_worker(kind, body)
        except WorkerError as error:
            raise web.HTTPError(error.status, str(error)) from None
        if status != OK:
            raise web.HTTPError(status, json.loads(result)["message"])
        await self.finish(result)


class ConvertHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Convert the notebook in the body."""
        await self.answer_request("convert", self.read_body())


class ScriptHandler(Handler):
    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Convert the notebook in the body to a script."""
        await self.answer_request("script", self.read_body())


class RulesHandler(Handler):
    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Finish with the list of rules."""
        await self.answer_request("rules")


class VerifyHandler(Handler):
    """Streams one JSON object a line; a client that goes away cancels."""

    @web.authenticated
    @authorized("execute")  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Verify the notebook in the body and stream the events; 409 if a verification is running."""
        body = self.read_body()
        if body is None:
            return
        try:
            async with self.verifier.claim_verifier() as self.claim:
                await self.start_verification(body)
        except BusyError:
            message = "another verification is running; wait for it or cancel it"
            raise web.HTTPError(409, message) from None

    async def start_verification(self, body: bytes) -> None:
        """Check the body and stream the events of its verification until it ends or is cancelled."""
        try:
            request = read_verification_request(
                await asyncio.to_thread(parse_body, body), self.root
            )
        except RequestError as error:
            raise web.HTTPError(400, str(error)) from None
        self.set_header("Content-Type", "application/x-ndjson")
        self.set_header("X-Accel-Buffering", "no")
        self.running = asyncio.ensure_future(self.stream_events(request))
        with suppress(asyncio.CancelledError, StreamClosedError):
            await self.running

    async def stream_events(self, request: Mapping[str, Any]) -> None:
        """Write the events of a verification as they come."""
        async with aclosing(self.verifier.stream_events(request)) as events:
            await self.flush()
            async for event in events:
                self.write(event)
                await self.flush()

    def on_connection_close(self) -> None:
        """Cancel the verification when the client disconnects."""
        super().on_connection_close()
        if claim := getattr(self, "claim", None):
            claim.cancelled = True
        if running := getattr(self, "running", None):
            running.cancel()


ROUTES = {
    "convert": ConvertHandler,
    "rules": RulesHandler,
    "script": ScriptHandler,
    "verify": VerifyHandler,
}


def add_routes(server_app: Any) -> None:
    """Add the routes to a server, and tell its pages which command they may show."""
    settings = server_app.web_app.settings
    root = Path(settings["server_root_dir"]).expanduser().resolve()
    parts = {"workers": Workers(root), "verifier": Verifier(), "root": root}
    base = settings["base_url"]
    routes = [
        (url_path_join(base, "jupyter-hvd", name), handler, parts)
        for name, handler in ROUTES.items()
    ]
    server_app.web_app.add_handlers(".*$", routes)
    page = settings.setdefault("page_config_data", {})
    page |= {"jupyterHvdCommand": command_path(), "jupyterHvdRoot": str(root)}


def command_path() -> str:
    """Return the path of this environment's command, since a terminal may have another PATH; "" if it is not installed."""
    command = Path(sysconfig.get_path("scripts")) / "jupyter-hvd"
    return str(command) if command.is_file() else ""
