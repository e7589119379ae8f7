"""Checks whether a call computes each row separately."""

from __future__ import annotations

import contextlib
import functools
import io
import random
import threading
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from ..observe import Function, Observation
from . import keras_versions
from .calls import Batch, compute_shared, describe_batch, is_tensor
from .checksums import DifferentDataError, describe_different_data
from .context import NotByRowsError, sharing
from .own_rows import attach_own_rows, find_own_rows
from .report import name_of

#: How the names of methods begin that change a variable.
WRITES = ("assign", "scatter_", "batch_scatter", "_strided_slice_assign")
#: A relative difference that is rounding, by what a layer computes in.
ROUNDING = {"float64": 1e-5, "float32": 1e-4, "bfloat16": 3e-2}
#: Sizes to try for a dimension that is not known, and bounds for whole numbers.
SIZES = (8, 32, 96, 224)
BOUNDS = (100, 10, 2)
#: The eager call after which it is checked again.
AGAIN = 100
#: In the errors of collectives after a rank has failed.
SHUT_DOWN = "Horovod has been shut down"
#: Why a layer's first call runs unsharded.
NOT_YET = "its weights are made in this call"
#: Attributes that Keras itself changes in a call.
KERAS_OWN = {
    "_call_context_args", "_called", "_loss_ids", "_losses", "_metrics", "_build_shapes_dict", "built", "_built",
    "_thread_local", "_updates", "_eager_losses", "_saved_model_inputs_spec", "_saved_model_arg_spec", "_input_spec",
    "_obj_reference_counts_dict", "_self_tracked_trackables", "_compiled_trainable_state", "_trainable_state",
    "_dropout_mask", "_recurrent_dropout_mask", "_keras_api_names", "_dropout_mask_cache", "_recurrent_dropout_mask_cache",
}  # fmt: skip


class Verdict:
    """The result of the row check for a layer and a kind of batch.

    Attributes:
        reason: why the call runs unsharded, or "". calls: the number of calls since the check.
        other_sizes: see `Region`.
    """

    def __init__(self, reason: str = "", other_sizes: frozenset[int] = frozenset()) -> None:
        self.reason = reason
        self.calls = 0
        self.other_sizes = other_sizes


_verdicts: WeakKeyDictionary[Any, dict[Any, Verdict]] = WeakKeyDictionary()


