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

import ast
import builtins
import dis
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from ..language.depth import deep_recursion
from ..language.errors import Place, TensorError
from .captured_data import Surroundings
from .lambdas import LAMBDA, NAME, as_definition

OURS = str(Path(__file__).parents[1])  # the folder of the package's own frames
TRACER = "__tensor__"
OUTSIDE = "__outside__"  # where the function's names from outside are looked up
MARK = "#@"  # before the number of the source line that a rewritten statement ends on
LONG = 32  # operands of one sum or product above which it is built as a balanced tree

_REFUSED: dict[type[cst.CSTNode], tuple[str, str]] = {
    cst.With: ("a `with` statement is not an expression", "move it to the caller"),
    cst.Try: ("a `try` statement is not an expression", "move it to the caller"),
    cst.Del: ("`del` is a mutation", "let the name go out of use"),
    cst.Global: ("`global` is a mutation", "return the value"),
    cst.Nonlocal: ("`nonlocal` is a mutation", "return the value"),
    cst.ClassDef: ("a class is not a tensor", "return a tuple"),
    cst.NamedExpr: ("`:=` inside an expression", "assign it in a statement of its own"),
    cst.SetComp: ("a set is not a tensor", "use arrays, indexed by `range`"),
    cst.Yield: ("a generator function has no size", "return an array: `[… for i in range(n)]`"),
    cst.Await: ("`await` inside a tensor function", "await in the caller and pass the array"),
    cst.FormattedString: ("a string is not a tensor", "take it out"),
}


#: Calls that show what a function computes; `f.debug(…)` makes them.
DEBUGGING = frozenset(
    "print breakpoint pprint pprint.pprint pdb.set_trace jax.debug.print jax.debug.breakpoint".split()
)

#: The comment that bounds a `while` loop: a number, or a name that is one.
AT_MOST = re.compile(r"# at most (\w+)\b")

#: What changes a list, and what to write instead.
_IN_PLACE = {
    "insert": "append, and reverse the list afterwards: `y[::-1]`",
    "pop": "read the entry, `y[-1]`, and go on with the rest, `y = y[:-1]`",
    "at": "write a loop: `for e in range(len(k)): y[k[e]] = np.maximum(y[k[e]], x[e])`; `np.add.at` works",
    "fill": "write `y = np.full(n, 0.5)`",
    "fill_diagonal": "write a loop: `for i in range(n): A[i, i] = 0.5`",
    "copyto": "write `y = np.where(mask, x, y)`",
    "putmask": "write `y = np.where(mask, x, y)`",
    "put": "write a loop: `for e in range(len(k)): y[k[e]] = x[e]`",
}


@dataclass(frozen=True)
class Rewritten:
    """A rewritten function, to be called with the stand-ins of its parameters, and the places
    that its calls name. `captured` gives the values that it takes from outside, as they are now, and `debugging` is where it
    prints or stops in a debugger.
    """

    build: Callable[[Any], Callable[..., Any]]
    places: tuple[Place, ...]
    filename: str
    lines: dict[int, str]
    text: str
    captured: Callable[[], tuple[Any, ...]]
    debugging: tuple[Place, ...] = ()

    def raised(self, error: BaseException) -> bool:
        """Whether the program itself raised an exception: its own lines, or a function of Python's or NumPy's that it called."""
        traceback, own = error.__traceback__, False
        while traceback is not None:
            filename = traceback.tb_frame.f_code.co_filename
            own = filename == self.filename or (own and not filename.startswith(OURS))
            traceback = traceback.tb_next
        return own

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
        with deep_recursion():  # the parser goes as deep as a sum has terms
            module = cst.parse_module(source).visit(_Unexplained())
            text = MetadataWrapper(module).visit(rewriter).code
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        outside = _looked_up(function, cells) - rewriter.assigned.keys()
        code = _compiled(text, first, filename, rewriter.marks, outside)
    except cst.ParserSyntaxError as error:
        message = f"`{function.__name__}` is not written as one function"
        raise TensorError(message, "define it with `def`") from error
    except (RecursionError, MemoryError, SyntaxError) as error:
        message = f"an expression of `{function.__name__}` is nested too deeply"
        raise TensorError(message, "give its parts names") from error

    unbound = {*cells, *_globals(function.__code__), *rewriter.in_comments}
    paths = [tuple(dotted.split(".")) for dotted in rewriter.names]
    taken = [path for path in paths if path[0] in unbound]
    plain = [path[0] for path in taken if not path[1:] and path[0] not in cells]
    others = [path for path in taken if path[1:] or path[0] in cells]
    names = function.__globals__
    surroundings = Surroundings(lambda name: _captured((name,), cells, names))

    def captured() -> tuple[Any, ...]:
        found = [_captured(path, cells, names) for path in others]
        return (*map(names.get, plain), *found)  # at each call, so in as little time as can be

    def build(tracer: Any) -> Callable[..., Any]:
        enclosing = inspect.getclosurevars(function).nonlocals
        namespace = {**function.__globals__, **enclosing, TRACER: tracer}
        namespace[OUTSIDE] = surroundings
        exec(code, namespace)  # noqa: S102 - the user's own function, rewritten
        name = function.__code__.co_name  # which `def` gives it, whatever it is called since
        name = NAME if name == LAMBDA else name
        made = namespace[name]
        assert callable(made)
        # Inside, the function's own name is what it is outside: the tensor function.
        namespace[name] = function.__globals__.get(name, made)
        return cast("Callable[..., Any]", made)

    lines = dict(enumerate(source.splitlines(), first))
    debugging = tuple(rewriter.debugging)
    return Rewritten(build, tuple(rewriter.places), filename, lines, text, captured, debugging)


def _looked_up(function: Callable[..., Any], cells: Mapping[str, CellType]) -> set[str]:
    """The names from outside that may have data: all but those of modules, functions, numbers and what is built in."""
    names = {*cells, *_globals(function.__code__)}
    values = {x: _captured((x,), cells, function.__globals__) for x in names}
    plain = bool | int | float | complex | str | type | ModuleType
    return {
        x
        for x, value in values.items()
        if not (isinstance(value, plain) or callable(value) or (value is None and _is_built_in(x)))
    }


def _is_built_in(name: str) -> bool:
    return hasattr(builtins, name)


