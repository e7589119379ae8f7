#!/usr/bin/env python3
"""Makes an environment of this checkout: a virtual environment, a lock of requirements/, this package, and Horovod.

    python3 scripts/environment.py FOLDER LOCK      makes or renews it; an interrupted run goes on where it stopped
    python3 scripts/environment.py --others FOLDER  prints the other Pythons that fit: a version and a path a line
    python3 scripts/environment.py --fill FOLDER    downloads all that LOCK needs into a folder, for `make demo WHEELS=FOLDER`

Pythons are looked for on the PATH and by pyenv. Any Python 3.8 runs this.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
#: The Pythons for which each lock's TensorFlow has wheels.
PYTHONS = {
    "tf221": ((3, 11), (3, 12), (3, 13)),
    "tf218": ((3, 11),),
    "tf215": ((3, 11),),
}
#: Its TensorFlow, in words.
TENSORFLOW = {"tf221": "TensorFlow 2.21", "tf218": "TensorFlow 2.18", "tf215": "TensorFlow 2.15"}
#: What comes in without its dependencies.
ALONE = {"tf218": "tf218-keras.txt"}
#: Bytes that an environment takes.
ROOM = 3_500_000_000
#: Exit code of an environment that no Python here fits.
NO_PYTHON = 3
AGAIN = "then run the same command again: it goes on from there"


def stop(text: str, code: int = 1) -> NoReturn:
    print(text, file=sys.stderr)
    sys.exit(code)


# Pythons


def ask(python: str) -> tuple[tuple[int, int], str] | None:
    """The version of an interpreter and its own path, not that of a virtual environment; None where there is none."""
    question = "import os, sys; print(*sys.version_info[:2], os.path.realpath(sys.executable))"
    try:
        done = subprocess.run(
            [python, "-c", question],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
        major, minor, path = done.stdout.strip().split(" ", 2)
        return (int(major), int(minor)), path
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def interpreters(versions: tuple[tuple[int, int], ...]) -> Iterator[tuple[tuple[int, int], str]]:
    """An interpreter of each version that is on the PATH or that pyenv has."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for major, minor in versions:
        name = f"python{major}.{minor}"
        candidates = [f"{folder}/{name}" for folder in os.get_exec_path()]
        candidates += [
            str(path / "bin" / name)
            for path in sorted(pyenv.glob(f"{major}.{minor}.*"), reverse=True)
        ]
        for python in candidates:
            found = ask(python) if os.access(python, os.X_OK) else None
            if found and found[0] == (major, minor) and has_venv(found[1]):
                yield found
                break


