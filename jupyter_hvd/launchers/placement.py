"""Places the ranks of a job: `python -m jupyter_hvd.launchers.placement`, its orders on standard input.

It does what `horovodrun --gloo` does, with Horovod's own assignment of slots and its store, but
gives nothing away. horovodrun writes the whole environment into the command line of a shell,
which every user of the machine can read; here a rank on this machine inherits its environment,
and one on another host reads it from the standard input of ssh or srun (`rank/remote_entry.py`). What it reports
goes to standard output, one JSON object a line, as `gloo.py` reads it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from horovod.runner.common.util.hosts import HostInfo, SlotInfo, get_host_assignments
from horovod.runner.gloo_run import create_run_env_vars, create_slot_env_vars

from .allocation import current_allocation
from .base import Orders
from .heartbeat import ADDRESS_VARIABLE, HeartbeatClient
from .host_checks import CHECK_VARIABLE, Reach, check_hosts
from .hosts import Host, LaunchError, address_of, interface_towards, is_local
from .placement_reports import Reports, exit_now, follow_process
from .rendezvous import Rendezvous

#: Never a question on a terminal that nobody sees; a host whose key is not known is refused. One that has gone
#: without a word is noticed within eight seconds.
SSH = (
    *("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=3"),
)
#: One task on one node of our own allocation, with all that the node has: the ranks share it.
SRUN = ("srun", "--quiet", "--nodes=1", "--ntasks=1", "--overlap", "--mem=0")
#: Seconds for the other ranks to end when one has failed, before they are killed.
GRACE = 5.0
#: Variables that are about this machine and mean nothing, or something else, on another.
OF_THIS_HOST = re.compile(
    r"SSH_\w+|SLURM_\w+|SLURMD_\w+|DISPLAY|WAYLAND_DISPLAY|XDG_\w+|DBUS_\w+|HOSTNAME|TMPDIR|OLDPWD|BASH_FUNC_.*"
)


@dataclass(frozen=True)
class RankCommand:
    """How one rank is started: its command, its environment, and what it reads from standard input."""

    slot: SlotInfo
    command: tuple[str, ...]
    environment: Mapping[str, str]
    orders: bytes = b""


def main() -> int:
    orders = read_orders(sys.stdin.read())
    HeartbeatClient("launcher")
    granted = orders.hosts or hosts_granted(orders.size)
    slots = get_host_assignments(
        [HostInfo(host.name, host.slots) for host in granted], orders.size, orders.size
    )
    others = [host.name for host in granted if not is_local(host.name)]
    store = Rendezvous((orders.address, orders.port), {address_of(n) for n in others}, slots)
    check_others(orders, others, store.port)
    commands = [command_for(slot, orders, store.port, slot.hostname in others) for slot in slots]
    return Placement(commands, orders.outlive).run()


def read_orders(text: str) -> Orders:
    fields = json.loads(text)
    fields["hosts"] = tuple(Host(**host) for host in fields["hosts"])
    fields["arguments"], fields["files"] = tuple(fields["arguments"]), tuple(fields["files"])
    return Orders(**fields)


def hosts_granted(size: int) -> tuple[Host, ...]:
    """The hosts of the allocation that Slurm has given the launcher.

    Raises:
        LaunchError: there is none, or it is too small.
    """
    found = current_allocation()
    if found is None:
        raise LaunchError("Slurm has granted no allocation")
    return found.hosts_for(size)


def check_others(orders: Orders, others: Sequence[str], port: int) -> None:
    """Make sure that the other hosts can be reached and are as this one, see `nodes.check_hosts`.

    Args:
        port: where the ranks will ask for one another here.
    """
    lifeline, _, listens = orders.environment[ADDRESS_VARIABLE].rpartition(":")
    check_hosts(
        others,
        # Not in a folder of the user's: what lies there is not to be imported.
        lambda host, entry: remote_command(host, entry, "/", orders),
        (orders.directory, *orders.files),
        ((orders.address, port), (lifeline, int(listens))),
        strict=orders.environment.get(CHECK_VARIABLE) != "0",
    )


def remote_command(host: str, entry: Sequence[str], directory: str, orders: Orders) -> Reach:
    """How `entry` is run on another host, in a directory."""
    path = orders.environment.get("PYTHONPATH")  # where the package is found, which reads the rest
    by = by_srun if orders.reach == "srun" else by_ssh
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    return Reach(by(host, entry, directory, path), environment)


def command_for(slot: SlotInfo, orders: Orders, port: int, remote: bool) -> RankCommand:
    """How the rank of a slot is started here, or on another host."""
    rank = [sys.executable, "-P", "-m", orders.module, *orders.arguments]
    horovod = horovod_variables(slot, orders.address, port)
    environment = {**orders.environment, **horovod}
    if not remote:
        given = {
            "HOROVOD_GLOO_IFACE": interface_towards(orders.address) or "lo",
            "NCCL_SOCKET_IFNAME": interface_towards(orders.address) or "lo",
        }
        return RankCommand(slot, tuple(rank), {**given, **environment})
    entry = [sys.executable, "-P", "-m", "jupyter_hvd.rank.remote_entry", *rank]
    there = remote_command(slot.hostname, entry, orders.directory, orders)
    travels = {k: v for k, v in environment.items() if not OF_THIS_HOST.fullmatch(k)}
    told = json.dumps(travels).encode() + b"\n"
    return RankCommand(slot, there.command, there.environment, told)


def by_ssh(host: str, entry: Sequence[str], directory: str, path: str | None) -> tuple[str, ...]:
    """The command that runs `entry` on another host, in a directory."""
    there = f"cd {shlex.quote(directory)} && exec {shlex.join(entry)}"
    if path:
        there = f"export PYTHONPATH={shlex.quote(path)} && {there}"
    return (*SSH, host, there)


def by_srun(host: str, entry: Sequence[str], directory: str, path: str | None) -> tuple[str, ...]:
    """The same on a node of this allocation; srun hands on the variables that it is told to."""
    names = ",".join(["PATH", "HOME", *(["PYTHONPATH"] if path else [])])
    return (*SRUN, f"--nodelist={host}", f"--chdir={directory}", f"--export={names}", *entry)


def horovod_variables(slot: SlotInfo, address: str, port: int) -> dict[str, str]:
    """What Horovod reads from its environment; each rank finds its own network interface."""
    run = create_run_env_vars(address, ["lo"], port)
    del run["HOROVOD_GLOO_IFACE"], run["NCCL_SOCKET_IFNAME"]
    return {name: str(value) for name, value in {**run, **create_slot_env_vars(slot)}.items()}


class Placement:
    """The ranks that have been started, until the last of them has ended."""

    def __init__(self, commands: Iterable[RankCommand], outlive: bool = False) -> None:
        self._commands = tuple(commands)
        self._outlive = outlive
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._reports = Reports()
        self._ended = threading.Condition()
        self._codes: dict[int, int] = {}
        self._stopped = False

    def run(self) -> int:
        """Start the ranks and wait; 0 if all end well, else 1. One that fails ends the others, unless they outlive it."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop_ranks)
        threads = []
        for command in self._commands:
            threads.append(threading.Thread(target=self._attend_rank, args=(command,), daemon=True))
            self._start_rank(command)
        for thread in threads:
            thread.start()
        with self._ended:
            while len(self._codes) < len(self._commands) and not self._is_over():
                self._ended.wait(0.5)  # so that a signal is heard
        self._end_all()
        for thread in threads:
            thread.join()
        return int(self._has_failed())

    def _is_over(self) -> bool:
        return self._stopped if self._outlive else self._has_failed()

    def _has_failed(self) -> bool:
        return self._stopped or any(self._codes.values())

    def _stop_ranks(self, *_: object) -> None:
        self._stopped = True

    def _start_rank(self, command: RankCommand) -> None:
        self._processes[command.slot.rank] = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            command.command,
            env=command.environment,
            stdin=subprocess.PIPE if command.orders else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def _attend_rank(self, command: RankCommand) -> None:
        """Pass on what a rank writes, and how it ends."""
        rank = command.slot.rank
        process = self._processes[rank]
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(command.orders)
                process.stdin.close()
        code = follow_process(process, partial(self._reports.pass_on, rank))
        if code:
            self._reports.write_report({"rank": rank, "exit": code})
        with self._ended:
            self._codes[rank] = code
            self._ended.notify_all()

    def _end_all(self) -> None:
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + GRACE
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            process.kill()


if __name__ == "__main__":
    try:
        exit_now(main())
    except LaunchError as error:
        Reports().write_report({"rank": None, "stream": "stderr", "text": str(error)})
        exit_now(1)
