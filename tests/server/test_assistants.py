"""Tools for assistants, on a real server and through a real client of the protocol: `make env-mcp`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-mcp" / "bin" / "python"
TOKEN = "a-token-of-this-test"
TRAINING = """\
import keras
import numpy as np

x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x.sum(1, keepdims=True), epochs=1, verbose=0)
"""
ENERGY = """\
from __future__ import annotations
from jupyter_hvd.tensor import tensor

@tensor
def energy(A: Float[Array, "n n"], x: Float[Array, "n"]):
    n = len(x)
    return sum(x[i] * A[i, j] * x[j] for i in range(n) for j in range(n))
"""
Ask = Callable[..., dict[str, Any]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("assistants"),
    pytest.mark.needs("mcp"),
]


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    served = tmp_path_factory.mktemp("served")
    (served / "train.py").write_text(TRAINING)
    (served / "energy.py").write_text(ENERGY)
    return served


@pytest.fixture(scope="module")
def ask(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks a tool of a running server as its user, who agrees to all, unless the arguments say otherwise."""
    runtime = tmp_path_factory.mktemp("runtime")
    port, mcp_port = free_port(), free_port()
    command = [PYTHON, "-m", "jupyter_server", "--allow-root", "--no-browser", f"--port={port}"]
    command += [f"--ServerApp.root_dir={folder}", f"--MCPExtensionApp.mcp_port={mcp_port}"]
    environment = {**os.environ, "JUPYTER_TOKEN": TOKEN, "JUPYTER_RUNTIME_DIR": str(runtime)}
    log = (runtime / "server.log").open("w")
    server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        deadline = time.monotonic() + 90
        while not list(runtime.glob("jpserver-mcp-*.json")):
            assert server.poll() is None, (runtime / "server.log").read_text()
            assert time.monotonic() < deadline, (runtime / "server.log").read_text()
            time.sleep(0.2)
        client = subprocess.Popen(
            [PYTHON, Path(__file__).with_name("mcp_client.py"), f"http://127.0.0.1:{mcp_port}/mcp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert client.stdin is not None
        assert client.stdout is not None

        def call(
            tool: str | None,
            arguments: dict[str, Any] | None = None,
            *,
            token: str | None = f"token {TOKEN}",
            agrees: bool | None = True,
            **more: Any,
        ) -> dict[str, Any]:
            request = {"tool": tool, "arguments": arguments, "token": token, "agrees": agrees}
            print(json.dumps({**request, **more}), file=client.stdin, flush=True)
            return dict(json.loads(client.stdout.readline()))

        yield call
        client.stdin.close()
        client.wait(30)
    finally:
        server.terminate()
        server.wait(30)
        log.close()


@pytest.mark.long
def test_tools_are_found_with_schemas(ask: Ask) -> None:
    tools = ask(None)["tools"]
    assert {"convert", "explain", "verify", "certify"} <= tools.keys()
    assert tools["verify"]["properties"]["batch"]["enum"] == ["global", "per-rank"]
    assert "ctx" not in tools["convert"]["properties"]


@pytest.mark.parametrize("token", [None, "token wrong", f"Basic {TOKEN}", "token"])
def test_callers_without_the_servers_token_are_refused(ask: Ask, token: str | None) -> None:
    answer = ask("convert", {"file": "train.py"}, token=token)
    assert answer["failed"]
    assert "ask for the token" in answer["answer"]
    assert not ask("convert", {"file": "train.py"})["failed"]


def test_convert_writes_nothing_unless_the_user_agrees(ask: Ask, folder: Path) -> None:
    answer = ask("convert", {"file": "train.py"})
    assert answer["answer"]["files"][0]["status"] == "converted"
    assert not answer["questions"]
    refused = ask("convert", {"file": "train.py", "write": True}, agrees=False)
    assert "did not agree" in refused["answer"]
    assert "train.py" in refused["questions"][0]
    unable = ask("convert", {"file": "train.py", "write": True}, agrees=None)
    assert unable["failed"]
    older = ask("convert", {"file": "train.py", "write": True}, agrees=False, mode="legacy")
    assert "did not agree" in older["answer"]
    mute = ask("convert", {"file": "train.py", "write": True}, agrees=None, mode="legacy")
    assert "cannot ask" in mute["answer"]
    assert not (folder / "train_hvd.py").exists()
    written = ask("convert", {"file": "train.py", "write": True})
    assert written["questions"]
    assert (folder / "train_hvd.py").exists()


def test_files_outside_the_served_folder_are_refused(ask: Ask, folder: Path) -> None:
    secret = folder.parent / "secret.py"
    secret.write_text(TRAINING)
    (folder / "link.py").symlink_to(secret)
    for file in ("../secret.py", str(secret), "link.py"):
        assert "outside the folder" in ask("explain", {"file": file})["answer"]
    assert "no such file" in ask("explain", {"file": "missing.py"})["answer"]


def test_explain(ask: Ask) -> None:
    answer = ask("explain", {"file": "train.py"})
    assert not answer["failed"]
    assert "variables" in answer["answer"]


@pytest.mark.long
def test_certify_runs_the_file_after_confirmation(ask: Ask) -> None:
    request = {
        "file": "energy.py",
        "function": "energy",
        "by": ["x"],
        "sizes": {"n": 20},
    }
    assert "did not agree" in ask("certify", request, agrees=False)["answer"]
    missing = ask("certify", {**request, "function": "energi"})
    assert "it has energy" in missing["answer"]
    assert "is not the name" in ask("certify", {**request, "by": ["--help"]})["answer"]
    certified = ask("certify", request)
    assert not certified["failed"], certified
    assert "energy.py" in certified["questions"][0]
    assert certified["answer"]["wrt"] == ["x"]


@pytest.mark.long
def test_verify_reports_progress_and_its_verdict(ask: Ask, folder: Path) -> None:
    assert "did not agree" in ask("verify", {"file": "train.py"}, agrees=False)["answer"]
    answer = ask("verify", {"file": "train.py", "workers": 2})
    assert answer["answer"]["holds"] is True, answer
    assert answer["progress"]
    assert [path.name for path in folder.glob("train*")] != []


@pytest.mark.long
def test_a_cancelled_verification_leaves_no_process(ask: Ask) -> None:
    answer = ask("verify", {"file": "train.py", "workers": 2}, cancel_after=4)
    assert answer["cancelled"]
    deadline = time.monotonic() + 40
    while tool_processes() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not tool_processes()


def tool_processes() -> list[int]:
    """The processes that tools have started."""
    found = []
    for process in psutil.process_iter():
        try:
            if "JUPYTER_HVD_TOOL" in process.environ():
                found.append(process.pid)
        except psutil.Error:
            continue
    return found
