"""What would let ranks part without a word: questions that entries answer, what is saved in between, rates by steps."""

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.Adam(1e-2)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), "kept", max_to_keep=2)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
    """
)
STEP = program(
    """
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(xb) - yb) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    """
)


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True))


def asked(test: str) -> str:
    return f"if hvd.broadcast_object(bool({test}), root_rank=0):"


def test_all_ranks_come_to_a_save_whose_path_is_kept() -> None:
    source = (
        f"{HEAD}best = np.inf\nfor epoch in range(9):\n    losses = []\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        "        losses.append(float(loss))\n    if np.mean(losses) < best:\n"
        "        best = np.mean(losses)\n        path = manager.save()\n"
    )
    code = convert_source(source).code
    assert asked("np.mean(losses) < best") in code
    assert "path = hvd.broadcast_object(manager.save() if hvd.rank() == 0 else None" in code


def test_all_ranks_restore_what_rank_zero_has_saved() -> None:
    start = "checkpoint = tf.train.Checkpoint(model=model)\ncheckpoint.restore(manager.latest_checkpoint)\n"
    source = (
        f"{HEAD}{start}best = np.inf\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        "    if float(loss) < best:\n        best = float(loss)\n        manager.save()\n"
        "    else:\n        checkpoint.restore(manager.latest_checkpoint)\n"
    )
    code = convert_source(source).code
    assert start in code, "nothing is saved before"
    assert asked("float(loss) < best") in code
    assert "restore(hvd.broadcast_object(manager.latest_checkpoint, root_rank=0))" in code


@pytest.mark.parametrize("stored", ["alive[k] = False", "alive[k] = float(loss) > 1"])
def test_entries_that_each_rank_sets_for_itself(stored: str) -> None:
    source = (
        f"{HEAD}alive = [True] * 3\nfor epoch in range(9):\n    for k in range(3):\n        if alive[k]:\n"
        f"            for xb, yb in dataset:\n{indented(STEP, 16)}"
        f"            if float(loss) < 1:\n                {stored}\n"
    )
    assert asked("alive[k]") in convert_source(source).code


def test_entries_that_are_alike_are_left_alone() -> None:
    source = (
        f"{HEAD}alive = [True] * 3\nfor epoch in range(9):\n    for k in range(3):\n        if alive[k]:\n"
        f"            for xb, yb in dataset:\n{indented(STEP, 16)}"
        "            if epoch > k:\n                alive[k] = False\n"
    )
    assert "broadcast_object" not in convert_source(source).code


def test_names_of_another_comprehension_are_not_broadcast() -> None:
    source = (
        f"{HEAD}nets = [tf.keras.Sequential([tf.keras.layers.Dense(1)]) for _ in range(2)]\n"
        "opts = [tf.keras.optimizers.Adam(rate) for rate in (1e-2, 5e-3)]\n"
        "def make_step(model, opt):\n    @tf.function\n    def step(xb, yb):\n"
        f"{indented(STEP, 8)}        return loss\n    return step\n"
        "steps = [make_step(n, o) for n, o in zip(nets, opts)]\n"
        "for step in steps:\n    losses = [float(step(xb, yb)) for xb, yb in dataset]\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "refused"
    assert [d.code for d in conversion.diagnostics] == ["HVD302"]


CHANGE = "opt.learning_rate.assign(opt.learning_rate * 0.5)"


@pytest.mark.parametrize(
    ("test", "change", "told"),
    [
        ("step % 40 == 0", CHANGE, True),
        ("step in (40, 80)", CHANGE, True),
        ("step == 60", "opt.learning_rate.assign(1e-3)", True),
        ("step == 60", "opt.learning_rate = 1e-3", True),
        ("opt.iterations == 60", "opt.learning_rate *= 0.5", True),
        ("epoch == 5", CHANGE, False),
    ],
)
def test_a_rate_that_a_count_of_steps_changes_is_told(test: str, change: str, told: bool) -> None:
    source = (
        f"{HEAD}step = 0\nfor epoch in range(9):\n    for xb, yb in dataset:\n{indented(STEP, 8)}"
        f"        step += 1\n        if {test}:\n            {change}\n"
    )
    conversion = convert_source(source)
    assert conversion.status == "converted"
    said = [d for d in conversion.diagnostics if "count of steps" in d.message]
    assert [(d.code, d.severity) for d in said] == [("HVD206", "warning")] * told
