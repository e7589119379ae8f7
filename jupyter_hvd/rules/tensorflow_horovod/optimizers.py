"""HVD2: learning rates grow with the number of ranks; Keras' optimizers average gradients."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import UNKNOWN, Kind, Value
from ...analysis.syntax import argument, has_star, method
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.updates import Update, whole_list
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, TENSORFLOW, Context, Rule
from .questions import (
    RATES,
    called,
    is_own_optimizer,
    is_own_schedule,
    kept_rates,
    made,
    optimizer_makers,
    rate_given,
    reads_rate,
    scaled_default,
    taken_whole,
    takes_rate,
)

#: The runtime's function by which an optimizer averages.
WRAPPER = "DistributedOptimizer"


class LearningRate(Rule):
    """Multiply every learning rate by the number of ranks.

    N ranks take N batches at each step, so the gradient is averaged over N times
    the examples and the step may be N times as long. A rate is found wherever it is
    given: as `learning_rate=`, as `lr=`, by position, or not at all, when the
    optimizer's default is written out; likewise for a class of the program's own that inherits Keras' optimizers. So is the `decay` of
    Keras 2, which counts steps. Where the rate is one of Keras' schedules, the
    schedule's rates are multiplied instead. A rate that is computed from one that an optimizer has,
    `Adam(model.optimizer.learning_rate.numpy() / 10)`, is in proportion already. The class may come from a dictionary, a variable, or
    `functools.partial`; of an optimizer that is made of a configuration the rate is multiplied when the program runs, and of one that is made where
    the program does not show it is told. An optimizer whose steps are all taken on whole data (HVD504) keeps its rate.
    """

    code = "HVD201"
    name = "learning rate"
    rationale = (
        "N ranks average over N times the examples at each step, so the rate is N times as large."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(1e-3), loss='mse')
                model.compile(tf.keras.optimizers.SGD(lr=base / 2), loss='mse')
                model.compile(tf.keras.optimizers.Nadam(), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(1e-3 * hvd.size()), loss='mse')
                model.compile(tf.keras.optimizers.SGD(lr=(base / 2) * hvd.size()), loss='mse')
                model.compile(tf.keras.optimizers.Nadam(learning_rate=0.001 * hvd.size()), loss='mse')
                model.fit(x, y)
                """
            ),
            "A rate by position, under its old name, and not given at all.",
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 1000, 0.9)
                model.compile(tf.keras.optimizers.SGD(schedule), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1 * hvd.size(), 1000, 0.9)
                model.compile(tf.keras.optimizers.SGD(schedule), loss='mse')
                model.fit(x, y)
                """
            ),
            "A schedule is multiplied where it is made.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        scaled: set[cst.CSTNode] = set()
        kept = kept_rates(context)
        for call in context.values.index.calls:
            if call not in kept:
                yield from self._where_made(context, call, scaled)
        yield from self._compiled_for_a_loop(context)
        yield from self._hidden(context)
        whole = taken_whole(context)
        stepped = _of_optimizers(context)
        for update, sites in context.training.own_updates:
            if (
                update.optimizer is None
                and not stepped & _weights(context, update)
                and context.training.agreement.is_weight(update.variables[0])
                and not all(site.call in whole for site in sites)
            ):
                yield Problem(
                    update.call,
                    "the program changes these weights by itself, by a rate that is not multiplied by the number of ranks",
                    f"multiply the rate by {context.backend.size} if the training should be as fast",
                    "warning",
                )
                break

    def _where_made(
        self, context: Context, call: cst.Call, scaled: set[cst.CSTNode]
    ) -> Iterator[Finding]:
        """Scale the rate of the optimizer that a call makes, of whatever classes it may be."""
        makers = optimizer_makers(context, call)
        names = {value.name for value in makers}
        own = [v.node for v in makers if isinstance(v.node, cst.ClassDef)]
        if not makers:
            return
        if all(map(tf_api.configures_optimizer, names)):
            yield from self._configured(context, call, names)
        elif len(own) == len(makers) == 1:
            yield from self._of_own(context, call, own[0], scaled)
        elif takes_rate(context, call):
            known = tf_api.optimizer(names.pop()) if len(called(context, call)) == 1 else None
            yield from self._scale(context, call, known or tf_api.ANY_OPTIMIZER, scaled)
        elif own or any(value.kind is Kind.FUNCTION for value in called(context, call)):
            yield self._unseen(context, call)
        else:
            yield from self._scale(context, call, None, scaled)

    def _configured(self, context: Context, call: cst.Call, names: set[str]) -> Iterator[Finding]:
        """Scale, when the program runs, the rate of an optimizer that is made of a configuration, unless this is another's."""
        given = call.args[0].value if call.args else None
        if given is None or any(map(is_copied, context.values.flow.backward_slice(given))):
            return
        if any(not name.endswith(".get") for name in names):
            opening = f"{context.runtime('multiplied_rate')}("
            edits = context.wrap(call, opening, ")", Layer.FUNCTION)
            yield Fix(call, edits, needs=(HOROVOD, "multiplied_rate"))
        elif isinstance(given, cst.SimpleString):
            yield from self._named(context, call, given)
        elif context.values.kinds(given) != {Role.OPTIMIZER}:
            edit = context.replace(call.func, context.runtime("scaled_optimizer"))
            yield Fix(call, (edit,), needs=(HOROVOD, "scaled_optimizer"))

    def _hidden(self, context: Context) -> Iterator[Problem]:
        """The optimizers by which weights are trained, and whose rate nothing above has seen."""
        whole = taken_whole(context)
        given = [
            update.optimizer
            for update, sites in context.training.own_updates
            if update.optimizer is not None
            and not (update.is_of_model or update.minimizes)
            and not all(site.call in whole for site in sites)
        ]
        wrapped = (argument(c, "optimizer", 0) for c in context.training.keras.compiles)
        given += [inner for arg in wrapped if arg for inner in _wrapped(context, arg.value)]
        for place in dict.fromkeys(place for each in given for place in _hidden(context, each)):
            yield unscaled(context, place)

    def _compiled_for_a_loop(self, context: Context) -> Iterator[Finding]:
        """`model.compile('adam')`, where the program's own loop steps by `model.optimizer`: the optimizer that it gives."""
        training = context.training
        trained = training.compiled_trainings or training.keras.searches
        if trained or not any(a.attr.value == "optimizer" for a in context.values.index.attributes):
            return
        for call in training.keras.compiles if training.own_updates else ():
            arg = argument(call, "optimizer", 0)
            if arg is not None:
                yield from self._named(context, arg.value, arg.value)
            elif not has_star(call):
                default = f"optimizer={made(context, tf_api.OPTIMIZERS['rmsprop'])}"
                yield Fix(call, (context.add_keyword(call, default),), needs=(HOROVOD, TENSORFLOW))

    def _named(
        self, context: Context, place: cst.BaseExpression, name: cst.BaseExpression
    ) -> Iterator[Finding]:
        """`'adam'`, or `optimizers.get('adam')`, becomes the optimizer that it gives, so that its rate can be seen."""
        named = name.evaluated_value if isinstance(name, cst.SimpleString) else None
        known = tf_api.OPTIMIZERS.get(str(named).lower())
        if known is not None:
            edit = context.replace(place, made(context, known, place not in kept_rates(context)))
            yield Fix(place, (edit,), needs=(HOROVOD, TENSORFLOW))

    def _scale(
        self,
        context: Context,
        call: cst.Call,
        known: tf_api.Optimizer | None,
        scaled: set[cst.CSTNode],
    ) -> Iterator[Finding]:
        decay = argument(call, "decay") if known else None
        if decay is not None and not isinstance(decay.value, cst.Integer):
            # Keras 2 divides the rate by `1 + decay * steps`, and N ranks take an N-th of the steps.
            yield Fix(decay.value, context.times_size(decay.value))
        position = 0 if known else None
        direct = context.values.calls.direct(call)
        arg = rate_given(context, call, position)
        if (
            arg is None
            and known is None
            and any(
                kind is Role.OPTIMIZER for a in call.args for kind in context.values.kinds(a.value)
            )
        ):
            return  # a wrapper such as Lookahead: the optimizer inside has the rate
        if arg is None and (has_star(direct) or known is None):
            yield self._unseen(context, call)
        elif arg is None:
            assert known is not None
            rate = scaled_default(context, known, context.module.text(call.func))
            opening = context.module.source.index("(", context.module.span(call.func).end) + 1
            yield Fix(call, (context.insert(opening, f"{rate}, " if call.args else rate),))
        else:
            yield from self._scale_value(context, arg.value, scaled)

    def _of_own(
        self, context: Context, call: cst.Call, made: cst.ClassDef, scaled: set[cst.CSTNode]
    ) -> Iterator[Finding]:
        """Scale the rate that an optimizer of a class of the program's own is given, or that its `__init__` gives it."""
        init = next(context.values.classes.methods(made, "__init__"), None)
        names = [each.name.value for each in init.params.params[1:]] if init else [RATES[0]]
        keywords = init.params.kwonly_params if init else ()
        named = next(
            (each for each in (*names, *(k.name.value for k in keywords)) if each in RATES), None
        )
        position = names.index(named) if named in names else None
        arg = argument(call, named or RATES[0], position)
        params = (*init.params.params, *keywords) if init else ()
        default = next((p.default for p in params if p.name.value == named), None)
        if arg is not None:
            yield from self._scale_value(context, arg.value, scaled)
        elif (
            default is not None
            and not has_star(call)
            and context.values.kinds(default) != {Kind.NONE}
        ):
            rate = f"{named}={context.module.text(default)} * {context.backend.size}"
            yield Fix(call, (context.add_keyword(call, rate),))
        else:
            yield self._unseen(context, call)

    def _unseen(self, context: Context, call: cst.Call) -> Problem:
        return Problem(
            call,
            "the learning rate of this optimizer cannot be seen here, so it is not multiplied by the number of ranks",
            f"write learning_rate=… * {context.backend.size} yourself",
            "warning",
        )

    def _scale_value(
        self, context: Context, rate: cst.BaseExpression, scaled: set[cst.CSTNode]
    ) -> Iterator[Finding]:
        values = context.values.of(rate)
        elsewhere = [v for v in values if v.kind in (Role.SCHEDULE, Role.VARIABLE)]
        own = [v for v in values if v.kind in (Kind.INSTANCE, Kind.FUNCTION, Kind.CLASS)]
        if own and all(is_own_schedule(context, v) for v in values):
            return  # HVD204 scales it
        if not elsewhere and reads_rate(context, rate):
            return  # in proportion already
        if own:
            yield Problem(
                rate,
                "this learning rate is an object of the program's own, so it is not multiplied by the number of ranks",
                f"multiply what the schedule returns by {context.backend.size}",
                "warning",
            )
        elif elsewhere and len(elsewhere) < len(values):
            yield Problem(
                rate,
                "the learning rate is a number on one path and a schedule on another, so it is not multiplied",
                f"multiply each by {context.backend.size} where it is made",
                "warning",
            )
        elif elsewhere:
            for value in elsewhere:
                if value.node not in scaled:
                    scaled.add(value.node)  # type: ignore[arg-type]
                    yield from self._scale_source(context, value)
        elif (
            rate not in scaled
        ):  # of a call that is begun by `functools.partial`, once for all that complete it
            scaled.add(rate)
            yield Fix(rate, context.times_size(rate))

    def _scale_source(self, context: Context, value: Value) -> Iterator[Finding]:
        """Multiply the rates of a schedule, or the initial value of a variable, where it is made."""
        call = value.node
        assert isinstance(call, cst.Call)
        named = (
            (("initial_value", 0),)
            if value.kind is Role.VARIABLE
            else tf_api.SCHEDULES[tf_api.schedule(value.name) or ""]
        )
        edits: list[Edit] = []
        default = tf_api.SCHEDULE_DEFAULTS.get(tf_api.schedule(value.name) or "")
        if default and argument(call, default[0], dict(named)[default[0]]) is None:
            size = f"{default[1]} * {context.backend.size}"
            if not has_star(call):
                edits.append(context.add_keyword(call, f"{default[0]}={size}"))
        for keyword, position in named:
            arg = argument(call, keyword, position)
            if arg is None:
                continue
            if keyword == "values":
                edits += context.wrap(
                    arg.value, "[rate * " + context.hvd + ".size() for rate in ", "]"
                )
            elif not (isinstance(arg.value, cst.Name) and arg.value.value == "None"):
                edits += context.times_size(arg.value)
        if edits:
            yield Fix(call, tuple(edits))
        else:
            yield Problem(
                call,
                "the rates of this schedule cannot be seen here, so they are not multiplied by the number of ranks",
                f"multiply them by {context.backend.size}",
                "warning",
            )


