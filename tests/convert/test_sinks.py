"""Every place where weights change is found, from the call that changes them."""

from __future__ import annotations

import nbformat
import pytest

from jupyter_hvd import convert_notebook, convert_source
from jupyter_hvd.convert.notebook import convert_cells
from jupyter_hvd.rules.base import program
from jupyter_hvd.source.edits import apply_edits

HEAD = program(
    """
    import numpy as np
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.SGD(0.1)
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    """
)
STEP = """with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx)))
    gradients = tape.gradient(loss, model.trainable_variables)"""


def converted(body: str) -> str:
    conversion = convert_source(HEAD + body)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


def refused(source: str) -> set[str]:
    conversion = convert_source(source)
    assert conversion.status == "refused"
    return {d.code for d in conversion.diagnostics if d.severity == "error"}


def test_followed_gradients_are_not_averaged_again() -> None:
    for applied in (
        "zip(gradients, model.trainable_variables)",
        "[(tf.clip_by_norm(g, 1.0), v) for g, v in zip(gradients, model.trainable_variables) if g is not None]",
        "zip(tf.clip_by_global_norm(gradients, 1.0)[0], model.trainable_variables)",
    ):
        code = converted(
            f"for bx, by in dataset:\n    {STEP}\n    opt.apply_gradients({applied})\n"
        )
        assert "DistributedGradientTape" in code
        assert "average_gradients" not in code


def test_gradients_that_cannot_be_followed_are_averaged_where_they_are_applied() -> None:
    code = converted(
        f"kept = {{}}\nfor bx, by in dataset:\n    {STEP}\n"
        "    for n, g in enumerate(gradients):\n        kept[n] = g\n"
        "    opt.apply_gradients(zip(kept.values(), model.trainable_variables))\n"
    )
    assert "jhvd.average_gradients(" in code


def test_scaled_by_what_differs_is_averaged() -> None:
    code = converted(
        f"for bx, by in dataset:\n    {STEP}\n"
        "    scaled = [g / loss for g in gradients]\n"
        "    opt.apply_gradients(zip(scaled, model.trainable_variables))\n"
    )
    assert "jhvd.average_gradients(" in code


def test_weights_changed_by_hand() -> None:
    """What of the model is not trained must be equal, too: all of it is broadcast."""
    code = converted(
        f"for bx, by in dataset:\n    {STEP}\n"
        "    for g, v in zip(gradients, model.trainable_variables):\n        v.assign_sub(0.1 * g)\n"
    )
    assert "DistributedGradientTape" in code
    assert "        jhvd.broadcast_once(None, model)\n" in code


def test_copies_of_weights_are_left_alone() -> None:
    code = converted(
        f"target = tf.keras.models.clone_model(model)\nfor bx, by in dataset:\n    {STEP}\n"
        "    opt.apply_gradients(zip(gradients, model.trainable_variables))\n"
        "    for t, v in zip(target.trainable_variables, model.trainable_variables):\n"
        "        t.assign(0.9 * t + 0.1 * v)\n"
    )
    assert "t.assign(0.9 * t + 0.1 * v)\n" in code
    assert "broadcast_once(None" not in code


def test_pairs_handed_to_a_function() -> None:
    """The variables are broadcast where their names mean the same; `model` is another thing in the second."""
    loop = f"for bx, by in dataset:\n    {STEP}\n    apply(zip(gradients, model.trainable_variables))\n"
    code = converted(f"def apply(pairs):\n    opt.apply_gradients(pairs)\n\n\n{loop}")
    assert "    opt.apply_gradients(pairs)\n    jhvd.broadcast_once(opt, model)\n" in code
    shadowed = f"def apply(pairs, model=None):\n    opt.apply_gradients(pairs)\n\n\n{loop}"
    assert refused(HEAD + shadowed) == {"HVD302"}


def test_a_step_compiled_with_options_by_a_call_is_compiled() -> None:
    """Its update is no place for a broadcast; who calls it cannot be seen."""
    step = f"def step(bx, by):\n    {STEP}\n    opt.apply_gradients(zip(gradients, model.trainable_variables))\n"
    loop = "fast = tf.function(jit_compile=True)(step)\nfor bx, by in dataset:\n    fast(bx, by)\n"
    assert refused(f"{HEAD}\n\n{step}\n\n{loop}") == {"HVD302"}


