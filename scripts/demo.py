"""`make demo`: an example notebook is converted, its diff printed, and trained on two ranks.

Each rank begins with a seed of its own; at the end all have the same weights.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from jupyter_hvd.verify.probe import orders, read_record
from rich.console import Console

from jupyter_hvd import cli
from jupyter_hvd.cli.run import converted_copy
from jupyter_hvd.convert import Options
from jupyter_hvd.launchers.job import Program, run_job
from jupyter_hvd.launchers.places import place

NOTEBOOK = Path(__file__).parents[1] / "examples" / "gradient_tape.ipynb"
RANKS = 2


def main() -> int:
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="jupyter-hvd-demo-") as name:
        folder = Path(name)
        console.rule("the conversion")
        cli.main(["convert", str(NOTEBOOK), "--diff", "--check"])
        console.rule(f"training on {RANKS} ranks, each with a seed of its own")
        printed: list[str] = []

        def show(rank: int, stream: str, line: str) -> None:
            if stream == "stdout":
                console.print(f"[cyan]\\[{rank}][/] {line}", highlight=False)
                printed.append(line)

        with converted_copy(NOTEBOOK, Options()) as (copy, private, _):
            result = run_job(
                Program(copy, NOTEBOOK, module="jupyter_hvd.verify.rank"),
                place(RANKS),
                private,
                listener=show,
                environment=orders(folder, NOTEBOOK.parent, ranks=RANKS, seed=1),
            )
        if result.code != 0:
            console.print(result.report)
            return result.code
        console.rule("result")
        for rank in range(RANKS):
            weights = hashlib.sha256("".join(read_record(folder, rank)["weights"]).encode())
            console.print(f"rank {rank}: weights {weights.hexdigest()[:16]}")
        console.print(next(line for line in printed if "accuracy" in line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
