"""TF2 → Horovod: pure functions from source to source and findings.

Knows no Jupyter server, no TensorFlow, no network. Start reading at `engine.py`.
"""

from ..rules.options import Options
from ..settings import OptionError
from .conversion import Change, Conversion, Diagnostic, NotebookConversion, Outcome
from .engine import convert_source
from .explanation import VariableScale, explain_cells, explain_source
from .notebook import NotPythonError, convert_notebook

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
