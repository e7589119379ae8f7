"""Tracing: a rewritten function is called once with stand-ins for its arguments, and builds the
program instead of computing.

As in TensorFlow Federated, the arguments are packed into one struct of named fields, the
function is called with a `Value` for each, whose operators build terms, and what comes back is
packed into a `Lambda`, which stands for the whole function. A `Value` is backed by a term: a
parameter is a reference (`Var`), an entry of a tuple a selection (`Proj`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..language.affine import Affine
from ..language.depth import deep_recursion
from ..language.errors import TensorError, as_tensor_error
from ..language.predicates import reserve_generated_names
from ..language.terms import Lambda, Term, Var, lets
from ..language.types import (
    IndexArray,
    Integer,
    Layout,
    Parameter,
    ParameterType,
    Relation,
    Static,
    TupleSet,
    at_sizes,
    size_names,
)
from .captured_data import ArrayMet, Reference
from .signature import words
from .tracers import Data, Index, Value
from .tracing.arrays import SizesMet
from .tracing.calls import Tracer
from .tracing.packing import SizeNamed
from .tracing.trace_result import Traced

if TYPE_CHECKING:
    from .rewrite import Rewritten


#: What Python raises where a program misuses a value.
_PYTHONS = (AttributeError, NameError, LookupError, ArithmeticError)


def stand_in(tracer: Tracer, name: str, type_: ParameterType, layout: Layout, constant: Any) -> Any:
    """Return the object with which a parameter of this type is called while tracing.

    Args:
        constant: the value of a parameter that is no tensor.
    """
    match type_:
        case Static():
            return tracer.from_outside(Reference(None, name), constant)
        case Integer(int(value)):
            return value
        case Integer():
            return Index(tracer, Affine.of(reserve_generated_names(name)))
        case Relation() | IndexArray() | TupleSet():
            return Data(tracer, name, type_).array
    return Value(tracer, Var(name, type_), layout)


@dataclass(frozen=True)
class Context:
    """What tracing takes beside types: what is given for parameters that are no tensors, the names that arrays from outside
    have, which it adds to, the parameters that are given as lists, and those of which an integer may count from
    the end of an axis, the methods of arguments that are called, which it adds to, and whether all ends of segments ascend.
    """

    given: Mapping[str, Any]
    outside: dict[Reference, str]
    lists: frozenset[str] = frozenset()
    signed: frozenset[str] = frozenset()
    methods: dict[Callable[..., Any], None] = field(default_factory=dict)
    ends_ascend: bool = True


def trace(
    name: str, rewritten: Rewritten, parameters: Sequence[Parameter], context: Context
) -> tuple[tuple[Parameter, ...], Traced]:
    """Call the function with stand-ins for its parameters, and pack what comes back into a
    Lambda.
    """
    while True:
        try:
            return tensors(parameters), _trace_once(name, rewritten, parameters, set(), context)
        except ArrayMet as met:  # whose sizes are numbers, which the caller's can meet
            *parameters, found = _add_outside_array(parameters, met, context)
            axes = enumerate(met.shape)
            sizes = {f"{found.name}_{axis}": Affine.of(n) for axis, n in axes}
            parameters.append(found._replace(type=at_sizes(found.type, sizes)))


def tensors(parameters: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Return the parameters that are tensors."""
    return tuple(p for p in parameters if not isinstance(p.type, Static))


def _add_outside_array(
    parameters: Sequence[Parameter], met: ArrayMet, context: Context
) -> list[Parameter]:
    """Return the parameters with an array from outside that the program reads as a further one."""
    context.outside[met.reference] = met.parameter.name
    return [*parameters, met.parameter]


