"""`%load_ext jupyter_hvd` costs a kernel next to nothing, whatever the magics need later."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"tensorflow", "keras", "horovod", "jax", "libcst", "numpy", "psutil"}
LOAD = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "jupyter_hvd")
assert shell.find_cell_magic("distribute") and shell.find_line_magic("hvd")
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_loading_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=60, check=True
    )
    imported = set(done.stdout.split())
    assert "jupyter_hvd" in imported
    assert not imported & HEAVY
