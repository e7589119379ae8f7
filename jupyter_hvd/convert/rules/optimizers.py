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


def is_own_optimizer(context: Context, value: Value) -> bool:
    """Whether a value is of a class of the program's own that inherits an optimizer of Keras'."""
    return isinstance(value.node, cst.ClassDef) and any(
        map(tf_api.is_optimizer_class, context.values.classes.library_bases(value.node))
    )


def called(context: Context, call: cst.Call) -> frozenset[Value]:
    """The functions that a call may run."""
    return context.values.of(context.values.calls.direct(call).func)


def optimizer_makers(context: Context, call: cst.Call) -> frozenset[Value]:
    """Of these, what makes optimizers: their classes, the program's own too, and what makes one of a configuration.

    An optimizer itself, which a dictionary may hold beside the model that is called, makes none.
    """
    return frozenset(
        value
        for value in called(context, call)
        if value.kind is not Role.OPTIMIZER
        if (tf_api.makes_optimizer(value.name) and not value.name.endswith(".LossScaleOptimizer"))
        or (value.kind is Kind.CLASS and is_own_optimizer(context, value))
    )


def rate_given(context: Context, call: cst.Call, position: int | None = 0) -> cst.Arg | None:
    """The rate that is given where an optimizer is made.

    Args:
        position: the place of the rate among the arguments; None where it has a name only.
    """
    direct = context.values.calls.direct(call)
    return argument(direct, "learning_rate", position) or argument(direct, "lr")


def default_optimizer_call(context: Context, known: tf_api.Optimizer, scaled: bool = True) -> str:
    """A call that makes an optimizer with its default rate, scaled."""
    made_by = f"{context.tf}.keras.optimizers.{known.name}"
    return f"{made_by}({scaled_default(context, known, made_by) if scaled else ''})"


def scaled_default(context: Context, known: tf_api.Optimizer, made_by: str) -> str:
    """The argument by which an optimizer gets its default rate, scaled.

    Args:
        made_by: what is called to make it.
    """
    rate = known.learning_rate
    default = f"float({made_by}().learning_rate)" if rate is None else rate
    return f"learning_rate={default} * {context.backend.size}"


def is_optimizer(context: Context, node: cst.BaseExpression | None) -> bool:
    """An optimizer for what the roles say, or by the name under which Keras keeps it on a model."""
    pending, seen = [node], set[cst.CSTNode]()
    while pending:
        each = pending.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        named = isinstance(each, cst.Attribute) and each.attr.value == "optimizer"
        own = any(is_own_optimizer(context, value) for value in context.values.of(each))
        if named or own or context.values.may_be(each, Role.OPTIMIZER):
            return True
        pending += [source for source, part in context.values.flow.predecessors(each) if not part]
    return False
