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


def model_sizes(sources: Sequence[str]) -> list[dict[str, Any]]:
    """Name, parameters and bytes of each model in some cells whose size can be known."""
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
            models[name] = layers_of(value)
        else:
            models.pop(name, None)
            try:
                with deep_recursion():
                    constants[name] = literal_value(value, constants)
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
    """What the top level binds to names, and `model.add` to its argument, in order."""
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
    """The last part of what is called: `Dense` in `tf.keras.layers.Dense(…)`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def layers_of(sequential: ast.Call) -> list[ast.Call]:
    match sequential.args:
        case [ast.List(elts=layers) | ast.Tuple(elts=layers), *_]:
            # What is not a call cannot be counted, and a call of nothing says so.
            return [x if isinstance(x, ast.Call) else ast.Call(x, [], []) for x in layers]
    return []


def literal_value(node: ast.expr, constants: dict[str, Any]) -> Any:
    """The value of an expression of numbers, strings, tuples and names bound to such.

    Raises:
        UnknownSizeError: it is another expression, or larger than any size of a model.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in constants:
            return constants[name]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return tuple(literal_value(element, constants) for element in elements)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = literal_value(left, constants), literal_value(right, constants)
            if isinstance(a, int) and isinstance(b, int) and abs(a * b) <= MAX_PARAMETERS:
                return a * b  # of numbers that are as small themselves, or written out
    raise UnknownSizeError


class Layer:
    """A layer's call, its arguments read by position or name."""

    def __init__(self, call: ast.Call, constants: dict[str, Any]) -> None:
        self.call = call
        self.constants = constants

    def argument(self, position: int | None, name: str, default: Any = None) -> Any:
        for keyword in self.call.keywords:
            if keyword.arg == name:
                return literal_value(keyword.value, self.constants)
            if keyword.arg is None:
                raise UnknownSizeError
        if position is not None and position < len(self.call.args):
            return literal_value(self.call.args[position], self.constants)
        return default

    def number(self, position: int, name: str, default: int | None = None) -> int:
        value = self.argument(position, name, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UnknownSizeError
        return value

    def size_each(self, position: int, name: str, default: Any, rank: int) -> tuple[int, ...]:
        """A size for each spatial dimension, written once or for each."""
        value = self.argument(position, name, default)
        sizes = (value,) * rank if isinstance(value, int) else value
        if not isinstance(sizes, tuple) or len(sizes) != rank:
            raise UnknownSizeError
        return sizes

    def count_bias(self) -> int:
        return int(bool(self.argument(None, "use_bias", True)))

    def input_shape(self) -> Shape | None:
        for name in ("input_shape", "shape"):
            shape = self.argument(0 if called_name(self.call) == "Input" else None, name)
            if shape is not None:
                return shape if isinstance(shape, tuple) else (shape,)
        width = self.argument(None, "input_dim")
        return None if width is None or called_name(self.call) == "Embedding" else (width,)


def count_parameters(layers: Sequence[ast.Call], constants: dict[str, Any]) -> int:
    """The trainable parameters of a chain of layers.

    Raises:
        UnknownSizeError: a layer, or the shape of its input, is not known.
    """
    shape: Shape | None = None
    total = 0
    for call in layers:
        layer = Layer(call, constants)
        shape = layer.input_shape() or shape
        name = called_name(call)
        if name in ("Input", "InputLayer"):
            continue
        if name not in LAYERS:
            raise UnknownSizeError
        count, shape = LAYERS[name](layer, shape)
        total += count if layer.argument(None, "trainable", True) else 0
    if not layers:
        raise UnknownSizeError
    return total


def feature_count(shape: Shape | None) -> int:
    """The length of the last dimension."""
    if not shape or shape[-1] is None:
        raise UnknownSizeError
    return shape[-1]


def count_dense(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    units = layer.number(0, "units")
    return units * (feature_count(shape) + layer.count_bias()), (*(shape or ())[:-1], units)


def count_convolution(rank: int) -> Callable[[Layer, Shape | None], tuple[int, Shape]]:
    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        filters = layer.number(0, "filters")
        kernel = layer.size_each(1, "kernel_size", None, rank)
        if shape is None or len(shape) != rank + 1 or layer.argument(None, "groups", 1) != 1:
            raise UnknownSizeError
        strides = layer.size_each(2, "strides", 1, rank)
        padding = layer.argument(3, "padding", "valid")
        spatial = slide_window(shape[:-1], kernel, strides, padding)
        return filters * (prod(kernel) * feature_count(shape) + layer.count_bias()), (
            *spatial,
            filters,
        )

    return count


def count_pooling(rank: int) -> Callable[[Layer, Shape | None], tuple[int, Shape]]:
    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        if shape is None or len(shape) != rank + 1:
            raise UnknownSizeError
        pool = layer.size_each(0, "pool_size", 2, rank)
        strides = layer.size_each(1, "strides", pool, rank)
        padding = layer.argument(2, "padding", "valid")
        return 0, (*slide_window(shape[:-1], pool, strides, padding), shape[-1])

    return count


def slide_window(lengths: Shape, window: Shape, strides: Shape, padding: Any) -> Shape:
    """The lengths that remain when a window slides along each dimension."""
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
    def count(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
        units = layer.number(0, "units")
        bias = layer.count_bias() * biases
        kept = (shape or ())[:-1] if layer.argument(None, "return_sequences", False) else ()
        return gates * units * (feature_count(shape) + units + bias), (*kept, units)

    return count


def count_embedding(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    width = layer.number(1, "output_dim")
    return layer.number(0, "input_dim") * width, (*(shape or (None,)), width)


def count_normalization(layer: Layer, shape: Shape | None) -> tuple[int, Shape]:
    """Batch and layer normalization train a scale and an offset for each feature."""
    trained = sum(bool(layer.argument(None, name, True)) for name in ("center", "scale"))
    return trained * feature_count(shape), shape or ()


def flatten_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
    if shape is None or any(n is None for n in shape):
        raise UnknownSizeError
    return 0, (prod(n for n in shape if n is not None),)


def reduce_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
    return 0, (feature_count(shape),)


def reshape_to(layer: Layer, _: Shape | None) -> tuple[int, Shape]:
    shape = layer.argument(0, "target_shape")
    if not isinstance(shape, tuple) or -1 in shape:
        raise UnknownSizeError
    return 0, shape


def keep_shape(_: Layer, shape: Shape | None) -> tuple[int, Shape]:
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
