"""The parser of our magics' arguments: IPython's own, which also shows the usage and knows `--help`."""

from __future__ import annotations

import shlex
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic_arguments import MagicArgumentParser

from ..removed_options import removed_words


class MagicParser(MagicArgumentParser):  # type: ignore[misc]
    """Reports wrong arguments to the user instead of ending the kernel, as argparse would."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog, description=description, add_help=True)
        self.allow_abbrev = False

    def error(self, message: str) -> NoReturn:
        """Raise UsageError with a message and the usage."""
        raise UsageError(f"{self.prog}: {message}\n{self.format_usage().strip()}")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Raise UsageError with the message or the help, instead of ending the kernel."""
        raise UsageError(message or self.format_help())

    def parse_line(self, line: str, default: str = "") -> Any:
        """Parse the line of a magic, or `default` if the line is empty.

        Raises:
            UsageError: the arguments are wrong, or `--help` was given.
        """
        try:
            words = shlex.split(line) or shlex.split(default)
        except ValueError as error:  # a quotation mark that is not closed
            self.error(str(error))
        if advice := removed_words(words):
            raise UsageError(f"{self.prog}: {advice}")
        return self.parse_args(words)
