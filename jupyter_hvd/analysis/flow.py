"""The flow of values, one step backwards: the expressions from which an expression gets its values.

Everything that follows values, forwards in time or back, takes this step and no other: so
scopes, the order of statements, calls, and the receivers of attributes mean the same to all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import libcst as cst
from libcst.helpers import get_full_name_for_node

from .calls import CallGraph
from .classes import ClassHierarchy
from .definitions import Definitions
from .index import ELEMENT, Binding, Index, Path
from .library import Kind, Library, Resolver
from .module import Module
from .records import Records
from .tree import children_of

#: The part `path` of an expression.
Source = tuple[cst.BaseExpression, Path]
#: The part `path` of any node.
Part = tuple[cst.CSTNode, Path]

T = TypeVar("T")

#: How many nodes a slice may hold.
MAX_SLICE = 5_000
#: How deep a part may lie in what is sliced by parts.
MAX_SLICED_PATH = 6


class ValueFlow:
    """The flow of values in one module."""

    def __init__(
        self,
        module: Module,
        index: Index,
        definitions: Definitions,
        classes: ClassHierarchy,
        calls: CallGraph,
        library: Library,
        resolver: Resolver,
        records: Records,
    ) -> None:
        self._module = module
        self._index = index
        self._definitions = definitions
        self._classes = classes
        self._calls = calls
        self._library = library
        self._resolver = resolver
        self._records = records
        self._steps: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        self._steps_by_part: dict[Part, list[Part]] = {}

    def predecessors(
        self, node: cst.CSTNode, path: Path = (), *, in_order: bool = True
    ) -> list[Source]:
        """Return the sources of the part `path` of an expression, one step back: expressions with their parts.

        Empty if the value is created here: by a literal, an operator, a library.

        Args:
            in_order: for a name, only definitions that reach it by the order of the text, else all of its bindings.
        """
        match node:
            case cst.Name():
                return list(self._sources_of_name(node, path, in_order))
            case cst.Attribute():
                return list(self._sources_of_attribute(node, path))
            case cst.Call():
                return list(self._sources_of_call(node, path))
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(left=one, right=other):
                return [(one, path), (other, path)]
            case cst.NamedExpr(value=value) | cst.Await(expression=value):
                return [(value, path)]
            case cst.Subscript(value=value, slice=[cst.SubscriptElement(slice=cst.Slice())]):
                return [(value, path)]
            case cst.Subscript(value=value):
                return [(value, (_constant_index(node), *path))]
            case _ if not path:
                return []
            case (
                cst.Tuple(elements=elements)
                | cst.List(elements=elements)
                | cst.Set(elements=elements)
            ):
                return list(_select_elements(elements, path))
            case cst.Dict(elements=items):
                return [
                    (item.value, path if isinstance(item, cst.StarredDictElement) else path[1:])
                    for item in items
                ]
            case cst.DictComp(value=value):
                return [(value, path[1:])]
            case cst.ListComp(elt=elt) | cst.GeneratorExp(elt=elt) | cst.SetComp(elt=elt):
                return [(elt, path[1:])]
            case cst.BinaryOperation(left=left, right=right):
                return [(left, path), (right, path)]
        return []

    def _sources_of_name(self, name: cst.Name, path: Path, in_order: bool) -> Iterator[Source]:
        """Yield what a name is bound to, arguments of its parameter, and elements added to its list."""
        definitions = self._definitions
        for definition in definitions.reaching(name) if in_order else definitions.of(name):
            if isinstance(definition, Binding):
                yield definition.value, definition.path + path
            elif isinstance(definition, cst.Param):
                yield from ((value, path) for value in self.find_arguments(definition))
                yield from (
                    (value, (n, *path)) for value, n in self._find_starred_arguments(definition)
                )
                if definition.default is not None:
                    yield definition.default, path
        yield from self.find_added_elements(name, path)

    def find_added_elements(self, node: cst.CSTNode, path: Path) -> Iterator[Source]:
        """Yield the values that `append`, `insert` and `extend` add at this part of the list in a name or an attribute."""
        match node:
            case cst.Name(value=name) if path:
                for call in self._index.filled.get(name, ()):
                    assert isinstance(call.func, cst.Attribute)
                    identity = self._definitions.identity
                    if identity(call.func.value) == identity(node):
                        yield _added_value(call, path)
            case cst.Attribute(value=receiver, attr=cst.Name(value=name)) if path:
                filled = self._index.filled_attributes.get(name, ())
                for call in self._filter_by_receiver(
                    receiver, [(_receiver_of_list(call), call) for call in filled]
                ):
                    yield _added_value(call, path)

    def find_arguments(self, param: cst.Param) -> list[cst.BaseExpression]:
        """Return the arguments that calls pass for a parameter."""
        function = self._module.owner(param)
        if function is None:
            return []
        return [value for _, value in self._calls.actual_arguments(function, param)]

    def _find_starred_arguments(self, param: cst.Param) -> list[tuple[cst.BaseExpression, int]]:
        """Return the starred arguments that calls pass for a parameter, each with the element's index."""
        function = self._module.owner(param)
        return self._calls.starred_arguments(function, param) if function is not None else []

    # Attributes

    def _sources_of_attribute(self, node: cst.Attribute, path: Path) -> Iterator[Source]:
        """Yield what an attribute is bound to, elements added to its list, and what its property returns."""
        for binding in self.bindings_of(node):
            yield binding.value, binding.path + path
        yield from self.find_added_elements(node, path)
        for member in self.methods(node):
            if is_property(member):
                yield from ((value, path) for value in self._index.returns[member])

    def bindings_of(self, used: cst.Attribute) -> list[Binding]:
        """Return the bindings of an attribute whose receiver may be the one used here, and those by constructors of records.

        If nothing is known about the receiver, all bindings of this name; none for a library's object.
        """
        named = self._index.attribute_bindings.get(used.attr.value, ())
        set_ = self._filter_by_receiver(used.value, [(b.receiver, b) for b in named])
        return [*set_, *self._records.attributes(used)]

    def _filter_by_receiver(
        self, used: cst.BaseExpression, named: Sequence[tuple[cst.BaseExpression | None, T]]
    ) -> list[T]:
        """Return the items whose receiver may be the object that is used here: by class, else by the same text."""
        if not named:
            return []
        owners = self._classes_of(used)
        if owners:
            return [b for r, b in named if r is not None and self._may_be_one_of(r, owners)]
        text = self._module.text(used)
        same = [b for r, b in named if r is not None and self._module.text(r) == text]
        unknown = {value.kind for value in self._resolver.of(used)} <= {Kind.UNKNOWN}
        return same or ([b for _, b in named] if unknown else [])

    def _classes_of(self, receiver: cst.BaseExpression) -> list[cst.ClassDef]:
        """Return the classes of this module whose instances a receiver may be."""
        nodes = (value.node for value in self._resolver.of(receiver))
        return [node for node in nodes if isinstance(node, cst.ClassDef)]

    def _may_be_one_of(self, receiver: cst.BaseExpression, owners: list[cst.ClassDef]) -> bool:
        """Whether a receiver may be an instance of one of these classes."""
        return any(
            self._classes.may_share_instances(cls, owner)
            for cls in self._classes_of(receiver)
            for owner in owners
        )

    def methods(self, node: cst.Attribute) -> list[cst.FunctionDef]:
        """Return the methods and properties of this module that an attribute may refer to."""
        found = (
            self._classes.methods(cls, node.attr.value) for cls in self._classes_of(node.value)
        )
        return list(dict.fromkeys(member for members in found for member in members))

    # Calls

    def _sources_of_call(self, call: cst.Call, path: Path) -> Iterator[Source]:
        """Yield what a call returns: an argument, the values of `return` statements, or what a library passes on."""
        if (handed_on := self.find_returned_argument(call)) is not None:
            yield handed_on, path
            return
        call = self._calls.unwrap_call(call)
        for callee in self._resolver.of(call.func):
            if callee.kind is Kind.FUNCTION and callee.node is not None:
                if callee.node in self._index.generators:
                    continue
                yield from ((value, path) for value in self._index.returns[callee.node])
            elif callee.kind is Kind.LIBRARY:
                yield from self._through_library(call, callee.name, path)

    def find_returned_argument(self, call: cst.Call) -> cst.BaseExpression | None:
        """Return the argument that a library's call returns unchanged, as `replace(config, rate=1)` and `field(default=32)` do;
        else None.
        """
        if (kept := self._records.find_returned_argument(call)) is not None:
            return kept
        return self._library.find_returned_argument(self._resolver, call)

    def find_held_values(self, node: cst.CSTNode, path: Path) -> Iterator[Source]:
        """Yield further values of an expression at this part: what a container's methods return or have stored, and class
        attributes.

        `predecessors` leaves these out, because whether a container's contents are replicated depends on everything that is
        done to it.
        """
        match node:
            case cst.Name(value=name) if path and name in self._index.stored:
                if self._is_container(node, cst.Dict, cst.DictComp):
                    identity = self._definitions.identity
                    for there, value, part in self._index.stored[name]:
                        if identity(there.value) == identity(node):
                            yield value, part + path[1:]
            case cst.Attribute(value=receiver, attr=cst.Name(value=name)):
                for owner in self._classes_of(receiver):
                    for bound in self._classes.attributes(owner, name):
                        yield bound.value, bound.path + path
            case cst.Call(func=cst.Name("dict"), args=given) if path:
                yield from ((arg.value, path[1:]) for arg in given if arg.keyword is not None)
            case cst.Call(func=cst.Attribute(value=holder, attr=cst.Name(value=method))):
                if method in GIVING_OUT and self._is_container(holder):
                    if method in ("get", "pop"):
                        yield holder, (ELEMENT, *path)
                    elif method == "values" and path:
                        yield holder, path
                    elif method == "items" and path[1:2] == (1,):
                        yield holder, (ELEMENT, *path[2:])
            case cst.Call(func=called, args=[cst.Arg(value=given), *_]) if path:
                if self._resolver.qualified(called) in ("builtins.reversed", "builtins.sorted"):
                    yield given, (ELEMENT, *path[1:])

    def _is_container(self, node: cst.BaseExpression, *made: type[cst.CSTNode]) -> bool:
        """Whether an expression may be a container, created by one of these kinds of node if any are given."""
        values = self._resolver.of(node)
        nodes = [value.node for value in values if value.kind is Kind.CONTAINER]
        return any(not made or isinstance(node, made) for node in nodes)

    def _through_library(self, call: cst.Call, name: str, path: Path) -> Iterator[Source]:
        """Yield the values that the library passes on: the elements of its iterable, or its argument unchanged."""
        if not call.args:
            return
        if name == "builtins.next":
            yield call.args[0].value, (ELEMENT, *path)
        elif self._library.is_wrapper(name):
            yield call.args[0].value, path
        elif path and is_iteration(name):
            args = positional_arguments(call)
            if name == "builtins.enumerate":
                if path[1:2] == (1,) and args:
                    yield args[0], (ELEMENT, *path[2:])
            elif name == "builtins.zip":
                if path[1:] and path[1] < len(args):
                    for arg in args if path[1] == ELEMENT else [args[path[1]]]:
                        yield arg, (ELEMENT, *path[2:])
            elif args:
                yield args[0], path

    def unwrap_iteration(self, iterable: cst.BaseExpression) -> cst.BaseExpression:
        """Return the iterable inside `enumerate`, `iter`, `list` or a progress bar."""
        while isinstance(iterable, cst.Call) and iterable.args:
            name = self._resolver.qualified(iterable.func)
            if not is_iteration(name) or name == "builtins.zip":
                break
            iterable = iterable.args[0].value
        return iterable

    # Further back

    def computed_from(
        self, expression: cst.BaseExpression, ends: Callable[[cst.CSTNode], bool] | None = None
    ) -> Iterator[cst.CSTNode]:
        """Yield the nodes that a value is computed from, as `backward_slice` does, but follow only the used part of containers
        and tuples.
        """
        pending: list[Part] = [(expression, ())]
        seen: set[Part] = set()
        while pending and len(seen) < MAX_SLICE:
            node, path = pending.pop()
            if (node, path) in seen or len(path) > MAX_SLICED_PATH:
                continue
            seen.add((node, path))
            yield node
            if ends is None or not ends(node):
                pending += self._step_by_part(node, path)

    def _step_by_part(self, node: cst.CSTNode, path: Path) -> list[Part]:
        """Return one step of `computed_from`; cached, because many questions lead through one node."""
        found = self._steps_by_part.get((node, path))
        if found is None:
            sources = self.predecessors(node, path)
            found = [*sources, *self.find_added_elements(node, (ELEMENT,))]
            if not sources:
                found += [(child, ()) for child in children_of(node)]
            elif isinstance(node, cst.Subscript):
                found += [(part, ()) for part in node.slice]
            elif isinstance(node, cst.IfExp):
                found.append((node.test, ()))
            self._steps_by_part[node, path] = found
        return found

    def backward_slice(
        self, expression: cst.CSTNode, ends: Callable[[cst.CSTNode], bool] | None = None
    ) -> Iterator[cst.CSTNode]:
        """Yield every node that an expression's value may be computed from, the expression first, including what is added to
        lists.

        Args:
            ends: at which nodes the slice stops.
        """
        pending, seen = [expression], set[cst.CSTNode]()
        while pending and len(seen) < MAX_SLICE:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            if ends is not None and ends(node):
                continue
            pending += self._step(node)

    def _step(self, node: cst.CSTNode) -> list[cst.CSTNode]:
        """Return one step of `backward_slice`; cached, because many questions lead through one node."""
        found = self._steps.get(node)
        if found is None:
            found = [*children_of(node)]
            found += [source for source, _ in self.predecessors(node)]
            found += [added for added, _ in self.find_added_elements(node, (ELEMENT,))]
            self._steps[node] = found
        return found


