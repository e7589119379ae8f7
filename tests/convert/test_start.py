"""Where Horovod is imported: behind the imports of TensorFlow, or in front of what needs it before."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jupyter_hvd import convert_source

TRAINING = """\
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(x, y, batch_size=BATCH, verbose=0)
"""


def line_behind_start(source: str) -> str:
    conversion = convert_source(source)
    assert conversion.status == "converted", conversion.diagnostics
    compile(conversion.code, "<converted>", "exec")
    lines = conversion.code.splitlines()
    assert [line for line in lines if "start_shared" in line] == lines[1:2]
    return next(after for line, after in pairwise(lines) if line == "hvd.init()")


@pytest.mark.parametrize(
    ("source", "behind"),
    [
        ("import tensorflow as tf\nimport numpy\nBATCH = 8\n", "BATCH = 8 * hvd.size()"),
        ("BATCH = 8\nimport tensorflow as tf\n", "BATCH = 8 * hvd.size()"),
        (
            "def size(n=8):\n    return n\nBATCH = size()\nimport tensorflow as tf\n",
            "BATCH = size() * hvd.size()",
        ),
        (
            "import os\nprint(os.name)\nimport tensorflow as tf\nBATCH = 8\n",
            "BATCH = 8 * hvd.size()",
        ),
    ],
)
def test_in_front_of_what_needs_it(source: str, behind: str) -> None:
    assert line_behind_start(source + TRAINING) == behind


def test_a_print_does_not_load_tensorflow_before_its_environment_is_set() -> None:
    head = "print('start')\nimport os\nos.environ['TF_DETERMINISTIC_OPS'] = '1'\nimport tensorflow as tf\nBATCH = 8\n"
    assert line_behind_start(head + TRAINING) == "BATCH = 8 * hvd.size()"


def test_the_environment_is_set_before_tensorflow_is_loaded() -> None:
    """What would be set too late is refused, and not silently without effect."""
    head = (
        "BATCH = 8\nimport os\nos.environ['TF_USE_LEGACY_KERAS'] = '1'\nimport tensorflow as tf\n"
    )
    conversion = convert_source(head + TRAINING)
    assert conversion.status == "refused"
    problem = next(d for d in conversion.diagnostics if d.severity == "error")
    assert (problem.code, problem.line) == ("HVD101", 3)
    assert "set the environment first" in problem.help


def test_functions_that_import_tensorflow_themselves() -> None:
    body = "".join(f"    {line}\n" for line in f"import tensorflow as tf\n{TRAINING}".splitlines())
    source = f"BATCH = 8\n\n\ndef main(x, y):\n{body}\n\nmain(*load())\n"
    assert line_behind_start(source) == "BATCH = 8 * hvd.size()"
