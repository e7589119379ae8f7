"""Gradients of programs that the kernels were not made for, beside `jax.grad` of the same programs in JAX:

    python benchmarks/tensor_table.py [--only NAME] [--runs 3] [--seconds 600] [--again] [--write]

The programs are those of `tests/tensor/test_everyday.py`, `test_public.py` and `programs.py` as people wrote them, the first
that `generated_programs` draws of each class, and GradBench's (`gradbench_programs`). The sizes are found: what can grow grows
until JAX's gradient takes 1 ms. Of what is no scalar, the cotangents are drawn, too. Two kernels of ours are timed: the one that
the model chooses, and the one that a first call finds where it measures, however small, in a cache of its own. They and JAX's run
in turn; a ratio is the median over the turns, with the interval that holds it at 95 % (order statistics), and turns go on where
1.05 lies in that. Where arrays lie in memory is a matter of luck that lasts as long as a process, and can be a tenth of the
time of programs whose compiled code is the same: of several runs, each in a process of its own, the table has the middle one
for each program. What was measured is kept in `.bench/tensor_table.json`, so that a run that ends early is gone on with;
`--again` forgets it, `--write` puts the table into docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import math
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from generated_programs import drawn
from gradbench_programs import EVALUATIONS
from jax import tree_util
from page_sections import replace_section
from tensor_kernels import DOCS, ROOT, compiled, device, difference, kernels, once, warm_up

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax import tuning

sys.path.insert(0, str(ROOT / "tests" / "tensor"))

import programs
import test_everyday
import test_public

KEPT = ROOT / ".bench" / "tensor_table.json"
LEAST, MOST = 1.0, 100.0  # ms of JAX's gradient
FEW, ENTRIES = 1 << 14, 1 << 24
LONG, SLOW = 40, 10  # seconds for one program, for compiling JAX's gradient of it
UNROLLED = 3000  # operations of a program whose loops JAX writes out
TURNS, MOST_TURNS = 15, 75  # more than the first where the interval does not say
ALLOWED = 1 / 1.05  # JAX's time over ours, at least

#: How most of a program's time is spent; what is in none of these computes entry by entry.
CLASSES = {
    "stencil": "heat_step total_variation moving_average heat_residual avg_pool max_pool corr2d gray_scott "
    "fluid_project burgers_residual nine_point_laplacian jax101_convolve autocorrelations image_gradient blur "
    "laplacian masked_stencil convolution_loss batched_loss catenary as_rigid_as_possible",
    "contraction": "least_squares ridge logistic_regression two_layers attention cosine_similarity rayleigh "
    "cookbook_loss cookbook_dict mnist_from_scratch llsq causal_attention multi_head_attention gram_style autoenc "
    "mlp_reduce cross_entropy quadratic_form factorisation vmap_inner dense_by_helpers heads projected_away "
    "log_gamma_gmm hinge steps_of_a_dataclass markov_step recurrent_cell",
    "reduction": "layer_norm entropy correlation lse softmax r2_score poisson_deviance batch_norm rmsnorm kl "
    "mse_absolute_beginners trapezoid simpson trapz polygon_area nll_takes ce_onehot reduced_in_several_ways "
    "cumulative_hazard star_args black_box_elbo",
    "pairwise": "kmeans_inertia mixture pairwise_energy gaussian_kernel gradbench_kmeans rbf_kernel rkhs_mmd "
    "lennard_jones matern32 coulomb_mask chamfer boids_cohesion gravity sinkhorn",
    "gather": "springs gnn_segment graph_smoothness ba_radial",
    "loop": "hmm_forward rnn_scan heat_fori kalman lstm ema_accumulate gru_by_helpers hmm_by_helpers "
    "lstm_of_named_tuples conjugate_gradient binomial_option polynomial horner polyval",
    "structure": "traces diagonal_dot",
}


@dataclass(frozen=True)
class Program:
    """A Python function, the same in JAX, arguments to begin with, and the place of what is differentiated by; `at` gives
    larger arguments where they do not just repeat those.
    """

    name: str
    kind: str
    function: Callable[..., Any]
    direct: Callable[..., Any]
    arguments: tuple[Any, ...]
    place: int = 0
    at: Callable[[int], tuple[Any, ...]] | None = None


@dataclass(frozen=True)
class Row:
    """Times in ms, JAX's time over ours with its interval, the difference; or why there is none. `first` is JAX's time over
    that of the kernel that was chosen without measuring, `kernel` says which one was.
    """

    name: str
    kind: str
    entries: int = 0
    mine: float = 0
    other: float = 0
    ratio: float = 0
    low: float = 0
    high: float = 0
    error: float = 0
    first: float = 0
    kernel: str = ""
    why: str = ""

    def __str__(self) -> str:
        if self.why:
            return f"| {self.name} | {self.kind} |  |  |  |  |  |  | {self.why} |"
        return (
            f"| {self.name} | {self.kind} | {self.entries:,} | {self.mine:.3g} | {self.other:.3g} | {_short(self.first)} | "
            f"**{_short(self.ratio)}** ({_short(self.low)}–{_short(self.high)}) | {self.kernel} | {self.error:.0e} |"
        )


def _short(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 100 else f"{ratio:,.0f}"


def kind_of(name: str) -> str:
    return next((kind for kind, names in CLASSES.items() if name in names.split()), "map")


def all_programs() -> Iterator[Program]:
    seen = set[str]()
    for module in (test_everyday, test_public):
        for function, arguments in module.CASES:
            stem = function.__name__
            name = f"{stem}, another" if stem in seen else stem
            seen.add(name)
            yield Program(name, kind_of(stem), function, in_jax(function), arguments)
    for case in programs.CASES:
        names = list(case.function.__signature__.parameters)
        place = names.index(case.wrt[0])
        direct = in_jax(case.direct)
        yield Program(case.name, kind_of(case.name), case.function, direct, case.arguments, place)
    for one in drawn():
        yield Program(one.name, one.kind, *one.functions(), one.at(1), at=one.at)
    for one in EVALUATIONS:
        yield Program(one.name, one.kind, one.function, one.direct, one.at(1), at=one.at)


def class_by_class() -> list[Program]:
    """One of each class after the other, so that a table that is not complete has all of them."""
    seen = Counter[str]()
    order: list[tuple[int, Program]] = []
    for program in all_programs():
        order.append((seen[program.kind], program))
        seen[program.kind] += 1
    return [program for _, program in sorted(order, key=lambda one: one[0])]


def in_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with JAX's arrays by the name of NumPy's, its helpers', too."""

    @functools.wraps(function)
    def direct(*arguments: Any) -> Any:
        names = getattr(function, "__globals__", {})
        before = names.get("np")
        if before is None:
            return function(*arguments)
        names["np"] = jnp
        try:
            return function(*arguments)
        finally:
            names["np"] = before

    return direct


