"""Parts of a program: trainings that cannot be divided, with what belongs to them, beside others that can.

A part is statements of the module's own body. What it changes, and what it makes, must be nobody else's: a statement
below that reads it belongs to the part, and one that trains what the part trains, or with what the part makes, forbids it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.definitions import Definition
from ...analysis.effects import changes_files, is_pure, opens_for, reads_files, writes
from ...analysis.index import Binding
from ...analysis.library import Kind
from ...analysis.syntax import method, names_in, nodes_in
from .keras_loops import POSITIONS
from .roles import Role
from .training import Training

#: What is one thing, whoever holds it, and may be another after it was used.
_CHANGING = {*Role, Kind.INSTANCE, Kind.GENERATOR}
_DEFINING = (cst.FunctionDef, cst.ClassDef)
#: What makes nothing that Keras counts, beside TensorFlow's own operations.
_NAMELESS = (
    *("builtins.", "numpy.", "math.", "random.", "time.", "os.", "collections."),
    *("matplotlib.", "pandas.", "gym.", "gymnasium.", "statistics.", "tqdm"),
)
#: Methods by which Keras makes what it counts: functions, metrics, losses, layers.
_OF_KERAS = frozenset(
    {*POSITIONS, "add", "build", "compile", "evaluate", "predict", "train_on_batch"}
)


@dataclass(frozen=True)
class Part:
    """Statements of a module's own body, in order.

    Attributes:
        alone: those that rank 0 runs alone. bare: those before that make what only these use, left as they are.
        defined: functions and classes that nothing else uses, left as they are. used: those that others use, too.
    """

    alone: tuple[cst.CSTNode, ...]
    bare: tuple[cst.CSTNode, ...]
    defined: tuple[cst.CSTNode, ...]
    used: tuple[cst.CSTNode, ...]


class Parts:
    """The parts of one module."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.values = training.values
        self.module = training.module
        self._regions: dict[cst.CSTNode, dict[cst.CSTNode, None]] = {}

    @cached_property
    def _body(self) -> list[cst.CSTNode]:
        """The statements that do something when they are come to."""
        skipped = (cst.Import, cst.ImportFrom)
        return [
            each
            for each in self.module.tree.body
            if not isinstance(each, _DEFINING)
            and not (
                isinstance(each, cst.SimpleStatementLine)
                and all(isinstance(small, skipped) for small in each.body)
            )
        ]

    def running(self, node: cst.CSTNode) -> set[cst.CSTNode]:
        """The statements of the module's own body that come to a node, by calls too."""
        function = self.module.function_of(node)
        if function is None:
            return {self.module.top_level_statement(node)}
        calls = self.values.calls
        sites = [*calls.sites(function)]
        owner = self.module.class_of(function)
        if owner is not None and function.name.value == "__init__":
            sites += calls.sites(owner)
        leading = {call for site in sites for call in calls.leading_to(site)}
        outside = (call for call in leading if self.module.function_of(call) is None)
        return {self.module.top_level_statement(call) for call in outside}

    def of(self, nodes: Iterable[cst.CSTNode]) -> Part | None:
        """What belongs to the trainings at these places; None where they cannot be parted from others."""
        alone = {statement for node in nodes for statement in self.running(node)}
        if not alone or not alone <= set(self._body):
            return None
        below = self._body[min(map(self._body.index, alone)) :]
        trained = {statement for call in self._trainings for statement in self.running(call)}
        trained -= alone
        while more := self._depending(alone, below):
            alone |= more
        own = self._objects(alone)
        others = [each for each in self._body if each not in alone]
        bare = {each for each in others if (self._makes(each) | self._objects([each])) & own}
        taken = {made for each in bare for made in self._makes(each)} | self._changed(alone)
        if trained & (alone | bare) or any(self._behind(each) & taken for each in trained):
            return None
        defined = self._defined([*alone, *bare])
        left = self._named_by_none(defined, alone | bare)

        def in_order(statements: set[cst.CSTNode]) -> tuple[cst.CSTNode, ...]:
            return tuple(each for each in self.module.tree.body if each in statements)

        return Part(in_order(alone), in_order(bare), in_order(left), in_order(defined - left))

    def _depending(self, alone: set[cst.CSTNode], below: list[cst.CSTNode]) -> set[cst.CSTNode]:
        """The statements below that read what these have made or changed, or may read files that they have written."""
        changed, written = self._changed(alone), any(map(self._writes, alone))
        return {
            each
            for each in below
            if each not in alone
            and (self._behind(each) & changed or (written and self._reads(each)))
        }

    def is_nameless(self, part: Part) -> bool:
        """Whether rank 0 may run a part before others train: it makes nothing that Keras counts, whose names ranks must share,
        and TensorFlow draws from no seed of the program's.
        """
        impure = self.values.library.effects.impure
        names = [
            self.values.qualified(node.func)
            for statement in part.alone
            for node in self.region(statement)
            if isinstance(node, cst.Call)
        ]
        keras = tuple(name for name in impure if name.startswith("tensorflow.keras."))
        known = all(
            not name or name.startswith(("tensorflow.", *_NAMELESS)) for name in names
        ) and not any(name.startswith(keras) for name in names)
        made = any(
            self.values.is_of_kind(value.node, Role.MODEL)
            for statement in part.alone
            for node in self.region(statement)
            if isinstance(node, cst.Call)
            for value in self.values.of(node.func)
            if value.kind is Kind.CLASS and isinstance(value.node, cst.ClassDef)
        )
        seeded = any(
            self.values.qualified(call.func).endswith(("set_seed", "set_random_seed"))
            for call in self.values.index.calls
        )
        by_keras = any(
            method(node) in _OF_KERAS
            for statement in part.alone
            for node in self.region(statement)
            if isinstance(node, cst.Call)
        )
        return known and not (made or seeded or by_keras)

    @cached_property
    def _trainings(self) -> list[cst.CSTNode]:
        sites = [site.call for _, found in self.training.own_updates for site in found]
        return [*sites, *self.training.keras.fits, *self.training.keras.searches]

    # What a statement reads, makes and changes

    def region(self, statement: cst.CSTNode) -> dict[cst.CSTNode, None]:
        """All that a statement may run: its own nodes, and those of the functions and classes that it names."""
        if statement not in self._regions:
            found: dict[cst.CSTNode, None] = {}
            waiting = [statement]
            while waiting:
                for node in nodes_in(waiting.pop()):
                    if node in found:
                        continue
                    found[node] = None
                    if isinstance(node, (cst.Name, cst.Attribute)):
                        waiting += (
                            value.node
                            for value in self.values.of(node)
                            if value.kind in (Kind.FUNCTION, Kind.CLASS, Kind.INSTANCE)
                            and value.node is not None
                            and value.node not in found
                        )
            self._regions[statement] = found
        return self._regions[statement]

    def _is_global(self, definition: Definition) -> bool:
        place = definition.target if isinstance(definition, Binding) else definition
        if not isinstance(definition, Binding) or place is None:
            return False
        return self.module.function_of(place) is None or self._declares(place)

    def _declares(self, name: cst.CSTNode) -> bool:
        """Whether the function around a name says that it is the module's."""
        function = self.module.function_of(name)
        return isinstance(name, cst.Name) and any(
            isinstance(node, cst.Global) and name.value in {n.name.value for n in node.names}
            for node in (nodes_in(function) if function is not None else ())
        )

    def _bindings(self, statement: cst.CSTNode) -> Iterator[tuple[cst.Name, Binding]]:
        """The names of the module that a statement reads, with what each may hold there."""
        for node in self.region(statement):
            if not isinstance(node, cst.Name) or node in self.values.index.bound:
                continue
            inside = self.module.top_level_statement(node) is statement
            found = self.values.definitions
            for each in found.reaching(node) if inside else found.of(node):
                if isinstance(each, Binding) and self._is_global(each):
                    yield node, each

    def _behind(self, statement: cst.CSTNode) -> set[Binding]:
        """The bindings of the module's names that what a statement reads is made of, however far back."""
        found: set[Binding] = set()
        waiting = [binding for _, binding in self._bindings(statement)]
        while waiting:
            binding = waiting.pop()
            if binding in found or binding.target is None:
                continue
            found.add(binding)
            maker = self.module.top_level_statement(binding.target)
            if not isinstance(maker, _DEFINING):
                waiting += (each for _, each in self._bindings(maker))
        return found

    def _makes(self, statement: cst.CSTNode) -> set[Binding]:
        """The bindings of the module's names that a statement makes, in functions too."""
        bound = self.values.index.bound
        made = (bound[node] for node in self.region(statement) if node in bound)
        return {each for each in made if self._is_global(each)}

    def _objects(self, statements: Iterable[cst.CSTNode]) -> set[Binding]:
        """The bindings of what statements may change: models, optimizers, datasets and objects, what has these for its parts or
        is a part of them; and anything of which they call a method that may change it, or an element of which they set.
        """
        found: set[Binding] = set()
        for statement in statements:
            used = self._changing_names(statement)
            for name, binding in self._bindings(statement):
                found |= self._owners(name, binding, found, name in used)
        return found

    def _owners(
        self, name: cst.Name, binding: Binding, known: set[Binding], changes: bool
    ) -> set[Binding]:
        """The bindings of what a name means that may change, or of what that is a part or a whole of."""
        itself = changes or bool(self.values.kinds(name) & _CHANGING)
        if binding in known or not (itself or _is_part(binding.value)):
            return set()
        found = {binding} if itself else set[Binding]()
        for node in names_in(binding.value):
            if node in self.values.index.bound or node is name:
                continue
            for other in self.values.definitions.reaching(node):
                if isinstance(other, Binding) and other is not binding and self._is_global(other):
                    found |= self._owners(node, other, known | found | {binding}, False)
        return found | {binding} if found else found

    def _changing_names(self, statement: cst.CSTNode) -> set[cst.CSTNode]:
        """The names of what a statement changes by a method, an element or an attribute that it sets."""
        found: set[cst.CSTNode] = set()
        for node in self.region(statement):
            changed: list[cst.BaseExpression] = []
            match node:
                case cst.Call(func=cst.Attribute(value=receiver)):
                    known = self.values.qualified(node.func) or self.values.kinds(receiver) <= {
                        Kind.OTHER,
                        Kind.CONSTANT,
                    }
                    if not known and not is_pure(self.values, node):
                        changed.append(receiver)
                case cst.AssignTarget(target=target) | cst.AugAssign(target=target):
                    if isinstance(target, (cst.Subscript, cst.Attribute)):
                        changed.append(target.value)
            for each in changed:
                root = each
                while isinstance(root, (cst.Attribute, cst.Subscript)):
                    root = root.value
                found.add(root)
        return found

    def _changed(self, statements: Iterable[cst.CSTNode]) -> set[Binding]:
        """What reads one of these reads what these statements have made or changed."""
        listed = list(statements)
        return {made for each in listed for made in self._makes(each)} | self._objects(listed)

    # Files

    def _writes(self, statement: cst.CSTNode) -> bool:
        values = self.values
        return any(
            isinstance(node, cst.Call)
            and (
                writes(values, node)
                or changes_files(values, node)
                or set(opens_for(values, node) or "") & set("wax")
            )
            for node in self.region(statement)
        )

    def _reads(self, statement: cst.CSTNode) -> bool:
        values = self.values
        return any(
            isinstance(node, cst.Call)
            and (
                reads_files(values, node)
                or method(node) == "restore"
                or (
                    "load" in (method(node) or values.qualified(node.func).rpartition(".")[2])
                    and "datasets" not in values.qualified(node.func)
                )
            )
            for node in self.region(statement)
        )

    # Functions and classes

    def _defined(self, statements: Iterable[cst.CSTNode]) -> set[cst.CSTNode]:
        """The functions and classes of the module's own body that statements may run."""
        nodes = {node for each in statements for node in self.region(each)}
        body = self.module.tree.body
        return {each for each in body if isinstance(each, _DEFINING) and each in nodes}

    def _named_by_none(
        self, defined: set[cst.CSTNode], statements: set[cst.CSTNode]
    ) -> set[cst.CSTNode]:
        """Of these definitions those that only these statements name, and one another."""
        words = {
            each: {name.value for name in names_in(each)}
            for each in self.module.tree.body
            if each not in statements
        }
        left = set(defined)
        while named := {
            definition
            for definition in left
            if isinstance(definition, _DEFINING)
            and any(definition.name.value in words[e] for e in words if e not in left)
        }:
            left -= named
        return left


def _is_part(value: cst.BaseExpression) -> bool:
    """Whether an expression takes a part of something that a name means, and calls nothing but what gives one."""
    match value:
        case cst.Name():
            return True
        case cst.Attribute(value=whole) | cst.Subscript(value=whole):
            return _is_part(whole)
        case cst.Call(func=cst.Attribute(value=whole, attr=cst.Name(value=name))):
            return name.startswith("get_") and _is_part(whole)
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            return any(_is_part(element.value) for element in elements)
    return False
