"""Faults planted on one of two ranks: `%hvd vars`, or one look at the panel, names the variable or the line."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

pytestmark = pytest.mark.slow

IMPORTS = "import numpy as np\nimport os\nimport random\nimport tensorflow as tf"
CELLS = (
    IMPORTS,
    """\
x = np.linspace(0, 1, 64, dtype='float32')[:, None]
y = 3 * x + 1
model = tf.keras.Sequential([
    tf.keras.Input((1,)), tf.keras.layers.Dense(4), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(1)
])
model.compile(optimizer=tf.keras.optimizers.Adam(0.1), loss='mse')
metric = tf.keras.metrics.Mean()
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=3).batch(16)
def augment(a, factor=2):
    return a * factor
class Config:
    rate = 0.1
    def steps(self):
        return 10
class Trainer:
    def __init__(self):
        self.epoch, self.net = 0, tf.keras.layers.Dense(2)
        self.net.build((None, 3))
trainer = Trainer()""",
)
TRAIN = """\
%%distribute -n 2
history = model.fit(data, epochs=2, verbose=0)
order = np.random.default_rng(1).permutation(64)
batch = x[order[:16]]
gradient = np.zeros((3, 4))
losses = [0.5, 0.25, 0.125]
steps = {'loss': [tf.constant([0.5, 0.25])], 'rates': (tf.Variable(0.1), tf.constant(['a', 'b']))}
table = {'a': 1, 'b': [1, 2, 3]}
metric.update_state([1.0, 2.0])
text = open('words.txt').read()
names = {f'name {k}' for k in range(20)}
draws = random.Random(3)
moving = tf.Variable([1.0, 2.0])
"""

#: What is planted on rank 1, and what the line of the variable and the note below it say; and what takes it back.
FAULTS = {
    "weights": (
        "kept = model.layers[0].kernel.numpy(); model.layers[0].kernel.assign_add([[0, 0, 0.25, 0]])",
        ("≠ model ", "[0, 2]", "largest difference 0.25, 1 of 4 entries"),
        "model.layers[0].kernel.assign(kept); del kept",
    ),
    "weights of a part": (
        "trainer.net.bias.assign_add([0, 3])",
        ("≠ trainer.net ", "[1]: 3.0 instead of 0.0"),
        "trainer.net.bias.assign_sub([0, 3])",
    ),
    "data order": (
        "kept = order; order = order[::-1]",
        ("≠ order ", "[0]: ", " of 64 entries"),
        "order = kept; del kept",
    ),
    "order of a dataset": (
        "kept = data; data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=4).batch(32)",
        ("≠ data.stages ", "[1]['seed2']: 4 instead of 3"),
        "data = kept; del kept",
    ),
    "rows of a dataset": (
        "kept = data; data = tf.data.Dataset.from_tensor_slices((x + 1, y)).shuffle(64, seed=3).batch(32)",
        ("≠ data.stages ", "[2]['tensors'][0][0, 0]: 1.0 instead of 0.0"),
        "data = kept; del kept",
    ),
    "not a number": (
        "gradient[2, 1] = np.nan",
        ("≠ gradient ", "(1 not finite)", "[2, 1]: nan instead of 0.0, 1 of 12 entries"),
        "gradient[2, 1] = 0",
    ),
    "dtype": (
        "batch = batch.astype('float64')",
        ("≠ batch ", "float64 (16, 1) instead of float32 (16, 1)"),
        "batch = batch.astype('float32')",
    ),
    "learning rate": (
        "model.optimizer.learning_rate = 0.01",
        ("≠ model.optimizer.learning_rate ", "a difference of 0.09"),
        "model.optimizer.learning_rate = 0.1",
    ),
    "steps of an optimizer": (
        "model.optimizer.iterations.assign_add(1)",
        ("≠ model.optimizer ", "iteration", ": 10 instead of 8, a difference of 2"),
        "model.optimizer.iterations.assign_sub(1)",
    ),
    "longer list": (
        "losses.append(0.1)",
        ("≠ losses ", "4 elements instead of 3"),
        "losses.pop()",
    ),
    "tensor in a list": (
        "steps['loss'][0] += [0, 1]",
        ("≠ steps ", "['loss'][0][1]: 1.25 instead of 0.25, largest difference 1, 1 of 2 entries"),
        "steps['loss'][0] -= [0, 1]",
    ),
    "text in a tensor": (
        "kept = steps['rates']; steps['rates'] = (kept[0], tf.constant(['a', 'c']))",
        ("≠ steps ", "['rates'][1][1]: other bytes"),
        "steps['rates'] = kept; del kept",
    ),
    "entry of a table": (
        "table['b'][2] = 4",
        ("≠ table ", "['b'][2]: 4 instead of 3, a difference of 1"),
        "table['b'][2] = 3",
    ),
    "metric": (
        "metric.update_state([9.0])",
        ("≠ metric ", "instead of 3.0"),
        "metric.reset_state(); metric.update_state([1.0, 2.0])",
    ),
    "seed of NumPy": (
        "kept = np.random.get_state(); np.random.seed(5)",
        ("≠ numpy.random.get_state() ",),
        "np.random.set_state(kept); del kept",
    ),
    "seed of Python": (
        "kept = random.getstate(); random.seed(5)",
        ("≠ random.getstate() ",),
        "random.setstate(kept); del kept",
    ),
    "generator": (
        "draws.random()",
        ("≠ draws ", "other bytes"),
        "draws.seed(3)",
    ),
    "environment": (
        "os.environ['MY_PRECISION'] = 'hunter2'",
        ("≠ os.environ['MY_PRECISION'] ", "not there", "its value is not shown"),
        "del os.environ['MY_PRECISION']",
    ),
    "file": (
        "text = text.replace('two', 'too')",
        ("≠ text ", "[5]: 'oo three' instead of 'wo three'"),
        "text = text.replace('too', 'two')",
    ),
    "function": (
        "kept = augment\ndef augment(a, factor=2):\n    return a + factor",
        ("≠ augment ", "['augment']['source']", "'+ factor\\n' instead of '* factor\\n'"),
        "augment = kept; del kept",
    ),
    "default of a function": (
        "augment.__defaults__ = (3,)",
        ("≠ augment ", "['augment']['defaults'][0]: 3 instead of 2"),
        "augment.__defaults__ = (2,)",
    ),
    "attribute of a class": (
        "Config.rate = 0.2",
        ("≠ Config.rate ", "0.2 instead of 0.1, a difference of 0.1"),
        "Config.rate = 0.1",
    ),
    "attribute of an object": (
        "trainer.epoch = 3",
        ("≠ trainer.epoch ", "3 instead of 0, a difference of 3"),
        "trainer.epoch = 0",
    ),
    "rate of a layer": (
        "model.layers[1].rate = 0.25",
        ("≠ model.get_config() ", "['rate']: 0.25 instead of 0.5"),
        "model.layers[1].rate = 0.5",
    ),
    "layer that is frozen": (
        "model.layers[2].trainable = False",
        ("≠ model.get_config() ", "['trainable']: False instead of True"),
        "model.layers[2].trainable = True",
    ),
    "precision": (
        "tf.keras.config.set_floatx('float64')",
        ("≠ keras.config.floatx() ", "'float64'"),
        "tf.keras.config.set_floatx('float32')",
    ),
    "member of a set": (
        "names.add('another')",
        ("≠ names ", "has 'another'"),
        "names.remove('another')",
    ),
    "name that is not there": (
        "kept = moving; del moving",
        ("≠ moving ", "not there"),
        "moving = kept; del kept",
    ),
    "history": (
        "kept = history.history['loss'][1]; history.history['loss'][1] += 0.5",
        ("≠ history ", "['history']['loss'][1]: "),
        "history.history['loss'][1] = kept; del kept",
    ),
}


@pytest.fixture(scope="module")
def trained(open_notebook: Any) -> Any:
    """A notebook that has trained on two ranks."""
    notebook = open_notebook()
    notebook.good("from pathlib import Path\nPath('words.txt').write_text('one two three')")
    for source in CELLS:
        notebook.good(source)
    notebook.good(TRAIN)
    return notebook


def test_ranks_that_train_together_differ_in_nothing(trained: Any) -> None:
    told = trained.good("%hvd vars").shown
    assert "≠" not in told
    assert [v for v in look(trained)["variables"] if len(v["groups"]) > 1] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_the_variable_is_named(trained: Any, fault: str) -> None:
    planted, words, undone = FAULTS[fault]
    trained.good(f"%%rank 1\n{planted}")
    try:
        started = time.monotonic()
        told = trained.good("%hvd vars").shown
        by_vars = time.monotonic() - started
        started = time.monotonic()
        seen = look(trained)["variables"]
        print(f"{fault}: %hvd vars {by_vars:.2f} s, panel {time.monotonic() - started:.2f} s")
    finally:
        trained.good(f"%%rank 1\n{undone}")
    for each in words:
        assert each in told
    assert "hunter2" not in told
    differing = [v for v in seen if len(v["groups"]) > 1]
    texts = [g["text"] + g["note"] for v in differing for g in v["groups"]]
    name = words[0].removeprefix("≠ ").strip()
    assert name in [v["name"] for v in differing]
    for each in words[1:]:
        assert any(each in text for text in texts), texts
    assert "≠" not in trained.good("%hvd vars").shown


# Ranks that do not come back: what the panel shows while the cell runs

HEAD = "%%distribute\nimport horovod.tensorflow as hvd\nimport time\n"
STUCK = {
    "an operation that one rank leaves out": (
        "if hvd.rank() == 0:\n    hvd.allreduce(tf.constant(1.0), name='loss')\nelse:\n    time.sleep(600)",
        {0: ("line 5", "waits in allreduce of loss"), 1: ("line 7", "sleeps")},
        "Rank 0 waits for rank 1.",
    ),
    "different operations": (
        "if hvd.rank() == 0:\n    hvd.allreduce(tf.constant(1.0), name='loss')\nelse:\n"
        "    hvd.broadcast(tf.constant(1.0), 0, name='rate')",
        {0: ("line 5", "allreduce of loss"), 1: ("line 7", "broadcast of rate")},
        "different collective operations",
    ),
    "a loop without end": (
        "k, rank = 0, hvd.rank()\nwhile rank == 1:\n    k += 1\nhvd.allreduce(tf.constant(1.0), name='loss')",
        {0: ("line 7", "allreduce of loss"), 1: ("line ", "")},
        "Rank 0 waits for rank 1.",
    ),
    "a rank that waits for a file": (
        "import os\nif hvd.rank() == 1:\n    os.path.exists('pipe') or os.mkfifo('pipe')\n    open('pipe').read()\n"
        "hvd.allreduce(tf.constant(1.0), name='loss')",
        {0: ("line 8", "allreduce of loss"), 1: ("line 7", "waits to open a file")},
        "Rank 0 waits for rank 1.",
    ),
}


@pytest.mark.parametrize("fault", STUCK)
@pytest.mark.long
def test_the_line_is_named(trained: Any, fault: str) -> None:
    body, places, words = STUCK[fault]
    trained.good("%hvd stop")
    trained.good("%%distribute -n 2 --no-deps\nimport horovod.tensorflow as hvd, tensorflow as tf")
    cell = trained.begin(f"{HEAD}{body}")
    try:
        started = time.monotonic()
        seen = until(trained, lambda seen: any(words in line for line in seen["words"]))
        print(f"{fault}: told after {time.monotonic() - started:.1f} s")
        assert seen["running"]
        assert any(words in line for line in seen["words"]), seen
        for rank, (line, does) in places.items():
            assert line in seen["ranks"][rank]["line"], seen["ranks"]
            assert does in seen["ranks"][rank]["does"], seen["ranks"]
    finally:
        trained.interrupt()
        trained.finish(cell)


def until(
    notebook: Any, holds: Any, seconds: float = 60, variables: bool = False
) -> dict[str, Any]:
    """The first look for which something holds, or the last one."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look(notebook, variables=variables)
        if (seen.get("ranks") and holds(seen)) or time.monotonic() > deadline:
            return seen
        time.sleep(0.5)


