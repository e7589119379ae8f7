"""One rank of a verification: a rank of a batch job that carries the probe.

`python -P -m jupyter_hvd.verify.rank PROGRAM STATUS_DIR ORIGINAL [ARGS]`
"""

from __future__ import annotations

import sys
from pathlib import Path

from ..rank.forks import run_forked


def main() -> int:
    """Run what the command line says, under the probe; the exit code."""
    from ..rank.batch import hold_lifeline, run
    from .probe import from_environment

    hold_lifeline()
    probe = from_environment()
    program, status, original, *arguments = sys.argv[1:]
    # Its imports and its `__file__` belong to the copy that it works on.
    place = Path.cwd() / Path(original).name
    return run([program, status, str(place), *arguments], probe.finish)


if __name__ == "__main__":
    code = run_forked("jupyter_hvd.verify.rank", sys.argv[1:])
    sys.exit(main() if code is None else code)
