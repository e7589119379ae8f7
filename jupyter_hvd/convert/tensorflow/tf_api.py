"""What the converter knows about TensorFlow's names: one table per question.

Names are canonical: `tensorflow.…`, with Keras under `tensorflow.keras`, however
the program spells them (`tf`, `keras`, `tf_keras`, `tensorflow.compat.v2`, …); Python's own are
`builtins.…`, from whatever module for two Pythons they come.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ALIASES = (
    (re.compile(r"^(tensorflow\.python\.keras|tf_keras|keras)(?=\.|$)"), "tensorflow.keras"),
    (re.compile(r"^tensorflow\.compat\.v2(?=\.|$)"), "tensorflow"),
    (re.compile(r"^tensorflow\.optimizers(?=\.|$)"), "tensorflow.keras.optimizers"),
    (re.compile(r"^tensorflow\.losses(?=\.|$)"), "tensorflow.keras.losses"),
    (re.compile(r"^tensorflow\.metrics(?=\.|$)"), "tensorflow.keras.metrics"),
    (re.compile(r"^(six\.moves|past\.builtins|future\.builtins)\.xrange$"), "builtins.range"),
    (
        re.compile(r"^(six\.moves|past\.builtins|future\.builtins)\.(?=(filter|map|range|zip)$)"),
        "builtins.",
    ),
    (re.compile(r"^tensorflow\.keras\.(api|src)\.(_v2\.)?(keras\.)?"), "tensorflow.keras."),
)


def canonical(name: str) -> str:
    """Return the one spelling of a qualified name that the tables below use."""
    for pattern, replacement in _ALIASES:
        name = pattern.sub(replacement, name)
    return name


@dataclass(frozen=True)
class Optimizer:
    """A Keras optimizer class, and the learning rate that it takes when none is given: None where that depends on the Keras."""

    name: str
    learning_rate: float | None


_RATES: dict[str, float | None] = {
    "Adadelta": 0.001,
    "Adafactor": 0.001,
    "Adagrad": 0.001,
    "Adam": 0.001,
    "AdamW": 0.001,
    "Adamax": 0.001,
    "Ftrl": 0.001,
    "Lamb": 0.001,
    "Lion": None,  # 0.0001 in Keras 2, 0.001 in Keras 3
    "Muon": 0.001,
    "Nadam": 0.001,
    "RMSprop": 0.001,
    "SGD": 0.01,
    "ScheduleFreeAdamW": 0.0025,
}
#: Every optimizer of Keras that has a rate, the first of its arguments; a test compares with Keras itself.
OPTIMIZERS = {name.lower(): Optimizer(name, rate) for name, rate in _RATES.items()}


#: One of them, of which it is not known which.
ANY_OPTIMIZER = Optimizer("", None)


def find_optimizer(name: str) -> Optimizer | None:
    """Return the optimizer class of a canonical name, also in modules such as `legacy` and `adam_v2`; `ANY_OPTIMIZER` for
    `optimizers.*`.
    """
    if not name.startswith("tensorflow.keras.optimizers."):
        return None
    if name in ("tensorflow.keras.optimizers.*", "tensorflow.keras.optimizers.legacy.*"):
        return ANY_OPTIMIZER
    found = OPTIMIZERS.get(name.rpartition(".")[2].lower())
    return found if found and name.endswith("." + found.name) else None


def is_optimizer_class(name: str) -> bool:
    """Whether a canonical name is a Keras optimizer class or its base class."""
    in_keras = name.startswith("tensorflow.keras.optimizers.")
    return in_keras and (name.endswith(".Optimizer") or find_optimizer(name) is not None)


#: Learning-rate schedules of Keras: which arguments are rates, by name and by position.
SCHEDULES: dict[str, tuple[tuple[str, int], ...]] = {
    "ExponentialDecay": (("initial_learning_rate", 0),),
    "InverseTimeDecay": (("initial_learning_rate", 0),),
    "PolynomialDecay": (("initial_learning_rate", 0), ("end_learning_rate", 2)),
    "CosineDecay": (("initial_learning_rate", 0), ("warmup_target", 4)),
    "CosineDecayRestarts": (("initial_learning_rate", 0),),
    "PiecewiseConstantDecay": (("values", 1),),
}
#: Of these schedules, the arguments that count steps.
SCHEDULE_STEPS: dict[str, tuple[tuple[str, int], ...]] = {
    "ExponentialDecay": (("decay_steps", 1),),
    "InverseTimeDecay": (("decay_steps", 1),),
    "PolynomialDecay": (("decay_steps", 1),),
    "CosineDecay": (("decay_steps", 1), ("warmup_steps", 5)),
    "CosineDecayRestarts": (("first_decay_steps", 1),),
    "PiecewiseConstantDecay": (("boundaries", 0),),
}


def find_schedule(name: str) -> str | None:
    """Return the name of the Keras schedule class that a canonical name refers to; None if it is none."""
    last = name.rpartition(".")[2]
    return last if name.startswith("tensorflow.keras.") and last in SCHEDULES else None


MODEL_CLASSES = frozenset(
    f"tensorflow.keras.{name}"
    for name in (
        "Model",
        "Sequential",
        "models.Model",
        "models.Sequential",
        "engine.training.Model",
        "training.Model",
    )
)
MODEL_FUNCTIONS = frozenset(
    f"tensorflow.keras.models.{name}"
    for name in (
        "load_model",
        "clone_model",
        "model_from_json",
        "model_from_config",
        "model_from_yaml",
    )
)


#: The families of networks in Keras' module of applications.
_APPLICATION = re.compile(r"\w*Net\w*|ConvNeXt\w*|Inception\w*|VGG\w*|Xception")


def makes_model(name: str) -> bool:
    """Whether calling this canonical name gives a Keras model."""
    return (
        name in MODEL_CLASSES
        or name in MODEL_FUNCTIONS
        or (
            name.startswith("tensorflow.keras.applications.")
            and _APPLICATION.fullmatch(name.rpartition(".")[2]) is not None
        )
    )


def is_known(name: str) -> bool:
    """Whether some rule handles this canonical name."""
    return bool(
        find_optimizer(name) or find_schedule(name) or makes_model(name) or find_callback(name)
    )


def makes_dataset(name: str) -> bool:
    """Whether calling this canonical name gives a dataset, or datasets in a tuple."""
    return (
        name.startswith("tensorflow.data.")
        or name == "tensorflow_datasets.load"
        or (
            name.startswith("tensorflow.keras.")
            and re.search(r"\.\w+_dataset_from_\w+$", name) is not None
        )
    )


def makes_tuner(name: str) -> bool:
    """Whether calling this canonical name gives a tuner of KerasTuner's, which builds models and fits them."""
    library, _, tuner = name.partition(".")
    return library in ("keras_tuner", "kerastuner") and tuner.rpartition(".")[2] in TUNERS


