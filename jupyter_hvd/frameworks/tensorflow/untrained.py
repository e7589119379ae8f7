"""Models and layers that begin at random and that nothing trains, though what is trained depends on them.

A frozen encoder beside a trained head, a teacher that gives the targets: were they another on each rank, each rank would learn
something else. Those that a loss goes through are broadcast with what is trained; those that make the data are to begin alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from ...analysis.library import Kind, Value
from ...analysis.syntax import argument, method
from . import tf_api
from .alike import Alike
from .compiled import EagerSite
from .lifting import lift
from .roles import Role
from .updates import Update

#: Methods by which models answer.
ANSWERING = frozenset({"call", "evaluate", "predict", "predict_on_batch", "test_on_batch"})


def answering(call: cst.Call) -> cst.BaseExpression:
    """What a call asks, if that is a model: `model` of `model.predict(x)` and of `model(x)`."""
    if isinstance(call.func, cst.Attribute) and method(call) in ANSWERING:
        return call.func.value
    return call.func


class Untrained:
    """The models and layers of one module that nothing trains."""

    def __init__(self, alike: Alike) -> None:
        self._alike = alike
        self.data, self.training = alike.data, alike.training
        self.values, self.module = alike.values, alike.module

    def broadcast_with(self, update: Update, site: EagerSite) -> list[str]:
        """The models and layers that the loss of an update goes through, written for the place of the eager call."""
        texts = (self._text(model, update, site) for model in self._passed.get(update, ()))
        return [text for text in texts if text is not None]

    @cached_property
    def makers(self) -> list[cst.Call]:
        """The calls that make data or targets by a model that nothing trains, or of which a broadcast cannot be written,
        or by one that is called as in training, with noise of its layers'; and what keeps weights that are set again.
        """
        return (
            self._kept_weights
            + [
                call
                for call in self.values.index.calls
                if call in self._alike.divided and self._is_noisy(call)
            ]
            + [
                call
                for call, model in self._calls
                if call in self._alike.divided
                or call in self._mapped
                or (call in self._losses and self._alike.is_before_steps(call))
                or any(
                    self._text(model, update, site) is None
                    for update, models in self._passed.items()
                    if model in models
                    for site in self.training.compiled.eager_sites(update)
                )
                or self._is_in_model(call)
            ]
        )

    @cached_property
    def asked_for_data(self) -> list[cst.Call]:
        """The eager calls of trained models whose answers data are made of: which examples are hard, which labels likely.

        Before its first update a model is another on each rank, and so are the moving averages of its layers later. In a turn
        that takes a rank's own batch, the answer is to that batch.
        """
        turns = {*self._alike.turns}
        asked = [
            call
            for call in self.values.index.calls
            if call in self._alike.divided
            and not self._alike.is_deferred(call)
            and self.module.function_of(call) not in self.values.index.generators
            and self.is_asked(call)
        ]
        return [
            outer
            for outer in dict.fromkeys(each for call in asked for each in self._beside_loss(call))
            if not any(
                turns.intersection(self.module.ancestors(each))
                for each in self.values.calls.leading_to(outer)
            )
        ]

    def _beside_loss(self, call: cst.Call) -> Iterator[cst.Call]:
        """A call; of one in a function by which the loss is computed, too, the calls of that function that are for data."""
        function = self.module.function_of(call)
        if call not in self._losses or function is None:
            yield call
        elif function not in self.training.functions:
            yield from (s for s in self.values.calls.sites(function) if s in self._alike.divided)

    def is_asked(self, call: cst.Call) -> bool:
        """Whether a call asks a model that is trained for its answer to data."""
        model = answering(call)
        return self.values.may_be(model, Role.MODEL) and self._is_trained(model)

    def _is_trained(self, model: cst.BaseExpression) -> bool:
        values, texts = self._trained
        return bool(self.values.of(model) & values) or self.module.text(model) in texts

    @cached_property
    def _kept_weights(self) -> list[cst.Call]:
        """The calls that read weights, of which others are made and set: before the first update they are each rank's own."""
        if self.training.loop == "none":
            return []
        made = (
            call.args[0].value
            for call in self.values.index.calls
            if method(call) == "set_weights" and call.args and not self._is_broadcast_copy(call)
        )
        read = [
            node
            for each in made
            for node in self.values.flow.backward_slice(each)
            if isinstance(node, cst.Call) and method(node) == "get_weights"
        ]
        read += filter(self._is_of_callback, self.values.index.calls)
        return list(dict.fromkeys(read))

    def _is_broadcast_copy(self, call: cst.Call) -> bool:
        """Whether a call copies a model's weights into one that is broadcast itself: it is trained, or a loss goes through it."""
        given = call.args[0].value
        if not (isinstance(given, cst.Call) and method(given) == "get_weights"):
            return False
        assert isinstance(call.func, cst.Attribute)
        passed = {self.module.text(m) for models in self._passed.values() for m in models}
        return self.module.text(call.func.value) in passed | self._trained[1]

    def _is_of_callback(self, call: cst.Call) -> bool:
        """Whether a callback of the program's own reads weights, perhaps before the first batch."""
        owner = self.module.enclosing(call, cst.ClassDef)
        reads = self.training.agreement.reads_weights(call)
        return reads and self.training.keras.is_callback(owner)

    def _is_noisy(self, call: cst.Call) -> bool:
        """Whether a model is called as in training, where layers drop out at random by seeds that Python's numbers give."""
        training = argument(call, "training")
        silent = isinstance(training, cst.Arg) and self.module.text(training.value) in (
            "False",
            "None",
        )
        return training is not None and not silent and self.values.may_be(call.func, Role.MODEL)

    @cached_property
    def _passed(self) -> dict[Update, list[cst.BaseExpression]]:
        """The models that the losses of updates go through in the steps, each once."""
        found: dict[Update, list[cst.BaseExpression]] = {}
        seen: set[str] = set()
        for call, model in self._calls:
            text = self.module.text(model)
            update = self._losses.get(call)
            inner = self._is_in_model(call) or self._alike.is_before_steps(call)
            if update is not None and not inner and text not in seen:
                seen.add(text)
                found.setdefault(update, []).append(model)
        return found

    def _text(self, model: cst.BaseExpression, update: Update, site: EagerSite) -> str | None:
        """What means the model where the eager call stands; None where that cannot be seen."""
        text, function = self.module.text(model), self.module.function_of(model)
        if function is update.function or (
            text.startswith("self.")
            and self._class_or_function(model) is self._class_or_function(update.call)
        ):
            return lift(self.values, model, site)
        return text if self._is_global(model) else None

    def _class_or_function(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The class in whose method a node stands, within which `self` means one object, or else its function."""
        function = self.module.function_of(node)
        return (self.module.class_of(function) or function) if function is not None else None

    def _is_global(self, model: cst.BaseExpression) -> bool:
        """Whether an expression is a name of the top level."""
        if not isinstance(model, cst.Name):
            return False
        bindings = self.values.definitions.of(model)
        nodes = [b if isinstance(b, cst.CSTNode) else b.target for b in bindings]
        return bool(nodes) and all(
            node is not None and self.module.function_of(node) is None for node in nodes
        )

    # Calls

    @cached_property
    def _calls(self) -> list[tuple[cst.Call, cst.BaseExpression]]:
        """The calls of models and layers, or of methods of theirs, that begin at random and that nothing trains."""
        if self.training.loop == "none":
            return []
        found = []
        for call in self.values.index.calls:
            receiver = call.func.value if isinstance(call.func, cst.Attribute) else None
            for model in (call.func, receiver):
                if model is None or (self._is_in_model(call) and not self._is_global(model)):
                    continue
                if self._is_untrained(model):
                    found.append((call, model))
                    break
        return found

    def _is_untrained(self, model: cst.BaseExpression) -> bool:
        if not isinstance(model, (cst.Name, cst.Attribute, cst.Subscript)):
            return False
        made = {value for value in self.values.of(model) if self._begins_at_random(value)}
        values, texts = self._trained
        return bool(made - values) and self.module.text(model) not in texts

    def _begins_at_random(self, value: Value) -> bool:
        """Whether a value is a model or a layer with first weights at random, and a part of no other that owns it."""
        node = value.node
        if isinstance(node, cst.ClassDef):
            bases = self.values.classes.library_bases(node)
            return value.kind is not Kind.CLASS and any(b.startswith(tf_api.OWNERS) for b in bases)
        if not isinstance(node, cst.Call) or self._is_in_model(node):
            return False
        if value.name.startswith("tensorflow.keras.applications.") and value.kind is Role.MODEL:
            weights = argument(node, "weights")
            return weights is not None and self.values.kinds(weights.value) == {Kind.NONE}
        if value.name.endswith(".Sequential") and node.args:
            match node.args[0].value:
                case cst.List(elements=elements):
                    inner = (v for e in elements for v in self.values.of(e.value))
                    return any(map(self._begins_at_random, inner))
        return tf_api.has_first_weights(value.name)

    def _is_in_model(self, node: cst.CSTNode) -> bool:
        """Whether a node stands in a method of a class that owns its variables."""
        owner = self.module.enclosing(node, cst.ClassDef)
        bases = self.values.classes.library_bases(owner) if owner is not None else ()
        return any(base.startswith(tf_api.OWNERS) for base in bases)

    @cached_property
    def _trained(self) -> tuple[set[Value], set[str]]:
        """What is trained, with its parts: objects that one call makes, and names of those of the program's own classes."""
        trained = [v for update in self.training.updates for v in update.variables]
        trainings = self.training.compiled_trainings
        trained += [c.func.value for c in trainings if isinstance(c.func, cst.Attribute)]
        parts = {
            node
            for each in trained
            for node in self.values.flow.backward_slice(each)
            if isinstance(node, (cst.Name, cst.Attribute, cst.Call))
        }
        values = {value for node in parts for value in self.values.of(node)}
        texts = {self.module.text(n) for n in parts if not isinstance(n, cst.Call)}
        return {v for v in values if self._is_one(v.node)}, texts

    def _is_one(self, node: cst.CSTNode | None) -> bool:
        """Whether what makes an object makes one alone: no class, nor a function that is called for a student and its teacher."""
        function = self.module.function_of(node) if node is not None else None
        sites = self.values.calls.sites(function) if function is not None else []
        return not isinstance(node, cst.ClassDef) and len(sites) < 2

    # Where they are called

    @cached_property
    def _losses(self) -> dict[cst.CSTNode, Update]:
        """All that losses are computed from, with an update that they serve."""
        found: dict[cst.CSTNode, Update] = {}
        for update in self.training.updates:
            targets = [argument(update.call, "loss", 0)] if update.minimizes else []
            targets += [
                argument(call, "target", 0)
                for call in self.training.training_gradients
                if self.module.function_of(call) is update.function
            ]
            for target in targets:
                for node in self.values.flow.backward_slice(target.value) if target else ():
                    found.setdefault(node, update)
        return found

    @cached_property
    def _mapped(self) -> set[cst.CSTNode]:
        """The calls in functions that are done to each element of the data."""
        given = {
            value.node
            for pipeline in self.data.pipelines
            for step in pipeline.steps
            if isinstance(step, cst.Call)
            for arg in step.args
            for value in self.values.of(arg.value)
            if value.kind is Kind.FUNCTION
        }
        return set(self._within(given))

    def _within(self, functions: set[cst.CSTNode | None]) -> Iterator[cst.CSTNode]:
        for call in self.values.index.calls:
            if any(around in functions for around in self.module.ancestors(call)):
                yield call
