"""What each pass of the lowering is worth on this CPU: `python benchmarks/ablation.py [--only NAME] [--passes …] [--write]`.

The programs are those of the peers, of growth and of the table (`peer_programs`, `tensor_programs`, `tensor_table`), at the
published sizes. Each pass is left out in turn. Where JAX sees another program without it, of a value or a gradient, the kernels
with the pass and without it run in turn in one process, beside JAX's own derivative where that fits. A ratio is the time without
the pass divided by the time with it: above 1 the pass pays. Both wall time and CPU time are measured, because the former says
little while something else runs. Results go to `.bench/ablation.json`, so that an interrupted run continues; `--write` puts the
summary into docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

import jax
import numpy as np
from jax import tree_util
from page_sections import replace_section
from peer_programs import PEERS
from tensor_kernels import DOCS, ROOT, Candidates, device, device_arrays, once, warm_up
from tensor_programs import ALL, JOINS, SUMS_UP_TO
from tensor_table import (
    as_tensor,
    class_by_class,
    derivative,
    entries,
    growing,
    interval,
    repeated,
)

from jupyter_hvd.tensor.lowering import dataflow, fusion, lower, plan, strategy
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL

KEPT = ROOT / ".bench" / "ablation.json"
TURNS = 15
PAYS = 1.05  # from this ratio on a pass serves a program


def _same_steps(steps: Sequence[Any], *_: Any) -> tuple[Any, ...]:
    return tuple(steps)


#: Each pass, and what stands in for it: the module, the name, the function.
PASSES: Mapping[str, tuple[tuple[Any, str, Callable[..., Any]], ...]] = {
    "row_by_row": ((lower, "block_row_sums", _same_steps),),
    "windows": (
        (strategy, "_as_correlation", lambda _: None),
        (strategy, "_long_window", lambda _: None),
    ),
    "boxed": ((strategy, "_box_windows", lambda _: None),),
    "conditions": ((fusion, "simplify_conditions", lambda steps, _: [*steps]),),
    "columns": ((lower, "split_columns", _same_steps),),
    "blocked": ((lower, "block_steps", _same_steps),),
    "part_by_part": ((lower, "mark_parted_sums", _same_steps),),
    "barriers": ((lower, "fusion_barriers", lambda _: frozenset()),),
    "slopes": ((lower, "share_slopes", _same_steps),),
    "both_ways": ((lower, "find_transposed_reads", lambda _: frozenset()),),
    "recomputed": ((plan, "find_recomputed", lambda *_: dataflow.Remade((), frozenset())),),
    "margins": ((plan, "find_read_margins", lambda *_: {}),),
    "scaled_before": ((fusion, "_scale_early", lambda steps, _: [*steps]),),
    "as_read": ((fusion, "_reorder_as_read", lambda steps, _: ([*steps], {})),),
    "repetition": ((fusion, "_drop_repeated_dimensions", lambda steps, *_: ([*steps], {})),),
    "flat_sums": ((fusion, "_flatten_sums", lambda steps, *_: [*steps]),),
}


@contextlib.contextmanager
def without(name: str) -> Iterator[None]:
    """Plan and trace without a pass."""
    with contextlib.ExitStack() as stack:
        for module, attribute, other in PASSES[name]:
            stack.enter_context(patch.object(module, attribute, other))
        yield


@dataclass(frozen=True)
class Subject:
    """A tensor function or a derivative of one, and its arguments."""

    name: str
    made: Any
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """Of one pass and one program: ms with the pass and without it; `ratio`, the median of their ratios in the same turn, with
    its interval; that of CPU time, and of the fastest turns. `jax` is the time of JAX's own derivative over that with the pass,
    where it fits; `dense` says that the model chooses it.
    """

    change: str
    program: str
    with_pass: float
    without_pass: float
    ratio: float
    low: float
    high: float
    cpu: float
    least: float
    jax: float | None = None
    dense: bool = False

    @property
    def is_served(self) -> bool:
        """Whether the pass surely pays for a kernel that a call runs."""
        return self.cpu >= PAYS and self.ratio >= PAYS and self.low >= 1 and not self.dense

    def __str__(self) -> str:
        jaxs = "" if self.jax is None else f", JAX's own {self.jax:.2f}{' (chosen)' * self.dense}"
        return (
            f"{self.change:14} {self.program:40} {self.with_pass:8.3f} → {self.without_pass:8.3f} ms "
            f"{self.ratio:6.2f} ({self.low:.2f}–{self.high:.2f}), CPU {self.cpu:.2f}{jaxs}"
        )


def published_entries() -> dict[str, int]:
    """The sizes of the programs of the published table, by name."""
    rows = re.findall(
        r"^\| ([^|]+) \| [a-z]+ \| ([\d,]+) \|", (DOCS / "performance-tables.md").read_text(), re.M
    )
    return {name: int(entries.replace(",", "")) for name, entries in rows}


def subjects(only: str) -> Iterator[Subject]:
    """The values and the gradients of all programs, one program after the other."""
    for benchmark in (*(peer.benchmark for peer in PEERS), *ALL):
        if only in benchmark.name and benchmark.kind == "grad":
            arguments = device_arrays(benchmark, benchmark.size)
            gradient = benchmark.function.grad(*benchmark.wrt)
            yield Subject(f"{benchmark.name}: gradient", gradient, arguments, {})
            yield Subject(f"{benchmark.name}: value", benchmark.function, arguments, {})
    for name, f, wrt, made in JOINS:
        if only in name:
            yield Subject(f"{name}: gradient", f.grad(wrt), made(8192), {})
    for name, f, _, made in SUMS_UP_TO:
        if only in name:
            first = next(iter(f.__signature__.parameters))
            given = tree_util.tree_map(jax.numpy.asarray, made(1 << 16))
            yield Subject(f"{name}: gradient", f.grad(first), given, {})
    sizes = published_entries()
    for program in class_by_class():
        if only not in program.name or program.name not in sizes:
            continue
        f = as_tensor(program)
        at = program.at
        if at is None:
            lengths = growing(program)
            at = lambda k, p=program, n=lengths: repeated(p.arguments, n, k)  # noqa: E731
        factor = 1
        while entries(at(factor)) < sizes[program.name] and factor < 1 << 24:
            factor *= 2
        arguments = at(factor)
        made, data, named = derivative(program, f, arguments)
        yield Subject(f"{program.name}: gradient", made, data, named)
        yield Subject(f"{program.name}: value", f, data, {})


def planned(candidates: Candidates, again: bool) -> Any:
    """The plan of the model's passes as they are now; with `again` lowered anew, as loops are planned where they are lowered."""
    made, key = (
        candidates.made,
        (
            candidates.made.counts(candidates.operands),
            candidates.made.dtype(candidates.operands),
        ),
    )
    if again:
        found = lower.lower(made.restricted, made.parameters, *key, made.device, MODEL)
    else:
        made.compile(*key)
        found = replace(made.lowered[key])  # nothing fused yet
    return found.plan(MODEL)


