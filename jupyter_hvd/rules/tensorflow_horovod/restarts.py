"""HVD4, continued: `fit` goes on where it was when its job is started again."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import nodes_in
from ...frameworks.tensorflow import tf_api
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, Severity, program
from .context import HOROVOD, Context, Rule
from .questions import callback_values

#: Methods by which a program takes up what it has kept itself.
RESTORING = frozenset({"restore", "restore_or_initialize", "read", "load_weights", "load_model"})
AGAIN = "when the job is started again after a fault"
COUNTED = "write it as `for turn in range(…)`, with a `break` where it ends earlier, or restore its state by a tf.train.CheckpointManager"
OUTSIDE = (
    "keep them in a list or dictionary, in a `tf.Variable`, or on an object of the program's own"
)
Loop = cst.For | cst.While


class Backups(Rule):
    """Let all ranks go on from rank 0's backup.

    `BackupAndRestore` keeps weights and the number of the epoch, and a program that is started again goes on from there. Were the
    callback rank 0's alone, it would skip epochs that the other ranks train, which would wait for it forever; did every rank have
    one, they would write one another's files.
    """

    code = "HVD406"
    name = "backups"
    rationale = "Rank 0 keeps the backup; when the program is started again, all ranks go on from it, at one epoch."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, epochs=9, verbose=0, callbacks=[tf.keras.callbacks.BackupAndRestore('backup')])
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, epochs=9, verbose=0, callbacks=[jhvd.distributed_backup(tf.keras.callbacks.BackupAndRestore)('backup')])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if tf_api.callback(context.values.qualified(call.func)) in tf_api.BACKUPS:
                opening = f"{context.runtime('distributed_backup')}("
                edits = context.wrap(call.func, opening, ")", Layer.FUNCTION)
                yield Fix(call, edits, needs=(HOROVOD, "distributed_backup"))


class Restarts(Rule):
    """Let training go on where it was when the job is started again: `jupyter hvd run --restarts K` and `--elastic`.

    After each epoch rank 0 keeps the weights, the optimizer's state and the history of each `fit`, in a folder that the job's
    restarts share. A `fit` that was done is not done again, and its history is as if nothing had happened. One that keeps its own
    backup is left to that. What callbacks remember, as `EarlyStopping` does, begins anew.

    Of loops with tapes the outermost `for` goes on after the last turn that was kept, with the models, optimizers, metrics and data
    that it had then. Turns that are long are kept each; of short ones so many lie between that keeping takes 2 % of the time at the
    most. Numbers of a function that its loop binds anew, a count say, begin anew, which is told, and so does a `while`, which an elastic
    job may not have. A program that restores checkpoints is left to that.
    """

    code = "HVD407"
    name = "restarts"
    rationale = (
        "Started again after a fault, this fit goes on after the last epoch that it finished."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, epochs=9, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = jhvd.resumed_fit(model.fit)(x, y, epochs=9, verbose=0)
                """
            ),
            restartable=True,
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                optimizer = tf.keras.optimizers.SGD(0.1)
                for epoch in range(9):
                    for images, labels in dataset:
                        with tf.GradientTape() as tape:
                            loss = tf.reduce_mean(tf.square(model(images) - labels))
                        gradients = tape.gradient(loss, model.trainable_variables)
                        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                optimizer = tf.keras.optimizers.SGD(0.1)
                for epoch in jhvd.resumed_loop(range(9), globals()):
                    for images, labels in dataset:
                        with tf.GradientTape() as tape:
                            loss = tf.reduce_mean(tf.square(model(images) - labels))
                        gradients = tape.gradient(loss, model.trainable_variables)
                        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
                """
            ),
            restartable=True,
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if not (context.options.restartable or context.options.elastic):
            return
        loops = self._loops(context)
        for loop in loops:
            if isinstance(loop, cst.For):
                yield from self._resumed(context, loop)
            else:
                severity: Severity = "error" if context.options.elastic else "warning"
                yield Problem(loop, f"{AGAIN}, a `while` loop begins anew", COUNTED, severity)
        for call in context.training.keras.fits:
            callbacks = {tf_api.callback(value.name) for value in callback_values(context, call)}
            if not callbacks & tf_api.BACKUPS and not {*_around(context, call)} & {*loops}:
                opening = f"{context.runtime('resumed_fit')}("
                edits = context.wrap(call.func, opening, ")", Layer.RESUMED)
                yield Fix(call, edits, needs=(HOROVOD, "resumed_fit"))

    def _loops(self, context: Context) -> list[Loop]:
        """The outermost loops around the program's own updates; none where it restores what it has kept itself."""
        if any(
            context.module.text(call.func).rpartition(".")[2] in RESTORING
            for call in context.values.index.calls
        ):
            return []
        sites = [site for _, sites in context.training.own_updates for site in sites]
        return list(
            dict.fromkeys(loop for site in sites for loop in _outermost(context, site.call))
        )

    def _resumed(self, context: Context, loop: cst.For) -> Iterator[Finding]:
        function = context.module.function_of(loop)
        names = "globals()" if function is None else "globals(), locals()"
        opening = f"{context.runtime('resumed_loop')}("
        edits = context.wrap(loop.iter, opening, f", {names})", Layer.RESUMED_LOOP)
        reason = "Started again after a fault, this loop goes on after the last turn that was kept."
        yield Fix(loop.iter, edits, reason, (HOROVOD, "resumed_loop"))
        lost = [] if function is None else _carried(context, loop, function)
        if lost:
            listed = ", ".join(f"`{name}`" for name in lost)
            begin = "begins" if len(lost) == 1 else "begin"
            text = f"{listed} of this function {begin} anew"
            yield Problem(loop, f"{AGAIN}, {text}", OUTSIDE, "warning")


