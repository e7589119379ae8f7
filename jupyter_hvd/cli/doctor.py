"""`jupyter hvd doctor`."""

from __future__ import annotations

import argparse
from typing import Any

from .codes import OK, REFUSED
from .show import make_consoles


def add_parser(commands: Any) -> None:
    """Add the command `doctor`."""
    parser = commands.add_parser("doctor", help="what is installed, and whether it fits together")
    parser.set_defaults(command=run_doctor)


def run_doctor(_: argparse.Namespace) -> int:
    """Run `doctor`: print what is installed; return `REFUSED` if something does not fit together."""
    from ..doctor import examine_tools, print_findings

    return OK if print_findings(make_consoles(False)[0], examine_tools()) else REFUSED
