"""`jupyter hvd explain`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..convert.conversion_limit import conversion_limit
from ..convert.documents import Notebook, load_document
from ..files import UnusableInputError
from .codes import OK
from .options import add_limit


def add_parser(commands: Any) -> None:
    """Add the command `explain`."""
    parser = commands.add_parser(
        "explain", help="how each variable changes where batches grow with the number of ranks"
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_limit(parser)
    parser.set_defaults(command=run_explain)


def run_explain(arguments: argparse.Namespace) -> int:
    """Run `explain`: print how each variable changes with the number of ranks, and return the exit code."""
    from ..convert import explain_cells
    from ..source.cells import JoinedCells

    document = load_document(arguments.file)
    sources = document.sources
    labels = [label for label in sources if label is not None]
    texts = tuple(sources.values())
    cells = JoinedCells.of(texts, labels) if isinstance(document, Notebook) else JoinedCells(texts)
    try:
        with conversion_limit(arguments.file, arguments.conversion_limit):
            found = explain_cells(cells)
    except SyntaxError as error:
        raise UnusableInputError(f"{arguments.file}: {error}") from None
    if arguments.json:
        print(json.dumps({"variables": [each.as_json() for each in found]}, indent=2))
    else:
        for each in found:
            print(each.words)
    return OK
