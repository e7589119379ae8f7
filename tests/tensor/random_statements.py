"""Random functions of loops that change names, as Python runs them and as the tensor language does:
`python tests/tensor/random_statements.py SEED PROGRAMS`.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from jupyter_hvd.tensor import TensorError, tensor

NAMES = ("s", "t", "u")


def expression(choose: random.Random, indices: list[str]) -> str:
    """One of numbers, entries, and now and then of what the loops change."""
    i = choose.choice(indices)
    read = choose.random() < 0.25
    return choose.choice(
        ("s", "t", f"u[{i}]", "s + x[i]") if read else ("0.5", f"x[{i}]", f"x[{i}] * 0.5", "1.25")
    )


def statements(choose: random.Random, indices: list[str], depth: int) -> Iterator[str]:
    """A block, indented by what holds it."""
    for _ in range(choose.randint(1, 3)):
        kind = choose.random()
        if kind < 0.05:
            yield from leaving(choose, indices)
        elif kind < 0.18 and depth:
            yield f"if {condition(choose, indices)}:"
            yield from ("    " + line for line in statements(choose, indices, depth - 1))
            if choose.random() < 0.5:
                yield "else:"
                yield from ("    " + line for line in statements(choose, indices, depth - 1))
        elif kind < 0.33 and depth and len(indices) < 2:
            yield f"for j in range({choose.choice(('i', '2', 'len(x)'))}):"
            yield from ("    " + line for line in statements(choose, [*indices, "j"], depth - 1))
        else:
            yield change(choose, indices)


def condition(choose: random.Random, indices: list[str]) -> str:
    return choose.choice((f"x[{indices[-1]}] > 1", f"{indices[-1]} == 2", "i > 1"))


def leaving(choose: random.Random, indices: list[str]) -> Iterator[str]:
    """What leaves an iteration, a loop or the function, or asserts or names something."""
    kind = choose.randrange(6)
    if kind == 0:
        yield f"assert x[{indices[-1]}] > -9"
    elif kind == 1:
        yield f"if (v := {expression(choose, indices)}) > 0.6:"
        yield "    s += v"
    else:
        yield f"if {condition(choose, indices)}:"
        e = expression(choose, indices)
        yield f"    {('continue', 'break', 'raise ValueError(s)', f'return s + {e}')[kind - 2]}"


def change(choose: random.Random, indices: list[str]) -> str:
    name, e = choose.choice(NAMES), expression(choose, indices)
    if name == "u" and choose.random() < 0.6:
        return f"u[{choose.choice(indices)}] {choose.choice(('=', '+=', '-='))} {e}"
    if choose.random() < 0.2:
        return f"{name} = {name} {choose.choice('+-*')} {e}"
    return (
        f"{name} {choose.choice(('+=', '-=', '*='))} {e}"
        if choose.random() < 0.9
        else f"{name} /= 2"
    )


def source(seed: int) -> str:
    """The function of a seed."""
    choose = random.Random(seed)
    body = "\n".join("        " + line for line in statements(choose, ["i"], 2))
    return (
        f"def f{seed}(x):\n    s = 1.0\n    t = 0.5\n    u = x * 1.0\n    for i in range(len(x)):\n{body}\n"
        "    return s + 2 * t + sum(u[k] * (k + 1) for k in range(len(x)))\n"
    )


def module(seeds: range, folder: Path) -> ModuleType:
    """The functions of some seeds, in a file, for the language reads them there."""
    path = folder / f"random_statements_{seeds.start}.py"
    path.write_text("\n\n".join(map(source, seeds)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(made)
    return made


def agrees(function: Callable[[Any], Any], x: np.ndarray) -> bool:
    """Whether a function is taken; raises AssertionError where it gives another number than Python, or its gradient costs
    more than four times as much.
    """
    with np.errstate(over="ignore"):
        try:
            expected = function(x)
        except ValueError:
            expected = np.nan
    f = tensor(function)
    try:
        found = f.interpret(x)
    except TensorError:
        return False
    np.testing.assert_allclose(found, expected, rtol=1e-9, err_msg=function.__name__)
    value, both = f.cost(x).io, f.value_and_grad("x").cost(x).io
    assert both <= 4 * value, f"{function.__name__}: {both} > 4·{value}"
    return True


def taken(seeds: range, folder: Path) -> int:
    """How many of the functions are taken; all of these agree with Python."""
    made = module(seeds, folder)
    x = np.array([0.3, 1.1, 0.7, 1.9])
    return sum(agrees(getattr(made, f"f{seed}"), x) for seed in seeds)


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        print(
            taken(range(first, first + count), Path(folder)), "of", count, "taken, and they agree"
        )
