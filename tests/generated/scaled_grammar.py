"""Training programs whose rates, weights and exits go by steps, epochs or evaluations, for the conversion that scales up.

Each is a shape (`fit`, or a loop of its own) with one part that makes the rate, and a few more. The data make every
gradient constant and every loss a function of the examples seen, so that a program that is scaled right does the same
thing at the same number of examples. What a program knows it prints, as `see NAME VALUE`; an evaluation prints `check NAME`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
BATCH = 4
#: Of these rows steps of an epoch are divided by 2 and 3 without remainder, and no batch of so many ranks crosses a block of a
#: third of them; of the others the last batch of an epoch is smaller, on each number of ranks.
EVEN, UNEVEN = 72, 150
HEAD = """\
import math
import numpy as np
import tensorflow as tf

x = np.full(({0}, 1), 0.01, "float32")
y = np.repeat([0.5, 1.5, 1.0], {1}).astype("float32")[:, None]
"""
MODEL = """\
m = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
"""
LOSS = "tf.reduce_mean({0} - m({1}))"


@dataclass(frozen=True)
class ScaledProgram:
    """A program that is made of a seed.

    Attributes:
        kinds: the parts that it is made of. counts: the printed names that count steps; all others are the same on any
            number of ranks. is_whole: its batches have all rows, so that nothing is scaled. is_uneven: 2 and 3 ranks divide
            neither its counts nor its batches without remainder.
    """

    text: str
    kinds: tuple[str, ...]
    counts: frozenset[str] = frozenset()
    is_whole: bool = False
    is_uneven: bool = False


@dataclass
class Draft:
    """A program that is being made.

    Attributes:
        rate: the expression of the optimizer's rate. before: lines before the model. made: lines behind model and optimizer.
        body: lines of each step, of a loop; after: lines of each epoch. callbacks, arguments: of `fit`.
        step: how the number of steps made before this one is written, in a loop.
    """

    rng: random.Random
    rate: str = "0.05"
    before: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    callbacks: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    counts: set[str] = field(default_factory=set)
    epochs: int = 3
    step: str = "step"
    is_uneven: bool = False
    has_epochs: bool = False

    @property
    def rows(self) -> int:
        return UNEVEN if self.is_uneven else EVEN

    @property
    def per_epoch(self) -> int:
        """The steps of an epoch."""
        return -(-self.rows // BATCH)

    def batches(self, size: str) -> str:
        """The number of batches of an epoch, the smaller last one too: no two steps have one number."""
        return f"-(-len(x) // {size})" if self.is_uneven else f"len(x) // {size}"

    def count(self, least: int, most: int) -> int:
        """A number of steps, which 2 and 3 divide in an even program."""
        if self.is_uneven:
            return self.rng.randint(max(14, 12 * least), 12 * most + 6)
        return 6 * self.rng.randint(least, most)

    def steps(self, most: int = 6) -> int:
        return self.count(1, most)

    @property
    def head(self) -> str:
        return HEAD.format(self.rows, self.rows // 3)

    def one_of(self, choices: Sequence[T]) -> T:
        return self.rng.choice(choices)

    def number(self, name: str, value: float) -> str:
        """A constant, in place, under a name, or in a record."""
        kind = self.rng.random()
        if kind < 0.5:
            self.before.append(f"{name} = {value}")
            return name
        if kind < 0.7:
            made = self.one_of(
                [
                    f"import types\nin_{name} = types.SimpleNamespace({name}={value})",
                    f"import types\nall_{name} = dict({name}={value})\nin_{name} = types.SimpleNamespace(**all_{name})",
                    f"import collections\nOf_{name} = collections.namedtuple('Of_{name}', '{name}')\n"
                    f"in_{name} = Of_{name}({value})",
                ]
            )
            self.before += made.split("\n")
            return f"in_{name}.{name}"
        return str(value)

    def callback(self, name: str, *methods: str, fields: str = "", given: str = "") -> None:
        """A class that is a callback, and an object of it.

        Args:
            methods: `NAME: statement; statement`. fields: statements of `__init__`. given: what it is passed, `warm=12`.
        """
        names = [each.partition("=")[0] for each in given.split(", ") if each]
        lines = [f"class {name}(tf.keras.callbacks.Callback):"]
        if fields or names:
            lines += [
                f"    def __init__({', '.join(['self', *names])}):",
                "        super().__init__()",
            ]
            lines += [f"        self.{each} = {each}" for each in names]
            lines += [f"        {each}" for each in fields.split("; ") if each]
        for each in methods:
            head, _, statements = each.partition(": ")
            lines.append(f"    def on_{head}(self, {_parameter(head)}, logs=None):")
            lines += [f"        {line}" for line in statements.split("\n")]
        self.before += lines
        values = [each.partition("=")[2] for each in given.split(", ") if each]
        self.callbacks.append(f"{name}({', '.join(values)})")


def _parameter(method: str) -> str:
    return "epoch" if method.startswith("epoch") else "batch"


def indented(lines: Sequence[str], depth: int) -> list[str]:
    return [" " * 4 * depth + line for line in lines]


def draw(seed: int, only: str = "", is_uneven: bool = False) -> ScaledProgram:
    """The program of a seed.

    Args:
        only: a kind that the program is to have, and no other where it can. is_uneven: see `ScaledProgram`.
    """
    rng = random.Random(f"scaled {seed} {only}")
    shapes = [s for s in SHAPES if not only or only in RATES[s] or only in PARTS[s] or only == s]
    shape = rng.choice(sorted(shapes))
    draft = Draft(rng, epochs=rng.randint(2, 4), is_uneven=is_uneven)
    if shape in ("numbered", "flat"):
        draft.epochs = 1 if shape == "flat" else draft.epochs
    draft.has_epochs = shape in _EPOCH_SHAPES
    kinds = [shape]
    rates = [only] if only in RATES[shape] else sorted(RATES[shape])
    if is_uneven:  # other examples in an epoch are another loss, and another plateau
        rates = [kind for kind in rates if kind != "plateau with floor"] or ["constant rate"]
    rate = rng.choice(rates) if not only or only in RATES[shape] else "constant rate"
    RATES[shape][rate](draft)
    kinds.append(rate)
    parts = [only] if only in PARTS[shape] else []
    if not only:
        possible = sorted(PARTS[shape])
        parts = rng.sample(possible, min(len(possible), rng.randint(0, 3)))
    for kind in parts:
        PARTS[shape][kind](draft)
        kinds.append(kind)
    text = SHAPES[shape](draft)
    is_whole = shape.startswith("all rows")
    return ScaledProgram(text, tuple(kinds), frozenset(draft.counts), is_whole, is_uneven)


# Shapes


def _fit(draft: Draft, batch: str = str(BATCH)) -> str:
    draft.callbacks.insert(0, "See()")
    see = [
        "class See(tf.keras.callbacks.Callback):",
        "    def on_train_batch_end(self, batch, logs=None):",
        "        print('see w', float(self.model.get_weights()[0][0, 0]))",
    ]
    arguments = [f"epochs={draft.epochs}", "verbose=0", "shuffle=False", *draft.arguments]
    if any(each.startswith("steps_per_epoch") for each in arguments):
        data = [f"data = tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch({batch})"]
        given = "data"
    elif draft.rng.random() < 0.3 and not any("validation_split" in a for a in arguments):
        data = [f"data = tf.data.Dataset.from_tensor_slices((x, y)).batch({batch})"]
        given = "data"
    else:
        data, given = [], "x, y"
        arguments.insert(0, f"batch_size={batch}")
    optimizer = draft.one_of(["SGD", "Adam"])
    lines = [
        *see,
        *draft.before,
        MODEL.rstrip(),
        f"m.compile(tf.keras.optimizers.{optimizer}({draft.rate}), loss=lambda a, p: tf.reduce_mean(a - p), run_eagerly=True)",
        *data,
        f"m.fit({', '.join([given, *arguments])}, callbacks=[{', '.join(draft.callbacks)}])",
    ]
    return draft.head + "\n".join(lines) + "\n"


def _fit_whole(draft: Draft) -> str:
    return _fit(draft, draft.one_of(["len(x)", "x.shape[0]"]))


def _loop(draft: Draft, head: Sequence[str], depth: int, take: Sequence[str] = ()) -> str:
    """A loop whose steps stand at a depth, with `break` in a step or an epoch that leaves all loops."""
    step = [
        *take,
        "with tf.GradientTape() as tape:",
        f"    loss = {LOSS.format('b', 'a')}",
        "g = tape.gradient(loss, m.trainable_variables)",
        "o.apply_gradients(zip(g, m.trainable_variables))",
        *draft.body,
        "print('see w', float(m.trainable_variables[0][0, 0]))",
    ]
    loop = [*head, *indented(step, depth), *indented(draft.after, 1)]
    lines = [
        *draft.before,
        MODEL.rstrip(),
        f"o = tf.keras.optimizers.{draft.one_of(['SGD', 'Adam'])}({draft.rate})",
        *draft.made,
        *loop,
    ]
    if depth > 1 and any("break" in line for line in loop):
        lines = [
            "def main():",
            *indented([line.replace("break", "return") for line in lines], 1),
            "main()",
        ]
    return draft.head + "\n".join(lines) + "\n"


DATA = f"ds = tf.data.Dataset.from_tensor_slices((x, y)).batch({BATCH})"


def _epochs(draft: Draft) -> str:
    draft.before += [DATA, "step = 0"]
    draft.body.append(draft.one_of(["step += 1", "step = step + 1"]))
    return _loop(draft, [f"for epoch in range({draft.epochs}):", "    for a, b in ds:"], 2)


def _numbered(draft: Draft) -> str:
    draft.before += [
        DATA,
        f"steps = len(x) // {BATCH}" if draft.rng.random() < 0.5 else "steps = len(ds)",
    ]
    if draft.before[-1].startswith("steps = len(x)"):
        draft.before[-2:] = [
            f"B = {BATCH}",
            DATA.replace(f"({BATCH})", "(B)"),
            f"steps = {draft.batches('B')}",
        ]
    head = [f"for epoch in range({draft.epochs}):", "    for i, (a, b) in enumerate(ds):"]
    return _loop(draft, head, 2, ["step = epoch * steps + i"])


def _flat(draft: Draft) -> str:
    total = draft.per_epoch * draft.rng.randint(2, 4)
    draft.before += [DATA.replace(".batch", ".repeat().batch"), "batches = iter(ds)"]
    return _loop(
        draft, [f"for step in range({draft.number('total', total)}):"], 1, ["a, b = next(batches)"]
    )


def _while(draft: Draft) -> str:
    total = draft.per_epoch * draft.rng.randint(2, 4)
    draft.before += [DATA.replace(".batch", ".repeat().batch"), "batches = iter(ds)", "step = 0"]
    draft.body.append("step += 1")
    return _loop(
        draft, [f"while step < {draft.number('total', total)}:"], 1, ["a, b = next(batches)"]
    )


def _cut(draft: Draft) -> str:
    """Rows that a loop cuts out of arrays."""
    draft.before += ["step = 0"]
    draft.body.append("step += 1")
    size = draft.number("B", BATCH)
    head = [f"for epoch in range({draft.epochs}):", f"    for i in range(0, len(x), {size}):"]
    return _loop(draft, head, 2, [f"a, b = x[i:i + {size}], y[i:i + {size}]"])


def _counted(draft: Draft) -> str:
    """A loop that a library counts."""
    total = draft.number("total", draft.per_epoch * draft.rng.randint(2, 4))
    draft.before += [DATA.replace(".batch", ".repeat().batch"), "batches = iter(ds)"]
    head, first = draft.one_of(
        [
            (f"for k in tf.range({total}):", ["step = int(k)"]),
            (f"for step in np.arange(0, {total}):", []),
            (f"for step in trange({total}, disable=True):", []),
        ]
    )
    if "trange" in head:
        draft.before.insert(0, "from tqdm import trange")
    return _loop(draft, [head], 1, [*first, "a, b = next(batches)"])


def _positions(draft: Draft) -> str:
    """Batches whose first row is computed from their number."""
    size = draft.number("B", BATCH)
    draft.before += ["step = 0"]
    draft.body.append("step += 1")
    number, first = draft.one_of(
        [
            (f"range(len(x) // {size})", f"s = k * {size}"),
            (f"range(int(np.ceil(len(x) / {size})))", f"s = k * {size}"),
            (f"range(0, len(x), {size})", "s = k"),
        ]
    )
    take = [first, f"e = s + {size}", "a, b = x[s:e], y[s:e]"]
    if draft.rng.random() < 0.5:
        take = [first, f"a, b = x[s:s + {size}], y[s:s + {size}]"]
    return _loop(
        draft, [f"for epoch in range({draft.epochs}):", f"    for k in {number}:"], 2, take
    )


def _ordered(draft: Draft) -> str:
    """Rows that an order chooses."""
    size = draft.number("B", BATCH)
    draft.before += ["step = 0"]
    draft.body.append("step += 1")
    head = [
        f"for epoch in range({draft.epochs}):",
        "    order = np.arange(len(x))",
        f"    for i in range(0, len(x), {size}):",
    ]
    return _loop(draft, head, 2, [f"at = order[i:i + {size}]", "a, b = x[at], y[at]"])


def _generated(draft: Draft) -> str:
    """Batches that a function of the program yields."""
    size = draft.number("B", BATCH)
    draft.before += [
        "def batches():",
        f"    for i in range(0, len(x), {size}):",
        f"        yield x[i:i + {size}], y[i:i + {size}]",
    ]
    head = [f"for epoch in range({draft.epochs}):", "    for i, (a, b) in enumerate(batches()):"]
    if draft.rng.random() < 0.5:
        draft.before += [f"steps = {draft.batches(size)}"]
        return _loop(draft, head, 2, ["step = epoch * steps + i"])
    draft.before += ["step = 0"]
    draft.body.append("step += 1")
    return _loop(draft, head, 2)


def _configured(draft: Draft) -> str:
    """Numbers in a class of one line, a dictionary or a data class, and batches without remainder."""
    numbers = {"epochs": draft.epochs, "batch": BATCH}
    made = draft.one_of(
        [
            f"class C: {', '.join(numbers)} = {', '.join(map(str, numbers.values()))}",
            "class C:\n" + "\n".join(f"    {k} = {v}" for k, v in numbers.items()),
            "import types\nC = types.SimpleNamespace("
            + ", ".join(f"{k}={v}" for k, v in numbers.items())
            + ")",
            "import dataclasses\n@dataclasses.dataclass\nclass Config:\n"
            + "\n".join(f"    {k}: int = {v}" for k, v in numbers.items())
            + "\nC = Config()",
            f"C = {numbers}",
            f"C = dict({', '.join(f'{k}={v}' for k, v in numbers.items())})",
        ]
    )
    entry = 'C["{}"]' if made.startswith(("C = {", "C = dict")) else "C.{}"
    size, epochs = entry.format("batch"), entry.format("epochs")
    draft.before += [
        *made.split("\n"),
        DATA.replace(f"({BATCH})", f"({size}, drop_remainder=True)"),
        f"steps = len(x) // {size}",
    ]
    head = [f"for epoch in range({epochs}):", "    for i, (a, b) in enumerate(ds):"]
    return _loop(draft, head, 2, ["step = epoch * steps + i"])


def _whole(draft: Draft) -> str:
    return _loop(
        draft,
        [f"for step in range({draft.per_epoch}):"],
        1,
        ["a, b = tf.constant(x), tf.constant(y)"],
    )


# Rates


def _constant(draft: Draft) -> None:
    draft.rate = draft.number("rate", 0.05)


SCHEDULES = {
    "exponential": "ExponentialDecay(0.05, {0}, 0.5)",
    "staircase": "ExponentialDecay(0.05, {0}, 0.5, staircase=True)",
    "cosine": "CosineDecay(0.05, {0})",
    "polynomial": "PolynomialDecay(0.05, {0}, 0.001)",
    "inverse": "InverseTimeDecay(0.05, {0}, 0.5)",
    "piecewise": "PiecewiseConstantDecay([{0}, {1}], [0.05, 0.02, 0.01])",
    "restarts": "CosineDecayRestarts(0.05, {0})",
}


def _schedule(draft: Draft, length: int | None = None) -> str:
    kind = draft.one_of(sorted(SCHEDULES))
    return "tf.keras.optimizers.schedules." + SCHEDULES[kind].format(
        length or draft.steps(), 110 if draft.is_uneven else 60
    )


def _keras_schedule(draft: Draft) -> None:
    draft.rate = _schedule(draft)
    if draft.rng.random() < 0.5:
        draft.before.append(f"schedule = {draft.rate}")
        draft.rate = "schedule"


def _own_schedule(draft: Draft) -> None:
    warm = draft.steps(4)
    draft.before += [
        "class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):",
        "    def __init__(self, inner, warm):",
        "        self.inner, self.warm = inner, warm",
        "    def __call__(self, step):",
        "        s = tf.cast(step, tf.float32)",
        *draft.one_of(
            [
                [
                    "        return tf.where(s < self.warm, 0.05 * s / self.warm, self.inner(step))",
                ],
                [
                    "        if s < self.warm:",
                    "            return 0.05 * s / self.warm",
                    "        return self.inner(step - self.warm)",
                ],
                [
                    "        return 0.1 * tf.minimum(tf.math.rsqrt(s + 1.0), (s + 1.0) * self.warm ** -1.5)"
                ],
                ["        return 0.05 * tf.minimum(1.0, s / self.warm) * 0.99 ** s"],
            ]
        ),
    ]
    draft.rate = f"WarmUp({_schedule(draft)}, {warm})"


def _scheduler(draft: Draft) -> None:
    """`LearningRateScheduler`."""
    spelled = draft.one_of(["schedule", "epoch", "rate"])
    if spelled == "schedule":
        draft.before.append(f"s = {_schedule(draft, 2)}")
        function = "lambda e: float(s(e))"
    elif spelled == "epoch":
        draft.before += [
            "def rate_of(epoch):",
            "    return 0.05 * (epoch + 1) / 2 if epoch < 2 else 0.05 * 0.5 ** epoch",
        ]
        function = "rate_of"
    else:
        draft.before += [
            "def rate_of(epoch, rate):",
            "    return rate if epoch < 1 else max(rate * 0.5, 0.01)",
        ]
        function = "rate_of"
    draft.callbacks.append(f"tf.keras.callbacks.LearningRateScheduler({function})")


def _plateau(draft: Draft) -> None:
    patience, floor = draft.rng.randint(1, 2), draft.one_of([0.02, 0.005])
    draft.epochs = max(draft.epochs, 4)
    draft.callbacks.append(
        f"tf.keras.callbacks.ReduceLROnPlateau('loss', 0.3, {patience}, min_delta=0.05, min_lr={floor})"
    )


def _halving(draft: Draft) -> None:
    """A floor that a callback writes out."""
    body = "rate = float(self.model.optimizer.learning_rate)\n"
    body += "self.model.optimizer.learning_rate = max(rate * 0.5, 0.01)\nprint('see rate', rate)"
    draft.callback("Halve", f"epoch_end: {body}")


RATE_FORMULAS = (
    ("rate = 0.05 * min(1.0, {step} / {warm})",),
    ("rate = 0.05 * min(1.0, ({step} + 1) / {warm})",),
    ("if {step} < {warm}:", "    rate = 0.05 * {step} / {warm}", "else:", "    rate = 0.05"),
    ("rate = 0.05 * {step} / {warm} if {step} < {warm} else 0.05 * {warm} / {step}",),
    (
        "if {step} < {warm}:",
        "    rate = 0.05 * {step} / {warm}",
        "elif {step} < {total}:",
        "    done = ({step} - {warm}) / ({total} - {warm})",
        "    rate = 0.05 * 0.5 * (1 + math.cos(math.pi * done))",
        "else:",
        "    rate = 0.001",
    ),
    ("rate = 0.05 * max(0.1, 1 - {step} / {total})",),
    ("rate = 0.05 / (1 + 0.01 * {step})",),
    ("rate = 0.05 * 0.5 ** ({step} // {warm})",),
    ("rate = 0.05 * 0.99 ** {step}",),
    (
        "cycle = math.floor(1 + {step} / (2 * {warm}))",
        "height = abs({step} / {warm} - 2 * cycle + 1)",
        "rate = 0.01 + 0.04 * max(0.0, 1 - height)",
    ),
    ("rate = 0.05 * 0.5 * (1 + math.cos(math.pi * ({step} % {total}) / {total}))",),
    ("rate = 0.05", "if {step} >= {warm}:", "    rate = 0.02", "if {step} >= {total}:", "    rate = 0.01"),
)  # fmt: skip


def _rate_lines(draft: Draft, step: str, warm: str, total: str) -> list[str]:
    formula = draft.one_of(RATE_FORMULAS)
    return [line.format(step=step, warm=warm, total=total) for line in formula]


def _counting_callback(draft: Draft) -> None:
    """A callback with a counter of its own, from which it makes the rate."""
    warm, total = draft.steps(2), draft.count(4, 9)
    lines = _rate_lines(draft, "self.step", "self.warm", "self.total")
    lines += [
        "self.model.optimizer.learning_rate = rate",
        "self.step += 1",
        "print('see rate', float(rate))",
    ]
    body = "\n".join(lines)
    draft.callback(
        "Rate",
        f"train_batch_begin: {body}",
        fields="self.step = 0",
        given=f"warm={warm}, total={total}",
    )


def _set_rate(draft: Draft) -> None:
    """A loop that sets the rate of each step."""
    warm = draft.number("warm", draft.steps(2))
    total = draft.number("whole", draft.count(4, 9))
    draft.body += _rate_lines(draft, draft.step, warm, total)
    setting = draft.one_of(["o.learning_rate.assign(rate)", "o.learning_rate = rate"])
    draft.body += [setting, "print('see rate', float(rate))"]


def _set_by_function(draft: Draft) -> None:
    lines = _rate_lines(draft, "step", "warm", "total")
    warm, total = draft.steps(2), draft.count(4, 9)
    draft.before += [
        f"def rate_at(step, warm={warm}, total={total}):",
        *indented([*lines, "return rate"], 1),
    ]
    draft.body += [f"o.learning_rate = rate_at({draft.step})"]


def _chosen_steps(draft: Draft) -> None:
    one = draft.steps()
    other = one + draft.steps(3)
    draft.body += [
        f"if {draft.step} in ({one}, {other}):",
        "    o.learning_rate = float(o.learning_rate) * 0.5",
    ]


def _iterations(draft: Draft) -> None:
    """The optimizer's own count, beside a schedule."""
    draft.rate = _schedule(draft)
    last = draft.count(4, 9)
    draft.body += [
        draft.one_of(["it = o.iterations.numpy()", "it = int(o.iterations)"]),
        f"if it >= {last}:",
        "    break",
    ]


