"""`horovodrun`, two seconds faster: `python -m jupyter_hvd.launchers.horovodrun` takes the same arguments.

Before it starts the first rank, `horovodrun --gloo` imports TensorFlow in a process of its own,
only to ask whether Horovod was built with Gloo. The ranks find that out by themselves.
"""

from __future__ import annotations

import runpy

# What Horovod spawns imports this module again; there is nothing to do then.
if __name__ == "__main__":
    from horovod.common import util

    util.gloo_built = lambda **_: True
    runpy.run_module("horovod.runner.launch", run_name="__main__", alter_sys=False)
