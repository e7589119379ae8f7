"""Programs nobody wrote: TensorFlow training programs, composed of small parts.

A program is a choice for each `Dimension`, the simplest option first, and a set of extras; its text is a pure
function of them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from textwrap import indent

#: Whether `tf.keras` is Keras 3 here: its users write some lines otherwise, and some not at all.
KERAS_3 = not version("keras").startswith("2.") and os.environ.get("TF_USE_LEGACY_KERAS") != "1"

ROWS, BATCH, FEATURES = 16, 2, 3

FIT = ("fit", "fit_train_step", "fit_in_loop")
BY_HAND = ("by_hand", "own_optimizer", "accumulate", "train_on_batch")

DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "training": ("tape", *FIT, "minimize", *BY_HAND),
    "place": (
        *("inline", "function", "compiled", "compiled_later", "parameters", "closure", "method"),
        *("compiled_method", "callable_class", "lambda"),
    ),
    "structure": ("flat", "main", "functions", "guarded_main"),
    "source": (
        *("slices", "shuffled", "shuffled_seed", "mapped", "mapped_batches", "named_map", "cached"),
        *(
            "prefetched",
            "from_generator",
            "zipped",
            "range",
            "repeated",
            "filtered",
            "concatenated",
        ),
        *("drop_remainder", "taken", "skipped", "stepwise", "dictionary", "options"),
        *("arrays", "arrays_in_order", "sequence", "generator", "shuffling_generator"),
        *("cut_in_loop", "list_of_batches", "array_split"),
    ),
    "walk": (
        *("for", "enumerate", "dataset_enumerate", "batch", "take", "zip_range", "islice"),
        *("next", "while_next", "try_next", "break_at", "continue_after"),
    ),
    "rows": ("whole", "uneven", "split", "permuted", "unseeded", "unseeded_split"),
    "model": (
        *("dense", "raw", "dense_built", "deep", "functional", "subclass", "own_layer"),
        *("dropout", "batchnorm", "regularised", "frozen_layer"),
    ),
    "initial": ("zeros", "random", "seeded"),
    "loss": ("square", "object", "function", "huber", "name", "own_function"),
    "optimizer": (
        *("sgd", "momentum", "adam", "rmsprop", "adagrad", "adamw", "ftrl", "legacy", "clipnorm"),
        *("by_name", "get"),
    ),
    "rate": (
        *("keyword", "positional", "constant", "expression", "default", "variable"),
        *("exponential", "piecewise", "cosine", "own_schedule", "set_each_epoch", "callback"),
    ),
    "update": (
        *(
            "plain",
            "clipped_globally",
            "clipped_each",
            "inside_with",
            "persistent",
            "pairs",
            "keywords",
        ),
        *("decayed", "each_variable", "gradient_function", "penalty", "two_optimizers", "unrolled"),
        *("dictionary", "first_variables", "comprehension", "helper_apply"),
    ),
    "epochs": ("one", "two", "while"),
    "names": ("full", "short", "pictures", "keras"),
    "imports": ("tf", "both", "from_tensorflow", "classes"),
}

EXTRAS: Mapping[str, tuple[str, ...]] = {
    "print_at_end": (),
    "print_loss": (),
    "print_now_and_then": (),
    "metric": (),
    "history": (),
    "evaluate_after": (),
    "validation": FIT,
    "json": (),
    "save_weights": (),
    "numpy_save": (),
    "makedirs": (),
    "checkpoint": (),
    "checkpoint_callback": FIT,
    "csv_callback": FIT,
    "early_stopping": FIT,
    "restore": (),
    "remove_before": (),
    "moving_average": (),
    "break_on_loss": (),
    "second_model": (),
    "not_trained": (),
    "condition": (),
    "try": (),
    "unused_dataset": (),
}

NAMES: Mapping[str, Mapping[str, str]] = {
    "full": dict(
        model="model", opt="optimizer", ds="dataset", x="x", y="y", bx="batch_x", by="batch_y",
        grads="gradients", loss="loss", tape="tape", step="train_step",
    ),
    "short": dict(
        model="net", opt="opt", ds="ds", x="X", y="Y", bx="xb", by="yb", grads="g", loss="l",
        tape="t", step="step",
    ),
    "pictures": dict(
        model="classifier", opt="adam", ds="train_ds", x="train_images", y="train_labels",
        bx="images", by="labels", grads="grads", loss="loss_value", tape="tape", step="train_one",
    ),
    "keras": dict(
        model="m", opt="trainer", ds="data", x="features", y="targets", bx="inputs", by="outputs",
        grads="dw", loss="error", tape="gradient_tape", step="update",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A choice for each dimension, and extras."""

    choices: tuple[tuple[str, str], ...]
    extras: frozenset[str] = frozenset()

    def __getattr__(self, dimension: str) -> str:
        if dimension not in DIMENSIONS:
            raise AttributeError(dimension)
        return dict(self.choices)[dimension]

    def having(self, dimension: str, option: str) -> Program:
        return replace(
            self,
            choices=tuple((d, option if d == dimension else o) for d, o in self.choices),
        )

    def with_extra(self, extra: str) -> Program:
        return replace(self, extras=self.extras | {extra})

    def without(self, extra: str) -> Program:
        return replace(self, extras=self.extras - {extra})

    @property
    def parts(self) -> tuple[str, ...]:
        """What is not the simplest."""
        first = {d: options[0] for d, options in DIMENSIONS.items()}
        chosen = [f"{d}={o}" for d, o in self.choices if o != first[d]]
        return (*chosen, *sorted(self.extras))

    @property
    def is_fit(self) -> bool:
        return self.training in FIT


SIMPLEST = Program(tuple((d, options[0]) for d, options in DIMENSIONS.items()))

