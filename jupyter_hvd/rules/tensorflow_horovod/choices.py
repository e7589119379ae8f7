"""What a training is made of, where losses of an earlier one choose it: the best rate, the best number of units, the best of several models.

Each rank has losses of its own batches. Ranks that choose by them train models that are not the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeGuard

import libcst as cst

from ...analysis.index import ELEMENT, Binding, Path
from ...analysis.reach import tests_around
from ...analysis.syntax import method, nodes_in
from ...analysis.uniformity import is_uniform, tests_of
from ...frameworks.tensorflow.keras_loops import fit_argument
from ...frameworks.tensorflow.roles import Role
from ...frameworks.tensorflow.untrained import ANSWERING, answering
from .context import Context
from .questions import RATES, decided_from

#: What chooses among what it is given, by name.
_CHOOSING = frozenset(
    "builtins.max builtins.min builtins.sorted heapq.nlargest heapq.nsmallest numpy.argmax numpy.argmin numpy.argsort "
    "numpy.nanargmax numpy.nanargmin tensorflow.argmax tensorflow.argmin tensorflow.argsort tensorflow.math.argmax "
    "tensorflow.math.argmin".split()
)
#: Methods that do.
_CHOOSING_METHODS = frozenset({"argmax", "argmin", "argsort", "idxmax", "idxmin", "sort_values"})
#: Methods of datasets that are told how many.
_SIZED = frozenset(
    "batch padded_batch prefetch ragged_batch repeat shuffle skip take window".split()
)
#: What `fit` is told, beside its data and callbacks.
_TOLD = ("batch_size", "class_weight", "validation_freq")
#: What is the same of data that differ.
_STATIC = frozenset({"shape", "dtype", "ndim", "name"})
#: What callbacks set that all ranks must have alike.
DECIDED = frozenset({"stop_training", "learning_rate", "lr", "set_weights", "load_weights"})
#: What a training is made of.
_PARTS = (Role.MODEL, Role.OPTIMIZER, Role.SCHEDULE)


@dataclass(frozen=True)
class Choices:
    """Where ranks may choose, each by itself, what they train.

    Attributes:
        tests: questions that decide what a training is made of.
        chosen: what chooses: the index of a list, the smallest of several.
        numbers: numbers of each rank's own that a training is made of.
        unclear: what is trained, where it cannot be seen what chooses it.
        fits: the trainings whose histories decide.
    """

    tests: tuple[cst.BaseExpression, ...] = ()
    chosen: tuple[cst.BaseExpression, ...] = ()
    numbers: tuple[cst.BaseExpression, ...] = ()
    unclear: tuple[cst.BaseExpression, ...] = ()
    fits: frozenset[cst.Call] = frozenset()


def choices(context: Context) -> Choices:
    """The choices of one program."""
    made, trained = list(_made_of(context)), list(_trained(context))
    keras = {*context.training.keras.fits}
    own = context.training.seen_by_rank - keras
    own |= {call for call in context.values.index.calls if _is_asked(context, call)}

    is_same = partial(_is_same, context)

    def is_own(expression: cst.BaseExpression) -> bool:
        return any(node in own for node in decided_from(context, expression, ends=is_same))

    tests = [test for place in _switched(context) for test in tests_around(context.values, place)]
    behind = list(decided_from(context, *made, *trained, *tests, ends=is_same))
    fits = frozenset(keras.intersection(behind))
    if own.isdisjoint(behind):
        return Choices(fits=fits)
    tests += [test for node in behind for test in _tests(context, node)]
    tests = [test for test in dict.fromkeys(tests) if is_own(test)]
    chosen: list[cst.BaseExpression] = [n for n in behind if _chooses(n, context) and is_own(n)]
    found = {*tests, *_outermost(context, chosen)}

    def is_left(expression: cst.BaseExpression) -> bool:
        """Whether numbers of a rank's own come to an expression by another way than by what is found."""
        rest = decided_from(context, expression, ends=lambda n: n in found or is_same(n))
        return any(node in own and node not in found for node in rest)

    places = (place for node in behind for place in _places(node))
    chosen += [p for p in places if not is_uniform(context.values, p) and is_left(p)]
    outer = _outermost(context, chosen)
    found |= {*outer}
    return Choices(
        tuple(tests),
        tuple(dict.fromkeys(outer)),
        tuple(filter(is_left, made)),
        tuple(filter(is_left, trained)),
        fits,
    )


def _made_of(context: Context) -> Iterator[cst.BaseExpression]:
    """What models, layers, optimizers, schedules and batches are made of, what these have set, and what `fit` is told."""
    for call in context.values.index.calls:
        name = context.values.qualified(call.func)
        if name.startswith("tensorflow.keras.layers.") or any(
            v.node is call and v.kind in _PARTS for v in context.values.of(call)
        ):
            yield from (arg.value for arg in call.args if not arg.star)
    for step in dict.fromkeys(s for pipeline in context.data.pipelines for s in pipeline.steps):
        yield from (arg.value for arg in step.args if method(step) in _SIZED)
    for fit in context.training.keras.shown_fits:
        given = (fit_argument(fit, name) for name in _TOLD)
        yield from (arg.value for arg in given if arg is not None)
    yield from (binding.value for binding in _bound(context))


