"""The fault table, one test a row, with real kernels and real ranks.

In each: the user is told the truth, nothing hangs, no process is left, the
notebook's own state is untouched, and the next `%%distribute` works.
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_hvd.launch.addresses import PORTS_VARIABLE
from jupyter_hvd.launch.temporary_files import NOTES_VARIABLE

pytestmark = pytest.mark.slow

HOROVOD = "import horovod.tensorflow as hvd, tensorflow as tf, time, os, sys\n"
SUM = f"%%distribute\n{HOROVOD}print('sum', int(hvd.allreduce(tf.constant(1), op=hvd.Sum)))"
WAIT = "hvd.allreduce(tf.constant(1), name='later')\n"


@pytest.fixture
def ready(notebook: Any) -> Any:
    """The shared notebook, its ranks usable, with a variable of its own. They share nothing, as a cell asks Horovod first."""
    notebook.good("own = [1, 2, 3]; place = id(own)")
    assert "sum 2" in notebook.good(SUM).stdout
    notebook.good("%%distribute\nof_the_ranks = 7")
    return notebook


@pytest.fixture
def sharing(ready: Any) -> Iterator[Any]:
    """The notebook, for cells that train: their ranks share each batch, and are stopped in the end."""
    yield ready
    ready.good("%hvd stop")


def check_kept(notebook: Any, pids: list[int]) -> None:
    """The ranks live on, with what was on them."""
    assert notebook.rank_pids() == pids
    assert "kept 7" in notebook.good("%%distribute --no-deps\nprint('kept', of_the_ranks)").stdout
    check_afterwards(notebook)


def check_afterwards(notebook: Any) -> None:
    assert (
        "untouched"
        in notebook.good(
            "print('untouched' if own == [1, 2, 3] and id(own) == place else own)"
        ).stdout
    )
    assert "sum 2" in notebook.good(SUM).stdout


def gone(before: list[psutil.Process], after: Any) -> int:
    """How many of the processes of the ranks before a fault are left after it."""
    assert before
    return len(after(before))


def test_exception_while_others_wait(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    result = ready.run(f"%%distribute\n{HOROVOD}if hvd.rank() == 1:\n    1 / 0\n{WAIT}")
    assert result.error["ename"] == "ZeroDivisionError"
    assert (
        result.traceback.count("ZeroDivisionError") == 2
    )  # the head and the last line of one traceback
    assert "on rank 1" in result.traceback
    assert "line 4" in result.traceback
    assert "1 / 0" in result.traceback
    assert "rank 0 waited for others; the collective operation was aborted" in result.traceback
    assert "live on" in result.traceback
    fault_reported("exception on one rank, the other in an allreduce", result.seconds, 0)
    check_kept(ready, pids)


def test_exception_on_all_ranks(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    result = ready.run("%%distribute\nkept = 5\nundefined_name")
    assert result.error["ename"] == "NameError"
    assert "on ranks 0 and 1" in result.traceback
    assert "line 3" in result.traceback
    fault_reported("the same exception on all ranks (they live on)", result.seconds, 0)
    check_kept(ready, pids)


def test_rank_killed_while_busy(ready: Any, after: Any, fault_reported: Any) -> None:
    before, pids = ready.processes(), ready.rank_pids()
    message = ready.begin(f"%%distribute\n{HOROVOD}time.sleep(600)")
    time.sleep(1)
    psutil.Process(pids[1]).kill()
    result = ready.finish(message)
    assert result.error["ename"] == "RankLost"
    assert "rank 1" in result.error["evalue"]
    assert "signal 9" in result.error["evalue"]
    fault_reported("SIGKILL of a rank", result.seconds, gone(before, after), "lost")
    check_afterwards(ready)


def test_rank_killed_while_idle(ready: Any, after: Any, fault_reported: Any) -> None:
    before, pids = ready.processes(), ready.rank_pids()
    psutil.Process(pids[0]).kill()
    started = time.monotonic()
    status = ready.good("%hvd status")
    assert "signal 9" in status.stdout
    seconds = time.monotonic() - started
    result = ready.good(SUM)
    assert "rank 0 had gone" in result.shown
    assert "sum 2" in result.stdout
    fault_reported("SIGKILL of a rank between cells", seconds, gone(before, after), "lost")
    check_afterwards(ready)


@pytest.mark.parametrize(
    ("call", "name"),
    [("sys.exit(3)", "SystemExit"), ("os._exit(3)", "RankLost")],
    ids=["sys.exit", "os._exit"],
)
def test_exit(ready: Any, after: Any, fault_reported: Any, call: str, name: str) -> None:
    before, pids = ready.processes(), ready.rank_pids()
    result = ready.run(f"%%distribute\n{HOROVOD}if hvd.rank() == 1:\n    {call}\n{WAIT}")
    assert result.error["ename"] == name
    assert "rank 1" in result.traceback
    assert "3" in result.error["evalue"]
    if name == "SystemExit":
        fault_reported(f"`{call}` on one rank", result.seconds, 0)
        check_kept(ready, pids)
    else:
        fault_reported(f"`{call}` on one rank", result.seconds, gone(before, after), "lost")
        check_afterwards(ready)


@pytest.mark.long
def test_rank_that_stalls(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    message = ready.begin(
        f"%%distribute\n{HOROVOD}if hvd.rank() == 1:\n    time.sleep(600)\n{WAIT}"
    )
    result = ready.finish(message, until=lambda r: "no progress" in r.shown)
    assert re.search(r"^0 .*, line 5 +waits in allreduce of later", result.shown, re.MULTILINE)
    assert re.search(r"^1 .*, line 4 +sleeps", result.shown, re.MULTILINE)
    assert "Rank 0 waits for rank 1." in result.shown
    assert "line 4: time.sleep(600)" in result.shown
    told = result.seconds
    ready.interrupt()
    result = ready.finish(message)
    assert result.error["ename"] == "KeyboardInterrupt"
    assert "rank 1 was at In[" in result.traceback
    assert "line 4" in result.traceback
    assert "rank 0 waited for others; the collective operation was aborted" in result.traceback
    fault_reported("a rank that stalls", told, 0)
    check_kept(ready, pids)


@pytest.mark.long
def test_rank_that_is_stopped(ready: Any, after: Any, fault_reported: Any) -> None:
    """SIGSTOP, as a debugger or a full host does it: not even the lifeline answers."""
    before, pids = ready.processes(), ready.rank_pids()
    message = ready.begin("%%distribute\nprint('begun', flush=True)\nwhile True:\n    pass")
    ready.finish(message, until=lambda r: "begun" in r.stdout)
    psutil.Process(pids[1]).suspend()
    result = ready.finish(message, until=lambda r: "no progress" in r.shown)
    assert "Rank 1 does not answer" in result.shown
    told = result.seconds
    ready.interrupt()
    assert ready.finish(message).error["ename"] == "KeyboardInterrupt"
    fault_reported("a rank that is stopped (SIGSTOP)", told, gone(before, after), "lost")
    check_afterwards(ready)


#: The kernel's end of the messages closes.
CLOSED = "get_ipython().magics_manager.registry['HvdMagics'].session.held.cluster._messages.close()"


def test_messages_break_off(ready: Any, after: Any, fault_reported: Any) -> None:
    """A connection of messages ends, not the heartbeat connections: what was on its way is lost, so the ranks end."""
    before = ready.processes()
    started = time.monotonic()
    ready.good(CLOSED)
    remaining = gone(before, after)
    seconds = time.monotonic() - started
    assert "had gone" in ready.good(SUM).shown
    fault_reported("the connection of messages breaks", seconds, remaining, "lost")
    check_afterwards(ready)


def test_rank_that_never_comes(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    result = ready.run(f"%%distribute\n{HOROVOD}if hvd.rank() == 0:\n    {WAIT}")
    assert result.error["ename"] == "Deadlock"
    assert "rank 1 finished the cell while rank 0 still waits" in result.traceback
    fault_reported("a rank that ends the cell while others wait for it", result.seconds, 0)
    check_kept(ready, pids)


def test_ranks_in_different_operations(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    other = "else:\n    hvd.broadcast(tf.constant(1), 0, name='other')\n"
    cell = f"%%distribute --timeout 1\n{HOROVOD}if hvd.rank() == 0:\n    {WAIT}{other}"
    result = ready.run(cell)
    assert result.error["ename"] == "TimeoutError"
    assert "ranks 0 and 1 waited for others" in result.traceback
    fault_reported(
        "all ranks wait, in different operations, until `--timeout 1`", result.seconds, 0
    )
    check_kept(ready, pids)


def test_an_interrupt_that_is_lost(ready: Any) -> None:
    """Python ignores what is raised in a callback of the garbage collector, JAX's for one: the rank is interrupted again."""
    pids = ready.rank_pids()
    cell = (
        f"%%distribute --timeout 1\n{HOROVOD}import gc\n"
        "def long(phase, info):\n    gc.callbacks.remove(long)\n    time.sleep(600)\n"
        "gc.callbacks.append(long)\n"
        "gc.collect()\ntime.sleep(600)\n"
    )
    assert ready.run(cell).error["ename"] == "TimeoutError"
    check_kept(ready, pids)


