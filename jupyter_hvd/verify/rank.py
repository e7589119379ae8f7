"""One rank of a verification: a rank of a batch job that carries the probe.

`python -P -m jupyter_hvd.verify.rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..rank.batch import hold_lifeline, run
from .probe import from_environment

if __name__ == "__main__":
    hold_lifeline()
    probe = from_environment()
    program, status, original, *arguments = sys.argv[1:]
    # Its imports and its `__file__` belong to the copy that it works on.
    place = Path.cwd() / Path(original).name
    sys.exit(run([program, status, str(place), *arguments], probe.finish))