# Other parts of `fit`


def _steps_per_epoch(draft: Draft) -> None:
    steps = draft.one_of([12, 6, 18]) if not draft.is_uneven else draft.steps(3)
    draft.arguments.append(f"steps_per_epoch={draft.number('per_epoch', steps)}")


def _validation_split(draft: Draft) -> None:
    """48 rows are trained on, or 47."""
    draft.arguments.append(f"validation_split={draft.one_of([0.33, 0.34])}")
    draft.callbacks.append(
        "tf.keras.callbacks.LambdaCallback(on_test_end=lambda logs: print('check validation'))"
    )


def _early_stopping(draft: Draft) -> None:
    draft.epochs = 6
    draft.callbacks.append(
        f"tf.keras.callbacks.EarlyStopping('loss', 0.05, {draft.rng.randint(1, 3)})"
    )


def _stop_at_step(draft: Draft) -> None:
    last = draft.count(3, 8)
    body = f"self.n += 1\nif self.n >= {draft.number('last', last)}:\n    self.model.stop_training = True"
    draft.callback("StopAt", f"train_batch_end: {body}", fields="self.n = 0")
    draft.epochs = 4


def _check_every(draft: Draft) -> None:
    """An evaluation each few steps, with a patience of evaluations."""
    period, patience = draft.steps(2), draft.rng.randint(2, 5)
    body = [
        "self.n += 1",
        f"if self.n % {draft.number('every', period)} == 0:",
        "    value = float(tf.reduce_mean(y - self.model(x)))",
        "    print('check period')",
        "    if value < self.best - 0.05:",
        "        self.best, self.bad = value, 0",
        "    else:",
        "        self.bad += 1",
        "    print('see bad', self.bad)",
        f"    if self.bad >= {patience}:",
        "        self.model.stop_training = True",
    ]
    joined = "\n".join(body)
    draft.callback(
        "Check", f"train_batch_end: {joined}", fields="self.n, self.bad, self.best = 0, 0, 1e9"
    )


