"""What evaluating an expression does besides giving a value: printing, writing, opening files.

What might train, draw from an iterator or wait for other ranks must run on every rank; only
what is pure, for certain, may be evaluated on one.
"""

from __future__ import annotations

import re

import libcst as cst

from .library import Effects, Kind
from .syntax import argument, method
from .values import ValueAnalysis

#: Python's own library, and what most programs use beside it.
PYTHON = Effects(
    pure=("numpy.", "time.", "datetime.", "math.", "os.path.", "sklearn.metrics.", "scipy."),
    impure=("numpy.random.",),
    printing=frozenset(
        {
            "builtins.print",
            "pprint.pprint",
            "IPython.display.display",
            "matplotlib.pyplot.show",
        }
    ),
    writing=frozenset(
        {
            "matplotlib.pyplot.savefig",
            "matplotlib.pyplot.imsave",
            "numpy.save",
            "numpy.savez",
            "numpy.savez_compressed",
            "numpy.savetxt",
            "pickle.dump",
            "joblib.dump",
            "json.dump",
        }
    ),
    opening={"builtins.open": 1, "io.open": 1, "gzip.open": 1},
)
#: Methods that write whatever they are called on.
_ALWAYS_WRITING = frozenset(
    "savefig to_csv to_json to_excel to_pickle to_parquet write_text write_bytes".split()
)
_PURE_BUILTINS = frozenset(
    "abs all any bool callable chr complex dict dir divmod enumerate float format frozenset "
    " getattr hasattr hash hex id int isinstance issubclass len list map max min oct ord pow "
    " range repr reversed round set slice sorted str sum tuple type vars zip".split()
)
_PURE_METHODS = frozenset(
    "any all argmax argmin as_list astype capitalize copy count count_params cpu decode endswith "
    " eval flatten format get get_config get_weights index isoformat item items join keys lower "
    " lstrip max mean min most_common numpy ravel replace reshape result round rstrip split "
    " squeeze startswith std strftime strip sum title to_string tolist total_seconds upper "
    " values var zfill head tail describe transpose".split()
)


def is_pure(values: ValueAnalysis, expression: cst.CSTNode) -> bool:
    """Whether evaluating the expression changes nothing and waits for nobody, for certain."""
    pending: list[cst.CSTNode] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr)):
            return False
        if isinstance(node, cst.Call) and not _is_pure_call(values, node):
            return False
        pending.extend(node.children)
    return True


def _is_pure_call(values: ValueAnalysis, call: cst.Call) -> bool:
    name, effects = values.qualified(call.func), values.library.effects
    if name.startswith("builtins."):
        return name.removeprefix("builtins.") in _PURE_BUILTINS
    if name:
        return name.startswith(effects.pure) and not name.startswith(effects.impure)
    if _pure_methods(values, call.func) is not None:
        return True  # what is pure to call itself
    if not isinstance(call.func, cst.Attribute):
        return False
    known = _pure_methods(values, call.func.value)
    if known is not None:
        return method(call) in _PURE_METHODS | known
    if method(call) in _PURE_METHODS:
        return Kind.INSTANCE not in values.kinds(call.func.value)
    return False


def _pure_methods(values: ValueAnalysis, receiver: cst.BaseExpression) -> frozenset[str] | None:
    """The pure methods of what is of one kind for certain, a kind whose values are pure to call."""
    kinds = values.kinds(receiver)
    return values.library.effects.pure_methods.get(next(iter(kinds))) if len(kinds) == 1 else None


def opens_for(values: ValueAnalysis, call: cst.Call) -> str | None:
    """The mode in which a call opens a file, None where it opens none or the mode cannot be seen."""
    name = values.qualified(call.func)
    position = values.library.effects.opening.get(name)
    if position is None:
        own = method(call) == "open" and not name
        given = call.args[0].value if own and call.args else None
        shown = given.evaluated_value if isinstance(given, cst.SimpleString) else None
        return shown if isinstance(shown, str) and re.fullmatch("[wax][bt+]*", shown) else None
    mode = argument(call, "mode", position)
    if mode is None:
        return "r"
    return str(mode.value.evaluated_value) if isinstance(mode.value, cst.SimpleString) else None


def prints(values: ValueAnalysis, call: cst.Call) -> bool:
    """Whether a call prints or shows something."""
    return values.qualified(call.func) in values.library.effects.printing


def writes(values: ValueAnalysis, call: cst.Call) -> bool:
    """Whether a call writes a file, or prints as `summary` does."""
    effects = values.library.effects
    if values.qualified(call.func) in effects.writing:
        return True
    if not isinstance(call.func, cst.Attribute):
        return False
    name = method(call)
    if name in _ALWAYS_WRITING:
        return bool(call.args)
    kinds = values.kinds(call.func.value)
    return any(name in effects.writing_methods.get(kind, ()) for kind in kinds)
