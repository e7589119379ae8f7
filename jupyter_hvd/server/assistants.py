"""Tools for assistants in JupyterLab, which jupyter-server-mcp finds by the entry point `jupyter_server_mcp.tools`.

That server listens on a port of its own and knows no users, so each tool asks for the token of the Jupyter server itself.
What runs a program or writes a file is first confirmed in the client. Every tool is a command of `jupyter hvd` in a process of
its own.
"""

import asyncio
import hmac
import json
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from fastmcp import Context
from fastmcp.exceptions import ToolError
from fastmcp.server.dependencies import get_http_headers
from jupyter_server.serverapp import ServerApp
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

#: What the entry point names.
TOOLS = [f"{__name__}:{name}" for name in ("convert", "explain", "verify", "certify")]
#: From no working folder is anything imported.
COMMAND = [sys.executable, "-P", "-m", "jupyter_hvd"]
#: Names a tool's processes in their environment, so that all of them can be ended.
TOOL_VARIABLE = "JUPYTER_HVD_TOOL"
#: Exit code of a command that could not use what it was given.
UNUSABLE = 2
#: Bytes of one line that a command prints.
LONGEST_LINE = 16 * 1024**2

#: A JSON object, or the question that the client is to ask first.
Answer: TypeAlias = Any
Batch = Literal["global", "per-rank"]
File = Annotated[str, "the notebook (.ipynb) or script (.py), relative to the server's root folder"]


async def convert(file: File, ctx: Context, batch: Batch = "global", write: bool = False) -> Answer:
    """Convert single-process TensorFlow 2 or Keras training to Horovod, and say every change with its reason.

    Batch global keeps the training: N workers give the result of one process. Batch per-rank trains on batches N times as
    large at N times the learning rate. A program that cannot be converted is refused, with what to change. Nothing is written
    unless `write` is true and the user agrees: then the conversion goes to NAME_hvd beside the file.
    """
    path = served_path(file)
    if write:
        question = f"Write the Horovod version of {path} beside it?"
        if asked := await ask_user(ctx, question):
            return asked
    checking = [] if write else ["--check"]
    return await run_json_command("convert", path, "--json", "--batch", batch, *checking)


async def explain(file: File) -> dict[str, Any]:
    """Report how a training's variables change if batches grow with the number of workers, and the lines that decide."""
    return await run_json_command("explain", served_path(file), "--json")


async def verify(
    file: File,
    ctx: Context,
    batch: Batch = "global",
    workers: Annotated[int, "how many Horovod processes to run"] = 2,
    steps: Annotated[int | None, "training steps of each run; all if left out"] = None,
    against: Annotated[
        str | None, "another program for the same training, to judge instead"
    ] = None,
) -> Answer:
    """Run a training in one process and on several workers, and report the first difference with step, variable and line.

    The program is run on this machine, on copies of its files, after the user agrees. Takes minutes; reports progress and can be
    cancelled.
    """
    path = served_path(file)
    chosen = ["--batch", batch, "-n", str(workers)]
    if steps is not None:
        chosen += ["--steps", str(steps)]
    judged = str(path)
    if against is not None:
        other = served_path(against)
        chosen += ["--against", str(other)]
        judged = f"{path} and {other}"
    question = f"Run {judged} in one process and on {workers} workers of this machine?"
    if asked := await ask_user(ctx, question):
        return asked
    verdict: dict[str, Any] = {}
    checked = 0
    async with aclosing(run_command_lines("verify", path, "--events", "--yes", *chosen)) as lines:
        async for line in lines:
            verdict = json.loads(line)
            if not verdict.get("done"):
                checked += verdict.get("status") != "running"
                await ctx.report_progress(
                    checked, message=f"{verdict['check']}: {verdict['detail']}"
                )
    return verdict