TUNERS = frozenset({"BayesianOptimization", "GridSearch", "Hyperband", "RandomSearch"})


def is_tuner_class(name: str) -> bool:
    """Whether a canonical name is a class of KerasTuner's whose methods train models: a tuner, or a hypermodel."""
    library, _, owner = name.partition(".")
    named = owner.rpartition(".")[2]
    return library in ("keras_tuner", "kerastuner") and named in {*TUNERS, "Tuner", "HyperModel"}


def makes_estimator(name: str) -> bool:
    """Whether a canonical name is a class of scikit-learn's estimators that build Keras models and fit them."""
    return name in SKLEARN_ESTIMATORS


#: Keras' own of before 2.12, SciKeras', Keras' own since 3.8.
SKLEARN_ESTIMATORS = frozenset(
    {
        *(
            f"tensorflow.keras.wrappers.scikit_learn.Keras{kind}"
            for kind in ("Classifier", "Regressor")
        ),
        *(
            f"scikeras.wrappers.{kind}"
            for kind in ("KerasClassifier", "KerasRegressor", "BaseWrapper")
        ),
        *(
            f"tensorflow.keras.wrappers.SKLearn{kind}"
            for kind in ("Classifier", "Regressor", "Transformer")
        ),
    }
)


def is_wrapper(name: str) -> bool:
    """Whether calling this canonical name returns a wrapper around its first argument."""
    return name == "tensorflow.function" or (
        name.startswith(("horovod.", "jupyter_hvd.")) and name.endswith(".DistributedOptimizer")
    )


def makes_optimizer(name: str) -> bool:
    """Whether calling this canonical name gives an optimizer."""
    return (
        find_optimizer(name) is not None
        or name.startswith("tensorflow_addons.optimizers.")
        or configures_optimizer(name)
        or (name.startswith("tensorflow.keras.") and name.endswith(".LossScaleOptimizer"))
    )


