"""A parsed module: the LibCST tree, its metadata, and the position of each node in the text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeVar

import libcst as cst
from libcst.metadata import Scope

from .metadata import positions_in, scopes_in
from .tree import names_in, parents_in

Node = TypeVar("Node", bound=cst.CSTNode)
Function = cst.FunctionDef | cst.Lambda
NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class Span:
    """A half-open range of offsets into the source, in characters."""

    start: int
    end: int


class Module:
    """The source text, its tree, and the relations between them.

    Raises:
        libcst.ParserSyntaxError: the source is no Python.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.tree = cst.parse_module(source)
        self._positions = positions_in(self.tree)
        self._parents = parents_in(self.tree)
        self._scopes = scopes_in(self.tree)
        self._functions: dict[cst.CSTNode, cst.FunctionDef | None] = {}
        newlines = list(NEWLINE.finditer(source))
        self._line_starts = [0, *(match.end() for match in newlines)]
        self._line_ends = [match.start() for match in newlines]
        self.newline = newlines[0].group() if newlines else "\n"

    @cached_property
    def names(self) -> Mapping[str, Sequence[cst.Name]]:
        """All occurrences of each name, in the order of the text."""
        found: dict[str, list[cst.Name]] = {}
        for name in names_in(self.tree):
            found.setdefault(name.value, []).append(name)
        return found

    # Where

    def span(self, node: cst.CSTNode) -> Span:
        """Return the range of a node in the text; for an expression, including the parentheses around it."""
        first: cst.CSTNode = node
        last: cst.CSTNode = node
        if isinstance(node, cst.BaseExpression) and node.lpar:
            first, last = node.lpar[0], node.rpar[-1]
        start, end = self._positions[first].start, self._positions[last].end
        return Span(
            self._line_starts[start.line - 1] + start.column,
            self._line_starts[end.line - 1] + end.column,
        )

    def text(self, node: cst.CSTNode) -> str:
        """Return the source text of a node."""
        span = self.span(node)
        return self.source[span.start : span.end]

    def line(self, offset: int) -> int:
        """The line of an offset, from 1."""
        return bisect_right(self._line_starts, offset)

    def column(self, offset: int) -> int:
        """The column of an offset, from 1."""
        return offset - self._line_starts[self.line(offset) - 1] + 1

    def line_start(self, offset: int) -> int:
        """Return the offset at which the line of an offset begins."""
        return self._line_starts[self.line(offset) - 1]

    def line_end(self, offset: int) -> int:
        """Return the offset of the newline that ends the line, or of the end of the text."""
        line = bisect_left(self._line_ends, offset)
        return self._line_ends[line] if line < len(self._line_ends) else len(self.source)

    def line_starts_within(self, span: Span) -> list[int]:
        """Return the offsets at which lines begin inside the span."""
        first = bisect_right(self._line_starts, span.start)
        last = bisect_right(self._line_starts, span.end)
        return self._line_starts[first:last]

    def indentation(self, offset: int) -> str:
        """Return the whitespace at the beginning of the line of an offset."""
        line = self.source[self.line_start(offset) : offset]
        return line[: len(line) - len(line.lstrip())]

    # Around

    def nodes(self) -> Iterable[cst.CSTNode]:
        """Return all nodes except whitespace, punctuation and the module itself, in the order of the text."""
        return self._parents.keys()

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self._parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Yield the nodes around a node, innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def is_set(self, node: cst.CSTNode) -> bool:
        """Whether a statement sets an expression: `x.n = 1`, `x.n += 1`, `a, x.n = 1, 2`, `for x.n in data`."""
        child, around = node, self.parent(node)
        while isinstance(around, cst.Element | cst.StarredElement | cst.Tuple | cst.List):
            child, around = around, self.parent(around)
        match around:
            case cst.AssignTarget():
                return True
            case (
                cst.AnnAssign(target=target)
                | cst.AugAssign(target=target)
                | cst.For(target=target)
                | cst.CompFor(target=target)
            ):
                return target is child
            case cst.AsName(name=name) | cst.Del(target=name):
                return name is child
        return False

    def owner(self, param: cst.Param) -> Function | None:
        """Return the function or lambda that has this parameter."""
        for ancestor in self.ancestors(param):
            if isinstance(ancestor, Function):
                return ancestor
        return None

    def enclosing(
        self, node: cst.CSTNode, kind: type[Node] | tuple[type[Node], ...]
    ) -> Node | None:
        """Return the nearest proper ancestor of one of these kinds; None if there is none."""
        return next((a for a in self.ancestors(node) if isinstance(a, kind)), None)

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the function whose body or parameters contain the node; its decorators do not count."""
        if node not in self._functions:
            self._functions[node] = self._find_function(node)
        return self._functions[node]

    def _find_function(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """Return the innermost function around a node, without the cache."""
        child = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, cst.FunctionDef) and not isinstance(child, cst.Decorator):
                return ancestor
            child = ancestor
        return None

    def class_of(self, function: cst.CSTNode) -> cst.ClassDef | None:
        """Return the class whose body directly contains this function."""
        for ancestor in self.ancestors(function):
            if isinstance(ancestor, cst.FunctionDef):
                return None
            if isinstance(ancestor, cst.ClassDef):
                return ancestor
        return None

    def scope(self, node: cst.CSTNode) -> Scope | None:
        return self._scopes.get(node)

    def top_level_statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the statement of the module's body that contains the node."""
        statement = node
        for ancestor in self.ancestors(node):
            if isinstance(ancestor, cst.Module):
                return statement
            statement = ancestor
        return statement


@lru_cache(maxsize=2)
def parse_module(source: str) -> Module:
    """Return the module of a text. The last two are cached, because a program is converted again with other options.

    Raises:
        libcst.ParserSyntaxError: the source is no Python.
    """
    return Module(source)
