"""Loops that count steps, and those that do not say how many there are."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program
from jupyter_hvd.verify.partings import parting
from jupyter_hvd.verify.probe import UPDATER
from jupyter_hvd.verify.steps import Places, mark_steps, step_places

PROGRAM = (Path(__file__).parents[1] / "programs" / "tape_while.py").read_text()


def loops(source: str) -> tuple[list[str], list[str]]:
    """The loops of the conversion, and what is said of the data."""
    conversion = convert_source(source)
    assert conversion.status == "converted"
    lines = [line for line in conversion.code.splitlines() if line.startswith(("while", "for"))]
    return lines, [d.message for d in conversion.diagnostics]


@pytest.mark.parametrize(
    ("test", "converted"),
    [
        ("step < total", "step < max(1, total // hvd.size())"),
        ("step < 2 * total", "step < max(1, (2 * total) // hvd.size())"),
        (
            "step < len(x)",
            "hvd.broadcast_object(bool(step < max(1, len(x) // hvd.size())), root_rank=0)",
        ),
    ],
)
def test_a_counter_is_compared_with_a_share_of_the_steps(test, converted):
    assert PROGRAM.count("step < total") == 1
    lines, said = loops(PROGRAM.replace("step < total", test))
    assert lines == [f"while {converted}:"]
    assert not said


OVER_DATA = (
    PROGRAM.replace("while step < total:", "for features, labels in batches:")
    .replace("    features, labels = next(batches)\n", "")
    .replace("    step += 1\n", "    step += 1\n    if step == total:\n        break\n")
)


@pytest.mark.parametrize(
    "source",
    [
        PROGRAM.replace("step < total", "True"),
        PROGRAM.replace("step += 1", "step += 2"),
        PROGRAM.replace("step < total", "step < float('inf')"),
    ],
    ids=["for ever", "by twos", "inf"],
)
def test_data_without_end_that_no_count_limits_are_told(source):
    (said,) = loops(source)[1]
    assert said.startswith("these data never end")


@pytest.mark.parametrize(
    "source",
    [
        PROGRAM.replace("step = 0", "step = int(optimizer.iterations)"),
        PROGRAM + "    if loss > 1:\n        step = 0\n",
    ],
    ids=["resumed", "patience"],
)
def test_counts_that_begin_elsewhere_are_told(source):
    (said,) = loops(source)[1]
    assert said.startswith("training stops here by a count of steps")


def test_a_count_that_begins_elsewhere_and_alone_decides_is_refused():
    conversion = convert_source(PROGRAM.replace("step = 0", "step = 30"))
    assert [d.code for d in conversion.diagnostics if d.severity == "error"] == ["HVD501"]


@pytest.mark.parametrize("numbered", ["enumerate(batches, start=100)", "enumerate(batches, first)"])
def test_the_number_of_a_turn_that_begins_elsewhere_is_no_count_of_steps(numbered: str) -> None:
    """The loop would end at its first turn, where a half of its limit is passed before."""
    source = OVER_DATA.replace("features, labels in batches", "i, (features, labels) in NUMBERED")
    ending = source.replace("step == total", "i >= total")
    conversion = convert_source(ending.replace("NUMBERED", numbered))
    assert [d.code for d in conversion.diagnostics if d.severity == "error"] == ["HVD501"]
    from_one = convert_source(ending.replace("NUMBERED", "enumerate(batches, 1)"))
    assert "i >= max(1, total // hvd.size())" in from_one.code


def test_a_counter_beside_a_condition_and_a_break():
    lines, said = loops(PROGRAM.replace("step < total", "step < total and loss > 1e-3"))
    assert "step < max(1, total // hvd.size()) and loss > 1e-3" in lines[0]
    assert not said
    assert not loops(OVER_DATA)[1]
    assert "    if step == max(1, total // hvd.size()):\n" in convert_source(OVER_DATA).code


def test_data_that_end_need_no_count():
    assert not loops(OVER_DATA.replace(".batch(20)", ".batch(20).take(50)"))[1]


def test_a_counter_from_one():
    source = PROGRAM.replace("step = 0", "step = 1").replace("step < total", "step <= total")
    assert loops(source) == (["while step <= max(1, total // hvd.size()):"], [])


def test_steps_are_divided_and_not_epochs_too():
    source = PROGRAM.replace("    features, labels", "        features, labels").replace(
        "    loss =", "        loss ="
    )
    source = source.replace("while step < total:", "while step < total:\n    for _ in range(100):")
    source = source.replace("    step += 1", "    shown = next(batches)\n    step += 1")
    conversion = convert_source(source)
    assert "    for _ in range(100 // hvd.size() or 100):" in conversion.code
    assert "while step < total:" in conversion.code


def test_a_range_behind_a_progress_bar():
    source = PROGRAM.replace("while step < total:", "for step in tqdm(range(total)):").replace(
        "    step += 1\n", ""
    )
    source = source.replace("import numpy", "from tqdm import tqdm\nimport numpy")
    assert loops(source) == (["for step in tqdm(range(total // hvd.size() or total)):"], [])


def test_steps_of_a_deep_program_are_marked():
    """A sum of a thousand terms is a tree a thousand levels deep."""
    deep = PROGRAM + "total = " + " + ".join("x" for _ in range(1000)) + "\n"
    assert convert_source(deep).status == "converted"
    assert mark_steps([deep]) == [mark_steps([PROGRAM])[0] + deep[len(PROGRAM) :]]


def test_steps_of_a_notebook_of_one_cell_are_marked():
    (marked,) = mark_steps([f"%matplotlib inline\n{PROGRAM}"])
    assert marked == f"%matplotlib inline\n{mark_steps([PROGRAM])[0]}"


def left(loop: str) -> tuple[str, set[str]]:
    """What a program becomes whose loop over the steps is left early, and what refuses it."""
    head = program(
        """
        import tensorflow as tf

        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)
        dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)


        def train(bx, by):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(by - model(bx)))
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))
            return loss

        """
    )
    conversion = convert_source(head + loop)
    errors = {d.code for d in conversion.diagnostics if d.severity == "error"}
    return conversion.code, errors


@pytest.mark.parametrize(
    ("loop", "divided"),
    [
        (
            "for step, (bx, by) in enumerate(dataset):\n    if step == 100:\n        break\n    train(bx, by)\n",
            "step == max(1, 100 // hvd.size())",
        ),
        (
            program(
                """
                step = 0
                while step < limit:
                    for bx, by in dataset:
                        train(bx, by)
                        step += 1
                        if limit <= step:
                            break
                """
            ),
            "max(1, limit // hvd.size()) <= step",
        ),
        (
            program(
                """
                def run():
                    for step, (bx, by) in dataset.enumerate():
                        train(bx, by)
                        if step + 1 >= limit:
                            return


                run()
                """
            ),
            "step + 1 >= max(1, limit // hvd.size())",
        ),
        (
            program(
                """
                batches = iter(dataset.repeat())
                while True:
                    train(*next(batches))
                    if opt.iterations >= 100:
                        break
                """
            ),
            "opt.iterations >= max(1, 100 // hvd.size())",
        ),
        (
            program(
                """
                losses = []
                for bx, by in dataset:
                    losses.append(train(bx, by))
                    if len(losses) > 2 * limit:
                        break
                """
            ),
            "len(losses) > max(1, (2 * limit) // hvd.size())",
        ),
        (
            program(
                """
                count, done = 0, False
                for epoch in range(9):
                    for bx, by in dataset:
                        train(bx, by)
                        count += 1
                        if count % 70 == 0:
                            done = True
                    if done:
                        break
                """
            ),
            "count % max(1, 70 // hvd.size()) == 0",
        ),
        (
            "for step, (bx, by) in enumerate(dataset):\n    if step == 100 or train(bx, by) < 0.1:\n        break\n",
            "if hvd.broadcast_object(bool(step == max(1, 100 // hvd.size()) or train(bx, by) < 0.1), root_rank=0):",
        ),
    ],
)
def test_a_count_that_ends_a_loop_is_divided(loop: str, divided: str) -> None:
    code, errors = left(loop)
    assert not errors
    assert divided in code


@pytest.mark.parametrize(
    "loop",
    [
        "epoch = 0\nwhile epoch < 9:\n    it = iter(dataset)\n    while next(it, None):\n        train(x, y)\n    epoch += 1\n",
        "for epoch in range(9):\n    if epoch == 3:\n        break\n    for bx, by in dataset:\n        train(bx, by)\n",
        "for step, (bx, by) in enumerate(dataset):\n    if step == 0:\n        print(bx)\n    train(bx, by)\n",
        "for step, (bx, by) in enumerate(dataset):\n    train(bx, by)\n    if step % 100 == 0:\n        print(step)\n",
        "for bx, by in dataset:\n    train(bx, by)\n    if dry_run:\n        break\n",
    ],
)
def test_what_counts_no_steps_is_left_alone(loop: str) -> None:
    code, errors = left(loop)
    assert not errors
    assert "// hvd.size()" not in code


def test_a_count_that_ends_a_compiled_loop_is_divided() -> None:
    loop = program(
        """
        @tf.function
        def epoch():
            for step, (bx, by) in enumerate(dataset):
                train(bx, by)
                if step == 100:
                    break


        epoch()
        """
    )
    assert "step == max(1, 100 // hvd.size())" in left(loop)[0]


def test_a_count_whose_limit_is_not_seen_is_refused() -> None:
    loop = "for step, (bx, by) in enumerate(dataset):\n    train(bx, by)\n    if stops[step]:\n        break\n"
    assert left("stops = [False, True]\n" + loop)[1] == {"HVD501"}


def test_where_the_steps_of_a_program_stand():
    cells = [PROGRAM[: PROGRAM.index("total = 40")], PROGRAM[PROGRAM.index("total = 40") :]]
    places = step_places(cells, [2, 5])
    (step,), (update,) = places.steps, places.updates
    assert step.startswith(
        "line 5 of cell 5: `loss = train_step(features, labels)`, which runs line "
    )
    assert update.endswith(
        " of cell 2: `optimizer.apply_gradients(zip(gradients, model.trainable_va…`"
    )
    assert step.endswith(update)
    assert places.fit == ""
    assert places.where(0, 0) == (
        f"{update}, run by line 5 of cell 5: `loss = train_step(features, labels)`"
    )
    assert places.where(0, -1) == step
    places = step_places(["import keras\nmodel = keras.Sequential()\nmodel.fit(x, y)\n"], None)
    assert places == Places(fit="line 3: `model.fit(x, y)`")
    assert places.where(-1, -1) == places.fit


def test_updates_are_marked_where_they_stand():
    (marked,) = mark_steps([PROGRAM])
    assert re.search(rf"^    {UPDATER}\(0\); optimizer\.apply_gradients\(", marked, re.MULTILINE)


def test_noise_that_rank_0_draws_is_no_step_in_the_conversion_either() -> None:
    """`verify` counts the steps of both, and would compare other ones."""
    noise = program(
        """
        @tf.function
        def shake():
            for w in model.trainable_variables:
                w.assign_add(tf.random.normal(w.shape))


        for epoch in range(3):
            shake()
        """
    )
    code = convert_source(PROGRAM + noise).code
    assert "assign_add(jhvd.of_rank_zero(" in code
    assert f"{UPDATER}(1)" not in mark_steps([code])[0]


def record(*steps: tuple[float, str, int], dtype: str = "float32", free: bool = False):
    """One that has a weight after each step, gradients that were applied until then, and how many averages."""
    trail = [
        {"by": 0, "weights": [str(w)], "applied": a, "averages": n, "data": str(number)}
        for number, (w, a, n) in enumerate(steps)
    ]
    values = [np.array([1.0, w], dtype) for w, _, _ in steps]
    return SimpleNamespace(
        rank=1, trail=trail, names=["w"], updated_by=[0], rounds_freely=free, values=values
    )


PLACES = Places(("here",), ("there",))
#: Rounding that two ranks' updates may make in one step of a number of about 1.
ONE = 18 * 2.0**-23


@pytest.mark.parametrize(
    ("one", "two", "said"),
    [
        (
            record((0, "", 0), (1, "1", 0), (2, "2", 0)),
            record((0, "", 0), (1, "1", 0), (3, "3", 0)),
            "w by 1 (tolerance 9e-06), first after step 2, by there, run by here: "
            "the gradients that were applied differ, so they were not averaged",
        ),
        (
            record((0, "", 0), (1, "1", 1), (2, "2", 2)),
            record((0, "", 0), (1, "1", 1), (3, "3", 2)),
            "w by 1 (tolerance 9e-06), first after step 2, by there, run by here: the gradients that were applied differ, "
            "though some were averaged in this step: others were not, or they were changed behind that",
        ),
        (
            record((0, "", 0), (0.5, "1", 1)),
            record((1, "", 0), (1.25, "1", 1)),
            "w by 0.75 (tolerance 2e-06), first after step 1, by there, run by here: the gradients that were applied were the "
            "same, the first weights were not, and no broadcast made them so",
        ),
        (
            record((0, "", 0), (0.5, "", 0), dtype="float64"),
            record((1, "", 0), (1.25, "", 0), dtype="float64"),
            "w by 0.75 (tolerance 4e-15), first after step 1, by there, run by here: nothing was averaged in this step",
        ),
        (record((0, "", 0), (1, "1", 0)), record((0, "", 0), (1, "1", 0)), "None"),
        # On GPUs what rounding explains is no difference, and what it does not explain is.
        (
            record((0, "", 0), (1, "1", 1), free=True),
            record((0, "", 0), (1 + 0.9 * ONE, "2", 1), free=True),
            "None",
        ),
        (
            record((0, "", 0), (1, "1", 1), (1, "1", 2), free=True),
            record((0, "", 0), (1 + 0.9 * ONE, "2", 1), (1 + 3 * ONE, "2", 2), free=True),
            "w by 6.4e-06 (tolerance 4e-06), first after step 2, by there, run by here: the gradients that were applied "
            "differ, though some were averaged in this step: others were not, or they were changed behind that",
        ),
    ],
)
def test_where_ranks_first_differ(one, two, said):
    kept = tuple(lambda step, _, r=r: r.values[step] for r in (one, two))
    assert str(parting(one, two, PLACES, kept)) == said


def test_a_conversion_is_told_where_its_data_first_differ():
    one, two = (record((0, "", 0), (w, str(w), 0)) for w in (1, 2))
    gone = (lambda *_: None,) * 2
    said = "w first after step 1, by there, run by here: the {} differ"
    told = str(parting(one, two, PLACES, gone, "processes", 1))
    assert told == said.format("gradients that were applied")
    two.trail[0]["data"] = "others"
    told = str(parting(one, two, PLACES, gone, "processes", 1))
    assert told == said.format("data that the step was given")


CALLBACK = """\
import tensorflow as tf

