"""SIGKILL of any process of a job, at any time: `JUPYTER_HVD_KILLS` times, as drawn by `JUPYTER_HVD_SEED_OF_KILLS`."""

from __future__ import annotations

import os
import random
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from .conftest import Aftermath
from .test_jobs import begun, command_line, job, of_the_job, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.own_forks]

#: What ends with the job, by a word of its command line. The reaper is left: nothing can follow its own SIGKILL beside another's.
VICTIMS = ("jupyter_hvd run", "launch.placement", "ranks.agent", "ranks.shared_rank")


@pytest.mark.long
def test_any_process_is_killed_at_any_time(tmp_path: Path, aftermath: Aftermath) -> None:
    """Any process of a job is killed, while it starts or runs"""
    draw = random.Random(os.environ.get("JUPYTER_HVD_SEED_OF_KILLS", "1"))
    kills = int(os.environ.get("JUPYTER_HVD_KILLS", "4"))
    aftermath.tries, killed = 0, dict.fromkeys(VICTIMS, 0)
    for number in range(kills):
        folder = tmp_path / str(number)
        folder.mkdir()
        with job(folder) as process:
            victim = draw.choice(VICTIMS)
            if draw.random() < 0.5:
                wait_for(lambda folder=folder: begun(folder))
            found: list[psutil.Process] = []

            def look(victim: str = victim, found: list[psutil.Process] = found) -> bool:
                found[:] = [p for p in of_the_job(aftermath) if victim in command_line(p)]
                return bool(found)

            wait_for(look)
            time.sleep(draw.uniform(0, 1))
            with suppress(psutil.NoSuchProcess):
                draw.choice(found).kill()
            process.wait(60)
            assert process.returncode not in (0, 2)
        aftermath.tries += 1
        killed[victim] += 1
        wait_for(lambda: not aftermath.processes() and not aftermath.folders(), 60)
    print(killed)
