"""Functions from practice (`practice_programs.py`) beside an expert's JAX:

    python benchmarks/practice.py [--only NAME] [--pairs 21] [--untuned] [--write]

Each function is compiled as it is written. A call of its value and gradient and a call of the jitted
`jax.value_and_grad` of the expert's function run by turns in one process, on the same float32 arrays. A ratio is the
median over the pairs. `--write` puts the table into docs/performance-tables.md.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from page_sections import replace_section
from practice_programs import PROGRAMS, Arguments, Program
from recurrences import compared
from tensor_kernels import DOCS, device, difference, warm_up

from jupyter_hvd.tensor import TensorError, tensor

HEADER = (
    "| function | kind | JAX ms | JAX's time / ours | after tuning | kernel | gradient's difference from JAX's | "
    "value's from NumPy's | first call s | JAX's |\n|---|---|---|---|---|---|---|---|---|---|"
)
#: Relative to the largest entry, in float32. The tests compare in float64.
WRONG = 1e-2


@dataclass(frozen=True)
class Row:
    """What was measured of one function: `ratios` are JAX's time over ours, chosen by the cost model and, unless that was left
    out, after tuning, the `errors` those of the gradient and the value, the `first` calls ours and JAX's in seconds.
    """

    program: Program
    direct: float
    ratios: tuple[float, ...]
    kernel: str
    errors: tuple[float, float]
    first: tuple[float, float]

    @property
    def is_wrong(self) -> bool:
        return not max(self.errors) < WRONG

    def __str__(self) -> str:
        by_model, *tuned = (f"{ratio:.2f}" for ratio in self.ratios)
        numbers = " | ".join(f"{error:.0e}" for error in self.errors)
        ours, direct = self.first
        return (
            f"| {self.program.name} | {self.program.kind} | {self.direct:.3g} | **{by_model}** | {[*tuned, '–'][0]} | "
            f"{self.kernel} | {numbers}{' **wrong**' * self.is_wrong} | {ours:.2f} | {direct:.2f} |"
        )


@dataclass(frozen=True)
class Refused:
    """A function that was not taken as it is written."""

    program: Program
    message: str

    def __str__(self) -> str:
        return f"| {self.program.name} | {self.program.kind} | refused: {self.message} |" + " |" * 7


def in_float32(argument: Any) -> Any:
    """The argument on the device. Integers stay constants."""
    if isinstance(argument, int):
        return argument
    return jax.tree.map(
        lambda x: jnp.asarray(x, np.float32 if np.asarray(x).dtype.kind == "f" else None), argument
    )


def expert(program: Program, arguments: Arguments) -> Callable[[], Any]:
    """A call of the jitted value and gradient of the function in JAX."""
    places = {k: a for k, a in enumerate(arguments) if not isinstance(a, int)}
    names = program.function.__code__.co_varnames
    wanted = tuple(list(places).index(names.index(name)) for name in program.unknowns)

    def of(*data: Any) -> Any:
        given = dict(zip(places, data, strict=True))
        return program.direct(*(given.get(k, a) for k, a in enumerate(arguments)))

    one = wanted if len(wanted) > 1 else wanted[0]
    return partial(jax.jit(jax.value_and_grad(of, one)), *places.values())


def first_call(run: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call, and its seconds."""
    began = time.perf_counter()
    return jax.block_until_ready(run()), time.perf_counter() - began


def measure(program: Program, pairs: int, tune: bool = True) -> Row | Refused:
    arguments = tuple(map(in_float32, program.arguments(program.size)))
    direct = expert(program, arguments)
    expected, direct_first = first_call(direct)
    try:
        gradient = tensor(program.function).value_and_grad(*program.unknowns)
        ours = partial(gradient, *arguments)
        found, first = first_call(ours)
    except TensorError as error:
        return Refused(program, error.message)
    except Exception as error:  # what a user would report
        traceback.print_exc()
        return Refused(program, f"fails with {type(error).__name__}")
    value = program.function(*program.arguments(program.size))
    errors = difference(found[1], expected[1]), difference(np.float64(found[0]), value)
    _, spent, share = compared(ours, direct, pairs)
    ratios = [1 / share]
    chosen = by_model = gradient.plan(*arguments).choices
    if tune:
        chosen = gradient.tune(*arguments).chosen
        again = share if chosen == by_model else compared(ours, direct, pairs)[2]
        ratios.append(1 / again)
    return Row(program, spent, tuple(ratios), str(chosen), errors, (first, direct_first))


def summary(rows: Sequence[Row | Refused]) -> str:
    taken = [row for row in rows if isinstance(row, Row)]
    wrong = sum(row.is_wrong for row in taken)
    text = f"Taken as written: {len(taken)} of {len(rows)}. Wrong: {wrong}."
    for name, which in (("Chosen by the cost model", 0), ("After tuning", 1)):
        ratios = [row.ratios[which] for row in taken if which < len(row.ratios)]
        if ratios:
            slow, fast = sum(r < 0.5 for r in ratios), sum(r >= 0.9 for r in ratios)
            mean = math.exp(statistics.mean(map(math.log, ratios)))
            text += (
                f" {name}: {slow} below 0.5, {fast} at 0.9 or better, geometric mean {mean:.2f}."
            )
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="functions whose name has this in it")
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--untuned", action="store_true", help="leave out what `tune` finds")
    parser.add_argument(
        "--write", action="store_true", help="the table of docs/performance-tables.md"
    )
    options = parser.parse_args()
    os.environ["JUPYTER_HVD_CACHE"] = tempfile.mkdtemp()  # where nothing has been tuned
    os.environ["JUPYTER_HVD_TUNE"] = "never"  # but by `tune`
    warm_up()
    print(HEADER, flush=True)
    rows = []
    for program in PROGRAMS:
        if options.only in program.name:
            rows.append(measure(program, options.pairs, not options.untuned))
            print(rows[-1], flush=True)
    print(summary(rows))
    if options.write:
        table = "\n".join((HEADER, *map(str, rows)))
        when = f"{device()}, {time.strftime('%Y-%m-%d')}; medians of {options.pairs} pairs."
        text = "\n\n".join((when, table, summary(rows)))
        replace_section(DOCS / "performance-tables.md", "practice", text)


if __name__ == "__main__":
    main()