def entries(arguments: tuple[Any, ...]) -> int:
    return sum(int(np.size(x)) for x in tree_util.tree_leaves(arguments))


def repeated(arguments: tuple[Any, ...], lengths: frozenset[int], factor: int) -> tuple[Any, ...]:
    """The arguments, every axis of these lengths so many times as long, in float32; indices stay in range. Numbers are moved by
    a tenth at most, so that hardly two are equal, which maxima would be slow for.
    """
    random = np.random.default_rng(0)

    def one(x: Any) -> Any:
        if isinstance(x, int | float | bool | str) or not hasattr(x, "shape"):
            return x
        made = np.tile(x, [factor if n in lengths else 1 for n in x.shape])
        if made.dtype.kind != "f":
            return made
        near = 1 - random.uniform(0, 0.1, made.shape) if factor > 1 else 1
        return (made * near).astype(np.float32)

    return tuple(tree_util.tree_map(one, arguments))


def _on_device(x: Any) -> Any:
    return jnp.asarray(x) if hasattr(x, "shape") else x


def is_data(x: Any) -> bool:
    return not isinstance(x, int | bool | str) or hasattr(x, "shape")


def closed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The function of those arguments that are arrays or floats, the others as they are."""
    places = [k for k, a in enumerate(arguments) if is_data(a)]

    def moved(*data: Any) -> Any:
        given = dict(zip(places, data, strict=True))
        return function(*(given.get(k, a) for k, a in enumerate(arguments)))

    data = tree_util.tree_map(jnp.asarray, tuple(arguments[k] for k in places))
    return moved, data


def result_of(program: Program, arguments: Any) -> Any:
    """The shapes of the result."""
    moved, data = closed(program.direct, arguments)
    return jax.eval_shape(moved, *data)


def grows(program: Program, lengths: frozenset[int]) -> bool:
    """Whether JAX takes arguments of which axes of these lengths are twice as long."""
    moved, data = closed(program.direct, repeated(program.arguments, lengths, 2))
    try:
        before, shapes = result_of(program, program.arguments), jax.eval_shape(moved, *data)
    except Exception:
        return False
    return tree_util.tree_structure(before) == tree_util.tree_structure(shapes)


def growing(program: Program) -> frozenset[int]:
    """The lengths that can grow: one after the other, the longest first."""
    leaves = tree_util.tree_leaves(program.arguments)
    lengths = sorted({n for x in leaves for n in getattr(x, "shape", ()) if n > 1}, reverse=True)
    found = frozenset(lengths)
    if found and grows(program, found):
        return found
    found = frozenset[int]()
    for n in lengths:
        found |= {n} if grows(program, found | {n}) else frozenset()
    return found


def reversed_by(moved: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The cotangent of an argument, for that of the result: the last argument."""

    def pulled(*data: Any) -> Any:
        *data, dy = data
        before, after = data[:place], data[place + 1 :]
        return jax.vjp(lambda x: moved(*before, x, *after), data[place])[1](dy)[0]

    return pulled


