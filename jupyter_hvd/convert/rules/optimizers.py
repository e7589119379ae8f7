"""Questions about optimizers that several rules share."""

from __future__ import annotations

import libcst as cst

from ...analysis.library import Kind, Value
from ...analysis.syntax import argument
from ..tensorflow import tf_api
from ..tensorflow.roles import Role
from .context import Context

#: What an optimizer has its rate under.
RATES = ("learning_rate", "lr")


def is_user_defined_optimizer(context: Context, value: Value) -> bool:
    """Whether a value is of a class of the program that inherits a Keras optimizer."""
    return isinstance(value.node, cst.ClassDef) and any(
        map(tf_api.is_optimizer_class, context.values.classes.library_bases(value.node))
    )


def find_called_functions(context: Context, call: cst.Call) -> frozenset[Value]:
    """Return the functions that a call may run."""
    return context.values.of(context.values.calls.unwrap_call(call).func)


def find_optimizer_constructors(context: Context, call: cst.Call) -> frozenset[Value]:
    """Return the values among the called functions that create optimizers: classes, user-defined ones too, and `get`,
    `deserialize` and `from_config`.

    An optimizer itself, which a dictionary may hold beside the called model, creates none.
    """
    return frozenset(
        value
        for value in find_called_functions(context, call)
        if value.kind is not Role.OPTIMIZER
        if (tf_api.makes_optimizer(value.name) and not value.name.endswith(".LossScaleOptimizer"))
        or (value.kind is Kind.CLASS and is_user_defined_optimizer(context, value))
    )


def find_rate_argument(
    context: Context, call: cst.Call, position: int | None = 0
) -> cst.Arg | None:
    """Return the argument of an optimizer's constructor that is its rate; None if there is none.

    Args:
        position: the position of the rate among the arguments; None if it is keyword-only.
    """
    direct = context.values.calls.unwrap_call(call)
    return argument(direct, "learning_rate", position) or argument(direct, "lr")


def format_default_optimizer(context: Context, known: tf_api.Optimizer, scaled: bool = True) -> str:
    """Return a call that creates an optimizer with its default rate, multiplied by the number of ranks if `scaled`."""
    made_by = f"{context.tf}.keras.optimizers.{known.name}"
    return f"{made_by}({format_scaled_default(context, known, made_by) if scaled else ''})"


def format_scaled_default(context: Context, known: tf_api.Optimizer, made_by: str) -> str:
    """Return the argument `learning_rate=… * hvd.size()` with an optimizer's default rate.

    Args:
        made_by: the name of the constructor.
    """
    rate = known.learning_rate
    default = f"float({made_by}().learning_rate)" if rate is None else rate
    return f"learning_rate={default} * {context.backend.size}"


def is_optimizer(context: Context, node: cst.BaseExpression | None) -> bool:
    """Whether an expression may be an optimizer: by its value, or as the attribute `optimizer`, under which Keras keeps it on a
    model.
    """
    pending, seen = [node], set[cst.CSTNode]()
    while pending:
        each = pending.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        named = isinstance(each, cst.Attribute) and each.attr.value == "optimizer"
        own = any(is_user_defined_optimizer(context, value) for value in context.values.of(each))
        if named or own or context.values.may_be(each, Role.OPTIMIZER):
            return True
        pending += [source for source, part in context.values.flow.predecessors(each) if not part]
    return False
