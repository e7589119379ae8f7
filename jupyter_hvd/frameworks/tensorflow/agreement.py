"""What is, for certain, the same on every rank while a program trains.

Weights are, as all ranks apply the same to them; averaged gradients are; and what is computed from
these and from what is uniform anyhow.
"""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst

from ...analysis.flow import Source
from ...analysis.index import ELEMENT, Path
from ...analysis.library import Kind
from ...analysis.syntax import method
from ...analysis.uniformity import is_uniform, stored
from ...analysis.values import MAX_PATH, MAX_STEPS, ValueAnalysis
from .gradients import Gradients

#: Methods that change a variable.
ASSIGNING = frozenset(
    "assign assign_add assign_sub scatter_add scatter_sub scatter_update scatter_nd_add scatter_nd_sub "
    " scatter_nd_update batch_scatter_update".split()
)
#: What a model has lists of its variables under.
VARIABLE_LISTS = frozenset({"trainable_variables", "trainable_weights", "variables", "weights"})
#: Attributes that are the same on every rank, whatever they are of.
_STATIC = VARIABLE_LISTS | {"shape", "dtype"}
#: What gives weights as they are, as a copy or an array.
_COPYING = frozenset(
    "copy.copy copy.deepcopy numpy.array numpy.asarray numpy.copy tensorflow.Variable tensorflow.constant "
    "tensorflow.convert_to_tensor tensorflow.identity tensorflow.keras.backend.get_value".split()
)
#: What gives all ranks what one has, in a program that is converted.
_BROADCASTING = frozenset(
    {
        "horovod.tensorflow.broadcast_object",
        "horovod.tensorflow.broadcast",
        "jupyter_hvd.runtime.of_rank_zero",
    }
)
#: Methods whose result is the receiver's value.
_READING = frozenset({"numpy", "value", "read_value"})