@dataclass(frozen=True)
class Undecided:
    """What of a function's types only a call's sizes can tell: how `met` goes on."""

    parameters: tuple[Parameter, ...]
    met: SizesMet

    @staticmethod
    def of(parameters: tuple[Parameter, ...], name: str) -> Undecided:
        """Return the question for the number that a size is."""
        return Undecided(parameters, SizesMet(Affine.of(name), None, True, None))

    def decided(self, sizes: Mapping[str, int] | None) -> tuple[Parameter, ...]:
        """Return the parameters' types at a call's sizes: two sizes become one, or a size becomes a number. Raises TensorError
        if the sizes do not agree.
        """
        left, right, place = self.met.left, self.met.right, self.met.place
        spelt = words(self.parameters)
        one, other = left.rename_names(spelt), right and right.rename_names(spelt)
        if sizes is None and self.met.refused is not None:
            raise self.met.refused
        if sizes is None:
            what = (
                f"the sizes {one} and {other} meet here"
                if other
                else f"the size {one} must be known"
            )
            raise TensorError(what, f"give both one name, or call the function once: {one}", place)
        if right is None:
            name, _ = left.terms[0]
            return self._substitute_size(name, Affine.of(sizes[name]))
        m, n = left.evaluate(sizes), right.evaluate(sizes)
        if m == n:
            return self._equate(left, right, sizes)
        if m == 1 and not self.met.exact:
            return self._equate(left, Affine.of(1), sizes)
        if n == 1 and not self.met.exact:
            return self._equate(right, Affine.of(1), sizes)
        raise TensorError(
            f"sizes {one} = {m} and {other} = {n} do not go together",
            "they must be equal, or one of them 1",
            place,
        )

    def _equate(
        self, left: Affine, right: Affine, sizes: Mapping[str, int]
    ) -> tuple[Parameter, ...]:
        """Return the parameters under the condition `left = right`."""
        difference = _in_lowest_terms(right - left)
        integers = _integer_sizes(self.parameters)
        for name, k in sorted(difference.terms, key=lambda term: not _is_nameless(term[0])):
            if abs(k) == 1 and name not in integers:
                return self._substitute_size(name, difference * -k + Affine.of(name))
        for name in difference.names & integers:
            return self._substitute_size(name, Affine.of(sizes[name]))
        spelt = words(self.parameters)
        one, other = left.rename_names(spelt), right.rename_names(spelt)
        message = f"{one} and {other} must be equal here, but nothing can be put for either"
        raise TensorError(
            message, "pass sizes by the arrays that have them: `len(x)`", self.met.place
        )

    def _substitute_size(self, name: str, value: Affine) -> tuple[Parameter, ...]:
        """Return the parameters with a size replaced; an integer parameter gets its value."""
        if name in _integer_sizes(self.parameters):
            return tuple(
                p._replace(type=Integer(value.constant))
                if reserve_generated_names(p.name) == name
                else p
                for p in self.parameters
            )
        return tuple(p._replace(type=at_sizes(p.type, {name: value})) for p in self.parameters)