def seed_of(program: Program, arguments: Any) -> Any:
    """A cotangent drawn at random; None where the result is a scalar, which has a gradient."""
    result = result_of(program, arguments)
    if getattr(result, "shape", None) == ():
        return None
    random = np.random.default_rng(1)
    return tree_util.tree_map(lambda x: jnp.asarray(random.normal(size=x.shape), x.dtype), result)


def theirs(program: Program, arguments: Any) -> Any:
    """JAX's compiled gradient, and its arguments."""
    moved, data = closed(program.direct, arguments)
    place = sum(is_data(a) for a in arguments[: program.place])
    seed = seed_of(program, arguments)
    if seed is None:
        return compiled(jax.grad(moved, place), data)[0], data
    data = (*data, seed)
    return compiled(reversed_by(moved, place), data)[0], data


def derivative(program: Program, f: Any, arguments: Any) -> tuple[Any, Any, dict[str, Any]]:
    """What is measured of a tensor function, its arguments on the device, and its cotangent by name where it has one. It takes
    what JAX's takes.
    """
    wrt = list(inspect.signature(program.function).parameters)[program.place]
    seed = seed_of(program, arguments)
    made = f.grad(wrt) if seed is None else f.vjp(wrt)
    extra = {} if seed is None else {list(made.__signature__.parameters)[-1]: seed}
    return made, tree_util.tree_map(_on_device, tuple(arguments)), extra


def ours(program: Program, f: Any, arguments: Any) -> Any:
    """What a call runs once a first one has measured, and what it runs before; and which kernel was found."""
    return kernels(*derivative(program, f, arguments))


def as_tensor(program: Program) -> Any:
    return program.function if hasattr(program.function, "grad") else tensor(program.function)


def equations(program: Program, arguments: tuple[Any, ...]) -> int:
    moved, data = closed(program.direct, arguments)
    return len(jax.make_jaxpr(moved)(*data).eqns)


def measure(program: Program) -> Row:
    name, kind = program.name, program.kind
    try:
        program.direct(*tree_util.tree_map(_on_device, program.arguments))
    except TypeError:
        return Row(name, kind, why="no program of JAX as it stands")
    f = as_tensor(program)
    found = large_enough(program)
    if found is None:
        return Row(name, kind, why="too large from the start, its loops written out by JAX")
    other, data, arguments = found
    try:
        mine, first, chosen = ours(program, f, arguments)
    except TensorError as error:
        return Row(name, kind, why=f"refused at this size: {error.message[:80]}")
    error = difference(mine(*data), other(*data))
    times = in_turn([mine, other] if first is mine else [mine, other, first], data)
    middle, low, high = interval(times[1] / times[0])
    before = float(np.median(times[1] / times[-1])) if len(times) > 2 else middle
    spent = np.median(times, axis=1)
    size = entries(arguments)
    return Row(name, kind, size, spent[0], spent[1], middle, low, high, error, before, chosen)


