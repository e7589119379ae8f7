"""A stand-in for TensorFlow, Keras and the runtime that runs the programs of `scaled_grammar` in milliseconds.

It has one model, of one weight, whose loss is a mean of `y - w * x`. `test_scaled_programs` compares it with TensorFlow.
"""

from __future__ import annotations

import ast
import math
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
from scaled_process import NAME, ScaledRun

from jupyter_hvd.verify.exact.number_recorder import GLOBALS, recorder
from jupyter_hvd.verify.exact.records import Event, Fit, Record, Site

SITES = (Site("batch", f"{NAME}, line 1", ("row",)), Site("update", f"{NAME}, line 1", ("w",)))


class Variable(np.lib.mixins.NDArrayOperatorsMixin):
    """A number or an array that can be assigned."""

    def __init__(self, value: Any, trainable: bool = True) -> None:
        self.held = np.asarray(value, float)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.held if dtype is None else self.held.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, how: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, how)(*map(np.asarray, inputs), **options)

    def __float__(self) -> float:
        return float(self.held.reshape(()))

    def __int__(self) -> int:
        return int(self.held)

    def __getitem__(self, index: Any) -> Any:
        return self.held[index]

    def numpy(self) -> Any:
        return self.held

    def assign(self, value: Any) -> None:
        self.held = np.array(value, float)

    def assign_add(self, value: Any) -> None:
        self.assign(self.held + value)

    def assign_sub(self, value: Any) -> None:
        self.assign(self.held - value)


class Dataset:
    """Rows, or batches of rows, once or forever."""

    def __init__(self, arrays: tuple[Any, Any], size: int = 1, forever: bool = False) -> None:
        self._arrays, self._size, self._forever = arrays, size, forever

    @staticmethod
    def from_tensor_slices(arrays: tuple[Any, Any]) -> Dataset:
        return Dataset(arrays)

    def repeat(self) -> Dataset:
        return Dataset(self._arrays, self._size, True)

    def batch(self, size: int, drop_remainder: bool = False) -> Dataset:
        rows = len(self._arrays[0])
        kept = rows - rows % size if drop_remainder else rows
        return Dataset((self._arrays[0][:kept], self._arrays[1][:kept]), size, self._forever)

    def __len__(self) -> int:
        return math.ceil(len(self._arrays[0]) / self._size)

    def __iter__(self) -> Iterator[Any]:
        rows, start = len(self._arrays[0]), 0
        while self._forever or start < rows:
            end = start + self._size
            at = np.arange(start, end if self._forever else min(end, rows)) % rows
            yield tuple(array[at] for array in self._arrays)
            start = end


class Schedule:
    def __call__(self, step: Any) -> Any:
        raise NotImplementedError


def _schedule(formula: Callable[..., float]) -> type[Schedule]:
    class Made(Schedule):
        def __init__(self, *given: Any, **named: Any) -> None:
            self._given, self._named = given, named

        def __call__(self, step: Any) -> float:
            return formula(float(step), *self._given, **self._named)

    return Made


def _exponential(
    s: float, rate: float, length: float, factor: float, staircase: bool = False
) -> float:
    return rate * factor ** (s // length if staircase else s / length)


def _cosine(s: float, rate: float, length: float) -> float:
    return rate * 0.5 * (1 + math.cos(math.pi * min(1.0, s / length)))


def _restarts(s: float, rate: float, length: float) -> float:
    """Each cycle is twice as long as the one before."""
    cycle = math.floor(math.log2(1 + s / length))
    done = (s / length - (2**cycle - 1)) / 2**cycle
    return rate * 0.5 * (1 + math.cos(math.pi * done))


def _piecewise(s: float, bounds: list[float], values: list[float]) -> float:
    return values[sum(s > bound for bound in bounds)]


class Optimizer:
    """Gradient descent; `factor` is what `scale_rate` has set."""

    def __init__(self, run: Run, rate: Any, adapts: bool) -> None:
        self._run, self._adapts, self.factor = run, adapts, 1
        self._rate = rate if callable(rate) else Variable(rate)
        self.iterations = Variable(0)
        self._mean = self._square = 0.0

    @property
    def learning_rate(self) -> Any:
        return self._rate(int(self.iterations)) if callable(self._rate) else self._rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._rate = Variable(value)

    def multiply(self, size: int) -> None:
        """Multiply the rate once, as a person would."""
        given = self._rate
        self._rate = (lambda s: size * given(s)) if callable(given) else Variable(size * given)

    def apply_gradients(self, pairs: Any) -> None:
        steps = int(self.iterations)
        rate = self._rate(steps * self.factor) if callable(self._rate) else float(self._rate)
        rate = float(rate) * self.factor
        for gradient, variable in pairs:
            self._mean = 0.9 * self._mean + 0.1 * gradient
            self._square = 0.999 * self._square + 0.001 * gradient**2
            direction = gradient
            if self._adapts:
                root = math.sqrt(self._square / (1 - 0.999 ** (steps + 1)))
                direction = self._mean / (1 - 0.9 ** (steps + 1)) / (root + 1e-7)
            variable.assign_sub(rate * direction)
        self.iterations.assign_add(1)
        self._run.note(1, rate)


class Callback:
    model: Any = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):
            return lambda *_, **__: None
        raise AttributeError(name)


