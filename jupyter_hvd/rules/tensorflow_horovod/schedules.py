"""HVD2, continued: rates that change while the program trains, by steps, by epochs or by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from ...analysis.library import Kind
from ...analysis.reach import tests_around
from ...analysis.syntax import argument, method
from ...analysis.uniformity import is_uniform
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.agreement import ASSIGNING
from ...frameworks.tensorflow.layers import is_layer
from ...frameworks.tensorflow.randomness import DRAWING_ROWS, GENERATORS
from ...frameworks.tensorflow.roles import Role
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, Context, Rule
from .questions import (
    KNOWN_LIBRARIES,
    RATES,
    RESTORES,
    decided_from,
    is_own_schedule,
    is_rate,
    kept_schedules,
    multiplied_rates,
    rate_given,
    reads_rate,
    set_rates,
    takes_rate,
)

#: Arguments by which another library's functions are told how many steps a training has, or where in it they begin and end.
STEP_COUNTS = re.compile(
    r"(begin|end|decay|warm_?up|total|max|stop|hold|num|num_train|num_training|num_warmup)_(steps?|iterations?)"
    r"|steps_per_epoch"
)
#: What is set in a model, or a layer, of which other rules tell.
_OF_TRAINING = frozenset({*RATES, "optimizer", "stop_training", "trainable"})
#: What draws random numbers, by name, and methods that do, of generators.
_DRAWN = re.compile(r"(numpy\.|tensorflow\.)?random\.(?!(\w+\.)*\w*seed)")
_DRAWING = frozenset({"binomial", "choice", "choices", "normal", "rand", "random", "uniform"})
#: Methods that save weights.
SAVES = ("save", "save_weights", "write")
#: Arguments by which it is told how likely each of several is; and those that say how many numbers there are, and where they begin.
_WEIGHING = frozenset({"p", "weights", "mean", "stddev"})
_PLACING = frozenset({"seed", "shape", "size"})
#: Why a count is multiplied that a schedule of the program's own is given.
COUNTED = "It is counted from one rank's share, and the schedule is asked for the step of one process that has all."

#: Why a count is multiplied that a rate is computed from.
COUNTED_ON = "N ranks take a step together, so that N steps of one process have passed, and the rate goes by these."


def schedule_calls(context: Context) -> list[cst.Call]:
    """The calls that make one of Keras' schedules."""
    return [
        call
        for call in context.values.index.calls
        if tf_api.schedule(context.values.qualified(call.func))
    ]


def scheduler_functions(context: Context) -> list[cst.BaseExpression]:
    """What `LearningRateScheduler` callbacks are given."""
    given = (
        argument(call, "schedule", 0)
        for call in context.values.index.calls
        if tf_api.callback(context.values.qualified(call.func)) == "LearningRateScheduler"
    )
    return [arg.value for arg in given if arg is not None]


def wrapped_schedules(context: Context) -> list[cst.BaseExpression]:
    """The optimizers' rates that are schedules of the program's own."""
    found: dict[cst.BaseExpression, None] = {}
    for call in context.values.index.calls:
        if takes_rate(context, call) or tf_api.makes_optimizer(context.values.qualified(call.func)):
            rate = rate_given(context, call)
            values = context.values.of(rate.value) if rate is not None else frozenset()
            if rate is not None and values and all(is_own_schedule(context, v) for v in values):
                found[rate.value] = None
    return list(found)


