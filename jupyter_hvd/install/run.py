"""Builds the wheel, unless one like it is kept, and installs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO

from .build import HOROVOD, PATCHES, PYTHON_PACKAGES, Build, CannotBuildError

#: What CMake says while it compiles: how much is done.
PERCENT = re.compile(r"\[\s*(\d+)%\]")
#: What is told while it works: what is done, and the share of the compiling that is done, from 0 to 1.
Listener = Callable[[str, float], None]


def install(build: Build, listener: Listener) -> Path:
    """Install Horovod into the environment of this Python; the wheel that was installed.

    Raises:
        CannotBuildError: something is missing, or it does not compile.
    """
    wheel = kept(build)
    if wheel is None:
        if missing := build.missing():
            raise CannotBuildError("to build Horovod, first install\n  " + "\n  ".join(missing))
        wheel = make_wheel(build, listener)
    listener("installing", 1.0)
    pip("install", "--quiet", *_missing_packages())
    pip("install", "--quiet", "--no-deps", "--force-reinstall", str(wheel))
    return wheel


def kept(build: Build) -> Path | None:
    """The wheel of an earlier build like this one."""
    return next(iter(build.folder.glob("horovod-*.whl")), None)


def make_wheel(build: Build, listener: Listener) -> Path:
    """Fetch Horovod's source from the package index, patch and compile it.

    Raises:
        CannotBuildError: it does not compile.
    """
    build.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=build.folder.parent) as name:
        place = Path(name)
        listener("fetching the source", 0.0)
        pip("install", "--quiet", *_missing_packages())
        fetch = ("--no-deps", "--no-binary", "horovod", "--no-build-isolation", "--dest", name)
        pip("download", "--quiet", *fetch, f"horovod=={HOROVOD}", flags=build.flags)
        with tarfile.open(next(place.glob("horovod-*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        source = place / f"horovod-{HOROVOD}"
        for patch in PATCHES:
            with patch.open("rb") as text:
                _run(["patch", "--strip=1", "--silent", "--directory", str(source)], stdin=text)
        made = place / "made"
        options = ("--verbose", "--no-deps", "--no-build-isolation", "--wheel-dir", str(made))
        pip("wheel", *options, str(source), flags=build.flags, listener=listener)
        try:
            made.rename(build.folder)
        except OSError:  # another process was faster
            return kept(build) or next(made.glob("horovod-*.whl"))
    wheel = kept(build)
    assert wheel is not None
    return wheel


def _missing_packages() -> list[str]:
    """What Horovod's setup needs and this environment has not; pip itself where it has all, which is no work."""
    lacking = []
    for name in PYTHON_PACKAGES:
        try:
            version(name)
        except PackageNotFoundError:
            lacking.append(name)
    return lacking or ["pip"]


def pip(
    *arguments: str, flags: dict[str, str] | None = None, listener: Listener | None = None
) -> None:
    """
    Raises:
        CannotBuildError: it fails; the message ends with what it said last.
    """
    quiet = ["--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", *arguments[:1], *quiet, *arguments[1:]]
    # What a build calls, of this environment, goes first.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    _run(command, environment={**os.environ, **(flags or {}), "PATH": path}, listener=listener)


def _run(
    command: list[str],
    environment: dict[str, str] | None = None,
    listener: Listener | None = None,
    stdin: IO[bytes] | int = subprocess.DEVNULL,
) -> None:
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603 — our own words, no shell
        command,
        env=environment,
        stdin=stdin,
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
        errors = [line for line in said if "error" in line.lower()][:10]
        raise CannotBuildError(
            "\n".join([f"this failed: {' '.join(command[:5])} …", *errors, "…", *said[-15:]])
        )