def test_an_inherited_apply_gradients_is_an_update() -> None:
    code = converted(
        "class Own(tf.keras.optimizers.Optimizer):\n    def update_step(self, gradient, variable):\n        pass\n\n\n"
        f"own = Own('own')\nfor bx, by in dataset:\n    {STEP}\n"
        "    own.apply_gradients(zip(gradients, model.trainable_variables))\n"
    )
    assert "DistributedGradientTape" in code


def test_an_optimizer_that_is_hidden_averages_when_the_program_runs() -> None:
    build = "import tensorflow as tf\nfrom models import build\n\nmodel = build()\nmodel.fit(x, y, epochs=2)\n"
    assert "jhvd.distributed_model(model).fit(jhvd.shard_rows(x)" in convert_source(build).code
    load = "import tensorflow as tf\n\nmodel = tf.keras.models.load_model(path)\n"
    twice = convert_source(load + "model.fit(x, y)\nmodel.fit(x, y)\n")
    assert twice.code.count("distributed_model(tf.keras.models.load_model(path))\n") == 1
    assert "distributed_model" not in converted_after(load + "model.compile('sgd', 'mse')\n")
    early = "model.compile('sgd', 'mse')\nmodel = tf.keras.models.load_model(path)\n"
    assert "distributed_model(tf.keras" in converted_after(HEAD + early)
    branch = "if again:\n    model.compile('sgd', 'mse')\n"
    assert "distributed_model(tf.keras" in converted_after(load + branch)
    either = "model = build()\nif again:\n    model = tf.keras.models.load_model(path)\n"
    assert "distributed_model(model).fit(" in converted_after(
        f"import tensorflow as tf\nfrom models import build\n{either}"
    )
    without = load.replace("(path)", "(path, compile=False)") + branch
    assert "distributed_model" not in converted_after(without)


def converted_after(text: str) -> str:
    """The conversion of a program, trained in the end."""
    conversion = convert_source(text + "model.fit(x, y, epochs=2)\n")
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        ("model.save('a.keras')", 0),
        ("model.save('b.keras')", 1),
        ("", 1),
        ("model.save_weights('a.keras')", 1),
        ("tf.keras.callbacks.ModelCheckpoint('a.keras')", 0),
        ("tf.keras.callbacks.ModelCheckpoint('a.keras', save_weights_only=True)", 1),
        ("tf.keras.models.save_model(model, 'a.keras')", 0),
        ("class S(tf.keras.optimizers.schedules.LearningRateSchedule): pass\nmodel.save('a.keras')", 1),
    ],
)  # fmt: skip
def test_the_rate_of_a_loaded_model_is_kept_and_told(saved: str, told: int) -> None:
    text = f"import tensorflow as tf\n{saved}\nmodel = tf.keras.models.load_model('a.keras')\nmodel.fit(x, y)\n"
    warnings = [d.code for d in convert_source(text).diagnostics]
    assert warnings == ["HVD207"] * told


def test_a_function_whose_name_becomes_the_models() -> None:
    body = "def net(inputs):\n    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))\n\n\n"
    body += "net = net(tf.keras.Input((3,)))\nnet.compile('sgd', 'mse')\nnet.fit(x, y)\n"
    assert "net.compile(jhvd.DistributedOptimizer(" in converted(body)


def test_a_callback_that_stops_at_a_batch_sees_the_average() -> None:
    fit = "model.compile('sgd', 'mse')\nmodel.fit(x, y, callbacks=[tf.keras.callbacks.TerminateOnNaN()])\n"
    assert "jhvd.MetricAverageCallback(each_batch=True), tf" in converted(fit)


def test_flags_set_by_a_rank_are_decided_by_rank_zero() -> None:
    code = converted(
        "done = False\nwhile not done:\n    for bx, by in dataset:\n        "
        + STEP.replace("\n", "\n    ")
        + "\n        opt.apply_gradients(zip(gradients, model.trainable_variables))\n"
        "    if loss < 0.1:\n        done = True\n"
    )
    assert "while hvd.broadcast_object(bool(not done), root_rank=0):" in code


def test_shell_lines_run_on_rank_zero() -> None:
    cells = [
        "!pip install x\nimport tensorflow as tf",
        "!ls\n!unzip -q a.zip",
        "model = tf.keras.Sequential()\nmodel.compile('sgd', 'mse')\nmodel.fit(x, y)",
    ]
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    sources = [cell.source for cell in convert_notebook(made).notebook.cells]
    assert sources[0].startswith("!pip install x\nimport")
    assert sources[1] == (
        "!ls\nif hvd.rank() == 0:\n    !unzip -q a.zip\njhvd.wait_for_rank_zero()"
    )


