"""HVD601: print on rank 0 only."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import has_star
from ...analysis.tree import nodes_in
from .base import Example, Finding, program
from .context import Context, Rule
from .imports import find_end_of_imports, find_first_import

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


class Print(Rule):
    """Print on rank 0 only.

    Puts a `print` that stands on a line of its own under `if hvd.rank() == 0:`.

    Why:
    Only rank 0's output is shown, so this saves the other ranks the work.

    Known problems:
    None. Without this change the output is the same.

    When it does not apply:
    - With `--batch global`.
    - To prints whose arguments call functions, except functions that only return text or a number. All ranks must call models, draw random numbers and read data together.
    - To prints into a file, and prints above the last import of TensorFlow.
    - In programs whose classes define `__str__`, `__repr__`, `__format__` or `__getattr__`, which a print may call.
    """

    code = "HVD601"
    name = "print on rank 0"
    rationale = "Print on rank 0 only; the output of other ranks is not shown."
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
        first = find_first_import(context)
        imported = 0 if first is None else find_end_of_imports(context, first)
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
    """Whether rank 0 may evaluate an expression by itself: it only calls functions that return a text or a number.

    Args:
        properties: the names of decorated methods, whose attributes may run any code.
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
