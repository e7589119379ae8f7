"""Living ranks: ipyparallel engines under `horovodrun --gloo`, as the notebook's kernel holds them.

    kernel ── lifelines ──┬─ horovodrun ── rank 0 … rank N-1    (placed by horovodrun, Gloo rendezvous)
           └─ ipyparallel client ── controller ── engine 0 … engine N-1   (the same processes)

What is asked of the ranks and what they answer and print goes through ipyparallel;
that they are there, and that they are to stop, goes over the lifelines.
"""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from .job import LaunchError, check_size, end_processes, launcher, rank_environment
from .lifeline import ADDRESS_VARIABLE, Lifelines

#: Ports to listen on, `first-last`, for machines behind a firewall; any free ones where not set.
PORTS_VARIABLE = "JUPYTER_HVD_PORTS"
#: The controller's sockets and the kernel's own.
PORTS_NEEDED = 24

START_TIMEOUT = 120.0
#: How long the other ranks may go on when one has failed.
GRACE = 1.5
#: How long a rank may take to heed an interrupt before it is held to be stuck in an operation.
PATIENCE = 3.0
#: After how many seconds in one place, without computing, a rank is said to wait.
STALL_SECONDS = 5.0
#: How much of the time a rank may compute that is said to wait: Horovod's own threads always do a little.
IDLE_SHARE = 0.25

_TAGGED = re.compile(r"^\[(\d+)\]<(stdout|stderr)>: ?(.*)$", re.DOTALL)
_EXITED = re.compile(r"Process (\d+) exit with status code (\d+)")

Reason = Literal["interrupt", "timeout", "error", "deadlock"]


@dataclass(frozen=True)
class Text:
    """Something that a rank wrote below Python, or None for horovodrun's own words."""

    rank: int | None
    stream: str
    text: str


@dataclass(frozen=True)
class Message:
    """An IOPub message from a rank: a stream, a display, …"""

    rank: int
    kind: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a rank is: file and line of the user's cell, and the file of the innermost Python frame."""

    cell: tuple[str, int] | None
    inside: str

    @property
    def in_horovod(self) -> bool:
        return "/horovod/" in self.inside

    @property
    def in_tensorflow(self) -> bool:
        return "/tensorflow/" in self.inside


@dataclass(frozen=True)
class Stall:
    """Some ranks wait in one place and compute nothing; where all are that have not finished."""

    waiting: tuple[int, ...]
    places: Mapping[int, Place]


Output = Text | Message | Stall
Show = Callable[[Output], None]


@dataclass(frozen=True)
class Run:
    """How a call on all ranks ended.

    Attributes:
        replies: what each rank answered, by rank.
        stopped: why ranks were interrupted, if they were.
        stuck: ranks that did not heed the interrupt.
        lost: the rank that has gone, and how, where one has.
    """

    replies: Mapping[int, Any]
    stopped: Reason | None = None
    stuck: tuple[int, ...] = ()
    lost: tuple[int, str] | None = None

    @property
    def usable(self) -> bool:
        return self.lost is None and not self.stuck


