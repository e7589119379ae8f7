"""Models that KerasTuner builds: the batch and the rate are scaled together, or neither is."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options, convert_source

OPTIONS = Options(select=("HVD7", "HVD8"))
HEAD = """import keras
import keras_tuner
import numpy as np
x, y = np.load("x.npy"), np.load("y.npy")
"""
BUILD = """
def build(hp):
    model = keras.Sequential([keras.layers.Dense(hp.Int("units", 4, 32)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(hp.Choice("rate", [0.1, 0.01])), "mse")
    return model
"""
HYPERMODEL = """
class Hyper(keras_tuner.HyperModel):
    def build(self, hp):
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        return model
    def fit(self, hp, model, *args, **kwargs):
        return model.fit(*args, FIT**kwargs)
"""
RUN_TRIAL = """
class Own(keras_tuner.RandomSearch):
    def run_trial(self, trial, *args, **kwargs):
        kwargs["batch_size"] = trial.hyperparameters.Int("batch_size", 32, 256, step=32)
        return super().run_trial(trial, *args, **kwargs)
"""
TUNER = 'tuner = keras_tuner.RandomSearch(build, objective="val_loss")\n'
SCALED_BUILD = (
    'model.compile(jhvd.scale_rate(keras.optimizers.Adam(hp.Choice("rate", [0.1, 0.01]))), "mse")'
)
SEARCHES = {
    "a search without a size": (
        f"{BUILD}{TUNER}tuner.search(x, y, epochs=2)",
        [SCALED_BUILD, "tuner.search(x, y, epochs=2, batch_size=32 * hvd.size())"],
    ),
    "a search with a size": (
        f"{BUILD}{TUNER}tuner.search(x, y, batch_size=64, epochs=2)",
        [SCALED_BUILD, "tuner.search(x, y, batch_size=64 * hvd.size(), epochs=2)"],
    ),
    "a search over a dataset of another module": (
        f"from data import train\n{BUILD}{TUNER}tuner.search(train, epochs=2)",
        [SCALED_BUILD, "tuner.search(jhvd.join_batches(train), epochs=2)"],
    ),
    "a hypermodel that draws the size": (
        HYPERMODEL.replace("FIT", 'batch_size=hp.Choice("batch_size", [16, 32]), ')
        + "tuner = keras_tuner.Hyperband(Hyper())\ntuner.search(x, y, epochs=2)",
        [
            'model.compile(keras.optimizers.SGD(0.1 * hvd.size()), "mse")',
            'return model.fit(*args, batch_size=hp.Choice("batch_size", [16, 32]) * hvd.size(), **kwargs)',
        ],
    ),
    "a hypermodel that hands its arguments on": (
        HYPERMODEL.replace("FIT", "")
        + "tuner = keras_tuner.Hyperband(Hyper())\ntuner.search(x, y, epochs=2)",
        [
            'model.compile(keras.optimizers.SGD(0.1 * hvd.size()), "mse")',
            "tuner.search(x, y, epochs=2, batch_size=32 * hvd.size())",
        ],
    ),
    "a tuner that sets the size for each trial": (
        f"{BUILD}{RUN_TRIAL}tuner = Own(build)\ntuner.search(x, y, epochs=2)",
        [
            SCALED_BUILD,
            'kwargs["batch_size"] = trial.hyperparameters.Int("batch_size", 32, 256, step=32) * hvd.size()',
        ],
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_batches_and_rates_of_tuners_are_scaled_together(name: str) -> None:
    source, expected = SEARCHES[name]
    conversion = convert_source(HEAD + source, options=OPTIONS)
    assert conversion.status == "converted", conversion.diagnostics
    before = (HEAD + source).splitlines()
    lines = [line.strip() for line in conversion.code.splitlines() if line not in before]
    assert [line for line in lines if "size()" in line or "jhvd." in line][1:] == expected
    assert not [d for d in conversion.diagnostics if d.severity == "warning"]


def test_rates_of_a_search_whose_batches_are_hidden_stay() -> None:
    other = "other = keras.Sequential()\nother.compile('sgd')\nother.fit(x, y)\n"
    source = f"{HEAD}{BUILD}{TUNER}tuner.search(*data, **settings)\n{other}"
    conversion = convert_source(source, options=OPTIONS)
    assert 'model.compile(keras.optimizers.Adam(hp.Choice("rate", [0.1, 0.01])), "mse")' in conversion.code  # fmt: skip
    assert "other.fit(x, y, batch_size=32 * hvd.size())" in conversion.code
    assert ("HVD801", "warning") in {(d.code, d.severity) for d in conversion.diagnostics}