def configures_optimizer(name: str) -> bool:
    """Whether calling this canonical name makes an optimizer of its name or its configuration."""
    owner, _, function = name.rpartition(".")
    in_keras = f"{owner}.".startswith("tensorflow.keras.optimizers.") and "schedules" not in owner
    return in_keras and function in ("deserialize", "from_config", "get")


#: Methods of `tf.data.Dataset` that give a dataset with the elements of the receiver in another form.
DATASET_METHODS = frozenset(
    "apply batch bucket_by_sequence_length cache concatenate enumerate filter flat_map "
    " group_by_window ignore_errors interleave map padded_batch prefetch ragged_batch rebatch "
    " rejection_resample repeat scan shard shuffle skip snapshot sparse_batch take take_while "
    " unbatch unique window with_options".split()
)

#: Of these, what makes batches of so many elements.
BATCHING_METHODS = frozenset({"batch", "padded_batch", "ragged_batch"})

#: What makes batches of elements of similar lengths, of a size for each range of lengths.
BUCKETING = "bucket_by_sequence_length"

#: Libraries whose results are known not to be anything that the rules follow.
INERT = ("tensorflow.", "builtins.", "numpy.", "sklearn.", "pandas.", "matplotlib.")
#: What runs the function that it is given, once.
RUNNERS = frozenset(
    {"absl.app.run", "tensorflow.compat.v1.app.run", "tensorflow.app.run", "fire.Fire", "typer.run"}
)

#: Strategies for the devices of one process, in whose place each rank's own device comes.
LOCAL_STRATEGIES = frozenset(
    f"tensorflow.distribute.{name}"
    for name in (
        "MirroredStrategy",
        "OneDeviceStrategy",
        "experimental.CentralStorageStrategy",
        "get_strategy",
    )
)
#: What goes with these.
WITH_LOCAL_STRATEGIES = tuple(
    f"tensorflow.distribute.{name}"
    for name in (
        "DistributedDataset",
        "HierarchicalCopyAllReduce",
        "NcclAllReduce",
        "ReduceOp",
        "ReductionToOneDevice",
        "Strategy",
    )
)
#: Strategies and other ways of distributing that Horovod must not be laid on top of.
OTHER_DISTRIBUTION = (
    "tensorflow.distribute.",
    "tensorflow.config.experimental_connect_to_cluster",
    "tensorflow.tpu.",
)
TF1 = (
    "tensorflow.Session",
    "tensorflow.compat.v1.Session",
    "tensorflow.InteractiveSession",
    "tensorflow.compat.v1.InteractiveSession",
    "tensorflow.compat.v1.disable_eager_execution",
    "tensorflow.compat.v1.disable_v2_behavior",
    "tensorflow.placeholder",
    "tensorflow.compat.v1.placeholder",
    "tensorflow.compat.v1.train.",
)
#: Names of Estimators that train nothing.
NO_ESTIMATORS = ("tensorflow.estimator.ModeKeys", "tensorflow.compat.v1.estimator.ModeKeys")
ESTIMATORS = tuple(f"tensorflow.{module}estimator." for module in ("", "compat.v1.", "keras."))

#: The classes of Keras' module of callbacks, in Keras 2 or 3: no other name that a `*` brings is of that module.
CALLBACKS = frozenset(
    "BackupAndRestore BaseLogger CSVLogger Callback CallbackList EarlyStopping History LambdaCallback"
    " LearningRateScheduler ModelCheckpoint OrbaxCheckpoint ProgbarLogger ReduceLROnPlateau RemoteMonitor"
    " SidecarEvaluatorModelExport SwapEMAWeights TensorBoard TerminateOnNaN".split()
)


def find_callback(name: str) -> str | None:
    """Return the name of the Keras callback class that a canonical name refers to; None if it is none."""
    last = name.rpartition(".")[2]
    return last if name.startswith("tensorflow.keras.callbacks.") and last in CALLBACKS else None


#: Base classes of data that Keras asks for batch by batch, by number.
SEQUENCES = frozenset({"tensorflow.keras.utils.Sequence", "tensorflow.keras.utils.PyDataset"})


def makes_sequence(name: str) -> bool:
    """Whether calling this canonical name returns a Keras `Sequence`: `ImageDataGenerator(…).flow(…)`."""
    return re.search(r"\.ImageDataGenerator\.flow(_from_\w+)?$", name) is not None