class Counts(tf.keras.callbacks.Callback):
    count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        {body}


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(x, y, callbacks=[Counts()])
"""
SET = "self.model.optimizer.learning_rate = "


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            f"{SET}0.1 * self.count / 100",
            f"{SET}(0.1 * (self.count * hvd.size()) / 100) * hvd.size()",
        ),
        (f"{SET}0.1 / (1 + batch)", f"{SET}(0.1 / (1 + (batch * hvd.size()))) * hvd.size()"),
        (
            f"{SET}0.1 * self.count / self.params['steps']",
            f"{SET}(0.1 * self.count / self.params['steps']) * hvd.size()",
        ),
        (
            "if self.count >= 100: self.model.stop_training = True",
            "if self.count >= max(1, 100 // hvd.size()): self.model.stop_training = True",
        ),
        (f"{SET}0.1 * logs['loss']", f"{SET}(0.1 * logs['loss']) * hvd.size()"),
    ],
)
def test_what_a_callback_makes_of_its_count_of_batches(body: str, expected: str) -> None:
    """A rank's batch is one of N that pass at once."""
    assert expected in convert_source(CALLBACK.format(body=body)).code


def test_a_count_that_a_schedule_is_asked_for_is_left() -> None:
    """The schedule's own steps are divided."""
    body = f"{SET}schedule(self.count)"
    made = "schedule = tf.keras.optimizers.schedules.ExponentialDecay(0.1, 100, 0.9)\n"
    code = convert_source(CALLBACK.format(body=body) + made).code
    assert f"{SET}schedule(self.count) * hvd.size()" in code


