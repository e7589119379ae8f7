"""The kernel's TensorFlow leaves GPU memory to the ranks, or the user is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_hvd.notebook.gpu_memory import (
    VARIABLE,
    GpuUse,
    KernelGpu,
    judge_gpus,
    kernel_gpus,
    kernel_warning,
    parse_gpus,
)
from jupyter_hvd.runtime.process import _own_gpu

LOAD = """
import os, sys
from IPython.core.interactiveshell import InteractiveShell
from jupyter_hvd.notebook.gpu_memory import VARIABLE, kernel_gpus, tensorflow_runs
shell = InteractiveShell.instance()
load = lambda: shell.run_line_magic("load_ext", "jupyter_hvd")
"""


def loaded(program: str, **environment: str) -> str:
    """What a kernel's process prints."""
    environment = {k: v for k, v in os.environ.items() if k != VARIABLE} | environment
    done = subprocess.run(
        [sys.executable, "-c", LOAD + program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_rank_takes_a_gpu_of_its_own() -> None:
    assert [_own_gpu(["a", "b"], rank, 2) for rank in (0, 1)] == ["a", "b"]
    with pytest.raises(RuntimeError, match="3 ranks run on this host, which has 2 GPUs"):
        _own_gpu(["a", "b"], 0, 3)
    with pytest.raises(RuntimeError, match="which has 1 GPU, and each takes one: start at most 1"):
        _own_gpu(["a"], 1, 2)


def test_loading_enables_growth() -> None:
    assert loaded("load(); print(os.environ[VARIABLE], 'tensorflow' in sys.modules)") == (
        "true False"
    )


@pytest.mark.parametrize("own", ["false", "true"])
def test_the_users_own_setting_stays(own: str) -> None:
    assert loaded("load(); print(os.environ[VARIABLE])", **{VARIABLE: own}) == own


@pytest.fixture
def loaded_beside_tensorflow(run_forked_script: Any, tmp_path: Path) -> Callable[[str], str]:
    """What a kernel's process prints where TensorFlow is imported fast."""

    def run(program: str) -> str:
        (tmp_path / "kernel.py").write_text(LOAD + program)
        environment = {k: v for k, v in os.environ.items() if k != VARIABLE}
        done = run_forked_script(tmp_path / "kernel.py", env=environment)
        assert done.returncode == 0, done.stderr
        return str(done.stdout.strip())

    return run


@pytest.mark.slow
def test_tensorflow_that_runs_already(loaded_beside_tensorflow: Any) -> None:
    """An import opens no device: growth can still be turned on. An operation opens them."""
    program = """
import tensorflow as tf
tf.keras.optimizers.SGD
print(tensorflow_runs())
tf.constant(1)
print(tensorflow_runs(), kernel_gpus())
load()
print(os.environ.get(VARIABLE))
"""
    assert loaded_beside_tensorflow(program).splitlines() == ["False", "True []", "None"]


@pytest.mark.slow
def test_tensorflow_that_is_imported(loaded_beside_tensorflow: Any) -> None:
    program = "import tensorflow; load(); print(os.environ.get(VARIABLE))"
    assert loaded_beside_tensorflow(program) == "true"


WHOLE, GROWS = KernelGpu("GPU:0", grows=False), KernelGpu("GPU:0", grows=True)
LIMITED = KernelGpu("GPU:0", grows=False, limited=True)


@pytest.mark.parametrize(
    ("gpus", "forced", "told"),
    [
        ([], None, False),
        ([WHOLE], None, True),
        ([WHOLE], "true", False),
        ([WHOLE], "yes", True),
        ([GROWS], None, False),
        ([GROWS], "false", True),
        ([LIMITED], None, False),
    ],
)
def test_who_is_warned(gpus: list[KernelGpu], forced: str | None, told: bool) -> None:
    warning = kernel_warning(gpus, forced)
    assert bool(warning) == told
    if told:
        assert "GPU:0" in warning
        assert "Restart the kernel and run `%load_ext jupyter_hvd` before" in warning
        assert (f"Unset {VARIABLE}" in warning) == (forced == "false")


def test_a_process_without_tensorflow_holds_nothing() -> None:
    program = "print(kernel_gpus(), 'tensorflow' in sys.modules)"
    assert loaded(program) == "[] False"
    assert kernel_warning(kernel_gpus(), None) == ""


def test_doctor_reads_nvidia_smi() -> None:
    assert parse_gpus("0, 81559, 80012\n1, 81559, 4\n2, [N/A], [N/A]\n") == [
        GpuUse(0, 81559, 80012),
        GpuUse(1, 81559, 4),
    ]
    assert parse_gpus("") == parse_gpus("No devices were found\n") == []


def test_doctor_judges_free_memory() -> None:
    free, taken = GpuUse(0, 81920, 512), GpuUse(1, 81920, 80000)
    assert judge_gpus([free], [], None) == (True, "GPU 0: 80 of 80 GiB free")
    good, detail = judge_gpus([free, taken], ["41", "42"], None)
    assert not good
    assert "GPU 1: 2 of 80 GiB free (processes that use GPUs: 41, 42)" in detail
    assert "%load_ext jupyter_hvd" in detail
    good, detail = judge_gpus([free], [], "false")
    assert not good
    assert f"{VARIABLE}=false" in detail
