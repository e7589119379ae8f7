"""Strangers at the port on which a job's processes report."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from jupyter_hvd.launchers.lifeline import FIRST_LINE, STRANGERS, Lifelines

from .conftest import Aftermath

TOKEN = "a1b2c3"


@pytest.fixture
def lifelines() -> Iterator[Lifelines]:
    listening = Lifelines(TOKEN, "127.0.0.1", 0, lambda: None, ["rank 0", "rank 1"])
    yield listening
    listening.close()


def connect(lifelines: Lifelines, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", lifelines.port), timeout=5)
    connection.sendall(data)
    return connection


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def wait_for_member(lifelines: Lifelines, name: str) -> bool:
    deadline = time.monotonic() + 5
    while name not in lifelines.members and time.monotonic() < deadline:
        time.sleep(0.01)
    return name in lifelines.members


def is_dropped(connection: socket.socket) -> bool:
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


HOSTILE = {
    "a list": b"[]\n",
    "a number": b"1\n",
    "null": b"null\n",
    "no JSON": b"GET / HTTP/1.1\r\n\r\n",
    "no text": b"\xff\xfe\x00\n",
    "deep JSON": b"[" * 4000 + b"\n",
    "deep objects": b'{"a":' * 700 + b"\n",
    "a long line": b"x" * (FIRST_LINE + 1),
    "a longer line": b'{"token": "' + b"x" * 100_000 + b'"}\n',
    "no token": line(name="rank 0"),
    "another token": line(name="rank 0", token="nope"),
    "a token of other letters": line(name="rank 0", token="ünïcödé"),
    "half a character": b'{"name": "rank 0", "token": "\\ud800"}\n',
    "a token that is a list": line(name="rank 0", token=[TOKEN]),
    "no name": line(token=TOKEN),
    "a name that is a number": line(name=0, token=TOKEN),
    "a name that nobody expects": line(name="guest", token=TOKEN),
    "a huge number": b'{"token": ' + b"9" * 3000 + b"}\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_bytes_of_a_stranger(lifelines: Lifelines, what: str) -> None:
    """A stranger sends"""
    with connect(lifelines, HOSTILE[what]) as stranger:
        assert is_dropped(stranger)
    with connect(lifelines, line(name="rank 0", token=TOKEN)):
        assert wait_for_member(lifelines, "rank 0")
        assert not {"guest"} & lifelines.members.keys()


def test_a_name_is_taken_once(lifelines: Lifelines) -> None:
    """Somebody joins under the name of a rank that is there"""
    with connect(lifelines, line(name="rank 0", token=TOKEN)) as first:
        assert wait_for_member(lifelines, "rank 0")
        with connect(lifelines, line(name="rank 0", token=TOKEN)) as second:
            assert is_dropped(second)
        lifelines.send("rank 0", {"connection": "key"})
        assert b"key" in first.recv(100)


def test_strangers_in_masses(lifelines: Lifelines, aftermath: Aftermath) -> None:
    """Strangers connect and say nothing"""
    aftermath.tries = 4 * STRANGERS
    silent = [connect(lifelines) for _ in range(aftermath.tries)]
    with connect(lifelines, line(name="rank 1", token=TOKEN)):
        assert wait_for_member(lifelines, "rank 1")
    for connection in silent:
        connection.close()