def look(notebook: Any, rank: int | None = None, variables: bool = True) -> dict[str, Any]:
    """What the kernel answers to the panel."""
    channel, session = notebook.client.control_channel, notebook.client.session
    channel.send(session.msg("hvd_look_request", {"rank": rank, "variables": variables}))
    answer = notebook.client.get_control_msg(timeout=60)
    assert answer["msg_type"] == "hvd_look_reply"
    content: dict[str, Any] = answer["content"]
    return content


# Bad input


def test_what_a_panel_must_not_wait_for(trained: Any) -> None:
    """A `repr` that never ends, one that is huge, and values of many elements."""
    trained.good("%hvd stop")
    trained.good(
        "%%distribute -n 2 --no-deps\nimport horovod.tensorflow as hvd, numpy as np, time\n"
        "class Slow:\n    def __repr__(self):\n        time.sleep(600)\n"
        "class Huge:\n    def __repr__(self):\n        return 'x' * 10**8\n"
        "class Odd(dict):\n    __repr__ = Slow.__repr__\n"
        "slow, huge, many = Slow(), Huge(), [*range(10**6)]\n"
        "listed, odd = [Slow(), Huge()], Odd(a=1)\n"
        "large = np.full(2 * 10**7, hvd.rank())\n"
        "secret = 'hunter2'\n"
    )
    cell = trained.begin("%%distribute\nimport horovod.tensorflow as hvd, time\ntime.sleep(600)")
    try:
        seen = until(trained, lambda seen: seen["running"])
        all_told = until(trained, lambda seen: not seen["silent"], variables=True)
        found = {v["name"]: v["groups"] for v in all_told["variables"]}
    finally:
        trained.interrupt()
        trained.finish(cell)
    assert seen["running"]
    texts = {name: groups[0]["text"] for name, groups in found.items()}
    assert texts["slow"] == "Slow (not compared)"
    assert texts["huge"] == "Huge (not compared)"
    assert texts["listed"] == "[Slow, Huge] (not compared)"
    assert texts["odd"] == "Odd (not compared)"
    assert texts["many"].startswith("[0, 1, 2, 3, 4, 5, …")
    assert max(map(len, texts.values())) < 120
    assert [group["ranks"] for group in found["large"]] == [[0], [1]]
    assert "larger than 64 MB: not compared by entry" in found["large"][1]["note"]