KERAS_2_ALONE = (
    ("training", "minimize"),
    ("optimizer", "legacy"),
    ("update", "each_variable"),
    ("rate", "variable"),
)
BATCHES = ("generator", "shuffling_generator", "list_of_batches", "array_split", "cut_in_loop")
ARRAYS = ("arrays", "arrays_in_order", "sequence")


def problems(p: Program) -> Iterator[str]:
    """Which parts do not go together, so that no one would write them so."""
    for dimension, option in KERAS_2_ALONE if KERAS_3 else ():
        if getattr(p, dimension) == option:
            yield dimension
    if p.is_fit:
        if p.place not in ("inline",):
            yield "place"
        if p.walk != "for":
            yield "walk"
        if p.update != "plain":
            yield "update"
        if p.model == "raw":
            yield "model"
        if p.source in ("cut_in_loop", "list_of_batches", "array_split", "dictionary"):
            yield "source"
        if p.epochs == "while" and p.training != "fit_in_loop":
            yield "epochs"
        if p.rate == "set_each_epoch" and p.training != "fit_in_loop":
            yield "rate"
        if p.source in ("generator", "shuffling_generator") and (
            p.epochs != "one" or p.training == "fit_in_loop"
        ):
            yield "epochs"
    else:
        if p.source in ARRAYS:
            yield "source"
        if p.rate == "callback":
            yield "rate"
        if p.optimizer == "by_name":
            yield "optimizer"
        if p.loss == "name":
            yield "loss"
    if p.walk != "for" and p.source in BATCHES and p.walk not in ("enumerate", "batch"):
        yield "walk"
    if p.walk in ("take", "zip_range", "islice", "next", "while_next", "break_at") and (
        p.source in ("taken", "stepwise") or p.rows == "uneven"
    ):
        yield "walk"
    if p.source == "cut_in_loop" and p.walk != "for":
        yield "walk"
    if p.source == "stepwise" and p.training == "fit_train_step":
        yield "source"
    if p.training == "accumulate" and p.rows == "uneven":
        yield "rows"  # of one row that is left over, a half is empty, and its mean no number
    if p.training != "tape":
        if p.update not in ("plain",):
            yield "update"
        if p.training in ("by_hand", "own_optimizer") and (
            p.optimizer != "sgd" or p.rate not in ("constant", "keyword")
        ):
            yield "optimizer"
        if p.training in ("minimize", "train_on_batch") and p.place not in ("inline", "function"):
            yield "place"
        if p.training == "train_on_batch" and p.model == "raw":
            yield "model"
    if p.model == "raw" and p.initial != "zeros":
        yield "initial"
    if (
        p.model in ("raw", "dropout", "batchnorm", "subclass", "own_layer")
        and "second_model" in p.extras
    ):
        yield "second_model"
    if p.optimizer in ("by_name", "get") and p.rate != "default":
        yield "rate"
    if p.optimizer in ("by_name",) and not p.is_fit:
        yield "optimizer"
    if p.rate == "default" and p.optimizer == "legacy":
        yield "rate"
    if p.rate in ("exponential", "piecewise", "cosine", "own_schedule") and p.update in (
        "each_variable",
        "two_optimizers",
    ):
        yield "rate"
    if p.update == "two_optimizers" and p.optimizer in ("get", "by_name"):
        yield "optimizer"
    if p.update == "each_variable" and p.optimizer != "legacy":
        yield "optimizer"  # others want to see all variables in their first update
    if p.training == "minimize" and p.model not in ("raw", "dense_built", "functional"):
        yield "model"  # its variables are asked for before the loss
    if p.update == "penalty" and p.model in ("batchnorm", "dropout"):
        yield "update"
    if p.model == "regularised" and p.loss == "name":
        yield "loss"
    for extra in p.extras:
        where = EXTRAS[extra]
        if where and p.training not in where:
            yield extra
    if p.extras & {"restore", "checkpoint"} and p.training in ("by_hand", "own_optimizer"):
        yield "checkpoint"
    if p.model == "raw" and p.extras & {"save_weights", "evaluate_after", "restore", "checkpoint"}:
        yield "save_weights"
    if p.is_fit and p.extras & {
        "print_loss",
        "print_now_and_then",
        "metric",
        "moving_average",
        "break_on_loss",
        "try",
    }:
        yield "print_loss"
    if "break_on_loss" in p.extras and p.training in ("accumulate",):
        yield "break_on_loss"
    if p.extras >= {"restore"} and "checkpoint" not in p.extras:
        yield "restore"
    if "json" in p.extras and p.rate == "callback":
        yield "json"  # the history then holds a rate that JSON does not know
    if "early_stopping" in p.extras and "validation" not in p.extras:
        yield "early_stopping"
    if "evaluate_after" in p.extras and p.source == "dictionary":
        yield "evaluate_after"


def is_sound(p: Program) -> bool:
    return next(problems(p), None) is None


def draw(seed: int) -> Program:
    """A program, the same for the same seed."""
    rng = random.Random(seed)
    program = SIMPLEST
    for dimension in (
        "training",
        *(d for d in rng.sample(list(DIMENSIONS), len(DIMENSIONS)) if d != "training"),
    ):
        options = DIMENSIONS[dimension]
        if dimension == "training":
            # What is trained by a tape or by fit is what is mostly written.
            often = ("tape",) * 8 + ("fit",) * 4 + options
            program = start(rng.choice([o for o in often if is_sound(start(o))]))
            continue
        for option in rng.sample(options, len(options)):
            if is_sound(program.having(dimension, option)):
                program = program.having(dimension, option)
                break
    for extra in rng.sample(list(EXTRAS), len(EXTRAS)):
        more = replace(program, extras=program.extras | {extra})
        if rng.random() < 0.18 and is_sound(more):
            program = more
    return program


def start(training: str) -> Program:
    """The simplest program that trains in this way."""
    program = SIMPLEST.having("training", training)
    return program.having("model", "dense_built") if training == "minimize" else program


