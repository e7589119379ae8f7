"""The kernel's end of the messages to its ranks: sends requests, and takes in what ranks answer and print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import zmq

from ..launch.heartbeat import MESSAGES_VARIABLE
from ..ranks.messages import (
    ANSWER,
    CALL,
    QUESTION,
    READY,
    Messages,
    load,
    open_socket,
)
from ..ranks.reply import describe_error
from .monitor import Message


class RankMessages:
    """Listens for ranks.

    Attributes:
        ready: the ranks that take requests. variables: by which ranks find the kernel, for their environment.
    """

    def __init__(self, host: str, port: int, token: str, show: Callable[[Message], None]) -> None:
        """Listen.

        Args:
            port: any if 0. show: gets what ranks print and display, in another thread.

        Raises:
            OSError: the address cannot be listened on.
        """
        self.ready = set[int]()
        self._show = show
        #: What is called with the answer to each request.
        self._asked: dict[str, Callable[[Any], None]] = {}
        socket = open_socket(zmq.ROUTER, token)
        try:
            socket.bind(f"tcp://{host}:{port or '*'}")
        except zmq.ZMQError as error:
            raise OSError(error.errno, f"{error.strerror}: {host}:{port}") from None
        address = socket.last_endpoint.decode().removeprefix("tcp://")
        self.variables = {MESSAGES_VARIABLE: address}
        self._messages = Messages(socket, token, self._handle_message)

    def call(self, rank: int, call: int, request: bytes, answered: Callable[[Any], None]) -> None:
        """Send a rank a function for its main thread; output until it returns carries the call's number.

        Args:
            request: `dump` of the function and its arguments.
            answered: gets the returned value, or a RemoteError, in another thread.
        """
        self._send_request(CALL, rank, request, answered, call)

    def ask(self, rank: int, request: bytes, answered: Callable[[Any], None]) -> None:
        """Send a rank a function that another thread calls while the main thread computes.

        Args:
            request, answered: as for `call`.
        """
        self._send_request(QUESTION, rank, request, answered, 0)

    def close(self) -> None:
        """Stop receiving messages."""
        self._messages.stop()  # type: ignore[no-untyped-call]

    def _send_request(
        self, kind: str, rank: int, request: bytes, answered: Callable[[Any], None], call: int
    ) -> None:
        """Send a request to a rank; `answered` is called with its answer."""
        header = {**self._messages.session.msg_header(kind), "call": call}
        self._asked[header["msg_id"]] = answered
        self._messages.send_data(kind, request, str(rank).encode(), header=header)

    def _handle_message(self, senders: Sequence[bytes], message: Mapping[str, Any]) -> None:
        """Handle a message of a rank: that it is ready, an answer, or output."""
        rank, kind, parent = int(senders[0]), message["msg_type"], message["parent_header"]
        if kind == READY:
            self.ready.add(rank)
        elif kind == ANSWER:
            # An answer that comes twice, or to nothing, is dropped: an error here would end the receiving of messages.
            answered = self._asked.pop(parent.get("msg_id", ""), None)
            if answered is not None:
                answered(_read_answer(message))
        else:
            self._show(Message(rank, kind, message["content"], parent.get("call", 0)))


def _read_answer(message: Mapping[str, Any]) -> Any:
    """Return the value that a rank has returned; a RemoteError if it has failed, or the value cannot be read here."""
    try:
        return load(message)
    except Exception as error:
        return describe_error(error)
