"""Random numbers that a program draws in Python: on several ranks they must not differ.

Ranks that split or shuffle the data each in its own way overlap in what they train on, and train
on what others test with. TensorFlow's own random numbers are another matter: noise and
dropout are to differ, and datasets are divided before they shuffle.
"""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from ...analysis.syntax import argument, method
from ...analysis.values import ValueAnalysis
from . import tf_api

#: Generators of random numbers of their own; without a seed no two ranks draw the same.
GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
_SEEDS = frozenset({"numpy.random.seed", "random.seed", "tensorflow.keras.utils.set_random_seed"})
#: What seeds TensorFlow's random numbers.
_TENSORFLOW_SEEDS = frozenset(
    {
        "tensorflow.random.set_seed",
        "tensorflow.compat.v1.set_random_seed",
        "tensorflow.keras.utils.set_random_seed",
    }
)
#: What sets or reads a state, and draws nothing.
_SILENT = _SEEDS | {"numpy.random.get_state", "numpy.random.set_state", "random.getstate"}

_OF_NOISE = frozenset(
    f"{module}.random.{name}"
    for module, names in {
        "numpy": (
            "normal",
            "rand",
            "randn",
            "random",
            "random_sample",
            "standard_normal",
            "uniform",
        ),
        "tensorflow": ("normal", "truncated_normal", "uniform"),
    }.items()
    for name in names
)
_OF_ROWS = frozenset(
    f"{module}.{name}"
    for module, names in {
        "numpy.random": ("randint", "random_integers", "choice", "permutation"),
        "random": ("randint", "randrange", "choice", "choices", "sample"),
    }.items()
    for name in names
)


class Randomness:
    """The random numbers of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values

    @cached_property
    def unseeded(self) -> list[cst.Call]:
        """Where a random generator is made that every rank would seed in its own way."""
        return [
            call
            for call in self.values.index.calls
            if self.values.qualified(call.func) in GENERATORS and not call.args
        ]

    @cached_property
    def draws(self) -> list[cst.Call]:
        """What draws from the random numbers that NumPy, or Python, keeps for the whole process."""
        calls = self.values.index.calls
        seeded = {self.values.qualified(call.func) for call in calls if call.args} & _SEEDS
        if "tensorflow.keras.utils.set_random_seed" in seeded:
            return []
        libraries = {"numpy": "numpy.random.seed", "random": "random.seed"}
        return [
            call
            for call in calls
            if (drawn := self._drawn(call)) and libraries[drawn] not in seeded
        ]

    @cached_property
    def draws_of_rows(self) -> list[cst.Call]:
        """What draws numbers of rows, or the rows themselves, from the generators of the whole process."""
        return [
            call for call in self.values.index.calls if self.values.qualified(call.func) in _OF_ROWS
        ]

    @cached_property
    def of_tensorflow(self) -> list[tuple[cst.Call, cst.Call]]:
        """What draws from TensorFlow's random numbers without a seed, each with the call to be made alike: itself,
        or what makes the generator that it draws from.
        """
        calls = self.values.index.calls
        if any(self.values.qualified(c.func) in _TENSORFLOW_SEEDS and c.args for c in calls):
            return []
        found = []
        for call in calls:
            if tf_api.draws(self.values.qualified(call.func)) or (
                method(call) == "sample" and self._is_distribution(call)
            ):
                if argument(call, "seed") is None:
                    found.append((call, call))
            elif method(call) in tf_api.DRAWING_METHODS and isinstance(call.func, cst.Attribute):
                found += [
                    (call, value.node)
                    for value in self.values.of(call.func.value)
                    if value.name in tf_api.UNSEEDED_GENERATORS and isinstance(value.node, cst.Call)
                ]
        return found

    def _is_distribution(self, call: cst.Call) -> bool:
        """Whether a method is of something that TensorFlow Probability has made, which draws from TensorFlow's numbers."""
        assert isinstance(call.func, cst.Attribute)
        made = self.values.of(call.func.value)
        return any(value.name.startswith("tensorflow_probability.") for value in made)

    @cached_property
    def draws_of_noise(self) -> list[cst.Call]:
        """What draws noise, from the generators of the whole process."""
        return [
            call
            for call in self.values.index.calls
            if self.values.qualified(call.func) in _OF_NOISE
        ]

    @cached_property
    def draws_apart(self) -> list[cst.Call]:
        """What draws noise that is, or can be made, each rank's own: no seed of TensorFlow's makes it the same on all."""
        unseeded = {call for call, _ in self.of_tensorflow}
        return [
            call
            for call in self.draws_of_noise
            if self.values.qualified(call.func).startswith("numpy.") or call in unseeded
        ]

    def is_draw(self, call: cst.Call) -> bool:
        """Whether a call draws from random numbers of NumPy or Python, or makes a generator of them."""
        name = self.values.qualified(call.func)
        return name.startswith(("numpy.random.", "random.")) and name not in _SILENT

    def _drawn(self, call: cst.Call) -> str | None:
        """The library whose random numbers a call draws without a seed of its own."""
        name = self.values.qualified(call.func)
        if name.startswith("random.") and name not in _SILENT | GENERATORS:
            return "random"
        if name.startswith("numpy.random.") and name not in _SILENT | GENERATORS:
            return "numpy"
        if name in tf_api.PYTHON_DRAWS and argument(call, "seed") is None:
            return "random"
        if argument(call, "random_state") is not None:
            return None
        splits = name.startswith(("sklearn.model_selection.", "sklearn.datasets.make_"))
        samples = method(call) == "sample" and self._imports_pandas
        # Of Hugging Face's datasets, which draw from NumPy's generator unless they are given a seed.
        foreign = (
            not name and argument(call, "seed") is None and argument(call, "generator") is None
        )
        splits |= foreign and method(call) == "train_test_split"
        splits |= foreign and method(call) == "shuffle" and not call.args and self._imports_datasets
        flows = any(tf_api.sequence(value.name) for value in self.values.of(call))
        if (
            splits
            or samples
            or flows
            or name in ("sklearn.utils.shuffle", "sklearn.utils.resample")
        ):
            return "numpy"
        return None

    @cached_property
    def _imports_datasets(self) -> bool:
        return self._uses("datasets")

    @cached_property
    def _imports_pandas(self) -> bool:
        return self._uses("pandas")

    def _uses(self, library: str) -> bool:
        return any(
            value.name.partition(".")[0] == library
            for call in self.values.index.calls
            for value in self.values.of(call.func)
        )
