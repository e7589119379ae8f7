"""Heartbeat connections: an open connection from every process of a job to the process that started it.

When it closes, each side knows that the other is gone, on any host. A process whose kernel has
died, by SIGKILL or otherwise, ends itself and its children; a kernel notices at once that a rank
has died. A rank also reports by it how far its start is and, whenever it is asked, where it is. A notebook's cells, answers,
output and interrupts are messages of `ranks/messages.py`.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn

from .authentication import TOKEN_VARIABLE, ClientHandshake, ServerHandshake, take_token
from .peer_users import is_own
from .rank_location import cpu_seconds, current_location, queued_seconds, unknown_location

#: Where the kernel listens, for the processes of a job: `host:port`.
ADDRESS_VARIABLE = "JUPYTER_HVD_LIFELINE"
#: Where it takes messages of a notebook's ranks (`ranks/messages.py`).
MESSAGES_VARIABLE = "JUPYTER_HVD_MESSAGES"
#: The longest line that is read of a process which has not yet said who it is, and of one that has.
FIRST_LINE, LONGEST_LINE = 2**12, 2**20
#: Connections that have not said who they are, at most; more are not accepted until some have gone.
STRANGERS = 64
#: Seconds for the kernel to answer a process that has connected; it may be busy with something else.
GREETING_TIMEOUT = 120.0

Message = Mapping[str, Any]
#: What is called before a process ends because the kernel has gone.
before_end: list[Callable[[], None]] = []
CUT_OFF = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH})


def keep_alive(connection: socket.socket) -> None:
    """Set a connection so that the loss of the other host is noticed within six seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", 2),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", 6000),
    ):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def encode_message(message: Message) -> bytes:
    """Return a message as a line of JSON."""
    return json.dumps(message).encode() + b"\n"


