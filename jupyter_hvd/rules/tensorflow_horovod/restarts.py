"""HVD4, continued: `fit` goes on where it was when its job is started again."""

from __future__ import annotations

from collections.abc import Iterator

from ...frameworks.tensorflow import tf_api
from ...source.edits import Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .questions import callback_values

#: Methods by which a program takes up what it has kept itself.
RESTORING = frozenset({"restore", "restore_or_initialize", "read", "load_weights", "load_model"})


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
    """Let `fit` go on from its last epoch where the job is started again: `jupyter hvd run --restarts K`.

    After each epoch rank 0 keeps the weights, the optimizer's state and the history of each `fit`, in a folder that the job's
    restarts share. A `fit` that was done is not done again, and its history is as if nothing had happened. One that keeps its own
    backup is left to that. What callbacks remember, as `EarlyStopping` does, begins anew. Loops with tapes begin anew: what they
    keep is the program's own to say, by a `tf.train.CheckpointManager`, say.
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
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if not context.options.restartable:
            return
        for call in context.training.keras.fits:
            callbacks = {tf_api.callback(value.name) for value in callback_values(context, call)}
            if not callbacks & tf_api.BACKUPS:
                opening = f"{context.runtime('resumed_fit')}("
                edits = context.wrap(call.func, opening, ")", Layer.RESUMED)
                yield Fix(call, edits, needs=(HOROVOD, "resumed_fit"))
        restored = any(
            context.module.text(call.func).rpartition(".")[2] in RESTORING
            for call in context.values.index.calls
        )
        if context.training.own_updates and not restored:
            update, _ = context.training.own_updates[0]
            yield Problem(
                update.call,
                "a job that is started again after a fault begins this loop anew",
                "keep its state after each epoch with a tf.train.CheckpointManager, and restore the latest before the loop",
                "warning",
            )


RULES: tuple[type[Rule], ...] = (Backups, Restarts)
