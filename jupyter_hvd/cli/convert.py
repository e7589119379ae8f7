"""`jupyter hvd convert`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from ..convert.conversion_limit import conversion_limit
from ..convert.documents import load_document, write_document
from ..files import UnusableInputError, write_atomically
from .codes import OK, REFUSED, UNUSABLE
from .options import add_batch, add_options, options_for
from .show import make_consoles, print_diff, print_error, print_outcome


def add_parser(commands: Any) -> None:
    """Add the command `convert`."""
    parser = commands.add_parser("convert", help="convert notebooks and scripts")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="where to write, instead of NAME_hvd beside the input",
    )
    parser.add_argument("--in-place", action="store_true", help="replace the input")
    parser.add_argument("--diff", action="store_true", help="print what changes, cell by cell")
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object about all files")
    add_batch(parser)
    add_options(parser)
    parser.set_defaults(command=run_convert)


def run_convert(arguments: argparse.Namespace) -> int:
    """Run `convert` on each file; return the worst exit code of all."""
    if arguments.output is not None and arguments.in_place:
        raise UnusableInputError("-o and --in-place exclude each other")
    if arguments.output is not None and len(arguments.files) > 1 and not arguments.output.is_dir():
        raise UnusableInputError(
            f"{arguments.output}: to convert several files, name a folder that exists"
        )
    files: list[dict[str, Any]] = []
    code = OK
    for path in arguments.files:
        try:
            file = convert_file(path, arguments)
        except UnusableInputError as error:
            print_error(error)
            file = invalid_as_json(path, str(error))
        files.append(file)
        if file["status"] == "invalid":
            code = UNUSABLE
        elif file["status"] == "refused" and code != UNUSABLE:
            code = REFUSED
    if arguments.json:
        print(json.dumps({"files": files}, indent=2))
    return code


def convert_file(path: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    """Convert a file, print and write what the options ask for; return the outcome as JSON.

    Raises:
        UnusableInputError: the file cannot be converted, or the outcome cannot be written.
    """
    document = load_document(path)
    options = options_for(arguments, path)
    with conversion_limit(path, arguments.conversion_limit):
        outcome, converted = document.convert(options)
    output = None
    if outcome.status == "converted" and not arguments.check:
        output = output_path(path, arguments)
        if options.standalone:
            write_runtime(output)
        write_document(output, converted)
    if not arguments.json:
        console, errors = make_consoles(False)
        if arguments.diff:
            print_diff(console, path, document, converted)
        print_outcome(errors, path, outcome, output)
    return {"path": str(path), **outcome.as_json(), "output": str(output) if output else None}


def write_runtime(program: Path) -> None:
    """Write the runtime file that a stand-alone program imports.

    Raises:
        UnusableInputError: a file of this name that this package did not write exists.
    """
    from ..jobs.shared_runtime import is_own, runtime_file, runtime_path

    path = runtime_path(program)
    if (path.exists() or path.is_symlink()) and not is_own(path):
        raise UnusableInputError(
            f"{path}: is there already and not from jupyter hvd; the program needs a file of this name beside it"
        )
    write_atomically(path, runtime_file().encode())


def output_path(path: Path, arguments: argparse.Namespace) -> Path:
    """Return the path for a conversion: never that of a file that this package did not write, unless the user names it."""
    if arguments.in_place:
        return path
    if arguments.output is not None:
        output: Path = arguments.output
        return output / path.name if output.is_dir() else output
    beside = path.with_name(f"{path.stem}_hvd{path.suffix}")
    if (beside.exists() or beside.is_symlink()) and not is_own_output(beside):
        raise UnusableInputError(
            f"{beside}: is there already and not from jupyter hvd; choose another place with -o"
        )
    return beside


def is_own_output(path: Path) -> bool:
    """Whether this package wrote the file."""
    from ..convert.rules.imports import MARK

    try:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return False
    return MARK in text


def invalid_as_json(path: Path, message: str) -> dict[str, Any]:
    """Return the JSON of a file that could not be read."""
    from ..convert.rules.options import SYNTAX

    diagnostic = {
        "code": SYNTAX,
        "severity": "error",
        "cell": None,
        "line": 1,
        "column": 1,
        "message": message,
        "help": "",
    }
    return {
        "path": str(path),
        "status": "invalid",
        "training_loop": "none",
        "output": None,
        "changes": [],
        "diagnostics": [diagnostic],
    }
