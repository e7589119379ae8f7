"""Steps on all the data at once whose loss is a mean over rows: of these each rank may take a share.

The mean of the gradients of equal shares is the gradient of all rows, if each row's part of the loss goes by that row and by
weights alone. An expression is followed for that: it is the same whatever the rows are, has one row for each of them, is a mean
over them, or nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

import libcst as cst

from ...analysis.definitions import BLOCKS, Definition
from ...analysis.index import Binding
from ...analysis.library import Kind, Value
from ...analysis.syntax import Function, argument, has_star, method, parameters
from .roles import Role
from .step_loops import StepLoops
from .updates import Update

#: Functions of TensorFlow that take elements one by one.
_ELEMENTWISE = frozenset(
    f"tensorflow.{module}{name}"
    for module in ("", "math.", "nn.")
    for name in (
        "abs add cast cos divide exp identity log log1p maximum minimum multiply negative pow relu sigmoid sin "
        "softplus sqrt square squared_difference subtract tanh"
    ).split()
)
#: Functions of two arrays of rows that give a loss for each row.
_LOSSES = frozenset(
    f"tensorflow.nn.{name}_cross_entropy_with_logits" for name in ("sigmoid", "softmax")
) | {"tensorflow.nn.sparse_softmax_cross_entropy_with_logits"}
#: Losses of Keras whose examples do not look at one another, as functions and as classes.
_KERAS_LOSSES = frozenset(
    "binary_crossentropy categorical_crossentropy mean_absolute_error mean_squared_error mae mse "
    "sparse_categorical_crossentropy BinaryCrossentropy CategoricalCrossentropy Huber MeanAbsoluteError "
    "MeanSquaredError SparseCategoricalCrossentropy".split()
)
#: Layers by which the rows of a batch go by one another, or that do what is not seen.
_MIXING = ("BatchNormalization", "Lambda", "Masking", "ActivityRegularization")


class Form(Enum):
    """What an expression is to the rows."""

    SAME = auto()
    ROWS = auto()
    MEAN = auto()
    LEAF = auto()  # data from outside the step: rows, if it is used as such


@dataclass(frozen=True)
class Seen:
    """What is seen of an expression; of data from outside, where they are named."""

    form: Form
    leaf: cst.Name | None = None


@dataclass
class Shares:
    """The data of one step that are divided by rows: what a model is asked of, and what is compared with its answer."""

    inputs: dict[cst.Name, None] = field(default_factory=dict)
    labels: dict[cst.Name, None] = field(default_factory=dict)


SAME, ROWS, MEAN = Seen(Form.SAME), Seen(Form.ROWS), Seen(Form.MEAN)
#: What is made of layers alone, which are written here.
_MODELS = frozenset({"tensorflow.keras.Sequential", "tensorflow.keras.models.Sequential"})
#: How many expressions are followed for one loss.
MAX_FOLLOWED = 400


class Rowwise:
    """The steps of one module whose loss is a mean over rows."""

    def __init__(self, steps: StepLoops) -> None:
        self.values, self.module = steps.values, steps.module
        self.training, self._data = steps.training, steps.data

    def shares(self, call: cst.Call) -> Shares | None:
        """The data of which each rank may take rows of its own in a step that an eager call runs; None where it may not."""
        updates = [
            update
            for update, sites in self._data.step_sites
            if call in (site.call for site in sites)
        ]
        found = Shares()
        if not updates or self._mixes:
            return None
        for update in updates:
            if not self._is_mean(update, call, found):
                return None
        names = {leaf.value for leaf in found.inputs}
        functions = {self.module.function_of(leaf) for leaf in (*found.inputs, *found.labels)}
        beside = bool(found.labels) and (len(names) > 1 or len(functions) > 1)
        return found if names and not beside else None

    def _is_mean(self, update: Update, call: cst.Call, found: Shares) -> bool:
        """Whether what an update applies are gradients of means over rows."""
        if update.applied is None:
            return False
        gradients = list(self.training.gradients.flowing_into(*update.applied))
        for gradient in gradients:
            target = argument(gradient, "target", 0)
            step = _Step(self, call, found)
            if target is None or step.seen(target.value, {}) != MEAN:
                return False
            function = self.module.function_of(gradient)
            returned = self.values.index.returns.get(function, ()) if function else ()
            if any(step.seen(each, {}) not in (MEAN, SAME) for each in returned):
                return False
        return bool(gradients)

    @property
    def _mixes(self) -> bool:
        """Whether some layer of the program makes rows go by one another, or may."""
        classes = self.values.classes
        return any(
            self.values.qualified(call.func).endswith(_MIXING)
            or argument(call, "mask_zero") is not None
            or (method(call) == "add" and not self.is_layer(call.args[0].value))
            for call in self.values.index.calls
            if call.args
        ) or any(
            base.startswith("tensorflow.keras.")
            for owner in self.values.index.classes
            for base in classes.library_bases(owner)
        )

    def is_model_of_layers(self, value: Value) -> bool:
        """Whether a model is a list of Keras' own layers, as far as it is not added to."""
        if value.name not in _MODELS or not isinstance(value.node, cst.Call):
            return False
        given = argument(value.node, "layers", 0)
        if given is None:
            return not value.node.args
        return isinstance(given.value, cst.List) and all(
            self.is_layer(element.value) for element in given.value.elements
        )

    def is_layer(self, expression: cst.BaseExpression) -> bool:
        """Whether an expression makes one of Keras' layers."""
        name = self.values.qualified(expression.func) if isinstance(expression, cst.Call) else ""
        return name.startswith("tensorflow.keras.layers.") or name == "tensorflow.keras.Input"


