"""What `%%distribute` costs, beside what it cannot do without; all figures from one run, medians and ratios.

    python benchmarks/distribute.py

1. A warm cell: a cell on living ranks over the time that its code takes there (aim: at most 50 ms more).
2. Cold start: `%%distribute -n 2` until `hvd.init()` is done and a cell can run, over `horovodrun --gloo -np 2`
   with a script that imports Horovod, calls `hvd.init()` and ends there (aim: at most 1.2 times as long).
3. `%hvd push` of 100 MB to 4 ranks, over copying them through a local socket once for each rank, all at the
   same time, into buffers that are there already (aim: at most twice as long).
4. `%load_ext jupyter_hvd` in a fresh process.
5. What a rank without work takes of a core: as part of Horovod, and when it has left it after a while.
6. A round trip: a call of all ranks that computes nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
MEGABYTES = 100
PUSH_RANKS = 4

from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

CELLS = {
    "a new line of Python": lambda number: f"value = {number}",
    "a new cell that uses an earlier one": lambda number: f"again = data.sum() + {number}",
    "a training loop, edited and run": lambda number: (
        f"for batch in batches:\n    step(batch)\nrounds = {number}"
    ),
    "a training loop, run again": lambda _: "for batch in batches:\n    step(batch)",
}
SETUP = """
import numpy as np
import tensorflow as tf

data = np.arange(1000.0)
model = tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(20,))])
optimizer = tf.keras.optimizers.SGD(0.1)
batches = tf.data.Dataset.from_tensor_slices(tf.ones((64, 20))).batch(32)


@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss
"""


def make_shell() -> InteractiveShell:
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_hvd")
    return shell


def run(shell: InteractiveShell, source: str) -> float:
    """Run a cell; its seconds."""
    started = time.perf_counter()
    result = shell.run_cell(source, store_history=True)
    result.raise_error()
    return time.perf_counter() - started


def warm_cells(shell: InteractiveShell, rounds: int) -> dict[str, float]:
    """For each kind of cell the median of what it costs above its code's own time, in milliseconds."""
    from jupyter_hvd.notebook import distribute

    own: list[float] = []
    judge = distribute.recover_from_run

    def keep(held, run, *rest):  # the time that the code itself took on the slowest rank
        own[:] = [max((getattr(r, "seconds", 0.0) for r in run.replies.values()), default=0.0)]
        return judge(held, run, *rest)

    distribute.recover_from_run = keep
    run(shell, SETUP)
    run(shell, "%%distribute\nfor batch in batches:\n    step(batch)\ndata")
    costs = {}
    for name, make in CELLS.items():
        run(shell, f"%%distribute\n{make(-1)}")
        samples = []
        for number in range(rounds):
            whole = run(shell, f"%%distribute\n{make(number)}")
            samples.append(1000 * (whole - own[0]))
        costs[name] = median(samples)
    distribute.recover_from_run = judge
    return costs


def cold_start(shell: InteractiveShell, rounds: int) -> tuple[float, float]:
    """Median seconds of a first cell on new ranks, and of horovodrun to the same point."""
    script = Path(tempfile.mkdtemp()) / "same_point.py"
    script.write_text(
        "import horovod.tensorflow as hvd\nhvd.init()\nprint(hvd.rank(), flush=True)\n"
    )
    command = [
        sys.executable,
        "-m",
        "horovod.runner.launch",
        "--gloo",
        "-np",
        "2",
        "-H",
        "localhost:2",
        sys.executable,
        str(script),
    ]
    ours, theirs = [], []
    for _ in range(rounds):
        shell.run_line_magic("hvd", "stop")
        ours.append(run(shell, "%%distribute -n 2\n1"))
        shell.run_line_magic("hvd", "stop")
        theirs.append(until_all_ranks(command))
    return median(ours), median(theirs)


def until_all_ranks(command: list[str]) -> float:
    """Seconds until both ranks have printed that they have joined."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        seen = set()
        for line in process.stdout:
            if "<stdout>" in line:
                seen.add(line[:3])
            if len(seen) == 2:
                break
        seconds = time.perf_counter() - started
        process.stdout.read()
    return seconds


RECEIVER = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
buffer = bytearray(int(sys.argv[2]))
connection.sendall(b"r")
while connection.recv(1) == b"g":
    view = memoryview(buffer)
    while view:
        view = view[connection.recv_into(view):]
    connection.sendall(b"d")
"""


