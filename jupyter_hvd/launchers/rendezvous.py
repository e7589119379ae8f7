"""Where the ranks of a job find one another: Horovod's store, which answers nobody else.

Horovod's own listens on every interface of the machine and answers whoever asks. This one
listens on one address. Of this machine's processes it answers those of the same user, and of
others those on the hosts of the job.
"""

from __future__ import annotations

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

Peer = tuple[str, int]


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
        super().__init__(address, RendezvousHandler, 0)
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
