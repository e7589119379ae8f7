"""Rewrites a Python function so that tracing sees the syntax that no dunder method can see.

Comprehensions, `sum`, `if … else`, `and`, comparisons, assignments and calls become calls of the
tracer's methods; operators and entries go through it too, so that an error knows its place. For
example

    y = [x[i] if i < j else 0 for i in range(n)]

becomes

    y = __tensor__.bind(4, "y", __tensor__.generate(3, "i", __tensor__.range(2, range, n), lambda i: …))

where each number is a place in the source, and `range` comes along because it may mean something
else there. What the language does not have is refused here, with what to write instead.

The syntax tree is Python's own: LibCST, which the converter uses to keep a program's layout, takes as long to import as JAX
takes to compile a small function.
"""

from __future__ import annotations

import ast
import builtins
import copy
import dis
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

from ..language.depth import deep_recursion
from ..language.errors import Place, TensorError
from .captured_data import Surroundings
from .lambdas import LAMBDA, NAME, as_definition

OURS = str(Path(__file__).parents[1])  # the folder of the package's own frames
TRACER = "__tensor__"
OUTSIDE = "__outside__"  # where the function's names from outside are looked up
LONG = 32  # operands of one sum or product above which it is built as a balanced tree

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.With: ("a `with` statement is not an expression", "move it to the caller"),
    ast.Try: ("a `try` statement is not an expression", "move it to the caller"),
    ast.Delete: ("`del` is a mutation", "let the name go out of use"),
    ast.Global: ("`global` is a mutation", "return the value"),
    ast.Nonlocal: ("`nonlocal` is a mutation", "return the value"),
    ast.ClassDef: ("a class is not a tensor", "return a tuple"),
    ast.NamedExpr: ("`:=` inside an expression", "assign it in a statement of its own"),
    ast.SetComp: ("a set is not a tensor", "use arrays, indexed by `range`"),
    ast.Yield: ("a generator function has no size", "return an array: `[… for i in range(n)]`"),
    ast.Await: ("`await` inside a tensor function", "await in the caller and pass the array"),
    ast.JoinedStr: ("a string is not a tensor", "take it out"),
}
_REFUSED |= {ast.TryStar: _REFUSED[ast.Try], ast.YieldFrom: _REFUSED[ast.Yield]}

#: How operators are written.
_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
#: What has names of its own: statements around it do not change them.
INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


#: Calls that show what a function computes; `f.debug(…)` makes them.
DEBUGGING = frozenset(
    "print breakpoint pprint pprint.pprint pdb.set_trace jax.debug.print jax.debug.breakpoint".split()
)

#: The comment behind a `while` that bounds the loop, from the end of its condition on: a number, or a name that is one.
AT_MOST = re.compile(r"[\s)]*:[ \t]*# at most (\w+)\b")

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
    tree: ast.Module
    captured: Callable[[], tuple[Any, ...]]
    debugging: tuple[Place, ...] = ()

    @property
    def text(self) -> str:
        """The rewritten function, as Python writes it."""
        return ast.unparse(self.tree)

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
    try:
        with deep_recursion():  # the tree is as deep as a sum has terms
            read = ast.parse(source)
            ast.increment_lineno(read, first - 1)
            rewriter = _Rewriter(source.splitlines(), first, filename)
            tree = rewriter.module(read)
            cells = dict(
                zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            )
            outside = _looked_up(function, cells) - rewriter.assigned.keys()
            if outside:
                tree = _Outside(outside).visit(tree)
            code = compile(ast.fix_missing_locations(tree), filename, "exec")
    except SyntaxError as error:
        message = f"`{function.__name__}` is not written as one function"
        raise TensorError(message, "define it with `def`") from error
    except (RecursionError, MemoryError) as error:
        message = f"an expression of `{function.__name__}` is nested too deeply"
        raise TensorError(message, "give its parts names") from error

    unbound = {*cells, *_globals(function.__code__), *rewriter.in_comments}
    paths = [tuple(dotted.split(".")) for dotted in rewriter.names]
    taken = [path for path in paths if path[0] in unbound]
    plain = [path[0] for path in taken if not path[1:] and path[0] not in cells]
    pairs = [path for path in taken if len(path) == 2 and path[0] not in cells]  # `np.sum`
    others = [path for path in taken if len(path) > 2 or path[0] in cells]
    names = function.__globals__
    surroundings = Surroundings(lambda name: _captured((name,), cells, names))

    def captured() -> tuple[Any, ...]:  # at each call, so in as little time as can be
        found = [_captured(path, cells, names) for path in others]
        try:
            attributes = [getattr(names.get(owner), name, None) for owner, name in pairs]
        except Exception:  # whatever a property raises
            attributes = [_captured(path, cells, names) for path in pairs]
        return (*map(names.get, plain), *attributes, *found)

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
    return Rewritten(build, tuple(rewriter.places), filename, lines, tree, captured, debugging)


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
    """Names from outside as `__tensor__.named_outside(__outside__, "X", X)`; statements that stand twice in the tree once."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.made: set[ast.AST] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        return node if node in self.made else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        given = [_name(OUTSIDE), ast.Constant(node.id), node]
        made = ast.copy_location(ast.Call(_method("named_outside"), given, []), node)
        self.made.add(made)
        return made


def _globals(code: CodeType) -> Iterator[str]:
    """The global names that a function reads, in its comprehensions too."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals(constant)


def _dotted(node: ast.AST) -> str | None:
    """`a.b.c` of names alone."""
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return before and f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


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


def is_debugging(node: ast.expr) -> bool:
    """Whether an expression prints or stops in a debugger, which compiled calls leave out."""
    return isinstance(node, ast.Call) and _dotted(node.func) in DEBUGGING


