"""A host's description of itself.

The text of this module is sent to hosts that need not have this package: it imports only Python's own modules.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

#: What the ranks import, by the names of the packages that have it.
PACKAGES = {
    "jupyter_hvd": ("jupyter-hvd",),
    "tensorflow": ("tensorflow", "tensorflow-cpu", "tensorflow-gpu"),
    "keras": ("keras",),
    "horovod": ("horovod",),
}
#: Seconds to connect.
PATIENCE = 5.0


def describe_host(paths: list[str], ports: list[list[Any]]) -> dict[str, Any]:
    """Return the versions here, the paths that are missing, the addresses that cannot be connected to and why, and the time."""
    return {
        "now": time.time(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "packages": {
            module: installed_version(module, names) for module, names in PACKAGES.items()
        },
        "missing": [path for path in paths if not os.path.exists(path)],  # noqa: PTH110 — as it is written
        "closed": [
            [host, port, why] for host, port in ports if (why := explain_refusal(host, port))
        ],
    }


def installed_version(module: str, names: tuple[str, ...]) -> str | None:
    """Return the version of a package without importing it; None if it is not installed."""
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of no version" if find_spec(module) else None


def explain_refusal(host: str, port: int) -> str:
    """Return why there is no connection to a port; "" if there is one."""
    try:
        socket.create_connection((host, port), timeout=PATIENCE).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def print_description(*checked: Any) -> None:
    """Print `describe_host` as JSON; called on another host, to which this module's text was sent."""
    print(json.dumps(describe_host(*checked)), flush=True)