def _in_lowest_terms(a: Affine) -> Affine:
    """Divide an affine expression by the greatest common divisor of its coefficients."""
    k = max(1, math.gcd(a.constant, *(c for _, c in a.terms)))
    return Affine(tuple((x, c // k) for x, c in a.terms), a.constant // k)


def _integer_sizes(parameters: Sequence[Parameter]) -> set[str]:
    """Return the sizes that are integer parameters themselves."""
    return {reserve_generated_names(p.name) for p in parameters if isinstance(p.type, Integer)}


def _is_nameless(size: str) -> bool:
    """Whether a size is named after an argument, `x_0`, and not by the program."""
    return size.rpartition("_")[2].isdigit()


def trace_named(
    name: str, rewritten: Rewritten, parameters: Sequence[Parameter], context: Context
) -> tuple[tuple[Parameter, ...], Traced] | Undecided:
    """Trace as `trace` does, but name sizes as the program does: after `n = len(x)`, x has n entries."""
    nameless = set(_size_names(parameters) - _integer_sizes(parameters))
    while True:
        try:
            return tuple(parameters), _trace_once(name, rewritten, parameters, nameless, context)
        except ArrayMet as found_array:
            parameters = _add_outside_array(parameters, found_array, context)
            nameless |= _size_names([found_array.parameter])
        except SizesMet as met:
            return Undecided(tuple(parameters), met)
        except TensorError as error:
            # What NumPy needs as a number, `np.pad(x, k)`, says so in errors of many kinds.
            free = [reserve_generated_names(p.name) for p in parameters if p.type == Integer()]
            if not free:
                raise
            asked = SizesMet(Affine.of(free[0]), None, True, error.place)
            asked.refused = error
            return Undecided(tuple(parameters), asked)
        except SizeNamed as found:
            named = {found.size: Affine.of(found.name)}
            parameters = [p._replace(type=at_sizes(p.type, named)) for p in parameters]


def _size_names(parameters: Sequence[Parameter]) -> frozenset[str]:
    """Return the names of all sizes in the parameters' types."""
    return frozenset[str]().union(*(size_names(p.type) for p in parameters))


@deep_recursion()
def _trace_once(
    name: str,
    rewritten: Rewritten,
    parameters: Sequence[Parameter],
    nameless: set[str],
    context: Context,
) -> Traced:
    """Run the rewritten function on stand-ins once, and return the traced function."""
    tracer = Tracer()
    tracer.reserved = _size_names(parameters) | {p.name for p in parameters}
    tracer.nameless = nameless
    tracer.integers = _integer_sizes(parameters)
    tracer.spelt = words(parameters)
    tracer.used |= tracer.reserved
    names = {name: reference for reference, name in context.outside.items()}
    tracer.outside, tracer.argument_values = context.outside, context.given
    tracer.arguments = {p.name: stand_in(tracer, *p, None) for p in tensors(parameters)}
    tracer.parameters, tracer.signed = tensors(parameters), context.signed
    tracer.methods, tracer.ends_ascend = context.methods, context.ends_ascend
    for x in context.lists & tracer.arguments.keys():
        if isinstance(value := tracer.arguments[x], Value):
            value.of_nature(replace(value.nature, lists=np.ndim(context.given[x])))
    arguments = {
        x: stand_in(tracer, x, t, layout, context.given.get(x))
        if isinstance(t, Static)
        else tracer.arguments[x]
        for x, t, layout in parameters
        if x not in names
    }
    tracer.stack.append(rewritten)
    tracer.places = rewritten.places
    try:
        value = rewritten.build(tracer)(**arguments)
        term, layout = tracer.pack(value)
    except TensorError as error:
        error.place = error.place or rewritten.place_of(error)
        raise
    except (SizesMet, SizeNamed, ArrayMet):
        raise
    except Exception as error:
        place = rewritten.place_of(error)
        misused = isinstance(error, TypeError | ValueError)  # what it was given to, in words
        if misused or (isinstance(error, _PYTHONS) and rewritten.raised(error)):
            raise TensorError(str(error), place=place) from error
        raise as_tensor_error(name, error, place) from error
    finally:
        tracer.argument_values = {}  # a tracer is in a cycle: it would keep arrays until they are collected
    return _make_traced(tracer, parameters, names, term, layout)


def _make_traced(
    tracer: Tracer,
    parameters: Sequence[Parameter],
    names: Mapping[str, Reference],
    term: Term,
    layout: Layout,
) -> Traced:
    """Return the traced function from what a tracer collected."""
    body = lets(tracer.scopes[0].bindings, term)
    own = tensors(parameters)
    function = Lambda("arg", tuple((x, t) for x, t, _ in own), body)
    outside = tuple((p.name, names[p.name]) for p in own if p.name in names)
    checked = tuple(tracer.lookups), tuple(tracer.accesses)
    return Traced(function, layout, tracer.places_of, *checked, tracer.spelt, outside)
