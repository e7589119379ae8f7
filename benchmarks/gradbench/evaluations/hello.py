"""The square of a number and its derivative."""

from __future__ import annotations

from evaluations import Function
from jupyter_hvd.tensor import tensor


@tensor
def square(x):
    return x * x


def _number(given):
    return (float(given),)


FUNCTIONS = {
    "square": Function(_number, square, float),
    "double": Function(_number, square.grad("x"), float),
}
