"""`make demo`: an example notebook is converted, its diff printed, trained on two ranks, and compared with one process."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from jupyter_hvd import cli

NOTEBOOK = str(Path(__file__).parents[1] / "examples" / "gradient_tape.ipynb")
#: The examples are few, and ranks share the cores of this machine: this shows that it is right, not that it is faster.
RANKS = "2"
STEPS = "20"
PARTS = (
    ("the conversion", ["convert", NOTEBOOK, "--diff", "--check"]),
    (f"training on {RANKS} ranks", ["run", NOTEBOOK, "-n", RANKS, "--no-log"]),
    (
        f"{STEPS} steps on {RANKS} ranks, compared with one process",
        ["verify", NOTEBOOK, "-n", RANKS, "--steps", STEPS],
    ),
)


def main() -> int:
    console = Console(highlight=False, soft_wrap=True)
    for title, command in PARTS:
        console.rule(title)
        if code := cli.main(command):
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
