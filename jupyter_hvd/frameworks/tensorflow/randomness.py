"""Random numbers that a program draws in Python: on several ranks they must not differ.

Ranks that split or shuffle the data each in its own way overlap in what they train on, and train
on what others test with. TensorFlow's own random numbers are another matter: noise and
dropout are to differ, and datasets are divided before they shuffle.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from ...analysis.library import Kind
from ...analysis.syntax import argument, method
from ...analysis.values import ValueAnalysis
from . import tf_api

#: Generators of random numbers of their own; without a seed no two ranks draw the same.
GENERATORS = frozenset({"numpy.random.default_rng", "numpy.random.RandomState", "random.Random"})
#: What seeds all random numbers at once.
_SEED_OF_ALL = "tensorflow.keras.utils.set_random_seed"
_SEEDS = frozenset({"numpy.random.seed", "random.seed", _SEED_OF_ALL})
#: Methods of generators that draw rows, or their numbers.
DRAWING_ROWS = frozenset(
    "choice choices integers permutation permuted randint random_integers randrange sample".split()
)
#: What seeds TensorFlow's random numbers.
_TENSORFLOW_SEEDS = frozenset(
    {
        "tensorflow.random.set_seed",
        "tensorflow.compat.v1.set_random_seed",
        _SEED_OF_ALL,
    }
)
#: What is another on each rank, beside clocks.
_EACH_ITS_OWN = frozenset({"os.getpid", "os.urandom"})
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


@dataclass(frozen=True)
class Seed:
    """A seed that may be another on each rank.

    Attributes:
        given: what the program gives; None where it gives nothing.
        or_own: what it gives holds where that is not None.
    """

    given: cst.BaseExpression | None
    or_own: bool = False


class Randomness:
    """The random numbers of one module."""

    def __init__(self, values: ValueAnalysis) -> None:
        self.values = values

    @cached_property
    def unseeded(self) -> dict[cst.Call, Seed]:
        """Where random numbers are seeded that each rank may seed in its own way: with nothing, what may be None, a clock."""
        found = {}
        for call in self.values.index.calls:
            if self.values.qualified(call.func) in GENERATORS | _SEEDS:
                seed = self._uncertain(call)
                if seed is not None:
                    found[call] = seed
        return found

    def _uncertain(self, call: cst.Call) -> Seed | None:
        """What is to be done about the seed that a call is given; None where all ranks give it the same."""
        if not call.args:
            return Seed(None)
        given = call.args[0].value
        if call.args[0].star:
            return None
        if any(self._is_own(node) for node in self.values.flow.backward_slice(given)):
            return Seed(given)
        if self.values.kinds(given) == {Kind.NONE}:
            return Seed(given)
        asks = self._may_be_none(given) and not self._is_asked(given)
        return Seed(given, or_own=True) if asks else None

    def _may_be_none(self, given: cst.BaseExpression) -> bool:
        """Whether what is named may be None: it says so, or is an option, or an argument, that nobody is seen to give."""
        pending, seen = [given], set[cst.CSTNode]()
        while pending:
            node = pending.pop()
            if node in seen or not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
                continue
            seen.add(node)
            sources = [source for source, _ in self.values.flow.predecessors(node)]
            if not sources:
                return True
            pending += sources
        return False

    def _is_asked(self, given: cst.BaseExpression) -> bool:
        """Whether a test around an expression asks for what it holds."""
        text, module = self.values.module.text, self.values.module
        tests = (a.test for a in module.ancestors(given) if isinstance(a, (cst.If, cst.IfExp)))
        return any(text(given) in text(test) for test in tests)

    def _is_own(self, node: cst.CSTNode) -> bool:
        """Whether a node calls what is another on each rank."""
        name = self.values.qualified(node.func) if isinstance(node, cst.Call) else ""
        return name in _EACH_ITS_OWN or name.startswith(("time.", "datetime.", "secrets.", "uuid."))

    def _seeds(self, seeds: frozenset[str]) -> set[str]:
        """Which of these seed random numbers, wherever the program comes by."""
        return {
            self.values.qualified(call.func)
            for call in self.values.index.calls
            if call.args
            and self.values.qualified(call.func) in seeds
            and not self._may_not_run(call)
        }

    def _may_not_run(self, call: cst.Call) -> bool:
        """Whether a test decides if a call is run: `if seed is not None: np.random.seed(seed)`."""
        ancestors = self.values.module.ancestors(call)
        return any(
            isinstance(each, (cst.If, cst.IfExp)) and not self._is_main(each) for each in ancestors
        )

    def _is_main(self, ancestor: cst.If | cst.IfExp) -> bool:
        return "__name__" in self.values.module.text(ancestor.test)

    @cached_property
    def draws(self) -> list[cst.Call]:
        """What draws from the random numbers that NumPy, or Python, keeps for the whole process."""
        calls = self.values.index.calls
        seeded = self._seeds(_SEEDS)
        if _SEED_OF_ALL in seeded:
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
    def draws_of_generators(self) -> dict[cst.Call, cst.Name | cst.Attribute]:
        """What draws rows, or their numbers, from generators of the program's own, with the generator as it is named there."""
        return {
            call: call.func.value
            for call in self.values.index.calls
            if method(call) in DRAWING_ROWS
            and isinstance(call.func, cst.Attribute)
            and isinstance(call.func.value, cst.Name | cst.Attribute)
            and {value.name for value in self.values.of(call.func.value)} & GENERATORS
        }

    @cached_property
    def of_tensorflow(self) -> list[tuple[cst.Call, cst.Call]]:
        """What of `by_tensorflow` draws without a seed."""
        seeded = self._seeds(_TENSORFLOW_SEEDS)
        if _SEED_OF_ALL in seeded:
            return []
        return [
            (call, made)
            for call, made in self.by_tensorflow
            if argument(made, "seed") is None and not (seeded and not self._is_of_keras(made))
        ]

    @cached_property
    def by_tensorflow(self) -> list[tuple[cst.Call, cst.Call]]:
        """What draws from the random numbers of TensorFlow or Keras, each with the call to be made alike: itself, or what makes
        the generator, or the initializer, that it draws from.
        """
        found = []
        for call in self.values.index.calls:
            if tf_api.draws(self.values.qualified(call.func)) or (
                method(call) == "sample" and self._is_distribution(call)
            ):
                found.append((call, call))
                continue
            drawn_from: cst.BaseExpression = call.func
            if method(call) in tf_api.DRAWING_METHODS and isinstance(call.func, cst.Attribute):
                drawn_from = call.func.value
            found += [
                (call, value.node)
                for value in self.values.of(drawn_from)
                if isinstance(value.node, cst.Call) and value.node is not call
                if (value.name in tf_api.UNSEEDED_GENERATORS and drawn_from is not call.func)
                or (tf_api.draws_weights(value.name) and drawn_from is call.func)
            ]
        return found

    def _is_of_keras(self, made: cst.Call) -> bool:
        """Whether a call draws from Keras' own random numbers, of which `tf.random.set_seed` says nothing."""
        return self.values.qualified(made.func).startswith("tensorflow.keras.")

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
