"""Primitives `f(e,…)`: scalar functions that the language calls but does not look into.

A primitive is a value: what computes it, its partial derivatives, and, if it was derived, from what and how (`Partial`,
`Total`, `Cotangent`). Its name is printed from that, and only the parser reads it back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Term = Any  # terms are built on functions


@dataclass(frozen=True)
class Partial:
    """Derivation: the partial derivative by one argument, `f′(x)` or `∂0f(x, y)`."""

    argument: int


@dataclass(frozen=True)
class Total:
    """Derivation: the total derivative `Df(X; dX)` (6.6), a function of the arguments and of differentials of the active ones."""

    active: tuple[int, ...]


@dataclass(frozen=True)
class Cotangent:
    """Derivation: `Dᵀf(X, dY)` for one argument (6.47), a function of the arguments and the cotangent of the value."""

    argument: int


Derivation = Partial | Total | Cotangent


@dataclass(frozen=True, eq=False)
class Function:
    """A primitive of `arity` scalars. Equal functions are one object.

    `compute` works on floats and, if the function is rational, on fractions. `body`, if any, is the function as a term over
    the
    variables x, y, z, … `partials` returns the partial derivatives as terms over the arguments, None for zero. `derived`
    returns
    a primitive derived from this one, None for zero. `derivation` says from which primitive, and how, this one was derived.
    """

    name: str
    arity: int
    compute: Callable[..., Any] = field(repr=False)
    partials: Callable[[tuple[Term, ...]], tuple[Term | None, ...]] = field(repr=False)
    derived: Callable[[Derivation], Function | None] = field(repr=False)
    body: Term | None = field(default=None, repr=False)
    derivation: tuple[Function, Derivation] | None = field(default=None, repr=False)

    @property
    def slope_of(self) -> Function | None:
        """The function of one argument whose derivative this primitive is; None for any other."""
        match self.derivation:
            case (base, Partial(0)) if base.arity == 1:
                return base
        return None

    def total_derivative(self, active: tuple[int, ...]) -> Function:
        """Return `Df(X; dX)` as one primitive (6.6).

        Args:
            active: the positions of the arguments that have tangents.
        """
        made = self.derived(Total(active))
        assert made is not None
        return made

    def cotangent_function(self, k: int) -> Function:
        """Return `Dᵀf(X, dY)` for argument k as one primitive (6.47)."""
        made = self.derived(Cotangent(k))
        assert made is not None
        return made

    def __reduce__(self) -> tuple[Callable[..., Function | None], tuple[Any, ...]]:
        if self.derivation is None:
            return find_function, (self.name,)
        return derive_function, self.derivation


_TABLE: dict[str, Function] = {}
_FINDERS: list[Callable[[str], Function | None]] = []


def register_function(f: Function) -> Function:
    """Register a primitive, and return the one of its name: the registered one if there is one already."""
    return _TABLE.setdefault(f.name, f)


def add_function_finder(finder: Callable[[str], Function | None]) -> None:
    """Let `find_function` ask `finder` for functions that are registered on first use, such as those of a family."""
    _FINDERS.append(finder)


def find_function(name: str) -> Function:
    """Return the primitive of a name. Raises KeyError where there is none."""
    if name not in _TABLE and not any(finder(name) for finder in _FINDERS):
        raise KeyError(name)
    return _TABLE[name]


def derive_function(f: Function, how: Derivation) -> Function | None:
    """Return the primitive that a derivation makes from another."""
    return f.derived(how)


def derived_name(f: Function, how: Derivation) -> str:
    """Return the name of a derived primitive: `tanh′`, `∂0pow`, `D1pow`, `Dᵀ0pow`."""
    match how:
        case Partial(k):
            return f"{f.name}′" if f.arity == 1 else f"∂{k}{f.name}"
        case Total(active):
            marks = "" if len(active) == f.arity else "".join(map(str, active))
            return f"D{marks}{f.name}"
        case Cotangent(k):
            return f"Dᵀ{k}{f.name}"


PARAMETERS = ("x", "y", "z", "w")


def parameter_names(arity: int) -> tuple[str, ...]:
    """Return the names of the variables in the body of a primitive: the first `arity` of x, y, z, …"""
    return PARAMETERS[:arity] if arity <= len(PARAMETERS) else tuple(f"x{k}" for k in range(arity))