def _ramp_callback(draft: Draft) -> None:
    """A weight of a loss, in a variable."""
    line = draft.one_of(
        [
            f"beta.assign(min(1.0, self.n / {draft.steps()}))",
            f"beta.assign(1.0 if self.n >= {draft.steps()} else self.n / 200)",
        ]
    )
    draft.before.append("beta = tf.Variable(0.0)")
    body = f"{line}\nprint('see beta', float(beta))\nself.n += 1"
    draft.callback("Ramp", f"train_batch_begin: {body}", fields="self.n = 0")


def _average_callback(draft: Draft) -> None:
    body = "w = self.model.get_weights()[0][0, 0]\nself.mean = 0.98 * self.mean + 0.02 * w\n"
    body += "print('see average', float(self.mean))"
    draft.callback("Average", f"train_batch_end: {body}", fields="self.mean = 0.0")


def _mean_callback(draft: Draft) -> None:
    """A metric by hand that ends the training."""
    body = [
        "mean = self.total / self.n",
        "print('see metric', mean)",
        "self.total, self.n = 0.0, 0",
        "print('check epoch')",
        "if mean < 0.2:",
        "    self.model.stop_training = True",
    ]
    joined = "\n".join(body)
    draft.callback(
        "Metric",
        "train_batch_end: self.total += logs['loss']\nself.n += 1",
        f"epoch_end: {joined}",
        fields="self.total, self.n = 0.0, 0",
    )


