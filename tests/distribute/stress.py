"""Rounds of start, cells, requests, faults and stop in one kernel: each must be answered, and no fault costs the ranks.

    python tests/distribute/stress.py --rounds 25 --beside 6

An answer was once lost in about one of two thousand requests, and beside other work one of thirteen faults ended the
ranks; by this, `make test` would not see it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.distribute.conftest import Notebook, left
from tests.distribute.test_faults import HOROVOD, WAIT

#: Requests as a cell makes them, as fast as they can be made.
REQUESTS = """
from jupyter_hvd.ranks import remote
magics = get_ipython().magics_manager.registry['HvdMagics']
runs = [magics.session.held.cluster.run(remote.status_row) for _ in range({requests})]
print(sum(len(run.replies) == 2 and not run.stopped for run in runs), 'answered')
"""


#: Ranks that wait for one another, until they are interrupted and join Horovod anew.
FAULTS = (
    (
        "TimeoutError",
        f"%%distribute --timeout 1\n{HOROVOD}if hvd.rank() == 0:\n    {WAIT}"
        "else:\n    hvd.broadcast(tf.constant(1), 0, name='other')\n",
    ),
    ("ZeroDivisionError", f"%%distribute\n{HOROVOD}if hvd.rank() == 1:\n    1 / 0\n{WAIT}"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cells", type=int, default=20, help="cells in a round")
    parser.add_argument("--requests", type=int, default=400, help="requests in a round")
    parser.add_argument("--faults", type=int, default=4, help="faults in a round")
    parser.add_argument("--beside", type=int, default=0, help="processes that compute meanwhile")
    arguments = parser.parse_args()
    busy = [sys.executable, "-c", "while True: pass"]
    beside = [subprocess.Popen(busy) for _ in range(arguments.beside)]
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
            pids = notebook.rank_pids()
            for fault in range(arguments.faults):
                name, cell = FAULTS[fault % 2]
                error = notebook.run(cell).error
                assert error is not None
                assert error["ename"] == name, error
                assert notebook.rank_pids() == pids, "a fault has ended the ranks"
            before = notebook.processes()
            notebook.good("%hvd stop")
            remaining = left(before)
            print(
                f"round {number}: ready after {ready:.1f} s, slowest cell until now {slowest:.2f} s, "
                f"all of {arguments.cells} cells and {arguments.requests} requests answered, "
                f"{arguments.faults} faults survived, "
                f"{len(remaining)} processes left",
                flush=True,
            )
            assert not remaining
    finally:
        notebook.close()
        for process in beside:
            process.kill()
    print(f"{arguments.rounds} rounds, no answer and no rank lost")


if __name__ == "__main__":
    main()
