"""Converts TensorFlow 2 programs to Horovod: pure functions from source to source and findings.

Knows no Jupyter server, no TensorFlow, no network. Start reading at `engine.py`. The names below are loaded when they are used,
so that modules beside them which only read files need no LibCST.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..settings import OptionError
    from .conversion import Change, Conversion, Diagnostic, NotebookConversion, Outcome
    from .engine import convert_source
    from .explanation import VariableScale, explain_cells, explain_source
    from .notebook import NotPythonError, convert_notebook
    from .rules.options import Options

__all__ = [
    "Change",
    "Conversion",
    "Diagnostic",
    "NotPythonError",
    "NotebookConversion",
    "OptionError",
    "Options",
    "Outcome",
    "VariableScale",
    "convert_notebook",
    "convert_source",
    "explain_cells",
    "explain_source",
]

_MODULES = {
    "OptionError": "..settings",
    "convert_source": ".engine",
    "NotPythonError": ".notebook",
    "convert_notebook": ".notebook",
    "Options": ".rules.options",
    **dict.fromkeys(("VariableScale", "explain_cells", "explain_source"), ".explanation"),
}


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_MODULES.get(name, ".conversion"), __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
