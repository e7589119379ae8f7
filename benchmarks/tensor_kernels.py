"""Kernels of `jupyter_hvd.tensor` beside direct JAX: `make bench`, or
`python benchmarks/tensor_kernels.py [--only NAME] [--write]`.

Both are jitted functions of the same arrays in one process: `jax.jit(f.grad(…).jax)` and
`jax.jit(jax.grad(direct))`. Times are medians of paired runs, of each in turn; ratios are medians over the pairs.
Memory is what XLA's own analysis says the compiled gradient allocates, temporaries and results;
where a goal names a limit, the growth of the peak resident set of a process of its own. `--write`
makes docs/performance-tables.md and the plots of growth in docs/images. `--joins` prints how gradients of sums
over several relations grow, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tensor_programs import ALL, JOINS, STRUCTURED, SUMS_UP_TO, Benchmark

from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.lowering.choices import MODEL, Choices
from jupyter_hvd.tensor.lowering.plan import Plan

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MIB = 1 << 20


@dataclass
class Row:
    """What was measured of one program; times in ms, memory in MiB, compile times in s.

    `ratio` is the gradient's time over JAX's, `of_value` over its value's, `of_limit` over that of what cannot be done faster,
    medians over the pairs.
    """

    name: str
    size: int
    gradient: float
    value: float
    direct: float
    memory: float
    direct_memory: float
    compile: float
    xla: float
    error: float
    ratio: float
    of_value: float
    doubling: float | None = None
    of_limit: float | None = None

    @property
    def faster(self) -> float:
        return 1 / self.ratio


def device_arrays(benchmark: Benchmark, size: int) -> tuple[Any, ...]:
    return tuple(jax.tree_util.tree_map(jnp.asarray, benchmark.arguments(size)))


def derivatives(benchmark: Benchmark) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The gradient or Hessian by this package, and by JAX."""
    places = benchmark.places if len(benchmark.places) > 1 else benchmark.places[0]
    if benchmark.kind == "hessian":
        made = benchmark.function.hessian(benchmark.wrt[0])
        return made.jax, jax.hessian(benchmark.direct, places)
    return benchmark.function.grad(*benchmark.wrt).jax, jax.grad(benchmark.direct, places)


def compiled(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, float, float]:
    """The executable; the seconds of CPU up to it being handed to XLA, and XLA's seconds."""
    began = time.process_time()
    lowered = jax.jit(function).lower(*arguments)
    handed, began_xla = time.process_time(), time.perf_counter()
    made = lowered.compile()
    return made, handed - began, time.perf_counter() - began_xla


@dataclass(frozen=True)
class Candidates:
    """A derivative at some arguments, and its kernels by choices. They know these arguments: index arrays may be known to be in
    range, relations by their tuples.
    """

    made: Kernel
    operands: tuple[Any, ...]

    @staticmethod
    def of(
        derivative: Any,
        arguments: tuple[Any, ...],
        named: Mapping[str, Any] = MappingProxyType({}),
    ) -> Candidates:
        call = derivative.specialised(*arguments, **named)
        made = kernel(call.instance, call.sizes, call.constants)
        operands = made.operands(tuple(call.arguments.values()))
        dtype = made.dtype(operands)
        # Numbers, too, lie on the device, as JAX's do.
        operands = tuple(jnp.asarray(x, dtype) if isinstance(x, float) else x for x in operands)
        return Candidates(made, operands)

    def plan(self, choices: Choices) -> Plan:
        key = self.made.counts(self.operands), self.made.dtype(self.operands)
        return self.made.compile(*key, choices)

    def compiled(self, choices: Choices) -> Any:
        plan = self.plan(choices)
        run = jax.jit(lambda *xs: self.made.executed(plan, xs))
        return run.lower(*self.operands).compile()

    def by(self, choices: Choices) -> Callable[..., Any]:
        """A kernel that takes any arguments and computes those that it knows."""
        executable = self.compiled(choices)
        return lambda *_: executable(*self.operands)