def has_venv(python: str) -> bool:
    """Whether it can make environments: Debian has that in a package of its own."""
    done = subprocess.run(
        [python, "-c", "import ensurepip, venv"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0


def fitting_python(lock: str, named: str | None) -> str:
    """The interpreter for a lock: the one that the user named, that which runs this, or another that is found."""
    versions = PYTHONS[lock]
    wanted = " or ".join(f"{major}.{minor}" for major, minor in versions)
    if named is not None:
        answer = ask(named)
        if answer is None:
            stop(f"PYTHON={named}: there is no such Python")
        version, path = answer
        if version not in versions:
            found, other = ".".join(map(str, version)), ".".join(map(str, versions[-1]))
            stop(
                f"{TENSORFLOW[lock]} has wheels for Python {wanted}; {named} is {found}: make PYTHON=python{other}"
            )
        if not has_venv(path):
            stop(without_venv(*version))
        return path
    own, path = sys.version_info[:2], os.path.realpath(sys.executable)
    if own in versions and has_venv(path):
        return path
    for _, python in interpreters(versions):
        return python
    if own in versions:
        stop(without_venv(*own))
    stop(
        f"{TENSORFLOW[lock]} has wheels for Python {wanted}, and there is none on the PATH or in pyenv (python3 is "
        f"{own[0]}.{own[1]}): install one, or name it: make PYTHON=/path/to/python",
        NO_PYTHON,
    )


def without_venv(major: int, minor: int) -> str:
    return (
        f"Python {major}.{minor} lacks its module venv: apt-get install python{major}.{minor}-venv"
    )


# Environments


def make(folder: Path, lock: str, named: str | None, source: Source) -> None:
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if ready.exists() and named is not None and ask(named) != ask(str(python)):
        stop(
            f"{folder} is of another Python than {named}: remove it (make clean), or name another: make VENV=.venv-new"
        )
    if not ready.exists():  # a half-made one is made again: what was fetched is in the caches
        chosen = fitting_python(lock, named)
        if shutil.disk_usage(folder.parent).free < ROOM:
            stop(
                f"the disk of {folder} is too full: an environment takes {ROOM / 1e9:.1f} GB. Free them, {AGAIN}"
            )
        (major, minor), _ = ask(chosen) or ((0, 0), chosen)
        print(
            f"{TENSORFLOW[lock]}, Horovod and what the checks need come into {folder}, for Python {major}.{minor}: a minute, "
            "or up to ten where packages are fetched and Horovod is compiled",
            flush=True,
        )
        run([chosen, "-m", "venv", "--clear", str(folder)], folder, source)
    # Through the link that `make labextension` makes, an installation before has put its own file among what is to be installed.
    link = folder / "share" / "jupyter" / "labextensions" / "jupyter-hvd"
    if link.is_symlink():
        link.unlink()
    (ROOT / "jupyter_hvd" / "labextension" / "install.json").unlink(missing_ok=True)
    install(folder, ["--require-hashes", "--requirement", str(LOCKS / f"{lock}.txt")], source)
    if lock in ALONE:
        install(
            folder,
            ["--require-hashes", "--no-deps", "--requirement", str(LOCKS / ALONE[lock])],
            source,
        )
    # The package is linked without its build hooks: `make labextension` builds that part, and it alone needs Node.
    install(folder, ["--no-deps", "--no-build-isolation", "--editable", str(ROOT)], source)
    done = subprocess.run(
        [str(python), "-m", "jupyter_hvd", "install", *source.options_of_hvd], check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    ready.touch()


class Source:
    """Where packages come from: an index, by a proxy perhaps, or a folder."""

    def __init__(self, proxy: str | None, wheels: Path | None) -> None:
        self.proxy, self.wheels = proxy, wheels
        if wheels is not None and not wheels.is_dir():
            stop(
                f"WHEELS={wheels}: there is no such folder; where there is a network: make wheels WHEELS={wheels}"
            )
        self.environment = {
            **os.environ,
            "HATCH_BUILD_NO_HOOKS": "true",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        if proxy:
            for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
                self.environment[name] = self.environment[name.lower()] = proxy
        if not can_write(Path(os.environ.get("UV_CACHE_DIR") or cache_home() / "uv")):
            self.environment["UV_NO_CACHE"] = "1"
        if not can_write(Path(os.environ.get("PIP_CACHE_DIR") or cache_home() / "pip")):
            self.environment["PIP_NO_CACHE_DIR"] = "1"

    @property
    def options(self) -> list[str]:
        return [] if self.wheels is None else ["--no-index", "--find-links", str(self.wheels)]

    @property
    def options_of_hvd(self) -> list[str]:
        options = ["--proxy", self.proxy] if self.proxy else []
        return options + (["--wheels", str(self.wheels)] if self.wheels else [])

    def explain(self, said: str, folder: Path) -> str | None:
        """One line about an error that the user can do something about."""
        if re.search(r"No space left on device|os error 28|Disk quota exceeded", said):
            return f"the disk is full: {folder} takes {ROOM / 1e9:.1f} GB. Free them, {AGAIN}"
        if re.search(r"DO NOT MATCH THE HASHES|[Hh]ash mismatch", said):
            return "a package is not the one that was locked: its hash is another. Nothing of it was installed"
        missing = (
            r"No matching distribution|was not found in the|no wheels|not found in the provided"
        )
        if self.wheels is not None and re.search(missing, said):
            return (
                f"{self.wheels} lacks a package of {folder.name}; "
                f"fill it where there is a network: make wheels WHEELS={self.wheels}"
            )
        if re.search(
            r"dns error|tcp connect error|Failed to fetch|NewConnectionError|[Tt]imed? ?out|Connection refused"
            r"|name resolution|ProxyError|Network is unreachable|error sending request|No matching distribution",
            said,
        ):
            how = (
                f"by the proxy {self.proxy}"
                if self.proxy
                else "check the network, or make demo PROXY=… or WHEELS=…"
            )
            return f"the package index cannot be reached: {how}; {AGAIN}"
        return None


def cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def can_write(folder: Path) -> bool:
    """Whether a folder can be made there, or written to."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(folder, os.W_OK)


def run(command: list[str], folder: Path, source: Source) -> None:
    """Run a command; where it fails, say in a line what to do, or else what it said last."""
    if said := failure(command, source):
        stop(source.explain(said, folder) or said)


def failure(command: list[str], source: Source) -> str | None:
    """What a command said that failed."""
    done = subprocess.run(
        command,
        env=source.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode == 0:
        return None
    return "\n".join([f"this failed: {' '.join(command)}", *done.stdout.splitlines()[-15:]])


def install(folder: Path, arguments: list[str], source: Source) -> None:
    """Install by uv, which is several times as fast as pip, or by pip where only its settings know the index."""
    programs = folder / "bin"
    pip = [
        str(programs / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        *source.options,
    ]
    uv = programs / "uv"
    if not uv.exists():
        failure([*pip, "--require-hashes", "--requirement", str(LOCKS / "uv.txt")], source)
    if uv.exists():
        words = [
            "--quiet",
            "--compile-bytecode",
            "--python",
            str(programs / "python"),
            *source.options,
        ]
        if failure([str(uv), "pip", "install", *words, *arguments], source) is None:
            return
    run([*pip, *arguments], folder, source)


def fill(folder: Path, lock: str, python: Path, source: Source) -> None:
    """Download what the lock and Horovod's build need into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pip = [
        str(python),
        "-m",
        "pip",
        "download",
        "--quiet",
        "--dest",
        str(folder),
        "--require-hashes",
    ]
    for name in (f"{lock}.txt", "uv.txt"):
        run([*pip, "--requirement", str(LOCKS / name)], folder, source)
    program = (
        "import sys, pathlib; from jupyter_hvd.install.run import fetch_source; from jupyter_hvd.install.pip import Source; "
        "from jupyter_hvd.install.build import Build; "
        "fetch_source(Build('0'), pathlib.Path(sys.argv[1]), Source(sys.argv[2] or None))"
    )
    run([str(python), "-c", program, str(folder), source.proxy or ""], folder, source)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("lock", nargs="?", default="tf221", choices=PYTHONS)
    parser.add_argument("--python", help="the interpreter that it must be made of")
    parser.add_argument("--proxy", help="reach the package index by it")
    parser.add_argument("--wheels", type=Path, help="take packages from this folder alone")
    parser.add_argument(
        "--optional", action="store_true", help="where no Python fits, say so, and be content"
    )
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--fill", type=Path, metavar="WHEELS")
    options = parser.parse_args()
    if options.others:
        own = ask(str(options.folder / "bin" / "python"))
        for version, python in interpreters(PYTHONS[options.lock]):
            if own is None or version != own[0]:
                print(".".join(map(str, version)), python)
        return 0
    source = Source(options.proxy, options.wheels and options.wheels.resolve())
    try:
        if options.fill is not None:
            fill(options.fill.resolve(), options.lock, options.folder / "bin" / "python", source)
        else:
            make(options.folder.absolute(), options.lock, options.python, source)
    except KeyboardInterrupt:
        stop(f"interrupted; {AGAIN.replace('then ', '')}", 130)
    except SystemExit as ended:
        if ended.code == NO_PYTHON and options.optional:
            print(f"{options.folder} is left out")
            return 0
        raise
    except OSError as error:
        stop(source.explain(str(error), options.folder) or f"{error.filename}: {error.strerror}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
