"""What is a layer, or a model, which is one."""

from __future__ import annotations

import libcst as cst

from ...analysis.library import Value
from ...analysis.values import ValueAnalysis
from .roles import Role


def is_layer(values: ValueAnalysis, value: Value) -> bool:
    """Whether a value is a layer: Keras', one of the program's own, or a model."""
    names = {value.name}
    if isinstance(value.node, cst.ClassDef):
        names = {*values.classes.library_bases(value.node)}
    return value.kind is Role.MODEL or any(n.startswith("tensorflow.keras.layers.") for n in names)
