"""How a fork of `forkserver.py` exits."""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import sys
from contextlib import suppress

#: What keeps text or bytes back before it writes them.
WRITERS = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)


class ForkExit:
    """The end of a process as Python's own, but for taking apart the modules that it shares with its server.

    Before that is done to TensorFlow, the system copies the pages that it lies in: as much work as a short training. So
    they are left as they are. This is made before anything is imported, and so called last: when threads have been
    waited for, and all that is registered with `atexit` has run. What the program has made goes as far as its
    names alone hold it, files that are still open write what they have kept back, and the process ends.

    Attributes:
        code: to end with; None for Python's own end, as of a server, or where an error is to be reported.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        atexit.register(self._end_process)

    def _end_process(self) -> None:
        """Collect garbage and flush files, then end the process; Python's own exit is skipped."""
        if self.code is None:
            return
        gc.collect()
        vars(sys.modules["__main__"]).clear()
        gc.collect()
        files = [thing for thing in gc.get_objects() if issubclass(type(thing), WRITERS)]
        for file in (*files, sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # closed, by the program or at the other end
                file.flush()
        ctypes.CDLL(None).fflush(None)
        os._exit(self.code & 0xFF)
