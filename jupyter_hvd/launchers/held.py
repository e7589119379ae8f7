"""Runs a module that lives as long as the notebook's kernel: `python -m jupyter_hvd.launchers.held NAME MODULE [ARGS]`."""

from __future__ import annotations

import os
import runpy
import sys

from jupyter_hvd.launchers.job import JOB_VARIABLE
from jupyter_hvd.launchers.lifeline import ADDRESS_VARIABLE, LifelineClient

if __name__ == "__main__":
    name, module = sys.argv[1:3]
    held = LifelineClient(name, os.environ[JOB_VARIABLE], os.environ[ADDRESS_VARIABLE])
    sys.argv = [module, *sys.argv[3:]]
    # `__main__` stays this small module, which is all that Horovod's spawned helpers then import again.
    runpy.run_module(module, run_name="__main__")
