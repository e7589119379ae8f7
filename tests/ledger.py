"""A ledger of verifications: what `verify` found is kept, and found again where nothing it depends on has changed.

An entry is named after a hash of the program as written and as converted, the code that runs and watches
it, the versions of what trains, and all arguments. A change of a rule so re-runs just the programs that it converts
in another way. `make test` names the ledger's folder in JUPYTER_HVD_LEDGER; CI does not, and runs everything.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import nbformat

import jupyter_hvd
from jupyter_hvd import convert_notebook, convert_source
from jupyter_hvd.convert import Options
from jupyter_hvd.convert.documents import load_document
from jupyter_hvd.verify.exact.scaled_program import verify_scaled
from jupyter_hvd.verify.exact.verification import ExactVerification

VARIABLE = "JUPYTER_HVD_LEDGER"
#: What runs and watches a program.
WATCHERS = ("verify", "launch", "ranks", "runtime", "convert/tensorflow")
TRAINERS = ("tensorflow-cpu", "tensorflow", "keras", "tf-keras", "horovod", "numpy", "scikit-learn")


def run_verify(
    path: Path, size: int, *, options: Options | None = None, **given: Any
) -> ExactVerification:
    """What `jupyter hvd verify` finds out on so many ranks."""
    options = options or Options()
    return verify_scaled(path, load_document(path), (size,), options=options, **given)


def verify(
    path: Path, size: int = 2, *, options: Options | None = None, **given: Any
) -> ExactVerification:
    """The same, or what was found before."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return run_verify(path, size, options=options, **given)
    entry = Path(folder) / entry_name(path, size, options or Options(), given)
    if entry.exists():
        found: ExactVerification = pickle.loads(entry.read_bytes())
        return found
    found = run_verify(path, size, options=options, **given)
    entry.parent.mkdir(parents=True, exist_ok=True)
    beside = entry.with_suffix(f".{os.getpid()}")
    beside.write_bytes(pickle.dumps(found))
    beside.replace(entry)
    return found


def entry_name(path: Path, size: int, options: Options, given: dict[str, Any]) -> str:
    parts = [path.name, path.read_text(), converted(path, options), code_hash(), *versions()]
    arguments = sorted((name, value) for name, value in given.items() if name != "beside")
    parts += [repr(size), repr(options), repr(arguments)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def converted(path: Path, options: Options) -> str:
    """What is run, and all that is said of it."""
    if path.suffix == ".ipynb":
        notebook = convert_notebook(nbformat.read(path, as_version=4), options=options)
        return nbformat.writes(notebook.notebook) + repr((notebook.changes, notebook.diagnostics))
    source = convert_source(path.read_text(), options=options)
    return source.code + repr((source.changes, source.diagnostics))


@cache
def code_hash() -> str:
    package = Path(jupyter_hvd.__file__).parent
    files = sorted(file for name in WATCHERS for file in (package / name).rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()


@cache
def versions() -> tuple[str, ...]:
    found = [sys.version]
    for name in TRAINERS:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return tuple(found)
