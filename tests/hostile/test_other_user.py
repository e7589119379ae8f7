"""Another user of the machine looks for the secrets of a job, and tries to be one of its ranks."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import psutil
import pytest
import zmq
from jupyter_client.session import Session

from jupyter_hvd.launch.heartbeat import MESSAGES_VARIABLE
from jupyter_hvd.notebook.rank_messages import RankMessages
from jupyter_hvd.ranks.messages import Messages, derive_key, open_socket

from .conftest import Aftermath
from .other_user import NOBODY, joining, search
from .test_jobs import SECRET, begun, job, of_the_job, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("root"),
]

WALKED = ("/dev/shm", "/run")
MEMORY = Path("/dev/shm")
SLEEP = "import time; time.sleep(600)"
TALKATIVE = """\
import socket, sys
secret = sys.stdin.buffer.read()
server = socket.create_server(("127.0.0.1", 0))
print("there", flush=True)
while True:
    with server.accept()[0] as client:
        client.sendall(secret)
"""
#: A kernel's end of a job's connections whose token is in its command line, and which asks nobody for a user id.
CARELESS = """\
import sys, time
from jupyter_hvd.launch import heartbeat
heartbeat.is_own = lambda *_: None
listening = heartbeat.HeartbeatServer("127.0.0.1", 0, lambda: None, ["rank 0", "rank 1"])
listening.token = sys.argv[1]
print(listening.port, flush=True)
while True:
    listening.send("rank 1", {"connection": "the kernel's"})
    time.sleep(0.05)
