"""Where the kernel listens for its ranks: which address of this machine, which ports."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from .hosts import Host, LaunchError, address_of, address_towards, is_local

#: Ports to listen on, `first-last`, for machines behind a firewall; any free ones where not set.
PORTS_VARIABLE = "JUPYTER_HVD_PORTS"
#: For heartbeat connections, the ranks' rendezvous, and messages.
PORTS_NEEDED = 3


def own_address(hosts: Sequence[Host]) -> str:
    """Return this machine's address as the hosts of the ranks see it; the loopback address if all of them are this machine.

    Raises:
        LaunchError: a host cannot be reached, or its name is unknown.
    """
    for host in hosts:
        if is_local(host.name):
            continue
        try:
            return address_towards(address_of(host.name))
        except OSError as error:
            raise LaunchError(f"host {host.name}: {error.strerror or error}") from None
    return "127.0.0.1"


def choose_ports(address: str, allowed: str | None) -> list[int]:
    """Return free ports out of those that the user allows; an empty list if any port will do.

    Raises:
        LaunchError: too few of them are free.
    """
    if not allowed:
        return []
    match = re.fullmatch(r"(\d+)-(\d+)", allowed.strip())
    if match is None:
        raise LaunchError(
            f"{PORTS_VARIABLE}={allowed}: write it as first-last, such as 10101-10150"
        )
    named = range(int(match[1]), int(match[2]) + 1)
    free = list(islice(_free_ports(address, named), PORTS_NEEDED))
    if len(free) < PORTS_NEEDED:
        raise LaunchError(
            f"{PORTS_VARIABLE}={allowed}: {len(free)} of these ports are free and {len(named) - len(free)} taken, "
            f"but {PORTS_NEEDED} are needed; allow more"
        )
    return free


def _free_ports(address: str, ports: Iterable[int]) -> Iterator[int]:
    """Yield those ports to which a socket can be bound now."""
    for port in ports:
        with socket.socket() as probe:
            # As ZeroMQ does: a port whose last connections have just been closed is free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                continue
        yield port