def decode_message(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; None if there is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


# The kernel's side


@dataclass(eq=False)
class Member:
    """A connected process: its connection, and the description that it sent.

    Attributes:
        cut_off: whether the connection broke without the other host's doing.
    """

    connection: socket.socket
    handshake: ServerHandshake
    name: str = ""
    description: dict[str, Any] = field(default_factory=dict)
    unread: bytes = b""
    cut_off: bool = False


class HeartbeatServer:
    """The kernel's end of all heartbeat connections of a job.

    Connections of other users of this machine are closed at once. Nothing that a stranger sends is heeded but the
    proof that it knows the token, in a first line of moderate length (`authentication.py`); each member is known by
    one of the expected names, once at a time.

    Attributes:
        token: the job's secret. port: where it listens.
        variables: by which the processes of the job find and authenticate one another, for their environment.
    """

    def __init__(
        self,
        host: str,
        port: int,
        changed: Callable[[], None],
        expected: Collection[str],
        token: str | None = None,
        heard: Callable[[str, Message], None] = lambda *_: None,
        longest: int = LONGEST_LINE,
    ) -> None:
        """Listen.

        Args:
            changed: called, from another thread, whenever something is heard.
            token: a new one by default. heard: told each message of a member by its name, from the same thread, in order.
            longest: how long a member's message may be, in bytes.

        Raises:
            OSError: the address cannot be listened on.
        """
        self.members: dict[str, Member] = {}
        self.gone: dict[str, Member] = {}
        self.token = token or secrets.token_hex(32)
        self._changed, self._expected = changed, frozenset(expected)
        self._heard, self._longest = heard, longest
        self._strangers: list[Member] = []
        self._listener = socket.create_server((host, port))
        self.port: int = self._listener.getsockname()[1]
        self.variables = {ADDRESS_VARIABLE: f"{host}:{self.port}", TOKEN_VARIABLE: self.token}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._closing, self._wake = socket.socketpair()
        self._selector.register(self._closing, selectors.EVENT_READ, None)
        # A forked child of the kernel would hold the lifelines open after the kernel's death.
        self._owner = os.getpid()
        os.register_at_fork(after_in_child=self._close_in_child)
        self._thread = threading.Thread(target=self._listen_loop, name="hvd-lifelines", daemon=True)
        self._thread.start()

    def send(self, name: str, message: Message) -> None:
        """Send a message to a process of the job; ignored if it is not connected."""
        member = self.members.get(name)
        if member is not None:
            with suppress(OSError):
                member.connection.sendall(encode_message(message))

    def close(self) -> None:
        """Close all connections, so that every process of the job ends itself."""
        with suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(2)

    def _close_in_child(self) -> None:
        """Close the copies of the connections in a forked process, so that only the original holds them."""
        if os.getpid() != self._owner:
            for member in self.members.values():
                member.connection.close()
            self._listener.close()

    def _listen_loop(self) -> None:
        """Accept connections and read messages, in a thread, until the server is closed."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._closing:
                    self._close_all()
                    return
                if key.fileobj is self._listener:
                    self._accept_connection()
                else:
                    self._read_lines(key.data)

    def _accept_connection(self) -> None:
        """Accept a connection of this user and send it a challenge; close connections of others."""
        with suppress(OSError):
            connection, peer = self._listener.accept()
            if is_own(peer, connection.getsockname()) is False:
                connection.close()
                return
            keep_alive(connection)
            member = Member(connection, ServerHandshake(self.token))
            connection.sendall(encode_message(member.handshake.challenge))
            self._selector.register(connection, selectors.EVENT_READ, member)
            self._strangers.append(member)
        if len(self._strangers) > STRANGERS:  # the ranks of a job speak at once: the oldest is none
            self._drop_member(self._strangers[0])

    def _close_all(self) -> None:
        """Close everything; called in the thread that listens."""
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()
        self._wake.close()

    def _read_lines(self, member: Member) -> None:
        """Read what a process has sent, and handle each whole line."""
        try:
            data = member.connection.recv(65536)
        except OSError as error:
            data = b""
            member.cut_off = error.errno in CUT_OFF
        if not data:
            self._drop_member(member)
            return
        *lines, member.unread = (member.unread + data).split(b"\n")
        for line in lines:
            if not self._take_line(member, line):
                self._drop_member(member)
                return
        if len(member.unread) > (self._longest if member.name else FIRST_LINE):
            self._drop_member(member)
            return
        self._changed()

    def _take_line(self, member: Member, line: bytes) -> bool:
        """Handle a line of a member; return False if it is no message of this job."""
        message = decode_message(line) if member.name or len(line) <= FIRST_LINE else None
        if message is None:
            return False
        if not member.name:
            match member.handshake.answer_response(message):
                case (name, answer) if name in self._expected and name not in self.members:
                    member.connection.sendall(encode_message(answer))
                    member.name = name
                    self.members[name] = member
                    self._strangers.remove(member)
                case _:
                    return False
        member.description.update(message)
        self._heard(member.name, message)
        return True

    def _drop_member(self, member: Member) -> None:
        """Forget a process whose connection has ended, and report that it has gone."""
        self._selector.unregister(member.connection)
        member.connection.close()
        if member in self._strangers:
            self._strangers.remove(member)
        if self.members.get(member.name) is member:
            self.gone[member.name] = self.members.pop(member.name)
        self._changed()


# The other processes' side


class HeartbeatClient:
    """This process's heartbeat connection; it ends the process when the kernel has gone."""

    def __init__(self, name: str) -> None:
        """Connect to the address in this process's environment and say who this is.

        Where nobody listens that knows the job's token, the kernel has gone, and the process ends.
        """
        who = {"pid": os.getpid(), "host": os.uname().nodename}
        try:
            self._connection, self._lines = connect_as(
                name, os.environ.pop(ADDRESS_VARIABLE), take_token(), who
            )
        except OSError:
            end_self()
        #: Threads that are never idle, whether the rank computes or not: Horovod's own.
        self.busy_threads: Set[str] = frozenset()
        threading.Thread(target=self._listen_loop, name="hvd-lifeline", daemon=True).start()

    def send_message(self, message: Message) -> None:
        """Send a message to the owner; ignored if the connection has ended."""
        with suppress(OSError):
            self._connection.sendall(encode_message(message))

    def report_position(self) -> dict[str, Any]:
        """Return where this process is, as `current_location`, with its seconds of computing and queueing.

        "cpu" are CPU seconds; "queued" are seconds in which a thread was ready and had no processor.
        """
        return {
            "cpu": time.process_time() - cpu_seconds(self.busy_threads),
            "queued": queued_seconds({str(os.getpid()), *self.busy_threads}),
            **_position_or_unknown(),
        }

    def _listen_loop(self) -> None:
        """Answer questions of the kernel until the connection ends, then end this process."""
        try:
            with self._lines:
                for line in self._lines:
                    message = decode_message(line)
                    if message is None:
                        break
                    if "where" in message:
                        self.send_message(
                            {"place": {"call": message["where"], **self.report_position()}}
                        )
        except (OSError, ValueError):
            pass
        end_self()


def connect_as(
    name: str, address: str, token: str, description: Message
) -> tuple[socket.socket, BinaryIO]:
    """Connect to `host:port` as the member `name` and authenticate both sides; return the socket and its reader.

    Args:
        description: further items that describe this process.

    Raises:
        OSError: nobody listens there, or nobody that knows the token.
    """
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.settimeout(GREETING_TIMEOUT)
    lines = connection.makefile("rb")
    handshake = ClientHandshake(token, name)
    answer = handshake.answer_challenge(decode_message(lines.readline(FIRST_LINE)) or {})
    if answer is None:
        raise ConnectionRefusedError("this process is not a kernel")
    connection.sendall(encode_message({**description, **answer}))
    if not handshake.accepts_proof(decode_message(lines.readline(FIRST_LINE)) or {}):
        raise ConnectionRefusedError("this kernel does not know the job's token")
    connection.settimeout(None)
    keep_alive(connection)
    return connection, lines


def _position_or_unknown() -> dict[str, Any]:
    """Return where the rank is; unknown if objects of the user's raise while they are looked at."""
    with suppress(Exception):
        return current_location()
    return unknown_location()


def end_self() -> NoReturn:
    """End this process and its children, at once and whatever its other threads do."""
    import psutil

    for act in before_end:
        with suppress(Exception):
            act()

    with suppress(psutil.Error):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                # multiprocessing's tracker removes what the others leave behind, then ends by itself.
                if "multiprocessing.resource_tracker" not in " ".join(child.cmdline()):
                    child.kill()
    os._exit(1)