# Other parts of loops


def _patience(draft: Draft) -> None:
    period = draft.number("period", draft.steps(2))
    patience = draft.number("patience", draft.rng.randint(2, 6))
    draft.before += ["bad, best = 0, 1e9"]
    judged = [
        "value = float(tf.reduce_mean(y - m(x)))",
        "print('check patience')",
        "if value < best - 0.05:",
        "    best, bad = value, 0",
        "else:",
        "    bad += 1",
        "print('see bad', bad)",
    ]
    leave = [f"if bad >= {patience}:", "    break"]
    test = draft.one_of([f"if (step + 1) % {period} == 0:", f"if not (step + 1) % {period}:"])
    draft.body += [test, *indented([*judged, *leave], 1)]


def _step_patience(draft: Draft) -> None:
    patience = draft.number("most", draft.count(5, 8))
    draft.before += ["worse, least = 0, 1e9"]
    draft.body += [
        "if float(loss) < least - 0.05:",
        "    least, worse = float(loss), 0",
        "else:",
        "    worse += 1",
        f"if worse >= {patience}:",
        "    break",
    ]


def _exit(draft: Draft) -> None:
    draft.body += [
        f"if step + 1 >= {draft.number('last', draft.count(4, 9))}:",
        "    break",
    ]


def _ramp(draft: Draft) -> None:
    start, line = draft.one_of(
        [
            ("0.0", "beta = min(1.0, beta + 0.01)"),
            ("0.0", "beta += 0.004"),
            ("1.0", "beta *= 0.98"),
            ("1.0", "beta = max(0.3, beta * 0.98)"),
        ]
    )
    draft.before.append(f"beta = {start}")
    draft.body += [line, "print('see beta', beta)"]


