"""Horovod's rendezvous store, restricted to this user and the hosts of the job.

Horovod's own listens on every interface of the machine and answers whoever asks. This one
listens on one address. Of this machine's processes it answers those of the same user, and of
others those on the hosts of the job.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.gloo_run import create_run_env_vars
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

from .hosts import INTERFACE_VARIABLES
from .peer_users import Peer, is_own


class Handler(RendezvousHandler):  # type: ignore[misc]
    """Horovod's, but for one line: there, a group whose ranks have all met makes the store forget who has met in the others.

    What they have left there would then stay, and ranks that join again after a fault would look for one another at
    addresses of before. The one rank of a host that leads to other hosts is such a group, and is whole at once.
    """

    def do_DELETE(self) -> None:  # noqa: N802 — as http.server calls it
        """Note that one rank of a group (`/scope/rank`) has met the others; the last one clears the group's entries."""
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
    def variables(self) -> dict[str, str]:
        """The environment variables by which ranks find the store; each finds its network interface by itself."""
        found = create_run_env_vars(self.server_address[0], ["lo"], self.port)
        return {k: str(v) for k, v in found.items() if k not in INTERFACE_VARIABLES}

    @property
    def port(self) -> int:
        """The TCP port at which the store listens."""
        return int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Peer) -> bool:
        """Whether a connection may be answered: it comes from this user or from a host of the job."""
        own = is_own(client_address, request.getsockname())
        return client_address[0] in self.hosts if own is None else own


def slots_of(hosts: Sequence[str]) -> list[SlotInfo]:
    """Return the slot of each rank, with its local and cross ranks, from the host of each rank."""
    local = [hosts[:rank].count(host) for rank, host in enumerate(hosts)]
    return [
        SlotInfo(
            hostname=host,
            rank=rank,
            local_rank=local[rank],
            cross_rank=local[:rank].count(local[rank]),
            size=len(hosts),
            local_size=hosts.count(host),
            cross_size=local.count(local[rank]),
        )
        for rank, host in enumerate(hosts)
    ]
