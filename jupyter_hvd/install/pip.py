"""Calls of pip: where packages come from, and what an error of pip's means in one line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from .build import HOROVOD, PYTHON_PACKAGES, CannotBuildError

#: CMake prints how much it has compiled.
PERCENT = re.compile(r"\[\s*(\d+)%\]")
#: Gets the step that begins or goes on, and the share of the compiling that is done, from 0 to 1.
Listener = Callable[[str, float], None]

DISK_IS_FULL = re.compile(r"No space left on device|Errno 28|Disk quota exceeded")
NOT_REACHED = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|Temporary failure in name resolution|Connection refused"
    r"|ProxyError|Could not fetch URL|Network is unreachable|No matching distribution found"
)
#: In lines that say why a build failed.
ERROR = re.compile(r"\berror: |\*\*\* |CMake Error|undefined reference|Error: |failed: ")
WRONG_HASH = re.compile(r"DO NOT MATCH THE HASHES|HashMismatch")


@dataclass(frozen=True)
class Source:
    """The source of packages.

    Attributes:
        proxy: pip reaches its index by this proxy.
        wheels: pip takes packages from this folder, and contacts no index.
    """

    proxy: str | None = None
    wheels: Path | None = None

    @property
    def pip_options(self) -> list[str]:
        """Return pip's options for this source."""
        options = [f"--proxy={self.proxy}"] if self.proxy else []
        if self.wheels is not None:
            options += ["--no-index", f"--find-links={self.wheels}"]
        return options

    @property
    def advice(self) -> str:
        """Say what to do where a package is not available."""
        if self.wheels is not None:
            return (
                f"{self.wheels} lacks a package; where there is a network, fill it by: pip download --no-build-isolation "
                f"--no-deps --no-binary horovod --dest {self.wheels} horovod=={HOROVOD} {' '.join(PYTHON_PACKAGES)}"
            )
        if self.proxy:
            return f"the package index cannot be reached by the proxy {self.proxy}"
        return "the package index cannot be reached: check the network, or pass --proxy or --wheels"


def call_pip(
    command: str,
    *arguments: str,
    source: Source | None = None,
    flags: dict[str, str] | None = None,
    listener: Listener | None = None,
    log: Path | None = None,
) -> None:
    """Run pip with packages from `source`; without one, no packages are needed.

    Raises:
        CannotBuildError: pip fails.
    """
    if find_spec("pip") is None:
        raise CannotBuildError("this environment has no pip: python -m ensurepip")
    options = ["--disable-pip-version-check", "--no-input"]
    if source is not None:
        options += ["--retries=2", *source.pip_options]
    # The build calls programs of this environment first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    words = [sys.executable, "-m", "pip", command, *options, *arguments]
    run_command(
        words,
        environment={**os.environ, **(flags or {}), "PATH": path},
        source=source,
        listener=listener,
        log=log,
    )


def run_command(
    command: list[str],
    environment: dict[str, str] | None = None,
    source: Source | None = None,
    listener: Listener | None = None,
    log: Path | None = None,
) -> None:
    """Run a command, with the programs that it starts as a group of their own.

    Raises:
        CannotBuildError: it fails.
    """
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603 — our own words, no shell
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                said.append(line.rstrip())
                if listener is not None and (found := PERCENT.search(line)):
                    listener("compiling", int(found[1]) / 100)
        except BaseException:  # whoever gives up does not want compilers to go on
            os.killpg(process.pid, signal.SIGTERM)
            raise
    if process.returncode != 0:
        raise CannotBuildError(explain_error(said, source) or error_excerpt(command, said, log))


def explain_error(said: Sequence[str], source: Source | None) -> str | None:
    """Explain in one line an error that the user can do something about."""
    text = "\n".join(said)
    if DISK_IS_FULL.search(text):
        return "the disk is full: free 1 GB where the wheel is built, and run this again"
    if WRONG_HASH.search(text):
        return (
            f"the index gave another source of Horovod {HOROVOD} than the one whose SHA-256 is known; "
            "nothing of it was run"
        )
    if source is not None and NOT_REACHED.search(text):
        return source.advice
    return None


def error_excerpt(command: Sequence[str], said: Sequence[str], log: Path | None) -> str:
    """Return a command, up to ten error lines of its output, and the path of `log`, to which all output is written.

    Without a log, the last 15 lines follow instead.
    """
    errors = [line.strip() for line in said if ERROR.search(line)][:10]
    head = f"this failed: {' '.join(command[:5])} …"
    if log is None:
        return "\n".join([head, *errors, "…", *said[-15:]])
    log.write_text("\n".join([*said, ""]))
    return "\n".join([f"{head}; all that it said is in {log}", *errors])