def test_an_interrupt_after_the_cell(ready: Any) -> None:
    """What comes while a rank makes its answer is none of the cell's, and takes no answer with it."""
    pids = ready.rank_pids()
    cell = (
        "%%distribute\nimport signal\n"
        "class Late(Exception):\n"
        "    def __str__(self):\n        signal.raise_signal(signal.SIGINT)\n        return 'told'\n"
        "raise Late\n"
    )
    result = ready.run(cell)
    assert result.error["ename"] == "Late"
    assert "told" in result.traceback
    check_kept(ready, pids)


def test_horovod_shut_down_by_a_cell(ready: Any, fault_reported: Any) -> None:
    """What ends Horovod ends no rank."""
    pids = ready.rank_pids()
    result = ready.run(f"%%distribute\n{HOROVOD}hvd.shutdown()\n{WAIT}")
    assert result.error is not None
    assert "live on" in result.traceback
    fault_reported("a cell shuts Horovod down", result.seconds, 0)
    check_kept(ready, pids)


MODEL = """
import numpy as np, tensorflow as tf
tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01, momentum=0.9)
"""
DATA = """
x = np.random.rand(32, 3).astype('float32')
train = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(32).batch(4)
losses, stall = [], True
"""
TRAINING = """%%distribute
import os, time
for epoch in range(2):
    for a, b in train:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a) - b) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        losses.append(float(loss))
        if stall and epoch == 1 and os.environ.get('HOROVOD_RANK') == '1':
            raise ValueError('rank 1 breaks off')
"""
WEIGHTS = "print([float(v.numpy().sum()) for v in model.variables])"


