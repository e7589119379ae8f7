"""Weights come back to whatever in the notebook has been trained on the ranks, under whatever name; two real ranks."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow

HEAD = """
import numpy as np
import tensorflow as tf

x = np.linspace(0, 1, 64, dtype='float32')[:, None]
y = 3 * x + 1

def build():
    made = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
    made.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
    return made

def sums(*nets):
    return [[round(float(w.sum()), 4) for w in net.get_weights()] for net in nets]
"""
TRAINER = """
class Trainer:
    def __init__(self, net):
        self.net = net
    def train(self):
        self.net.fit(x, y, batch_size=16, verbose=0)
"""
FIT = "fit(x, y, batch_size=16, verbose=0)"


@pytest.fixture(scope="module")
def models(open_notebook: Any) -> Any:
    notebook = open_notebook()
    notebook.good(HEAD)
    notebook.good(TRAINER)
    return notebook


@pytest.mark.parametrize(
    ("made", "trained", "reached"),
    [
        ("held = {'a': m}", f"held['a'].{FIT}", "m, held['a']"),
        ("held = {'a': m, 'b': build()}", f"for k in held:\n    held[k].{FIT}", "m, held['b']"),
        ("held = [build(), m]", f"for n in held:\n    n.{FIT}", "m, held[0]"),
        ("held = (m, {'b': [build()]})", f"held[1]['b'][0].{FIT}\nm.{FIT}", "m, held[1]['b'][0]"),
        ("held = Trainer(m)", "held.train()", "m, held.net"),
        ("held = [Trainer(m), Trainer(build())]", "[t.train() for t in held]", "m, held[1].net"),
        ("held = lambda net=m: net\nheld.net = m", f"held.net.{FIT}", "m"),
    ],
)
def test_what_is_trained_by_a_container(models: Any, made: str, trained: str, reached: str) -> None:
    models.good("m = build()")
    models.good(made)
    models.good(f"before = sums({reached})")
    models.good(f"%%distribute -n 2\n{trained}")
    now = models.good(
        f"after = sums({reached})\nprint(after)\nprint([a != b for a, b in zip(before, after)])"
    )
    here, changed = now.stdout.splitlines()
    assert "False" not in changed
    result = models.good(f"%%distribute\nprint(sums({reached}))")
    assert result.stdout.strip() == here
    assert "with the notebook's weights: m" not in result.shown
    # What the notebook changes, the ranks have: by one name here, by the other there.
    models.good("m.set_weights([w * 0 + 7 for w in m.get_weights()])")
    result = models.good(f"%%distribute\nprint(sums({reached})[0])")
    assert "[7.0, 7.0]" in result.stdout


def test_what_a_function_has_kept(models: Any) -> None:
    models.good(
        "def step_of(net, opt):\n"
        "    def step(a, b):\n"
        "        with tf.GradientTape() as tape:\n"
        "            loss = tf.reduce_mean((net(a) - b) ** 2)\n"
        "        opt.apply_gradients(zip(tape.gradient(loss, net.trainable_variables), net.trainable_variables))\n"
        "    return step\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"
    )
    models.good("kept = build()")
    models.good("step = step_of(kept, tf.keras.optimizers.SGD(0.1))\nbefore = sums(kept)")
    models.good("%%distribute\nfor a, b in data:\n    step(a, b)")
    assert models.good("print(before != sums(kept))").stdout == "True\n"


def test_what_stays_on_the_ranks_is_reported(models: Any) -> None:
    models.good("nets = [build()]")
    result = models.good(f"%%distribute\nnets.append(build())\nfor n in nets:\n    n.{FIT}")
    assert "the weights of `nets[1]` stay on the ranks" in result.shown
    assert "nets[0]" not in result.shown.replace("notebook's weights: nets[0]", "")


@pytest.mark.parametrize(
    ("made", "cell", "holds"),
    [
        ("d = {'c': m}", f"d['d'] = d['c']\nd['d'].{FIT}", "d['d'] is d['c'] is m"),
        ("d = [m]", f"d.append(d[0])\nd[0].{FIT}", "len(d) == 2 and d[1] is m"),
        ("d = {}", f"d['best'] = {{'net': m, 'loss': 0.5}}\nm.{FIT}", "d['best']['net'] is m"),
        ("d = Trainer(m)", "d.best = d.net\nd.train()", "d.best is m"),
        ("d = {'a': build(), 'b': m}", f"d['a'], d['b'] = m, d['a']\nm.{FIT}", "d['a'] is m"),
        ("d = [build(), m]", f"d.reverse()\nm.{FIT}", "d[0] is m"),
        ("d = {m}", f"chosen = d\nfor n in d:\n    n.{FIT}", "chosen is d and m in d"),
        ("d = None", f"d = m\nd.{FIT}", "d is m"),
        (
            "d = {'a': build()}",
            f"best, d = d['a'], 3\nm.{FIT}",
            "d == 3 and best.count_params() == 2",
        ),
    ],
)
def test_another_entry_or_name_for_a_model(models: Any, made: str, cell: str, holds: str) -> None:
    """It stayed on the ranks without a word."""
    models.good(f"m = build()\n{made}\nbefore = sums(m)")
    shown = models.good(f"%%distribute -n 2\n{cell}").shown
    assert not any(told in shown for told in ("stay", "in the notebook is not"))
    here = models.good(f"print({holds}, before != sums(m), sums(m))").stdout
    assert here.startswith("True True")
    assert models.good("%%distribute\nprint(sums(m))").stdout.strip() in here


def test_models_that_a_function_makes(models: Any) -> None:
    """Their loop was refused: nothing told that `n.fit` trains a model."""
    models.good("def make():\n    return {'a': build(), 'b': build()}")
    models.good("made = make()\nbefore = sums(*made.values())")
    models.good(f"%%distribute -n 2\nfor n in made.values():\n    n.{FIT}")
    changed = models.good("print([a != b for a, b in zip(before, sums(*made.values()))])")
    assert changed.stdout == "[True, True]\n"


def test_a_set_of_several_models_is_refused(models: Any) -> None:
    """Each rank had another order, and waited for ever; or all had the same one, and kept what they trained."""
    models.good("m = build()\nseveral = {'a': {m, build()}}")
    failed = models.run(f"%%distribute\nm.{FIT}\nfor each in several['a']:\n    each.{FIT}")
    assert "line 3 uses `several`, where a set has several models" in failed.traceback
    assert "Make it a list, or a dict" in failed.traceback
    models.good(f"%%distribute\nm.{FIT}")


def test_models_of_other_places_are_not_confused(models: Any) -> None:
    """What a cell put before others in a list, or in the place of one that has another name now, gave these its weights."""
    models.good("a, b = build(), build()\nrow = [a, b]")
    shown = models.good(f"%%distribute\nrow.insert(0, build())\nrow[0].{FIT}").shown
    assert "`row` in the notebook is not that of the ranks: a Sequential cannot be" in shown
    before = models.good("print(sums(a, b))").stdout
    shown = models.good("%%distribute\nprint(sums(*row[1:]))")
    assert (shown.stdout, "`row` on the ranks differs from the notebook" in shown.shown) == (
        before,
        True,
    )
    models.good("row = [a, b]")
    shown = models.good("%%distribute\nprint(sums(*row))")
    assert (shown.stdout, "`row` on" in shown.shown) == (before, False)
    models.good("before = sums(a)")
    shown = models.good(f"%%distribute\nold = a\na = build()\na.{FIT}").shown
    assert "the weights of `a` stay on the ranks" in shown
    assert models.good("print(old is a, before == sums(a))").stdout == "True True\n"


def state(optimizer: str) -> str:
    """Its count and its moments; its rate is another one on the ranks."""
    return f"print([round(float(np.sum(v)), 4) for v in {optimizer}.variables if 'rate' not in v.path])"


def test_optimizers_go_on_where_they_were(models: Any) -> None:
    """They went on by themselves on either side: Adam's moments and its count were those of the last training there."""
    models.good("net = build()\nnet.compile(tf.keras.optimizers.Adam(0.1), loss='mse')")
    models.good("net.fit(x, y, epochs=2, batch_size=16, verbose=0)")
    rank = models.good(
        f"%%distribute -n 2\nnet.fit(x, y, epochs=3, batch_size=16, verbose=0)\n{state('net.optimizer')}"
    )
    here = models.good(state("net.optimizer")).stdout
    assert here.startswith("[20.0, ")  # 8 steps, and 6 of two ranks, which have made 10 of theirs
    assert here.replace("[20.0, ", "[10.0, ") in rank.stdout
    assert "with the notebook's state: net.optimizer" in rank.shown
    models.good("net.fit(x, y, batch_size=16, verbose=0)")
    here = models.good(state("net.optimizer")).stdout
    assert here.startswith("[24.0, ")
    rank = models.good(f"%%distribute\n{state('net.optimizer')}").stdout
    assert rank == here.replace("[24.0, ", "[12.0, ")
    assert models.good("print(round(float(net.optimizer.learning_rate), 4))").stdout == "0.1\n"
    models.good("%%distribute\nnet.optimizer.learning_rate = 0.01\nnet.fit(x, y, verbose=0)")
    assert models.good("print(round(float(net.optimizer.learning_rate), 4))").stdout == "0.01\n"
    shown = models.good(f"%%distribute\nnet.compile('adam', loss='mse')\nnet.{FIT}").shown
    assert "`net.optimizer` in the notebook is not that of the ranks: a Adam cannot" in shown