def _of_optimizers(context: Context) -> set[str]:
    """The weights that optimizers change: what else is added to these, and taken off again, as SAM does, is no step by a rate."""
    updates = (u for u in context.training.updates if u.optimizer is not None)
    return {text for update in updates for text in _weights(context, update)}


def _weights(context: Context, update: Update) -> set[str]:
    """The lists that an update takes its variables from, as they are written."""
    return {context.module.text(whole_list(context.values, each)) for each in update.variables}


class Compile(Rule):
    """Wrap the optimizer of every `compile` in `jhvd.DistributedOptimizer`.

    It averages the gradients of all ranks before `fit` applies them. A
    string, a call, a name, the default: all are wrapped, or the
    ranks would train apart at a scaled rate. Where a name holds the optimizer it is
    wrapped where it is made, so that every use of the name means the same object.
    """

    code = "HVD202"
    name = "distributed optimizer"
    rationale = "fit must average all ranks' gradients before it applies them, or every rank trains a model of its own."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(optimizer='adam', loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(optimizer=jhvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())), loss='mse')
                model.fit(x, y)
                """
            ),
            "A string becomes the optimizer that it means.",
        ),
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                model.compile(opt, loss='mse')
                model.fit(x, y)
                print(opt.learning_rate)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = jhvd.DistributedOptimizer(tf.keras.optimizers.Adam(1e-3))
                model.compile(opt, loss='mse')
                model.fit(x, y)
                print(opt.learning_rate)
                """
            ),
            "A name is wrapped where its optimizer is made.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        wrapped: set[cst.CSTNode] = set()
        for call in context.training.keras.compiles:
            if not (context.training.compiled_trainings or context.training.keras.searches):
                return
            arg = argument(call, "optimizer", 0)
            if arg is None and has_star(call):
                opening = f"{context.runtime('distributed_compile')}("
                closing = f"{context.optimizer_options})"
                edits = context.wrap(call.func, opening, closing, Layer.FUNCTION)
                yield Fix(call, edits, needs=(HOROVOD, "distributed_compile"))
            elif arg is None:
                default = context.add_keyword(call, f"optimizer={self._made(context, 'rmsprop')}")
                yield Fix(call, (default,), needs=(HOROVOD, TENSORFLOW, WRAPPER))
            elif isinstance(arg.value, (cst.SimpleString, cst.ConcatenatedString)):
                yield from self._from_string(context, arg.value)
            else:
                yield from self._from_expression(context, arg.value, wrapped)
        for update in context.training.updates:
            if update.minimizes and update.optimizer is not None:
                yield from self._from_expression(context, update.optimizer, wrapped)

    def _made(self, context: Context, name: str, scaled: bool = True) -> str:
        optimizer = made(context, tf_api.OPTIMIZERS[name], scaled)
        return f"{context.runtime(WRAPPER)}({optimizer}{context.optimizer_options})"

    def _from_string(
        self, context: Context, string: cst.SimpleString | cst.ConcatenatedString
    ) -> Iterator[Finding]:
        name = str(string.evaluated_value).lower()
        if name in tf_api.OPTIMIZERS:
            edit = context.replace(
                string, self._made(context, name, string not in kept_rates(context))
            )
            yield Fix(string, (edit,), needs=(HOROVOD, TENSORFLOW, WRAPPER))
        else:
            yield Problem(
                string,
                f"{string.evaluated_value!r} is no optimizer of Keras that is known here",
                "pass an optimizer object",
            )

    def _from_expression(
        self, context: Context, expression: cst.BaseExpression, wrapped: set[cst.CSTNode]
    ) -> Iterator[Finding]:
        values = context.values.of(expression)
        before, after = f"{context.runtime(WRAPPER)}(", f"{context.optimizer_options})"
        needs = (HOROVOD, WRAPPER)
        strings = any(v.kind in (Kind.CONSTANT, Kind.CONTAINER) for v in values)
        if strings or any(v.kind is Kind.UNKNOWN for v in values):
            opening = f"{before}{context.runtime('scaled_optimizer')}("
            named = context.wrap(expression, opening, f"){after}")
            yield Fix(expression, named, needs=(*needs, "scaled_optimizer"))
            if not strings:
                yield unscaled(context, expression)
            return
        calls = [
            v.node for v in values if v.kind is Role.OPTIMIZER and isinstance(v.node, cst.Call)
        ]
        if len(calls) == len(values) and not isinstance(expression, cst.Call):
            for node in calls:
                if node not in wrapped:
                    wrapped.add(node)
                    yield Fix(node, context.wrap(node, before, after), needs=needs)
        elif expression not in wrapped:
            wrapped.add(expression)
            yield Fix(expression, context.wrap(expression, before, after), needs=needs)
            own = bool(values) and all(is_own_optimizer(context, v) for v in values)
            if not calls and not own:
                yield unscaled(context, expression)