@pytest.mark.long
def test_a_training_that_is_broken_off_goes_on(sharing: Any) -> None:
    """Ranks that share were broken off at different places: new ones go on with the weights that these had."""
    for cell in (MODEL, DATA):
        sharing.good(cell)
    began = sharing.good(WEIGHTS).stdout
    result = sharing.run(TRAINING)
    assert result.error["ename"] == "ValueError"
    assert "The ranks are restarted" in result.traceback
    assert "It goes on with the weights that the ranks had of `model`" in result.traceback
    assert sharing.good(f"%%distribute\n{WEIGHTS}").stdout != began
    sharing.good("stall = False")
    result = sharing.good(TRAINING)
    assert "ran first: In[" in result.shown
    # Batches of 4 have become batches of 8, of 32 rows.
    assert "2 epochs" in sharing.good("print(len(losses) // 4, 'epochs')").stdout
    check_afterwards(sharing)


FAULTS = """
import os, threading, time, _thread
def fault(kind, rank, seconds):
    \"\"\"What befalls one of the ranks some time from now, wherever it is then.\"\"\"
    if os.environ.get('HOROVOD_RANK') == str(rank):
        threading.Timer(seconds, _thread.interrupt_main).start() if kind == 'raises' else hangs.append(time.time() + seconds)
hangs = []
class Watch(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if hangs and time.time() > hangs[0]:
            hangs.clear()
            time.sleep(600)
"""
KINDS = {
    "fit": "model.fit(train, epochs=4000, verbose=0, callbacks=[Watch()])",
    "a tape": TRAINING.partition("\n")[2]
    .replace("range(2)", "range(4000)")
    .partition("        losses")[0]
    + "        Watch().on_train_batch_end(0)\n",
}
ENDS = {"fit": KINDS["fit"].replace("4000", "1"), "a tape": KINDS["a tape"].replace("4000", "1")}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_trainings_broken_off_at_any_time(open_notebook: Callable[..., Any], kind: str) -> None:
    """At random, `JUPYTER_HVD_BREAKS` times: new ranks train on as one."""
    notebook = open_notebook()
    notebook.good(
        "from jupyter_hvd.notebook import cluster, monitor\n"
        "cluster.ABORT_PATIENCE = monitor.ABORT_PATIENCE = 60"
    )
    for cell in (MODEL + "model.compile(optimizer, 'mse')\n", DATA, FAULTS):
        notebook.good(cell)
    notebook.good(f"%%distribute -n 2\n{ENDS[kind]}")
    draw = random.Random(kind)
    for _ in range(int(os.environ.get("JUPYTER_HVD_BREAKS", "4"))):
        what = draw.choice(["raises", "hangs"]), draw.randrange(2), draw.uniform(0, 2)
        result = notebook.run(f"%%distribute --timeout 6\nfault{what}\n{KINDS[kind]}")
        assert result.error is not None
        assert "The ranks are restarted" in result.traceback, (what, result.text)
        notebook.good(f"%%distribute\n{ENDS[kind]}")