@pytest.mark.parametrize(
    ("count", "told"), [("seen", True), ("opt.iterations", False), ("step", False)]
)
def test_a_rate_that_goes_by_steps(count: str, told: bool) -> None:
    """By the steps of one process; where its count is a variable, it is told what to write."""
    source = program(
        f"""
        import tensorflow as tf

        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)
        seen = tf.Variable(0, trainable=False)
        for step, (x, y) in enumerate(tf.data.Dataset.from_tensor_slices(data).batch(8)):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(y - model(x)))
            opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            seen.assign_add(1)
            opt.learning_rate.assign(0.1 * {count} / 1000)
        """
    )
    conversion = convert_source(source)
    assert conversion.status == "converted"
    expected = [("HVD206", "warning")] if told else []
    assert [(d.code, d.severity) for d in conversion.diagnostics] == expected
    assert (f"({count} * hvd.size())" in conversion.code) is not told
    assert not convert_source(source.replace(f" * {count}", "")).diagnostics


@pytest.mark.parametrize(
    ("turns", "after"),
    [
        (
            "for n, (a, b) in zip(range(100), batches)",
            "for n, (a, b) in zip(range(100 // hvd.size() or 100), batches)",
        ),
        (
            "for n, ((a, b), _) in enumerate(zip(batches, range(total)))",
            "for n, ((a, b), _) in enumerate(zip(batches, range(total // hvd.size() or total)))",
        ),
        (
            "for n, (a, b) in zip(names, batches)",
            "for n, (a, b) in jhvd.shard_batches(zip(names, batches))",
        ),
    ],
    ids=["first", "last", "names"],
)
def test_turns_over_data_and_something_beside_are_divided(turns: str, after: str) -> None:
    """As many as there are of what ends first, whatever another loop that calls the same step runs over; a range is divided by
    itself, and the data by themselves.
    """
    source = program(
        f"""
        import tensorflow as tf

        x = tf.zeros((64, 4))
        batches = tf.data.Dataset.from_tensor_slices((x, x)).repeat().batch(8)
        names, total = ["a", "b"], 100
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)


        def step(a, b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(a) - b) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(gradients, model.trainable_variables))


        for a, b in batches.take(10):
            step(a, b)
        {turns}:
            step(a, b)
        """
    )
    assert f"{after}:" in convert_source(source).code


