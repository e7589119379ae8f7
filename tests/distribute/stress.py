"""Rounds of start, cells, requests and stop in one kernel: every one of them must be answered.

    python tests/distribute/stress.py --rounds 25

An answer was once lost in about one of two thousand requests; by this, `make test` would not see it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from conftest import Notebook, left

#: Requests as a cell makes them, as fast as they can be made.
REQUESTS = """
from jupyter_hvd.rank import remote
magics = get_ipython().magics_manager.registry['HvdMagics']
runs = [magics.session.ranks.run(remote.where) for _ in range({requests})]
print(sum(len(run.replies) == 2 and not run.stopped for run in runs), 'answered')
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cells", type=int, default=20, help="cells in a round")
    parser.add_argument("--requests", type=int, default=400, help="requests in a round")
    arguments = parser.parse_args()
    notebook = Notebook(Path(tempfile.mkdtemp()))
    slowest = 0.0
    try:
        for number in range(1, arguments.rounds + 1):
            started = time.monotonic()
            notebook.good("%%distribute -n 2\ntotal = 0")
            ready = time.monotonic() - started
            for cell in range(arguments.cells):
                result = notebook.good(f"%%distribute\ntotal += {cell}\nprint(total)")
                slowest = max(slowest, result.seconds)
            answered = notebook.good(REQUESTS.format(requests=arguments.requests)).stdout
            assert answered == f"{arguments.requests} answered\n", answered
            before = notebook.processes()
            notebook.good("%hvd stop")
            remaining = left(before)
            print(
                f"round {number}: ready after {ready:.1f} s, slowest cell until now {slowest:.2f} s, "
                f"all of {arguments.cells} cells and {arguments.requests} requests answered, "
                f"{len(remaining)} processes left",
                flush=True,
            )
            assert not remaining
    finally:
        notebook.close()
    print(f"{arguments.rounds} rounds, no answer lost")


if __name__ == "__main__":
    main()