class Ranks:
    """N ranks of one Horovod job. Made at once; ready some seconds later."""

    def __init__(self, size: int, hosts: str | None = None) -> None:
        """Start them.

        Raises:
            LaunchError: they cannot be started, and why.
        """
        check_size(size, hosts)
        for module, name in (
            ("tensorflow", "TensorFlow"),
            ("horovod", "Horovod"),
            ("ipyparallel", "ipyparallel"),
        ):
            if find_spec(module) is None:
                raise LaunchError(f"{name} is not installed here: see `jupyter hvd doctor`")
        self.size, self.hosts = size, hosts
        self.job = uuid.uuid4().hex
        self.ready = False
        self.started = time.monotonic()
        self.busy_with: str | None = None
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=60)
        self._exits: dict[int, int] = {}
        self._client: Any = None
        self._informed: set[str] = set()
        self._lifelines: Lifelines | None = None
        self._processes: list[subprocess.Popen[str]] = []
        self._folder = Path(tempfile.mkdtemp(prefix="jupyter-hvd-"))
        self._stopped = False
        try:
            self._launch()
        except OSError as error:
            self.stop()
            raise LaunchError(f"the ranks cannot be started: {error}") from None
        except BaseException:
            self.stop()
            raise

    # Start and stop

    def _launch(self) -> None:
        address = own_address(self.hosts)
        ports = choose_ports(address, os.environ.get(PORTS_VARIABLE))
        self._lifelines = Lifelines(
            self.job, address, ports[0] if ports else 0, lambda: self._events.put(None)
        )
        environment = {
            **rank_environment(self.job),
            ADDRESS_VARIABLE: f"{address}:{self._lifelines.port}",
        }
        held = [sys.executable, "-m", "jupyter_hvd.launch.held"]
        # horovodrun first: it takes longer, and the controller starts in its shadow.
        command = launcher(self.size, self.hosts)
        module = command.index("-m") + 1
        self._start(
            [
                *held,
                "launcher",
                *command[module:],
                sys.executable,
                "-m",
                "jupyter_hvd.launch.engine",
            ],
            environment,
            self._read_launcher,
        )
        self._start(
            [
                *held,
                "controller",
                "ipyparallel.controller",
                f"--profile-dir={self._folder}",
                f"--ip={address}",
                f"--location={address}",
                "--log-level=ERROR",
                "--IPController.use_threads=True",
                "--HeartMonitor.period=200",  # an engine counts as registered at its second beat
                "--HeartMonitor.max_heartmonitor_misses=1000000",  # who has gone, the lifelines tell
                *([f"--ports={','.join(map(str, ports[1:]))}"] if ports else []),
            ],
            environment,
            self._read_controller,
        )

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str], read: Callable[[str], None]
    ) -> None:
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._processes.append(process)

        def listen() -> None:
            assert process.stdout is not None
            with suppress(ValueError, OSError):
                for line in process.stdout:
                    read(line.rstrip("\n"))
            process.wait()
            self._events.put(None)

        threading.Thread(target=listen, name="hvd-output", daemon=True).start()

    def _read_launcher(self, line: str) -> None:
        exited = _EXITED.search(line)
        if exited is not None:
            self._exits.setdefault(int(exited[1]), int(exited[2]))
        tagged = _TAGGED.match(line)
        self._log.append(line if tagged is None else f"[{tagged[1]}] {tagged[3]}")
        if tagged is not None:
            self._events.put(Text(int(tagged[1]), tagged[2], tagged[3]))
        elif line.strip() and exited is None:
            self._events.put(Text(None, "stderr", line))

    def _read_controller(self, line: str) -> None:
        if line.strip():
            self._log.append(line)

    def wait_ready(self, progress: Callable[[str, float], None]) -> None:
        """Wait until every rank has joined Horovod and listens.

        Args:
            progress: told what is going on, and for how many seconds.

        Raises:
            LaunchError: they did not start, and why; nothing is left running.
        """
        if self.ready:
            return
        try:
            while not self._step():
                progress(self._stage(), time.monotonic() - self.started)
                with suppress(queue.Empty):
                    self._events.get(timeout=0.05)
        except BaseException:
            self.stop()
            raise
        self.ready = True

    def _step(self) -> bool:
        """Bring the start forward by what can be done now; whether it is finished."""
        assert self._lifelines is not None
        lost = self.lost()
        if lost is not None:
            raise LaunchError(f"rank {lost[0]} did not start: {lost[1]}\n{self._tail()}")
        if any(process.poll() is not None for process in self._processes):
            time.sleep(0.3)  # its last words
            raise LaunchError(f"the ranks did not start\n{self._tail()}")
        if time.monotonic() - self.started > START_TIMEOUT:
            raise LaunchError(
                f"the ranks did not start within {START_TIMEOUT:g} s: {self._stage()}\n{self._tail()}"
            )
        security = self._folder / "security"
        connection = read_json(security / "ipcontroller-engine.json")
        if connection is None:
            return False
        if self._client is None:
            if read_json(security / "ipcontroller-client.json") is None:
                return False
            from ipyparallel import Client

            self._client = Client(str(security / "ipcontroller-client.json"), timeout=30)
        for name in list(self._lifelines.members):
            if name not in self._informed:
                self._lifelines.send(name, {"connection": connection})
                self._informed.add(name)
        return sorted(self._client.ids) == list(range(self.size))

    def _stage(self) -> str:
        assert self._lifelines is not None
        stages = [
            m.told.get("stage", "starting")
            for n, m in self._lifelines.members.items()
            if n.startswith("rank")
        ]
        if len(stages) < self.size:
            return "horovodrun places them"
        order = ("starting", "importing TensorFlow", "joining Horovod", "joined")
        return order[min(map(order.index, stages))]

    def _tail(self) -> str:
        lines = [line for line in self._log if line.strip()]
        return "\n".join(lines[-12:])

    def stop(self) -> None:
        """End every process of the job."""
        if self._stopped:
            return
        self._stopped = True
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
        if self._lifelines is not None:
            self._lifelines.close()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(2)
            if process.poll() is None:
                process.kill()
        end_processes(self.job, 1.0)
        for process in self._processes:
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    # Who is there

    def told(self, rank: int) -> Mapping[str, Any]:
        """What a rank has said of itself: pid and host."""
        assert self._lifelines is not None
        member = self._lifelines.members.get(f"rank {rank}") or self._lifelines.gone.get(
            f"rank {rank}"
        )
        return member.told if member else {}

    def lost(self) -> tuple[int, str] | None:
        """The rank that went first, and how, where one has gone."""
        assert self._lifelines is not None
        for name in list(self._lifelines.gone):
            if name.startswith("rank "):
                rank = int(name.removeprefix("rank "))
                self._await_exit(rank)
                return rank, self._how(rank)
        for rank, code in list(self._exits.items()):
            return rank, describe_exit(code)
        if self._stopped or (
            self._processes and any(p.poll() is not None for p in self._processes)
        ):
            return 0, "the job was ended from outside"
        return None

    def _await_exit(self, rank: int) -> None:
        """horovodrun names the exit code a moment after the connection has ended."""
        deadline = time.monotonic() + 1.5
        while rank not in self._exits and time.monotonic() < deadline:
            time.sleep(0.02)

    def _how(self, rank: int) -> str:
        if rank in self._exits:
            return describe_exit(self._exits[rank])
        return f"its host {self.told(rank).get('host', '')} does not answer any more"

    # Calls

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        show: Show = lambda _: None,
        timeout: float | None = None,
        marker: str | None = None,
        ranks: Sequence[int] | None = None,
    ) -> Run:
        """Call a function on all ranks, pass on what they print, and wait.

        Args:
            timeout: seconds after which the ranks are interrupted.
            marker: a line that each rank writes at its end to both streams, below Python.

        An interrupt of the kernel while it waits interrupts the ranks.
        """
        from ipyparallel.serialize import PrePickled

        self._forget_events()
        ranks = range(self.size) if ranks is None else ranks
        prepared, prepared_args = PrePickled(function), [PrePickled(arg) for arg in args]
        futures = {rank: self._call(rank, prepared, prepared_args) for rank in ranks}
        waiting = Waiting(set(ranks), show, marker)
        started, stopped_at, stopped = time.monotonic(), 0.0, None
        lost = None
        while True:
            try:
                self._pump(waiting, futures)
                now = time.monotonic()
                if not waiting.open or (lost := self.lost()) is not None:
                    break
                if stopped is None:
                    self._watch(waiting, now - started)
                    stopped = waiting.reason_to_stop(now, now - started, timeout)
                    if stopped is not None:
                        self.interrupt()
                        stopped_at = now
                elif now - stopped_at > PATIENCE:
                    break
            except KeyboardInterrupt:
                if stopped is not None:
                    break
                stopped, stopped_at = "interrupt", time.monotonic()
                self.interrupt()
        if lost is None and not waiting.open:
            self._let_finish(waiting, futures)
        return Run(
            waiting.replies, stopped, tuple(sorted(waiting.open)) if lost is None else (), lost
        )

    def _call(self, rank: int, function: Any, args: list[Any]) -> Any:
        def prepare(future: Any) -> None:
            future.iopub_callbacks.append(
                lambda m: self._events.put(Message(rank, m["header"]["msg_type"], m["content"]))
            )
            future.add_done_callback(lambda _: self._events.put(None))

        client = self._client
        # By the stream, not by its socket: ZeroMQ tells once that an answer has come, and a send on
        # the bare socket would swallow that word, so that the stream never read this answer nor a later one.
        return client.send_apply_request(
            client._mux_stream,
            function,
            args,
            ident=client._engines[rank].encode(),
            message_future_hook=prepare,
        )

    def _pump(self, waiting: Waiting, futures: Mapping[int, Any]) -> None:
        """Wait for news for a moment, and take in all there is."""
        event = None
        with suppress(queue.Empty):
            event = self._events.get(timeout=0.1)
        while True:
            if event is not None:
                waiting.hear(event)
            for rank in list(waiting.open):
                if futures[rank].done():
                    waiting.answer(rank, futures[rank], time.monotonic())
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return

    def _watch(self, waiting: Waiting, elapsed: float) -> None:
        """Ask those that still run where they are, once a second, when a cell is not a short one."""
        assert self._lifelines is not None
        if elapsed < 1 or time.monotonic() - waiting.asked_at < 1:
            return
        waiting.asked_at = time.monotonic()
        for rank in list(waiting.open):
            place = self.told(rank).get("place")
            if place is not None:
                waiting.see(rank, place)
            self._lifelines.send(f"rank {rank}", {"where": True})
        waiting.tell_stall()

    def _let_finish(self, waiting: Waiting, futures: Mapping[int, Any]) -> None:
        """What was printed last may still be on its way when the answers are there."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline and not (
            waiting.all_marked() and all(f.output.done() for f in futures.values())
        ):
            with suppress(queue.Empty):
                waiting.hear(self._events.get(timeout=0.005))
        with suppress(queue.Empty):
            while True:
                waiting.hear(self._events.get_nowait())

    def _forget_events(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()

    def interrupt(self) -> None:
        """Stop what runs on the ranks, as the stop button does a cell."""
        assert self._lifelines is not None
        for rank in range(self.size):
            self._lifelines.send(f"rank {rank}", {"interrupt": True})


class Waiting:
    """What has been heard of a call so far."""

    def __init__(self, ranks: set[int], show: Show, marker: str | None) -> None:
        self.open = set(ranks)
        self.replies: dict[int, Any] = {}
        self._show = show
        self._marker = marker
        self._markers_due = 2 * len(ranks) if marker else 0
        self._first_error: float | None = None
        self._told_stall = False
        self._seen: dict[int, tuple[Place, float, float]] = {}
        self._idle_since: dict[int, float] = {}
        self.asked_at = 0.0

    def hear(self, event: Output | None) -> None:
        if (
            isinstance(event, Text)
            and self._marker is not None
            and event.text.endswith(self._marker)
        ):
            self._markers_due -= 1
            rest = event.text.removesuffix(self._marker)
            event = Text(event.rank, event.stream, rest) if rest else None
        if event is not None:
            self._show(event)

    def answer(self, rank: int, future: Any, now: float) -> None:
        self.open.discard(rank)
        try:
            reply = future.result()
        except Exception as error:
            reply = error
        if isinstance(
            reply, Exception
        ):  # ipyparallel answers with exceptions, and raises none of them
            reply = {
                "error": {
                    "type": type(reply).__name__,
                    "text": str(reply),
                    "frames": [],
                    "because": None,
                    "direct": False,
                },
                "time": time.time(),
            }
        self.replies[rank] = reply
        if isinstance(reply, dict) and reply.get("error") and self._first_error is None:
            self._first_error = now

    def all_marked(self) -> bool:
        return self._markers_due <= 0

    def reason_to_stop(self, now: float, elapsed: float, timeout: float | None) -> Reason | None:
        if timeout is not None and elapsed > timeout:
            return "timeout"
        if self._first_error is not None and now - self._first_error > GRACE:
            return "error"
        if self.replies and self.open and self._is_deadlock():
            return "deadlock"
        if self.open and all(self._waits_for_work(rank) for rank in self.open):
            return "deadlock"
        return None

    def _waits_for_work(self, rank: int) -> bool:
        """Whether a rank has long been back in its event loop, so that its answer must have been lost."""
        if rank not in self._seen:
            return False
        place = self._seen[rank][0]
        return (
            place.cell is None
            and "selector" in place.inside
            and self.idle(rank) >= 2 * STALL_SECONDS
        )

    # Ranks that wait

    def see(self, rank: int, told: Mapping[str, Any]) -> None:
        """Take in where a rank says that it is, and how much it has computed."""
        place = Place(tuple(told["cell"]) if told["cell"] else None, told["inside"])
        cpu, now = float(told["cpu"]), float(told["time"])
        if rank in self._seen:
            before, cpu_before, then = self._seen[rank]
            if now == then:
                return
            if place != before or cpu - cpu_before > IDLE_SHARE * (now - then):
                self._idle_since.pop(rank, None)
            else:
                self._idle_since.setdefault(rank, then)
        self._seen[rank] = (place, cpu, now)

    def idle(self, rank: int) -> float:
        """For how many seconds a rank has computed nothing, in one place; by its own clock."""
        if rank not in self._idle_since:
            return 0.0
        return self._seen[rank][2] - self._idle_since[rank]

    def tell_stall(self) -> None:
        """Tell once where the ranks are, when some of them have waited for long."""
        waiting = tuple(r for r in sorted(self.open) if self.idle(r) >= STALL_SECONDS - 1)
        if waiting and not self._told_stall:
            self._told_stall = True
            places = {rank: self._seen[rank][0] for rank in sorted(self.open) if rank in self._seen}
            self._show(Stall(waiting, places))

    def _is_deadlock(self) -> bool:
        """Whether all that still run wait in an operation that those who have finished take no part in."""

        def waits(rank: int) -> bool:
            if rank not in self._seen:
                return False
            place, patience = self._seen[rank][0], STALL_SECONDS - 1
            # What runs in TensorFlow need not be a collective operation: it is given longer.
            return (place.in_horovod and self.idle(rank) >= patience) or (
                place.in_tensorflow and self.idle(rank) >= 2 * patience
            )

        return all(waits(rank) for rank in self.open)


# Small pieces


def describe_exit(code: int) -> str:
    """What an exit code tells the user."""
    if code == 137:
        return "it was killed (signal 9); by the system, perhaps, because memory ran out"
    if code == 134:
        return "it aborted (signal 6); memory may have run out"
    if code == 255:
        return "its process ended with code 255; over ssh, this is a lost connection"
    if code > 128:
        return f"it was killed by signal {code - 128}"
    return f"its process ended with exit code {code}"


def read_json(path: Path) -> dict[str, Any] | None:
    """A file's content as soon as it is there and whole."""
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content