def kernels(
    made: Any, arguments: tuple[Any, ...], named: Mapping[str, Any] = MappingProxyType({})
) -> tuple[Callable[..., Any], Callable[..., Any], str]:
    """What a call of a derivative runs once a first one has measured, and what the model alone would; and which was found."""
    made(*arguments, **named)
    found = made.plan(*arguments, **named).choices
    candidates = Candidates.of(made, arguments, named)
    first = candidates.by(MODEL)
    return first if found == MODEL else candidates.by(found), first, str(found)


def once(executable: Any, arguments: tuple[Any, ...]) -> float:
    """The ms of a run: of as many as take 5 ms together, 50 at most, after one that is not timed,
    for it takes memory that others have given back.
    """
    jax.block_until_ready(executable(*arguments))
    began, runs = time.perf_counter(), 0
    while runs == 0 or (runs < 50 and time.perf_counter() - began < 0.005):
        jax.block_until_ready(executable(*arguments))
        runs += 1
    return 1e3 * (time.perf_counter() - began) / runs


def paired(
    executables: list[Any], arguments: tuple[Any, ...], runs: int
) -> tuple[list[float], list[float]]:
    """Medians in ms, one run of each in turn; and of each one's share of the first one's time in
    the same turn, which what else the machine does disturbs least.
    """
    for executable in executables:
        once(executable, arguments)
    times = [[once(executable, arguments) for executable in executables] for _ in range(runs)]
    columns = list(zip(*times, strict=True))
    ratios = [
        statistics.median(mine / other for mine, other in zip(columns[0], column, strict=True))
        for column in columns
    ]
    return [statistics.median(column) for column in columns], ratios


def memory(executable: Any) -> float:
    analysis = executable.memory_analysis()
    return (analysis.temp_size_in_bytes + analysis.output_size_in_bytes) / MIB


def difference(found: Any, expected: Any) -> float:
    """The largest difference, relative to the largest entry."""
    pairs = zip(jax.tree_util.tree_leaves(found), jax.tree_util.tree_leaves(expected), strict=True)
    return max(float(jnp.abs(a - b).max() / (jnp.abs(b).max() + 1e-30)) for a, b in pairs)


def measure(benchmark: Benchmark, runs: int) -> Row:
    arguments = device_arrays(benchmark, benchmark.size)
    began = time.process_time()
    mine, theirs = derivatives(benchmark)
    derived = time.process_time() - began
    direct, _, _ = compiled(theirs, arguments)
    if benchmark.called:
        reals = [a for a in arguments if a.dtype != bool]
        data = [a for a in arguments if a.dtype == bool]
        made, traced, xla = compiled(lambda *reals: mine(*reals, *data), reals)
        gradient, value = mine, benchmark.function.jax
    else:
        made, traced, xla = compiled(mine, arguments)
        value, _, _ = compiled(benchmark.function.jax, arguments)
        gradient = made
    error = difference(gradient(*arguments), direct(*arguments))
    limits = [compiled(benchmark.limit, arguments)[0]] if benchmark.limit else []
    times, ratios = paired([gradient, direct, value, *limits], arguments, runs)
    row = Row(
        benchmark.name,
        benchmark.size,
        times[0],
        times[2],
        times[1],
        memory(made),
        memory(direct),
        derived + traced,
        xla,
        error,
        ratios[1],
        ratios[2],
        of_limit=ratios[3] if limits else None,
    )
    if (
        benchmark in STRUCTURED
        and benchmark.large is not None
        and benchmark.size != benchmark.large
    ):
        row.doubling = doubling(benchmark, mine, runs)
    return row


def doubling(benchmark: Benchmark, mine: Callable[..., Any], runs: int) -> float:
    """The gradient's time at twice the large size over that at the large size."""
    assert benchmark.large is not None
    cases = []
    for size in (benchmark.large, 2 * benchmark.large):
        arguments = device_arrays(benchmark, size)
        executable, _, _ = compiled(mine, arguments)
        once(executable, arguments)
        cases.append((executable, arguments))
    times = [[once(*case) for case in cases] for _ in range(4 * runs)]
    return statistics.median(b / a for a, b in times)