class _Outside(ast.NodeTransformer):
    """Names from outside as `__tensor__.named_outside(__outside__, "X", X)`."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        look = ast.Attribute(ast.Name(TRACER, ast.Load()), "named_outside", ast.Load())
        given: list[ast.expr] = [ast.Name(OUTSIDE, ast.Load()), ast.Constant(node.id), node]
        made = ast.copy_location(ast.Call(look, given, []), node)
        return ast.fix_missing_locations(made)


def _compiled(text: str, first: int, filename: str, marked: bool, outside: set[str]) -> CodeType:
    """The code, with the line numbers of the source, where errors are to be shown."""
    if not marked:
        # Blank lines keep the line numbers of tracebacks those of the source.
        plain = "\n" * (first - 1) + text
        read = _Outside(outside).visit(ast.parse(plain)) if outside else plain
        return compile(read, filename, "exec")
    lines = text.splitlines()
    source = [1] * (len(lines) + 1)
    after = 1
    for k in range(len(lines), 0, -1):
        found = re.search(MARK + r"(\d+)$", lines[k - 1])
        after = int(found[1]) if found else max(1, after - 1)
        source[k] = after + first - 1
    tree = ast.parse(text)
    if outside:
        tree = _Outside(outside).visit(tree)
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            place: Any = node
            place.lineno = place.end_lineno = source[place.lineno]
            place.col_offset = place.end_col_offset = 0
    return compile(tree, filename, "exec")


def _globals(code: CodeType) -> Iterator[str]:
    """The global names that a function reads, in its comprehensions too."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _dotted(node: cst.BaseExpression) -> str | None:
    """`a.b.c` of names alone."""
    if isinstance(node, cst.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr.value}"
    return node.value if isinstance(node, cst.Name) else None


def _captured(
    path: tuple[str, ...], cells: Mapping[str, CellType], names: Mapping[str, Any]
) -> Any:
    """The value of a name from outside, or of its attribute; None where it has none."""
    value: Any = None
    with suppress(Exception):  # a cell that is empty yet; whatever a property raises
        value = cells[path[0]].cell_contents if path[0] in cells else names.get(path[0])
        for attribute in path[1:]:
            value = getattr(value, attribute, None)
    return value


def _source(function: Callable[..., Any]) -> tuple[str, int, str]:
    if isinstance(function, FunctionType) and function.__code__.co_name == LAMBDA:
        found = as_definition(function)
        if found is not None:
            return *found, function.__code__.co_filename
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        message = f"the source of `{getattr(function, '__name__', function)}` cannot be found"
        raise TensorError(message, "define it with `def` in a file or a notebook cell") from error
    if function.__code__.co_name == LAMBDA:
        raise TensorError("the source of this lambda cannot be told", "define it with `def`")
    return textwrap.dedent("".join(lines)), first, function.__code__.co_filename


def is_debugging(node: cst.BaseExpression) -> bool:
    """Whether an expression prints or stops in a debugger, which compiled calls leave out."""
    return isinstance(node, cst.Call) and _dotted(node.func) in DEBUGGING


