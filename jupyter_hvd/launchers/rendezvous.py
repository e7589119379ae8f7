"""Where the ranks of a job find one another: Horovod's store, which answers nobody else.

Horovod's own listens on every interface of the machine and answers whoever asks. This one
listens on one address. Of this machine's processes it answers those of the same user, and of
others those on the hosts of the job.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from .hosts import local_interfaces

#: The kernel's table of TCP connections.
CONNECTIONS = Path("/proc/net/tcp")

#: Of Linux' linux/netlink.h, sock_diag.h and inet_diag.h: a message's head, and where in the answer the owner stands.
HEAD = struct.Struct("=IHHII")
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, NLMSG_ERROR = 4, 20, 1, 2
OWNER_AT = 64

Peer = tuple[str, int]


class Handler(RendezvousHandler):  # type: ignore[misc]
    """Horovod's, but for one line: there, a group whose ranks have all met makes the store forget who has met in the others.

    What they have left there would then stay, and ranks that join again after a fault would look for one another at
    addresses of before. The one rank of a host that leads to other hosts is such a group, and is whole at once.
    """

    def do_DELETE(self) -> None:  # noqa: N802 — as http.server calls it
        """A rank of a group (`/scope/rank`) has met all others; the last one clears what the group has stored."""
        store: Any = self.server
        scope = self.path.removeprefix("/").partition("/")[0]
        if scope not in store.scope_size:
            super().do_DELETE()
            return
        with store.finished_list_lock:
            store.finished_list[scope].append(self.path)
            if len(store.finished_list[scope]) == store.scope_size[scope]:
                del store.finished_list[scope]
                with store.cache_lock:
                    store.cache.pop(scope, None)
        self.send_status_code(200)


class Rendezvous(RendezvousHTTPServer):  # type: ignore[misc]
    """The store of one job, on one address.

    Attributes:
        address: where it listens. hosts: the addresses of the job's other hosts.
    """

    def __init__(self, address: Peer, hosts: Collection[str], slots: Sequence[Any]) -> None:
        """Listen, and answer from a thread of its own; `slots` as Horovod assigns them.

        Raises:
            OSError: the address cannot be listened on.
        """
        super().__init__(address, Handler, 0)
        self.init(slots)
        self.hosts = frozenset(hosts)
        threading.Thread(target=self.serve_forever, name="hvd-rendezvous", daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Peer) -> bool:
        """Whether a connection is answered; called by the server before it reads anything."""
        host = client_address[0]
        if host.startswith("127.") or host in local_interfaces():
            return owner_of(client_address, request.getsockname()) in (os.getuid(), None)
        return host in self.hosts


def owner_of(client: Peer, server: Peer) -> int | None:
    """The user id that a connection on this machine comes from; None where the system does not tell."""
    try:
        return asked_owner(client, server)
    except OSError:
        return listed_owner(client, server)


def asked_owner(client: Peer, server: Peer) -> int:
    """The same, as Linux answers a question about one socket (man 7 sock_diag).

    Ranks ask for one another some hundred times at a start, and to read the table of connections takes milliseconds.

    Raises:
        OSError: it does not answer such questions.
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
    """The same, from the table of all connections."""
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
    """An address as the table of connections writes it: in the machine's order of bytes, in hexadecimal."""
    (number,) = struct.unpack("=I", socket.inet_aton(peer[0]))
    return f"{number:08X}:{peer[1]:04X}"
