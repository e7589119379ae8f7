"""HVD2 to HVD6: the lines by which a program for Horovod is known. The ranks share each batch without them, too.

Under sharing every one of these is true already: gradients are averaged, weights are equal, and the other ranks' output is discarded.
So the functions of the runtime give back what they are given, nothing is judged, and each change can be left out.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument, has_star, nodes_in
from ...frameworks.tensorflow.keras_loops import fit_argument
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.tapes import TrainingTape
from ...source.edits import Edit, Layer
from ..base import Example, Finding, Fix, program
from .context import HOROVOD, RUNTIME, Context, Rule
from .imports import end_of_imports, first_import

#: Functions that give a text or number, and neither draw random numbers, read data nor call a model.
PLAIN_FUNCTIONS = frozenset(
    (
        *(f"builtins.{name}" for name in "abs bool float format int len repr round str type".split()),
        *("time.time", "time.perf_counter", "time.process_time", "datetime.datetime.now"),
        *(f"numpy.{name}" for name in "max mean min round shape size std sum".split()),
    )
)  # fmt: skip
#: Methods that do the same, whatever they are called on.
PLAIN_METHODS = frozenset("format item items join keys numpy result strftime values".split())
#: Methods that `print` and a format call unseen.
UNSEEN_METHODS = frozenset(("__str__", "__repr__", "__format__", "__getattr__"))


class Tape(Rule):
    """Mark the tapes whose gradients change weights (`jhvd.DistributedGradientTape`).

    The ranks average these gradients where the tape is asked for them, marked or not: `jhvd.DistributedGradientTape` gives back the tape.
    """

    code = "HVD301"
    name = "distributed tape"
    rationale = "The gradients of all ranks are averaged here, and are those of the whole batch."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for x, y in tf.data.Dataset.from_tensor_slices(data).batch(32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for x, y in tf.data.Dataset.from_tensor_slices(data).batch(32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    tape = jhvd.DistributedGradientTape(tape)
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for tape in context.training.training_tapes:
            if tape.block is None or tape.name is None or not is_asked_behind(context, tape):
                continue
            name = tape.name.value
            line = f"{name} = {context.runtime('DistributedGradientTape')}({name})"
            yield Fix(tape.block, (context.after_block(tape.block, line),), needs=(RUNTIME,))


def is_asked_behind(context: Context, tape: TrainingTape) -> bool:
    """Whether a tape is asked for its gradients behind its block, in the same function."""
    assert tape.block is not None
    end, function = context.module.span(tape.block).end, context.module.function_of(tape.block)
    return all(
        context.module.function_of(call) is function and context.module.span(call).start > end
        for call in tape.training
    )


class Compile(Rule):
    """Mark the optimizers that models are compiled with (`jhvd.DistributedOptimizer`).

    The ranks average gradients before any optimizer sees them: `jhvd.DistributedOptimizer` gives back the same optimizer.
    """

    code = "HVD202"
    name = "distributed optimizer"
    rationale = "This optimizer is given gradients that are averaged over all ranks."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                model.compile(optimizer=opt, loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                model.compile(optimizer=jhvd.DistributedOptimizer(opt), loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if context.training.loop == "none":
            return
        for call in context.training.keras.compiles:
            optimizer = argument(call, "optimizer", 0)
            if optimizer is not None and not optimizer.star:
                opening = f"{context.runtime('DistributedOptimizer')}("
                edits = context.wrap(optimizer.value, opening, ")", Layer.LIST)
                yield Fix(optimizer.value, edits, needs=(RUNTIME,))


class FitCallbacks(Rule):
    """Give `fit` the callback that broadcasts rank 0's weights (`jhvd.BroadcastGlobalVariablesCallback`).

    All ranks draw the same weights, so they are equal already. The callback broadcasts those of a model once, when its first `fit` begins. It is
    added where `callbacks` is a list, a callback or nothing.
    """

    code = "HVD401"
    name = "broadcast in fit"
    rationale = "All ranks begin with rank 0's weights."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0)
                model.fit(x, y, callbacks=[tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=0, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)])
                model.fit(x, y, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0), tf.keras.callbacks.EarlyStopping()], verbose=0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for call in context.training.keras.shown_fits:
            added = f"{context.runtime('BroadcastGlobalVariablesCallback')}(0)"
            edits = tuple(with_callback(context, call, added))
            if edits:
                yield Fix(call, edits, needs=(RUNTIME,))


def with_callback(context: Context, call: cst.Call, added: str) -> Iterator[Edit]:
    """One more callback, the first, for a `fit`; none where it is not seen what `callbacks` are."""
    arg = fit_argument(call, "callbacks")
    if arg is None:
        yield context.add_keyword(call, f"callbacks=[{added}]", Layer.CALLBACKS)
        return
    kinds = context.values.kinds(arg.value)
    if isinstance(arg.value, cst.List) and not arg.value.lpar:
        yield first_in(context, arg.value, added)
    elif kinds == {Kind.NONE}:
        yield context.replace(arg.value, f"[{added}]")
    elif kinds == {Kind.CONTAINER}:
        yield from context.wrap(arg.value, f"[{added}, *", "]", Layer.LIST)
    elif kinds == {Kind.CONTAINER, Kind.NONE}:
        yield from context.wrap(arg.value, f"[{added}, *(", " or ())]", Layer.LIST)
    elif kinds == {Role.CALLBACK}:
        yield from context.wrap(arg.value, f"[{added}, ", "]", Layer.LIST)


def first_in(context: Context, elements: cst.List, text: str) -> Edit:
    """One more element in front; on a line of its own where the others have lines of their own."""
    module, start = context.module, context.module.span(elements).start + 1
    if not elements.elements:
        return context.insert(start, text, Layer.FIRST_ELEMENT)
    first = module.span(elements.elements[0]).start
    if module.line(first) == module.line(start):
        return context.insert(start, f"{text}, ", Layer.FIRST_ELEMENT)
    line = f"{module.indentation(first)}{text},{module.newline}"
    return context.insert(module.line_start(first), line, Layer.FIRST_ELEMENT)


class Verbose(Rule):
    """Show the progress of `fit` on rank 0 only.

    What the other ranks print is discarded; so they need not draw it. `verbose=2` stays 2 on rank 0, `verbose=0` stays silent.
    """

    code = "HVD403"
    name = "progress on rank 0"
    rationale = "Draw the progress on rank 0 only; what the other ranks draw is not shown."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                model.fit(x, y, verbose=2)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=1 if hvd.rank() == 0 else 0)
                model.fit(x, y, verbose=2 if hvd.rank() == 0 else 0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        choice = f" if {context.backend.is_rank_zero} else 0"
        for call in context.training.keras.shown_fits:
            arg = fit_argument(call, "verbose")
            if arg is None:
                edit = context.add_keyword(call, f"verbose=1{choice}", Layer.VERBOSE)
                yield Fix(call, (edit,), needs=(HOROVOD,))
            elif isinstance(arg.value, cst.Integer | cst.SimpleString) and arg.value.value != "0":
                edit = context.behind(arg.value, choice, Layer.CHOICE)
                yield Fix(arg.value, (edit,), needs=(HOROVOD,))


class Print(Rule):
    """Put prints under `if hvd.rank() == 0:`, where only rank 0 may compute what is printed.

    Rank 0's output alone is shown, so this only saves the other ranks the work. A print stays as it is if its arguments call more than
    functions that give a text or a number: all ranks must call models, draw random numbers and read data together. So does one that writes into a file.
    """

    code = "HVD601"
    name = "print on rank 0"
    rationale = "Print on rank 0 only; what the other ranks print is not shown."
    batches = ("per-rank",)
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
                print(model.predict(x))
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
                print(model.predict(x))
                """
            ),
            "All ranks predict together.",
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        functions = context.values.index.functions
        if UNSEEN_METHODS & {function.name.value for function in functions}:
            return
        properties = {f.name.value for f in functions if f.decorators}
        first = first_import(context)
        imported = 0 if first is None else end_of_imports(context, first)
        for call in context.values.index.calls:
            line = context.own_line(call)
            if line is None or context.values.qualified(call.func) != "builtins.print":
                continue
            if context.module.span(line).start < imported:
                continue  # Horovod would load TensorFlow before the program has set its environment
            if all(is_plain(context, arg.value, properties) for arg in call.args) and not any(
                has_star(call) or (arg.keyword and arg.keyword.value == "file") for arg in call.args
            ):
                yield context.on_rank_zero(line, call)


def is_plain(context: Context, expression: cst.BaseExpression, properties: set[str]) -> bool:
    """Whether rank 0 may compute an expression by itself: it calls only functions that give a text or a number.

    Args:
        properties: the names of attributes that the program computes.
    """
    for node in nodes_in(expression):
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in PLAIN_METHODS:
                if Kind.FUNCTION in context.values.kinds(node.func):
                    return False
            case cst.Call():
                if context.values.qualified(node.func) not in PLAIN_FUNCTIONS:
                    return False
            case cst.Attribute(attr=cst.Name(value=name)) if name in properties:
                return False
            case cst.BaseComp() | cst.NamedExpr() | cst.Await() | cst.Yield() | cst.Lambda():
                return False
    return True


RULES: tuple[type[Rule], ...] = (Compile, Tape, FitCallbacks, Verbose, Print)