def find_unsharded_reason(
    call: Function, owner: Any, keras: Any, batch: Batch, args: Any, options: Any
) -> str:
    """Return why a call must run unsharded, "" where it can be shared. Checks the call if there is no verdict yet.

    Raises:
        RuntimeError: it computed each row separately at first, and does not any more.
    """
    known = _verdicts.setdefault(owner, {})
    found = known.get((batch.key, switch_attributes(owner, keras)))
    own = None if batch.rows is None else -(-batch.rows // sharing.size)
    if found is None or own in found.other_sizes:
        reason = explain_unsuited(owner, keras)
        if not reason and isinstance(owner, keras.Layer) and keras.builds_itself(owner):
            reason = build_layer(owner, keras, args, options)
            if reason:
                return reason  # this time
        if not reason and sharing.guarded and isinstance(owner, keras.Layer):
            require_equal_weights(owner)
        found = Verdict(reason) if reason else check_call(call, owner, keras, batch, args, options)
        known[batch.key, switch_attributes(owner, keras)] = found  # it may have been built since
    elif not found.reason and tf.executing_eagerly():
        found.calls += 1
        if found.calls == AGAIN:
            again = check_call(call, owner, keras, batch, args, options)
            if again.reason:
                raise RuntimeError(
                    f"jupyter_hvd: a call computed each row by itself at first, and after {AGAIN} calls does not: "
                    f"{again.reason}. Its results may differ from one process's; do not share this program."
                )
    return found.reason


def switch_attributes(owner: Any, keras: Any) -> tuple[Any, ...]:
    """Return the attributes on which a layer and its parts may depend: `trainable`, strings and booleans."""
    if not isinstance(owner, keras.Layer):
        return ()
    return tuple(
        (bool(layer.trainable), tuple(v for v in vars(layer).values() if type(v) in (bool, str)))
        for layer in keras.layers_of(owner)
    )


def explain_unsuited(owner: Any, keras: Any) -> str:
    """Return why a layer cannot be shared, without calling it; "" if it may be."""
    if isinstance(owner, keras.Layer):
        if "float16" in keras.compute_dtypes(owner):
            return (
                "it computes in float16, whose range sharing would use otherwise than one process"
            )
        if any(getattr(layer, "stateful", False) for layer in keras.layers_of(owner)):
            return "a recurrent layer keeps its state from batch to batch"
    return ""


def require_equal_weights(layer: Any) -> None:
    """Check that the ranks have equal weights, up to differences from sums in no fixed order.

    Raises:
        DifferentDataError: they do not, on all ranks.
    """
    with tf.init_scope():
        values = [np.asarray(tf.convert_to_tensor(v)) for v in layer.weights if v.dtype != "string"]
        bits = functools.reduce(lambda seen, v: zlib.crc32(v.tobytes(), seen), values, 0)
        if len(set(hvd.allgather(np.array([bits], np.int64)).numpy())) == 1:
            return
        sums = [[project_sum(v), np.sum(np.abs(v.astype(np.float64)))] for v in values]
        every = hvd.allgather(np.array([sums], np.float64)).numpy()
    allowed = ROUNDING["float32"] * np.max(every[..., 1], 0)
    if np.any(np.abs(every[..., 0] - every[0, :, 0]) > allowed):
        raise DifferentDataError(
            f"{describe_different_data('')} The weights of {name_of(layer)} differ."
        )


def project_sum(value: Any) -> float:
    """Return a weighted sum of an array's entries, with a different weight for each."""
    return float(np.sum(np.cos(0.7 * np.arange(value.size)) * value.astype(np.float64).ravel()))


def build_layer(owner: Any, keras: Any, args: Any, options: Any) -> str:
    """Create a layer's weights before anything is computed; return why that is not possible, or ""."""
    not_yet = NOT_YET
    if tf.executing_eagerly():
        return not_yet

    def symbol(leaf: Any) -> Any:
        return keras.make_symbol(tf.TensorSpec(leaf.shape, leaf.dtype)) if is_tensor(leaf) else leaf

    try:
        with tf.init_scope(), sharing.run_whole():
            given_args, given_options = tf.nest.map_structure(symbol, (args, options))
            owner(*given_args, **given_options)
    except Exception:
        return not_yet
    return not_yet if keras.builds_itself(owner) else ""


def check_call(
    call: Function, owner: Any, keras: Any, batch: Batch, args: Any, options: Any
) -> Verdict:
    """Compare the sharded with the unsharded call, with the same outcome on all ranks.

    Raises:
        Exception: TensorFlow's, where another rank has failed: without it nothing more can be shared.
    """
    found: list[Verdict] = []
    lost: list[Exception] = []
    seeds = keras.seed_generator()

    def run() -> None:
        keras.seed_by(seeds)
        with sharing.check_here():
            try:
                found.append(compare_with_unsharded(call, owner, keras, batch, args, options))
            except NotByRowsError as error:
                found.append(Verdict(str(error)))
            except Exception as error:
                if SHUT_DOWN in str(error):
                    lost.append(error)
                else:
                    found.append(Verdict(f"it could not be checked ({first_line(error)})"))

    # A thread of its own: no graph, tape or scope of the caller is there.
    thread = threading.Thread(target=run, name="row-check")
    with contextlib.redirect_stdout(io.StringIO()), restoring_generators(keras):
        thread.start()
        thread.join()
    if lost:
        raise lost[0]
    return found[0]


def compare_with_unsharded(call: Function, owner: Any, keras: Any, batch: Batch, args: Any, options: Any) -> Verdict:  # fmt: skip
    """Call both sharded and unsharded on sample batches, and compare the results."""
    others: set[int] = set()
    shared_before = sharing.has_shared
    for rows, sample_args, sample_options in sample_batches(
        call, owner, keras, batch, args, options
    ):
        concrete = Batch(rows, batch.divided, batch.key)
        sample = sample_args, sample_options
        reason = compare_on_sample(call, owner, keras, concrete, *sample, others)
        if reason:
            layer = find_layer_at_fault(call, owner, keras, *sample)
            sharing.has_shared = shared_before
            return Verdict(
                reason if layer is None else f"{reason}, because of its {name_of(layer)}"
            )
    refused = trace_refusal(call, owner, keras, batch, args, options)
    sharing.has_shared = shared_before
    return Verdict(refused, frozenset(others))


def compare_on_sample(
    call: Function,
    owner: Any,
    keras: Any,
    batch: Batch,
    args: Any,
    options: Any,
    others: set[int] | None = None,
) -> str:
    """Return why a call cannot be shared on this batch, "" if it gives the same results; the ranks agree whether it can.

    Args:
        args: with values, as are `options`. others: is extended by `Region.other_sizes`.
    """

    def run_whole(args: Any, options: Any) -> Any:
        with sharing.run_whole():
            return call(*args, **options)

    def run_shared(args: Any, options: Any) -> Any:
        return compute_shared(call, keras, batch, args, options, others)

    assert batch.rows is not None
    whole = observe_call(run_whole, owner, keras, args, options)
    if isinstance(whole, NotByRowsError):
        return str(whole)
    if isinstance(whole, Exception):
        return f"it could not be checked ({first_line(whole)})"
    # What goes by a row's place would often come out right where rows are dealt in their order.
    with sharing.deal_rows_in_order(np.random.default_rng(batch.rows).permutation(batch.rows)):
        shared = observe_call(run_shared, owner, keras, args, options)
    fails = isinstance(shared, Exception)
    fails_anywhere = float(hvd.allreduce(tf.constant(float(fails)), op=hvd.Max)) > 0
    if isinstance(shared, Exception):
        return error_words(shared)
    if fails_anywhere:
        return "some of its rows cannot be computed by themselves"
    reason = first_difference(whole, shared, rounding_tolerance(owner, keras))
    differs = float(hvd.allreduce(tf.constant(float(bool(reason))), op=hvd.Max)) > 0
    return (reason or "its rows depend on one another") if differs else ""


def find_layer_at_fault(call: Function, owner: Any, keras: Any, args: Any, options: Any) -> Any:
    """Return the innermost layer within a call that cannot be shared; None if there is none, such as in a function of its own.

    All ranks must call it: the layers are checked one after the other, in the order in which their calls end.
    """
    calls: dict[int, tuple[Function, Any, Any, Any]] = {}

    def record(call: Function, layer: Any, args: Any, options: Any) -> None:
        calls.setdefault(id(layer), (call, layer, args, options))

    with restoring_state(owner, keras), sharing.run_whole():
        sharing.recorder = record
        try:
            call(*args, **options)
        except Exception:
            return None
        finally:
            sharing.recorder = None
    for inner, layer, inner_args, inner_options in calls.values():
        batch = describe_batch(keras, inner_args, inner_options)
        if batch is None or batch.whole:
            continue
        if compare_on_sample(inner, layer, keras, batch, inner_args, inner_options):
            return layer
    return None


def trace_refusal(
    call: Function, owner: Any, keras: Any, batch: Batch, args: Any, options: Any
) -> str:
    """Return why a compiled call cannot be shared though it can eagerly; "" where it can.

    It is traced in a graph that never runs: random draws and assignments of a refused call would stay in the caller's
    graph.
    """
    leaves = tf.nest.flatten((args, options))
    symbolic = [is_tensor(leaf) and is_symbolic(leaf) for leaf in leaves]
    if not any(symbolic):
        return ""
    if batch.rows is None:  # it was checked on few rows, whatever it has
        batch = replace(batch, rows=static_rows(leaves, batch))
    graph = tf.__internal__.FuncGraph("row_check")
    with restoring_state(owner, keras), graph.as_default():
        made = [
            placeholder_like(leaf, keras) if new else leaf
            for leaf, new in zip(leaves, symbolic, strict=True)
        ]
        traced_args, traced_options = tf.nest.pack_sequence_as((args, options), made)
        try:
            compute_shared(call, keras, batch, traced_args, traced_options)
        except NotByRowsError as error:
            return str(error)
        except (
            Exception
        ):  # which the call raises again, where it is told what is wrong with the program
            return ""
    return ""


def static_rows(leaves: list[Any], batch: Batch) -> int | None:
    """Return the number of rows of the arguments, where it is known when they are traced."""
    divided = (leaf for leaf, has_rows in zip(leaves, batch.divided, strict=True) if has_rows)
    shapes = [tf.TensorShape(leaf.shape) for leaf in divided if is_tensor(leaf)]
    sizes = {shape[0] if shape.rank else None for shape in shapes}
    return sizes.pop() if len(sizes) == 1 else None


def placeholder_like(tensor: Any, keras: Any) -> Any:
    """Return a placeholder with the dtype, shape and mask of a tensor."""
    made = tf.compat.v1.placeholder(tensor.dtype, tensor.shape)
    mask = keras.mask_of(tensor)
    if mask is not None:
        keras.set_mask(made, tf.compat.v1.placeholder(mask.dtype, mask.shape))
    own = find_own_rows(tensor)
    if own is not None:
        values = tf.compat.v1.placeholder(own.values.dtype, own.values.shape)
        attach_own_rows(made, values, own.rows)
    return made


def error_words(error: Exception) -> str:
    """Return why a call cannot be computed by rows, in words."""
    if isinstance(error, NotByRowsError):
        return str(error)
    return f"a rank's rows cannot be computed without the others ({first_line(error)})"


def first_line(error: Exception) -> str:
    """Return an error as one line, without what Keras writes above it."""
    lines = [line.strip("\x1b[01m ") for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("Exception encountered")]
    return f"{type(error).__name__}: {lines[0][:120]}" if lines else type(error).__name__


def rounding_tolerance(owner: Any, keras: Any) -> float:
    """Return the relative rounding error up to which results count as equal, by the dtypes of a layer."""
    if not isinstance(owner, keras.Layer):
        return ROUNDING["float32"]
    return max(ROUNDING.get(dtype, 0.0) for dtype in {"float32", *keras.compute_dtypes(owner)})


# What is computed


def sample_batches(
    call: Function, owner: Any, keras: Any, batch: Batch, args: Any, options: Any
) -> Iterator[tuple[int, Any, Any]]:
    """Yield batches with values: the call's own, or random ones."""
    leaves = tf.nest.flatten((args, options))
    symbolic = [is_tensor(leaf) and is_symbolic(leaf) for leaf in leaves]
    if not any(symbolic):
        assert batch.rows is not None
        yield batch.rows, args, options
        return
    counts = [batch.rows] if batch.rows is not None else [2 * sharing.size + 1, 2 * sharing.size]
    usable = None
    for rows in counts:
        for size, bound in [usable] if usable else [(s, b) for s in SIZES for b in BOUNDS]:
            made = [
                random_like(leaf, rows if has_rows else None, size, bound, keras, place) if new else leaf
                for place, (leaf, has_rows, new) in enumerate(
                    zip(leaves, batch.divided, symbolic, strict=True)
                )
            ]  # fmt: skip
            sample_args, sample_options = tf.nest.pack_sequence_as((args, options), made)
            if usable is None:
                with sharing.run_whole(), restoring_state(owner, keras):
                    try:
                        computes = is_finite(call(*sample_args, **sample_options))
                    except Exception as error:
                        last = error
                        continue
                    if not computes:
                        last = ValueError("random numbers give no finite results")
                        continue
                usable = (size, bound)
            yield rows, sample_args, sample_options
            break
        else:
            raise last


def is_symbolic(tensor: Any) -> bool:
    """Whether a tensor is a symbol without a value."""
    return isinstance(tensor, tf.Tensor) and not hasattr(tensor, "numpy")


def random_like(tensor: Any, rows: int | None, size: int, bound: int, keras: Any, seed: int) -> Any:  # fmt: skip
    """Return random data with the dtype and shape of a tensor; integers are less than `bound`."""
    shape = [size if d is None else d for d in tensor.shape.as_list()]
    if rows is not None:
        shape[0] = rows
    draw = np.random.default_rng(17 + seed)
    values: Any
    if tensor.dtype.is_bool:
        values = draw.random(shape) < 0.5
    elif tensor.dtype.is_integer:
        values = draw.integers(0, bound, shape)
    elif bound == BOUNDS[0]:
        values = draw.standard_normal(shape, np.float32)
    else:
        values = 0.1 + 0.8 * draw.random(shape, np.float32)
    made = tf.cast(tf.convert_to_tensor(values), tensor.dtype)
    mask = keras.mask_of(tensor)
    if mask is not None:
        masked = [*shape[:1], *(size if d is None else d for d in mask.shape.as_list()[1:])]
        keras.set_mask(made, tf.convert_to_tensor(draw.random(masked) < 0.7))
    return made


def is_finite(result: Any) -> bool:
    """Whether all floating tensors of a result are finite."""
    floats = [t for t in tf.nest.flatten(result) if is_tensor(t) and t.dtype.is_floating]
    return all(bool(tf.reduce_all(tf.math.is_finite(t))) for t in floats)


# What is seen of it


class Observed:
    """The results and state changes of a call, as arrays."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Any]] = {}

    def add_values(self, name: str, values: list[Any]) -> None:
        """Store values under a name, as arrays."""
        self.parts[name] = [
            None if v is None else np.asarray(tf.convert_to_tensor(v)) for v in values
        ]


def observe_call(
    run: Function, owner: Any, keras: Any, args: Any, options: Any
) -> Observed | Exception:
    """Run a call, return its results and state changes, and restore its state."""
    seen = Observed()
    leaves = tf.nest.flatten((args, options))
    inputs = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor) and leaf.dtype.is_floating]
    with restoring_state(owner, keras) as changed:
        try:
            with tf.GradientTape(watch_accessed_variables=True) as tape:
                tape.watch(inputs)
                found = run(args, options)
                outputs = tf.nest.flatten(found)
                floats = [y for y in outputs if is_tensor(y) and y.dtype.is_floating]
                losses = list(getattr(owner, "losses", None) or [])
                parts = [project_rows(y) for y in floats] + [
                    tf.cast(loss, tf.float32) for loss in losses
                ]
                total = tf.add_n(parts) if parts else None
            seen.add_values("outputs", [y for y in outputs if is_tensor(y)])
            seen.add_values("losses", losses)
            variables = list(tape.watched_variables())
            if total is not None:
                gradients = tape.gradient(total, [*variables, *inputs])
                seen.add_values("gradients", gradients)
            seen.add_values("states", [v.value() for v in changed.changed_variables()])
            seen.add_values("attributes", changed.changed_attributes())
        except Exception as error:
            return error
    return seen


def project_rows(y: Any) -> Any:
    """Return a weighted sum of each row of a tensor, with different weights for rows and entries."""
    y = tf.cast(y, tf.float32)
    if y.shape.rank == 0:
        return y
    rows, *others = y.shape
    entries = int(np.prod(others))
    along, across = (tf.cos(1.7 * tf.range(float(count)) + 0.4) for count in (rows, entries))
    return tf.reduce_sum(along * tf.linalg.matvec(tf.reshape(y, [rows, entries]), across))


WORDS = {
    "outputs": "its outputs depend on more than their own rows",
    "losses": "the losses that it adds depend on the full batch",
    "gradients": "its gradients depend on more than their own rows",
    "states": "the variables that it assigns depend on the full batch",
    "attributes": "it keeps tensors of a call in its attributes",
}


def first_difference(unsharded: Observed, shared: Observed, rounding: float) -> str:
    """Return the first difference between two calls, in words; "" if they are equal."""
    for name in WORDS:
        one, two = unsharded.parts.get(name, []), shared.parts.get(name, [])
        if len(one) != len(two):
            return WORDS[name]
        scale = max([largest_value(a) for a in one], default=0.0)
        for a, b in zip(one, two, strict=True):
            if not is_equal(a, b, rounding, 1e-2 * scale if name == "gradients" else 0.0):
                return WORDS[name]
    return ""


def largest_value(a: Any) -> float:
    """Return the largest finite absolute value of an array; 0 if it has none."""
    if a is None or not a.size or not np.issubdtype(a.dtype, np.inexact):
        return 0.0
    values = np.abs(a)
    return float(np.max(values, initial=0.0, where=np.isfinite(values)))


def is_equal(a: Any, b: Any, rounding: float, scale: float) -> bool:
    """Whether two arrays are equal, floats up to rounding relative to `scale`."""
    if a is None or b is None:
        return a is b
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind in "OSUb" or np.issubdtype(a.dtype, np.integer):
        return bool(np.array_equal(a, b))
    if a.dtype.kind not in "fc":  # bfloat16, unknown to NumPy
        a, b = a.astype(np.float32), b.astype(np.float32)
    limit = rounding * (max(scale, largest_value(a)) + 1e-12)
    with np.errstate(invalid="ignore"):  # of infinite numbers
        near = np.abs(a - b) <= limit
    return bool(np.all(near | (a == b) | (np.isnan(a) & np.isnan(b))))


# What it changes


class StateChanges:
    """The variables and attributes that a call changes, with their earlier values."""

    def __init__(self, owner: Any, keras: Any) -> None:
        self.before: dict[int, tuple[Any, Any]] = {}
        layers = keras.layers_of(owner) if isinstance(owner, keras.Layer) else []
        self.layers = [(layer, dict(vars(layer)), layer_contents(layer)) for layer in layers]
        generators = keras.generators_of(owner) if layers else []
        self.generators = [(generator, dict(vars(generator))) for generator in generators]

    def note_variable(self, variable: Any) -> None:
        """Note a variable's value before the call first changes it."""
        if not tf.executing_eagerly():  # it is only traced
            return
        if id(variable) not in self.before and hasattr(variable, "numpy"):
            self.before[id(variable)] = (variable, variable.numpy())

    def changed_variables(self) -> list[Any]:
        """Return the variables that the call has assigned."""
        return [variable for variable, _ in self.before.values()]

    def changed_attributes(self) -> list[Any]:
        """Return the tensors and numbers that layers have now, and did not have before."""
        found = []
        for layer, before, inside in self.layers:
            for name, value in vars(layer).items():
                if name in KERAS_OWN:
                    continue
                if value is not before.get(name):
                    found += plain_values(value)
                elif name in inside and not same_items(container_items(value), inside[name]):
                    found += [v for item in container_items(value) for v in plain_values(item)]
        return found

    def restore_values(self) -> None:
        """Restore variables, generators and layers to their state before the call."""
        for variable, value in self.before.values():
            variable.assign(value)
        for generator, before in self.generators:
            vars(generator).clear()
            vars(generator).update(before)
        for layer, before, inside in self.layers:
            now = vars(layer)
            for name in [name for name in now if name not in before]:
                del now[name]
            now.update(before)
            for name, kept in inside.items():
                put_back(before[name], kept)


def layer_contents(layer: Any) -> dict[str, list[Any]]:
    """Return the contents of a layer's lists and dictionaries, by attribute."""
    held = vars(layer).items()
    return {
        name: container_items(value)
        for name, value in held
        if isinstance(value, list | dict | deque)
    }


def container_items(value: Any) -> list[Any]:
    """Return the items of a list or dictionary, as a list."""
    return list(value.items()) if isinstance(value, dict) else list(value)


def same_items(items: list[Any], others: list[Any]) -> bool:
    """Whether two lists of items hold the same objects."""
    return len(items) == len(others) and all(
        a is b or (isinstance(a, tuple) and isinstance(b, tuple) and a[0] is b[0] and a[1] is b[1])
        for a, b in zip(items, others, strict=True)
    )


def put_back(value: Any, items: list[Any]) -> None:
    """Restore the items of a list or dictionary, if they changed."""
    if same_items(container_items(value), items):
        return
    value.clear()
    if isinstance(value, dict):
        value.update(items)
    else:
        value.extend(items)


def plain_values(value: Any) -> list[Any]:
    """Return the tensors, arrays and numbers that a value holds, as a list."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple | deque):
        return [found for item in value for found in plain_values(item)]
    is_plain = isinstance(value, bool | int | float | np.ndarray) or is_tensor(value)
    return [value] if is_plain else []


@contextlib.contextmanager
def restoring_state(owner: Any, keras: Any) -> Iterator[StateChanges]:
    """Restore the variables, layers and random generators that the block changes."""
    changed = StateChanges(owner, keras)

    def write_noted(write: Function, variable: Any, *args: Any, **options: Any) -> Any:
        changed.note_variable(variable)
        return write(variable, *args, **options)

    def draw_noted(draw: Function, generator: Any, *args: Any, **options: Any) -> Any:
        changed.note_variable(generator.state)
        return draw(generator, *args, **options)

    observation = Observation()
    for kind in keras_versions.variable_classes():
        for name in [name for name in vars(kind) if name.startswith(WRITES)]:
            observation.observe(kind, name, write_noted)
    observation.observe(tf.random.Generator, "_prepare_key_counter", draw_noted)
    sharing.draws = 0
    try:
        with restoring_generators(keras):
            yield changed
    finally:
        observation.end()
        changed.restore_values()


@contextlib.contextmanager
def restoring_generators(keras: Any) -> Iterator[None]:
    """Restore the random generators of Python, NumPy, TensorFlow and Keras after the block."""
    numpy = np.random.get_state()
    others = (keras_versions.eager_generator(), keras.seed_generator())
    found = [draws for draws in (random, *others) if draws is not None]
    states = [draws.getstate() for draws in found]
    try:
        yield
    finally:
        np.random.set_state(numpy)
        for draws, state in zip(found, states, strict=True):
            draws.setstate(state)
