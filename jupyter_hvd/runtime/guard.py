"""Ranks that part, or wait for one another in vain, are stopped and told why."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any
from weakref import WeakKeyDictionary


class _Guard:
    """What is trained, how often it was updated, and when the ranks compare it next.

    Attributes:
        trained: what was updated since the ranks were last compared.
        changed: for each optimizer that has updated variables, whether the program counts that or not: its number, the
            variables, and how many updates it had made when a program or cell began.
    """

    def __init__(self) -> None:
        self.watches = False
        self.notes = False
        self.changed: MutableMapping[Any, tuple[int, list[Any], int]] = WeakKeyDictionary()
        self.numbered = 0
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self.in_fit = False
        self.trained: dict[int, Any] = {}
        self.steps = 0
        self.due = 1
        self.compared_steps = 0
        self.compared_at = 0.0
        self.seconds_gathering = 0.0
        self.told_of_nan = False
        for optimizer, (number, variables, _) in list(self.changed.items()):
            self.changed[optimizer] = (number, variables, int(optimizer.iterations.numpy()))

    def count(self, trained: Any, updates: int) -> None:
        self.trained.update((id(each), each) for each in trained)
        self.steps += updates
        if self.steps >= self.due:
            self.compare()

    def note(self, optimizer: Any, variables: list[Any]) -> None:
        """Note what an optimizer updates; of a compiled step, when it is compiled."""
        if optimizer not in self.changed:
            self.changed[optimizer] = (self.numbered, [], -1)
            self.numbered += 1
        known = self.changed[optimizer][1]
        ids = {id(variable) for variable in known}
        known += [variable for variable in variables if id(variable) not in ids]

    def has_updated(self) -> bool:
        """Whether anything was updated since it began."""
        return self.steps > 0 or any(
            int(optimizer.iterations.numpy()) != before
            for optimizer, (_, _, before) in list(self.changed.items())
        )

    def compare(self, uncounted: bool = False) -> None:
        """Compare what is trained on all ranks, and say when to compare again.

        Args:
            uncounted: also what optimizers have updated and nobody has counted. While one of them trains, that may be
                waiting for its broadcast.

        Raises:
            RuntimeError: on all ranks: they differ.
        """
        import math
        import time

        import horovod.tensorflow as hvd

        began = time.monotonic()
        variables, sums, also = self.sums(uncounted)
        summed = time.monotonic() - began
        per_step = (began - self.compared_at) / max(1, self.steps - self.compared_steps)
        again = math.ceil(100 * (summed + self.seconds_gathering) / max(per_step, 1e-6))
        try:
            # By two operations; the first, of one number, has the same shape each time. Of one whose shape changes, a rank
            # that has left would make Horovod break the connection, and not say why.
            found = hvd.allgather_object((self.steps, sums, also, again), name="guard.compare")
        except Exception as error:
            if "Join" not in str(error):
                raise
            raise RuntimeError(
                f"Another rank has left the training, while this one, rank {hvd.rank()}, has made {self.steps} "
                "updates. See: jupyter hvd rule HVD303"
            ) from None
        problem = self.difference(found, dict(variables))
        if problem:
            raise RuntimeError(problem)
        self.tell_of_nan(variables)
        self.seconds_gathering = time.monotonic() - began - summed
        self.due = 2 if self.steps == 1 else self.steps + max(1, *(again for *_, again in found))
        self.compared_steps, self.compared_at = self.steps, time.monotonic()
        self.trained.clear()  # what goes on is counted again; what does not may go

    def sums(
        self, uncounted: bool
    ) -> tuple[list[tuple[str, Any]], list[tuple[str, int]], list[tuple[str, int | None]]]:
        """The variables that are trained, the checksums of these, and of those that optimizers have updated and nobody has
        counted; None for one that this rank has not.
        """
        variables = self.variables()
        sums = [(name, _checksum(v)) for name, v in variables]
        others = self.uncounted({id(v) for _, v in variables}) if uncounted else []
        also = [(name, _checksum(v) if changed else None) for name, v, changed in others]
        return [*variables, *((name, v) for name, v, _ in others)], sums, also

    def variables(self) -> list[tuple[str, Any]]:
        """The variables that are trained, with their names, each once; moving averages are each rank's own."""
        found: dict[int, tuple[str, Any]] = {}
        for owner in self.trained.values():
            for variable in getattr(owner, "trainable_variables", [owner]):
                name = getattr(variable, "path", variable.name)
                found.setdefault(id(variable), (f"{name} ({len(found)})", variable))
        return list(found.values())

    def uncounted(self, known: set[int]) -> list[tuple[str, Any, bool]]:
        """The other variables of optimizers, with names that are the same on all ranks, and whether this rank has
        updated them since it began.
        """
        found = []
        for optimizer, (number, variables, before) in list(self.changed.items()):
            updated = int(optimizer.iterations.numpy()) != before
            for place, variable in enumerate(variables):
                if id(variable) not in known:
                    known.add(id(variable))
                    name = getattr(variable, "path", variable.name)
                    found.append((f"{name} ({number}.{place})", variable, updated))
        return found

    def tell_of_nan(self, variables: list[tuple[str, Any]]) -> None:
        """Say once, on rank 0, that weights are no numbers any more: a loss of one rank's batch, averaged, is enough."""
        import sys

        import horovod.tensorflow as hvd
        import numpy as np

        lost = [name for name, v in variables if not np.isfinite(np.sum(v.numpy(), dtype=float))]
        if lost and not self.told_of_nan and hvd.rank() == 0:
            print(
                f"jupyter_hvd: after {self.steps} updates {lost[0]} is not finite any more, on all ranks: "
                "what one rank gets for its own batch is enough, whatever rank 0's loss says.",
                file=sys.stderr,
                flush=True,
            )
        self.told_of_nan |= bool(lost)

    def difference(self, found: list[Any], variables: dict[str, Any]) -> str:
        """What tells the ranks apart, with the rule to read, or ''; on all ranks alike."""
        import horovod.tensorflow as hvd
        import numpy as np
        import tensorflow as tf

        steps, first, also, _ = found[0]
        for rank, (count, sums, _, _) in enumerate(found):
            if count != steps:
                return (
                    f"Rank 0 has made {steps} updates, rank {rank} has made {count}. "
                    f"See: jupyter hvd rule {'HVD503' if self.in_fit else 'HVD303'}"
                )
            others = [name for name, _ in first if name not in dict(sums)]
            others += [name for name, _ in sums if name not in dict(first)]
            if others:
                return f"Rank {rank} trains other variables than rank 0: {others[0]}. See: jupyter hvd rule HVD302"
        # Adding up in parallel, GPUs round in no fixed order: there, equal means equal but for that, to half the digits.
        loose = bool(tf.config.list_physical_devices("GPU"))
        # A model that nobody holds any more is there on some ranks and gone on others: what all have is compared.
        everywhere = set.intersection(*({name for name, _ in others} for _, _, others, _ in found))
        zero_has = [*first, *(pair for pair in also if pair[0] in everywhere)]
        for rank, (_, sums, others, _) in enumerate(found):
            has = dict([*sums, *others])
            for name in [name for name, value in zero_has if has[name] != value]:
                value = np.asarray(variables[name].numpy())
                own = value.astype(np.float64)
                zero = np.asarray(hvd.broadcast_object(own, root_rank=0, name="guard.value"))
                apart = (
                    float(np.max(np.abs(own - zero), initial=0.0))
                    if own.shape == zero.shape
                    else np.inf
                )
                apart = max(hvd.allgather_object(apart, name="guard.apart"))
                scale = float(np.max(np.abs(zero), initial=0.0))
                rounding = float(np.spacing(value.dtype.type(1)))
                if apart <= (np.sqrt(rounding * hvd.size()) * scale if loose else 0.0):
                    continue
                rules = ("HVD401", "HVD202") if self.in_fit else ("HVD302", "HVD301")
                after = f"After {steps} update{'s' * (steps != 1)}" if steps else "After training"
                return (
                    f"{after} {name} of rank {rank} differs from rank 0's, by up to {apart:.3g}: the ranks "
                    f"train models of their own. See: jupyter hvd rule {rules[steps != 1]}"
                )
        return ""


