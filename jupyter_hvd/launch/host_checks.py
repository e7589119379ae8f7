"""Checks that the hosts of a job can run it together before a rank starts, and reports all of them at once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import node_probe
from .hosts import LaunchError

#: Set to 0, hosts that differ are left at that.
CHECK_VARIABLE = "JUPYTER_HVD_CHECK_HOSTS"
#: Seconds by which clocks may differ: which rank failed first is known by them.
CLOCKS = 10.0
#: Seconds for a host to answer.
PATIENCE = 60.0
#: What a shell, or `env`, ends with where there is no such program; what ssh ends with where there is no such host.
NO_PROGRAM, UNREACHABLE = (126, 127), 255


@dataclass(frozen=True)
class RemoteCommand:
    """How a command is run on another host: the command that does it, and its environment."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Answer:
    """A host's description of itself, with this machine's times of the question and the answer."""

    host: str
    said: Mapping[str, Any]
    asked: float
    answered: float


def check_hosts(
    hosts: Sequence[str],
    reach: Callable[[str, Sequence[str]], RemoteCommand],
    paths: Sequence[str],
    ports: Sequence[tuple[str, int]],
    strict: bool = True,
) -> None:
    """Ask all hosts at once, and check that each can be reached and matches this one.

    Args:
        reach: the command that runs a command line on a host.
        paths: what every host must see.
        ports: what every host must be able to connect to.
        strict: whether hosts that differ are refused; without it, only hosts that cannot be reached are.

    Raises:
        LaunchError: a host fails, with everything that is wrong with any of them.
    """
    if not hosts:
        return
    asked = [list(paths), [list(port) for port in ports]]
    entry = [sys.executable, "-"]
    with ThreadPoolExecutor(len(hosts)) as pool:
        answers = list(pool.map(lambda host: ask_host(host, reach(host, entry), asked), hosts))
    here = node_probe.describe_host([], [])
    told: dict[str, list[str]] = {}
    for answer in answers:
        for text in find_differences(here, answer):
            told.setdefault(text, []).append(answer.host)
    if told and strict:
        raise LaunchError(
            "\n".join(
                (
                    "the hosts of this job cannot run it together:",
                    *(f"{host_names(those)}: {text}" for text, those in told.items()),
                    f"{CHECK_VARIABLE}=0 starts it all the same.",
                )
            )
        )


def host_names(hosts: Sequence[str]) -> str:
    """Return some hosts in words: `host a`, `hosts a, b`."""
    return f"{'hosts' if hosts[1:] else 'host'} {', '.join(hosts)}"


def ask_host(host: str, remote: RemoteCommand, checked: Sequence[Any]) -> Answer:
    """Run `node_probe` on a host with its own Python and return its answer.

    Args:
        checked: the arguments of `print_description`: what the host should look for.

    Raises:
        LaunchError: it does not answer, or has no such Python.
    """
    text = f"{Path(node_probe.__file__).read_text()}\nprint_description(*{list(checked)!r})\n"
    before = time.time()
    try:
        done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
            remote.command,
            env=dict(remote.environment),
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(f"host {host} does not answer within {PATIENCE:g} s") from None
    for line in reversed(done.stdout.splitlines()):  # a shell may have greeted first
        if line.startswith('{"now"'):
            return Answer(host, json.loads(line), before, time.time())
    raise LaunchError(explain_silence(host, done.returncode, done.stderr))


def explain_silence(host: str, code: int, errors: str) -> str:
    """Return why a host has not answered, by the exit code and the errors of the command to it."""
    said = (errors.strip().splitlines() or [f"it ends with code {code}"])[-1]
    if code == UNREACHABLE:
        return (
            f"host {host} cannot be reached: {said}. `ssh {host} true` must work without a question"
        )
    if code in NO_PROGRAM:
        return (
            f"host {host} has no {sys.executable}: Python and its packages must be at the same path on every host, "
            "for example in a shared folder"
        )
    return f"host {host}: {sys.executable} does not run there: {said}"


def find_differences(this_host: Mapping[str, Any], answer: Answer) -> list[str]:
    """Return the differences between another host and this one, each with a remedy.

    Args:
        this_host: the description of this host.
    """
    there = answer.said
    told = []
    if there["python"] != this_host["python"]:
        told.append(
            f"Python {there['python']}, but {this_host['python']} here: both are {sys.executable}; "
            "share that folder, or install the same"
        )
    other = {
        name: (found, this_host["packages"][name])
        for name, found in there["packages"].items()
        if found != this_host["packages"][name]
    }
    for name, (found, wanted) in other.items():
        has = f"no {name}" if found is None else f"{name} {found}"
        told.append(f"{has}, but {wanted or 'none'} here: {_install_advice(name, wanted)}")
    told += [
        f"{path} is not there: work in a folder that all hosts share" for path in there["missing"]
    ]
    told += [
        f"it cannot connect to {address}:{port} ({why}): its firewall, or this machine's, must let the job's hosts through"
        for address, port, why in there["closed"]
    ]
    apart = max(answer.asked - there["now"], there["now"] - answer.answered)
    if apart > CLOCKS:
        side = "behind" if there["now"] < answer.asked else "ahead"
        told.append(f"its clock is {apart:.0f} s {side}: let chrony or ntpd set it")
    return told


def _install_advice(name: str, wanted: str | None) -> str:
    """Return how another host gets this machine's version of a package.

    Args:
        wanted: this version; None if the package is not installed here.
    """
    if wanted is None or not wanted[:1].isdigit():
        return "let all hosts use the same environment"
    if name == "horovod":
        return "`jupyter hvd install` there"
    return f"`pip install {name}=={wanted}` there"
