"""A client of the Model Context Protocol, run where fastmcp is installed: calls tools as the lines of its input ask.

Each request and answer is a JSON object on a line. A request has `token`, `tool`, `arguments`, and `agrees`: whether the user
does, null for a client that cannot ask. A call is given up after `cancel_after` seconds. `mode` is the
protocol's: the newest (auto), or legacy.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StreamableHttpTransport


async def ask(url: str, request: dict[str, Any]) -> dict[str, Any]:
    questions: list[str] = []
    progress: list[str] = []

    async def answer_question(message: str, *_: Any) -> Any:
        questions.append(message)
        if request["agrees"]:
            return ElicitResult(action="accept", content={"agree": True, "value": True})
        return ElicitResult(action="decline")

    async def note_progress(_: float, __: float | None, message: str | None) -> None:
        progress.append(message or "")

    headers = {"Authorization": request["token"]} if request["token"] else {}
    client = Client(
        StreamableHttpTransport(url, headers=headers),
        elicitation_handler=None if request["agrees"] is None else answer_question,
        progress_handler=note_progress,
        mode=request.get("mode", "auto"),
    )
    async with client:
        if request["tool"] is None:
            tools = await client.list_tools()
            return {"tools": {tool.name: tool.model_dump()["input_schema"] for tool in tools}}
        call = client.call_tool(request["tool"], request["arguments"], raise_on_error=False)
        try:
            result = await asyncio.wait_for(call, request.get("cancel_after"))
        except TimeoutError:
            return {"cancelled": True, "questions": questions, "progress": progress}
        except Exception as error:  # the client's own, where it cannot do what it is asked
            return {"failed": True, "answer": f"client: {error}"}
        text = "".join(getattr(part, "text", "") for part in result.content)
    return {
        "failed": result.is_error,
        "answer": text if result.is_error else json.loads(text),
        "questions": questions,
        "progress": progress,
    }


for line in sys.stdin:
    print(json.dumps(asyncio.run(ask(sys.argv[1], json.loads(line)))), flush=True)
