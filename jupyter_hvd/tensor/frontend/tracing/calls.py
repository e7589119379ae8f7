"""Calls: of black boxes, of Python's own functions, of other tensor functions."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ...derivative.blackboxes import NAMES
from ...language.affine import Affine
from ...language.function import named
from ...language.terms import Add, At, Call, Const, Let, Sum, Term, substitute
from ...language.types import REAL, Array, Integer, Parameter
from ..tracers import Data, Index, Value, describe, kind
from .entries import Entries

if TYPE_CHECKING:
    from ..rewrite import Rewritten
    from .traced import Traced


class Tracer(Entries):
    """What rewritten code calls. Every method takes first the number of a place in the source."""

    def call(self, k: int, function: Any, *arguments: Any, **named_arguments: Any) -> Any:
        self.at(k)
        if not isinstance(function, Value) and hasattr(function, "__tensor_inline__"):
            return function.__tensor_inline__(self, arguments, named_arguments)
        if named_arguments:
            raise self.error("keyword arguments go only to tensor functions")
        handler = _BUILTINS.get(function) if function.__hash__ else None
        if handler is not None:
            return handler(self, *arguments)
        return self._black_box(function, arguments)

    def _black_box(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        plain = int | float | Fraction
        name = getattr(function, "__name__", str(function))
        module = (getattr(function, "__module__", None) or type(function).__module__).split(".")[0]
        if all(isinstance(a, plain) for a in arguments) and module in ("math", "numpy", "builtins"):
            return function(*arguments)
        made = _COMPOSITES.get(name) if module in _MODULES else None
        if made is not None:
            return made(self, *arguments)
        name = _SPELLINGS.get(name, name)
        if module not in _MODULES or name not in NAMES:
            help_ = (
                "write it out with comprehensions and `sum`"
                if module in _MODULES
                else f"decorate `{name}` with @tensor, or use a function of `math` or NumPy"
            )
            raise self.error(f"`{name}` is not in the tensor language", help_)
        f = named(name)
        if len(arguments) != f.arity:
            raise self.error(f"`{name}` takes {f.arity} argument{'s' * (f.arity > 1)} here")
        return Value(self, Call(f, tuple(self.scalar(a, f"`{name}`") for a in arguments)))

    def function(self, name: str, *arguments: Any) -> Value:
        f = named(name)
        return Value(self, Call(f, tuple(self.scalar(a, f"`{name}`") for a in arguments)))

    def length(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return len(value)
        if isinstance(value, Data):
            return Index(self, value.dims[0])
        if isinstance(value, Value) and isinstance(value.type, Array):
            return Index(self, value.type.size)
        raise self.error(f"{kind(value)} has no length", "only arrays have")

    def total(self, value: Any) -> Value:
        term, _ = self.pack(value)
        if not isinstance(term.type, Array) or term.type.element != REAL:
            raise self.error(
                f"`sum` takes an array of scalars, not {describe(term.type)}",
                "sum over indices: `sum(A[i, j] for i in range(n) for j in range(m))`",
            )
        index = self.name("i")
        return Value(self, Sum(index, term.type.size, At(term, Affine.of(index))))

    def extreme(self, name: str, values: tuple[Any, ...]) -> Any:
        """`max(a, b, …)` and `min(a, b, …)` of scalars."""
        if all(isinstance(value, int | float) for value in values):
            return max(values) if name == "maximum" else min(values)
        if len(values) < 2:
            raise self.error(f"the {name} of an array", "compare two scalars at a time")
        result = values[0]
        for value in values[1:]:
            result = self.function(name, result, value)
        return result

    # Whole functions

    def parameter(self, name: str, value: Any) -> Parameter:
        """The parameter that an argument of a call fits."""
        if isinstance(value, Data):
            return Parameter(name, value.type, None)
        if isinstance(value, Index):
            return Parameter(name, Integer(), None)
        term, layout = self.pack(value)
        return Parameter(name, term.type, layout)

    def inline(self, name: str, rewritten: Rewritten, arguments: dict[str, Any]) -> Any:
        """Trace another function's body in place, its lets in the scope of the call."""
        if name in self.stack:
            raise self.error(
                f"`{name}` calls itself",
                "recursion has no size: write a comprehension over `range`",
            )
        outer, place = self.places, self.place
        self.stack.append(name)
        self.places = rewritten.places
        try:
            bound = {x: self._bind(x, value) for x, value in arguments.items()}
            return rewritten.build(self)(**bound)
        finally:
            self.stack.pop()
            self.places, self.place = outer, place

    def apply(self, traced: Traced, arguments: dict[str, Any]) -> Value:
        """Call a derived function: its program, with its parameters bound to the arguments."""
        body = traced.function.body
        values: dict[str, Term] = {}
        sizes: dict[str, Affine] = {}
        for x, type_ in traced.function.parameter_type:
            argument = arguments[x]
            if isinstance(type_, Integer):
                sizes[x] = self.affine(argument, f"`{x}`")
            elif isinstance(argument, Data):
                if argument.name != x:
                    raise self.error(
                        f"`{x}` is `{argument.name}` here",
                        f"name the parameter `{x}` in both functions",
                    )
            else:
                values[x] = self._bind(x, Value(self, self.pack(argument)[0])).term
        applied = statement = substitute(body, values, sizes)
        while isinstance(statement, Let):
            self.note(statement.value)
            statement = statement.body
        return Value(self, applied, traced.layout)


_MODULES = ("math", "numpy", "jax")
_SPELLINGS = {
    "fabs": "abs", "absolute": "abs", "arctan": "atan", "arcsin": "asin", "arccos": "acos",
    "arctan2": "atan2", "power": "pow", "reciprocal": "recip", "fmax": "maximum", "fmin": "minimum",
}  # fmt: skip
_COMPOSITES: dict[str, Callable[..., Any]] = {
    "square": lambda t, x: t._power(t.scalar(x, "`square`"), Const(2)),
    "log2": lambda t, x: t._product(1.4426950408889634, t.function("log", x)),
    "log10": lambda t, x: t._product(0.4342944819032518, t.function("log", x)),
    "hypot": lambda t, x, y: t.function(
        "sqrt",
        Value(
            t,
            Add(
                t._power(t.scalar(x, "`hypot`"), Const(2)).term,
                t._power(t.scalar(y, "`hypot`"), Const(2)).term,
            ),
        ),
    ),
}
_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.len: Tracer.length,
    builtins.sum: Tracer.total,
    builtins.abs: lambda t, x: abs(x) if isinstance(x, int | float) else t.function("abs", x),
    builtins.max: lambda t, *xs: t.extreme("maximum", xs),
    builtins.min: lambda t, *xs: t.extreme("minimum", xs),
    builtins.float: lambda t, x: Value(t, t.scalar(x, "`float`")),
}