async def certify(
    file: Annotated[str, "a Python file, relative to the server's root folder"],
    function: Annotated[str, "a tensor function that the file defines"],
    by: Annotated[list[str], "the parameters to differentiate by"],
    ctx: Context,
    sizes: Annotated[dict[str, int] | None, "where growth begins, such as {'n': 100}"] = None,
) -> Answer:
    """Report what a gradient of a tensor function costs: by formula, by theorem, and measured over growing sizes.

    The file is run on this machine after the user agrees.
    """
    path = served_path(file)
    for name in (function, *by):
        if not name.isidentifier():
            raise ToolError(f"{name!r} is not the name of a function or parameter")
    given = [part for name, size in (sizes or {}).items() for part in ("--size", f"{name}={size}")]
    if asked := await ask_user(ctx, f"Run {path} and measure the gradient of `{function}`?"):
        return asked
    return await run_json_command("certify", *given, "--json", path, function, *by)


def served_path(file: str) -> Path:
    """Return the path of a file below the Jupyter server's root folder, for a caller who knows the server's token.

    Raises:
        ToolError: the caller does not know it, or the file does not exist.
    """
    server = ServerApp.instance()
    check_token(server)
    root = Path(server.root_dir).expanduser().resolve()
    path = (root / file).resolve()
    if not path.is_relative_to(root):
        raise ToolError(f"{file} is outside the folder that this server serves")
    if not path.is_file():
        raise ToolError(f"{file}: there is no such file below {root}")
    return path


def check_token(server: ServerApp) -> None:
    """Raise ToolError unless the request has the server's token."""
    token = server.identity_provider.token
    if not token:
        raise ToolError(
            "this Jupyter server has no token, which these tools ask for: start it with one"
        )
    kind, _, given = (
        get_http_headers(include={"authorization"}).get("authorization", "").partition(" ")
    )
    known = hmac.compare_digest(given.strip().encode(), token.encode())
    if kind.lower() not in ("token", "bearer") or not known:
        raise ToolError(
            "these tools ask for the token of the Jupyter server: let your client send the header `Authorization: token …`"
        )


async def ask_user(ctx: Context, question: str) -> InputRequiredResult | None:
    """Ask the user, in the client, whether to go on.

    Returns:
        None where the user agrees; else what the tool answers first, from MCP 2026-07-28 on: the client asks, and calls again.

    Raises:
        ToolError: the user does not agree, or the client cannot ask.
    """
    if ctx.request_context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        try:
            answer = await ctx.elicit(question, response_type=bool)
        except MCPError as error:
            raise ToolError(f"this client cannot ask its user, which this needs: {error}") from None
        agrees = answer.action == "accept" and answer.data
    elif not ctx.input_responses or ctx.request_state != question:
        form = {
            "type": "object",
            "properties": {"agree": {"type": "boolean"}},
            "required": ["agree"],
        }
        asked = ElicitRequest(
            params=ElicitRequestFormParams(message=question, requested_schema=form)
        )
        return InputRequiredResult(input_requests={"agree": asked}, request_state=question)
    else:
        given = ctx.input_responses["agree"]
        agrees = given.action == "accept" and bool((given.content or {}).get("agree"))
    if not agrees:
        raise ToolError("the user did not agree; nothing was run or written")
    return None


async def run_json_command(*arguments: str | Path) -> dict[str, Any]:
    """Run a command and return the JSON object that it prints."""
    async with aclosing(run_command_lines(*arguments)) as lines:
        answer = json.loads(b"".join([line async for line in lines]))
    return dict(answer)


async def run_command_lines(*arguments: str | Path) -> AsyncGenerator[bytes, None]:
    """Run a `jupyter hvd` command and yield its lines; leaving the iterator ends all processes that it started.

    Raises:
        ToolError: the command could not use its arguments.
    """
    from ..launch.processes import end_processes

    mark = uuid.uuid4().hex
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *map(str, arguments),
        env={**os.environ, "FORCE_COLOR": "", TOOL_VARIABLE: mark},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        limit=LONGEST_LINE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    complaints = asyncio.create_task(process.stderr.read())
    try:
        async for line in process.stdout:
            yield line
        if await process.wait() == UNUSABLE:
            raise ToolError(last_line(await complaints))
    finally:
        await asyncio.shield(asyncio.to_thread(end_processes, mark, variable=TOOL_VARIABLE))
        with suppress(asyncio.CancelledError):
            await complaints


def last_line(text: bytes) -> str:
    """Return the last line of a command's error output."""
    lines: Sequence[str] = text.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "the command gave no answer"
