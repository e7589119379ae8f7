"""HVD801: with `--batch per-rank` batches grow with the number of ranks, which then share each batch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.edits import Edit, Layer
from .base import Example, Finding, Fix, Problem, program
from .context import Context, Rule
from .optimizers import find_optimizer_constructors, find_rate_argument


class ScaleBatch(Rule):
    """Multiply the batch size of the training by the number of ranks.

    A size is multiplied once:

    - where a name, parameter or entry of a configuration defines it, so that step counts computed from it agree;
    - where it is used, if evaluations use the name too. Their batches stay as they are.

    `fit`, loaders and image generators without a batch size get their default, multiplied. Batches that a loop cuts out of arrays, or draws from them, grow as well.

    Why:
    Each rank then computes as many rows in a step as one process did, and a pass over the data takes an N-th of the steps. Small batches per rank leave most of a step to communication.

    Known problems:
    - N times the batch may train worse even at N times the rate; Goyal et al. ([2017](https://arxiv.org/abs/1706.02677)) discuss the limits. `--warmup-epochs` helps at the start.
    - A batch is never larger than the data. With more ranks than the data has batches, the rate grows further than the batch.
    - `fit` on rows that were just drawn, as in Q-learning, keeps these rows as its batch.
    - A loop that also collects the rows, in a replay buffer, collects an N-th of them. A note says so.

    When it does not apply:
    With `--batch global`. Batches of all rows, and batches of stateful recurrent layers, keep their size and rate, and a note says so. Where no batch size
    is seen, HVD802 joins batches. Trainings in other modules are shared but not scaled, with a warning.
    """

    code = "HVD801"
    name = "batch size"
    rationale = (
        "N ranks share a batch that is N times as large, in the time of one process's batch."
    )
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                BATCH = 32
                train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(BATCH).repeat()
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(train, steps_per_epoch=len(x) // BATCH)
                """
            ),
            program(
                """
                import tensorflow as tf

                BATCH = 32 * hvd.size()
                train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(BATCH).repeat()
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(train, steps_per_epoch=len(x) // BATCH)
                """
            ),
            "A size is multiplied where it is defined, so the number of steps agrees.",
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, epochs=3)
                for epoch in range(3):
                    for i in range(0, len(x), 16):
                        model.train_on_batch(x[i:i + 16], y[i:i + 16])
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, epochs=3, batch_size=32 * hvd.size())
                for epoch in range(3):
                    for i in range(0, len(x), 16 * hvd.size()):
                        model.train_on_batch(x[i:i + 16 * hvd.size()], y[i:i + 16 * hvd.size()])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        sizes = context.batch_sizes
        yield from report_unseen_trainings(context)
        for number in sizes.numbers:
            if not context.scales.is_kept(number):
                yield Fix(
                    number,
                    context.multiply_by_size(number),
                    explain_larger_batch(context.module.text(number)),
                )
        rates = {*find_optimizer_rates(context)}
        for read in context.scales.sizes_read if sizes.grown else ():
            if rates.isdisjoint((read, *context.module.ancestors(read))):
                yield Fix(
                    read,
                    context.multiply_by_size(read),
                    explain_larger_batch(context.module.text(read)),
                )
        for missing in sizes.missing:
            size = f"batch_size={missing.default} * {context.backend.size}"
            edit = context.add_keyword(missing.call, size)
            yield Fix(missing.call, (edit,), explain_larger_batch(str(missing.default)))
        for count in sizes.counts:
            why = "Batches are N times as large, so this loop over them has 1/N of the iterations."
            yield Fix(count, divide_rounding_up(context, count), why)
        for batches in (b for b in sizes.unseen if not is_called_later(context, b.training)):
            yield Problem(
                batches.training,
                "the batch size of this training is unknown, so its batches are not scaled",
                f"multiply the number of rows, and the learning rate, by {context.backend.size}",
                "warning",
            )
        for batches in (each for each in sizes.trainings if each.is_stateful):
            yield Problem(
                batches.training,
                "a stateful layer continues each row from one batch to the next, so neither batch nor rate is scaled",
                "nothing needs to be done: every rank trains on these batches",
                "info",
            )
        own = sizes.grown - {*context.training.keras.fits}
        for call in sorted(own, key=lambda each: context.module.span(each).start):
            if not context.step_loops.draws_from_filled_list(call):
                continue
            yield Problem(
                call,
                "this step draws its rows from a list that the same loop fills, so N ranks, which take an N-th of the steps, "
                "also collect an N-th of the rows",
                "keep the number of iterations, and train in each N-th of them, if as many rows should be collected",
                "info",
            )
        steps = {batches.training for batches in sizes.trainings}
        for whole in sizes.whole:
            if whole in steps and runs_beside_scaled_steps(context, whole):
                yield Problem(
                    whole,
                    "no number of rows was found that this step takes, and N ranks take it an N-th as often, at the same rate",
                    f"multiply its rate by {context.backend.size}",
                    "warning",
                )
                continue
            if whole in steps:  # no size says so
                yield Problem(
                    whole,
                    "no number of rows was found that this step takes, so neither batch nor rate is scaled",
                    f"nothing needs to be done where a step takes all rows; else multiply its rows and the rate by {context.backend.size}",
                    "info",
                )
                continue
            yield Problem(
                whole,
                "each batch has all rows already, so neither batch nor rate is scaled",
                "nothing needs to be done: the ranks share these batches",
                "info",
            )