"""


@pytest.fixture
def open_folder(aftermath: Aftermath, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that every user can look into, as `/tmp` and most projects' are; the test's temporary files lie there, too."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        aftermath.temporary = folder
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield folder
        aftermath.until_gone()


# What can be found


def listens(pid: int) -> set[int]:
    """The ports on which a process listens; none if it has ended."""
    try:
        connections = psutil.Process(pid).net_connections("inet")
    except psutil.Error:
        return set()
    return {c.laddr.port for c in connections if c.status == psutil.CONN_LISTEN}


def own_ports() -> set[int]:
    """The ports on which this process and all that it has started listen."""
    this = psutil.Process()
    return set().union(*(listens(p.pid) for p in (this, *this.children(recursive=True))))


@contextmanager
def running(
    *words: str, environment: Mapping[str, str] | None = None, **options: Any
) -> Iterator[Any]:
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, **options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def named_file(folder: Path, name: str, text: str = "", mode: int = 0o644) -> Iterator[None]:
    file = folder / name
    file.write_text(text)
    file.chmod(mode)
    try:
        yield
    finally:
        file.unlink()


@contextmanager
def talkative(secret: str) -> Iterator[None]:
    """A socket on the loopback interface that tells everybody."""
    told, tell = os.pipe()
    os.write(tell, secret.encode())
    os.close(tell)
    with running(sys.executable, "-c", TALKATIVE, stdin=told) as process:
        os.close(told)
        assert process.stdout.readline() == b"there\n"
        yield


LEAKS: dict[str, Callable[[str, Path], Any]] = {
    "a command line": lambda secret, _: running(sys.executable, "-c", SLEEP, secret),
    "an environment that others can read": lambda secret, _: running(
        *("/usr/bin/python3", "-I", "-c", SLEEP),
        environment={"TOKEN": secret},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
    ),
    "a file name": lambda secret, _: named_file(MEMORY, f"jupyter-hvd-{secret}-x", mode=0o600),
    "a file that others can read": lambda secret, folder: named_file(folder, "token", secret),
    "a socket": lambda secret, _: talkative(secret),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(open_folder: Path, leak: str) -> None:
    """The search finds a secret that was put into"""
    secret = secrets.token_hex(32)
    with LEAKS[leak](secret, open_folder):
        found = search({"planted": secret}, [open_folder, *WALKED], own_ports())["found"]
    assert {name for name, _ in found} == {"planted"}
    assert not search({"planted": secret}, [open_folder, *WALKED], own_ports())["found"]


def secrets_inside(aftermath: Aftermath) -> dict[str, str]:
    """The secrets of a running job, as its own processes have them."""
    found = {"of the user": SECRET}
    for process in of_the_job(aftermath):
        environment = process.environ()
        if "JUPYTER_HVD_TOKEN" in environment:
            found["token"] = environment["JUPYTER_HVD_TOKEN"]
    return found


def test_no_secret_of_a_job(open_folder: Path, aftermath: Aftermath) -> None:
    """The secrets of `jupyter hvd run` are searched in all that another user can read, from its start on"""
    aftermath.tries = 0
    with job(open_folder):
        both_run = False
        while not both_run:
            both_run = begun(
                open_folder
            )  # once more when both run: a search may take longer than a start
            inside = secrets_inside(aftermath)
            result = search(inside, [open_folder, *WALKED], own_ports())
            assert not result["found"]
            aftermath.tries += result["read"]
    assert set(inside) == {"of the user", "token"}


@contextmanager
def living_ranks() -> Iterator[Any]:
    """Two ranks as `%%distribute` has them, while they start."""
    from jupyter_hvd.launch.rank_placement import place_ranks
    from jupyter_hvd.notebook.cluster import Cluster
    from jupyter_hvd.notebook.rank_processes import PRELOADED
    from jupyter_hvd.ranks.forks import ForkServerCache

    forks = ForkServerCache(PRELOADED)
    ranks = Cluster(place_ranks(2), forks)
    try:
        yield ranks
    finally:
        ranks.stop()
        forks.end_servers()


def test_no_secret_of_living_ranks(open_folder: Path, aftermath: Aftermath) -> None:
    """The secrets of `%%distribute` are searched while its ranks start, and while values are pushed to them"""
    from jupyter_hvd.notebook.transfer import push_values
    from jupyter_hvd.ranks.paths import AccessPath
    from jupyter_hvd.ranks.serialization import pack_value

    aftermath.tries = 0
    with living_ranks() as ranks, ExitStack() as kept:
        starting = threading.Thread(target=ranks.wait_ready, args=(lambda *_: None,))
        starting.start()
        kept.callback(starting.join)
        token = ranks._heartbeats.token
        keys = ("signatures", "encryption")
        inside = {"token": token, **{name: derive_key(token, name).decode() for name in keys}}

        def check(ports: Collection[int]) -> None:
            result = search(inside, [open_folder, *WALKED], ports)
            assert not result["found"]
            aftermath.tries += result["read"]

        while starting.is_alive():
            check(listens(os.getpid()))
        assert ranks.ready
        value = {AccessPath("large"): pack_value(np.zeros(2**24), None)}
        pushing = threading.Thread(target=lambda: [push_values(ranks, value) for _ in range(10)])
        pushing.start()
        kept.callback(pushing.join)
        while pushing.is_alive():
            check(own_ports())


# What can be joined


def test_a_careless_kernel_is_joined(aftermath: Aftermath) -> None:
    """The attack gets what a kernel tells a rank where the token can be read and no user id is asked for"""
    with running(sys.executable, "-c", CARELESS, secrets.token_hex(32)) as careless:
        port = int(careless.stdout.readline())
        with joining([port]) as result:
            time.sleep(5)
    assert result["received"]
    aftermath.tries = result["tried"]


def test_nobody_else_joins_living_ranks(open_folder: Path, aftermath: Aftermath) -> None:
    """Another user tries to be a rank of `%%distribute` while TensorFlow is imported"""
    with living_ranks() as ranks, joining([ranks._heartbeats.port], open_folder) as result:
        ranks.wait_ready(lambda *_: None)
        pids = [ranks.rank_report(rank)["pid"] for rank in (0, 1)]
        assert [ranks.run(os.getpid).replies[rank] for rank in (0, 1)] == pids
        assert ranks._messages.ready == {0, 1}
    assert result["tried"]
    assert not result["received"]
    aftermath.tries = result["tried"]


@pytest.mark.parametrize("token", ["guessed", "right"])
def test_messages_need_the_token(token: str) -> None:
    """A message to the kernel with another key is not read"""
    shown: SimpleQueue[Any] = SimpleQueue()
    listening = RankMessages("127.0.0.1", 0, "right", shown.put)
    socket = open_socket(zmq.DEALER, token)
    socket.identity = b"0"
    sender = Messages(socket, token, lambda *_: None)
    socket.connect(f"tcp://{listening.variables[MESSAGES_VARIABLE]}")
    sender.send_data("stream", b"any")
    try:
        if token == "right":
            assert shown.get(timeout=20).kind == "stream"
        else:
            with pytest.raises(Empty):
                shown.get(timeout=2)
    finally:
        sender.stop()
        listening.close()


def test_a_forged_signature() -> None:
    """A message that is encrypted and signed with another key is not read"""
    shown: SimpleQueue[Any] = SimpleQueue()
    listening = RankMessages("127.0.0.1", 0, "right", shown.put)
    socket = open_socket(zmq.DEALER, "right")
    socket.identity = b"0"
    socket.connect(f"tcp://{listening.variables[MESSAGES_VARIABLE]}")
    for key in (b"another", derive_key("right", "signatures")):
        session = Session(key=key)
        session.send(socket, "stream", {"key": key.decode()})
    assert shown.get(timeout=20).content["key"] != "another"
    assert shown.empty()
    socket.close()
    listening.close()


PROGRAM = """\
import tensorflow as tf
x = tf.random.normal((64, 4))
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
model.fit(x, x[:, :1], epochs=2, verbose=0)
print("trained")
"""


@pytest.mark.parametrize("options", [[], ["--elastic", "--min", "2"]], ids=["plain", "elastic"])
def test_nobody_else_ends_a_job(
    open_folder: Path, aftermath: Aftermath, options: list[str]
) -> None:
    """Another user tries to join `jupyter hvd run`, which ends well all the same"""
    (open_folder / "train.py").write_text(PROGRAM)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", "run", "train.py", "-n", "2", *options],
        cwd=open_folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_for(lambda: listens(process.pid))
    with joining(sorted(listens(process.pid)), open_folder) as result:
        said, _ = process.communicate()
    assert process.returncode == 0, said
    assert "trained" in said
    assert result["tried"]
    assert not result["received"]
    aftermath.tries = result["tried"]
