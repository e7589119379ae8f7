"""Serializes values that are sent between the notebook and the ranks.

Plain data travels as it is. What holds weights (a Keras model, a layer, an
optimizer's variables, a `tf.Variable`) is never rebuilt from a message: its weights
are set in the object that the cells have made on the other side.
"""

from __future__ import annotations

import hashlib
import importlib
import mmap
import pickle
import random
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from ..runtime.scaling import rate_factor

#: Values up to this size come back from a cell, and are pushed, without being asked for.
SMALL = 64 * 2**20
PLAIN_MODULES = frozenset(
    {"builtins", "numpy", "pandas", "datetime", "decimal", "fractions", "pathlib", "collections"}
)


@dataclass(frozen=True)
class SerializedValue:
    """A value as it travels.

    Attributes:
        kind: "plain": the value, in `data`; "weights": its weights, arrays; "state": likewise; "history": what Keras's
            `fit` returns, as a dictionary; "linked": as `links` makes it; "module": the name to import; "none": it stays
            where it is, `why` says why.
    """

    kind: Literal["plain", "weights", "state", "history", "linked", "module", "none"]
    data: Any = None
    shape: Any = None
    why: str = ""


def pack_value(value: Any, limit: int | None = SMALL) -> SerializedValue:
    """Serialize a value for another process; the result is of kind "none", with a reason, if that is impossible.

    Args:
        limit: the largest size of a plain value in bytes; None for no limit.
    """
    keras = keras_kind(value)
    if keras == "history":
        kept = {name: getattr(value, name, {}) for name in ("history", "epoch", "params")}
        return SerializedValue("history", kept)
    if keras == "weights" or keras == "state":
        try:
            shape = build_shape(value) if keras == "weights" else None
            if is_random_generator(value):
                return SerializedValue(keras, [pickle.dumps(generator_state(value))])
            steps, each = steps_of(value)
            arrays = [v.numpy() * each if v is steps else v.numpy() for v in weights_of(value)]
            return SerializedValue(keras, arrays, shape)
        except Exception as error:
            return SerializedValue("none", why=f"{type(error).__name__}: {error}")
    if keras == "tensor":
        return pack_value(value.numpy(), limit)
    if not is_plain(value):
        return SerializedValue("none", why=explain_not_transferable(value))
    if limit is not None and size_of(value) > limit:
        return SerializedValue("none", why=f"it is larger than {limit // 2**20} MB")
    return SerializedValue("plain", value)


def pack_module(module: ModuleType) -> SerializedValue:
    """Serialize a module as its name; of kind "none" for a module that the program itself created."""
    if module.__spec__ is None or sys.modules.get(module.__name__) is not module:
        return SerializedValue("none", why=explain_not_transferable(module))
    return SerializedValue("module", module.__name__)


def explain_not_transferable(value: Any) -> str:
    """Return why a value of this type cannot be sent."""
    return f"a {type(value).__name__} cannot be copied between processes"


def unpack_value(packed: SerializedValue, target: Any) -> Any:
    """Return the value that was packed; weights and state are set in `target`, which is returned.

    Raises:
        ValueError: the value was not sent, or does not fit `target`.
    """
    if packed.kind == "plain":
        return packed.data
    if packed.kind == "history":
        return unpack_history(packed.data)
    if packed.kind == "module":
        return importlib.import_module(packed.data)
    if packed.kind in ("weights", "state"):
        set_weights(target, packed)
        return target
    raise ValueError(packed.why)


def digest_value(packed: SerializedValue) -> int:
    """Return the first 64 bits of the SHA-256 of a packed value."""
    state = hashlib.sha256()

    def take_buffer(buffer: pickle.PickleBuffer) -> bool:
        state.update(buffer.raw())
        return False

    state.update(pickle.dumps((packed.kind, packed.data), protocol=5, buffer_callback=take_buffer))
    return int.from_bytes(state.digest()[:8], "big")