def test_a_rank_is_killed_in_a_training(sharing: Any, after: Any, fault_reported: Any) -> None:
    """New ranks go on with the weights of those that were left; the notebook's are untouched until then."""
    ready = sharing
    for cell in (MODEL, DATA):
        ready.good(cell)
    ready.good("%hvd start --batch per-rank")
    before = ready.processes()
    weights = "float(np.abs(model.get_weights()[0]).sum())"
    dies = "os.kill(os.getpid(), 9)"
    step = f"        print('w', {weights}, flush=True)\n"
    cell = TRAINING.replace("raise ValueError('rank 1 breaks off')", dies) + step
    result = ready.run(cell)
    assert result.error["ename"] == "RankLost"
    assert "It goes on with the weights that the ranks had of `model`" in result.traceback
    *_, last = re.findall(r"^w (.*)$", result.stdout, re.MULTILINE)
    fault_reported(
        "SIGKILL of a rank that trains", result.seconds, gone(before, after), "weights are kept"
    )
    assert last not in ready.good(f"print({weights})").stdout
    result = ready.good(f"%%distribute\nprint('now', {weights})")
    assert "with the weights that the ranks before had: model" in result.shown
    assert f"now {last}" in result.stdout
    check_afterwards(ready)


def test_timeout(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    result = ready.run(f"%%distribute --timeout 1\n{HOROVOD}time.sleep(600)")
    assert result.error["ename"] == "TimeoutError"
    assert "usable" in result.traceback
    fault_reported("`--timeout 1` passes", result.seconds, 0)
    check_kept(ready, pids)


def test_timeout_in_a_cell_that_is_run_first(ready: Any) -> None:
    ready.good("import os, time\nif 'HOROVOD_RANK' in os.environ: time.sleep(600)\nslept = True")
    result = ready.run("%%distribute --timeout 1\nprint(slept)")
    assert result.error["ename"] == "TimeoutError"
    assert "a cell that this one needs failed" in result.traceback
    check_afterwards(ready)


def test_interrupt_leaves_usable_ranks(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    message = ready.begin("%%distribute\nprint('begun', flush=True)\nwhile True:\n    pass")
    ready.finish(message, until=lambda r: "begun" in r.stdout)
    started = time.monotonic()
    ready.interrupt()
    result = ready.finish(message)
    seconds = time.monotonic() - started
    assert result.error["ename"] == "KeyboardInterrupt"
    assert "usable" in result.traceback
    fault_reported("the stop button", seconds, 0)
    check_kept(ready, pids)


def test_interrupt_before_a_rank_has_begun(ready: Any) -> None:
    pids = ready.rank_pids()
    os.kill(pids[1], signal.SIGSTOP)
    try:
        message = ready.begin("%%distribute\nprint('begun', flush=True)\nwhile True:\n    pass")
        ready.finish(message, until=lambda r: "begun" in r.stdout)
        ready.interrupt()
        time.sleep(0.5)
    finally:
        os.kill(pids[1], signal.SIGCONT)
    result = ready.finish(message)
    assert result.error["ename"] == "KeyboardInterrupt"
    assert "usable" in result.traceback
    assert ready.rank_pids() == pids
    check_afterwards(ready)


def test_out_of_memory(ready: Any, fault_reported: Any) -> None:
    pids = ready.rank_pids()
    limit = (
        "import resource, psutil, numpy as np\n"
        "if hvd.rank() == 1:\n"
        "    used, before = psutil.Process().memory_info().vms, resource.getrlimit(resource.RLIMIT_AS)\n"
        "    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, before[1]))\n"
        "    try: huge = np.ones(2**32)\n"
        "    finally: resource.setrlimit(resource.RLIMIT_AS, before)\n"
    )
    result = ready.run(f"%%distribute\n{HOROVOD}{limit}{WAIT}")
    assert "MemoryError" in result.error["ename"]
    assert "on rank 1" in result.traceback
    assert "line 7" in result.traceback
    fault_reported("out of memory on one rank", result.seconds, 0)
    check_kept(ready, pids)


def test_kernel_restarted(ready: Any, after: Any, fault_reported: Any) -> None:
    before = ready.processes()
    started = time.monotonic()
    ready.restart()
    remaining = gone(before, after)
    assert "no ranks" in ready.good("%hvd status").stdout
    fault_reported("the kernel is restarted", time.monotonic() - started, remaining, "lost")
    ready.good("own = [1, 2, 3]; place = id(own)")
    check_afterwards(ready)


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("the ranks are placed", signal.SIGKILL),
        ("the ranks import TensorFlow", signal.SIGHUP),
        ("the ranks import TensorFlow", signal.SIGKILL),
        ("idle", signal.SIGTERM),
        # What each signal does is the same at each stage; the rest of the table now and then.
        *(
            pytest.param(stage, number, marks=pytest.mark.thorough)
            for stage, number in (
                ("the ranks are placed", signal.SIGTERM),
                ("the ranks are placed", signal.SIGHUP),
                ("the ranks import TensorFlow", signal.SIGTERM),
                ("idle", signal.SIGHUP),
                ("idle", signal.SIGKILL),
            )
        ),
    ],
)
@pytest.mark.long
def test_kernel_ended_by_a_signal(
    open_notebook: Callable[..., Any],
    after: Any,
    fault_reported: Any,
    number: signal.Signals,
    stage: str,
    tmp_path: Path,
) -> None:
    notebook = open_notebook(TMPDIR=str(tmp_path))
    message = notebook.begin("%%distribute -n 2\n1")
    if stage == "idle":
        notebook.finish(message)
    else:
        word = "placing" if "placed" in stage else "importing"
        notebook.finish(message, until=lambda result: word in result.shown)
    before = notebook.processes()
    started = time.monotonic()
    psutil.Process(notebook.pid).send_signal(number)
    remaining = gone(before, after)
    seconds = time.monotonic() - started
    while list(tmp_path.glob("jupyter-hvd-*")):
        assert time.monotonic() - started < 60
        time.sleep(0.05)
    fault_reported(f"{number.name} to the kernel: {stage}", seconds, remaining, "lost")


