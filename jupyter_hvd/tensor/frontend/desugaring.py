"""Replaces statements of Python by simpler ones with the same meaning, before `rewrite` reads them.

    with np.errstate(all="ignore"): …            its body
    match x: case "a": …                         if x == "a": …
    if (y := f(x)) > 0: …                        y = f(x), if y > 0: …
    for i, j in combinations(range(n), 2): …     for i in range(n): for j in range(i + 1, n): …
    for …: if p: return e                        for …: if p: result, returned = e, 1; break, then: if returned: return result
    assert p                                     failed += 0 if p else 1; the result is NaN if `failed` is not 0
    for …: if p: raise …                         for …: if p: failed += 1; continue

What it leaves, such as `:=` in an operand that may not be evaluated, is refused by `rewrite`.
"""

from __future__ import annotations

import ast
import copy
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from ..language.errors import TensorError
from .syntax import INNER, LOOPS, contains, contains_jump, read_names

TRACER = "__tensor__"
#: Contexts that change how NumPy and Python warn, and no value.
WITHOUT_EFFECT = (np.errstate, np.printoptions, warnings.catch_warnings)
#: Calls that do the same for what follows.
_SILENCING = (np.seterr, np.set_printoptions, warnings.simplefilter, warnings.filterwarnings)
#: Where statements have an expression that is evaluated once, before anything else of them.
_EVALUATED_FIRST: dict[type[ast.AST], str] = {
    **dict.fromkeys((ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return), "value"),
    **dict.fromkeys((ast.If, ast.While, ast.Assert), "test"),
    ast.For: "iter",
    ast.Match: "subject",
}
_ARRANGING = (
    itertools.combinations,
    itertools.combinations_with_replacement,
    itertools.permutations,
)
Refuse = Callable[[ast.AST, str, str], TensorError]
Node = TypeVar("Node", bound=ast.AST)


def desugar(tree: ast.Module, value_of: Callable[[ast.expr], Any], refuse: Refuse) -> ast.Module:
    """Return a module with simpler statements. `value_of` gives the value of a name from outside, and `refuse` an error."""
    used = read_names(tree) | {x.arg for x in ast.walk(tree) if isinstance(x, ast.arg)}
    return cast("ast.Module", _Desugarer(used, value_of, refuse).visit(tree))


