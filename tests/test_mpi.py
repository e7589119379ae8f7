"""`--launcher mpirun`, what of it needs no MPI: refusals, command lines, places. With one: `distribute/test_mpirun.py`."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from horovod.runner.common.util.hosts import HostInfo, get_host_assignments

from jupyter_hvd.launch.authentication import TOKEN_VARIABLE, ClientHandshake
from jupyter_hvd.launch.base import JOB_VARIABLE, LaunchSpec
from jupyter_hvd.launch.heartbeat import connect_as, encode_message
from jupyter_hvd.launch.hosts import Host
from jupyter_hvd.launch.mpi import (
    ANY_MPI,
    horovod_has,
    mpirun_command,
    mpirun_environment,
    mpirun_version,
)
from jupyter_hvd.launch.placement import LOST, Placement
from jupyter_hvd.launch.rendezvous import slots_of
from jupyter_hvd.ranks.job_rank import require_all_ranks

SECRET = "secret-that-nobody-else-may-read"
without_mpi = pytest.mark.skipif(
    horovod_has(ANY_MPI), reason="the Horovod of this environment was built with MPI"
)


@without_mpi
def test_a_horovod_without_mpi_is_refused_by_the_way_out(hvd, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("print('ran')\n")
    done = hvd("run", "job.py", "-n", 2, "--launcher", "mpirun")
    assert done.returncode == 2
    assert "Horovod was built without MPI; `jupyter hvd install --mpi`" in done.stderr
    assert "ran" not in done.stdout


@without_mpi
def test_no_mpirun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert mpirun_version() is None


def test_the_command_line_names_variables_and_tells_no_value() -> None:
    own = {"PATH": "/bin", "PYTHONPATH": f"/{SECRET}"}
    ranks = {**own, TOKEN_VARIABLE: SECRET, "PASSWORD": SECRET}
    environment = mpirun_environment({JOB_VARIABLE: "job", "PATH": "/bin"}, ranks)
    hosts = (Host("a", 2), Host("b", 1))
    command = mpirun_command(3, hosts, ["python", "-m", "module"], environment)
    assert SECRET not in " ".join(command)
    assert command[command.index("--host") + 1] == "a:2,b:1"
    assert "PASSWORD" not in environment  # it goes to the ranks alone
    named = {command[at + 1] for at, word in enumerate(command) if word == "-x"}
    assert named == {JOB_VARIABLE, TOKEN_VARIABLE, "PATH", "PYTHONPATH"}


def test_what_the_user_sets_of_mpi_goes_before_what_is_set_here() -> None:
    listed = {
        "OMPI_MCA_mca_base_env_list": f"TOKEN={SECRET}"
    }  # mpirun writes it into ssh's command line
    ranks = {"OMPI_MCA_pml": "ucx", "OMPI_COMM_WORLD_RANK": "3", **listed}
    environment = mpirun_environment({}, ranks)
    assert SECRET not in str(environment)
    assert environment["OMPI_MCA_pml"] == "ucx"
    assert environment["OMPI_MCA_btl"] == "^openib"
    assert "OMPI_COMM_WORLD_RANK" not in environment  # of another mpirun, around this one


@pytest.mark.parametrize("hosts", [{"a": 2}, {"a": 1, "b": 1}, {"a": 2, "b": 1, "c": 3}])
def test_places_are_those_that_horovod_gives(hosts: dict[str, int]) -> None:
    size = sum(hosts.values())
    given = get_host_assignments([HostInfo(*host) for host in hosts.items()], size, size)
    assert slots_of([host for host, slots in hosts.items() for _ in range(slots)]) == given


def test_ranks_that_go_round_the_hosts() -> None:
    found = slots_of(["a", "b", "a"])
    assert [(s.local_rank, s.local_size, s.cross_rank, s.cross_size) for s in found] == [
        (0, 2, 0, 2),
        (0, 1, 1, 2),
        (1, 2, 0, 1),
    ]


@pytest.mark.parametrize(
    ("token", "who"),
    [
        ("guessed", {"rank": 0, "host": "x"}),
        (SECRET, {"rank": 7, "host": "x"}),
        (SECRET, {"rank": 0}),
        (None, {"rank": 0, "host": "x"}),
    ],
)
def test_a_stranger_is_sent_nothing(token: str | None, who: dict[str, object]) -> None:
    environment = {TOKEN_VARIABLE: SECRET, "PASSWORD": SECRET}
    listening = Placement(
        LaunchSpec("job", 1, (), "module", environment=environment)
    )._listen_for_agents()
    stranger = socket.create_connection(("127.0.0.1", listening.port), timeout=5)
    with stranger, stranger.makefile("rb") as lines:
        challenge = json.loads(lines.readline())
        answer = ClientHandshake(token, "rank").answer_challenge(challenge) if token else []
        stranger.sendall(json.dumps({**who, **answer} if answer else []).encode() + b"\n")
        assert lines.read() == b""
    listening.close()


def test_an_agent_receives_what_to_run() -> None:
    """One that knows the token, and is the only one of its name; the other's end is its rank's."""
    environment = {TOKEN_VARIABLE: SECRET, "PASSWORD": SECRET}
    placement = Placement(LaunchSpec("job", 2, (), "module", environment=environment))
    listening = placement._listen_for_agents()
    address = f"127.0.0.1:{listening.port}"
    first, lines = connect_as("rank 0", address, SECRET, {"host": "a"})
    second, _ = connect_as("rank 1", address, SECRET, {"host": "b"})
    with pytest.raises(ConnectionError):
        connect_as("rank 1", address, SECRET, {"host": "c"})
    orders = json.loads(lines.readline())
    assert orders["environment"]["PASSWORD"] == SECRET
    assert orders["environment"]["HOROVOD_CROSS_SIZE"] == "2"
    first.sendall(encode_message({"exit": 0}))
    second.shutdown(socket.SHUT_RDWR)
    with placement._news:
        assert placement._news.wait_for(lambda: len(placement._codes) == 2, 20)
    assert placement._codes == {0: 0, 1: LOST}
    listening.close()


def test_ranks_that_mpi_has_not_brought_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where mpirun is of another MPI than Horovod's: each would train alone, and say nothing."""
    monkeypatch.setenv("HOROVOD_SIZE", "2")
    require_all_ranks(1)  # by Gloo it is known otherwise
    monkeypatch.setenv("HOROVOD_CONTROLLER", "mpi")
    require_all_ranks(2)
    with pytest.raises(RuntimeError, match=r"2 ranks, of which Horovod sees 1.* install --mpi"):
        require_all_ranks(1)
