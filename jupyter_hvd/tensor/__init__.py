"""The tensor language of "Differentiating A Tensor Language": functions with derivatives that
cost what the paper proves.

from jupyter_hvd.tensor import tensor

@tensor
def energy(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))

energy.grad("x")(A, x)
"""

from .decorator import tensor
from .language.errors import TensorError
from .linter import lint
from .tensor_function import TensorFunction

__all__ = ["TensorError", "TensorFunction", "lint", "tensor"]
