"""The gradient descent that `particle` and `saddle` ask for, of which their results are the last iterate."""

from __future__ import annotations

import numpy as np

TOLERANCE = 1e-5


def smallest_at(objective, gradient, x):
    """Where a function is smallest, from x: a step grows after ten that went down, and is halved after one that did not."""
    value, slope, rate, downhill = objective(x), gradient(x), 1e-5, 0
    while np.sqrt(np.sum(slope**2)) > TOLERANCE:
        if downhill == 10:
            rate, downhill = 2 * rate, 0
            continue
        there = x - rate * slope
        if np.sqrt(np.sum((x - there) ** 2)) <= TOLERANCE:
            break
        lower = objective(there)
        if lower < value:
            x, value, slope, downhill = there, lower, gradient(there), downhill + 1
        else:
            rate, downhill = rate / 2, 0
    return x


def largest_at(objective, gradient, x):
    """Where a function is largest, from x."""
    return smallest_at(lambda y: -objective(y), lambda y: -gradient(y), x)
