"""Ranks that part, or wait for one another in vain, are stopped and told why."""

from __future__ import annotations

from typing import Any


class _Guard:
    """What is trained, how often it was updated, and when the ranks compare it next."""

    def __init__(self) -> None:
        self.watches = False
        self.in_fit = False
        self.trained: dict[int, Any] = {}
        self.steps = 0
        self.due = 1
        self.compared_steps = 0
        self.compared_at = 0.0
        self.seconds_gathering = 0.0
        self.told_of_nan = False

    def count(self, trained: Any, updates: int) -> None:
        self.trained.update((id(each), each) for each in trained)
        self.steps += updates
        if self.steps >= self.due:
            self.compare()

    def compare(self) -> None:
        """Compare what is trained on all ranks, and say when to compare again."""
        import math
        import time
        import zlib

        import horovod.tensorflow as hvd
        import numpy as np

        began = time.monotonic()
        variables = self.variables()
        sums = [(name, zlib.crc32(np.asarray(v.numpy()).tobytes())) for name, v in variables]
        summed = time.monotonic() - began
        per_step = (began - self.compared_at) / max(1, self.steps - self.compared_steps)
        again = math.ceil(100 * (summed + self.seconds_gathering) / max(per_step, 1e-6))
        try:
            found = hvd.allgather_object((self.steps, sums, again), name="guard.compare")
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
        self.due = 2 if self.steps == 1 else self.steps + max(1, *(again for _, _, again in found))
        self.compared_steps, self.compared_at = self.steps, time.monotonic()

    def variables(self) -> list[tuple[str, Any]]:
        """The variables that are trained, with their names, each once; moving averages are each rank's own."""
        found: dict[int, tuple[str, Any]] = {}
        for owner in self.trained.values():
            for variable in getattr(owner, "trainable_variables", [owner]):
                name = getattr(variable, "path", variable.name)
                found.setdefault(id(variable), (f"{name} ({len(found)})", variable))
        return list(found.values())

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

        steps, first, _ = found[0]
        for rank, (count, sums, _) in enumerate(found):
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
        for rank, (_, sums, _) in enumerate(found):
            for name in [name for name, value in first if dict(sums)[name] != value]:
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
                if loose and apart <= np.sqrt(rounding * hvd.size()) * scale:
                    continue
                rules = ("HVD401", "HVD202") if self.in_fit else ("HVD302", "HVD301")
                return (
                    f"After {steps} updates {name} of rank {rank} differs from rank 0's, by up to {apart:.3g}: the ranks "
                    f"train models of their own. See: jupyter hvd rule {rules[steps > 1]}"
                )
        return ""


_guard: _Guard = _Guard()


def watch() -> None:
    """Compare the ranks while they train, from now on; one rank alone is left as it is.

    Every `fit` gets a callback, `broadcast_once` counts the updates of other loops, and when the program ends
    all ranks meet once more. A rank that has left while others train gives them zeros instead of letting
    them wait, until they notice.
    """
    import atexit
    import functools
    import inspect

    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    if hvd.size() == 1 or _guard.watches:
        return
    used = f"TensorFlow {tf.__version__} with NumPy {np.__version__}"
    versions = hvd.allgather_object(used, name="guard.versions")
    if len(set(versions)) > 1:
        told = ", ".join(f"rank {rank} has {version}" for rank, version in enumerate(versions))
        raise RuntimeError(
            f"The ranks would compute different things: {told}. Install one on all hosts."
        )
    _guard.watches = True
    original = tf.keras.Model.fit
    position = list(inspect.signature(original).parameters).index("callbacks")

    @functools.wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        given = args[position] if len(args) > position else kwargs.get("callbacks")
        if not isinstance(given, tf.keras.callbacks.CallbackList):
            guarded = [*tf.nest.flatten(given or []), _fit_guard()]
            if len(args) > position:
                args = (*args[:position], guarded, *args[position + 1 :])
            else:
                kwargs["callbacks"] = guarded
        return original(*args, **kwargs)

    tf.keras.Model.fit = fit
    atexit.register(_meet_at_exit)


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


def _meet_at_exit() -> None:
    """Wait for the other ranks at the end, and compare once more."""
    import os
    import sys

    import horovod.tensorflow as hvd

    if hasattr(sys, "last_value") or not hvd.is_initialized():
        return  # it ends by an error, which is told already
    try:
        hvd.join()
        if _guard.steps:
            _guard.compare()
    except RuntimeError as error:
        print(f"jupyter_hvd: {error}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        os._exit(1)
    except Exception:  # noqa: S110 — another rank ended by an error, and has told it
        pass
