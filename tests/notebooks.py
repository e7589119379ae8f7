"""Converts folders of notebooks that others wrote, and says of each that is refused why.

    python tests/notebooks.py NAME=FOLDER … [--write docs/corpus-history.md]

The notebooks are only read. Of each folder the page has a row, and every refusal has a line.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import nbformat

from jupyter_hvd import convert_notebook

#: Where the part of the page begins that this program writes; what stands above is `tests/corpus.py`'s.
HEADING = "## Notebooks"
COLUMNS = ("converted", "refused", "unchanged", "invalid", "unreadable")


def outcome(path: Path) -> tuple[str, list[str]]:
    """What becomes of a notebook, and the first line of each reason, each once."""
    try:
        conversion = convert_notebook(nbformat.read(path, as_version=4))
    except Exception as error:  # a notebook that nbformat cannot read, or one in another language
        return "unreadable", [type(error).__name__]
    errors = [d for d in conversion.diagnostics if d.severity == "error"]
    reasons = [f"{d.code}, cell {d.cell}: {d.message}" for d in errors]
    first = {reason.partition(",")[0]: reason for reason in reversed(reasons)}
    return conversion.status, [*reversed(first.values())]


def page(collections: dict[str, dict[str, tuple[str, list[str]]]]) -> str:
    """A row for each collection, then the refusals, one a line."""
    lines = [
        HEADING,
        "",
        "Collections that a developer has fetched, converted by `make coverage`. `unchanged` is what does not train.",
        "",
        f"| collection | notebooks | {' | '.join(COLUMNS)} |",
        "|---|" + "---:|" * (len(COLUMNS) + 1),
    ]
    for name, found in collections.items():
        counts = Counter(status for status, _ in found.values())
        cells = [len(found), *(counts[column] for column in COLUMNS)]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    lines += ["", "| not converted | why, the first of each kind |", "|---|---|"]
    for name, found in collections.items():
        for path, (status, reasons) in found.items():
            if status not in ("converted", "unchanged"):
                lines.append(f"| {name}: `{path}` | {'; '.join(reasons)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--write", type=Path, help="the page whose last part this is")
    arguments = parser.parse_args()
    collections = {}
    for given in arguments.folders:
        name, _, folder = given.rpartition("=")
        paths = sorted(Path(folder).rglob("*.ipynb"))
        with get_context("spawn").Pool() as pool:
            done = pool.map(outcome, paths, chunksize=4)
        names = [str(path.relative_to(folder)) for path in paths]
        collections[name or Path(folder).name] = dict(zip(names, done, strict=True))
    text = page(collections)
    print(text)
    if arguments.write:
        above = arguments.write.read_text().partition(HEADING)[0]
        arguments.write.write_text(f"{above.rstrip()}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
