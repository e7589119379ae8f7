"""A batch script for Slurm, and the file that starts the ranks in the job."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import launch
from ..files import UnusableInputError

#: What is written into `#SBATCH` lines, which Slurm splits by rules of its own: nothing that it could read otherwise.
TIME = re.compile(r"[0-9][0-9:-]*")
PARTITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,-]*")
OPTION = re.compile(r"--[a-z][a-z-]*(=[A-Za-z0-9_.,:/@%+=*^()\[\]-]+)?")
#: The modules of the file that starts the ranks.
MODULES = ("hosts", "peer_users", "rendezvous", "allocation", "srun_ranks")

SCRIPT = """\
#!/bin/bash
{directives}

# Written by jupyter hvd. Submit it from the folder in which it lies:  sbatch {name}.sbatch
# The Python that has TensorFlow and Horovod, at this path on every node.
python={python}

if [ ! -f {name}.py ] || [ ! -f {name}_ranks.py ]; then
    echo "{name}.py and {name}_ranks.py are not here: submit this script from their folder" >&2
    exit 2
fi
exec "$python" -P {name}_ranks.py {words}
"""


@dataclass(frozen=True)
class SlurmJobSpec:
    """What is asked of Slurm.

    Attributes:
        size: how many tasks, one a rank. time: the limit, `2:00:00`. partition: where.
        more: further options of sbatch, `--gpus-per-task=1`.
        python: the interpreter on the nodes.
    """

    size: int
    python: str
    time: str | None = None
    partition: str | None = None
    more: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """
        Raises:
            UnusableInputError: a word cannot stand in a line that Slurm reads.
        """
        for option, pattern, value in (
            ("--time", TIME, self.time),
            ("--partition", PARTITION, self.partition),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise UnusableInputError(f"{option} {value}: Slurm does not know this value")
        for word in self.more:
            if not OPTION.fullmatch(word):
                raise UnusableInputError(
                    f"--sbatch: `{word}` is not an sbatch option that a script can have; "
                    "write each as --name=value"
                )


def slurm_files(name: str, arguments: Sequence[str], batch: SlurmJobSpec) -> dict[str, str]:
    """Return the files to write beside the program, by name: the batch script, and the starter of the ranks.

    Args:
        name: the program's, without `.py`; it must need no quoting in a shell or in Slurm.
        arguments: of the program.
    """
    directives = [
        f"--job-name={name}",
        f"--ntasks={batch.size}",
        *([f"--time={batch.time}"] if batch.time else []),
        *([f"--partition={batch.partition}"] if batch.partition else []),
        *batch.more,
    ]
    script = SCRIPT.format(
        name=name,
        directives="\n".join(f"#SBATCH {directive}" for directive in directives),
        python=shlex.quote(batch.python),
        words=shlex.join([f"{name}.py", *arguments]),
    )
    return {f"{name}.sbatch": script, f"{name}_ranks.py": starter_text()}


def starter_text() -> str:
    """Return the source of the file that starts the ranks; it needs no package but Horovod."""
    folder = Path(launch.__file__).parent
    return in_one_file([(folder / f"{module}.py").read_text() for module in MODULES])


def in_one_file(modules: Sequence[str]) -> str:
    """Join the source texts of modules of this package into one standalone Python file.

    Removes relative imports and `from __future__` lines. The docstring of the last module becomes that of the file.

    Args:
        modules: the source texts. Each comes after the modules that it imports.
    """
    bodies = [_module_body(text) for text in modules]
    last = ast.get_docstring(ast.parse(modules[-1])) or ""
    return f'"""{last}\n"""\n\nfrom __future__ import annotations\n\n' + "\n\n".join(bodies)


def _module_body(text: str) -> str:
    """Return a module's source without its docstring, relative imports and `__future__` imports."""
    lines = text.splitlines()
    for node in ast.parse(text).body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if node.lineno == 1:
                gone = True
            case ast.ImportFrom(module=module, level=level):
                gone = level > 0 or module == "__future__"
            case _:
                gone = False
        if gone:
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-2:] != ["", ""]):
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n"