class LearningRateScheduler(Callback):
    def __init__(self, function: Callable[..., float]) -> None:
        self._function = function

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        optimizer = self.model.optimizer
        try:
            rate = self._function(epoch, float(optimizer.learning_rate))
        except TypeError:
            rate = self._function(epoch)
        optimizer.learning_rate = rate


class _Waiting(Callback):
    """A callback that waits for a loss to fall."""

    def __init__(self, least: float, patience: int) -> None:
        self._least, self._patience, self._best, self._bad = least, patience, math.inf, 0

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs["loss"] < self._best - self._least:
            self._best, self._bad = logs["loss"], 0
            return
        self._bad += 1
        if self._bad >= self._patience:
            self.act()

    def act(self) -> None:
        raise NotImplementedError


class EarlyStopping(_Waiting):
    def __init__(self, monitor: str, min_delta: float, patience: int) -> None:
        super().__init__(min_delta, patience)

    def act(self) -> None:
        self.model.stop_training = True


class ReduceLROnPlateau(_Waiting):
    def __init__(self, monitor: str, factor: float, patience: int, min_delta: float, min_lr: float) -> None:  # fmt: skip
        super().__init__(min_delta, patience)
        self._factor, self._floor = factor, min_lr

    def act(self) -> None:
        optimizer = self.model.optimizer
        optimizer.learning_rate = max(float(optimizer.learning_rate) * self._factor, self._floor)
        self._bad = 0


class LambdaCallback(Callback):
    def __init__(self, **functions: Any) -> None:
        self.__dict__.update(functions)


