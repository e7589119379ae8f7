"""Converts TensorFlow code that others wrote, thousands of files, and looks for what must never happen.

    python tests/corpus.py [--packages NAME …] [--limit N] [--folder FOLDER] [--write docs/corpus-history.md]

Packages are downloaded from the registry into a temporary folder (or FOLDER, which is kept). No
file may crash the converter, take it more than a minute, come out as invalid Python, change when
it is converted again, or change at all where it is not converted.
"""

from __future__ import annotations

import argparse
import ast
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import track

from jupyter_hvd import convert_source
from jupyter_hvd.convert.documents import load_script
from jupyter_hvd.files import UnusableInputError

PACKAGES = (
    "tf-models-official",
    "keras",
    "tf-keras",
    "tf-agents",
    "tensorflow-recommenders",
    "spektral",
    "tensorflow-addons",
    "keras-cv",
    "keras-nlp",
    "tensorflow-probability",
    "tensorflow-ranking",
    "deepctr",
    "trax",
    "larq",
    "tensorforce",
    "autokeras",
    "keras-tuner",
    "dm-sonnet",
)
# Converting a file twice takes a second at the very most; a file above this is a fault.
SECONDS_PER_FILE = 60


@dataclass(frozen=True)
class Outcome:
    """What became of one file; `fault` is empty where all is well."""

    package: str
    path: str
    status: str
    seconds: float
    codes: tuple[str, ...] = ()
    fault: str = ""


class TooSlow(Exception):
    """The converter has spent `SECONDS_PER_FILE` on one file."""


def _too_slow(_signal: int, _frame: object) -> None:
    raise TooSlow


def outcome(folder: Path, path: Path) -> Outcome:
    started = time.perf_counter()
    signal.signal(signal.SIGALRM, _too_slow)
    signal.alarm(SECONDS_PER_FILE)
    try:
        status, codes, fault = _convert_twice(path)
    except TooSlow:
        status, codes, fault = "too slow", (), f"not done after {SECONDS_PER_FILE} s"
    except Exception:
        status, codes, fault = "crashed", (), traceback.format_exc().strip().splitlines()[-1]
    finally:
        signal.alarm(0)
    relative = path.relative_to(folder)
    seconds = time.perf_counter() - started
    return Outcome(relative.parts[0], str(relative), status, seconds, codes, fault)


def _convert_twice(path: Path) -> tuple[str, tuple[str, ...], str]:
    try:
        source = load_script(path).source
    except UnusableInputError:
        return "invalid", (), ""
    conversion = convert_source(source)
    errors = tuple(sorted({d.code for d in conversion.diagnostics if d.severity == "error"}))
    if conversion.status == "invalid" and _is_python(source):
        return "invalid", errors, f"called invalid: {conversion.diagnostics[0].message}"
    if conversion.status != "converted":
        fault = "" if conversion.code == source else "changed without being converted"
        return conversion.status, errors, fault
    try:
        ast.parse(conversion.code)
    except SyntaxError as error:
        return "converted", (), f"invalid output: {error}"
    again = convert_source(conversion.code)
    return (
        "converted",
        (),
        "" if again.code == conversion.code else "changes when converted again",
    )


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def download(package: str, folder: Path) -> None:
    """A package's files, without what it depends on."""
    if folder.exists():
        return
    partial = folder.with_suffix(".partial")
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    # A wheel where there is one: a source archive has pip build its metadata, which some cannot.
    subprocess.run(
        [*command, "--only-binary=:all:", "-d", str(partial), package],
        check=False,
        stderr=subprocess.DEVNULL,
    )
    if not partial.exists() or not any(partial.iterdir()):
        subprocess.run([*command, "--no-build-isolation", "-d", str(partial), package], check=False)
    for archive in [*partial.glob("*.whl"), *partial.glob("*.zip")]:
        with zipfile.ZipFile(archive) as file:
            file.extractall(partial)
        archive.unlink()
    for archive in partial.glob("*.tar.gz"):
        with tarfile.open(archive) as file:
            file.extractall(partial, filter="data")
        archive.unlink()
    partial.mkdir(exist_ok=True)
    partial.rename(folder)


def _speaks_tensorflow(path: Path) -> bool:
    text = path.read_text(errors="replace")
    return "tensorflow" in text or "keras" in text


def outcomes(folder: Path, paths: list[Path]) -> Iterator[Outcome]:
    """In the order of the paths; a process is replaced after some files, as its memory grows."""
    with get_context("spawn").Pool(maxtasksperchild=25) as pool:
        yield from pool.imap(partial(outcome, folder), paths, chunksize=4)


def table(done: list[Outcome]) -> str:
    """Markdown: a row for each package, then what was refused and why, then the faults."""
    columns = ("converted", "refused", "unchanged", "invalid")
    packages = [*dict.fromkeys(o.package for o in done)]
    lines = [
        "| package | files | converted | refused | unchanged | not Python | faults |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for package in [*packages, "all"]:
        of = [o for o in done if package in (o.package, "all")]
        counts = Counter(o.status for o in of)
        cells = [len(of), *(counts[c] for c in columns), sum(bool(o.fault) for o in of)]
        lines.append(f"| {package} | {' | '.join(map(str, cells))} |")
    codes = Counter(code for o in done for code in o.codes)
    lines += ["", "| refused with | files |", "|---|---:|"]
    lines += [f"| {code} | {count} |" for code, count in sorted(codes.items())]
    faults = [o for o in done if o.fault]
    lines += ["", f"Faults: {len(faults)}.", *(f"- `{o.path}`: {o.fault}" for o in faults)]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--limit", type=int, help="only so many files")
    parser.add_argument("--folder", type=Path, help="where the packages lie, and stay")
    parser.add_argument("--write", type=Path, help="a Markdown file for the table")
    arguments = parser.parse_args()
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="jupyter-hvd-corpus-") as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        for package in track(arguments.packages, "Downloading", console=console):
            download(package, folder / package)
        paths = sorted(
            path
            for package in arguments.packages
            for path in (folder / package).rglob("*.py")
            if _speaks_tensorflow(path)
        )[: arguments.limit]
        done = []
        for each in track(outcomes(folder, paths), "Converting", len(paths), console=console):
            done.append(each)
            if not console.is_terminal and len(done) % 250 == 0:
                console.print(f"{len(done)} of {len(paths)} files")
    if arguments.write:
        before = arguments.write.read_text() if arguments.write.exists() else ""
        _, heading, notebooks = before.partition("## Notebooks")
        arguments.write.write_text(f"{_page(done)}\n{heading}{notebooks}".rstrip() + "\n")
    print(table(done))
    for slow in sorted(done, key=lambda o: -o.seconds)[:5]:
        print(f"slow: {slow.path}, {slow.seconds:.1f} s")
    return int(any(o.fault for o in done))


def _page(done: list[Outcome]) -> str:
    return (
        "# Other people's code: packages and notebooks\n\n"
        "Every file of these packages that names TensorFlow or Keras, converted, and converted again "
        "(`make corpus` writes this page). A fault would be a crash, more than "
        f"{SECONDS_PER_FILE} s for one file, invalid Python, a second conversion that changes the "
        "first, or a change to a file that is not converted.\n\n" + table(done)
    )


if __name__ == "__main__":
    sys.exit(main())
