"""Lets SIGTERM and SIGHUP end a command in order: `with` blocks exit and clean up."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise SystemExit, with a shell's exit code, on signals that would end the process, for a block.

    Ignored signals stay ignored, as for `nohup`. While blocks are being left, further signals change nothing.
    """

    def end_on_signal(number: int, _: object) -> NoReturn:
        for other in caught:
            signal.signal(other, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in ENDING}
    caught = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in caught:
        signal.signal(number, end_on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
