"""Lets mpirun place the ranks of a job: `python -m jupyter_hvd.launchers.mpi_placement`, its orders on standard input.

mpirun starts a small process for each rank (`rank/mpi_rank.py`), which connects to this one and says which rank it
is. It receives the rank's environment over that connection, so that none of it is in a command line,
and sends back what the rank writes and how it ends: what mpirun itself passes on of several ranks is mixed within lines.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.gloo_run import create_slot_env_vars

from .authentication import TOKEN_VARIABLE, ServerHandshake
from .base import Orders
from .heartbeat import FIRST_LINE, HeartbeatClient, decode_message, encode_message, keep_alive
from .hosts import LaunchError, is_local, local_interfaces
from .mpi import OF_MPI, mpirun_command, mpirun_environment
from .peer_users import is_own
from .placement import GRACE, OF_THIS_HOST, check_others, read_orders
from .placement_reports import LONGEST_LINE, Reports, exit_now

#: By what Horovod's ranks agree, and sum.
BY_MPI = {"HOROVOD_CONTROLLER": "mpi", "HOROVOD_CPU_OPERATIONS": "mpi"}
#: Seconds in which who connects says who it is.
PATIENCE = 10.0
#: As ssh has it: the connection was lost.
LOST = 255


def main() -> int:
    orders = read_orders(sys.stdin.read())
    HeartbeatClient("launcher")
    return MpiPlacement(orders).run()


def slots_of(hosts: Sequence[str]) -> list[SlotInfo]:
    """The places of the ranks, by the host of each; among those of the same number on their hosts, hosts count as they come."""
    local = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    return [
        SlotInfo(
            hostname=host,
            rank=rank,
            local_rank=local[rank],
            cross_rank=local[:rank].count(local[rank]),
            size=len(hosts),
            local_size=hosts.count(host),
            cross_size=local.count(local[rank]),
        )
        for rank, host in enumerate(hosts)
    ]


class MpiPlacement:
    """The ranks that mpirun has started, until the last of them has ended."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._reports = Reports()
        self._news = threading.Condition()
        self._hosts: dict[int, str] = {}
        self._codes: dict[int, int] = {}
        self._stopped = False

    def run(self) -> int:
        """Start them and wait; 0 if all end well, else 1. One that fails ends the others."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._stop_ranks)
        orders = self._orders
        with socket.create_server((orders.address, orders.port)) as listener:
            port = listener.getsockname()[1]
            others = [host.name for host in orders.hosts if not is_local(host.name)]
            check_others(orders, others, port)
            entry = f"{orders.address}:{port}"
            rank = [sys.executable, "-P", "-m", "jupyter_hvd.rank.mpi_rank", entry]
            environment = mpirun_environment(os.environ, orders.environment)
            process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
                mpirun_command(orders.size, orders.hosts, rank, environment),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            threading.Thread(target=self._accept_ranks, args=(listener,), daemon=True).start()
            words = threading.Thread(target=self._say_words, args=(process,), daemon=True)
            words.start()
            with self._news:
                while len(self._codes) < orders.size and not self._has_failed():
                    if process.poll() is not None:
                        break
                    self._news.wait(0.2)  # so that a signal is heard, and the end of mpirun
        well = len(self._codes) == orders.size and not self._has_failed()
        self._end_mpirun(process, well)
        words.join(1)
        return int(not well)

    def _has_failed(self) -> bool:
        return self._stopped or any(self._codes.values())

    def _stop_ranks(self, *_: object) -> None:
        self._stopped = True

    def _end_mpirun(self, process: subprocess.Popen[bytes], well: bool) -> None:
        """Let mpirun end; where a rank has failed, it ends the others."""
        if not well:
            self._stopped = True
            process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        process.kill()
        process.wait()

    def _say_words(self, process: subprocess.Popen[bytes]) -> None:
        """Say what mpirun itself has to say; how it ends the ranks when one has failed is not news."""
        assert process.stdout is not None
        for line in process.stdout:
            if not self._has_failed():
                text = line.decode(errors="replace").rstrip("\r\n")
                self._reports.write_report({"rank": None, "stream": "stderr", "text": text})

    def _accept_ranks(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, peer = listener.accept()
                if is_own(peer, connection.getsockname()) is False:
                    connection.close()
                    continue
                threading.Thread(target=self._attend_rank, args=(connection,), daemon=True).start()

    def _attend_rank(self, connection: socket.socket) -> None:
        """Tell a rank what it is, and pass on what it writes, and how it ends."""
        keep_alive(connection)
        connection.settimeout(PATIENCE)
        with connection, connection.makefile("rb") as lines:
            rank = None
            with suppress(OSError):
                rank = self._greet_rank(connection, lines)
            if rank is None:
                return
            connection.settimeout(None)
            code: int | None = None
            with suppress(OSError, ValueError):
                self._await_all()
                connection.sendall(encode_message(self._send_settings(rank, connection)))
                while code is None and (line := lines.readline(8 * LONGEST_LINE)):
                    match decode_message(line):
                        case {"exit": int(ended)}:
                            code = ended
                        case {"stream": str(stream), "text": str(text)}:
                            self._reports.write_report(
                                {"rank": rank, "stream": stream, "text": text}
                            )
            self._note_end(rank, LOST if code is None else code)

    def _greet_rank(self, connection: socket.socket, lines: BinaryIO) -> int | None:
        """The rank that connects; None for a stranger."""
        handshake = ServerHandshake(self._orders.environment[TOKEN_VARIABLE])
        connection.sendall(encode_message(handshake.challenge))
        message = decode_message(lines.readline(FIRST_LINE)) or {}
        answered = handshake.answer_response(message)
        match message:
            case {"rank": int(rank), "host": str(host)} if answered is not None:
                with self._news:
                    if rank in self._hosts or not 0 <= rank < self._orders.size:
                        return None
                    self._hosts[rank] = host
                    self._news.notify_all()
                connection.sendall(encode_message(answered[1]))
                return rank
        return None

    def _await_all(self) -> None:
        """Where a rank is among the others is known when all of them are there."""
        with self._news:
            self._news.wait_for(lambda: len(self._hosts) == self._orders.size)

    def _send_settings(self, rank: int, connection: socket.socket) -> Mapping[str, object]:
        orders = self._orders
        address = connection.getpeername()[0]
        here = address.startswith("127.") or address in local_interfaces()
        travels = {
            name: value
            for name, value in orders.environment.items()
            if not OF_MPI.fullmatch(name) and (here or not OF_THIS_HOST.fullmatch(name))
        }
        slot = slots_of([self._hosts[each] for each in range(orders.size)])[rank]
        horovod = {name: str(value) for name, value in create_slot_env_vars(slot).items()}
        return {
            "environment": {**travels, **BY_MPI, **horovod},
            "command": [sys.executable, "-P", "-m", orders.module, *orders.arguments],
            "directory": orders.directory,
        }

    def _note_end(self, rank: int, code: int) -> None:
        with self._news:
            if code and not self._stopped:
                self._reports.write_report({"rank": rank, "exit": code})
            self._codes[rank] = code
            self._news.notify_all()


if __name__ == "__main__":
    try:
        exit_now(main())
    except LaunchError as error:
        Reports().write_report({"rank": None, "stream": "stderr", "text": str(error)})
        exit_now(1)
