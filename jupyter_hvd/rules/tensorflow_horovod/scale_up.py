"""HVD8: with `--batch per-rank` batches and learning rates grow with the number of ranks, which then share each batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from fractions import Fraction

import libcst as cst

from ...analysis.library import Kind
from ...analysis.scale_edits import edit_around
from ...analysis.scale_exponents import Coercion
from ...analysis.syntax import argument, has_star, method, nodes_in
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.updates import Update
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, RUNTIME, TENSORFLOW, Context, Rule
from .questions import (
    RANKS,
    RATES,
    called,
    is_optimizer,
    made,
    optimizer_makers,
    rate_given,
    scaled_default,
)

#: Callbacks that set the learning rate.
SETTING = (".LearningRateScheduler", ".ReduceLROnPlateau")
#: What a program reads, sets or stores an optimizer's rate and count of steps by.
TOUCHING = frozenset({*RATES, "iterations", "_learning_rate", "_decayed_lr", "get_config"})
#: Kinds of values that are numbers.
NUMBERS = frozenset({Kind.CONSTANT, Kind.OTHER})


class ScaleBatch(Rule):
    """Multiply the size of training's batches by the number of ranks.

    N ranks share a batch that is N times as large, so that a pass over the data takes an N-th of the steps. A size is multiplied once:
    where a name, a parameter or an entry of a configuration defines it, so that numbers of steps which are computed from it
    agree. It is multiplied where it is used, if the name is used for evaluations only beside; those stay as they are. `fit`, loaders and generators of images that are given no size get their default,
    multiplied. So do batches that a loop cuts out of arrays, or draws from them.

    A batch of all rows cannot grow. It stays, and so does the rate of an optimizer that takes such batches only; this is told.
    """

    code = "HVD801"
    name = "batch size"
    rationale = "N ranks share a batch that is N times as large, in the time that one process needs for its own."
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
        yield from hidden_trainings(context)
        for number in sizes.numbers:
            if not context.scales.is_kept(number):
                yield Fix(number, context.times_size(number), grown(context.module.text(number)))
        rates = {*rates_given(context)}
        for read in context.scales.sizes_read if sizes.grown else ():
            if rates.isdisjoint((read, *context.module.ancestors(read))):
                yield Fix(read, context.times_size(read), grown(context.module.text(read)))
        for missing in sizes.missing:
            size = f"batch_size={missing.default} * {context.backend.size}"
            edit = context.add_keyword(missing.call, size)
            yield Fix(missing.call, (edit,), grown(str(missing.default)))
        for count in sizes.counts:
            why = "A loop that cuts batches N times as large out of the data takes an N-th of the turns."
            yield Fix(count, fewer(context, count), why)
        for batches in (b for b in sizes.unseen if not is_called_later(context, b.training)):
            yield Problem(
                batches.training,
                "how many rows this trains on at once is not seen, so its batches do not grow with the number of ranks",
                f"multiply the number of rows, and the learning rate, by {context.backend.size}",
                "warning",
            )
        for batches in (each for each in sizes.trainings if each.is_stateful):
            yield Problem(
                batches.training,
                "a stateful layer goes on, row by row, from one batch to the next, so these batches do not grow, nor does the rate",
                "nothing needs to be done: every rank trains on these batches",
                "info",
            )
        for whole in sizes.whole:
            yield Problem(
                whole,
                "each batch has all rows already, so it does not grow with the number of ranks, nor does the rate",
                "nothing needs to be done: the ranks share these batches",
                "info",
            )


def rates_given(context: Context) -> Iterator[cst.BaseExpression]:
    """The rates that optimizers are given, which other processes read and set, too."""
    for call in context.values.index.calls:
        if optimizer_makers(context, call) and (rate := rate_given(context, call)) is not None:
            yield rate.value


def is_called_later(context: Context, training: cst.Call) -> bool:
    """Whether a training stands in a function that a later cell may call, and nothing here does."""
    function = context.module.function_of(training)
    called = function is not None and context.values.calls.sites(function)
    return context.options.open_ended and function is not None and not called


def hidden_trainings(context: Context) -> Iterator[Problem]:
    """The trainings of which no batch is seen here."""
    keras = context.training.keras
    advice = f"multiply the batch size, and the learning rate, by {context.backend.size} where they are given"
    for call in (*keras.hidden_fits, *keras.estimator_fits):
        told = "what this trains on is not seen here, so neither its batches nor its rate grow with the number of ranks"
        yield Problem(call, told, advice, "warning")
    if context.training.loop == "none" and not context.options.open_ended:
        told = "no training is seen here, so nothing is scaled: the ranks share the batches of one process"
        yield Problem(
            next(iter(context.values.index.imports), context.module.tree), told, advice, "warning"
        )


def grown(size: str) -> str:
    """Why a size is multiplied."""
    rows = str(int(size) * RANKS) if size.isdecimal() else f"{RANKS} × {size}"
    return f"batch {size} → {size} × ranks: {RANKS} ranks train on {rows} rows a step, and take 1/{RANKS} of the steps"


def fewer(context: Context, count: cst.BaseExpression) -> tuple[Edit, ...]:
    """A number of batches divided by the number of ranks, rounded up."""
    single = isinstance(count, (cst.Name, cst.Integer, cst.Attribute, cst.Call)) or count.lpar
    opening, closing = ("-(-", "") if single else ("-(-(", ")")
    return context.wrap(count, opening, f"{closing} // {context.backend.size})", Layer.COUNT)


class JoinBatches(Rule):
    """Join as many consecutive batches as there are ranks, where no number says how large they are.

    This is done for datasets of other modules, generators and `PyDataset`s whose batch size is not seen, and where the program
    takes or skips some of the batches.
    """

    code = "HVD802"
    name = "joined batches"
    rationale = (
        f"Nothing here says how large a batch is, so N batches become one: {RANKS} ranks train on the rows of {RANKS} batches "
        f"a step, and take 1/{RANKS} of the steps."
    )
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                from data import load_photos

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(load_photos(), epochs=3)
                """
            ),
            program(
                """
                import tensorflow as tf
                from data import load_photos

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(jhvd.join_batches(load_photos()), epochs=3)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for batches in context.batch_sizes.joined:
            edits = context.wrap(batches, f"{context.runtime('join_batches')}(", ")")
            yield Fix(batches, edits, needs=(RUNTIME,))


class ScaleRate(Rule):
    """Multiply learning rates by the number of ranks.

    A step averages its gradient over N times the rows, so it may be N times as long. Where the rate is a number that is
    given once, it is multiplied there. Where a schedule, a callback or the program itself goes by the rate, or by the optimizer's
    count of steps, `jhvd.scale_rate` gives back the same optimizer, which multiplies the rate only while it updates weights: what the
    program reads, sets, bounds, plots and schedules is the rate of one process. A schedule is asked for the step at which one
    process has seen as many examples.

    Weight decay of `AdamW` goes by the rate and is scaled with it. Momentum, moving averages, and a decay per step that a program
    computes by itself, are not scaled. An optimizer that takes batches of all rows only keeps its rate; a rate
    that is computed from the batch size grows with it.
    """

    code = "HVD803"
    name = "learning rate"
    rationale = f"rate → rate × ranks: a step averages over N times the rows ({RANKS} ranks: rate × {RANKS}), so it may be N times as long."
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
            "A schedule is asked for one process's steps, and stays as it is.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if not context.batch_sizes.grown:
            return
        found = list(self._of_optimizers(context))
        yield from found
        if not found and not context.options.open_ended:  # else another cell may have it
            yield Problem(
                min(context.batch_sizes.grown, key=lambda call: context.module.span(call).start),
                "no optimizer is seen here, so its rate is not multiplied by the number of ranks, as the batch is",
                f"multiply the learning rate by {context.backend.size} where it is given",
                "warning",
            )

    def _of_optimizers(self, context: Context) -> Iterator[Finding]:
        kept = kept_rates(context)
        warmup = context.options.warmup_epochs
        touched = context.keeps_values or warmup > 0 or touches_rates(context)
        wrapped = list(unseen_optimizers(context))
        flowing = {node for each in wrapped for node in context.values.flow.backward_slice(each)}
        for expression in wrapped:
            yield at_sink(context, expression)
        for call in context.values.index.calls:
            if optimizer_makers(context, call) and call not in kept and call not in flowing:
                yield from self._of_maker(context, call, touched)
        yield from self._of_compiles(context, kept, touched)
        for model in loaded_models(context):
            yield at_sink(context, model)
        yield from self._of_updates(context)
        loops = context.batch_sizes.grown - {*context.training.keras.fits} if warmup else ()
        for call in sorted(loops, key=lambda each: context.module.span(each).start):
            yield Problem(
                call,
                "the rate of this training does not grow in the first epochs: only those of `fit` are counted",
                "let the program itself set a smaller rate at first",
                "info",
            )

    def _of_maker(self, context: Context, call: cst.Call, touched: bool) -> Iterator[Finding]:
        """Scale the rate of the optimizer that a call makes; one around another, as Lookahead, has that one's."""
        if any(Role.OPTIMIZER in context.values.kinds(arg.value) for arg in call.args):
            return
        makers = optimizer_makers(context, call)
        known = tf_api.optimizer(next(iter(makers)).name) if len(makers) == 1 else None
        if len(called(context, call)) != 1 or any(v.kind is Kind.FUNCTION for v in makers):
            known = None
        rate = rate_given(context, call)
        plain = is_plain(context, call, rate)
        grows = rate is not None and context.batch_sizes.follow(rate.value)
        if plain and rate is not None and grows and not context.keeps_values:
            yield Problem(
                rate.value,
                "this learning rate is computed from the batch size, which is multiplied by the number of ranks, so it grows already",
                "nothing needs to be done, if the rate is meant to grow with the batch",
                "info",
            )
        elif touched or known is None or not known.name or not plain:
            yield at_sink(context, call)
        elif rate is not None:
            yield Fix(rate.value, context.times_size(rate.value), multiplied(context, rate.value))
        else:
            default = scaled_default(context, known, context.module.text(call.func))
            opening = context.module.source.index("(", context.module.span(call.func).end) + 1
            text = f"{default}, " if call.args else default
            yield Fix(call, (context.insert(opening, text),))

    def _of_compiles(
        self, context: Context, kept: Set[cst.CSTNode], touched: bool
    ) -> Iterator[Finding]:
        """Optimizers that `compile` makes of their names, and the default one."""
        for call in context.training.keras.compiles:
            arg = argument(call, "optimizer", 0)
            if arg is None and not has_star(call) and call not in kept:
                known = tf_api.OPTIMIZERS["rmsprop"]
                text = f"optimizer={made_scaled(context, known, touched)}"
                edit = context.add_keyword(call, text)
                yield Fix(call, (edit,), needs=(HOROVOD, RUNTIME, TENSORFLOW))
            elif arg is not None and isinstance(arg.value, cst.SimpleString):
                named = tf_api.OPTIMIZERS.get(str(arg.value.evaluated_value).lower())
                if named is not None and arg.value not in kept:
                    text = made_scaled(context, named, touched)
                    edit = context.replace(arg.value, text)
                    yield Fix(arg.value, (edit,), needs=(HOROVOD, RUNTIME, TENSORFLOW))

    def _of_updates(self, context: Context) -> Iterator[Finding]:
        """The rates by which the program changes weights itself."""
        own = [
            update
            for update, sites in context.data.step_sites
            if update.optimizer is None
            and any(site.call in context.batch_sizes.grown for site in sites)
        ]
        is_weight = context.training.gradients.is_weight
        moments = [u.variables[0] for u in own if not is_weight(u.variables[0])]
        for update in own:
            if not is_weight(update.variables[0]):
                continue
            rates = list(rates_of(context, update, moments))
            for rate in rates:
                yield Fix(rate, context.times_size(rate), multiplied(context, rate))
            for decay in decays_of(context, update):
                yield raised(context, decay)
            if not rates:
                yield Problem(
                    update.call,
                    "the program changes these weights by itself, by a rate that is not multiplied by the number of ranks",
                    f"multiply the rate by {context.backend.size} if the training should be as fast",
                    "warning",
                )


def multiplied(context: Context, rate: cst.BaseExpression) -> str:
    """Why a rate is multiplied."""
    text = context.module.text(rate)
    try:
        shown = f"{float(text) * RANKS:g}"
    except ValueError:
        shown = f"{RANKS} × {text}"
    return f"rate {text} → {text} × ranks: a step averages over N times the rows ({RANKS} ranks: rate {shown})"


def at_sink(context: Context, optimizer: cst.BaseExpression) -> Fix:
    """An optimizer that multiplies its rate only while it updates weights."""
    epochs = context.options.warmup_epochs
    edits = context.wrap(
        optimizer, f"{context.runtime('scale_rate')}(", f"{warmup_given(context)})"
    )
    grows = f" It grows from rate to rate × ranks in the first {epochs} epochs of `fit`."
    return Fix(
        optimizer, edits, f"{ScaleRate.rationale}{grows}" if epochs else "", needs=(RUNTIME,)
    )


def warmup_given(context: Context) -> str:
    """The argument behind an optimizer whose rate grows in the first epochs; '' where none is to."""
    epochs = context.options.warmup_epochs
    return f", warmup_epochs={epochs}" if epochs else ""


def made_scaled(context: Context, known: tf_api.Optimizer, touched: bool) -> str:
    """A call that makes an optimizer with its default rate, scaled there or at the sink."""
    if not touched:
        return made(context, known)
    optimizer = made(context, known, scaled=False)
    return f"{context.runtime('scale_rate')}({optimizer}{warmup_given(context)})"


def is_plain(context: Context, call: cst.Call, rate: cst.Arg | None) -> bool:
    """Whether an optimizer is given a number for its rate, or none, and no decay of it by steps."""
    if has_star(call) or argument(call, "decay") is not None:
        return False
    kinds = context.values.kinds(rate.value) if rate is not None else frozenset()
    return rate is None or (bool(kinds) and kinds <= NUMBERS)


def touches_rates(context: Context) -> bool:
    """Whether anything goes by an optimizer's rate, or its count of steps, after it was made."""
    values = context.values
    for node in values.index.attributes:
        if node.attr.value in TOUCHING and is_of_optimizer(context, node.value):
            return True
    for call in values.index.calls:
        name = values.qualified(call.func)
        configures = tf_api.configures_optimizer(name) and not name.endswith(".get")
        if name.endswith((*SETTING, ".load_model")) or configures:
            return True
    bases = (base for owner in values.index.classes for base in values.classes.library_bases(owner))
    return any(base.endswith(SETTING) for base in bases)


def is_of_optimizer(context: Context, owner: cst.BaseExpression) -> bool:
    """Whether an attribute may be an optimizer's: its owner is one, or nothing is known of it."""
    if is_optimizer(context, owner):
        return True
    is_self = isinstance(owner, cst.Name) and owner.value == "self"
    kinds = context.values.kinds(owner)
    return not is_self and (not kinds or Kind.UNKNOWN in kinds)


def unseen_optimizers(context: Context) -> Iterator[cst.BaseExpression]:
    """What `compile` is given for an optimizer, where it may be a name, a configuration, or what is not seen."""
    for call in context.training.keras.compiles:
        arg = argument(call, "optimizer", 0)
        if arg is None or isinstance(arg.value, cst.SimpleString):
            continue
        kinds = context.values.kinds(arg.value)
        if not kinds or kinds & {Kind.CONSTANT, Kind.CONTAINER, Kind.UNKNOWN, Kind.OTHER}:
            yield arg.value


def loaded_models(context: Context) -> list[cst.Call]:
    """The calls that load models which are trained on with the optimizer that they were saved with, at one process's rate."""
    grown, fits = context.batch_sizes.grown, context.training.keras.fits
    receivers = [f.func.value for f in fits if f in grown and isinstance(f.func, cst.Attribute)]
    compiled = {
        context.module.text(call.func.value)
        for call in context.training.keras.compiles
        if isinstance(call.func, cst.Attribute)
    }
    made = (
        value.node
        for receiver in receivers
        if context.module.text(receiver) not in compiled
        for value in context.values.of(receiver)
    )
    loaded = (node for node in made if isinstance(node, cst.Call))
    is_loader = lambda call: context.values.qualified(call.func).endswith(".load_model")  # noqa: E731
    return list(dict.fromkeys(filter(is_loader, loaded)))


def kept_rates(context: Context) -> frozenset[cst.CSTNode]:
    """What makes optimizers by which no batch is taken that grows: their rates stay those of one process."""
    grown = context.batch_sizes.grown
    kept: set[cst.CSTNode] = set()
    scaled: set[cst.CSTNode] = set()
    for update, sites in context.data.step_sites:
        if update.optimizer is not None:
            grows = any(site.call in grown for site in sites)
            (scaled if grows else kept).update(makers_of(context, update))
    for call in context.training.keras.compiles:
        assert isinstance(call.func, cst.Attribute)
        model = context.module.text(call.func.value)
        fits = context.training.keras.fits
        own = [f for f in fits if context.module.text(f.func.value) == model]  # type: ignore[attr-defined]
        trained = own or fits
        tuners = context.training.keras.tuners
        if tuners.searches and tuners.builds(call):
            grows = all(training in grown for training in tuners.trainings)
            (scaled if grows else kept).update(compiled_makers(context, call))
        elif trained:
            grows = any(fit in grown for fit in trained)
            (scaled if grows else kept).update(compiled_makers(context, call))
    return frozenset(kept - scaled)


def makers_of(context: Context, update: Update) -> frozenset[cst.CSTNode]:
    """What makes the optimizer of an update: of one that a model takes, any that this program compiles a model with."""
    if update.is_of_model:
        compiles = context.training.keras.compiles
        return frozenset(made for call in compiles for made in compiled_makers(context, call))
    values = context.values.of(update.optimizer) if update.optimizer is not None else ()
    return frozenset(value.node for value in values if value.node is not None)


def compiled_makers(context: Context, call: cst.Call) -> frozenset[cst.CSTNode]:
    """What makes the optimizer that a model is compiled with; where none is written there, the call."""
    arg = argument(call, "optimizer", 0)
    if arg is None:
        return frozenset({call})
    made = {value.node for value in context.values.of(arg.value) if value.node is not None}
    return frozenset(made | {arg.value})


def rates_of(
    context: Context, update: Update, moments: Sequence[cst.BaseExpression]
) -> Iterator[cst.BaseExpression]:
    """The numbers that gradients, or moments of these, are multiplied by in what an update assigns: `w.assign_sub(0.01 * g)`.

    Args:
        moments: what else the program changes by gradients.
    """
    names = set(map(context.module.text, moments))
    for node in nodes_in(update.call):
        if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, cst.Multiply):
            continue
        for rate, step in ((node.left, node.right), (node.right, node.left)):
            is_moment = not names.isdisjoint(context.module.text(n) for n in nodes_in(step))
            is_step = is_moment or any(True for _ in context.training.gradients.flowing_into(step))
            number = context.values.kinds(rate)
            if is_step and number and number <= {Kind.CONSTANT}:
                yield rate


