"""Where a rank is while its program runs, as the rank itself says: line, operation, and what the system makes it wait for."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

#: Horovod's functions in which ranks wait for one another, as users know them.
COLLECTIVES = frozenset(
    (
        *("allreduce", "grouped_allreduce", "allgather", "grouped_allgather", "allgather_object"),
        *("broadcast", "broadcast_", "broadcast_variables", "broadcast_object", "alltoall"),
        *("reducescatter", "grouped_reducescatter", "join", "barrier"),
    )
)
#: What the system calls these numbers, where they mean this: Linux on 64-bit Intel and AMD.
SLEEPS, CHILDREN = frozenset({35, 230}), frozenset({61, 247})
FILES = {0: "reads", 17: "reads", 1: "writes to", 18: "writes to", 72: "waits for a lock of"}
FILES |= {73: "waits for a lock of", 74: "writes to"}
OPENS, NETWORK = frozenset({2, 257}), frozenset({42, 43, 45, 46, 47, 288})


#: The files of a batch job's program, each with what it is called: a notebook's cells by their numbers.
own_files: dict[str, str] = {}
#: Whether this rank stands at a breakpoint: its debugger waits for the user.
at_breakpoint = False


def label_of(file: str) -> str | None:
    """Return the label of a file of the user's program; None for other files. Cells on living ranks name themselves."""
    return file if file.startswith("<In[") else own_files.get(file)


def current_location() -> dict[str, Any]:
    """Return where the main thread is, in the user's code and otherwise.

    Returns:
        "cell": label and line in the user's code, None outside of it. "inside": the innermost file. "collective": the
        collective operation, with its name or the shape of its argument, "" for none. "doing": what the system says that
        it waits for, "" if unknown. "handling": an exception that is being handled, "" for none. "time": by this host's
        clock.
        "at_breakpoint": whether the debugger waits for the user there.
    """
    main = threading.main_thread().ident or 0
    frame = sys._current_frames().get(main)
    # TensorFlow makes its Python functions for operations out of strings: who calls them is asked for.
    while frame is not None and frame.f_code.co_filename == "<string>":
        frame = frame.f_back
    innermost, collective = frame, ""
    while frame is not None and label_of(frame.f_code.co_filename) is None:
        collective = collective_of(frame) or collective
        frame = frame.f_back
    return {
        "cell": None if frame is None else [label_of(frame.f_code.co_filename), frame.f_lineno],
        "inside": "" if innermost is None else innermost.f_code.co_filename,
        "collective": collective,
        "doing": "" if collective else describe_wait(),
        "handling": handled_exception(main),
        "time": time.monotonic(),
        "at_breakpoint": at_breakpoint,
    }


def unknown_location() -> dict[str, Any]:
    """Return the result of `current_location` for a location that cannot be determined."""
    texts = dict.fromkeys(("inside", "collective", "doing", "handling"), "")
    return {"cell": None, "time": time.monotonic(), **texts}


def collective_of(frame: FrameType) -> str:
    """Return `allreduce of loss` for a frame of one of Horovod's collective operations, else ""."""
    if f"{os.sep}horovod{os.sep}" not in frame.f_code.co_filename:
        return ""
    name = frame.f_code.co_name.removeprefix("_")
    if name not in COLLECTIVES:
        return ""
    given = frame.f_locals
    about = given.get("name")
    if not isinstance(about, str) or not about:
        shape = getattr(given.get("tensor"), "shape", None)
        about = "" if shape is None else f"a tensor of shape {shape}"
    return f"{name.rstrip('_')} of {about}" if about else name.rstrip("_")


def handled_exception(thread: int) -> str:
    """Return the exception that a thread has caught and is handling, in one line; "" if there is none."""
    current: Any = sys._current_exceptions().get(thread)
    error = current[1] if isinstance(current, tuple) else current
    if not isinstance(error, BaseException):
        return ""
    with suppress(Exception):
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return type(error).__name__


def describe_wait() -> str:
    """Return what the main thread waits for, in words, by the system's report; "" if it runs, or this is unknown."""
    if platform.machine() != "x86_64":
        return ""
    try:
        fields = Path(f"/proc/self/task/{os.getpid()}/syscall").read_text().split()
        number, first = int(fields[0]), int(fields[1], 16)
    except (OSError, ValueError, IndexError):  # it runs; or this is not Linux
        return ""
    if number in SLEEPS:
        return "sleeps"
    if number in CHILDREN:
        return "waits for another program"
    if number in OPENS:
        return "waits to open a file"
    if number in NETWORK:
        return "waits for the network"
    if number in FILES:
        with suppress(OSError):
            return f"{FILES[number]} {Path(f'/proc/self/fd/{first}').readlink()}"
    return ""


def list_threads() -> Set[str]:
    """Return the ids of this process's threads, as the system names them; none if it does not."""
    try:
        return {entry.name for entry in Path("/proc/self/task").iterdir()}
    except OSError:
        return set()


def cpu_seconds(threads: Set[str]) -> float:
    """Return how many CPU seconds some threads of this process have used."""
    ticks = 0
    for thread in threads:
        with suppress(OSError):
            fields = Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])  # in the user's code and in the system's
    return ticks / os.sysconf("SC_CLK_TCK")


def queued_seconds(threads: Set[str]) -> float:
    """Return how long some threads of this process were ready to run and had no processor; 0 if the system does not say."""
    waited = 0
    for thread in threads:
        with suppress(OSError, ValueError, IndexError):
            waited += int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[1])
    return waited / 1e9
