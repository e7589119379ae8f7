"""How many parameters a Keras model has, as far as the source shows it.

A `Sequential` model with literal sizes and a known input shape is counted layer by
layer; for anything else nothing is said, since a wrong number is worse than none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

from ..source.cells import JoinedCells
from ..source.parsing import UnparsableError, deep_recursion, parse_python

#: A shape without its batch dimension; None is a dimension of any length.
Shape = tuple[int | None, ...]
FLOAT_BYTES = 4


#: No machine holds more, and JavaScript counts no further.
MAX_PARAMETERS = 2**50


class UnknownSizeError(Exception):
    """The source alone does not tell."""


def list_model_sizes(sources: Sequence[str]) -> list[dict[str, Any]]:
    """Return name, parameters and bytes of each model whose size the cells show, for the panel's cost estimate."""
    try:
        tree = parse_python(JoinedCells.of(sources).python)
    except UnparsableError:
        return []
    constants: dict[str, Any] = {}
    models: dict[str, list[ast.Call]] = {}
    for name, value in find_bindings(tree):
        if name.endswith(".add"):
            if (model := name.removesuffix(".add")) in models and isinstance(value, ast.Call):
                models[model].append(value)
        elif isinstance(value, ast.Call) and called_name(value) == "Sequential":
            models[name] = find_layers(value)
        else:
            models.pop(name, None)
            try:
                with deep_recursion():
                    constants[name] = evaluate_literal(value, constants)
            except UnknownSizeError:
                constants.pop(name, None)
    sizes = []
    for name, layers in models.items():
        try:
            count = count_parameters(layers, constants)
        except UnknownSizeError:
            continue
        if not 0 <= count <= MAX_PARAMETERS:
            continue
        sizes.append({"name": name, "parameters": count, "bytes": FLOAT_BYTES * count})
    return sizes


def find_bindings(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield what top-level statements bind to each name, in order; `model.add(layer)` is yielded as `("model.add", layer)`."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                for target, value in zip(names, values, strict=False):
                    if isinstance(target, ast.Name):
                        yield target.id, value
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(name), "add"), [layer])):
                yield f"{name}.add", layer


def called_name(call: ast.Call) -> str:
    """Return the last part of the called name: `Dense` for `tf.keras.layers.Dense(…)`; '' if there is none."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def find_layers(sequential: ast.Call) -> list[ast.Call]:
    """Return the calls in the list that `Sequential` is given. An element that is no call becomes a call of it, which has no
    known size.
    """
    match sequential.args:
        case [ast.List(elts=layers) | ast.Tuple(elts=layers), *_]:
            # What is not a call cannot be counted, and a call of nothing says so.
            return [x if isinstance(x, ast.Call) else ast.Call(x, [], []) for x in layers]
    return []


def evaluate_literal(node: ast.expr, constants: dict[str, Any]) -> Any:
    """Evaluate an expression of numbers, strings, tuples, products and names bound to such.

    Raises:
        UnknownSizeError: it is another expression, or larger than any size of a model.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(evaluate_literal(element, constants) for element in elements)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = evaluate_literal(left, constants), evaluate_literal(right, constants)
            if isinstance(a, int) and isinstance(b, int) and abs(a * b) <= MAX_PARAMETERS:
                return a * b  # of numbers that are as small themselves, or written out
    raise UnknownSizeError