def shell_cell(cell: str) -> str:
    """What becomes of a cell of a notebook that trains behind it."""
    edits, conversion = convert_cells(
        ["import os\nimport tensorflow as tf", cell, MODEL, "model.fit(x, y)"]
    )
    assert conversion.status == "converted"
    return apply_edits(cell, edits[1])


def test_shell_lines_under_a_test_for_files_run_on_rank_zero() -> None:
    """A rank that comes later would find what rank 0 has saved meanwhile, and remove it."""
    asked = "if jhvd.on_rank_zero(lambda: os.path.isdir(path)):\n"
    guarded = "    if hvd.rank() == 0:\n        {}\n    jhvd.wait_for_rank_zero()"
    assert shell_cell("if os.path.isdir(path):\n    !rm -r {path}") == asked + guarded.format(
        "!rm -r {path}"
    )
    both = "if os.path.isdir(path):\n    !rm -r {path}\nelse:\n    !wget \\\n  a.zip"
    expected = guarded.format("!rm -r {path}") + "\nelse:\n" + guarded.format("!wget \\\n  a.zip")
    assert shell_cell(both) == asked + expected
    kept = "if unknown():\n    !rm -r {path}"  # where it is not seen that all ranks come
    assert shell_cell(kept) == kept
    assert shell_cell("if os.path.isdir(path):\n    !ls") == "if os.path.isdir(path):\n    !ls"


@pytest.mark.parametrize(
    ("cell", "file", "line"),
    [
        ("!python train.py --epochs 3", "train.py", 1),
        ("x = 1\n%run -i train", "train", 2),
        ("%%bash\ncd x\npython3 -u scripts/train.py && ls", "scripts/train.py", 3),
        ("said = !python train.py", "train.py", 1),
        ("if x:\n    !./train.py", "train.py", 2),
        ("!python \\\n  train.py", "train.py", 1),
        ("!python -m package.train", "package.train", 1),
        ("import subprocess, sys\nsubprocess.run([sys.executable, 'train.py'])", "train.py", 2),
        ("import os\nos.system('cd x; python train.py > log')", "train.py", 2),
        ("import runpy\nrunpy.run_module('train')", "train", 2),
    ],
)
def test_another_file_is_run(cell: str, file: str, line: int) -> None:
    """What it trains is not converted with this one, and that is said."""
    _, conversion = convert_cells([cell])
    (told,) = conversion.diagnostics
    assert (told.code, told.severity, told.cell, told.line) == ("HVD910", "warning", 0, line)
    assert told.message.startswith(f"{file} is run here as it is")


@pytest.mark.parametrize(
    "cell",
    [
        "!pip install x\n!python -m pip install y\n!python --version\n!python -c 'print(1)'",
        "s = 'python train.py'\n# !python train.py\n!ls",
        "%%writefile train.py\nimport tensorflow\n# python train.py",
        "!horovodrun -np 2 python train.py",
        "%timeit f(x)\n%matplotlib inline",
        "!python setup.py install",
    ],
)
def test_no_other_file_is_run(cell: str) -> None:
    assert convert_cells([cell])[1].diagnostics == ()


@pytest.mark.parametrize(
    ("cell", "severity", "line"),
    [
        ("%memit model.fit(x, y)", "error", 1),
        ("z = 1\nif z:\n    %lprun -f f model.fit(x, y)", "error", 3),
        ("%%wandb\n\nmodel.fit(x, y)", "error", 3),
        ("%%wandb\nopt.apply_gradients(zip(g, v))", "error", 2),
        ("%memit regression.fit(x, y)", "warning", 1),
        ("%timeit model.fit(x, y)", "error", 1),
        ("%%timeit\nmodel.fit(x, y)", "error", 2),
        ("timeit model.fit(x, y)", "error", 1),
    ],
)
def test_training_behind_a_magic(cell: str, severity: str, line: int) -> None:
    for training in ((), ("model.fit(x, y)",)):  # with other training, and without
        _, conversion = convert_cells([MODEL, *training, cell])
        (told,) = conversion.diagnostics
        assert (told.code, told.severity, told.cell) == ("HVD911", severity, 1 + len(training))
        assert told.line == line