@pytest.mark.parametrize(
    ("turns", "number", "after"),
    [
        (
            "for i, (x, y) in zip(range(60), batches)",
            "i == 30",
            "zip(range(60 // hvd.size() or 60), batches)",
        ),
        (
            "for (x, y), i in zip(batches, itertools.count(1))",
            "i == 30",
            "zip(batches, itertools.count(1))",
        ),
        (
            "for i, (x, y) in tqdm(zip(range(1, 61), generate()))",
            "i == 30",
            "zip(range(1, 1 + max(1, (61 - 1) // hvd.size())), jhvd.shard_batches(generate()))",
        ),
        (
            "for i, (x, y) in zip(tqdm(range(60)), load())",
            "i + 1 == 30",
            "zip(tqdm(range(60 // hvd.size() or 60)), jhvd.shard_batches(load()))",
        ),
    ],
    ids=["dataset", "count", "generator", "unseen"],
)
def test_a_count_beside_the_data_is_each_ranks_own_count_of_steps(
    turns: str, number: str, after: str
) -> None:
    """What is divided are the data, so that all ranks have one count: they end, and a rate goes, by an N-th of it."""
    source = program(
        f"""
        import itertools
        import tensorflow as tf
        from other import load
        from tqdm import tqdm

        batches = tf.data.Dataset.from_tensor_slices((a, b)).repeat().batch(8)


        def generate():
            while True:
                yield a[:8], b[:8]


        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)
        {turns}:
            opt.learning_rate = 0.1 * min(1, i / 1000)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            if {number}:
                break
        """
    )
    conversion = convert_source(source)
    assert after in conversion.code
    assert "min(1, (i * hvd.size()) / 1000)" in conversion.code
    assert f"if {number.removesuffix('30')}max(1, 30 // hvd.size()):" in conversion.code
    assert not conversion.diagnostics


