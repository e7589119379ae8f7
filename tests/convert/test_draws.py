"""What TensorFlow draws before it trains, or makes the data of, is drawn alike on all ranks; the rest is each rank's own."""

from __future__ import annotations

import re

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.1)


    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - model(x)))
        gradients = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(gradients, model.trainable_variables))

    """
)
LOOP = "for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(32):\n    step(bx, by)\n"


def alike(body: str) -> list[str]:
    """The functions that a program, converted, draws alike with."""
    conversion = convert_source(HEAD + body)
    assert conversion.status == "converted", conversion.diagnostics
    return re.findall(r"draw_alike\(([\w.()]+), hvd_seed\)", conversion.code)


@pytest.mark.parametrize(
    "body",
    [
        "w = tf.random.normal((3, 1))\nx = load()\ny = x @ w\n" + LOOP,
        "def make(n):\n    return tf.random.normal((n, 3))\n\n\nx = make(100)\ny = load()\n" + LOOP,
        "from tensorflow.random import normal\nx, y = normal((100, 3)), load()\n" + LOOP,
        "omega = tf.Variable(tf.random.normal((3, 8)), trainable=False)\nx, y = load() @ omega, load()\n"
        + LOOP,
        # What is divided is drawn alike wherever that is.
        "x, y = load(), load()\nfor epoch in range(3):\n    order = tf.random.shuffle(tf.range(100))\n"
        "    for n in range(0, 100, 10):\n        step(tf.gather(x, order)[n:n + 10], y[n:n + 10])\n",
        "for epoch in range(3):\n    x, y = tf.random.normal((100, 3)), load()\n    "
        + LOOP.replace("\n    ", "\n        "),
    ],
)
def test_what_is_learned_is_drawn_alike(body: str) -> None:
    assert len(alike(body)) == 1


def test_a_generator_of_what_is_learned_is_made_alike() -> None:
    made = "g = tf.random.Generator.from_non_deterministic_state()\n"
    learned = "x, y = load(), g.normal((100, 1))\n"
    assert alike(made + learned + LOOP) == ["tf.random.Generator.from_non_deterministic_state"]
    noise = LOOP.replace("step(bx", "step(bx + g.normal((32, 3))")
    assert alike(made + "x, y = load(), load()\n" + noise) == []


@pytest.mark.parametrize(
    "body",
    [
        LOOP.replace("step(bx", "step(bx + tf.random.normal((32, 3))"),  # noise
        LOOP.replace(".batch", ".map(lambda a, b: (a + tf.random.normal((3,)), b)).batch"),
        "tf.random.set_seed(1)\nw = tf.random.normal((3, 1))\n" + LOOP,
        "w = tf.random.normal((3, 1), seed=1)\n" + LOOP,
        "w = tf.random.stateless_normal((3, 1), seed=(1, 2))\n" + LOOP,
        # First weights are broadcast.
        "w = tf.Variable(tf.random.normal((3, 1)))\n"
        + LOOP.replace(
            "step(bx, by)",
            "step(bx, by)\n    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean((bx @ w - by) ** 2)\n"
            "    w.assign_sub(0.1 * tape.gradient(loss, w))",
        ),
    ],
)
def test_the_rest_is_left_to_each_rank(body: str) -> None:
    assert alike("x, y = load(), load()\n" + body) == []


def test_distributions_of_tensorflow_probability() -> None:
    head = "import tensorflow_probability as tfp\ntfd = tfp.distributions\nnormal = tfd.Normal(0., 1.)\n"
    assert alike(f"{head}x, y = normal.sample(100), load()\n{LOOP}") == ["normal.sample"]
    assert alike(f"{head}x, y = tfd.Uniform().sample(9), load()\n{LOOP}") == [
        "tfd.Uniform().sample"
    ]
    assert not alike(f"{head}x, y = normal.sample(100, seed=3), load()\n{LOOP}")


SPLIT = program(
    """
    import argparse
    import time
    import numpy as np
    import tensorflow as tf

    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    args = parser.parse_args()


    class Data:
        def __init__(self, x, seed=None):
            {line}
            self.train = x[order]


    data = Data(np.zeros((100, 3)))
    model = tf.keras.Sequential([tf.keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    model.fit(data.train, data.train)
    """
)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            "order = np.random.default_rng(seed).permutation(100)",
            "default_rng(hvd_seed if seed is None else seed)",
        ),
        (
            "order = np.random.default_rng(seed=args.seed).permutation(100)",
            "default_rng(seed=hvd_seed if args.seed is None else args.seed)",
        ),
        ("order = np.random.RandomState(None).permutation(100)", "RandomState(hvd_seed)"),
        (
            "np.random.seed(int(time.time())); order = np.random.permutation(100)",
            "np.random.seed(hvd_seed or int(time.time()))",
        ),
        ("np.random.seed(); order = np.random.permutation(100)", "np.random.seed(hvd_seed)"),
        (
            "np.random.seed(args.seed) if args.seed else None; order = np.random.permutation(100)",
            "\njhvd.same_seed()",
        ),
    ],
    ids=["default", "option", "None", "clock", "nothing", "on a condition"],
)
def test_a_seed_that_each_rank_may_have_of_its_own_is_rank_zeros(line: str, after: str) -> None:
    """None where nobody gives one, or by the clock: ranks would split the data each in its own way."""
    assert after in convert_source(SPLIT.format(line=line)).code


def test_a_seed_that_is_a_number_is_left() -> None:
    line = "order = np.random.default_rng(7).permutation(100)"
    code = convert_source(SPLIT.format(line=line)).code
    assert line in code
    assert "same_seed" not in code


@pytest.mark.parametrize(
    ("drawn", "given"), [("rng.normal(size=32)", ", rng"), ("np.random.rand(32)", "")]
)
def test_ranks_that_draw_in_turns_of_their_own_go_on_alike(drawn: str, given: str) -> None:
    """A last batch is shorter, so that one rank draws less: the next epoch's order is one on all of them even so."""
    body = program(
        f"""
        rng = np.random.default_rng(0)
        x, y = load(), load()
        for epoch in range(3):
            order = rng.permutation(len(x))
            for n in range(0, 100, 32):
                rows = order[n:n + 32]
                step(x[rows] + {drawn}, y[rows])
        """
    )
    assert f"in jhvd.shard_turns(range(0, 100, 32){given}):" in convert_source(HEAD + body).code


def test_what_chooses_examples_at_random_chooses_the_same_on_all_ranks() -> None:
    body = "x, y = load(), load()\n" + LOOP.replace(
        ".batch(32)",
        ".window(2).flat_map(pair).rejection_resample(classes, [0.5, 0.5]).map(drop).batch(32)",
    ).replace("for bx, by in ", "batches = ").replace(
        ":\n    step(bx, by)", "\nmodel.evaluate(batches)\nfor bx, by in batches:\n    step(bx, by)"
    )
    code = convert_source(HEAD + body).code
    assert "jhvd.in_one_order(" in code
    assert ".rejection_resample, hvd_seed)(classes, [0.5, 0.5])" in code


OWN_ROWS = """
x, y = np.load('x.npy'), np.load('y.npy')
{made}


def batch():
    rows = {draw}
    return x[rows], y[rows]


for turn in range(100):
    {anew}
    step(*batch())
"""


@pytest.mark.parametrize(
    ("made", "draw", "anew", "named"),
    [
        ("rng = np.random.default_rng(1)", "rng.integers(0, 256, 32)", "pass", "rng"),
        ("rng = np.random.RandomState(1)", "rng.choice(256, 32)", "pass", "rng"),
        ("rng = random.Random(1)", "rng.sample(range(256), 32)", "pass", "rng"),
        ("rng = 0", "rng.integers(0, 256, 32)", "rng = np.random.default_rng(turn)", None),
    ],
)
def test_rows_that_a_generator_draws_are_each_ranks_own(
    made: str, draw: str, anew: str, named: str | None
) -> None:
    """Their steps were refused; a generator that each turn makes draws the same rows on all ranks."""
    body = OWN_ROWS.format(made=made, draw=draw, anew=anew).replace(
        "step(*batch())", "a, b = batch()\n    step(a, b)"
    )
    conversion = convert_source(f"import random\n{HEAD}{body}")
    if named is None:
        assert [d.code for d in conversion.diagnostics if d.severity == "error"] == ["HVD504"]
        return
    assert conversion.diagnostics == ()
    assert (
        f"jhvd.draw_apart({named})\nfor turn in range(100 // hvd.size() or 100):" in conversion.code
    )
    assert conversion.code.endswith(f"jhvd.same_seed({named})\n")


def test_a_generator_of_an_object_s_own_draws_apart() -> None:
    body = """
class Trainer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def batch(self):
        rows = self.rng.integers(0, 256, 32)
        return x[rows], y[rows]

    def train(self):
        for turn in range(100):
            a, b = self.batch()
            step(a, b)


x, y = np.load('x.npy'), np.load('y.npy')
Trainer(1).train()
"""
    code = convert_source(HEAD + body).code
    assert (
        "        jhvd.draw_apart(self.rng)\n        for turn in range(100 // hvd.size() or 100):"
        in code
    )


BETWEEN = "for epoch in range(3):\n    " + LOOP.replace("\n    ", "\n        ")
EACH = BETWEEN + "    for v in model.trainable_variables:\n        "


@pytest.mark.parametrize(
    ("body", "drawn"),
    [
        (EACH + "v.assign(0.8 * v + tf.random.normal(tf.shape(v)))\n", ["tf.random.normal"]),
        (EACH + "v.assign_add(0.1 * tf.random.normal(v.shape))\n", ["tf.random.normal"]),
        (
            BETWEEN
            + "    model.layers[-1].kernel.assign(tf.keras.random.normal((3, 1)))\n"
            + "    model.layers[-1].bias.assign(tf.keras.initializers.HeNormal()((1,)))\n",
            ["tf.keras.random.normal", "tf.keras.initializers.HeNormal"],
        ),
        (
            "tf.random.set_seed(1)\n"
            + EACH
            + "v.assign(tf.keras.initializers.HeNormal()(v.shape))\n",
            ["tf.keras.initializers.HeNormal"],
        ),
        (
            LOOP
            + "\n\nclass Shrink(tf.keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
            "        for v in self.model.trainable_variables:\n            v.assign(v + tf.random.normal(tf.shape(v)))\n\n\n"
            "model.compile(opt, 'mse')\nmodel.fit(x, y, callbacks=[Shrink()])\n",
            ["tf.random.normal"],
        ),
        (BETWEEN + "    noise.assign(tf.random.normal((3,)))\n", []),
        ("init = tf.keras.initializers.HeNormal()\n" + LOOP, []),
    ],
    ids=["set", "added", "layers", "seed", "callback", "no weight", "no draw"],
)
def test_what_weights_are_set_to_between_steps_is_drawn_alike(body: str, drawn: list[str]) -> None:
    """Each rank would draw other numbers, and the ranks part. It is no training step, of which ranks take a share."""
    body = "x, y = load(), load()\nnoise = tf.Variable(tf.zeros(3), trainable=False)\n" + body
    assert alike(body) == drawn
    conversion = convert_source(HEAD + body)
    assert "average_gradients" not in conversion.code
    assert not conversion.diagnostics


def test_noise_of_numpys_that_weights_are_set_to_is_rank_zeros() -> None:
    body = "x, y = load(), load()\n" + EACH + "v.assign_add(np.random.normal(size=v.shape))\n"
    code = convert_source(HEAD + body).code
    assert "v.assign_add(hvd.broadcast_object(np.random.normal(size=v.shape), root_rank=0))" in code


@pytest.mark.parametrize(
    "given",
    ["tf.reduce_mean(x[np.random.randint(0, 9, 3)])", "0.1 * bx + tf.random.normal((3, 1))"],
)
def test_what_is_computed_of_a_ranks_own_batch_is_averaged(given: str) -> None:
    """Though something is drawn, too."""
    body = f"x, y = load(), load()\n{LOOP}    for v in model.trainable_variables:\n        v.assign_add({given})\n"
    assert f"v.assign_add(jhvd.average_gradients({given}))" in convert_source(HEAD + body).code


SHAKING = program(
    """
    x, y = load(), load()
    {decorator}
    def shake(x, y):
        step(x, y)
        for v in model.trainable_variables:
            v.assign_add({given})


    """
)


@pytest.mark.parametrize("decorator", ["@tf.function", "@tf.function(jit_compile=True)"])
@pytest.mark.parametrize(
    "given", ["tf.random.normal(v.shape)", "0.1 * v + tf.random.normal(v.shape, seed=3)"]
)
def test_noise_that_a_compiled_step_adds_to_weights_is_rank_zeros(
    decorator: str, given: str
) -> None:
    """Its mean over the ranks would be smaller; no seed can be set where it is drawn."""
    body = SHAKING.format(decorator=decorator, given=given)
    conversion = convert_source(HEAD + body + LOOP.replace("step(", "shake("))
    drawn = given.replace("tf.random", "jhvd.of_rank_zero(tf.random") + ")"
    assert f"v.assign_add({drawn})" in conversion.code
    assert "jit_compile=True" not in conversion.code
    assert not conversion.diagnostics


@pytest.mark.parametrize(
    ("made", "given"),
    [
        ("tf.random.Generator.from_non_deterministic_state", "g.normal(v.shape)"),
        ("tf.keras.initializers.RandomNormal", "g(v.shape)"),
    ],
)
def test_what_draws_noise_in_a_compiled_step_is_made_alike_before_it(made: str, given: str) -> None:
    body = SHAKING.format(decorator="@tf.function", given=given)
    assert alike(f"g = {made}()\n{body}" + LOOP.replace("step(", "shake(")) == [made]


def test_noise_beside_a_gradient_in_a_step_of_the_programs_own() -> None:
    """Langevin dynamics. Noise of the batch is each rank's own; what weights are given of the batch is averaged."""
    taken = "tape.gradient(loss, model.trainable_variables)\n"
    langevin = program(
        """
        import tensorflow as tf

        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        x, y = load(), load()


        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(y - model(x + tf.random.normal((3,)))))
            gradients = tape.gradient(loss, model.trainable_variables)
            for v, g in zip(model.trainable_variables, gradients):
                v.assign_add(tf.random.normal(v.shape) - 0.1 * g)


        """
    )
    code = convert_source(langevin + LOOP).code
    assert "v.assign_add(jhvd.of_rank_zero(tf.random.normal(v.shape)) - 0.1 * g)" in code
    assert "model(x + tf.random.normal((3,)))" in code
    assert taken in code
    own = langevin.replace("- 0.1 * g", "- 0.1 * tf.reduce_mean(x)")
    averaged = (
        "v.assign_add(jhvd.average_gradients(tf.random.normal(v.shape) - 0.1 * tf.reduce_mean(x)))"
    )
    assert averaged in convert_source(own + LOOP).code


def test_noise_of_an_optimizer_of_the_programs_own_is_rank_zeros() -> None:
    """What it adds to weights after their gradients were averaged would part the ranks."""
    noisy = program(
        """
        import tensorflow as tf


        class Noisy(tf.keras.optimizers.Optimizer):
            def update_step(self, gradient, variable, learning_rate):
                noise = tf.random.normal(tf.shape(variable))
                variable.assign_sub(learning_rate * gradient + noise)


        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile(Noisy(0.1), "mse")
        model.fit(load(), load())
        """
    )
    code = convert_source(noisy).code
    assert "noise = jhvd.of_rank_zero(tf.random.normal(tf.shape(variable)))" in code