def _mean(draft: Draft) -> None:
    draft.before += ["total_loss, n = 0.0, 0"]
    draft.body += ["total_loss += float(loss)", "n += 1"]
    draft.after += [
        "mean = total_loss / n"
        if draft.rng.random() < 0.5
        else f"mean = total_loss / {draft.per_epoch}",
        "print('see mean', mean)",
        "print('check mean')",
        "total_loss, n = 0.0, 0",
        f"if mean < {draft.one_of([0.2, 2.0])}:",
        "    break",
    ]


def _correct(draft: Draft) -> None:
    """Rows that are counted by hand."""
    draft.before += ["correct = 0"]
    draft.body += ["correct += int(tf.reduce_sum(tf.cast(b > 0.9, tf.int32)))"]
    draft.after += [
        "acc = correct / len(x)",
        "print('see acc', acc)",
        "correct = 0",
        "if acc < 0.5:",
        "    break",
    ]


def _average(draft: Draft) -> None:
    spelled = draft.one_of(["number", "name", "variable"])
    if spelled == "variable":
        draft.before.append("shadow = tf.Variable(tf.zeros((1, 1)), trainable=False)")
        line = "shadow.assign(0.98 * shadow + (1 - 0.98) * m.trainable_variables[0])"
        draft.body += [line, "print('see shadow', float(shadow[0, 0]))"]
        return
    decay, rest = "0.98", "0.02"
    if spelled == "name":
        draft.before.append("decay = 0.98")
        decay, rest = "decay", "(1 - decay)"
    draft.before.append("average = 0.0")
    draft.body += [
        f"average = {decay} * average + {rest} * float(m.trainable_variables[0][0, 0])",
        "print('see average', average)",
    ]


