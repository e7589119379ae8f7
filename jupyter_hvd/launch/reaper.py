"""Ends the remaining processes of a job when its owner has died, even by SIGKILL.

    python -P -m jupyter_hvd.launch.reaper FOLDER JOB

Its standard input is a pipe that the beginner holds open. When that ends without a word, the
reaper ends the processes that bear the job's name and removes the folder: not even SIGKILL
leaves anything behind on this machine. On other hosts, lifelines do the same. The name is public: every user of the
machine can read it here and in names of shared folders. What proves that a process belongs to the job is a token
of its own (`authentication.py`).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .base import launcher_variables
from .temporary_files import remove_noted

#: What the beginner says when it has cleaned up by itself.
DONE = b"done"
#: A file system in memory, and what a job's folders are called there.
MEMORY = Path("/dev/shm")  # noqa: S108 — folders of our own are made in it
SHARED_FOLDER = "jupyter-hvd-{job}-"


class PrivateFolder:
    """A new folder that only this user can look into, and the public name of the job that it belongs to.

    Both are looked after: when this process dies, the job's processes end and the folder goes.

    Attributes:
        path: the folder. job: the name.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make it, in the system's temporary folder or, where other hosts are to see it, in `parent`."""
        prefix = "jupyter-hvd-" if parent is None else ".jupyter-hvd-"
        self.path = Path(parent or tempfile.gettempdir()) / f"{prefix}{uuid.uuid4().hex[:12]}"
        self.job = uuid.uuid4().hex
        self._reaper = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            [
                *(sys.executable, "-P", "-m", "jupyter_hvd.launch.reaper"),
                *(str(self.path), self.job),
            ],
            env=launcher_variables(),
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # neither a closed terminal nor Ctrl-C is for it
        )
        self.path.mkdir(mode=0o700)  # once it is looked after
        self._owner = os.getpid()
        # A forked child of this process would hold the pipe open.
        os.register_at_fork(after_in_child=self._close_in_child)

    def _close_in_child(self) -> None:
        """Close the copy of the pipe in a forked process, so that the reaper notices the end of the original."""
        pipe = self._reaper.stdin
        if os.getpid() != self._owner and pipe is not None and not pipe.closed:
            os.close(pipe.fileno())

    def remove_folder(self) -> None:
        """Remove the folder; the job's processes are ended by their starter."""
        remove_noted(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self._reaper.communicate(DONE)


@contextmanager
def private_folder(parent: Path | None = None) -> Iterator[PrivateFolder]:
    """Make a private folder for a block, see `PrivateFolder`."""
    folder = PrivateFolder(parent)
    try:
        yield folder
    finally:
        folder.remove_folder()


def make_shared_folder(job: str, size: int) -> Path:
    """Create a folder of the job's for values to be sent; in memory if there is room for twice `size` bytes."""
    prefix = SHARED_FOLDER.format(job=job)
    try:
        roomy = shutil.disk_usage(MEMORY).free > 2 * size
    except OSError:
        roomy = False
    return Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if roomy else None))


def shared_folders(job: str) -> Iterator[Path]:
    """Yield the job's shared folders, if they are this user's, since anybody can create a folder of such a name."""
    for place in (MEMORY, Path(tempfile.gettempdir())):
        for folder in place.glob(SHARED_FOLDER.format(job=job) + "*"):
            if folder.lstat().st_uid == os.getuid():
                yield folder


def main(folder: str, job: str) -> None:
    """Wait until the owner ends; unless it ended in order, end the job's processes and remove its folders."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read() == DONE:
        return
    from .processes import end_processes

    end_processes(job)
    remove_noted(Path(folder))
    for left in (Path(folder), *shared_folders(job)):
        shutil.rmtree(left, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
