"""The routes: what they answer, and what they refuse."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tornado.httpclient import HTTPClientError

from jupyter_hvd.server import routes as server

#: Tells this module's processes from those of other tests on the machine.
MARK = "JUPYTER_HVD_TEST"


async def refused(jp_fetch: Any, *args: Any, **kwargs: Any) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of a request that must fail."""
    with pytest.raises(HTTPClientError) as error:
        await jp_fetch(*args, **kwargs)
    assert error.value.response is not None
    return error.value.code, json.loads(error.value.response.body)


async def post(jp_fetch: Any, route: str, body: Any, **kwargs: Any) -> Any:
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    response = await jp_fetch("jupyter-hvd", route, method="POST", body=text, **kwargs)
    return json.loads(response.body)


async def test_the_page_knows_the_command_for_terminals(jp_serverapp):
    page = jp_serverapp.web_app.settings["page_config_data"]
    assert Path(page["jupyterHvdRoot"]).samefile(jp_serverapp.root_dir)
    command = page["jupyterHvdCommand"]
    run = subprocess.run([command, "--version"], capture_output=True, text=True, env={}, check=True)
    assert "jupyter" in run.stdout


async def test_convert_answers_as_documented(jp_fetch, notebook):
    answer = await post(jp_fetch, "convert", {"notebook": notebook})
    assert answer["status"] == "converted"
    assert answer["training_loop"] == "gradient_tape"
    assert {change["rule"] for change in answer["changes"]} >= {"HVD101", "HVD301", "HVD803"}
    assert "jhvd.start_shared()" in answer["notebook"]["cells"][1]["source"]
    assert answer["models"] == [{"name": "model", "parameters": 41, "bytes": 164}]
    assert answer["path"] is None
    assert answer["output"] is None


async def test_options_choose_rules(jp_fetch, notebook):
    body = {
        "notebook": notebook,
        "options": {"ignore": ["HVD6"], "guard": False},
    }
    answer = await post(jp_fetch, "convert", body)
    assert all(not change["rule"].startswith("HVD6") for change in answer["changes"])
    assert "start_shared(guard=False)" in json.dumps(answer)


async def test_a_batch_that_the_ranks_share(jp_fetch, notebook):
    body = {"notebook": notebook, "options": {"batch": "global"}}
    answer = await post(jp_fetch, "convert", body)
    assert [change["rule"] for change in answer["changes"]] == ["HVD701"]


async def test_rules_are_listed_with_their_pages(jp_fetch):
    response = await jp_fetch("jupyter-hvd", "rules")
    rules = {rule["code"]: rule for rule in json.loads(response.body)}
    assert rules["HVD101"]["page"].startswith("## HVD101")
    assert rules["HVD101"]["why"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[]", "must be a JSON object"),
        ({}, "`notebook` must be a notebook"),
        ({"notebook": 3}, "`notebook` must be a notebook"),
        ({"notebook": {"cells": 3}}, "not a Jupyter notebook"),
        (
            {"notebook": {"nbformat": 4, "nbformat_minor": 5, "cells": [3]}},
            "not a Jupyter notebook",
        ),
        ({"notebook": {}, "file": "/etc/passwd"}, "unknown field `file`"),
    ],
)
async def test_what_is_no_notebook_is_refused(jp_fetch, notebook, body, message):
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    status, answer = await refused(jp_fetch, "jupyter-hvd", "convert", method="POST", body=text)
    assert status == 400
    assert message in answer["message"]
    assert (await post(jp_fetch, "convert", {"notebook": notebook}))["status"] == "converted"


@pytest.mark.parametrize(
    "options",
    [
        3,
        {"select": "HVD1"},
        {"select": [1]},
        {"chosen": []},
        {"target": "k3"},
        {"standalone": 1},
        {"guard": 0},
        {"data": "none"},
        {"warmup_epochs": -1},
        {"warmup_epochs": "3"},
        {"batch": "all"},
        {"standalone": True},
    ],
)
async def test_wrong_options_are_refused(jp_fetch, notebook, options):
    body = json.dumps({"notebook": notebook, "options": options})
    status, answer = await refused(jp_fetch, "jupyter-hvd", "convert", method="POST", body=body)
    assert status == 400
    assert answer["message"]


