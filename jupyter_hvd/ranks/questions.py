"""Questions to a rank while its main thread runs a cell, answered on the engine's control channel, in a thread of its own.

The controller passes these messages on as it does requests for cells: signed and encrypted.
"""

from __future__ import annotations

import pickle
import threading
from typing import Any

#: The type of such a question.
QUESTION = "hvd_question"


def add_questions(kernel_class: Any) -> None:
    """Let the engines of a class answer questions."""
    kernel_class.control_msg_types = [*kernel_class.control_msg_types, QUESTION]
    setattr(kernel_class, QUESTION, answer_question)


def answer_question(kernel: Any, stream: Any, identities: Any, question: Any) -> None:
    """Call the function that a question names, and send what it returns, or the error that it raises.

    A thread of its own: a function that does not come back holds up no other question.
    """
    function, args = pickle.loads(question["buffers"][0])  # noqa: S301 — from the user's own kernel, over a signed channel

    def send_answer() -> None:
        try:
            found = pickle.dumps(function(*args))
        except Exception as error:  # what a cell changes meanwhile may be in any state
            found = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        loop = kernel.control_thread.io_loop
        loop.add_callback(
            kernel.session.send, stream, f"{QUESTION}_reply", {}, question, identities, [found]
        )

    threading.Thread(target=send_answer, name="hvd-question", daemon=True).start()
