"""Compares the variables that optimizers have updated in a cell on all ranks, when the cell has ended."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ..runtime.observe import Function, observe, update_methods


@dataclass
class OptimizerVariables:
    """The variables of one optimizer.

    Attributes:
        number: of the optimizer, in the order in which optimizers first updated anything.
        before: how many updates it had made when the cell began.
    """

    number: int
    variables: list[Any]
    before: int


_trained: MutableMapping[Any, OptimizerVariables] = WeakKeyDictionary()
_watches = False


def watch_cell() -> None:
    """Start to record which variables a cell trains. Collective at its first call.

    The kernel calls `training_digest` and `compare_trained` when the cell has ended.

    Raises:
        RuntimeError: ranks have different versions of TensorFlow or NumPy.
    """
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        return
    if not _watches:
        _watch_optimizers()
    for optimizer, trained in list(_trained.items()):
        trained.before = int(optimizer.iterations.numpy())


def _watch_optimizers() -> None:
    """Observe every optimizer's updates, after a check that all ranks have the same versions. Collective.

    Raises:
        RuntimeError: versions differ.
    """
    global _watches
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    used = f"TensorFlow {tf.__version__} with NumPy {np.__version__}"
    versions = hvd.allgather_object(used, name="guard.versions")
    if len(set(versions)) > 1:
        told = ", ".join(f"rank {rank} has {version}" for rank, version in enumerate(versions))
        raise RuntimeError(
            f"The ranks would compute different things: {told}. Install one on all hosts."
        )
    _watches = True
    for kind, name in update_methods(tf.keras):
        observe(kind, name, _apply_and_record)


def _apply_and_record(
    apply: Function, optimizer: Any, gradients: Any, *args: Any, **kwargs: Any
) -> Any:
    """Call an optimizer's method `apply`, and record the variables that it updates."""
    gradients = list(gradients)
    result = apply(optimizer, gradients, *args, **kwargs)
    known = getattr(optimizer, "_trainable_variables", ())  # of Keras 3; there is no public way
    in_pairs = apply.__name__ == "apply_gradients"  # of Keras 2
    _note_update(optimizer, [variable for _, variable in gradients] if in_pairs else list(known))
    return result


def _note_update(optimizer: Any, variables: Sequence[Any]) -> None:
    """Record the variables that an optimizer updates; in a compiled step, when it is traced."""
    if optimizer not in _trained:
        _trained[optimizer] = OptimizerVariables(len(_trained), [], -1)
    known = _trained[optimizer].variables
    ids = {id(variable) for variable in known}
    known += [variable for variable in variables if id(variable) not in ids]


def _updated_variables() -> dict[str, Any]:
    """Return the variables updated since the cell began, by names that are the same on all ranks."""
    return {
        f"{getattr(variable, 'path', variable.name)} ({trained.number}.{place})": variable
        for optimizer, trained in list(_trained.items())
        if int(optimizer.iterations.numpy()) != trained.before
        for place, variable in enumerate(trained.variables)
    }


def _checksum_of(variable: Any) -> int:
    """Return a checksum of a variable's value."""
    import numpy as np

    return zlib.crc32(np.asarray(variable.numpy()).tobytes())


def training_digest() -> str:
    """Return a digest of what was trained since `watch_cell`; '' if nothing was.

    It is equal on ranks that have trained the same; if it is not, `compare_trained` tells how they differ.
    """
    import horovod.tensorflow as hvd
    import numpy as np

    updated = _updated_variables() if _watches else {}
    if not updated:
        return ""
    finite = all(np.isfinite(np.sum(v.numpy(), dtype=float)) for v in updated.values())
    own = "" if finite else f"rank {hvd.rank()} is to tell"
    sums = {name: _checksum_of(variable) for name, variable in updated.items()}
    return hashlib.sha256(f"{sums} {own}".encode()).hexdigest()


def compare_trained() -> str:
    """Return the difference between ranks in the variables trained since `watch_cell`, or ''.

    All ranks must call it, and none may train meanwhile.
    """
    import sys

    import horovod.tensorflow as hvd
    import numpy as np

    updated = _updated_variables() if _watches else {}
    sums = {name: _checksum_of(variable) for name, variable in updated.items()}
    found = hvd.allgather_object(sums, name="guard.compare")
    lost = [n for n, v in updated.items() if not np.isfinite(np.sum(v.numpy(), dtype=float))]
    if lost and hvd.rank() == 0:
        print(f"jupyter_hvd: {lost[0]} is not finite any more", file=sys.stderr, flush=True)
    # A model that nobody holds any more is there on some ranks and gone on others: what all have is compared.
    everywhere = sorted(set.intersection(*(set(each) for each in found)))
    return next(filter(None, (_compare_variable(n, found, updated[n]) for n in everywhere)), "")


def _compare_variable(name: str, checksums: Sequence[dict[str, int]], variable: Any) -> str:
    """Compare a variable with rank 0's on all ranks; return a sentence on the difference, or "".

    Collective if any checksum differs. On GPUs, differences that rounding explains do not count.

    Args:
        checksums: those of each rank, by variable.
    """
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    others = [rank for rank, sums in enumerate(checksums) if sums[name] != checksums[0][name]]
    if not others:
        return ""
    value = np.asarray(variable.numpy())
    own = value.astype(np.float64)
    zero = np.asarray(hvd.broadcast_object(own, root_rank=0, name="guard.value"))
    apart = float(np.max(np.abs(own - zero), initial=0.0)) if own.shape == zero.shape else np.inf
    apart = max(hvd.allgather_object(apart, name="guard.apart"))
    # Adding up in parallel, GPUs round in no fixed order: there, equal means equal but for that, to half the digits.
    loose = bool(tf.config.list_physical_devices("GPU"))
    rounding = float(np.spacing(value.dtype.type(1))) * hvd.size()
    if apart <= (np.sqrt(rounding) * float(np.max(np.abs(zero), initial=0.0)) if loose else 0.0):
        return ""
    return (
        f"After training {name} of rank {others[0]} differs from rank 0's, by up to {apart:.3g}, so the ranks "
        "no longer train the same model."
    )


def join_ranks() -> int:
    """Take part in the other ranks' collective operations until all have called this; return the last rank to do so.

    TensorFlow treats Horovod's operation as a constant and keeps its first answer; a new function avoids that.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf
    from horovod.tensorflow import mpi_ops

    if hvd.size() == 1:
        return 0
    return int(tf.compat.v1.wrap_function(mpi_ops.join, [])())
