"""HVD9, continued: other files that a program runs, and what these train."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ...source.cells import PYTHON_CELL_MAGICS
from ..base import Example, Finding, Problem, program
from .context import Context, Rule

#: Blanks between words of a shell's line, which may go on behind a backslash.
_GAP = r"(?:[ \t]|\\\r?\n)"
#: What a shell or IPython is given, with the name of a file of Python in it: `!python train.py`, `%run -i train`, `x = !./train.py`.
RUNS_FILE = re.compile(
    rf"""(?:^[ \t]*%run\b(?:{_GAP}+-\w+)*{_GAP}+ (?P<run>[^\s;]+)
        | \bpython[\d.]*(?:{_GAP}+-[uOBE]\b)*{_GAP}+ (?P<file>[^\s;|&-][^\s;|&]*\.py)\b
        | \bpython[\d.]*{_GAP}+-m{_GAP}+ (?P<module>[\w.]+)
        | (?:^|[;&|][ \t]*|!)[ \t]*\./(?P<own>[^\s;|&]+\.py)\b )""",
    re.VERBOSE | re.MULTILINE,
)
#: What starts ranks already.
STARTS_RANKS = re.compile(r"\b(horovodrun|mpirun|mpiexec|srun|jupyter[ -]hvd)\b")
#: Modules that are run by name, and train nothing.
TOOLS = re.compile(
    r"(pip|venv|virtualenv|ensurepip|ipykernel|unittest|pytest|http|json|zipfile|tarfile|compileall|site|spacy|nltk|black|ruff|jupyter\w*)\b"
)
#: Files that are run, and train nothing.
SETS_UP = re.compile(r"(.*/)?(setup|get-pip|manage)\.py$")
#: Functions that run other programs, or other files of Python.
RUNNING = ("subprocess.", "os.system", "os.popen", "os.exec", "os.spawn", "runpy.")
#: Cell magics that are given to a shell.
SHELLS = ("!", "bash", "script", "sh", "sx", "system")
SCRIPT = program(
    """
    import runpy
    import tensorflow as tf

    runpy.run_path('train.py')
    model = tf.keras.models.load_model('trained.keras')
    """
)


class TrainsElsewhere(Rule):
    """Another file of Python is run: `!python train.py`, `%run train.py`, `subprocess.run([sys.executable, "train.py"])`.

    What that file trains, it trains as it is, in one process, without Horovod; it has to be converted itself.
    """

    code = "HVD910"
    name = "another file is run"
    refuses = True
    rationale = "A conversion is of one file."
    examples = (
        Example(
            SCRIPT,
            SCRIPT,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from self._lines(context)
        for call in context.values.index.calls:
            if context.values.qualified(call.func).startswith(RUNNING):
                yield from told(call, self._written(context, call))

    def _lines(self, context: Context) -> Iterator[Problem]:
        """What a notebook gives to a shell, or to `%run`."""
        cells = context.cells
        if cells.labels is None:
            return
        for start, source, masked in zip(cells.starts, cells.sources, cells.masked, strict=True):
            magic = re.match(r"\s*%%(\w+|!)", source)
            if magic is not None and magic.group(1) not in (*PYTHON_CELL_MAGICS, *SHELLS):
                continue
            for match in RUNS_FILE.finditer(source):
                # What is masked is no Python.
                if masked[match.start() : match.end()] != match.group():
                    yield from told(start + match.start(), match)

    def _written(self, context: Context, call: cst.Call) -> re.Match[str] | None:
        """A command in the arguments of a call, as far as it is written there."""
        words: list[str] = []
        for arg in call.args[:1]:
            parts = arg.value.elements if isinstance(arg.value, (cst.List, cst.Tuple)) else (arg,)
            for part in parts:
                if isinstance(part.value, cst.SimpleString):
                    words.append(str(part.value.evaluated_value))
                elif context.values.qualified(part.value) == "sys.executable":
                    words.append("python")
        command = " ".join(words)
        if context.values.qualified(call.func).startswith("runpy."):
            command = f"%run {command}"
        return RUNS_FILE.search(command)


def told(anchor: cst.CSTNode | int, found: re.Match[str] | None) -> Iterator[Problem]:
    """That a file is run as it is."""
    name = next(filter(None, found.groups())) if found else ""
    if found is None or TOOLS.match(name) or SETS_UP.match(name):
        return
    line = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.end()]
    if STARTS_RANKS.search(line):
        return
    yield Problem(
        anchor,
        f"{name} is run here as it is: what it trains, it trains in one process, without Horovod",
        "convert that file itself, `jupyter hvd convert FILE`, and start it with `jupyter hvd run`",
        "warning",
    )


RULES: tuple[type[Rule], ...] = (TrainsElsewhere,)