def _around(context: Context, call: cst.Call) -> Iterator[Loop]:
    """All loops around a call, and around the calls of the function that it stands in."""
    for site in context.values.calls.leading_to(call):
        yield from _loops_of(context, site)


def _loops_of(context: Context, node: cst.CSTNode) -> list[Loop]:
    """The loops around a node in its function, from the innermost on."""
    function = context.module.function_of(node)
    around = []
    for outer in context.module.ancestors(node):
        if outer is function:
            break
        if isinstance(outer, (cst.For, cst.While)):
            around.append(outer)
    return around


def _outermost(
    context: Context, call: cst.Call, seen: frozenset[cst.CSTNode] = frozenset()
) -> list[Loop]:
    """The outermost loops around a call, by all ways that lead to it; of a function that some loop calls, none of its own."""
    function = context.module.function_of(call)
    sites = [] if function is None else context.values.calls.sites(function)
    outer = [
        loop
        for site in sites
        if function is not None and function not in seen
        for loop in _outermost(context, site, seen | {function})
    ]
    return outer or _loops_of(context, call)[-1:]


def _carried(context: Context, loop: cst.For, function: cst.FunctionDef) -> list[str]:
    """Names of a function whose values one turn of a loop hands to the next: counts, the best value so far."""
    start = context.module.span(loop).start
    before: set[str] = set()
    within: dict[str, list[cst.CSTNode]] = {}
    for target in context.values.index.bound:
        if isinstance(target, cst.Name) and context.module.function_of(target) is function:
            if loop in context.module.ancestors(target):
                within.setdefault(target.value, []).append(target)
            elif context.module.span(target).start < start:
                before.add(target.value)
    everywhere = {
        item.name.value
        for line in nodes_in(function.body)
        if isinstance(line, cst.Global)
        for item in line.names
    }
    carried = (before & {*within}) - everywhere
    return [name for name in within if name in carried and _is_read_first(loop, name)]


def _is_read_first(loop: cst.For, name: str) -> bool:
    """Whether a turn reads a name, or may leave it as it is, before a statement of the loop's own body binds it."""
    for statement in loop.body.body:
        match statement:
            case cst.SimpleStatementLine(body=[cst.Assign(value=value, targets=targets)]):
                if not _names(value, name) and any(_names(each.target, name) for each in targets):
                    return False
        if _names(statement, name):
            return True
    return False


def _names(node: cst.CSTNode, name: str) -> bool:
    return any(isinstance(each, cst.Name) and each.value == name for each in nodes_in(node))


RULES: tuple[type[Rule], ...] = (Backups, Restarts)
