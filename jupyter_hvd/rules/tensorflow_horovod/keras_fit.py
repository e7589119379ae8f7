"""HVD4: `fit` starts from equal weights, shows progress once, and its callbacks agree."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument, has_star, method
from ...frameworks.tensorflow import tf_api
from ...frameworks.tensorflow.roles import Role
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, HOROVOD_KERAS, Context, Rule
from .questions import FIT_POSITIONS, callback_values

VERBOSE_POSITIONS = {"fit": 4, "evaluate": 3, "predict": 2}


class FitCallbacks(Rule):
    """Give every `fit` the callback that broadcasts rank 0's weights and optimizer state.

    It comes first in `callbacks=`, whatever stands there: a list, a name, one
    callback, `None`, nothing. `EarlyStopping` and `ReduceLROnPlateau` must run on all
    ranks and decide alike, or some ranks stop and the others wait for them forever:
    before them the metrics are averaged.
    """

    code = "HVD401"
    name = "broadcast and average in fit"
    message = "All ranks go on from rank 0's weights; callbacks that decide from metrics must see the same metrics on every rank."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, callbacks=[tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                history = model.fit(x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(), tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.training.fits:
            arg = argument(call, "callbacks", FIT_POSITIONS["callbacks"])
            if arg is None and any(a.star for a in call.args):
                yield Problem(
                    call,
                    "the arguments of fit are hidden in * or **, so its callbacks cannot be completed",
                    "pass callbacks= and verbose= by name",
                )
                continue
            added = [f"{context.backend.callbacks}.BroadcastGlobalVariablesCallback(0)"]
            if self._needs_average(context, call):
                added.append(f"{context.backend.callbacks}.MetricAverageCallback()")
            warmup = context.options.warmup_epochs
            if warmup:
                assert isinstance(call.func, cst.Attribute)
                rate = f"float({context.module.text(call.func.value)}.optimizer.learning_rate)"
                # Newer optimizers keep momentum as a number, which Horovod's correction cannot set.
                arguments = f"{rate}, warmup_epochs={warmup}, momentum_correction=False"
                added.append(f"{context.backend.callbacks}.LearningRateWarmupCallback({arguments})")
            edits = tuple(self._add(context, call, arg, added))
            yield Fix(call, edits, needs=(HOROVOD, HOROVOD_KERAS))

    def _needs_average(self, context: Context, call: cst.Call) -> bool:
        for value in callback_values(context, call):
            name = tf_api.callback(value.name)
            if name in tf_api.METRIC_CALLBACKS or value.kind in (Kind.INSTANCE, Kind.UNKNOWN):
                return True
            made = value.node if name == "ModelCheckpoint" else None
            if isinstance(made, cst.Call) and argument(made, "save_best_only", 3) is not None:
                return True
        return False

    def _add(
        self, context: Context, call: cst.Call, arg: cst.Arg | None, added: list[str]
    ) -> Iterator[Edit]:
        text = ", ".join(added)
        if arg is None:
            yield context.add_keyword(call, f"callbacks=[{text}]", Layer.CALLBACKS)
            return
        value = arg.value
        values = context.values.of(value)
        kinds = {v.kind for v in values}
        if isinstance(value, cst.List) and not value.lpar:
            yield self._first_in(context, value, text)
        elif kinds == {Kind.NONE}:
            yield context.replace(value, f"[{text}]")
        elif kinds == {Kind.CONTAINER}:
            yield from context.wrap(value, f"[{text}] + list(", ")", Layer.LIST)
        elif kinds == {Role.CALLBACK}:
            if any(tf_api.callback(v.name) in tf_api.RANK_ZERO_CALLBACKS for v in values):
                yield from context.wrap(
                    value,
                    f"[{text}] + ([",
                    f"] if {context.backend.is_rank_zero} else [])",
                    Layer.LIST,
                )
            else:
                yield from context.wrap(value, f"[{text}, ", "]", Layer.LIST)
        else:
            yield from context.wrap(value, f"[{text}] + list(", " or [])", Layer.LIST)

    def _first_in(self, context: Context, elements: cst.List, text: str) -> Edit:
        """One more element in front; on a line of its own where the others have lines of their own."""
        start = context.module.span(elements).start + 1
        if not elements.elements:
            return context.insert(start, text, Layer.FIRST_ELEMENT)
        first = context.module.span(elements.elements[0]).start
        if context.module.line(first) == context.module.line(start):
            return context.insert(start, f"{text}, ", Layer.FIRST_ELEMENT)
        indent = context.module.indentation(first)
        return context.insert(
            context.module.line_start(first),
            f"{indent}{text},{context.module.newline}",
            Layer.FIRST_ELEMENT,
        )


class RankZeroCallbacks(Rule):
    """Keep callbacks that write files, or draw, on rank 0 alone.

    `ModelCheckpoint`, `TensorBoard`, `CSVLogger` of several ranks write into one
    another's files. None of them changes the training, so the other ranks do without.
    """

    code = "HVD402"
    name = "callbacks that write"
    message = "Several ranks would write the same files at the same time; one is enough."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[tf.keras.callbacks.TensorBoard('logs')])
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[*([tf.keras.callbacks.TensorBoard('logs')] if hvd.rank() == 0 else [])])
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        done: set[cst.CSTNode] = set()
        for call in context.training.fits:
            arg = argument(call, "callbacks", FIT_POSITIONS["callbacks"])
            if arg is None:
                continue
            for value in context.values.of(arg.value):
                if (
                    value.kind is Kind.CONTAINER
                    and isinstance(value.node, cst.List)
                    and value.node not in done
                ):
                    done.add(value.node)
                    yield from self._in_list(context, value.node)
        for call in context.values.index.calls:
            if method(call) == "append" and call.args and self._writes(context, call.args[0].value):
                statement = context.statement_of(call)
                line = context.module.parent(statement) if statement is not None else None
                if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
                    yield context.on_rank_zero(line, line)

    def _in_list(self, context: Context, elements: cst.List) -> Iterator[Finding]:
        for element in elements.elements:
            if isinstance(element, cst.Element) and self._writes(context, element.value):
                yield Fix(
                    element.value,
                    context.wrap(
                        element.value, "*([", f"] if {context.backend.is_rank_zero} else [])"
                    ),
                )

    def _writes(self, context: Context, expression: cst.BaseExpression) -> bool:
        values = context.values.of(expression)
        return bool(values) and all(
            tf_api.callback(v.name) in tf_api.RANK_ZERO_CALLBACKS for v in values
        )


class Verbose(Rule):
    """Show the progress of `fit`, `evaluate` and `predict` on rank 0 alone.

    What the program asks for is kept there: `verbose=2` stays 2, `verbose=0` stays silent.
    """

    code = "HVD403"
    name = "progress on rank 0"
    message = "N ranks would draw N progress bars over one another."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=2)
                model.evaluate(x, y)
                model.predict(x, verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=2 if hvd.rank() == 0 else 0)
                model.evaluate(x, y, verbose=1 if hvd.rank() == 0 else 0)
                model.predict(x, verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.values.index.calls:
            name = method(call)
            if name not in VERBOSE_POSITIONS or not isinstance(call.func, cst.Attribute):
                continue
            if call not in context.training.fits and not context.training.is_model(call.func.value):
                continue
            arg = argument(call, "verbose", VERBOSE_POSITIONS[name])
            choice = f" if {context.backend.is_rank_zero} else 0"
            if arg is None:
                if not has_star(call):
                    yield Fix(
                        call, (context.add_keyword(call, f"verbose=1{choice}", Layer.VERBOSE),)
                    )
            elif not (isinstance(arg.value, cst.Integer) and arg.value.value == "0"):
                simple = isinstance(
                    arg.value, (cst.Name, cst.Integer, cst.Attribute, cst.SimpleString, cst.Call)
                )
                if simple or arg.value.lpar:
                    yield Fix(
                        arg.value,
                        (context.insert(context.module.span(arg.value).end, choice, Layer.CHOICE),),
                    )
                else:
                    yield Fix(arg.value, context.wrap(arg.value, "(", f"){choice}"))


RULES: tuple[type[Rule], ...] = (FitCallbacks, RankZeroCallbacks, Verbose)