class ScheduleSteps(Rule):
    """Divide the steps that a learning-rate schedule counts by the number of ranks.

    `decay_steps`, `warmup_steps`, `boundaries` count updates of one process. N ranks
    need an N-th of the updates for an epoch, so an undivided schedule would decay N
    times too late. A count that is taken from a dataset of which each rank has its
    share already, as `len(dataset)`, is left as it is, and so is a schedule by which nothing but steps on whole data is taken. Another library's function that is given such a count, a schedule
    by which weights are pruned, say, is told.
    """

    code = "HVD203"
    name = "steps of schedules"
    rationale = (
        "An epoch has an N-th of the steps, so the schedule must run through N times as fast."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                schedules = tf.keras.optimizers.schedules
                first = schedules.ExponentialDecay(0.1, decay_steps=1000, decay_rate=0.9)
                second = schedules.PiecewiseConstantDecay([100, 200], [0.1, 0.01, 0.001])
                model.compile(tf.keras.optimizers.SGD(first), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                schedules = tf.keras.optimizers.schedules
                first = schedules.ExponentialDecay(0.1, decay_steps=1000 // hvd.size() or 1000, decay_rate=0.9)
                second = schedules.PiecewiseConstantDecay([step // hvd.size() for step in [100, 200]], [0.1, 0.01, 0.001])
                model.compile(tf.keras.optimizers.SGD(first), loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        kept = kept_schedules(context)
        for call in schedule_calls(context):
            if call in kept:
                continue
            name = tf_api.schedule(context.values.qualified(call.func)) or ""
            for keyword, position in tf_api.SCHEDULE_STEPS[name]:
                arg = argument(call, keyword, position)
                if arg is None or context.sharding.counts_shard(arg.value):
                    continue
                if keyword == "boundaries":
                    each = f"[step // {context.backend.size} for step in "
                    yield Fix(arg.value, context.wrap(arg.value, each, "]"))
                else:
                    yield Fix(arg.value, context.over_size(arg.value))
        for call, count in self._counts_elsewhere(context):
            yield Problem(
                count,
                f"{context.module.text(call.func)} goes by a count of steps, of which N ranks make an N-th",
                f"divide it by {context.backend.size} where it is for the steps of this training",
                "warning",
            )

    def _counts_elsewhere(self, context: Context) -> Iterator[tuple[cst.Call, cst.Arg]]:
        """The first count of steps, other than 0, in each call of another library's function."""
        for call in context.values.index.calls:
            name = context.values.qualified(call.func)
            if not name or name.startswith(KNOWN_LIBRARIES):
                continue
            for arg in call.args:
                named = arg.keyword is not None and STEP_COUNTS.fullmatch(arg.keyword.value)
                none = isinstance(arg.value, (cst.Integer, cst.Name)) and arg.value.value in (
                    "0",
                    "None",
                )
                if named and not none and not context.sharding.counts_shard(arg.value):
                    yield call, arg
                    break


class OwnSchedule(Rule):
    """Put a schedule that the program defines itself into one that counts and scales for N ranks.

    Its class may do anything with the step, so it is asked for the step that one
    process would have reached, and its answer is multiplied. What it is given that is counted
    from a rank's share of the data, as `len(dataset)`, is multiplied as well: it counts one process's steps.
    """

    code = "HVD204"
    name = "schedules of the program's own"
    rationale = "The schedule is written for one process: it is asked for step N × step, and its rate is multiplied by N."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
                    def __call__(self, step):
                        step = tf.cast(step, tf.float32)
                        return tf.minimum(tf.math.rsqrt(step), step * 4000 ** -1.5)

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(Noam()), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
                    def __call__(self, step):
                        step = tf.cast(step, tf.float32)
                        return tf.minimum(tf.math.rsqrt(step), step * 4000 ** -1.5)

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(jhvd.scaled_schedule(Noam())), loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        counted: dict[cst.BaseExpression, None] = {}
        for rate in wrapped_schedules(context):
            scaled = context.wrap(rate, f"{context.runtime('scaled_schedule')}(", ")")
            yield Fix(rate, scaled, needs=(HOROVOD, "scaled_schedule"))
            counted.update(
                (arg.value, None)
                for value in context.values.of(rate)
                for call in (context.values.calls.sites(value.node) if value.node else ())
                for arg in call.args
                if not arg.star and context.sharding.counts_shard(arg.value)
            )
        for count in counted:
            yield Fix(count, context.times_size(count), COUNTED)


class SchedulerCallback(Rule):
    """Scale what the function of a `LearningRateScheduler` answers.

    Keras sets the optimizer's rate to it at every epoch, so without this the scaled
    rate lasts until the first epoch begins. The function is shown one process's rate,
    and what it makes of it is multiplied, so `lr * 0.9` and `1e-3 * 0.9 ** epoch` both come out right.
    """

    code = "HVD205"
    name = "scheduled rates"
    rationale = (
        "The callback sets the rate at every epoch, so what it sets must be N times as large, too."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                slower = tf.keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch))
                model.fit(x, y, verbose=0, callbacks=[slower])
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                slower = tf.keras.callbacks.LearningRateScheduler(jhvd.scaled_rates(lambda epoch: 0.01 / (1 + epoch)))
                model.fit(x, y, verbose=0, callbacks=[slower])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for function in scheduler_functions(context):
            scaled = context.wrap(function, f"{context.runtime('scaled_rates')}(", ")")
            yield Fix(function, scaled, needs=(HOROVOD, "scaled_rates"))


class SetRate(Rule):
    """Multiply a rate that the program sets while it trains.

    `optimizer.learning_rate = 1e-4`, `.assign(…)` and `K.set_value(…)` set what the
    optimizer was given, and must be scaled like it. A rate computed from the present one,
    `optimizer.learning_rate * 0.5`, is in proportion already. One computed from a count of steps, which a callback or a loop of the
    program counts, goes by the steps of one process: the count is multiplied where the rate is computed.
    """

    code = "HVD206"
    name = "rates set by hand"
    rationale = "This replaces the scaled rate, so it must be scaled as well."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                model.optimizer.learning_rate = 1e-4
                model.fit(x, y, verbose=0)
                model.optimizer.learning_rate.assign(0.5 * model.optimizer.learning_rate)
                model.fit(x, y, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                model.optimizer.learning_rate = 1e-4 * hvd.size()
                model.fit(x, y, verbose=0)
                model.optimizer.learning_rate.assign(0.5 * model.optimizer.learning_rate)
                model.fit(x, y, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        counts: dict[cst.BaseExpression, None] = {}
        made = {*schedule_calls(context)}
        for rate in set_rates(context):
            behind = list(context.values.flow.backward_slice(rate))
            if reads_rate(context, rate):
                present = partial(is_rate, context)
                made_of = context.values.flow.backward_slice(rate, present)
                if any(self._decides(context, node) for node in made_of):
                    yield Problem(
                        rate,
                        "a function of the program makes this rate from the present one, so it cannot be seen whether it is scaled",
                        f"where it returns a rate that does not depend on the present one, multiply that by {context.backend.size}",
                        "warning",
                    )
            elif not any(v.kind in (Role.SCHEDULE, Kind.NONE) for v in context.values.of(rate)):
                yield Fix(rate, context.times_size(rate))
                if made.intersection(behind):  # whose own steps are divided
                    continue
                found = context.stops.counts_behind(rate)
                late = context.stops.begins_late
                if found and not any(_looks_up(context, c) or late(c) for c in found):
                    counts |= dict.fromkeys(found)
                elif found or any(_counts_steps(context, node) for node in behind):
                    yield Problem(
                        rate,
                        "this rate goes by a count of steps, of which N ranks make an N-th, so that it comes only a part of its way",
                        f"divide what the count is compared with by {context.backend.size}, or give the optimizer a schedule of Keras' own",
                        "warning",
                    )
        changed = (*set_rates(context), *multiplied_rates(context))
        decaying = (r for r in set_rates(context) if reads_rate(context, r))
        for rate in (*decaying, *multiplied_rates(context)):
            if context.stops.is_at_each_step(rate):
                yield Problem(
                    rate,
                    "this rate changes at each step, of which N ranks make an N-th, so that in the same data it comes only a part of its way",
                    f"raise the factor to the power of {context.backend.size} in the converted program, or let the epochs decide",
                    "warning",
                )
        for test in dict.fromkeys(t for rate in changed for t in _counted_tests(context, rate)):
            yield Problem(
                test,
                "when this rate changes is decided by a count of steps, of which N ranks make an N-th, so that it comes N times as late",
                f"compare with an N-th of it, `n // {context.backend.size}` in the converted program, or let the epochs decide",
                "warning",
            )
        for count in counts:
            size = f" * {context.backend.size})"
            yield Fix(count, context.wrap(count, "(", size), COUNTED_ON)

    def _decides(self, context: Context, node: cst.CSTNode) -> bool:
        """Whether a node calls something of the program's own, which may answer with a rate of its own."""
        return (
            isinstance(node, cst.Call)
            and any(v.kind in (Kind.FUNCTION, Kind.UNKNOWN) for v in context.values.of(node.func))
            and not (
                isinstance(node.func, cst.Attribute)
                and node.func.attr.value in ("numpy", "item", "read_value")
            )
        )


ANNEALED = program(
    """
    import tensorflow as tf

    encoder = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    decoder = tf.keras.Sequential([tf.keras.layers.Dense(8)])
    opt = tf.keras.optimizers.Adam(1e-3)
    dataset = tf.data.Dataset.from_tensor_slices(data).shuffle(1000).batch(32)
    step = 0
    for epoch in range(10):
        for x in dataset:
            weight = min(1.0, step / 1000)
            with tf.GradientTape() as tape:
                code = encoder(x)
                loss = tf.reduce_mean((decoder(code) - x) ** 2) + weight * tf.reduce_mean(code ** 2)
            variables = encoder.trainable_variables + decoder.trainable_variables
            opt.apply_gradients(zip(tape.gradient(loss, variables), variables))
            step += 1
    """
)


class StepSchedule(Rule):
    """Tell what goes by a count of steps beside the rate: a weight in the loss, when layers thaw, when a copy is renewed.

    A variable that a callback, or the loop, sets by such a count is told, and so is what each step makes larger or smaller: a temperature in the
    loss, a chance of exploring, `eps *= 0.995`, the rate of a dropout.
    So are weights that are saved by such a count, and loaded again behind the training.

    N ranks make an N-th of the steps, so it comes only an N-th of its way in the same data. Whether it is to go by the data or by the updates is
    for who trains to say, so nothing is changed.
    """

    code = "HVD208"
    name = "what goes by steps"
    rationale = "N ranks make an N-th of the steps."
    examples = (
        Example(
            ANNEALED, ANNEALED, "On 4 ranks the weight is 1 after four times as many examples."
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        told: dict[cst.CSTNode, str] = {}
        for node, what in self._counted(context):
            told.setdefault(node, what)
        yield from (self._told(node, what) for node, what in told.items())
        places, draws = self._changing(context)
        for place in places:
            yield Problem(
                place,
                "training goes by this number, which changes with each step, of which N ranks make an N-th, so that in the same data it comes"
                " only an N-th of its way",
                "if it is to go by the data, change it hvd.size() times a step in the converted program, or let the epochs decide",
                "warning",
            )
        for draw in draws:
            yield Problem(
                draw,
                "training goes by what each step takes here, and N ranks make an N-th of the steps, so that in the same data it comes"
                " only an N-th of its way; all ranks take the same",
                "if it is to go by the data, take hvd.size() a step in the converted program; what are data themselves, make a tf.data.Dataset",
                "warning",
            )

    def _counted(self, context: Context) -> Iterator[tuple[cst.CSTNode, str]]:
        """What goes by counts of steps, with how."""
        ends = partial(_takes_rows, context)
        for loss in self._losses(context):
            counted: dict[cst.CSTNode, None] = dict.fromkeys(
                context.stops.counts_behind(loss, ends)
            )
            if not context.stops.data_counts(loss):
                behind = context.values.flow.computed_from(loss, ends)
                counted |= dict.fromkeys(n for n in behind if _is_counting_variable(context, n))
            for count in counted:
                yield count, "the loss goes by this count of steps"
        for call, variable, given in _set_variables(context):
            counts = context.stops.counts_behind(given, ends)
            for count in counts:
                yield count, "a variable is set by this count of steps"
            if not counts and not context.stops.data_counts(given):
                changed = _is_changed(context, call, variable, given)
                tests = [] if changed else _counted_tests(context, call)
                if changed:
                    yield call, "this variable changes at each step"
                for test in (t for t in tests if not self._accumulates(context, t)):
                    yield test, "when this happens is decided by a count of steps"
        for chance in _chances(context):
            for count in context.stops.counts_behind(chance, ends):
                yield count, "what is drawn goes by this count of steps"
        for _, given in _set_in_layers(context):
            for count in context.stops.counts_behind(given, ends):
                yield count, "a layer is set by this count of steps"
        for test in dict.fromkeys(
            t for n in self._switched(context) for t in _counted_tests(context, n)
        ):
            yield test, "when this happens is decided by a count of steps"

    def _losses(self, context: Context) -> Iterator[cst.BaseExpression]:
        """What is differentiated, and what layers add to it."""
        for call in context.training.training_gradients:
            if (target := argument(call, "target", 0)) is not None:
                yield target.value
        for call in context.values.index.calls:
            if method(call) == "add_loss" and (added := argument(call, "loss", 0)) is not None:
                yield added.value

    def _accumulates(self, context: Context, test: cst.BaseExpression) -> bool:
        """Whether gradients of so many steps are applied where a test holds: as many of each rank."""
        around = context.module.parent(test)
        applied = (context.module.ancestors(update.call) for update in context.training.updates)
        return around is not None and any(around in ancestors for ancestors in applied)

    def _changing(self, context: Context) -> tuple[list[cst.BaseExpression], list[cst.Call]]:
        """The numbers that each step makes larger or smaller, `temperature *= 0.99`, and the draws of each step, `next(weights)`, that
        training goes by.
        """
        places, draws = context.recurring.places, context.stops.undivided_draws
        in_layers = {place for place, _ in _set_in_layers(context)}
        found = {place: None for place in places if place in in_layers}
        if len(found) == len(places) and not draws:
            return [*found], []
        goals = [*self._losses(context), *_chances(context), *_unscaled_rates(context)]
        goals += [given for _, _, given in _set_variables(context)]
        goals += [given for _, given in _set_in_layers(context)]
        goals += [a.value for c in context.training.compiled_trainings for a in c.args]
        ends = partial(self._goes_by_updates, context)
        behind = dict.fromkeys(decided_from(context, *goals, ends=ends))
        found |= {place: None for node in behind for place in context.recurring.read_in(node)}
        return [*found], [draw for draw in draws if draw in behind]

    def _goes_by_updates(self, context: Context, node: cst.CSTNode) -> bool:
        """Whether what a node goes by is no schedule: weights, which rows are taken, whether a loop over steps goes on."""
        return (
            node in context.stops.ending
            or _takes_rows(context, node)
            or context.training.agreement.is_weight(node)
        )

    def _switched(self, context: Context) -> Iterator[cst.CSTNode]:
        """Where the training sets what is trained, what a layer does, and weights, and where it keeps those that it sets later."""
        bound = context.values.index.attribute_bindings.get("trainable", ())
        yield from (b.place for b in bound if b.place is not None)
        yield from (place for place, _ in _set_in_layers(context))
        yield from (setting.call for setting in context.settings.every)
        yield from (*context.settings.of_callbacks, *context.settings.kept)
        yield from _coming_back(context)

    def _told(self, node: cst.CSTNode, what: str) -> Problem:
        return Problem(
            node,
            f"{what}, of which N ranks make an N-th, so that in the same data it comes only an N-th of its way",
            "if it is to go by the data, multiply the count by hvd.size() in the converted program, or let the epochs decide",
            "warning",
        )


def _set_variables(
    context: Context,
) -> Iterator[tuple[cst.Call, cst.BaseExpression, cst.BaseExpression]]:
    """The calls that set variables which are no weights, rates or counts, with the variable and what it is set to."""
    for call in context.values.index.calls:
        match call:
            case cst.Call(func=cst.Attribute(value=variable), args=[given, *_]) if (
                method(call) in ASSIGNING
            ):
                pass
            case cst.Call(args=[cst.Arg(value=variable), given, *_]) if (
                context.values.qualified(call.func) == "tensorflow.keras.backend.set_value"
            ):
                pass
            case _:
                continue
        of_training = context.training.agreement.is_weight(variable) or is_rate(context, variable)
        if not of_training and not _is_counting_variable(context, variable):
            yield call, variable, given.value


def _set_in_layers(context: Context) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    """Where an attribute of a layer, or of a model, is set from outside, with what it is set to: `drop.rate = 0.5 - step / 1000`."""
    for name, bindings in context.values.index.attribute_bindings.items():
        for bound in bindings if name not in _OF_TRAINING else ():
            if bound.place is not None and bound.receiver and _is_layer(context, bound.receiver):
                yield bound.place, bound.value


def _is_layer(context: Context, node: cst.BaseExpression) -> bool:
    """Whether an expression is a layer, or one of a model's; what a layer sets in itself, it may keep for anything."""
    if isinstance(node, cst.Name) and node.value == "self":
        return False
    of_model = any(map(_gives_layers, context.values.flow.computed_from(node)))
    return of_model or any(is_layer(context.values, v) for v in context.values.of(node))


def _gives_layers(node: cst.CSTNode) -> bool:
    """Whether a model is asked for layers: `model.get_layer("drop")`, `model.layers`."""
    asked = node.func if isinstance(node, cst.Call) else node
    name = asked.attr.value if isinstance(asked, cst.Attribute) else ""
    return name == ("get_layer" if isinstance(node, cst.Call) else "layers")


def _coming_back(context: Context) -> Iterator[cst.Call]:
    """Where weights are saved that the program loads again behind this."""
    values, place = context.values, context.module.span
    saved = [(c, path) for c in values.index.calls if (path := _weights_file(context, c, SAVES))]
    for call in values.index.calls if saved else ():
        loaded = _weights_file(context, call, (*RESTORES, "load_model"))
        if loaded:
            last = max(place(each).start for each in values.calls.leading_to(call))
            yield from (c for c, path in saved if path & loaded and place(c).start < last)


def _weights_file(context: Context, call: cst.Call, methods: Sequence[str]) -> set[object]:
    """What the file of weights that a call of one of these methods saves or loads is known by: its name, a manager of checkpoints."""
    if method(call) not in methods or not isinstance(call.func, cst.Attribute):
        return set()
    managers = {v for v in context.values.of(call.func.value) if v.kind is Role.CHECKPOINT_MANAGER}
    given = [call.args[0].value] if call.args else []
    behind = [n for each in given for n in context.values.flow.backward_slice(each)]
    for node in behind:
        if isinstance(node, cst.Attribute):
            of_node = context.values.of(node.value)
            managers |= {v for v in of_node if v.kind is Role.CHECKPOINT_MANAGER}
    names = {n.evaluated_value for n in behind if isinstance(n, cst.SimpleString)}
    return {*managers} or {name for name in names if len(name) > 1}


def _chances(context: Context) -> Iterator[cst.BaseExpression]:
    """What a number that is drawn is compared with, as a chance of exploring is, `random.random() < eps`, and what it is drawn by: how much
    noise there is, how likely each of several is.
    """
    for call in context.values.index.calls:
        name = context.values.qualified(call.func)
        if not (_DRAWN.match(name) or method(call) in _DRAWING) or name in GENERATORS:
            continue
        around = context.module.enclosing(call, (cst.Comparison, cst.BaseStatement))
        if isinstance(around, cst.Comparison):
            yield around
        rows = method(call) in DRAWING_ROWS or "stateless" in name
        for arg in call.args:
            keyword = arg.keyword.value if arg.keyword is not None else ""
            if keyword in _WEIGHING or not (rows or keyword in _PLACING):
                yield arg.value


def _unscaled_rates(context: Context) -> Iterator[cst.BaseExpression]:
    """The rates that are not made of the present one, of which HVD206 tells."""
    return (rate for rate in set_rates(context) if not reads_rate(context, rate))


def _is_changed(
    context: Context, call: cst.Call, variable: cst.BaseExpression, given: cst.BaseExpression
) -> bool:
    """Whether a variable is made larger or smaller at each step, by what is the same at all: `beta.assign_add(0.001)`."""
    own = context.module.text(variable)
    parts: list[cst.CSTNode] = [given]
    reads = method(call) in ("assign_add", "assign_sub")
    while parts:
        part = parts.pop()
        if isinstance(part, cst.Name | cst.Attribute):
            is_own = context.module.text(part) == own
            reads = reads or is_own
            if not is_own and not is_uniform(context.values, part):
                return False
        else:
            parts += part.children
    return reads and context.stops.is_at_each_step(call)


def _takes_rows(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node takes a part of data, or draws at random, by a number: a count in it is no schedule. What has its own number for
    each batch that the loop is given, `betas[step]`, is one.
    """
    match node:
        case cst.Subscript():
            return not any(
                isinstance(e.slice, cst.Index) and context.stops.counts_batches(e.slice)
                for e in node.slice
            )
        case cst.Call():
            name = context.values.qualified(node.func)
            return "random" in name or name.endswith((".gather", ".slice"))
    return False


def _looks_up(context: Context, count: cst.CSTNode) -> bool:
    """Whether a count says which entry of a table is taken: N times the number may be none of it."""
    return any(isinstance(a, cst.SubscriptElement) for a in context.module.ancestors(count))


def _counted_tests(context: Context, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests of a count of steps that decide, in its function, whether a node runs; a mean over the steps is none, nor what goes by
    how many steps a rank has.
    """
    for test in tests_around(context.values, node):
        if context.stops.data_counts(test):
            continue
        behind = context.values.flow.backward_slice(test, partial(_is_mean, context))
        if any(context.stops.is_counter(n) or _counts_steps(context, n) for n in behind):
            yield test


def _is_mean(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node divides by a count of steps: `total / n`."""
    return (
        isinstance(node, cst.BinaryOperation)
        and isinstance(node.operator, cst.Divide)
        and context.stops.counts(node.right)
    )


def _counts_steps(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node is a count of steps: a name, or a variable, that goes up by one with each."""
    if isinstance(node, cst.Name) and context.stops.counts(node):
        return True
    return _is_counting_variable(context, node)


def _is_counting_variable(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node is a variable to which one is added, or an optimizer's count of its updates."""
    match node:
        case cst.Attribute(attr=cst.Name("iterations")):
            return True
        case cst.Name() | cst.Attribute():
            return any(_is_same(context, counted, node) for counted in _one_more(context))
    return False


def _is_same(context: Context, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
    """Whether two names, or attributes of one object, may be one variable."""
    if isinstance(one, cst.Attribute) and isinstance(other, cst.Attribute):
        functions = (context.module.function_of(x) for x in (one, other))
        owners = [f and context.module.class_of(f) for f in functions]
        return context.module.text(one) == context.module.text(other) and owners[0] is owners[1]
    made = {value for value in context.values.of(one) if isinstance(value.node, cst.Call)}
    return bool(made & context.values.of(other))


def _one_more(context: Context) -> Iterator[cst.BaseExpression]:
    """The variables to which one is added: `step.assign_add(1)`."""
    for call in context.values.index.calls:
        if method(call) == "assign_add" and isinstance(call.func, cst.Attribute):
            added = argument(call, "delta", 0)
            if added is not None and _is_one(added.value):
                yield call.func.value


def _is_one(e: cst.BaseExpression) -> bool:
    """Whether it is 1, or 1 as a tensor."""
    match e:
        case cst.Integer() | cst.Float():
            return bool(e.evaluated_value == 1)
        case cst.Call(args=[cst.Arg(value=first), *_]) if method(e) in ("constant", "cast"):
            return _is_one(first)
    return False


RULES: tuple[type[Rule], ...] = (
    ScheduleSteps,
    OwnSchedule,
    SchedulerCallback,
    SetRate,
    StepSchedule,
)
