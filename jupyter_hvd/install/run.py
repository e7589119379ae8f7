"""Builds the wheel, unless a matching one is cached, and installs it."""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

from ..package_versions import version_of
from .build import HOROVOD, PATCHES, PYTHON_PACKAGES, SOURCE_HASH, Build, CannotBuildError
from .lock import hold_lock
from .patch import apply_patch
from .pip import Listener, Source, call_pip

#: Bytes that a build needs, with some to spare.
ROOM = 500_000_000


def install_horovod(build: Build, listener: Listener, source: Source) -> Path:
    """Install Horovod into this Python's environment; return the wheel.

    Raises:
        CannotBuildError: something is missing, or the build fails.
    """
    try:
        folder = find_writable_folder(build)
        with hold_lock(folder / f"{build.folder_name}.lock", listener) as listener:
            wheel = find_cached_wheel(build)
            if wheel is None:
                if missing := build.find_missing():
                    raise CannotBuildError(
                        "to build Horovod, first install\n  " + "\n  ".join(missing)
                    )
                wheel = make_wheel(build, folder, listener, source)
            listener("installing", 1.0)
            if lacking := _missing_packages():
                call_pip("install", "--quiet", *lacking, source=source)
            call_pip(
                "install", "--quiet", "--no-deps", "--no-index", "--force-reinstall", str(wheel)
            )
            return wheel
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise CannotBuildError(
                _no_room(Path(error.filename or build.wheel_folders[0]))
            ) from None
        raise CannotBuildError(f"{error.filename}: {error.strerror}") from None


def find_cached_wheel(build: Build) -> Path | None:
    """Return the wheel of an earlier, equal build."""
    for folder in build.wheel_folders:
        if wheel := next(iter((folder / build.folder_name).glob("horovod-*.whl")), None):
            return wheel
    return None


def find_writable_folder(build: Build) -> Path:
    """Return the first folder for wheels that can be written: the home folder may be read-only.

    Raises:
        CannotBuildError: there is none.
    """
    for folder in build.wheel_folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            continue
        if os.access(folder, os.W_OK):
            return folder
    places = " nor ".join(map(str, build.wheel_folders))
    raise CannotBuildError(
        f"neither {places} can be written to: set JUPYTER_HVD_CACHE to a folder that can"
    )


def make_wheel(build: Build, folder: Path, listener: Listener, source: Source) -> Path:
    """Fetch Horovod's source, check its hash, patch and compile it, and return the wheel.

    Raises:
        CannotBuildError: it cannot be fetched, or does not compile.
    """
    unfinished = f"{build.folder_name}-unfinished-"
    for left in folder.glob(f"{unfinished}*"):  # of a process that was killed; the lock is ours
        shutil.rmtree(left, ignore_errors=True)
    if shutil.disk_usage(folder).free < ROOM:
        raise CannotBuildError(_no_room(folder))
    with tempfile.TemporaryDirectory(dir=folder, prefix=unfinished) as name:
        place = Path(name)
        listener("fetching the source", 0.0)
        if lacking := _missing_packages():
            call_pip("install", "--quiet", *lacking, source=source)
        archive = fetch_source(build, place, source)
        with tarfile.open(archive) as packed:
            packed.extractall(place, filter="data")
        tree = place / f"horovod-{HOROVOD}"
        for patch in PATCHES:
            apply_patch(patch, tree)
        made = place / "made"
        options = (
            "--verbose",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            # Of a build in a folder that goes pip keeps nothing, but wants a place for it, in a home that may be read-only.
            "--no-cache-dir",
            "--wheel-dir",
            str(made),
        )
        listener("compiling", 0.0)
        log = folder / f"{build.folder_name}.log"
        call_pip("wheel", *options, str(tree), flags=build.build_flags, listener=listener, log=log)
        try:
            made.rename(folder / build.folder_name)
        except OSError:  # another process was faster, on a file system without locks
            if find_cached_wheel(build) is None:
                raise
    wheel = find_cached_wheel(build)
    assert wheel is not None
    return wheel


def fetch_source(build: Build, folder: Path, source: Source) -> Path:
    """Download Horovod's source archive into a folder, check its hash, and return it.

    Raises:
        CannotBuildError: it cannot be downloaded.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(f"horovod=={HOROVOD} --hash=sha256:{SOURCE_HASH}\n")
        wanted.flush()
        how = ("--no-deps", "--no-binary", "horovod", "--no-build-isolation", "--dest", str(folder))
        required = ("--require-hashes", "--requirement", wanted.name)
        call_pip("download", "--quiet", *how, *required, source=source, flags=build.build_flags)
    return next(folder.glob(f"horovod-{HOROVOD}.tar.gz"))


def _missing_packages() -> list[str]:
    """Return the packages that Horovod's setup needs and this environment lacks."""
    return [name for name in PYTHON_PACKAGES if version_of(name) is None]


def _no_room(folder: Path) -> str:
    """Return a message that says that the disk is full, and what to do."""
    return (
        f"the disk of {folder} is full: a build needs {ROOM // 1_000_000} MB; free them, or set JUPYTER_HVD_CACHE "
        "to a folder on another disk, and run this again"
    )
