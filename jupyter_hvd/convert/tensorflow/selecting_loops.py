"""Loops whose iterations select the data of a step: by indices, slices, row counts, or as parts of arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ...analysis.flow import Source, positional_arguments
from ...analysis.index import ELEMENT, Path
from ...analysis.syntax import method
from ...analysis.tree import nodes_in
from ...analysis.values import MAX_PATH, ValueAnalysis

#: What gives as many parts of an array as it is told.
_PARTING = frozenset({"numpy.array_split", "numpy.split", "numpy.vsplit", "tensorflow.split"})
#: What gives numbers or slices, and what goes over those that it is given.
_NUMBERING = frozenset({"numpy.arange", "sklearn.utils.gen_batches"})
_GOING_OVER = frozenset(
    {
        *(f"builtins.{name}" for name in ("enumerate", "reversed", "sorted", "zip")),
        *("random.sample", "numpy.random.permutation"),
    }
)
#: What takes slices by brackets.
_SLICING = frozenset({"numpy.s_", "numpy.index_exp"})


def is_range(name: str) -> bool:
    """Whether calling this canonical name counts, so that a loop over it runs over numbers, not data."""
    return name in ("builtins.range", "tensorflow.range") or name.endswith(".trange")


def _counts_from_start(counting: cst.Call, name: str) -> bool:
    """Whether a call counts by ones, from 0 or 1."""
    given = positional_arguments(counting)
    if len(given) != len(counting.args):
        return False
    if name == "itertools.count":
        start = given
    elif is_range(name) and len(given) in (1, 2):
        start = given[:-1]
    else:
        return False
    return len(start) < 2 and all(
        isinstance(n, cst.Integer) and n.value in ("0", "1") for n in start
    )


def is_slice(node: cst.Subscript) -> bool:
    """Whether a subscript takes a slice of rows: `x[i:i + n]`."""
    return any(isinstance(element.slice, cst.Slice) for element in node.slice)


class LoopIterables:
    """Questions about loop iterables that are not data themselves: numbers, slices, parts of arrays."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values

    def is_over_range(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over a range, also by way of names and progress bars: `bar = tqdm(range(steps))`."""
        return self._is_all(iterable, (ELEMENT,), self._is_range_part)

    def is_counter(self, iterable: cst.BaseExpression) -> bool:
        """Whether an expression, as an argument of `zip`, counts iterations from 0 or 1: `range(n)`, `itertools.count(1)`."""
        inner = self._values.flow.unwrap_iteration(iterable)
        return isinstance(inner, cst.Call) and _counts_from_start(
            inner, self._values.qualified(inner.func)
        )

    def _is_range(self, iterable: cst.BaseExpression) -> bool:
        """Whether an expression is a `range`, from any number on."""
        inner = self._values.flow.unwrap_iteration(iterable)
        return isinstance(inner, cst.Call) and is_range(self._values.qualified(inner.func))

    def split_counters(
        self, iterable: cst.BaseExpression
    ) -> tuple[cst.BaseExpression, tuple[cst.BaseExpression, ...]]:
        """Split `zip(range(k, n), batches)` into `batches` and the counters `(range(k, n),)`. Other iterables are returned
        with no counters.
        """
        zipped = self._values.flow.unwrap_iteration(iterable)
        if isinstance(zipped, cst.Call) and self._values.qualified(zipped.func) == "builtins.zip":
            given = positional_arguments(zipped)
            counts = tuple(each for each in given if self._is_range(each) or self.is_counter(each))
            others = [each for each in given if each not in counts]
            if counts and len(others) == 1 and not any(arg.star for arg in zipped.args):
                inner, more = self.split_counters(others[0])
                return inner, (*counts, *more)
        return iterable, ()

    def is_over_numbers(self, iterable: cst.BaseExpression) -> bool:
        """Whether a loop runs over numbers in any order, over slices, or over row indices."""
        return self._is_all(iterable, (ELEMENT,), self._is_number_part)

    def is_over_parts(self, iterable: cst.BaseExpression, path: Path = (ELEMENT,)) -> bool:
        """Whether a loop runs over parts of arrays: `zip(np.array_split(x, 8), np.array_split(y, 8))`."""
        return self._is_all(iterable, path, self._is_split_part)

    def _is_all(
        self,
        expression: cst.BaseExpression,
        path: Path,
        is_one: Callable[[cst.BaseExpression, Path], bool],
    ) -> bool:
        """Whether all sources of the part `path` of an expression satisfy a predicate; of `zip`, those of all arguments."""
        pending: list[Source] = [(expression, path)]
        seen, found = set[Source](), False
        while pending:
            node, part = pending.pop()
            if (node, part) in seen:
                continue
            seen.add((node, part))
            if is_one(node, part):
                found = True
                continue
            sources = list(self._find_sources(node, part))
            if not sources and not (isinstance(node, cst.List) and not node.elements):
                return False
            pending += sources
        return found

    def _find_sources(self, node: cst.BaseExpression, path: Path) -> Iterator[Source]:
        """Yield the sources of a part of an expression, one step back: through names, `zip` and the like, and generators."""
        if len(path) > MAX_PATH:
            return
        values = self._values
        name = values.qualified(node.func) if isinstance(node, cst.Call) else ""
        if isinstance(node, cst.Call) and path == (ELEMENT,) and name in _GOING_OVER:
            over = node.args if name == "builtins.zip" else node.args[:1]
            yield from ((arg.value, path) for arg in over if not arg.star)
        else:
            yield from values.flow.predecessors(node, path)
            for made in values.of(node) if isinstance(node, cst.Call) and path else ():
                for function in self._find_generators(made.node):
                    yield from ((value, path[1:]) for value in _iterate_yields(function))

    def _find_generators(self, made: cst.CSTNode | None) -> list[cst.CSTNode]:
        """Return the generator functions behind a value: itself, or `__iter__` of a user-defined class."""
        if isinstance(made, cst.ClassDef):
            through = self._values.classes.methods(made, "__iter__")
            return [f for f in through if f in self._values.index.generators]
        return [made] if made is not None and made in self._values.index.generators else []

    def _is_range_part(self, node: cst.BaseExpression, path: Path) -> bool:
        """Whether the elements of an expression are those of a range."""
        if path != (ELEMENT,):
            return False
        if isinstance(node, cst.Call) and is_range(self._values.qualified(node.func)):
            return True
        made = self._values.of(node)
        return bool(made) and all(is_range(value.name) for value in made)

    def _is_number_part(self, node: cst.BaseExpression, path: Path) -> bool:
        """Whether the elements of an expression are numbers or slices."""
        if not path and isinstance(node, cst.Tuple) and node.elements:  # `(i, min(i + 32, n))`
            return self._is_all(node.elements[0].value, (), self._is_number_part)
        if self._is_slice_part(node, path) or self._is_range_part(node, path):
            return True
        if not isinstance(node, cst.Call) or path != (ELEMENT,):
            return False
        name = self._values.qualified(node.func)
        if name in _NUMBERING or method(node) == "permutation":
            return True
        return name in _PARTING and bool(node.args) and self.is_over_numbers(node.args[0].value)

    def _is_split_part(self, node: cst.BaseExpression, path: Path) -> bool:
        """Whether the elements of an expression are parts of an array, as of `np.array_split`."""
        named = isinstance(node, cst.Call) and self._values.qualified(node.func) in _PARTING
        return named and path == (ELEMENT,)

    def _is_slice_part(self, node: cst.BaseExpression, path: Path) -> bool:
        """Whether an expression is a slice object."""
        if path:
            return False
        match node:
            case cst.Call():
                return self._values.qualified(node.func) == "builtins.slice"
            case cst.Subscript(value=maker):
                return self._values.qualified(maker) in _SLICING and is_slice(node)
        return False


def _iterate_yields(function: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the expressions in a function's `yield` statements."""
    for node in nodes_in(function):
        if isinstance(node, cst.Yield) and isinstance(node.value, cst.BaseExpression):
            yield node.value