def peak(name: str, size: int) -> tuple[float, float, float]:
    """Of a gradient in a process of its own: the growth of the peak resident set in MiB, compiling
    included, the peak itself, and ms.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--peak", name, str(size)],
        check=True,
        capture_output=True,
        text=True,
    )
    grown, resident, spent = json.loads(done.stdout.splitlines()[-1])
    return grown, resident, spent


def high_water() -> float:
    """This process's peak resident set in MiB. (`ru_maxrss` begins with that of its parent.)"""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024


def print_peak(name: str, size: int) -> None:
    benchmark = next(b for b in ALL if b.name == name)
    warm_up()
    arguments = device_arrays(benchmark, size)
    before = high_water()
    executable, _, _ = compiled(derivatives(benchmark)[0], arguments)
    spent = once(executable, arguments)
    after = high_water()
    print(json.dumps([after - before, after, spent]))


# Goals


def goals(row: Row) -> list[tuple[str, bool]]:
    """What was asked of a row, and whether it was found."""
    found = []
    if row.name == "dot(diag col, diag row)":
        found.append((f"gradient ≤ 4 × value: {row.of_value:.2f}", row.of_value <= 4))
        found.append((f"≥ 1000 × faster: {row.faster:.0f}", row.faster >= 1000))
    elif row.of_limit is not None:
        limit = f"{row.faster:.0f} × faster; ≤ 1.1 × the time of `A + A.T`, which it is: {row.of_limit:.2f}"
        found.append((limit, row.of_limit <= 1.1))
    elif row.doubling is not None:
        found.append((f"≥ 100 × faster: {row.faster:.0f}", row.faster >= 100))
    else:
        found.append((f"≤ 1.1 × time: {row.ratio:.2f}", row.ratio <= 1.1))
        ratio = row.memory / max(row.direct_memory, 1e-9)
        found.append((f"≤ 1.1 × memory: {ratio:.2f}", ratio <= 1.1))
    if row.doubling is not None and row.name not in ("dot(diag col, diag row)", "(A⊗B)x"):
        found.append((f"doubling ≤ 2.2 ×: {row.doubling:.2f}", row.doubling <= 2.2))
    found.append((f"compile ≤ 1 s: {row.compile:.2f}", row.compile <= 1))
    return found


HEADER = (
    "| program | size | gradient ms | value ms | JAX gradient ms | MiB | JAX MiB | "
    "difference | goals |\n|---|---|---|---|---|---|---|---|---|"
)


def line(row: Row) -> str:
    marks = "; ".join(text if met else f"**missed** {text}" for text, met in goals(row))
    return (
        f"| {row.name} | {row.size} | {row.gradient:.3g} | {row.value:.3g} | {row.direct:.4g} | "
        f"{row.memory:.1f} | {row.direct_memory:.1f} | {row.error:.0e} | {marks} |"
    )


# Growth

GROWTH = {
    "dot(diag col, diag row)": ([2**k for k in range(8, 21, 2)], 8192),
    "wᵀAw, A tridiagonal": ([2**k for k in range(8, 21, 2)], 4096),
    "image Laplacian": ([2**k for k in range(6, 12)], 4096),
    "n-body, i<j": ([250, 500, 1000, 2000, 4000, 8000], 4000),
}


def growth(runs: int) -> dict[str, Any]:
    """Times and memory against size: value and gradient, by this package and by JAX."""
    found: dict[str, Any] = {}
    for name, (sizes, largest) in GROWTH.items():
        benchmark = next(b for b in ALL if b.name == name)
        mine, theirs = derivatives(benchmark)
        functions = {
            "value": benchmark.function.jax,
            "gradient": mine,
            "JAX value": benchmark.direct,
            "JAX gradient": theirs,
        }
        series: dict[str, list[tuple[int, float, float]]] = {key: [] for key in functions}
        for size in sizes:
            arguments = device_arrays(benchmark, size)
            for key, function in functions.items():
                if key.startswith("JAX") and size > largest:
                    continue
                executable, _, _ = compiled(function, arguments)
                ((spent,), _) = paired([executable], arguments, runs)
                series[key].append((size, spent, memory(executable)))
        found[name] = series
        print(f"growth of {name}: measured", flush=True)
    return found