class _Unexplained(cst.CSTTransformer):
    """Takes the messages of assertions away, which need not be expressions of the language."""

    def leave_Assert(self, original_node: cst.Assert, updated_node: cst.Assert) -> cst.Assert:
        return updated_node.with_changes(msg=None, comma=cst.MaybeSentinel.DEFAULT)


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
        self.lambdas = 0
        self.loops = 0
        self.around = 0  # `for` and `while` statements around, in the same function
        self.outer: list[int] = []  # those around each function around
        self.marks = False  # whether lines are marked with those of the source
        self.made = 0  # functions made of a statement's parts
        self.elifs: set[cst.If] = set()
        self.branches: set[cst.CSTNode] = set()  # blocks of `if` statements
        self.jumping: list[tuple[cst.If, cst.If]] = []
        self.returning: list[tuple[cst.If, cst.If]] = []
        self.assigned: dict[str, bool] = {}  # names that the function assigns to
        self.names: dict[str, None] = {}  # that the function uses, with their attributes dotted
        self.dotted: set[cst.CSTNode] = set()  # what is part of a dotted name
        self.sides: dict[cst.CSTNode, list[cst.BaseExpression]] = {}  # of comparisons, rewritten
        self.in_comments: set[str] = set()  # names that only comments have
        self.occurring: Counter[str] = Counter()  # names, and how often the function has them
        self.debugging: list[Place] = []  # statements that only the Python function runs

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
            raise self.refuse(node, *refused)
        return super().on_visit(node)

    # The function itself

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        if self.depth:
            self.marks = True
        else:
            self.occurring = _occurrences(node.body)
            kinds = (cst.For, cst.While, cst.If, cst.FunctionDef)
            self.marks = any(isinstance(inner, kinds) for inner in _nodes(node.body))
        self.outer.append(self.around)
        self.around = 0
        self.assigned |= changed_names(node.body)
        if node.asynchronous:
            raise self.refuse(node.name, "an `async` function returns no tensor", "use plain `def`")
        self.depth += 1

    def visit_Decorator(self, _node: cst.Decorator) -> bool:
        return self.depth > 1

    def visit_Annotation(self, _node: cst.Annotation) -> bool:
        return False

    def visit_Param(self, _node: cst.Param) -> bool:
        return self.depth > 1 or self.lambdas > 0

    def visit_Lambda(self, _node: cst.Lambda) -> None:
        self.lambdas += 1

    def leave_Lambda(self, _node: cst.Lambda, updated: cst.Lambda) -> cst.BaseExpression:
        self.lambdas -= 1
        return updated.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def leave_Param(self, _node: cst.Param, updated: cst.Param) -> cst.Param:
        if self.depth > 1 or self.lambdas:
            return updated.with_changes(annotation=None)
        return updated.with_changes(annotation=None, default=None, equal=cst.MaybeSentinel.DEFAULT)

    def leave_FunctionDef(
        self, node: cst.FunctionDef, updated: cst.FunctionDef
    ) -> cst.FunctionDef | cst.FlattenSentinel[cst.BaseStatement]:
        self.depth -= 1
        self.around = self.outer.pop()
        if not returns(node.body):
            raise self.refuse(
                node.name, f"`{node.name.value}` returns nothing", "end it with `return …`"
            )
        if self.depth:
            made = self.marked_header(node, updated.with_changes(returns=None, decorators=[]))
            name = node.name.value
            value: cst.BaseExpression = cst.Name(name)
            for decorator in reversed(updated.decorators):
                value = self.call(node.name, "call", decorator.decorator, value)
            again = self._line(node, _assigned([name], value)) if updated.decorators else None
            return cst.FlattenSentinel([made, again]) if again else made
        above = self.get_metadata(PositionProvider, node.name).start.line - 1
        blank = [cst.EmptyLine()] * above
        return updated.with_changes(decorators=[], returns=None, leading_lines=blank)

    # Statements

    def visit_Expr(self, node: cst.Expr) -> bool:
        if isinstance(node.value, cst.SimpleString | cst.ConcatenatedString):
            return False
        if is_debugging(node.value):
            return False
        if _changed_by(node.value) or isinstance(node.value, cst.Ellipsis):
            return True
        match node.value:
            case cst.Yield():
                raise self.refuse(
                    node,
                    "a tensor function is not a generator",
                    "return an array, or a list, of all values",
                )
            case cst.Call(func=cst.Attribute(attr=cst.Name(value=name))) if name in _IN_PLACE:
                raise self.refuse(
                    node, f"`{name}` changes in place what it is given", _IN_PLACE[name]
                )
        raise self.refuse(
            node, "this statement's value goes nowhere", "give it a name, or take it out"
        )

    def leave_Expr(self, node: cst.Expr, updated: cst.Expr) -> cst.BaseSmallStatement:
        if is_debugging(node.value):
            self.debugging.append(self.place(node))
            return cst.Pass()
        change = _changed_by(node.value)
        if change is None:
            return updated
        assert isinstance(updated.value, cst.Call)
        how, target = change
        assert isinstance(node.value, cst.Call)
        given = [
            arg.value
            for arg in updated.value.args[len(updated.value.args) - len(node.value.args) :]
        ]
        if how == "append":
            return _assigned([target.value], self.call(node, how, target, given[-1]))
        name, values = cst.SimpleString(repr(target.value)), given[how not in METHODS :]
        kind = cst.SimpleString(repr(how))
        return _assigned([target.value], self.call(node, "changed", kind, name, target, *values))

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is None:
            raise self.refuse(node, "this returns nothing", "end the function with `return …`")

    def visit_Raise(self, _node: cst.Raise) -> bool:
        return False

    def leave_Raise(self, node: cst.Raise, _updated: cst.Raise) -> cst.Return | cst.Expr:
        error = cst.SimpleString(repr(_code(node.exc) if node.exc else "raise"))
        call = self.call(node, "raised", error)
        return cst.Expr(call) if self.around else cst.Return(call, cst.SimpleWhitespace(" "))

    def leave_Assert(self, node: cst.Assert, updated: cst.Assert) -> cst.Expr:
        return cst.Expr(self.call(node, "asserted", updated.test))

    def leave_Return(self, node: cst.Return, updated: cst.Return) -> cst.Return:
        assert updated.value is not None
        value = self.call(node, "result", updated.value)
        return updated.with_changes(value=value, whitespace_after_return=cst.SimpleWhitespace(" "))

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            self._check_target(target.target)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return isinstance(node.target, cst.Subscript) or _has_entries(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self._check_target(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self._check_target(node.target)

    def _check_target(self, target: cst.BaseExpression) -> None:
        if isinstance(target, cst.Tuple | cst.List):
            for element in target.elements:
                if _has_entries(element.value):
                    raise self.refuse(
                        element.value,
                        "an entry in a tuple of targets that is in another",
                        "assign in statements of their own",
                    )
                self._check_target(element.value)
            return
        if isinstance(target, cst.Name) or isinstance(_root(target), cst.Name):
            return
        raise self.refuse(
            target, "this target changes something outside", "assign to names and to entries"
        )

    def leave_Assign(
        self, node: cst.Assign, updated: cst.Assign
    ) -> cst.Assign | cst.FlattenSentinel[cst.Assign]:
        target = node.targets[0].target
        if len(node.targets) > 1:
            return cst.FlattenSentinel(self._assigned_to_all(node, updated))
        if isinstance(target, cst.Subscript):
            return self._stored(node, target, updated.targets[0].target, "", updated.value)
        if _has_entries(target):
            return cst.FlattenSentinel(self._assigned_to_entries(node, updated))
        added = self_added(node)
        if added is not None and self.loops:
            name, operator = added
            assert isinstance(updated.value, cst.Call)
            return self._augmented(node, name, operator, updated.value.args[-1].value, "anew")
        if isinstance(target, cst.Tuple | cst.List):
            names = _flat(target)
            return _assigned(names, self._bound(node, target, updated.value), always=True)
        return updated.with_changes(value=self._bound(node, target, updated.value))

    def _assigned_to_all(self, node: cst.Assign, updated: cst.Assign) -> Iterator[cst.Assign]:
        """`a = b[0] = e`, one target after the other as in Python."""
        same = cst.Name("__same__")
        yield _assigned([same.value], self._bound(node, same, updated.value))
        for one, made in zip(node.targets, updated.targets, strict=True):
            match one.target:
                case cst.Subscript():
                    yield self._stored(node, one.target, made.target, "", same)
                case cst.Tuple() | cst.List():
                    names = _flat(one.target)
                    yield _assigned(names, self._bound(node, one.target, same), always=True)
                case target:
                    yield cst.Assign([cst.AssignTarget(target)], same)

    def _assigned_to_entries(self, node: cst.Assign, updated: cst.Assign) -> Iterator[cst.Assign]:
        """`y[i], y[j] = a, b`: both values first, and then one target after the other."""
        target = _several(node.targets[0].target)
        made = _several(updated.targets[0].target)
        self.made += 1
        pairs = [
            (one.value, read.value)
            for one, read in zip(target.elements, made.elements, strict=True)
        ]
        names: list[cst.BaseExpression] = [
            cst.Name(f"__entry_{self.made}_{j}") if isinstance(one, cst.Subscript) else one
            for j, (one, _) in enumerate(pairs)
        ]
        plain = target.with_changes(
            elements=[
                element.with_changes(value=name)
                for element, name in zip(target.elements, names, strict=True)
            ]
        )
        yield _assigned(_flat(plain), self._bound(node, plain, updated.value), always=True)
        for (one, read), name in zip(pairs, names, strict=True):
            if isinstance(one, cst.Subscript):
                yield self._stored(node, one, read, "", name)

    def leave_AnnAssign(
        self, node: cst.AnnAssign, updated: cst.AnnAssign
    ) -> cst.Assign | cst.AnnAssign:
        if updated.value is None:
            return updated
        value = self._bound(node, node.target, updated.value)
        return cst.Assign([cst.AssignTarget(updated.target)], value)

    def leave_AugAssign(self, node: cst.AugAssign, updated: cst.AugAssign) -> cst.Assign:
        operator = _code(node.operator).removesuffix("=")
        if isinstance(node.target, cst.Subscript):
            return self._stored(node, node.target, updated.target, operator, updated.value)
        assert isinstance(node.target, cst.Name)
        return self._augmented(node, node.target.value, operator, updated.value)

    def _augmented(
        self,
        node: cst.CSTNode,
        name: str,
        operator: str,
        value: cst.BaseExpression,
        method: str = "augment",
    ) -> cst.Assign:
        parts = cst.SimpleString(repr(operator)), cst.SimpleString(repr(name)), self.current(name)
        return _assigned([name], self.call(node, method, *parts, value))

    def _stored(
        self,
        node: cst.CSTNode,
        target: cst.Subscript,
        updated: cst.BaseExpression,
        operator: str,
        value: cst.BaseExpression,
    ) -> cst.Assign:
        """`y[i] = e` as `y = __tensor__.store(…)`. The target has been rewritten as a read, whose
        arguments are the places.
        """
        name = cst.ensure_type(_root(target), cst.Name).value
        places: list[cst.BaseExpression] = []
        while isinstance(updated, cst.Call):
            array, *rest = [a.value for a in updated.args[1:]]
            if places:  # `y[i][j]`: a row, and no part that NumPy may have copied
                rest = [self.call(node, "one_place", place) for place in rest]
            places = [*rest, *places]
            updated = array
        listed = cst.Tuple([cst.Element(place) for place in places])
        parts = cst.SimpleString(repr(operator)), cst.SimpleString(repr(name)), self.current(name)
        return _assigned([name], self.call(node, "store", *parts, listed, value))

    def _bound(
        self, node: cst.CSTNode, target: cst.BaseExpression, value: cst.BaseExpression
    ) -> cst.Call:
        if isinstance(target, cst.Tuple | cst.List):
            return self.call(node, "unpack", _pattern(target), value)
        assert isinstance(target, cst.Name)
        return self.call(node, "bind", cst.SimpleString(repr(target.value)), value)

    def current(self, name: str, local: bool = False) -> cst.Call:
        """What a name means now, or that it means nothing yet."""
        get = cst.Attribute(cst.Name(TRACER), cst.Name("current"))
        given = [_lambda(None, cst.Name(name)), *([cst.Name("True")] if local else [])]
        return cst.Call(get, [cst.Arg(e) for e in given])

    def _begun(self, node: cst.For | cst.While, names: Sequence[str]) -> cst.Tuple:
        """What the names that a loop changes mean before it, and which of them occur in it only."""
        inside = _occurrences(node)
        local = {x for x in names if inside[x] == self.occurring[x] > 0}
        return cst.Tuple([cst.Element(self.current(x, x in local)) for x in names])

    # Statements of several lines: their parts become functions

    def leave_SimpleStatementLine(
        self, node: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        if not self.marks:
            return updated
        return updated.with_changes(trailing_whitespace=self._mark(node, end=True))

    def _mark(self, node: cst.CSTNode, end: bool = False) -> cst.TrailingWhitespace:
        at = self.get_metadata(PositionProvider, node)
        line = at.end.line if end else at.start.line
        return cst.TrailingWhitespace(cst.SimpleWhitespace("  "), cst.Comment(f"{MARK}{line}"))

    def _line(
        self, node: cst.CSTNode, statement: cst.BaseSmallStatement
    ) -> cst.SimpleStatementLine:
        return cst.SimpleStatementLine([statement], trailing_whitespace=self._mark(node))

    def marked_header(self, node: cst.CSTNode, made: cst.FunctionDef) -> cst.FunctionDef:
        body = _block(made.body)
        return made.with_changes(body=body.with_changes(header=self._mark(node)))

    def _function(
        self,
        node: cst.CSTNode,
        name: str,
        parameters: list[cst.Param],
        statements: list[cst.BaseStatement],
        result: cst.BaseExpression | None,
    ) -> cst.FunctionDef:
        if result is not None:
            statements = [*statements, self._line(node, cst.Return(result))]
        return cst.FunctionDef(
            cst.Name(name),
            cst.Parameters(parameters),
            cst.IndentedBlock(statements, header=self._mark(node)),
        )

    def visit_For(self, node: cst.For) -> None:
        for found in _within(node.body, cst.Return):
            message = "`return` inside a `for` makes its count depend on what it finds"
            raise self.refuse(found, message, "set a name, and `break`: `found = x[i]`")
        self._check_range(node.iter, node.target)
        self.loops += 1
        self.around += 1

    def leave_For(self, node: cst.For, updated: cst.For) -> cst.FlattenSentinel[cst.BaseStatement]:
        self.loops -= 1
        self.around -= 1
        changed = changed_names(node.body)
        self.made += 1
        name = f"__turn_{self.made}"
        names = list(changed)
        items = _flat(node.target)
        if set(items) & set(names):
            raise self.refuse(node.target, "the loop changes its own index", "use another name")
        statements = list(_block(updated.body).body)
        lines = list(updated.leading_lines)
        begun: list[cst.BaseStatement] = []
        flag = f"ended_{self.made}"
        if any(map(self._may_jump, node.body.body)):
            if next(_jumps(node.body, cst.Break), None) is not None:
                changed[flag] = True
                names = list(changed)
                begun, statements = self._ended_by_flag(node, node.target, statements, flag)
            else:
                statements = self._without_jumps(node, statements, flag)
        parameters = [cst.Param(cst.Name(x)) for x in (*items, *names)]
        made = self._function(node, name, parameters, statements, _tuple(names))
        call = self.call(
            node.target,
            "repeat",
            _pattern(node.target),
            updated.iter
            if node.iter in self.ranges
            else self.call(node.iter, "each", updated.iter),
            _strings(names),
            cst.Tuple([cst.Element(cst.Name(str(plain))) for plain in changed.values()]),
            self._begun(node, names),
            cst.Name(name),
        )
        return cst.FlattenSentinel(
            [
                *begun,
                made.with_changes(leading_lines=lines),
                self._line(node, _assigned(names, call, always=True)),
                *self._otherwise(node, updated, flag if begun else ""),
            ]
        )

    def _otherwise(
        self, node: cst.For | cst.While, updated: cst.For | cst.While, flag: str
    ) -> list[cst.BaseStatement]:
        """The `else` of a loop, where no `break` has set the flag; an empty flag says that there is none."""
        if node.orelse is None or updated.orelse is None:
            return []
        statements = list(_block(updated.orelse.body).body)
        if not flag:
            return statements
        return self._choice(node, self._unset(_target(node), flag), statements, [])

    def _ended_by_flag(
        self,
        node: cst.For | cst.While,
        shown: cst.CSTNode,
        statements: list[cst.BaseStatement],
        flag: str,
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """A loop's body with a flag in the place of its `break`s; and what is to stand before the loop."""
        begun: list[cst.BaseStatement] = [self._line(node, _assigned([flag], cst.Float("0.0")))]
        going = self._unset(shown, flag)
        return begun, self._choice(node, going, self._without_jumps(node, statements, flag), [])

    def _unset(self, shown: cst.CSTNode, flag: str) -> cst.Call:
        """Whether no `break` has set a flag."""
        ops = cst.Tuple([cst.Element(cst.SimpleString("'=='"))])
        return self.call(shown, "compare", ops, cst.Name(flag), cst.Integer("0"))

    def visit_While(self, node: cst.While) -> None:
        for found in _within(node.body, cst.Return):
            message = "`return` inside a `while` makes its count depend on what it finds"
            raise self.refuse(found, message, "set a name, and `break`: `found = x[i]`")
        endless = _code(node.test) in ("True", "1")
        if endless and _at_most(node) is None and not any(map(_counted(node), _limits(node))):
            message = "nothing says how often this `while` loop runs at most"
            advice = (
                "say so: `while True:  # at most 100`; or count, `if k >= 100: break` with `k += 1`"
            )
            raise self.refuse(node.test, message, advice)
        self.around += 1

    def leave_While(
        self, node: cst.While, updated: cst.While
    ) -> cst.FlattenSentinel[cst.BaseStatement]:
        self.around -= 1
        changed = changed_names(node.body)
        self.made += 1
        name = f"__turn_{self.made}"
        body = list(_block(updated.body).body)
        lines: list[cst.BaseStatement] = []
        ends = next(_jumps(node.body, cst.Break), None) is not None
        flag = f"ended_{self.made}"
        if ends:
            changed[flag] = True
            lines, body = self._ended_by_flag(node, node.test, body, flag)
        elif any(map(self._may_jump, node.body.body)):
            body = self._without_jumps(node, body, flag)
        names = list(changed)
        parameters = [cst.Param(cst.Name(x)) for x in names]
        made = self._function(node, name, parameters, body, _tuple(names))
        call = self.call(
            node.test,
            "repeat_while",
            _strings(names),
            cst.Tuple([cst.Element(cst.Name(str(plain))) for plain in changed.values()]),
            _lambda(names, updated.test),
            self._begun(node, names),
            cst.Name(name),
            self._bound_of(node),
            cst.Name(str(ends)),
        )
        made = made.with_changes(leading_lines=updated.leading_lines)
        result = self._line(node, _assigned(names, call, always=True))
        otherwise = self._otherwise(node, updated, flag if ends else "")
        return cst.FlattenSentinel([*lines, made, result, *otherwise])

    def _bound_of(self, node: cst.While) -> cst.BaseExpression:
        """How often a `while` runs at most: `("k", limit, 1)` of `while p and k <= limit:` with `k += 1`, or of
        `if p or k >= limit: break`; `("", most, 0)` of `while p:  # at most`; None where nothing says so.
        """
        for limit in _limits(node):
            if counter := _counted(node)(limit):
                left, right = self.sides[limit.test]
                name, is_left, more = counter
                bound = right if is_left else left
                parts = cst.SimpleString(repr(name)), bound, cst.Integer(str(more + limit.ends))
                return cst.Tuple([cst.Element(part) for part in parts])
        most = _at_most(node)
        if most is None:
            return cst.Name("None")
        if not most.isdigit():
            self.names[most] = None
            self.in_comments.add(most)
        parts = cst.SimpleString("''"), cst.parse_expression(most), cst.Integer("0")
        return cst.Tuple([cst.Element(part) for part in parts])

    def visit_If(self, node: cst.If) -> None:
        self.branches.add(node.body)
        if isinstance(node.orelse, cst.If):
            self.elifs.add(node.orelse)
        elif node.orelse is not None:
            self.branches.add(node.orelse.body)

    def leave_If(
        self, node: cst.If, updated: cst.If
    ) -> cst.If | cst.FlattenSentinel[cst.BaseStatement]:
        if node in self.elifs:
            return updated
        if has_return(node) and not self.around:
            self.returning.append((node, updated))
            return updated
        if self._may_jump(node):
            self.jumping.append((node, updated))
            return updated
        return cst.FlattenSentinel(self._branches(node, updated))

    def _may_jump(self, node: cst.CSTNode) -> bool:
        """Whether a statement may end the iteration, or the loop, that it is in."""
        return any(next(_jumps(node, kind), None) for kind in (cst.Continue, cst.Break))

    def _without_jumps(
        self, node: cst.CSTNode, statements: list[cst.BaseStatement], flag: str
    ) -> list[cst.BaseStatement]:
        """Statements of a loop's body with `continue` as the end of what follows, and `break` as that and a flag."""
        for k, statement in enumerate(statements):
            jump = statement.body[-1] if isinstance(statement, cst.SimpleStatementLine) else None
            if isinstance(jump, cst.Continue | cst.Break):
                assert isinstance(statement, cst.SimpleStatementLine)
                before = statement.with_changes(body=statement.body[:-1])
                kept = [before] if before.body else []
                ended = [self._line(node, _assigned([flag], cst.Float("1.0")))]
                return [*statements[:k], *kept, *(ended if isinstance(jump, cst.Break) else [])]
            found = next((pair for pair in self.jumping if pair[1] is statement), None)
            if found is not None:
                test, rest = found[0], statements[k + 1 :]
                ways = [
                    self._without_jumps(node, [*way, *rest], flag) for way in self._ways(*found)
                ]
                choice = self._choice(test, found[1].test, *ways)
                return [*statements[:k], *choice]
        return statements

    def _ways(
        self, node: cst.If, updated: cst.If
    ) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
        """The statements of both branches of an `if`."""
        first = list(_block(updated.body).body)
        if isinstance(node.orelse, cst.If) and isinstance(updated.orelse, cst.If):
            if self._may_jump(node.orelse):
                self.jumping.append((node.orelse, updated.orelse))
                return first, [updated.orelse]
            return first, self._branches(node.orelse, updated.orelse)
        if updated.orelse is None:
            return first, []
        return first, list(_block(cst.ensure_type(updated.orelse, cst.Else).body).body)

    def _choice(
        self,
        node: cst.If | cst.For | cst.While,
        test: cst.BaseExpression,
        first: list[cst.BaseStatement],
        second: list[cst.BaseStatement],
    ) -> list[cst.BaseStatement]:
        """Two functions of rewritten statements, and a choice between them."""
        changed = {x: None for s in (*first, *second) for x in changed_names(s)}
        names = [x for x in changed if not x.startswith("__")]
        parameters = [cst.Param(cst.Name(x)) for x in names]
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        call = self.call(
            _target(node),
            "branch",
            test,
            _strings(names),
            cst.Tuple([cst.Element(self.current(x)) for x in names]),
            cst.Name(then),
            cst.Name(other),
        )
        return [
            self._function(node, then, parameters, first, _tuple(names)),
            self._function(node, other, parameters, second, _tuple(names)),
            self._line(node, _assigned(names, call, always=True)),
        ]

    def _branches(self, node: cst.If, updated: cst.If) -> list[cst.BaseStatement]:
        """An `if` as two functions and a choice between them."""
        first, *rest = self._choice(node, updated.test, *self._ways(node, updated))
        return [first.with_changes(leading_lines=updated.leading_lines), *rest]

    def leave_IndentedBlock(
        self, node: cst.IndentedBlock, updated: cst.IndentedBlock
    ) -> cst.IndentedBlock:
        """Where an `if` returns, what follows it is its other branch; what that is in a branch of an `if`,
        the block around it says.
        """
        if node in self.branches:
            return updated
        return updated.with_changes(body=self._closed(list(updated.body)))

    def _closed(self, statements: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """Statements of which each `if` that returns is a choice between the ways to go on."""
        for k, statement in enumerate(statements):
            found = next((pair for pair in self.returning if pair[1] is statement), None)
            if found is not None:
                return [*statements[:k], *self._returned(*found, statements[k + 1 :])]
        return statements

    def _returned(
        self, node: cst.If, updated: cst.If, rest: list[cst.BaseStatement]
    ) -> list[cst.BaseStatement]:
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        first = list(_block(updated.body).body)
        if not returns(node.body):
            first += rest
        if isinstance(node.orelse, cst.If) and isinstance(updated.orelse, cst.If):
            second = self._returned(node.orelse, updated.orelse, rest)
        else:
            second = list(rest)
            if node.orelse is not None and updated.orelse is not None:
                block = cst.ensure_type(updated.orelse, cst.Else).body
                ends = returns(cst.ensure_type(node.orelse, cst.Else).body)
                second = [*_block(block).body, *([] if ends else rest)]
        if not second:
            raise self.refuse(
                node.test, "where this does not hold nothing is returned", "add `else: return …`"
            )
        names = list(self.assigned)
        parameters = [
            cst.Param(cst.Name(x), default=self.current(x), equal=cst.AssignEqual()) for x in names
        ]
        call = self.call(node.test, "returned", updated.test, cst.Name(then), cst.Name(other))
        return [
            self._function(node, then, parameters, self._closed(first), None).with_changes(
                leading_lines=updated.leading_lines
            ),
            self._function(node, other, parameters, self._closed(second), None),
            self._line(node, cst.Return(call)),
        ]

    # Names

    def visit_Name(self, node: cst.Name) -> None:
        if node not in self.dotted:
            self.names[node.value] = None

    def visit_Attribute(self, node: cst.Attribute) -> None:
        if node not in self.dotted and (dotted := _dotted(node)):
            self.names[dotted] = None
            self.dotted.add(node)
        self.dotted.add(node.attr)
        if node in self.dotted:
            self.dotted.add(node.value)

    # Comprehensions

    def visit_Call(self, node: cst.Call) -> None:
        if isinstance(node.func, cst.Name) and node.func.value in ("sum", "any", "all"):
            for argument in node.args[:1]:
                if isinstance(argument.value, cst.GeneratorExp | cst.ListComp):
                    self.consumed.add(argument.value)

    def visit_ListComp(self, node: cst.ListComp) -> None:
        self._check_loops(node)

    def visit_DictComp(self, node: cst.DictComp) -> None:
        if node.for_in.inner_for_in is not None:
            raise self.refuse(node, "two `for`s in one dictionary", "write loops")
        self._check_loops(node)

    def leave_DictComp(self, node: cst.DictComp, updated: cst.DictComp) -> cst.BaseExpression:
        body: cst.BaseExpression = cst.Tuple([cst.Element(updated.key), cst.Element(updated.value)])
        for condition in reversed(updated.for_in.ifs):
            ways = _lambda(None, _bracketed(body)), _lambda(None, cst.Name("None"))
            body = self.call(node, "choose", condition.test, *ways)
        target = updated.for_in.target
        part = _lambda(_flat(target), _bracketed(body))
        return self.call(node, "dictionary", _pattern(target), updated.for_in.iter, part)

    def visit_GeneratorExp(self, node: cst.GeneratorExp) -> None:
        self._check_loops(node)

    def _check_loops(self, node: cst.ListComp | cst.GeneratorExp | cst.DictComp) -> None:
        for_in: cst.CompFor | None = node.for_in
        while for_in is not None:
            self._check_range(for_in.iter, for_in.target)
            for_in = for_in.inner_for_in

    def _check_range(self, iterable: cst.BaseExpression, target: cst.BaseExpression) -> None:
        match iterable, target:
            case cst.Call(func=cst.Name(value="range")), cst.Name():
                self.ranges.add(iterable)
        if not isinstance(target, cst.Name | cst.Tuple | cst.List):
            raise self.refuse(target, "a loop's target is a name", "write `for i in range(n)`")

    def leave_CompFor(self, node: cst.CompFor, updated: cst.CompFor) -> cst.CompFor:
        if node.iter in self.ranges:
            return updated
        return updated.with_changes(iter=self.call(node.iter, "each", updated.iter))

    def leave_ListComp(self, node: cst.ListComp, updated: cst.ListComp) -> cst.BaseExpression:
        return updated if node in self.consumed else self._list(node, updated)

    def leave_GeneratorExp(
        self, node: cst.GeneratorExp, updated: cst.GeneratorExp
    ) -> cst.BaseExpression:
        return updated if node in self.consumed else self._list(node, updated)

    def _list(
        self, node: cst.CSTNode, updated: cst.ListComp | cst.GeneratorExp
    ) -> cst.BaseExpression:
        """A list: of one loop without a condition an entry for each index; of any other what its loops append."""
        for_in = updated.for_in
        if for_in.inner_for_in is None and not for_in.ifs:
            return self._loop("generate", node, for_in, updated.elt)
        return self._appending(node, for_in, updated.elt, cst.List([]))

    def _appending(
        self,
        node: cst.CSTNode,
        for_in: cst.CompFor,
        entry: cst.BaseExpression,
        begun: cst.BaseExpression,
    ) -> cst.Call:
        """`__tensor__.append_all(place, "i", bounds, lambda i, list: …, begun)`: what the loops of a comprehension append to
        a list.
        """
        list_ = cst.Name("__list__")
        if for_in.inner_for_in is None:
            body = self.call(node, "append", list_, entry)
        else:
            body = self._appending(node, for_in.inner_for_in, entry, list_)
        for condition in reversed(for_in.ifs):
            one = _lambda([list_.value], body)
            body = self.call(node, "append_if", condition.test, one, list_)
        turn = _lambda([*_flat(for_in.target), list_.value], body)
        return self.call(node, "append_all", _pattern(for_in.target), for_in.iter, turn, begun)

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
        names = _flat(for_in.target)
        return self.call(node, method, _pattern(for_in.target), for_in.iter, _lambda(names, body))

    # Expressions

    def leave_Call(self, node: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if node in self.ranges:
            return self.call(node, "range", node.func, *(a.value for a in updated.args))
        first = node.args[0].value if node.args else None
        if first is not None and first in self.consumed:
            loop = updated.args[0].value
            assert isinstance(loop, cst.GeneratorExp | cst.ListComp)
            assert isinstance(node.func, cst.Name)
            name = node.func.value
            value = self._loop(name, node, loop.for_in, loop.elt)
            made = self.call(node, "builtin", cst.SimpleString(repr(name)), node.func, value)
            for start in updated.args[1:]:
                made = self.call(node, "binary", cst.SimpleString("'+'"), start.value, made)
            return made
        call = self.call(node, "call", updated.func)
        return call.with_changes(args=[*call.args, *updated.args])

    def leave_IfExp(self, node: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        branches = (_lambda(None, updated.body), _lambda(None, updated.orelse))
        return self.call(node, "choose", updated.test, *branches)

    def leave_BooleanOperation(
        self, node: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        method = "and_then" if isinstance(node.operator, cst.And) else "or_else"
        return self.call(node, method, updated.left, _lambda(None, updated.right))

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
        self.sides[node] = sides
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

    def leave_Subscript(self, node: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        places = [_place(e.slice) for e in updated.slice]
        return self.call(node, "entry", updated.value, *places)

    def leave_List(self, node: cst.List, updated: cst.List) -> cst.BaseExpression:
        return self.call(node, "array", updated)


def _place(e: cst.BaseSlice) -> cst.BaseExpression:
    """What stands between brackets, a slice as `__tensor__.cut(…)`."""
    if isinstance(e, cst.Index):
        return e.value
    assert isinstance(e, cst.Slice)
    parts = [part or cst.Name("None") for part in (e.lower, e.upper, e.step)]
    made = cst.Attribute(cst.Name(TRACER), cst.Name("cut"))
    return cst.Call(made, [cst.Arg(_bracketed(part)) for part in parts])


def _target(node: cst.If | cst.For | cst.While) -> cst.CSTNode:
    """What of a statement of several lines errors point at."""
    return node.target if isinstance(node, cst.For) else node.test


def _root(e: cst.BaseExpression) -> cst.BaseExpression:
    """The array of `y[i][j]`."""
    while isinstance(e, cst.Subscript):
        e = e.value
    return e


def _several(target: cst.BaseExpression) -> cst.Tuple | cst.List:
    assert isinstance(target, cst.Tuple | cst.List)
    return target


def _has_entries(target: cst.BaseExpression) -> bool:
    """Whether some of several targets are entries of arrays."""
    if not isinstance(target, cst.Tuple | cst.List):
        return False
    return any(isinstance(e.value, cst.Subscript) for e in target.elements)


def _flat(target: cst.BaseExpression) -> list[str]:
    """The names of a target, in order; of an entry that of its array."""
    if isinstance(target, cst.Tuple | cst.List):
        return [name for element in target.elements for name in _flat(element.value)]
    return [cst.ensure_type(_root(target), cst.Name).value]


def _pattern(target: cst.BaseExpression) -> cst.BaseExpression:
    """A target as the tracer takes it: `("i", ("a", "*b"))`."""
    if isinstance(target, cst.Tuple | cst.List):
        parts = []
        for element in target.elements:
            made = _pattern(element.value)
            if isinstance(element, cst.StarredElement):
                made = cst.SimpleString(repr("*" + cst.ensure_type(element.value, cst.Name).value))
            parts.append(cst.Element(made))
        return cst.Tuple(parts)
    return cst.SimpleString(repr(cst.ensure_type(target, cst.Name).value))


def _strings(names: list[str]) -> cst.Tuple:
    return cst.Tuple([cst.Element(cst.SimpleString(repr(name))) for name in names])


def _tuple(names: list[str]) -> cst.Tuple:
    return cst.Tuple([cst.Element(cst.Name(name)) for name in names])


def _assigned(names: list[str], value: cst.BaseExpression, always: bool = False) -> cst.Assign:
    """`a, b = value`; of one name, `a = value`, unless the value is a tuple `always`."""
    if always:
        target: cst.BaseAssignTargetExpression = (
            cst.List([cst.Element(cst.Name(name)) for name in names]) if names else cst.Name("_")
        )
    else:
        target = cst.Name(names[0])
    return cst.Assign([cst.AssignTarget(target)], value)


def _block(body: cst.BaseSuite) -> cst.IndentedBlock:
    """A suite on lines of its own."""
    if isinstance(body, cst.IndentedBlock):
        return body
    suite = cst.ensure_type(body, cst.SimpleStatementSuite)
    return cst.IndentedBlock([cst.SimpleStatementLine([small]) for small in suite.body])


def _within(node: cst.CSTNode, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Nodes of a kind, those of inner functions apart."""
    if isinstance(node, kind):
        yield node
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.Lambda):
            yield from _within(child, kind)


def _nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all nodes in it. (`libcst.matchers` has more to say, but takes longer to import than LibCST.)"""
    yield node
    for child in node.children:
        yield from _nodes(child)


def _occurrences(node: cst.CSTNode) -> Counter[str]:
    """The names in a node, and how often it has each; those that a function, a lambda or a comprehension in it has for itself,
    as its parameters or targets, apart.
    """
    if isinstance(node, cst.Name):
        return Counter([node.value])
    if isinstance(node, cst.Attribute):
        return _occurrences(node.value)
    found = Counter[str]()
    for child in node.children:
        found += _occurrences(child)
    own: Sequence[str] = ()
    match node:
        case cst.FunctionDef(params=params) | cst.Lambda(params=params):
            own = [p.name.value for p in (*params.params, *params.kwonly_params)]
        case cst.ListComp(for_in=for_in) | cst.GeneratorExp(for_in=for_in):
            own = _flat(for_in.target)
    for name in own:
        del found[name]
    return found


def _jumps(node: cst.CSTNode, kind: type[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """The `continue`s or `break`s of the loop that a statement is in."""
    if isinstance(node, kind):
        yield node
    for child in node.children:
        if not isinstance(child, cst.FunctionDef | cst.Lambda | cst.For | cst.While):
            yield from _jumps(child, kind)


def has_return(node: cst.CSTNode) -> bool:
    """Whether a function may end in a statement, by `return` or by `raise`."""
    return any(next(_within(node, kind), None) is not None for kind in (cst.Return, cst.Raise))


def returns(body: cst.BaseSuite) -> bool:
    """Whether a block's end is a `return` or a `raise`, on every way to it."""
    last: cst.CSTNode = body.body[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    if isinstance(last, cst.If):
        return returns_all(last)
    return isinstance(last, cst.Return | cst.Raise)


def returns_all(node: cst.If) -> bool:
    if node.orelse is None or not returns(node.body):
        return False
    if isinstance(node.orelse, cst.If):
        return returns_all(node.orelse)
    return returns(node.orelse.body)


def self_added(node: cst.CSTNode) -> tuple[str, str] | None:
    """The name and the sign of `s = s + e`, where e does not read s."""
    match node:
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(value=name))],
            value=cst.BinaryOperation(
                left=cst.Name(value=left), operator=cst.Add() | cst.Subtract() as sign, right=right
            ),
        ) if name == left:
            read = (inner.value for inner in _nodes(right) if isinstance(inner, cst.Name))
            return None if name in read else (name, _code(sign))
    return None


# `s -= e` is one more term, and `s /= e` one more factor; what another operator makes is a value of its own.
_ADDED_UP = cst.AddAssign | cst.SubtractAssign | cst.MultiplyAssign | cst.DivideAssign
METHODS = ("append", "fill", "extend", "reverse", "sort")


def _changed_by(e: cst.BaseExpression) -> tuple[str, cst.Name] | None:
    """How a call changes what it is given, and y: `y.append(e)`, `y.fill(e)`, `np.fill_diagonal(y, e)`, `np.add.at(y, k, e)`."""
    match e:
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as target, attr=cst.Name(value=how)),
            args=[cst.Arg(keyword=None)],
        ) if how in METHODS[:3]:
            return how, target
        case cst.Call(
            func=cst.Attribute(value=cst.Name() as target, attr=cst.Name(value=how)),
            args=[] | [cst.Arg(keyword=cst.Name(value="reverse"))],
        ) if how in METHODS[3:]:
            return how, target
        case cst.Call(
            func=cst.Attribute(attr=cst.Name(value="fill_diagonal" | "copyto" as how)),
            args=[cst.Arg(value=cst.Name() as target), cst.Arg(keyword=None)],
        ):
            return how, target
        case cst.Call(
            func=cst.Attribute(
                value=cst.Attribute(attr=cst.Name(value="add" | "subtract" as how)),
                attr=cst.Name(value="at"),
            ),
            args=[cst.Arg(value=cst.Name() as target), cst.Arg(), cst.Arg(keyword=None)],
        ):
            return how, target
    return None


def _at_most(node: cst.While) -> str | None:
    """What the comment of a `while` says how often it runs at most."""
    header = node.body.header if isinstance(node.body, cst.IndentedBlock) else None
    comment = header.comment if header is not None else None
    found = AT_MOST.match(comment.value) if comment is not None else None
    return found[1] if found is not None else None


@dataclass(frozen=True)
class Limit:
    """A comparison by which a `while` loop goes on, or, where `ends`, by which it breaks."""

    test: cst.Comparison
    ends: bool


def _limits(node: cst.While) -> Iterator[Limit]:
    """The comparisons of which each alone ends a loop: `while p and k < n:`, `if p or k >= n: break`."""
    for part in _parts(node.test, cst.And):
        if isinstance(part, cst.Comparison):
            yield Limit(part, False)
    for statement in _always_run(node.body):
        if isinstance(statement, cst.If) and next(_jumps(statement.body, cst.Break), None):
            last = _block(statement.body).body[-1]
            if isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Break):
                for part in _parts(statement.test, cst.Or):
                    if isinstance(part, cst.Comparison):
                        yield Limit(part, True)


def _always_run(body: cst.BaseSuite) -> list[cst.BaseStatement]:
    """The statements of a loop's body that run in every iteration that no `break` ends: those before a `continue`."""
    statements = list(_block(body).body)
    jumping = (k for k, s in enumerate(statements) if next(_jumps(s, cst.Continue), None))
    return statements[: next(jumping, len(statements))]


def _parts(
    e: cst.BaseExpression, operator: type[cst.BaseBooleanOp]
) -> Iterator[cst.BaseExpression]:
    """The parts of `p and q and …`, or of `p or q or …`."""
    if isinstance(e, cst.BooleanOperation) and isinstance(e.operator, operator):
        yield from _parts(e.left, operator)
        yield from _parts(e.right, operator)
    else:
        yield e


def _counted(node: cst.While) -> Callable[[Limit], tuple[str, bool, int] | None]:
    """Of a limit the name that the loop's body counts up by one each time, and that is compared with what the body does not
    change: the name, whether it stands on the left, and 1 where the limit itself is reached, else 0.
    """

    def found(limit: Limit) -> tuple[str, bool, int] | None:
        test = limit.test
        if len(test.comparisons) != 1:
            return None
        operator, right = _code(test.comparisons[0].operator), test.comparisons[0].comparator
        for is_left, side, bound in ((True, test.left, right), (False, right, test.left)):
            goes_on = {"<": 0, "<=": 1} if is_left else {">": 0, ">=": 1}
            breaks = {">=": 0, ">": 1, "==": 0} if is_left else {"<=": 0, "<": 1, "==": 0}
            reached = (breaks if limit.ends else goes_on).get(operator)
            named = {node.value for node in _nodes(bound) if isinstance(node, cst.Name)}
            if reached is None or not isinstance(side, cst.Name):
                continue
            if not named & changed_names(node.body).keys() and _counts_up(side.value, node.body):
                return side.value, is_left, reached
        return None

    return found


def _counts_up(name: str, body: cst.BaseSuite) -> bool:
    """Whether statements add 1 to a name, once, and change it nowhere else."""
    parts = [
        part
        for s in _always_run(body)
        for part in (s.body if isinstance(s, cst.SimpleStatementLine) else [s])
    ]
    changing = [part for part in parts if name in changed_names(part)]
    elsewhere = [s for s in _block(body).body if name in changed_names(s)]
    if len(changing) != 1 or len(elsewhere) != 1:
        return False
    if not isinstance(changing[0], cst.BaseSmallStatement):
        return False
    written = _code(changing[0]).strip(" ;").replace(" ", "")
    return written in (f"{name}+=1", f"{name}={name}+1")


def changed_names(node: cst.CSTNode) -> dict[str, bool]:
    """The names that statements change, and whether they assign them anew."""
    found: dict[str, bool] = {}

    def add(name: str, plain: bool) -> None:
        found[name] = found.get(name, False) or plain

    def see(node: cst.CSTNode) -> None:
        match node:
            case cst.FunctionDef():
                add(node.name.value, True)
                return
            case cst.Lambda() | cst.ListComp() | cst.GeneratorExp():
                return
            case cst.Assign():
                for one in node.targets:
                    if isinstance(one.target, cst.Subscript):
                        root = _root(one.target)
                        if isinstance(root, cst.Name):
                            add(root.value, False)
                    elif _has_entries(one.target):
                        parts = _several(one.target).elements
                        for part in parts:
                            for name in _flat(part.value):
                                add(name, not isinstance(part.value, cst.Subscript))
                    elif isinstance(one.target, cst.Name | cst.Tuple | cst.List):
                        for name in _flat(one.target):
                            add(name, self_added(node) is None)
            case cst.AnnAssign(target=cst.Name(value=name)):
                add(name, True)
            case cst.AugAssign():
                root = _root(node.target)
                if isinstance(root, cst.Name):
                    add(
                        root.value, root is node.target and not isinstance(node.operator, _ADDED_UP)
                    )
            case cst.Expr(value=value) if change := _changed_by(value):
                add(change[1].value, False)
        for child in node.children:
            see(child)

    see(node)
    return found


def _bracketed(e: cst.BaseExpression) -> cst.BaseExpression:
    """A bare tuple, as in `return a, b`, needs brackets to be one argument."""
    if isinstance(e, cst.Tuple) and not e.lpar:
        return e.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return e


def _chain(node: cst.BaseExpression) -> Iterator[cst.BinaryOperation]:
    """The operations of `a + b - c + …`, or of `a * b * c * …`, the last first."""
    operator = node.operator if isinstance(node, cst.BinaryOperation) else None
    kinds = next((k for k in _CHAINS if isinstance(operator, k)), ())
    while isinstance(node, cst.BinaryOperation) and isinstance(node.operator, kinds):
        yield node
        node = node.left


_CHAINS = ((cst.Add, cst.Subtract), (cst.Multiply,))


def _code(operator: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(operator).strip()


def _lambda(parameters: Sequence[str] | None, body: cst.BaseExpression) -> cst.Lambda:
    return cst.Lambda(
        cst.Parameters([cst.Param(cst.Name(name)) for name in parameters or ()]),
        body,
        lpar=[cst.LeftParen()],
        rpar=[cst.RightParen()],
        whitespace_after_lambda=cst.SimpleWhitespace(" ")
        if parameters
        else cst.MaybeSentinel.DEFAULT,
    )
