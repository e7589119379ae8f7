"""Updates, the sinks of training: the calls that change weights, what they change, and what they apply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import ELEMENT, Path
from ...analysis.syntax import argument, method
from ...analysis.tree import names_in, nodes_in
from ...analysis.values import ValueAnalysis
from .gradients import Gradients
from .keras_loops import KerasLoops
from .roles import Role

#: Methods of optimizers that apply gradients, with the names of the gradients and of the variables.
APPLYING = {"apply": ("grads", "trainable_variables"), "update_step": ("gradient", "variable")}

#: Methods that change a variable.
ASSIGNING = frozenset(
    "assign assign_add assign_sub scatter_add scatter_sub scatter_update scatter_nd_add scatter_nd_sub "
    " scatter_nd_update batch_scatter_update".split()
)

#: Expressions of variables, and whether each is one variable; else each is a list of them.
Variables = tuple[tuple[cst.BaseExpression, ...], bool]
UNSEEN: Variables = (), False


@dataclass(frozen=True, eq=False)
class Update:
    """A call that changes variables by what training gives, with an optimizer, by `assign`, or by `train_on_batch`.

    Attributes:
        call: the call.
        optimizer: the expression of the optimizer, or of the model that has it; None where the program changes a
            variable itself.
        variables: one expression, the list of the variables; or one for each
            variable where they are `listed`; none where they cannot be seen.
        function: the function that the call stands in.
        applied: the gradients, or the value that is assigned; None where the optimizer takes them itself.
    """

    call: cst.Call
    optimizer: cst.BaseExpression | None
    variables: tuple[cst.BaseExpression, ...]
    listed: bool
    function: cst.FunctionDef | None
    applied: Source | None = None

    @property
    def is_of_model(self) -> bool:
        """Whether a model updates its own weights with the optimizer that it was compiled with."""
        return method(self.call) == "train_on_batch"


def find_updates(
    values: ValueAnalysis,
    gradients: Gradients,
    keras: KerasLoops,
) -> Iterator[Update]:
    """Yield the calls that change variables by the results of training."""
    #: What a function changes by gradients that is no weight: moving averages of gradients, say.
    moments: set[tuple[cst.FunctionDef | None, str]] = set()
    for call in values.index.calls:
        if not isinstance(call.func, cst.Attribute):
            continue
        receiver, name, function = call.func.value, method(call), values.module.function_of(call)
        if name == "apply_gradients" and not values.flow.methods(call.func):
            pairs = argument(call, "grads_and_vars", 0)
            seen = find_variables(values, pairs.value) if pairs else UNSEEN
            applied = (pairs.value, Path((ELEMENT, 0))) if pairs else None
            yield Update(call, receiver, *seen, function, applied)
        elif name == "minimize" and values.may_be(receiver, Role.OPTIMIZER):
            arg = argument(call, "var_list", 1)
            yield Update(call, receiver, (arg.value,) if arg else (), False, function)
        elif name in APPLYING and values.may_be(receiver, Role.OPTIMIZER):
            given, arg = (argument(call, each, n) for n, each in enumerate(APPLYING[name]))
            one = name == "update_step"
            applied = (given.value, Path(() if one else (ELEMENT,))) if given else None
            yield Update(call, receiver, (arg.value,) if arg else (), one, function, applied)
        elif name == "train_on_batch" and keras.is_model(receiver) is not False:
            yield Update(call, receiver, (receiver,), False, function)
        elif name in ASSIGNING and call.args:
            value = call.args[0].value
            if any(True for _ in gradients.flowing_into(value)):
                yield Update(call, None, (receiver,), True, function, (value, ()))
                if not gradients.is_weight(receiver):
                    moments.add((function, values.module.text(receiver)))
            elif _reads_moment(values, value, function, moments) and gradients.is_weight(receiver):
                yield Update(call, None, (receiver,), True, function, (value, ()))


def _reads_moment(
    values: ValueAnalysis,
    value: cst.BaseExpression,
    function: cst.FunctionDef | None,
    moments: Set[tuple[cst.FunctionDef | None, str]],
) -> bool:
    """Whether a value is computed from a moment, such as `velocity`, that its function has changed by a gradient before."""
    return bool(moments) and any(
        isinstance(node, cst.Name | cst.Attribute)
        and (function, values.module.text(node)) in moments
        for node in nodes_in(value)
    )


def find_variables(
    values: ValueAnalysis,
    pairs: cst.BaseExpression,
    path: Path = (ELEMENT, 1),
    seen: frozenset[cst.CSTNode] = frozenset(),
) -> Variables:
    """Return the variables in (gradient, variable) pairs: `v` of `zip(g, v)`; `UNSEEN` if they are unknown.

    Args:
        pairs, path: the expression that holds them, and which part of it they are.
    """
    if path == (ELEMENT,):
        return (pairs,), False
    if pairs in seen:
        return UNSEEN
    match pairs:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            written = [e.value for e in elements if isinstance(e.value, (cst.Tuple, cst.List))]
            if len(written) == len(elements) and all(len(pair.elements) == 2 for pair in written):
                return tuple(pair.elements[1].value for pair in written), True
            return UNSEEN
        case (
            cst.ListComp(elt=cst.Tuple(elements=[_, cst.Element(value=variable)]))
            | cst.GeneratorExp(elt=cst.Tuple(elements=[_, cst.Element(value=variable)]))
        ):
            if not isinstance(variable, cst.Name):
                return (pairs,), False
            sources = [s for s in values.flow.predecessors(variable) if len(s[1]) == 2]
        case cst.Name() | cst.Call():
            sources = values.flow.predecessors(pairs, path)
        case _:
            return UNSEEN
    if len(sources) != 1 or not _means_the_same(values, sources[0][0], pairs):
        return UNSEEN
    return find_variables(values, *sources[0], seen | {pairs})


def _means_the_same(values: ValueAnalysis, expression: cst.CSTNode, place: cst.CSTNode) -> bool:
    """Whether the names of an expression refer to the same variables at another position."""
    here, there = values.module.scope(expression), values.module.scope(place)
    return here is there or (
        here is not None
        and there is not None
        and all(set(here[n.value]) == set(there[n.value]) for n in names_in(expression))
    )


def find_variable_loops(values: ValueAnalysis, found: Sequence[Update]) -> frozenset[cst.CSTNode]:
    """Return the loops over variables in hand-written updates, and their iterables: one step, not data."""
    loops: set[cst.CSTNode] = set()
    for update in found:
        if not update.listed:
            continue
        written = (*update.variables, *(update.applied or ())[:1])
        names = {name.value for expression in written for name in names_in(expression)}
        for loop in values.module.ancestors(update.call):
            if loop is update.function:
                break
            if isinstance(loop, cst.For) and any(n.value in names for n in names_in(loop.target)):
                loops |= {loop, loop.iter}
    return frozenset(loops)