# Plain values


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is data only: numbers, text, arrays, tables, and containers of these."""
    # Functions and classes, that of a value among them, travel as names, which mean nothing elsewhere.
    if type(value).__module__ == "__main__":
        return False
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, slice, range)):
        return True
    if depth > 8 or callable(value):
        return False
    if isinstance(value, dict):
        return makes_plain(getattr(value, "default_factory", None)) and all(
            is_plain(k, depth + 1) and is_plain(v, depth + 1) for k, v in value.items()
        )
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return type(value).__module__ in ("builtins", "collections") and all(
            is_plain(v, depth + 1) for v in value
        )
    kind = type(value)
    top = kind.__module__.partition(".")[0]
    if top == "numpy":
        return (
            getattr(value, "dtype", None) is not None and value.dtype.kind != "O"
        ) or kind.__name__ == "dtype"
    if top in PLAIN_MODULES:
        return is_picklable(value)
    return False


def makes_plain(factory: Any) -> bool:
    """Whether the factory of a `defaultdict`, if it has one, can be imported by name in every process."""
    return factory is None or getattr(factory, "__module__", "") == "builtins"


def is_picklable(value: Any) -> bool:
    """Whether a value can be pickled."""
    try:
        pickle.dumps(value, protocol=5, buffer_callback=lambda _: False)
    except Exception:
        return False
    return True


def size_of(value: Any) -> int:
    """Return about how many bytes a plain value takes."""
    if isinstance(value, SerializedValue):
        return size_of(value.data)
    if hasattr(value, "nbytes"):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(size_of(k) + size_of(v) for k, v in value.items())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return sum(size_of(v) for v in value)
    return sys.getsizeof(value)


# Keras; nothing of it is imported here: a value of its types comes from a process that has


def keras_kind(value: Any) -> Literal["history", "weights", "state", "tensor"] | None:
    """Return how a Keras or TensorFlow object is sent: by weights, by training state, in full; None for others."""
    keras, tf = loaded_keras(), sys.modules.get("tensorflow")
    if is_random_generator(value):
        return "state"
    if tf is None or isinstance(value, type):
        return None
    if keras is not None and isinstance(value, keras.callbacks.History):
        return "history"
    if isinstance(value, (tf.random.Generator, *state_types(keras))):
        return "state"  # metrics of Keras 2 are layers, too
    kinds = (
        tf.Variable,
        *(
            (keras.layers.Layer, getattr(keras, "Variable", tf.Variable))
            if keras is not None
            else ()
        ),
    )
    if isinstance(value, kinds):
        return "weights"
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return "tensor"
    return None


def state_types(keras: Any) -> tuple[type, ...]:
    """Return Keras's types with training state and no weights: optimizers, metrics, seed generators."""
    if keras is None:
        return ()
    optimizers = keras.optimizers
    legacy = getattr(getattr(optimizers, "legacy", None), "Optimizer", optimizers.Optimizer)
    generator = getattr(getattr(keras, "random", None), "SeedGenerator", legacy)
    return (optimizers.Optimizer, legacy, keras.metrics.Metric, generator)


def is_random_generator(value: Any) -> bool:
    """Whether a value is a generator of random numbers of NumPy's or Python's."""
    np = sys.modules.get("numpy")
    of_numpy = (np.random.Generator, np.random.RandomState) if np is not None else ()
    return isinstance(value, (random.Random, *of_numpy))


def has_stream_position(value: Any) -> bool:
    """Whether a value has a position in a stream: an iterator or a random generator."""
    tf = sys.modules.get("tensorflow")
    if isinstance(value, type):
        return False
    if tf is not None and isinstance(value, (tf.data.Dataset, tf.random.Generator)):
        return True
    # Iterators; and Keras's own datasets, which shuffle between epochs.
    return (
        isinstance(value, Iterator) or is_random_generator(value) or hasattr(value, "on_epoch_end")
    )


def loaded_keras() -> Any:
    """Return the Keras with which this process trains; None if none is imported."""
    return sys.modules.get("tf_keras") or sys.modules.get("keras")


def weights_of(value: Any) -> list[Any]:
    """Return the variables of a model or layer, or a variable itself; for an optimizer, those of `state_of`.

    Returns an empty list if they have not been created yet.
    """
    if keras_kind(value) == "state":
        return state_of(value)
    if not hasattr(type(value), "weights"):
        return [value]
    try:
        return list(value.weights)
    except ValueError:  # Keras's way to say that the model has not seen an input
        return []


