"""Real notebooks for the tests: a kernel, cells run in it one by one, and the processes that it leaves."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from ..needs import needs
from .hosts import make_network, make_sshd, remove_network

#: Names a test's kernel in the environment of everything that comes from it.
OWNER_VARIABLE = "JUPYTER_HVD_TEST_KERNEL"
#: Seconds after which a cell hangs: on a crowded machine importing TensorFlow alone takes one minute of them.
PATIENCE = 240


@dataclass
class Result:
    """What a cell has shown."""

    outputs: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    seconds: float = 0.0

    @property
    def stdout(self) -> str:
        return self.stream("stdout")

    def stream(self, name: str) -> str:
        return "".join(o["text"] for o in self.outputs if o.get("name") == name)

    @property
    def shown(self) -> str:
        """All displays as text; an updated one as it is now."""
        last: dict[str, str] = {}
        for index, output in enumerate(self.outputs):
            if "data" in output:
                key = output.get("transient", {}).get("display_id", str(index))
                last[key] = output["data"].get("text/plain", "")
        return "\n".join(last.values())

    @property
    def traceback(self) -> str:
        return "" if self.error is None else "\n".join(self.error["traceback"])

    @property
    def text(self) -> str:
        """All that the user sees; wrong arguments are told on stderr."""
        return "\n".join((self.stdout, self.shown, self.stream("stderr"), self.traceback))


class Notebook:
    """A kernel with `jupyter_hvd` loaded."""

    def __init__(self, folder: Path, python: str = sys.executable, **environment: str) -> None:
        self.owner = uuid.uuid4().hex
        #: Their names, as far as any has been seen.
        self.jobs: set[str] = set()
        env = {**os.environ, **environment, OWNER_VARIABLE: self.owner}
        env.pop("PYTEST_CURRENT_TEST", None)
        self.manager = KernelManager(kernel_name="python3")
        assert self.manager.kernel_spec is not None
        self.manager.kernel_spec.argv[0] = python
        self.manager.start_kernel(
            env=env, cwd=str(folder), extra_arguments=["--IPKernelApp.extensions=jupyter_hvd"]
        )
        self._connect()

    def _connect(self) -> None:
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=PATIENCE)

    def begin(self, source: str) -> str:
        """Start a cell without waiting for it."""
        assert self.manager.is_alive(), "an earlier test has left this notebook without a kernel"
        message: str = self.client.execute(source, allow_stdin=False)
        return message

    def finish(
        self,
        message: str,
        until: Callable[[Result], bool] = lambda _: False,
        timeout: float = PATIENCE,
    ) -> Result:
        """Take in what a cell shows, until it has ended or has shown enough."""
        result = Result()
        started = time.monotonic()
        while time.monotonic() - started < timeout:
            try:
                reply = self.client.get_iopub_msg(timeout=1)
            except queue.Empty:
                continue
            if reply["parent_header"].get("msg_id") != message:
                continue
            kind, content = reply["msg_type"], reply["content"]
            if kind == "error":
                result.error = content
                result.seconds = time.monotonic() - started
            elif kind in ("stream", "display_data", "update_display_data", "execute_result"):
                result.outputs.append({"type": kind, **content})
            elif kind == "status" and content["execution_state"] == "idle":
                with suppress(queue.Empty):
                    self.client.get_shell_msg(timeout=5)
                result.seconds = result.seconds or time.monotonic() - started
                return result
            if until(result):
                result.seconds = time.monotonic() - started
                return result
        raise AssertionError(f"the cell hangs; until now:\n{result.text}")

    def run(self, source: str, timeout: float = PATIENCE) -> Result:
        return self.finish(self.begin(source), timeout=timeout)

    def good(self, source: str) -> Result:
        """Run a cell that must not fail."""
        result = self.run(source)
        assert result.error is None, result.text
        return result

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=False)
        self._connect()

    def kill(self) -> None:
        """SIGKILL for the kernel, then a new one in its place."""
        psutil.Process(self.pid).kill()

    def revive(self) -> None:
        self.client.stop_channels()
        self.manager.restart_kernel(now=True)
        self._connect()

    @property
    def pid(self) -> int:
        pid: int = self.manager.provisioner.pid  # type: ignore[union-attr, assignment]
        return pid

    def processes(self) -> list[psutil.Process]:
        """Every process that comes from this kernel's `%%distribute`, and every fork for one of its jobs."""
        found: list[tuple[psutil.Process, str]] = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                environment = process.environ()
                if job := environment.get("JUPYTER_HVD_JOB"):
                    found.append((process, job))
                    if environment.get(OWNER_VARIABLE) == self.owner:
                        self.jobs.add(job)
        return [process for process, job in found if job in self.jobs]

    def rank_pids(self) -> list[int]:
        """The process ids of the ranks, as `%hvd status` shows them."""
        rows = self.good("%hvd status").stdout.splitlines()[1:]
        return [int(row.split()[2]) for row in rows]

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=False)


def left(processes: list[psutil.Process], seconds: float = 10) -> list[psutil.Process]:
    """Which of some processes are still there after at most so many seconds."""
    alive = psutil.wait_procs(processes, timeout=seconds)[1]
    return [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture(scope="module")
def open_notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Notebook]]:
    """Opens notebooks; in the end none of them has left a process."""
    opened: list[Notebook] = []

    def open_one(**options: Any) -> Notebook:
        notebook = Notebook(tmp_path_factory.mktemp("notebook"), **options)
        opened.append(notebook)
        return notebook

    yield open_one
    for notebook in opened:
        notebook.close()
        assert left(notebook.processes()) == []


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[..., Notebook]) -> Notebook:
    """A notebook that many tests share, with its ranks."""
    return open_notebook()


@pytest.fixture(scope="session")
def after() -> Callable[..., list[psutil.Process]]:
    return left


@pytest.fixture
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for a job's log, not beside the program."""
    return tmp_path_factory.mktemp("logs")


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[Path]:
    """Yields a folder whose `bin/ssh` reaches both."""
    servers: list[subprocess.Popen[bytes]] = []
    try:
        try:
            make_network()
            servers += make_sshd(tmp_path)
        except OSError as error:
            pytest.skip(f"two-host{needs.SKIPPED}network namespaces cannot be made here: {error}")
        yield tmp_path
    finally:
        remove_network()
        for server in servers:
            server.wait()


# The fault table

#: Seconds after which a user counts as never told. On a quiet machine it takes ten at most, as the table shows.
REPORTED_WITHIN = 60


@pytest.fixture
def fault_reported(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Notes one row: what happened, after how many seconds the user was told, what became of the ranks' state, what was left
    running.
    """

    def tell(name: str, seconds: float, remaining: int, state: str = "kept") -> None:
        record_property("hvd-fault", f"| {name} | {seconds:.1f} | {state} | {remaining} |")
        assert seconds < REPORTED_WITHIN
        assert remaining == 0

    return tell


HEAD = "| fault | seconds until told | state on the ranks | processes left |"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    rows = [value for r in reports for key, value in r.user_properties if key == "hvd-fault"]
    if rows:
        terminalreporter.section("faults of living ranks")
        for line in (HEAD, "|---|---|---|---|", *rows):
            terminalreporter.write_line(line)
