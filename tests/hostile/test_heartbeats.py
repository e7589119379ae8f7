"""Strangers at the port on which a job's processes report."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator

import pytest

from jupyter_hvd.launch.authentication import ClientHandshake
from jupyter_hvd.launch.heartbeat import FIRST_LINE, STRANGERS, HeartbeatServer, connect_as

from .conftest import Aftermath


@pytest.fixture
def heartbeats() -> Iterator[HeartbeatServer]:
    listening = HeartbeatServer("127.0.0.1", 0, lambda: None, ["rank 0", "rank 1"])
    yield listening
    listening.close()


def connect(heartbeats: HeartbeatServer, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", heartbeats.port), timeout=5)
    connection.sendall(data)
    return connection


def join(heartbeats: HeartbeatServer, name: str, token: str | None = None) -> socket.socket:
    """A connection by whoever knows the token, or has guessed one; raises OSError where it is refused."""
    address = f"127.0.0.1:{heartbeats.port}"
    return connect_as(name, address, heartbeats.token if token is None else token, {"pid": 1})[0]


def line(**message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def wait_for_member(heartbeats: HeartbeatServer, name: str) -> bool:
    deadline = time.monotonic() + 5
    while name not in heartbeats.members and time.monotonic() < deadline:
        time.sleep(0.01)
    return name in heartbeats.members


def is_dropped(connection: socket.socket) -> bool:
    """Whether it is closed after the challenge, which everybody gets."""
    received = b""
    try:
        while data := connection.recv(1000):
            received += data
    except ConnectionError:
        pass
    return received.count(b"\n") <= 1


HOSTILE = {
    "a list": b"[]\n",
    "a number": b"1\n",
    "null": b"null\n",
    "no JSON": b"GET / HTTP/1.1\r\n\r\n",
    "no text": b"\xff\xfe\x00\n",
    "deep JSON": b"[" * 4000 + b"\n",
    "deep objects": b'{"a":' * 700 + b"\n",
    "a long line": b"x" * (FIRST_LINE + 1),
    "a longer line": b'{"proof": "' + b"x" * 100_000 + b'"}\n',
    "no proof": line(name="rank 0", nonce="1"),
    "another proof": line(name="rank 0", nonce="1", proof="nope"),
    "a proof of other letters": line(name="rank 0", nonce="1", proof="ünïcödé"),
    "half a character": b'{"name": "rank 0", "nonce": "\\ud800", "proof": "\\ud800"}\n',
    "a proof that is a list": line(name="rank 0", nonce="1", proof=["nope"]),
    "no name": line(nonce="1", proof="nope"),
    "a name that is a number": line(name=0, nonce="1", proof="nope"),
    "a huge number": b'{"proof": ' + b"9" * 3000 + b"}\n",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_bytes_of_a_stranger(heartbeats: HeartbeatServer, what: str) -> None:
    """A stranger sends"""
    with connect(heartbeats, HOSTILE[what]) as stranger:
        assert is_dropped(stranger)
    with join(heartbeats, "rank 0"):
        assert wait_for_member(heartbeats, "rank 0")


@pytest.mark.parametrize(("name", "token"), [("rank 0", "guessed"), ("guest", None)])
def test_who_is_not_expected(heartbeats: HeartbeatServer, name: str, token: str | None) -> None:
    """Another token, or a name that nobody expects"""
    with pytest.raises(OSError, match="token"):
        join(heartbeats, name, token)
    assert not heartbeats.members


def test_a_proof_is_good_for_one_connection(heartbeats: HeartbeatServer) -> None:
    """What a rank has sent is sent again on another connection"""
    handshake = ClientHandshake(heartbeats.token, "rank 0")
    with connect(heartbeats) as first, connect(heartbeats) as second:
        answer = handshake.answer_challenge(json.loads(first.makefile().readline()))
        assert answer is not None
        second.sendall(line(**answer))
        assert is_dropped(second)
        first.sendall(line(**answer))
        assert wait_for_member(heartbeats, "rank 0")


def test_the_token_is_not_sent(heartbeats: HeartbeatServer) -> None:
    """Somebody listens at a port where the kernel has listened before"""
    with socket.create_server(("127.0.0.1", 0)) as impostor:
        address = f"127.0.0.1:{impostor.getsockname()[1]}"
        with socket.create_connection(impostor.getsockname()) as rank:
            accepted, _ = impostor.accept()
            accepted.sendall(line(challenge="x") + line(proof="x", connection={"key": "mine"}))
            handshake = ClientHandshake(heartbeats.token, "rank 0")
            lines = rank.makefile()
            answer = handshake.answer_challenge(json.loads(lines.readline()))
            assert answer is not None
            assert heartbeats.token not in json.dumps(answer)
            assert not handshake.accepts_proof(json.loads(lines.readline()))
            accepted.close()
    with pytest.raises(OSError, match="refused"):
        connect_as("rank 0", address, heartbeats.token, {})


def test_a_name_is_taken_once(heartbeats: HeartbeatServer) -> None:
    """Somebody joins under the name of a rank that is there"""
    with join(heartbeats, "rank 0") as first:
        assert wait_for_member(heartbeats, "rank 0")
        with pytest.raises(OSError, match="token"):
            join(heartbeats, "rank 0")
        heartbeats.send("rank 0", {"connection": "key"})
        assert b"key" in first.recv(100)


def test_strangers_in_masses(heartbeats: HeartbeatServer, aftermath: Aftermath) -> None:
    """Strangers connect and say nothing"""
    aftermath.tries = 4 * STRANGERS
    silent = [connect(heartbeats) for _ in range(aftermath.tries)]
    with join(heartbeats, "rank 1"):
        assert wait_for_member(heartbeats, "rank 1")
    for connection in silent:
        connection.close()


#: As somebody who knows the token: whether there is a challenge.
KNOCK = """\
import os, socket, sys
os.setuid(int(sys.argv[2]))
try:
    print(len(socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=5).recv(100)))
except ConnectionError:
    print(0)
"""


@pytest.mark.needs("root")
@pytest.mark.parametrize(("user", "answered"), [(0, True), (65534, False)])
def test_another_user_at_the_door(heartbeats: HeartbeatServer, user: int, answered: bool) -> None:
    """Another user of the machine gets not even a challenge"""
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", KNOCK, str(heartbeats.port), str(user)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert (int(done.stdout) > 0) == answered