def _wrapped(context: Context, optimizer: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The optimizers in one that scales losses around another, `LossScaleOptimizer(Adam(1e-3))`."""
    for value in context.values.of(optimizer):
        if value.name.endswith(".LossScaleOptimizer") and isinstance(value.node, cst.Call):
            inner = argument(value.node, "inner_optimizer", 0) or argument(value.node, "optimizer")
            if inner is not None:
                yield inner.value


def _hidden(context: Context, optimizer: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Where an optimizer may come from that is made where this program does not show, and of none that it does."""
    pending, seen = [optimizer], set[cst.BaseExpression]()
    while pending:
        optimizer = pending.pop()
        if optimizer in seen:
            continue
        seen.add(optimizer)
        pending += _wrapped(context, optimizer)
        for value in context.values.of(optimizer) or {UNKNOWN}:
            place = value.node if isinstance(value.node, cst.BaseExpression) else optimizer
            if value.kind in (Kind.OTHER, Kind.UNKNOWN) and not any(
                isinstance(node, cst.Call) and (is_copied(node) or optimizer_makers(context, node))
                for node in context.values.flow.backward_slice(place)
            ):
                yield place


def is_copied(node: cst.CSTNode) -> bool:
    """Whether a call gives the configuration of an optimizer, whose rate is in proportion already."""
    return isinstance(node, cst.Call) and method(node) in ("get_config", "serialize")


def unscaled(context: Context, expression: cst.CSTNode) -> Problem:
    return Problem(
        expression,
        "where this optimizer is made cannot be seen, so its learning rate is not multiplied by the number of ranks",
        f"multiply the rate by {context.backend.size} where it is made",
        "warning",
    )


RULES: tuple[type[Rule], ...] = (LearningRate, Compile)
