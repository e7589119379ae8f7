"""Lists of all calls, bindings, loops and imports of a module, collected in one walk."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import libcst as cst

from .tree import ReadOnlyVisitor

#: A step of a path into a value: an index of a tuple, or ELEMENT for any element of an iterable.
ELEMENT = -1
Path = tuple[int, ...]
#: Methods that add to a list the last of what they are given, or its elements.
FILLING = frozenset({"append", "extend", "insert"})


@dataclass(frozen=True)
class Binding:
    """A name or attribute is bound to the part `path` of `value`; `+=` adds to what it was."""

    value: cst.BaseExpression
    path: Path = ()
    receiver: cst.BaseExpression | None = None
    target: cst.Name | None = None
    adds: bool = False
    place: cst.CSTNode | None = None


def bound_expression(bound: Binding) -> cst.BaseExpression | None:
    """Return the expression that a binding binds, also `32` of `size, rate = 32, 0.1`; None if it is not written there."""
    value, path = follow_path(bound.value, bound.path)
    return None if path else value


def select_part(value: cst.BaseExpression, path: Path) -> cst.BaseExpression:
    """Return the part of a tuple or list to which a path leads, as far as the elements are written there."""
    return follow_path(value, path)[0]


def follow_path(value: cst.BaseExpression, path: Path) -> tuple[cst.BaseExpression, Path]:
    """Return the expression to which a path leads within literal tuples and lists, and the rest of the path."""
    while path and isinstance(value, (cst.Tuple, cst.List)):
        elements = list(value.elements)
        starred = any(isinstance(e, cst.StarredElement) for e in elements)
        if starred or not 0 <= path[0] < len(elements):
            break
        value, path = elements[path[0]].value, path[1:]
    return value, path


def find_entry_container(entry: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the `d` of `d[key]` or `d.setdefault(key, [])`; None for another expression."""
    match entry:
        case cst.Subscript(value=container):
            return container
        case cst.Call(func=cst.Attribute(value=container, attr=cst.Name(value="setdefault"))):
            return container
    return None


def _container_key(container: cst.BaseExpression) -> str:
    """Return the name of a container, with a leading dot for an attribute; '' for another expression."""
    match container:
        case cst.Name(value=name):
            return name
        case cst.Attribute(attr=cst.Name(value=name)):
            return f".{name}"
    return ""


@dataclass
class Index(ReadOnlyVisitor):
    """Lists of the module's nodes that the analysis asks for, collected in one walk."""

    calls: list[cst.Call] = field(default_factory=list)
    functions: list[cst.FunctionDef] = field(default_factory=list)
    classes: list[cst.ClassDef] = field(default_factory=list)
    withs: list[cst.With] = field(default_factory=list)
    dictionaries: list[cst.Dict] = field(default_factory=list)
    imports: list[cst.Import | cst.ImportFrom] = field(default_factory=list)
    assigns: list[cst.Assign] = field(default_factory=list)
    attributes: list[cst.Attribute] = field(default_factory=list)
    loops: list[cst.For | cst.CompFor] = field(default_factory=list)
    generators: set[cst.CSTNode] = field(default_factory=set)
    leaves: list[cst.Break | cst.Continue | cst.Return] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    #: For names of containers, attributes by their names after a point: where elements are set, to what, and the part of it.
    stored: dict[str, list[tuple[cst.Subscript, cst.BaseExpression, Path]]] = field(
        default_factory=dict
    )
    bound: dict[cst.CSTNode, Binding] = field(default_factory=dict)  # by target node
    filled: dict[str, list[cst.Call]] = field(default_factory=lambda: defaultdict(list))
    #: For names of dictionaries, attributes by their names after a point, calls that add to the lists in them.
    filled_entries: dict[str, list[cst.Call]] = field(default_factory=lambda: defaultdict(list))
    filled_attributes: dict[str, list[cst.Call]] = field(default_factory=lambda: defaultdict(list))
    attribute_bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    returns: dict[cst.CSTNode, list[cst.BaseExpression]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _functions: list[cst.CSTNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def bind(
        self, target: cst.CSTNode, value: cst.BaseExpression, path: Path = (), adds: bool = False
    ) -> None:
        """Record that an assignment target is bound to the part `path` of a value; targets in tuples get the part of their
        position.
        """
        match target:
            case cst.Name():
                self.bound[target] = Binding(value, path, None, target, adds, target)
            case cst.Attribute(value=receiver, attr=cst.Name(value=name)):
                bound = Binding(value, path, receiver, adds=adds, place=target)
                self.attribute_bindings[name].append(bound)
            case cst.Subscript(value=container) if key := _container_key(container):
                self.stored.setdefault(key, []).append((target, value, path))
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for index, element in enumerate(elements):
                    starred = isinstance(element, cst.StarredElement)
                    self.bind(element.value, value, (*path, ELEMENT if starred else index))

    def stored_in(
        self, container: cst.BaseExpression
    ) -> list[tuple[cst.Subscript, cst.BaseExpression, Path]]:
        """Return what elements of containers of this name are set to: the subscript, the value, and the part of it."""
        return self.stored.get(_container_key(container), [])

    def fills(self, place: cst.BaseExpression) -> bool:
        """Whether calls add elements to a list of this name."""
        match place:
            case cst.Name(value=name):
                return name in self.filled
            case cst.Attribute(attr=cst.Name(value=name)):
                return name in self.filled_attributes
            case cst.Subscript(value=container):
                return bool(self.filled_in(container))
        return False

    def filled_in(self, container: cst.BaseExpression) -> list[cst.Call]:
        """Return the calls that add to lists in dictionaries of this name."""
        return self.filled_entries.get(_container_key(container), [])

    def visit_Assign(self, node: cst.Assign) -> None:
        self.assigns.append(node)
        for target in node.targets:
            self.bind(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, node.value)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self.bind(node.target, node.value, adds=True)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self.bind(node.target, node.value)

    def visit_For(self, node: cst.For) -> None:
        self.loops.append(node)
        self.bind(node.target, node.iter, (ELEMENT,))

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self.loops.append(node)
        self.bind(node.target, node.iter, (ELEMENT,))

    def visit_With(self, node: cst.With) -> None:
        self.withs.append(node)
        for item in node.items:
            if item.asname is not None:
                self.bind(item.asname.name, item.item)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node)
        self._functions.append(node)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self._functions.pop()

    def visit_Yield(self, node: cst.Yield) -> None:
        if self._functions:
            self.generators.add(self._functions[-1])

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.returns[node].append(node.body)

    def visit_Break(self, node: cst.Break) -> None:
        self.leaves.append(node)

    def visit_Continue(self, node: cst.Continue) -> None:
        self.leaves.append(node)

    def visit_Return(self, node: cst.Return) -> None:
        self.leaves.append(node)
        if node.value is not None and self._functions:
            self.returns[self._functions[-1]].append(node.value)

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.classes.append(node)

    def visit_Call(self, node: cst.Call) -> None:
        self.calls.append(node)
        match node.func:
            case cst.Attribute(value=filled, attr=cst.Name(value=name)) if (
                name in FILLING and node.args
            ):
                if isinstance(filled, cst.Name):
                    self.filled[filled.value].append(node)
                elif isinstance(filled, cst.Attribute):
                    self.filled_attributes[filled.attr.value].append(node)
                elif (container := find_entry_container(filled)) is not None:
                    self.filled_entries[_container_key(container)].append(node)

    def visit_Dict(self, node: cst.Dict) -> None:
        self.dictionaries.append(node)

    def visit_Import(self, node: cst.Import) -> None:
        self.imports.append(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self.imports.append(node)

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.attributes.append(node)
