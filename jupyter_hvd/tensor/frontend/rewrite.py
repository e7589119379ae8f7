"""Rewrites a Python function so that tracing sees the syntax that no dunder method can see.

Comprehensions, `sum`, `if … else`, `and`, comparisons, assignments and calls become calls of the
tracer's methods; operators and entries go through it too, so that an error knows its place. For
example

    y = [x[i] if i < j else 0 for i in range(n)]

becomes

    y = __tensor__.bind(4, "y", __tensor__.generate(3, "i", __tensor__.range(2, range, n), lambda i: …))

where each number is a place in the source, and `range` comes along because it may mean something
else there. What the language does not have is refused here, with what to write instead.
"""

from __future__ import annotations

import dis
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, ModuleType
from typing import Any, cast

import libcst as cst
from libcst import matchers as m
from libcst.helpers import get_full_name_for_node
from libcst.metadata import MetadataWrapper, PositionProvider

from ..language.errors import Place, TensorError

TRACER = "__tensor__"
LONG = 32  # operands of one sum or product above which it is built as a balanced tree
DEEP = 50_000
LOOP_HELP = "write `[… for i in range(n)]` or `sum(… for i in range(n))`"

_REFUSED: dict[type[cst.CSTNode], tuple[str, str]] = {
    cst.While: ("a `while` loop has no size that is known beforehand", LOOP_HELP),
    cst.For: (
        "a `for` statement works by mutation, which the tensor language does not have",
        LOOP_HELP,
    ),
    cst.If: (
        "an `if` statement chooses between statements",
        "write `a if p else b` as an expression",
    ),
    cst.AugAssign: ("an augmented assignment is a mutation", "give the result a name: `y = x + …`"),
    cst.With: ("a `with` statement is no expression", "move it to the caller"),
    cst.Try: ("a `try` statement is no expression", "move it to the caller"),
    cst.Assert: ("an `assert` is no expression", "move it to the caller"),
    cst.Raise: ("a `raise` is no expression", "move it to the caller"),
    cst.Del: ("`del` is a mutation", "let the name go out of use"),
    cst.Global: ("`global` is a mutation", "return the value"),
    cst.Nonlocal: ("`nonlocal` is a mutation", "return the value"),
    cst.ClassDef: ("a class is no tensor", "return a tuple"),
    cst.Lambda: (
        "a `lambda` inside a tensor function",
        "define a function with @tensor and call it",
    ),
    cst.NamedExpr: ("`:=` inside an expression", "assign it in a statement of its own"),
    cst.DictComp: ("a dict is no tensor", "use arrays, indexed by `range`"),
    cst.SetComp: ("a set is no tensor", "use arrays, indexed by `range`"),
    cst.Dict: ("a dict is no tensor", "return a tuple"),
    cst.Yield: ("a generator function has no size", "return an array: `[… for i in range(n)]`"),
    cst.Await: ("`await` inside a tensor function", "await in the caller and pass the array"),
    cst.Import: ("an `import` inside a tensor function", "import at the top of the file or cell"),
    cst.ImportFrom: (
        "an `import` inside a tensor function",
        "import at the top of the file or cell",
    ),
    cst.StarredElement: ("`*` in a tuple or list", "write its parts out"),
    cst.FormattedString: ("a string is no tensor", "take it out"),
}


@dataclass(frozen=True)
class Rewritten:
    """A rewritten function, to be called with the stand-ins of its parameters, and the places
    that its calls name. `captured` gives the values that it takes from outside, as they are now.
    """

    build: Callable[[Any], Callable[..., Any]]
    places: tuple[Place, ...]
    filename: str
    lines: dict[int, str]
    text: str
    captured: Callable[[], tuple[Any, ...]]

    def place_of(self, error: BaseException) -> Place | None:
        """The source line that an exception passed through last."""
        found, traceback = None, error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename == self.filename:
                found = traceback.tb_lineno if traceback.tb_lineno in self.lines else found
            traceback = traceback.tb_next
        if found is None:
            return None
        text = self.lines[found]
        start = len(text) - len(text.lstrip())
        return Place(self.filename, found, start, len(text.rstrip()), text)