def decays_of(context: Context, update: Update) -> Iterator[cst.BaseExpression]:
    """What the weight itself is multiplied by in an assignment, `1 - 1e-3` of `w.assign(w * (1 - 1e-3) - 0.01 * g)`."""
    text = context.module.text
    if method(update.call) != "assign" or not update.call.args:
        return
    for summand in summands(update.call.args[0].value):
        match summand:
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                for weight, factor in ((left, right), (right, left)):
                    if text(weight) == text(update.variables[0]):
                        yield factor


def summands(value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    match value:
        case cst.BinaryOperation(left=left, operator=cst.Add() | cst.Subtract(), right=right):
            yield from summands(left)
            yield from summands(right)
        case _:
            yield value


def raised(context: Context, decay: cst.BaseExpression) -> Fix:
    """A decay of weights at each step, raised to the power of the number of ranks."""
    text = context.module.text(decay)
    why = f"{text} → {text} ** ranks: weights decay by it at each step, and a step of {RANKS} ranks stands for {RANKS} steps"
    coercion = Coercion(decay, Fraction(1), "repeated", False, why)
    before, after = edit_around(decay, context.module.parent(decay), coercion, context.backend.size)
    return Fix(decay, context.wrap(decay, before, after), why)


RULES: tuple[type[Rule], ...] = (ScaleBatch, JoinBatches, ScaleRate)