def _lookahead(draft: Draft) -> None:
    draft.made += ["slow = [tf.identity(v) for v in m.trainable_variables]"]
    draft.body += [
        f"if (step + 1) % {draft.steps(1)} == 0:",
        "    for k, v in enumerate(m.trainable_variables):",
        "        slow[k] = slow[k] + 0.5 * (v - slow[k])",
        "        v.assign(slow[k])",
    ]


def _decay(draft: Draft) -> None:
    line = draft.one_of(
        ["v.assign(v * 0.99)", "v.assign_sub(0.01 * v)", "v.assign(v * (1 - 0.01))"]
    )
    draft.body += ["for v in m.trainable_variables:", f"    {line}"]


def _loss_weight(draft: Draft) -> None:
    """A Keras schedule, or a share of all steps, as a weight."""
    if draft.rng.random() < 0.5:
        draft.before.append(
            f"ramp = tf.keras.optimizers.schedules.PolynomialDecay(0.0, {draft.steps()}, 1.0)"
        )
        draft.body += ["weight = float(ramp(step))", "print('see weight', weight)"]
    else:
        draft.before += [f"length = {draft.steps(9)}"]
        draft.body += ["weight = min(1.0, step / length)", "print('see weight', weight)"]


def _table(draft: Draft) -> None:
    """A table with an entry for each step."""
    draft.before += [f"table = np.linspace(0.05, 0.01, {draft.per_epoch * 4 + 1})"]
    draft.body += ["print('see entry', float(table[step]))"]


def _alternate(draft: Draft) -> None:
    """Something that every second step does."""
    draft.before += ["odd = 0"]
    draft.body += ["if step % 2 == 0:", "    odd += 1"]


def _object(draft: Draft) -> None:
    draft.before += [
        "class Weight:",
        "    def __init__(self, warm):",
        "        self.count, self.warm = 0, warm",
        "    def __call__(self):",
        "        self.count += 1",
        draft.one_of(
            [
                "        return min(1.0, self.count / self.warm)",
                "        return self.count / self.warm if self.count < self.warm else 1.0",
            ]
        ),
        f"share_of = Weight({draft.steps()})",
    ]
    draft.body += ["share = share_of()", "print('see share', share)"]


def _dictionary(draft: Draft) -> None:
    draft.before.append(f'state = {{"n": 0, "warm": {draft.steps()}}}')
    draft.body += ['state["n"] += 1', 'print(\'see part\', min(1.0, state["n"] / state["warm"]))']


def _milestones(draft: Draft) -> None:
    """Rates from a step on, in a dictionary or in two lists."""
    one = draft.steps(3)
    other = one + draft.steps(3)
    kind = draft.one_of(["dictionary", "get", "items", "sum", "bisect", "searchsorted", "loop"])
    if kind in ("dictionary", "get", "items"):
        draft.before += [f"rates = {{0: 0.05, {one}: 0.02, {other}: 0.01}}", "rate = 0.05"]
        draft.body += {
            "dictionary": [f"if {draft.step} in rates:", f"    rate = rates[{draft.step}]"],
            "get": [f"rate = rates.get({draft.step}, rate)"],
            "items": [
                "for start, new in rates.items():",
                f"    if {draft.step} >= start:",
                "        rate = new",
            ],
        }[kind]
    else:
        draft.before += [f"bounds = [{one}, {other}]", "values = [0.05, 0.02, 0.01]"]
        if kind == "bisect":
            draft.before.append("import bisect")
        draft.body += {
            "sum": [f"rate = values[sum({draft.step} >= each for each in bounds)]"],
            "bisect": [f"rate = values[bisect.bisect_right(bounds, {draft.step})]"],
            "searchsorted": [
                f"rate = values[int(np.searchsorted(bounds, {draft.step}, side='right'))]"
            ],
            "loop": [
                "rate = 0.05",
                "for each in bounds:",
                f"    if {draft.step} >= each:",
                "        rate *= 0.5",
            ],
        }[kind]
    draft.body += ["o.learning_rate = rate", "print('see rate', rate)"]


def _interpolated(draft: Draft) -> None:
    """A rate that is interpolated between steps."""
    one = draft.steps(2)
    other = one + draft.steps(4)
    xs = f"[0, {one}, {other}]"
    if draft.rng.random() < 0.5:
        draft.before.append(f"corners = {xs}")
        xs = "corners"
    draft.body += [
        f"rate = float(np.interp({draft.step}, {xs}, [0.01, 0.05, 0.001]))",
        "o.learning_rate = rate",
        "print('see rate', rate)",
    ]


def _cycles(draft: Draft) -> None:
    """A rate that rises and falls again and again, less each time."""
    draft.before += [
        f"cycle_length = {draft.count(3, 4)}",
        "def of_cycle(step):",
        "    cycle = step // cycle_length",
        "    done = step % cycle_length",
        draft.one_of(
            [
                "    return 0.05 * 0.7 ** cycle * (1 - done / cycle_length)",
                "    return 0.001 + 0.05 / (1 + cycle) * 0.5 * (1 + math.cos(math.pi * done / cycle_length))",
                "    return 0.05 * (0.5 if cycle % 2 else 1.0)",
            ]
        ),
    ]
    draft.body += [f"rate = of_cycle({draft.step})", "o.learning_rate = rate"]