def push(shell: InteractiveShell, rounds: int) -> tuple[float, float]:
    """Median seconds to push an array to all ranks, and to copy it through a socket for each."""
    import numpy as np

    size = MEGABYTES * 1_000_000
    shell.run_line_magic("hvd", "stop")
    run(shell, f"%%distribute -n {PUSH_RANKS}\n1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        receivers = [
            subprocess.Popen([sys.executable, "-c", RECEIVER, str(port), str(size)])
            for _ in range(PUSH_RANKS)
        ]
        connections = [server.accept()[0] for _ in receivers]
    for connection in connections:
        connection.recv(1)
    ours, theirs = [], []
    for number in range(rounds):
        array = np.full(size // 8, float(number))
        shell.user_ns["array"] = array
        started = time.perf_counter()
        shell.run_line_magic("hvd", "push array")
        ours.append(time.perf_counter() - started)
        theirs.append(copy_to_all(connections, memoryview(array).cast("B")))
    for connection in connections:
        connection.close()
    for receiver in receivers:
        receiver.wait()
    run(shell, f"%%distribute\nassert array[0] == array[-1] == {rounds - 1}")
    return median(ours), median(theirs)


def copy_to_all(connections: list[socket.socket], data: memoryview) -> float:
    def copy(connection: socket.socket) -> None:
        connection.sendall(b"g")
        connection.sendall(data)
        connection.recv(1)

    started = time.perf_counter()
    threads = [threading.Thread(target=copy, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started


LOAD = """
import time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
started = time.perf_counter()
shell.run_line_magic("load_ext", "jupyter_hvd")
print(time.perf_counter() - started)
"""


def load(rounds: int) -> float:
    """Median milliseconds that the extension takes to load."""
    return 1000 * median(
        float(subprocess.run([sys.executable, "-c", LOAD], capture_output=True, check=True).stdout)
        for _ in range(rounds)
    )


def idle(shell: InteractiveShell, rest_after: float, seconds: float = 20) -> float:
    """How much of a core the busiest of two ranks takes, in percent, that have nothing to do."""
    import psutil

    from jupyter_hvd.notebook import cluster

    kept, cluster.REST_AFTER = cluster.REST_AFTER, rest_after
    folder = Path(tempfile.mkdtemp())
    note = f"import os; open({str(folder)!r} + '/' + os.environ['HOROVOD_RANK'], 'w').write(str(os.getpid()))"
    run(shell, f"%%distribute -n 2\n{note}")
    cluster.REST_AFTER = kept
    ranks = [psutil.Process(int((folder / str(rank)).read_text())) for rank in range(2)]
    time.sleep(2)
    before = [sum(rank.cpu_times()[:2]) for rank in ranks]
    time.sleep(seconds)
    return max(
        100 * (sum(rank.cpu_times()[:2]) - b) / seconds
        for rank, b in zip(ranks, before, strict=True)
    )


def round_trip(shell: InteractiveShell, rounds: int) -> float:
    """Median milliseconds of a call of all ranks that computes nothing."""
    from jupyter_hvd.ranks import remote

    ranks = shell.magics_manager.registry["HvdMagics"].session.held.cluster
    samples = []
    for _ in range(rounds):
        started = time.perf_counter()
        ranks.run(remote.is_first_rank)
        samples.append(1000 * (time.perf_counter() - started))
    return median(samples)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    shell = make_shell()
    ours, theirs = cold_start(shell, max(3, arguments.rounds // 2))
    run(shell, "%%distribute -n 2\n1")
    at_work, at_rest = idle(shell, 1000), idle(shell, 0.5)
    warm = warm_cells(shell, 4 * arguments.rounds)
    called = round_trip(shell, 40 * arguments.rounds)
    pushed, copied = push(shell, 4 * arguments.rounds)
    shell.run_line_magic("hvd", "stop")
    figures = {
        "machine": f"{os.cpu_count()} cores, Python {platform.python_version()}",
        "warm_ms": warm,
        "round_trip_ms": called,
        "cold_start_s": {"distribute": ours, "horovodrun": theirs, "ratio": ours / theirs},
        "idle_percent": {"in_horovod": at_work, "at_rest": at_rest},
        "load_ms": load(arguments.rounds),
        "push_100_MB_to_4_s": {"push": pushed, "sockets": copied, "ratio": pushed / copied},
    }
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    print(f"\n{figures['machine']}")
    print(f"%load_ext jupyter_hvd: {figures['load_ms']:.1f} ms")
    print(f"an idle rank: {at_work:.1f} % of a core, at rest {at_rest:.1f} %")
    print(f"round trip to all ranks: {called:.1f} ms")
    for name, cost in warm.items():
        print(f"warm cell, {name}: {cost:.1f} ms over the code's own time (aim: 50)")
    print(
        f"cold start: {ours:.2f} s, horovodrun to the same point {theirs:.2f} s: {ours / theirs:.2f} times (aim: 1.2)"
    )
    print(
        f"push of {MEGABYTES} MB to {PUSH_RANKS} ranks: {pushed:.3f} s, "
        f"a socket each {copied:.3f} s: {pushed / copied:.2f} times (aim: 2)"
    )


if __name__ == "__main__":
    main()