def state_of(value: Any) -> list[Any]:
    """Return the variables of an optimizer except its rate, of a metric, or of a generator.

    Returns an empty list for an optimizer that has not trained.
    """
    if is_random_generator(value):
        return [value]
    if not hasattr(value, "apply_gradients"):
        return [value.state] if hasattr(value, "state") else list(value.variables)
    wrapped = getattr(value, "inner_optimizer", value)  # of one that scales losses
    rates = {id(getattr(each, "_learning_rate", None)) for each in (value, wrapped)}
    variables = value.variables() if callable(value.variables) else value.variables
    legacy = not hasattr(wrapped, "build")  # whose variables are made as they are needed
    is_built = getattr(wrapped, "built", getattr(wrapped, "_built", legacy))
    return [each for each in variables if id(each) not in rates] if is_built else []


def steps_of(value: Any) -> tuple[Any, int]:
    """Return the variable in which an optimizer counts its steps, and how many steps of one process each stands for.

    Returns None and 1 for other objects. Counts are sent in steps of one process.
    """
    optimizer = getattr(value, "inner_optimizer", value)  # of one that scales losses
    if not hasattr(optimizer, "apply_gradients"):
        return None, 1
    return getattr(optimizer, "iterations", None), rate_factor(optimizer)


def rate_of(optimizer: Any) -> float | None:
    """Return the learning rate of an optimizer; None if it has none, or a schedule."""
    rate = getattr(optimizer, "_learning_rate", None)
    if rate is None:
        rate = getattr(optimizer, "learning_rate", None)
    try:
        return float(rate)  # type: ignore[arg-type]
    except Exception:
        return None  # a schedule; or an optimizer of the user's own has something else by this name


def build_shape(model: Any) -> Any:
    """Return what Keras needs to create a model's weights: a shape or a configuration; None if nothing."""
    shape = getattr(model, "_build_input_shape", None)
    if shape is not None:
        return shape.as_list() if hasattr(shape, "as_list") else shape
    return model.get_build_config() if hasattr(model, "get_build_config") else None


def set_weights(target: Any, packed: SerializedValue) -> None:
    """Set packed weights or state in an object; build it first if it has no weights yet.

    Raises:
        ValueError: the object is of another kind, or has other shapes.
    """
    if not packed.data:
        return
    if keras_kind(target) != packed.kind:
        what = "these weights" if packed.kind == "weights" else "this state"
        raise ValueError(f"there is no object here that {what} could be set in")
    if is_random_generator(target):
        set_generator_state(target, pickle.loads(packed.data[0]))  # noqa: S301 — from the user's own processes
        return
    if packed.kind == "weights" and not weights_of(target) and packed.shape is not None:
        if isinstance(packed.shape, dict) and hasattr(target, "build_from_config"):
            target.build_from_config(packed.shape)
        else:
            target.build(packed.shape)
    own = weights_of(target)
    if [tuple(a.shape) for a in own] != [a.shape for a in packed.data]:
        what = "weights have" if packed.kind == "weights" else "state has"
        raise ValueError(f"its {what} other shapes")
    steps, each = steps_of(target)
    for variable, array in zip(own, packed.data, strict=True):
        variable.assign(array // each if variable is steps else array)


def unpack_history(data: dict[str, Any]) -> Any:
    """Create a Keras `History` from the attributes that were packed."""
    history = (loaded_keras() or importlib.import_module("keras")).callbacks.History()
    history.history, history.epoch, history.params = data["history"], data["epoch"], data["params"]
    return history


def read_pushed(head: bytes, path: str | None, extents: list[tuple[int, int]]) -> Any:
    """Return the values that `transfer.push_values` has sent.

    Args:
        head: a pickle.
        path: a file of shared memory with the pickle's buffers; None if it has none.
        extents: offset and length of each buffer, in bytes.
    """
    if path is None:
        return pickle.loads(head)  # noqa: S301 — from the user's own kernel, over a signed channel
    with Path(path).open("rb") as file:
        # Private: what a rank writes to is its own. The arrays keep the memory when the file has gone.
        memory = memoryview(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE))
    buffers = [memory[start : start + length] for start, length in extents]
    return pickle.loads(head, buffers=buffers)  # noqa: S301 — the same


def generator_state(generator: Any) -> Any:
    """Return the state of a generator of NumPy's or Python's."""
    if hasattr(generator, "getstate"):
        return generator.getstate()
    bits = getattr(generator, "bit_generator", None)
    return generator.get_state() if bits is None else bits.state


def set_generator_state(generator: Any, state: Any) -> None:
    """Set the state of a generator of NumPy's or Python's, as `generator_state` returned it."""
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