class Layer:
    """A layer's call, whose arguments are read by position or name."""

    def __init__(self, call: ast.Call, constants: dict[str, Any]) -> None:
        self.call = call
        self.constants = constants

    def read_argument(self, position: int | None, name: str, default: Any = None) -> Any:
        """Return the value of an argument.

        Raises:
            UnknownSizeError: it is not a literal, or may be hidden in `**`.
        """
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return evaluate_literal(keyword.value, self.constants)
            if keyword.arg is None:
                raise UnknownSizeError
        if position is not None and position < len(self.call.args):
            return evaluate_literal(self.call.args[position], self.constants)
        return default

    def read_number(self, position: int, name: str, default: int | None = None) -> int:
        """Return an integer argument.

        Raises:
            UnknownSizeError: it is not a literal integer.
        """
        value = self.read_argument(position, name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnknownSizeError
        return value

    def read_sizes(self, position: int, name: str, default: Any, rank: int) -> tuple[int, ...]:
        """Return one size per spatial dimension, from an argument that is one integer or a tuple of `rank` integers."""
        value = self.read_argument(position, name, default)
        sizes = (value,) * rank if isinstance(value, int) else value
        if not isinstance(sizes, tuple) or len(sizes) != rank:
            raise UnknownSizeError
        return sizes

    def count_bias(self) -> int:
        """Return 1 if the layer has a bias, else 0."""
        return int(bool(self.read_argument(None, "use_bias", True)))

    def read_input_shape(self) -> Shape | None:
        """Return the input shape that the layer states, without the batch dimension; None if it states none."""
        for name in ("input_shape", "shape"):
            shape = self.read_argument(0 if called_name(self.call) == "Input" else None, name)
            if shape is not None:
                return shape if isinstance(shape, tuple) else (shape,)
        width = self.read_argument(None, "input_dim")
        return None if width is None or called_name(self.call) == "Embedding" else (width,)


def count_parameters(layers: Sequence[ast.Call], constants: dict[str, Any]) -> int:
    """Count the trainable parameters of a chain of layers.

    Raises:
        UnknownSizeError: a layer, or the shape of its input, is not known.
    """
    shape: Shape | None = None
    total = 0
    for call in layers:
        layer = Layer(call, constants)
        shape = layer.read_input_shape() or shape
        name = called_name(call)
        if name in ("Input", "InputLayer"):
            continue
        if name not in LAYERS:
            raise UnknownSizeError
        count, shape = LAYERS[name](layer, shape)
        total += count if layer.read_argument(None, "trainable", True) else 0
    if not layers:
        raise UnknownSizeError
    return total


def last_length(shape: Shape | None) -> int:
    """Return the length of the last dimension.

    Raises:
        UnknownSizeError: it is not known.
    """
    if not shape or shape[-1] is None:
        raise UnknownSizeError
    return shape[-1]


def count_dense(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Count the parameters of `Dense`; return the count and the output shape, as every function in `LAYERS` does."""
    units = layer.read_number(0, "units")
    return units * (last_length(shape) + layer.count_bias()), (*(shape or ())[:-1], units)


def count_convolution(rank: int) -> Callable[[Layer, Shape | None], tuple[int, Shape]]:
    """Return the function that counts parameters of a convolution with `rank` spatial dimensions."""

    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        filters = layer.read_number(0, "filters")
        kernel = layer.read_sizes(1, "kernel_size", None, rank)
        if shape is None or len(shape) != rank + 1 or layer.read_argument(None, "groups", 1) != 1:
            raise UnknownSizeError
        strides = layer.read_sizes(2, "strides", 1, rank)
        padding = layer.read_argument(3, "padding", "valid")
        spatial = shape_of_windows(shape[:-1], kernel, strides, padding)
        return filters * (prod(kernel) * last_length(shape) + layer.count_bias()), (
            *spatial,
            filters,
        )

    return count


def count_pooling(rank: int) -> Callable[[Layer, Shape | None], tuple[int, Shape]]:
    """Return the function for pooling layers with `rank` spatial dimensions: no parameters, a smaller shape."""

    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        if shape is None or len(shape) != rank + 1:
            raise UnknownSizeError
        pool = layer.read_sizes(0, "pool_size", 2, rank)
        strides = layer.read_sizes(1, "strides", pool, rank)
        padding = layer.read_argument(2, "padding", "valid")
        return 0, (*shape_of_windows(shape[:-1], pool, strides, padding), shape[-1])

    return count


def shape_of_windows(lengths: Shape, window: Shape, strides: Shape, padding: Any) -> Shape:
    """Return the spatial output shape of a convolution or pooling: one position per window along each dimension."""
    if padding not in ("valid", "same"):
        raise UnknownSizeError
    return tuple(
        None
        if n is None or w is None or s is None
        else -(-n // s)
        if padding == "same"
        else (n - w) // s + 1
        for n, w, s in zip(lengths, window, strides, strict=True)
    )


def count_recurrent(
    gates: int, biases: int = 1
) -> Callable[[Layer, Shape | None], tuple[int, Shape]]:
    """Return the function that counts parameters of a recurrent layer.

    Args:
        gates: how many weight matrices of each kind the layer has, 4 for LSTM.
        biases: how many bias vectors each gate has.
    """

    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        units = layer.read_number(0, "units")
        bias = layer.count_bias() * biases
        kept = (shape or ())[:-1] if layer.read_argument(None, "return_sequences", False) else ()
        return gates * units * (last_length(shape) + units + bias), (*kept, units)

    return count


def count_embedding(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Count the entries of an embedding table; return the count and the output shape."""
    width = layer.read_number(1, "output_dim")
    return layer.read_number(0, "input_dim") * width, (*(shape or (None,)), width)


def count_normalization(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Count the parameters of batch or layer normalization: a scale and an offset per feature, where enabled."""
    trained = sum(bool(layer.read_argument(None, name, True)) for name in ("center", "scale"))
    return trained * last_length(shape), shape or ()


def flatten_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Return no parameters, and the shape with all dimensions joined into one."""
    if shape is None or any(n is None for n in shape):
        raise UnknownSizeError
    return 0, (prod(n for n in shape if n is not None),)


def reduce_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Return no parameters, and only the last dimension: global pooling."""
    return 0, (last_length(shape),)


def reshape_to(layer: Layer, _: Shape | None) -> tuple[int, Shape]:
    """Return no parameters, and the layer's `target_shape`."""
    shape = layer.read_argument(0, "target_shape")
    if not isinstance(shape, tuple) or -1 in shape:
        raise UnknownSizeError
    return 0, shape


def keep_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Return no parameters, and the same shape: dropout, activations and the like."""
    if shape is None:
        raise UnknownSizeError
    return 0, shape


LAYERS: dict[str, Callable[[Layer, Shape | None], tuple[int, Shape]]] = {
    "Dense": count_dense,
    "Conv1D": count_convolution(1),
    "Conv2D": count_convolution(2),
    "Conv3D": count_convolution(3),
    "MaxPooling1D": count_pooling(1),
    "MaxPooling2D": count_pooling(2),
    "MaxPool2D": count_pooling(2),
    "AveragePooling2D": count_pooling(2),
    "GlobalAveragePooling1D": reduce_shape,
    "GlobalAveragePooling2D": reduce_shape,
    "GlobalMaxPooling1D": reduce_shape,
    "GlobalMaxPooling2D": reduce_shape,
    "LSTM": count_recurrent(4),
    "GRU": count_recurrent(3, biases=2),
    "SimpleRNN": count_recurrent(1),
    "Embedding": count_embedding,
    "BatchNormalization": count_normalization,
    "LayerNormalization": count_normalization,
    "Flatten": flatten_shape,
    "Reshape": reshape_to,
    **dict.fromkeys(("Dropout", "SpatialDropout2D", "GaussianNoise"), keep_shape),
    **dict.fromkeys(("Activation", "ReLU", "LeakyReLU", "ELU", "Softmax", "Rescaling"), keep_shape),
    **dict.fromkeys(("RandomFlip", "RandomRotation", "RandomZoom"), keep_shape),
}
