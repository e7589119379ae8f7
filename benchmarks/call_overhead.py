"""What a call costs besides its kernel, by kinds of arguments: `python benchmarks/call_overhead.py [--calls 2000]`.

Each row is the CPU time (user and system) of a call of a compiled tensor function that computes next to nothing, less that of
the same sum over real arrays: the median of blocks of calls, the kinds in turn, so that all see the same machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jupyter_hvd.tensor import tensor

BLOCK = 50  # calls that are timed together


class Layer(NamedTuple):
    w: Any
    b: Any


@dataclass
class Model:
    layers: list[Layer]
    scale: Any


X, K = jnp.arange(10.0), np.arange(10)


def real(x: Any, y: Any) -> Any:
    return np.sum(x * y)


def indexed(x: Any, k: Any) -> Any:
    return np.sum(x[k])


def numbers(x: Any, k: Any) -> Any:
    return np.sum(x * k)


def groups(x: Any, k: Any) -> Any:
    return np.sum(x) * len(np.unique(k))


def integer(x: Any, n: Any) -> Any:
    return np.sum(x) * n


def named(x: Any, p: Any) -> Any:
    return np.sum(x * p["a"]) + np.sum(p["b"])


def nested(x: Any, model: Any) -> Any:
    return np.sum(x * model.layers[0].w) + model.scale


def mixed(x: Any, p: Any) -> Any:
    return np.sum(x * p["a"]) if p["kind"] == "sum" else p["n"] * np.sum(x)


ROWS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "two real arrays": (real, (X, X)),
    "two real arrays of NumPy's": (real, (np.arange(10.0), np.arange(10.0))),
    "integers as indices": (indexed, (X, K)),
    "integers as numbers": (numbers, (X, K)),
    "integers, of which `unique`": (groups, (X, K)),
    "an int": (integer, (X, 3)),
    "a dictionary of arrays": (named, (X, {"a": X, "b": X})),
    "a dataclass of named tuples": (nested, (X, Model([Layer(X, X)], jnp.array(2.0)))),
    "a dictionary with a string": (mixed, (X, {"a": X, "kind": "sum", "n": 3})),
}


def measure(calls: int) -> dict[str, float]:
    """µs of CPU of a call of each kind."""
    functions = {row: (tensor(f), arguments) for row, (f, arguments) in ROWS.items()}
    times: dict[str, list[float]] = {row: [] for row in functions}
    for f, arguments in functions.values():
        f(*arguments)
    for _ in range(max(3, calls // BLOCK)):
        for row, (f, arguments) in functions.items():
            began = time.process_time()
            for _ in range(BLOCK):
                f(*arguments)
            times[row].append(1e6 * (time.process_time() - began) / BLOCK)
    return {row: statistics.median(each) for row, each in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=2000)
    found = measure(parser.parse_args().calls)
    base = found["two real arrays"]
    print("| arguments | µs of CPU a call | more than real ones |\n|---|---|---|")
    for row, micros in found.items():
        print(f"| {row} | {micros:.0f} | {micros - base:+.0f} |")


if __name__ == "__main__":
    main()
