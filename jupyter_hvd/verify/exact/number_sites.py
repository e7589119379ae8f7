"""Finds where numbers meet in a program's text, and edits its syntax tree so that their values are recorded.

A number site is a comparison, a remainder, a floor division, a call of `min`, `max` or `range`, an index or slice of a sequence,
or a variable that is computed from its last value. The edited program computes what it computed before: each operand is
replaced by a call that returns it.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["compare", "%", "//", "min", "max", "range", "slice", "index", "recurrence"]
#: The global names by which the edited text records a number, and the length of a sequence. A class would rename others.
NUMBER, LENGTH = "__jupyter_hvd_number__", "__jupyter_hvd_length__"
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.In, ast.NotIn)
DIVISIONS: dict[type[ast.operator], Kind] = {ast.Mod: "%", ast.FloorDiv: "//"}
CALLS: dict[str, Kind] = {"min": "min", "max": "max", "range": "range"}


@dataclass(frozen=True)
class NumberSite:
    """An expression whose operands are recorded.

    Attributes:
        line: of the program, as `train.py, line 12`. operands: their texts.
        key: the text without what a conversion adds to it, by which the site is found in the original.
    """

    kind: Kind
    line: str
    operands: tuple[str, ...]
    key: str


class Instrumenter(ast.NodeTransformer):
    """Edits a syntax tree so that the operands of its number sites are recorded.

    Args:
        sites: the found sites are added to it. Their operands are numbered in this order.
        first: the number of the first operand. locate: formats a line number.
    """

    def __init__(self, sites: list[NumberSite], first: int, locate: Callable[[int], str]) -> None:
        self._sites, self._next, self._locate = sites, first, locate

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if not all(isinstance(op, COMPARISONS) for op in node.ops):
            return self.generic_visit(node)
        node.left, *node.comparators = self._record("compare", node, [node.left, *node.comparators])
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        kind = DIVISIONS.get(type(node.op))
        is_text = isinstance(node.left, ast.JoinedStr) or (
            isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
        )
        if kind is None or is_text or is_size(node.right):
            return self.generic_visit(node)
        node.left, node.right = self._record(kind, node, [node.left, node.right])
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        kind = CALLS.get(node.func.id) if isinstance(node.func, ast.Name) else None
        starred = any(isinstance(argument, ast.Starred) for argument in node.args)
        if kind is None or starred or len(node.args) < 2 or unscale(node) is not node:
            return self.generic_visit(node)
        node.args = self._record(kind, node, node.args)
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if isinstance(node.slice, ast.Slice):
            parts = ("lower", "upper", "step")
            bounds = [(part, b) for part in parts if (b := getattr(node.slice, part)) is not None]
            if not bounds:
                return self.generic_visit(node)
            node.value, *edited = self._record(
                "slice", node, [node.value, *(bound for _, bound in bounds)], sequence=True
            )
            for (part, _), bound in zip(bounds, edited, strict=True):
                setattr(node.slice, part, bound)
            return node
        if isinstance(node.slice, ast.Tuple) or (
            isinstance(node.slice, ast.Constant) and not isinstance(node.slice.value, int)
        ):
            return self.generic_visit(node)
        node.value, node.slice = self._record(
            "index", node, [node.value, node.slice], sequence=True
        )
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if len(node.targets) > 1 or not is_variable(target) or not reads(node.value, target):
            return self.generic_visit(node)
        (node.value,) = self._record("recurrence", node, [node.value], name=ast.unparse(target))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        if not is_variable(node.target) or not isinstance(node.op, ast.Mult | ast.Div):
            return self.generic_visit(node)
        name = ast.unparse(node.target)
        number = self._add_site("recurrence", node, (name,))
        node.value = self.visit(node.value)
        # The variable's value before the statement is recorded on the way: `x *= (record(x), factor)[1]`.
        read = call(NUMBER, number, ast.parse(name, mode="eval").body)
        both = ast.Tuple([read, node.value], ast.Load())
        node.value = ast.Subscript(both, ast.Constant(1), ast.Load())
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        returns, node.returns = node.returns, None
        self.generic_visit(node)
        node.returns = returns
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        node.guard = self.visit(node.guard) if node.guard is not None else None
        node.body = [self.visit(statement) for statement in node.body]
        return node

    def _add_site(self, kind: Kind, node: Any, operands: tuple[str, ...]) -> int:
        """Add a site, and return the number of its first operand."""
        number = self._next
        self._next += len(operands)
        key = ast.unparse(Unscaler().visit(copy.deepcopy(node)))
        self._sites.append(NumberSite(kind, self._locate(node.lineno), operands, key))
        return number

    def _record(
        self,
        kind: Kind,
        node: Any,
        operands: list[ast.expr],
        *,
        sequence: bool = False,
        name: str = "",
    ) -> list[ast.expr]:
        """Return the operands of a new site, each within a call that records it.

        Args:
            sequence: the first is a sequence, whose length is recorded. name: the variable that is assigned.
        """
        texts = (name,) if name else tuple(map(ast.unparse, operands))
        first = self._add_site(kind, node, texts)
        return [
            call(LENGTH if sequence and place == 0 else NUMBER, first + place, self.visit(operand))
            for place, operand in enumerate(operands)
        ]


class Unscaler(ast.NodeTransformer):
    """Removes what a conversion adds to numbers: `max(1, 100 // hvd.size())` becomes `100`."""

    def visit(self, node: ast.AST) -> Any:
        found = unscale(node)
        return self.visit(found) if found is not node else self.generic_visit(node)


def unscale(node: ast.AST) -> ast.AST:
    """Return the number that an expression multiplies, divides or raises by the number of ranks; other nodes unchanged."""
    match node:
        case ast.BinOp(left=left, right=right) if is_size(right):
            return left
        case ast.Call(func=ast.Name(id="max"), args=[ast.Constant(value=1), inner]) if (
            unscale(inner) is not inner
        ):
            return inner
    return node


def is_size(node: ast.AST) -> bool:
    """Whether an expression is the number of ranks, `hvd.size()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(), attr="size"), args=[], keywords=[]):
            return True
    return False


def is_variable(target: ast.expr) -> bool:
    """Whether an assignment's target is `x`, `self.x` or `state["x"]`."""
    match target:
        case ast.Name() | ast.Attribute(value=ast.Name()):
            return True
        case ast.Subscript(value=ast.Name(), slice=ast.Constant()):
            return True
    return False


def reads(value: ast.expr, target: ast.expr) -> bool:
    """Whether an expression other than a variable reads that variable."""
    text = ast.dump(target).replace("Store()", "Load()")
    return any(ast.dump(node) == text for node in ast.walk(value)) and ast.dump(value) != text


def call(function: str, number: int, argument: Any) -> ast.Call:
    return ast.Call(ast.Name(function, ast.Load()), [ast.Constant(number), argument], [])


def instrument(
    tree: ast.Module, sites: list[NumberSite], first: int, locate: Callable[[int], str]
) -> ast.Module:
    """Edit a program so that the numbers that meet in it are recorded; see `Instrumenter`."""
    edited: ast.Module = Instrumenter(sites, first, locate).visit(tree)
    for parent in ast.walk(edited):
        for child in ast.iter_child_nodes(parent):
            if not hasattr(child, "lineno") and hasattr(parent, "lineno"):
                ast.copy_location(child, parent)
    return ast.fix_missing_locations(edited)
