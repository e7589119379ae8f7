"""The functions that TensorFlow compiles, and the eager calls outside them that start an update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.library import Kind
from ...analysis.values import ValueAnalysis
from .updates import Update


@dataclass(frozen=True, eq=False)
class EagerSite:
    """A call outside all compiled functions that leads to an update.

    Attributes:
        call: the outermost call; the update itself where it runs eagerly.
        chain: the calls from the update's function outwards, `call` the last; empty for the update itself.
    """

    call: cst.Call
    chain: tuple[cst.Call, ...]


class CompiledCode:
    """The functions of one module that run compiled, and the eager calls around them."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values

    @cached_property
    def functions(self) -> frozenset[cst.CSTNode]:
        """The functions that are decorated with `tf.function`, or passed to it."""
        return frozenset(function for function, _ in self._compilations)

    @cached_property
    def _compilations(self) -> list[tuple[cst.CSTNode, Sequence[cst.Arg]]]:
        """The functions that `tf.function` compiles, each with the arguments of `tf.function`."""
        decorated = [
            (function, d.decorator.args if isinstance(d.decorator, cst.Call) else ())
            for function in self._values.index.functions
            for d in function.decorators
            if self._compiles(d.decorator)
        ]
        passed = [
            (value.node, call.args)
            for call in self._values.index.calls
            if self._compiles(call.func) and call.args
            for value in self._values.of(call.args[0].value)
            if value.kind is Kind.FUNCTION and value.node
        ]
        return [*decorated, *passed]

    def _compiles(self, decorator: cst.BaseExpression) -> bool:
        """Whether an expression is `tf.function`, with options or without."""
        match decorator:
            case cst.Call(func=func, args=[cst.Arg(value=first), *_]) if (
                self._values.qualified(func) == "functools.partial"
            ):
                decorator = first
            case cst.Call(func=func):
                decorator = func
        return self._values.qualified(decorator) == "tensorflow.function"

    def eager_sites(self, update: Update) -> list[EagerSite]:
        """The outermost calls in eager code that run an update; empty where nothing calls it."""
        return list(self._find_sites(update.call, update.function, ()))

    def _find_sites(
        self, call: cst.Call, function: cst.FunctionDef | None, chain: tuple[cst.Call, ...]
    ) -> Iterator[EagerSite]:
        """Yield the outermost eager calls that lead to a call, with the calls between.

        Args:
            function: the function that contains the call.
            chain: the calls from the update's function outwards, so far.
        """
        if function is None or not self.runs_compiled(function):
            yield EagerSite(call, chain)
            return
        for site in self._values.calls.sites(function):
            if site not in chain and self._values.qualified(site.func) != "tensorflow.function":
                outer = self._values.module.function_of(site)
                yield from self._find_sites(site, outer, (*chain, site))

    def runs_compiled(
        self, function: cst.FunctionDef, seen: frozenset[cst.CSTNode] = frozenset()
    ) -> bool:
        """Whether some call of the function runs inside a compiled function."""
        if function in self.functions:
            return True
        if function in seen:
            return False
        sites = self._values.calls.sites(function)
        callers = [self._values.module.function_of(site) for site in sites]
        return any(c is not None and self.runs_compiled(c, seen | {function}) for c in callers)
