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
from .syntax import Function, argument, is_decorated, parameters

#: How often calls are looked for again, each time through one more function that is passed on.
MAX_ROUNDS = 4


class CallGraph:
    """The calls of one module.

    Args:
        afresh: a context in which no earlier question is open; what was answered by the calls
            known before is forgotten at its end.
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
        """The calls in this module that may call the function or make the class."""
        if self._sites is None:
            self._find_sites()
        assert self._sites is not None
        return self._sites.get(function, [])

    def leading_to(self, call: cst.Call) -> list[cst.Call]:
        """The call, the calls of the function that it stands in, of the functions that these stand in, and so on."""
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
        """A fixed point from below: what functions are passed is known once their calls are."""
        self._sites = {}
        for _ in range(MAX_ROUNDS):
            sites: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
            with self._afresh():
                for call in self._index.calls:
                    for callee in self._run_by(call):
                        sites[callee].append(call)
            before, self._sites = self._sites, dict(sites)
            if before == self._sites:
                return

    def direct(self, call: cst.Call) -> cst.Call:
        """The call that a call comes to: `f(x)` for one of a library's that calls `f` with `x`, of parts of the program's own."""
        return self._library.direct(self._resolver, call) or call

    def decided_by(self, call: cst.Call) -> cst.BaseExpression | None:
        """The expression by which a library's call chooses one of several functions of the program."""
        return next(iter(self._library.branches(self._resolver, call)), None)

    def _run_by(self, call: cst.Call) -> Iterator[cst.CSTNode]:
        for given in self._library.branches(self._resolver, call)[1:]:
            for value in self._resolver.of(given):
                if value.kind is Kind.FUNCTION and value.node is not None:
                    yield value.node
        for value in self._resolver.of(self.direct(call).func):
            if value.kind in (Kind.FUNCTION, Kind.CLASS) and value.node is not None:
                yield value.node
            elif isinstance(value.node, cst.ClassDef):
                yield from self._classes.methods(value.node, *self._library.call_methods)

    def actual_arguments(
        self, function: Function, param: cst.Param
    ) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls of a function that pass this parameter, and what they pass."""
        return [
            (call, arg.value)
            for call, direct, position in self._passing(function, param)
            if (arg := argument(direct, param.name.value, position)) is not None
            or (arg := _behind_star(direct, function, param)) is not None
        ]

    def starred_arguments(
        self, function: Function, param: cst.Param
    ) -> list[tuple[cst.BaseExpression, int]]:
        """The starred arguments of calls, `step(*pair)`, each with the index of this parameter's element."""
        found = []
        for _, direct, position in self._passing(function, param):
            stars = [place for place, arg in enumerate(direct.args) if arg.star == "*"]
            if position is None or not stars or argument(direct, param.name.value) is not None:
                continue
            if stars[0] <= position:
                found.append((direct.args[stars[0]].value, position - stars[0]))
        return found

    def _passing(
        self, function: Function, param: cst.Param
    ) -> Iterator[tuple[cst.Call, cst.Call, int | None]]:
        """The calls of a function, each with what it comes to, and the place of a parameter among its arguments."""
        if param not in parameters(function):
            return  # `*args` and `**kwargs`
        position: int | None = parameters(function).index(param)
        owner = self._module.class_of(function) if isinstance(function, cst.FunctionDef) else None
        sites = [site for site in self.sites(function) if self.decided_by(site) is None]
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
            direct = self.direct(call)
            shifted = explicit and position is not None and self._names_class(direct, named)
            yield call, direct, position + 1 if shifted and position is not None else position

    def _names_class(self, call: cst.Call, name: str | None) -> bool:
        """Whether a call passes the object too: `Trainer.step(trainer, x)`."""
        match call.func:
            case cst.Attribute(value=receiver, attr=cst.Name(value=called)) if called == name:
                return {value.kind for value in self._resolver.of(receiver)} == {Kind.CLASS}
        return False


def _behind_star(call: cst.Call, function: Function, param: cst.Param) -> cst.Arg | None:
    """The argument behind a starred one, `size` of `f(*pair, size)`, if the call must pass all parameters by position."""
    taken = function.params
    if taken.kwonly_params or isinstance(taken.star_arg, cst.Param) or taken.star_kwarg:
        return None
    if any(each.default is not None or each.equal == "=" for each in taken.params):
        return None
    if [arg.star for arg in call.args].count("*") != 1 or any(arg.keyword for arg in call.args):
        return None
    from_end = len(parameters(function)) - parameters(function).index(param)
    behind = [arg.star for arg in call.args][::-1].index("*")
    return call.args[-from_end] if from_end <= behind else None
