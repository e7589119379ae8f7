"""`jupyter hvd doctor`: what is installed, and whether it fits together."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from .launch.hosts import LaunchError
from .launch.mpi import mpirun_version, require_mpi
from .notebook.gpu_memory import VARIABLE, judge_gpus, parse_gpus, query_gpus
from .package_versions import TENSORFLOW, version_of
from .runtime.sharing.tested_versions import is_tested, list_tested

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Finding:
    """One line of the report: `good`, `bad` (something will not work) or `missing` (an optional tool)."""

    name: str
    state: Literal["good", "bad", "missing"]
    detail: str


def examine_tools() -> list[Finding]:
    """Check every tool, each in its own process if it must be imported."""
    others = (
        _check_gpu_memory(),
        _check_mpi(),
        _check_jax(),
        _check_package("jupyterlab", "JupyterLab"),
    )
    return [_python_finding(), *_check_tensorflow(), _check_horovod(), *others]


def _python_finding() -> Finding:
    """Return the finding on Python."""
    return Finding("Python", "good", f"{sys.version.split()[0]} ({sys.executable})")


def _check_package(name: str, title: str) -> Finding:
    """Return the finding on a package; it is optional."""
    found = version_of(name)
    return (
        Finding(title, "good", found) if found else Finding(title, "missing", f"pip install {name}")
    )


def _check_tensorflow() -> list[Finding]:
    """Return the findings on TensorFlow and on its Keras."""
    found = version_of(*TENSORFLOW)
    if found is None:
        return [Finding("TensorFlow", "bad", "not installed: pip install tensorflow")]
    return [Finding("TensorFlow", "good", found), _check_keras(found)]


def _check_keras(tensorflow: str) -> Finding:
    """Return the finding on whether ranks can compute with the Keras that a program gets here."""
    keras = version_of("keras") or "none"
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("1", "True", "true")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if not keras.startswith("2.") and legacy and (tf_keras := version_of("tf-keras")):
        name, version, detail = "tf_keras", tf_keras, f"tf-keras {tf_keras} by TF_USE_LEGACY_KERAS"
    elif keras.startswith("2.") or backend == "tensorflow":
        name, version, detail = "keras", keras, keras
    else:
        advice = "whose gradients Horovod cannot average: set KERAS_BACKEND=tensorflow"
        return Finding("Keras", "bad", f"{keras}, computing with {backend}, {advice}")
    if not is_tested(tensorflow, name, version):
        advice = (
            f"ranks stop at their start with it on this TensorFlow: install one of {list_tested()}"
        )
        return Finding("Keras", "bad", f"{detail}; {advice}")
    return Finding("Keras", "good", detail)


def _check_horovod() -> Finding:
    """Return the finding on Horovod; imports it in a subprocess."""
    found = version_of("horovod")
    if found is None:
        return Finding(
            "Horovod", "bad", "not installed: jupyter hvd install builds it for your TensorFlow"
        )
    program = (
        "import horovod.tensorflow as hvd\n"
        "parts = [('Gloo', hvd.gloo_built()), ('MPI', hvd.mpi_built()), ('NCCL', hvd.nccl_built())]\n"
        "print(', '.join(name for name, built in parts if built))"
    )
    output, error = _run_in_subprocess(program)
    if output is None:
        return Finding(
            "Horovod",
            "bad",
            f"{found}, but it does not load: {error}; jupyter hvd install builds it for this TensorFlow",
        )
    if "Gloo" not in output:
        return Finding(
            "Horovod",
            "bad",
            f"{found}, built with {output}; jupyter hvd run needs Gloo: jupyter hvd install",
        )
    return Finding("Horovod", "good", f"{found}, built with {output}")


def _check_gpu_memory() -> Finding:
    """Return the finding on free memory of this machine's GPUs; its state is "missing" if there is no GPU."""
    gpus = parse_gpus(query_gpus("--query-gpu=index,memory.total,memory.used"))
    if not gpus:
        return Finding("GPUs", "missing", "nvidia-smi finds none: TensorFlow computes on the CPU")
    pids = query_gpus("--query-compute-apps=pid").split()
    good, detail = judge_gpus(gpus, pids, os.environ.get(VARIABLE))
    return Finding("GPUs", "good" if good else "bad", detail)


def _check_mpi() -> Finding:
    """Return the finding on whether `--launcher mpirun` works."""
    try:
        require_mpi()
    except LaunchError as error:
        return Finding("MPI", "missing", str(error))
    return Finding("MPI", "good", mpirun_version() or "")


def _check_jax() -> Finding:
    """Return the finding on JAX; imports it in a subprocess."""
    found = version_of("jax")
    if found is None:
        return Finding("JAX", "missing", "pip install jax, for tensor functions")
    output, error = _run_in_subprocess(
        "import jax; print(', '.join(str(d) for d in jax.devices()))"
    )
    if output is None:
        return Finding("JAX", "bad", f"{found}, but it does not load: {error}")
    return Finding("JAX", "good", f"{found}, devices: {output}")


def _run_in_subprocess(program: str) -> tuple[str | None, str]:
    """Run a program in another Python process. Return its last line and "", or None and the last line of its error."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(  # noqa: S603 — our own text, no shell
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            timeout=120,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "no answer within two minutes"
    if done.returncode != 0:
        return None, (done.stderr.strip().splitlines() or ["no message"])[-1]
    return (done.stdout.strip().splitlines() or [""])[-1], ""


def print_findings(console: Console, findings: list[Finding]) -> bool:
    """Print the report; return whether all is good."""
    from rich.text import Text

    marks = {"good": ("✓", "green"), "bad": ("✗", "bold red"), "missing": ("–", "yellow")}
    for finding in findings:
        console.print(
            Text.assemble(marks[finding.state], f" {finding.name:<11} {finding.detail}"),
            soft_wrap=True,
        )
    good = all(finding.state != "bad" for finding in findings)
    console.print("All fits together." if good else "Something does not fit; see above.")
    return good
