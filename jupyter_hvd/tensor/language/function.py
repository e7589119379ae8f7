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
    """The partial derivative by one argument: `f′(x)`, `∂0f(x, y)`."""

    argument: int


@dataclass(frozen=True)
class Total:
    """`Df(X; dX)` (6.6): the arguments, then a differential for each of the active ones."""

    active: tuple[int, ...]


@dataclass(frozen=True)
class Cotangent:
    """`Dᵀf(X, dY)` for one argument (6.47): the arguments, then the cotangent of the value."""

    argument: int


Derivation = Partial | Total | Cotangent


@dataclass(frozen=True, eq=False)
class Function:
    """A primitive of `arity` scalars; equal functions are one object.

    `compute` works on floats and, where the function is rational, on fractions. `body`, where
    there is one, is the function as a term over the variables x, y, z, … `partials` gives the
    derivative by each argument as terms over the arguments, or None where it is zero. `derived`
    gives a primitive that is made from this one, or None where that is zero; `derivation` says how
    this one was made, and from which.
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
        """The function of one argument whose slope this is, if it is one."""
        match self.derivation:
            case (base, Partial(0)) if base.arity == 1:
                return base
        return None

    def total_derivative(self, active: tuple[int, ...]) -> Function:
        """`Df(X; dX)` as one primitive (6.6)."""
        made = self.derived(Total(active))
        assert made is not None
        return made

    def cotangent_function(self, k: int) -> Function:
        """`Dᵀf(X, dY)` for argument k as one primitive (6.47)."""
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
    """The primitive of that name: `f`, where there was none."""
    return _TABLE.setdefault(f.name, f)


def find_by(finder: Callable[[str], Function | None]) -> None:
    """Let `find_function` ask `finder` for functions that are registered when they are first wanted: those of a family."""
    _FINDERS.append(finder)


def find_function(name: str) -> Function:
    """The primitive of that name; KeyError where there is none."""
    if name not in _TABLE and not any(finder(name) for finder in _FINDERS):
        raise KeyError(name)
    return _TABLE[name]


def derive_function(f: Function, how: Derivation) -> Function | None:
    """The primitive that is made from another."""
    return f.derived(how)


def derived_name(f: Function, how: Derivation) -> str:
    """What a derived primitive is called: `tanh′`, `∂0pow`, `D1pow`, `Dᵀ0pow`."""
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
    """The variables that the body of a primitive of that arity is written in."""
    return PARAMETERS[:arity] if arity <= len(PARAMETERS) else tuple(f"x{k}" for k in range(arity))
