"""Messages between a notebook's kernel and its ranks: requests, answers, output.

    kernel: ROUTER ── one connection for each rank ── DEALER: rank

These are messages of the Jupyter protocol. CurveZMQ encrypts them, and `jupyter_client` signs them. Both keys are derived
from the job's token (`launch/authentication.py`): without the token nobody can connect, read or forge a message.
A rank's messages arrive once and in order, so its output precedes its answer.
"""

from __future__ import annotations

import hmac
import pickle
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import zmq
from ipykernel.iostream import IOPubThread
from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream
from zmq.utils import z85

#: What the kernel sends: a call for the main thread, or a question, which is answered beside what the rank computes.
CALL, QUESTION = "hvd_call", "hvd_question"
#: What a rank sends besides its output: that it takes requests, and the answer to one.
READY, ANSWER = "hvd_ready", "hvd_answer"
#: What a rank's debugger sends: that it has come to a breakpoint, and that it reads a line. Each waits for an answer.
BREAKPOINT, INPUT = "hvd_breakpoint", "input_request"


class Messages(IOPubThread):
    """One end of the messages: a thread that sends and receives them.

    Attributes:
        session: it signs.
    """

    def __init__(
        self, socket: Any, token: str, take: Callable[[Sequence[bytes], Mapping[str, Any]], None]
    ) -> None:
        """
        Args:
            socket: as `open_socket` makes it. take: gets the sender and each message, in this thread.
        """
        super().__init__(socket)  # type: ignore[no-untyped-call]
        self.session, self._take = Session(key=derive_key(token, "signatures")), take
        self._stream = ZMQStream(socket, self.io_loop)
        self._stream.on_recv(self._receive)
        self.start()  # type: ignore[no-untyped-call]

    def send_multipart(self, *args: Any, **kwargs: Any) -> None:
        """Send the parts of a message, from any thread.

        They go through the stream: a send on the bare socket would swallow ZeroMQ's notice of messages that have arrived.
        """
        self.schedule(partial(self._stream.send_multipart, *args, **kwargs))  # type: ignore[no-untyped-call]

    def send_data(
        self,
        kind: str,
        data: bytes = b"",
        to: bytes | None = None,
        parent: Mapping[str, Any] | None = None,
        header: Mapping[str, Any] | None = None,
    ) -> None:
        """Send a message with pickled data."""
        self.session.send(self, kind, {}, parent, to, [data], header=header)

    def _receive(self, parts: list[bytes]) -> None:
        """Handle a message, if it is signed with the job's token."""
        try:
            senders, rest = self.session.feed_identities(parts)
            message = self.session.deserialize(rest)
        except ValueError:  # not signed with the job's token
            return
        self._take(senders, message)


def derive_key(token: str, purpose: str) -> bytes:
    """Return a key of 40 characters, in the encoding of ZeroMQ, that only holders of the token can compute."""
    return z85.encode(hmac.digest(token.encode(), purpose.encode(), "sha256"))


def open_socket(kind: int, token: str) -> Any:
    """Return a socket that encrypts, to which only holders of the job's token can connect; its queues have no limits."""
    socket: Any = zmq.Context.instance().socket(kind)
    socket.linger = 0
    socket.set_hwm(0)
    if zmq.has("curve"):
        secret = derive_key(token, "encryption")
        if kind == zmq.ROUTER:
            socket.curve_secretkey, socket.curve_server = secret, True
        else:
            socket.curve_publickey, socket.curve_secretkey = zmq.curve_keypair()
            socket.curve_serverkey = zmq.curve_public(secret)
    return socket


def dump(value: Any) -> bytes:
    """Pickle a value for a message."""
    return pickle.dumps(value, protocol=5)


def load(message: Mapping[str, Any]) -> Any:
    """Unpickle the data of a message, whose signature was checked."""
    return pickle.loads(message["buffers"][0])  # noqa: S301
