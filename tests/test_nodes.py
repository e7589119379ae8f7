"""Hosts that do not fit together, by what they say; real ones in `distribute/test_hosts_that_differ.py`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_hvd.launch.host_checks import Answer, RemoteCommand, check_hosts, find_differences
from jupyter_hvd.launch.hosts import LaunchError
from jupyter_hvd.launch.node_probe import describe_host


def this_machine(_: str, entry: Sequence[str]) -> RemoteCommand:
    return RemoteCommand(tuple(entry), os.environ)


def told(**other: Any) -> list[str]:
    """What is told of a host that is as this one but for something."""
    here = describe_host([], [])
    return find_differences(here, Answer("b", {**here, **other}, time.time(), time.time()))


def test_a_host_as_this_one() -> None:
    assert told() == []
    check_hosts(["b", "c"], this_machine, [os.getcwd()], [])  # noqa: PTH109 — a text


def test_all_that_differs_is_reported_at_once() -> None:
    missing, closed = "/no/such/folder", ("127.0.0.1", 1)
    with pytest.raises(LaunchError) as error:
        check_hosts(["b", "c"], this_machine, [missing, "/"], [closed])
    lines = str(error.value).splitlines()
    assert lines[1].startswith(f"hosts b, c: {missing} is not there: work in a folder that all")
    assert lines[2].startswith("hosts b, c: it cannot connect to 127.0.0.1:1 (Connection refused)")
    assert "JUPYTER_HVD_CHECK_HOSTS=0" in lines[3]
    check_hosts(["b"], this_machine, [missing], [closed], strict=False)


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        ({"keras": "2.15.0"}, "keras 2.15.0, but 3.0 here: `pip install keras==3.0` there"),
        ({"horovod": None}, "no horovod, but 3.0 here: `jupyter hvd install` there"),
    ],
)
def test_versions(packages: dict[str, str | None], message: str) -> None:
    here = {**describe_host([], []), "packages": dict.fromkeys(("keras", "horovod"), "3.0")}
    there = {**here, "packages": {**here["packages"], **packages}}
    assert find_differences(here, Answer("b", there, time.time(), time.time())) == [message]


def test_another_python() -> None:
    (message,) = told(python="3.12")
    assert message.startswith("Python 3.12, but ")
    assert sys.executable in message


def test_clocks() -> None:
    """What it takes to answer is no difference."""
    now = time.time()
    here = describe_host([], [])
    slow = Answer("b", {**here, "now": now + 20}, now, now + 40)
    assert find_differences(here, slow) == []
    ahead = Answer("b", {**here, "now": now + 100}, now, now + 1)
    assert find_differences(here, ahead) == ["its clock is 99 s ahead: let chrony or ntpd set it"]
    behind = Answer("b", {**here, "now": now - 3600}, now, now + 1)
    assert find_differences(here, behind) == [
        "its clock is 3600 s behind: let chrony or ntpd set it"
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exec /no/such/python -", f"host b has no {sys.executable}: Python and its packages"),
        (
            "echo Permission denied >&2; exit 255",
            "cannot be reached: Permission denied. `ssh b true`",
        ),
        ("echo broken >&2; exit 1", f"host b: {sys.executable} does not run there: broken"),
    ],
)
def test_a_host_that_does_not_answer(command: str, message: str) -> None:
    with pytest.raises(LaunchError) as error:
        check_hosts(
            ["b"], lambda *_: RemoteCommand(("sh", "-c", command), os.environ), [], [], False
        )
    assert message in str(error.value)


def test_a_shell_that_greets() -> None:
    greets = f"echo welcome; {sys.executable} -; echo bye"
    check_hosts(["b"], lambda *_: RemoteCommand(("sh", "-c", greets), os.environ), [], [])
