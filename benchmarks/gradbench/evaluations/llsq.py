"""The squared errors of a polynomial that is fitted to the sign of t at n places from -1 to 1."""

from __future__ import annotations

import numpy as np

from evaluations import Function, on_device
from jupyter_hvd.tensor import tensor


@tensor
def squared_errors(x, n: int):
    t = np.array([i * 2 / (n - 1) - 1 for i in range(n)])
    value = np.zeros(n)
    for j in range(len(x)):
        value = value * t + x[len(x) - 1 - j]
    return np.sum((np.sign(t) - value) ** 2) / 2


def _prepare(given):
    return *on_device(given["x"]), given["n"]


FUNCTIONS = {
    "primal": Function(_prepare, squared_errors),
    "gradient": Function(_prepare, squared_errors.grad("x")),
}