@dataclass(frozen=True)
class Growth:
    """When a program is large enough.

    Attributes:
        least: ms that JAX's gradient takes at least.
        most: ms that it does not exceed.
        entries: of the arguments, at most.
        compiling: seconds that compiling JAX's gradient may take.
        steep: factor of the next size while a gradient is much faster than `least`.
        runs: of which the fastest counts.
        timed: the ms of one of them.
    """

    least: float = LEAST
    most: float = MOST
    entries: int = ENTRIES
    compiling: float = SLOW
    steep: int = 4
    runs: int = 3
    timed: Callable[[Any, Any], float] = once


def large_enough(program: Program, growth: Growth = Growth()) -> tuple[Any, Any, Any] | None:
    """JAX's compiled gradient, its arguments, and those of the program, so large that it takes a while, if they can be."""
    at, factor = program.at, 1
    if at is None:
        lengths = growing(program)
        at = functools.partial(repeated, program.arguments, lengths)
        if not lengths:
            return (*theirs(program, at(1)), at(1))
    while entries(at(2 * factor)) < FEW:
        factor *= 2  # fewer take less than a millisecond
    found = None
    while True:
        arguments = at(factor)
        if entries(arguments) > growth.entries or equations(program, arguments) > UNROLLED:
            return found
        began = time.perf_counter()
        made, data = theirs(program, arguments)
        if found is not None and time.perf_counter() - began > growth.compiling:
            return found
        spent = min(growth.timed(made, data) for _ in range(growth.runs))  # beside other work, too
        if spent > growth.most and found is not None:
            return found
        found = made, data, arguments
        if spent >= growth.least:
            return found
        factor *= 2 if spent > growth.least / 4 else growth.steep


def in_turn(
    executables: list[Any], arguments: tuple[Any, ...], most_turns: int = MOST_TURNS
) -> Any:
    """The ms of each in each turn, in which every function runs once untimed and then for about two milliseconds, now the first
    first, now the last; as many turns as it takes to say whether JAX's time over that of the first is as it has to be.
    """
    calls = [max(1, int(2 / once(executable, arguments))) for executable in executables]
    found: list[list[float]] = [[] for _ in executables]
    for turn in range(most_turns):
        if turn % TURNS == 0 and turn:
            _, low, high = interval(np.divide(found[1], found[0]))
            if not low <= ALLOWED <= high:
                break
        order = range(len(executables))
        for k in order if turn % 2 else reversed(order):
            jax.block_until_ready(executables[k](*arguments))
            began = time.perf_counter()
            for _ in range(calls[k]):
                jax.block_until_ready(executables[k](*arguments))
            found[k].append(1e3 * (time.perf_counter() - began) / calls[k])
    return np.array(found)


def interval(ratios: Any) -> tuple[float, float, float]:
    """The median, and the order statistics between which it lies at 95 %."""
    n = len(ratios)
    ordered, away = sorted(ratios), 0.98 * math.sqrt(n)
    low, high = math.floor((n - 1) / 2 - away), math.ceil((n - 1) / 2 + away)
    return float(np.median(ordered)), float(ordered[max(0, low)]), float(ordered[min(n - 1, high)])


def late(*_: Any) -> None:
    raise TimeoutError(f"took more than {LONG} s")


