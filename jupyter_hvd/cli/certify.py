"""`jupyter hvd certify`."""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import UnusableInputError
from .codes import OK

if TYPE_CHECKING:
    from ..tensor import TensorFunction

#: What a file is called while it is run for its functions: its `if __name__ == "__main__"` is not.
RUN_NAME = "certified"


def add_parser(commands: Any) -> None:
    """Add the command `certify`."""
    parser = commands.add_parser(
        "certify",
        help="what a tensor function's gradient costs: by formula, by theorem, and measured",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a Python file, which is run")
    parser.add_argument("function", metavar="FUNCTION", help="a tensor function that it defines")
    parser.add_argument("names", nargs="+", metavar="PARAMETER", help="what the gradient is by")
    parser.add_argument(
        "--size",
        action="append",
        type=parse_size,
        default=[],
        metavar="NAME=N",
        help="a size where growth begins; each that the parameters have, unless the file calls FUNCTION",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(command=run_certify)


def parse_size(text: str) -> tuple[str, int]:
    """Parse a name and number such as `n=100`.

    Raises:
        argparse.ArgumentTypeError: the text has another form, or the number is not positive.
    """
    name, equals, number = text.partition("=")
    if not (equals and name.isidentifier() and number.isdecimal() and int(number) > 0):
        raise argparse.ArgumentTypeError(f"{text}: write a name and a number, such as n=100")
    return name, int(number)


def run_certify(arguments: argparse.Namespace) -> int:
    """Run `certify`: print what the gradient of a tensor function costs, and return the exit code."""
    from ..tensor import TensorError

    function = tensor_function(arguments.file, arguments.function)
    try:
        certificate = function.certify(*arguments.names, sizes=dict(arguments.size) or None)
    except TensorError as error:
        advice = f"; {error.help}" if error.help else ""
        raise UnusableInputError(f"{error.message}{advice}") from None
    print(certificate.json() if arguments.json else certificate)
    return OK


def tensor_function(file: Path, name: str) -> TensorFunction:
    """Run a Python file and return a tensor function that it defines.

    Raises:
        UnusableInputError: the file does not exist, fails, or defines no such function.
    """
    from ..tensor import TensorFunction

    if file.suffix != ".py":
        raise UnusableInputError(
            f"{file}: certify takes a Python file; in a notebook call `{name}.certify(…)`"
        )
    try:
        defined: Mapping[str, Any] = runpy.run_path(str(file), run_name=RUN_NAME)
    except OSError as error:
        raise UnusableInputError(f"{file}: {error.strerror}") from None
    except (Exception, SystemExit) as error:
        raise UnusableInputError(
            f"{file} fails where it is run: {type(error).__name__}: {error}"
        ) from None
    function = defined.get(name)
    if not isinstance(function, TensorFunction):
        found = sorted(x for x, value in defined.items() if isinstance(value, TensorFunction))
        others = f"it has {', '.join(found)}" if found else "it defines none"
        raise UnusableInputError(f"{file}: `{name}` is not a tensor function there; {others}")
    return function