def traced(candidates: Candidates, change: str | None) -> tuple[str, Any]:
    """The program that JAX sees, and the jitted function of it."""
    context = contextlib.nullcontext() if change is None else without(change)
    with context:
        key = (
            candidates.made.counts(candidates.operands),
            candidates.made.dtype(candidates.operands),
        )
        candidates.made.compile(*key)
        loops = any(s.action.loops for s in candidates.made.lowered[key].steps)
        found = planned(candidates, again=loops and change is not None)
        run = jax.jit(lambda *xs: candidates.made.executed(found, xs))
        staged = run.trace(*candidates.operands)
        return str(staged.jaxpr), staged


def in_turn(functions: Sequence[Callable[[], Any]], turns: int = TURNS) -> tuple[Any, Any]:
    """The ms of each in each turn, now the first first, now the last; and those of CPU."""
    calls = [max(1, int(2 / once(partial(_called, f), ()))) for f in functions]
    found = np.zeros((2, len(functions), turns))
    for turn in range(turns):
        order = range(len(functions))
        for k in order if turn % 2 else reversed(order):
            jax.block_until_ready(functions[k]())
            began = np.array([time.perf_counter(), time.process_time()])
            for _ in range(calls[k]):
                jax.block_until_ready(functions[k]())
            spent = np.array([time.perf_counter(), time.process_time()]) - began
            found[:, k, turn] = 1e3 * spent / calls[k]
    return found[0], found[1]