#: A step that TensorFlow compiles, by way of a temporary file, and results in a temporary folder.
TEMPORARY_FILES = """\
import pathlib, tempfile
import tensorflow as tf

@tf.function
def double(x):
    if tf.reduce_sum(x) > 0:
        x = x * 2
    return x

double(tf.ones(3))
results = tempfile.mkdtemp(prefix="results-")
pathlib.Path(results, "model").touch()
assert tempfile.gettempdir() == here
"""


@pytest.mark.long
def test_temporary_files_of_ended_ranks(open_notebook: Callable[..., Any], tmp_path: Path) -> None:
    """Ended ranks leave no file of TensorFlow's behind; the notebook still reads what they have written."""
    notebook = open_notebook(TMPDIR=str(tmp_path), PYTHONDONTWRITEBYTECODE="")
    notebook.good("import os, tempfile\nhere = tempfile.gettempdir()")
    notebook.good(f"%%distribute -n 2\n{TEMPORARY_FILES}")
    assert list(tmp_path.rglob("__autograph_generated_file*"))
    notebook.good("%hvd stop")
    assert not list(tmp_path.rglob("__*"))
    notebook.good("assert os.listdir(results) == ['model']")


def test_closed_outputs(ready: Any, fault_reported: Any) -> None:
    """A cell that closes standard output and error is told; the next ones work."""
    result = ready.run("%%distribute\nimport os\nos.close(1); os.close(2)")
    assert result.error is None
    assert "has closed the standard output" in result.text
    fault_reported("a cell closes the ranks' standard output", result.seconds, 0)
    for _ in range(3):
        check_afterwards(ready)