def _growing_cycles(draft: Draft) -> None:
    """Warm restarts by counters, of cycles that grow longer."""
    draft.before += [f"now, span = 0, {draft.count(3, 4)}"]
    draft.body += [
        "rate = 0.001 + 0.05 * 0.5 * (1 + math.cos(math.pi * now / span))",
        "o.learning_rate = rate",
        "now += 1",
        "if now >= span:",
        "    now, span = 0, span * 2",
    ]


def _rate_table(draft: Draft) -> None:
    """A list with the rate of each step."""
    most = draft.per_epoch * 4 + 1
    draft.before += [
        draft.one_of(
            [
                f"rates = [0.05 * (1 - k / {most}) for k in range({most})]",
                f"rates = 0.05 * np.linspace(1, 0, {most})",
                f"rates = 0.05 * (1 + np.cos(np.pi * np.arange({most}) / {most})) / 2",
                f"rates = np.concatenate([np.linspace(0, 0.05, {draft.steps(1)}), np.full({most}, 0.05)])",
            ]
        )
    ]
    draft.body += [f"o.learning_rate = float(rates[{draft.step}])"]


def _averages(draft: Draft) -> None:
    draft.made += ["shadows = [tf.Variable(v) for v in m.trainable_variables]"]
    line = draft.one_of(
        [
            "s.assign(0.98 * s + 0.02 * v)",
            "s.assign(0.98 * s + (1 - 0.98) * v)",
            "s.assign_add(0.02 * (v - s))",
            "s.assign_sub((1 - 0.98) * (s - v))",
        ]
    )
    draft.body += [
        draft.one_of(
            [
                "for s, v in zip(shadows, m.trainable_variables):",
                "for s, v in zip(shadows, m.weights):",
            ]
        ),
        f"    {line}",
        "print('see average', float(shadows[0][0, 0]))",
    ]


def _fed_back_average(draft: Draft) -> None:
    """An average that comes back through a list, an entry, a function or another name."""
    now = "float(m.trainable_variables[0][0, 0])"
    draft.made += [f"mean, held, past = {now}, [{now}], {{'w': {now}}}"]
    draft.before += [
        "def mixed(old, new, weight=0.03):",
        "    return (1 - weight) * old + weight * new",
    ]
    lines, name = draft.one_of(
        [
            ([f"held = [0.98 * e + 0.02 * v for e, v in zip(held, [{now}])]"], "held[0]"),
            (
                ["for k in range(1):", f"    held[k] = 0.98 * held[k] + (1 - 0.98) * {now}"],
                "held[0]",
            ),
            ([f"held[0] += 0.02 * ({now} - held[0])"], "held[0]"),
            ([f"past = {{k: 0.97 * v + 0.03 * {now} for k, v in past.items()}}"], "past['w']"),
            ([f"past['w'] = 0.97 * past['w'] + 0.03 * {now}"], "past['w']"),
            ([f"mean = mixed(mean, {now})"], "mean"),
            ([f"new = 0.98 * mean + 0.02 * {now}", "mean = new"], "mean"),
            (["old = mean", f"mean = 0.98 * old + 0.02 * {now}"], "mean"),
            (["mean *= 0.98", f"mean += 0.02 * {now}"], "mean"),
            ([f"held.append(0.98 * held[-1] + 0.02 * {now})"], "held[-1]"),
        ]
    )
    draft.body += [*lines, f"print('see average', {name})"]


def _corrected_average(draft: Draft) -> None:
    """The bias of a young average is corrected by the number of its steps."""
    draft.before += ["young, terms = 0.0, 0"]
    draft.body += [
        "terms += 1",
        "young = 0.97 * young + 0.03 * float(loss)",
        "print('see smooth', young / (1 - 0.97 ** terms))",
    ]


def _ring(draft: Draft) -> None:
    """A queue of rows that are overwritten in turn."""
    draft.before += ["place, queue = 0, np.zeros((60, 1))"]
    draft.body += [
        "places = (place + np.arange(len(b))) % 60",
        "queue[places] = b",
        "place = (place + len(b)) % 60",
        "print('see queue', float(queue.mean()))",
    ]


def _last_losses(draft: Draft) -> None:
    """The loss now, and as it was some steps before."""
    back = draft.steps(2)
    draft.before += ["losses = []"]
    draft.body += [
        "losses.append(float(loss))",
        *draft.one_of(
            [
                [f"if len(losses) > {back}:", f"    print('see before', losses[-{back}])"],
                [
                    f"if len(losses) >= {back}:",
                    f"    print('see mean', sum(losses[-{back}:]) / {back})",
                ],
                [f"print('see mean', float(np.mean(losses[-{back}:])))"],
            ]
        ),
    ]


def _two_units(draft: Draft) -> None:
    """A function that is given a number of steps and one of epochs."""
    draft.before += ["checks = 0", "def falling(n, slow):", "    return 1 / (1 + n / slow)"]
    checks = "epoch" if draft.has_epochs else "checks"
    draft.body += [
        f"if {draft.step} % {draft.steps(1)} == 0:",
        "    checks += 1",
        f"print('see fall', falling({draft.step}, {draft.steps()}))",
        f"print('see other', falling({checks}, 2))",
    ]


def _exploration(draft: Draft) -> None:
    length = draft.steps(4)
    start, line = draft.one_of(
        [
            ("eps = 1.0", f"eps = max(0.1, eps - (1.0 - 0.1) / {length})"),
            ("eps = 1.0", f"eps = 0.1 + (1.0 - 0.1) * math.exp(-{draft.step} / {length})"),
            ("eps, least = 1.0, 0.1", f"eps = max(least, 1.0 - {draft.step} / {length})"),
            ("eps, fall = 1.0, 0.97", "eps = eps * fall if eps > 0.1 else 0.1"),
        ]
    )
    draft.before += [start]
    draft.body += [line, "print('see eps', eps)"]


