"""Sparse Jacobians and Hessians of thirteen patterns, beside asdex and sparsejac where they are installed.

    python benchmarks/sparse_jacobians.py [--cases band …] [--tools …] [--entries 1e4 1e5 1e6] [--limit 120] [--core 0]

CPU seconds of one core: of the pattern with what goes with it (a first call, compilation included, less one with a known
pattern), and of the values of a call with a known pattern. sparsejac is given the pattern, and colours it; asdex finds it by
tracing. Ours is compared with central differences of the function at every size; tests/tensor/test_sparse_jacobians.py compares
it with dense JAX. The exponents are slopes against the number of entries, on
logarithmic axes. The last column is the time of pattern and values together, divided by ours at the same size.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "tensor"))

TOOLS = "jupyter_hvd", "asdex", "sparsejac"


def _uniform(*shape: int) -> Any:
    return np.random.default_rng(0).uniform(0.5, 1.5, shape)


def _bundle(n: int) -> tuple[Any, ...]:
    """n observations: two of each point, 40 of each camera."""
    random = np.random.default_rng(1)
    points, cameras = max(1, n // 2), max(1, n // 40)
    camera, point = random.integers(0, cameras, n), np.arange(n) % points
    return _uniform(cameras, 6), _uniform(points, 3), camera, point, _uniform(n, 2)


def _graph(n: int) -> tuple[Any, ...]:
    random = np.random.default_rng(2)
    return _uniform(n), random.integers(0, n, n), random.integers(0, n, n)


def _hand(n: int) -> tuple[Any, ...]:
    """n points, ten on each finger of four joints."""
    finger = np.random.default_rng(3).integers(0, max(1, n // 10), n)
    return _uniform(max(1, n // 10), 4), _uniform(n, 4), finger


def _square(n: int) -> int:
    return max(2, math.isqrt(n))


#: A pattern: the parameters, and arguments for about so many entries.
CASES: dict[str, tuple[tuple[str, ...], Callable[[int], tuple[Any, ...]]]] = {
    "band": (("x",), lambda n: (_uniform(n // 2),)),
    "arrow": (("x", "x"), lambda n: (_uniform(n // 3),)),
    "stencil_1d": (("u",), lambda n: (_uniform(n // 3),)),
    "stencil_2d": (("u",), lambda n: (_uniform(_square(n // 5), _square(n // 5)),)),
    "stencil_3d": (("u", "u"), lambda n: (_uniform(*3 * [max(2, round((n / 7) ** (1 / 3)))]),)),
    "blocks": (("x",), lambda n: (_uniform(n // 16, 4, 4), _uniform(n // 16, 4))),
    "chain": (("p", "p"), lambda n: (_uniform(n // 12, 2), np.ones(n // 12 - 1))),
    "graph": (("x", "x"), lambda n: _graph(n // 3)),
    "bundle": (("cameras",), lambda n: _bundle(n // 12)),
    "bundle by points": (("points",), lambda n: _bundle(n // 6)),
    "brusselator": (("u",), lambda n: (_uniform(n // 3), _uniform(n // 3), 0.3)),
    "kernel_matrix": (("x",), lambda n: (_uniform(n // 5),)),
    "hand": (("bends",), lambda n: _hand(n // 8)),
}


def measured(case: str, tool: str, entries: int) -> dict[str, float]:
    """Seconds of pattern and values, and MB, of one tool at one size."""
    import inspect

    import jax
    import sparse_programs

    jax.config.update("jax_enable_x64", True)
    wrt, at = CASES[case]
    name, arguments = case.split(" ", maxsplit=1)[0], at(entries)
    function, plain = getattr(sparse_programs, name), getattr(sparse_programs, f"{name}_jax")
    place = [*inspect.signature(plain).parameters].index(wrt[0])

    def of(x: Any) -> Any:
        return plain(*arguments[:place], x, *arguments[place + 1 :])

    if tool == "jupyter_hvd":
        derivative = (function.jacobian if len(wrt) == 1 else function.hessian)(*wrt, format="bcoo")

        def make() -> Callable[[], Any]:
            return lambda: derivative.values(*arguments)
    elif tool == "asdex":
        import asdex

        def make() -> Callable[[], Any]:
            take = asdex.jacobian if len(wrt) == 1 else asdex.hessian
            made = jax.jit(take(of, arguments[place]))
            return lambda: made(arguments[place])
    else:
        import sparsejac

        sparse = (function.jacobian if len(wrt) == 1 else function.hessian)(*wrt, format="bcoo")
        known = sparse(*arguments)
        differentiated = of if len(wrt) == 1 else jax.grad(of)
        shape = np.shape(arguments[place])

        def flat(x: Any) -> Any:
            return differentiated(x.reshape(shape)).reshape(-1)

        def make() -> Callable[[], Any]:
            made = jax.jit(sparsejac.jacfwd(flat, sparsity=known))
            return lambda: made(np.ravel(arguments[place]))

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    run = make()
    jax.block_until_ready(run())
    first = time.process_time() - began
    times = []
    while len(times) < 5 or (sum(times) < 0.2 and len(times) < 50):
        began = time.process_time()
        jax.block_until_ready(run())
        times.append(time.process_time() - began)
    values = statistics.median(times)
    count = entries
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if tool == "jupyter_hvd":
        pattern = derivative.pattern(*arguments)
        count = pattern.count
        itself = function if len(wrt) == 1 else function.grad(*wrt[:1])
        _compare(
            pattern,
            run(),
            lambda x: itself(*arguments[:place], x, *arguments[place + 1 :]),
            arguments[place],
        )
    return {"entries": count, "pattern": first - values, "values": values, "MB": used / 1e3}


def _compare(pattern: Any, values: Any, differentiated: Callable[[Any], Any], x: Any) -> None:
    """Raise AssertionError where a Jacobian times a random direction is not the central difference of order four."""
    direction, h = np.random.default_rng(4).normal(size=np.shape(x)), 1e-5

    def slope(step: float) -> Any:
        ahead, behind = (differentiated(x + s * direction) for s in (step, -step))
        return (np.ravel(ahead) - np.ravel(behind)) / (2 * step)

    moved = np.asarray(values) * np.ravel(direction)[pattern.columns]
    found = np.bincount(pattern.rows, moved, pattern.shape[0])
    expected = (4 * slope(h) - slope(2 * h)) / 3
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < 1e-6, f"{error:.1e} from the central difference"


def rows(
    case: str, tool: str, sizes: list[int], limit: float, core: int
) -> Iterator[dict[str, float]]:
    """The measurements at growing sizes, each in a process of its own, until one takes too long or fails."""
    for n in sizes:
        arguments = [sys.executable, __file__, "--one", case, tool, str(n)]
        try:
            done = subprocess.run(
                arguments,
                capture_output=True,
                text=True,
                timeout=limit,
                preexec_fn=lambda: os.sched_setaffinity(0, {core}),
            )
        except subprocess.TimeoutExpired:
            yield {"entries": n, "error": f"more than {limit:.0f} s"}
            return
        if done.returncode:
            lines = [
                x for x in done.stderr.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", x)
            ]
            yield {"entries": n, "error": (lines or ["?"])[-1][:120]}
            return
        yield json.loads(done.stdout.splitlines()[-1])


def exponent(found: list[dict[str, float]], what: str) -> float | None:
    points = [(math.log(r["entries"]), math.log(max(r[what], 1e-6))) for r in found if what in r]
    return (
        statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", nargs=3)
    parser.add_argument("--cases", nargs="+", default=[*CASES], choices=[*CASES])
    parser.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    parser.add_argument("--entries", nargs="+", type=float, default=[1e4, 1e5, 1e6])
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--core", type=int, default=min(os.sched_getaffinity(0)))
    given = parser.parse_args()
    if given.one:
        case, tool, n = given.one
        print(json.dumps(measured(case, tool, int(n))))
        return
    print(
        "| pattern | tool | entries | pattern, s | values, s | MB | exponents: pattern, values, MB | ÷ ours |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for case in given.cases:
        ours: dict[int, float] = {}
        for tool in given.tools:
            sizes = [int(n) for n in given.entries]
            found = [*rows(case, tool, sizes, given.limit, given.core)]
            done = {n: r for n, r in zip(sizes, found, strict=False) if "error" not in r}
            stopped = found[-1].get("error")
            if not done:
                print(f"| {case} | {tool} | {stopped} | | | | | |", flush=True)
                continue
            slopes = [exponent([*done.values()], what) for what in ("pattern", "values", "MB")]
            grown = ", ".join("—" if s is None else f"{s:.2f}" for s in slopes)
            n, last = max(done.items())
            spent = {k: r["pattern"] + r["values"] for k, r in done.items()}
            ours = ours or spent
            ratio = f"{spent[n] / ours[n]:.2g}" if n in ours else "—"
            more = f" ({found[-1]['entries']:,}: {stopped})" if stopped else ""
            print(
                f"| {case} | {tool} | {last['entries']:,}{more} | {last['pattern']:.3g} | {last['values']:.3g} "
                f"| {last['MB']:.0f} | {grown} | {ratio} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