def rewrite(function: Callable[..., Any]) -> Rewritten:
    """Rewrite a Python function. Raises TensorError where it uses syntax that the language does
    not have.
    """
    source, first, filename = _source(function)
    rewriter = _Rewriter(source.splitlines(), first, filename)
    try:
        with _deep():
            text = MetadataWrapper(cst.parse_module(source)).visit(rewriter).code
        # Blank lines keep the line numbers of tracebacks those of the source.
        code = compile("\n" * (first - 1) + text, filename, "exec")
    except cst.ParserSyntaxError as error:
        message = f"`{function.__name__}` is not written as one function"
        raise TensorError(message, "define it with `def`") from error
    except (RecursionError, SyntaxError) as error:
        message = f"an expression of `{function.__name__}` is nested too deeply"
        raise TensorError(message, "give its parts names") from error

    unbound = {*function.__code__.co_freevars, *_globals(function.__code__)}
    taken = [dotted for dotted in rewriter.names if dotted.split(".")[0] in unbound]

    def outside() -> dict[str, Any]:
        return {**function.__globals__, **inspect.getclosurevars(function).nonlocals}

    def captured() -> tuple[Any, ...]:
        values = outside()
        return tuple(_captured(dotted, values) for dotted in taken)

    def build(tracer: Any) -> Callable[..., Any]:
        namespace = {**outside(), TRACER: tracer}
        exec(code, namespace)  # noqa: S102 - the user's own function, rewritten
        made = namespace[function.__name__]
        assert callable(made)
        # Inside, the function's own name is what it is outside: the tensor function.
        namespace[function.__name__] = function.__globals__.get(function.__name__, made)
        return cast("Callable[..., Any]", made)

    lines = dict(enumerate(source.splitlines(), first))
    return Rewritten(build, tuple(rewriter.places), filename, lines, text, captured)


@contextmanager
def _deep() -> Iterator[None]:
    """Room for the parser's recursion, which goes as deep as a sum has terms."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEP))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _globals(code: CodeType) -> Iterator[str]:
    """The global names that a function reads, in its comprehensions too."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _captured(dotted: str, names: Mapping[str, Any]) -> Any:
    """The value of a name from outside, or of an attribute of a module."""
    root, *attributes = dotted.split(".")
    value = names.get(root)
    for attribute in attributes:
        if not isinstance(value, ModuleType):
            break
        value = getattr(value, attribute, None)
    return value


def _source(function: Callable[..., Any]) -> tuple[str, int, str]:
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        message = f"the source of `{getattr(function, '__name__', function)}` cannot be found"
        raise TensorError(message, "define it with `def` in a file or a notebook cell") from error
    if function.__name__ == "<lambda>":
        raise TensorError("a lambda has no statement of its own", "define it with `def`")
    return textwrap.dedent("".join(lines)), first, function.__code__.co_filename


