"""First calls of gradients beside JAX's own: `python benchmarks/first_calls.py [--runs 5]`.

Each runs in a fresh process in which JAX and this package are imported and nothing else has been called, with an empty cache.
Printed are medians of the CPU seconds of both, and of their ratio in pairs of processes.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jupyter_hvd.tensor import tensor


def kmeans(c, x):
    n, k, d = len(x), len(c), x.shape[1]
    return sum(
        min(sum((x[i, q] - c[j, q]) ** 2 for q in range(d)) for j in range(k)) for i in range(n)
    )


def direct_kmeans(c, x):
    return ((x[:, None] - c) ** 2).sum(2).min(1).sum()


def least_squares(w, X, y):
    n, d = X.shape
    return sum((sum(X[i, j] * w[j] for j in range(d)) - y[i]) ** 2 for i in range(n))


def direct_least_squares(w, X, y):
    return ((X @ w - y) ** 2).sum()


def ridge(w, X, y):
    n, d = X.shape
    errors = sum((sum(X[i, j] * w[j] for j in range(d)) - y[i]) ** 2 for i in range(n))
    return errors / n + 0.1 * sum(w[j] ** 2 for j in range(d))


def direct_ridge(w, X, y):
    return ((X @ w - y) ** 2).mean() + 0.1 * (w**2).sum()


def mixture(mu, x, p):
    n, k, d = len(x), len(mu), x.shape[1]
    return sum(
        np.log(
            sum(
                p[j] * np.exp(-0.5 * sum((x[i, q] - mu[j, q]) ** 2 for q in range(d)))
                for j in range(k)
            )
        )
        for i in range(n)
    )


def direct_mixture(mu, x, p):
    return jnp.log((p * jnp.exp(-0.5 * ((x[:, None] - mu) ** 2).sum(2))).sum(1)).sum()


#: By name: the function, the same in JAX, and the shapes of the arguments, of which it is differentiated by the first.
PROGRAMS: dict[str, tuple[Any, Any, tuple[tuple[int, ...], ...]]] = {
    "k-means": (kmeans, direct_kmeans, ((10, 8), (1000, 8))),
    "ridge": (ridge, direct_ridge, ((20,), (1000, 20), (1000,))),
    "mixture": (mixture, direct_mixture, ((5, 3), (500, 3), (5,))),
    "least squares": (least_squares, direct_least_squares, ((20,), (1000, 20), (1000,))),
}


def call_once(name: str, side: str) -> None:
    """Print the CPU seconds of a first call."""
    function, direct, shapes = PROGRAMS[name]
    random = np.random.default_rng(0)
    arguments = [random.uniform(0.1, 1, shape).astype(np.float32) for shape in shapes]
    began = time.process_time()
    if side == "tensor":
        made = tensor(function).grad(next(iter(inspect.signature(function).parameters)))
    else:
        made = jax.jit(jax.grad(direct))
    jax.block_until_ready(made(*arguments))
    print(json.dumps(time.process_time() - began))


def measure(name: str, side: str) -> float:
    """The CPU seconds of a first call in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, __file__, "--once", name, side],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "JUPYTER_HVD_CACHE": cache},
        )
    return float(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--once", nargs=2)
    options = parser.parse_args()
    if options.once:
        call_once(*options.once)
        return
    print("| gradient | first call s | JAX's s | ratio |\n|---|---|---|---|")
    for name in PROGRAMS:
        pairs = [(measure(name, "tensor"), measure(name, "jax")) for _ in range(options.runs)]
        mine, other = map(statistics.median, zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        print(f"| {name} | {mine:.2f} | {other:.2f} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
