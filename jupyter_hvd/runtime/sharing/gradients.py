"""Averages the gradients that tapes take over the ranks, once a call was shared."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from ..observe import Function, observe
from .checksums import call_site, require_equal_losses
from .context import sharing
from .own_rows import find_own_rows
from .split_gather import cast_number, gather_rows


def install_gradients(graph_gradients: Any) -> None:
    """Let gradients be averaged over the ranks.

    Args:
        graph_gradients: TensorFlow's module of gradients without a tape.
    """
    tape = tf.GradientTape
    observe(tape, "watch", watch_own_rows)
    observe_gradient(tape, "gradient", "sources")
    observe(tape, "jacobian", average_jacobian)
    observe(tape, "batch_jacobian", average_jacobian)
    # The last is what the optimizers of TensorFlow 1 call.
    for owner in (tf, tf.compat.v1, graph_gradients):
        observe_gradient(owner, "gradients", "xs")
    forward = tf.autodiff.ForwardAccumulator
    observe(forward, "__enter__", enter_forward_mode)
    observe(forward, "__exit__", leave_forward_mode)


def enter_forward_mode(enter: Function, accumulator: Any) -> Any:
    """Run unsharded within a `ForwardAccumulator`: TensorFlow implements forward derivatives by gradients."""
    sharing.whole += 1
    return enter(accumulator)


def leave_forward_mode(leave: Function, accumulator: Any, *error: Any) -> Any:
    """End a forward-mode accumulator, in which nothing is shared."""
    sharing.whole -= 1
    return leave(accumulator, *error)


def needs_averaging() -> bool:
    """Whether gradients may differ between ranks here."""
    return sharing.in_charge and sharing.has_shared and not sharing.whole and sharing.region is None


def observe_gradient(owner: Any, function: str, name: str) -> None:
    """Let a function's gradients be averaged.

    Args:
        function: returns gradients. name: its parameter for the variables or tensors to differentiate by.
    """
    signature = inspect.signature(getattr(owner, function))
    observe(owner, function, functools.partial(average_gradient, signature, name))


def average_gradient(
    signature: inspect.Signature, name: str, gradient: Function, /, *args: Any, **options: Any
) -> Any:
    """Take gradients and average them over the ranks.

    Averaging is a projection: a gradient that is already the full one does not change.
    """
    sources_at = [*signature.parameters].index(name)
    given = signature.bind(*args, **options)
    sources = given.arguments[name]
    refuse_variables_in_region(sources)
    sharing.has_differentiated |= not sharing.checking
    flat = tf.nest.flatten(sources)
    own = [find_own_rows(source) for source in flat]
    if not any(own):
        found = gradient(*args, **options)
    else:
        kept = [place for place, rows in enumerate(own) if rows is not None]
        given.arguments[name] = [*flat, *(own[place].values for place in kept)]  # type: ignore[union-attr]
        found, others = split_list(gradient(*given.args, **given.kwargs), len(flat))
        for place, other in zip(kept, others, strict=True):
            found[place] = add_own_row_gradients(found[place], other, own[place])
        found = tf.nest.pack_sequence_as(sources, found)
    if not needs_averaging():
        return found
    return average_gradients(
        found, loss_of(given.args[sources_at - 1]) if sharing.guarded else None
    )


def loss_of(target: Any) -> Any:
    """Return the sum of the targets that are numbers or vectors; None where there are none.

    Gathered targets are equal on all ranks, and are not gathered for this.
    """
    parts = [t for t in tf.nest.flatten(target) if isinstance(t, tf.Tensor) and t.dtype.is_floating]
    parts = [t for t in parts if t.shape.rank in (0, 1) and find_own_rows(t) is None]
    return tf.add_n([tf.reduce_sum(tf.cast(t, tf.float32)) for t in parts]) if parts else None


def split_list(values: Any, count: int) -> tuple[list[Any], list[Any]]:
    """Return the first `count` values, and the rest, as lists."""
    return list(values[:count]), list(values[count:])


def add_own_row_gradients(full_gradient: Any, own_gradient: Any, rows: Any) -> Any:
    """Return the gradient of a gathered tensor: from reads of the full tensor plus from reads of own rows.

    Collective if there is a gradient from own rows, which is gathered from all ranks.
    """
    if own_gradient is None:
        return full_gradient
    gathered = gather_rows(tf.convert_to_tensor(own_gradient), rows.rows) / cast_number(
        sharing.size, own_gradient.dtype
    )
    return gathered if full_gradient is None else gathered + tf.convert_to_tensor(full_gradient)


def watch_own_rows(watch: Function, tape: Any, tensor: Any) -> None:
    """Watch a gathered tensor, and also the own rows from which it was gathered."""
    watch(tape, tensor)
    own = [find_own_rows(t) for t in tf.nest.flatten(tensor)]
    if any(own):
        watch(tape, [rows.values for rows in own if rows is not None])


def average_jacobian(
    jacobian: Function, tape: Any, target: Any, sources: Any, *args: Any, **options: Any
) -> Any:
    """Take a Jacobian, and average it over the ranks if calls were shared."""
    refuse_variables_in_region(sources)
    if not needs_averaging():
        return jacobian(tape, target, sources, *args, **options)
    with sharing_nothing_more():
        found = jacobian(tape, target, sources, *args, **options)
    return average_gradients(found)


class sharing_nothing_more:  # noqa: N801 — used as a statement
    """Do not average gradients within the block: a Jacobian is averaged when it is complete."""

    def __enter__(self) -> None:
        sharing.whole += 1

    def __exit__(self, *_: object) -> None:
        sharing.whole -= 1


def refuse_variables_in_region(sources: Any) -> None:
    """Refuse gradients for variables inside a shared call, which are right only for the full batch.

    Raises:
        NotByRowsError: such gradients are taken.
    """
    if sharing.region is not None and any(map(is_variable, tf.nest.flatten(sources))):
        sharing.region.refuse_sharing("it takes gradients for variables within its call")


def is_variable(source: Any) -> bool:
    """Whether a source of a gradient is a variable."""
    return isinstance(source, tf.Variable) or hasattr(source, "assign")


def average_gradients(gradients: Any, loss: Any = None) -> Any:
    """Average gradients, in any structure, over the ranks. Collective.

    Args:
        loss: a value that must be equal on all ranks; it is sent along and compared. None for no comparison.

    Raises:
        DifferentDataError: see `require_equal_losses`.
    """
    flat = tf.nest.flatten(gradients)
    means = list(flat)
    dense: dict[Any, list[int]] = {}
    for place, gradient in enumerate(flat):
        if isinstance(gradient, tf.IndexedSlices):
            means[place] = average_slices(gradient)
        elif isinstance(gradient, tf.Tensor):
            if gradient.dtype.is_complex:
                parts = average_gradients([tf.math.real(gradient), tf.math.imag(gradient)])
                means[place] = tf.complex(*parts)
            else:
                dense.setdefault(gradient.dtype, []).append(place)
    for dtype, places in dense.items():
        compared = loss if dtype == tf.float32 else None
        group = average_group([flat[place] for place in places], compared)
        for place, mean in zip(places, group, strict=True):
            means[place] = mean
    return tf.nest.pack_sequence_as(gradients, means)


def average_group(tensors: list[Any], loss: Any = None) -> list[Any]:
    """Average tensors of one type over the ranks in one message; its derivative is the same operation. Collective.

    Args:
        loss: of the same type, see `average_gradients`.
    """
    own = [] if loss is None else [tf.stop_gradient(loss)]
    site = "" if tf.executing_eagerly() or loss is None else call_site()

    @tf.custom_gradient  # type: ignore[untyped-decorator]
    def forward(*tensors: Any) -> Any:
        means = hvd.grouped_allreduce([*tensors, *own], op=hvd.Average)
        if own:
            with tf.control_dependencies(require_equal_losses(own[0], means.pop(), site)):
                means = [tf.identity(mean) for mean in means]
        return tuple(means), lambda *g: tuple(average_group(list(g)))

    return list(forward(*tensors))


def average_slices(slices: Any) -> Any:
    """Combine the rows of a sparse gradient: average them where all ranks have equal indices, else concatenate them."""
    count = tf.shape(slices.indices)[0]
    counts = hvd.allgather(count[None])
    indices = hvd.allgather(slices.indices)
    same_count = tf.reduce_all(tf.equal(counts, count))

    def are_equal() -> Any:
        return tf.reduce_all(tf.equal(tf.reshape(indices, [sharing.size, -1]), slices.indices[None]))  # fmt: skip

    same = tf.cond(same_count, are_equal, lambda: tf.constant(False))
    values, where = tf.cond(
        same,
        lambda: (hvd.allreduce(slices.values, op=hvd.Average), tf.identity(slices.indices)),
        lambda: (
            hvd.allgather(slices.values) / tf.cast(sharing.size, slices.values.dtype),
            indices,
        ),
    )
    return tf.IndexedSlices(values, where, slices.dense_shape)
