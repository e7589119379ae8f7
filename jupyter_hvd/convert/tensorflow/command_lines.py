"""The parameters that a command line sets: of functions that `click`, `typer`, `hydra` or `fire` call."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.values import ValueAnalysis

_LIBRARIES = frozenset({"click", "typer", "hydra", "fire"})
_RUNNERS = frozenset({"fire.Fire", "typer.run"})


class CommandLines:
    """The functions of one module that are called with what a command line says."""

    def __init__(self, values: ValueAnalysis) -> None:
        self._values = values

    def sets(self, name: cst.BaseExpression) -> bool:
        """Whether a name is a parameter whose value comes from a command line."""
        if not isinstance(name, cst.Name):
            return False
        reaching = self._values.definitions.reaching(name)
        return bool(reaching) and all(
            isinstance(each, cst.Param) and self.sets_parameter(each) for each in reaching
        )

    def sets_parameter(self, param: cst.Param) -> bool:
        """Whether a command line gives this parameter its value."""
        function = self._values.module.owner(param)
        return function in self.functions or self._values.overridden.is_given_unseen(function)

    @cached_property
    def functions(self) -> frozenset[cst.CSTNode]:
        """The functions that a command line calls."""
        values = self._values
        decorated = (
            each
            for each in values.index.functions
            if any(name.partition(".")[0] in _LIBRARIES for name in self._decorators_of(each))
        )
        run = (
            value.node
            for call in values.index.calls
            if call.args and values.qualified(call.func) in _RUNNERS
            for value in values.of(call.args[0].value)
            if isinstance(value.node, cst.FunctionDef)
        )
        return frozenset((*decorated, *run))

    def _decorators_of(self, function: cst.FunctionDef) -> Iterator[str]:
        """Yield the canonical names of a function's decorators: of `@click.command()`, and of `@app.command()` with `app =
        typer.Typer()`.
        """
        for each in function.decorators:
            decorator = each.decorator
            called = decorator.func if isinstance(decorator, cst.Call) else decorator
            yield self._values.qualified(called)
            if isinstance(called, cst.Attribute):
                yield from (value.name for value in self._values.of(called.value))
