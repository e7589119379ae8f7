"""The magics in plain IPython, where there is no Jupyter server: `docs/platforms.md` promises it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

#: What a terminal, Colab or VS Code may lack.
PROLOGUE = """\
import sys
for name in ("jupyter_server", "jupyterlab", "notebook"):
    sys.modules[name] = None
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()

def cell(text):
    shell.run_cell(text, store_history=True).raise_error()

cell("%load_ext jupyter_hvd")
"""

TENSOR = '''\
cell("""%%tensor
def square(x):
    return sum(x[i] * x[i] for i in range(len(x)))""")
cell("import numpy as np; square(np.ones(64))")
cell("%gradcost square --wrt x")
'''

DISTRIBUTE = '''\
cell("import numpy as np; import tensorflow as tf")
cell("""model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
x, y = np.ones((8, 2)), np.ones((8, 1))""")
cell("""%%distribute -n 2
model.fit(x, y, batch_size=4, verbose=0)
print('steps', int(model.optimizer.iterations))""")
cell("%hvd stop")
'''


def run(cells: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + cells],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_gradient_costs_without_a_server():
    said = run(TENSOR)
    assert "Gradient cost of square by x at x_0 = 64" in said
    assert re.search(r"Value +127 ", said)


@pytest.mark.slow
@pytest.mark.long
def test_ranks_without_a_server():
    assert "steps 1" in run(DISTRIBUTE)