class _Rewriter:
    """Makes a new tree. Of each kind of node, `visit_…` sees it first, and returns False where what is in it stays; `leave_…`
    gets it and what has been made of it, and returns what stands in its place, of a statement also a list of some.
    """

    def __init__(self, lines: list[str], first: int, filename: str) -> None:
        self.lines = lines
        self.first = first
        self.filename = filename
        self.places: list[Place] = []
        self.depth = 0
        self.consumed: set[ast.AST] = set()
        self.chained: dict[ast.AST, ast.AST] = {}  # each operation to the innermost
        self.ranges: set[ast.AST] = set()
        self.lambdas = 0
        self.loops = 0
        self.around = 0  # `for` and `while` statements around, in the same function
        self.outer: list[int] = []  # those around each function around
        self.made = 0  # functions made of a statement's parts
        self.elifs: set[ast.AST] = set()
        self.jumping: list[tuple[ast.If, ast.If]] = []
        self.returning: list[tuple[ast.If, ast.If]] = []
        self.assigned: dict[str, bool] = {}  # names that the function assigns to
        self.names: dict[str, None] = {}  # that the function uses, with their attributes dotted
        self.dotted: set[ast.AST] = set()  # what is part of a dotted name
        self.sides: dict[ast.AST, list[ast.expr]] = {}  # of comparisons, rewritten
        self.in_comments: set[str] = set()  # names that only comments have
        self.occurring: Counter[str] = Counter()  # names, and how often the function has them
        self.debugging: list[Place] = []  # statements that only the Python function runs

    # Walking

    def module(self, node: ast.Module) -> ast.Module:
        return ast.Module(self._statements(node.body), [])

    def visit(self, node: ast.AST) -> Any:
        """What stands in the place of a node."""
        refused = _REFUSED.get(type(node))
        if refused is not None:
            raise self.refuse(node, *refused)
        kind = type(node).__name__
        before = getattr(self, f"visit_{kind}", None)
        inside = before is None or before(node) is not False
        made = self._rebuilt(node) if inside else node
        after = getattr(self, f"leave_{kind}", None)
        return made if after is None else after(node, made)

    def _rebuilt(self, node: ast.AST) -> ast.AST:
        """The same node of what has been made of its parts."""
        kept = self._kept(node)
        fields = {
            name: value if name in kept else self._part(node, value)
            for name, value in ast.iter_fields(node)
        }
        return ast.copy_location(type(node)(**fields), node)

    def _part(self, node: ast.AST, value: Any) -> Any:
        if isinstance(value, list):
            if not value or not isinstance(value[0], ast.stmt):
                return [x if x is None else self.visit(x) for x in value]
            statements = self._statements(value)
            return statements if isinstance(node, ast.If) else self._closed(statements)
        return self.visit(value) if isinstance(value, ast.expr | ast.arguments) else value

    def _statements(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            made = self.visit(statement)
            found += made if isinstance(made, list) else [made]
        return found

    def _kept(self, node: ast.AST) -> tuple[str, ...]:
        """The parts of a node that are left as they are."""
        match node:
            case ast.FunctionDef():
                own = ("args", "decorator_list") if self.depth == 1 else ()
                return ("returns", "type_params", *own)
            case ast.Assign(targets=targets):
                plain = not any(isinstance(x, ast.Subscript) or _has_entries(x) for x in targets)
                return ("targets",) if plain else ()
            case ast.AnnAssign() | ast.arg():
                return ("annotation",)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                return ("target",)
            case ast.Assert():  # whose message need not be an expression of the language
                return ("msg",)
        return ()

    # Places and errors

    def place(self, node: ast.AST) -> Place:
        """Where a node is; of a function its name."""
        at: Any = node
        text = self.lines[at.lineno - self.first]
        start = _characters(text, at.col_offset)
        end = _characters(text, at.end_col_offset) if at.end_lineno == at.lineno else len(text)
        if isinstance(node, Function):
            start = text.index(node.name, text.index("def", start) + len("def"))
            end = start + len(node.name)
        elif isinstance(node, ast.GeneratorExp | ast.Tuple) and text[start] == "(":
            start, end = start + 1, end - (text[end - 1] == ")")
        return Place(self.filename, at.lineno, start, end, text)

    def refuse(self, node: ast.AST, message: str, help_: str) -> TensorError:
        return TensorError(message, help_, self.place(node))

    def call(self, node: ast.AST, method: str, *arguments: ast.expr) -> ast.Call:
        """`__tensor__.method(place, …)`."""
        self.places.append(self.place(node))
        number = ast.Constant(len(self.places) - 1)
        return ast.copy_location(ast.Call(_method(method), [number, *arguments], []), node)

    # The function itself

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if not self.depth:
            self.occurring = _occurrences(node.body)
        self.outer.append(self.around)
        self.around = 0
        self.assigned |= changed_names(node.body)
        self.depth += 1

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        raise self.refuse(node, "an `async` function returns no tensor", "use plain `def`")

    def visit_Lambda(self, _node: ast.Lambda) -> None:
        self.lambdas += 1

    def leave_Lambda(self, _node: ast.Lambda, made: ast.Lambda) -> ast.expr:
        self.lambdas -= 1
        return made

    def leave_arg(self, node: ast.arg, _made: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(node.arg), node)

    def leave_FunctionDef(
        self, node: ast.FunctionDef, made: ast.FunctionDef
    ) -> ast.FunctionDef | list[ast.stmt]:
        self.depth -= 1
        self.around = self.outer.pop()
        if not returns(node.body):
            raise self.refuse(node, f"`{node.name}` returns nothing", "end it with `return …`")
        decorators = made.decorator_list
        made.decorator_list, made.returns = [], None
        if not self.depth:
            made.args = _without_defaults(node.args)
            return made
        value: ast.expr = _name(node.name)
        for decorator in reversed(decorators):
            value = self.call(node, "call", decorator, value)
        return [made, _assigned(node, [node.name], value)] if decorators else made

    # Statements

    def visit_Expr(self, node: ast.Expr) -> bool:
        match node.value:
            case ast.Constant(value=str()):
                return False
            case ast.Constant(value=value) if value is ...:
                return True
            case ast.Yield() | ast.YieldFrom():
                raise self.refuse(
                    node,
                    "a tensor function is not a generator",
                    "return an array, or a list, of all values",
                )
        if is_debugging(node.value):
            return False
        if _changed_by(node.value):
            return True
        match node.value:
            case ast.Call(func=ast.Attribute(attr=name)) if name in _IN_PLACE:
                raise self.refuse(
                    node, f"`{name}` changes in place what it is given", _IN_PLACE[name]
                )
        raise self.refuse(
            node, "this statement's value goes nowhere", "give it a name, or take it out"
        )

    def leave_Expr(self, node: ast.Expr, made: ast.Expr) -> ast.stmt:
        if is_debugging(node.value):
            self.debugging.append(self.place(node))
            return ast.copy_location(ast.Pass(), node)
        change = _changed_by(node.value)
        if change is None:
            return made
        assert isinstance(made.value, ast.Call)
        how, target = change
        assert isinstance(node.value, ast.Call)
        positional = made.value.args[len(made.value.args) - len(node.value.args) :]
        given = [*positional, *(x.value for x in made.value.keywords)]
        if how == "append":
            return _assigned(node, [target.id], self.call(node, how, target, given[-1]))
        name, values = ast.Constant(target.id), given[how not in METHODS :]
        kind = ast.Constant(how)
        value = self.call(node, "changed", kind, name, target, *values)
        return _assigned(node, [target.id], value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            raise self.refuse(node, "this returns nothing", "end the function with `return …`")

    def visit_Raise(self, _node: ast.Raise) -> bool:
        return False

    def leave_Raise(self, node: ast.Raise, _made: ast.Raise) -> ast.stmt:
        call = self.call(node, "raised", ast.Constant(self._source_of(node.exc) or "raise"))
        return ast.copy_location(ast.Expr(call) if self.around else ast.Return(call), node)

    def _source_of(self, node: ast.expr | None) -> str | None:
        """An expression as it is written, or as Python writes it where that takes several lines."""
        if node is None:
            return None
        if node.end_lineno != node.lineno:
            return ast.unparse(node)
        at = self.place(node)
        return at.text[at.column : at.end_column]

    def leave_Assert(self, node: ast.Assert, made: ast.Assert) -> ast.stmt:
        return ast.copy_location(ast.Expr(self.call(node, "asserted", made.test)), node)

    def leave_Return(self, node: ast.Return, made: ast.Return) -> ast.Return:
        assert made.value is not None
        made.value = self.call(node, "result", made.value)
        return made

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._check_target(target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._check_target(node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._check_target(node.target)

    def _check_target(self, target: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for one in map(_unstarred, target.elts):
                if _has_entries(one):
                    raise self.refuse(
                        one,
                        "an entry in a tuple of targets that is in another",
                        "assign in statements of their own",
                    )
                self._check_target(one)
            return
        if isinstance(_root(target), ast.Name):
            return
        raise self.refuse(
            target, "this target changes something outside", "assign to names and to entries"
        )

    def leave_Assign(self, node: ast.Assign, made: ast.Assign) -> ast.stmt | list[ast.stmt]:
        target = node.targets[0]
        if len(node.targets) > 1:
            return [*self._assigned_to_all(node, made)]
        if isinstance(target, ast.Subscript):
            return self._stored(node, target, made.targets[0], "", made.value)
        if _has_entries(target):
            return [*self._assigned_to_entries(node, made)]
        added = self_added(node)
        if added is not None and self.loops:
            name, operator = added
            assert isinstance(made.value, ast.Call)
            return self._augmented(node, name, operator, made.value.args[-1], "anew")
        names = _flat(target)
        value = self._bound(node, target, made.value)
        return _assigned(node, names, value, always=not isinstance(target, ast.Name))

    def _assigned_to_all(self, node: ast.Assign, made: ast.Assign) -> Iterator[ast.stmt]:
        """`a = b[0] = e`, one target after the other as in Python."""
        same = "__same__"
        yield _assigned(node, [same], self._bound(node, _name(same), made.value))
        for one, read in zip(node.targets, made.targets, strict=True):
            match one:
                case ast.Subscript():
                    yield self._stored(node, one, read, "", _name(same))
                case ast.Tuple() | ast.List():
                    value = self._bound(node, one, _name(same))
                    yield _assigned(node, _flat(one), value, always=True)
                case _:
                    yield _assigned(node, _flat(one), _name(same))

    def _assigned_to_entries(self, node: ast.Assign, made: ast.Assign) -> Iterator[ast.stmt]:
        """`y[i], y[j] = a, b`: both values first, and then one target after the other."""
        target, read = _several(node.targets[0]), _several(made.targets[0])
        self.made += 1
        plain = [
            _name(f"__entry_{self.made}_{j}") if isinstance(one, ast.Subscript) else one
            for j, one in enumerate(target.elts)
        ]
        listed = ast.Tuple(plain, ast.Store())
        yield _assigned(node, _flat(listed), self._bound(node, listed, made.value), always=True)
        for one, entry, name in zip(target.elts, read.elts, plain, strict=True):
            if isinstance(one, ast.Subscript):
                yield self._stored(node, one, entry, "", name)

    def leave_AnnAssign(self, node: ast.AnnAssign, made: ast.AnnAssign) -> ast.stmt:
        if made.value is None:
            return made
        return _assigned(node, _flat(node.target), self._bound(node, node.target, made.value))

    def leave_AugAssign(self, node: ast.AugAssign, made: ast.AugAssign) -> ast.stmt:
        operator = _SIGNS[type(node.op)]
        if isinstance(node.target, ast.Subscript):
            return self._stored(node, node.target, made.target, operator, made.value)
        assert isinstance(node.target, ast.Name)
        return self._augmented(node, node.target.id, operator, made.value)

    def _augmented(
        self,
        node: ast.AST,
        name: str,
        operator: str,
        value: ast.expr,
        method: str = "augment",
    ) -> ast.stmt:
        parts = ast.Constant(operator), ast.Constant(name), self.current(name)
        return _assigned(node, [name], self.call(node, method, *parts, value))

    def _stored(
        self,
        node: ast.AST,
        target: ast.Subscript,
        made: ast.expr,
        operator: str,
        value: ast.expr,
    ) -> ast.stmt:
        """`y[i] = e` as `y = __tensor__.store(…)`. The target has been rewritten as a read, whose
        arguments are the places.
        """
        (name,) = _flat(target)
        places: list[ast.expr] = []
        while isinstance(made, ast.Call):
            array, *rest = made.args[1:]
            if places:  # `y[i][j]`: a row, and no part that NumPy may have copied
                rest = [self.call(node, "one_place", place) for place in rest]
            places = [*rest, *places]
            made = array
        parts = ast.Constant(operator), ast.Constant(name), self.current(name)
        return _assigned(node, [name], self.call(node, "store", *parts, _tuple(places), value))

    def _bound(self, node: ast.AST, target: ast.expr, value: ast.expr) -> ast.Call:
        if isinstance(target, ast.Tuple | ast.List):
            return self.call(node, "unpack", _pattern(target), value)
        assert isinstance(target, ast.Name)
        return self.call(node, "bind", ast.Constant(target.id), value)

    def current(self, name: str, local: bool = False) -> ast.Call:
        """What a name means now, or that it means nothing yet."""
        given = [_lambda([], _name(name)), *([ast.Constant(value=True)] if local else [])]
        return ast.Call(_method("current"), given, [])

    def _begun(self, node: ast.stmt, names: Iterable[str]) -> ast.Tuple:
        """What the names that a loop changes mean before it, and which of them occur in it only."""
        inside = _occurrences([node])
        local = {x for x in names if inside[x] == self.occurring[x] > 0}
        return _tuple(self.current(x, x in local) for x in names)

    # Statements of several lines: their parts become functions

    def _function(
        self,
        node: ast.AST,
        name: str,
        arguments: ast.arguments,
        statements: list[ast.stmt],
        result: ast.expr | None,
    ) -> ast.FunctionDef:
        if result is not None:
            statements = [*statements, ast.copy_location(ast.Return(result), node)]
        more: dict[str, Any] = {"type_params": []} if _HAVE_TYPE_PARAMETERS else {}
        made = ast.FunctionDef(name, arguments, statements, [], None, **more)
        return ast.copy_location(made, node)

    def visit_For(self, node: ast.For) -> None:
        self._check_returns(node, "for")
        self._check_range(node.iter, node.target)
        self.loops += 1
        self.around += 1

    def leave_For(self, node: ast.For, made: ast.For) -> list[ast.stmt]:
        self.loops -= 1
        self.around -= 1
        items = _flat(node.target)
        if changed_names(node.body).keys() & {*items}:
            raise self.refuse(node.target, "the loop changes its own index", "use another name")
        turn, changed, before, flag = self._turn(node, made.body, items)
        call = self.call(
            node.target,
            "repeat",
            _pattern(node.target),
            made.iter if node.iter in self.ranges else self.call(node.iter, "each", made.iter),
            _strings(changed),
            _tuple(map(ast.Constant, changed.values())),
            self._begun(node, changed),
            _name(turn.name),
        )
        result = _assigned(node, [*changed], call, always=True)
        return [*before, turn, result, *self._otherwise(node, made, flag)]

    def _turn(
        self, node: ast.For | ast.While, body: list[ast.stmt], items: Sequence[str] = ()
    ) -> tuple[ast.FunctionDef, dict[str, bool], list[ast.stmt], str]:
        """A loop's body as a function of its items and of the names that it changes; these, and whether it assigns them anew;
        what is to stand before the loop, and the flag that says whether a `break` has ended it, if it has one.
        """
        changed = changed_names(node.body)
        self.made += 1
        name, flag, before = f"__turn_{self.made}", f"ended_{self.made}", list[ast.stmt]()
        if next(_jumps(node.body, ast.Break), None) is not None:
            changed[flag] = True
            before, body = self._ended_by_flag(node, body, flag)
        elif self._may_jump(*node.body):
            body = self._without_jumps(node, body, flag)
        turn = self._function(node, name, _arguments([*items, *changed]), body, _names(changed))
        return turn, changed, before, flag if before else ""

    def _otherwise(
        self, node: ast.For | ast.While, made: ast.For | ast.While, flag: str
    ) -> list[ast.stmt]:
        """The `else` of a loop, where no `break` has set the flag; an empty flag says that there is none."""
        if not made.orelse or not flag:
            return made.orelse
        return self._choice(node, self._unset(_target(node), flag), made.orelse, [])

    def _ended_by_flag(
        self, node: ast.For | ast.While, statements: list[ast.stmt], flag: str
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """A loop's body with a flag in the place of its `break`s; and what is to stand before the loop."""
        begun: list[ast.stmt] = [_assigned(node, [flag], ast.Constant(0.0))]
        going = self._unset(_target(node), flag)
        return begun, self._choice(node, going, self._without_jumps(node, statements, flag), [])

    def _unset(self, shown: ast.AST, flag: str) -> ast.Call:
        """Whether no `break` has set a flag."""
        return self.call(shown, "compare", _strings(["=="]), _name(flag), ast.Constant(0))

    def _check_returns(self, node: ast.For | ast.While, keyword: str) -> None:
        for found in _within(node.body, ast.Return):
            message = f"`return` inside a `{keyword}` makes its count depend on what it finds"
            raise self.refuse(found, message, "set a name, and `break`: `found = x[i]`")

    def visit_While(self, node: ast.While) -> None:
        self._check_returns(node, "while")
        endless = isinstance(node.test, ast.Constant) and node.test.value in (True, 1)
        if endless and self._at_most(node) is None and not any(map(_counted(node), _limits(node))):
            message = "nothing says how often this `while` loop runs at most"
            advice = (
                "say so: `while True:  # at most 100`; or count, `if k >= 100: break` with `k += 1`"
            )
            raise self.refuse(node.test, message, advice)
        self.around += 1

    def leave_While(self, node: ast.While, made: ast.While) -> list[ast.stmt]:
        self.around -= 1
        turn, changed, before, flag = self._turn(node, made.body)
        call = self.call(
            node.test,
            "repeat_while",
            _strings(changed),
            _tuple(map(ast.Constant, changed.values())),
            _lambda(changed, made.test),
            self._begun(node, changed),
            _name(turn.name),
            self._bound_of(node),
            ast.Constant(bool(flag)),
        )
        result = _assigned(node, [*changed], call, always=True)
        return [*before, turn, result, *self._otherwise(node, made, flag)]

    def _bound_of(self, node: ast.While) -> ast.expr:
        """How often a `while` runs at most: `("k", limit, 1)` of `while p and k <= limit:` with `k += 1`, or of
        `if p or k >= limit: break`; `("", most, 0)` of `while p:  # at most`; None where nothing says so.
        """
        for limit in _limits(node):
            if counter := _counted(node)(limit):
                left, right = self.sides[limit.test]
                name, is_left, more = counter
                bound = copy.deepcopy(right if is_left else left)
                return _tuple([ast.Constant(name), bound, ast.Constant(more + limit.ends)])
        most = self._at_most(node)
        if most is None:
            return ast.Constant(None)
        if not most.isdigit():
            self.names[most] = None
            self.in_comments.add(most)
        limiting = ast.Constant(int(most)) if most.isdigit() else _name(most)
        return _tuple([ast.Constant(""), limiting, ast.Constant(0)])

    def _at_most(self, node: ast.While) -> str | None:
        """What the comment of a `while` says how often it runs at most."""
        assert node.test.end_lineno is not None
        assert node.test.end_col_offset is not None
        first, *others = self.lines[
            node.test.end_lineno - self.first : node.body[0].lineno - self.first
        ] or [""]
        behind = first[_characters(first, node.test.end_col_offset) :]
        found = AT_MOST.match("\n".join([behind, *others]))
        return found[1] if found is not None else None

    def visit_If(self, node: ast.If) -> None:
        if (other := _elif(node)) is not None:
            self.elifs.add(other)

    def leave_If(self, node: ast.If, made: ast.If) -> ast.If | list[ast.stmt]:
        if node in self.elifs:
            return made
        if has_return(node) and not self.around:
            self.returning.append((node, made))
            return made
        if self._may_jump(node):
            self.jumping.append((node, made))
            return made
        return self._branches(node, made)

    def _may_jump(self, *nodes: ast.AST) -> bool:
        """Whether statements may end the iteration, or the loop, that they are in."""
        return any(next(_jumps(nodes, kind), None) for kind in (ast.Continue, ast.Break))

    def _without_jumps(
        self, node: ast.AST, statements: list[ast.stmt], flag: str
    ) -> list[ast.stmt]:
        """Statements of a loop's body with `continue` as the end of what follows, and `break` as that and a flag."""
        for k, statement in enumerate(statements):
            if isinstance(statement, ast.Continue):
                return statements[:k]
            if isinstance(statement, ast.Break):
                return [*statements[:k], _assigned(node, [flag], ast.Constant(1.0))]
            found = next((pair for pair in self.jumping if pair[1] is statement), None)
            if found is not None:
                test, rest = found[0], statements[k + 1 :]
                ways = [
                    self._without_jumps(node, [*way, *rest], flag) for way in self._ways(*found)
                ]
                choice = self._choice(test, found[1].test, *ways)
                return [*statements[:k], *choice]
        return statements

    def _ways(self, node: ast.If, made: ast.If) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """The statements of both branches of an `if`."""
        other, made_other = _elif(node), _elif(made)
        if other is not None and made_other is not None:
            if self._may_jump(other):
                self.jumping.append((other, made_other))
                return made.body, [made_other]
            return made.body, self._branches(other, made_other)
        return made.body, made.orelse

    def _choice(
        self,
        node: ast.If | ast.For | ast.While,
        test: ast.expr,
        first: list[ast.stmt],
        second: list[ast.stmt],
    ) -> list[ast.stmt]:
        """Two functions of rewritten statements, and a choice between them."""
        changed = changed_names([*first, *second])
        names = [x for x in changed if not x.startswith("__")]
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        call = self.call(
            _target(node),
            "branch",
            test,
            _strings(names),
            _tuple(map(self.current, names)),
            _name(then),
            _name(other),
        )
        return [
            self._function(node, then, _arguments(names), first, _names(names)),
            self._function(node, other, _arguments(names), second, _names(names)),
            _assigned(node, names, call, always=True),
        ]

    def _branches(self, node: ast.If, made: ast.If) -> list[ast.stmt]:
        """An `if` as two functions and a choice between them."""
        return self._choice(node, made.test, *self._ways(node, made))

    def _closed(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Statements of which each `if` that returns is a choice between the ways to go on; what that is in a branch of an `if`,
        the block around it says.
        """
        for k, statement in enumerate(statements):
            found = next((pair for pair in self.returning if pair[1] is statement), None)
            if found is not None:
                return [*statements[:k], *self._returned(*found, statements[k + 1 :])]
        return statements

    def _returned(self, node: ast.If, made: ast.If, rest: list[ast.stmt]) -> list[ast.stmt]:
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        first = made.body if returns(node.body) else [*made.body, *rest]
        otherwise, made_otherwise = _elif(node), _elif(made)
        if otherwise is not None and made_otherwise is not None:
            second = self._returned(otherwise, made_otherwise, rest)
        else:
            ends = bool(node.orelse) and returns(node.orelse)
            second = [*made.orelse, *([] if ends else rest)]
        if not second:
            raise self.refuse(
                node.test, "where this does not hold nothing is returned", "add `else: return …`"
            )

        def arguments() -> ast.arguments:
            return _arguments([*self.assigned], [self.current(x) for x in self.assigned])

        call = self.call(node.test, "returned", made.test, _name(then), _name(other))
        return [
            self._function(node, then, arguments(), self._closed(first), None),
            self._function(node, other, arguments(), self._closed(second), None),
            ast.copy_location(ast.Return(call), node),
        ]

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        if node not in self.dotted:
            self.names[node.id] = None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node not in self.dotted and (dotted := _dotted(node)):
            self.names[dotted] = None
            self.dotted.add(node)
        if node in self.dotted:
            self.dotted.add(node.value)

    # Comprehensions

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("sum", "any", "all"):
            self.consumed.update(
                x for x in node.args[:1] if isinstance(x, ast.GeneratorExp | ast.ListComp)
            )

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._check_loops(node)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        if len(node.generators) > 1:
            raise self.refuse(node, "two `for`s in one dictionary", "write loops")
        self._check_loops(node)

    def leave_DictComp(self, node: ast.DictComp, made: ast.DictComp) -> ast.expr:
        (loop,) = made.generators
        body: ast.expr = _tuple([made.key, made.value])
        for condition in reversed(loop.ifs):
            ways = _lambda([], body), _lambda([], ast.Constant(None))
            body = self.call(node, "choose", condition, *ways)
        part = _lambda(_flat(loop.target), body)
        return self.call(node, "dictionary", _pattern(loop.target), loop.iter, part)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._check_loops(node)

    def _check_loops(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        for loop in node.generators:
            self._check_range(loop.iter, loop.target)

    def _check_range(self, iterable: ast.expr, target: ast.expr) -> None:
        match iterable, target:
            case ast.Call(func=ast.Name(id="range")), ast.Name():
                self.ranges.add(iterable)
        if not isinstance(target, ast.Name | ast.Tuple | ast.List):
            raise self.refuse(target, "a loop's target is a name", "write `for i in range(n)`")

    def leave_comprehension(
        self, node: ast.comprehension, made: ast.comprehension
    ) -> ast.comprehension:
        if node.iter not in self.ranges:
            made.iter = self.call(node.iter, "each", made.iter)
        return made

    def leave_ListComp(self, node: ast.ListComp, made: ast.ListComp) -> ast.expr:
        return made if node in self.consumed else self._list(node, made)

    def leave_GeneratorExp(self, node: ast.GeneratorExp, made: ast.GeneratorExp) -> ast.expr:
        return made if node in self.consumed else self._list(node, made)

    def _list(self, node: ast.AST, made: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """A list: of one loop without a condition an entry for each index; of any other what its loops append."""
        if len(made.generators) == 1 and not made.generators[0].ifs:
            return self._loop("generate", node, made.generators, made.elt)
        return self._appending(node, made.generators, made.elt, ast.List([], ast.Load()))

    def _appending(
        self,
        node: ast.AST,
        loops: Sequence[ast.comprehension],
        entry: ast.expr,
        begun: ast.expr,
    ) -> ast.Call:
        """`__tensor__.append_all(place, "i", bounds, lambda i, list: …, begun)`: what the loops of a comprehension append to
        a list.
        """
        list_ = "__list__"
        loop, *inner = loops
        body = (
            self._appending(node, inner, entry, _name(list_))
            if inner
            else self.call(node, "append", _name(list_), entry)
        )
        for condition in reversed(loop.ifs):
            one = _lambda([list_], body)
            body = self.call(node, "append_if", condition, one, _name(list_))
        turn = _lambda([*_flat(loop.target), list_], body)
        return self.call(node, "append_all", _pattern(loop.target), loop.iter, turn, begun)

    def _loop(
        self,
        method: str,
        node: ast.AST,
        loops: Sequence[ast.comprehension],
        body: ast.expr,
    ) -> ast.Call:
        """`__tensor__.method(place, "i", bounds, lambda i: body)`, inner loops and conditions
        within.
        """
        loop, *inner = loops
        if inner:
            body = self._loop(method, node, inner, body)
        for condition in reversed(loop.ifs):
            if method == "all":
                condition = self.call(node, "negated", condition)
            body = self.call(node, GIVEN[method], condition, _lambda([], body))
        turn = _lambda(_flat(loop.target), body)
        return self.call(node, method, _pattern(loop.target), loop.iter, turn)

    # Expressions

    def leave_Call(self, node: ast.Call, made: ast.Call) -> ast.expr:
        if node in self.ranges:
            return self.call(node, "range", node.func, *made.args)
        if node.args and node.args[0] in self.consumed:
            loop, *starts = made.args
            assert isinstance(loop, ast.GeneratorExp | ast.ListComp)
            assert isinstance(node.func, ast.Name)
            name = node.func.id
            value = self._loop(name, node, loop.generators, loop.elt)
            found = self.call(node, "builtin", ast.Constant(name), node.func, value)
            for start in (*starts, *(x.value for x in made.keywords)):
                found = self.call(node, "binary", ast.Constant("+"), start, found)
            return found
        call = self.call(node, "call", made.func, *made.args)
        call.keywords = made.keywords
        return call

    def leave_IfExp(self, node: ast.IfExp, made: ast.IfExp) -> ast.expr:
        branches = _lambda([], made.body), _lambda([], made.orelse)
        return self.call(node, "choose", made.test, *branches)

    def leave_BoolOp(self, node: ast.BoolOp, made: ast.BoolOp) -> ast.expr:
        method = "and_then" if isinstance(node.op, ast.And) else "or_else"
        found, *others = made.values
        for value, other in zip(node.values[1:], others, strict=True):
            so_far = ast.copy_location(ast.Constant(None), node)
            so_far.end_lineno, so_far.end_col_offset = value.end_lineno, value.end_col_offset
            found = self.call(so_far, method, found, _lambda([], other))
        return found

    def leave_UnaryOp(self, node: ast.UnaryOp, made: ast.UnaryOp) -> ast.expr:
        methods = {ast.Not: "negated", ast.Invert: "negated", ast.USub: "minus", ast.UAdd: "plus"}
        return self.call(node, methods[type(node.op)], made.operand)

    def leave_Compare(self, node: ast.Compare, made: ast.Compare) -> ast.expr:
        sides = [made.left, *made.comparators]
        self.sides[node] = sides
        return self.call(node, "compare", _strings(_SIGNS[type(op)] for op in node.ops), *sides)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if node not in self.chained:
            chain = list(_chain(node))
            if len(chain) > LONG:
                self.chained.update(dict.fromkeys(chain, chain[-1]))

    def leave_BinOp(self, node: ast.BinOp, made: ast.BinOp) -> ast.expr:
        op = ast.Constant(_SIGNS[type(node.op)])
        if node not in self.chained:
            return self.call(node, "binary", op, made.left, made.right)
        # The calls for the operations of a chain would be nested as deep as it is long.
        step = _tuple([self.call(node, "at").args[0], op])
        if node is self.chained[node]:
            call = ast.Call(_method("chain"), [made.left, step, made.right], [])
            return ast.copy_location(call, node)
        assert isinstance(made.left, ast.Call)
        made.left.args += [step, made.right]
        return made.left

    def leave_Subscript(self, node: ast.Subscript, made: ast.Subscript) -> ast.expr:
        places = made.slice.elts if isinstance(made.slice, ast.Tuple) else [made.slice]
        return self.call(node, "entry", made.value, *map(_place, places))

    def leave_List(self, node: ast.List, made: ast.List) -> ast.expr:
        return self.call(node, "array", made)


#: What an `if` of a comprehension is: of a sum, of `any` and of `all`.
GIVEN = {"sum": "given", "any": "and_then", "all": "or_else"}
_HAVE_TYPE_PARAMETERS = "type_params" in ast.FunctionDef._fields


def _characters(text: str, column: int) -> int:
    """The number of characters before a column, which Python counts in bytes."""
    return column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))


def _place(e: ast.expr) -> ast.expr:
    """What stands between brackets, a slice as `__tensor__.cut(…)`."""
    if not isinstance(e, ast.Slice):
        return e
    parts = [part or ast.Constant(None) for part in (e.lower, e.upper, e.step)]
    return ast.copy_location(ast.Call(_method("cut"), parts, []), e)


def _target(node: ast.If | ast.For | ast.While) -> ast.AST:
    """What of a statement of several lines errors point at."""
    return node.target if isinstance(node, ast.For) else node.test


def _root(e: ast.expr) -> ast.expr:
    """The array of `y[i][j]`."""
    while isinstance(e, ast.Subscript):
        e = e.value
    return e


def _unstarred(e: ast.expr) -> ast.expr:
    return e.value if isinstance(e, ast.Starred) else e


def _several(target: ast.expr) -> ast.Tuple | ast.List:
    assert isinstance(target, ast.Tuple | ast.List)
    return target


def _has_entries(target: ast.expr) -> bool:
    """Whether some of several targets are entries of arrays."""
    if not isinstance(target, ast.Tuple | ast.List):
        return False
    return any(isinstance(_unstarred(e), ast.Subscript) for e in target.elts)


def _leaves(target: ast.expr) -> Iterator[ast.expr]:
    """The names, entries and attributes of a target, in order."""
    if isinstance(target, ast.Tuple | ast.List):
        for e in target.elts:
            yield from _leaves(_unstarred(e))
    else:
        yield target


def _flat(target: ast.expr) -> list[str]:
    """The names of a target, in order; of an entry that of its array."""
    roots = map(_root, _leaves(target))
    return [root.id for root in roots if isinstance(root, ast.Name)]


def _pattern(target: ast.expr) -> ast.expr:
    """A target as the tracer takes it: `("i", ("a", "*b"))`."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return _tuple(map(_pattern, parts))
        case ast.Starred(value=ast.Name(id=name)):
            return ast.Constant(f"*{name}")
        case ast.Name(id=name):
            return ast.Constant(name)
    raise TypeError(target)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _method(name: str) -> ast.Attribute:
    """One of the tracer's."""
    return ast.Attribute(_name(TRACER), name, ast.Load())


def _tuple(parts: Iterable[ast.expr]) -> ast.Tuple:
    return ast.Tuple([*parts], ast.Load())


def _strings(names: Iterable[str]) -> ast.Tuple:
    return _tuple(map(ast.Constant, names))


def _names(names: Iterable[str]) -> ast.Tuple:
    return _tuple(map(_name, names))


def _assigned(
    node: ast.AST, names: Sequence[str], value: ast.expr, always: bool = False
) -> ast.stmt:
    """`a, b = value` in the place of a node; of one name, `a = value`, unless the value is a tuple `always`."""
    stored: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names or ("_",)]
    target = ast.List(stored, ast.Store()) if always and names else stored[0]
    return ast.copy_location(ast.Assign([target], value), node)


def _arguments(names: Iterable[str], defaults: Sequence[ast.expr] = ()) -> ast.arguments:
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [*defaults])


def _without_defaults(given: ast.arguments) -> ast.arguments:
    """The same parameters, neither annotated nor with what they mean where nothing is passed."""

    def plain(parameters: Iterable[ast.arg]) -> list[ast.arg]:
        return [ast.arg(x.arg) for x in parameters]

    more = [x and ast.arg(x.arg) for x in (given.vararg, given.kwarg)]
    only = plain(given.kwonlyargs)
    return ast.arguments(
        plain(given.posonlyargs), plain(given.args), more[0], only, [None] * len(only), more[1], []
    )


def _lambda(names: Iterable[str], body: ast.expr) -> ast.Lambda:
    return ast.Lambda(_arguments(names), body)


def _elif(node: ast.If) -> ast.If | None:
    """The `if` that is all of the other branch of one."""
    return node.orelse[0] if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) else None


def _within(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of a kind, those of inner functions apart."""
    for node in nodes:
        if isinstance(node, kind):
            yield node
        children = ast.iter_child_nodes(node)
        yield from _within((x for x in children if not isinstance(x, INNER)), kind)


def _occurrences(nodes: Iterable[ast.AST]) -> Counter[str]:
    """The names in nodes, and how often they have each; those that a function, a lambda or a comprehension in it has for itself,
    as its parameters or targets, apart.
    """
    found = Counter[str]()
    for node in nodes:
        if isinstance(node, ast.Name):
            found[node.id] += 1
            continue
        inside = _occurrences(ast.iter_child_nodes(node))
        own: Sequence[str] = ()
        match node:
            case ast.FunctionDef(args=args) | ast.Lambda(args=args):
                own = [x.arg for x in (*args.args, *args.kwonlyargs)]
            case ast.ListComp(generators=[loop, *_]) | ast.GeneratorExp(generators=[loop, *_]):
                own = _flat(loop.target)
        for name in own:
            del inside[name]
        if isinstance(node, ast.FunctionDef):
            inside[node.name] += 1
        found += inside
    return found


def _jumps(nodes: Iterable[ast.AST], kind: type[ast.AST]) -> Iterator[ast.AST]:
    """The `continue`s or `break`s of the loop that statements are in."""
    for node in nodes:
        if isinstance(node, kind):
            yield node
        children = ast.iter_child_nodes(node)
        yield from _jumps((x for x in children if not isinstance(x, (*INNER, *_LOOPS))), kind)


_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def has_return(node: ast.AST) -> bool:
    """Whether a function may end in a statement, by `return` or by `raise`."""
    return any(next(_within([node], kind), None) is not None for kind in (ast.Return, ast.Raise))


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether a block's end is a `return` or a `raise`, on every way to it."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and returns(last.body) and returns(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def self_added(node: ast.AST) -> tuple[str, str] | None:
    """The name and the sign of `s = s + e`, where e does not read s."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as sign, right=right),
        ) if name == left:
            return None if name in _read_names(right) else (name, _SIGNS[type(sign)])
    return None


def _read_names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


# `s -= e` is one more term, and `s /= e` one more factor; what another operator makes is a value of its own.
_ADDED_UP = ast.Add | ast.Sub | ast.Mult | ast.Div
METHODS = ("append", "fill", "extend", "reverse", "sort")


def _changed_by(e: ast.expr) -> tuple[str, ast.Name] | None:
    """How a call changes what it is given, and y: `y.append(e)`, `y.fill(e)`, `np.fill_diagonal(y, e)`, `np.add.at(y, k, e)`."""
    match e:
        case ast.Call(
            func=ast.Attribute(value=ast.Name() as target, attr=how), args=[_], keywords=[]
        ) if how in METHODS[:3]:
            return how, target
        case ast.Call(
            func=ast.Attribute(value=ast.Name() as target, attr=how),
            args=[],
            keywords=[] | [ast.keyword(arg="reverse")],
        ) if how in METHODS[3:]:
            return how, target
        case ast.Call(
            func=ast.Attribute(attr="fill_diagonal" | "copyto" as how),
            args=[ast.Name() as target, _],
            keywords=[],
        ):
            return how, target
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="add" | "subtract" as how), attr="at"),
            args=[ast.Name() as target, _, _],
            keywords=[],
        ):
            return how, target
    return None


@dataclass(frozen=True)
class Limit:
    """A comparison by which a `while` loop goes on, or, where `ends`, by which it breaks."""

    test: ast.Compare
    ends: bool


def _limits(node: ast.While) -> Iterator[Limit]:
    """The comparisons of which each alone ends a loop: `while p and k < n:`, `if p or k >= n: break`."""
    for part in _parts(node.test, ast.And):
        if isinstance(part, ast.Compare):
            yield Limit(part, False)
    for statement in _always_run(node.body):
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Break):
            for part in _parts(statement.test, ast.Or):
                if isinstance(part, ast.Compare):
                    yield Limit(part, True)


