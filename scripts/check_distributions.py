"""Checks what a wheel and a source distribution hold, before anybody uploads them: check_distributions.py FOLDER."""

from __future__ import annotations

import json
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path, PurePosixPath

EXTENSION = "share/jupyter/labextensions/jupyter-hvd/"
NEEDED = (
    EXTENSION + "package.json",
    EXTENSION + "install.json",
    EXTENSION + "static/style.js",
    EXTENSION + "schemas/jupyter-hvd/plugin.json",
    "etc/jupyter/jupyter_server_config.d/jupyter_hvd.json",
    "jupyter_hvd/py.typed",
    "licenses/LICENSE",
)
#: Folders and endings that belong into no package.
FORBIDDEN = re.compile(
    r"(^|/)(tests?|ui-tests|node_modules|__pycache__|\.ipynb_checkpoints|\.venv[^/]*|\.ledger|\.cache"
    r"|\.(?:mypy|ruff|pytest)_cache)/|\.(pyc|map|tsbuildinfo|log)$"
)
#: What a source distribution has beside: tests and their runners, but nothing that was built for them.
FORBIDDEN_SOURCES = re.compile(FORBIDDEN.pattern.replace("tests?|ui-tests|", ""))
MAX_BYTES = 5_000_000
RELATIVE_LINK = re.compile(r"\]\((?!https?://)([^)]*)\)")
LICENCES = EXTENSION + "static/third-party-licenses.json"
#: Bundled by way of another package: a report that names direct dependencies only lacks them.
BUNDLED = {"@codemirror/merge", "style-mod"}
CLASSIFIERS = {
    "Framework :: Jupyter :: JupyterLab :: Extensions",
    "Framework :: Jupyter :: JupyterLab :: Extensions :: Prebuilt",
}
EXTRAS = {"tensorflow", "jax", "lab"}


def problems_of_wheel(path: Path) -> Iterator[str]:
    """What is wrong with a wheel, a sentence each."""
    if path.stat().st_size > MAX_BYTES:
        yield f"it has {path.stat().st_size} bytes, more than {MAX_BYTES}"
    with zipfile.ZipFile(path) as wheel:
        names = wheel.namelist()
        for needed in NEEDED:
            if not any(name.endswith(needed) for name in names):
                yield f"it lacks {needed}"
        yield from (f"{name} does not belong into it" for name in names if FORBIDDEN.search(name))
        for name in names:
            if name.endswith(LICENCES):
                yield from problems_of_licences(wheel.read(name))
            if name.endswith(".dist-info/METADATA"):
                yield from problems_of_metadata(BytesParser().parsebytes(wheel.read(name)))


def problems_of_licences(report: bytes) -> Iterator[str]:
    packages = {entry["name"]: entry for entry in json.loads(report)["packages"]}
    yield from (f"the licence of {name} is missing" for name in sorted(BUNDLED - set(packages)))
    for name, entry in packages.items():
        if not entry["licenseId"] or not entry["extractedText"].strip():
            yield f"the licence of {name} has no text"


def problems_of_metadata(metadata: Message) -> Iterator[str]:
    yield from sorted(
        f"the classifier {c} is missing"
        for c in CLASSIFIERS - set(metadata.get_all("Classifier") or ())
    )
    yield from sorted(
        f"the extra {e} is missing" for e in EXTRAS - set(metadata.get_all("Provides-Extra") or ())
    )
    for link in RELATIVE_LINK.findall(str(metadata.get_payload())):
        yield f"the long description links to {link}, which a package index does not have"


def problems_of_sources(path: Path) -> Iterator[str]:
    """What is wrong with a source distribution."""
    with tarfile.open(path) as archive:
        names = [str(PurePosixPath(*PurePosixPath(n).parts[1:])) for n in archive.getnames()]
    for needed in ("jupyter_hvd/labextension/static/style.js", "yarn.lock", "LICENSE"):
        if needed not in names:
            yield f"it lacks {needed}"
    yield from (
        f"{name} does not belong into it" for name in names if FORBIDDEN_SOURCES.search(name)
    )


def main(folder: Path) -> int:
    kinds = (("*.whl", problems_of_wheel), ("*.tar.gz", problems_of_sources))
    failed = False
    for pattern, problems_of in kinds:
        found = sorted(folder.glob(pattern))
        if len(found) != 1:
            print(f"{folder}: {len(found)} files {pattern}, not one", file=sys.stderr)
            failed = True
        for path in found:
            problems = list(problems_of(path))
            failed |= bool(problems)
            for problem in problems:
                print(f"{path.name}: {problem}", file=sys.stderr)
            if not problems:
                print(
                    f"{path.name}: {path.stat().st_size} bytes, content and metadata as they must be"
                )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
