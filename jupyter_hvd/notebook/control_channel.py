"""Answers questions of panels about ranks on the kernel's control channel, whose thread does not wait for cells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

REQUEST, REPLY = "hvd_look_request", "hvd_look_reply"

#: What looks at the ranks: given the rank whose output is wanted, and whether variables are.
Look = Callable[[int | None, bool], dict[str, Any]]


def register_panel_handler(kernel: Any, read_state: Look) -> None:
    """Register the handler of panels' requests about ranks on a kernel's control channel.

    Args:
        read_state: gets a rank and whether variables are wanted; may raise DistributeError, and take some seconds.
    """
    answering: set[asyncio.Task[None]] = set()

    async def answer_control(stream: Any, identities: Any, request: Any) -> None:
        content = await asyncio.to_thread(_answer_request, read_state, request["content"])
        kernel.session.send(stream, REPLY, content, request, ident=identities)

    def begin_answer(stream: Any, identities: Any, request: Any) -> None:
        # A task: the control channel takes one message at a time, and interrupts and shutdowns come by it, too.
        task = asyncio.get_running_loop().create_task(answer_control(stream, identities, request))
        answering.add(task)
        task.add_done_callback(answering.discard)

    kernel.control_handlers[REQUEST] = begin_answer


def _answer_request(read_state: Look, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a panel's request: the state of the ranks, or the error that prevented it."""
    from .errors import DistributeError

    rank = request.get("rank")
    try:
        state = read_state(rank if isinstance(rank, int) else None, bool(request.get("variables")))
        return {"status": "ok", "message": "", **state}
    except DistributeError as error:
        return {"status": "ok", "message": str(error), "ranks": []}
    except Exception as error:  # ranks end at any time
        return {"status": "error", "message": f"{type(error).__name__}: {error}", "ranks": []}
