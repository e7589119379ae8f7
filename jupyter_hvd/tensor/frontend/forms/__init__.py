"""Array functions of NumPy and jax.numpy, each defined as a comprehension of the tensor language.

`docs/numpy.md` shows them all.
"""

from . import (  # noqa: F401 — they enter their functions
    array_creation,
    computed_indices,
    elementwise,
    functional,
    linear,
    prelude,
    products,
    shapes,
)
from .array_creation import grid
from .reductions import halved, prefixes, total_of
from .table import (
    FEW,
    MODULES,
    ON_HOST,
    Form,
    Method,
    attribute_of,
    build,
    form_named,
    form_of,
    function_module,
    function_name,
)

__all__ = [
    "FEW",
    "MODULES",
    "ON_HOST",
    "Form",
    "Method",
    "attribute_of",
    "build",
    "form_named",
    "form_of",
    "function_module",
    "function_name",
    "grid",
    "halved",
    "prefixes",
    "total_of",
]
