"""Tracing: a rewritten function is called once with stand-ins for its arguments, and builds the
program instead of computing.

As in TensorFlow Federated, the arguments are packed into one struct of named fields, the
function is called with a `Value` for each, whose operators build terms, and what comes back is
packed into a `Lambda`, which stands for the whole function. A `Value` is backed by a term: a
parameter is a reference (`Var`), an entry of a tuple a selection (`Proj`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.terms import Lambda, Var, lets
from ..language.types import (
    IndexArray,
    Integer,
    Layout,
    Parameter,
    ParameterType,
    Relation,
    TupleSet,
    at_sizes,
    size_names,
)
from .tracers import Data, Index, Value
from .tracing.calls import Tracer
from .tracing.packing import SizeNamed
from .tracing.traced import Traced

if TYPE_CHECKING:
    from .rewrite import Rewritten


def stand_in(tracer: Tracer, name: str, type_: ParameterType, layout: Layout) -> Any:
    """What a parameter of this type is called with."""
    match type_:
        case Integer():
            return Index(tracer, Affine.of(name))
        case Relation() | IndexArray() | TupleSet():
            return Data(tracer, name, type_)
    return Value(tracer, Var(name, type_), layout)


def trace(name: str, rewritten: Rewritten, parameters: Sequence[Parameter]) -> Traced:
    """Call the function with stand-ins for its parameters, and pack what comes back into a
    Lambda.
    """
    return _traced(name, rewritten, parameters, set())


def trace_named(
    name: str, rewritten: Rewritten, parameters: Sequence[Parameter]
) -> tuple[tuple[Parameter, ...], Traced]:
    """As `trace`, with sizes named as the program names them: after `n = len(x)`, x has n entries."""
    integers = {p.name for p in parameters if isinstance(p.type, Integer)}
    nameless = set(_sizes(parameters) - integers)
    while True:
        try:
            return tuple(parameters), _traced(name, rewritten, parameters, nameless)
        except SizeNamed as found:
            named = {found.size: Affine.of(found.name)}
            parameters = [p._replace(type=at_sizes(p.type, named)) for p in parameters]


def _sizes(parameters: Sequence[Parameter]) -> frozenset[str]:
    return frozenset[str]().union(*(size_names(p.type) for p in parameters))


def _traced(
    name: str, rewritten: Rewritten, parameters: Sequence[Parameter], nameless: set[str]
) -> Traced:
    tracer = Tracer()
    tracer.reserved = _sizes(parameters) | {p.name for p in parameters}
    tracer.nameless = nameless
    tracer.used |= tracer.reserved
    arguments = {x: stand_in(tracer, x, t, layout) for x, t, layout in parameters}
    tracer.stack.append(name)
    tracer.places = rewritten.places
    try:
        value = rewritten.build(tracer)(**arguments)
        term, layout = tracer.pack(value)
    except TensorError as error:
        error.place = error.place or rewritten.place_of(error)
        raise
    except RecursionError as error:
        message = f"`{name}` is nested too deeply"
        raise TensorError(message, "give parts of its expressions names") from error
    except (TypeError, ValueError, AttributeError, NameError, IndexError) as error:
        raise TensorError(str(error), place=rewritten.place_of(error)) from error
    body = lets(tracer.scopes[0].bindings, term)
    function = Lambda("arg", tuple((x, t) for x, t, _ in parameters), body)
    return Traced(function, layout, tracer.places_of, tuple(tracer.lookups))