def report(rows: list[Row], runs: int) -> str:
    measured = [row for row in rows if not row.why]
    dense = [row for row in measured if row.kind != "structure"]
    counted = [row for row in dense if row.other >= LEAST / 2]
    groups = {
        "All": measured,
        "The dense ones": dense,
        "Those of them that take JAX 0.5 ms and more": counted,
        "Generated": [row for row in counted if row.name.split()[0] == row.kind],
    }
    for row in sorted(measured, key=lambda row: row.kind):
        groups.setdefault(f"Of the class {row.kind}", []).append(row)
    lines = [
        f"{device()}, {time.strftime('%Y-%m-%d')}; medians over runs, their intervals at 95 %"
        f"{f'; the middle of {runs} runs' if runs > 1 else ''}.",
        "",
        "| program | class | entries | gradient ms | JAX's ms | JAX's / ours, by the model | measured | kernel | difference |",
        "|---|---|---|---|---|---|---|---|---|",
        *map(str, sorted(measured, key=lambda row: (row.kind, row.ratio))),
        "",
        "| | programs | classes | ≤ 1.05 of JAX's time | surely not | by the model | geometric mean | by the model | worst |",
        "|---|---|---|---|---|---|---|---|---|",
        *(_summary(title, some) for title, some in groups.items() if some),
        "",
    ]
    left = [f"{row.name} ({row.why})" for row in rows if row.why]
    if left:
        lines.append(f"Not measured: {'; '.join(left)}.")
    return "\n".join(lines)


def _summary(title: str, some: list[Row]) -> str:
    def mean(ratios: list[float]) -> float:
        return math.exp(sum(map(math.log, ratios)) / len(ratios))

    worst = min(some, key=lambda row: row.ratio)
    counts = [
        len(some),
        len({row.kind for row in some}),
        sum(row.ratio >= ALLOWED for row in some),
        sum(row.high < ALLOWED for row in some),
        sum(row.first >= ALLOWED for row in some),
    ]
    means = mean([row.ratio for row in some]), mean([row.first for row in some])
    return (
        f"| {title} | {' | '.join(map(str, counts))} | {means[0]:.2f} | {means[1]:.2f} | "
        f"{worst.ratio:.2f} ({worst.name}) |"
    )


def middle(rows: list[Row]) -> Row:
    """Of the runs of one program that with the median ratio; the lower of two."""
    measured = sorted((row for row in rows if not row.why), key=lambda row: row.ratio)
    return measured[(len(measured) - 1) // 2] if measured else rows[0]


def kept_runs() -> dict[str, list[Row]]:
    """What was measured, run by run, by the names of the programs."""
    if not KEPT.exists():
        return {}
    return {
        name: [Row(**row) for row in rows] for name, rows in json.loads(KEPT.read_text()).items()
    }


def keep(runs: dict[str, list[Row]]) -> None:
    KEPT.parent.mkdir(exist_ok=True)
    plain = {name: [asdict(row) for row in rows] for name, rows in runs.items()}
    KEPT.write_text(json.dumps(plain, indent=1))


def once_more(arguments: list[str]) -> None:
    """The same in a new process."""
    os.execv(sys.executable, [sys.executable, __file__, *arguments])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--runs", type=int, default=1, help="each in a process of its own")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after so long")
    parser.add_argument("--again", action="store_true", help="forget what was measured before")
    parser.add_argument("--write", action="store_true", help="docs/performance-tables.md")
    options = parser.parse_args()
    kept = {} if options.again else kept_runs()
    os.environ["JUPYTER_HVD_CACHE"] = tempfile.mkdtemp()  # where nothing has been tuned
    tuning.LARGE = 0
    programs = [program for program in class_by_class() if options.only in program.name]
    fewest = min(len(kept.get(program.name, ())) for program in programs)
    due = [p for p in programs if fewest == len(kept.get(p.name, ())) < options.runs]
    if due:
        warm_up()
        signal.signal(signal.SIGALRM, late)
    began = time.monotonic()
    for program in due:
        left = options.seconds - (time.monotonic() - began)
        if left < 0:
            break
        signal.alarm(LONG)
        try:
            row = measure(program)
        except Exception as error:
            row = Row(program.name, program.kind, why=f"{type(error).__name__}: {error}"[:120])
        signal.alarm(0)
        kept.setdefault(program.name, []).append(row)
        keep(kept)
        print(row, flush=True)
        # XLA goes on compiling what took too long, beside all that is timed after it.
        is_last = program is due[-1] and fewest + 1 < options.runs
        if row.why.startswith("TimeoutError") or is_last:
            given = ["--only", options.only, "--runs", str(options.runs), "--seconds", str(left)]
            once_more([*given, *["--write"] * options.write])
    text = report([middle(rows) for rows in kept.values()], max(map(len, kept.values())))
    print(text)
    if options.write:
        replace_section(DOCS / "performance-tables.md", "table", text)


if __name__ == "__main__":
    main()
