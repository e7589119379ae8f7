"""The prelude's definitions as forms."""

from __future__ import annotations

from ...prelude import elementwise, products, reductions, shapes  # noqa: F401 — they enter their definitions
from ...prelude.definitions import DEFINITIONS, Definition
from ..definition_calls import DefinedCall
from .table import FORMS, Form


def _name_in_the_table(definition: Definition) -> str:
    """What `table.form_of` looks a function up by."""
    module, *_, owner, name = definition.path[0], *definition.path
    if owner == "norm":
        return f"norm.{name}"
    return f"scipy.{name}" if module == "scipy" else name


for _definition in DEFINITIONS:
    _name = _name_in_the_table(_definition)
    FORMS[_name] = Form(
        _name, DefinedCall(_definition), _definition.method, False, _definition.entrywise
    )
