"""Where Horovod is started: behind the imports of TensorFlow, or in front of what needs it before."""

from __future__ import annotations

from itertools import pairwise

import pytest

from jupyter_hvd import convert_source

TRAINING = """\
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(x, y, verbose=0)
"""
START = "jhvd.start()"


def line_after_start(source: str) -> str:
    conversion = convert_source(source + TRAINING)
    assert conversion.status == "converted", conversion.diagnostics
    compile(conversion.code, "<converted>", "exec")
    lines = conversion.code.splitlines()
    return next(after for line, after in pairwise(lines) if line.startswith(START))


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("import os\nimport tensorflow as tf\nprint(1)\n", "if hvd.rank() == 0:"),
        ("import os\nprint('first')\nimport tensorflow as tf\n", "if hvd.rank() == 0:"),
        (
            "with open('a', 'w') as f:\n    f.write('x')\nimport tensorflow as tf\n",
            "with open('a' if hvd.rank() == 0 else '/dev/null', 'w') as f:",
        ),
        ("def say():\n    print(1)\nimport tensorflow as tf\nsay()\n", "say()"),
        ("def say():\n    print(1)\nimport os\nsay()\nimport tensorflow as tf\n", "say()"),
        (
            "import os\nos.environ['A'] = '1'\nprint(1)\nimport tensorflow as tf\n",
            "if hvd.rank() == 0:",
        ),
    ],
)
def test_in_front_of_what_needs_it(source: str, after: str) -> None:
    assert line_after_start(source) == after


def test_the_environment_is_set_before_tensorflow_is_loaded() -> None:
    """What would be set too late is refused, and not silently without effect."""
    source = (
        "print(1)\nimport os\nos.environ['TF_DETERMINISTIC_OPS'] = '1'\nimport tensorflow as tf\n"
    )
    conversion = convert_source(source + TRAINING)
    assert conversion.status == "refused"
    (problem,) = conversion.diagnostics
    assert (problem.code, problem.line) == ("HVD101", 3)
    assert "set the environment first" in problem.help
