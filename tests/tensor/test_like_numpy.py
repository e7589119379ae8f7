"""Calls that nobody chose: every function of NumPy that the language has, in every way that NumPy takes it here, and
brackets drawn at random. What the language takes, gives what NumPy gives.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from itertools import product

import jax
import numpy as np
import pytest
import scipy.special
from differences import written

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.frontend.forms.table import FORMS

R = np.random.default_rng(0)
ARRAYS = {
    **{name: R.uniform(0.3, 1.3, 6) for name in "xy"},
    **{name: R.uniform(0.3, 1.3, (3, 4)) for name in "AB"},
    "S": R.uniform(0.3, 1.3, (4, 4)),
    "T": R.uniform(0.3, 1.3, (2, 3, 4)),
    "v": R.uniform(0.3, 1.3, 3),
}
POSITIONAL = (
    "x", "A", "S", "T", "2.0", "4", "x, y", "A, B", "A, S", "T, S", "x, A", "v, v", "[x, y]", "[A, B]", "(x, y)",
    "x, 2", "A, 1", "A, 2", "A, -1", "T, 1", "x, 3", "x, 1.5", "x, 0.5, 1.0", "A, 1, 0", "x, 2, 1", "x, None",
    "A, (4, 3)", "x, (2, 3)", "T, (6, 4)", "T, (0, 2, 1)", "T, 0, 2", "x, [1, 3]", "A, [1, 2]", "(2, 3)", "2, 7",
    "A, ((1, 0), (0, 2))", "x > 0.7, x, y", "A > 0.7, A, B", "0.0, 1.0, 5",
)  # fmt: skip
NAMED = (
    "", "axis=0", "axis=1", "axis=-1", "axis=2", "axis=None", "axis=(0, 1)", "keepdims=True", "axis=0, keepdims=True",
    "axis=-1, keepdims=True", "n=2", "k=1", "k=-1", "offset=1", "offset=-1", "ddof=1", "axis=0, ddof=1", "mode='same'",
    "mode='valid'", "mode='edge'", "mode='reflect'", "mode='wrap'", "ord=1", "ord=2", "ord=np.inf", "initial=0.5",
    "decimals=1", "endpoint=False", "shift=1", "weights=y", "dx=0.5", "axes=1", "num=4", "repeats=2", "where=True",
)  # fmt: skip
#: Entries that are whatever was there; what NumPy gives where the array is not in order, as it asks.
UNDEFINED = ("empty", "empty_like", "interp", "searchsorted")
#: Functions of symmetric matrices: of another they take `(S + S.T)/2`, as JAX does, where NumPy reads the lower triangle.
OF_SYMMETRIC = ("eigh", "eigvalsh")
MODULES = {
    "np": np,
    "scipy.special": scipy.special,
    "jax.nn": jax.nn,
    "np.linalg": np.linalg,
    "np.lib.stride_tricks": np.lib.stride_tricks,
}
NAMESPACE = {"np": np, "jax": jax, "scipy": scipy}


def same(found: object, expected: object) -> bool:
    if isinstance(expected, list):  # which has entries of one shape is an array here
        return all(map(same, found, expected)) and len(found) == len(expected)
    if isinstance(expected, tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    empty = np.size(expected) == 0 and np.size(found) == 0
    if empty or np.shape(found) != np.shape(expected):
        return empty
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return np.allclose(found, expected, equal_nan=True)  # no number where NumPy has none


def calls(module: str, name: str) -> Iterator[tuple[str, list[str], object]]:
    """The calls of a function that NumPy takes, the names in each, and what it gives."""
    for positional, named in product(POSITIONAL, NAMED):
        arguments = ", ".join(part for part in (positional, named) if part)
        source = f"{module}.{name}({arguments})"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                # Copies, since a third argument may be where NumPy writes its result.
                own = {name: array.copy() for name, array in ARRAYS.items()}
                expected = eval(source, {**NAMESPACE, **own})
            except Exception:
                continue
        if expected is not None and expected is not NotImplemented:
            names = [n for n in ARRAYS if re.search(rf"\b{n}\b", arguments)]
            yield source, names or ["x"], expected


def wrong_calls(name: str, every: int) -> list[str]:
    place = name.removeprefix("scipy.")
    modules = {"scipy.special": scipy.special} if name != place else MODULES
    module = next((m for m, has in modules.items() if callable(getattr(has, place, None))), None)
    found = []
    for source, names, expected in list(calls(module, place))[::every] if module else ():
        try:
            value = tensor(written(source, names)).interpret(*(ARRAYS[n] for n in names))
        except (TensorError, ZeroDivisionError, ValueError):
            continue  # refused; or, in Python's own numbers, no number where NumPy has an infinite one
        if not same(value, expected):
            found.append(source)
    return found


#: NumPy leaves the order open on either side of an entry (`test_prelude.py`).
UNORDERED = ("partition", "argpartition")
FUNCTIONS = sorted(set(FORMS) - {*UNDEFINED, *OF_SYMMETRIC, *UNORDERED})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_some_calls(name: str) -> None:
    assert wrong_calls(name, 7) == []


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_call(name: str) -> None:
    assert wrong_calls(name, 1) == []


PLACES = (
    "0", "-1", "2", ":", "1:", "-2:", ":-1", "::2", "::-1", "1:3", "None", "...", "src", "dst", "two", "np.arange(3)",
    "n:", ":-n", "n",
)  # fmt: skip
BRACKETED = (
    R.uniform(size=5),
    R.uniform(size=(4, 5)),
    R.uniform(size=(3, 4, 5)),
)
INDICES = {
    "src": np.array([1, 0, 2]),
    "dst": np.array([2, 2, 1]),
    "two": np.array([[0, 1], [2, 0]]),
    "n": 1,
}


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 150), pytest.param(1, 3000, marks=[pytest.mark.slow, pytest.mark.thorough])],
)
def test_brackets(seed: int, count: int) -> None:
    """Slices, new axes, single places, index arrays and what counts, in any order, as NumPy reads them."""
    drawn = np.random.default_rng(seed)
    taken, wrong = 0, []
    for _ in range(count):
        x = BRACKETED[drawn.integers(3)]
        source = f"x[{', '.join(drawn.choice(PLACES, drawn.integers(1, x.ndim + 2)))}] * 1"
        try:
            expected = eval(source, {"np": np, "x": x, **INDICES})
        except Exception:
            continue
        names = [n for n in INDICES if re.search(rf"(?<!\.)\b{n}\b", source)]
        try:
            function = tensor(written(source, ["x", *names]))
            value = function.interpret(x, *(INDICES[n] for n in names))
        except TensorError:
            continue
        taken += 1
        if not same(value, expected):
            wrong.append(source)
    assert wrong == []
    assert taken > count / 2
