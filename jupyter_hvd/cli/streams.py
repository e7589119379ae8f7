"""Reports closed or unwritable standard streams, and system errors, in one line each."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import TextIO

#: Errors of writing to an open file.
UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EBADF)
STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def open_closed_streams() -> None:
    """Open the standard streams that the caller has closed (`1>&-`) on /dev/null.

    Otherwise Python has None for them, and the next file or socket gets the number of standard output.
    """
    for descriptor, (name, mode) in enumerate(STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets that number
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123 — for as long as the process lives


def explain_error(error: OSError) -> str:
    """Explain a system error in the user's terms: what went wrong, and where."""
    try:
        os.getcwd()  # noqa: PTH109 — whether it is there
    except OSError:
        return "the working folder has been removed: change to a folder that exists"
    reason = error.strerror or str(error)
    if error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {reason}"
    # An error of a stream names no file, and may have discarded what was to be written.
    return f"the output cannot be written ({reason})" if error.errno in UNWRITABLE else reason


def is_writable(stream: TextIO) -> bool:
    """Whether all printed output could be written."""
    try:
        stream.flush()
    except OSError:
        return False
    return True


def discard_unwritable() -> None:
    """Redirect output that cannot be written to /dev/null; Python would try again at exit, and print a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if not is_writable(stream):
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
