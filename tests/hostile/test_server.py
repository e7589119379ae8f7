"""Requests that nobody means well with: told at once, and the server goes on."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_hvd.server import routes as server
from jupyter_hvd.server.routes import Workers

TRAINING = "import tensorflow as tf\nmodel = tf.keras.Sequential()\nmodel.compile('sgd')\nmodel.fit(x, y)\n"
SPY = "import pathlib; pathlib.Path({mark!r}).write_text('I ran')\nraise ImportError('not this one')\n"


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    return {"ServerApp": {"jpserver_extensions": {"jupyter_hvd.server": True}}}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Workers]:
    """One for the servers of all tests here, begun before any of them, so that it is none of what they leave."""
    worker = server.Workers(tmp_path_factory.mktemp("nothing"), most=1)
    asyncio.run(worker.ask_worker("rules"))
    yield worker
    worker.stop()


@pytest.fixture(autouse=True)
def one_worker(worker: server.Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Workers", lambda _: worker)


def notebook(*sources: str) -> dict[str, Any]:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": s}
        for s in sources
    ]
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": cells}


async def status_of(jp_fetch: Any, route: str, body: Any) -> tuple[int, dict[str, Any]]:
    """The status and the JSON, of the last line where there are several."""
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    try:
        response = await jp_fetch(
            "jupyter-hvd", route, method="POST", body=text, request_timeout=120
        )
    except HTTPClientError as error:
        return error.code, json.loads(error.response.body if error.response else "null")
    return response.code, json.loads(response.body.splitlines()[-1])


DEEP = '{"notebook": ' + "[" * 200_000 + "]" * 200_000 + ', "n": 2}'
BODIES = {
    "deep": DEEP,
    "a long number": '{"notebook": {"nbformat": ' + "1" * 5000 + '}, "n": 2}',
    "a null character in the path": {"notebook": notebook("x"), "n": 2, "path": "a\0b"},
    "a surrogate in the path": {"notebook": notebook("x"), "n": 2, "path": "a\ud800/b"},
    "a name of 300 characters": {"notebook": notebook("x"), "n": 2, "path": "x" * 300 + "/b"},
    "a path out of the folder": {"notebook": notebook("x"), "n": 2, "path": "../../etc/passwd"},
    "a path that is a number": {"notebook": notebook("x"), "n": 2, "path": 7},
    "a rule that is none": {
        "notebook": notebook(TRAINING),
        "n": 2,
        "options": {"select": ["HVD\ud800"]},
    },
}


@pytest.mark.parametrize("route", ["convert", "verify", "script"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_bodies(jp_fetch, body, route) -> None:
    """Bodies that no client sends are answered with 400."""
    if route == "convert" and isinstance(body, dict):
        body = {k: v for k, v in body.items() if k != "n"}
    status, answer = await status_of(jp_fetch, route, body)
    assert status in (400, 422)
    assert answer["message"]


SOURCES = {
    "a number of 5,000 digits": TRAINING + "n = " + "7" * 5000,
    "a number of 20,000 hexadecimal digits": TRAINING + "n = 0x" + "f" * 20000,
    "a layer of so many units": "import tensorflow as tf\n"
    "m = tf.keras.Sequential([tf.keras.layers.Dense(0x" + "f" * 20000 + ", input_shape=(3,))])\n"
    "m.compile('sgd')\nm.fit(x, y, epochs=0x" + "f" * 20000 + ")\n",
    "a power": "import tensorflow as tf\nm = tf.keras.Sequential([tf.keras.layers.Dense(9**9**9)])\n"
    "m.compile('sgd')\nm.fit(x, y, batch_size=10**5000, epochs=1e400)\n",
    "a lone surrogate": TRAINING + "s = '\ud800'",
    "a null character": TRAINING + "s = '\0'",
    "deep": "import tensorflow as tf\n" + "x = " + "(" * 3000 + "1" + ")" * 3000,
    "a deep sum": "import tensorflow as tf\nx = " + "+".join("1" * 30_000),
}


async def test_sources(jp_fetch, worker) -> None:
    """Programs that break readers are answered, by one and the same process."""
    await status_of(jp_fetch, "convert", {"notebook": notebook("x = 1")})
    process = worker._workers[0]._process
    for name, source in SOURCES.items():
        status, answer = await status_of(jp_fetch, "convert", {"notebook": notebook(source)})
        assert status in (200, 400, 422), (name, answer)
        assert worker._workers[0]._process is process, name
        assert process.poll() is None, name


async def exchange(port: int, head: str, rest: bytes = b"", seconds: float = 5) -> bytes:
    """What the server has answered to the beginning of a request after some seconds, or when it hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head.encode() + b"\r\n\r\n" + rest)
    answer = b""
    try:
        async with asyncio.timeout(seconds):
            while b"}" not in answer and (part := await reader.read(65536)):
                answer += part
    except TimeoutError:
        pass
    writer.close()
    return answer