def _late_average(draft: Draft) -> None:
    """An average of the weights since some step."""
    start, period = draft.steps(2), draft.steps(1)
    draft.before += ["averaged, taken = 0.0, 0"]
    draft.body += [
        f"if {draft.step} >= {start} and ({draft.step} - {start}) % {period} == 0:",
        "    taken += 1",
        "    averaged += (float(m.trainable_variables[0][0, 0]) - averaged) / taken",
        "    print('check taken')",
    ]


def _since_best(draft: Draft) -> None:
    patience = draft.count(4, 7)
    draft.before += ["best, best_step = 1e9, 0"]
    draft.body += [
        "if float(loss) < best - 0.05:",
        f"    best, best_step = float(loss), {draft.step}",
        f"if {draft.step} - best_step >= {patience}:",
        "    break",
    ]


def _target(draft: Draft) -> None:
    """A copy of the weights that is renewed each few steps."""
    period = draft.number("renewed", draft.steps(1))
    draft.made += ["target = float(m.trainable_variables[0][0, 0])"]
    draft.body += [
        f"if {draft.step} % {period} == 0:",
        "    target = float(m.trainable_variables[0][0, 0])",
        "    print('check target')",
        "print('see target', target)",
    ]


def _history(draft: Draft) -> None:
    """Losses of each few steps, whose last are compared."""
    period = draft.steps(1)
    draft.before += ["history = []"]
    draft.body += [
        f"if ({draft.step} + 1) % {period} == 0:",
        "    history.append(float(loss))",
        "    print('check history')",
        "if len(history) >= 4:",
        "    print('see recent', sum(history[-4:]) / 4)",
    ]


def _share(draft: Draft) -> None:
    """What is done so many times an epoch, and how much of one is done."""
    parts = 3 if not draft.is_uneven else draft.rng.randint(2, 5)
    draft.before += [f"per_epoch = math.ceil(len(x) / {BATCH})", f"part = per_epoch // {parts}"]
    draft.body += [
        f"if {draft.step} % part == 0:",
        "    print('check part')",
        f"print('see epochs', {draft.step} / per_epoch)",
    ]


Part = Callable[[Draft], None]
SHAPES: dict[str, Callable[[Draft], str]] = {
    "fit": _fit,
    "all rows in fit": _fit_whole,
    "epochs": _epochs,
    "numbered": _numbered,
    "flat": _flat,
    "while": _while,
    "cut": _cut,
    "counted by a library": _counted,
    "positions": _positions,
    "ordered": _ordered,
    "generated": _generated,
    "configured": _configured,
    "all rows in a loop": _whole,
}
_FIT_RATES: dict[str, Part] = {
    "constant rate": _constant,
    "Keras schedule": _keras_schedule,
    "own schedule": _own_schedule,
    "rate scheduler": _scheduler,
    "plateau with floor": _plateau,
    "halving with floor": _halving,
    "counting callback": _counting_callback,
}
_LOOP_RATES: dict[str, Part] = {
    "constant rate": _constant,
    "Keras schedule": _keras_schedule,
    "own schedule": _own_schedule,
    "rate set by step": _set_rate,
    "rate function": _set_by_function,
    "rate at chosen steps": _chosen_steps,
    "milestones": _milestones,
    "interpolated rate": _interpolated,
    "rate by cycles": _cycles,
    "growing cycles": _growing_cycles,
    "rate from a table": _rate_table,
    "iterations": _iterations,
}
_FIT_PARTS: dict[str, Part] = {
    "steps per epoch": _steps_per_epoch,
    "validation split": _validation_split,
    "early stopping": _early_stopping,
    "stop at step": _stop_at_step,
    "check each few steps": _check_every,
    "ramp in callback": _ramp_callback,
    "average in callback": _average_callback,
    "metric in callback": _mean_callback,
}
_STEP_PARTS: dict[str, Part] = {
    "patience": _patience,
    "patience in steps": _step_patience,
    "exit": _exit,
    "ramp": _ramp,
    "average": _average,
    "lookahead": _lookahead,
    "decay per step": _decay,
    "loss weight": _loss_weight,
    "table": _table,
    "object": _object,
    "dictionary": _dictionary,
    "average of variables": _averages,
    "average fed back": _fed_back_average,
    "corrected average": _corrected_average,
    "ring queue": _ring,
    "last losses": _last_losses,
    "two units": _two_units,
    "exploration": _exploration,
    "weights averaged late": _late_average,
    "patience since the best": _since_best,
    "target copied": _target,
    "history of checks": _history,
    "share of an epoch": _share,
}
_EPOCH_PARTS: dict[str, Part] = {**_STEP_PARTS, "mean by hand": _mean, "rows by hand": _correct}
_FLAT_SHAPES = ("flat", "while", "counted by a library")
_EPOCH_SHAPES = ("epochs", "numbered", "cut", "positions", "ordered", "generated", "configured")
RATES: dict[str, dict[str, Part]] = {
    **dict.fromkeys((*_FLAT_SHAPES, *_EPOCH_SHAPES), _LOOP_RATES),
    "fit": _FIT_RATES,
    "all rows in fit": {
        k: v for k, v in _FIT_RATES.items() if k in ("constant rate", "rate scheduler", "counting callback")
    },
    "all rows in a loop": {k: _LOOP_RATES[k] for k in ("constant rate", "Keras schedule", "rate set by step")},
}  # fmt: skip
PARTS: dict[str, dict[str, Part]] = {
    **dict.fromkeys(_FLAT_SHAPES, _STEP_PARTS),
    **dict.fromkeys(_EPOCH_SHAPES, _EPOCH_PARTS),
    "configured": {k: v for k, v in _EPOCH_PARTS.items() if k != "share of an epoch"},
    "fit": _FIT_PARTS,
    "all rows in fit": {"ramp in callback": _ramp_callback},
    "all rows in a loop": {k: _STEP_PARTS[k] for k in ("exit", "ramp", "dictionary")},
}
#: All kinds of parts, and of programs.
KINDS = tuple(
    dict.fromkeys(
        [*SHAPES, *(k for each in (*RATES.values(), *PARTS.values()) for k in each)],
    )
)