def test_a_flood_of_output(ready: Any, fault_reported: Any) -> None:
    """What a cell prints shows in that cell, all of it, and not in the next."""
    result = ready.run("%%distribute\nprint('y' * 10**8)")
    assert result.error is None
    assert result.stdout.count("y") == 10**8
    fault_reported("a cell prints 100 MB", 0.0, 0)
    assert "y" not in ready.good("%%distribute\nprint('next')").stdout
    check_afterwards(ready)


def private_folder(processes: list[psutil.Process]) -> Path:
    """The folder of a job, which its ranks are told of."""
    environments = (process.environ() for process in processes)
    return Path(next(e[NOTES_VARIABLE] for e in environments if NOTES_VARIABLE in e)).parent


def test_kernel_killed(ready: Any, after: Any, fault_reported: Any) -> None:
    before = ready.processes()
    folder = private_folder(before)
    assert folder.is_dir()
    message = ready.begin(f"%%distribute\n{HOROVOD}if hvd.rank() == 0:\n    {WAIT}time.sleep(600)")
    assert message
    time.sleep(1)
    started = time.monotonic()
    ready.kill()
    remaining = gone(before, after)
    deadline = time.monotonic() + 10  # the reaper removes it behind the last of the processes
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    seconds = time.monotonic() - started
    fault_reported("SIGKILL of the kernel, a cell running", seconds, remaining, "lost")
    ready.revive()
    ready.good("own = [1, 2, 3]; place = id(own)")
    check_afterwards(ready)


