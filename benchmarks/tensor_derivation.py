"""How long it takes to derive a gradient: `python benchmarks/tensor_derivation.py`.

The energy is 2-D as-rigid-as-possible image warping, with two relations and two unknowns. The time
goes from the Python function to the simplified Tensor SSA of its gradient: reading the source,
tracing, the four normal forms, the adjoint, simplification. No JAX, no compilation.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

ONCE = """
import sys, time
sys.path.insert(0, {tests!r})
import numpy as np
began = time.perf_counter()
import islpy
imported = time.perf_counter()
from programs import CASES
case = next(c for c in CASES if c.name == "as_rigid_as_possible")
from jupyter_hvd.tensor import tensor
began_deriving = time.perf_counter()
f = tensor(case.function.python)
gradient = f.grad("P", "a")
instance = gradient._resolve(gradient._bind(case.arguments, {{}}))
statements = len(instance.ssa.statements)
print(time.perf_counter() - began_deriving, imported - began, statements)
"""


def main() -> None:
    tests = str(Path(__file__).parent.parent / "tests" / "tensor")
    runs = []
    for _ in range(5):
        out = subprocess.run(
            [sys.executable, "-c", ONCE.format(tests=tests)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        runs.append([float(part) for part in out.split()])
    derive, load, statements = (statistics.median(column) for column in zip(*runs, strict=True))
    print(f"gradient of as-rigid-as-possible: {derive:.3f} s, {statements:.0f} statements")
    print(f"loading islpy, once a process: {load:.3f} s")


if __name__ == "__main__":
    main()