class _Step:
    """One step, and what is seen of the expressions in it."""

    def __init__(self, rowwise: Rowwise, call: cst.Call, found: Shares) -> None:
        self._rowwise, self._values, self._module = rowwise, rowwise.values, rowwise.module
        self._found, self._left = found, MAX_FOLLOWED
        function = self._module.function_of(call)
        loops = [
            a
            for a in self._module.ancestors(call)
            if isinstance(a, (cst.For, cst.While)) and self._module.function_of(a) is function
        ]
        self._around = loops[-1] if loops else call

    def seen(self, node: cst.BaseExpression, known: Mapping[cst.Param, Seen]) -> Seen | None:
        """What an expression is to the rows.

        Args:
            known: what the parameters of the function are that it stands in.
        """
        self._left -= 1
        if self._left < 0:
            return None
        match node:
            case cst.Integer() | cst.Float():
                return SAME
            case cst.Name():
                return self._name(node, known)
            case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
                found = self.seen(inner, known)
                return found if found in (SAME, ROWS, MEAN) else None
            case cst.BinaryOperation(left=left, operator=operator, right=right):
                one, two = self.seen(left, known), self.seen(right, known)
                return self._binary(operator, one, two)
            case cst.Call() if not has_star(node):
                return self._call(node, known)
            case cst.Attribute() if self._values.kinds(node) <= {Role.VARIABLE, Kind.CONSTANT}:
                return SAME if self._values.kinds(node) else None
        return None

    def _name(self, name: cst.Name, known: Mapping[cst.Param, Seen]) -> Seen | None:
        kinds = self._values.kinds(name)
        if kinds and kinds <= {Role.VARIABLE, Kind.CONSTANT}:
            return SAME
        definitions = self._last(name, self._values.definitions.reaching(name))
        inside = [d for d in definitions if self._is_inside(d)]
        match definitions:
            case [cst.Param() as param] if param in known:
                return known[param]
            case [cst.Param() as param]:
                function = self._module.owner(param)
                given = self._values.calls.actual_arguments(function, param) if function else []
                return self.seen(given[0][1], {}) if len(given) == 1 else None
            case [Binding(path=(), adds=False) as bound] if inside:
                return self.seen(bound.value, known)
        if inside or not kinds <= {Kind.OTHER, Kind.UNKNOWN}:
            return None
        outside = all(
            isinstance(d, Binding)
            and d.target is not None
            and self._module.function_of(d.target) is None
            for d in definitions
        )
        return Seen(Form.LEAF, name) if outside else None

    def _last(self, name: cst.Name, found: list[Definition]) -> list[Definition]:
        """Of the definitions of a name, those that one in the block of a `with` before it, as of a tape, leaves."""
        bound = {b.target: b for b in found if isinstance(b, Binding) and b.target is not None}
        start = self._module.span(name).start
        sure = [
            target
            for target, b in bound.items()
            if not b.adds
            and self._module.span(target).start < start
            and any(a is self._block(target) for a in self._module.ancestors(name))
        ]
        if not sure:
            return found
        last = bound[max(sure, key=lambda target: self._module.span(target).start)]
        return [last]

    def _block(self, target: cst.CSTNode) -> cst.CSTNode | None:
        """The block in which a name is sure to be bound where its `with` is come to."""
        block = self._module.enclosing(target, BLOCKS)
        while block is not None and isinstance(around := self._module.parent(block), cst.With):
            block = self._module.enclosing(around, BLOCKS)
        return block

    def _is_inside(self, definition: object) -> bool:
        """Whether a name is bound in the step, or in a function that it runs."""
        if not isinstance(definition, Binding) or definition.target is None:
            return False
        within = self._around in self._module.ancestors(definition.target)
        return within or self._module.function_of(definition.target) is not None

    def _binary(
        self, operator: cst.BaseBinaryOp, one: Seen | None, two: Seen | None
    ) -> Seen | None:
        if one is None or two is None:
            return None
        if isinstance(operator, cst.MatrixMultiply):
            return self._product(one, two)
        combined = self._elementwise([one, two])
        if combined is not MEAN:
            return combined
        if isinstance(operator, (cst.Add, cst.Subtract)):
            return MEAN
        linear = isinstance(operator, cst.Multiply) or (
            isinstance(operator, cst.Divide) and two == SAME
        )
        return MEAN if linear and SAME in (one, two) else None

    def _product(self, one: Seen, two: Seen) -> Seen | None:
        """A matrix of rows times one that is the same."""
        if two != SAME:
            return None
        return self._as_rows(one) if one != SAME else SAME

    def _as_rows(self, seen: Seen | None) -> Seen | None:
        """What a model, or a matrix of weights, is asked of: data from outside are rows there."""
        if seen is not None and seen.leaf is not None:
            self._found.inputs[seen.leaf] = None
            return ROWS
        return ROWS if seen == ROWS else None

    def _elementwise(self, parts: list[Seen]) -> Seen | None:
        """Elements of several, one by one: beside rows, data from outside are labels."""
        forms = {part.form for part in parts}
        if Form.LEAF in forms:
            if Form.ROWS not in forms or Form.MEAN in forms:
                return None
            self._found.labels |= {p.leaf: None for p in parts if p.leaf is not None}
            return ROWS
        if forms <= {Form.SAME, Form.MEAN}:
            return MEAN if Form.MEAN in forms else SAME
        return ROWS if Form.MEAN not in forms else None

    def _call(self, call: cst.Call, known: Mapping[cst.Param, Seen]) -> Seen | None:
        name = self._values.qualified(call.func)
        given = [self.seen(arg.value, known) for arg in call.args if not _is_option(arg)]
        if name in ("tensorflow.reduce_mean", "tensorflow.math.reduce_mean"):
            alone = len(call.args) == 1
            return (
                {ROWS: MEAN, MEAN: MEAN, SAME: SAME}.get(given[0] or ROWS)
                if alone and given[0]
                else None
            )
        if name in ("tensorflow.matmul", "tensorflow.linalg.matmul"):
            plain = len(call.args) == 2 and None not in given
            return self._product(given[0], given[1]) if plain else None  # type: ignore[arg-type]
        if name in _ELEMENTWISE:
            parts = [each for each in given if each is not None]
            found = self._elementwise(parts) if len(parts) == len(given) else None
            return found if found is not MEAN else None
        if name == "tensorflow.nn.softmax" and len(call.args) == 1:
            return ROWS if given == [ROWS] else None
        if name in ("tensorflow.nn.l2_loss", "tensorflow.reduce_sum"):
            return SAME if given == [SAME] else None
        if name in _LOSSES or self._is_loss(name, "tensorflow.keras.losses."):
            return self._loss(given)
        return self._own(call, given, known)

    def _is_loss(self, name: str, prefix: str) -> bool:
        return name.startswith(prefix) and name.removeprefix(prefix) in _KERAS_LOSSES

    def _loss(self, given: list[Seen | None]) -> Seen | None:
        """A loss of labels and predictions, for each row."""
        two = [each for each in given if each is not None]
        return self._elementwise(two) if len(given) == len(two) == 2 and ROWS in two else None

    def _own(
        self, call: cst.Call, given: list[Seen | None], known: Mapping[cst.Param, Seen]
    ) -> Seen | None:
        """What a model, a loss object, or a function of the program's own gives."""
        made = self._values.of(call.func)
        if len(made) != 1:
            return None
        value = next(iter(made))
        if value.kind is Role.MODEL and self._rowwise.is_model_of_layers(value):
            return self._as_rows(given[0]) if given else None
        if isinstance(value.node, cst.Call) and self._is_loss(
            value.name, "tensorflow.keras.losses."
        ):
            plain = argument(value.node, "reduction") is None and not has_star(value.node)
            return MEAN if plain and self._loss(given) == ROWS else None
        function: Function | None = None
        if value.kind is Kind.FUNCTION and isinstance(value.node, (cst.FunctionDef, cst.Lambda)):
            function = value.node
        elif value.kind is Kind.INSTANCE and isinstance(value.node, cst.ClassDef):
            methods = list(self._values.classes.methods(value.node, "__call__"))
            function = methods[0] if len(methods) == 1 else None
        return self._function(function, call, known) if function is not None else None

    def _function(
        self, function: Function, call: cst.Call, known: Mapping[cst.Param, Seen]
    ) -> Seen | None:
        """What a function of the program's own returns for what it is given, if that is one expression."""
        returned = self._values.index.returns.get(function, [])
        if len(returned) != 1 or function in self._values.index.generators:
            return None
        inner: dict[cst.Param, Seen] = {}
        named = (
            isinstance(function, cst.FunctionDef) and self._module.class_of(function) is not None
        )
        taken = parameters(function)[1:] if named else parameters(function)
        for place, param in enumerate(taken):
            arg = argument(call, param.name.value, place)
            value = self.seen(arg.value, known) if arg is not None else SAME
            if value is None:
                return None
            inner[param] = value
        return self.seen(returned[0], inner)


def _is_option(arg: cst.Arg) -> bool:
    """Whether an argument says how a function does something, and is nothing that it takes."""
    return arg.keyword is not None and arg.keyword.value in (
        "from_logits",
        "dtype",
        "name",
        "training",
    )
