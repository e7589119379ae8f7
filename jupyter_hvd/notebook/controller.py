"""ipyparallel's controller, which lives as long as the notebook's kernel.

`python -P -m jupyter_hvd.notebook.controller [ARGS]`
"""

from __future__ import annotations

import runpy

from ..launch.heartbeat import HeartbeatClient

if __name__ == "__main__":
    HeartbeatClient("controller")
    # `__main__` stays this small module, which is all that spawned helpers then import again.
    runpy.run_module("ipyparallel.controller", run_name="__main__")
