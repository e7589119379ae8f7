"""HVD6: rank 0 alone prints and writes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.effects import is_pure, prints, writes
from ...analysis.syntax import argument, has_star
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, TENSORFLOW, Context, Rule
from .questions import is_guarded, opens_to_write, own_line, restored_again


class Print(Rule):
    """Print on rank 0 alone.

    What is printed is still worked out on every rank where that matters: arguments
    that train, draw the next batch or call unknown code are evaluated first, on
    all ranks, since a step that only rank 0 takes would wait for the others forever.
    """

    code = "HVD601"
    name = "print on rank 0"
    rationale = "Every rank runs this line; once is enough to read."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                print(history.history['loss'],
                      'at the end')  # of training
                print(next(batches))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, verbose=0)
                if hvd.rank() == 0:
                    print(history.history['loss'],
                          'at the end')  # of training
                hvd_printed = (next(batches),)
                if hvd.rank() == 0:
                    print(*hvd_printed)
                """
            ),
            "What has to be worked out on every rank still is.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if prints(context.values, call) and not is_guarded(context, call):
                yield print_fix(context, call)


def print_fix(context: Context, call: cst.Call) -> Fix:
    module = context.module
    line = own_line(context, call)
    if all(is_pure(context.values, arg.value) for arg in call.args):
        if line is not None:
            return context.on_rank_zero(line, call)
        return Fix(call, in_expression(context, call))
    positional = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
    named = [arg for arg in call.args if arg not in positional]
    if line is None or not all(is_pure(context.values, arg.value) for arg in named):
        return Fix(call, silent_elsewhere(context, call))
    kept = context.fresh("hvd_printed")
    start, end = module.span(call.func).start, module.span(call).end
    opening = module.source.index("(", module.span(call.func).end) + 1
    rest = "".join(f", {module.text(arg)}" for arg in named).rstrip(", ")
    function = module.text(call.func)
    indented = f"{context.indent_step(line)}{function}(*{kept}{rest})"
    edits = (
        Edit(start, opening, text=f"{kept} = ("),
        Edit(module.span(positional[-1].value).end, end, text=",)"),
        context.after_statement(line, [f"if {context.backend.is_rank_zero}:", indented]),
    )
    return Fix(call, edits)


def in_expression(context: Context, call: cst.Call) -> tuple[Edit, ...]:
    """The call where it stands inside something larger, or beside others on its line."""
    alone = isinstance(context.module.parent(call), cst.Expr)
    opening, closing = ("", "") if alone else ("(", ")")
    return context.wrap(
        call, opening, f" if {context.backend.is_rank_zero} else None{closing}", Layer.CALL
    )


class Tracker(Rule):
    """Let rank 0 alone tell Weights & Biases of the training.

    Elsewhere `wandb.init` makes a run that keeps nothing, so that what is logged, and `WandbCallback`, stay as they are.
    """

    code = "HVD610"
    name = "one run that is tracked"
    rationale = "N ranks are one training, and would be N runs of the same name."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                import wandb

                wandb.init(project='digits')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                wandb.log({'done': True})
                """
            ),
            program(
                """
                import tensorflow as tf
                import wandb

                wandb.init(project='digits', mode=None if hvd.rank() == 0 else 'disabled')
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                wandb.log({'done': True})
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if context.values.qualified(call.func) != "wandb.init" or is_guarded(context, call):
                continue
            if argument(call, "mode") is None and not has_star(call):
                mode = f"mode=None if {context.backend.is_rank_zero} else 'disabled'"
                yield Fix(call, (context.add_keyword(call, mode),))
            else:
                yield Problem(
                    call,
                    "every rank makes a run of its own here",
                    f"give it mode='disabled' where {context.backend.rank} is not 0",
                    "warning",
                )


#: Why, where a checkpoint is restored.
LATEST = (
    "Rank 0 alone saves, so the others' managers know of no checkpoint, and would restore nothing."
)


