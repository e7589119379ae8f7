"""Gradients of programs that the kernels were not made for beside the fastest of several ways to write
them in JAX (`peer_programs.py`), and what a call costs beside a jitted function:

    python benchmarks/tensor_peers.py [--only NAME] [--write]

As in `tensor_kernels.py`, whose other part `make bench` is: jitted functions of the same arrays in one
process, run alternately; ratios are medians over the pairs. Of ours there are two: what a call runs once a first one has
measured, if it does, in a cache of its own, and what the cost model chooses.
`--write` puts the table into docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from page_sections import replace_section
from peer_programs import PEERS, Peer, differences
from tensor_kernels import (
    DOCS,
    compiled,
    device,
    device_arrays,
    difference,
    kernels,
    paired,
    warm_up,
)

HEADER = (
    "| program | size | gradient ms | JAX's fastest ms | JAX's time / ours | chosen by the cost model | "
    "kernel | slower versions / ours | "
    "difference |\n|---|---|---|---|---|---|---|---|---|"
)


@dataclass(frozen=True)
class Row:
    """Times in ms; `ratios` are JAX's times over ours, one for each way of writing it, `first` the least of them over the time of
    what the model alone would run.
    """

    peer: Peer
    mine: float
    ways: tuple[float, ...]
    ratios: tuple[float, ...]
    better: tuple[tuple[str, float], ...]
    error: float
    first: float
    kernel: str

    @property
    def ratio(self) -> float:
        return min(self.ratios)

    def __str__(self) -> str:
        benchmark = self.peer.benchmark
        slower = ", ".join(f"{r:.2f}" for r in sorted(self.ratios)[1:])
        better = ", ".join(f"another algorithm, {name}: {r:.3g}" for name, r in self.better)
        others = "; ".join(filter(None, (slower, better)))
        return (
            f"| {benchmark.name} | {benchmark.size:,} | {self.mine:.3g} | {min(self.ways):.3g} | "
            f"**{self.ratio:.2f}** | {self.first:.2f} | {self.kernel} | {others} | {self.error:.0e} |"
        )


def measure(peer: Peer, runs: int) -> Row:
    benchmark = peer.benchmark
    arguments = device_arrays(benchmark, benchmark.size)
    places = benchmark.places if len(benchmark.places) > 1 else benchmark.places[0]
    ways = (benchmark.direct, *peer.ways)
    others = [jax.grad(way, places) for way in (*ways, *peer.better)]
    mine, first, kernel = kernels(benchmark.function.grad(*benchmark.wrt), arguments)
    made = [mine, *(compiled(f, arguments)[0] for f in others)]
    expected = [f(*arguments) for f in made[1:]]
    error = max(difference(mine(*arguments), found) for found in expected)
    times, shares = paired([*made, first], arguments, runs)
    ratios = [1 / share for share in shares[1:-1]]
    before = min(ratios[: len(ways)]) * (1 if first is mine else shares[-1])
    names = [way.__name__.split("_")[0] for way in peer.better]
    better = tuple(zip(names, ratios[len(ways) :], strict=True))
    return Row(
        peer,
        times[0],
        tuple(times[1 : len(ways) + 1]),
        tuple(ratios[: len(ways)]),
        better,
        error,
        before,
        kernel,
    )


def overhead(turns: int = 100) -> tuple[float, float]:
    """The µs of CPU of a call with ten numbers, and those of a jitted function of them."""
    x, y = jnp.arange(10.0), jnp.ones(10)
    jitted = jax.jit(jax.grad(lambda x, y: ((x - y) ** 2).sum()))
    gradient = differences.grad("x")
    pairs = [(_each(gradient, x, y), _each(jitted, x, y)) for _ in range(turns)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def _each(function: Callable[..., Any], *arguments: Any) -> float:
    function(*arguments)
    began = time.process_time()
    for _ in range(100):
        function(*arguments)
    return 1e4 * (time.process_time() - began)


def summary(rows: list[Row]) -> str:
    mean = math.exp(statistics.mean(math.log(row.ratio) for row in rows))
    worst = min(rows, key=lambda row: row.ratio)
    return f"Geometric mean {mean:.2f}, worst {worst.ratio:.2f} ({worst.peer.benchmark.name})."


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument(
        "--write", action="store_true", help="the table of docs/performance-tables.md"
    )
    options = parser.parse_args()
    os.environ["JUPYTER_HVD_CACHE"] = tempfile.mkdtemp()  # where nothing has been tuned
    warm_up()
    print(HEADER, flush=True)
    rows = []
    for peer in PEERS:
        if options.only in peer.benchmark.name:
            rows.append(measure(peer, options.runs))
            print(rows[-1], flush=True)
    call, jitted = overhead()
    calls = (
        f"A call with ten numbers takes {call:.0f} µs of CPU, a jitted JAX function {jitted:.0f}."
    )
    print(summary(rows), calls, sep="\n")
    if options.write:
        table = "\n".join((HEADER, *map(str, rows)))
        told = f"{device()}, {time.strftime('%Y-%m-%d')}; medians of {options.runs} paired runs."
        text = "\n\n".join((told, table, f"{summary(rows)} {calls}"))
        replace_section(DOCS / "performance-tables.md", "peers", text)


if __name__ == "__main__":
    main()
