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
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

from ..language.depth import deep_recursion
from ..language.errors import Place, TensorError
from .captured_data import Surroundings
from .desugaring import desugar
from .lambdas import LAMBDA, NAME, as_definition
from .syntax import contains, contains_jump, dotted_name, read_names

OURS = str(Path(__file__).parents[1])  # the folder of the package's own frames
TRACER = "__tensor__"
OUTSIDE = "__outside__"  # where the function's names from outside are looked up
LONG = 32  # operands of one sum or product above which it is built as a balanced tree

_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
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
        """The rewritten function's source."""
        return ast.unparse(self.tree)

    def raised(self, error: BaseException) -> bool:
        """Whether the program raised an exception: its own lines, or a function of Python or NumPy that it called."""
        traceback, own = error.__traceback__, False
        while traceback is not None:
            filename = traceback.tb_frame.f_code.co_filename
            own = filename == self.filename or (own and not filename.startswith(OURS))
            traceback = traceback.tb_next
        return own

    def place_of(self, error: BaseException) -> Place | None:
        """Return the last source line of the program through which an exception passed; None if there is none."""
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
    source, first, filename = _read_source(function)
    try:
        with deep_recursion():  # the tree is as deep as a sum has terms
            read = ast.parse(source)
            ast.increment_lineno(read, first - 1)
            rewriter = _Rewriter(source.splitlines(), first, filename)
            cells = dict(
                zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            )
            simpler = desugar(read, partial(_value_of, function, cells), rewriter.refuse)
            tree = rewriter.module(simpler)
            outside = _names_with_data(function, cells) - rewriter.assigned.keys()
            if outside:
                tree = _Outside(outside).visit(tree)
            code = compile(ast.fix_missing_locations(tree), filename, "exec")
    except SyntaxError as error:
        message = f"`{function.__name__}` is not written as one function"
        raise TensorError(message, "define it with `def`") from error
    except (RecursionError, MemoryError) as error:
        message = f"an expression of `{function.__name__}` is nested too deeply"
        raise TensorError(message, "give its parts names") from error

    unbound = {*cells, *_iterate_globals(function.__code__), *rewriter.in_comments}
    paths = [tuple(dotted.split(".")) for dotted in rewriter.names]
    taken = [path for path in paths if path[0] in unbound]
    plain = [path[0] for path in taken if not path[1:] and path[0] not in cells]
    pairs = [path for path in taken if len(path) == 2 and path[0] not in cells]  # `np.sum`
    others = [path for path in taken if len(path) > 2 or path[0] in cells]
    names = function.__globals__
    surroundings = Surroundings(lambda name: _read_captured((name,), cells, names))

    def captured() -> tuple[Any, ...]:  # at each call, so in as little time as can be
        found = [_read_captured(path, cells, names) for path in others]
        try:
            attributes = [getattr(names.get(owner), name, None) for owner, name in pairs]
        except Exception:  # whatever a property raises
            attributes = [_read_captured(path, cells, names) for path in pairs]
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


def _names_with_data(function: Callable[..., Any], cells: Mapping[str, CellType]) -> set[str]:
    """Return the names from outside that may have data: all but modules, functions, numbers and built-ins."""
    names = {*cells, *_iterate_globals(function.__code__)}
    values = {x: _read_captured((x,), cells, function.__globals__) for x in names}
    plain = bool | int | float | complex | str | type | ModuleType
    return {
        x
        for x, value in values.items()
        if not (isinstance(value, plain) or callable(value) or (value is None and _is_built_in(x)))
    }


def _is_built_in(name: str) -> bool:
    """Whether a name is a built-in of Python."""
    return hasattr(builtins, name)


class _Outside(ast.NodeTransformer):
    """Names from outside as `__tensor__.named_outside(__outside__, "X", X)`; statements that stand twice in the tree once."""

    def __init__(self, names: set[str]) -> None:
        self.names = names
        self.made: set[ast.AST] = set()

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Leave calls that this transformer made; visit others."""
        return node if node in self.made else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Replace a read of a name from outside by a call of the tracer."""
        if node.id not in self.names or not isinstance(node.ctx, ast.Load):
            return node
        given = [_name_node(OUTSIDE), ast.Constant(node.id), node]
        made = ast.copy_location(ast.Call(_tracer_method("named_outside"), given, []), node)
        self.made.add(made)
        return made


