"""Runs a script where TensorFlow has been imported: `python -m jupyter_hvd.ranks.forks forked_script SCRIPT …`.

A folder of its own, since the servers find modules by it, and so does what they fork.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path


def main() -> None:
    sys.argv[:] = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