#: Methods of containers that give out what these hold.
GIVING_OUT = frozenset({"get", "items", "pop", "values"})


def is_iteration(name: str) -> bool:
    """Whether calling this name yields the elements of its arguments in order; progress bars are any `tqdm`."""
    last = name.rpartition(".")[2]
    return name in _ITERATIONS or last in ("tqdm", "tqdm_notebook")


_ITERATIONS = frozenset(
    f"builtins.{name}" for name in ("enumerate", "iter", "list", "tuple", "zip")
)


def positional_arguments(call: cst.Call) -> list[cst.BaseExpression]:
    """Return a call's positional arguments, without starred ones."""
    return [arg.value for arg in call.args if not arg.star and arg.keyword is None]


def is_property(function: cst.FunctionDef) -> bool:
    """Whether a function is decorated with `property`."""
    return any(get_full_name_for_node(d.decorator) == "property" for d in function.decorators)


def _receiver_of_list(call: cst.Call) -> cst.BaseExpression | None:
    """Return the `a` of `a.b.append(…)`; None for another call."""
    match call.func:
        case cst.Attribute(value=cst.Attribute(value=receiver)):
            return receiver
    return None


def _added_value(call: cst.Call, path: Path) -> Source:
    """Return what `append`, `insert` or `extend` adds at this part of a list."""
    extends = isinstance(call.func, cst.Attribute) and call.func.attr.value == "extend"
    return call.args[-1].value, path if extends else path[1:]


def _select_elements(elements: Iterable[cst.BaseElement], path: Path) -> Iterator[Source]:
    """Yield the elements of a tuple or list to which the first step of a path may lead; all if one is starred."""
    listed = list(elements)
    place = path[0]
    if place != ELEMENT and not any(isinstance(e, cst.StarredElement) for e in listed):
        listed = listed[place : place + 1]
    for element in listed:
        starred = isinstance(element, cst.StarredElement)
        yield element.value, (ELEMENT, *path[1:]) if starred else path[1:]


def _constant_index(node: cst.Subscript) -> int:
    """Return the index of a subscript if it is a literal, else ELEMENT."""
    match node.slice:
        case [cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value=literal)))]:
            return int(literal, 0)
    return ELEMENT