def test_what_a_loop_keeps_beside_weights(models: Any) -> None:
    """An optimizer that has not trained in the notebook, a metric, a count, and a generator of random numbers."""
    models.good(
        "net, opt = build(), tf.keras.optimizers.Adam(0.1)\n"
        "count, seen = tf.Variable(0), tf.keras.metrics.Mean()\n"
        "draws = tf.random.Generator.from_seed(1)\n"
        "data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)"
    )
    show = f"print(int(count), float(seen.result()), draws.state.numpy())\n{state('opt')}"
    rank = models.good(
        "%%distribute -n 2\nfor a, b in data:\n"
        "    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean((net(a) - b) ** 2)\n"
        "    g = tape.gradient(loss, net.trainable_variables)\n"
        "    opt.apply_gradients(zip(g, net.trainable_variables))\n"
        f"    count.assign_add(1)\n    seen.update_state(loss)\n    draws.normal(())\n{show}"
    )
    here = models.good(show).stdout
    assert here.startswith("4 ")
    assert "[8.0, " in here  # steps of one process
    assert rank.stdout == here.replace("[8.0, ", "[4.0, ")
    models.good("opt.iterations.assign_add(4)\nseen.update_state(7.0)")
    here = models.good(show).stdout
    rank = models.good(f"%%distribute\n{show}")
    assert rank.stdout.startswith(here.replace("[12.0, ", "[6.0, "))


