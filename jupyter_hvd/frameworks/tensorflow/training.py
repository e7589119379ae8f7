"""Where a module trains, and how.

Every update of weights (`apply_gradients`, `minimize`, `fit`) is found, with the
tapes whose gradients reach it and the place, outside every compiled function,
from which a first update can be followed by a broadcast.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.index import ELEMENT, Binding, Path
from ...analysis.library import Kind, Value
from ...analysis.module import Module
from ...analysis.syntax import argument, method, parameters
from ...analysis.values import MAX_PATH, ValueAnalysis
from ..base import TrainingLoop
from .roles import Role

GRADIENT_METHODS = frozenset({"gradient"})
TRAINING_METHODS = frozenset({"train_step", "make_train_function", "train_on_batch"})
VARIABLE_LISTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})


@dataclass(frozen=True, eq=False)
class Update:
    """One `apply_gradients` or `minimize`: a single optimizer's update of some variables.

    Attributes:
        call: the call.
        optimizer: the expression of the optimizer.
        variables: one expression, the list of the variables; or one for each
            variable where they are `listed`; none where they cannot be seen.
    """

    call: cst.Call
    optimizer: cst.BaseExpression
    variables: tuple[cst.BaseExpression, ...]
    listed: bool
    function: cst.FunctionDef | None

    @property
    def minimizes(self) -> bool:
        return method(self.call) == "minimize"


@dataclass(frozen=True, eq=False)
class EagerSite:
    """A call outside all compiled functions that leads to an update.

    Attributes:
        call: the outermost call; the update itself where it runs eagerly.
        chain: the calls from the update's function outwards, `call` the last; empty for the update itself.
    """

    call: cst.Call
    chain: tuple[cst.Call, ...]


@dataclass(frozen=True, eq=False)
class TrainingTape:
    """A tape whose gradients reach an update.

    Attributes:
        block: the `with` that records, None where the tape is made elsewhere.
        name: the name that the `with` gives it.
        training: the `gradient` calls that reach an update.
        others: the calls on the same tape that do not.
    """

    block: cst.With | None
    name: cst.Name | None
    training: tuple[cst.Call, ...]
    others: tuple[cst.Call, ...]


class Training:
    """The training of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values
        self.module: Module = values.module

    # Updates

    @cached_property
    def updates(self) -> list[Update]:
        found = []
        for call in self.values.index.calls:
            if not isinstance(call.func, cst.Attribute):
                continue
            name, optimizer = method(call), call.func.value
            if name == "apply_gradients" and not self._is_own_class(optimizer):
                arg = argument(call, "grads_and_vars", 0)
                variables, listed = self.variables_of(arg.value) if arg else ((), False)
            elif name == "minimize" and self.values.may_be(optimizer, Role.OPTIMIZER):
                arg = argument(call, "var_list", 1)
                variables, listed = ((arg.value,) if arg else ()), False
            else:
                continue
            found.append(Update(call, optimizer, variables, listed, self.module.function_of(call)))
        return found

    def _is_own_class(self, receiver: cst.BaseExpression) -> bool:
        return self.values.kinds(receiver) == {Kind.INSTANCE}

    def variables_of(
        self,
        pairs: cst.BaseExpression,
        path: Path = (ELEMENT, 1),
        seen: frozenset[cst.CSTNode] = frozenset(),
    ) -> tuple[tuple[cst.BaseExpression, ...], bool]:
        """The variables in (gradient, variable) pairs, `v` of `zip(g, v)`, and whether they are listed singly."""
        if pairs in seen:
            return (), False
        seen |= {pairs}
        match pairs:
            case cst.Call(func=func, args=args) if self.values.qualified(func) in (
                "builtins.list",
                "builtins.tuple",
            ):
                return self.variables_of(args[0].value, path, seen) if args else ((), False)
            case cst.Call(func=func, args=args) if self.values.qualified(func) == "builtins.zip":
                return ((args[path[1]].value,) if len(args) > path[1] else ()), False
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                pairs_of = [e.value for e in elements if isinstance(e.value, (cst.Tuple, cst.List))]
                if len(pairs_of) == len(elements) and all(
                    len(pair.elements) == 2 for pair in pairs_of
                ):
                    return tuple(pair.elements[1].value for pair in pairs_of), True
            case (
                cst.ListComp(elt=cst.Tuple(elements=[_, cst.Element(value=cst.Name() as name)]))
                | cst.GeneratorExp(
                    elt=cst.Tuple(elements=[_, cst.Element(value=cst.Name() as name)])
                )
            ):
                for binding in self._bindings(name):
                    if binding[1][:1] == (ELEMENT,) and len(binding[1]) == 2:
                        return self.variables_of(binding[0], binding[1], seen)
            case (
                cst.ListComp(elt=cst.Tuple(elements=[_, _]))
                | cst.GeneratorExp(elt=cst.Tuple(elements=[_, _]))
            ):
                return (pairs,), False
            case cst.Name():
                match self.values.definitions.reaching(pairs):
                    case [Binding(value=value, path=())]:
                        return self.variables_of(value, path, seen)
        return (), False

    def _bindings(self, name: cst.Name) -> list[tuple[cst.BaseExpression, Path]]:
        return [
            (b.value, b.path)
            for b in self.values.definitions.of(name)
            if not isinstance(b, cst.CSTNode)
        ]

    # Compiled functions

    @cached_property
    def compiled(self) -> frozenset[cst.CSTNode]:
        """Functions that TensorFlow compiles themselves: decorated with or passed to `tf.function`."""
        found: set[cst.CSTNode] = set()
        for function in self.values.index.functions:
            for decorator in function.decorators:
                expression = decorator.decorator
                if isinstance(expression, cst.Call):
                    if (
                        self.values.qualified(expression.func) == "functools.partial"
                        and expression.args
                    ):
                        expression = expression.args[0].value
                    else:
                        expression = expression.func
                if self.values.qualified(expression) == "tensorflow.function":
                    found.add(function)
        for call in self.values.index.calls:
            if self.values.qualified(call.func) == "tensorflow.function" and call.args:
                found.update(
                    v.node
                    for v in self.values.of(call.args[0].value)
                    if v.kind is Kind.FUNCTION and v.node
                )
        return frozenset(found)

    def in_keras(self, function: cst.FunctionDef | None) -> bool:
        """Whether Keras itself calls the function: a model's own `train_step`."""
        if function is None or function.name.value not in TRAINING_METHODS:
            return False
        owner = self.module.class_of(function)
        return owner is not None and self.values.is_of_kind(owner, Role.MODEL)

    def eager_sites(self, update: Update) -> list[EagerSite]:
        """The outermost calls in eager code that run an update; empty where nothing calls it."""
        return list(self._eager_sites(update.call, update.function, ()))

    def _eager_sites(
        self, call: cst.Call, function: cst.FunctionDef | None, chain: tuple[cst.Call, ...]
    ) -> Iterator[EagerSite]:
        if function is None or not self._runs_compiled(function, frozenset()):
            yield EagerSite(call, chain)
            return
        for site in self.values.calls.sites(function):
            if site not in chain and not self._is_wrapping(site):
                yield from self._eager_sites(site, self.module.function_of(site), (*chain, site))

    def _is_wrapping(self, call: cst.Call) -> bool:
        return self.values.qualified(call.func) == "tensorflow.function"

    def _runs_compiled(self, function: cst.FunctionDef, seen: frozenset[cst.CSTNode]) -> bool:
        """Whether some call of the function runs inside a compiled function."""
        if function in self.compiled:
            return True
        if function in seen:
            return False
        callers = [self.module.function_of(site) for site in self.values.calls.sites(function)]
        return any(c is not None and self._runs_compiled(c, seen | {function}) for c in callers)

    # Expressions carried from one function to another

    def lift(
        self, expression: cst.CSTNode, chain: tuple[cst.Call, ...], target: cst.CSTNode
    ) -> str | None:
        """The text that means, where `target` stands, what `expression` means inside the called function.

        Parameters become what the calls of the chain pass, `self` the receiver, and
        local names the expressions that they stand for. None where that cannot be seen.
        """
        if not chain:
            return self.module.text(expression)
        match expression:
            case cst.Name():
                return self._lift_name(expression, chain, target)
            case cst.Attribute(value=value, attr=attr):
                base = self.lift(value, chain, target)
                return f"{base}.{attr.value}" if base else None
            case cst.Subscript(value=value):
                base = self.lift(value, chain, target)
                literal = not any(
                    isinstance(n, cst.Name) for s in expression.slice for n in s.slice.children
                )
                whole = self.module.text(expression)
                return base + whole[len(self.module.text(value)) :] if base and literal else None
            case cst.List(elements=elements) | cst.Tuple(elements=elements):
                parts = [self.lift(element.value, chain, target) for element in elements]
                return f"[{', '.join(p for p in parts if p)}]" if all(parts) else None
            case cst.BinaryOperation(left=left, operator=cst.Add(), right=right):
                one, two = self.lift(left, chain, target), self.lift(right, chain, target)
                return f"{one} + {two}" if one and two else None
        return None

    def _lift_name(
        self, name: cst.Name, chain: tuple[cst.Call, ...], target: cst.CSTNode
    ) -> str | None:
        here, there = self.module.scope(name), self.module.scope(target)
        if (
            here is not None
            and there is not None
            and set(here[name.value]) == set(there[name.value])
        ):
            return name.value
        call = chain[0]
        bindings = self.values.definitions.of(name)
        if len(bindings) != 1:
            return None
        bound = bindings[0]
        if not isinstance(bound, cst.Param):
            if isinstance(bound, cst.CSTNode) or bound.path:
                return None
            return self.lift(bound.value, chain, target)
        function = self.module.enclosing(bound, cst.FunctionDef)
        if function is None:
            return None
        if self.module.class_of(function) is not None and parameters(function)[:1] == [bound]:
            receiver = call.func.value if isinstance(call.func, cst.Attribute) else call.func
            return self.lift(receiver, chain[1:], target)
        for site, passed in self.values.calls.actual_arguments(function, bound):
            if site is call:
                return self.lift(passed, chain[1:], target)
        return self.module.text(bound.default) if bound.default is not None else None

    # Tapes

    @cached_property
    def training_gradients(self) -> frozenset[cst.Call]:
        """The `tape.gradient(…)` calls whose result reaches an update."""
        found: set[cst.Call] = set()
        seen: set[tuple[cst.CSTNode, Path]] = set()
        for update in self.updates:
            if update.minimizes:
                continue
            arg = argument(update.call, "grads_and_vars", 0)
            if arg is not None:
                found.update(self._gradients_in(arg.value, (ELEMENT, 0), seen))
        return frozenset(found)

    def _gradients_in(
        self, node: cst.CSTNode, path: Path, seen: set[tuple[cst.CSTNode, Path]]
    ) -> Iterator[cst.Call]:
        """Gradient calls that flow into the part `path` of an expression. Does not look inside `gradient(…)` itself."""
        if (node, path) in seen or len(path) > MAX_PATH:
            return
        seen.add((node, path))
        if isinstance(node, cst.Call) and self._is_gradient(node):
            yield node
            return
        sources = self.values.flow.predecessors(node, path)
        for source, part in sources:
            yield from self._gradients_in(source, part, seen)
        if sources:
            return
        if isinstance(node, cst.Call):
            if not any(v.kind is Kind.FUNCTION for v in self.values.of(node.func)):
                for arg in node.args:  # a library computes it from them, or from their elements
                    yield from self._gradients_in(arg.value, (), seen)
                    yield from self._gradients_in(arg.value, (ELEMENT,), seen)
        elif not isinstance(node, (cst.Name, cst.Attribute)):
            for child in node.children:
                yield from self._gradients_in(child, (), seen)

    def _is_gradient(self, call: cst.Call) -> bool:
        if method(call) not in GRADIENT_METHODS or not isinstance(call.func, cst.Attribute):
            return False
        kinds = self.values.kinds(call.func.value)
        return bool(kinds & {Role.TAPE, Kind.UNKNOWN}) or not kinds

    @cached_property
    def training_tapes(self) -> list[TrainingTape]:
        """The tapes of `training_gradients`, each with all that is asked of it."""
        asked: dict[Value | None, list[cst.Call]] = {}
        for call in self.values.index.calls:
            if method(call) in GRADIENT_METHODS | {"jacobian", "batch_jacobian"}:
                assert isinstance(call.func, cst.Attribute)
                tapes: list[Value | None] = [*self._tapes_of(call.func.value)]
                if not tapes and call in self.training_gradients:
                    tapes = [None]
                for tape in tapes:
                    asked.setdefault(tape, []).append(call)
        found = []
        for tape, calls in asked.items():
            training = tuple(c for c in calls if c in self.training_gradients)
            others = tuple(c for c in calls if c not in self.training_gradients)
            if training:
                block, name = self._block_of(tape)
                found.append(TrainingTape(block, name, training, others))
        return found

    def _tapes_of(self, receiver: cst.BaseExpression) -> list[Value]:
        """The tapes that an expression may hold where it stands: of two of one name, the last before it."""
        tapes = [v for v in self.values.of(receiver) if v.kind is Role.TAPE]
        if isinstance(receiver, cst.Name):
            bound = [
                b.value
                for b in self.values.definitions.reaching(receiver)
                if isinstance(b, Binding)
            ]
            return [v for v in tapes if v.node in bound] or tapes
        return tapes

    def _block_of(self, tape: Value | None) -> tuple[cst.With | None, cst.Name | None]:
        if tape is None:
            return None, None
        for block in self.values.index.withs:
            for item in block.items:
                if (
                    item.item is tape.node
                    and item.asname is not None
                    and isinstance(item.asname.name, cst.Name)
                ):
                    return block, item.asname.name
        return None, None

    # Keras loops

    def is_model(self, receiver: cst.BaseExpression) -> bool | None:
        """Whether a receiver is a Keras model; None where nothing tells."""
        kinds = self.values.kinds(receiver)
        if Role.MODEL in kinds:
            return True
        return None if not kinds or Kind.UNKNOWN in kinds else False

    @cached_property
    def compiles(self) -> list[cst.Call]:
        """Calls of Keras' own `compile` that say which optimizer, or leave it at the default.

        A model with a `compile` of its own, for two optimizers or a loss of its own, hands on what
        Keras is to know with `super().compile(…)`; without arguments it trains with its own optimizers.
        """
        found = []
        for call in self.values.index.calls:
            if method(call) != "compile" or not isinstance(call.func, cst.Attribute):
                continue
            receiver = call.func.value
            if self._is_super_of_model(receiver):
                if call.args:
                    found.append(call)
                continue
            model = self.is_model(receiver)
            keywords = {a.keyword.value for a in call.args if a.keyword}
            named = model is None and keywords & {"optimizer", "loss", "metrics"}
            if (model or named) and not self._has_own_compile(receiver):
                found.append(call)
        return found

    def _is_super_of_model(self, receiver: cst.BaseExpression) -> bool:
        if not (
            isinstance(receiver, cst.Call)
            and self.values.qualified(receiver.func) == "builtins.super"
        ):
            return False
        owner = self.module.enclosing(receiver, cst.ClassDef)
        return owner is not None and self.values.is_of_kind(owner, Role.MODEL)

    def _has_own_compile(self, receiver: cst.BaseExpression) -> bool:
        return any(
            isinstance(member, cst.FunctionDef) and member.name.value == "compile"
            for value in self.values.of(receiver)
            if isinstance(value.node, cst.ClassDef)
            for owner in self.values.classes.lineage(value.node)
            for member in owner.body.body
        )

    @cached_property
    def fits(self) -> list[cst.Call]:
        """Calls of a model's `fit`."""
        return [
            call
            for call in self.values.index.calls
            if method(call) == "fit" and self._fits_model(call)
        ]

    def _fits_model(self, call: cst.Call) -> bool:
        assert isinstance(call.func, cst.Attribute)
        model = self.is_model(call.func.value)
        if model is None:
            keywords = {a.keyword.value for a in call.args if a.keyword}
            compiled = {
                self.module.text(c.func.value)
                for c in self.compiles
                if isinstance(c.func, cst.Attribute)
            }
            return bool(
                keywords
                & {"epochs", "callbacks", "validation_data", "steps_per_epoch", "validation_split"}
                or self.module.text(call.func.value) in compiled
            )
        return model

    @cached_property
    def loop(self) -> TrainingLoop:
        """GradTape ⊔ Optimizer of the whole module."""
        tape = any(not self.in_keras(update.function) for update in self.updates)
        if tape and self.fits:
            return "both"
        return "gradient_tape" if tape else "keras_fit" if self.fits else "none"