class Agreement:
    """What the ranks of one module agree on.

    Each method takes a part `path` of an expression.
    """

    def __init__(self, values: ValueAnalysis, gradients: Gradients) -> None:
        self._values = values
        self._gradients = gradients
        #: Variables that are being asked about: a mean that moves is set to what is made of itself; and what is drawn alike.
        self._assumed: set[cst.Call] = set()

    def is_weight(self, variable: cst.CSTNode, path: Path = ()) -> bool:
        """Whether an expression is one of a model's variables, or one that a gradient is taken for."""
        pending: list[Source] = [(variable, path)]  # type: ignore[list-item]
        seen: set[tuple[cst.CSTNode, Path]] = set()
        while pending and len(seen) < MAX_STEPS:
            node, part = pending.pop()
            if (node, part) in seen or len(part) > MAX_PATH:
                continue
            seen.add((node, part))
            if part and isinstance(node, cst.Attribute) and node.attr.value in VARIABLE_LISTS:
                return True
            pending.extend(self._values.flow.predecessors(node, part))
        return not self._gradients.sources.isdisjoint(self._values.of(variable, path))

    def reads_weights(self, node: cst.CSTNode) -> bool:
        """Whether an expression reads weights: `model.get_weights()`, `w.numpy()`, `tf.identity(w)`."""
        match node:
            case cst.Call(func=cst.Attribute(attr=cst.Name("get_weights"))):
                return True
            case cst.Call(func=cst.Attribute(value=read)) if method(node) in _READING:
                return self.is_weight(read)
            case cst.Call(args=[cst.Arg(value=read), *_]):
                return self._values.qualified(node.func) in _COPYING and self.is_weight(read)
        return False

    def is_copy(
        self,
        node: cst.CSTNode,
        path: Path = (),
        seen: set[tuple[cst.CSTNode, Path]] | None = None,
    ) -> bool:
        """Whether an expression is what weights were, and nothing that is computed from them."""
        seen = set() if seen is None else seen
        if (node, path) in seen:
            return True
        seen.add((node, path))
        if len(path) > MAX_PATH:
            return False
        if self.is_weight(node, path) or self.reads_weights(node):
            return True
        sources = self._values.flow.predecessors(node, path)
        if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
            entries = stored(self._values, node.value)
            sources = [s for s in sources if not _is_none(s[0])] + [(v, ()) for _, v in entries]
        return bool(sources) and all(
            _is_none(source) or self.is_copy(source, part, seen) for source, part in sources
        )

    def is_equal(
        self,
        node: cst.CSTNode,
        path: Path = (),
        seen: set[tuple[cst.CSTNode, Path]] | None = None,
        *,
        trained: bool = True,
    ) -> bool:
        """Whether an expression is the same on every rank.

        Args:
            trained: gradients, and variables that are assigned to, count; every tape that leads to an update is wrapped.
        """
        seen = set() if seen is None else seen
        if (node, path) in seen:
            return True
        if len(path) > MAX_PATH:
            return False
        seen.add((node, path))
        match node:
            case cst.Call() if self._gradients.is_gradient(node):
                return trained
            case cst.Attribute(attr=cst.Name(value=name)) if name in _STATIC:
                return True
            case cst.Name() | cst.Attribute() | cst.Subscript() if self.is_weight(
                node, path
            ) or is_uniform(self._values, node, path):
                return True
            case cst.Name() if node.value in self._values.index.stored:
                return False
        sources = self._values.flow.predecessors(node, path)
        if sources:
            return all(
                self.is_equal(source, part, seen, trained=trained) for source, part in sources
            )
        match node:
            case cst.Name() | cst.Attribute():
                return False
            case cst.Call():
                return self._is_equal_result(node, path, seen, trained)
        parts = [
            child
            for child in node.children
            if isinstance(
                child, (cst.BaseExpression, cst.BaseElement, cst.Arg, cst.ComparisonTarget)
            )
        ]
        return all(self.is_equal(part, (), seen, trained=trained) for part in parts)

    def is_equal_but_for(
        self,
        node: cst.CSTNode,
        draws: Collection[cst.Call],
        path: Path = (),
        *,
        trained: bool = False,
    ) -> bool:
        """Whether an expression is the same on every rank, where these calls draw alike; see `is_equal`."""
        known = frozenset(self._assumed)
        self._assumed.update(draws)
        try:
            return self.is_equal(node, path, trained=trained)
        finally:
            self._assumed.intersection_update(known)

    def _is_equal_result(
        self, call: cst.Call, path: Path, seen: set[tuple[cst.CSTNode, Path]], trained: bool
    ) -> bool:
        """Whether what a library's function gives is the same on every rank."""
        name = self._values.qualified(call.func)
        if name.endswith((".zeros_like", ".ones_like", ".shape")):
            return True
        if call in self._assumed or name in _BROADCASTING:
            return True
        if name == "tensorflow.Variable" and not (trained and self._stays_equal(call)):
            return False
        calculates = (
            name.startswith(("tensorflow.", "builtins.", "numpy.")) and "random" not in name
        )
        if method(call) == "get_weights":
            return trained
        if method(call) == "get_unscaled_gradients" or self._draws_alike(call):
            calculates = True
        elif method(call) in _READING:
            assert isinstance(call.func, cst.Attribute)
            calculates = self.is_equal(call.func.value, path, seen, trained=trained)
        return calculates and all(
            self.is_equal(arg.value, part, seen, trained=trained)
            for arg in call.args
            for part in ([(), (ELEMENT,)] if self._is_list(arg.value) else [()])
        )

    def _draws_alike(self, call: cst.Call) -> bool:
        """Whether a call is one of `draw_alike(draw, seed)`, or of what that makes."""
        maker: cst.BaseExpression = call.func
        while isinstance(maker, cst.Call):
            if self._values.qualified(maker.func) == "jupyter_hvd.runtime.draw_alike":
                return True
            maker = maker.func
        return False

    def _stays_equal(self, made: cst.Call) -> bool:
        """Whether a variable is assigned nothing that is neither from gradients nor the same on every rank.

        What a weight is assigned is the same, or an update, which makes it so.
        """
        self._assumed.add(made)
        try:
            return self._is_assigned_equal(made)
        finally:
            self._assumed.discard(made)

    def _is_assigned_equal(self, made: cst.Call) -> bool:
        own = self._values.of(made)
        for call in self._values.index.calls:
            if method(call) not in ASSIGNING or not call.args:
                continue
            assert isinstance(call.func, cst.Attribute)
            receivers, value = self._values.of(call.func.value), call.args[0].value
            if not (receivers & own or Kind.UNKNOWN in {v.kind for v in receivers}):
                continue
            if self.is_weight(call.func.value) or any(
                True for _ in self._gradients.flowing_into(value)
            ):
                continue
            if not self.is_equal(value, trained=False):
                return False
        return True

    def _is_list(self, expression: cst.BaseExpression) -> bool:
        """Whether what is named is a list of values, which its own flow does not show."""
        named = isinstance(expression, (cst.Name, cst.Attribute))
        return named and self._values.may_be(expression, Kind.CONTAINER)


def _is_none(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"
