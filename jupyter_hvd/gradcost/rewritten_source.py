"""A function's source with one line written better, as advice says.

What is proposed here is only read off the source and the rewriting: `accept` keeps it where the program so
written is equal and costs less.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, count
from typing import Any

from ..tensor import TensorError
from ..tensor.cost.statements import Sizes
from ..tensor.frontend.signature import words
from ..tensor.language.errors import Place
from ..tensor.ssa.program import Contraction, Input
from ..tensor.ssa.python_printer import print_python
from ..tensor.ssa.rewrites import Rewriting
from .subject import Subject

ATOMS = (ast.Name, ast.Call, ast.Subscript, ast.Constant, ast.Attribute)


@dataclass(frozen=True, eq=False)
class Written:
    """A function as it stands in its file: its text, and the number of its first line there."""

    name: str
    text: str
    first: int
    filename: str

    @classmethod
    def of(cls, function: Any) -> Written:
        """Read the source of a function.

        Raises:
            TensorError: it has no source that could be changed.
        """
        python: Callable[..., Any] | None = getattr(function, "python", None)
        if python is None:
            raise TensorError("a derivative has no line of its own to change")
        lines, first = inspect.getsourcelines(python)
        if lines[0][:1].isspace():
            raise TensorError(
                "the function stands inside another", "define it at the left margin of its cell"
            )
        code = python.__code__
        if code.co_freevars:
            raise TensorError("the function uses variables of another around it")
        return cls(python.__name__, "".join(lines), first, code.co_filename)

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The syntax tree of the function."""
        tree = ast.parse(self.text).body[0]
        assert isinstance(tree, ast.FunctionDef)
        return tree

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The parent of each node of the syntax tree."""
        return {c: node for node in ast.walk(self.tree) for c in ast.iter_child_nodes(node)}

    @cached_property
    def lines(self) -> list[str]:
        """The lines of the function's source, with their line ends."""
        return self.text.splitlines(keepends=True)

    @cached_property
    def arguments(self) -> set[str]:
        """The names of all parameters in the function, those of functions inside it too."""
        return {n.arg for n in ast.walk(self.tree) if isinstance(n, ast.arg)}

    @cached_property
    def names(self) -> set[str]:
        """All names in the function, its parameters among them."""
        return _names_in(self.tree) | self.arguments

    @cached_property
    def taken(self) -> frozenset[str]:
        """The names that mean something outside comprehensions, whose variables are their own."""
        loops = [c.target for c in ast.walk(self.tree) if isinstance(c, ast.comprehension)]
        targets = {node for target in loops for node in ast.walk(target)}
        own = {node.id for node in targets if isinstance(node, ast.Name)}
        stored = {n.id for n in _names_of(self.tree, ast.Store) if n not in targets}
        return frozenset(self.names - own | stored | self.arguments)

    def to_column(self, line: int, utf8: int) -> int:
        """Convert a column in UTF-8 bytes, as Python's `ast` counts, to characters."""
        return len(self.lines[line - 1].encode()[:utf8].decode())

    def to_offset(self, line: int, utf8: int) -> int:
        """Convert a line and a column in UTF-8 bytes to an offset in the text."""
        return sum(map(len, self.lines[: line - 1])) + self.to_column(line, utf8)

    def node_span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Return the start and the end of a node in the text."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self.to_offset(node.lineno, node.col_offset)
        return start, self.to_offset(node.end_lineno, node.end_col_offset)

    def node_source(self, node: ast.expr) -> str:
        """Return the source of an expression."""
        start, end = self.node_span(node)
        return self.text[start:end]

    def factor_source(self, node: ast.expr) -> str:
        """Return the source of an expression for use as a factor; in brackets if needed."""
        source = self.node_source(node)
        return source if isinstance(node, ATOMS) else f"({source})"

    def fresh_name(self) -> str:
        """Return a name that the function does not use."""
        return next(n for n in chain("t", (f"t{k}" for k in count(1))) if n not in self.names)

    def expressions_at(self, position: Place) -> list[ast.expr]:
        """Return the expressions that start at a position, only those that also end there if there are any."""
        if position.filename != self.filename:
            return []
        line = position.line - self.first + 1
        found = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.expr)
            and node.lineno == line
            and self.to_column(line, node.col_offset) == position.column
        ]
        exact = [
            node
            for node in found
            if node.end_lineno == line
            and self.to_column(line, node.end_col_offset or 0) == position.end_column
        ]
        return exact or found

    def loops_around(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """Return the loop variables of the comprehensions around an expression, outermost first, with their iterables.

        None if a loop unpacks tuples, or the expression is not in the element of each comprehension.
        """
        found: dict[str, ast.expr] = {}
        child: ast.AST = node
        while not isinstance(child, ast.stmt):
            parent = self.parents[child]
            if isinstance(parent, ast.comprehension | ast.Lambda):
                return None
            if isinstance(parent, ast.ListComp | ast.GeneratorExp):
                here = {}
                for generator in parent.generators:
                    if not isinstance(generator.target, ast.Name):
                        return None
                    here[generator.target.id] = generator.iter
                found = {**here, **found}
            child = parent
        return found

    def replace_node(self, node: ast.expr, text: str, before: str = "") -> str:
        """Return the source with an expression replaced, and with a line before its statement."""
        start, end = self.node_span(node)
        if not isinstance(self.parents[node], ast.Assign | ast.Return | ast.GeneratorExp):
            text = f"({text})" if _is_loose(text) else text
        changed = self.text[:start] + text + self.text[end:]
        if not before:
            return changed
        statement: ast.AST = node
        while not isinstance(statement, ast.stmt):
            statement = self.parents[statement]
        at = self.to_offset(statement.lineno, 0)
        indent = " " * self.to_column(statement.lineno, statement.col_offset)
        return f"{changed[:at]}{indent}{before}\n{changed[at:]}"


def find_proposals(
    written: Written, subject: Subject, rewriting: Rewriting, sizes: Sizes
) -> Iterator[str]:
    """Yield candidates for the function's source after a rewriting.

    Raises:
        TensorError: the line belongs to another function.
    """
    place = rewriting.statement.origin.place
    nodes = [] if place is None else written.expressions_at(place)
    if not nodes:
        raise TensorError("the line belongs to another function", "inspect that one")
    for node in nodes:
        match rewriting.kind:
            case "outside":
                changed = _hoist_invariant(written, node)
            case "factored":
                changed = _factor_sum(written, node)
            case "reassociated":
                changed = _reassociate_product(written, node, subject, rewriting, sizes)
        for text in changed:
            yield _without_unused(written, text)


def _without_unused(written: Written, text: str) -> str:
    """Remove assignments whose variables were read before and are not read any more."""
    before = {n.id for n in _names_of(written.tree, ast.Load)}
    while True:
        tree = ast.parse(text)
        unread = before - {n.id for n in _names_of(tree, ast.Load)}
        lines = text.splitlines(keepends=True)
        for node in ast.walk(tree):
            match node:
                case ast.Assign([ast.Name(name)]) if name in unread:
                    alone = not lines[node.lineno - 1][: node.col_offset].strip()
                    if alone and node.end_lineno is not None:
                        text = "".join(lines[: node.lineno - 1] + lines[node.end_lineno :])
                        break
        else:
            return text


def _hoist_invariant(written: Written, node: ast.expr) -> Iterator[str]:
    """Yield `t = f(a); [t for i in …]` for `[f(a) for i in …]`."""
    loops = written.loops_around(node)
    if not loops:
        return
    used = {x: loops[x] for x in loops if x in _names_in(node)}
    idle = loops.keys() - used.keys()
    plain = all(_counts_from_zero(over) and not idle & _names_in(over) for over in used.values())
    if not idle or not plain:
        return
    text = written.node_source(node)
    for x, over in reversed(used.items()):
        text = f"[{text} for {x} in {written.node_source(over)}]"
    text = f"({text})" if "\n" in text and _is_loose(text) else text
    name = written.fresh_name()
    at = "".join(f"[{x}]" for x in used)
    yield written.replace_node(node, f"{name}{at}", f"{name} = {text}")


def _factor_sum(written: Written, node: ast.expr) -> Iterator[str]:
    """Yield `a * sum(x[i] for i in …)` for `sum(a * x[i] for i in …)`, for each loop and for all."""
    match node:
        case ast.Call(ast.Name("sum"), [ast.GeneratorExp(elt, generators)], []):
            pass
        case _:
            return
    factors = list(_product_factors(elt))
    for inner in [[g] for g in generators] + [generators] * (len(generators) > 1):
        names = {g.target.id for g in inner if isinstance(g.target, ast.Name)}
        moved = [f for f in factors if not names & _names_in(f)]
        rest = [f for f in factors if names & _names_in(f)]
        outer = [g for g in generators if g not in inner]
        if (
            not moved
            or not rest
            or any(names & _names_in(part) for g in outer for part in (g.iter, *g.ifs))
        ):
            continue
        product = " * ".join(map(written.factor_source, moved))
        body = " * ".join(map(written.factor_source, rest))
        text = f"{product} * sum({body} {_spell_generators(written, inner)})"
        yield written.replace_node(
            node, f"sum({text} {_spell_generators(written, outer)})" if outer else text
        )


def _reassociate_product(
    written: Written, node: ast.expr, subject: Subject, rewriting: Rewriting, sizes: Sizes
) -> Iterator[str]:
    """Yield `t = B·x; A·t` for `(A·B)·x`, by the rewriting; nothing if it cannot be printed."""
    loops = written.loops_around(node)
    own = rewriting.statement.name
    late = next(s.rhs for s in rewriting.program.statements if s.name == own)
    if loops is None or not isinstance(late, Contraction) or len(loops) != len(late.gens):
        return
    name = written.fresh_name()
    names = {**_source_variables(written, subject), f"{own}′": name}
    instance, taken = subject.instance, written.taken
    printed = partial(
        print_python, program=instance.ssa, sizes=sizes, words=words(instance.parameters)
    )
    first = printed(rewriting.first, names=names, taken=taken)
    rest = printed(late, around=tuple(loops), names=names, taken=taken)
    if first and rest:
        yield written.replace_node(node, rest, f"{name} = {first}")


def _source_variables(written: Written, subject: Subject) -> dict[str, str]:
    """Return the source variables that hold statements of Tensor SSA, by statement."""
    assigned = [
        (node.targets[0].id, written.node_span(node.value))
        for node in ast.walk(written.tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    found = {}
    for statement in subject.instance.ssa.statements:
        place = statement.origin.place
        if isinstance(statement.rhs, Input) or place is None:
            continue
        starts = [written.node_span(node)[0] for node in written.expressions_at(place)]
        for name, (first, end) in assigned:
            if any(first <= start < end for start in starts):
                found[name] = statement.name  # the value is what is computed last
    return {statement: name for name, statement in found.items()}


def _names_in(node: ast.AST) -> set[str]:
    """Return all names in a tree."""
    return {n.id for n in _names_of(node, ast.expr_context)}


def _names_of(node: ast.AST, context: type[ast.expr_context]) -> Iterator[ast.Name]:
    """Return the name nodes that are read (`ast.Load`) or bound (`ast.Store`)."""
    nodes = ast.walk(node)
    return (n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, context))


def _product_factors(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the factors of a product."""
    match node:
        case ast.BinOp(left, ast.Mult(), right):
            yield from _product_factors(left)
            yield from _product_factors(right)
        case _:
            yield node


def _counts_from_zero(iterable: ast.expr) -> bool:
    """Whether an iterable is `range(n)`, so that its loop variable can be an index."""
    match iterable:
        case ast.Call(ast.Name("range"), [_], []):
            return True
    return False


def _spell_generators(written: Written, generators: list[ast.comprehension]) -> str:
    """Return the source of the `for` clauses of a comprehension."""
    return " ".join(
        f"for {written.node_source(g.target)} in {written.node_source(g.iter)}"
        + "".join(f" if {written.node_source(condition)}" for condition in g.ifs)
        for g in generators
    )


def _is_loose(text: str) -> bool:
    """Whether an expression needs brackets as an operand."""
    return not isinstance(ast.parse(f"({text})", mode="eval").body, (*ATOMS, ast.ListComp))
