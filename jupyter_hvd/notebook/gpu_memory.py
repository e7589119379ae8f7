"""GPU memory of the notebook's kernel, which ranks on the same machine need too.

TensorFlow takes nearly all memory of every visible GPU at its first operation, unless memory growth is on. Ranks turn it
on by themselves (`runtime/process.py`). For the kernel, `TF_FORCE_GPU_ALLOW_GROWTH` does: TensorFlow reads it when it
opens a GPU. `set_memory_growth` would have to wait for the import of TensorFlow and look for GPUs then, after which
`CUDA_VISIBLE_DEVICES` has no effect any more; notebooks often set that between the import and the first operation.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: "true" or "false" overrides what programs say; TensorFlow ignores other values.
VARIABLE = "TF_FORCE_GPU_ALLOW_GROWTH"
RESTART = "Restart the kernel and run `%load_ext jupyter_hvd` before the first TensorFlow operation"
#: A GPU with less free than this part of its memory has been taken whole.
LEAST_FREE = 0.2
QUERY = ("nvidia-smi", "--format=csv,noheader,nounits")


def let_kernel_share() -> None:
    """Turn memory growth on in this kernel, unless the user has decided, or TensorFlow has opened its devices already."""
    if not tensorflow_runs():
        os.environ.setdefault(VARIABLE, "true")


def tensorflow_runs() -> bool:
    """Whether TensorFlow has opened its devices in this process; asking does not import it or open them."""
    eager: Any = sys.modules.get("tensorflow.python.eager.context")
    context = None if eager is None else eager.context_safe()
    return bool(getattr(context, "_initialized", False))


@dataclass(frozen=True)
class KernelGpu:
    """A GPU that the kernel sees: whether its memory grows, and whether the user has set a limit."""

    name: str
    grows: bool
    limited: bool = False


def kernel_gpus() -> list[KernelGpu]:
    """Return the GPUs that TensorFlow in this process has opened."""
    if not tensorflow_runs():
        return []
    config = sys.modules["tensorflow"].config
    return [
        KernelGpu(
            device.name.rpartition("physical_device:")[2],
            bool(config.experimental.get_memory_growth(device)),
            bool(config.get_logical_device_configuration(device)),
        )
        for device in config.get_visible_devices("GPU")
    ]


def kernel_warning(gpus: Sequence[KernelGpu], forced: str | None) -> str:
    """Return a warning for the user if the kernel has taken the memory of GPUs; else "".

    Args:
        forced: the value of `TF_FORCE_GPU_ALLOW_GROWTH`.
    """
    taken = [
        gpu.name
        for gpu in gpus
        if not gpu.limited and forced != "true" and (forced == "false" or not gpu.grows)
    ]
    if not taken:
        return ""
    way_out = f"Unset {VARIABLE}. {RESTART}" if forced == "false" else RESTART
    return (
        f"TensorFlow in this kernel holds nearly all memory of {', '.join(taken)}, and ranks on this machine "
        f"may run out of memory. {way_out}."
    )


@dataclass(frozen=True)
class GpuUse:
    """Memory of a GPU of this machine, in MiB."""

    index: int
    total: int
    used: int


def parse_gpus(text: str) -> list[GpuUse]:
    """Return the GPUs in the output of `nvidia-smi`, without those that do not tell their memory."""
    found = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 3 and all(map(str.isdigit, fields)):
            found.append(GpuUse(*map(int, fields)))
    return found


def query_gpus(*arguments: str) -> str:
    """Return the output of `nvidia-smi`; "" if there is none, or it does not work."""
    try:
        done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
            [*QUERY, *arguments], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def judge_gpus(gpus: Sequence[GpuUse], pids: Sequence[str], forced: str | None) -> tuple[bool, str]:
    """Return whether ranks find memory on this machine's GPUs, and a line about it.

    Args:
        pids: the processes that use GPUs.
        forced: the value of `TF_FORCE_GPU_ALLOW_GROWTH`.
    """
    free = ", ".join(
        f"GPU {g.index}: {(g.total - g.used) / 1024:.0f} of {g.total / 1024:.0f} GiB free"
        for g in gpus
    )
    if forced == "false":
        return (
            False,
            f"{free}; {VARIABLE}=false lets the first process take all memory of every GPU: unset it",
        )
    if any(g.total - g.used < LEAST_FREE * g.total for g in gpus):
        who = f" (processes that use GPUs: {', '.join(pids)})" if pids else ""
        return False, f"{free}{who}; ranks may run out of memory. If a notebook holds it: {RESTART}"
    return True, free