def test_generators_of_random_numbers_go_on_where_they_were(models: Any) -> None:
    """Those of NumPy and Python too: a cell that draws the order of an epoch would have drawn the same one again."""
    models.good("import random\nrng, python = np.random.default_rng(1), random.Random(1)")
    show = "print(rng.integers(1000, size=3), python.random())"
    drawn = [models.good(f"%%distribute -n 2\n{show}").stdout for _ in range(2)]
    drawn.append(models.good(show).stdout)
    drawn.append(models.good(f"%%distribute\n{show}").stdout)
    again = "rng, python = np.random.default_rng(1), random.Random(1)"
    assert models.good(f"{again}\nfor _ in range(4): {show}").stdout == "".join(drawn)


def test_names_that_stay_are_reported(models: Any) -> None:
    models.good("batches = tf.data.Dataset.range(3)\nlosses = []")
    cell = "batches = tf.data.Dataset.range(4)\nlosses.append(tf.constant(2.0))\nown = lambda: 1"
    shown = models.good(f"%%distribute\n{cell}").shown
    assert "`batches` in the notebook is not that of the ranks: a _RangeDataset cannot" in shown
    assert "own" not in shown  # which the notebook does not know at all
    assert models.good("print(losses == [2.0])").stdout == "True\n"


def test_what_the_notebook_has_parted_stays_parted(models: Any) -> None:
    """An ordinary cell gives a name, and an entry, another model: training the first one leaves that as it is."""
    models.good("first = build()")
    models.good("two = {'a': first}")
    models.good(f"%%distribute\nfirst.{FIT}\nprint(len(two))")
    models.good("two['a'] = build()\nbefore = sums(two['a'])")
    models.good(f"%%distribute\nfirst.{FIT}")
    assert models.good("print(before == sums(two['a']))").stdout == "True\n"
    models.good("three = {'a': first}")
    models.good("first = build()\nbefore = sums(first, three['a'])")
    models.good(f"%%distribute\nthree['a'].{FIT}")
    shown = models.good("print([a == b for a, b in zip(before, sums(first, three['a']))])").stdout
    assert shown == "[True, False]\n"