def _checksum(variable: Any) -> int:
    """A number that stands for a variable's value."""
    import zlib

    import numpy as np

    return zlib.crc32(np.asarray(variable.numpy()).tobytes())


_guard: _Guard = _Guard()


def watch() -> None:
    """Compare the ranks while they train, from now on; one rank alone is left as it is.

    Every `fit` gets a callback, `broadcast_once` counts the updates of other loops, and when the program ends
    all ranks meet once more. A rank that has left while others train gives them zeros instead of letting
    them wait, until they notice.
    """
    import atexit

    import horovod.tensorflow as hvd

    if hvd.size() == 1 or _guard.watches:
        return
    _note_updates()
    _guard.watches = True
    atexit.register(_meet_at_exit)


def _note_updates() -> None:
    """Let every `fit` compare the ranks where these are watched, and every optimizer tell what it updates.

    Raises:
        RuntimeError: ranks have other versions of what computes.
    """
    import functools
    import inspect

    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    if _guard.notes:
        return
    used = f"TensorFlow {tf.__version__} with NumPy {np.__version__}"
    versions = hvd.allgather_object(used, name="guard.versions")
    if len(set(versions)) > 1:
        told = ", ".join(f"rank {rank} has {version}" for rank, version in enumerate(versions))
        raise RuntimeError(
            f"The ranks would compute different things: {told}. Install one on all hosts."
        )
    _guard.notes = True
    original = tf.keras.Model.fit
    position = list(inspect.signature(original).parameters).index("callbacks")

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if len(args) > position else kwargs.get("callbacks")
        if _guard.watches and not isinstance(given, tf.keras.callbacks.CallbackList):
            guarded = [*tf.nest.flatten(given or []), _fit_guard()]
            if len(args) > position:
                args = (*args[:position], guarded, *args[position + 1 :])
            else:
                kwargs["callbacks"] = guarded
        return original(*args, **kwargs)

    tf.keras.Model.fit = fit
    kinds = [tf.keras.optimizers.Optimizer]
    if not hasattr(kinds[0], "apply") and hasattr(tf.keras.optimizers, "legacy"):
        kinds.append(tf.keras.optimizers.legacy.Optimizer)
    for kind in kinds:
        _note_updates_of(kind)