def print_joins(runs: int, sizes: Sequence[int] = tuple(2**k for k in range(10, 17))) -> None:
    """A table of gradients of sums over several relations: tuples that agree, points that the kernel visits,
    its time, that of a call with new sets, which sorts them and finds these tuples, and those of calls with the same sets,
    and with the same that are frozen; with fitted exponents.
    """
    print("| program | n | tuples | points | kernel ms | new sets ms | the same ms | frozen ms |")
    print("|---|---|---|---|---|---|---|---|")
    for name, function, wrt, arguments in JOINS:
        gradient, rows = function.grad(wrt), []
        for n in sizes:
            given = arguments(n)
            plan = gradient.plan(*given)
            ready, arrays = gradient.specialised(*given).prepared(None)
            arrays = jax.device_put(arrays)
            run = statistics.median(once(lambda *_: ready.on(arrays), ()) for _ in range(runs))  # noqa: B023
            spent = [statistics.median(first(gradient, held(given, set)) for _ in range(3))]
            for kind in (set, frozenset):
                same = held(given, kind)
                gradient(*same)
                spent.append(statistics.median(once(gradient, same) for _ in range(3)))
            tuples = dict(plan.counts)[max(plan.joins, key=len)]
            rows.append((n, tuples, plan.points, run, *spent))
            times = " | ".join(f"{ms:.3g}" for ms in (run, *spent))
            print(f"| {name} | {n:,} | {tuples:,} | {plan.points:,} | {times} |", flush=True)
        _, *columns = np.log2(np.array(rows, float)).T
        exponents = (np.polyfit(columns[0], column, 1)[0] for column in columns[1:])
        text = " | ".join(f"{k:.2f}" for k in exponents)
        print(f"| {name} | | exponents by tuples: | {text} |", flush=True)


