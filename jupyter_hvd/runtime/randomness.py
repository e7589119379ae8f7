"""Ranks that split and shuffle the data alike, so that none trains on another's test data."""

from __future__ import annotations


def same_seed() -> int | None:
    """Let all ranks draw the same random numbers in Python and NumPy: those that rank 0 would draw.

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
    state, python_state, seed = hvd.broadcast_object(states, root_rank=0, name="seed")
    np.random.set_state(state)
    random.setstate(python_state)
    return int(seed)