def _note_updates_of(kind: Any) -> None:
    """Let every optimizer of a kind tell what it updates."""
    import functools

    name = "apply" if hasattr(kind, "apply") else "apply_gradients"  # Keras 3, Keras 2
    original = getattr(kind, name)

    @functools.wraps(original)
    def update(own: Any, given: Any, *args: Any, **kwargs: Any) -> Any:
        given = list(given)
        result = original(own, given, *args, **kwargs)
        known = getattr(own, "_trainable_variables", ())  # of Keras 3; there is no public way
        _guard.note(own, list(known) if name == "apply" else [variable for _, variable in given])
        return result

    setattr(kind, name, update)


def watch_cell() -> None:
    """Count anew what is trained, on a rank that lives on behind a cell; who keeps it calls `meet` then."""
    import horovod.tensorflow as hvd

    if hvd.size() > 1:
        _note_updates()
        _guard.begin()
        _guard.watches = False


def training_digest() -> str:
    """A digest of what was trained since `watch_cell`, which is over; '' where nothing was.

    It is equal on ranks that have trained the same; where it is not, `meet` tells whether they differ, and how.
    """
    import hashlib

    import horovod.tensorflow as hvd
    import numpy as np

    _guard.watches = False
    if not (_guard.notes and _guard.has_updated()):
        return ""
    variables, sums, also = _guard.sums(uncounted=True)
    finite = all(np.isfinite(np.sum(v.numpy(), dtype=float)) for _, v in variables)
    own = "" if finite else f"rank {hvd.rank()} is to tell"
    told = f"{_guard.steps} {sums} {also} {own}"
    return hashlib.sha256(told.encode()).hexdigest()


def meet() -> str:
    """Compare what was trained since `watch_cell`, on all ranks, none of which trains; what tells them apart, or ''."""
    try:
        _guard.compare(uncounted=True)
    except RuntimeError as error:
        return str(error)
    return ""


def compare_ranks(*trained: Any, count: int = 1) -> None:
    """Note that an update was made, and compare its variables on all ranks where that is due.

    That is after the first two updates, then as often as costs no more than a hundredth of the time.

    Args:
        trained: models, layers, variables, or lists of these.
        count: how many updates.

    Raises:
        RuntimeError: on all ranks: their variables differ, or they have made different numbers of updates.
    """
    import tensorflow as tf

    if _guard.watches:
        _guard.count(tf.nest.flatten(trained), count)


def _fit_guard() -> Any:
    """The callback that watches one `fit`."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    class Guard(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            _guard.in_fit = True
            steps = hvd.allgather_object((self.params or {}).get("steps"), name="guard.steps")
            if len(set(steps)) > 1:
                counts = ", ".join(f"rank {rank} has {n}" for rank, n in enumerate(steps))
                raise RuntimeError(
                    f"The ranks would wait for one another: of the batches of an epoch {counts}. "
                    "See: jupyter hvd rule HVD503"
                )

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            compare_ranks(self.model)

        def on_train_end(self, logs: Any = None) -> None:
            _guard.in_fit = False

    return Guard()


def join_ranks() -> int:
    """Answer for this rank where others go on, until all have come here; the last rank that has.

    TensorFlow takes Horovod's operation for a constant and keeps its first answer, with which a second `hvd.join()` returns at
    once, while others train: in a function of its own it is asked anew.
    """
    import horovod.tensorflow as hvd
    import tensorflow as tf
    from horovod.tensorflow import mpi_ops

    if hvd.size() == 1:
        return 0
    return int(tf.compat.v1.wrap_function(mpi_ops.join, [])())


def _meet_at_exit() -> None:
    """Wait for the other ranks at the end, and compare once more."""
    import os
    import sys

    import horovod.tensorflow as hvd

    if hasattr(sys, "last_value") or not hvd.is_initialized():
        return  # it ends by an error, which is told already
    try:
        join_ranks()
        _guard.compare(uncounted=True)
    except RuntimeError as error:
        print(f"jupyter_hvd: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)
    except Exception:  # noqa: S110 — another rank ended by an error, and has told it
        pass
