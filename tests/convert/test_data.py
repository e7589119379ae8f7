"""What is said of data where ranks must read them in one order."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import ways_divided

PROGRAM = """\
import tensorflow as tf

train = tf.keras.utils.image_dataset_from_directory('photos', seed=1)
print({})
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(train)
"""


def test_all_ranks_go_through_what_they_shuffle_alike() -> None:
    """A rank that read the data once more than the others would have another order from then on."""
    for read in ("len(list(train))", "[x.shape for x, y in train]", "model.evaluate(train)"):
        code = convert_source(PROGRAM.format(read)).code
        assert "hvd_printed = " in code, code
    assert "hvd_printed" not in convert_source(PROGRAM.format("len(train)")).code


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("fit_sgd_call", ["divided exactly"]),
        ("tape_tf_function", ["divided exactly"]),
        ("fit_image_folder", ["divided by agreement"]),
        ("fit_generator", ["divided by agreement"]),
        ("fit_window_property", ["divided by agreement"]),
        ("fit_hidden_arguments", ["divided by agreement"]),
        ("tape_cut_batches", ["divided by agreement"]),
        ("tape_drawn_rows", ["drawn independently"]),
    ],
)
def test_the_way_is_told(name: str, ways: list[str]) -> None:
    program = Path(__file__).parents[1] / "programs" / f"{name}.py"
    assert ways_divided(convert_source(program.read_text()).changes) == ways
