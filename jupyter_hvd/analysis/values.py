"""σ: what each expression of a module may be.

The seeds' environment maps one role to one name. Real programs hold two
optimizers, alias classes, pass models to functions and keep them on `self`, so
here every *expression* is resolved, through scopes, assignments, calls, returns
and attributes, to the set of values that it may hold. The analysis does not
follow the order of statements: what a name holds anywhere, it may hold here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto

import libcst as cst
from libcst.helpers import get_full_name_for_node
from libcst.metadata import Assignment, BaseAssignment, ImportAssignment

from ..frameworks.tensorflow import tf_api as keras
from .module import Module


class Kind(Enum):
    """The roles of the seeds, and what else their rules must tell apart."""

    LIBRARY = auto()  # a module, class or function of a library, by its qualified name
    FUNCTION = auto()
    CLASS = auto()
    INSTANCE = auto()  # of a class of this module
    MODEL = auto()
    OPTIMIZER = auto()
    SCHEDULE = auto()
    TAPE = auto()
    DATASET = auto()
    GENERATOR = auto()  # what a function with `yield` gives; its node is the function
    CHECKPOINT = auto()
    CHECKPOINT_MANAGER = auto()
    CALLBACK = auto()
    NONE = auto()
    CONSTANT = auto()
    CONTAINER = auto()
    VARIABLE = auto()
    OTHER = auto()  # what a library made, known not to be any of these
    UNKNOWN = auto()


@dataclass(frozen=True)
class Value:
    """One thing that an expression may hold.

    Attributes:
        node: the node that makes it: a call, a class, a function, a literal.
        name: the canonical name of the library's class or function that made it.
    """

    kind: Kind
    node: cst.CSTNode | None = None
    name: str = ""


UNKNOWN = Value(Kind.UNKNOWN)

#: How many expressions may be looked at for one question before cut answers are kept.
MAX_STEPS = 5_000

#: How often calls are looked for again, each time through one more function that is passed on.
MAX_ROUNDS = 4

#: How deep into a value a question may go: `x = x[0]` in a loop would otherwise ask ever deeper.
MAX_PATH = 8

#: A step of a path into a value: an index of a tuple, or EACH element of an iterable.
EACH = -1
Path = tuple[int, ...]


#: A node, or the assignments of the variable that a name stands for.
Identity = cst.CSTNode | frozenset[BaseAssignment]


@dataclass(frozen=True)
class Binding:
    """A name or attribute is bound to the part `path` of `value`."""

    value: cst.BaseExpression
    path: Path = ()
    receiver: cst.BaseExpression | None = None
    target: cst.Name | None = None


@dataclass
class Index(cst.CSTVisitor):
    """All places of a module that the analysis asks for, collected in one walk."""

    calls: list[cst.Call] = field(default_factory=list)
    functions: list[cst.FunctionDef] = field(default_factory=list)
    classes: list[cst.ClassDef] = field(default_factory=list)
    withs: list[cst.With] = field(default_factory=list)
    imports: list[cst.Import | cst.ImportFrom] = field(default_factory=list)
    assigns: list[cst.Assign] = field(default_factory=list)
    attributes: list[cst.Attribute] = field(default_factory=list)
    loops: list[cst.For | cst.CompFor] = field(default_factory=list)
    generators: set[cst.CSTNode] = field(default_factory=set)
    leaves: list[cst.Break | cst.Continue | cst.Return] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    bound: dict[cst.CSTNode, Binding] = field(default_factory=dict)  # by target node
    attribute_bindings: dict[str, list[Binding]] = field(default_factory=lambda: defaultdict(list))
    returns: dict[cst.CSTNode, list[cst.BaseExpression]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _functions: list[cst.CSTNode] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def bind(self, target: cst.CSTNode, value: cst.BaseExpression, path: Path = ()) -> None:
        match target:
            case cst.Name():
                self.bound[target] = Binding(value, path, None, target)
            case cst.Attribute(value=receiver, attr=cst.Name(value=name)):
                self.attribute_bindings[name].append(Binding(value, path, receiver))
            case cst.Tuple(elements=elements) | cst.List(elements=elements):
                for index, element in enumerate(elements):
                    starred = isinstance(element, cst.StarredElement)
                    self.bind(element.value, value, (*path, EACH if starred else index))

    def visit_Assign(self, node: cst.Assign) -> None:
        self.assigns.append(node)
        for target in node.targets:
            self.bind(target.target, node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, node.value)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self.bind(node.target, node.value)

    def visit_NamedExpr(self, node: cst.NamedExpr) -> None:
        self.bind(node.target, node.value)

    def visit_For(self, node: cst.For) -> None:
        self.loops.append(node)
        self.bind(node.target, node.iter, (EACH,))

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self.loops.append(node)
        self.bind(node.target, node.iter, (EACH,))

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

    def visit_Import(self, node: cst.Import) -> None:
        self.imports.append(node)

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        self.imports.append(node)

    def visit_Name(self, node: cst.Name) -> None:
        self.names.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.attributes.append(node)


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument passed under a name, or at a position, counted from 0, before any `*args`."""
    for index, arg in enumerate(call.args):
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return arg
        elif arg.star:
            if arg.star == "*":
                position = None
        elif index == position:
            return arg
    return None