def first(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """The ms of a call with what no call has seen."""
    began = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return 1e3 * (time.perf_counter() - began)


def held(arguments: tuple[Any, ...], kind: type) -> tuple[Any, ...]:
    """The arguments with sets of their own."""
    return tuple(kind(x) if isinstance(x, set) else x for x in arguments)


def print_sums(runs: int, sizes: Sequence[int] = tuple(2**k for k in range(12, 23, 2))) -> None:
    """A table of gradients of sums up to an index: the kernel's time and that of the same with running sums in JAX; with fitted
    exponents.
    """
    print("| gradient | n | kernel ms | JAX ms |\n|---|---|---|---|")
    for name, function, direct, arguments in SUMS_UP_TO:
        gradient, rows = function.grad(next(iter(function.__signature__.parameters))), []
        for n in sizes:
            given = tuple(map(jnp.asarray, arguments(n)))
            mine, theirs = (compiled(f, given)[0] for f in (gradient, jax.grad(direct)))
            times, _ = paired([mine, theirs], given, runs)
            rows.append((n, *times))
            print(f"| {name} | {n:,} | {times[0]:.3g} | {times[1]:.3g} |", flush=True)
        _, *columns = np.log2(np.array(rows, float)).T
        steps = np.log2(np.array(sizes, float))
        text = " | ".join(f"{np.polyfit(steps, column, 1)[0]:.2f}" for column in columns)
        print(f"| {name} | exponents by n: | {text} |", flush=True)


def exponent(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The power of the size with which values grow, fitted to the larger half of the sizes: below, a call's own time is most."""
    half = min(len(sizes) // 2, len(sizes) - 2)
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def plot(found: dict[str, Any]) -> list[str]:
    """Two panels a program, in one PNG each. Returns their names."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot, ticker

    names = []
    for number, (name, series) in enumerate(found.items()):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        for key, points in series.items():
            style = "--" if key.startswith("JAX") else "-"
            colour = "C1" if key.startswith("JAX") else "C0"
            marker = "o" if "gradient" in key else "^"
            sizes, times, sizes_in_memory = zip(*points, strict=True)
            options = {"color": colour, "linestyle": style, "marker": marker}
            for axes, values in ((left, times), (right, [max(m, 1e-6) for m in sizes_in_memory])):
                axes.loglog(
                    sizes, values, label=f"{key}, $n^{{{exponent(sizes, values):.2f}}}$", **options
                )
        left.set(xlabel="size", ylabel="ms", title=name)
        right.set(xlabel="size", ylabel="MiB allocated")
        for axes in (left, right):
            # Between powers of ten, names of sizes would stand in one another.
            axes.xaxis.set_minor_formatter(ticker.NullFormatter())
            axes.legend(fontsize="x-small")
        file = f"growth-{number}.png"
        figure.savefig(DOCS / "images" / file, dpi=110)
        pyplot.close(figure)
        names.append(file)
    return names


def device() -> str:
    kind = jax.devices()[0].device_kind
    if jax.default_backend() == "cpu":
        kind = next(
            (
                text.split(":")[1].strip()
                for text in Path("/proc/cpuinfo").read_text().splitlines()
                if text.startswith("model name")
            ),
            platform.processor(),
        )
        import os

        kind = f"{os.cpu_count()} cores, {kind}"
    return f"JAX {jax.__version__} on {jax.default_backend()} ({kind})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument(
        "--write", action="store_true", help="docs/performance-tables.md and the plots"
    )
    parser.add_argument("--peak", nargs=2, metavar=("NAME", "SIZE"))
    parser.add_argument(
        "--joins", action="store_true", help="growth of sums over several relations"
    )
    parser.add_argument("--sums", action="store_true", help="growth of sums up to an index")
    options = parser.parse_args()
    if options.sums:
        warm_up()
        print_sums(options.runs)
        return
    if options.joins:
        print_joins(options.runs)
        return
    if options.peak:
        print_peak(options.peak[0], int(options.peak[1]))
        return
    warm_up()
    print(device(), flush=True)
    print(HEADER, flush=True)
    rows = []
    for benchmark in ALL:
        if options.only in benchmark.name:
            rows.append(measure(benchmark, options.runs))
            print(line(rows[-1]), flush=True)
    limits = []
    for name, size, limit in (
        ("dot(diag col, diag row)", 1_000_000, 100),
        ("n-body, i<j", 20_000, 2048),
    ):
        if options.only in name:
            grown, resident, spent = peak(name, size)
            met = "" if grown <= limit else "**missed** "
            limits.append(
                f"{met}{name}, size {size:,}: peak memory grows by {grown:.0f} MiB (goal: at most "
                f"{limit}), to {resident:.0f} MiB with JAX itself; {spent:.0f} ms"
            )
            print(limits[-1], flush=True)
    if options.write:
        write(rows, limits, plot(growth(5)))


def warm_up() -> None:
    """What a process does once, whatever the program: libraries loaded, the first kernel compiled."""
    small = STRUCTURED[0]
    compiled(derivatives(small)[0], device_arrays(small, 16))


def write(rows: list[Row], limits: list[str], images: list[str]) -> None:
    from_template = (DOCS / "performance-tables.md").read_text().split("<!-- measured -->")[0]
    parts = [
        from_template + "<!-- measured -->",
        device() + f", {time.strftime('%Y-%m-%d')}; medians of paired runs.",
        "\n".join([HEADER, *map(line, rows)]),
        "\n".join(f"- {text}" for text in limits),
        *(f"![growth](images/{file})" for file in images),
    ]
    (DOCS / "performance-tables.md").write_text("\n\n".join(parts) + "\n")
    data = [asdict(row) for row in rows]
    print(json.dumps(data))


if __name__ == "__main__":
    main()
