"""What several rules ask of a program."""

from __future__ import annotations

import libcst as cst

from ...analysis.library import Value
from ...frameworks.tensorflow.keras_loops import fit_argument
from ...frameworks.tensorflow.roles import Role
from .context import Context

#: Libraries that are known not to train what they are handed.
KNOWN_LIBRARIES = (
    "tensorflow.",
    "builtins.",
    "numpy.",
    "matplotlib.",
    "sklearn.",
    "pandas.",
    "horovod.",
)


def callback_values(context: Context, call: cst.Call) -> frozenset[Value]:
    """The callbacks that a `fit` may be given, one by one."""
    arg = fit_argument(call, "callbacks")
    if arg is None:
        return frozenset()
    each = context.values.of(arg.value, (-1,))
    return each | frozenset(v for v in context.values.of(arg.value) if v.kind is Role.CALLBACK)


def is_guarded(context: Context, node: cst.CSTNode) -> bool:
    """Whether the node already runs on rank 0 alone."""
    return any(
        isinstance(ancestor, (cst.If, cst.IfExp))
        and ".rank()" in context.module.text(ancestor.test)
        for ancestor in context.module.ancestors(node)
    )


def is_own_schedule(context: Context, value: Value) -> bool:
    """Whether a value is of a class of the program's own that inherits Keras' schedules."""
    return isinstance(value.node, cst.ClassDef) and any(
        name.endswith(".LearningRateSchedule")
        for name in context.values.classes.library_bases(value.node)
    )


def own_line(context: Context, call: cst.Call) -> cst.SimpleStatementLine | None:
    """The line that holds this call as its only statement."""
    statement = context.module.parent(call)
    line = context.module.parent(statement) if isinstance(statement, cst.Expr) else None
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