def _trained(context: Context) -> Iterator[cst.BaseExpression]:
    """What is trained, and by what."""
    for update in context.training.updates:
        yield from update.variables
        if update.optimizer is not None:
            yield update.optimizer
    for fit in context.training.keras.shown_fits:
        if isinstance(fit.func, cst.Attribute):
            yield fit.func.value


def _switched(context: Context) -> Iterator[cst.CSTNode]:
    """Where these are set between steps."""
    for binding in _bound(context):
        if binding.place is not None and not context.alike.is_before_steps(binding.place):
            yield binding.place


def _bound(context: Context) -> Iterator[Binding]:
    """The attributes of optimizers that the program sets itself, but for rates, and what says whether a layer is trained."""
    for name, bindings in context.values.index.attribute_bindings.items():
        for binding in bindings if name not in RATES else ():
            kinds = context.values.kinds(binding.receiver) if binding.receiver is not None else ()
            if name == "trainable" or Role.OPTIMIZER in kinds:
                yield binding


def _is_asked(context: Context, call: cst.Call) -> bool:
    """Whether a model that is trained is evaluated, or predicts; a call of the model itself may be a part of another."""
    return (
        method(call) in ANSWERING
        and context.untrained.is_asked(call)
        and not context.alike.is_deferred(call)
    )


def _is_same(context: Context, node: cst.CSTNode) -> bool:
    """Whether a node is the same on all ranks, though it is computed from what is not: a shape, a gradient, which is averaged."""
    return (
        isinstance(node, cst.Attribute) and node.attr.value in _STATIC
    ) or context.training.gradients.is_gradient(node)


def _holds_parts(context: Context, expression: cst.BaseExpression) -> bool:
    """Whether what is chosen from holds models and the like, which cannot be sent to other ranks."""
    paths: list[Path] = [(ELEMENT,) * depth for depth in range(4)]
    return any(
        v.kind in (*_PARTS, Role.VARIABLE)
        for path in paths
        for v in context.values.of(expression, path)
    )


def _tests(context: Context, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        yield from tests_of(context.values, node)
    if isinstance(node, cst.IfExp):
        yield node.test


def _chooses(node: cst.CSTNode, context: Context) -> TypeGuard[cst.Call]:
    """Whether a node is the smallest of several, or its place, and nothing that cannot be sent to other ranks."""
    return (
        isinstance(node, cst.Call)
        and (context.values.qualified(node.func) in _CHOOSING or method(node) in _CHOOSING_METHODS)
        and not any(_holds_parts(context, arg.value) for arg in node.args)
    )


def _places(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """At which place an element is taken."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(slice=cst.Index(value=place))]):
            yield place


def _outermost(
    context: Context, expressions: Sequence[cst.BaseExpression]
) -> list[cst.BaseExpression]:
    """Those that stand in none of the others."""
    return [
        e for e in expressions if not any(a in expressions for a in context.module.ancestors(e))
    ]


def answers_to_callbacks(context: Context) -> Iterator[cst.Call]:
    """What models answer to callbacks of the program's own that end the training, or set rates or weights.

    The moving averages of batch normalisation, and what drops out, are each rank's own.
    """
    deciding = _deciding_callbacks(context)
    for call in context.values.index.calls if deciding else ():
        asked = answering(call)
        if not (isinstance(asked, cst.Attribute) and asked.attr.value == "model"):
            continue
        statement = context.statement_of(call)
        if context.module.enclosing(call, cst.ClassDef) in deciding and not isinstance(
            statement, cst.Expr
        ):
            yield call


def clocks_of_callbacks(context: Context) -> Iterator[cst.BaseExpression]:
    """The tests of a clock after which such callbacks decide."""
    deciding = _deciding_callbacks(context)
    for attribute in context.values.index.attributes if deciding else ():
        if attribute.attr.value not in DECIDED:
            continue
        if context.module.enclosing(attribute, cst.ClassDef) in deciding:
            for test in tests_around(context.values, attribute):
                behind = context.values.flow.backward_slice(test)
                if any(isinstance(n, cst.Call) and _asks_clock(context, n) for n in behind):
                    yield test


def _asks_clock(context: Context, call: cst.Call) -> bool:
    return context.values.qualified(call.func).startswith(("time.", "datetime."))


def _deciding_callbacks(context: Context) -> set[cst.ClassDef]:
    return {
        owner
        for owner in context.values.index.classes
        if context.training.keras.is_callback(owner) and any(_decides(n) for n in nodes_in(owner))
    }


def _decides(node: cst.CSTNode) -> bool:
    """Whether a callback ends the training, sets rates or weights, or adds to the metrics by which those behind it do."""
    match node:
        case cst.Attribute(attr=cst.Name(value=name)):
            return name in DECIDED
        case cst.AssignTarget(target=cst.Subscript(value=cst.Name("logs"))):
            return True
        case cst.Call(func=cst.Attribute(value=cst.Name("logs"), attr=cst.Name("update"))):
            return True
    return False
