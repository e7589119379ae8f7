"""Converts TensorFlow code that others wrote, thousands of files, and looks for what must never happen.

    python tests/corpus.py [--packages NAME …] [--limit N]

Packages are downloaded from the registry into a folder that goes afterwards. No file may
crash the converter, come out as invalid Python, change when it is converted again, or
change at all where it is not converted.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from jupyter_hvd import convert_source
from jupyter_hvd.files import UnusableInputError, read_script

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


@dataclass(frozen=True)
class Outcome:
    """What became of one file; `fault` is empty where all is well."""

    path: str
    status: str
    codes: tuple[str, ...] = ()
    fault: str = ""


def outcome(path: Path) -> Outcome:
    try:
        source = read_script(path).source
    except UnusableInputError:
        return Outcome(str(path), "unreadable")
    try:
        conversion = convert_source(source)
        errors = tuple(sorted({d.code for d in conversion.diagnostics if d.severity == "error"}))
        if conversion.status != "converted":
            fault = "" if conversion.code == source else "changed without being converted"
            return Outcome(str(path), conversion.status, errors, fault)
        ast.parse(conversion.code)
        again = convert_source(conversion.code)
        fault = "" if again.code == conversion.code else "changes when converted again"
        return Outcome(str(path), "converted", (), fault)
    except SyntaxError as error:
        return Outcome(str(path), "converted", (), f"invalid output: {error}")
    except Exception:
        return Outcome(str(path), "crashed", (), traceback.format_exc().strip().splitlines()[-1])


def download(package: str, folder: Path) -> None:
    """A package's files, without what it depends on."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary=:none:",
        "-d",
        str(folder),
        package,
    ]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    for archive in [*folder.glob("*.whl"), *folder.glob("*.zip")]:
        with zipfile.ZipFile(archive) as file:
            file.extractall(folder / archive.stem)
        archive.unlink()
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as file:
            file.extractall(folder / archive.stem, filter="data")
        archive.unlink()


def run(paths: Iterable[Path]) -> list[Outcome]:
    with ProcessPoolExecutor() as pool:
        return list(pool.map(outcome, sorted(paths), chunksize=8))


def table(outcomes: list[Outcome]) -> str:
    statuses = Counter(o.status for o in outcomes)
    codes = Counter(code for o in outcomes for code in o.codes)
    faults = [o for o in outcomes if o.fault]
    lines = [f"files        {len(outcomes)}"]
    lines += [f"{status:<12} {count}" for status, count in statuses.most_common()]
    lines += [f"  {code:<10} {count}" for code, count in sorted(codes.items())]
    lines += [f"faults       {len(faults)}", *(f"  {o.path}: {o.fault}" for o in faults)]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--limit", type=int)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jupyter-hvd-corpus-") as name:
        folder = Path(name)
        for package in arguments.packages:
            download(package, folder)
        paths = [
            p
            for p in folder.rglob("*.py")
            if "tensorflow" in p.read_text(errors="replace")
            or "keras" in p.read_text(errors="replace")
        ]
        started = time.perf_counter()
        outcomes = run(paths[: arguments.limit])
        print(table(outcomes))
        print(f"seconds      {time.perf_counter() - started:.0f}")
    return int(any(o.fault for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
