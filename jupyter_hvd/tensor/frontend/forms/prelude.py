"""The prelude's definitions as forms."""

from __future__ import annotations

from ...prelude import elementwise, products, reductions, shapes  # noqa: F401 — they enter their definitions
from ...prelude.definitions import DEFINITIONS, Definition
from ..definition_calls import DefinedCall
from .table import FORMS, Form


def _register(definition: Definition, name: str) -> None:
    """Add a definition of the prelude to the table of forms."""
    call = DefinedCall(definition)
    FORMS[name] = Form(name, call, definition.method, entrywise=definition.entrywise)


for _definition in DEFINITIONS:
    _owner, _name = _definition.path[-2:]
    _name = f"norm.{_name}" if _owner == "norm" else _name
    if "scipy" not in _definition.path:
        _register(_definition, _name)
    else:  # by its name alone, too, unless NumPy or JAX have another function of that name
        _register(_definition, f"scipy.{_name}")
        if not any(one.name == _name for one in DEFINITIONS if "scipy" not in one.path):
            _register(_definition, _name)
