"""`jupyter hvd install`."""

from __future__ import annotations

import argparse
from typing import Any

from .codes import OK, REFUSED
from .show import make_consoles


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "install", help="build Horovod for the TensorFlow of this environment, and install it"
    )
    parser.add_argument("--gpu", action="store_true", help="let NCCL sum on GPUs")
    parser.add_argument("--mpi", action="store_true", help="let mpirun start ranks too")
    parser.set_defaults(command=run_install)


def run_install(options: argparse.Namespace) -> int:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from ..install.build import HOROVOD, Build, CannotBuildError, installed_tensorflow
    from ..install.run import install, kept
    from ..launchers.signals import ended_by_signals

    out, errors = make_consoles(False)
    try:
        build = Build(installed_tensorflow(), gpu=options.gpu, mpi=options.mpi)
        found = kept(build)
        if found is None:
            out.print(f"Horovod {HOROVOD} for TensorFlow {build.tensorflow}: about three minutes.")
        columns = (TextColumn("{task.description:<20}"), BarColumn(), TimeElapsedColumn())
        bar = Progress(*columns, console=errors, transient=True)
        with ended_by_signals(), bar as progress:
            task = progress.add_task("", total=1.0)
            wheel = install(
                build,
                lambda what, share: progress.update(task, description=what, completed=share),
            )
    except CannotBuildError as error:
        errors.print(f"jupyter hvd install: {error}", markup=False, highlight=False)
        return REFUSED
    kind = "kept from before" if found else "kept for the next time"
    out.print(f"Horovod {HOROVOD} is installed for TensorFlow {build.tensorflow}.")
    out.print(f"The wheel is {kind}: {wheel}", markup=False, highlight=False, soft_wrap=True)
    return OK
