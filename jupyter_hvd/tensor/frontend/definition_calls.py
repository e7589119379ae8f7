"""Calls of the prelude's definitions: their bodies run on operands, in place of the call.

A definition is not rewritten as a user's function is: that takes 5 to 10 ms, more than tracing it. Instead its source is read
at its first call (half a millisecond), to name what a path through it reads more than once: parameters annotated `Array`, and
assigned values. Where the tracer refuses a call, NumPy is called on ones of the same shapes; if it refuses too, its reason is
given, at the user's line.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import linecache
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from ..language.errors import TensorError
from ..language.types import dimensions
from ..prelude.definitions import Definition
from .operands import let, unwrapped, wrapped
from .tracers import Condition, Index, UnreadableValue, Value


@dataclass(frozen=True)
class DefinedCall:
    """A definition as a form: it is called with a tracer, and what the function takes."""

    definition: Definition

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        own = inspect.signature(self.definition.body)
        tracer = inspect.Parameter("__tracer", inspect.Parameter.POSITIONAL_ONLY)
        return own.replace(parameters=[tracer, *own.parameters.values()])

    def __call__(self, t: Any, *arguments: Any, **named: Any) -> Any:
        """What the definition makes of these.

        Raises:
            TensorError: NumPy refuses them, with its reason, or the definition does.
        """
        try:
            return self._call_body(t, arguments, named)
        except (TypeError, ValueError) as error:
            raise t.error(f"`{self.definition.name}`: {error}") from error
        except (TensorError, IndexError) as error:
            reason = refusal_of_numpy(self.definition, arguments, named)
            if reason is None:
                raise
            raise t.error(f"`{self.definition.name}`: {reason}") from error

    def _call_body(self, t: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Run the definition's body on operands, and return the tracer's value. Arrays that the body reads more than once get a
        name.
        """
        read = read_definition(self.definition.body)
        bound = read.signature.bind(*arguments, **named)
        bound = read.signature.bind(*arguments, **named)
        for name, value in bound.arguments.items():
            if name in read.arrays and value is not None:
                array = t.no_list(t.whole(value))
                value = t.once(array, name) if name in read.repeated else array
            elif name in read.lists:
                value = [t.no_list(t.whole(part)) for part in t.several(value)]
            bound.arguments[name] = wrapped(t, t.listed(value))
        return unwrapped(read.body(*bound.args, **bound.kwargs))


@dataclass(frozen=True)
class ReadDefinition:
    """A definition's body, in which what is assigned and read again gets a name in the program; its parameters that are arrays,
    those of them that are read more than once, and those that are lists of arrays.
    """

    body: Callable[..., Any]
    signature: inspect.Signature
    arrays: frozenset[str]
    repeated: frozenset[str]
    lists: frozenset[str]


@functools.cache
def read_definition(body: Callable[..., Any]) -> ReadDefinition:
    """Read a definition's source: its body, signature, and how its parameters are used. Cached."""
    tree = ast.parse(_read_source(body))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    function.decorator_list = []
    reads = _count_reads(function.body)
    repeated = frozenset(x for x, times in reads.items() if times > 1)
    _name_repeated(function, repeated)
    helpers = {
        x: read_definition(value).body
        for x in reads
        if isinstance(value := body.__globals__.get(x), FunctionType)
        and value.__module__ == body.__module__
    }
    namespace = {**body.__globals__, **helpers, "__let__": let}
    exec(compile(tree, body.__code__.co_filename, "exec"), namespace)  # noqa: S102 - the prelude's own function
    arrays, lists = (
        frozenset(x for x, hint in body.__annotations__.items() if hint == kind)
        for kind in ("Array", "Arrays")
    )
    own = namespace[function.name]
    return ReadDefinition(own, inspect.signature(body), arrays, repeated & arrays, lists)