def _called(function: Callable[[], Any], *_: Any) -> Any:
    return function()


def dense_of(candidates: Candidates) -> Any:
    """JAX's own derivative, compiled; None where there is none, or it takes long to compile."""
    try:
        candidates.made.require_fit(candidates.plan(DENSE), candidates.operands)
        return candidates.compiled(DENSE)
    except Exception:
        return None


def measure(subject: Subject, passes: Sequence[str]) -> Iterator[Row]:
    """A row for each pass that changes what JAX sees."""
    candidates = Candidates.of(subject.made, subject.arguments, subject.named)
    text, staged = traced(candidates, None)
    again, _ = traced(candidates, None)  # JAX names some functions by how often it has seen them
    changed = {}
    for change in passes:
        try:
            other, made = traced(candidates, change)
        except Exception as error:
            print(f"{change:14} {subject.name:40} cannot be left out: {error!r:.80}", flush=True)
            continue
        if other not in (text, again):
            changed[change] = made
    if not changed:
        return
    model = staged.lower().compile()
    own = dense_of(candidates)
    is_dense = candidates.made.by_model(candidates.operands) == DENSE
    for change, made in changed.items():
        other = made.lower().compile()
        executables = [e for e in (model, other, own) if e is not None]
        wall, cpu = in_turn([partial(e, *candidates.operands) for e in executables])
        ratio, low, high = interval(wall[1] / wall[0])
        spent = np.median(wall, axis=1)
        dense = float(np.median(wall[2] / wall[0])) if own is not None else None
        yield Row(
            change,
            subject.name,
            float(spent[0]),
            float(spent[1]),
            ratio,
            low,
            high,
            float(np.median(cpu[1] / cpu[0])),
            float(wall[1].min() / wall[0].min()),
            dense,
            is_dense,
        )


def summary(rows: Sequence[Row], subjects: int) -> str:
    """A table with a line for each pass."""
    lines = [
        f"{device()}, {time.strftime('%Y-%m-%d')}; {subjects} values and gradients, medians of {TURNS} runs.",
        "",
        "| pass | programs that it changes | served | geometric mean | gains most | loses most |",
        "|---|---|---|---|---|---|",
    ]
    for change in PASSES:
        own = sorted((row for row in rows if row.change == change), key=lambda row: row.cpu)
        if not own:
            lines.append(f"| {change} | 0 | 0 | | | |")
            continue
        mean = math.exp(sum(math.log(row.cpu) for row in own) / len(own))
        ends = (f"{row.program} {row.cpu:.2f}" for row in (own[-1], own[0]))
        served = sum(row.is_served for row in own)
        lines.append(f"| {change} | {len(own)} | {served} | {mean:.2f} | {' | '.join(ends)} |")
    return "\n".join(lines)


def kept_rows() -> dict[str, dict[str, list[Any]]]:
    """What has been measured: of each value or gradient the passes that were left out, and rows."""
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--passes", nargs="*", default=[*PASSES], choices=[*PASSES])
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin none after so long")
    parser.add_argument("--write", action="store_true", help="docs/performance-tables.md")
    options = parser.parse_args()
    warm_up()
    kept, began = kept_rows(), time.monotonic()
    for subject in subjects(options.only):
        if time.monotonic() - began > options.seconds:
            break
        before = kept.setdefault(subject.name, {"passes": [], "rows": []})
        due = [x for x in options.passes if x not in before["passes"]]
        if not due:
            continue
        try:
            for row in measure(subject, due):
                print(row, flush=True)
                before["rows"].append(asdict(row))
        except Exception as error:
            print(f"{subject.name}: {error!r:.100}", flush=True)
        before["passes"] += due
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(kept, indent=1))
    rows = [Row(**row) for one in kept.values() for row in one["rows"]]
    text = summary(rows, len(kept))
    print(text)
    if options.write:
        replace_section(DOCS / "performance-tables.md", "ablation", text)


if __name__ == "__main__":
    main()
