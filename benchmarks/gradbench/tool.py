"""GradBench's protocol (github.com/gradbench/gradbench): JSON messages from stdin, one a line; answers to stdout.

`python benchmarks/gradbench/tool.py` is a tool in GradBench's sense. A module of `evaluations` is an evaluation.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

NAME = "jupyter_hvd"


def repeated(function: Any, given: Any) -> dict[str, Any]:
    """The answer to an "evaluate" message: the output, and the time of each run, of which there are as many as it asks for."""
    import jax

    runs, seconds = (
        (given["min_runs"], given["min_seconds"]) if isinstance(given, Mapping) else (1, 0)
    )
    arguments = function.prepare(given)
    times: list[int] = []
    while len(times) < runs or sum(times) < seconds * 1e9:
        start = time.perf_counter_ns()
        output = jax.block_until_ready(function.compute(*arguments))
        times.append(time.perf_counter_ns() - start)
    timings = [{"name": "evaluate", "nanoseconds": n} for n in times]
    return {"success": True, "output": function.present(output), "timings": timings}


def answer(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a message is answered with, beside its id."""
    if message["kind"] == "start":
        return {"tool": NAME}
    if message["kind"] not in ("define", "evaluate"):
        return {}
    try:
        evaluation = importlib.import_module(f"evaluations.{message['module']}")
        if message["kind"] == "define":
            return {"success": True}
        return repeated(evaluation.FUNCTIONS[message["function"]], message["input"])
    except Exception:  # the protocol wants errors as text
        return {"success": False, "error": traceback.format_exc()}


def main() -> None:
    os.environ["JAX_ENABLE_X64"] = "1"
    if "--multithreaded" not in sys.argv:  # as GradBench's JAX tool; before JAX starts its threads
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for line in sys.stdin:
        message = json.loads(line)
        print(json.dumps({"id": message["id"]} | answer(message)), flush=True)


if __name__ == "__main__":
    main()
