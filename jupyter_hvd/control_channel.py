"""`where` while a cell runs: answered on the kernel's control channel, whose thread does not wait for cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

REQUEST, REPLY = "hvd_where_request", "hvd_where_reply"


def answer_where(kernel: Any, where: Callable[[], list[str]]) -> None:
    """Let a kernel answer where its ranks are.

    Args:
        where: a line for each rank, below a heading. It may raise DistributeError, and take some seconds.
    """

    async def answer(stream: Any, identities: Any, request: Any) -> None:
        # In a thread of its own: interrupts and shutdowns come by the control channel, too.
        content = await asyncio.to_thread(_answer, where)
        kernel.session.send(stream, REPLY, content, request, ident=identities)

    kernel.control_handlers[REQUEST] = answer


def _answer(where: Callable[[], list[str]]) -> dict[str, Any]:
    from .session.errors import DistributeError

    try:
        return {"status": "ok", "lines": where(), "message": ""}
    except DistributeError as error:
        return {"status": "ok", "lines": [], "message": str(error)}
