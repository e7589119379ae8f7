"""The settings of Keras' and TensorFlow's objects, to find ranks with different models."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .bounded_calls import BoundedCalls
from .code import code_of
from .paths import LIBRARIES, TRAINED, module_of
from .serialization import is_plain, keras_kind, rate_of


def settings_of(value: Any, calls: BoundedCalls | None = None) -> Mapping[str, Any]:
    """Return the settings of an optimizer, another Keras object, or a dataset, by attribute.

    Args:
        calls: for the user's own code; None to call none of it.
    """
    found: dict[str, Any] = {}
    with suppress(Exception):  # of the user's own code, or of a model that does not know its layers
        if is_dataset(value):
            found["stages"] = stages_of(value)
        if keras_kind(value) not in TRAINED:
            return found
        if hasattr(type(value), "apply_gradients") and (rate := rate_of(value)) is not None:
            found["learning_rate"] = rate
        if not hasattr(type(value), "get_config"):
            return found
        if not has_own_layers(value):
            found["get_config()"] = value.get_config()
        elif calls is not None:
            found["get_config()"] = calls.call(value.get_config)
    return found


def has_own_layers(value: Any) -> bool:
    """Whether a class of the user's own takes part in an object of Keras."""
    parts = value._flatten_layers() if hasattr(type(value), "_flatten_layers") else [value]
    return any(module_of(part) not in LIBRARIES for part in parts)


def is_dataset(value: Any) -> bool:
    """Whether a value is a `tf.data.Dataset`, which an imported TensorFlow has made."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


def stages_of(dataset: Any) -> list[Mapping[str, Any]]:
    """Return the stages of a dataset, the last first: kind, parameters such as seeds, and data in memory."""
    from ..runtime.sharing.dataset_stages import all_stages, kind_of

    return [{"kind": kind_of(each), **_parameters_of(each)} for each in all_stages(dataset)]


def _parameters_of(stage: Any) -> Mapping[str, Any]:
    """Return the parameters of a stage of a dataset, and the code of its function."""
    function = getattr(getattr(stage, "_map_func", None), "_func", None)
    code = getattr(function, "__code__", None)
    found = {
        name.removeprefix("_"): _as_numbers(value)
        for name, value in vars(stage).items()
        if name not in ("_name", "_input_dataset", "_variant_tensor", "_variant_tensor_attr")
    }
    plain = {name: value for name, value in found.items() if is_plain(value) and value is not None}
    return {**plain, **({"code": code_of(code)} if code is not None else {})}


def _as_numbers(value: Any) -> Any:
    """Return a tensor as an array, and so those of a list."""
    if isinstance(value, list):
        return [_as_numbers(each) for each in value]
    if keras_kind(value) != "tensor" or not value.dtype.is_numpy_compatible:
        return value
    array = value.numpy()
    is_numeric = getattr(array, "shape", ()) and array.dtype.kind != "O"
    return array if is_numeric else array.tolist() if hasattr(array, "tolist") else array