@pytest.mark.parametrize(
    "form",
    [f"Content-Length: {400 * 1024**2}", "Transfer-Encoding: chunked"],
    ids=["told", "chunked"],
)
@pytest.mark.usefixtures("http_server")
@pytest.mark.parametrize("route", ["convert", "verify"])
async def test_large_bodies(jp_http_port, jp_base_url, jp_auth_header, route, form) -> None:
    """A body over the limit is refused before it is sent whole."""
    token = jp_auth_header["Authorization"]
    head = f"POST {jp_base_url}jupyter-hvd/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {token}\r\n{form}"
    part = b"" if "Length" in form else b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    answer = await exchange(jp_http_port, head, part * 18)
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"16 MiB" in answer


@pytest.mark.usefixtures("http_server")
@pytest.mark.parametrize("route", ["convert", "verify"])
async def test_large_bodies_of_strangers(jp_http_port, jp_base_url, route) -> None:
    """Nothing is read of a body for one who may not send it."""
    head = (
        f"POST {jp_base_url}jupyter-hvd/{route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000"
    )
    answer = await exchange(jp_http_port, head)
    assert answer.startswith(b"HTTP/1.1 403")


@pytest.mark.slow
async def test_modules_beside_the_notebook(jp_fetch, jp_root_dir, monkeypatch, tmp_path) -> None:
    """A module beside the notebook is not imported, neither from there nor from the server's folder."""
    mark = tmp_path / "mark"
    for name in ("nbformat", "libcst", "psutil", "IPython"):
        (jp_root_dir / f"{name}.py").write_text(SPY.format(mark=str(mark)))
    monkeypatch.chdir(jp_root_dir)
    monkeypatch.setenv("PYTHONPATH", ":" + str(Path(server.__file__).parents[1]))
    body = {"notebook": notebook("x = 1"), "path": "notebook.ipynb"}
    own = Workers(jp_root_dir)
    status, answer = await own.ask_worker("convert", json.dumps(body).encode())
    own.stop()
    assert (status, json.loads(answer)["status"]) == (200, "unchanged")
    status, last = await status_of(jp_fetch, "verify", body | {"n": 2})
    assert status == 200
    assert last["message"].endswith("unchanged, there is no conversion to verify")
    assert not mark.exists()


@pytest.mark.slow
async def test_settings_in_the_temporary_folder(jp_fetch, aftermath) -> None:
    """What others put into the temporary folder changes nobody's verification."""
    (aftermath.temporary / "pyproject.toml").write_text("[tool.jupyter-hvd]\nselect = 'x'\n")
    body = {"notebook": notebook("x = 1"), "n": 2}
    start = time.monotonic()
    _, answer = await status_of(jp_fetch, "verify", body)
    aftermath.seconds = time.monotonic() - start
    assert answer["message"].endswith("unchanged, there is no conversion to verify")


@pytest.mark.slow
@pytest.mark.long
async def test_simultaneous_verifications(jp_fetch, aftermath) -> None:
    """Of twelve verifications at the same moment, one runs and eleven are told."""
    body = {"notebook": notebook("x = 1"), "n": 2}
    aftermath.tries = 12
    start = time.monotonic()
    answers = await asyncio.gather(*(status_of(jp_fetch, "verify", body) for _ in range(12)))
    aftermath.seconds = time.monotonic() - start
    assert sorted(status for status, _ in answers) == [200, *[409] * 11]
    assert (await status_of(jp_fetch, "verify", body))[0] == 200, "and then the next one"


async def test_a_large_event(jp_fetch, monkeypatch) -> None:
    """A verdict of many megabytes comes through."""
    program = "import json; print(json.dumps({'done': True, 'holds': True, 'changes': ['x' * 5_000_000]}))"
    monkeypatch.setattr(server, "SAFE_PYTHON", [sys.executable, "-c", program])
    _, answer = await status_of(jp_fetch, "verify", {"notebook": notebook("x = 1"), "n": 2})
    assert answer["holds"]
    assert len(answer["changes"][0]) == 5_000_000


@pytest.mark.slow
async def test_a_client_that_goes_away(jp_fetch, aftermath) -> None:
    """A verification whose client has gone ends, and leaves nothing."""
    source = "import time\nprint('here', flush=True)\ntime.sleep(600)\n" + TRAINING
    body = json.dumps({"notebook": notebook(source), "n": 2})
    request = asyncio.ensure_future(
        jp_fetch("jupyter-hvd", "verify", method="POST", body=body, request_timeout=5)
    )
    with pytest.raises(HTTPClientError, match="Timeout"):
        await request
    start = time.monotonic()
    async with asyncio.timeout(10):
        while aftermath.processes() or aftermath.folders():
            await asyncio.sleep(0.1)
    aftermath.seconds = time.monotonic() - start
