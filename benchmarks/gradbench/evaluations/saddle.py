"""A saddle point, by a gradient descent whose function is the largest value that another gradient descent finds.

Of the functions' two letters the first is the outer derivative, the second the inner: f forward, r reverse.
"""

from __future__ import annotations

import numpy as np

from evaluations import Function
from evaluations.descent import TOLERANCE, largest_at, smallest_at
from jupyter_hvd.tensor import tensor


@tensor
def cost(p, q):
    return np.sum(p**2) - np.sum(q**2)


reverse_slope = cost.grad("q")
along_q = cost.jvp("q")


def forward_slope(p, q):
    return np.array([along_q(p, q, np.array([1.0, 0.0])), along_q(p, q, np.array([0.0, 1.0]))])


def largest_cost(p, q, slope_of):
    """The largest cost over q, as `largest_at` finds it, in the tensor language."""
    value, slope, rate, downhill, going = -cost(p, q), -slope_of(p, q), 1e-5, 0, 1
    while going == 1 and np.sum(slope**2) > TOLERANCE**2:  # at most 200
        there = q - rate * slope
        lower = -cost(p, there)
        if downhill == 10:
            rate, downhill = 2 * rate, 0
        elif np.sum((q - there) ** 2) <= TOLERANCE**2:
            going = 0
        elif lower < value:
            q, value, slope, downhill = there, lower, -slope_of(p, there), downhill + 1
        else:
            rate, downhill = rate / 2, 0
    return -value


@tensor
def with_reverse_ascent(p, q):
    return largest_cost(p, q, reverse_slope)


@tensor
def with_forward_ascent(p, q):
    return largest_cost(p, q, forward_slope)


def _reverse(function):
    return function.grad("p")


def _forward(function):
    along = function.jvp("p")
    one, other = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    return lambda p, q: np.array([along(p, q, one), along(p, q, other)])


def _search(largest, gradient, slope_of):
    def saddle(start):
        p = smallest_at(
            lambda p: largest(p, start), lambda p: np.asarray(gradient(p, start)), start
        )
        q = largest_at(lambda q: cost(p, q), lambda q: np.asarray(slope_of(p, q)), start)
        return np.concatenate([p, q])

    return Function(lambda given: (np.array(given["start"]),), saddle)


FUNCTIONS = {
    "rr": _search(with_reverse_ascent, _reverse(with_reverse_ascent), reverse_slope),
    "rf": _search(with_forward_ascent, _reverse(with_forward_ascent), reverse_slope),
    "fr": _search(with_reverse_ascent, _forward(with_reverse_ascent), tensor(forward_slope)),
    "ff": _search(with_forward_ascent, _forward(with_forward_ascent), tensor(forward_slope)),
}