@pytest.mark.parametrize(
    "cell",
    [
        "%timeit -n 3 model.fit(x, y)",
        "%%timeit -n1 -r1\nmodel.fit(x, y)",
        "%timeit f(x)\nmodel.fit(x, y)",
        "%%writefile train.py\nmodel.fit(x, y)",
        "!grep 'model.fit(x, y)' *.py",
        "said = !grep 'model.fit(x, y)' *.py",
        "model.fit?\n%memit f(x)  # as model.fit(x, y)",
    ],
)
def test_no_training_behind_a_magic(cell: str) -> None:
    assert convert_cells([MODEL, cell])[1].diagnostics == ()


MODEL = "import tensorflow as tf\nmodel = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('adam', loss='mse')\n"


@pytest.mark.parametrize(
    "text",
    [
        "import mytrain\nmytrain.run(epochs=3)",
        "import tensorflow as tf\nfrom lib import train_model\ntrain_model('data.csv')",
        "import tensorflow as tf\nfrom lib import fit_and_save as go\ngo()",
        "from . import train\ntrain.main()",
        "from .jobs.train import main\nif __name__ == '__main__':\n    main()",
        "import tensorflow as tf\nfrom lib import Trainer\ntrainer = Trainer('cfg')\ntrainer.run()",
        "import tensorflow as tf\nimport lib\nexperiment = lib.Experiment()\nexperiment.train(3)",
    ],
)
def test_another_module_trains(text: str) -> None:
    conversion = convert_source(text + "\n")
    assert {(d.code, d.severity) for d in conversion.diagnostics} == {("HVD911", "warning")}


def test_another_module_is_handed_a_model_to_train() -> None:
    assert refused(MODEL + "import mytrain\nhistory = mytrain.run(model, x, y)\n") == {"HVD906"}


@pytest.mark.parametrize(
    "text",
    [
        "from sklearn.model_selection import train_test_split\ntrain_test_split(x, y)",
        "from lib import load_train, split_train\nload_train()",
        "import xgboost\nxgboost.train(options, data)",
        "import numpy as np\nnp.polyfit(x, y, 1)",
        "from lib import Trainable, training_data\nTrainable()\ntraining_data()",
        "def train(x): pass\ntrain(3)",
    ],
)
def test_no_other_module_trains(text: str) -> None:
    assert convert_source(f"import tensorflow as tf\n{text}\n").diagnostics == ()


@pytest.mark.parametrize(
    "made",
    [
        "import tensorflow_recommenders as tfrs\nclass Own(tfrs.Model): pass\nmodel = Own()",
        "from mymodels import Base\nclass Own(Base): pass\nmodel = Own()",
        "from mymodels import make\nmodel = make()",
    ],
)
@pytest.mark.parametrize("compiled", ["'adam', 'mse'", "optimizer=tf.keras.optimizers.Adam()"])
def test_models_of_other_modules_are_trained_by_fit(made: str, compiled: str) -> None:
    """What has `compile` and `fit` is Keras', whoever makes it."""
    conversion = convert_source(
        f"import tensorflow as tf\n{made}\nmodel.compile({compiled})\nmodel.fit(x, y)\n"
    )
    assert conversion.status == "converted"
    assert {"HVD202", "HVD401"} <= {change.rule for change in conversion.changes}


def test_what_is_no_keras_model_is_left_alone() -> None:
    for made in (
        "import torch\nclass Net(torch.nn.Module):\n    def fit(self, x, y, epochs): pass\nmodel = Net()",
        "from sklearn.linear_model import Ridge\nclass Own(Ridge): pass\nmodel = Own()",
        "import xgboost\nmodel = xgboost.XGBClassifier()",
    ):
        assert (
            convert_source(f"import tensorflow as tf\n{made}\nmodel.fit(x, y)\n").status
            == "unchanged"
        )