def runs_beside_scaled_steps(context: Context, step: cst.CSTNode) -> bool:
    """Whether a step is in a loop with another step whose batches grow, so that N ranks run it an N-th as often."""
    loops = {a for a in context.module.ancestors(step) if isinstance(a, cst.For | cst.While)}
    grown = (context.module.ancestors(call) for call in context.batch_sizes.grown)
    return any(not loops.isdisjoint(around) for around in grown)


def find_optimizer_rates(context: Context) -> Iterator[cst.BaseExpression]:
    """Yield the rates that optimizer constructors are given. HVD803 handles these, so HVD801 leaves them out."""
    for call in context.values.index.calls:
        if (
            find_optimizer_constructors(context, call)
            and (rate := find_rate_argument(context, call)) is not None
        ):
            yield rate.value


def is_called_later(context: Context, training: cst.Call) -> bool:
    """Whether a training is in a function that nothing here calls, but that a later cell may call."""
    function = context.module.function_of(training)
    called = function is not None and context.values.calls.sites(function)
    return context.options.open_ended and function is not None and not called


def report_unseen_trainings(context: Context) -> Iterator[Problem]:
    """Yield a warning for each training whose data or batch size the analysis did not find."""
    keras = context.training.keras
    advice = f"multiply the batch size, and the learning rate, by {context.backend.size} where they are given"
    for call in (*keras.hidden_fits, *keras.estimator_fits):
        told = "the data of this training was not found, so neither batch nor rate is scaled"
        yield Problem(call, told, advice, "warning")
    if context.training.loop == "none" and not context.options.open_ended:
        told = "no training was found, so nothing is scaled: the ranks share the batches of one process"
        yield Problem(
            next(iter(context.values.index.imports), context.module.tree), told, advice, "warning"
        )


def explain_larger_batch(size: str) -> str:
    """Return the reason for multiplying a batch size."""
    return f"batch {size} → {size} × ranks: N ranks train on N × {size} rows a step, and take 1/N of the steps"


def divide_rounding_up(context: Context, count: cst.BaseExpression) -> tuple[Edit, ...]:
    """Return the edits that divide a number of batches by the number of ranks, rounded up."""
    single = isinstance(count, (cst.Name, cst.Integer, cst.Attribute, cst.Call)) or count.lpar
    opening, closing = ("-(-", "") if single else ("-(-(", ")")
    return context.wrap(count, opening, f"{closing} // {context.backend.size})", Layer.COUNT)
