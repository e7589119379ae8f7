"""Random numbers within a shared call: drawn for the full batch, of which each rank uses its rows.

All of TensorFlow's and Keras' random functions end in a few operations; these are replaced, and the methods of
`tf.random.Generator`, whose state goes on by the size of what is drawn.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from ..observe import Function, observe
from .context import Region, sharing
from .split_gather import list_padded_rows

#: Operations whose first argument is the shape, and whose numbers go by their position alone.
BY_SHAPE = {
    "gen_random_ops": (
        "random_uniform",
        "random_uniform_int",
        "random_standard_normal",
        "truncated_normal",
    ),
    "gen_stateless_random_ops_v2": (
        "stateless_random_uniform_v2",
        "stateless_random_uniform_int_v2",
        "stateless_random_uniform_full_int_v2",
        "stateless_random_normal_v2",
        "stateless_truncated_normal_v2",
    ),
    "gen_stateless_random_ops": (
        "stateless_random_uniform",
        "stateless_random_uniform_int",
        "stateless_random_uniform_full_int",
        "stateless_random_normal",
        "stateless_truncated_normal",
    ),
}
#: Operations whose numbers go by other tensors too.
BY_VALUES = {
    "gen_random_ops": (
        "multinomial",
        "random_gamma",
        "random_poisson_v2",
        "random_shuffle",
        "parameterized_truncated_normal",
    ),
    "gen_stateless_random_ops": (
        "stateless_multinomial",
        "stateless_random_binomial",
        "stateless_random_poisson",
        "stateless_parameterized_truncated_normal",
        "stateless_random_gamma_v2",
    ),
    "gen_stateless_random_ops_v2": ("stateless_random_gamma_v3", "stateless_shuffle"),
    "gen_stateful_random_ops": ("stateful_random_binomial", "non_deterministic_ints"),
}
GENERATOR = ("normal", "truncated_normal", "uniform", "uniform_full_int")


#: What a check draws instead of what would go on from one call to the next, inside TensorFlow.
STATELESS: dict[str, Function] = {
    "random_uniform": lambda shape, dtype, key: tf.random.stateless_uniform(
        shape, key, dtype=dtype
    ),
    "random_uniform_int": lambda shape, least, bound, key: tf.random.stateless_uniform(
        shape, key, least, bound, tf.convert_to_tensor(least).dtype
    ),
    "random_standard_normal": lambda shape, dtype, key: tf.random.stateless_normal(
        shape, key, dtype=dtype
    ),
    "truncated_normal": lambda shape, dtype, key: tf.random.stateless_truncated_normal(
        shape, key, dtype=dtype
    ),
}


def install_draws(raw: Any) -> None:
    """Let random operations draw for the full batch.

    Args:
        raw: returns TensorFlow's module of operations with a name.
    """
    generator = tf.random.Generator
    for module, names in BY_SHAPE.items():
        for name in names:
            if name in STATELESS:
                observe(raw(module), name, functools.partial(draw_again, STATELESS[name]))
            observe(raw(module), name, functools.partial(draw_for_full_batch, 0))
    for name in GENERATOR:
        observe(generator, name, functools.partial(draw_for_full_batch, 1))
    refused = [(raw(module), name) for module, names in BY_VALUES.items() for name in names]
    for owner, name in (*refused, (generator, "binomial")):
        observe(owner, name, functools.partial(refuse_draw, name))


def draw_for_full_batch(position: int, draw: Function, /, *args: Any, **options: Any) -> Any:
    """Draw random numbers; for the full batch if the shape is that of own rows.

    Args:
        position: of the argument `shape`.
    """
    region = sharing.region
    if region is None:
        return draw(*args, **options)
    shape = options["shape"] if "shape" in options else args[position]
    whole = find_full_shape(shape, region)
    if whole is None:
        with suspended():
            return draw(*args, **options)
    if "shape" in options:
        options["shape"] = whole
    else:
        args = (*args[:position], whole, *args[position + 1 :])
    with suspended():
        numbers = draw(*args, **options)
    return tf.gather(numbers, list_padded_rows(region.rows))


def draw_again(stateless: Function, draw: Function, /, *args: Any, **options: Any) -> Any:
    """Draw the same numbers each time a call is checked, and continue the sequence afterwards as if there were no check."""
    # A `Sequential` of Keras 2 makes its graph again for another number of rows; nothing is computed in that.
    if not sharing.checking or not tf.executing_eagerly():
        return draw(*args, **options)
    for name in ("seed", "seed2", "name"):
        options.pop(name, None)
    sharing.draws += 1
    return stateless(*args, **options, key=(7, sharing.draws))


def refuse_draw(name: str, draw: Function, /, *args: Any, **options: Any) -> Any:
    """Draw numbers, but refuse to do so for own rows."""
    sharing.refuse_sharing(f"it draws numbers by {name}, and they depend on the full batch")
    return draw(*args, **options)


class suspended:  # noqa: N801 — used as a statement
    """Draw as if nothing were shared: the shape is that of the whole batch already."""

    def __enter__(self) -> None:
        self.region, sharing.region = sharing.region, None

    def __exit__(self, *_: object) -> None:
        sharing.region = self.region


def find_full_shape(shape: Any, region: Region) -> Any:
    """Return the shape for all rows; None where it is not a shape of own rows."""
    sizes = static_shape(shape)
    if sizes is None or not sizes:
        return None
    first, own = sizes[0], region.own
    if first is not None and region.is_static:
        if first != own:
            region.other_sizes.add(first)
            return None
    elif first is not None or region.is_static:
        return None  # one is known and the other is not
    given = tf.convert_to_tensor(shape)
    if first is None:
        same = tf.debugging.assert_equal(
            tf.cast(given[0], tf.int32),
            tf.cast(own, tf.int32),
            "jupyter_hvd: random numbers are drawn for another number of rows than the call has",
        )
        with tf.control_dependencies([same]):
            given = tf.identity(given)
    return tf.concat([tf.reshape(tf.cast(region.rows, given.dtype), [1]), given[1:]], 0)


def static_shape(shape: Any) -> list[int | None] | None:
    """Return the known dimensions; None where not even the rank is known."""
    if isinstance(shape, tf.TensorShape):
        return None if shape.rank is None else shape.as_list()
    if isinstance(shape, list | tuple) and all(isinstance(d, int) for d in shape):
        return list(shape)
    tensor = tf.convert_to_tensor(shape)
    value = tf.get_static_value(tensor)
    if value is not None:
        return [int(d) for d in value.reshape(-1)]
    inferred = tf.broadcast_to(tf.zeros([]), tensor).shape
    return None if inferred.rank is None else inferred.as_list()
