"""HVD803: learning rates grow with the batches."""

from __future__ import annotations

from collections.abc import Iterator, Set
from fractions import Fraction

import libcst as cst

from ...analysis.library import Kind
from ...analysis.scale_edits import edit_around
from ...analysis.scale_exponents import Coercion
from ...analysis.syntax import argument, has_star
from ..tensorflow import tf_api
from ..tensorflow.roles import Role
from .base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, RUNTIME, TENSORFLOW, Context, Rule
from .optimizer_rates import (
    depends_on_rates,
    find_loaded_models,
    find_summed_loss_constructors,
    find_unscaled_constructors,
    find_unseen_optimizers,
)
from .optimizers import (
    find_called_functions,
    find_optimizer_constructors,
    find_rate_argument,
    format_default_optimizer,
    format_scaled_default,
)
from .own_updates import find_rates, find_weight_decays, grows_with_batch, is_undone

#: Kinds of values that are numbers.
NUMBERS = frozenset({Kind.CONSTANT, Kind.OTHER})


class ScaleRate(Rule):
    """Multiply learning rates by the number of ranks.

    - A number that is given once is multiplied there: `Adam(1e-3 * hvd.size())`.
    - Where a schedule, a callback or the program depends on the rate or on `optimizer.iterations`, the optimizer is wrapped in
      `jhvd.scale_rate`. It returns the same optimizer, which multiplies the rate only while it updates weights. What the program reads, sets,
      bounds, plots and schedules is the rate of one process. A schedule is evaluated at the step at which one process has seen as many examples.
    - Rates by which the program itself changes weights are multiplied where they are numbers beside the gradient.

    `weight_decay` of `AdamW` and others is scaled with the rate.

    Why:
    A step averages its gradient over N times the rows, and there are N times fewer steps (the linear scaling rule of Goyal et al.).

    Known problems:
    - Adaptive optimizers may need less than N times the rate. Leave the rule out (`--ignore HVD803`) or set the rate yourself.
    - Momentum and the moments of optimizers are not scaled.
    - A loss that is a sum over the rows of a batch grows with it: the rate of `SGD` is then left alone, with a note. This is seen in loops with a tape, in `train_step`, where the program applies gradients itself, and where `compile` is given a loss with `reduction="sum"`.
    - An optimizer restored from a saved configuration is not scaled.

    When it does not apply:
    With `--batch global`; to an optimizer that only takes batches of all rows; to a rate that is computed from the batch size, since it grows already.
    """

    code = "HVD803"
    name = "learning rate"
    rationale = (
        "rate → rate × ranks: a step averages over N times the rows, so it may be N times as large."
    )
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(1e-3), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(1e-3 * hvd.size()), loss='mse')
                model.fit(x, y)
                """
            ),
        ),
        Example(
            program(
                """
                import tensorflow as tf

                schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1000, 0.9)
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(schedule), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1000, 0.9)
                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(jhvd.scale_rate(tf.keras.optimizers.SGD(schedule)), loss='mse')
                model.fit(x, y)
                """
            ),
            "A schedule is evaluated at one process's steps, and is not changed.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if not context.batch_sizes.grown:
            return
        found = list(self._scale_optimizers(context))
        yield from found
        if not found and not context.options.open_ended:  # else another cell may have it
            yield Problem(
                min(context.batch_sizes.grown, key=lambda call: context.module.span(call).start),
                "no optimizer was found, so no learning rate is scaled, although the batch is",
                f"multiply the learning rate by {context.backend.size} where it is given",
                "warning",
            )

    def _scale_optimizers(self, context: Context) -> Iterator[Finding]:
        """Yield the fixes and problems of all optimizers and hand-written updates."""
        kept = find_unscaled_constructors(context)
        warmup = context.options.warmup_epochs
        touched = context.keeps_values or warmup > 0 or depends_on_rates(context)
        wrapped = list(find_unseen_optimizers(context))
        flowing = {node for each in wrapped for node in context.values.flow.backward_slice(each)}
        for expression in wrapped:
            yield scale_at_updates(context, expression)
        summed = find_summed_loss_constructors(context)
        for call in context.values.index.calls:
            if (
                find_optimizer_constructors(context, call)
                and call not in kept
                and call not in flowing
            ):
                yield from self._scale_constructor(context, call, touched, call in summed)
        yield from self._scale_compiled_optimizers(context, kept, touched, summed)
        for model in find_loaded_models(context):
            yield scale_at_updates(context, model)
        yield from self._scale_updates(context)
        loops = context.batch_sizes.grown - {*context.training.keras.fits} if warmup else ()
        for call in sorted(loops, key=lambda each: context.module.span(each).start):
            yield Problem(
                call,
                "this training has no warm-up: only epochs of `fit` are counted",
                "let the program itself set a smaller rate at first",
                "info",
            )

    def _scale_constructor(
        self, context: Context, call: cst.Call, touched: bool, is_summed: bool
    ) -> Iterator[Finding]:
        """Scale the rate in an optimizer's constructor call. An optimizer around another one, such as Lookahead, has the inner
        one's rate.

        Args:
            touched: rates are read or set elsewhere, so they are multiplied only while the optimizer updates.
            is_summed: its gradients are those of a sum over the rows of a batch.
        """
        if any(Role.OPTIMIZER in context.values.kinds(arg.value) for arg in call.args):
            return
        makers = find_optimizer_constructors(context, call)
        known = tf_api.find_optimizer(next(iter(makers)).name) if len(makers) == 1 else None
        if len(find_called_functions(context, call)) != 1 or any(
            v.kind is Kind.FUNCTION for v in makers
        ):
            known = None
        rate = find_rate_argument(context, call)
        plain = has_plain_rate(context, call, rate)
        grows = rate is not None and context.batch_sizes.is_scaled_by_sources(rate.value)
        if known is not None and known.name == "SGD" and is_summed:
            yield self._report_summed_loss(context, call)
            return
        if plain and rate is not None and grows and not context.keeps_values:
            yield Problem(
                rate.value,
                "this learning rate is computed from the batch size, which is multiplied by the number of ranks, so it grows already",
                "nothing needs to be done, if the rate is meant to grow with the batch",
                "info",
            )
        elif touched or known is None or not known.name or not plain:
            yield scale_at_updates(context, call)
        elif rate is not None:
            yield Fix(
                rate.value,
                context.multiply_by_size(rate.value),
                explain_larger_rate(context, rate.value),
            )
        else:
            default = format_scaled_default(context, known, context.module.text(call.func))
            opening = context.module.source.index("(", context.module.span(call.func).end) + 1
            text = f"{default}, " if call.args else default
            yield Fix(call, (context.insert(opening, text),))

    def _scale_compiled_optimizers(
        self,
        context: Context,
        kept: Set[cst.CSTNode],
        touched: bool,
        summed: Set[cst.CSTNode],
    ) -> Iterator[Finding]:
        """Scale the optimizers that `compile` creates from a name, and the default one.

        Args:
            kept: constructors whose rate stays. touched: as for `_scale_constructor`. summed: constructors that minimize summed
                losses.
        """
        for call in context.training.keras.compiles:
            arg = argument(call, "optimizer", 0)
            if arg is None and not has_star(call) and call not in kept:
                known = tf_api.OPTIMIZERS["rmsprop"]
                text = f"optimizer={format_scaled_optimizer(context, known, touched)}"
                edit = context.add_keyword(call, text)
                yield Fix(call, (edit,), needs=(HOROVOD, RUNTIME, TENSORFLOW))
            elif arg is not None and isinstance(arg.value, cst.SimpleString):
                named = tf_api.OPTIMIZERS.get(str(arg.value.evaluated_value).lower())
                if named is not None and named.name == "SGD" and arg.value in summed:
                    yield self._report_summed_loss(context, arg.value)
                elif named is not None and arg.value not in kept:
                    text = format_scaled_optimizer(context, named, touched)
                    edit = context.replace(arg.value, text)
                    yield Fix(arg.value, (edit,), needs=(HOROVOD, RUNTIME, TENSORFLOW))

    def _report_summed_loss(self, context: Context, optimizer: cst.CSTNode) -> Problem:
        """Return a note that a rate stays, because gradients of a summed loss grow with the batch."""
        return Problem(
            optimizer,
            "the loss is a sum over the rows of a batch, so gradients grow with the batch, and this rate is not scaled",
            f"nothing needs to be done; where the loss is divided by the number of rows, multiply the rate by {context.backend.size}",
            "info",
        )

    def _scale_updates(self, context: Context) -> Iterator[Finding]:
        """Scale the rates by which the program changes weights itself, without an optimizer."""
        own = [
            update
            for update, sites in context.data.step_sites
            if update.optimizer is None
            and any(site.call in context.batch_sizes.grown for site in sites)
        ]
        is_weight = context.training.gradients.is_weight
        moments = [u.variables[0] for u in own if not is_weight(u.variables[0])]
        for update in own:
            if not is_weight(update.variables[0]) or is_undone(context, update, own):
                continue
            if grows_with_batch(context, update):
                yield self._report_summed_loss(context, update.call)
                continue
            rates = list(find_rates(context, update, moments))
            for rate in rates:
                yield Fix(rate, context.multiply_by_size(rate), explain_larger_rate(context, rate))
            for decay in find_weight_decays(context, update):
                yield raise_decay_to_size(context, decay)
            if not rates:
                yield Problem(
                    update.call,
                    "the program updates these weights without an optimizer, at a rate that is not scaled",
                    f"multiply the rate by {context.backend.size} if the training should be as fast",
                    "warning",
                )


def explain_larger_rate(context: Context, rate: cst.BaseExpression) -> str:
    """Return the reason for multiplying a rate."""
    text = context.module.text(rate)
    return f"rate {text} → {text} × ranks: a step averages over N times the rows, so it may be N times as large"


def scale_at_updates(context: Context, optimizer: cst.BaseExpression) -> Fix:
    """Return the fix that wraps an optimizer in `scale_rate`, which multiplies its rate only while it updates weights."""
    epochs = context.options.warmup_epochs
    edits = context.wrap(
        optimizer, f"{context.runtime('scale_rate')}(", f"{format_warmup_argument(context)})"
    )
    grows = f" It grows from rate to rate × ranks in the first {epochs} epochs of `fit`."
    return Fix(
        optimizer, edits, f"{ScaleRate.rationale}{grows}" if epochs else "", needs=(RUNTIME,)
    )


def format_warmup_argument(context: Context) -> str:
    """Return `, warmup_epochs=…` for a call of `scale_rate`; '' without a warm-up."""
    epochs = context.options.warmup_epochs
    return f", warmup_epochs={epochs}" if epochs else ""


def format_scaled_optimizer(context: Context, known: tf_api.Optimizer, touched: bool) -> str:
    """Return a call that creates an optimizer with its default rate, multiplied there or, if `touched`, by `scale_rate`."""
    if not touched:
        return format_default_optimizer(context, known)
    optimizer = format_default_optimizer(context, known, scaled=False)
    return f"{context.runtime('scale_rate')}({optimizer}{format_warmup_argument(context)})"


def has_plain_rate(context: Context, call: cst.Call, rate: cst.Arg | None) -> bool:
    """Whether an optimizer is given a number as its rate, or no rate, and no decay by steps."""
    if has_star(call) or argument(call, "decay") is not None:
        return False
    kinds = context.values.kinds(rate.value) if rate is not None else frozenset()
    return rate is None or (bool(kinds) and kinds <= NUMBERS)


def raise_decay_to_size(context: Context, decay: cst.BaseExpression) -> Fix:
    """Return the fix that raises a per-step decay of weights to the power of the number of ranks."""
    text = context.module.text(decay)
    why = f"{text} → {text} ** ranks: weights decay by it at each step, and a step of N ranks stands for N steps"
    coercion = Coercion(decay, Fraction(1), "repeated", False, why)
    before, after = edit_around(decay, context.module.parent(decay), coercion, context.backend.size)
    return Fix(decay, context.wrap(decay, before, after), why)
