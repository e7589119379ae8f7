"""ipyparallel's controller, which lives as long as the notebook's kernel.

`python -P -m jupyter_hvd.session.controller [ARGS]`
"""

from __future__ import annotations

import os
import runpy

from ..launchers.base import JOB_VARIABLE
from ..launchers.lifeline import ADDRESS_VARIABLE, LifelineClient

if __name__ == "__main__":
    LifelineClient("controller", os.environ[JOB_VARIABLE], os.environ[ADDRESS_VARIABLE])
    # `__main__` stays this small module, which is all that spawned helpers then import again.
    runpy.run_module("ipyparallel.controller", run_name="__main__")
