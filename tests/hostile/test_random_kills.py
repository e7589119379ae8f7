"""SIGKILL of any process of a run, a kernel or an elastic job, at any time: `JUPYTER_HVD_KILLS` times, as drawn by
`JUPYTER_HVD_SEED_OF_KILLS`.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil
import pytest
from jupyter_client.manager import KernelManager

from .conftest import BEGINNING, Aftermath
from .test_jobs import SLEEPER, begun, command_line, job, of_the_job, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.own_forks]


@contextmanager
def run(folder: Path, *options: str) -> Iterator[psutil.Process]:
    with job(folder, *options) as process:
        yield psutil.Process(process.pid)


@contextmanager
def kernel(folder: Path) -> Iterator[psutil.Process]:
    """A notebook's kernel whose ranks run the same program in a cell."""
    manager = KernelManager(kernel_name="python3")
    assert manager.kernel_spec is not None
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(
        env={**os.environ, "FOLDER_OF_MINE": str(folder)},
        cwd=str(folder),
        extra_arguments=["--IPKernelApp.extensions=jupyter_hvd"],
    )
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=BEGINNING)
        client.execute(f"%%distribute -n 2\n{SLEEPER}")
        yield psutil.Process(manager.provisioner.pid)  # type: ignore[union-attr]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@dataclass(frozen=True)
class Scene:
    """A job that is begun in a folder.

    Attributes:
        begin: for a block; gives the process that the user has started.
        victims: what may be killed, by a word of its command line. The reaper is left: nothing can follow its own SIGKILL
            beside another's.
        goes_on: whether the job may go on when a process of it was killed; then it is killed itself a moment later.
    """

    begin: Callable[[Path], AbstractContextManager[psutil.Process]]
    victims: tuple[str, ...]
    goes_on: bool = True


OF_A_RUN = ("jupyter_hvd run", "launch.placement", "ranks.agent", "ranks.shared_rank")
SCENES = {
    "run": Scene(run, OF_A_RUN, goes_on=False),
    "elastic": Scene(lambda folder: run(folder, "--elastic", "--min", "2"), OF_A_RUN),
    "kernel": Scene(
        kernel, ("ipykernel_launcher", "launch.placement", "ranks.agent", "ranks.forkserver")
    ),
}


def find_victims(aftermath: Aftermath, word: str) -> list[psutil.Process]:
    return [process for process in of_the_job(aftermath) if word in command_line(process)]


@pytest.mark.long
def test_any_process_is_killed_at_any_time(tmp_path: Path, aftermath: Aftermath) -> None:
    """Any process of a job is killed, while it starts or runs"""
    draw = random.Random(os.environ.get("JUPYTER_HVD_SEED_OF_KILLS", "1"))
    aftermath.tries = 0
    for number in range(int(os.environ.get("JUPYTER_HVD_KILLS", "4"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        name = list(SCENES)[number % len(SCENES)]
        scene = SCENES[name]
        with scene.begin(folder) as owner:
            word = draw.choice(scene.victims)
            if draw.random() < 0.5:
                wait_for(partial(begun, folder), BEGINNING)
            wait_for(partial(find_victims, aftermath, word), BEGINNING)
            time.sleep(draw.uniform(0, 1))
            with suppress(psutil.NoSuchProcess, IndexError):
                draw.choice(find_victims(aftermath, word)).kill()
            if scene.goes_on:
                time.sleep(draw.uniform(0, 3))
                with suppress(psutil.NoSuchProcess):
                    owner.kill()
            owner.wait(60)
            wait_for(lambda: not aftermath.processes() and not aftermath.folders(), 60)
        aftermath.tries += 1
        print(f"{name}: {word}", flush=True)