def has_star(call: cst.Call) -> bool:
    """Whether some arguments are hidden behind `*args` or `**kwargs`."""
    return any(arg.star for arg in call.args)


def method(call: cst.Call) -> str:
    """The name of the method that is called, or ''."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def parameters(function: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    params = function.params
    return [*params.posonly_params, *params.params, *params.kwonly_params]


class Roles:
    """Resolves the expressions of one module. Answers are remembered; the module does not change."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.index = Index()
        module.tree.visit(self.index)
        self._identities: dict[cst.Name, Identity] = {}
        self._known: dict[tuple[Identity, Path], frozenset[Value]] = {}
        self._open: dict[tuple[Identity, Path], int] = {}  # being resolved, and how deep
        self._steps = 0  # taken for the outermost question
        self._cut = 0  # the least depth of an open question that an answer had to do without
        self._call_sites: dict[cst.CSTNode, list[cst.Call]] | None = None
        self._rounds = 0

    # Names

    def bindings(self, name: cst.Name) -> list[Binding | cst.CSTNode]:
        """What a name may be bound to: bindings, or the def, class, import or parameter itself."""
        scope = self.module.scope(name)
        if scope is None:
            return []
        found: list[Binding | cst.CSTNode] = []
        for assignment in scope[name.value]:
            if isinstance(assignment, Assignment):
                node = assignment.node
                found.append(self.index.bound.get(node, node))
        return found

    def reaching(self, name: cst.Name) -> list[Binding | cst.CSTNode]:
        """Of the bindings of a name, those that it may hold where it stands, by the order of the text.

        `ds = ds.batch(8)` speaks of the `ds` before it. A binding ends those before it where
        it is sure to run first: where its block is also around the name. One that follows in
        a loop around both may come round, unless the loop is sure to bind the name before.
        """
        bound = [b for b in self.bindings(name) if isinstance(b, Binding) and b.target is not None]
        others = [b for b in self.bindings(name) if b not in bound]
        before = [b for b in bound if self._is_before(b, name)]
        if not before:
            return [*others, *bound]
        sure = {id(b): self._start(b) for b in before if self._is_sure(b, name)}
        carried = [
            b
            for b in bound
            if b not in before
            and (loop := self._common_loop(b, name)) is not None
            and not any(id(s) in sure and self._common_loop(s, name) is loop for s in before)
        ]
        last = max(sure.values(), default=-1)
        reached = [b for b in before if self._start(b) >= last]
        return [*(others if not sure else ()), *reached, *carried]

    def _start(self, binding: Binding) -> int:
        assert binding.target is not None
        return self.module.span(binding.target).start

    def _common_loop(self, binding: Binding, name: cst.Name) -> cst.CSTNode | None:
        """The innermost loop of one function around both a binding and a name."""
        assert binding.target is not None
        function = self.module.function_of(name)
        if self.module.function_of(binding.target) is not function:
            return None
        around = [
            a for a in self.module.ancestors(binding.target) if isinstance(a, (cst.For, cst.While))
        ]
        for ancestor in self.module.ancestors(name):
            if ancestor is function:
                return None
            if ancestor in around:
                return ancestor
        return None

    def _is_before(self, binding: Binding, name: cst.Name) -> bool:
        assert binding.target is not None
        if self.module.function_of(name) is not self.module.function_of(binding.target):
            return True
        statement = self.module.enclosing(binding.target, cst.BaseStatement)
        around = statement is not None and any(a is statement for a in self.module.ancestors(name))
        inside_block = isinstance(statement, cst.BaseCompoundStatement)
        return (not around or inside_block) and (
            self.module.span(binding.target).start < self.module.span(name).start
        )

    def _is_sure(self, binding: Binding, name: cst.Name) -> bool:
        assert binding.target is not None
        block = self.module.enclosing(binding.target, (cst.IndentedBlock, cst.Module))
        elsewhere = self.module.function_of(name) is not self.module.function_of(binding.target)
        return (
            isinstance(block, cst.Module)
            if elsewhere
            else any(a is block for a in self.module.ancestors(name))
        )

    def qualified(self, expression: cst.CSTNode) -> str:
        """The canonical name of a library's module, class or function that the expression means, or ''."""
        names = {value.name for value in self.values(expression) if value.kind is Kind.LIBRARY}
        return names.pop() if len(names) == 1 else ""

    def _imported(self, assignment: ImportAssignment, name: str) -> Value:
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
            return Value(Kind.LIBRARY, node, keras.canonical(whole))
        return UNKNOWN

    # Values

    def identity(self, node: cst.CSTNode) -> Identity:
        """What two expressions share that are the same variable: its assignments; else the node itself.

        Without it a name that is bound fifty times in terms of itself, as layers are
        stacked, would be followed along every order of its bindings.
        """
        if not isinstance(node, cst.Name):
            return node
        if node not in self._identities:
            scope = self.module.scope(node)
            assignments = frozenset(scope[node.value]) if scope is not None else frozenset()
            self._identities[node] = assignments or node
        return self._identities[node]

    def values(self, expression: cst.CSTNode, path: Path = ()) -> frozenset[Value]:
        """What the part `path` of an expression may hold; empty where it depends on itself alone."""
        if len(path) > MAX_PATH:
            return frozenset({UNKNOWN})
        key = (self.identity(expression), path)
        if key in self._known:
            return self._known[key]
        depth = len(self._open)
        if key in self._open or depth > 150:
            # An answer that was cut short here is only complete at the depth where the cycle began.
            self._cut = min(self._cut, self._open.get(key, 0))
            return frozenset()
        self._steps = self._steps + 1 if self._open else 0
        outer_cut, self._cut = self._cut, depth
        self._open[key] = depth
        found = frozenset(self._resolve(expression, path))
        del self._open[key]
        # Functions that call one another in rings are asked again and again; past any
        # sensible effort an answer that was cut short has to do.
        if self._cut >= depth or self._steps > MAX_STEPS:
            self._known[key] = found
        self._cut = min(outer_cut, self._cut)
        return found

    def behind(self, expression: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """Every node that the value of an expression may be computed from, the expression first.

        Names and parameters are followed to what they are bound to and passed.
        """
        pending, seen = [expression], set[cst.CSTNode]()
        while pending and len(seen) < MAX_STEPS:
            node = pending.pop()
            if node in seen:
                continue
            seen.add(node)
            yield node
            pending.extend(node.children)
            for binding in self.reaching(node) if isinstance(node, cst.Name) else ():
                if isinstance(binding, Binding):
                    pending.append(binding.value)
                elif isinstance(binding, cst.Param):
                    function = self.module.owner(binding)
                    passed = self.passed(function, binding) if function is not None else ()
                    pending.extend(value for _, value in passed)

    def kinds(self, expression: cst.CSTNode) -> frozenset[Kind]:
        return frozenset(value.kind for value in self.values(expression))

    def may_be(self, expression: cst.CSTNode, kind: Kind) -> bool:
        return kind in self.kinds(expression)

    def _resolve(self, node: cst.CSTNode, path: Path) -> Iterator[Value]:
        match node:
            case cst.Name():
                yield from self._resolve_name(node, path)
            case cst.Attribute():
                yield from self._resolve_attribute(node, path)
            case cst.Call():
                yield from self._resolve_call(node, path)
            case cst.IfExp(body=body, orelse=orelse):
                yield from self.values(body, path)
                yield from self.values(orelse, path)
            case cst.BooleanOperation(left=left, right=right):
                yield from self.values(left, path)
                yield from self.values(right, path)
            case cst.NamedExpr(value=value) | cst.Await(expression=value):
                yield from self.values(value, path)
            case (
                cst.Tuple(elements=elements)
                | cst.List(elements=elements)
                | cst.Set(elements=elements)
            ):
                if not path:
                    yield Value(Kind.CONTAINER, node)
                elif path[0] != EACH and path[0] < len(elements):
                    yield from self.values(elements[path[0]].value, path[1:])
                else:
                    for element in elements:
                        yield from self.values(element.value, path[1:])
            case cst.Dict(elements=elements):
                if not path:
                    yield Value(Kind.CONTAINER, node)
                for item in elements if path else ():
                    yield from self.values(item.value, path[1:])
            case cst.ListComp(elt=elt) | cst.GeneratorExp(elt=elt) | cst.SetComp(elt=elt):
                yield from self.values(elt, path[1:]) if path else (Value(Kind.CONTAINER, node),)
            case cst.Subscript(value=value):
                yield from self._resolve_subscript(value, node, path)
            case cst.BinaryOperation(left=left, right=right):
                values = self.values(left, path) | self.values(right, path)
                yield from (
                    values
                    if any(v.kind is Kind.CONTAINER for v in values) or path
                    else (Value(Kind.OTHER, node),)
                )
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
            case _:
                yield Value(Kind.UNKNOWN, node)

    def _resolve_name(self, name: cst.Name, path: Path) -> Iterator[Value]:
        if name.value == "None":
            yield Value(Kind.NONE, name)
            return
        scope = self.module.scope(name)
        assignments = scope[name.value] if scope is not None else ()
        for assignment in assignments:
            if isinstance(assignment, ImportAssignment):
                yield self._imported(assignment, name.value)
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
                    yield from self._resolve_parameter(node, path)
                case _ if node in self.index.bound:
                    binding = self.index.bound[node]
                    yield from self.values(binding.value, binding.path + path)
                case _:
                    yield UNKNOWN
        if not assignments:
            yield from self._star_imported(name.value)

    def _star_imported(self, name: str) -> Iterator[Value]:
        """What a name that nothing binds may have come from: `from tensorflow.keras.optimizers import *`."""
        for node in self.index.imports:
            if (
                isinstance(node, cst.ImportFrom)
                and isinstance(node.names, cst.ImportStar)
                and node.module
            ):
                whole = keras.canonical(f"{get_full_name_for_node(node.module)}.{name}")
                if keras.is_known(whole):
                    yield Value(Kind.LIBRARY, node, whole)
                    return
        yield UNKNOWN

    def _resolve_parameter(self, param: cst.Param, path: Path) -> Iterator[Value]:
        function = self.module.owner(param)
        if function is None:
            yield UNKNOWN
            return
        owner = self.module.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if owner is not None and parameters(function)[:1] == [param]:
            yield self._instance(owner)
            return
        passed = [arg for _, arg in self.passed(function, param)]
        for value in passed:
            yield from self.values(value, path)
        if param.default is not None:
            yield from self.values(param.default, path)
        if not passed:
            yield UNKNOWN

    def _resolve_subscript(
        self, value: cst.BaseExpression, node: cst.Subscript, path: Path
    ) -> Iterator[Value]:
        index = EACH
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            literal = node.slice[0].slice.value
            if isinstance(literal, cst.Integer):
                index = int(literal.value, 0)
        elif len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice):
            yield from self.values(value, path)
            return
        found = self.values(value, (index, *path))
        yield from found or (Value(Kind.UNKNOWN, node),)

    def _resolve_attribute(self, node: cst.Attribute, path: Path) -> Iterator[Value]:
        attribute = node.attr.value
        receivers = self.values(node.value)
        for receiver in receivers:
            if receiver.kind is Kind.LIBRARY:
                yield Value(
                    Kind.LIBRARY, receiver.node, keras.canonical(f"{receiver.name}.{attribute}")
                )
            elif (
                receiver.kind is Kind.CHECKPOINT
                and (passed := self._keyword_of(receiver, attribute)) is not None
            ):
                yield from self.values(passed, path)
            elif receiver.kind is Kind.MODEL and attribute == "optimizer":
                yield from self._compiled_optimizers(receiver)
        owners = {
            owner
            for receiver in receivers
            if isinstance(receiver.node, cst.ClassDef)
            for owner in self.lineage(receiver.node)
        }
        bound = [
            binding
            for binding in self.index.attribute_bindings.get(attribute, ())
            if binding.receiver is not None
            and self._same_receiver(binding.receiver, node.value, owners)
        ]
        for binding in bound:
            yield from self.values(binding.value, binding.path + path)
        members = [
            member
            for owner in owners
            for member in owner.body.body
            if isinstance(member, cst.FunctionDef) and member.name.value == attribute
        ]
        for member in members:
            if any(get_full_name_for_node(d.decorator) == "property" for d in member.decorators):
                for value in self.index.returns[member]:
                    yield from self.values(value, path)
            else:
                yield Value(Kind.FUNCTION, member)
        told = {Kind.LIBRARY, Kind.CHECKPOINT} | (
            {Kind.MODEL} if attribute == "optimizer" else set()
        )
        if not bound and not members and not any(r.kind in told for r in receivers):
            yield Value(Kind.UNKNOWN, node)

    def _same_receiver(
        self, bound: cst.BaseExpression, used: cst.BaseExpression, owners: set[cst.ClassDef]
    ) -> bool:
        if owners:
            return any(value.node in owners for value in self.values(bound))
        return self.module.text(bound) == self.module.text(used)

    def _keyword_of(self, made: Value, name: str) -> cst.BaseExpression | None:
        arg = argument(made.node, name) if isinstance(made.node, cst.Call) else None
        return arg.value if arg is not None else None

    def _compiled_optimizers(self, model: Value) -> Iterator[Value]:
        for call in self.index.calls:
            if (
                method(call) == "compile"
                and isinstance(call.func, cst.Attribute)
                and model in self.values(call.func.value)
            ):
                arg = argument(call, "optimizer", 0)
                if arg is not None:
                    yield from (v for v in self.values(arg.value) if v.kind is Kind.OPTIMIZER)
                    if self.may_be(arg.value, Kind.CONSTANT):
                        yield Value(Kind.OPTIMIZER, call)

    def _resolve_call(self, call: cst.Call, path: Path) -> Iterator[Value]:
        callees = self.values(call.func)
        for callee in callees:
            match callee.kind:
                case Kind.LIBRARY:
                    yield from self._made_by_library(call, callee.name, path)
                case Kind.FUNCTION if callee.node in self.index.generators and not path:
                    yield Value(Kind.GENERATOR, callee.node)
                case Kind.FUNCTION if callee.node is not None:
                    for value in self.index.returns[callee.node]:
                        yield from self.values(value, path)
                case Kind.CLASS if isinstance(callee.node, cst.ClassDef):
                    yield self._instance(callee.node)
        if isinstance(call.func, cst.Attribute) and not any(
            c.kind in (Kind.LIBRARY, Kind.FUNCTION, Kind.CLASS) for c in callees
        ):
            for receiver in self.values(call.func.value):
                if receiver.kind is Kind.DATASET and call.func.attr.value in keras.DATASET_METHODS:
                    yield receiver
                elif keras.sequence(flow := f"{receiver.name}.{call.func.attr.value}"):
                    yield Value(Kind.OTHER, call, flow)
                elif receiver.kind in (Kind.MODEL, Kind.OPTIMIZER, Kind.CHECKPOINT, Kind.DATASET):
                    yield Value(Kind.OTHER, call)
                else:
                    yield Value(Kind.UNKNOWN, call)
        elif not callees:
            yield Value(Kind.UNKNOWN, call)

    def _made_by_library(self, call: cst.Call, name: str, path: Path) -> Iterator[Value]:
        kind = Kind.OTHER
        if (
            keras.optimizer(name)
            or name.startswith("tensorflow_addons.optimizers.")
            or (name.startswith("tensorflow.keras.optimizers.") and name.endswith(".get"))
            or (name.endswith(".LossScaleOptimizer") and name.startswith("tensorflow.keras."))
        ):
            kind = Kind.OPTIMIZER
        elif keras.schedule(name):
            kind = Kind.SCHEDULE
        elif keras.makes_model(name):
            kind = Kind.MODEL
        elif keras.callback(name):
            kind = Kind.CALLBACK
        elif name == "tensorflow.GradientTape":
            kind = Kind.TAPE
        elif name == "tensorflow.Variable":
            kind = Kind.VARIABLE
        elif keras.makes_dataset(name):
            kind = Kind.DATASET
            path = ()
        elif name == "tensorflow.train.Checkpoint":
            kind = Kind.CHECKPOINT
        elif name == "tensorflow.train.CheckpointManager":
            kind = Kind.CHECKPOINT_MANAGER
        elif keras.wraps_argument(name) and call.args:
            yield from self.values(call.args[0].value)
            return
        elif name in (
            "builtins.enumerate",
            "builtins.zip",
            "builtins.iter",
            "builtins.list",
            "tqdm.tqdm",
        ) or (name.startswith("tqdm.") and name.endswith("tqdm")):
            yield from self._through_iterable(call, name, path)
            return
        elif name in ("importlib.import_module", "builtins.__import__") and call.args:
            module = call.args[0].value
            if isinstance(module, cst.SimpleString):
                yield Value(Kind.LIBRARY, call, keras.canonical(str(module.evaluated_value)))
                return
        elif name == "builtins.next" and call.args:
            yield from self.values(call.args[0].value, (EACH, *path))
            return
        elif not name.startswith(
            ("tensorflow.", "builtins.", "numpy.", "sklearn.", "pandas.", "matplotlib.")
        ):
            kind = Kind.UNKNOWN
        yield Value(kind, call, name)

    def _through_iterable(self, call: cst.Call, name: str, path: Path) -> Iterator[Value]:
        """`enumerate(x)`, `zip(x, y)`, `tqdm(x)` hold what their arguments hold, one level deeper."""
        args = [arg.value for arg in call.args if not arg.star and arg.keyword is None]
        if not path:
            for arg in args if name != "builtins.zip" else args[:1]:
                yield from (v for v in self.values(arg) if v.kind in (Kind.DATASET, Kind.CONTAINER))
            return
        rest = path[1:]
        if name == "builtins.enumerate":
            if rest[:1] == (1,) and args:
                yield from self.values(args[0], (EACH, *rest[1:]))
        elif name == "builtins.zip":
            if rest and rest[0] < len(args):
                for arg in args if rest[0] == EACH else [args[rest[0]]]:
                    yield from self.values(arg, (EACH, *rest[1:]))
        elif args:
            yield from self.values(args[0], path)

    # Classes and functions

    def _instance(self, owner: cst.ClassDef) -> Value:
        return Value(Kind.MODEL if self.is_model_class(owner) else Kind.INSTANCE, owner)

    def lineage(self, owner: cst.ClassDef) -> list[cst.ClassDef]:
        """The class and its base classes, as far as this module defines them."""
        found = [owner]
        for cls in found:
            for base in cls.bases:
                for value in self.values(base.value):
                    if isinstance(value.node, cst.ClassDef) and value.node not in found:
                        found.append(value.node)
        return found

    def library_bases(self, owner: cst.ClassDef) -> set[str]:
        """The canonical names of the library classes that a class inherits from."""
        return {
            value.name
            for cls in self.lineage(owner)
            for base in cls.bases
            for value in self.values(base.value)
            if value.kind is Kind.LIBRARY
        }

    def is_model_class(self, owner: cst.ClassDef) -> bool:
        """ClassSummary Model: a subclass, at any distance, of `tf.keras.Model`."""
        return any(keras.makes_model(name) for name in self.library_bases(owner))

    def call_sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls in this module that may call the function or make the class."""
        if self._call_sites is None:
            # Whoever asks first may be in the midst of a question: the map must not be cut short by it.
            state = self._open, self._steps, self._cut
            self._open, self._steps, self._cut = {}, 0, 0
            self._call_sites = self._all_call_sites()
            self._open, self._steps, self._cut = state
        return self._call_sites.get(function, [])

    def _all_call_sites(self) -> dict[cst.CSTNode, list[cst.Call]]:
        """A fixed point from below: what functions are passed is known once their calls are."""
        self._call_sites = {}
        while True:
            sites: dict[cst.CSTNode, list[cst.Call]] = defaultdict(list)
            for call in self.index.calls:
                for value in self.values(call.func):
                    if value.kind in (Kind.FUNCTION, Kind.CLASS) and value.node is not None:
                        sites[value.node].append(call)
                    elif value.kind is Kind.INSTANCE or value.kind is Kind.MODEL:
                        for member in self._called(value):
                            sites[member].append(call)
            self._known.clear()
            before, self._call_sites = self._call_sites, dict(sites)
            self._rounds += 1
            if before == self._call_sites or self._rounds == MAX_ROUNDS:
                return self._call_sites

    def _called(self, instance: Value) -> Iterator[cst.FunctionDef]:
        """The `__call__` or Keras `call` that calling an instance runs."""
        if isinstance(instance.node, cst.ClassDef):
            for owner in self.lineage(instance.node):
                for member in owner.body.body:
                    if isinstance(member, cst.FunctionDef) and member.name.value in (
                        "call",
                        "__call__",
                    ):
                        yield member

    def passed(
        self, function: cst.FunctionDef | cst.Lambda, param: cst.Param
    ) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls of a function that pass this parameter, and what they pass."""
        if param not in parameters(function):
            return []  # `*args` and `**kwargs`
        position: int | None = parameters(function).index(param)
        owner = self.module.class_of(function) if isinstance(function, cst.FunctionDef) else None
        sites = list(self.call_sites(function))
        if isinstance(function, cst.FunctionDef) and owner is not None:
            assert position is not None
            position -= 1
            if function.name.value == "__init__":
                sites += self.call_sites(owner)
        if param in function.params.kwonly_params:
            position = None
        found = []
        for call in sites:
            arg = argument(call, param.name.value, position)
            if arg is not None:
                found.append((call, arg.value))
        return found
