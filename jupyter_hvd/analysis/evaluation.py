"""What an expression means for the other ranks: whether it may be evaluated on rank 0 alone, and
whether it gives the same on every rank.

Restriction 4 of the seeds asks that `print` has no side effects. It is checked:
what might train, draw from an iterator or wait for other ranks must run on all.
"""

from __future__ import annotations

import libcst as cst

from .values import EACH, Binding, Identity, Kind, Roles, method

_PURE_BUILTINS = frozenset(
    "abs all any bool callable chr complex dict dir divmod enumerate float format frozenset "
    " getattr hasattr hash hex id int isinstance issubclass len list map max min oct ord pow "
    " range repr reversed round set slice sorted str sum tuple type vars zip".split()
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
    "any all argmax argmin as_list astype capitalize copy count count_params cpu decode endswith "
    " eval flatten format get get_config get_weights index isoformat item items join keys lower "
    " lstrip max mean min most_common numpy ravel replace reshape result round rstrip split "
    " squeeze startswith std strftime strip sum title to_string tolist total_seconds upper "
    " values var zfill head tail describe transpose".split()
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
    if roles.kinds(call.func) == {Kind.MODEL}:
        return True  # a forward pass waits for nobody
    if isinstance(call.func, cst.Attribute) and roles.kinds(call.func.value) == {Kind.MODEL}:
        return method(call) in _PURE_METHODS | {"evaluate", "predict", "predict_on_batch"}
    if isinstance(call.func, cst.Attribute) and method(call) in _PURE_METHODS:
        return not roles.kinds(call.func.value) & {Kind.INSTANCE}
    return False


_UNIFORM_BUILTINS = frozenset(
    "abs bool divmod float int len list max min pow range round str sum tuple".split()
)
#: What a program is told when it starts is the same on every rank.
_UNIFORM_CALLS = frozenset({"os.environ.get", "os.getenv", "os.cpu_count"})


def is_uniform(roles: Roles, expression: cst.CSTNode, seen: set[Identity] | None = None) -> bool:
    """Whether an expression gives the same on every rank: counters, constants and what is made of them.

    Losses, metrics, clocks and random numbers are each rank's own.
    """
    seen = set() if seen is None else seen
    identity = roles.identity(expression)
    if identity in seen:
        return True  # nothing more than what is being asked already
    seen.add(identity)
    match expression:
        case cst.Name():
            return all(
                _is_uniform_binding(roles, binding, seen) for binding in roles.bindings(expression)
            )
        case cst.Call(func=func, args=args):
            name = roles.qualified(func).removeprefix("builtins.")
            if name in _UNIFORM_CALLS or method(expression) in ("parse_args", "parse_known_args"):
                return True
            return name in _UNIFORM_BUILTINS and all(is_uniform(roles, a.value, seen) for a in args)
        case cst.Attribute(value=value):
            return bool(roles.qualified(expression)) or is_uniform(roles, value, seen)
    return all(is_uniform(roles, child, seen) for child in expression.children)


def _is_uniform_binding(roles: Roles, binding: Binding | cst.CSTNode, seen: set[Identity]) -> bool:
    if isinstance(binding, cst.Param):
        function = roles.module.owner(binding)
        passed = roles.passed(function, binding) if function is not None else []
        return all(is_uniform(roles, value, seen) for _, value in passed)
    if isinstance(binding, cst.CSTNode):
        return True
    value = binding.value
    if isinstance(value, cst.Call) and roles.qualified(value.func) == "builtins.enumerate":
        # The counter of `for i, batch in enumerate(…)` is common, the batch is not.
        return binding.path[:2] == (EACH, 0)
    return is_uniform(roles, binding.value, seen)