class _Desugarer(ast.NodeTransformer):
    def __init__(self, used: set[str], value_of: Callable[[ast.expr], Any], refuse: Refuse) -> None:
        self.used = used
        self.value_of = value_of
        self.refuse = refuse
        self.loops = 0  # around, in the same function
        self.is_while = False  # whether the innermost of them is a `while`
        self.failed = (
            ""  # the name that counts failed assertions of the function, and errors in its loops
        )
        self.result = "", ""  # the names of what a loop returns, and of the flag that it does
        self.returns = False  # whether the loop around contains a `return`

    def visit(self, node: ast.AST) -> Any:
        """Return what replaces a node, after the assignments that its `:=` make."""
        field = _EVALUATED_FIRST.get(type(node), "")
        expression = getattr(node, field, None)
        if expression is None:
            return super().visit(node)
        before = self._hoist(node, field, expression)
        if before and isinstance(node, ast.While):
            again = _Before(ast.Continue, before)
            node.body = [*again.block(node.body), *copy.deepcopy(before)]
        made = super().visit(node)
        return [*self._block(before), *_listed(made)] if before else made

    def _hoist(self, node: ast.AST, field: str, expression: ast.expr) -> list[ast.stmt]:
        """Replace each `:=` of an expression by its name, and return the assignments."""
        hoisting = _Hoisting(read_names(node.target) if isinstance(node, ast.AugAssign) else set())
        setattr(node, field, hoisting.visit(expression))
        return hoisting.found

    def _block(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with simpler ones in their place."""
        return [made for statement in statements for made in _listed(self.visit(statement))]

    def _fresh(self, stem: str) -> str:
        """Return a name that the program does not use."""
        tried = (f"{stem}_{k}" for k in itertools.count(1))
        name = next(
            x for x in (stem, *itertools.islice(tried, len(self.used))) if x not in self.used
        )
        self.used.add(name)
        return name

    # Functions, `return` and `assert`

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        outer = self.loops, self.failed, self.result, self.returns
        self.loops, self.failed, self.result = 0, "", ("", "")
        if contains(node.body, ast.Assert) or contains(node.body, ast.Raise):
            self.failed = self._fresh("failed")
            node.body.insert(0, _assign(node.body[0], self.failed, ast.Constant(0)))
        self.generic_visit(node)
        self.loops, self.failed, self.result, self.returns = outer
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        return self._fail(node, _tracer_call("asserted", self.visit(node.test)))

    def visit_Raise(self, node: ast.Raise) -> ast.stmt | list[ast.stmt]:
        if not self.loops:
            return node
        error = ast.Constant(ast.unparse(node.exc) if node.exc else "raise")
        failing = self._fail(node, _tracer_call("raised_in_loop", error))
        # A `continue` in a `while` could skip the statement that counts its iterations.
        return [failing] if self.is_while else [failing, _at(node, ast.Continue())]

    def _fail(self, node: ast.AST, value: ast.expr) -> ast.stmt:
        """Return the statement that counts a failure."""
        return _at(node, ast.AugAssign(ast.Name(self.failed, ast.Store()), ast.Add(), value))

    def visit_Return(self, node: ast.Return) -> ast.stmt | list[ast.stmt]:
        if node.value is None:
            return node
        value = self.visit(node.value)
        if not self.loops:
            return self._return(node, value)
        self.returns = True
        result, returned = self.result = (
            self.result
            if self.result[0]
            else (
                self._fresh("result"),
                self._fresh("returned"),
            )
        )
        return [
            _assign(node, result, value),
            _assign(node, returned, ast.Constant(1.0)),
            _at(node, ast.Break()),
        ]

    def _return(self, node: ast.AST, value: ast.expr) -> ast.stmt:
        """Return the statement that returns a value; NaN if an assertion has failed."""
        if self.failed:
            value = _tracer_call("unless_failed", value, _name(self.failed))
        return _at(node, ast.Return(value))

    # Loops

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        nested = self._nested(node.target, node.iter)
        return self._loop(node) if nested is None else self._block(self._as_loops(node, nested))

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        """Return a loop whose `return`s are `break`s, with what comes before and after it."""
        begin, end = list[ast.stmt](), list[ast.stmt]()
        if contains(node.orelse, ast.Return):
            left = self._fresh("left")
            begin.append(_assign(node, left, ast.Constant(0.0)))
            node.body = _Before(ast.Break, [_assign(node, left, ast.Constant(1.0))]).block(
                node.body
            )
            end = self._block([_at(node, ast.If(_is_unset(left), node.orelse, []))])
            node.orelse = []
        always = isinstance(node, ast.While) and isinstance(node.test, ast.Constant)
        ends_by_return = always and not contains_jump(node.body, ast.Break)
        around, self.returns = (self.returns, self.is_while), False
        self.is_while = isinstance(node, ast.While)
        self.loops += 1
        self.generic_visit(node)
        self.loops -= 1
        returned_around, self.is_while = around
        if not self.returns:
            self.returns = returned_around
            return [*begin, node, *end]
        result, returned = self.result
        found = next(x for x in ast.walk(node) if isinstance(x, ast.Break))
        leave = _at(found, ast.Break()) if self.loops else self._return(found, _name(result))
        if not ends_by_return:
            test = ast.UnaryOp(ast.Not(), _is_unset(returned))
            leave = _at(found, ast.If(test, [leave], []))
        if not self.loops:
            self.returns = False
            begin.append(_assign(node, returned, ast.Constant(0.0)))
            begin.append(_assign(node, result, _tracer_attribute("anything")))
        return [*begin, node, leave, *end]

    def _as_loops(self, node: ast.For, nested: Sequence[ast.comprehension]) -> list[ast.stmt]:
        """Return a loop over pairs or tuples as loops in each other. `break` leaves all of them."""
        begin, body, leave = list[ast.stmt](), node.body, list[ast.stmt]()
        if contains_jump(body, ast.Break):
            left = self._fresh("left")
            begin.append(_assign(node, left, ast.Constant(0.0)))
            body = _Before(ast.Break, [_assign(node, left, ast.Constant(1.0))]).block(body)
            test = ast.UnaryOp(ast.Not(), _is_unset(left))
            leave.append(_at(node.target, ast.If(test, [_at(node, ast.Break())], [])))
        for k, loop in enumerate(reversed(nested)):
            if isinstance(loop.iter, ast.Tuple):  # the items by the names of the user's target
                body = [_at(node, ast.Assign([loop.target], loop.iter.elts[0])), *body]
                continue
            if loop.ifs:
                body = [_at(node.target, ast.If(_all_of(loop.ifs), body, []))]
            is_outermost = k == len(nested) - 1
            orelse = node.orelse if is_outermost else []
            body = [_at(node, ast.For(loop.target, loop.iter, body, orelse))]
            body += [] if is_outermost else copy.deepcopy(leave)
        return [*begin, *body]

    def _nested(self, target: ast.expr, over: ast.expr) -> list[ast.comprehension] | None:
        """Return the loops that `itertools.combinations(…)` and the like stand for; None for anything else.

        They loop over indices. For items that are not the integers of a `range` the last loop, over one tuple, names them.
        """
        if not isinstance(over, ast.Call) or not over.args:
            return None
        function = self.value_of(over.func)
        of, named = over.args, {x.arg: x.value for x in over.keywords}
        is_product = function is itertools.product
        repeat = named.pop("repeat", ast.Constant(1)) if is_product else of[-1]
        count = repeat.value if isinstance(repeat, ast.Constant) else None
        if not isinstance(count, int) or named or any(isinstance(x, ast.Starred) for x in of):
            return None
        if not is_product and (len(of) != 2 or not any(function is x for x in _ARRANGING)):
            return None
        each = of * count if is_product else of[:1] * count
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        is_direct = len(parts) == len(each) and (
            is_product
            or all(isinstance(part, ast.Name) and self._is_range(of[0]) for part in parts)
        )
        if not each or not (is_product or self._has_index(of[0])):
            return None
        indices, items, loops = list[str](), list[ast.expr](), list[ast.comprehension]()
        for k, x in enumerate(each):
            part = parts[k] if is_direct else ast.Name(self._fresh("place"), ast.Store())
            if is_product:
                loops.append(ast.comprehension(part, copy.deepcopy(x), [], 0))
                items.append(ast.Name(getattr(part, "id", ""), ast.Load()))
                continue
            assert isinstance(part, ast.Name)
            first, stop = self._ends(x)
            tests = list[ast.expr]()
            if function is itertools.permutations:
                tests = [_compare(_name(part.id), ast.NotEq(), _name(i)) for i in indices]
            elif indices:
                more = ast.Constant(int(function is itertools.combinations))
                first = ast.BinOp(_name(indices[-1]), ast.Add(), more)
            indices.append(part.id)
            bounds = ast.Call(_name("range"), copy.deepcopy([first, stop]), [])
            loops.append(ast.comprehension(part, bounds, tests, 0))
            items.append(copy.deepcopy(self._item(x, _name(part.id))))
        if not is_direct:
            one = ast.Tuple([ast.Tuple(items, ast.Load())], ast.Load())
            loops.append(ast.comprehension(target, one, [], 0))
        return [_at(over, loop) for loop in loops]

    def _is_range(self, over: ast.expr) -> bool:
        """Whether an expression is `range(n)` or `range(m, n)`."""
        match over:
            case ast.Call(func=function, args=[_] | [_, _], keywords=[]):
                return self.value_of(function) is range
        return False

    def _has_index(self, over: ast.expr) -> bool:
        """Whether the items of an expression are read by an index: of a `range`, an array, or `enumerate` of these."""
        match over:
            case ast.Call(func=function, args=[inner, *_]) if self.value_of(function) is enumerate:
                return self._has_index(inner)
            case ast.Call():
                return self._is_range(over)
        return isinstance(over, ast.Name | ast.Attribute | ast.Subscript)

    def _ends(self, over: ast.expr) -> tuple[ast.expr, ast.expr]:
        """Return the first index of an expression's items, and the one behind the last."""
        match over:
            case ast.Call(func=function, args=[inner, *_]) if self.value_of(function) is enumerate:
                return self._ends(inner)
            case ast.Call(args=[stop]):
                return ast.Constant(0), stop
            case ast.Call(args=[start, stop]):
                return start, stop
        return ast.Constant(0), ast.Call(_name("len"), [over], [])

    def _item(self, over: ast.expr, index: ast.expr) -> ast.expr:
        """Return an item of an expression by its index."""
        match over:
            case ast.Call(func=function, args=[inner, *start]) if (
                self.value_of(function) is enumerate
            ):
                number = index
                if self._is_range(inner):  # whose indices are its items
                    number = ast.BinOp(number, ast.Sub(), self._ends(inner)[0])
                if start:
                    number = ast.BinOp(number, ast.Add(), start[0])
                return ast.Tuple([number, self._item(inner, index)], ast.Load())
            case ast.Call():
                return index
        return ast.Subscript(over, index, ast.Load())

    def _visit_comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> ast.AST:
        """Return a comprehension with loops over indices, and `:=` in conditions as loops over one value."""
        loops = list[ast.comprehension]()
        for loop in node.generators:
            nested = self._nested(loop.target, loop.iter)
            loops += [loop] if nested is None else nested
            tests = loop.ifs
            loops[-1].ifs = [] if nested is None else loops[-1].ifs
            for test in tests:
                hoisting = _Hoisting(set())
                test = hoisting.visit(test)
                for assigned in hoisting.found:
                    assert isinstance(assigned, ast.Assign)
                    one = ast.Tuple([assigned.value], ast.Load())
                    made = ast.comprehension(assigned.targets[0], one, [], 0)
                    loops.append(_at(test, made))
                loops[-1].ifs.append(test)
        node.generators = loops
        return self.generic_visit(node)

    visit_ListComp = visit_GeneratorExp = visit_DictComp = _visit_comprehension

    # Statements without effect on values

    def visit_With(self, node: ast.With) -> list[ast.stmt]:
        for item in node.items:
            context = item.context_expr
            function = self.value_of(context.func) if isinstance(context, ast.Call) else None
            if item.optional_vars or not any(function is x for x in WITHOUT_EFFECT):
                raise self.refuse(
                    context,
                    "a `with` statement other than `np.errstate(…)` and `warnings.catch_warnings()`",
                    "move it to the caller",
                )
        return self._block(node.body)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        function = self.value_of(node.value.func) if isinstance(node.value, ast.Call) else None
        if any(function is x for x in _SILENCING):
            return _at(node, ast.Pass())
        return self.generic_visit(node)

    # match

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        begin = list[ast.stmt]()
        if isinstance(node.subject, ast.Name):
            name = node.subject
        else:
            name = _name(self._fresh("subject"))
            begin.append(_assign(node.subject, name.id, node.subject))
        rest = list[ast.stmt]()
        for case in reversed(node.cases):
            test, body = self._pattern_test(case.pattern, name), case.body
            captured = case.pattern.name if isinstance(case.pattern, ast.MatchAs) else None
            if captured is not None and case.guard is not None and test is not None:
                raise self.refuse(
                    case.pattern, "a pattern with a name and a condition", "write `if` and `elif`"
                )
            if captured is not None and case.guard is None:
                body = [_assign(case.pattern, captured, name), *body]
            tests = [x for x in (test, case.guard) if x is not None]
            if not tests:
                rest = body
                continue
            rest = [_at(case.pattern, ast.If(_all_of(tests), body, rest))]
            if captured is not None and case.guard is not None:
                rest = [_assign(case.pattern, captured, name), *rest]
        return self._block([*begin, *rest])

    def _pattern_test(self, pattern: ast.pattern, subject: ast.expr) -> ast.expr | None:
        """Return the condition that a pattern tests; None if it always matches."""
        match pattern:
            case ast.MatchAs(pattern=None):
                return None
            case ast.MatchAs(pattern=ast.pattern() as inner):
                return self._pattern_test(inner, subject)
            case ast.MatchValue(value=value):
                return _at(pattern, _compare(subject, ast.Eq(), value))
            case ast.MatchSingleton(value=value):
                return _at(pattern, _compare(subject, ast.Is(), ast.Constant(value)))
            case ast.MatchOr(patterns=patterns):
                tests = [self._pattern_test(one, subject) for one in patterns]
                if None in tests:
                    return None
                return _at(pattern, ast.BoolOp(ast.Or(), cast("list[ast.expr]", tests)))
        raise self.refuse(
            pattern,
            "a `match` statement with a pattern other than constants",
            "write `if` and `elif`: `if len(x) == 2: a, b = x`, `if isinstance(x, Layer): …`",
        )


class _Hoisting(ast.NodeTransformer):
    """Replaces each `:=` of an expression by its name, if it is always evaluated and no earlier part reads the name."""

    def __init__(self, read: set[str]) -> None:
        self.read = read
        self.found: list[ast.stmt] = []

    def visit_Name(self, node: ast.Name) -> ast.Name:
        self.read.add(node.id)
        return node

    def visit_NamedExpr(self, node: ast.NamedExpr) -> ast.expr:
        if node.target.id in self.read:
            self.generic_visit(node)
            return node
        self.found.append(_assign(node, node.target.id, self.visit(node.value)))
        return ast.copy_location(_name(node.target.id), node)

    def _visit_first(self, node: Node, field: str) -> Node:
        """Visit the one part of an expression that is always evaluated: the first."""
        first = getattr(node, field)
        if isinstance(first, list):
            first[0] = self.visit(first[0])
        else:
            setattr(node, field, self.visit(first))
        self.read |= read_names(node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        return self._visit_first(node, "values")

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        return self._visit_first(node, "test")

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        node.left = self.visit(node.left)
        return self._visit_first(node, "comparators")

    def _leave(self, node: ast.AST) -> ast.AST:
        self.read |= read_names(node)
        return node

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _leave


class _Before(ast.NodeTransformer):
    """Puts copies of statements before each `break`, or each `continue`, of a loop."""

    def __init__(self, kind: type[ast.AST], statements: Sequence[ast.stmt]) -> None:
        self.kind = kind
        self.statements = statements

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return the body of the loop."""
        return [made for statement in body for made in _listed(self.visit(statement))]

    def visit(self, node: ast.AST) -> Any:
        """Return a statement, or several."""
        if isinstance(node, self.kind):
            return [*copy.deepcopy(self.statements), node]
        return node if isinstance(node, (*INNER, *LOOPS)) else self.generic_visit(node)


def _listed(made: Any) -> list[Any]:
    """Return what replaces a statement as a list."""
    return made if isinstance(made, list) else [made]


def _at(node: ast.AST, made: Node) -> Node:
    """Return a new node, which has the source location of another, as have its new parts."""
    for inner in ast.walk(made):
        if isinstance(inner, ast.expr | ast.stmt) and not hasattr(inner, "lineno"):
            ast.copy_location(inner, node)
    return made


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _assign(node: ast.AST, name: str, value: ast.expr) -> ast.Assign:
    """Return `name = value` at a node's location."""
    return _at(node, ast.Assign([ast.Name(name, ast.Store())], value))


def _compare(left: ast.expr, op: ast.cmpop, right: ast.expr) -> ast.Compare:
    return ast.Compare(left, [op], [right])


def _is_unset(flag: str) -> ast.Call:
    """Return the condition that a flag is not set."""
    return _tracer_call("is_unset", _name(flag))


def _all_of(tests: Sequence[ast.expr]) -> ast.expr:
    """Return `p and q and …`."""
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), [*tests])


def _tracer_attribute(name: str) -> ast.Attribute:
    return ast.Attribute(_name(TRACER), name, ast.Load())


def _tracer_call(name: str, *arguments: ast.expr) -> ast.Call:
    """Return the call of a method of the tracer, which `rewrite` passes on to it."""
    return ast.Call(_tracer_attribute(name), [*arguments], [])
