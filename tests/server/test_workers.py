"""The processes in which the server converts: several, each with its limit, and none left behind."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_hvd.server.routes import WorkerError, Workers

pytestmark = pytest.mark.slow

#: A server that dies in the midst of a conversion: it prints the number of the process that converts.
DYING = """
import asyncio, sys, pathlib
from jupyter_hvd.server.routes import Workers

async def main():
    workers = Workers(pathlib.Path("."))
    await workers.ask_worker("rules")
    print(workers._workers[0]._process.pid, flush=True)
    await workers.ask_worker("convert", pathlib.Path(sys.argv[1]).read_bytes())

asyncio.run(main())
"""


def body(notebook: Any) -> bytes:
    return json.dumps({"notebook": notebook}).encode()


@pytest.mark.long
async def test_a_slow_notebook_holds_up_no_other(
    notebook: Any, slow_notebook: Any, tmp_path: Path
) -> None:
    workers = Workers(tmp_path, limit=20)
    try:
        await asyncio.gather(
            workers.ask_worker("rules"), workers.ask_worker("rules")
        )  # both are started
        slow = asyncio.ensure_future(workers.ask_worker("convert", body(slow_notebook)))
        await asyncio.sleep(0)
        status, answer = await workers.ask_worker("convert", body(notebook))
        assert not slow.done(), "the small one has not waited for it"
        assert (status, json.loads(answer)["status"]) == (200, "converted")
        with pytest.raises(WorkerError, match="more than 20 s and was ended; make") as error:
            await slow
        assert error.value.status == 504
        assert (await workers.ask_worker("convert", body(notebook)))[0] == 200
    finally:
        workers.stop()
    await asyncio.sleep(0.1)
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [c for c in commands if "jupyter_hvd.server.worker" in c and str(tmp_path) in c]


async def test_workers_are_started_as_they_are_needed(tmp_path: Path) -> None:
    workers = Workers(tmp_path, most=2)
    try:
        assert workers._workers == []
        for _ in range(3):
            await workers.ask_worker("rules")
        assert len(workers._workers) == 1
        answers = await asyncio.gather(*(workers.ask_worker("rules") for _ in range(6)))
        assert {status for status, _ in answers} == {200}
        assert len(workers._workers) == 2
    finally:
        workers.stop()


async def test_the_start_of_a_process_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "import runpy, sys, time; time.sleep(6); del sys.argv[0]; runpy.run_module(sys.argv[0], run_name='__main__')"
    monkeypatch.setattr("jupyter_hvd.server.routes.SAFE_PYTHON", [sys.executable, "-P", "-c", late])
    workers = Workers(tmp_path, limit=5)
    try:
        status, _ = await workers.ask_worker("rules")
    finally:
        workers.stop()
    assert status == 200


def test_workers_end_with_the_server(slow_notebook: Any, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_bytes(body(slow_notebook))
    with subprocess.Popen(
        [sys.executable, "-c", DYING, str(file)], stdout=subprocess.PIPE, cwd=tmp_path
    ) as dying:
        assert dying.stdout is not None
        worker = psutil.Process(int(dying.stdout.readline()))
        dying.kill()
    worker.wait(timeout=60)
