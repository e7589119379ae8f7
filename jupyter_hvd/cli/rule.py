"""`jupyter hvd rule`."""

from __future__ import annotations

import argparse
from typing import Any

from ..files import UnusableInputError
from .codes import OK
from .show import make_consoles


def add_parser(commands: Any) -> None:
    """Add the command `rule`."""
    parser = commands.add_parser("rule", help="list the rules, or explain one")
    parser.add_argument("code", nargs="?", metavar="CODE")
    parser.set_defaults(command=run_rule)


def run_rule(arguments: argparse.Namespace) -> int:
    """Run `rule`: print all rules, or the page of one; return the exit code."""
    from rich.table import Table

    from ..convert.rules import BY_CODE, RULES

    console, _ = make_consoles(False)
    if arguments.code is None:
        table = Table("code", "rule", "why", box=None, pad_edge=False)
        for rule in RULES:
            table.add_row(rule.code, rule.name, rule.rationale)
        console.print(table)
        return OK
    if arguments.code.upper() not in BY_CODE:
        raise UnusableInputError(
            f"{arguments.code}: there is no such rule; `jupyter hvd rule` lists all"
        )
    from rich.markdown import Markdown

    from ..convert.documentation import format_rule_page

    console.print(Markdown(format_rule_page(BY_CODE[arguments.code.upper()])))
    return OK