def test_a_model_in_the_hands_of_another_module() -> None:
    assert refused(MODEL + "from lib import gan\ngan.train((model, model), x)\n") == {"HVD906"}
    assert refused(MODEL + "from lib import fit_model\nfit_model(model)\n") == {"HVD906"}
    assert refused(MODEL + "from lib import gan\nboth = (model, model)\ngan.train(both)\n") == {
        "HVD906"
    }
    assert refused(
        "import tensorflow as tf\nfrom lib import gan\nd = gan.make()\nd.compile('adam', loss='mse')\ngan.train(d)\n"
    ) == {"HVD906"}
    told = convert_source(MODEL + "import lib\nmodel.fit(x, y)\nlib.look_at(model)\n")
    assert (told.status, [d.severity for d in told.diagnostics]) == ("converted", ["warning"])
    used = convert_source(MODEL + "import lib\nmodel.fit(x, y, callbacks=[lib.Watch(model)])\n")
    assert (used.status, used.diagnostics) == ("converted", ())


@pytest.mark.parametrize(
    ("call", "severity"),
    [
        ("lib.test_build(build)", "warning"),
        ("lib.check(build, 3)", "warning"),
        ("found = lib.check(build)", "error"),
        ("lib.train(build)", "error"),
        ("lib.optimize(build)", "error"),
        ("lib.run(build)", "error"),
        ("lib.Regressor(build)", "error"),
    ],
)
def test_a_function_that_makes_a_model_is_handed_on(call: str, severity: str) -> None:
    build = "def build():\n" + "".join(f"    {line}\n" for line in MODEL.splitlines()[1:])
    text = (
        f"import tensorflow as tf\nimport lib\n{build}    return model\nbuild().fit(x, y)\n{call}\n"
    )
    told = [(d.code, d.severity) for d in convert_source(text).diagnostics]
    assert told == [("HVD906", severity)]


def test_a_model_that_becomes_an_estimator_is_refused() -> None:
    assert refused(
        MODEL + "tf.keras.estimator.model_to_estimator(model).train(input_fn=f, steps=5)\n"
    ) == {"HVD904"}


def test_a_search_over_trainings_is_refused() -> None:
    objective = "def objective(trial):\n    return model.fit(x, y).history['loss'][-1]\n"
    assert refused(
        MODEL + "import optuna\n" + objective + "optuna.create_study().optimize(objective)\n"
    ) == {"HVD906"}
    assert refused(MODEL + "import hyperopt\n" + objective + "hyperopt.fmin(fn=objective)\n") == {
        "HVD906"
    }


def test_a_main_function_that_a_library_runs() -> None:
    body = "def main(argv):\n" + "".join(f"    {line}\n" for line in MODEL.splitlines()[1:])
    conversion = convert_source(
        "import tensorflow as tf\nfrom absl import app\n"
        + body
        + "    model.fit(x, y)\napp.run(main)\n"
    )
    assert conversion.status == "converted", conversion.diagnostics


def test_forests_are_refused() -> None:
    forest = "import tensorflow as tf\nimport tensorflow_decision_forests as tfdf\nmodel = tfdf.keras.RandomForestModel()\n"
    assert refused(forest + "model.compile(metrics=['mse'])\nmodel.fit(ds)\n") == {"HVD906"}


@pytest.mark.parametrize(
    ("loop", "asked"),
    [
        ("for e in range(9):\n    h = model.fit(x, y)\n    if h.history['loss'][0] < 1: break\n", "h.history['loss'][0] < 1"),
        ("loss = 1\nwhile loss > 0.1:\n    loss = model.fit(x, y).history['loss'][-1]\n", "loss > 0.1"),
        ("import os\nif not os.path.exists('weights'):\n    model.fit(x, y)\n", "not os.path.exists('weights')"),
    ],
)  # fmt: skip
def test_whether_fit_runs_is_decided_by_rank_zero(loop: str, asked: str) -> None:
    code = convert_source(MODEL + loop).code
    assert f"hvd.broadcast_object(bool({asked}), root_rank=0)" in code


def test_a_step_defined_anew_is_the_one_above() -> None:
    step = (
        "@tf.function\ndef train(bx, by):\n    {step}\n"
        "    {optimizer}.apply_gradients(zip(gradients, {model}.trainable_variables))\n"
    )
    loop = "for bx, by in dataset:\n    train(bx, by)\n"
    one = step.format(step=STEP, optimizer="opt", model="model")
    other = step.format(step=STEP.replace("model", "second"), optimizer="opt2", model="second")
    assert converted(other + one + loop).count("jhvd.broadcast_once(") == 1  # the first never runs
    made = "second = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nopt2 = tf.keras.optimizers.SGD(0.1)\n"
    lines = [line.strip() for line in converted(one + loop + made + other + loop).splitlines()]
    first = lines.index("jhvd.broadcast_once(opt, model)")
    assert lines.count("jhvd.broadcast_once(opt, model)") == 1
    assert lines.index("jhvd.broadcast_once(opt2, second)") > first
    assert lines.count("jhvd.broadcast_once(opt2, second)") == 1