def test_what_a_rank_prints_is_reported_while_it_runs(trained: Any) -> None:
    cell = trained.begin(
        "%%distribute\nimport horovod.tensorflow as hvd, sys, time\n"
        "print('rank', hvd.rank(), 'prints', 'x' * 20_000)\nprint('to stderr', file=sys.stderr)\n"
        "for k in range(3000):\n    print('line', k)\nprint('last', flush=True)\ntime.sleep(600)"
    )
    try:
        for rank in (0, 1):
            until(trained, lambda _, r=rank: "last" in look(trained, r, False).get("output", []))
        seen = [look(trained, rank, False)["output"] for rank in (0, 1)]
        assert "output" not in look(trained, None, False)
        assert look(trained, 7, False)["output"] == []
    finally:
        trained.interrupt()
        trained.finish(cell)
    # Standard error comes by a pipe of its own, before or after.
    printed = [[line for line in lines if line != "to stderr"] for lines in seen]
    assert [lines[-1] for lines in printed] == ["last", "last"]
    assert all(len(lines) < 1100 for lines in seen)


def test_a_rank_that_does_not_answer_holds_up_no_look(trained: Any) -> None:
    """Looking ends nothing: the rank goes on with its state."""
    trained.good("%%rank all\nstate = 5")
    pids = trained.rank_pids()
    os.kill(pids[1], signal.SIGSTOP)
    try:
        told = trained.good("%hvd vars state").shown
    finally:
        os.kill(pids[1], signal.SIGCONT)
    assert told.splitlines()[1].split() == ["state", "all", "ranks", "5"]
    assert "rank 1 is not compared: it does not answer" in told
    assert "not compared" not in trained.good("%hvd vars state").shown
    assert trained.rank_pids() == pids


