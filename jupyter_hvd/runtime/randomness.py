"""Ranks that split and shuffle the data alike, so that none trains on another's test data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: What TensorFlow takes for the seed of all where none is set and an operation has one.
_NO_SEED: int = 87654321
#: How often `draw_alike` has drawn for each line of the program.
_drawn: dict[int, int] = {}
#: The variable of `of_rank_zero`, once there is one.
_ranks: list[Any] = []


def same_seed(*generators: Any) -> int | None:
    """Let all ranks draw the same random numbers in Python and NumPy: those that rank 0 would draw.

    Args:
        generators: of random numbers of the program's own, which draw the same from here on, too.

    Returns:
        a seed, the same on all ranks, for generators of the program's own; None on one rank, whose are left alone.
    """
    import random
    import secrets

    import horovod.tensorflow as hvd
    import numpy as np

    if hvd.size() == 1:
        return None
    states = np.random.get_state(), random.getstate(), secrets.randbits(32)
    states += tuple(map(_state_of, generators))
    state, python_state, seed, *own = hvd.broadcast_object(states, root_rank=0, name="seed")
    np.random.set_state(state)
    random.setstate(python_state)
    for generator, there in zip(generators, own, strict=True):
        _set_state(generator, there)
    return int(seed)


def _state_of(generator: Any) -> Any:
    """The state of a generator of NumPy's or Python's."""
    if hasattr(generator, "getstate"):
        return generator.getstate()
    bits = getattr(generator, "bit_generator", None)
    return generator.get_state() if bits is None else bits.state


def _set_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def in_one_order(make: Callable[..., Any], seed: int | None) -> Callable[..., Any]:
    """A function that makes datasets, or the method `shuffle` of one, so that what it makes is in one order on all ranks.

    The order goes by TensorFlow's, NumPy's and Python's random numbers at the time of the call. They are seeded
    alike for it, and afterwards each rank goes on with its own. What Keras says of the files that it finds, rank 0 says.

    Args:
        seed: from `same_seed`, the same on all ranks; None on one rank, where nothing changes.
    """
    import contextlib
    import io

    import horovod.tensorflow as hvd

    if seed is None:
        return make

    def made(*args: Any, **options: Any) -> Any:
        heard = (
            contextlib.redirect_stdout(io.StringIO()) if hvd.rank() else contextlib.nullcontext()
        )
        with heard:
            return _seeded(seed, make, args, options)

    return made


def draw_alike(draw: Callable[..., Any], seed: int | None) -> Callable[..., Any]:
    """A function that draws from TensorFlow's random numbers, or makes a `tf.random.Generator`, alike on all ranks.

    What is learned, and what is divided among the ranks, must be one thing on all of them. Each call draws other numbers: they
    go by the line that it stands on, and by how often that was run, so that what one rank alone draws elsewhere does not matter.
    Afterwards each rank goes on with its own random numbers. In a compiled function nothing changes.

    Args:
        seed: from `same_seed`, the same on all ranks; None on one rank, where nothing changes.
    """
    import sys
    import zlib

    import tensorflow as tf

    if seed is None or not tf.executing_eagerly():
        return draw

    def drawn(*args: Any, **options: Any) -> Any:
        line = sys._getframe(1).f_lineno
        _drawn[line] = _drawn.get(line, 0) + 1
        own = zlib.crc32(f"{seed} {line} {_drawn[line]}".encode())
        if getattr(draw, "__module__", "").startswith("keras."):
            options.setdefault("seed", own)  # Keras 3 draws from a state of its own
        found = _seeded(own, draw, args, options)
        if isinstance(found, tf.random.Generator):
            found.reset_from_seed(own)
        return found

    return drawn


def of_rank_zero(drawn: Any) -> Any:
    """What rank 0 has drawn, on all ranks, in compiled functions too: real numbers of one shape on all of them."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    if hvd.size() == 1:
        return drawn
    # A sum, since what Horovod broadcasts shares its memory with what was drawn, which TensorFlow then writes over.
    if tf.executing_eagerly():
        return hvd.allreduce(drawn if hvd.rank() == 0 else tf.zeros_like(drawn), op=hvd.Sum)
    # Which rank this is is read from a variable, each time: of a constant TensorFlow would make zeros on all ranks but rank 0,
    # and take the sum of these out of a loop, in which rank 0 then waits. That it is changed, too, keeps turns in order, which
    # otherwise run side by side.
    rank = _rank()
    is_first = tf.equal(rank.assign_add(0), 0)
    found = hvd.allreduce(tf.where(is_first, drawn, tf.zeros_like(drawn)), op=hvd.Sum)
    with tf.control_dependencies([found]):
        behind = rank.assign_add(0)
    with tf.control_dependencies([behind]):
        return tf.identity(found)


def _rank() -> Any:
    """This rank, as a variable of TensorFlow's."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    if not _ranks:
        with tf.init_scope():
            _ranks.append(tf.Variable(hvd.rank(), trainable=False, name="rank"))
    return _ranks[0]


def draw_alike_again() -> None:
    """Let all ranks draw the same random numbers from here on, wherever each was when a training was broken off."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    same_seed()
    _drawn.update(hvd.broadcast_object(_drawn, root_rank=0, name="drawn"))
    own = tf.compat.v1.get_seed(0)[0]
    tf.random.set_seed(None if own == _NO_SEED else own + 1)


def _seeded(seed: int, act: Callable[..., Any], args: Any, options: Any) -> Any:
    """What a call gives where TensorFlow, NumPy and Python draw from this seed; then they go on as before."""
    import random

    import numpy as np
    import tensorflow as tf

    own, states = tf.compat.v1.get_seed(0)[0], (np.random.get_state(), random.getstate())
    tf.random.set_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    try:
        return act(*args, **options)
    finally:
        # One further, so that what was drawn before is not drawn again.
        tf.random.set_seed(None if own == _NO_SEED else own + 1)
        np.random.set_state(states[0])
        random.setstate(states[1])


def go_on_alike(*generators: Any) -> Callable[[], None]:
    """Where ranks draw the same random numbers: what lets them do so again behind what each has drawn another number of.

    Args:
        generators: beside those of NumPy and Python for the whole process.
    """
    import random

    import numpy as np

    behind = [_fresh(each) for each in (np.random, random, *generators)]

    def go_on() -> None:
        for let in behind:
            let()

    return go_on


def _fresh(generator: Any, apart: int = 0) -> Callable[[], Any]:
    """What lets a generator of NumPy's or Python's go on, whatever it has drawn until then, from a number that it draws now.

    Args:
        apart: what is added to that number.
    """
    import functools
    import random

    import numpy as np

    if hasattr(generator, "getrandbits"):
        state = random.Random(generator.getrandbits(32) + apart).getstate()  # noqa: S311
        return functools.partial(generator.setstate, state)
    if hasattr(generator, "set_state"):
        fresh = np.random.RandomState(generator.randint(2**31) + apart).get_state()
        return functools.partial(generator.set_state, fresh)
    bits = generator.bit_generator
    drawn = int(generator.integers(2**31)) + apart
    return functools.partial(setattr, bits, "state", type(bits)(drawn).state)


def draw_apart(*generators: Any) -> None:
    """From here on let each rank draw random numbers of its own in Python and NumPy, until `same_seed` is called.

    What they are follows from the numbers before and the rank, so that a program with a seed does the same again.

    Args:
        generators: of random numbers of the program's own, beside those of NumPy and Python for the whole process.
    """
    import random

    import horovod.tensorflow as hvd
    import numpy as np

    if hvd.size() > 1:
        for each in (np.random, random, *generators):
            _fresh(each, hvd.rank())()