async def test_another_language_is_refused(jp_fetch, notebook):
    notebook["metadata"]["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    body = json.dumps({"notebook": notebook})
    status, answer = await refused(jp_fetch, "jupyter-hvd", "convert", method="POST", body=body)
    assert status == 400
    assert "written in R" in answer["message"]


@pytest.mark.parametrize("route", ["convert", "verify"])
async def test_a_body_of_20_megabytes_is_refused(jp_fetch, notebook, route):
    status, answer = await refused(
        jp_fetch, "jupyter-hvd", route, method="POST", body=b" " * 20_000_000
    )
    assert status == 413
    assert "larger than 16 MiB" in answer["message"]
    assert (await post(jp_fetch, "convert", {"notebook": notebook}))["status"] == "converted"


async def test_deep_nesting_is_refused_and_the_server_goes_on(jp_fetch, notebook):
    deep = json.dumps({"notebook": {"cells": []}}).replace("[]", "[" * 100_000 + "]" * 100_000)
    status, answer = await refused(jp_fetch, "jupyter-hvd", "convert", method="POST", body=deep)
    assert 400 <= status < 500
    assert answer["message"]
    assert (await post(jp_fetch, "convert", {"notebook": notebook}))["status"] == "converted"


async def test_a_conversion_that_takes_too_long_is_ended(notebook, worker, monkeypatch):
    body = json.dumps({"notebook": notebook}).encode()
    worker.stop()
    monkeypatch.setattr(worker, "limit", 0.01)
    with pytest.raises(server.WorkerError, match=r"more than 0\.01 s") as error:
        await worker.ask_worker("convert", body)
    assert error.value.status == 504
    monkeypatch.setattr(worker, "limit", 60)
    assert (await worker.ask_worker("convert", body))[0] == 200


@pytest.mark.parametrize(
    "change",
    [
        {"notebook": []},
        {"n": 0},
        {"n": "2"},
        {"n": True},
        {"n": 65},
        {"steps": 0},
        {"options": {"select": ["--in-place"]}},
        {"path": 1},
        {"path": "../outside/notebook.ipynb"},
        {"where": "/x"},
        {"left": [0]},
        {"converted": {}},
        {"left": [-1], "converted": {}},
        {"left": [True], "converted": {}},
        {"left": [0], "converted": []},
    ],
)
async def test_wrong_verifications_are_refused(jp_fetch, notebook, change):
    body = json.dumps({"notebook": notebook, "n": 2} | change)
    status, answer = await refused(jp_fetch, "jupyter-hvd", "verify", method="POST", body=body)
    assert status == 400
    assert answer["message"]


async def lines_of(jp_fetch, request, patience=300):
    """The events of a verification, with the time at which each came."""
    events, start = [], time.monotonic()
    rest = b""

    def take(chunk: bytes) -> None:
        nonlocal rest
        *lines, rest = (rest + chunk).split(b"\n")
        events.extend((time.monotonic() - start, json.loads(line)) for line in lines)

    body = json.dumps(request)
    await jp_fetch(
        *("jupyter-hvd", "verify"),
        method="POST",
        body=body,
        streaming_callback=take,
        request_timeout=patience,
    )
    return events


@pytest.mark.slow
async def test_verification_streams_its_checks(jp_fetch, notebook, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    events = await lines_of(jp_fetch, {"notebook": notebook, "n": 2, "steps": 4})
    first, last = events[0], events[-1]
    assert first[1]["status"] == "running"
    assert last[0] - first[0] > 1, "the events come as they happen, not all at the end"
    checks = {event["check"]: event["status"] for _, event in events if "check" in event}
    assert checks["2 ranks: ranks agree"] == "pass"
    assert last[1]["done"] is True
    assert last[1]["holds"] is True


@pytest.mark.slow
@pytest.mark.long
async def test_batch_global_is_compared_with_one_process(jp_fetch, notebook):
    """As the command line does; the notebook lies in no folder here."""
    options = {"batch": "global", "guard": False}
    events = await lines_of(jp_fetch, {"notebook": notebook, "n": 2, "steps": 2, "options": options})  # fmt: skip
    checks = {event["check"]: event["status"] for _, event in events if "check" in event}
    assert checks["2 ranks: losses"] == "pass", events
    last = events[-1][1]
    assert last["holds"] is True
    assert last["verdict"].startswith("On 2 ranks the program gives one process's results")
    notebook["cells"][1]["source"] = "import horovod.tensorflow as hvd"
    _, last = (await lines_of(jp_fetch, {"notebook": notebook, "n": 2, "options": options}))[-1]
    assert "it uses Horovod itself" in last["message"]


@pytest.mark.slow
@pytest.mark.long
async def test_the_program_sees_the_files_beside_the_notebook(jp_fetch, jp_root_dir, notebook):
    folder = jp_root_dir / "study"
    folder.mkdir()
    (folder / "rates.txt").write_text("0.01")
    notebook["cells"][1]["source"] += "\nprint('rate', float(open('rates.txt').read()))"
    body = {"notebook": notebook, "n": 2, "steps": 2, "path": "study/notebook.ipynb"}
    events = await lines_of(jp_fetch, body)
    checks = {event["check"]: event["status"] for _, event in events if "check" in event}
    assert checks["2 ranks: final weights"] == "pass"


@pytest.mark.slow
@pytest.mark.long
async def test_a_verification_ends_with_its_client(jp_fetch, notebook, monkeypatch):
    """All its processes go, and the next one can start."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    notebook["cells"][1]["source"] += "\nimport time\ntime.sleep(600)"
    body = {"notebook": notebook, "n": 2}
    request = asyncio.ensure_future(lines_of(jp_fetch, body, patience=8))
    while not verifications(mark):
        await asyncio.sleep(0.1)
    status, answer = await refused(
        *(jp_fetch, "jupyter-hvd", "verify"), method="POST", body=json.dumps(body)
    )
    assert status == 409
    assert "another verification" in answer["message"]
    with pytest.raises(HTTPClientError, match="Timeout"):
        await request
    # Who begins another waits until all of the first has gone.
    monkeypatch.setenv(MARK, "another")
    notebook["cells"][1]["source"] = "import this_is_not_installed"
    async with asyncio.timeout(30):
        *_, (_, last) = await lines_of(jp_fetch, body)
    assert last["done"]
    assert not verifications(mark)


def verifications(mark: str) -> list[int]:
    """The processes of this test's verifications; other tests have theirs at the same time."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            environment = process.environ()
            if server.VERIFY_VARIABLE in environment and environment.get(MARK) == mark:
                found.append(process.pid)
    return found


def test_the_server_starts_without_the_converter():
    program = (
        "import sys, jupyter_hvd.server.routes\n"
        "loaded = {'libcst', 'tensorflow', 'jax', 'horovod', 'numpy'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
