"""How time and memory of recurrences grow, in three spellings: `python benchmarks/recurrence_growth.py [NAME …]`.

Each recurrence is written as an array that is filled, as a list that is appended to, and with the values that it carries by
names, from one line each of what it begins with and what a step makes; and for `jax.lax.scan`. Value and gradient of a loss are
one call. Exponents are those of the points visited, XLA's memory and the seconds between the two end sizes; the last
column is the time beside that of `lax.scan` at the largest, the median of the ratios of neighbours, as in `recurrences.py`.
"""

from __future__ import annotations

import argparse
import linecache
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from recurrences import compared

from jupyter_hvd.tensor import tensor

A = np.array([[0.5, 0.1, 0.0], [0.0, 0.4, -0.2], [0.1, 0.0, 0.3]], dtype=np.float32)


@dataclass(frozen=True)
class Recurrence:
    """What arrays begin with and what a step makes of `{y1}`, the entry before, `{y2}`, and the data `x[i]`; of the arrays a
    loss. `shape` is that of an entry.
    """

    begins: Mapping[str, tuple[str, ...]]
    steps: Mapping[str, str]
    loss: str
    shape: tuple[int, ...] = ()
    backwards: bool = False

    @property
    def lags(self) -> int:
        return max(map(len, self.begins.values()))


SUM = "np.sum(y * y)"
RECURRENCES = {
    "sine": Recurrence({"y": ("x[0]",)}, {"y": "0.5 * {y1} + 0.4 * np.sin({y1}) + x[i]"}, SUM),
    "AR(2)": Recurrence({"y": ("x[0]", "x[1]")}, {"y": "0.5 * {y1} - 0.3 * {y2} + x[i]"}, SUM),
    "threshold AR(3)": Recurrence(
        {"y": ("x[0]", "x[1]", "x[2]")},
        {"y": "0.5 * np.tanh({y1}) + 0.2 * {y2} * {y3} + x[i]"},
        SUM,
    ),
    "GARCH": Recurrence(
        {"y": ("1.0",)},
        {"y": "0.1 + 0.2 * x[i - 1] ** 2 + 0.7 * {y1}"},
        "np.sum(np.log(y) + x**2 / y)",
    ),
    "ARMA(1, 1)": Recurrence({"y": ("x[0]",)}, {"y": "x[i] - 0.5 * x[i - 1] - 0.3 * {y1}"}, SUM),
    "Hawkes": Recurrence(
        {"y": ("0.0",)},
        {"y": "np.exp(-0.5 - x[i] ** 2) * (1 + {y1})"},
        "np.sum(np.log(0.5 + 0.3 * y))",
    ),
    "returns": Recurrence({"y": ("x[n - 1]",)}, {"y": "0.9 * {y1} + x[i]"}, SUM, backwards=True),
    "Holt": Recurrence(
        {"y": ("x[0]",), "b": ("0.0",)},
        {
            "y": "0.3 * x[i] + 0.7 * ({y1} + {b1})",
            "b": "0.1 * (x[i] - {y1}) + 0.9 * {b1}",
        },
        "np.sum((x - y) ** 2) + np.sum(b * b)",
    ),
    "pendulum": Recurrence(
        {"y": ("x[0]",), "p": ("1.0",)},
        {"y": "{y1} + 0.1 * {p1}", "p": "0.8 * {p1} - 0.1 * np.sin({y1}) + 0.01 * x[i]"},
        "np.sum(y * y) + np.sum(p * p)",
    ),
    "Kalman": Recurrence(
        {"y": ("x[0]",), "v": ("1.0",)},
        {
            "y": "{y1} + ({v1} + 0.1) / ({v1} + 1.1) * (x[i] - {y1})",
            "v": "({v1} + 0.1) / ({v1} + 1.1)",
        },
        "np.sum((x - y) ** 2 / (v + 1) + np.log(v + 1))",
    ),
    "rows": Recurrence({"y": ("x[0]",)}, {"y": "np.tanh(A @ {y1}) + x[i]"}, SUM, shape=(3,)),
    "matrices": Recurrence(
        {"y": ("x[0]",)}, {"y": "np.tanh(A @ {y1} @ A) + x[i]"}, SUM, shape=(3, 3)
    ),
}


def read(text: str, how: Callable[[str, int], str]) -> str:
    """A step that reads entries in a way of its own."""
    return re.sub(r"\{(\w+?)(\d)\}", lambda m: how(m[1], int(m[2])), text)


def header(r: Recurrence) -> tuple[list[str], str]:
    turns = f"range(n - {r.lags + 1}, -1, -1)" if r.backwards else f"range({r.lags}, n)"
    return ["def f(x, A):", "    n = len(x)"], f"    for i in {turns}:"


def filled(r: Recurrence) -> str:
    lines, loop = header(r)
    wide = "".join(f", {k}" for k in r.shape)
    lines += [
        f"    {y} = np.zeros((n{wide}))" if wide else f"    {y} = np.zeros(n)" for y in r.steps
    ]
    for y in r.steps:
        where = ["n - 1"] if r.backwards else range(r.lags)
        lines += [f"    {y}[{k}] = {r.begins[y][j]}" for j, k in enumerate(where)]
    sign = "+" if r.backwards else "-"
    steps = [
        f"        {y}[i] = {read(step, lambda z, k: f'{z}[i {sign} {k}]')}"
        for y, step in r.steps.items()
    ]
    return "\n".join([*lines, loop, *steps, f"    return {r.loss}"])


