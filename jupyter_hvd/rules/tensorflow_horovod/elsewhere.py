"""HVD9, continued: what a program trains in other files, and behind magics."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import itemgetter

import libcst as cst

from ...analysis.syntax import method
from ...frameworks.tensorflow.roles import Role
from ...source.masking import PYTHON_CELL_MAGICS, cell_magics, own_statement
from ..base import Example, Finding, Problem, program
from .context import Context, Rule
from .imports import first_import
from .questions import KNOWN_LIBRARIES, trains_by_name

#: Blanks between words of a shell's line, which may go on behind a backslash.
_GAP = r"(?:[ \t]|\\\r?\n)"
#: What a shell or IPython is given, with the name of a file of Python in it: `!python train.py`, `%run -i train`, `x = !./train.py`.
RUNS_FILE = re.compile(
    rf"""(?:^[ \t]*%run\b(?:{_GAP}+-\w+)*{_GAP}+ (?P<run>[^\s;]+)
        | \bpython[\d.]*(?:{_GAP}+-[uOBE]\b)*{_GAP}+ (?P<file>[^\s;|&-][^\s;|&]*\.py)\b
        | \bpython[\d.]*{_GAP}+-m{_GAP}+ (?P<module>[\w.]+)
        | (?:^|[;&|!])[ \t]*\./(?P<own>[^\s;|&!]+\.py)\b )""",
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
#: Cell magics that are given to something else than Python.
NO_PYTHON = (
    *SHELLS,
    *(
        "HTML",
        "html",
        "javascript",
        "js",
        "latex",
        "markdown",
        "perl",
        "ruby",
        "svg",
        "file",
        "writefile",
    ),
)
#: A call that trains, where no more than its text is seen.
TRAINING_CALL = re.compile(
    r"(?:(?<![\w.])(?P<model>[\w.]+)\.(?:fit|fit_generator|train_on_batch)|(?P<update>\.apply_gradients|\.minimize))\s*\("
)
#: What runs a statement as often as a clock says, unless it is told how often.
UNTIL_CLOCK = re.compile(
    r"^[ \t]*(?:(?P<cell>%%)%?[ \t]*|%[ \t]*)?timeit\b(?!.*[ \t]-n)", re.MULTILINE
)
#: Libraries, besides those that are known not to train, whose training is not TensorFlow's.
OTHER_LEARNING = (
    *(
        "catboost",
        "fastai",
        "flax",
        "gensim",
        "jax",
        "lightgbm",
        "lightning",
        "mxnet",
        "nltk",
        "optax",
    ),
    *(
        "paddle",
        "prophet",
        "pytorch_lightning",
        "scipy",
        "skimage",
        "skorch",
        "spacy",
        "statsmodels",
    ),
    *("surprise", "torch", "xgboost"),
)
MODULE = program(
    """
    import tensorflow as tf
    from mytraining import train_model

    train_model('data.csv', epochs=5)
    model = tf.keras.models.load_model('trained.keras')
    """
)
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
            magics = cell_magics(source)
            if magics and magics[-1] not in (*PYTHON_CELL_MAGICS, *SHELLS):
                continue
            for match in without_started_ranks(source):
                # What is masked is no Python.
                if masked[match.start() : match.end()] != match.group():
                    yield from told(start + match.start(), match)

    def _written(self, context: Context, call: cst.Call) -> re.Match[str] | None:
        """The file that a call runs, by the command in its arguments as far as it is written there."""
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
        return next(without_started_ranks(command), None)


def without_started_ranks(text: str) -> Iterator[re.Match[str]]:
    """The commands in a text that run a file, but for those on a line that starts ranks in front of them."""
    starts = iter(STARTS_RANKS.finditer(text))
    following, end = next(starts, None), -1  # the end of the last line that starts ranks
    for found in RUNS_FILE.finditer(text):
        while following is not None and following.start() < found.end():
            if following.start() > end:
                end = text.find("\n", following.start()) % (len(text) + 1)
            following = next(starts, None)
        if found.start() > end:
            yield found


def told(anchor: cst.CSTNode | int, found: re.Match[str] | None) -> Iterator[Problem]:
    """That a file is run as it is."""
    name = next(filter(None, found.groups())) if found else ""
    if found is None or TOOLS.match(name) or SETS_UP.match(name):
        return
    yield Problem(
        anchor,
        f"{name} is run here as it is: what it trains, it trains in one process, without Horovod",
        "convert that file itself, `jupyter hvd convert FILE`, and start it with `jupyter hvd run`",
        "warning",
    )


class OutOfSight(Rule):
    """Training stands in another module, or behind a magic.

    What a function of another module trains, by its name or its module's, is trained as it stands there, in each rank by itself. So is what stands behind
    a magic that nothing here reads, `%memit model.fit(x, y)`. Behind `%time`, `%prun` and `%timeit -n 3`, and in cells under them, is
    Python like any other; `%timeit` without a number takes as many turns as the clock of each rank says.
    """

    code = "HVD911"
    name = "training out of sight"
    refuses = True
    rationale = "A conversion is of one file, and of what in it can be read."
    examples = (
        Example(
            MODULE,
            MODULE,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        yield from self._modules(context)
        cells = context.cells
        if cells.labels is None or first_import(context) is None:
            return
        training = context.training
        calls = [*training.keras.fits, *training.keras.searches]
        calls += [site.call for _, sites in training.own_updates for site in sites]
        trained = sorted(
            ((context.module.span(call).start, call) for call in calls), key=itemgetter(0)
        )
        for start, source, masked in zip(cells.starts, cells.sources, cells.masked, strict=True):
            yield from self._masked(context, start, source, masked)
            yield from self._repeated(start, source, trained)

    def _modules(self, context: Context) -> Iterator[Problem]:
        """Functions and objects of other modules that train, by their names."""
        values = context.values
        compiles = context.training.keras.compiles
        compiling = {a for call in compiles for a in context.module.ancestors(call)}
        told: set[str] = set()
        own = {*context.training.compiled_trainings, *context.training.keras.searches}
        for call in values.index.calls:
            given = [value for arg in call.args for value in values.of(arg.value)]
            if call in own or any(
                v.kind in (Role.MODEL, Role.OPTIMIZER) or v.node in compiling for v in given
            ):
                continue  # which is converted, or HVD906
            names = {values.qualified(call.func)}
            if isinstance(call.func, cst.Attribute):
                owners = values.of(call.func.value)
                names |= {f"{v.name}.{method(call)}" for v in owners if v.name and v.node}
            for name in sorted(names - told):
                told.add(name)
                if (
                    (trains_by_name(name) or self._is_for_its_effect(context, call))
                    and not name.startswith(KNOWN_LIBRARIES)
                    and name.partition(".")[0] not in OTHER_LEARNING
                ):
                    yield Problem(
                        call,
                        f"{context.module.text(call.func)} trains, by its name, in another module, which is not converted with this one",
                        "bring its training into this file, or convert that module's file too",
                        "warning",
                    )

    def _is_for_its_effect(self, context: Context, call: cst.Call) -> bool:
        """Whether a function is called that is to train something, and whose answer nobody asks for: `lib.train_ch3(net, data)`."""
        begins = method(call).startswith("train_")
        return begins and isinstance(context.module.parent(call), cst.Expr)

    def _masked(self, context: Context, start: int, source: str, masked: str) -> Iterator[Problem]:
        """Training that is no part of the program as it is read."""
        if set(cell_magics(source)[-1:]) & set(NO_PYTHON):
            return
        offset = start
        for line, hidden in zip(source.split("\n"), masked.split("\n"), strict=True):
            found = TRAINING_CALL.search(line.partition("#")[0])
            shell = re.match(r"(?:[^#'\"]*=)?\s*!", line)
            if line != hidden and found and not shell and own_statement(line, hidden) is None:
                compiled = context.training.keras.compiled_receivers
                known = found["update"] or found["model"] in compiled
                yield Problem(
                    offset + found.start(),
                    "this stands behind a magic that is not read, so its training stays that of one process",
                    "take the magic away, or use %time",
                    "error" if known else "warning",
                )
            offset += len(line) + 1

    def _repeated(
        self, start: int, source: str, trained: Sequence[tuple[int, cst.Call]]
    ) -> Iterator[Problem]:
        """Training that is repeated as often as each rank's clock says.

        Args:
            start: where the cell begins in the program.
            trained: the calls that train, in order, each with where it begins in the program.
        """
        for found in UNTIL_CLOCK.finditer(source):
            end = (
                len(source) if found["cell"] else source.find("\n", found.end()) % (len(source) + 1)
            )
            first = bisect_left(trained, start + found.start(), key=itemgetter(0))
            for place, call in islice(trained, first, None):
                if place >= start + end:
                    break
                yield Problem(
                    call,
                    "timeit repeats this training as often as the clock of each rank says, and ranks that go on wait for those that have ended",
                    "say how often, as in %timeit -n 3, or use %time",
                )


RULES: tuple[type[Rule], ...] = (TrainsElsewhere, OutOfSight)
