"""Functions of whole arrays in JAX's own way: for the loops that `language/whole_functions` notes to be one, JAX's, with its
derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from ..language.terms import Call, Const, Iterate, Let, Term, Var, gens, rebuild, strip_gens
from ..language.whole_functions import Whole, unnoted, whole_function

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "solve": jnp.linalg.solve,
    "inv": jnp.linalg.inv,
    "cholesky": jnp.linalg.cholesky,
    "det": jnp.linalg.det,
    "sign_of_det": lambda a: jnp.linalg.slogdet(a)[0],
    "log_of_det": lambda a: jnp.linalg.slogdet(a)[1],
    "solve_lower": lambda a, b: solve_triangular(a, b, lower=True),
    "solve_upper": lambda a, b: solve_triangular(a, b),
}


def computed(whole: Whole, operands: list[Any]) -> Any:
    """The array that a function makes of arrays."""
    return FUNCTIONS[whole.name](*operands)


def taken(e: Term) -> Term:
    """A block of lets without the loops of which the result is noted to be such a function of variables, and without notes of
    anything else.
    """
    return _read(_without_loops(e))


def _without_loops(e: Term) -> Term:
    if not isinstance(e, Let):
        return unnoted(e)
    value = e.value
    if isinstance(value, Iterate):
        value = rebuild(value, _without_loops)
    elif whole_function(value) is not None:
        binders, note = strip_gens(value)
        assert isinstance(note, Call)
        value = gens(binders, Call(note.function, (Const(0), *note.arguments[1:])))
    else:
        value = unnoted(value)
    return Let(e.name, value, _without_loops(e.body))


def _read(e: Term) -> Term:
    """A block without what nothing in it reads."""
    if not isinstance(e, Let):
        return e
    body = _read(e.body)
    if e.name not in body.variables:
        return body
    value = rebuild(e.value, _read) if isinstance(e.value, Iterate) else e.value
    return Let(e.name, value, body)


def as_given(e: Term) -> Term:
    """A block that `taken` gives, where what these functions make is given."""
    if not isinstance(e, Let):
        return e
    value = e.value
    if isinstance(value, Iterate):
        value = rebuild(value, as_given)
    elif whole_function(value) is not None:
        value = Var(f"{e.name}·", value.type)
    return Let(e.name, value, as_given(e.body))


def has_whole_functions(e: Term) -> bool:
    """Whether a block has any."""
    while isinstance(e, Let):
        inner = isinstance(e.value, Iterate) and has_whole_functions(e.value.body)
        if inner or whole_function(e.value) is not None:
            return True
        e = e.body
    return False
