"""How TensorFlow's functions scale with the number of ranks: what they take steps, rates and batch sizes for, and what they give.

An optimizer that is scaled applies N times its rate and asks a schedule for step N * s, so rates and schedules, as the
program reads, sets and asks them, are those of one process: their exponent is 0. `iterations` counts the steps that are made: -1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from functools import cached_property

import libcst as cst

from ...analysis.library import Kind
from ...analysis.scale_findings import number_of
from ...analysis.scale_signatures import EditedExponents, EntryPoint, Signature, parse_signature
from ...analysis.syntax import argument, method
from ...analysis.values import ValueAnalysis
from . import tf_api
from .batch_sizes import BatchSizes
from .keras_loops import find_fit_argument
from .roles import Role
from .selecting_loops import is_range
from .training_data import TrainingData

#: Functions by their last names, of Python's `math`, NumPy and TensorFlow.
_OF_NUMBERS: dict[str, str] = {
    **dict.fromkeys("cos sin tan exp log log2 log10 tanh sigmoid".split(), "x: 0 -> [l] 0"),
    **dict.fromkeys(
        "floor ceil round abs cast constant identity convert_to_tensor array asarray float32 float64 int32 int64 Variable"
        " squeeze reduce_mean mean reduce_max reduce_min".split(),
        "x: r -> [l] r",
    ),
    "sqrt": "x: r -> r/2",
    "rsqrt": "x: r -> -r/2",
    "square": "x: r -> [l] r+r",
    **dict.fromkeys("minimum maximum".split(), "x: r, y: r -> r"),
    **dict.fromkeys("clip clip_by_value".split(), "x: r, low: r, high: r -> r"),
    "where": "condition: _, x: r, y: r -> r",
    "interp": "x: r, xp: r, fp: s -> s",
    "searchsorted": "a: r, v: r -> 0",
    "digitize": "x: r, bins: r -> 0",
    **dict.fromkeys("bisect bisect_left bisect_right".split(), "a: r, x: r -> 0"),
    **dict.fromkeys("linspace geomspace logspace".split(), "start: r, stop: r, num: n -> [n] r"),
    "full": "shape: n, fill_value: r -> [n] r",
    **dict.fromkeys("repeat tile".split(), "x: r, repeats: n -> [l+n] r"),
    **dict.fromkeys("concatenate concat hstack".split(), "x: r -> [l+m] r"),
    **dict.fromkeys("percentile quantile".split(), "x: r, q: _ -> r"),
    **dict.fromkeys("argmin argmax".split(), "x: r -> l"),
    "bincount": "x: _, weights: _, minlength: _ -> [0] l",
    "append": "x: r, values: r -> [l] r",
    "array_split": "x: r, sections: _ -> [0][l] r",
    **dict.fromkeys("zeros empty".split(), "shape: n -> [n]"),
    **dict.fromkeys("cumsum insert".split(), "x: r -> [l] r"),
    "ones": "shape: n -> [n] 0",
    "permutation": "x: n -> [n] n",
    "choice": "a: _, size: b -> [b] 0",
    "randint": "low: _, high: _, size: b -> [b] 0",
    **dict.fromkeys("reduce_sum sum".split(), "x: r -> r+l"),
}
#: Of these, the names that TensorFlow's counts of scalars have: what they give has no length.
_SCALAR = frozenset({"reduce_mean", "mean", "reduce_max", "reduce_min", "reduce_sum", "sum"})
#: Functions of the same modules that stand for Python's operators.
_OPERATORS = {
    **dict.fromkeys("pow power".split(), "power"),
    **dict.fromkeys("mod floormod remainder fmod".split(), "modulus"),
    **dict.fromkeys("equal not_equal less less_equal greater greater_equal".split(), "comparison"),
}
#: Of these, those that give the position of a number among all of an array.
_POSITIONS = frozenset({"argmin", "argmax"})
_MODULES = re.compile(
    r"(bisect|math|numpy(\.random)?|tensorflow(\.math|\.random|\.keras\.(ops|backend))?)\.(\w+)"
)
#: Methods of datasets.
_OF_DATASETS: dict[str, str] = {
    **dict.fromkeys(("batch", "padded_batch", "ragged_batch"), "batch_size: b -> [l-b][b] 0"),
    tf_api.BUCKETING: "-> [l-1][1] 0",
    "take": "count: n -> [n]",
    "repeat": "count: n -> [l+n]",
    "unbatch": "-> [l+m]",
    "cardinality": "-> l",
    "enumerate": "start: l -> #[l]",
    **dict.fromkeys(
        "cache filter interleave map prefetch shard shuffle skip apply with_options as_numpy_iterator".split(),
        "-> [l]",
    ),
}
#: Functions of `tf.data`.
_MAKING_DATASETS = {
    "from_tensor_slices": "-> [0]",
    "range": "stop: n -> [n] n",
    "cardinality": "dataset: _ -> l",
}
#: Of these, those that count rows of the data, where no method has made batches of them yet.
_COUNTING_ROWS = {"take": "count: 0 -> [0]", "skip": "count: 0 -> [l]"}
_FOREVER = "-> [u]"
#: The numbers of steps that optimizers take, by keyword alone.
_OPTIMIZER = (
    ", ".join(f"_{place}: _" for place in range(40))
    + ", ema_overwrite_frequency: -1, dynamic_growth_steps: -1 -> _"
)
_FIT = (
    "x: _, y: _, batch_size: _, epochs: epochs, verbose: _, callbacks: _, validation_split: _, validation_data: _, shuffle: _,"
    " class_weight: _, sample_weight: _, initial_epoch: epochs, steps_per_epoch: -1, validation_steps: _ -> _"
)
_FIT_GENERATOR = "generator: _, steps_per_epoch: -1, epochs: epochs, verbose: _, callbacks: _ -> _"
#: Callbacks that count steps.
_CALLBACKS = {
    "ModelCheckpoint": "filepath: _, save_freq: -1 -> _",
    "BackupAndRestore": "backup_dir: _, save_freq: -1 -> _",
    "TensorBoard": "log_dir: _, update_freq: -1 -> _",
}
#: Where `ModelCheckpoint` and others have their counts, by name alone.
_ANY = "-> _"
#: Methods that write a checkpoint, and give no number.
_SAVING = frozenset({"save", "save_weights", "write"})
#: Methods that give the number that a tensor or variable holds.
_READING = frozenset({"numpy", "item", "value", "read_value", "result", "tolist"})
#: Methods of Keras' callbacks and models, with how often they run, and their first parameter.
_STEP, _ONCE = Fraction(-1), Fraction(0)
_ENTRY_POINTS: dict[str, EntryPoint] = {
    **{
        f"on_{when}_{end}": EntryPoint(_STEP, (_STEP,), "runs once a step")
        for when in ("train_batch", "batch")
        for end in ("begin", "end")
    },
    **{
        f"on_epoch_{end}": EntryPoint(_ONCE, (_ONCE,), "runs once an epoch")
        for end in ("begin", "end")
    },
    **{
        f"on_{when}_{end}": EntryPoint(_ONCE, (), "does not run with the steps of training")
        for when in ("train", "test", "test_batch", "predict", "predict_batch")
        for end in ("begin", "end")
    },
}
_TRAIN_STEP = EntryPoint(_STEP, (), "runs once a step", takes_batch=True)
_SCHEDULE = EntryPoint(None, (_ONCE,), "is asked for the step of one process")
_PROGRAM = EntryPoint(_ONCE, (), "runs once")
_SCHEDULER = EntryPoint(_ONCE, (_ONCE, _ONCE), "runs once an epoch")


class TensorFlowScale:
    """What the scale analysis asks of one program that trains with TensorFlow."""

    def __init__(self, data: TrainingData, sizes: BatchSizes) -> None:
        self._data, self._sizes = data, sizes
        self._training = data.training
        self._values = data.values

    # Signatures

    def called(self, values: ValueAnalysis, call: cst.Call) -> Signature | None:
        """Return the signature of a called library function or method: how its result scales with its arguments; None if
        unknown.
        """
        name = values.qualified(call.func)
        text = (
            self._signature_of_function(call, name)
            if name
            else self._signature_of_method(values, call)
        )
        return parse_signature(text) if text is not None else None

    def _signature_of_function(self, call: cst.Call, name: str) -> str | None:
        """Return the signature, as text, of a function given by its canonical name."""
        last = name.rpartition(".")[2]
        if kind := tf_api.find_schedule(name):
            counts = {place: keyword for keyword, place in tf_api.SCHEDULE_STEPS[kind]}
            places = range(max(counts) + 1)
            names = (f"{counts[n]}: 0" if n in counts else f"_{n}: _" for n in places)
            return f"{', '.join(names)} -> _"
        if kind := tf_api.find_callback(name):
            return _CALLBACKS.get(kind, _ANY)
        if name.startswith("time."):
            return "-> 0"
        if tf_api.makes_optimizer(name):
            return _OPTIMIZER
        if name.startswith("tensorflow.train.Checkpoint"):
            return _ANY
        if name.startswith("tensorflow.data."):
            return _MAKING_DATASETS.get(last, "-> [u]")
        if re.search(r"_dataset_from_\w+$", last):
            size = argument(call, "batch_size")
            return "batch_size: b -> [-b][b] 0" if size is not None else "-> [-1][1] 0"
        if not _MODULES.fullmatch(name) or last not in _OF_NUMBERS:
            return None
        if last in _POSITIONS and len(call.args) > 1:  # one in each row
            return None
        text = _OF_NUMBERS[last]
        if last in _SCALAR and argument(call, "axis", 1) is None:
            return text.replace("[l] ", "")
        return "x: r -> [l] r" if last in _SCALAR else text

    def _signature_of_method(self, values: ValueAnalysis, call: cst.Call) -> str | None:
        """Return the signature, as text, of a method call."""
        name = method(call)
        if call in self._fits:
            evaluated = find_fit_argument(call, "validation_data")
            if evaluated is not None and self._sizes.has_grown(evaluated.value):
                return _FIT.replace("validation_steps: _", "validation_steps: -1")
            return _FIT if name == "fit" else _FIT_GENERATOR
        if not isinstance(call.func, cst.Attribute):
            return self._signature_of_object(values, call)
        if name in _READING and not call.args:
            return "-> [l] v"
        if values.may_be(call.func.value, Role.DATASET):
            if name == "repeat" and not call.args:
                return _FOREVER
            if name in _COUNTING_ROWS and self._sizes.gives_rows(call):
                return _COUNTING_ROWS[name]
            return _OF_DATASETS.get(name)
        if name in _SAVING:
            return _ANY
        if name in _POSITIONS and not call.args:
            return "-> l"
        if name == "add_weight":  # what is assigned to it later tells how it scales
            return _ANY
        return self._signature_of_object(values, call)

    @cached_property
    def _fits(self) -> frozenset[cst.Call]:
        """The calls of Keras' `fit`."""
        return frozenset(self._training.keras.fits)

    def _signature_of_object(self, values: ValueAnalysis, call: cst.Call) -> str | None:
        """Return the signature, as text, of calling a schedule or a loss object; None for other objects."""
        for value in values.of(call.func):
            is_made = value.kind is not Kind.CLASS  # else the call makes the schedule
            if value.kind is Role.SCHEDULE or (
                is_made and _inherits(values, value.node, "LearningRateSchedule")
            ):
                return "step: 0 -> 0"
            if value.name.startswith("tensorflow.keras.losses."):
                return "-> 0"
        return None

    def attribute(self, values: ValueAnalysis, node: cst.Attribute) -> Signature | None:
        """Return the signature of an optimizer's rate or step count; None for other attributes."""
        name = node.attr.value
        if name in ("learning_rate", "lr", "iterations") and _is_optimizer(values, node.value):
            return parse_signature("-> -1" if name == "iterations" else "-> 0")
        return None

    # Frequencies

    def entry_point(self, values: ValueAnalysis, function: cst.CSTNode) -> EntryPoint | None:
        """Return how often Keras or a command line calls a function, and the exponents of its parameters; None if they do not
        call it.
        """
        if function in self._rate_functions:
            return _SCHEDULER
        if (called := self._callback_functions.get(function)) is not None:
            return called
        if not isinstance(function, cst.FunctionDef):
            return None
        if function in self._data.command_lines.functions:
            return _PROGRAM
        owner = values.module.class_of(function)
        if owner is None:
            return None
        name = function.name.value
        if name in _ENTRY_POINTS and self._training.keras.is_callback(owner):
            return _ENTRY_POINTS[name]
        if name == "train_step" and values.is_of_kind(owner, Role.MODEL):
            return _TRAIN_STEP
        if name == "__call__" and _inherits(values, owner, "LearningRateSchedule"):
            return _SCHEDULE
        return None

    @cached_property
    def _rate_functions(self) -> frozenset[cst.CSTNode]:
        """The functions that `LearningRateScheduler` asks for the rate of an epoch."""
        values = self._values
        found: set[cst.CSTNode] = set()
        for call in values.index.calls:
            given = argument(call, "schedule", 0)
            if (
                tf_api.find_callback(values.qualified(call.func)) == "LearningRateScheduler"
                and given
            ):
                found.add(given.value)
                found |= {v.node for v in values.of(given.value) if v.node is not None}
        return frozenset(found)

    @cached_property
    def _callback_functions(self) -> dict[cst.CSTNode, EntryPoint]:
        """The functions given to `LambdaCallback(on_train_batch_end=…)`, with how often they run."""
        found: dict[cst.CSTNode, EntryPoint] = {}
        for call in self._values.index.calls:
            if tf_api.find_callback(self._values.qualified(call.func)) != "LambdaCallback":
                continue
            for arg in call.args:
                entry = _ENTRY_POINTS.get(arg.keyword.value) if arg.keyword else None
                if entry is not None:
                    made = (value.node for value in self._values.of(arg.value))
                    found.update((node, entry) for node in made if node is not None)
        return found

    def steps(self, values: ValueAnalysis) -> Mapping[cst.Call, Fraction | None]:
        """Return the exponent of each update's frequency: -1 if its batches grow, None if it does not change."""
        grown = self._sizes.grown
        keras = self._training.keras
        found: dict[cst.Call, Fraction | None] = {
            update.call: Fraction(-1)
            for update in self._training.updates
            if keras.runs(update.function)
        }
        for update, sites in self._data.step_sites:
            grows = any(site.call in grown for site in sites)
            found[update.call] = Fraction(-1) if grows else None
        return found

    def step_sites(self, values: ValueAnalysis) -> Collection[cst.Call]:
        """Return the calls that lead to a training step whose batches grow."""
        grown, outer = self._sizes.grown, self._data.training_sites
        found: set[cst.Call] = set()
        pending = [
            call
            for update, sites in self._data.step_sites
            for site in sites
            if site.call in grown
            for call in (update.call, *site.chain)
        ]
        for update in self._training.updates:
            if self._training.keras.runs(update.function):
                pending += values.calls.leading_to(update.call)
        while pending:
            call = pending.pop()
            if call not in found:
                found.add(call)
                function = values.module.function_of(call)
                pending += outer.get(function, ()) if function is not None else ()
        return found

    def fixed_loops(self, values: ValueAnalysis) -> Collection[cst.CSTNode]:
        """Return the loops over variables, and what they run over: their length does not depend on N."""
        return self._training.variable_loops

    def edited(self, values: ValueAnalysis) -> Mapping[cst.BaseExpression, EditedExponents]:
        """Return the expressions that HVD801 and HVD802 edit, with the exponents by which the edits change them."""
        sizes = self._sizes
        return {
            **dict.fromkeys(sizes.sizes_of_joined, EditedExponents()),
            **dict.fromkeys(sizes.numbers, EditedExponents(value=1)),
            **dict.fromkeys(sizes.counts, EditedExponents(value=-1)),
            **dict.fromkeys(sizes.joined, EditedExponents(length=-1, of_element=1)),
        }

    def repeated_sizes(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """Return the literals that repeat a batch size and are not multiplied."""
        return self._sizes.repetitions

    def is_unscaled_size(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number is a batch size that is not multiplied at this position."""
        return self._sizes.is_unscaled(node)

    def lengths_of_epochs(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        """Return what `__len__` returns in the data of `fit`, where its batches grow and are not joined."""
        found: dict[cst.BaseExpression, None] = {}
        for call in self._fits & self._sizes.grown:
            given = find_fit_argument(call, "x")
            if given is None or given.value in self._sizes.joined:
                continue
            made = (v.node for v in values.of(given.value) if isinstance(v.node, cst.ClassDef))
            counted = (m for owner in made for m in values.classes.methods(owner, "__len__"))
            found.update(dict.fromkeys(r for m in counted for r in values.index.returns[m]))
        return found

    def may_count_steps(self, values: ValueAnalysis, call: cst.Call, name: str) -> bool:
        """Whether an argument of an unknown function may be a number of steps, by its name."""
        called = values.qualified(call.func)
        if name in _COUNTING.get(called.rpartition(".")[2], ()):
            return True
        return bool(called) and not called.startswith(_KNOWN) and bool(_STEPS.search(name))

    def is_data(self, values: ValueAnalysis, iterable: cst.BaseExpression) -> bool:
        """Whether a loop's iterable is the data of training."""
        if values.may_be(iterable, Role.DATASET):
            return True
        steps = (step for step, given in self._data.loop_data.items() if iterable in given)
        return any(iterable in values.flow.backward_slice(step) for step in steps)

    # Numbers

    def accumulates(
        self, values: ValueAnalysis, call: cst.Call
    ) -> tuple[str, cst.BaseExpression] | None:
        """Return the operator and the value of `variable.assign_add(value)` and the like; None for other calls."""
        operators = {"assign_add": "+", "assign_sub": "-", "assign": "="}
        name = method(call)
        if name not in operators or not isinstance(call.func, cst.Attribute) or not call.args:
            return None
        return operators[name], call.args[0].value

    def is_gradient(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether gradients flow into an expression."""
        return any(True for _ in self._training.gradients.flowing_into(node))

    def is_conversion(self, name: str) -> bool:
        """Whether a function returns its first argument in another form."""
        return name in _CONVERSIONS

    def operator_of(self, name: str) -> str:
        """Return the Python operator that a library function stands for; '' for other functions."""
        if name == "tensorflow.data.Dataset.zip":
            return "zip"
        return _OPERATORS.get(name.rpartition(".")[2], "") if _MODULES.fullmatch(name) else ""

    def is_range(self, name: str) -> bool:
        """Whether a function counts as `range` does."""
        return is_range(name) or name == "numpy.arange"

    def is_external(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a value comes from outside the program: a command line, the environment, a settings file."""
        if isinstance(node, cst.Call):
            name = values.qualified(node.func)
            return name in _EXTERNAL_FUNCTIONS
        if isinstance(node, cst.Name):
            return self._data.command_lines.sets(node)
        if isinstance(node, cst.Subscript) and values.qualified(node.value) in _EXTERNAL_VARIABLES:
            return True
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            if values.overridden.is_overridden(node):
                return True
            return values.qualified(node).startswith(_EXTERNAL_OPTIONS) or any(
                self._data.command_lines.sets(owner)
                or any(map(self._gives_options, _find_creating_calls(values, owner)))
                for owner in _iterate_owners(node)
            )
        return False

    def _gives_options(self, call: cst.Call) -> bool:
        """Whether a call parses options, reads settings, or is `vars(options)`."""
        name = self._values.qualified(call.func)
        if name == "builtins.vars" and call.args:
            return any(
                map(self._gives_options, _find_creating_calls(self._values, call.args[0].value))
            )
        return method(call) in _PARSING or name in _READING_SETTINGS

    def is_whole(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        """Whether a number is an integer, as far as TensorFlow or an option's type says."""
        if node in self._sizes.numbers:
            return True
        if isinstance(node, cst.Call):
            return method(node) == "cardinality" or self._is_whole_tensor(node)
        if not isinstance(node, cst.Attribute):
            return False
        return node.attr.value == "iterations" or node.attr.value in self._integer_options

    def _is_whole_tensor(self, call: cst.Call) -> bool:
        """Whether a call creates an integer variable or tensor: `tf.Variable(0)`, `tf.cast(step, tf.int64)`."""
        name = self._values.qualified(call.func)
        if name not in _TENSORS:
            return False
        given = argument(call, "dtype", _TENSORS[name])
        if given is not None:
            return bool(_WHOLE_TYPE.search(self._values.module.text(given.value)))
        return bool(call.args) and isinstance(number_of(call.args[0].value), int)

    @cached_property
    def _integer_options(self) -> frozenset[str]:
        """The names of options that are parsed as integers: `parser.add_argument("--steps", type=int)`."""
        module = self._values.module
        found = set()
        for call in self._values.index.calls:
            kind = argument(call, "type")
            if (
                method(call) == "add_argument"
                and kind is not None
                and module.text(kind.value) == "int"
            ):
                named = [a.value for a in call.args if isinstance(a.value, cst.SimpleString)]
                found |= {str(n.evaluated_value).lstrip("-").replace("-", "_") for n in named}
        return frozenset(found)


#: Arguments of TensorFlow's own that count steps, or are a factor of each step, and that nothing scales.
_COUNTING = {
    "CheckpointManager": ("checkpoint_interval",),
    "ExponentialMovingAverage": ("decay", "num_updates"),
    "EMA": ("decay",),
}
#: Libraries of which the arguments that count steps are known, or which count none.
_KNOWN = tuple(
    f"{name}."
    for name in (
        "absl argparse builtins keras keras_tuner math matplotlib numpy pandas random scipy sklearn tensorflow"
        " tensorflow_datasets tf_keras time tqdm"
    ).split()
)
#: Names of arguments that count steps, or are factors of each step.
_STEPS = re.compile(
    r"(^|_)(steps|iters|iterations|every|freq|frequency|interval|period|warmup|ema_decay|average_decay|moving_average)(_|$)"
)
#: What makes tensors, with the position of their type, where it has one.
_TENSORS = {
    "tensorflow.Variable": None,
    "tensorflow.cast": 1,
    "tensorflow.constant": 1,
    "tensorflow.convert_to_tensor": 1,
}
_WHOLE_TYPE = re.compile(r"\bu?int(8|16|32|64)?\b")
_PARSING = frozenset({"parse_args", "parse_known_args"})
#: Functions that give their first argument in another form.
_CONVERSIONS = frozenset(
    {
        *(f"numpy.{name}" for name in ("array", "asarray", "copy", "float32", "float64")),
        *(f"tensorflow.{name}" for name in ("convert_to_tensor", "identity", "cast", "constant")),
    }
)
#: Functions that read settings from files. What `json.load` reads may be the state that the program itself has saved.
_READING_SETTINGS = frozenset(
    "yaml.safe_load yaml.load yaml.full_load tomllib.load tomllib.loads toml.load toml.loads tomli.load tomli.loads"
    " omegaconf.OmegaConf.load omegaconf.OmegaConf.from_cli hydra.compose".split()
)
_EXTERNAL_VARIABLES = ("sys.argv", "os.environ")
#: Options of libraries that have them in a module.
_EXTERNAL_OPTIONS = ("absl.flags.FLAGS.", "wandb.config.")
_EXTERNAL_FUNCTIONS = frozenset({"os.environ.get", "os.getenv", "builtins.input"})


def _find_creating_calls(values: ValueAnalysis, node: cst.BaseExpression) -> Collection[cst.Call]:
    """Return the calls that may create a node's value."""
    return [value.node for value in values.of(node) if isinstance(value.node, cst.Call)]


def _iterate_owners(node: cst.Attribute | cst.Subscript) -> Iterator[cst.BaseExpression]:
    """Yield the `settings["train"]` and `settings` of `settings["train"]["steps"]`."""
    owner = node.value
    while isinstance(owner, (cst.Attribute, cst.Subscript)):
        yield owner
        owner = owner.value
    yield owner


def _is_optimizer(values: ValueAnalysis, node: cst.BaseExpression) -> bool:
    """Whether a node may be an optimizer, by its value or as an attribute `optimizer`."""
    if isinstance(node, cst.Attribute) and node.attr.value == "optimizer":
        return True
    return values.may_be(node, Role.OPTIMIZER)


def _inherits(values: ValueAnalysis, node: cst.CSTNode | None, base: str) -> bool:
    """Whether a node is a class of the program that inherits a Keras class with this last name."""
    return isinstance(node, cst.ClassDef) and any(
        name.endswith(f".{base}") for name in values.classes.library_bases(node)
    )