class Write(Rule):
    """Save checkpoints, models, arrays and plots on rank 0 alone.

    Where the program keeps what saving returns, a path, every rank gets rank 0's,
    by a broadcast; so it is with a manager's `latest_checkpoint` that is restored after it has saved. Restoring stays on all ranks. A function of another library writes if its name says so (`imwrite`, `savemat`,
    `dump`), a method if its name does and it is given a file's (`save('a.png')`). What is written is still worked out on every rank where
    that matters.
    """

    code = "HVD602"
    name = "write on rank 0"
    rationale = "Ranks that write the same file at the same time destroy it; all weights are equal, so rank 0's will do."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                checkpoint = tf.train.Checkpoint(model=model)
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                model.save('model.keras')
                path = checkpoint.save('ckpt')
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                checkpoint = tf.train.Checkpoint(model=model)
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                if hvd.rank() == 0:
                    model.save('model.keras')
                path = hvd.broadcast_object(checkpoint.save('ckpt') if hvd.rank() == 0 else None, root_rank=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            if writes(context.values, call) and not is_guarded(context, call):
                yield from self._guard(context, call)
            elif context.values.qualified(call.func) == "tensorflow.summary.create_file_writer":
                noop = f" if {context.backend.is_rank_zero} else {context.tf}.summary.create_noop_writer()"
                edits = context.wrap(call, "(", f"{noop})")
                yield Fix(call, edits, needs=(HOROVOD, TENSORFLOW))
        for read in restored_again(context):
            asked = f"{context.backend.broadcast_function}("
            yield Fix(read, context.wrap(read, asked, ", root_rank=0)"), LATEST)

    def _guard(self, context: Context, call: cst.Call) -> Iterator[Finding]:
        if opens_to_write(context, call):
            return
        line, owner = own_line(context, call), receiver(context, call)
        alone = isinstance(context.module.parent(call), cst.Expr)
        worked_out = [arg.value for arg in call.args] + ([owner] if owner is not None else [])
        if not all(is_pure(context.values, each) for each in worked_out):
            yield from self._choose(context, call, owner, alone)
        elif line is not None:
            yield context.on_rank_zero(line, call)
        elif alone:
            yield Fix(call, in_expression(context, call))
        else:
            choice = f" if {context.backend.is_rank_zero} else None"
            yield Fix(
                call,
                context.wrap(
                    call, f"{context.backend.broadcast_function}(", f"{choice}, root_rank=0)"
                ),
            )

    def _choose(
        self, context: Context, call: cst.Call, owner: cst.BaseExpression | None, alone: bool
    ) -> Iterator[Finding]:
        """Where what is written may have to be worked out on every rank, the others do so, and write nothing."""
        edits = silent_elsewhere(context, call)
        if owner is not None and not is_pure(context.values, owner):
            line = own_line(context, call)
            if line is None:
                yield Problem(
                    call,
                    "what is written here is worked out by calls that may have to run on every rank",
                    "put the result into a variable first, then write it",
                )
                return
            kept, start = context.fresh("hvd_written"), context.module.span(line).start
            newline, indent = context.module.newline, context.module.indentation(start)
            edits = (
                context.insert(start, f"{kept} = ", Layer.GUARD),
                context.insert(
                    context.module.span(owner).end,
                    f"{newline}{indent}({kept}",
                    Layer.WAIT,
                ),
                edits[-1],
            )
        if not alone:
            broadcast = f"{context.backend.broadcast_function}("
            edits = (*edits, *context.wrap(call, broadcast, ", root_rank=0)", Layer.CALL))
        yield Fix(call, edits)


def receiver(context: Context, call: cst.Call) -> cst.BaseExpression | None:
    """What a method is called on; None for a function of a library."""
    if not isinstance(call.func, cst.Attribute) or context.values.qualified(call.func):
        return None
    return call.func.value


def silent_elsewhere(context: Context, call: cst.Call) -> tuple[Edit, ...]:
    """The function that is called on rank 0, on the others one that does nothing with its arguments."""
    silent = "lambda *args, **kwargs: None"
    return context.wrap(call.func, "(", f" if {context.backend.is_rank_zero} else {silent})")


RULES: tuple[type[Rule], ...] = (Print, Tracker, Write)