RESOLVER = "tf.distribute.cluster_resolver.TPUClusterResolver()"
TPU = {
    "tried": f"try:\n    s = tf.distribute.TPUStrategy({RESOLVER})\nexcept ValueError:\n    s = tf.distribute.get_strategy()\n",
    "asked": f"try:\n    tpu = {RESOLVER}\nexcept ValueError:\n    tpu = None\n"
    "if tpu:\n    tf.config.experimental_connect_to_cluster(tpu)\n    s = tf.distribute.experimental.TPUStrategy(tpu)\n"
    "else:\n    s = tf.distribute.MirroredStrategy()\n",
    "alone": f"s = tf.distribute.TPUStrategy({RESOLVER})\n",
    "workers": "try:\n    s = tf.distribute.MultiWorkerMirroredStrategy()\n"
    "except ValueError:\n    s = tf.distribute.get_strategy()\n",
}


@pytest.mark.parametrize(
    ("name", "is_converted"),
    [("tried", True), ("asked", True), ("alone", False), ("workers", False)],
)
def test_a_program_that_goes_on_without_tpus(name: str, is_converted: bool) -> None:
    body = "".join(f"    {line}\n" for line in MODEL.splitlines()[1:])
    conversion = convert_source(
        f"import tensorflow as tf\n{TPU[name]}with s.scope():\n{body}model.fit(x, y)\n"
    )
    assert (conversion.status == "converted") is is_converted
    assert "with s.scope()" in conversion.code


def test_episodes_of_an_environment_are_refused() -> None:
    """Each rank would play its own, of other lengths, and wait for updates that another does not make."""
    episodes = """import gym
env = gym.make('CartPole-v1')
for episode in range(100):
    state, done = env.reset(), False
    while not done:
        state, reward, done, _ = env.step(model.predict(state[None]).argmax())
        model.fit(state[None], target(reward))
"""
    assert refused(MODEL + episodes) == {"HVD303"}


@pytest.mark.parametrize("arguments", ["x, y,", "x, y, ", "x,\n    y,\n"])
def test_what_is_added_behind_a_comma_is_told_apart(arguments: str) -> None:
    code = converted(f"model.compile('sgd', 'mse')\nmodel.fit({arguments})\n")
    compile(code, "<converted>", "exec")
    assert "callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)]," in code


KEPT = """
import tensorflow as tf


def made(n=1):
    return tf.keras.Sequential([tf.keras.layers.Dense(n)])


"""


@pytest.mark.parametrize(
    ("program", "told"),
    [
        (
            "models = {'a': made(), 'b': made()}\nfor model in models.values():\n    model.compile('sgd')\n"
            "models['a'].fit(x, y)\n",
            0,
        ),
        (
            "models = {n: made(n) for n in (1, 2)}\nfor n, model in models.items():\n    model.compile('sgd')\n"
            "for n in models:\n    models[n].fit(x, y)\n",
            0,
        ),
        (
            "models = {'a': made(), 'b': made()}\nfor n in ('a', 'b'):\n    models[n].compile('sgd')\n"
            "models['b'].fit(x, y)\n",
            0,
        ),
        (
            "best = None\nfor n in (1, 2):\n    model = made(n)\n    model.compile('sgd')\n    model.fit(x, y)\n"
            "    if n > 1:\n        best = model\nbest.fit(x, y)\n",
            0,
        ),
        (
            "models = {'a': made(), 'b': tf.keras.models.load_model('b.keras')}\nmodels['a'].compile('sgd')\n"
            "models['a'].fit(x, y)\nmodels['b'].fit(x, y)\n",
            1,
        ),
    ],
    ids=["values", "items", "keys", "none before", "another of the same dictionary"],
)
def test_models_that_are_kept_are_compiled_where_their_names_say_so(
    program: str, told: int
) -> None:
    """What was compiled by `models.values()` was told to come with its optimizer; what was loaded beside it, not averaged."""
    conversion = convert_source(KEPT + program)
    assert conversion.status == "converted", conversion.diagnostics
    assert [d.code for d in conversion.diagnostics] == ["HVD207"] * told
    assert conversion.code.count("distributed_model(") == told