def appended(r: Recurrence) -> str:
    lines, loop = header(r)
    for y in r.steps:
        lines.append(f"    {y} = [{', '.join(r.begins[y])}]")
    new = [
        f"        new_{y} = {read(step, lambda z, k: f'{z}[-{k}]')}" for y, step in r.steps.items()
    ]
    ends = [f"        {y}.append(new_{y})" for y in r.steps]
    arrays = [f"    {y} = np.array({y})" for y in r.steps]
    return "\n".join([*lines, loop, *new, *ends, *arrays, f"    return {r.loss}"])


def by_names(r: Recurrence) -> str:
    lines, loop = header(r)
    for y in r.steps:
        lines += [f"    {y}{r.lags - k} = {e}" for k, e in enumerate(r.begins[y])]
        lines.append(f"    {y} = [{', '.join(r.begins[y])}]")
    new = [f"        new_{y} = {read(step, lambda z, k: f'{z}{k}')}" for y, step in r.steps.items()]
    on = [
        f"        {y}{k} = {y}{k - 1}" if k > 1 else f"        {y}1 = new_{y}"
        for y in r.steps
        for k in range(r.lags, 0, -1)
    ]
    ends = [f"        {y}.append(new_{y})" for y in r.steps]
    arrays = [f"    {y} = np.array({y})" for y in r.steps]
    return "\n".join([*lines, loop, *new, *on, *ends, *arrays, f"    return {r.loss}"])


def scanned(r: Recurrence) -> str:
    """What an expert writes: a scan over the data, whose results are joined to what the arrays begin with."""
    lines = ["def f(x, A):", "    n = len(x)", "    def step(carry, i):"]
    carried = ", ".join(f"{y}{k}" for y in r.steps for k in range(1, r.lags + 1))
    lines.append(f"        ({carried},) = carry")
    lines += [f"        {y}0 = {read(e, lambda z, k: f'{z}{k}')}" for y, e in r.steps.items()]
    left = ", ".join(f"{y}{k}" for y in r.steps for k in range(r.lags))
    made = ", ".join(f"{y}0" for y in r.steps)
    lines.append(f"        return ({left},), ({made},)")
    begun = ", ".join(
        f"jnp.asarray({r.begins[y][k]}, x.dtype)" for y in r.steps for k in reversed(range(r.lags))
    )
    turns = (
        f"jnp.arange({r.lags}, n)" if not r.backwards else f"jnp.arange(n - {r.lags + 1}, -1, -1)"
    )
    lines.append(f"    ({made},) = jax.lax.scan(step, ({begun},), {turns})[1]")
    for y in r.steps:
        first = ", ".join(f"jnp.asarray({e}, x.dtype)" for e in r.begins[y])
        lines.append(f"    {y} = jnp.concatenate([jnp.stack([{first}]), {y}0])")
    return (
        "\n".join([*lines, f"    return {r.loss}"]).replace("np.", "jnp.").replace("jjnp.", "jnp.")
    )


def made(text: str, name: str) -> Callable[..., Any]:
    """The function with this text."""
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "jnp": jnp, "jax": jax}
    exec(compile(text, file, "exec"), names)
    return names["f"]  # type: ignore[no-any-return]


SPELLINGS = {"filled": filled, "appended": appended, "by names": by_names}


def exponent(values: list[float], sizes: list[int]) -> float:
    """Of the power of the size between the first and the last."""
    return math.log(max(values[-1], 1e-9) / max(values[0], 1e-9)) / math.log(sizes[-1] / sizes[0])


@dataclass(frozen=True)
class Measured:
    """A spelling at one size: points visited, bytes beside arguments and results, and milliseconds."""

    points: float
    bytes: float
    ours: float
    scan: float
    ratio: float


def measured(
    gradient: Any, expert: Callable[..., Any], given: tuple[Any, ...], pairs: int
) -> Measured:
    """Value and gradient beside those of an expert, compared first."""
    mine, other = (jax.jit(f).lower(*given).compile() for f in (gradient.jax, expert))
    np.testing.assert_allclose(mine(*given)[0], other(*given)[0], rtol=1e-3)
    np.testing.assert_allclose(mine(*given)[1], other(*given)[1], rtol=1e-2, atol=1e-3)
    times = compared(partial(mine, *given), partial(other, *given), pairs)
    taken = mine.memory_analysis().temp_size_in_bytes
    return Measured(gradient.plan(*given).points, taken, *times)


def row(name: str, spelling: str, sizes: list[int], pairs: int) -> str:
    r = RECURRENCES[name]
    expert = jax.value_and_grad(made(scanned(r), f"{name}, scan"))
    gradient = tensor(made(SPELLINGS[spelling](r), f"{name}, {spelling}")).value_and_grad("x")
    found = []
    for n in sizes:
        x = np.random.default_rng(0).normal(size=(n, *r.shape)).astype(np.float32) * 0.3
        found.append(measured(gradient, expert, (jnp.asarray(x), jnp.asarray(A)), pairs))
    powers = [
        f"{exponent([one(m) for m in found], sizes):.2f}"
        for one in (lambda m: m.points, lambda m: m.bytes, lambda m: m.ours)
    ]
    last = found[-1]
    cells = [*powers, f"{last.ours:.2f} ms", f"{last.scan:.2f} ms", f"{last.ratio:.2f}"]
    return f"| {' | '.join([name, spelling, *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--pairs", type=int, default=11)
    options = parser.parse_args()
    print(
        "| | spelling | points: exponent | memory | time | at the largest size | `lax.scan` | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name in options.names or RECURRENCES:
        for spelling in SPELLINGS:
            print(row(name, spelling, options.sizes, options.pairs), flush=True)


if __name__ == "__main__":
    main()
