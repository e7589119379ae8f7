"""The call graph: which calls run a function of the module, and what they pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import libcst as cst

from .classes import ClassHierarchy
from .index import Index
from .library import Kind, Library, Resolver
from .module import Module
from .syntax import Function, argument, is_decorated, list_parameters

#: How often calls are looked for again, each time through one more function that is passed on.
MAX_ROUNDS = 4


class CallGraph:
    """The calls of one module.

    Args:
        afresh: a context in which no earlier question is open. At its end, answers that used the calls known before are
            forgotten.
    """

    def __init__(
        self,
        module: Module,
        index: Index,
        classes: ClassHierarchy,
        library: Library,
        resolver: Resolver,
        afresh: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._module = module
        self._index = index
        self._classes = classes
        self._library = library
        self._resolver = resolver
        self._afresh = afresh
        self._sites: dict[cst.CSTNode, list[cst.Call]] | None = None

    def sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """Return the calls in this module that may run the function or create the class."""
        if self._sites is None:
            self._find_sites()
        assert self._sites is not None
        return self._sites.get(function, [])

    def leading_to(self, call: cst.Call) -> list[cst.Call]:
        """Return a call, the calls of the function around it, the calls of the functions around these, and so on."""
        found: dict[cst.Call, None] = {}
        waiting = [call]
        while waiting:
            call = waiting.pop()
            if call not in found:
                found[call] = None
                function = self._module.function_of(call)
                waiting += self.sites(function) if function is not None else ()
        return list(found)

    def _find_sites(self) -> None:
        """Compute all call sites as a fixed point from below: the functions that calls pass on are known once their calls are."""
        self._sites = {}
        for _ in range(MAX_ROUNDS):
            sites: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
            with self._afresh():
                for call in self._index.calls:
                    for callee in self._find_callees(call):
                        sites[callee].append(call)
            before, self._sites = self._sites, dict(sites)
            if before == self._sites:
                return

    def unwrap_call(self, call: cst.Call) -> cst.Call:
        """Return the call of a user's function that a library's call makes, `f(x)` for `strategy.run(f, (x,))`; other calls
        unchanged.
        """
        return self._library.unwrap_call(self._resolver, call) or call

    def find_condition(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the condition by which a library's call chooses one of several functions to run; None for others."""
        return next(iter(self._library.list_branches(self._resolver, call)), None)

    def _find_callees(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        """Yield the functions and classes of this module that a call may run, including `__call__` of instances."""
        for given in self._library.list_branches(self._resolver, call)[1:]:
            for value in self._resolver.of(given):
                if value.kind is Kind.FUNCTION and value.node is not None:
                    yield value.node
        for value in self._resolver.of(self.unwrap_call(call).func):
            if value.kind in (Kind.FUNCTION, Kind.CLASS) and value.node is not None:
                yield value.node
            elif isinstance(value.node, cst.ClassDef):
                yield from self._classes.methods(value.node, *self._library.call_methods)

    def actual_arguments(
        self, function: Function, param: cst.Param
    ) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """Return the calls of a function that pass this parameter, each with the argument."""
        return [
            (call, arg.value)
            for call, direct, position in self._find_passing_calls(function, param)
            if (arg := argument(direct, param.name.value, position)) is not None
            or (arg := _find_argument_after_star(direct, function, param)) is not None
        ]

    def starred_arguments(
        self, function: Function, param: cst.Param
    ) -> list[tuple[cst.BaseExpression, int]]:
        """Return the starred arguments of calls, `step(*pair)`, each with the index of this parameter's element."""
        found = []
        for _, direct, position in self._find_passing_calls(function, param):
            stars = [place for place, arg in enumerate(direct.args) if arg.star == "*"]
            if position is None or not stars or argument(direct, param.name.value) is not None:
                continue
            if stars[0] <= position:
                found.append((direct.args[stars[0]].value, position - stars[0]))
        return found

    def _find_passing_calls(
        self, function: Function, param: cst.Param
    ) -> Iterator[tuple[cst.Call, cst.Call, int | None]]:
        """Yield the calls of a function, each with its unwrapped call and the position of a parameter among its arguments.

        The position is None for keyword-only parameters.
        """
        if param not in list_parameters(function):
            return  # `*args` and `**kwargs`
        position: int | None = list_parameters(function).index(param)
        owner = self._module.class_of(function) if isinstance(function, cst.FunctionDef) else None
        sites = [site for site in self.sites(function) if self.find_condition(site) is None]
        if (
            isinstance(function, cst.FunctionDef)
            and owner is not None
            and not is_decorated(function, "staticmethod")
        ):
            assert position is not None
            position -= 1
            if function.name.value == "__init__":
                sites += self.sites(owner)
        if param in function.params.kwonly_params:
            position = None
        named = function.name.value if isinstance(function, cst.FunctionDef) and owner else None
        explicit = named is not None and not is_decorated(function, "staticmethod", "classmethod")
        for call in sites:
            direct = self.unwrap_call(call)
            shifted = explicit and position is not None and self._names_class(direct, named)
            yield call, direct, position + 1 if shifted and position is not None else position

    def _names_class(self, call: cst.Call, name: str | None) -> bool:
        """Whether a call passes `self` explicitly: `Trainer.step(trainer, x)`."""
        match call.func:
            case cst.Attribute(value=receiver, attr=cst.Name(value=called)) if called == name:
                return {value.kind for value in self._resolver.of(receiver)} == {Kind.CLASS}
        return False


def _find_argument_after_star(
    call: cst.Call, function: Function, param: cst.Param
) -> cst.Arg | None:
    """Return the argument behind a starred one, `size` of `f(*pair, size)`, if all parameters must be passed by position; else
    None.
    """
    taken = function.params
    if taken.kwonly_params or isinstance(taken.star_arg, cst.Param) or taken.star_kwarg:
        return None
    if any(each.default is not None or each.equal == "=" for each in taken.params):
        return None
    if [arg.star for arg in call.args].count("*") != 1 or any(arg.keyword for arg in call.args):
        return None
    from_end = len(list_parameters(function)) - list_parameters(function).index(param)
    behind = [arg.star for arg in call.args][::-1].index("*")
    return call.args[-from_end] if from_end <= behind else None