def test_many_reprs_that_hang_have_one_limit(trained: Any) -> None:
    trained.good(
        "%%rank all\nimport time\nclass Slow:\n    def __repr__(self):\n        time.sleep(600)\n"
        "a, b, c, d, e = (Slow() for _ in range(5))"
    )
    told = trained.good("%hvd vars a b c d e").shown
    assert "a         all ranks  Slow: its repr takes longer than 1 s (not compared)" in told
    assert "its repr is not called, because others take too long" in told
    assert "≠" not in told


def test_a_rank_that_has_died_is_reported(trained: Any) -> None:
    pids = trained.rank_pids()
    trained.good(f"import os, signal\nos.kill({pids[1]}, signal.SIGKILL)")
    seen = until(trained, lambda seen: seen["ranks"][1]["lost"])
    assert [row["lost"] for row in seen["ranks"]] == [False, True]
    assert "killed (signal 9)" in seen["ranks"][1]["does"]
    seen = until(trained, lambda seen: seen["silent"] == [1], variables=True)
    assert seen["silent"] == [1]
    told = trained.good("%hvd vars state").shown
    assert "state" in told
    assert "rank 1 is not compared: it was killed (signal 9)" in told
    trained.good("%hvd stop")
    assert look(trained)["ranks"] == []
    assert "there are no ranks" in look(trained)["message"]