def _iterate_globals(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function reads, also in its comprehensions."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iterate_globals(constant)


def _value_of(function: Callable[..., Any], cells: Mapping[str, CellType], node: ast.expr) -> Any:
    """Return the value of a name from outside, or of its attribute, as it is now; None for another expression."""
    path = tuple((dotted_name(node) or "").split("."))
    found = _read_captured(path, cells, function.__globals__)
    return getattr(builtins, path[0], None) if found is None and not path[1:] else found


def _read_captured(
    path: tuple[str, ...], cells: Mapping[str, CellType], names: Mapping[str, Any]
) -> Any:
    """Return the value of a name from outside, or of its attribute; None if there is none."""
    value: Any = None
    with suppress(Exception):  # a cell that is empty yet; whatever a property raises
        value = cells[path[0]].cell_contents if path[0] in cells else names.get(path[0])
        for attribute in path[1:]:
            value = getattr(value, attribute, None)
    return value


def _read_source(function: Callable[..., Any]) -> tuple[str, int, str]:
    """Return a function's source, its first line and its file. Raises TensorError if the source cannot be found."""
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
    return isinstance(node, ast.Call) and dotted_name(node.func) in DEBUGGING


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
        """Return the rewritten module."""
        return ast.Module(self._rewrite_statements(node.body), [])

    def visit(self, node: ast.AST) -> Any:
        """Return what replaces a node: for a statement, a node or a list."""
        refused = _REFUSED.get(type(node))
        if refused is not None:
            raise self.refuse(node, *refused)
        kind = type(node).__name__
        before = getattr(self, f"visit_{kind}", None)
        inside = before is None or before(node) is not False
        made = self._rebuild(node) if inside else node
        after = getattr(self, f"leave_{kind}", None)
        return made if after is None else after(node, made)

    def _rebuild(self, node: ast.AST) -> ast.AST:
        """Return a node of the same kind with its parts rewritten."""
        kept = self._fields_to_keep(node)
        fields = {
            name: value if name in kept else self._rewrite_part(node, value)
            for name, value in ast.iter_fields(node)
        }
        return ast.copy_location(type(node)(**fields), node)

    def _rewrite_part(self, node: ast.AST, value: Any) -> Any:
        """Rewrite a field of a node: an expression, or a list of expressions or statements."""
        if isinstance(value, list):
            if not value or not isinstance(value[0], ast.stmt):
                return [x if x is None else self.visit(x) for x in value]
            statements = self._rewrite_statements(value)
            return statements if isinstance(node, ast.If) else self._close_block(statements)
        return self.visit(value) if isinstance(value, ast.expr | ast.arguments) else value

    def _rewrite_statements(self, statements: Iterable[ast.stmt]) -> list[ast.stmt]:
        """Rewrite statements, each of which may become several."""
        found: list[ast.stmt] = []
        for statement in statements:
            made = self.visit(statement)
            found += made if isinstance(made, list) else [made]
        return found

    def _fields_to_keep(self, node: ast.AST) -> tuple[str, ...]:
        """Return the fields of a node that are not rewritten."""
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
        return ()

    # Places and errors

    def place(self, node: ast.AST) -> Place:
        """Return the source location of a node; for a function, of its name."""
        at: Any = node
        text = self.lines[at.lineno - self.first]
        start = _count_characters(text, at.col_offset)
        end = (
            _count_characters(text, at.end_col_offset) if at.end_lineno == at.lineno else len(text)
        )
        if isinstance(node, Function):
            start = text.index(node.name, text.index("def", start) + len("def"))
            end = start + len(node.name)
        elif isinstance(node, ast.GeneratorExp | ast.Tuple) and text[start] == "(":
            start, end = start + 1, end - (text[end - 1] == ")")
        return Place(self.filename, at.lineno, start, end, text)

    def refuse(self, node: ast.AST, message: str, help_: str) -> TensorError:
        """Return the error for a node that the language does not have."""
        return TensorError(message, help_, self.place(node))

    def call(self, node: ast.AST, method: str, *arguments: ast.expr) -> ast.Call:
        """Return the call `__tensor__.method(place, …)` that replaces a node."""
        self.places.append(self.place(node))
        number = ast.Constant(len(self.places) - 1)
        return ast.copy_location(ast.Call(_tracer_method(method), [number, *arguments], []), node)

    # The function itself

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Enter a function: loops around it do not count inside."""
        if not self.depth:
            self.occurring = _count_occurrences(node.body)
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
        """Return the function without annotations and decorators; a nested one is bound to what its decorators return."""
        self.depth -= 1
        self.around = self.outer.pop()
        if not returns(node.body):
            raise self.refuse(node, f"`{node.name}` returns nothing", "end it with `return …`")
        decorators = made.decorator_list
        made.decorator_list, made.returns = [], None
        if not self.depth:
            made.args = _strip_parameters(node.args)
            return made
        value: ast.expr = _name_node(node.name)
        for decorator in reversed(decorators):
            value = self.call(node, "call", decorator, value)
        return [made, _make_assignment(node, [node.name], value)] if decorators else made

    # Statements

    def visit_Expr(self, node: ast.Expr) -> bool:
        """Check an expression statement: docstrings stay; a statement without effect is refused."""
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
        if _find_change(node.value):
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
        """Return the statement: nothing for debugging output, an assignment for a call that changes an array in place."""
        if is_debugging(node.value):
            self.debugging.append(self.place(node))
            return ast.copy_location(ast.Pass(), node)
        change = _find_change(node.value)
        if change is None:
            return made
        assert isinstance(made.value, ast.Call)
        how, target = change
        assert isinstance(node.value, ast.Call)
        positional = made.value.args[len(made.value.args) - len(node.value.args) :]
        given = [*positional, *(x.value for x in made.value.keywords)]
        if how == "append":
            return _make_assignment(node, [target.id], self.call(node, how, target, given[-1]))
        name, values = ast.Constant(target.id), given[how not in METHODS :]
        kind = ast.Constant(how)
        value = self.call(node, "changed", kind, name, target, *values)
        return _make_assignment(node, [target.id], value)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            raise self.refuse(node, "this returns nothing", "end the function with `return …`")

    def visit_Raise(self, _node: ast.Raise) -> bool:
        return False

    def leave_Raise(self, node: ast.Raise, _made: ast.Raise) -> ast.stmt:
        """Return the statement that reports a `raise` to the tracer."""
        call = self.call(node, "raised", ast.Constant(self._source_text(node.exc) or "raise"))
        return ast.copy_location(ast.Return(call), node)

    def _source_text(self, node: ast.expr | None) -> str | None:
        """Return an expression's text as written, or as `ast` formats it if it spans several lines."""
        if node is None:
            return None
        if node.end_lineno != node.lineno:
            return ast.unparse(node)
        at = self.place(node)
        return at.text[at.column : at.end_column]

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
        """Raise TensorError for an assignment target that the language does not have."""
        if isinstance(target, ast.Tuple | ast.List):
            for one in map(_strip_star, target.elts):
                if _has_entries(one):
                    raise self.refuse(
                        one,
                        "an entry in a tuple of targets that is in another",
                        "assign in statements of their own",
                    )
                self._check_target(one)
            return
        if isinstance(_root_array(target), ast.Name):
            return
        raise self.refuse(
            target, "this target changes something outside", "assign to names and to entries"
        )

    def leave_Assign(self, node: ast.Assign, made: ast.Assign) -> ast.stmt | list[ast.stmt]:
        """Return the tracer's call for an assignment: a name, an entry, or several targets."""
        target = node.targets[0]
        if len(node.targets) > 1:
            return [*self._assign_all_targets(node, made)]
        if isinstance(target, ast.Subscript):
            return self._store_call(node, target, made.targets[0], "", made.value)
        if _has_entries(target):
            return [*self._assign_entries(node, made)]
        added = self_added(node)
        if added is not None and self.loops:
            name, operator = added
            assert isinstance(made.value, ast.Call)
            return self._augment_call(node, name, operator, made.value.args[-1], "augment_copy")
        names = _target_names(target)
        value = self._bind_call(node, target, made.value)
        return _make_assignment(node, names, value, always=not isinstance(target, ast.Name))

    def _assign_all_targets(self, node: ast.Assign, made: ast.Assign) -> Iterator[ast.stmt]:
        """Yield the assignments of `a = b[0] = e`, in Python's order."""
        same = "__same__"
        yield _make_assignment(node, [same], self._bind_call(node, _name_node(same), made.value))
        for one, read in zip(node.targets, made.targets, strict=True):
            match one:
                case ast.Subscript():
                    yield self._store_call(node, one, read, "", _name_node(same))
                case ast.Tuple() | ast.List():
                    value = self._bind_call(node, one, _name_node(same))
                    yield _make_assignment(node, _target_names(one), value, always=True)
                case _:
                    yield _make_assignment(node, _target_names(one), _name_node(same))

    def _assign_entries(self, node: ast.Assign, made: ast.Assign) -> Iterator[ast.stmt]:
        """Yield the assignments of `y[i], y[j] = a, b`: both values first, then one target after the other."""
        target, read = _as_tuple_target(node.targets[0]), _as_tuple_target(made.targets[0])
        self.made += 1
        plain = [
            _name_node(f"__entry_{self.made}_{j}") if isinstance(one, ast.Subscript) else one
            for j, one in enumerate(target.elts)
        ]
        listed = ast.Tuple(plain, ast.Store())
        yield _make_assignment(
            node, _target_names(listed), self._bind_call(node, listed, made.value), always=True
        )
        for one, entry, name in zip(target.elts, read.elts, plain, strict=True):
            if isinstance(one, ast.Subscript):
                yield self._store_call(node, one, entry, "", name)

    def leave_AnnAssign(self, node: ast.AnnAssign, made: ast.AnnAssign) -> ast.stmt:
        if made.value is None:
            return made
        return _make_assignment(
            node, _target_names(node.target), self._bind_call(node, node.target, made.value)
        )

    def leave_AugAssign(self, node: ast.AugAssign, made: ast.AugAssign) -> ast.stmt:
        """Return the tracer's call for `x += e` or `x[i] += e`."""
        operator = _SIGNS[type(node.op)]
        if isinstance(node.target, ast.Subscript):
            return self._store_call(node, node.target, made.target, operator, made.value)
        assert isinstance(node.target, ast.Name)
        return self._augment_call(node, node.target.id, operator, made.value)

    def _augment_call(
        self,
        node: ast.AST,
        name: str,
        operator: str,
        value: ast.expr,
        method: str = "augment",
    ) -> ast.stmt:
        """Return `name = __tensor__.augment(…)`."""
        parts = ast.Constant(operator), ast.Constant(name), self.current(name)
        return _make_assignment(node, [name], self.call(node, method, *parts, value))

    def _store_call(
        self,
        node: ast.AST,
        target: ast.Subscript,
        made: ast.expr,
        operator: str,
        value: ast.expr,
    ) -> ast.stmt:
        """Return `y = __tensor__.store(…)` for `y[i] = e`. The target has been rewritten as a read, whose arguments are the
        indices.
        """
        (name,) = _target_names(target)
        places: list[ast.expr] = []
        while isinstance(made, ast.Call):
            array, *rest = made.args[1:]
            if places:  # `y[i][j]`: a row, and no part that NumPy may have copied
                rest = [self.call(node, "one_place", place) for place in rest]
            places = [*rest, *places]
            made = array
        parts = ast.Constant(operator), ast.Constant(name), self.current(name)
        return _make_assignment(
            node, [name], self.call(node, "store", *parts, _tuple_node(places), value)
        )

    def _bind_call(self, node: ast.AST, target: ast.expr, value: ast.expr) -> ast.Call:
        """Return the tracer's call that binds a value to a name, or unpacks it to several."""
        if isinstance(target, ast.Tuple | ast.List):
            return self.call(node, "unpack", _target_pattern(target), value)
        assert isinstance(target, ast.Name)
        return self.call(node, "bind", ast.Constant(target.id), value)

    def current(self, name: str, local: bool = False) -> ast.Call:
        """Return the tracer's call for a name's present value, which may be that it has none."""
        given = [_lambda_node([], _name_node(name)), *([ast.Constant(value=True)] if local else [])]
        return ast.Call(_tracer_method("current"), given, [])

    def _initial_values(self, node: ast.stmt, names: Iterable[str]) -> ast.Tuple:
        """Return the values before a loop of the names that it changes; names that occur only in the loop are marked."""
        inside = _count_occurrences([node])
        local = {x for x in names if inside[x] == self.occurring[x] > 0}
        return _tuple_node(self.current(x, x in local) for x in names)

    # Statements of several lines: their parts become functions

    def _make_function(
        self,
        node: ast.AST,
        name: str,
        arguments: ast.arguments,
        statements: list[ast.stmt],
        result: ast.expr | None,
    ) -> ast.FunctionDef:
        """Return a nested function definition with these statements, which returns `result` if given."""
        if result is not None:
            statements = [*statements, ast.copy_location(ast.Return(result), node)]
        more: dict[str, Any] = {"type_params": []} if _HAVE_TYPE_PARAMETERS else {}
        made = ast.FunctionDef(name, arguments, statements, [], None, **more)
        return ast.copy_location(made, node)

    def visit_For(self, node: ast.For) -> None:
        """Check a `for` loop, and count it as open, so that statements visited next are known to be in it."""
        self._check_range(node.iter, node.target)
        self.loops += 1
        self.around += 1

    def leave_For(self, node: ast.For, made: ast.For) -> list[ast.stmt]:
        """Return the body as a function, the call `__tensor__.repeat(…)` that runs it, and the `else` branch."""
        self.loops -= 1
        self.around -= 1
        items = _target_names(node.target)
        if changed_names(node.body).keys() & {*items}:
            raise self.refuse(node.target, "the loop changes its own index", "use another name")
        turn, changed, before, flag = self._make_iteration(node, made.body, items)
        call = self.call(
            node.target,
            "repeat",
            _target_pattern(node.target),
            made.iter if node.iter in self.ranges else self.call(node.iter, "each", made.iter),
            _string_tuple(changed),
            _tuple_node(map(ast.Constant, changed.values())),
            self._initial_values(node, changed),
            _name_node(turn.name),
        )
        result = _make_assignment(node, [*changed], call, always=True)
        return [*before, turn, result, *self._else_branch(node, made, flag)]

    def _make_iteration(
        self, node: ast.For | ast.While, body: list[ast.stmt], items: Sequence[str] = ()
    ) -> tuple[ast.FunctionDef, dict[str, bool], list[ast.stmt], str]:
        """Return a loop's body as a function of its items and of the names that it changes.

        Returns:
            the function; the changed names, each with whether it is assigned rather than added to; the statements before the
                loop; the name of the flag that a `break` sets, or ''.
        """
        changed = changed_names(node.body)
        self.made += 1
        name, flag, before = f"__turn_{self.made}", f"ended_{self.made}", list[ast.stmt]()
        if contains_jump(node.body, ast.Break):
            changed[flag] = True
            before, body = self._replace_breaks(node, body, flag)
        elif self._may_jump(*node.body):
            body = self._remove_jumps(node, body, flag)
        turn = self._make_function(
            node, name, _parameters_node([*items, *changed]), body, _name_tuple(changed)
        )
        return turn, changed, before, flag if before else ""

    def _else_branch(
        self, node: ast.For | ast.While, made: ast.For | ast.While, flag: str
    ) -> list[ast.stmt]:
        """Return the `else` of a loop, under the condition that no `break` has set the flag; without a flag, unconditionally."""
        if not made.orelse or not flag:
            return made.orelse
        return self._make_choice(
            node, self._flag_is_unset(_error_location(node), flag), made.orelse, []
        )

    def _replace_breaks(
        self, node: ast.For | ast.While, statements: list[ast.stmt], flag: str
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return the statements before the loop, and its body with a flag in place of `break`."""
        begun: list[ast.stmt] = [_make_assignment(node, [flag], ast.Constant(0.0))]
        going = self._flag_is_unset(_error_location(node), flag)
        return begun, self._make_choice(node, going, self._remove_jumps(node, statements, flag), [])

    def _flag_is_unset(self, source_node: ast.AST, flag: str) -> ast.Call:
        """Return the condition that no `break` has set a flag, at the position of `source_node`."""
        return self.call(source_node, "call", _tracer_method("is_unset"), _name_node(flag))

    def visit_While(self, node: ast.While) -> None:
        """Check that a `while` loop has a known bound on its iterations, and enter it."""
        endless = isinstance(node.test, ast.Constant) and node.test.value in (True, 1)
        if (
            endless
            and self._bound_in_comment(node) is None
            and not any(map(_make_counter_finder(node), _iterate_limits(node)))
        ):
            message = "nothing says how often this `while` loop runs at most"
            advice = (
                "say so: `while True:  # at most 100`; or count, `if k >= 100: break` with `k += 1`"
            )
            raise self.refuse(node.test, message, advice)
        self.around += 1

    def leave_While(self, node: ast.While, made: ast.While) -> list[ast.stmt]:
        """Return the body as a function, the call `__tensor__.repeat_while(…)` that runs it, and the `else` branch."""
        self.around -= 1
        turn, changed, before, flag = self._make_iteration(node, made.body)
        call = self.call(
            node.test,
            "repeat_while",
            _string_tuple(changed),
            _tuple_node(map(ast.Constant, changed.values())),
            _lambda_node(changed, made.test),
            self._initial_values(node, changed),
            _name_node(turn.name),
            self._find_bound(node),
            ast.Constant(bool(flag)),
        )
        result = _make_assignment(node, [*changed], call, always=True)
        return [*before, turn, result, *self._else_branch(node, made, flag)]

    def _find_bound(self, node: ast.While) -> ast.expr:
        """Return how often a `while` runs at most: `("k", limit, 1)` for `while p and k <= limit:` with `k += 1`, or for `if p
        or k >= limit: break`; `("", most, 0)` for `while p:  # at most`; the constant None if nothing says so.
        """
        for limit in _iterate_limits(node):
            if counter := _make_counter_finder(node)(limit):
                left, right = self.sides[limit.test]
                name, is_left, more = counter
                bound = copy.deepcopy(right if is_left else left)
                return _tuple_node([ast.Constant(name), bound, ast.Constant(more + limit.ends)])
        most = self._bound_in_comment(node)
        if most is None:
            return ast.Constant(None)
        if not most.isdigit():
            self.names[most] = None
            self.in_comments.add(most)
        limiting = ast.Constant(int(most)) if most.isdigit() else _name_node(most)
        return _tuple_node([ast.Constant(""), limiting, ast.Constant(0)])

    def _bound_in_comment(self, node: ast.While) -> str | None:
        """Return the bound in the comment `# at most …` beside a `while`; None if there is none."""
        assert node.test.end_lineno is not None
        assert node.test.end_col_offset is not None
        first, *others = self.lines[
            node.test.end_lineno - self.first : node.body[0].lineno - self.first
        ] or [""]
        behind = first[_count_characters(first, node.test.end_col_offset) :]
        found = AT_MOST.match("\n".join([behind, *others]))
        return found[1] if found is not None else None

    def visit_If(self, node: ast.If) -> None:
        """Remember an `elif`, which is rewritten with its `if`."""
        if (other := _find_elif(node)) is not None:
            self.elifs.add(other)

    def leave_If(self, node: ast.If, made: ast.If) -> ast.If | list[ast.stmt]:
        """Return two functions and a choice between them; an `if` that returns or jumps is left to the block around it."""
        if node in self.elifs:
            return made
        if has_return(node):
            self.returning.append((node, made))
            return made
        if self._may_jump(node):
            self.jumping.append((node, made))
            return made
        return self._rewrite_if(node, made)

    def _may_jump(self, *nodes: ast.AST) -> bool:
        """Whether statements may end the iteration or the loop that they are in."""
        return any(contains_jump(nodes, kind) for kind in (ast.Continue, ast.Break))

    def _remove_jumps(self, node: ast.AST, statements: list[ast.stmt], flag: str) -> list[ast.stmt]:
        """Return a loop's body in which `continue` skips what follows, and `break` also sets a flag."""
        for k, statement in enumerate(statements):
            if isinstance(statement, ast.Continue):
                return statements[:k]
            if isinstance(statement, ast.Break):
                return [*statements[:k], _make_assignment(node, [flag], ast.Constant(1.0))]
            found = next((pair for pair in self.jumping if pair[1] is statement), None)
            if found is not None:
                test, rest = found[0], statements[k + 1 :]
                ways = [
                    self._remove_jumps(node, [*way, *rest], flag)
                    for way in self._branch_statements(*found)
                ]
                choice = self._make_choice(test, found[1].test, *ways)
                return [*statements[:k], *choice]
        return statements

    def _branch_statements(
        self, node: ast.If, made: ast.If
    ) -> tuple[list[ast.stmt], list[ast.stmt]]:
        """Return the statements of both branches of an `if`."""
        other, made_other = _find_elif(node), _find_elif(made)
        if other is not None and made_other is not None:
            if self._may_jump(other):
                self.jumping.append((other, made_other))
                return made.body, [made_other]
            return made.body, self._rewrite_if(other, made_other)
        return made.body, made.orelse

    def _make_choice(
        self,
        node: ast.If | ast.For | ast.While,
        test: ast.expr,
        first: list[ast.stmt],
        second: list[ast.stmt],
    ) -> list[ast.stmt]:
        """Return two functions of rewritten statements, and the call that chooses between them."""
        changed = changed_names([*first, *second])
        names = [x for x in changed if not x.startswith("__")]
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        call = self.call(
            _error_location(node),
            "branch",
            test,
            _string_tuple(names),
            _tuple_node(map(self.current, names)),
            _name_node(then),
            _name_node(other),
        )
        return [
            self._make_function(node, then, _parameters_node(names), first, _name_tuple(names)),
            self._make_function(node, other, _parameters_node(names), second, _name_tuple(names)),
            _make_assignment(node, names, call, always=True),
        ]

    def _rewrite_if(self, node: ast.If, made: ast.If) -> list[ast.stmt]:
        """Return an `if` as two functions and the call that chooses between them."""
        return self._make_choice(node, made.test, *self._branch_statements(node, made))

    def _close_block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements of a block, in which each `if` that returns becomes a choice between two ways to the end of the
        function.
        """
        for k, statement in enumerate(statements):
            found = next((pair for pair in self.returning if pair[1] is statement), None)
            if found is not None:
                return [*statements[:k], *self._rewrite_returning_if(*found, statements[k + 1 :])]
        return statements

    def _rewrite_returning_if(
        self, node: ast.If, made: ast.If, rest: list[ast.stmt]
    ) -> list[ast.stmt]:
        """Return an `if` that returns, with the rest of its block, as a choice between two functions."""
        self.made += 1
        then, other = f"__then_{self.made}", f"__else_{self.made}"
        first = made.body if returns(node.body) else [*made.body, *rest]
        otherwise, made_otherwise = _find_elif(node), _find_elif(made)
        if otherwise is not None and made_otherwise is not None:
            second = self._rewrite_returning_if(otherwise, made_otherwise, rest)
        else:
            ends = bool(node.orelse) and returns(node.orelse)
            second = [*made.orelse, *([] if ends else rest)]
        if not second:
            raise self.refuse(
                node.test,
                "where this does not hold nothing is returned",
                "add a `return …` for that case",
            )

        def arguments() -> ast.arguments:
            return _parameters_node([*self.assigned], [self.current(x) for x in self.assigned])

        call = self.call(node.test, "returned", made.test, _name_node(then), _name_node(other))
        return [
            self._make_function(node, then, arguments(), self._close_block(first), None),
            self._make_function(node, other, arguments(), self._close_block(second), None),
            ast.copy_location(ast.Return(call), node),
        ]

    # Names

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name that the program reads."""
        if node not in self.dotted:
            self.names[node.id] = None

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note a dotted name that the program reads."""
        if node not in self.dotted and (dotted := dotted_name(node)):
            self.names[dotted] = None
            self.dotted.add(node)
        if node in self.dotted:
            self.dotted.add(node.value)

    # Comprehensions

    def visit_Call(self, node: ast.Call) -> None:
        """Note a comprehension that `sum`, `any` or `all` consumes, which makes no list."""
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
        """Return the tracer's call for a dictionary comprehension."""
        (loop,) = made.generators
        body: ast.expr = _tuple_node([made.key, made.value])
        for condition in reversed(loop.ifs):
            ways = _lambda_node([], body), _lambda_node([], ast.Constant(None))
            body = self.call(node, "choose", condition, *ways)
        part = _lambda_node(_target_names(loop.target), body)
        return self.call(node, "dictionary", _target_pattern(loop.target), loop.iter, part)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._check_loops(node)

    def _check_loops(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> None:
        """Check the loops of a comprehension."""
        for loop in node.generators:
            self._check_range(loop.iter, loop.target)

    def _check_range(self, iterable: ast.expr, target: ast.expr) -> None:
        """Note a loop over `range`, and check the loop's target."""
        match iterable, target:
            case ast.Call(func=ast.Name(id="range")), ast.Name():
                self.ranges.add(iterable)
        if not isinstance(target, ast.Name | ast.Tuple | ast.List):
            raise self.refuse(target, "a loop's target is a name", "write `for i in range(n)`")

    def leave_comprehension(
        self, node: ast.comprehension, made: ast.comprehension
    ) -> ast.comprehension:
        """Return the loop with its iterable passed to the tracer."""
        if node.iter not in self.ranges:
            made.iter = self.call(node.iter, "each", made.iter)
        return made

    def leave_ListComp(self, node: ast.ListComp, made: ast.ListComp) -> ast.expr:
        return made if node in self.consumed else self._list_comprehension(node, made)

    def leave_GeneratorExp(self, node: ast.GeneratorExp, made: ast.GeneratorExp) -> ast.expr:
        return made if node in self.consumed else self._list_comprehension(node, made)

    def _list_comprehension(self, node: ast.AST, made: ast.ListComp | ast.GeneratorExp) -> ast.expr:
        """Return the tracer's call for a list: an array for one loop without condition, else what its loops append."""
        if len(made.generators) == 1 and not made.generators[0].ifs:
            return self._loop_call("generate", node, made.generators, made.elt)
        return self._append_call(node, made.generators, made.elt, ast.List([], ast.Load()))

    def _append_call(
        self,
        node: ast.AST,
        loops: Sequence[ast.comprehension],
        entry: ast.expr,
        begun: ast.expr,
    ) -> ast.Call:
        """Return `__tensor__.append_all(place, "i", bounds, lambda i, list: …, begun)` for the loops of a comprehension that
        append to a list.
        """
        list_ = "__list__"
        loop, *inner = loops
        body = (
            self._append_call(node, inner, entry, _name_node(list_))
            if inner
            else self.call(node, "append", _name_node(list_), entry)
        )
        for condition in reversed(loop.ifs):
            one = _lambda_node([list_], body)
            body = self.call(node, "append_if", condition, one, _name_node(list_))
        turn = _lambda_node([*_target_names(loop.target), list_], body)
        return self.call(node, "append_all", _target_pattern(loop.target), loop.iter, turn, begun)

    def _loop_call(
        self,
        method: str,
        node: ast.AST,
        loops: Sequence[ast.comprehension],
        body: ast.expr,
    ) -> ast.Call:
        """Return `__tensor__.method(place, "i", bounds, lambda i: body)`, with inner loops and conditions in the body."""
        loop, *inner = loops
        if inner:
            body = self._loop_call(method, node, inner, body)
        for condition in reversed(loop.ifs):
            if method == "all":
                condition = self.call(node, "negated", condition)
            body = self.call(node, GIVEN[method], condition, _lambda_node([], body))
        turn = _lambda_node(_target_names(loop.target), body)
        return self.call(node, method, _target_pattern(loop.target), loop.iter, turn)

    # Expressions

    def leave_Call(self, node: ast.Call, made: ast.Call) -> ast.expr:
        """Return the tracer's call for a function call, a `range`, or a consumed comprehension."""
        if node in self.ranges:
            return self.call(node, "range", node.func, *made.args)
        if node.args and node.args[0] in self.consumed:
            loop, *starts = made.args
            assert isinstance(loop, ast.GeneratorExp | ast.ListComp)
            assert isinstance(node.func, ast.Name)
            name = node.func.id
            value = self._loop_call(name, node, loop.generators, loop.elt)
            found = self.call(node, "builtin", ast.Constant(name), node.func, value)
            for start in (*starts, *(x.value for x in made.keywords)):
                found = self.call(node, "binary", ast.Constant("+"), start, found)
            return found
        call = self.call(node, "call", made.func, *made.args)
        call.keywords = made.keywords
        return call

    def leave_IfExp(self, node: ast.IfExp, made: ast.IfExp) -> ast.expr:
        branches = _lambda_node([], made.body), _lambda_node([], made.orelse)
        return self.call(node, "choose", made.test, *branches)

    def leave_BoolOp(self, node: ast.BoolOp, made: ast.BoolOp) -> ast.expr:
        """Return nested calls of `and_then` or `or_else`, whose right sides are evaluated on demand."""
        method = "and_then" if isinstance(node.op, ast.And) else "or_else"
        found, *others = made.values
        for value, other in zip(node.values[1:], others, strict=True):
            so_far = ast.copy_location(ast.Constant(None), node)
            so_far.end_lineno, so_far.end_col_offset = value.end_lineno, value.end_col_offset
            found = self.call(so_far, method, found, _lambda_node([], other))
        return found

    def leave_UnaryOp(self, node: ast.UnaryOp, made: ast.UnaryOp) -> ast.expr:
        methods = {ast.Not: "negated", ast.Invert: "negated", ast.USub: "minus", ast.UAdd: "plus"}
        return self.call(node, methods[type(node.op)], made.operand)

    def leave_Compare(self, node: ast.Compare, made: ast.Compare) -> ast.expr:
        """Return the tracer's call for a chain of comparisons."""
        sides = [made.left, *made.comparators]
        self.sides[node] = sides
        return self.call(
            node, "compare", _string_tuple(_SIGNS[type(op)] for op in node.ops), *sides
        )

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Note a long chain of operations, which would nest too deeply."""
        if node not in self.chained:
            chain = list(_iterate_chain(node))
            if len(chain) > LONG:
                self.chained.update(dict.fromkeys(chain, chain[-1]))

    def leave_BinOp(self, node: ast.BinOp, made: ast.BinOp) -> ast.expr:
        """Return the tracer's call for an operation; one flat call for a long chain."""
        op = ast.Constant(_SIGNS[type(node.op)])
        if node not in self.chained:
            return self.call(node, "binary", op, made.left, made.right)
        # The calls for the operations of a chain would be nested as deep as it is long.
        step = _tuple_node([self.call(node, "at").args[0], op])
        if node is self.chained[node]:
            call = ast.Call(_tracer_method("chain"), [made.left, step, made.right], [])
            return ast.copy_location(call, node)
        assert isinstance(made.left, ast.Call)
        made.left.args += [step, made.right]
        return made.left

    def leave_Subscript(self, node: ast.Subscript, made: ast.Subscript) -> ast.expr:
        """Return the tracer's call for a read of an entry or slice."""
        places = made.slice.elts if isinstance(made.slice, ast.Tuple) else [made.slice]
        return self.call(node, "entry", made.value, *map(_index_expression, places))

    def leave_List(self, node: ast.List, made: ast.List) -> ast.expr:
        return self.call(node, "array", made)


#: What an `if` of a comprehension is: of a sum, of `any` and of `all`.
GIVEN = {"sum": "given", "any": "and_then", "all": "or_else"}
_HAVE_TYPE_PARAMETERS = "type_params" in ast.FunctionDef._fields


def _count_characters(text: str, column: int) -> int:
    """Return the number of characters before a column, which Python counts in bytes."""
    return column if text.isascii() else len(text.encode()[:column].decode(errors="replace"))


def _index_expression(e: ast.expr) -> ast.expr:
    """Return an index as it is, a slice as `__tensor__.cut(…)`."""
    if not isinstance(e, ast.Slice):
        return e
    parts = [part or ast.Constant(None) for part in (e.lower, e.upper, e.step)]
    return ast.copy_location(ast.Call(_tracer_method("cut"), parts, []), e)


def _error_location(node: ast.If | ast.For | ast.While) -> ast.AST:
    """Return the part of a compound statement at which errors point."""
    return node.target if isinstance(node, ast.For) else node.test


def _root_array(e: ast.expr) -> ast.expr:
    """Return the `y` of `y[i][j]`."""
    while isinstance(e, ast.Subscript):
        e = e.value
    return e


def _strip_star(e: ast.expr) -> ast.expr:
    """Return the target of `*rest`; other targets unchanged."""
    return e.value if isinstance(e, ast.Starred) else e


def _as_tuple_target(target: ast.expr) -> ast.Tuple | ast.List:
    """Return the target, which is a tuple or list."""
    assert isinstance(target, ast.Tuple | ast.List)
    return target


def _has_entries(target: ast.expr) -> bool:
    """Whether some of several targets are entries of arrays."""
    if not isinstance(target, ast.Tuple | ast.List):
        return False
    return any(isinstance(_strip_star(e), ast.Subscript) for e in target.elts)


def _iterate_targets(target: ast.expr) -> Iterator[ast.expr]:
    """Yield the names, entries and attributes of a target, in order."""
    if isinstance(target, ast.Tuple | ast.List):
        for e in target.elts:
            yield from _iterate_targets(_strip_star(e))
    else:
        yield target


def _target_names(target: ast.expr) -> list[str]:
    """Return the names of a target, in order; for an entry, its array's name."""
    roots = map(_root_array, _iterate_targets(target))
    return [root.id for root in roots if isinstance(root, ast.Name)]


def _target_pattern(target: ast.expr) -> ast.expr:
    """Return a target as the tracer takes it: `("i", ("a", "*b"))`."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return _tuple_node(map(_target_pattern, parts))
        case ast.Starred(value=ast.Name(id=name)):
            return ast.Constant(f"*{name}")
        case ast.Name(id=name):
            return ast.Constant(name)
    raise TypeError(target)


def _name_node(name: str) -> ast.Name:
    """Return a node that reads a name."""
    return ast.Name(name, ast.Load())


def _tracer_method(name: str) -> ast.Attribute:
    """Return the expression of one of the tracer's methods."""
    return ast.Attribute(_name_node(TRACER), name, ast.Load())


def _tuple_node(parts: Iterable[ast.expr]) -> ast.Tuple:
    """Return a node that makes a tuple."""
    return ast.Tuple([*parts], ast.Load())


def _string_tuple(names: Iterable[str]) -> ast.Tuple:
    """Return a node that makes a tuple of strings."""
    return _tuple_node(map(ast.Constant, names))


def _name_tuple(names: Iterable[str]) -> ast.Tuple:
    """Return a node that makes a tuple of the values of names."""
    return _tuple_node(map(_name_node, names))


def _make_assignment(
    node: ast.AST, names: Sequence[str], value: ast.expr, always: bool = False
) -> ast.stmt:
    """Return `a, b = value` at a node's location; for one name `a = value`, unless the value is always a tuple."""
    stored: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names or ("_",)]
    target = ast.List(stored, ast.Store()) if always and names else stored[0]
    return ast.copy_location(ast.Assign([target], value), node)


def _parameters_node(names: Iterable[str], defaults: Sequence[ast.expr] = ()) -> ast.arguments:
    """Return a parameter list with these names."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [*defaults])


def _strip_parameters(signature: ast.arguments) -> ast.arguments:
    """Return the parameters without annotations and defaults."""

    def plain(parameters: Iterable[ast.arg]) -> list[ast.arg]:
        return [ast.arg(x.arg) for x in parameters]

    more = [x and ast.arg(x.arg) for x in (signature.vararg, signature.kwarg)]
    only = plain(signature.kwonlyargs)
    first = plain((*signature.posonlyargs, *signature.args))
    return ast.arguments([], first, more[0], only, [None] * len(only), more[1], [])


def _lambda_node(names: Iterable[str], body: ast.expr) -> ast.Lambda:
    """Return a node that makes a function with these parameters."""
    return ast.Lambda(_parameters_node(names), body)


def _find_elif(node: ast.If) -> ast.If | None:
    """Return the `if` that is the whole `else` branch; None if there is none."""
    return node.orelse[0] if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) else None


def _count_occurrences(nodes: Iterable[ast.AST]) -> Counter[str]:
    """Count the names in nodes, except the parameters and targets that inner functions, lambdas and comprehensions define for
    themselves.
    """
    found = Counter[str]()
    for node in nodes:
        if isinstance(node, ast.Name):
            found[node.id] += 1
            continue
        inside = _count_occurrences(ast.iter_child_nodes(node))
        own: Sequence[str] = ()
        match node:
            case ast.FunctionDef(args=args) | ast.Lambda(args=args):
                own = [x.arg for x in (*args.args, *args.kwonlyargs)]
            case ast.ListComp(generators=[loop, *_]) | ast.GeneratorExp(generators=[loop, *_]):
                own = _target_names(loop.target)
        for name in own:
            del inside[name]
        if isinstance(node, ast.FunctionDef):
            inside[node.name] += 1
        found += inside
    return found


def has_return(node: ast.AST) -> bool:
    """Whether a statement contains a `return` or `raise` of its function."""
    return contains([node], ast.Return) or contains([node], ast.Raise)


def returns(body: Sequence[ast.stmt]) -> bool:
    """Whether a block ends by `return` or `raise` on every path."""
    last = body[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and returns(last.body) and returns(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def self_added(node: ast.AST) -> tuple[str, str] | None:
    """Return the name and the sign of `s = s + e`, where e does not read s; None for another statement."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Sub() as sign, right=right),
        ) if name == left:
            return None if name in read_names(right) else (name, _SIGNS[type(sign)])
    return None


# `s -= e` is one more term, and `s /= e` one more factor; what another operator makes is a value of its own.
_ADDED_UP = ast.Add | ast.Sub | ast.Mult | ast.Div
METHODS = ("append", "fill", "extend", "reverse", "sort")


def _find_change(e: ast.expr) -> tuple[str, ast.Name] | None:
    """Return how a call changes an array in place, and the array: `y.append(e)`, `y.fill(e)`, `np.fill_diagonal(y, e)`,
    `np.add.at(y, k, e)`; else None.
    """
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


def _iterate_limits(node: ast.While) -> Iterator[Limit]:
    """Yield the comparisons each of which alone ends a loop: `while p and k < n:`, `if p or k >= n: break`."""
    for part in _iterate_parts(node.test, ast.And):
        if isinstance(part, ast.Compare):
            yield Limit(part, False)
    for statement in _unconditional_statements(node.body):
        if isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Break):
            for part in _iterate_parts(statement.test, ast.Or):
                if isinstance(part, ast.Compare):
                    yield Limit(part, True)