def test_epochs_beside_their_rates_are_as_many_as_before() -> None:
    """A range is a number of steps beside what is divided alone."""
    source = program(
        """
        import tensorflow as tf

        batches = tf.data.Dataset.from_tensor_slices((a, b)).batch(8)
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        opt = tf.keras.optimizers.SGD(0.1)
        for epoch, rate in zip(range(10), [0.1, 0.01]):
            opt.learning_rate = rate
            for x, y in batches:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((model(x) - y) ** 2)
                opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        """
    )
    assert "zip(range(10), [0.1, 0.01])" in convert_source(source).code


NUMBERED = program(
    """
    import itertools
    import tensorflow as tf

    first = tf.data.Dataset.from_tensor_slices(a).repeat().batch(8)
    second = tf.data.Dataset.from_tensor_slices(b).repeat().batch(8)


    def numbered():
        n = 0
        while True:
            n += 1
            yield n, a[:8], b[:8]


    class Loader:
        def __iter__(self):
            for start in range(0, 64, 8):
                yield start // 8, a[start:start + 8], b[start:start + 8]


    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.1)
    for {turns}:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        {line}
    """
)
BREAK = "if n == 30: break"


@pytest.mark.parametrize(
    ("turns", "line", "severity"),
    [
        ("n, x, y in numbered()", BREAK, "error"),
        ("n, x, y in Loader()", "if n == 6: model.save_weights('w')", "error"),
        ("x, y, n in zip(first, second, itertools.count())", BREAK, "error"),
        ("n, x, y in numbered()", "opt.learning_rate = 0.1 / n", "error"),
        ("n, x, y in numbered()", "if n % 10 == 0: print(n)", "warning"),
        ("step, (n, x, y) in enumerate(numbered())", "if step == 30: break", None),
        ("n, x, y in Loader()", "print(n)", None),
    ],
)
def test_what_goes_by_a_number_that_comes_with_the_batch(
    turns: str, line: str, severity: str | None
) -> None:
    """Each rank has every N-th of these numbers; those that count the steps of a loop are as many on all ranks."""
    conversion = convert_source(NUMBERED.format(turns=turns, line=line))
    found = [(d.code, d.severity) for d in conversion.diagnostics if d.code == "HVD507"]
    assert found == ([("HVD507", severity)] if severity else [])
    assert (conversion.status == "refused") is (severity == "error")


