"""HVD6, continued: files that all ranks open, read, cache and download."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ...analysis.effects import asks_files, changes_files, opens_for, writes
from ...analysis.index import ELEMENT
from ...analysis.syntax import argument, method
from ...analysis.uniformity import is_uniform
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .imports import first_import
from .questions import callback_values, is_guarded, own_line

NOWHERE = "/dev/null"


class OpenForWriting(Rule):
    """Let the other ranks write to nowhere what rank 0 writes into a file it has opened.

    Opening a file for writing empties it. A rank that comes later would empty what rank 0
    has written.
    """

    code = "HVD603"
    name = "files opened for writing"
    rationale = "Opening a file to write empties it: a rank that comes later would empty what rank 0 has written."
    examples = (
        Example(
            program(
                """
                import json
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                with open('history.json', 'w') as file:
                    json.dump(history.history, file)
                """
            ),
            program(
                """
                import json
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                with open('history.json' if hvd.rank() == 0 else '/dev/null', 'w') as file:
                    json.dump(history.history, file)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            mode = opens_for(context.values, call)
            if mode is None or not set(mode) & set("wax+") or is_guarded(context, call):
                continue
            path = argument(call, "file", 0) or argument(call, "name") or argument(call, "filename")
            if path is None or set(mode) & set("rx") or context.values.qualified(call.func) == "":
                yield Problem(
                    call,
                    f"every rank would open this file in mode {mode!r}",
                    f"open it under  if {context.backend.is_rank_zero}:",
                )
                continue
            simple = isinstance(
                path.value,
                (cst.Name, cst.SimpleString, cst.FormattedString, cst.Call, cst.Attribute),
            )
            choice = f" if {context.backend.is_rank_zero} else {NOWHERE!r}"
            if simple or path.value.lpar:
                yield Fix(call, (context.behind(path.value, choice, Layer.CHOICE),))
            else:
                yield Fix(call, context.wrap(path.value, "(", f"){choice}"))


