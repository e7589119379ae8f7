"""The store by which ranks find one another: groups are cleared by their own ranks alone."""

from __future__ import annotations

import http.client

import pytest
from horovod.runner.common.util.hosts import HostInfo, get_host_assignments

from jupyter_hvd.launch.rendezvous import Rendezvous


class Rank:
    """What Horovod asks of the store for one rank (its `http_store.cc`)."""

    def __init__(self, store: Rendezvous) -> None:
        self._port = store.port

    def ask(self, method: str, path: str, body: bytes | None = None) -> int:
        asking = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        asking.request(method, path, body)
        status = asking.getresponse().status
        asking.close()
        return status


@pytest.mark.parametrize("last", ["0", "1"])
def test_a_group_is_cleared_whatever_others_do_meanwhile(last: str) -> None:
    """Where the last to leave a group leaves it after another group of a single rank is whole, as a busy machine has it."""
    slots = get_host_assignments([HostInfo("here", 2)], 2, 2)
    store = Rendezvous(("127.0.0.1", 0), (), slots)
    rank = Rank(store)
    try:
        for turn in range(2):
            for number in ("0", "1"):
                path = f"/local_here/{number}"
                assert rank.ask("GET", path) == 404, f"left from before turn {turn}"
                assert rank.ask("PUT", path, b"an address") == 200
            first = "1" if last == "0" else "0"
            assert rank.ask("DELETE", f"/local_here/{first}") == 200
            assert rank.ask("DELETE", f"/cross_{first}/0") == 200
            assert rank.ask("GET", f"/local_here/{last}") == 200
            assert rank.ask("DELETE", f"/local_here/{last}") == 200
            assert rank.ask("DELETE", f"/cross_{last}/0") == 200
    finally:
        store.shutdown()
        store.server_close()
