"""Keras' own layers that answer each row of a batch by itself, and what they are given.

Whatever is not listed here, a layer or an argument of one, may make rows go by one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument
from ...analysis.values import ValueAnalysis

_LAYERS = "tensorflow.keras.layers."
_CONVOLUTION, _POOLING = "filters kernel_size strides padding", "pool_size strides padding"
_RECURRENT = "units activation recurrent_activation"
#: Each with its first arguments, by position.
_ROWWISE = {
    "Activation": "activation",
    "Dense": "units activation",
    "DepthwiseConv2D": "kernel_size strides padding",
    "Dropout": "rate",
    "ELU": "alpha",
    "Embedding": "input_dim output_dim",
    "GaussianDropout": "rate",
    "GaussianNoise": "stddev",
    "Input": "shape",
    "InputLayer": "",
    "LayerNormalization": "axis",
    "LeakyReLU": "negative_slope",
    "Normalization": "axis",
    "Permute": "dims",
    "PReLU": "",
    "ReLU": "max_value",
    "RepeatVector": "n",
    "Rescaling": "scale offset",
    "Reshape": "target_shape",
    "Flatten": "",
    "Softmax": "axis",
    "TimeDistributed": "layer",
    "Bidirectional": "layer",
    **dict.fromkeys(("GRU", "LSTM", "SimpleRNN"), _RECURRENT),
    **{f"{kind}Conv{n}D": _CONVOLUTION for n in (1, 2) for kind in ("", "Separable")},
    **dict.fromkeys(("Conv3D", "Conv1DTranspose", "Conv2DTranspose"), _CONVOLUTION),
    **{f"{kind}Pooling{n}D": _POOLING for n in (1, 2, 3) for kind in ("Average", "Max")},
    **{f"Global{kind}Pooling{n}D": "" for n in (1, 2, 3) for kind in ("Average", "Max")},
    **{f"SpatialDropout{n}D": "rate" for n in (1, 2, 3)},
    **{f"{kind}{n}D": of for kind, of in (("ZeroPadding", "padding"), ("Cropping", "cropping"),
                                          ("UpSampling", "size")) for n in (1, 2, 3)},
}  # fmt: skip
#: What is called on rows.
_CALLED = frozenset({"activation", "recurrent_activation"})
#: Arguments that are not asked of rows, and leave the rows of a batch apart.
_HARMLESS = frozenset(
    "units filters kernel_size strides padding dilation_rate groups data_format use_bias pool_size rate stddev seed name dtype "
    "trainable alpha negative_slope max_value threshold epsilon center scale offset mean variance n dims target_shape size "
    "cropping interpolation input_dim output_dim input_shape shape return_sequences go_backwards dropout recurrent_dropout "
    "unroll merge_mode depth_multiplier output_padding shared_axes reset_after implementation unit_forget_bias".split()
) | {
    f"{what}_{kind}"
    for what in "alpha beta bias depthwise embeddings gamma kernel pointwise recurrent".split()
    for kind in ("initializer", "regularizer", "constraint")
}
#: Activations of Keras that take elements one by one, or along the last axis of several.
_ACTIVATIONS = frozenset(
    "celu elu exponential gelu hard_sigmoid hard_silu hard_swish leaky_relu linear log_sigmoid log_softmax mish relu relu6 "
    "selu sigmoid silu softmax softplus softsign swish tanh".split()
)
#: How many dimensions the answers of a layer have, whatever it is asked.
_DIMENSIONS = {"Flatten": 2, "RepeatVector": 3} | {
    f"Global{kind}Pooling{n}D": 2 for n in (1, 2, 3) for kind in ("Average", "Max")
}
_RECURRENT_LAYERS = frozenset({"GRU", "LSTM", "SimpleRNN"})
_UNKNOWN_DIMENSIONS = frozenset({"Embedding", "TimeDistributed"})


def is_rowwise(
    values: ValueAnalysis,
    expression: cst.BaseExpression,
    calls_rowwise: Callable[[cst.BaseExpression], bool],
) -> bool:
    """Whether an expression makes a layer that answers each row by itself.

    Args:
        calls_rowwise: whether a function of the program's own does.
    """
    if not isinstance(expression, cst.Call):
        return False
    places = _ROWWISE.get(_name(values, expression))
    if places is None:
        return False
    for name, value in _given(expression, places):
        if name in _CALLED:
            is_known = _is_activation(values, value) or calls_rowwise(value)
            fits = is_known or is_rowwise(values, value, calls_rowwise)
        elif name == "layer":
            fits = is_rowwise(values, value, calls_rowwise)
        elif name == "axis":
            fits = values.module.text(value).replace(" ", "") == "-1"
        else:
            fits = name in _HARMLESS
        if not fits:
            return False
    return True


def dimensions(values: ValueAnalysis, layer: cst.Call, before: int | None) -> int | None:
    """How many dimensions the answers of such a layer have.

    Args:
        before: how many it is asked of: so many more than the inputs where that is 0 or less. None if that is not known.
    """
    name = _name(values, layer)
    if name == "Reshape":
        shape = argument(layer, "target_shape", 0)
        known = shape is not None and isinstance(shape.value, (cst.Tuple, cst.List))
        return 1 + len(shape.value.elements) if known else None  # type: ignore[union-attr]
    if name == "Bidirectional":
        inner = argument(layer, "layer", 0)
        known = inner is not None and isinstance(inner.value, cst.Call)
        return dimensions(values, inner.value, before) if known else None  # type: ignore[union-attr,arg-type]
    if name in _RECURRENT_LAYERS:
        return 2 if argument(layer, "return_sequences") is None else None
    return None if name in _UNKNOWN_DIMENSIONS else _DIMENSIONS.get(name, before)


def _name(values: ValueAnalysis, layer: cst.Call) -> str:
    name = values.qualified(layer.func)
    if name == "tensorflow.keras.Input":
        return "Input"
    return name.removeprefix(_LAYERS) if name.startswith(_LAYERS) else ""


def _given(call: cst.Call, places: str) -> Iterator[tuple[str, cst.BaseExpression]]:
    """The arguments of a call by their names; '' is the name of one that is not known."""
    names = places.split()
    for place, arg in enumerate(call.args):
        if arg.keyword is not None:
            yield arg.keyword.value, arg.value
        else:
            yield names[place] if place < len(names) and not arg.star else "", arg.value


def _is_activation(values: ValueAnalysis, expression: cst.BaseExpression) -> bool:
    if isinstance(expression, cst.SimpleString):
        return expression.evaluated_value in _ACTIVATIONS
    if values.kinds(expression) == {Kind.NONE}:
        return True
    module, _, last = values.qualified(expression).rpartition(".")
    of_library = ("tensorflow", "tensorflow.math", "tensorflow.nn", "tensorflow.keras.activations")
    return module in of_library and last in _ACTIVATIONS
