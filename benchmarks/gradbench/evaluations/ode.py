"""Runge and Kutta's method for y[0]' = x[0], y[i]' = x[i]·y[i-1], from zero, in s steps up to t = 2."""

from __future__ import annotations

import numpy as np

from evaluations import Function, on_device
from jupyter_hvd.tensor import tensor


def rate(x, y):
    return np.array([x[i] * (y[i - 1] if i > 0 else 1.0) for i in range(len(x))])


@tensor
def solution(x, s: int):
    h, y = 2.0 / s, np.zeros(len(x))
    for _ in range(s):
        k1 = rate(x, y)
        k2 = rate(x, y + h / 2 * k1)
        k3 = rate(x, y + h / 2 * k2)
        k4 = rate(x, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


@tensor
def last_component(x, s: int):
    return solution(x, s)[-1]


def _prepare(given):
    return *on_device(given["x"]), given["s"]


FUNCTIONS = {
    "primal": Function(_prepare, solution),
    "gradient": Function(_prepare, last_component.grad("x")),
}