EPISODES = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    opt = tf.keras.optimizers.Adam(1e-2)
    start = np.zeros((1, 3), "float32")
    for episode in range(40):
        states, actions, done = [], [], False
        while not done:
            action = int({action})
            states.append(start + action)
            actions.append(action)
            done = len(actions) > 9
        with tf.GradientTape() as tape:
            answered = model(np.concatenate(states))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(actions, answered))
        opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    """
)


@pytest.mark.parametrize(
    ("action", "own"),
    [("tf.random.categorical(model(start), 1)[0, 0]", True), ("tf.argmax(model(start)[0])", False)],
)
def test_a_step_on_what_each_rank_draws_is_told_as_that(action: str, own: bool) -> None:
    """Each plays its own episodes, and all are averaged: it is not what one process would do."""
    found = convert_source(EPISODES.format(action=action)).diagnostics
    (said,) = (d.message for d in found if d.code == "HVD504")
    assert ("N times as much is drawn for a step" in said) is own
    assert ("as one process would" in said) is not own


def test_batches_in_a_tuple_are_divided_where_those_in_a_list_are() -> None:
    listed = OVER_DATA.replace("in batches:", "in list(batches):")
    assert listed != OVER_DATA
    listed, inside = convert_source(listed), convert_source(listed.replace("list(", "tuple("))
    assert listed.status == inside.status == "converted"
    assert inside.code == listed.code.replace("list(", "tuple(")
