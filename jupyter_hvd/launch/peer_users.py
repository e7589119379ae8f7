"""Finds the user at the other end of a TCP connection on this machine."""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

from .hosts import is_here

#: The kernel's table of TCP connections.
CONNECTIONS = Path("/proc/net/tcp")

#: Of Linux' linux/netlink.h, sock_diag.h and inet_diag.h: a message's head, and where in the answer the owner stands.
HEAD = struct.Struct("=IHHII")
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
OWNER_AT = 64

Peer = tuple[str, int]


def is_own(client: Peer, server: Peer) -> bool | None:
    """Return whether a connection comes from this user; None if it comes from another host.

    Where the system does not name the owner (other systems than Linux), this machine's connections count as this user's.
    """
    if not is_here(client[0]):
        return None
    return owner_of(client, server) in (os.getuid(), None)


def owner_of(client: Peer, server: Peer) -> int | None:
    """Return the user id that a connection on this machine comes from; None if the system does not tell."""
    try:
        return asked_owner(client, server)
    except OSError:
        return listed_owner(client, server)


def asked_owner(client: Peer, server: Peer) -> int:
    """Return the user id of a connection by Linux's interface for one socket (man 7 sock_diag).

    Reading the table of all connections would take milliseconds, some hundred times at a start.

    Raises:
        OSError: the system has no such interface.
    """
    ends = [socket.inet_aton(peer[0]).ljust(16, b"\0") for peer in (client, server)]
    ports = struct.pack("!HH", client[1], server[1])
    any_socket = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
    question = struct.pack("=BBxxI", socket.AF_INET, socket.IPPROTO_TCP, 0xFFFFFFFF)
    question += ports + b"".join(ends) + any_socket
    head = HEAD.pack(HEAD.size + len(question), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as system:
        system.settimeout(1)
        system.send(head + question)
        answer = system.recv(4096)
    _, kind, *_ = HEAD.unpack_from(answer)
    if kind == NLMSG_ERROR:
        (code,) = struct.unpack_from("=i", answer, HEAD.size)
        if -code == errno.ENOENT:
            return -1  # gone already
        raise OSError(-code, os.strerror(-code))
    (owner,) = struct.unpack_from("=I", answer, HEAD.size + OWNER_AT)
    return int(owner)


def listed_owner(client: Peer, server: Peer) -> int | None:
    """Return the user id of a connection from Linux's table of all connections; None if it is not in it."""
    wanted = (table_entry(client), table_entry(server))
    try:
        rows = CONNECTIONS.read_text().splitlines()[1:]
    except OSError:
        return None
    for row in rows:
        fields = row.split()
        if (fields[1], fields[2]) == wanted:
            return int(fields[7])
    return -1  # gone already


def table_entry(peer: Peer) -> str:
    """Return an IPv4 address and port as /proc/net/tcp writes them: hexadecimal, in the machine's byte order."""
    (number,) = struct.unpack("=I", socket.inet_aton(peer[0]))
    return f"{number:08X}:{peer[1]:04X}"