def _always_run(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """The statements of a loop's body that run in every iteration that no `break` ends: those before a `continue`."""
    jumping = (k for k, s in enumerate(body) if next(_jumps([s], ast.Continue), None))
    return body[: next(jumping, len(body))]


def _parts(e: ast.expr, operator: type[ast.boolop]) -> Iterator[ast.expr]:
    """The parts of `p and q and …`, or of `p or q or …`."""
    if isinstance(e, ast.BoolOp) and isinstance(e.op, operator):
        for part in e.values:
            yield from _parts(part, operator)
    else:
        yield e


def _counted(node: ast.While) -> Callable[[Limit], tuple[str, bool, int] | None]:
    """Of a limit the name that the loop's body counts up by one each time, and that is compared with what the body does not
    change: the name, whether it stands on the left, and 1 where the limit itself is reached, else 0.
    """

    def found(limit: Limit) -> tuple[str, bool, int] | None:
        test = limit.test
        if len(test.ops) != 1:
            return None
        operator, right = _SIGNS[type(test.ops[0])], test.comparators[0]
        for is_left, side, bound in ((True, test.left, right), (False, right, test.left)):
            goes_on = {"<": 0, "<=": 1} if is_left else {">": 0, ">=": 1}
            breaks = {">=": 0, ">": 1, "==": 0} if is_left else {"<=": 0, "<": 1, "==": 0}
            reached = (breaks if limit.ends else goes_on).get(operator)
            if reached is None or not isinstance(side, ast.Name):
                continue
            changed = changed_names(node.body).keys()
            if not _read_names(bound) & changed and _counts_up(side.id, node.body):
                return side.id, is_left, reached
        return None

    return found


def _counts_up(name: str, body: Sequence[ast.stmt]) -> bool:
    """Whether statements add 1 to a name, once, and change it nowhere else."""
    changing = [s for s in _always_run(body) if name in changed_names([s])]
    elsewhere = [s for s in body if name in changed_names([s])]
    if len(changing) != 1 or len(elsewhere) != 1:
        return False
    match changing[0]:
        case ast.AugAssign(target=ast.Name(), op=ast.Add(), value=ast.Constant(value=1)):
            return True
        case ast.Assign(
            targets=[ast.Name()],
            value=ast.BinOp(left=ast.Name(id=left), op=ast.Add(), right=ast.Constant(value=1)),
        ):
            return left == name
    return False


def changed_names(nodes: Iterable[ast.AST]) -> dict[str, bool]:
    """The names that statements change, and whether they assign them anew."""
    found: dict[str, bool] = {}

    def add(name: str, plain: bool) -> None:
        found[name] = found.get(name, False) or plain

    def see(node: ast.AST) -> None:
        match node:
            case ast.FunctionDef(name=name):
                add(name, True)
                return
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp():
                return
            case ast.Assign(targets=targets):
                for leaf in (leaf for target in targets for leaf in _leaves(target)):
                    plain = not isinstance(leaf, ast.Subscript) and self_added(node) is None
                    for name in _flat(leaf):
                        add(name, plain)
            case ast.AnnAssign(target=ast.Name(id=name)):
                add(name, True)
            case ast.AugAssign(target=target, op=op):
                root = _root(target)
                if isinstance(root, ast.Name):
                    add(root.id, root is target and not isinstance(op, _ADDED_UP))
            case ast.Expr(value=value) if change := _changed_by(value):
                add(change[1].id, False)
        for child in ast.iter_child_nodes(node):
            see(child)

    for node in nodes:
        see(node)
    return found


def _chain(node: ast.expr) -> Iterator[ast.BinOp]:
    """The operations of `a + b - c + …`, or of `a * b * c * …`, the last first."""
    operator = node.op if isinstance(node, ast.BinOp) else None
    kinds = next((k for k in _CHAINS if isinstance(operator, k)), ())
    while isinstance(node, ast.BinOp) and isinstance(node.op, kinds):
        yield node
        node = node.left


_CHAINS = ((ast.Add, ast.Sub), (ast.Mult,))