def _unconditional_statements(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the statements of a loop's body that run in every iteration without `break`: those before a `continue`."""
    jumping = (k for k, s in enumerate(body) if contains_jump([s], ast.Continue))
    return body[: next(jumping, len(body))]


def _iterate_parts(e: ast.expr, operator: type[ast.boolop]) -> Iterator[ast.expr]:
    """Yield the parts of `p and q and …`, or of `p or q or …`."""
    if isinstance(e, ast.BoolOp) and isinstance(e.op, operator):
        for part in e.values:
            yield from _iterate_parts(part, operator)
    else:
        yield e


def _make_counter_finder(node: ast.While) -> Callable[[Limit], tuple[str, bool, int] | None]:
    """Return a function that finds the counter of a limit: a name that the body increments by one, compared with something the
    body does not change.

    It returns the name, whether it is on the left, and 1 if the limit itself is reached, else 0; None if there is no counter.
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
            if not read_names(bound) & changed and _counts_up(side.id, node.body):
                return side.id, is_left, reached
        return None

    return found


def _counts_up(name: str, body: Sequence[ast.stmt]) -> bool:
    """Whether statements add 1 to a name, once, and change it nowhere else."""
    changing = [s for s in _unconditional_statements(body) if name in changed_names([s])]
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
    """Return the names that statements change, each with whether a statement assigns it rather than adds to it."""
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
                for leaf in (leaf for target in targets for leaf in _iterate_targets(target)):
                    plain = not isinstance(leaf, ast.Subscript) and self_added(node) is None
                    for name in _target_names(leaf):
                        add(name, plain)
            case ast.AnnAssign(target=ast.Name(id=name)):
                add(name, True)
            case ast.AugAssign(target=target, op=op):
                root = _root_array(target)
                if isinstance(root, ast.Name):
                    add(root.id, root is target and not isinstance(op, _ADDED_UP))
            case ast.Expr(value=value) if change := _find_change(value):
                add(change[1].id, False)
        for child in ast.iter_child_nodes(node):
            see(child)

    for node in nodes:
        see(node)
    return found


def _iterate_chain(node: ast.expr) -> Iterator[ast.BinOp]:
    """Yield the operations of `a + b - c + …`, or of `a * b * c * …`, the last first."""
    operator = node.op if isinstance(node, ast.BinOp) else None
    kinds = next((k for k in _CHAINS if isinstance(operator, k)), ())
    while isinstance(node, ast.BinOp) and isinstance(node.op, kinds):
        yield node
        node = node.left


_CHAINS = ((ast.Add, ast.Sub), (ast.Mult,))