def test_cells_that_change_models_in_a_loop_run_on_the_ranks(models: Any) -> None:
    models.good("nets = {'a': build(), 'b': build()}")
    models.good("for n in nets.values():\n    n.compile('sgd', loss='mae')")
    assert "mae mae" in models.good("%%distribute\nprint(*(n.loss for n in nets.values()))").stdout


def test_what_is_done_to_a_layer_is_done_to_its_model(models: Any) -> None:
    """By the layer's own name, by a container's, and in a function: it was not done on the ranks, where all was trained."""
    models.good("base = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(2)])")
    models.good("whole = tf.keras.Sequential([base, tf.keras.layers.Dense(1)])")
    models.good("listed = [whole]")
    models.good("base.trainable = False")
    models.good(
        "def freeze(net):\n    for layer in net.layers[1:]:\n        layer.trainable = False"
    )
    show = "%%distribute\nprint(len(whole.trainable_weights), getattr(whole, 'loss', None))"
    assert "2 None" in models.good(show).stdout
    models.good("for each in listed:\n    each.compile('sgd', loss='mae')")
    models.good("freeze(listed[0])")
    assert "0 mae" in models.good(show).stdout


def test_what_objects_hold_comes_back(models: Any) -> None:
    """What a callback has noted, what a trainer counts: it stayed on the ranks, and the notebook's was as before."""
    models.good(
        "class Noted(tf.keras.callbacks.Callback):\n"
        "    def __init__(self):\n        super().__init__()\n        self.losses, self.epochs = [], 0\n"
        "    def on_epoch_end(self, epoch, logs=None):\n"
        "        self.losses.append(logs['loss'])\n        self.epochs += 1"
    )
    models.good("noted, counted = Noted(), build()\nstate = {'net': counted, 'turn': 1}")
    models.good(
        "%%distribute\ncounted.fit(x, y, epochs=3, callbacks=[noted], verbose=0)\nstate['turn'] += 1"
    )
    assert models.good("print(len(noted.losses), noted.epochs, state['turn'])").stdout == "3 3 2\n"
    new = "%%distribute\nnew = build()\nnew.fit(x, y, callbacks=[noted], verbose=0)\ncounted.get_weights()"
    assert "noted" not in models.good(new).shown  # whose model is the new one there
    assert "noted" not in models.good(new).shown
    assert models.good("print(len(noted.losses))").stdout == "5\n"


def test_what_a_function_changes_before_the_ranks_have_it(models: Any) -> None:
    models.good("def bump():\n    global bumped\n    bumped += 1\nbumped = 0")
    models.good("bump(); bump()")
    models.good("%%distribute\nbump()")
    assert models.good("print(bumped)").stdout == "3\n"


def test_what_a_cell_doubles_is_doubled_once(models: Any) -> None:
    """The cell that doubles the labels divides them, too: converted otherwise once training is in sight, it runs again."""
    models.good("labels = np.ones((64, 1), 'float32')\nm = build()")
    models.good(
        "labels = labels * 2\nbatches = tf.data.Dataset.from_tensor_slices((x, labels)).batch(8)"
    )
    models.good("%%distribute\nprint(len(batches))")
    models.good("%%distribute\nm.fit(batches, verbose=0)")
    assert "2.0" in models.good("%%distribute\nprint(labels.max())").stdout
    # What no cell makes is pushed, and not to a cell that doubles it.
    models.good("get_ipython().user_ns['unseen'] = 1.0")
    models.good("unseen = unseen * 2")
    assert "2.0" in models.good("%%distribute\nprint(unseen)").stdout
    models.good("get_ipython().user_ns['hidden'] = 1.0")
    models.good("hidden = hidden * 2\nfrom_hidden = tf.data.Dataset.from_tensors(hidden)")
    refused = models.run("%%distribute\nprint(from_hidden)")
    assert "it starts from `hidden`, which has changed since" in refused.traceback
    # What a cell begins from that is pushed is there before the cell runs.
    models.good("get_ipython().user_ns['ground'] = 1.0")
    models.good("built = tf.data.Dataset.from_tensors(ground)")
    assert "1.0" in models.good("%%distribute\nprint(float(next(iter(built))))").stdout
