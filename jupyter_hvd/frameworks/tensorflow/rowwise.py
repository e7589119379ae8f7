"""Steps on all the data at once whose loss is a mean over rows: of these each rank may take a share.

The mean of the gradients of equal shares is the gradient of all rows, if each row's part of the loss goes by that row and by
weights alone. An expression is followed for that: it is the same whatever the rows are, has one row for each of them, is a mean
over them, or nothing is known of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

import libcst as cst

from ...analysis.definitions import BLOCKS, Definition
from ...analysis.index import Binding
from ...analysis.library import Kind, Value
from ...analysis.syntax import Function, argument, has_star, method, parameters
from . import row_layers
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
#: Of these, and of TensorFlow's, those whose labels have one dimension less than what is compared with them.
_SPARSE = re.compile(r"sparse", re.IGNORECASE)
#: What a loss object may be made with, and is still the mean of what each row has lost.
_OF_LOSSES = frozenset({"from_logits", "label_smoothing", "delta", "name"})


class Form(Enum):
    """What an expression is to the rows."""

    SAME = auto()
    ROWS = auto()
    MEAN = auto()
    LEAF = auto()  # data from outside the step: rows, if it is used as such


@dataclass(frozen=True)
class Seen:
    """What is seen of an expression; of data from outside, where they are named; of rows, their dimensions.

    Attributes:
        dimensions: how many there are: so many more than the inputs have where that is 0 or less. None if it is not known.
        inputs: the name of the inputs that these rows are computed from.
    """

    form: Form
    leaf: cst.Name | None = None
    dimensions: int | None = None
    inputs: str = ""

    def less(self, dimensions: int) -> Seen:
        """The rows when so many dimensions are gone: none are left where there may be none."""
        left = None if self.dimensions is None else self.dimensions - dimensions
        gone = self.dimensions is not None and 0 < self.dimensions <= dimensions
        return replace(self, dimensions=None if gone else left)


@dataclass
class Shares:
    """The data of one step that are divided by rows: what a model is asked of, and what is compared with its answer."""

    inputs: dict[cst.Name, None] = field(default_factory=dict)
    labels: dict[cst.Name, Label] = field(default_factory=dict)


@dataclass(frozen=True)
class Label:
    """How labels stand beside what a model answers.

    Attributes:
        dimensions: how many those answers have, as in `Seen`; None if rows are compared with rows whatever their dimensions are.
        is_squeezed: whether Keras may make the dimensions of the two one another's.
    """

    dimensions: int | None
    is_squeezed: bool = False


SAME, MEAN = Seen(Form.SAME), Seen(Form.MEAN)
#: Methods by which layers come to such models, or go.
_CHANGING = frozenset({"add", "pop"})
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
        if not updates:
            return None
        for update in updates:
            if not self._is_mean(update, call, found):
                return None
        names = {leaf.value for leaf in found.inputs}
        functions = {self.module.function_of(leaf) for leaf in (*found.inputs, *found.labels)}
        beside = bool(found.labels) and (len(names) > 1 or len(functions) > 1)
        compared = (found.labels[leaf] for leaf in found.inputs if leaf in found.labels)
        apart = any(label.dimensions not in (0, None) for label in compared)
        return found if names and not beside and not apart else None

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

    def layers(self, model: Value) -> list[cst.Call] | None:
        """The layers, one after the other, that a model is made of, if it is a list of Keras' own and nothing else."""
        index = self.values.index
        if model.name not in _MODELS or not isinstance(model.node, cst.Call):
            return None
        given = argument(model.node, "layers", 0)
        if (given is None and model.node.args) or "activation" in index.attribute_bindings:
            return None
        if given is not None and not isinstance(given.value, cst.List):
            return None
        listed = [element.value for element in given.value.elements] if given is not None else []  # type: ignore[attr-defined]
        for call in index.calls:
            if isinstance(call.func, cst.Attribute) and method(call) in _CHANGING:
                values = self.values.of(call.func.value)
                if model in values and (method(call) != "add" or len(call.args) != 1):
                    return None
                if model in values or (method(call) == "add" and not _is_known(values)):
                    listed += [arg.value for arg in call.args]
        layers = [each for each in listed if isinstance(each, cst.Call)]
        return layers if len(layers) == len(listed) else None


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
                return found if found is not None and found.form is not Form.LEAF else None
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
        if combined != MEAN:
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
            return Seen(Form.ROWS, dimensions=0, inputs=seen.leaf.value)
        return seen if seen is not None and seen.form is Form.ROWS else None

    def _elementwise(self, parts: list[Seen]) -> Seen | None:
        """Elements of several, one by one: beside rows, data from outside are labels."""
        forms = {part.form for part in parts}
        if forms <= {Form.SAME, Form.MEAN}:
            return MEAN if Form.MEAN in forms else SAME
        rows = {part for part in parts if part.form is Form.ROWS}
        if len(rows) != 1 or Form.MEAN in forms:
            return None
        (row,) = rows
        if row.dimensions is None and len(parts) - sum(p == SAME for p in parts) > 1:
            return None  # arrays of other dimensions are compared each row with each other one
        return row if self._label(parts, Label(row.dimensions)) else None

    def _label(self, parts: list[Seen], label: Label) -> bool:
        """Note which of several are labels; False where one is used in two ways."""
        for leaf in (part.leaf for part in parts if part.leaf is not None):
            if self._found.labels.setdefault(leaf, label) != label:
                return False
        return True

    def _call(self, call: cst.Call, known: Mapping[cst.Param, Seen]) -> Seen | None:
        name = self._values.qualified(call.func)
        given = [self.seen(arg.value, known) for arg in call.args if not _is_option(arg)]
        if name in ("tensorflow.reduce_mean", "tensorflow.math.reduce_mean"):
            alone = len(call.args) == 1
            found = given[0] if alone else None
            if found is None or found.form is Form.LEAF:
                return None
            return SAME if found == SAME else MEAN
        if name in ("tensorflow.matmul", "tensorflow.linalg.matmul"):
            plain = len(call.args) == 2 and None not in given
            return self._product(given[0], given[1]) if plain else None  # type: ignore[arg-type]
        if name in _ELEMENTWISE:
            parts = [each for each in given if each is not None]
            found = self._elementwise(parts) if len(parts) == len(given) else None
            return found if found != MEAN else None
        if name == "tensorflow.nn.softmax" and len(call.args) == 1:
            return found if (found := given[0]) is not None and found.form is Form.ROWS else None
        if name in ("tensorflow.nn.l2_loss", "tensorflow.reduce_sum"):
            return SAME if given == [SAME] else None
        if name in _LOSSES or self._is_loss(name):
            return self._loss(name, given)
        return self._own(call, given, known)

    def _is_loss(self, name: str) -> bool:
        prefix = "tensorflow.keras.losses."
        return name.startswith(prefix) and name.removeprefix(prefix) in _KERAS_LOSSES

    def _loss(self, name: str, given: list[Seen | None]) -> Seen | None:
        """A loss of labels and predictions, for each row."""
        two = [each for each in given if each is not None]
        rows = [each for each in two if each.form is Form.ROWS]
        if len(given) != 2 or len(two) != 2 or not rows:
            return None
        is_sparse = _SPARSE.search(name) is not None
        if len(rows) == 2 and (is_sparse or rows[0] != rows[1] or rows[0].dimensions is None):
            return None
        label = Label(None) if is_sparse else Label(rows[0].dimensions, name not in _LOSSES)
        if not is_sparse and label.dimensions is None:
            return None
        return rows[0].less(0 if "sigmoid" in name else 1) if self._label(two, label) else None

    def _own(
        self, call: cst.Call, given: list[Seen | None], known: Mapping[cst.Param, Seen]
    ) -> Seen | None:
        """What a model, a loss object, or a function of the program's own gives."""
        made = self._values.of(call.func)
        if len(made) != 1:
            return None
        value = next(iter(made))
        if value.kind is Role.MODEL:
            return self._answered(value, given[0]) if len(given) == 1 else None
        if isinstance(value.node, cst.Call) and self._is_loss(value.name):
            plain = all(
                arg.keyword is not None and arg.keyword.value in _OF_LOSSES
                for arg in value.node.args
            )
            return MEAN if plain and self._loss(value.name, given) is not None else None
        function: Function | None = None
        if value.kind is Kind.FUNCTION and isinstance(value.node, (cst.FunctionDef, cst.Lambda)):
            function = value.node
        elif value.kind is Kind.INSTANCE and isinstance(value.node, cst.ClassDef):
            methods = list(self._values.classes.methods(value.node, "__call__"))
            function = methods[0] if len(methods) == 1 else None
        return self._function(function, call, known) if function is not None else None

    def _answered(self, model: Value, asked: Seen | None) -> Seen | None:
        """What a model answers to rows, if each of its layers answers each by itself."""
        layers = self._rowwise.layers(model)
        if layers is None or not all(
            row_layers.is_rowwise(self._values, layer, self._is_elementwise) for layer in layers
        ):
            return None
        rows, around = self._as_rows(asked), self._around_of(model.node)
        if rows is None:
            return None
        for layer in layers:
            count = row_layers.dimensions(self._values, layer, rows.dimensions)
            if count != rows.dimensions and self._around_of(layer) is not around:
                count = None  # it is added on a condition, or several times
            rows = replace(rows, dimensions=count)
        return rows

    def _around_of(self, node: cst.CSTNode | None) -> cst.CSTNode | None:
        """What decides whether, and how many times, a statement runs."""
        kinds = (cst.If, cst.For, cst.While, cst.FunctionDef, cst.Lambda, cst.BaseComp)
        return self._module.enclosing(node, kinds) if node is not None else None

    def _is_elementwise(self, function: cst.BaseExpression) -> bool:
        """Whether a function of the program's own, which a layer calls, takes elements one by one."""
        made = [value.node for value in self._values.of(function)]
        rows, found = Seen(Form.ROWS, dimensions=0), self._found
        self._found = Shares()
        try:
            return len(made) == 1 and (
                isinstance(node := made[0], (cst.FunctionDef, cst.Lambda))
                and len(taken := parameters(node)) == 1
                and self._returned(node, {taken[0]: rows}) == rows
                and self._found == Shares()
            )
        finally:
            self._found = found

    def _function(
        self, function: Function, call: cst.Call, known: Mapping[cst.Param, Seen]
    ) -> Seen | None:
        """What a function of the program's own returns for what it is given, if that is one expression."""
        inner: dict[cst.Param, Seen] = {}
        named = (
            isinstance(function, cst.FunctionDef) and self._module.class_of(function) is not None
        )
        taken = parameters(function)[1:] if named else parameters(function)
        for place, param in enumerate(taken):
            arg = argument(call, param.name.value, place)
            value = self.seen(arg.value, known) if arg is not None else self._default(param)
            if value is None:
                return None
            inner[param] = value
        return self._returned(function, inner)

    def _default(self, param: cst.Param) -> Seen | None:
        kinds = self._values.kinds(param.default) if param.default is not None else {Kind.UNKNOWN}
        return SAME if kinds <= {Kind.CONSTANT, Kind.NONE} else None

    def _returned(self, function: Function, known: Mapping[cst.Param, Seen]) -> Seen | None:
        """What a function returns, if that is one expression."""
        returned = self._values.index.returns.get(function, [])
        if len(returned) != 1 or function in self._values.index.generators:
            return None
        if isinstance(function, cst.FunctionDef) and not all(
            self._values.qualified(_decorator(each)) == "tensorflow.function"
            for each in function.decorators
        ):
            return None
        return self.seen(returned[0], known)


def _decorator(decorator: cst.Decorator) -> cst.BaseExpression:
    made = decorator.decorator
    return made.func if isinstance(made, cst.Call) else made


def _is_known(values: frozenset[Value]) -> bool:
    return bool(values) and Kind.UNKNOWN not in {value.kind for value in values}


def _is_option(arg: cst.Arg) -> bool:
    """Whether an argument says how a function does something, and is nothing that it takes."""
    return arg.keyword is not None and arg.keyword.value in (
        "from_logits",
        "dtype",
        "name",
        "training",
    )