class _Rewriter(cst.CSTTransformer):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, lines: list[str], first: int, filename: str) -> None:
        super().__init__()
        self.lines = lines
        self.first = first
        self.filename = filename
        self.places: list[Place] = []
        self.depth = 0
        self.consumed: set[cst.CSTNode] = set()
        self.chained: dict[cst.BinaryOperation, cst.BinaryOperation] = {}  # each to the innermost
        self.ranges: set[cst.CSTNode] = set()
        self.names: dict[str, None] = {}  # that the function uses, those of modules dotted

    # Places and errors

    def place(self, node: cst.CSTNode) -> Place:
        at = self.get_metadata(PositionProvider, node)
        text = self.lines[at.start.line - 1]
        end = at.end.column if at.end.line == at.start.line else len(text)
        line = self.first + at.start.line - 1
        return Place(self.filename, line, at.start.column, end, text)

    def refuse(self, node: cst.CSTNode, message: str, help_: str) -> TensorError:
        return TensorError(message, help_, self.place(node))

    def call(self, node: cst.CSTNode, method: str, *arguments: cst.BaseExpression) -> cst.Call:
        """`__tensor__.method(place, …)`."""
        self.places.append(self.place(node))
        number = cst.Integer(str(len(self.places) - 1))
        return cst.Call(
            cst.Attribute(cst.Name(TRACER), cst.Name(method)),
            [cst.Arg(number), *(cst.Arg(_bracketed(a)) for a in arguments)],
        )

    def on_visit(self, node: cst.CSTNode) -> bool:
        refused = _REFUSED.get(type(node))
        if refused is not None:
            shown = node
            if isinstance(node, cst.While | cst.For | cst.If):
                # The caret goes under the statement's first line only.
                at = self.place(node)
                end = len(at.text.rstrip())
                raise TensorError(*refused, Place(at.filename, at.line, at.column, end, at.text))
            raise self.refuse(shown, *refused)
        return super().on_visit(node)

    # The function itself

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        if self.depth:
            raise self.refuse(
                node.name, "a function inside a tensor function", "define it outside, with @tensor"
            )
        if node.asynchronous:
            raise self.refuse(node.name, "an `async` function returns no tensor", "use plain `def`")
        self.depth += 1

    def visit_FunctionDef_params(self, node: cst.FunctionDef) -> None:
        for star in (node.params.star_arg, node.params.star_kwarg):
            if isinstance(star, cst.Param):
                message = f"`*{star.name.value}` has no type"
                raise self.refuse(star, message, "name each parameter")

    def visit_Decorator(self, _node: cst.Decorator) -> bool:
        return False

    def visit_Annotation(self, _node: cst.Annotation) -> bool:
        return False

    def visit_Param(self, _node: cst.Param) -> bool:
        return False

    def leave_Param(self, _node: cst.Param, updated: cst.Param) -> cst.Param:
        return updated.with_changes(annotation=None, default=None, equal=cst.MaybeSentinel.DEFAULT)

    def leave_FunctionDef(self, node: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        last: cst.CSTNode = node.body.body[-1]
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        if not isinstance(last, cst.Return):
            raise self.refuse(
                node.name, f"`{node.name.value}` returns nothing", "end it with `return …`"
            )
        above = self.get_metadata(PositionProvider, node.name).start.line - 1
        blank = [cst.EmptyLine()] * above
        return updated.with_changes(decorators=[], returns=None, leading_lines=blank)

    # Statements

    def visit_Expr(self, node: cst.Expr) -> bool:
        if isinstance(node.value, cst.SimpleString | cst.ConcatenatedString):
            return False
        raise self.refuse(
            node, "this statement's value goes nowhere", "give it a name, or take it out"
        )

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is None:
            raise self.refuse(node, "this returns nothing", "end the function with `return …`")

    def leave_Return(self, node: cst.Return, updated: cst.Return) -> cst.Return:
        assert updated.value is not None
        value = self.call(node, "result", updated.value)
        return updated.with_changes(value=value, whitespace_after_return=cst.SimpleWhitespace(" "))

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._check_target(target.target)

    def visit_AssignTarget(self, _node: cst.AssignTarget) -> bool:
        return False

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._check_target(node.target)

    def _check_target(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                self._check_target(element.value)
            if all(isinstance(element.value, cst.Name) for element in target.elements):
                return
        elif isinstance(target, cst.Name):
            return
        if isinstance(target, cst.Subscript):
            raise self.refuse(
                target,
                "an assignment to an entry is a mutation",
                "make the array in one go: `y = [… if i == k else … for i in range(n)]`",
            )
        raise self.refuse(
            target, "this target is a mutation or too deep", "assign to names, one level deep"
        )

    def leave_Assign(self, node: cst.Assign, updated: cst.Assign) -> cst.Assign:
        target = node.targets[0].target
        return updated.with_changes(value=self._bound(node, target, updated.value))

    def leave_AnnAssign(
        self, node: cst.AnnAssign, updated: cst.AnnAssign
    ) -> cst.Assign | cst.AnnAssign:
        if updated.value is None:
            return updated
        value = self._bound(node, node.target, updated.value)
        return cst.Assign([cst.AssignTarget(updated.target)], value)

    def _bound(
        self, node: cst.CSTNode, target: cst.BaseExpression, value: cst.BaseExpression
    ) -> cst.Call:
        if isinstance(target, cst.Tuple | cst.List):
            names = [e.value.value for e in target.elements if isinstance(e.value, cst.Name)]
            elements = [cst.Element(cst.SimpleString(repr(name))) for name in names]
            return self.call(node, "unpack", cst.Tuple(elements), value)
        assert isinstance(target, cst.Name)
        return self.call(node, "bind", cst.SimpleString(repr(target.value)), value)

    # Names

    def visit_Name(self, node: cst.Name) -> None:
        self.names[node.value] = None

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if dotted := get_full_name_for_node(node):
            self.names[dotted] = None

    # Comprehensions

    def visit_Call(self, node: cst.Call) -> None:
        if m.matches(node.func, m.Name("sum") | m.Name("any") | m.Name("all")):
            for argument in node.args[:1]:
                if isinstance(argument.value, cst.GeneratorExp | cst.ListComp):
                    self.consumed.add(argument.value)

    def visit_ListComp(self, node: cst.ListComp) -> None:
        self._check_ranges(node)
        if node in self.consumed:
            return
        if node.for_in.ifs:
            raise self.refuse(
                node.for_in.ifs[0],
                "this filter makes the size depend on the condition",
                "keep every entry: `[e if p else 0 for i in range(n)]`",
            )
        if node.for_in.inner_for_in is not None:
            raise self.refuse(
                node.for_in.inner_for_in,
                "two `for`s in one list make a flat list, whose index is not affine",
                "nest the lists: `[[… for j in range(m)] for i in range(n)]`",
            )

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> None:
        self._check_ranges(node)
        if node not in self.consumed:
            raise self.refuse(
                node, "a generator has no entries to read", "make a list: `[… for i in range(n)]`"
            )

    def _check_ranges(self, node: cst.ListComp | cst.GeneratorExp) -> None:
        for_in: cst.CompFor | None = node.for_in
        while for_in is not None:
            if not m.matches(for_in.iter, m.Call(func=m.Name("range"))):
                text = cst.Module([]).code_for_node(for_in.iter)
                raise self.refuse(
                    for_in.iter,
                    f"this loops over `{text}`, not over a range",
                    f"loop over its indices: `for i in range(len({text}))`",
                )
            self.ranges.add(for_in.iter)
            if not isinstance(for_in.target, cst.Name):
                raise self.refuse(
                    for_in.target, "an index is one name", "write `for i in range(n)`"
                )
            for_in = for_in.inner_for_in

    def leave_ListComp(self, node: cst.ListComp, updated: cst.ListComp) -> cst.BaseExpression:
        if node in self.consumed:
            return updated
        return self._loop("generate", node, updated.for_in, updated.elt)

    def _loop(
        self,
        method: str,
        node: cst.CSTNode,
        for_in: cst.CompFor,
        body: cst.BaseExpression,
    ) -> cst.Call:
        """`__tensor__.method(place, "i", bounds, lambda i: body)`, inner loops and conditions
        within.
        """
        if for_in.inner_for_in is not None:
            body = self._loop(method, node, for_in.inner_for_in, body)
        for condition in reversed(for_in.ifs):
            given = "given" if method == "sum" else f"given_{method}"
            body = self.call(node, given, condition.test, _lambda(None, body))
        assert isinstance(for_in.target, cst.Name)
        name = for_in.target.value
        return self.call(
            node, method, cst.SimpleString(repr(name)), for_in.iter, _lambda(name, body)
        )

    # Expressions

    def leave_Call(self, node: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if node in self.ranges:
            return self.call(node, "range", node.func, *(a.value for a in updated.args))
        first = node.args[0].value if node.args else None
        if first is not None and first in self.consumed:
            loop = updated.args[0].value
            assert isinstance(loop, cst.GeneratorExp | cst.ListComp)
            if len(node.args) > 1:
                raise self.refuse(node.args[1], "a sum starts from 0", "add the start to it")
            assert isinstance(node.func, cst.Name)
            name = node.func.value
            value = self._loop(name, node, loop.for_in, loop.elt)
            return self.call(node, "builtin", cst.SimpleString(repr(name)), node.func, value)
        if any(argument.star for argument in node.args):
            raise self.refuse(node, "`*` in a call", "write its arguments out")
        call = self.call(node, "call", updated.func)
        return call.with_changes(args=[*call.args, *updated.args])

    def leave_IfExp(self, node: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        branches = (_lambda(None, updated.body), _lambda(None, updated.orelse))
        return self.call(node, "choose", updated.test, *branches)

    def leave_BooleanOperation(
        self, node: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        method = "both" if isinstance(node.operator, cst.And) else "either"
        return self.call(node, method, updated.left, updated.right)

    def leave_UnaryOperation(
        self, node: cst.UnaryOperation, updated: cst.UnaryOperation
    ) -> cst.BaseExpression:
        method = {cst.Not: "negated", cst.BitInvert: "negated", cst.Minus: "minus"}.get(
            type(node.operator), "plus"
        )
        return self.call(node, method, updated.expression)

    def leave_Comparison(self, node: cst.Comparison, updated: cst.Comparison) -> cst.BaseExpression:
        ops = [_code(target.operator) for target in node.comparisons]
        listed = cst.Tuple([cst.Element(cst.SimpleString(repr(op))) for op in ops])
        sides = [updated.left, *(target.comparator for target in updated.comparisons)]
        return self.call(node, "compare", listed, *sides)

    def visit_BinaryOperation(self, node: cst.BinaryOperation) -> None:
        if node not in self.chained:
            chain = list(_chain(node))
            if len(chain) > LONG:
                self.chained.update(dict.fromkeys(chain, chain[-1]))

    def leave_BinaryOperation(
        self, node: cst.BinaryOperation, updated: cst.BinaryOperation
    ) -> cst.BaseExpression:
        op = cst.SimpleString(repr(_code(node.operator)))
        if node in self.chained:
            # The calls for the operations of a chain would be nested as deep as it is long.
            place = self.call(node, "at").args[0]
            step = cst.Arg(cst.Tuple([cst.Element(place.value), cst.Element(op)]))
            right = cst.Arg(_bracketed(updated.right))
            if node is self.chained[node]:
                return cst.Call(
                    cst.Attribute(cst.Name(TRACER), cst.Name("chain")),
                    [cst.Arg(_bracketed(updated.left)), step, right],
                )
            assert isinstance(updated.left, cst.Call)
            return updated.left.with_changes(args=[*updated.left.args, step, right])
        return self.call(node, "binary", op, updated.left, updated.right)

    def visit_Subscript(self, node: cst.Subscript) -> None:
        for element in node.slice:
            if isinstance(element.slice, cst.Slice):
                raise self.refuse(
                    node, "a slice has no index", "name the index: `[A[i, 0] for i in range(n)]`"
                )

    def leave_Subscript(self, node: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        places = [e.slice.value for e in updated.slice if isinstance(e.slice, cst.Index)]
        return self.call(node, "entry", updated.value, *places)

    def leave_List(self, node: cst.List, updated: cst.List) -> cst.BaseExpression:
        return self.call(node, "array", updated)


def _bracketed(e: cst.BaseExpression) -> cst.BaseExpression:
    """A bare tuple, as in `return a, b`, needs brackets to be one argument."""
    if isinstance(e, cst.Tuple) and not e.lpar:
        return e.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return e


def _chain(node: cst.BaseExpression) -> Iterator[cst.BinaryOperation]:
    """The operations of `a + b - c + …`, or of `a * b * c * …`, the last first."""
    kinds = next((k for k in _CHAINS if m.matches(node, m.BinaryOperation(operator=k))), None)
    while kinds and isinstance(node, cst.BinaryOperation) and m.matches(node.operator, kinds):
        yield node
        node = node.left


_CHAINS = (m.Add() | m.Subtract(), m.OneOf(m.Multiply()))


def _code(operator: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(operator).strip()


def _lambda(parameter: str | None, body: cst.BaseExpression) -> cst.Lambda:
    parameters = [cst.Param(cst.Name(parameter))] if parameter else []
    return cst.Lambda(
        cst.Parameters(parameters),
        body,
        lpar=[cst.LeftParen()],
        rpar=[cst.RightParen()],
        whitespace_after_lambda=cst.SimpleWhitespace(" ")
        if parameter
        else cst.MaybeSentinel.DEFAULT,
    )