# The text


def text(p: Program) -> str:
    """The program."""
    return Writer(p).program()


class Writer:
    """Writes one program; each method one place of it."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.name = NAMES[p.names]
        self.batch = BATCH
        self.rows = ROWS
        self.steps = 4

    def __getattr__(self, name: str) -> str:
        return self.name[name]

    def f(self, template: str) -> str:
        """A template with names and numbers put in: `«model»`, `«B»`."""
        for key, value in self.name.items():
            template = template.replace(f"«{key}»", value)
        return (
            template.replace("«B»", str(self.batch))
            .replace("«K»", self.keras)
            .replace("«S»", str(self.steps))
            .replace("«MSE»", "mse" if KERAS_3 else "mean_squared_error")
            .replace("«W»", ".weights.h5" if KERAS_3 else ".h5")
        )

    @property
    def keras(self) -> str:
        return {
            "tf": "tf.keras",
            "both": "keras",
            "from_tensorflow": "keras",
            "classes": "tf.keras",
        }[self.p.imports]

    def program(self) -> str:
        p = self.p
        head = [self.imports()]
        if p.initial == "seeded":
            head.append("tf.keras.utils.set_random_seed(7)\n")
        elif p.initial == "random" and p.names == "short":
            head.append("tf.random.set_seed(7)\n")  # Keras' own seeds still differ
        head.append(self.data())
        head.append(self.definitions())
        body = [self.dataset(), self.model_text(), self.optimizer_text(), self.before()]
        training = [self.step_definition(), self.loop(), self.after()]
        if p.structure == "functions":
            body = [
                self.as_function("make_data", self.dataset(), self.ds) if self.dataset() else "",
                self.as_function("make_model", self.model_text(), self.returned_model()),
                self.optimizer_text(),
                self.before(),
            ]
        sections = [*body, *training]
        if p.structure in ("main", "guarded_main"):
            inner = "\n".join(s for s in sections if s.strip())
            call = (
                "main()\n" if p.structure == "main" else 'if __name__ == "__main__":\n    main()\n'
            )
            sections = ["def main():\n" + indent(inner, "    "), call]
        return "\n".join(s for s in (*head, *sections) if s.strip())

    def as_function(self, name: str, inner: str, gives: str) -> str:
        return f"def {name}():\n{indent(inner, '    ')}    return {gives}\n\n\n{gives} = {name}()\n"

    def returned_model(self) -> str:
        return "w, b" if self.p.model == "raw" else self.model

    # Above

    def imports(self) -> str:
        p = self.p
        lines = []
        if "json" in p.extras:
            lines.append("import json")
        if p.extras & {"makedirs", "remove_before"}:
            lines.append("import os")
        if p.walk == "islice":
            lines.append("from itertools import islice")
        if lines:
            lines.append("")
        lines += ["import numpy as np", "import tensorflow as tf"]
        lines += {
            "tf": [],
            "both": ["from tensorflow import keras"],
            "from_tensorflow": [
                "import tensorflow.keras as keras",
                "from tensorflow.keras import layers",
            ],
            "classes": ["from tensorflow.keras.layers import Dense"],
        }[p.imports]
        return "\n".join(lines) + "\n"

    @property
    def dense(self) -> str:
        return {"classes": "Dense", "from_tensorflow": "layers.Dense"}.get(
            self.p.imports, f"{self.keras}.layers.Dense"
        )

    def data(self) -> str:
        rows = {"whole": ROWS, "unseeded": ROWS, "uneven": ROWS + 3}.get(self.p.rows, ROWS + 4)
        draws = (
            "np.random.normal"
            if self.p.rows.startswith("unseeded")
            else "np.random.RandomState(0).normal"
        )
        lines = [
            f'«x» = {draws}(size=({rows}, {FEATURES})).astype("float32")',
            '«y» = («x» @ np.array([[1.0], [-2.0], [0.5]])).astype("float32")',
        ]
        if self.p.rows in ("split",):
            lines.append(f"«x», held_x = «x»[:{ROWS}], «x»[{ROWS}:]")
            lines.append(f"«y», held_y = «y»[:{ROWS}], «y»[{ROWS}:]")
        elif self.p.rows in ("permuted", "unseeded_split"):
            how = "np.random.RandomState(1)" if self.p.rows == "permuted" else "np.random"
            lines.append(f"order = {how}.permutation(len(«x»))")
            lines.append(f"held_x, held_y = «x»[order[{ROWS}:]], «y»[order[{ROWS}:]]")
            lines.append(f"«x», «y» = «x»[order[:{ROWS}]], «y»[order[:{ROWS}]]")
        else:
            lines.append("held_x, held_y = «x»[:4] + 1.0, «y»[:4]")
        if self.p.rate == "constant":
            lines.append(f"RATE = {self.rate_number}")
        return self.f("\n".join(lines)) + "\n"

    @property
    def rate_number(self) -> str:
        base = {"adam": 0.01, "adamw": 0.01, "rmsprop": 0.01}.get(self.p.optimizer, 0.05)
        return repr(base)

    def definitions(self) -> str:
        """Classes and functions of the program's own."""
        p, out = self.p, []
        if p.rate == "own_schedule":
            out.append(
                "class Falling(«K».optimizers.schedules.LearningRateSchedule):\n"
                "    def __call__(self, step):\n"
                "        return 0.05 / (1.0 + 0.1 * tf.cast(step, tf.float32))\n\n"
                "    def get_config(self):\n"
                "        return {}\n"
            )  # fmt: skip
        if p.model == "subclass" or p.training == "fit_train_step":
            out.append(self.subclass())
        if p.model == "own_layer":
            out.append(
                "class Linear(«K».layers.Layer):\n"
                "    def build(self, shape):\n"
                f'        self.w = self.add_weight(name="w", shape=(shape[-1], 1), initializer={self.initializer!r})\n'
                "\n"
                "    def call(self, inputs):\n"
                "        return tf.matmul(inputs, self.w)\n"
            )
        if p.loss == "own_function":
            out.append(
                "def squared_error(true, predicted):\n"
                "    return tf.reduce_mean((true - predicted) ** 2)\n"
            )
        if p.source == "from_generator":
            out.append("def rows():\n    for one in zip(«x», «y»):\n        yield one\n")
        if p.source in ("generator", "shuffling_generator"):
            order = (
                "np.arange(len(«x»))"
                if p.source == "generator"
                else "np.random.permutation(len(«x»))"
            )
            out.append(
                f"def batches():\n    order = {order}\n"
                "    for start in range(0, len(«x»), «B»):\n"
                "        chosen = order[start : start + «B»]\n"
                "        yield «x»[chosen], «y»[chosen]\n"
            )
        if p.source == "sequence":
            out.append(
                "class Batches(«K».utils.Sequence):\n"
                "    def __len__(self):\n        return len(«x») // «B»\n\n"
                "    def __getitem__(self, index):\n"
                "        chosen = slice(index * «B», (index + 1) * «B»)\n"
                "        return «x»[chosen], «y»[chosen]\n"
            )
        if p.source == "named_map":
            out.append("def normalise(a, b):\n    return a / 2.0, b\n")
        if p.training == "own_optimizer":
            out.append(
                "class Descent:\n    def __init__(self, rate):\n        self.rate = rate\n\n"
                "    def apply_gradients(self, grads, variables):\n"
                "        for grad, variable in zip(grads, variables):\n"
                "            variable.assign_sub(self.rate * grad)\n"
            )
        if p.rate == "callback":
            out.append(f"def falling(epoch):\n    return {self.rate_number} / (1 + epoch)\n")
        return self.f("\n\n".join(out))

    @property
    def initializer(self) -> str:
        return "zeros" if self.p.initial == "zeros" else "glorot_uniform"

    def subclass(self) -> str:
        lines = [
            "class Regression(«K».Model):",
            "    def __init__(self):",
            "        super().__init__()",
        ]
        lines += [
            f"        self.out = {self.layer(1)}",
            "",
            "    def call(self, inputs):",
            "        return self.out(inputs)",
        ]
        if self.p.training == "fit_train_step":
            predicted = "self(bx, training=True)"
            loss = (
                f"self.compute_loss(y=by, y_pred={predicted})"
                if KERAS_3
                else f"self.compiled_loss(by, {predicted})"
            )
            lines += [
                *(
                    "",
                    "    def train_step(self, data):",
                    "        bx, by = data",
                    "        with tf.GradientTape() as tape:",
                ),
                f"            loss = {loss}",
                "        grads = tape.gradient(loss, self.trainable_variables)",
                "        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))",
                '        return {"loss": loss}',
            ]
        return "\n".join(lines) + "\n"

    def layer(self, units: int, **more: str) -> str:
        given = [str(units), *(f"{k}={v}" for k, v in more.items())]
        if self.p.initial == "zeros" and units == 1:
            given.append('kernel_initializer="zeros"')
        elif self.p.initial == "zeros":
            given.append("kernel_initializer=tf.keras.initializers.Constant(0.1)")
        return f"{self.dense}({', '.join(given)})"

    # Data

    def dataset(self) -> str:
        p = self.p
        slices = "tf.data.Dataset.from_tensor_slices((«x», «y»))"
        batch = ".batch(«B»)"
        pipelines = {
            "slices": slices + batch,
            "shuffled": f"{slices}.shuffle(16){batch}",
            "shuffled_seed": f"{slices}.shuffle(16, seed=3){batch}",
            "mapped": f"{slices}.map(lambda a, b: (2.0 * a, b)){batch}",
            "mapped_batches": f"{slices}{batch}.map(lambda a, b: (a, b / 2.0), num_parallel_calls=2)",
            "named_map": f"{slices}.map(normalise){batch}",
            "cached": f"{slices}.cache().shuffle(len(«x»)){batch}.prefetch(tf.data.AUTOTUNE)",
            "prefetched": f"{slices}{batch}.prefetch(1)",
            "from_generator": "tf.data.Dataset.from_generator(rows, output_signature=("
            "tf.TensorSpec((3,), tf.float32), tf.TensorSpec((1,), tf.float32)))" + batch,
            "zipped": "tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(«x»), tf.data.Dataset.from_tensor_slices(«y»)))"
            + batch,
            "range": "tf.data.Dataset.range(len(«x»)).map(lambda i: (tf.gather(«x», i), tf.gather(«y», i)))"
            + batch,
            "repeated": f"{slices}.repeat(2){batch}",
            "filtered": f"{slices}.filter(lambda a, b: a[0] > -99.0){batch}",
            "concatenated": "tf.data.Dataset.from_tensor_slices((«x»[:8], «y»[:8])).concatenate("
            "tf.data.Dataset.from_tensor_slices((«x»[8:], «y»[8:])))" + batch,
            "drop_remainder": f"{slices}.batch(«B», drop_remainder=True)",
            "taken": f"{slices}{batch}.take(«S»)",
            "skipped": f"{slices}.skip(4){batch}",
            "options": f"{slices}.shuffle(100, reshuffle_each_iteration=True){batch}",
            "dictionary": 'tf.data.Dataset.from_tensor_slices({"a": «x», "b": «y»})' + batch,
        }
        if p.source == "stepwise":
            lines = f"«ds» = {slices}\n«ds» = «ds».repeat()\n«ds» = «ds».batch(«B»)\n"
            if not p.is_fit:
                lines += "«ds» = «ds».take(«S»)\n"
            return self.f(lines)
        if p.source in pipelines:
            return self.f(f"«ds» = {pipelines[p.source]}\n")
        return self.f(
            {
                "list_of_batches": "«ds» = [(«x»[i : i + «B»], «y»[i : i + «B»]) for i in range(0, len(«x»), «B»)]\n",
                "array_split": "pieces = len(«x») // «B»\n«ds» = list(zip(np.array_split(«x», pieces), np.array_split(«y», pieces)))\n",
            }.get(p.source, "")
        )

    @property
    def walked(self) -> str:
        return "batches()" if self.p.source in ("generator", "shuffling_generator") else self.ds

    # Model, optimizer

    def model_text(self) -> str:
        p, k = self.p, self.keras
        first = self.layer(1)
        built = self.layer(1, input_shape=f"({FEATURES},)")
        kind = "subclass" if p.training == "fit_train_step" else p.model
        lines = {
            "raw": f"w = tf.Variable(tf.zeros(({FEATURES}, 1)))\nb = tf.Variable(tf.zeros((1,)))",
            "dense": f"«model» = {k}.Sequential([{first}])",
            "dense_built": f"«model» = {k}.Sequential([{built}])",
            "deep": f"«model» = {k}.Sequential()\n«model».add({self.layer(4, activation=repr('tanh'))})\n«model».add({first})",
            "functional": f"inputs = {k}.Input(shape=({FEATURES},))\nhidden = {self.layer(4)}(inputs)\n"
            f"«model» = {k}.Model(inputs, {first}(hidden))",
            "subclass": "«model» = Regression()",
            "own_layer": f"«model» = {k}.Sequential([Linear()])",
            "dropout": f"«model» = {k}.Sequential([{k}.layers.Dropout(0.5), {first}])",
            "batchnorm": f"«model» = {k}.Sequential([{k}.layers.BatchNormalization(), {first}])",
            "regularised": f"«model» = {k}.Sequential([{self.layer(1, kernel_regularizer=repr('l2'))}])",
            "frozen_layer": f"frozen = {self.layer(4)}\nfrozen.trainable = False\n«model» = {k}.Sequential([frozen, {first}])",
        }[kind]
        if "second_model" in p.extras:
            lines += f'\nteacher = {k}.Sequential([{self.dense}(1, kernel_initializer="ones")])\nteacher(«x»[:1])'
        return self.f(lines) + "\n"

    @property
    def call(self) -> str:
        return "(«bx» @ w + b)" if self.p.model == "raw" else "«model»(«bx», training=True)"

    @property
    def variables(self) -> str:
        return "[w, b]" if self.p.model == "raw" else "«model».trainable_variables"

    def rate(self) -> str:
        p = self.p
        r = self.rate_number
        schedules = "«K».optimizers.schedules"
        return {
            "keyword": f"learning_rate={r}",
            "positional": r,
            "constant": "RATE" if p.names == "full" else "learning_rate=RATE",
            "expression": f"learning_rate={r} / 2",
            "default": "",
            "variable": f"learning_rate=tf.Variable({r}, trainable=False)",
            "exponential": f"{schedules}.ExponentialDecay({r}, decay_steps=8, decay_rate=0.5)",
            "piecewise": f"{schedules}.PiecewiseConstantDecay([4], [{r}, {0.5 * 0.02!r}])",
            "cosine": f"{schedules}.CosineDecay({r}, 16)",
            "own_schedule": "learning_rate=Falling()",
            "set_each_epoch": f"learning_rate={r}",
            "callback": f"learning_rate={r}",
        }[p.rate]

    def optimizer(self) -> str:
        p, rate = self.p, self.rate()
        if p.optimizer == "by_name":
            return '"sgd"'
        if p.optimizer == "get":
            return '«K».optimizers.get("sgd")'
        name, *more = {
            "sgd": ("SGD",),
            "momentum": ("SGD", "momentum=0.9"),
            "adam": ("Adam",),
            "rmsprop": ("RMSprop",),
            "adagrad": ("Adagrad",),
            "adamw": ("AdamW", "weight_decay=0.01"),
            "ftrl": ("Ftrl",),
            "legacy": ("legacy.SGD",),
            "clipnorm": ("SGD", "global_clipnorm=0.5"),
        }[p.optimizer]
        return f"«K».optimizers.{name}({', '.join(a for a in (rate, *more) if a)})"

    def optimizer_text(self) -> str:
        p = self.p
        if p.training == "by_hand":
            return "" if p.rate == "constant" else f"rate = {self.rate_number}\n"
        if p.training == "own_optimizer":
            return self.f(
                f"«opt» = Descent({'RATE' if p.rate == 'constant' else self.rate_number})\n"
            )
        if self.compiles and p.optimizer in ("by_name",):
            return ""
        made = f"«opt» = {self.optimizer()}\n"
        if p.update == "two_optimizers":
            made += f"second = {self.optimizer()}\n"
        return self.f(made)

    # Before, and training

    @property
    def compiles(self) -> bool:
        return self.p.is_fit or self.p.training == "train_on_batch"

    def before(self) -> str:
        p, lines = self.p, []
        if p.loss == "object" and not self.compiles:
            lines.append("loss_object = «K».losses.MeanSquaredError()")
        if self.compiles:
            loss = {
                "square": '"mse"', "name": '"mean_squared_error"', "object": "«K».losses.MeanSquaredError()",
                "function": "«K».losses.«MSE»", "huber": "«K».losses.Huber()", "own_function": "squared_error",
            }[p.loss]  # fmt: skip
            optimizer = self.optimizer() if p.optimizer == "by_name" else "«opt»"
            watched = "metric" in p.extras or p.names == "pictures"
            # A `train_step` of one's own would have to update them on Keras 3.
            updated = not (KERAS_3 and p.training == "fit_train_step")
            metrics = ', metrics=["mae"]' if watched and updated else ""
            keyword = "optimizer=" if p.names != "short" else ""
            lines.append(f"«model».compile({keyword}{optimizer}, loss={loss}{metrics})")
        if "metric" in p.extras and not self.compiles:
            lines.append('mean_loss = «K».metrics.Mean(name="loss")')
        if "history" in p.extras and not p.is_fit:
            lines.append("history = []")
        if "moving_average" in p.extras:
            lines.append("average = tf.Variable(0.0, trainable=False)")
        if "not_trained" in p.extras:
            lines.append(
                "with tf.GradientTape() as other:\n    z = tf.Variable(2.0, trainable=False)\n    other.watch(z)\n    square = z * z\nslope = other.gradient(square, z)"
            )
        if "remove_before" in p.extras:
            lines.append('if os.path.exists("log.txt"):\n    os.remove("log.txt")')
        if "makedirs" in p.extras:
            lines.append('os.makedirs("out", exist_ok=True)')
        if "checkpoint" in p.extras:
            lines.append("checkpoint = tf.train.Checkpoint(model=«model»)")
        if "unused_dataset" in p.extras:
            lines.append(
                "test_ds = tf.data.Dataset.from_tensor_slices((held_x, held_y)).batch(4)\nfor held_batch, _ in test_ds.take(1):\n    shown = held_batch.shape"
            )
        return self.f("\n".join(lines)) + "\n" if lines else ""

    def loss_expression(self) -> str:
        p = self.p
        plain = {
            "square": f"tf.reduce_mean(tf.square({self.call} - «by»))",
            "object": f"loss_object(«by», {self.call})",
            "function": f"tf.reduce_mean(«K».losses.«MSE»(«by», {self.call}))",
            "huber": f"«K».losses.Huber()(«by», {self.call})",
            "own_function": f"squared_error(«by», {self.call})",
        }[p.loss]
        return plain + (" + tf.add_n(«model».losses)" if p.model == "regularised" else "")

    def step_body(self) -> str:
        """What is done with one batch."""
        p = self.p
        loss, variables = self.loss_expression(), self.variables
        apply = f"«opt».apply_gradients(zip(«grads», {variables}))"
        tape = f"with tf.GradientTape() as «tape»:\n    «loss» = {loss}\n"
        asked = f"«grads» = «tape».gradient(«loss», {variables})\n"
        if p.training == "minimize":
            return f"«opt».minimize(lambda: {loss}, {variables})\n«loss» = {loss}"
        if p.training == "train_on_batch":
            taken = "[0]" if "metric" in p.extras or p.names == "pictures" else ""
            return f"«loss» = «model».train_on_batch(«bx», «by»){taken}"
        if p.training == "by_hand":
            rate = "RATE" if p.rate == "constant" else "rate"
            return (
                tape
                + asked
                + f"for grad, variable in zip(«grads», {variables}):\n    variable.assign_sub({rate} * grad)"
            )
        if p.training == "own_optimizer":
            return tape + asked + f"«opt».apply_gradients(«grads», {variables})"
        if p.training == "accumulate":
            halves = "half = len(«bx») // 2\ntotal = None\n"
            part = (
                "for part in (slice(None, half), slice(half, None)):\n"
                "    with tf.GradientTape() as «tape»:\n"
                f"        «loss» = {loss.replace('«bx»', '«bx»[part]').replace('«by»', '«by»[part]')}\n"
                f"    «grads» = «tape».gradient(«loss», {variables})\n"
                "    total = «grads» if total is None else [a + g for a, g in zip(total, «grads»)]\n"
            )
            return (
                halves
                + part
                + f"«opt».apply_gradients([(a / 2.0, v) for a, v in zip(total, {variables})])"
            )
        middle = {
            "clipped_globally": "«grads», _ = tf.clip_by_global_norm(«grads», 0.5)\n",
            "clipped_each": "«grads» = [tf.clip_by_norm(g, 0.5) for g in «grads»]\n",
            "decayed": f"«grads» = [g + 0.01 * v for g, v in zip(«grads», {variables})]\n",
            "comprehension": "«grads» = [g if g is not None else 0.0 for g in «grads»]\n",
        }.get(p.update, "")
        match p.update:
            case "inside_with":
                return tape + indent(asked, "    ") + apply
            case "persistent":
                return (
                    tape.replace("Tape()", "Tape(persistent=True)") + asked + apply + "\ndel «tape»"
                )
            case "pairs":
                return (
                    tape
                    + asked
                    + f"pairs = list(zip(«grads», {variables}))\n«opt».apply_gradients(pairs)"
                )
            case "keywords":
                return (
                    tape
                    + f"«grads» = «tape».gradient(target=«loss», sources={variables})\n"
                    + apply.replace("(zip", "(grads_and_vars=zip")
                )
            case "each_variable":
                return (
                    tape
                    + asked
                    + f"for g, v in zip(«grads», {variables}):\n    «opt».apply_gradients([(g, v)])"
                )
            case "gradient_function":
                return f"«loss», «grads» = gradients_of(«bx», «by»)\n{apply}"
            case "penalty":
                inner = (
                    "with tf.GradientTape() as «tape»:\n    with tf.GradientTape() as inner:\n        probe = tf.identity(«bx»)\n        inner.watch(probe)\n"
                    f"        out = tf.reduce_sum({self.call.replace('«bx»', 'probe')})\n"
                    "    slopes = inner.gradient(out, probe)\n"
                    f"    «loss» = {loss} + 0.1 * tf.reduce_mean(tf.square(slopes))\n"
                )
                return inner + asked + apply
            case "two_optimizers":
                halves = f"all_variables = {variables}\n«opt».apply_gradients(zip(«grads»[:1], all_variables[:1]))\n"
                return (
                    tape
                    + asked
                    + halves
                    + "if len(all_variables) > 1:\n    second.apply_gradients(zip(«grads»[1:], all_variables[1:]))"
                )
            case "unrolled":
                return (
                    tape
                    + f"variables = {variables}\n«grads» = «tape».gradient(«loss», variables)\n«opt».apply_gradients((g, v) for g, v in zip(«grads», variables))"
                )
            case "dictionary":
                return (
                    tape
                    + f'variables = {variables}\nresult = {{"grads": «tape».gradient(«loss», variables)}}\n«opt».apply_gradients(zip(result["grads"], variables))'
                )
            case "first_variables":
                return (
                    tape
                    + f"chosen = {variables}[:1]\n«grads» = «tape».gradient(«loss», chosen)\n«opt».apply_gradients(zip(«grads», chosen))"
                )
            case "helper_apply":
                return tape + asked + f"apply(«grads», {variables})"
        return tape + asked + middle + apply

    def helpers(self) -> str:
        p = self.p
        if p.update == "gradient_function":
            return (
                "def gradients_of(«bx», «by»):\n    with tf.GradientTape() as «tape»:\n"
                f"        «loss» = {self.loss_expression()}\n    return «loss», «tape».gradient(«loss», {self.variables})\n\n\n"
            )
        if p.update == "helper_apply":
            return "def apply(grads, variables):\n    «opt».apply_gradients(zip(grads, variables))\n\n\n"
        return ""

    def step_definition(self) -> str:
        p = self.p
        if p.is_fit:
            return ""
        body = self.step_body() + "\n"
        helpers = self.helpers()
        returning = indent(body + "return «loss»\n", "    ")
        arguments = "«bx», «by»"
        match p.place:
            case "inline" | "lambda":
                out = (
                    helpers
                    if p.place == "inline"
                    else helpers
                    + f"def work({arguments}):\n{returning}\n\n«step» = lambda *batch: work(*batch)\n"
                )
            case "function":
                out = helpers + f"def «step»({arguments}):\n{returning}\n"
            case "compiled":
                out = helpers + f"@tf.function\ndef «step»({arguments}):\n{returning}\n"
            case "compiled_later":
                out = (
                    helpers
                    + f"def one_step({arguments}):\n{returning}\n\n«step» = tf.function(one_step)\n"
                )
            case "parameters":
                given = [
                    self.name["model"] if p.model != "raw" else "w",
                    *([] if p.training == "by_hand" else [self.opt]),
                ]
                out = helpers + f"def «step»({', '.join(given)}, {arguments}):\n{returning}\n"
            case "closure":
                out = f"def make_step():\n{indent(helpers + f'def run({arguments}):' + chr(10) + returning, '    ')}\n    return run\n\n\n«step» = make_step()\n"
            case "method" | "compiled_method" | "callable_class":
                method = "__call__" if p.place == "callable_class" else "train"
                compiled = "    @tf.function\n" if p.place == "compiled_method" else ""
                out = (
                    helpers
                    + f"class Trainer:\n{compiled}    def {method}(self, {arguments}):\n{indent(returning, '    ')}\n\ntrainer_object = Trainer()\n"
                )
        return self.f(out)

    def step_call(self) -> str:
        p = self.p
        match p.place:
            case "inline":
                return self.step_body()
            case "method" | "compiled_method":
                return "«loss» = trainer_object.train(«bx», «by»)"
            case "callable_class":
                return "«loss» = trainer_object(«bx», «by»)"
            case "parameters":
                given = [
                    self.name["model"] if p.model != "raw" else "w",
                    *([] if p.training == "by_hand" else [self.opt]),
                ]
                return f"«loss» = «step»({', '.join(given)}, «bx», «by»)"
        return "«loss» = «step»(«bx», «by»)"

    def inner(self) -> str:
        """A batch, and what follows it in the loop."""
        p, more = self.p, []
        if "metric" in p.extras and not self.compiles:
            more.append("mean_loss.update_state(«loss»)")
        if "history" in p.extras:
            more.append("history.append(float(«loss»))")
        if "moving_average" in p.extras:
            more.append("average.assign(0.9 * average + 0.1 * tf.reduce_mean(«loss»))")
        if "print_now_and_then" in p.extras:
            more.append('if count % 2 == 0:\n    print("step", count, float(«loss»))\ncount += 1')
        if "break_on_loss" in p.extras:
            more.append("if float(«loss») < 1e-9:\n    break")
        return "\n".join([self.step_call(), *more])

    def loop(self) -> str:
        p = self.p
        if p.is_fit:
            return self.fit()
        inner = self.inner()
        if "try" in p.extras:
            inner = f"try:\n{indent(inner, '    ')}\nexcept ValueError:\n    raise"
            if "break_on_loss" in p.extras:
                inner = self.inner()
        data = self.walked
        unpack = (
            '«bx», «by» = batch["a"], batch["b"]'
            if p.source == "dictionary"
            else "«bx», «by» = batch"
        )
        dictionary = p.source == "dictionary"
        pair = "batch" if dictionary else "«bx», «by»"
        if dictionary:
            inner = f"{unpack}\n{inner}"
        body = indent(inner, "    ")
        nested = pair if dictionary else f"({pair})"
        walk = {
            "for": f"for {pair} in {data}:\n{body}",
            "enumerate": f"for step_number, {nested} in enumerate({data}):\n{body}",
            "dataset_enumerate": f"for step_number, {nested} in {data}.enumerate():\n{body}",
            "batch": f"for batch in {data}:\n" + (body if dictionary else f"    {unpack}\n{body}"),
            "take": f"for {pair} in {data}.take(«S»):\n{body}",
            "zip_range": f"for step_number, {nested} in zip(range(«S»), {data}):\n{body}",
            "islice": f"for {pair} in islice({data}, «S»):\n{body}",
            "next": f"iterator = iter({data}.repeat())\nfor step_number in range(«S»):\n    {pair} = next(iterator)\n{body}",
            "while_next": f"iterator = iter({data}.repeat())\nstep_number = 0\nwhile step_number < «S»:\n    {pair} = next(iterator)\n{body}\n    step_number += 1",
            "try_next": f"iterator = iter({data})\nwhile True:\n    try:\n        {pair} = next(iterator)\n    except StopIteration:\n        break\n{body}",
            "break_at": f"for step_number, {nested} in enumerate({data}):\n    if step_number == «S»:\n        break\n{body}",
            "continue_after": f"for {pair} in {data}:\n    if len({'batch' if dictionary else '«bx»'}) == 0:\n        continue\n{body}",
        }[p.walk]  # fmt: skip
        if p.source == "cut_in_loop":
            walk = f"for start in range(0, len(«x»), «B»):\n    «bx», «by» = «x»[start : start + «B»], «y»[start : start + «B»]\n{body}"
        epochs = self.epochs(walk, self.each_epoch())
        if "print_now_and_then" in p.extras:
            epochs = "count = 0\n" + epochs
        if "condition" in p.extras:
            epochs = f"if len(«x») > 3:\n{indent(epochs, '    ')}"
        return self.f(epochs) + "\n"

    def each_epoch(self) -> list[str]:
        p, lines = self.p, []
        if "print_loss" in p.extras:
            shown = (
                "float(mean_loss.result())"
                if "metric" in p.extras and not self.compiles
                else "float(«loss»)"
            )
            lines.append(
                f'print("epoch", epoch, {shown})' if p.epochs != "one" else f"print({shown})"
            )
        if "metric" in p.extras and not self.compiles:
            lines.append(
                "mean_loss.reset_states()"
                if p.names == "short" and not KERAS_3
                else "mean_loss.reset_state()"
            )
        if p.rate == "set_each_epoch":
            half = repr(float(self.rate_number) / 2)
            target = "«model».optimizer.learning_rate" if self.compiles else "«opt».learning_rate"
            lines.append(f"{target}.assign({half})" if p.names == "full" else f"{target} = {half}")
        if "checkpoint" in p.extras:
            lines.append(
                'checkpoint.save("ckpt")'
                if p.names != "short"
                else 'path = checkpoint.write("ckpt")'
            )
        return lines

    def epochs(self, walk: str, after: list[str]) -> str:
        inner = "\n".join([walk, *after])
        match self.p.epochs:
            case "two":
                return f"for epoch in range(2):\n{indent(inner, '    ')}"
            case "while":
                return f"epoch = 0\nwhile epoch < 2:\n{indent(inner, '    ')}\n    epoch += 1"
        return inner

    def fit(self) -> str:
        p = self.p
        given, callbacks = [], []
        match p.source:
            case "arrays" | "arrays_in_order":
                given = ["«x»", "«y»", "batch_size=«B»"]
                given += ["shuffle=False"] if p.source == "arrays_in_order" else []
            case "sequence":
                given = ["Batches()", "shuffle=False"]
            case "generator" | "shuffling_generator":
                given = ["batches()"]
            case "stepwise":
                given = ["«ds»", "steps_per_epoch=«S»"]
            case _:
                given = ["«ds»"]
        if p.training != "fit_in_loop" and p.epochs != "one":
            given.append("epochs=2")
        if "validation" in p.extras:
            given.append("validation_data=(held_x, held_y)")
        if p.rate == "callback":
            callbacks.append("«K».callbacks.LearningRateScheduler(falling)")
        if "checkpoint_callback" in p.extras:
            callbacks.append('«K».callbacks.ModelCheckpoint("best«W»", save_weights_only=True)')
        if "csv_callback" in p.extras:
            callbacks.append('«K».callbacks.CSVLogger("log.csv")')
        if "early_stopping" in p.extras:
            callbacks.append('«K».callbacks.EarlyStopping(monitor="val_loss", patience=1)')
        if callbacks:
            given.append(f"callbacks=[{', '.join(callbacks)}]")
        if p.names != "full":
            given.append("verbose=0" if p.names != "pictures" else "verbose=2")
        fit = f"«model».fit({', '.join(given)})"
        if "history" in p.extras or "json" in p.extras:
            fit = "history = " + fit
        after = (
            self.each_epoch()
            if p.training == "fit_in_loop" or p.epochs == "one"
            else [
                line
                for line in self.each_epoch()
                if "learning_rate" not in line and "epoch" not in line
            ]
        )
        loop = self.epochs(fit, after) if p.training == "fit_in_loop" else "\n".join([fit, *after])
        if "condition" in p.extras:
            loop = f"if len(«x») > 3:\n{indent(loop, '    ')}"
        return self.f(loop) + "\n"

    def after(self) -> str:
        p, lines = self.p, []
        folder = "out/" if "makedirs" in p.extras else ""
        if "evaluate_after" in p.extras:
            if self.compiles:
                lines.append("«model».evaluate(held_x, held_y, verbose=0)")
            else:
                lines.append("held_loss = tf.reduce_mean(tf.square(«model»(held_x) - held_y))")
        if "restore" in p.extras and p.names != "short":
            lines.append('checkpoint.restore(tf.train.latest_checkpoint("."))')
        if "save_weights" in p.extras:
            lines.append(f'«model».save_weights("{folder}weights«W»")')
        if "numpy_save" in p.extras:
            value = "w.numpy()" if p.model == "raw" else "«model».get_weights()[0]"
            lines.append(f'np.save("{folder}weights.npy", {value})')
        if "json" in p.extras:
            value = "history.history" if p.is_fit else '{"rows": len(«x»)}'
            lines.append(
                f'with open("{folder}history.json", "w") as file:\n    json.dump({value}, file)'
            )
        if "remove_before" in p.extras:
            lines.append('with open("log.txt", "a") as log:\n    log.write("done\\n")')
        if "print_at_end" in p.extras:
            lines.append('print("done")')
        return self.f("\n".join(lines)) + "\n" if lines else ""
