"""The hosts of a job, from `-H name:slots,name:slots`, and which of them is this machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

#: What a host may be called; nothing that ssh would take for an option.
NAME = re.compile(r"[A-Za-z0-9_][\w.-]*")
#: Ranks on this machine, at most, for each of its cores.
RANKS_PER_CORE = 16
#: Seconds that Horovod's Gloo waits for another rank, at the start and within an exchange. Its own 30 s are too few where ranks
#: import TensorFlow on a busy machine: it then aborts the process. A launcher knows by itself when a rank ends or stalls.
GLOO_TIMEOUT = {"HOROVOD_GLOO_TIMEOUT_SECONDS": "600"}
#: Where Horovod and NCCL read which network interface to use.
INTERFACE_VARIABLES = ("HOROVOD_GLOO_IFACE", "NCCL_SOCKET_IFNAME")


class LaunchError(Exception):
    """The job could not be started; the message is for the user."""


@dataclass(frozen=True)
class Host:
    """A host and how many ranks it has room for."""

    name: str
    slots: int


def hosts_of_ranks(hosts: Iterable[Host]) -> list[str]:
    """Return the host of each rank; the first host is filled first."""
    return [host.name for host in hosts for _ in range(host.slots)]


def parse_hosts(text: str) -> tuple[Host, ...]:
    """Parse `name:slots,name:slots`.

    Raises:
        LaunchError: the text is malformed, or names a host twice.
    """
    found: dict[str, Host] = {}
    for part in text.split(","):
        name, _, slots = part.strip().rpartition(":")
        if not NAME.fullmatch(name) or not re.fullmatch(r"[0-9]{1,6}", slots) or int(slots) < 1:
            raise LaunchError(
                f"-H {text}: `{part}` is not a host; write the hosts as name:slots,name:slots"
            )
        if name in found:
            raise LaunchError(f"-H {text}: {name} is there twice; add its slots up")
        found[name] = Host(name, int(slots))
    return tuple(found.values())


def require_ranks(size: int) -> None:
    """Raise LaunchError if a job has no ranks."""
    if size < 1:
        raise LaunchError(f"a job needs at least one rank, not {size}")


def hosts_for(size: int, text: str | None) -> tuple[Host, ...]:
    """Return hosts with room for `size` ranks: those that the text names, or this machine if it is None.

    Raises:
        LaunchError: `size` is less than one, exceeds the slots or this machine's limit, or a host is unknown.
    """
    require_ranks(size)
    hosts = parse_hosts(text) if text is not None else (Host("localhost", size),)
    room = sum(host.slots for host in hosts)
    if size > room:
        raise LaunchError(f"-H {text} has room for {room} ranks, not for {size}")
    here = min(size, sum(host.slots for host in hosts if is_local(host.name)))
    cores = os.cpu_count() or 1
    if here > RANKS_PER_CORE * cores:
        raise LaunchError(
            f"{here} ranks on this machine's {cores} cores exceed the limit of {RANKS_PER_CORE * cores}"
        )
    return hosts


def address_of(name: str) -> str:
    """Return a host's IPv4 address.

    Raises:
        LaunchError: the name cannot be resolved.
    """
    try:
        return socket.gethostbyname(name)
    except OSError as error:
        raise LaunchError(f"host {name}: {error.strerror or error}") from None


def is_local(name: str) -> bool:
    """Whether a host is this machine."""
    return is_here(address_of(name))


def is_here(address: str) -> bool:
    """Whether an address is this machine's."""
    return address.startswith("127.") or address in local_interfaces()


def local_interfaces() -> dict[str, str]:
    """Return the names of this machine's network interfaces, by IPv4 address."""
    import psutil

    return {
        entry.address: name
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET
    }


def address_towards(address: str) -> str:
    """Return the address of this machine from which packets to another address are sent.

    Raises:
        OSError: there is no route.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))  # sends nothing
        return str(probe.getsockname()[0])


def interface_variables(address: str) -> dict[str, str]:
    """Return variables that tell Horovod and NCCL which network interface leads to the first rank.

    Args:
        address: that of the first rank.
    """
    interface = local_interfaces().get(address_towards(address), "lo")
    return dict.fromkeys(INTERFACE_VARIABLES, interface)
