"""Batches that a loop cuts out of arrays, `x[i:i + 32]`, or draws from them, `np.random.choice(n, 32)`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import Kind
from ...analysis.scale_findings import number_of
from ...analysis.syntax import argument, method
from ...analysis.tree import names_in, nodes_in
from .batches import Batches
from .number_sources import NumberSources, is_number_of_rows
from .roles import Role
from .selecting_loops import is_range

#: What draws so many rows, or numbers of rows, by the name of the method: the place and the name of the count.
_DRAWS: Mapping[str, tuple[int, str]] = {
    "choice": (1, "size"),
    "integers": (2, "size"),
    "randint": (2, "size"),
    "sample": (1, "k"),
    "choices": (2, "k"),
}
#: Functions that make one array of several, one row of each.
_STACKING = frozenset({"stack", "array", "asarray", "vstack", "convert_to_tensor", "constant"})
#: Functions through which a number of rows goes as it is, or as a bound of it.
_BOUNDING = frozenset({"min", "int", "minimum"})


class RowSlices:
    """The slices and draws of one module that give batches, and the sizes in them."""

    def __init__(self, numbers: NumberSources) -> None:
        self.numbers = numbers
        self.values = numbers.values
        self.module = numbers.values.module

    def batches_among(self, training: cst.Call, nodes: set[cst.CSTNode]) -> Batches:
        """Return the batches that are cut out of arrays, `x[i:i + 32]`, or drawn from them, among some nodes."""
        sizes: dict[cst.BaseExpression, None] = {}
        counts: dict[cst.BaseExpression, None] = {}
        cuts = {
            n: cut
            for n in nodes
            if not self._is_row(n) and (cut := self._find_sizes_in_slice(n))[0]
        }
        for node, (found, numbered) in cuts.items():
            if not self._is_cut_again(node, cuts):
                sizes.update(dict.fromkeys(found))
                counts.update(dict.fromkeys(numbered))
        for node in nodes:
            if self._is_row(node) or self._is_data(node) or self._is_drawn_for_each(node):
                continue
            if isinstance(node, cst.Call) and method(node) in _DRAWS:
                size = self._find_drawn_size(node)
                if size is not None:
                    sizes.update(dict.fromkeys([size, *self._find_guards(node, size)]))
        whole = next((s for s in sizes if is_number_of_rows(self.values, s)), None)
        if whole is not None:
            return Batches(training, whole=whole)
        return Batches(training, sizes=tuple(sizes), counts=tuple(counts))

    def _find_drawn_size(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the size argument of a random draw of rows, `k` of `choice(n, k)`; None if there is none, or it has several
        dimensions.
        """
        place, name = _DRAWS[method(call)]
        if not isinstance(call.func, cst.Attribute):
            return None
        if self.values.kinds(call.func.value) & {Role.DATASET, Role.MODEL, Kind.INSTANCE}:
            return None
        given = argument(call, name, place)
        match given.value if given is not None else None:
            case cst.Tuple(elements=[cst.Element(value=size)]):
                return size
            case None | cst.Tuple() | cst.List():
                return None
            case size:
                return size

    def _find_sizes_in_slice(
        self, node: cst.CSTNode
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """Return the sizes in a slice and in its loop, and the counts of iterations of that loop."""
        match node:
            case cst.Subscript(
                value=rows, slice=[cst.SubscriptElement(slice=cst.Slice() as cut), *_]
            ):
                return self._find_sizes_in_bounds(cut, find_slice_start(rows))
            case cst.Call(args=[lower, upper]) if self._makes_slice(node):
                return self._find_sizes_between(lower.value, upper.value)
        return [], []

    def _is_cut_again(self, node: cst.CSTNode, cuts: Collection[cst.CSTNode]) -> bool:
        """Whether other slices cut batches out of the rows of this one, as out of a chunk of a stream."""
        behind = self.values.flow.backward_slice
        return any(
            isinstance(other, cst.Subscript)
            and other is not node
            and node in behind(other.value)
            and other not in behind(node)
            for other in cuts
        )

    def _find_guards(
        self, draw: cst.Call, size: cst.BaseExpression
    ) -> Iterator[cst.BaseExpression]:
        """Yield literals that repeat the size where the program waits for as many rows: 32 of `if len(memory) >= 32`."""
        number, text = number_of(size), self.module.text
        for node in self.module.nodes() if number is not None and draw.args else ():
            match node:
                case cst.Comparison(
                    left=cst.Call(func=cst.Name("len"), args=[cst.Arg(value=rows)]),
                    comparisons=[cst.ComparisonTarget(comparator=cst.Integer() as least)],
                ) if number_of(least) == number and text(rows) == text(draw.args[0].value):
                    yield least

    def _is_row(self, node: cst.CSTNode) -> bool:
        """Whether a slice is one row of a batch: a window in `np.stack([data[i:i + 32] for i in starts])`."""
        if not isinstance(node, cst.Subscript):
            return False
        around = self.module.enclosing(node, (cst.BaseComp, cst.BaseStatement))
        holder = self.module.parent(around) if isinstance(around, cst.BaseComp) else None
        call = self.module.parent(holder) if isinstance(holder, cst.Arg) else None
        return isinstance(call, cst.Call) and method(call) in _STACKING

    def _is_drawn_for_each(self, node: cst.CSTNode) -> bool:
        """Whether rows are drawn for each of several earlier draws, such as pictures of each drawn class; their count is no
        batch size.
        """
        if not isinstance(node, cst.Call) or method(node) not in _DRAWS:
            return False
        around = self.module.enclosing(node, (cst.BaseComp, cst.For, cst.FunctionDef))
        loop = around.for_in if isinstance(around, cst.BaseComp) else around
        if not isinstance(loop, cst.CompFor | cst.For):
            return False
        return any(
            made is not node
            and isinstance(made, cst.Call)
            and method(made) in _DRAWS
            and self._find_drawn_size(made) is not None
            for made in self.values.flow.backward_slice(loop.iter)
        )

    def _is_data(self, node: cst.CSTNode) -> bool:
        """Whether numbers are drawn once, outside loops and functions: data rather than batches."""
        if not isinstance(node, cst.Call) or method(node) not in _DRAWS:
            return False
        loop = self.module.enclosing(node, (cst.For, cst.While))
        return loop is None and self.module.function_of(node) is None

    def _find_sizes_in_bounds(
        self, cut: cst.Slice, start: cst.BaseExpression | None
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """Return the sizes in a slice's bounds and in the loop that determines them, and the counts of that loop.

        For rows from `i` to `i + size`, or from `i * size` to `(i + 1) * size`.

        Args:
            start: the start of an earlier cut: `i` of `x[i:][:size]`.
        """
        lower, upper = cut.lower or start, cut.upper
        if lower is None or upper is None:
            return [], []
        if cut.lower is None:
            return self._add_loop_sizes(
                lower, [upper, *self._find_factors(lower, self.module.text(upper))]
            )
        return self._find_sizes_between(lower, upper)

    def _makes_slice(self, call: cst.Call) -> bool:
        """Whether a call is `slice(lower, upper)`."""
        return len(call.args) == 2 and self.values.qualified(call.func) == "builtins.slice"

    def _find_sizes_between(
        self, lower: cst.BaseExpression, upper: cst.BaseExpression
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """Return the sizes and counts for rows from `lower` to `upper`, as `_find_sizes_in_bounds` does."""
        lower, upper = self._resolve_bound(lower), self._resolve_bound(upper)
        return self._add_loop_sizes(lower, list(self._find_difference(lower, upper)))

    def _resolve_bound(self, bound: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression that a bound's name stands for: `(i + 1) * size` or `min(i + size, n)` of `end`."""
        if not isinstance(bound, cst.Name):
            return bound
        match self.values.definitions.reaching(bound):
            case [Binding(value=cst.BinaryOperation() as value, path=(), adds=False)]:
                return value
            case [Binding(value=cst.Call() as call, path=(), adds=False)] if self._bounds_rows(
                call
            ):
                return call
        return bound

    def _bounds_rows(self, call: cst.Call) -> bool:
        """Whether a call only limits a number of rows: `min`, `int`."""
        return self.module.text(call.func).rpartition(".")[2] in _BOUNDING

    def _add_loop_sizes(
        self, lower: cst.BaseExpression, sizes: list[cst.BaseExpression]
    ) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """Add the sizes in the loop whose variable is a bound of the slice; return all sizes, and the loop's count of
        iterations.
        """
        if not sizes:
            return [], []
        text = self.module.text(sizes[0])
        counts = []
        for name in names_in(lower):
            for definition in self.values.definitions.reaching(name):
                if not isinstance(definition, Binding):
                    continue
                if definition.adds and self.module.text(definition.value) == text:
                    sizes.append(definition.value)
                elif self._is_range(definition.value):
                    assert isinstance(definition.value, cst.Call)
                    found = self._find_sizes_in_range(definition.value, text)
                    sizes += found
                    if not found and len(definition.value.args) == 1:
                        counts.append(definition.value.args[0].value)
        return sizes, counts

    def _is_range(self, node: cst.BaseExpression) -> bool:
        """Whether an expression is `range(…)` or `np.arange(…)`."""
        if not isinstance(node, cst.Call) or not node.args:
            return False
        name = self.values.qualified(node.func)
        return is_range(name) or name == "numpy.arange"

    def _find_sizes_in_range(self, numbers: cst.Call, size: str) -> list[cst.BaseExpression]:
        """Return the sizes in a range: its step, or the divisor of its length."""
        if len(numbers.args) == 3:
            return [numbers.args[2].value]
        text = self.module.text
        return [
            node.right
            for node in self.numbers.find_sources(numbers.args[-1].value)
            if isinstance(node, cst.BinaryOperation)
            and isinstance(node.operator, (cst.FloorDivide, cst.Divide))
            and text(node.right) == size
        ]

    def _find_difference(
        self, lower: cst.BaseExpression, upper: cst.BaseExpression
    ) -> Iterator[cst.BaseExpression]:
        """Yield each occurrence of the size by which the bounds of a slice differ."""
        text = self.module.text
        match upper:
            case cst.Call() if self._bounds_rows(upper):
                for arg in upper.args:
                    yield from self._find_difference(lower, arg.value)
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                for start, size in ((left, right), (right, left)):
                    start = self._resolve_bound(start)
                    if strip_parentheses(text(start)) == strip_parentheses(text(lower)):
                        yield size
                        yield from self._find_factors(lower, text(size))
                        yield from self._find_factors(start, text(size))
                        return
            case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                for number, size in ((left, right), (right, left)):
                    following = re.sub(r"\s", "", strip_parentheses(text(number)))
                    starts = list(self._find_factors(lower, text(size)))
                    others = [
                        re.sub(r"\s", "", strip_parentheses(text(n)))
                        for n in (getattr(lower, "left", None), getattr(lower, "right", None))
                        if n is not None
                    ]
                    if starts and following in {f"{n}+1" for n in others} | {
                        f"1+{n}" for n in others
                    }:
                        yield size
                        yield from starts
                        return

    def _find_factors(self, number: cst.BaseExpression, size: str) -> Iterator[cst.BaseExpression]:
        """Yield the factors in a number that are written like the size."""
        for node in nodes_in(number):
            match node:
                case cst.BinaryOperation(left=left, operator=cst.Multiply(), right=right):
                    yield from [f for f in (left, right) if self.module.text(f) == size][:1]


def find_slice_start(rows: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the start of an open slice, `i` of `x[i:]`; None for another expression."""
    match rows:
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Slice(lower=lower, upper=None)), *_]
        ):
            return lower
    return None


def strip_parentheses(text: str) -> str:
    """Return a text without the parentheses around it."""
    while text.startswith("(") and text.endswith(")") and "(" not in text[1:-1]:
        text = text[1:-1]
    return text
