"""Places the ranks of a job: `python -m jupyter_hvd.launch.placement`, its orders on standard input.

On each host, or by mpirun, it starts an agent for each rank (`ranks/agent.py`), which learns from it what to run, and tells it
what that writes and how it ends. What it reports goes to standard output, one JSON object a line, as
`base.parse_report` reads it.

It gives nothing away. horovodrun writes the whole environment into the command line of a shell, which every user of
the machine can read. Here an agent gets the rank's environment over its standard input, by ssh or srun where it is on another
host, and one of mpirun's over a connection.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from horovod.runner.gloo_run import create_slot_env_vars

from .allocation import current_allocation
from .authentication import TOKEN_VARIABLE
from .base import (
    HOROVODRUN,
    LONGEST_LINE,
    LaunchSpec,
    exit_now,
    read_launch_spec,
    write_output,
    write_report,
)
from .heartbeat import (
    ADDRESS_VARIABLE,
    MESSAGES_VARIABLE,
    HeartbeatClient,
    HeartbeatServer,
    decode_message,
    encode_message,
)
from .host_checks import CHECK_VARIABLE, RemoteCommand, check_hosts
from .hosts import Host, LaunchError, address_of, hosts_of_ranks, is_here, is_local
from .mpi import OF_MPI, mpirun_command, mpirun_environment
from .rendezvous import Rendezvous, slots_of

#: Never a question on a terminal that nobody sees; a host whose key is not known is refused. One that has gone
#: without a word is noticed within eight seconds.
SSH = (
    *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
)
#: One task on one node of our own allocation, with all that the node has: the ranks share it.
SRUN = ("srun", "--quiet", "--nodes=1", "--ntasks=1", "--overlap", "--mem=0")
#: What starts a rank on its host.
AGENT = (sys.executable, "-P", "-m", "jupyter_hvd.ranks.agent")
#: Seconds for the other ranks to end when one has failed, before they are killed.
GRACE = 5.0
#: The longest message of an agent: each character of a line may take six.
LONGEST_MESSAGE = 8 * LONGEST_LINE
#: Seconds for what was said last to be heard, and for it to be passed on where the machine is slow.
OUTPUT_QUIET_SECONDS, OUTPUT_DRAIN_SECONDS = 1.0, 10.0
#: The exit code of a rank whose agent was lost, as ssh has it.
LOST = 255
#: Variables that are about this machine and mean nothing, or something else, on another.
OF_THIS_HOST = re.compile(
    r"SSH_\w+|SLURM_\w+|SLURMD_\w+|DISPLAY|WAYLAND_DISPLAY|XDG_\w+|DBUS_\w+|HOSTNAME|TMPDIR|OLDPWD|BASH_FUNC_.*"
)
#: By what Horovod's ranks agree and sum where mpirun starts them.
BY_MPI = {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}


def main() -> int:
    """Read the orders from standard input, run the ranks until they have ended, and return the exit code."""
    orders = read_launch_spec(sys.stdin.read())
    HeartbeatClient("launcher")
    return Placement(orders).run()


def hosts_granted(size: int) -> tuple[Host, ...]:
    """Return hosts with `size` slots from the allocation that Slurm has granted.

    Raises:
        LaunchError: there is none, or it is too small.
    """
    found = current_allocation()
    if found is None:
        raise LaunchError("Slurm has granted no allocation")
    return found.hosts_for(size)


def check_others(orders: LaunchSpec, others: Sequence[str], port: int) -> None:
    """Check that the other hosts can be reached and match this one; see `host_checks.check_hosts`.

    Args:
        port: the port on this machine to which the ranks, or their agents, will connect.
    """
    kernel = [orders.environment.get(name) for name in (ADDRESS_VARIABLE, MESSAGES_VARIABLE)]
    ends = [each.rpartition(":") for each in kernel if each is not None]
    check_hosts(
        others,
        lambda host, entry: remote_command(host, entry, orders),
        (orders.directory, *orders.files),
        ((orders.address, port), *((host, int(listens)) for host, _, listens in ends)),
        strict=orders.environment.get(CHECK_VARIABLE) != "0",
    )


def remote_command(host: str, entry: Sequence[str], orders: LaunchSpec) -> RemoteCommand:
    """Return the command, with its environment, that runs `entry` on another host.

    It runs in the root folder, so that nothing in a folder of the user's is imported by accident.
    """
    path = orders.environment.get("PYTHONPATH")  # where the package is found, which reads the rest
    by = by_srun if orders.launcher.remote_shell == "srun" else ssh_command
    return RemoteCommand(
        by(host, entry, path), {**os.environ, **({"PYTHONPATH": path} if path else {})}
    )


def ssh_command(host: str, entry: Sequence[str], pythonpath: str | None) -> tuple[str, ...]:
    """Return the ssh command that runs `entry` on another host."""
    there = f"cd / && exec {shlex.join(entry)}"
    if pythonpath:
        there = f"export PYTHONPATH={shlex.quote(pythonpath)} && {there}"
    return (*SSH, host, there)


def by_srun(host: str, entry: Sequence[str], pythonpath: str | None) -> tuple[str, ...]:
    """Return the srun command that runs `entry` on another node of this allocation."""
    names = ",".join(["PATH", "HOME", *(["PYTHONPATH"] if pythonpath else [])])
    return (*SRUN, f"--nodelist={host}", "--chdir=/", f"--export={names}", *entry)


class Placement:
    """The ranks that have been started, until the last of them has ended."""

    def __init__(self, orders: LaunchSpec) -> None:
        self._orders = orders
        self._news = threading.Condition()
        #: The host of each rank, as far as they are known; what Horovod's ranks are told beside their places.
        self._hosts: dict[int, str] = {}
        self._variables: Mapping[str, str] = {}
        self._codes: dict[int, int] = {}
        self._processes: list[subprocess.Popen[bytes]] = []
        self._threads: list[threading.Thread] = []
        self._stopped = False

    def run(self) -> int:
        """Start the ranks, wait for their end, and return the exit code: 0 if all end well, else 1.

        A failed rank ends the others, unless the orders say that they outlive it.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop_ranks)
        if self._orders.launcher.by_mpi:
            self._start_mpirun()
        else:
            self._start_agents()
        with self._news:
            while len(self._codes) < self._orders.size and not self._is_over():
                self._news.wait(0.5)  # so that a signal is heard
        self._end_all()
        return int(len(self._codes) < self._orders.size or self._has_failed())

    def _has_failed(self) -> bool:
        """Whether a rank has failed, or the placement has been stopped."""
        return self._stopped or any(self._codes.values())

    def _is_over(self) -> bool:
        """Whether the remaining ranks should be ended."""
        return self._stopped if self._orders.survivors_continue else self._has_failed()

    def _stop_ranks(self, *_: object) -> None:
        """Make the placement end its ranks; a handler of signals, too."""
        self._stopped = True

    def _start_agents(self) -> None:
        """Start an agent for each rank, here or by a command that reaches its host."""
        orders = self._orders
        hosts = orders.hosts or hosts_granted(orders.size)
        names = hosts_of_ranks(hosts)[: orders.size]
        others = [host.name for host in hosts if not is_local(host.name)]
        addresses = {address_of(name) for name in others}
        store = Rendezvous((orders.address, orders.port), addresses, slots_of(names))
        check_others(orders, others, store.port)
        self._variables = store.variables
        self._hosts = dict(enumerate(names))
        for rank, name in self._hosts.items():
            here = name not in others
            reach = (
                RemoteCommand(AGENT, os.environ) if here else remote_command(name, AGENT, orders)
            )
            process = self._start_process(reach, subprocess.PIPE, subprocess.PIPE)
            self._start_thread(self._follow_agent, process, rank, here)
            assert process.stderr is not None
            self._start_thread(self._forward_launcher_output, process.stderr, rank)

    def _start_mpirun(self) -> None:
        """Let mpirun start the agents, which connect to this process."""
        orders = self._orders
        self._variables = BY_MPI
        port = self._listen_for_agents().port
        check_others(orders, [host.name for host in orders.hosts if not is_local(host.name)], port)
        environment = mpirun_environment(os.environ, orders.environment)
        entry = [*AGENT, f"{orders.address}:{port}"]
        command = mpirun_command(orders.size, orders.hosts, entry, environment)
        reach = RemoteCommand(tuple(command), environment)
        process = self._start_process(reach, subprocess.DEVNULL, subprocess.STDOUT)
        self._start_thread(self._follow_mpirun, process)

    def _start_process(
        self, reach: RemoteCommand, stdin: int, stderr: int
    ) -> subprocess.Popen[bytes]:
        """Start a command whose standard output is a pipe; it is ended together with the placement."""
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            reach.command,
            env=reach.environment,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self._processes.append(process)
        return process

    def _start_thread(self, function: Callable[..., None], *args: Any) -> None:
        """Run a function in a daemon thread that the placement waits for at its end."""
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _end_all(self) -> None:
        """Wait for the processes to end, at most `GRACE` seconds, then kill them; if a rank failed, terminate them first."""
        deadline = time.monotonic() + GRACE
        for process in self._processes:
            if self._has_failed():
                process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()
        for thread in self._threads:
            thread.join(max(0.0, deadline + OUTPUT_DRAIN_SECONDS - time.monotonic()))

    # Agents, and what they say

    def _follow_agent(self, process: subprocess.Popen[bytes], rank: int, is_local: bool) -> None:
        """Send an agent its orders over standard input, and forward its messages until it ends."""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError, ValueError):
            process.stdin.write(encode_message(self._rank_settings(rank, is_local)))
            process.stdin.flush()
            while line := process.stdout.readline(LONGEST_MESSAGE):
                message = decode_message(line)
                if message is None:  # a shell greets
                    write_output(rank, "stdout", decode_line(line))
                else:
                    self._take_message(rank, message)
        code = process.wait() or LOST
        self._note_end(rank, code if code >= 0 else 128 - code)

    def _follow_mpirun(self, process: subprocess.Popen[bytes]) -> None:
        """Forward mpirun's own output; when it has ended, stop the placement if some ranks have not."""
        assert process.stdout is not None
        self._forward_launcher_output(process.stdout, None)
        process.wait()
        with self._news:
            if not self._news.wait_for(
                lambda: len(self._codes) == self._orders.size, OUTPUT_QUIET_SECONDS
            ):
                self._stopped = True

    def _forward_launcher_output(self, stream: IO[bytes], rank: int | None) -> None:
        """Report the output of a command that starts agents, without mpirun's notes on a failed rank."""
        with suppress(OSError, ValueError):
            for line in stream:
                if rank is not None or not self._has_failed():
                    write_output(rank, "stderr", decode_line(line))

    def _listen_for_agents(self) -> HeartbeatServer:
        """Listen for the agents that mpirun starts; once all are connected, each gets its orders."""
        orders = self._orders
        names = {f"rank {rank}": rank for rank in range(orders.size)}

        def take_message(name: str, message: Mapping[str, Any]) -> None:
            rank = names[name]
            self._take_message(rank, message)
            if "host" in message and rank not in self._hosts:
                self._hosts[rank] = str(message["host"])
                for each, member in list(listening.members.items()):
                    if len(self._hosts) == orders.size:
                        here = is_here(member.connection.getpeername()[0])
                        listening.send(each, self._rank_settings(names[each], here))

        def note_lost() -> None:
            for name in list(listening.gone):
                self._note_end(names[name], LOST)

        listening = HeartbeatServer(
            *(orders.address, orders.port, note_lost, names),
            token=orders.environment[TOKEN_VARIABLE],
            heard=take_message,
            longest=LONGEST_MESSAGE,
        )
        return listening

    def _take_message(self, rank: int, message: Mapping[str, Any]) -> None:
        """Handle a message of an agent: the exit code of its rank, or a line of output."""
        match message:
            case {"exit": int(code)}:
                self._note_end(rank, code)
            case {"stream": str(stream), "text": str(text)}:
                write_output(rank, stream, text)

    def _rank_settings(self, rank: int, is_local: bool) -> Mapping[str, object]:
        """Return a rank's orders: module, arguments, environment, folder, whether to fork.

        Args:
            is_local: whether it runs on this machine.
        """
        orders, launcher = self._orders, self._orders.launcher
        travels = {
            name: value
            for name, value in orders.environment.items()
            if (is_local or not OF_THIS_HOST.fullmatch(name))
            and not (launcher.by_mpi and OF_MPI.fullmatch(name))
        }
        slot = slots_of([self._hosts[each] for each in range(orders.size)])[rank]
        place = {name: str(value) for name, value in create_slot_env_vars(slot).items()}
        return {
            "module": orders.module,
            "arguments": orders.arguments,
            "environment": {**travels, **self._variables, **place},
            "directory": orders.directory,
            # A scheduler's ranks are its own processes, with its limits.
            "fork": is_local and launcher == HOROVODRUN,
        }

    def _note_end(self, rank: int, code: int) -> None:
        """Record how a rank ended, at the first report of it."""
        with self._news:
            if rank not in self._codes:
                if code:
                    write_report({"rank": rank, "exit": code})
                self._codes[rank] = code
                self._news.notify_all()


def decode_line(line: bytes) -> str:
    """Decode a line of output, and strip its line ending."""
    return line.decode(errors="replace").rstrip("\r\n")


if __name__ == "__main__":
    try:
        exit_now(main())
    except LaunchError as error:
        write_output(None, "stderr", str(error))
        exit_now(1)
