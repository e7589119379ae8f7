"""Whether an expression gives the same on every rank.

Counters, constants, and what is made of them do; losses, metrics, clocks and random numbers
are each rank's own.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from .definitions import Identity
from .flow import is_iteration
from .index import ELEMENT, Binding, Path
from .syntax import method
from .values import MAX_PATH, ValueAnalysis

_UNIFORM_BUILTINS = frozenset(
    "abs bool divmod float int itertools.count len list max min pow range round str sum tuple".split()
)
#: What a program is given when it starts is the same on every rank.
_UNIFORM_CALLS = frozenset({"os.environ.get", "os.getenv", "os.cpu_count"})
_ARGUMENT_PARSERS = frozenset({"parse_args", "parse_known_args"})

Question = tuple[Identity, Path]


def is_uniform(
    values: ValueAnalysis,
    expression: cst.CSTNode,
    path: Path = (),
    asked: set[Question] | None = None,
) -> bool:
    """Whether the part `path` of an expression is the same on every rank."""
    asked = set() if asked is None else asked
    question = (values.definitions.identity(expression), path)
    if question in asked:
        return True  # nothing more than what is being asked already
    if len(path) > MAX_PATH:
        return False
    asked.add(question)

    match expression:
        case cst.Call():
            return _is_uniform_call(values, expression, path, asked)
        case cst.Attribute() if values.qualified(expression):
            return True
    sources = values.flow.predecessors(expression, path, in_order=False)
    if not all(is_uniform(values, source, part, asked) for source, part in sources):
        return False
    if not all(is_uniform(values, test, (), asked) for test in tests_of(values, expression)):
        return False
    if isinstance(expression, cst.Subscript) and isinstance(expression.value, cst.Name):
        entries = stored(values, expression.value)
        if not all(is_uniform(values, value, (), asked) for _, value in entries):
            return False
    if isinstance(expression, cst.Name) or (
        sources and (path or isinstance(expression, cst.Attribute))
    ):
        return True
    parts = [expression.value] if isinstance(expression, cst.Attribute) else expression.children
    return all(is_uniform(values, part, (), asked) for part in parts)


def tests_of(values: ValueAnalysis, expression: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """The tests that decide which of its values a name, an attribute or an entry has: those around its bindings.

    What is bound once is decided where that stands in a loop: in which of its turns.
    """
    places: list[cst.CSTNode | None] = []
    if isinstance(expression, cst.Name):
        places = [b.place for b in values.definitions.of(expression) if isinstance(b, Binding)]
    elif isinstance(expression, cst.Attribute):
        places = [binding.place for binding in values.flow.bindings_of(expression)]
    elif isinstance(expression, cst.Subscript) and isinstance(expression.value, cst.Name):
        places = [None, *(container for container, _ in stored(values, expression.value))]
    for place in places:
        around: list[cst.CSTNode] = []
        if place is not None:
            around = list(itertools.takewhile(_is_no_function, values.module.ancestors(place)))
        if len(places) > 1 or any(isinstance(a, (cst.For, cst.While)) for a in around):
            for child, ancestor in itertools.pairwise((place, *around)):
                if isinstance(ancestor, (cst.If, cst.While)) and child is not ancestor.test:
                    yield ancestor.test


def _is_no_function(node: cst.CSTNode) -> bool:
    return not isinstance(node, (cst.FunctionDef, cst.Lambda, cst.ClassDef))


def stored(
    values: ValueAnalysis, container: cst.Name
) -> Iterator[tuple[cst.Name, cst.BaseExpression]]:
    """What is stored in the entries of what a name means, and where."""
    identity = values.definitions.identity
    for there, value, _ in values.index.stored.get(container.value, ()):
        if identity(there) == identity(container):
            yield there, value


def _is_uniform_call(
    values: ValueAnalysis, call: cst.Call, path: Path, asked: set[Question]
) -> bool:
    name = values.qualified(call.func)
    if name in _UNIFORM_CALLS or method(call) in _ARGUMENT_PARSERS:
        return True
    if name == "builtins.enumerate" and path[:2] == (ELEMENT, 0):
        return True  # the counter; what is counted may differ
    if is_iteration(name) and path:
        sources = values.flow.predecessors(call, path, in_order=False)
        return all(is_uniform(values, source, part, asked) for source, part in sources)
    if name.removeprefix("builtins.") not in _UNIFORM_BUILTINS:
        return False
    parts: list[Path] = [()] if name == "builtins.len" else [(), (ELEMENT,)]
    return all(is_uniform(values, arg.value, part, asked) for arg in call.args for part in parts)
