"""How long a job takes to start on Slurm, over plain `srun`: `python benchmarks/slurm.py [ROUNDS]`.

On a Slurm of two nodes that is made here and removed again (`tests/distribute/slurm.py` says what it takes), a program that
imports TensorFlow and Horovod is started on two nodes, by `srun` and by `jupyter hvd run --launcher slurm`, in turn; both ask
for an allocation of their own. Printed are the median seconds until both ranks have got that far, and the median of the ratios
of pairs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
#: A program that uses Horovod by another name runs as it is written.
PROGRAM = """import importlib
importlib.import_module("horovod.tensorflow")
print("has come this far", flush=True)
"""


def seconds_until_both(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Until both ranks have printed."""
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        seen, text = 0, ""
        for line in process.stdout:
            seen, text = seen + ("has come this far" in line), text + line
            if seen == 2:
                break
        else:
            raise RuntimeError(text)
        seconds = time.perf_counter() - started
        process.stdout.read()
    return seconds


def main(rounds: int) -> None:
    from tests.distribute.slurm import slurm_of_two_nodes

    with slurm_of_two_nodes() as slurm, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "job.py").write_text(PROGRAM)
        environment = {**os.environ, **slurm.environment, "TF_CPP_MIN_LOG_LEVEL": "2"}
        python, apart = sys.executable, "--ntasks-per-node=1"
        ours = [python, "-m", "jupyter_hvd", "run", "job.py", "-n", "2", "--no-log"]
        ours += ["--launcher", "slurm", f"--salloc={apart}"]
        plain = ["srun", "-n", "2", apart, python, "job.py"]
        pairs = []
        for _ in range(rounds):
            found = []
            for command in (plain, ours):
                found.append(seconds_until_both(slurm.login(*command), folder, environment))
                slurm.no_job_left()
            pairs.append(found)
            print(f"srun {found[0]:.1f} s, jupyter hvd run {found[1]:.1f} s", flush=True)
        by_srun, by_us = (median(column) for column in zip(*pairs, strict=True))
        ratio = median(us / other for other, us in pairs)
        print(f"srun {by_srun:.1f} s, jupyter hvd run {by_us:.1f} s: {ratio:.2f} times (aim: 1.2)")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
