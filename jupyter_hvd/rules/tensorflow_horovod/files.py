"""HVD6, continued: files that all ranks open, read, cache and download."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from ...analysis.effects import opens_for, writes
from ...analysis.syntax import argument, method
from ...analysis.uniformity import is_uniform
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .questions import callback_values, is_guarded

NOWHERE = "/dev/null"


class OpenForWriting(Rule):
    """Let the other ranks write to nowhere what rank 0 writes into a file it has opened.

    Opening a file for writing empties it. A rank that comes later would empty what rank 0
    has written.
    """

    code = "HVD603"
    name = "files opened for writing"
    message = "Opening a file to write empties it: a rank that comes later would empty what rank 0 has written."
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
                end = context.module.span(path.value).end
                yield Fix(call, (context.insert(end, choice, Layer.CHOICE),))
            else:
                yield Fix(call, context.wrap(path.value, "(", f"){choice}"))


class WaitForFile(Rule):
    """Wait for rank 0 before a file is read that the program may have written before.

    Rank 0 alone writes. The others come past the place at once, and would read what is not
    there yet, or the state of an epoch before.
    """

    code = "HVD604"
    name = "files written before"
    message = "Rank 0 may still be writing what this rank is about to read."
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
            or set(opens_for(context.values, call) or "") & set("wax")
            or (
                call in context.training.fits
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
    message = "All ranks of a machine would download into the same files at the same time."
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
    message = "Each rank caches its own share, so it needs a file of its own."
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


RULES: tuple[type[Rule], ...] = (OpenForWriting, WaitForFile, Download, CacheFile)
