"""Two hosts, as two network namespaces with an sshd each, made and removed here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from .hosts import HOSTS, cable, command_lines, printed, sh

pytestmark = pytest.mark.slow

SECRET = "secret-that-nobody-else-may-read"
TRAIN = """%%distribute
import horovod.tensorflow as hvd
print('sum', int(hvd.allreduce(tf.constant(1), op=hvd.Sum)), 'on', os.environ['HOROVOD_CROSS_SIZE'], 'hosts')
"""


def token_of(processes: list[psutil.Process]) -> str:
    """What proves that a process belongs to the job."""
    environments = (process.environ() for process in processes)
    return next(e["JUPYTER_HVD_TOKEN"] for e in environments if "JUPYTER_HVD_TOKEN" in e)


@pytest.mark.long
def test_training_across_two_hosts_and_the_loss_of_one(
    two_hosts: Path, open_notebook: Callable[..., Any], after: Any, fault_reported: Any
) -> None:
    notebook = open_notebook(
        PATH=f"{two_hosts / 'bin'}:{os.environ['PATH']}",
        SECRET_OF_MINE=SECRET,
        JUPYTER_TOKEN=SECRET,
    )
    hosts = ",".join(f"{address}:1" for address in HOSTS.values())
    notebook.good(
        "import os\nimport numpy as np\nimport tensorflow as tf\n"
        "x = np.linspace(0, 1, 512, dtype='float32')[:, None]\ny = 3 * x + 1\n"
    )
    notebook.good(
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])\n"
        "model.compile(optimizer=tf.keras.optimizers.Adam(0.05), loss='mse')"
    )
    started = time.monotonic()
    result = notebook.good(
        f"%%distribute -H {hosts}\nhistory = model.fit(x, y, batch_size=32, epochs=8, verbose=0)"
    )
    print(f"first cell on two hosts: {time.monotonic() - started:.1f} s")
    assert "ran first: In[1], In[2]" in result.shown
    notebook.good(
        "assert history.history['loss'][-1] < 0.2 * history.history['loss'][0], history.history"
    )
    assert "sum 2 on 2 hosts" in notebook.good(TRAIN).stdout
    before = notebook.processes()

    message = notebook.begin(
        "%%distribute\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    )
    notebook.finish(message, until=lambda r: "begun" in r.stdout)
    # Both hosts share this machine's list of processes.
    lines = command_lines()
    assert sum("jupyter_hvd.ranks.notebook_rank" in line for line in lines) >= 2
    for secret in (SECRET, token_of(before)):
        assert not [line for line in lines if secret in line]
    second = list(HOSTS)[1]
    sh("ip", "link", "set", cable(second), "down")  # the cable is pulled
    result = notebook.finish(message)
    assert result.error is not None
    assert result.error["ename"] == "RankLost"
    assert "rank 1" in result.error["evalue"]
    assert second in result.error["evalue"]
    sh("ip", "link", "set", cable(second), "up")
    fault_reported(
        "a host is lost, its cable pulled", result.seconds, len(after(before, 15)), "lost"
    )
    assert "sum 2 on 2 hosts" in notebook.good(TRAIN).stdout
    notebook.good("%hvd stop")


#: Its epochs are so slow that it goes on for as long as hosts come and go. A callback of its own would let each start begin
#: at the first epoch.
ELASTIC = """
import os, time
import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.01), loss="mse")


def slow(a, b):
    time.sleep(0.1)
    return a, b


data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
data = data.map(lambda a, b: tf.numpy_function(slow, (a, b), (tf.float32, tf.float32)))
data = data.map(lambda a, b: (tf.ensure_shape(a, (None, 8)), tf.ensure_shape(b, (None, 1))))
os.write(1, f"SIZE {os.environ['HOROVOD_SIZE']}\\n".encode())
history = model.fit(data, epochs=200, verbose=2)
print("DONE", len(history.epoch), float(np.abs(model.get_weights()[0]).sum()))
"""


@pytest.mark.thorough
def test_an_elastic_job_loses_a_host_and_gets_it_back(two_hosts: Path, fault_reported: Any) -> None:
    (two_hosts / "train.py").write_text(ELASTIC)
    second = list(HOSTS)[1]
    hosts = ",".join(f"{address}:1" for address in HOSTS.values())
    command = ["run", "train.py", "-n", "2", "--elastic", "-H", hosts, "--log", "logs"]
    said: list[str] = []
    started, lost = time.monotonic(), 0.0
    with subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", *command],
        cwd=two_hosts,
        env={**os.environ, "PATH": f"{two_hosts / 'bin'}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        assert job.stdout is not None
        for line in job.stdout:
            said.append(line.rstrip())
            if line.startswith("Epoch 5/200") and not lost:
                sh("ip", "link", "set", cable(second), "down")  # the cable is pulled
                lost = time.monotonic()
            if "continues with 1 rank," in line:
                fault_reported(
                    "a host of an elastic job is lost",
                    time.monotonic() - lost,
                    0,
                    "from the state stored last",
                )
                sh("ip", "link", "set", cable(second), "up")
    told = "\n".join(said)
    assert job.returncode == 0, told
    assert [line for line in said if "SIZE" in line] == ["SIZE 2", "SIZE 1", "SIZE 2"], told
    epochs = [int(line.split()[1].partition("/")[0]) for line in said if "Epoch " in line]
    assert {*epochs} == set(range(1, 201))
    # Each start goes on behind the epochs that were completed.
    assert len(epochs) <= 200 + 2, epochs
    logs = printed(two_hosts / "logs")
    first, last = (
        line.partition("DONE ")[2] for log in logs for line in log.splitlines() if "DONE" in line
    )
    assert first == last
    assert first.startswith("200 ")
    print(f"the whole of it: {time.monotonic() - started:.0f} s")
