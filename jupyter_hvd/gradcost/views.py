"""What a panel shows on demand: the plans of value and gradient, and their certificate."""

from __future__ import annotations

import copy

from ..tensor.cost.statements import Sizes
from ..tensor.jax.backend import kernel, planned
from ..tensor.language.types import Array, Product, Real
from .arguments import make_arguments
from .background_work import require_room
from .subject import Subject


def view_text(subject: Subject, sizes: Sizes, view: str) -> str:
    """A view at some sizes, as lines for people.

    Raises:
        TensorError: the data of a relation are missing, the sizes are too large, or there is no such gradient.
    """
    require_room(subject, sizes)
    return plans_text(subject, sizes) if view == "plan" else certificate_text(subject, sizes)


def plans_text(subject: Subject, sizes: Sizes) -> str:
    """The tables of `f.plan(…)` and `f.grad(…).plan(…)`."""
    value, gradient = (
        planned(kernel(instance, sizes), tuple(given.values()))
        for instance, given in subject.programs(make_arguments(subject, sizes))
    )
    return f"value\n{value}\n\ngradient by {', '.join(subject.wrt)}\n{gradient}"


def certificate_text(subject: Subject, sizes: Sizes) -> str:
    """As `f.certify(…)` prints it, growing from some sizes on."""
    data = {
        x: subject.arguments[x]
        for x, t in subject.types
        if subject.arguments is not None and not isinstance(t, Real | Array | Product)
    }
    # Calls of a copy: those of the function itself would change what its cards tell of its last call.
    return str(copy.copy(subject.function).certify(*subject.wrt, sizes=sizes, **data))
