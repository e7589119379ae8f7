"""A points-to analysis: what each expression of a module may hold.

Real programs hold two objects of a kind, alias classes, pass objects to functions and keep them on
`self`, so every *expression* is resolved, through scopes, assignments, calls, returns
and attributes, to the set of values that it may hold. The analysis does not
follow the order of statements: what a name holds anywhere, it may hold here, but for names of
functions and classes that are bound anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, ImportAssignment

from .calls import CallGraph
from .classes import ClassHierarchy
from .definitions import Definitions, Identity
from .flow import Source, ValueFlow, is_iteration, is_property, positional_arguments
from .index import Binding, Index, Path
from .library import UNKNOWN, Kind, Library, Value
from .module import Module
from .overridden_settings import OverriddenSettings
from .records import Records
from .syntax import is_decorated, list_parameters

#: How many expressions may be looked at for one question before cut answers are kept.
MAX_STEPS = 5_000

#: How many expressions may be looked at for all questions together: some for each call, binding and attribute of the
#: program, and a number that small programs never reach. Programs that people write take five for each.
STEPS_FOR_EACH = 20
STEPS_FOR_ALL = 50_000

#: How deep into a value a question may go: `x = x[0]` in a loop would otherwise ask ever deeper.
MAX_PATH = 8

#: How many expressions one question may lead through.
MAX_DEPTH = 150


class ValueAnalysis:
    """Resolves the expressions of one module. Answers are remembered; the module does not change."""

    def __init__(self, module: Module, library: Library) -> None:
        self.module = module
        self.library = library
        self.index = Index()
        module.tree.visit(self.index)
        self.definitions = Definitions(module, self.index)
        self.classes = ClassHierarchy(self.index, self)
        self.calls = CallGraph(module, self.index, self.classes, library, self, self._afresh)
        self.records = Records(self.index, self.classes, self.calls, self)
        self.overridden = OverriddenSettings(self.index, self.records, self.definitions, self)
        self.flow = ValueFlow(
            module,
            self.index,
            self.definitions,
            self.classes,
            self.calls,
            library,
            self,
            self.records,
        )
        self._known: dict[tuple[Identity, Path], frozenset[Value]] = {}
        self._names: dict[cst.CSTNode, str] = {}
        self._open: dict[tuple[Identity, Path], int] = {}  # being resolved, and how deep
        self._steps = 0  # taken for the outermost question
        self._taken = 0  # taken for all questions
        size = len(self.index.calls) + len(self.index.bound) + len(self.index.attributes)
        self._most = STEPS_FOR_ALL + STEPS_FOR_EACH * size
        # The depths of the open questions that an answer had to do without, a bit each; the answers that
        # had to, with those depths; and these by the deepest of them, up to whose own answer they are good.
        self._without = 0
        self._partial: dict[tuple[Identity, Path], tuple[frozenset[Value], int]] = {}
        self._until: dict[int, list[tuple[Identity, Path]]] = {}

    # Questions

    def of(self, expression: cst.CSTNode, path: Path = ()) -> frozenset[Value]:
        """Return the values that the part `path` of an expression may hold; empty if it depends only on itself."""
        if len(path) > MAX_PATH:
            return frozenset({UNKNOWN})
        key = (self.definitions.identity(expression), path)
        if key in self._known:
            return self._known[key]
        if key in self._partial:
            found, without = self._partial[key]
            self._without |= without
            return found
        depth = len(self._open)
        if key in self._open or depth > MAX_DEPTH:
            # An answer that was cut short here is only complete at the depth where the cycle began.
            self._without |= 1 << self._open.get(key, 0)
            return frozenset()
        self._steps = self._steps + 1 if self._open else 0
        self._taken += 1
        outer, self._without = self._without, 0
        self._open[key] = depth
        found = frozenset(self._resolve(expression, path))
        del self._open[key]
        for partial in self._until.pop(depth, ()):
            del self._partial[partial]
        without = self._without & ((1 << depth) - 1)
        self._without = outer | without
        # Functions that call one another in rings are asked again and again; past any
        # sensible effort an answer that was cut short has to do.
        if not without or self._steps > MAX_STEPS:
            self._known[key] = found
        elif self._taken > self._most:
            found = self._known[key] = found | {UNKNOWN}
        else:
            self._partial[key] = found, without
            self._until.setdefault(without.bit_length() - 1, []).append(key)
        return found

    def kinds(self, expression: cst.CSTNode) -> frozenset[Enum]:
        """Return the kinds of values that an expression may hold."""
        return frozenset(value.kind for value in self.of(expression))

    def may_be(self, expression: cst.CSTNode, kind: Enum) -> bool:
        """Whether an expression may hold a value of this kind."""
        return kind in self.kinds(expression)

    def attribute_bindings(self, node: cst.Attribute) -> list[Binding]:
        """Return the bindings of an attribute, on objects and in class bodies."""
        owners = [v.node for v in self.of(node.value) if isinstance(v.node, cst.ClassDef)]
        of_class = [b for o in owners for b in self.classes.attributes(o, node.attr.value)]
        return [*self.flow.bindings_of(node), *of_class]

    def qualified(self, expression: cst.CSTNode) -> str:
        """Return the canonical name of a library's module, class or function that the expression refers to, or ''."""
        found = self._names.get(expression)
        if found is None:
            names = {value.name for value in self.of(expression) if value.kind is Kind.LIBRARY}
            found = names.pop() if len(names) == 1 else ""
            if not self._open:
                self._names[expression] = found
        return found

    @contextmanager
    def _afresh(self) -> Iterator[None]:
        """Set open questions aside while the call graph asks its own, so that none cuts another short; forget answers
        afterwards.
        """
        state = self._open, self._steps, self._without
        self._open, self._steps, self._without = {}, 0, 0
        self._partial, self._until = {}, {}
        yield
        self._known.clear()
        self._names.clear()
        self._open, self._steps, self._without = state
        self._partial, self._until = {}, {}

    # What is handed on, and what is made

    def _resolve(self, node: cst.CSTNode, path: Path) -> Iterator[Value]:
        """Yield the values of an expression: those of its sources, and those created here."""
        sources = self.flow.predecessors(node, path, in_order=False)
        held = [*self.flow.find_held_values(node, path)]
        for source, part in (*sources, *held):
            yield from self.of(source, part)
        # An object may have another attribute than its class gives it.
        known = sources if isinstance(node, cst.Attribute) else [*sources, *held]
        yield from self._created_values(node, path, known)

    def _created_values(
        self, node: cst.CSTNode, path: Path, sources: list[Source]
    ) -> Iterator[Value]:
        """Yield the values that an expression creates, which come from no other expression."""
        match node:
            case cst.Name():
                yield from self._values_of_name(node)
            case cst.Attribute():
                yield from self._values_of_attribute(node, path, bool(sources))
            case cst.Call():
                yield from self._values_of_call(node, path, sources)
            case (
                cst.Tuple()
                | cst.List()
                | cst.Set()
                | cst.Dict()
                | cst.DictComp()
                | cst.ListComp()
                | cst.GeneratorExp()
                | cst.SetComp()
            ):
                if not path:
                    yield Value(Kind.CONTAINER, node)
            case cst.BinaryOperation(left=left, right=right) if not path:
                values = self.of(left) | self.of(right)
                added = any(v.kind is Kind.CONTAINER for v in values)
                yield from values if added else (Value(Kind.OTHER, node),)
            case cst.Lambda():
                yield Value(Kind.FUNCTION, node)
            case (
                cst.SimpleString()
                | cst.ConcatenatedString()
                | cst.Integer()
                | cst.Float()
                | cst.FormattedString()
            ):
                yield Value(Kind.CONSTANT, node)
            case cst.Subscript() if sources[0][1] != path:
                if not any(self.of(source, part) for source, part in sources):
                    yield Value(Kind.UNKNOWN, node)
            case _ if not sources:
                yield Value(Kind.UNKNOWN, node)

    def _values_of_name(self, name: cst.Name) -> Iterator[Value]:
        """Yield the values that a name's imports, functions, classes and parameters create."""
        if name.value == "None":
            yield Value(Kind.NONE, name)
            return
        assignments = self.definitions.assignments(name)
        for assignment in assignments:
            if isinstance(assignment, ImportAssignment):
                yield self._imported_value(assignment, name.value)
                continue
            node = assignment.node if isinstance(assignment, Assignment) else None
            match node:
                case None:
                    yield Value(Kind.LIBRARY, None, f"builtins.{name.value}")
                case cst.FunctionDef():
                    yield Value(Kind.FUNCTION, node)
                case cst.ClassDef():
                    yield Value(Kind.CLASS, node)
                case cst.Param():
                    yield from self._values_of_parameter(node)
                case _ if node not in self.index.bound:
                    yield UNKNOWN
        if not assignments:
            yield self._star_imported_value(name.value)

    def _imported_value(self, assignment: ImportAssignment, name: str) -> Value:
        """Return the library's value that an import binds to a name."""
        node = assignment.node
        assert isinstance(node, (cst.Import, cst.ImportFrom))
        for alias in node.names if isinstance(node.names, Sequence) else ():
            whole = get_full_name_for_node(alias.name) or ""
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                local = alias.asname.name.value
            else:
                local = whole if isinstance(node, cst.ImportFrom) else whole.partition(".")[0]
                if isinstance(node, cst.Import):
                    whole = local if local == name else whole
            if local != name:
                continue
            if isinstance(node, cst.ImportFrom):
                package = "." * len(node.relative)
                package += (get_full_name_for_node(node.module) or "") if node.module else ""
                whole = f"{package}.{whole}"
            return Value(Kind.LIBRARY, node, self.library.canonical(whole))
        return UNKNOWN

    def _star_imported_value(self, name: str) -> Value:
        """Return the library's value that a star import may bind to an otherwise unbound name: `from some.library import *`."""
        for node in self.index.imports:
            if (
                isinstance(node, cst.ImportFrom)
                and isinstance(node.names, cst.ImportStar)
                and node.module
            ):
                whole = self.library.canonical(f"{get_full_name_for_node(node.module)}.{name}")
                if self.library.is_known(whole):
                    return Value(Kind.LIBRARY, node, whole)
        return UNKNOWN

    def _values_of_parameter(self, param: cst.Param) -> Iterator[Value]:
        """Yield the instance for `self`; UNKNOWN for a parameter without known arguments."""
        function = self.module.owner(param)
        owner = self.module.class_of(function) if isinstance(function, cst.FunctionDef) else None
        own = (
            owner is not None
            and function is not None
            and not is_decorated(function, "staticmethod")
        )
        if (
            own
            and function is not None
            and owner is not None
            and list_parameters(function)[:1] == [param]
        ):
            yield self._make_instance(owner)
        elif not self.flow.find_arguments(param):
            yield UNKNOWN

    def _values_of_attribute(self, node: cst.Attribute, path: Path, bound: bool) -> Iterator[Value]:
        """Yield the values that an attribute has besides its bindings: of libraries, nested classes, methods."""
        attribute = node.attr.value
        methods = self.flow.methods(node)
        known = bound or bool(methods)
        for receiver in self.of(node.value):
            if receiver.kind is Kind.LIBRARY:
                known = True
                name = self.library.canonical(f"{receiver.name}.{attribute}")
                yield Value(Kind.LIBRARY, receiver.node, name)
                continue
            if isinstance(receiver.node, cst.ClassDef):
                for nested in self.classes.nested(receiver.node, attribute):
                    known = True
                    yield Value(Kind.CLASS, nested)
            found = self.library.attribute(self, receiver, attribute, path)
            known = known or found is not None
            yield from found or ()
        for member in methods:
            if not is_property(member):
                yield Value(Kind.FUNCTION, member)
        if not known:
            yield Value(Kind.UNKNOWN, node)

    def _values_of_call(self, call: cst.Call, path: Path, sources: list[Source]) -> Iterator[Value]:
        """Yield the values that a call creates: instances, generators, library objects."""
        callees = self.of(self.calls.unwrap_call(call).func)
        for callee in callees:
            if callee.kind is Kind.LIBRARY:
                yield from self._values_of_library_call(call, callee.name, path, sources)
            elif callee.node in self.index.generators and not path:
                yield Value(Kind.GENERATOR, callee.node)
            elif callee.kind is Kind.CLASS and isinstance(callee.node, cst.ClassDef):
                yield self._make_instance(callee.node)
        if sources:
            return
        if isinstance(call.func, cst.Attribute) and not any(
            c.kind in (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS) for c in callees
        ):
            for receiver in self.of(call.func.value):
                yield self.library.result_of_method(receiver, call)
        elif not any(c.kind in (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS) for c in callees):
            yield Value(Kind.UNKNOWN, call)

    def _values_of_library_call(
        self, call: cst.Call, name: str, path: Path, sources: list[Source]
    ) -> Iterator[Value]:
        """Yield the values that a library's function returns."""
        if name in ("importlib.import_module", "builtins.__import__") and call.args:
            module = call.args[0].value
            if isinstance(module, cst.SimpleString):
                name = self.library.canonical(str(module.evaluated_value))
                yield Value(Kind.LIBRARY, call, name)
                return
        if name == "builtins.getattr" and (found := [*self._values_of_getattr(call)]):
            yield from found
        elif is_iteration(name):
            # An iterator stands for the one thing that it runs over.
            over = positional_arguments(call) if not path else []
            for arg in over[:1] if name == "builtins.zip" else over:
                yield from (v for v in self.of(arg) if self._is_collection(v.kind))
        elif not (sources and (path or self.library.is_wrapper(name) or name == "builtins.next")):
            yield Value(self.library.kind_of_result(name), call, name)

    def _values_of_getattr(self, call: cst.Call) -> Iterator[Value]:
        """Yield the value of `getattr(library, name)`; for an unknown name `library.*`, if all members make one kind of value."""
        match call.args:
            case [cst.Arg(value=owner), cst.Arg(value=asked), *_]:
                modules = [value.name for value in self.of(owner) if value.kind is Kind.LIBRARY]
                for name in self.of(asked) if modules else ():
                    constant = name.node if isinstance(name.node, cst.SimpleString) else None
                    for module in modules:
                        last = str(constant.evaluated_value) if constant else "*"
                        whole = self.library.canonical(f"{module}.{last}")
                        made = self.library.kind_of_result(whole)
                        if constant or made not in (Kind.OTHER, Kind.UNKNOWN):
                            yield Value(Kind.LIBRARY, call, whole)

    def _is_collection(self, kind: Enum) -> bool:
        """Whether iterating over values of this kind yields their elements."""
        return kind is Kind.CONTAINER or self.library.is_collection(kind)

    # Classes

    def _make_instance(self, owner: cst.ClassDef) -> Value:
        """Return the value of an instance of a class."""
        return Value(self.library.kind_of_instance(self.classes.library_bases(owner)), owner)

    def is_of_kind(self, owner: cst.ClassDef, kind: Enum) -> bool:
        """Whether the instances of a class of this module are of a kind."""
        return self._make_instance(owner).kind is kind