class Model:
    def __init__(self, run: Run) -> None:
        self._run, self.stop_training = run, False
        self.trainable_variables = self.weights = [Variable([[1.0]])]

    def __call__(self, rows: Any) -> Any:
        self._run.note(0, len(rows))
        return np.asarray(rows) * self.trainable_variables[0].held

    def get_weights(self) -> list[Any]:
        return [v.held for v in self.trainable_variables]

    def compile(self, optimizer: Optimizer, loss: Any, run_eagerly: bool) -> None:
        self.optimizer = optimizer

    def fit(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        epochs: int = 1,
        verbose: int = 0,
        callbacks: Any = (),
        validation_split: float = 0.0,
        shuffle: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        data, held_out = x, 0
        if not isinstance(x, Dataset):
            kept = math.floor(len(x) * (1 - validation_split))
            held_out = len(x) - kept
            data = Dataset((x[:kept], y[:kept]), batch_size)
        for callback in callbacks:
            callback.model = self
            callback.on_train_begin()
        batches = iter(data) if steps_per_epoch else None
        done = 0
        for epoch in range(epochs):
            for callback in callbacks:
                callback.on_epoch_begin(epoch)
            self._epoch(batches or iter(data), steps_per_epoch or len(data), callbacks)
            if held_out:
                for start in range(0, held_out, batch_size):
                    self._run.note(0, min(batch_size, held_out - start))
                for callback in callbacks:
                    callback.on_test_end(None)
            for callback in callbacks:
                callback.on_epoch_end(epoch, self._logs)
            done += 1
            if self.stop_training:
                break
        self._run.fits.append(Fit(SITES[0].line, done, {}))

    def _epoch(self, batches: Iterator[Any], steps: int, callbacks: Any) -> None:
        total = rows = 0.0
        for number in range(steps):
            a, b = next(batches)
            for callback in callbacks:
                callback.on_train_batch_begin(number)
            total += float(np.sum(b - self(a)))
            rows += len(a)
            self.optimizer.apply_gradients([(-float(np.mean(a)), self.trainable_variables[0])])
            self._logs = {"loss": total / rows}
            for callback in callbacks:
                callback.on_train_batch_end(number, self._logs)
            if self.stop_training:
                break


class Tape:
    """The loss falls by the mean of `x`, all data of which are one number."""

    def __enter__(self) -> Tape:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def gradient(self, loss: Any, variables: list[Variable]) -> list[float]:
        return [-0.01 for _ in variables]


class Run:
    """One run of a program: the modules that it sees, and what it does."""

    def __init__(self, size: int, naive_rate: bool = False) -> None:
        self.size, self._naive_rate = size, naive_rate
        self.events: list[Event] = []
        self.fits: list[Fit] = []
        self.printed: list[tuple[int, str]] = []

    def note(self, site: int, value: float) -> None:
        self.events.append(Event(site, float(value), np.zeros(0)))

    def print(self, *values: object, **_: object) -> None:
        self.printed.append((len(self.events), " ".join(map(str, values))))

    def modules(self) -> dict[str, types.ModuleType]:
        schedules = types.SimpleNamespace(
            LearningRateSchedule=Schedule,
            ExponentialDecay=_schedule(_exponential),
            CosineDecay=_schedule(_cosine),
            CosineDecayRestarts=_schedule(_restarts),
            PiecewiseConstantDecay=_schedule(_piecewise),
            PolynomialDecay=_schedule(lambda s, a, n, b: a + (b - a) * min(1.0, s / n)),
            InverseTimeDecay=_schedule(lambda s, rate, n, factor: rate / (1 + factor * s / n)),
        )
        keras = types.SimpleNamespace(
            Input=lambda _: None,
            Sequential=lambda _: Model(self),
            layers=types.SimpleNamespace(Dense=lambda *_, **__: None),
            callbacks=types.SimpleNamespace(
                Callback=Callback,
                LearningRateScheduler=LearningRateScheduler,
                ReduceLROnPlateau=ReduceLROnPlateau,
                EarlyStopping=EarlyStopping,
                LambdaCallback=LambdaCallback,
            ),
            optimizers=types.SimpleNamespace(
                SGD=lambda rate: Optimizer(self, rate, False),
                Adam=lambda rate: Optimizer(self, rate, True),
                schedules=schedules,
            ),
        )
        tensorflow = types.ModuleType("tensorflow")
        tensorflow.__dict__.update(
            keras=keras,
            data=types.SimpleNamespace(Dataset=Dataset),
            math=types.SimpleNamespace(rsqrt=lambda x: x**-0.5),
            GradientTape=Tape,
            Variable=Variable,
            float32=float,
            int32=int,
            cast=lambda x, kind: kind(x) if np.ndim(x) == 0 else np.asarray(x).astype(kind),
            constant=np.asarray,
            identity=np.array,
            zeros=np.zeros,
            range=np.arange,
            where=np.where,
            minimum=np.minimum,
            reduce_mean=np.mean,
            reduce_sum=np.sum,
        )
        horovod, jhvd = types.ModuleType("horovod.tensorflow"), types.ModuleType("runtime")
        horovod.__dict__.update(size=lambda: self.size, rank=lambda: 0, init=lambda: None)
        jhvd.__dict__.update(
            start_shared=lambda: None,
            scale_rate=self.scale_rate,
            DistributedGradientTape=lambda tape: tape,
            DistributedOptimizer=lambda optimizer: optimizer,
            BroadcastGlobalVariablesCallback=lambda _: Callback(),
        )
        package = types.ModuleType("horovod")
        package.__dict__.update(tensorflow=horovod)
        return {
            "tensorflow": tensorflow,
            "horovod": package,
            "horovod.tensorflow": horovod,
            "jupyter_hvd.runtime": jhvd,
        }

    def scale_rate(self, optimizer: Optimizer) -> Optimizer:
        if self._naive_rate:
            optimizer.multiply(self.size)
        else:
            optimizer.factor = self.size
        return optimizer


def run(source: str, size: int, naive_rate: bool = False) -> ScaledRun:
    """Run a program as so many ranks.

    Args:
        naive_rate: `scale_rate` multiplies the rate once, where it is given, as a person would.
    """
    import jupyter_hvd

    made, error = Run(size, naive_rate), ""
    modules = made.modules()
    namespace = {"__name__": "__main__", "print": made.print, **GLOBALS}
    recorder.begin_program(made.events)
    runtime = mock.patch.object(jupyter_hvd, "runtime", modules["jupyter_hvd.runtime"], create=True)
    with mock.patch.dict(sys.modules, modules), runtime:
        try:
            exec(compile(recorder.instrument(ast.parse(source), NAME), NAME, "exec"), namespace)
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
    record = Record(
        sites=SITES,
        events=tuple(made.events),
        fits=tuple(made.fits),
        number_sites=recorder.sites(),
        number_series=recorder.series(),
    )
    return ScaledRun(record, tuple(made.printed), error)
