"""`jupyter hvd install`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .codes import OK, REFUSED, UNUSABLE
from .show import make_consoles

if TYPE_CHECKING:
    from rich.console import Console

    from ..install.pip import Listener

#: Seconds after which a step that takes long is told again, and the share that is told of, where there is no terminal.
TELL_AFTER, TELL_EACH = 30, 0.1


def add_parser(commands: Any) -> None:
    """Add the command `install`."""
    parser = commands.add_parser(
        "install", help="build Horovod for the TensorFlow of this environment, and install it"
    )
    parser.add_argument("--gpu", action="store_true", help="let NCCL sum on GPUs")
    parser.add_argument("--mpi", action="store_true", help="let mpirun start ranks too")
    parser.add_argument("--proxy", metavar="URL", help="reach the package index by this proxy")
    parser.add_argument(
        "--wheels",
        metavar="FOLDER",
        type=Path,
        help="take packages and Horovod's source from this folder, without a network",
    )
    parser.set_defaults(command=run_install)


def run_install(options: argparse.Namespace) -> int:
    """Run `install`: build Horovod, unless a matching wheel is cached, install it, and return the exit code."""
    from ..install.build import HOROVOD, Build, CannotBuildError, installed_tensorflow
    from ..install.pip import Source
    from ..install.run import find_cached_wheel, install_horovod
    from ..launch.signals import ended_by_signals

    out, errors = make_consoles(False)
    if options.wheels is not None and not options.wheels.is_dir():
        errors.print(
            f"jupyter hvd install: --wheels {options.wheels}: there is no such folder",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        return UNUSABLE
    try:
        build = Build(installed_tensorflow(), gpu=options.gpu, mpi=options.mpi)
        found = find_cached_wheel(build)
        if found is None:
            out.print(f"Horovod {HOROVOD} for TensorFlow {build.tensorflow}: about three minutes.")
        with ended_by_signals(), show_progress(errors) as listener:
            wheel = install_horovod(build, listener, Source(options.proxy, options.wheels))
    except CannotBuildError as error:
        errors.print(f"jupyter hvd install: {error}", markup=False, highlight=False, soft_wrap=True)
        return REFUSED
    kind = "kept from before" if found else "kept for the next time"
    out.print(f"Horovod {HOROVOD} is installed for TensorFlow {build.tensorflow}.")
    out.print(f"The wheel is {kind}: {wheel}", markup=False, highlight=False, soft_wrap=True)
    return OK


@contextmanager
def show_progress(console: Console) -> Iterator[Listener]:
    """Yield a listener that shows each step: as a bar on a terminal, otherwise as a line now and then."""
    if not console.is_terminal:
        yield ProgressLines(console)
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description:<20}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=1.0)
        step = ""

        def show_step(now: str, share: float) -> None:
            nonlocal step
            if now != step:
                bar.reset(task)
                step = now
            bar.update(task, description=now, completed=share)

        yield show_step


class ProgressLines:
    """Prints a line when a step begins, and again after each tenth of it or each half minute."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.step, self.share = "", 0.0
        self.begun = self.shown_at = 0.0

    def __call__(self, step: str, share: float) -> None:
        now = time.monotonic()
        if step != self.step:
            self.step, self.begun = step, now
            self._print_line(step, share, now)
        elif share >= self.share + TELL_EACH or now >= self.shown_at + TELL_AFTER:
            self._print_line(f"{step} for {now - self.begun:.0f} s", share, now)

    def _print_line(self, text: str, share: float, now: float) -> None:
        """Print a step and the share of files compiled, and remember when."""
        self.shown_at, self.share = now, share
        percent = f", {share:.0%} of the files compiled" if 0 < share < 1 else ""
        self.console.print(f"{text}{percent}", markup=False, highlight=False, soft_wrap=True)
