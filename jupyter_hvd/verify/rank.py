"""One rank of a verification: a rank of a batch job that carries the probe.

`python -m jupyter_hvd.verify.rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`
"""

from __future__ import annotations

import sys

from ..rank.batch import hold_lifeline, run
from .probe import from_environment

if __name__ == "__main__":
    hold_lifeline()
    probe = from_environment()
    sys.exit(run(sys.argv[1:], None if probe is None else probe.finish))
