"""Whether an expression may be evaluated on rank 0 alone.

Restriction 4 of the seeds asks that `print` has no side effects. It is checked:
what might train, draw from an iterator or wait for other ranks must run on all.
"""

from __future__ import annotations

import libcst as cst

from .roles import Kind, Roles, method

_PURE_BUILTINS = frozenset(
    [
        "abs",
        "all",
        "any",
        "bool",
        "callable",
        "chr",
        "complex",
        "dict",
        "dir",
        "divmod",
        "enumerate",
        "float",
        "format",
        "frozenset",
        "getattr",
        "hasattr",
        "hash",
        "hex",
        "id",
        "int",
        "isinstance",
        "issubclass",
        "len",
        "list",
        "map",
        "max",
        "min",
        "oct",
        "ord",
        "pow",
        "range",
        "repr",
        "reversed",
        "round",
        "set",
        "slice",
        "sorted",
        "str",
        "sum",
        "tuple",
        "type",
        "vars",
        "zip",
    ]
)
_PURE_LIBRARIES = (
    "numpy.",
    "tensorflow.",
    "time.",
    "datetime.",
    "math.",
    "os.path.",
    "sklearn.metrics.",
    "scipy.",
)
_IMPURE = (
    "numpy.random.",
    "tensorflow.random.",
    "tensorflow.print",
    "tensorflow.summary.",
    "tensorflow.io.write",
)
_PURE_METHODS = frozenset(
    [
        "any",
        "all",
        "argmax",
        "argmin",
        "as_list",
        "astype",
        "capitalize",
        "copy",
        "count",
        "count_params",
        "cpu",
        "decode",
        "endswith",
        "eval",
        "flatten",
        "format",
        "get",
        "get_config",
        "get_weights",
        "index",
        "isoformat",
        "item",
        "items",
        "join",
        "keys",
        "lower",
        "lstrip",
        "max",
        "mean",
        "min",
        "most_common",
        "numpy",
        "ravel",
        "replace",
        "reshape",
        "result",
        "round",
        "rstrip",
        "split",
        "squeeze",
        "startswith",
        "std",
        "strftime",
        "strip",
        "sum",
        "title",
        "to_string",
        "tolist",
        "total_seconds",
        "upper",
        "values",
        "var",
        "zfill",
        "head",
        "tail",
        "describe",
        "transpose",
    ]
)


def is_pure(roles: Roles, expression: cst.CSTNode) -> bool:
    """Whether evaluating the expression changes nothing and waits for nobody, for certain."""
    pending: list[cst.CSTNode] = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, (cst.Await, cst.Yield, cst.NamedExpr)):
            return False
        if isinstance(node, cst.Call) and not _is_pure_call(roles, node):
            return False
        pending.extend(node.children)
    return True


def _is_pure_call(roles: Roles, call: cst.Call) -> bool:
    name = roles.qualified(call.func)
    if name.startswith("builtins."):
        return name.removeprefix("builtins.") in _PURE_BUILTINS
    if name:
        return name.startswith(_PURE_LIBRARIES) and not name.startswith(_IMPURE)
    if isinstance(call.func, cst.Attribute) and method(call) in _PURE_METHODS:
        return not roles.kinds(call.func.value) & {Kind.INSTANCE}
    return False
