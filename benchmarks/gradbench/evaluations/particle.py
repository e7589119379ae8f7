"""The parameter w by which a charged particle hits the origin: Euler's method within a gradient descent, derivatives in both.

Of the functions' two letters the first is the derivative by w, the second the force: f forward, r reverse.
"""

from __future__ import annotations

import functools

import numpy as np

from evaluations import Function
from evaluations.descent import smallest_at
from jupyter_hvd.tensor import tensor

STEP = 0.1


@tensor
def potential(x, y, w):
    return 1 / np.sqrt((x - 10) ** 2 + (y - 10 + w) ** 2) + 1 / np.sqrt((x - 10) ** 2 + y**2)


reverse_slope = potential.grad("x", "y")
forward_slope = potential.jvp("x", "y")


def missed_by(w, slope):
    """The square of the distance from the origin at which the particle comes to the x axis."""
    x, y, u, v = 0.0, 8.0, 0.75, 0.0
    while y + STEP * v > 0:  # at most 500
        a, b = slope(x, y, w)
        x, y = x + STEP * u, y + STEP * v
        u, v = u - STEP * a, v - STEP * b
    return (x - y / v * u) ** 2


@tensor
def with_reverse_force(w):
    return missed_by(w, reverse_slope)


@tensor
def with_forward_force(w):
    def slope(x, y, w):
        return forward_slope(x, y, w, 1.0, 0.0), forward_slope(x, y, w, 0.0, 1.0)

    return missed_by(w, slope)


def _forward(function):
    along = function.jvp("w")
    return lambda w: along(w, 1.0)


def _search(objective, gradient):
    return Function(
        lambda given: (float(given["w"]),),
        functools.partial(smallest_at, objective, gradient),
        float,
    )


FUNCTIONS = {
    "rr": _search(with_reverse_force, with_reverse_force.grad("w")),
    "rf": _search(with_forward_force, with_forward_force.grad("w")),
    "fr": _search(with_reverse_force, _forward(with_reverse_force)),
    "ff": _search(with_forward_force, _forward(with_forward_force)),
}