class ChangeFiles(Rule):
    """Let rank 0 alone create, remove, rename and unpack files, download and run other programs, while the others wait.

    One rank would delete what another has just written, or find gone what it has seen a moment before. So what
    is asked before, `if os.path.exists(path)`, is answered by rank 0 for all, too. Making a
    folder with `exist_ok=True` is the same however many do it, and is left alone. Ranks on several
    machines share the disk. Where it cannot be seen that all ranks come to the place, rank 0 acts, and nobody waits.
    """

    code = "HVD608"
    name = "files changed"
    rationale = "Ranks that create, remove or unpack the same files at the same time undo one another's work."
    examples = (
        Example(
            program(
                """
                import os
                import shutil
                import tensorflow as tf

                if os.path.exists('logs'):
                    shutil.rmtree('logs')
                os.mkdir('logs')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
            program(
                """
                import os
                import shutil
                import tensorflow as tf

                if jhvd.on_rank_zero(lambda: os.path.exists('logs')):
                    jhvd.on_rank_zero(lambda: shutil.rmtree('logs'))
                jhvd.on_rank_zero(lambda: os.mkdir('logs'))
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        first = first_import(context)
        tests: dict[cst.BaseExpression, None] = {}
        for call in context.values.index.calls:
            if not changes_files(context.values, call) or is_guarded(context, call):
                continue
            if (
                first is not None
                and context.module.span(call).end < context.module.span(first).start
            ):
                continue  # before the ranks know of one another
            asked = together(context, call)
            line = own_line(context, call)
            if asked is not None:
                tests.update(dict.fromkeys(asked))
                act = f"{context.runtime('on_rank_zero')}(lambda: "
                edits = context.wrap(call, act, ")", Layer.CALL)
                yield Fix(call, edits, needs=(HOROVOD, "on_rank_zero"))
            elif line is not None:
                yield context.on_rank_zero(line, call)
            else:
                yield Problem(
                    call,
                    "every rank would do this, and it cannot be seen that all come here together",
                    f"do it under  if {context.backend.is_rank_zero}:  at the top level",
                )
        yield from self._shell_lines(context)
        for test in tests:
            ask = f"{context.runtime('on_rank_zero')}(lambda: "
            yield Fix(test, context.wrap(test, ask, ")"), needs=(HOROVOD, "on_rank_zero"))

    def _shell_lines(self, context: Context) -> Iterator[Finding]:
        """The `!` lines of a notebook, at the top level and behind the imports, that may do more than look."""
        first = first_import(context)
        text, module = context.cells.text, context.module
        if context.cells.labels is None or first is None:
            return
        for statement in module.tree.body:
            span = module.span(statement)
            end = module.line_end(span.end)
            if span.start < module.span(first).end or not text.startswith("!", span.start):
                continue
            while text[span.start : end].endswith("\\") and end < len(text):
                end = module.line_end(end + len(module.newline))
            line = text[span.start : end]
            if LOOKING.match(line) and ">" not in line:
                continue
            newline, step = module.newline, context.indent_step(statement)
            wait = f"{newline}{context.runtime('wait_for_rank_zero')}()"
            edits = (
                context.insert(span.start, f"if {context.backend.is_rank_zero}:{newline}{step}"),
                context.insert(end, wait),
            )
            yield Fix(statement, edits, needs=(HOROVOD, "wait_for_rank_zero"))


#: Lines of the shell that only look, or change what is each process's own.
LOOKING = re.compile(
    r"!\s*(cat|cd|date|df|du|echo|env|file|find|free|grep|head|ls|lscpu|lsb_release|nproc|nvidia-smi|pip\s+(list|show|freeze)"
    r"|pwd|python\S*\s+(--version|-V)|tail|tree|uname|uptime|wc|which|whoami)\b"
)


def together(
    context: Context, node: cst.CSTNode, seen: frozenset[cst.CSTNode] = frozenset()
) -> list[cst.BaseExpression] | None:
    """The tests that rank 0 must answer for all, so that all ranks come to a node together; None where they may not."""
    asked: list[cst.BaseExpression] = []
    function, child = context.module.function_of(node), node
    for ancestor in context.module.ancestors(node):
        if ancestor is function:
            break
        match ancestor:
            case cst.If(test=test) if child is not test and not is_uniform(context.values, test):
                if not asks_files(context.values, test):
                    return None
                asked.append(test)
            case cst.While(test=test) if not is_uniform(context.values, test):
                return None
            case cst.For(iter=iterable) if child is not iterable and not is_uniform(
                context.values, iterable, (ELEMENT,)
            ):
                return None
            case cst.Lambda() | cst.BaseComp() | cst.IfExp() | cst.BooleanOperation() | cst.With():
                if not isinstance(ancestor, cst.With):
                    return None
        child = ancestor
    if function is None:
        return asked
    sites = context.values.calls.sites(function)
    if not sites or function in seen or function in context.training.compiled.functions:
        return None
    for site in sites:
        more = together(context, site, seen | {function})
        if more is None or more:  # a test of one caller is not asked for the sake of another
            return None
    return asked


class WaitForFile(Rule):
    """Wait for rank 0 before a file is read that the program may have written before.

    Rank 0 alone writes. The others come past the place at once, and would read what is not
    there yet, or the state of an epoch before.
    """

    code = "HVD604"
    name = "files written before"
    rationale = "Rank 0 may still be writing what this rank is about to read."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                best = tf.keras.callbacks.ModelCheckpoint('best.h5', save_weights_only=True)
                model.fit(x, y, verbose=0, callbacks=[best])
                model.load_weights('best.h5')
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                best = tf.keras.callbacks.ModelCheckpoint('best.h5', save_weights_only=True)
                model.fit(x, y, verbose=0, callbacks=[best])
                jhvd.wait_for_rank_zero()
                model.load_weights('best.h5')
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        written, kept = self._written(context), self._kept(context)
        waited = -1
        for call in context.values.index.calls:
            start = context.module.span(call).start
            line = context.module.enclosing(call, cst.SimpleStatementLine)
            header = context.module.enclosing(call, cst.With)
            if line is None or (header is not None and line in context.module.ancestors(header)):
                line = None
            statement: cst.CSTNode | None = line
            if header is not None and any(
                item in context.module.ancestors(call) for item in header.items
            ):
                statement = header
            waited = max([waited, *(position for position in kept if position < start)])
            before = [position for position in written if waited < position < start]
            if statement is None or not before or not reads(context, call):
                continue
            if all_ranks_come_here(context, call):
                waited = start
                where = context.module.span(statement).start
                called = f"{context.runtime('wait_for_rank_zero')}()"
                text = f"{called}{context.module.newline}{context.module.indentation(where)}"
                wait = context.insert(where, text, Layer.WAIT)
                yield Fix(call, (wait,), needs=(HOROVOD, "wait_for_rank_zero"))

    def _written(self, context: Context) -> list[int]:
        """Where the program writes files: in the text, or in a `fit` with a callback that does."""
        calls = [
            call
            for call in context.values.index.calls
            if writes(context.values, call)
            or (changes_files(context.values, call) and together(context, call) is None)
            or set(opens_for(context.values, call) or "") & set("wax")
            or (
                call in context.training.keras.fits
                and any(
                    tf_api.callback(value.name) in tf_api.RANK_ZERO_CALLBACKS
                    for value in callback_values(context, call)
                )
            )
        ]
        return [context.module.span(call).start for call in calls]

    def _kept(self, context: Context) -> list[int]:
        """Where what saving returns, a path, is broadcast to all: who has it has waited."""
        return [
            context.module.span(call).end
            for call in context.values.index.calls
            if writes(context.values, call)
            and not isinstance(context.module.parent(call), cst.Expr)
            and all_ranks_come_here(context, call)
        ]


READING = frozenset(
    {
        "numpy.load",
        "numpy.loadtxt",
        "joblib.load",
        "tensorflow.keras.models.load_model",
        "tensorflow.saved_model.load",
        "tensorflow.train.load_checkpoint",
        "tensorflow.io.read_file",
    }
)


def reads(context: Context, call: cst.Call) -> bool:
    """Whether a call reads a file: weights, a checkpoint, a model, arrays, or one it opens."""
    name = context.values.qualified(call.func)
    if name in READING or name.startswith("pandas.read_"):
        return True
    mode = opens_for(context.values, call)
    if mode is not None:
        return not set(mode) & set("wax")
    kinds = (
        context.values.kinds(call.func.value)
        if isinstance(call.func, cst.Attribute)
        else frozenset()
    )
    return (method(call) == "load_weights" and Role.MODEL in kinds) or (
        method(call) in ("restore", "read", "restore_or_initialize")
        and bool(kinds & {Role.CHECKPOINT, Role.CHECKPOINT_MANAGER})
    )


def all_ranks_come_here(context: Context, node: cst.CSTNode) -> bool:
    """Whether a top-level node is reached by every rank, as often by each."""
    if context.module.function_of(node) is not None:
        return False
    child = node
    for ancestor in context.module.ancestors(node):
        match ancestor:
            case cst.If(test=test) | cst.While(test=test):
                if child is not test and not is_uniform(context.values, test):
                    return False
        if isinstance(ancestor, (cst.Try, cst.TryStar, cst.Lambda, cst.BaseComp, cst.IfExp)):
            return False
        child = ancestor
    return True


class Download(Rule):
    """Let the first rank of each machine download data before the others look for them.

    `mnist.load_data()` and the like keep what they download in one folder. Ranks that
    begin at once would write the same files at the same time.
    """

    code = "HVD605"
    name = "downloads"
    rationale = "All ranks of a machine would download into the same files at the same time."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                (x, y), _ = tf.keras.datasets.mnist.load_data()
                model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                (x, y), _ = jhvd.local_rank_zero_first(lambda: tf.keras.datasets.mnist.load_data())
                model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in downloads(context):
            first = f"{context.runtime('local_rank_zero_first')}(lambda: "
            edits = context.wrap(call, first, ")", Layer.CALL)
            yield Fix(call, edits, needs=(HOROVOD, "local_rank_zero_first"))


def downloads(context: Context) -> list[cst.Call]:
    """The calls that may download, where every rank makes them: in assignments at the top level."""
    found = []
    for call in context.values.index.calls:
        name = context.values.qualified(call.func)
        loads = re.fullmatch(r"tensorflow\.keras\.datasets\.\w+\.load_data", name)
        if not loads and name not in (
            "tensorflow.keras.utils.get_file",
            "tensorflow_datasets.load",
        ):
            continue
        statement = context.statement_of(call)
        assigned = isinstance(statement, (cst.Assign, cst.AnnAssign))
        if assigned and all_ranks_come_here(context, call):
            found.append(call)
    return found


class CacheFile(Rule):
    """Give each rank a cache file of its own for what it caches of a dataset.

    Each rank caches its share. In one file they would overwrite one another, or read another's share.
    """

    code = "HVD606"
    name = "cache files"
    rationale = "Each rank caches its own share, so it needs a file of its own."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).cache('train.cache').batch(32), verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(tf.data.Dataset.from_tensor_slices((x, y)).cache('train.cache' + f'-{hvd.rank()}-of-{hvd.size()}').batch(32), verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if method(call) not in ("cache", "snapshot") or not isinstance(
                call.func, cst.Attribute
            ):
                continue
            path = argument(call, "filename" if method(call) == "cache" else "path", 0)
            if path is None or not context.values.may_be(call.func.value, Role.DATASET):
                continue
            suffix = f" + f'-{{{context.backend.rank}}}-of-{{{context.backend.size}}}'"
            if isinstance(path.value, (cst.SimpleString, cst.Name, cst.FormattedString)):
                yield Fix(
                    path.value, (context.insert(context.module.span(path.value).end, suffix),)
                )
            else:
                yield Fix(path.value, context.wrap(path.value, "str(", f"){suffix}"))


RULES: tuple[type[Rule], ...] = (OpenForWriting, ChangeFiles, WaitForFile, Download, CacheFile)
