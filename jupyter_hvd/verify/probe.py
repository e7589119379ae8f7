"""Watches one rank while it trains, from inside its process, and writes down what it saw.

TensorFlow, Keras and Horovod do their own work: each patched function calls the one that it
stands for. The seeds are set before the program begins; NumPy's `default_rng`, where it is given none, and
TensorFlow's generators of no deterministic state start from ours: these alone are replaced.
"""

from __future__ import annotations

import builtins
import functools
import hashlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import GeneratorType
from typing import Any

from ..files import write_atomically
from ..rank.shell_lines import ShellLines
from .guard import Guard
from .workspace import State, changed, make_copy, state_within

#: Where the probe's orders are: a JSON object of the arguments of `orders`.
ORDERS_VARIABLE = "JUPYTER_HVD_PROBE"
#: The name under which a program finds the counter of its steps among the builtins.
COUNTER = "__jupyter_hvd_step__"
#: The name of what notes which statement updates weights.
UPDATER = "__jupyter_hvd_update__"
#: The name of what notes that rank 0 begins what it does alone, which is not compared.
ALONE = "__jupyter_hvd_alone__"
#: So many bytes of the weights after each step are kept, from the first step on.
KEPT_BYTES = 64 * 2**20
#: The steps at which schedules are asked for their rates.
SAMPLED_STEPS = (0, 1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
#: At most so many examples are told apart.
MAX_EXAMPLES = 200_000


class EnoughStepsError(SystemExit):
    """Ends the program, in order, when it has made the steps that were asked for."""


class Probe:
    """The record of one rank.

    Attributes:
        steps: how many training steps have begun.
        broadcasts: for each variable, by its place among all that were broadcast, how often.
    """

    def __init__(self, folder: Path, guard: Guard, seed: int, limit: int, stride: int = 1) -> None:
        self.rank = int(os.environ.get("HOROVOD_RANK", "0"))
        self.folder, self.guard, self.limit, self.stride = folder, guard, limit, stride
        self.seed = seed + self.rank
        self.begun: list[tuple[float, float]] = []  # seconds passed, and those of any core's work
        self.ended: list[tuple[float, float]] = []
        self.trail: list[dict[str, Any]] = []
        self.applied: Any = None  # the sum of all gradients that optimizers were given
        self.averages: Any = None  # how often gradients were averaged
        self.data = ""  # a digest of the elements that were drawn until now
        self.updating = -1  # the update that runs, or is compiled
        self.updated_by: dict[Any, int] = {}
        self._kept: dict[str, Any] = {}
        self._kept_bytes = 0
        self.trained: dict[Any, Any] = {}
        self.differentiated: dict[Any, Any] = {}
        self.optimizers: dict[int, Any] = {}
        self.rates: dict[int, list[float]] = {}  # each that an optimizer was set to, in order
        self.schedules: dict[int, Any] = {}
        self.broadcast: Counter[Any] = Counter()
        self.compiled_broadcasts = 0
        self.rows: Counter[str] = Counter()
        self.endless = False
        self._iterator: Any = None
        self._pending: list[str] = []
        self._candidate: Any = None  # the iterator of those
        self._item: list[tuple[Any, list[str]]] | None = (
            None  # what was drawn for one that may be another rank's
        )
        self._shared: set[int] = set()  # the iterators that this was drawn from
        self.fits = 0
        self._batches: Iterator[Any] = iter(())
        self._drawn = self._wanted = 0
        self._copied: State = {}
        self._by_shell: set[str] = set()
        self._alone: tuple[Any, int, int] | None = (
            None  # a frame, and its lines from one to another
        )

    # Before the program

    def start(self) -> None:
        """Set the seeds and begin to watch."""
        import numpy as np
        import tensorflow as tf

        random.seed(self.seed)
        np.random.seed(self.seed)
        tf.random.set_seed(self.seed)
        made = np.random.default_rng
        np.random.default_rng = lambda seed=None: made(self.seed if seed is None else seed)
        generators = tf.random.Generator
        generators.from_non_deterministic_state = classmethod(
            lambda cls, alg=None: cls.from_seed(self.seed, alg=alg)
        )
        setattr(builtins, COUNTER, self.step)
        setattr(builtins, ALONE, self.begin_alone)
        setattr(builtins, UPDATER, tf.autograph.experimental.do_not_convert(self.update))
        self._watch_optimizers(tf)
        self._watch_tapes(tf)
        self._watch_fit(tf)
        self._watch_iterators()
        self._watch_broadcasts(tf)
        self._watch_averages(tf)
        self._copied = state_within(working_folder(self.folder, self.rank))
        if "HOROVOD_RANK" in os.environ:
            self._watch_sharing()
            self._see_files_of_rank_zero()
            ShellLines.around = self._notes_files
        sys.addaudithook(self.guard)

    def begin_alone(self, lines: int) -> bool:
        """The next lines of the caller are rank 0's alone: what trains there is not this training."""
        frame = sys._getframe(1)
        self._alone = frame, frame.f_lineno, frame.f_lineno + lines
        return True

    @property
    def _is_alone(self) -> bool:
        """Whether what runs is called by such lines."""
        if self._alone is None:
            return False
        place, first, last = self._alone
        frame = sys._getframe(1)
        while frame is not None and frame is not place:
            frame = frame.f_back  # type: ignore[assignment]
        return frame is not None and first <= frame.f_lineno <= last

    def _watch_optimizers(self, tf: Any) -> None:
        if hasattr(tf.keras.optimizers.Optimizer, "apply"):
            self._watch_apply(tf.keras.optimizers.Optimizer)
            return
        for base in (tf.keras.optimizers.Optimizer, tf.keras.optimizers.legacy.Optimizer):
            original = base.apply_gradients

            @functools.wraps(original)
            def apply(
                own: Any,
                grads_and_vars: Iterable[Any],
                *args: Any,
                _original: Any = original,
                **kw: Any,
            ) -> Any:
                pairs = list(grads_and_vars)
                self._saw_update(own, [variable for _, variable in pairs])
                self._saw_gradients([gradient for gradient, _ in pairs])
                return _original(own, pairs, *args, **kw)

            base.apply_gradients = apply

    def _watch_tapes(self, tf: Any) -> None:
        """Note the variables that gradients are taken for: what is trained where no optimizer is."""
        original = tf.GradientTape.gradient

        @functools.wraps(original)
        def gradient(own: Any, target: Any, sources: Any, *args: Any, **kw: Any) -> Any:
            for source in map(_tensorflow_variable, tf.nest.flatten(sources)):
                if isinstance(source, tf.Variable) and not self._is_alone:
                    self.differentiated.setdefault(source.ref(), source)
            return original(own, target, sources, *args, **kw)

        tf.GradientTape.gradient = gradient

    def _watch_apply(self, base: Any) -> None:
        """Keras 3, where every update ends in `apply`."""
        original = base.apply

        @functools.wraps(original)
        def apply(own: Any, grads: Any, trainable_variables: Any = None) -> Any:
            variables = trainable_variables
            if variables is None:
                variables = own._trainable_variables  # there is no public way
            else:
                trainable_variables = variables = list(variables)
            grads = list(grads)
            self._saw_update(own, [_tensorflow_variable(variable) for variable in variables])
            self._saw_gradients(grads)
            return original(own, grads, trainable_variables)

        base.apply = apply

    def _saw_update(self, optimizer: Any, variables: list[Any]) -> None:
        if self._is_alone:
            return
        for variable in variables:
            self.trained.setdefault(variable.ref(), variable)
            self.updated_by.setdefault(variable.ref(), self.updating)
        if id(optimizer) not in self.optimizers:
            import tensorflow as tf

            self.optimizers[id(optimizer)] = optimizer
            # Keras shows a schedule as its current value; only this attribute has the schedule itself.
            rate = getattr(optimizer, "_learning_rate", None)
            if rate is None:
                rate = optimizer.learning_rate
            if isinstance(rate, tf.keras.optimizers.schedules.LearningRateSchedule):
                self.schedules[id(optimizer)] = rate
            else:
                self.rates[id(optimizer)] = []
                with tf.init_scope():
                    self._read_rates()

    def _saw_gradients(self, gradients: list[Any]) -> None:
        """Add up what an optimizer is given, also in a compiled step: equal sums on all ranks are equal gradients."""
        import tensorflow as tf

        values = [getattr(g, "values", g) for g in gradients if g is not None]
        if not values or self._is_alone:
            return
        if self.applied is None:
            with tf.init_scope():
                self.applied = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        sums = [tf.reduce_sum(tf.cast(value, tf.float64)) for value in values]
        self.applied.assign_add(tf.add_n(sums))

    def _read_rates(self) -> None:
        """Note every rate that is another than before."""
        for key, seen in self.rates.items():
            rate = self.optimizers[key].learning_rate
            rate = rate() if callable(rate) else rate
            # A variable of a strategy is no number, but has one.
            now = float(rate.numpy() if hasattr(rate, "numpy") else rate)
            if not seen or now != seen[-1]:
                seen.append(now)

    def _sample(self, schedule: Any) -> list[list[float]]:
        """The rates around each sampled step: a count divided by N may be a step early or late."""
        around = ((step + by for by in (0, -1, 1)) for step in SAMPLED_STEPS)
        return [[float(schedule(max(step, 0) * self.stride)) for step in near] for near in around]

    def _watch_fit(self, tf: Any) -> None:
        original = tf.keras.Model.fit
        probe = self

        class Steps(tf.keras.callbacks.Callback):  # type: ignore[misc]
            def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
                probe.step()

        @functools.wraps(original)
        def fit(own: Any, *args: Any, **kw: Any) -> Any:
            if probe._is_alone:
                return original(own, *args, **kw)
            data, steps = args[0] if args else kw.get("x"), kw.get("steps_per_epoch")
            if isinstance(data, GeneratorType):
                watched = probe._watch_batches(data, steps)
                args, kw = ((watched, *args[1:]), kw) if args else (args, {**kw, "x": watched})
            else:
                probe._count_fit(data, steps)
            given = tf.nest.flatten(kw.get("callbacks") or [])
            kw["callbacks"] = [*given, Steps()]
            return original(own, *args, **kw)

        tf.keras.Model.fit = fit

    def _count_fit(self, data: Any, steps: int | None) -> None:
        """The examples of the first fit, counted beforehand, since its loop is compiled."""
        import numpy as np
        import tensorflow as tf

        self.fits += 1
        if self.fits > 1:
            return
        if isinstance(data, tf.data.Dataset):
            limit = steps or (
                None if int(data.cardinality()) != tf.data.INFINITE_CARDINALITY else 0
            )
            self.endless = limit == 0 or steps is not None
            elements = data if limit is None else data.take(limit)
            for element in elements.as_numpy_iterator() if limit != 0 else ():
                self.rows.update(_row_names(tf.nest.flatten(element)))
        elif isinstance(data, tf.keras.utils.Sequence):
            state, python_state = np.random.get_state(), random.getstate()
            for index in range(min(len(data), steps or len(data))):
                self.rows.update(_row_names(tf.nest.flatten(data[index])))
            np.random.set_state(state)
            random.setstate(python_state)
        elif data is not None:
            self.rows.update(_row_names([np.asarray(part) for part in tf.nest.flatten(data)]))

    def _watch_batches(self, batches: Iterator[Any], steps: int | None) -> Iterator[Any]:
        """A generator's batches, those of the first epoch of the first fit remembered."""
        import tensorflow as tf

        self.fits += 1
        if self.fits > 1:
            return batches
        self.endless = steps is None

        def watched() -> Iterator[Any]:
            for number, batch in enumerate(batches):
                if steps is None or number < steps:
                    self.rows.update(_row_names(tf.nest.flatten(batch)))
                self._drawn = number + 1
                yield batch

        self._batches, self._wanted = watched(), steps or 0
        return self._batches

    def _watch_iterators(self) -> None:
        from tensorflow.python.data.ops.iterator_ops import OwnedIterator

        original = OwnedIterator.__next__

        @functools.wraps(original)
        def advance(own: Any) -> Any:
            element = original(own)
            self._saw_element(own, element)
            return element

        OwnedIterator.__next__ = advance

    def _saw_element(self, iterator: Any, element: Any) -> None:
        """Remember an element; it counts as trained on once a step follows it, in the first epoch."""
        if self.fits or (self._iterator is not None and iterator is not self._iterator):
            return
        if self._is_alone:
            return
        import tensorflow as tf

        if not tf.executing_eagerly():
            return  # drawn inside a compiled function: `adapt` of a layer does
        names = _row_names([_as_array(part) for part in tf.nest.flatten(element)])
        self.data = hashlib.sha1(
            "".join([self.data, *names]).encode(), usedforsecurity=False
        ).hexdigest()[:16]
        if self._item is None:
            self._count(iterator, names)
        else:
            self._item.append((iterator, names))

    def _count(self, iterator: Any, names: list[str]) -> None:
        """This rank is to train on what was drawn."""
        if self._iterator is iterator:
            self.rows.update(names)
        elif self._candidate is iterator:  # a step may gather gradients of several
            self._pending += names
        else:
            self._candidate, self._pending = iterator, names

    def _watch_sharing(self) -> None:
        """Of items that every rank draws, each rank counts what was drawn for those that it keeps."""
        import horovod.tensorflow as hvd

        from ..runtime import data

        original = data._every_nth

        @functools.wraps(original)
        def every_nth(batches: Iterable[Any], beside: bool) -> Iterator[Any]:
            return original(batches if hvd.size() == 1 else self._shares(batches), beside)

        data._every_nth = every_nth

    def _shares(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, drawn in groups of one for each rank; those of the last, smaller group are divided by rows."""
        import horovod.tensorflow as hvd

        rank, size = hvd.rank(), hvd.size()
        rest, group = iter(items), list[list[tuple[Any, list[str]]]]()
        while True:
            self._item = []
            try:
                item = next(rest)
            except StopIteration:
                break
            finally:
                drawn, self._item = self._item, None
            group.append(drawn)
            self._shared.update(id(iterator) for iterator, _ in drawn)
            if len(group) == size:
                for iterator, names in group[rank]:
                    self._count(iterator, names)
                group.clear()
            yield item
        for drawn in group:
            for iterator, names in drawn:
                self._count(iterator, names[min(rank, len(names) - 1) :: size])

    def step(self, number: int = -1) -> None:
        """A training step begins; the program ends where enough have been made.

        Args:
            number: of the statement that runs it, among those that are marked; -1 in `fit`.
        """
        if self._is_alone:
            return
        self.ended.append(_moment())
        if self._iterator is None and self._pending and not self.fits:
            self._iterator = self._candidate
            self.rows.update(self._pending)
        self._read_rates()
        self._leave_trail(number)
        if len(self.begun) >= self.limit:
            raise EnoughStepsError(0)
        self.begun.append(_moment())

    def update(self, number: int) -> None:
        """The statement with this number, among those that are marked, updates weights next, or is compiled."""
        if not self._is_alone:
            self.updating = number

    def _leave_trail(self, number: int) -> None:
        """Note what the steps before have made of the weights, and of what they were given."""
        trained = self.trained if self.optimizers else self.differentiated
        weights = [variable.numpy() for variable in trained.values()]
        self._kept_bytes += sum(array.nbytes for array in weights)
        if self._kept_bytes <= KEPT_BYTES:
            step = len(self.trail)
            self._kept.update(
                (f"{step}.{place}", array)
                for place, array in enumerate(weights)
                if array.dtype.kind in "fciub"  # of bfloat16 a file keeps the bytes alone
            )
        self.trail.append(
            {
                "by": number,
                "weights": [_digest(array) for array in weights],
                "applied": "" if self.applied is None else float(self.applied.numpy()).hex(),
                "averages": 0 if self.averages is None else int(self.averages.numpy()),
                "data": self.data,
            }
        )

    def _watch_broadcasts(self, tf: Any) -> None:
        try:
            import horovod.tensorflow as hvd
        except ImportError:
            return
        original = hvd.broadcast_variables

        @functools.wraps(original)
        def broadcast(variables: Any, *args: Any, **kw: Any) -> Any:
            variables = list(variables)
            if tf.executing_eagerly():
                self.broadcast.update(variable.ref() for variable in variables)
            else:
                self.compiled_broadcasts += 1
            return original(variables, *args, **kw)

        hvd.broadcast_variables = broadcast

    def _watch_averages(self, tf: Any) -> None:
        """Count how often gradients are averaged, also in a compiled step; numbers alone are metrics."""
        try:
            import horovod.tensorflow as hvd
        except ImportError:
            return

        def counting(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def average(tensors: Any, *args: Any, **kw: Any) -> Any:
                parts = tensors if isinstance(tensors, (list, tuple)) else [tensors]
                if any(
                    isinstance(p, tf.IndexedSlices) or p.dtype != tf.float64 or p.shape.rank
                    for p in parts
                ):
                    if self.averages is None:
                        with tf.init_scope():
                            self.averages = tf.Variable(0, dtype=tf.int64, trainable=False)
                    self.averages.assign_add(1)
                return original(tensors, *args, **kw)

            return average

        for name in ("allreduce", "grouped_allreduce"):
            setattr(hvd, name, counting(getattr(hvd, name)))

    def _see_files_of_rank_zero(self) -> None:
        """Let this rank find what rank 0 has written in its own folder, once it has waited for rank 0.

        The ranks of a real job share a folder; here each has its own, so that it shows who writes.
        """
        if self.rank == 0:
            return
        # Its twin for Keras calls it; importing that one here would bind it to the wrong Keras.
        import horovod.tensorflow as hvd

        for name in ("broadcast", "broadcast_object"):
            setattr(hvd, name, self._linking(getattr(hvd, name)))

    @contextmanager
    def _notes_files(self) -> Iterator[None]:
        """Note what a shell line changes: ranks of a real job run it once, here each runs it in its own folder."""
        folder = working_folder(self.folder, self.rank)
        before = state_within(folder)
        try:
            yield
        finally:
            self._by_shell.update(changed(before, state_within(folder)))

    def _linking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def broadcast(*args: Any, **kw: Any) -> Any:
            received = original(*args, **kw)
            own, theirs = (working_folder(self.folder, rank) for rank in (self.rank, 0))
            mine = state_within(own)
            for name, (size, time_ns, _) in state_within(theirs).items():
                place = own / name
                if mine.get(name, ())[:2] == (size, time_ns) or str(place) in self.guard.written:
                    continue
                if name in mine and mine[name] != self._copied.get(name):
                    continue  # which this rank has written itself, from C++ perhaps
                if not place.is_symlink():
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.unlink(missing_ok=True)
                    place.symlink_to(theirs / name)
            return received

        return broadcast

    # After the program

    def finish(self) -> None:
        """Read the rest of the first epoch and write the record."""
        import numpy as np
        import tensorflow as tf

        self._drain()
        self._leave_trail(-1)
        np.savez(self.folder / trail_file(self.rank), **self._kept)
        if not self.optimizers:
            self.trained = self.differentiated
        weights = [_digest(variable.numpy()) for variable in self.trained.values()]
        state = [
            _digest(v.numpy()) for o in self.optimizers.values() for v in _optimizer_variables(o)
        ]
        record = {
            "rank": self.rank,
            "steps": len(self.begun),
            "seconds": self._lasted(0),
            "cpu_seconds": self._lasted(1),
            "cores": len(os.sched_getaffinity(0))
            if sys.platform == "linux"
            else os.cpu_count() or 1,
            "names": [variable.name.removesuffix(":0") for variable in self.trained.values()],
            "updated_by": [self.updated_by.get(ref, -1) for ref in self.trained],
            "rounds_freely": bool(tf.config.list_physical_devices("GPU")),
            "weights": weights,
            "trail": self.trail,
            "optimizer_state": state,
            "learning_rates": list(self.rates.values()),
            "schedules": [self._sample(schedule) for schedule in self.schedules.values()],
            "broadcasts": [self.broadcast[ref] for ref in self.trained],
            "optimizer_broadcasts": [
                self.broadcast[v.ref()]
                for o in self.optimizers.values()
                for v in _optimizer_variables(o)
            ],
            "starts": [max(1, len(self.optimizers)) + max(0, self.fits - 1) for _ in self.trained],
            "compiled_broadcasts": self.compiled_broadcasts,
            "rows": dict(self.rows),
            "endless": self.endless,
            "written": sorted(self.guard.written),
            "refused": self.guard.refused,
            "here": str(Path.cwd()),
            "by_shell": sorted(self._by_shell),
        }
        write_atomically(self.folder / f"probe-{self.rank}.json", json.dumps(record).encode())

    def _lasted(self, clock: int) -> list[float]:
        """How long each step took, by one of the clocks of a moment."""
        return [
            ended[clock] - begun[clock]
            for begun, ended in zip(self.begun, self.ended[1:], strict=False)
        ]

    def _drain(self) -> None:
        while self._drawn < self._wanted:
            try:
                next(self._batches)
            except (
                StopIteration,
                ValueError,
            ):  # at its end, or still drawn from by Keras' own thread
                break
        if self._iterator is None:
            return
        rest = self._iterator
        if id(rest) in self._shared:
            rest = self._shares(rest)
        for _ in range(100_000):
            if sum(self.rows.values()) > MAX_EXAMPLES:
                self.endless = True
                return
            try:
                next(rest)
            except StopIteration:
                return
        self.endless = True


def _moment() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _as_array(part: Any) -> Any:
    return part.numpy() if hasattr(part, "numpy") else part


def _row_names(parts: list[Any]) -> list[str]:
    """One name a row: of the rows at one place in all parts of a batch, or of a whole single example."""
    import numpy as np

    arrays = [np.asarray(part) for part in parts]
    if not arrays or any(a.ndim == 0 for a in arrays) or len({len(a) for a in arrays}) != 1:
        return [_digest(*arrays)]
    return [_digest(*(a[i] for a in arrays)) for i in range(len(arrays[0]))]


def _digest(*arrays: Any) -> str:
    import numpy as np

    found = hashlib.sha1(usedforsecurity=False)
    for array in arrays:
        array = np.ascontiguousarray(array)
        found.update(str((array.dtype, array.shape)).encode() + array.tobytes())
    return found.hexdigest()[:16]


def _optimizer_variables(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return [_tensorflow_variable(v) for v in (variables() if callable(variables) else variables)]


def _tensorflow_variable(variable: Any) -> Any:
    """What a variable of Keras 3 holds; TensorFlow's own have a method of that name."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def orders(
    folder: Path,
    beside: Path,
    *,
    ranks: int,
    seed: int,
    steps: int = sys.maxsize,
    stride: int = 1,
    own: Path | None = None,
) -> dict[str, str]:
    """Make a working folder for each rank, one for temporary files, and the environment that makes a rank carry a probe.

    What TensorFlow compiles it writes to temporary files first, and a rank that is ended leaves them.

    Args:
        folder: where the ranks work and leave their records.
        beside: the folder of the program. Each rank has a copy of what is in it; it is not touched.
        seed: of rank 0; every rank adds its own number.
        steps: the program ends, in order, after so many training steps.
        stride: how many steps of this program one step of what it is compared with makes up for.
        own: a folder that belongs to this job, wherever it lies; `folder` if None.

    Raises:
        OSError: there is no room for the copies.
    """
    own = own or folder
    for rank in range(ranks):
        make_copy(beside, working_folder(folder, rank), own)
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    wanted = {
        "folder": str(folder),
        "beside": str(beside.resolve()),
        "own": str(own),
        "temporary": tempfile.gettempdir(),
        "seed": seed,
        "steps": steps,
        "stride": stride,
    }
    return {ORDERS_VARIABLE: json.dumps(wanted), "TMPDIR": str(temporary)}


def read_record(folder: Path, rank: int) -> dict[str, Any]:
    """What the probe of a rank has written down."""
    record: dict[str, Any] = json.loads((folder / f"probe-{rank}.json").read_text())
    return record


def from_environment() -> Probe:
    """The probe that this process was ordered to carry, started."""
    wanted = json.loads(os.environ[ORDERS_VARIABLE])
    folder = Path(wanted["folder"])
    guard = Guard(*(Path(wanted[name]) for name in ("beside", "own", "temporary")))
    probe = Probe(folder, guard, wanted["seed"], wanted["steps"], wanted["stride"])
    os.chdir(working_folder(folder, probe.rank))
    probe.start()
    return probe


def trail_file(rank: int) -> str:
    """The name of the file of the weights that a rank had after its first steps, each as `STEP.PLACE`."""
    return f"trail-{rank}.npz"


def working_folder(folder: Path, rank: int) -> Path:
    """Where a rank works: a copy of the files beside the program, made before it starts."""
    return folder / f"cwd-{rank}"
