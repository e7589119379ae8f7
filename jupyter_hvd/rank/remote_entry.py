"""Where a rank on another host begins: `python -m jupyter_hvd.rank.remote_entry COMMAND …`, its environment on standard input.

It comes as one line of JSON over ssh, so that no secret is in a command line.
"""

from __future__ import annotations

import json
import os
import sys

from ..launchers.hosts import interface_towards

RENDEZVOUS_VARIABLE = "HOROVOD_GLOO_RENDEZVOUS_ADDR"


def main() -> None:
    environment: dict[str, str] = json.loads(sys.stdin.buffer.readline())
    # The interface by which this host reaches the first one may have another name here.
    interface = interface_towards(environment[RENDEZVOUS_VARIABLE])
    if interface is not None:
        environment = {
            "HOROVOD_GLOO_IFACE": interface,
            "NCCL_SOCKET_IFNAME": interface,
            **environment,
        }
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.execve(sys.argv[1], sys.argv[1:], {**os.environ, **environment})  # noqa: S606 — no shell


if __name__ == "__main__":
    main()
