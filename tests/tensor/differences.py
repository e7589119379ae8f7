"""Functions that are compared with what Python and NumPy make of them, and their gradients with central differences."""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

from jupyter_hvd.tensor import tensor

R = np.random.default_rng(7)
STEP = 1e-6


def slopes(function: Callable[..., Any], arguments: Any, weights: Any) -> Any:
    """The derivative of a weighted result by the first argument."""
    first, *rest = arguments
    made = np.zeros_like(first)
    for at in np.ndindex(first.shape):
        up, down = first.copy(), first.copy()
        up[at] += STEP
        down[at] -= STEP
        change = function(up, *rest) - np.asarray(function(down, *rest))
        made[at] = np.sum(weights * change) / (2 * STEP)
    return made


def check(function: Callable[..., Any], arguments: Any) -> Any:
    """The tensor function, whose value, compiled and interpreted, and gradient by its first argument are right."""
    f, expected = tensor(function), function(*arguments)
    for found in (f(*arguments), f.interpret(*arguments)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
        assert np.shape(found) == np.shape(expected)
    weights = R.uniform(0.5, 1.5, np.shape(expected))
    by = next(iter(f.__signature__.parameters))
    found = f.vjp(by)(*arguments, weights if np.ndim(expected) else float(weights))
    np.testing.assert_allclose(found, slopes(function, arguments, weights), rtol=1e-4, atol=1e-7)
    return f


def written(source: str, names: list[str], namespace: dict[str, Any] | None = None) -> Any:
    """A function of these names that returns an expression."""
    return compiled(f"def f({', '.join(names)}):\n    return {source}\n", f"<{source}>", namespace)


def compiled(text: str, file: str, namespace: dict[str, Any] | None = None) -> Any:
    """The function f of a source that stands in no file."""
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    made = {"np": np, **(namespace or {})}
    exec(compile(text, file, "exec"), made)
    return made["f"]