def _read_source(body: Callable[..., Any]) -> str:
    """Return the lines of a function, up to the next line that begins a statement.

    `inspect.getsource` reads tokens, which takes longer than everything else here.
    """
    code = body.__code__
    lines = linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :]
    start = next(k for k, line in enumerate(lines) if line.startswith("def "))
    inside = itertools.takewhile(lambda line: line[0] in " )\n", lines[start + 1 :])
    return "".join([lines[start], *inside])


def _name_repeated(function: ast.FunctionDef, names: frozenset[str]) -> None:
    """Replace `x = e` in a function by `x = __let__("x", e)`, where x is one of `names`."""
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        found = [x.id for x in ast.walk(node.targets[0]) if isinstance(x, ast.Name)]
        if names.intersection(found):
            call = ast.Call(
                ast.Name("__let__", ast.Load()), [ast.Constant(found[0]), node.value], []
            )
            node.value = ast.fix_missing_locations(ast.copy_location(call, node.value))


STATIC = ("shape", "ndim")  # attributes that read no entries


def _count_reads(statements: Sequence[ast.stmt]) -> Counter[str]:
    """Count how often statements read the entries of each name, on the path with the most reads."""
    found: Counter[str] = Counter()
    for k, statement in enumerate(statements):
        if isinstance(statement, ast.If):
            rest = statements[k + 1 :]
            ways = [
                _count_reads([*way, *(() if way and isinstance(way[-1], ast.Return) else rest)])
                for way in (statement.body, statement.orelse)
            ]
            return found + _count_reads_in_expression(statement.test) + (ways[0] | ways[1])
        found += _count_reads_in_expression(statement)
    return found


def _count_reads_in_expression(node: ast.AST) -> Counter[str]:
    """Count how often an expression reads the entries of each name."""
    match node:
        case ast.Name(id, ast.Load()):
            return Counter((id,))
        case ast.Attribute(_, attr) if attr in STATIC:
            return Counter()
        case ast.keyword("like"):
            return Counter()
        case ast.Compare(_, [ast.Is() | ast.IsNot()]):
            return Counter()
        case ast.IfExp(test, body, orelse):
            return _count_reads_in_expression(test) + (
                _count_reads_in_expression(body) | _count_reads_in_expression(orelse)
            )
    found: Counter[str] = Counter()
    for child in ast.iter_child_nodes(node):
        found.update(_count_reads_in_expression(child))
    loops = ast.For | ast.ListComp | ast.GeneratorExp | ast.FunctionDef | ast.Lambda
    return found + found if isinstance(node, loops) else found


# What NumPy refuses

SIZE = 3  # of an axis whose size is not known


def refusal_of_numpy(
    definition: Definition, arguments: Sequence[Any], named: Mapping[str, Any]
) -> str | None:
    """Return why NumPy does not accept arguments of these shapes; None if it does, if NumPy is not loaded, or a value cannot be
    read yet.
    """
    module, *path = definition.path
    if module != "numpy" or _is_unreadable([*arguments, *named.values()]):
        return None
    try:
        function: Any = functools.reduce(getattr, path, np)
    except AttributeError:
        return None
    samples = [_sample_argument(value) for value in arguments]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            function(*samples, **{x: _sample_argument(value) for x, value in named.items()})
    except (TypeError, ValueError, IndexError) as error:
        return str(error).splitlines()[0]
    return None


def _is_unreadable(value: Any) -> bool:
    """Whether a value is, or contains, a stand-in that cannot be read here."""
    if isinstance(value, tuple | list):
        return any(map(_is_unreadable, value))
    return isinstance(value, UnreadableValue)


def _sample_argument(value: Any) -> Any:
    """Return ones of the shape of a stand-in, to try NumPy's function with; other values unchanged."""
    match value:
        case tuple() | list():
            return [_sample_argument(part) for part in value]
        case Value():
            shape = [n.constant if n.is_constant else SIZE for n in dimensions(value.type)]
            return np.ones(shape, value.nature.numbers or float)
        case Index():
            return SIZE
        case Condition():
            return True
    return value