def own_address(hosts: str | None) -> str:
    """This machine's address as the hosts of the ranks see it."""
    for host in (hosts or "localhost").split(","):
        name = host.rpartition(":")[0] or host
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect((name, 9))
                address = str(probe.getsockname()[0])
        except OSError as error:
            raise LaunchError(f"host {name}: {error.strerror or error}") from None
        if not address.startswith("127."):
            return address
    return "127.0.0.1"


def choose_ports(address: str, allowed: str | None) -> list[int]:
    """Free ports out of those that the user allows; none where any will do.

    Raises:
        LaunchError: too few of them are free.
    """
    if not allowed:
        return []
    match = re.fullmatch(r"(\d+)-(\d+)", allowed.strip())
    if match is None:
        raise LaunchError(
            f"{PORTS_VARIABLE}={allowed}: write it as first-last, such as 10101-10150"
        )
    free: list[int] = []
    taken = 0
    for port in range(int(match[1]), int(match[2]) + 1):
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                taken += 1
                continue
        free.append(port)
        if len(free) == PORTS_NEEDED:
            return free
    raise LaunchError(
        f"{PORTS_VARIABLE}={allowed}: {len(free)} of these ports are free and {taken} taken, "
        f"but {PORTS_NEEDED} are needed; allow more"
    )