@pytest.mark.long
def test_two_notebooks(
    ready: Any, open_notebook: Callable[..., Any], after: Any, fault_reported: Any
) -> None:
    """The second notebook also may listen on few ports only, some of them taken."""
    # Below the ports that other notebooks draw; others on the machine may run this test.
    first = 4000 + os.getpid() % 100 * 40
    taken = [socket.create_server(("127.0.0.1", port)) for port in (first, first + 3)]
    ports = f"{first}-{first + 5}"
    second = open_notebook(JUPYTER_HVD_PORTS=ports)
    second.good("%%distribute -n 2\nmine = 'second'")
    ready.good("%%distribute\nmine = 'first'")
    both = second.begin("%%distribute\nimport time; time.sleep(1); print(mine)")
    result = ready.good("%%distribute\nimport time; time.sleep(1); print(mine)")
    assert "first" in result.stdout
    assert "second" in second.finish(both).stdout
    assert not set(second.rank_pids()) & set(ready.rank_pids())
    before = second.processes()
    second.good("%hvd stop")
    fault_reported("two notebooks with ranks at once (both work)", 0, gone(before, after))
    assert "first" in ready.good("%%distribute\nprint(mine)").stdout
    check_afterwards(ready)

    taken += [socket.create_server(("127.0.0.1", port)) for port in (first + 1, first + 2)]
    result = second.run("%%distribute\n1")
    for server in taken:
        server.close()
    assert f"{PORTS_VARIABLE}={ports}: 2 of these ports are free and 4 taken" in result.traceback
    fault_reported(
        "so many ports are taken that too few are left",
        result.seconds,
        len(second.processes()),
        "none yet",
    )
    second.good("%%distribute\n1")


@pytest.mark.parametrize("missing", ["tensorflow", "horovod"])
def test_something_missing(
    tmp_path: Path, open_notebook: Callable[..., Any], fault_reported: Any, missing: str
) -> None:
    second = open_notebook(python=environment_without(missing, tmp_path))
    result = second.run("%%distribute\n1")
    assert "is not installed here" in result.traceback
    assert "doctor" in result.traceback
    assert "File" not in result.traceback
    fault_reported(
        f"{missing} is not installed", result.seconds, len(second.processes()), "none yet"
    )


def environment_without(missing: str, folder: Path) -> str:
    """A virtual environment with everything that this one has but one package; its Python."""
    import subprocess
    import sysconfig

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    site = next((folder / "env").glob("lib/python*/site-packages"))
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.lower().startswith(missing):
            (site / entry.name).symlink_to(entry)
    return str(folder / "env" / "bin" / "python")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("-n 0", "at least one rank"),
        ("-n 1000", "exceed the limit"),
        ("-n two", "invalid int value"),
        ("-H nowhere", "name:slots"),
        ("--what", "unrecognized arguments"),
    ],
)
def test_wrong_arguments(ready: Any, fault_reported: Any, options: str, words: str) -> None:
    pids = ready.rank_pids()
    result = ready.run(f"%%distribute {options}\n1")
    assert words in result.text
    assert "File" not in result.traceback
    fault_reported(f"`{options}`", result.seconds, 0)
    assert ready.rank_pids() == pids
    check_afterwards(ready)


def test_cell_that_is_no_training(ready: Any, fault_reported: Any) -> None:
    result = ready.good("%%distribute\nprint('plain', 6 * 7)\n'value'")
    assert "plain 42" in result.stdout
    assert "'value'" in result.shown
    assert "[1] plain 42" in result.shown
    fault_reported("a cell that is no training (runs)", result.seconds, 0)
    check_afterwards(ready)


def test_refused_conversion(ready: Any, fault_reported: Any) -> None:
    ready.good("import tensorflow as tf")
    result = ready.run(
        "%%distribute\n"
        "x = tf.Variable(1.0)\n"
        "def loss(): return x * x\n"
        "opt = tf.keras.optimizers.SGD(0.1)\n"
        "strategy = tf.distribute.MultiWorkerMirroredStrategy()\n"
        "opt.minimize(loss, [x])\n"
    )
    assert result.error is not None
    assert "HVD" in result.traceback
    assert "line 5" in result.traceback
    assert "nothing was run" in result.traceback
    fault_reported("a conversion that is refused", result.seconds, 0)
    check_afterwards(ready)


@pytest.mark.long
def test_syntax_error(ready: Any, fault_reported: Any) -> None:
    result = ready.run("%%distribute\nx = 1\nx = = 2\n")
    assert result.error["ename"] == "SyntaxError"
    assert "line 3" in result.traceback
    fault_reported("a syntax error", result.seconds, 0)
    check_afterwards(ready)
