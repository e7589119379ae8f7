"""Tensor functions in pickles: by reference to their module, or by source with what they take from outside."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor

SCALE = 3.0


def halved(x):
    return 0.5 * x


@tensor
def of_a_module(x):
    return np.sum(SCALE * halved(x) ** 2)


def test_a_function_of_a_module_is_pickled_by_reference():
    assert pickle.loads(pickle.dumps(of_a_module)) is of_a_module


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["grad", "value_and_grad", "vjp", "jvp", "hessian"])
def test_derivatives_are_pickled_by_how_they_were_made(kind, protocol):
    made = getattr(of_a_module, kind)("x")
    again = pickle.loads(pickle.dumps(made, protocol))
    assert (again.__name__, again.__signature__) == (made.__name__, made.__signature__)
    x = np.arange(3.0)
    more = {"vjp": (1.0,), "jvp": (np.ones(3),)}.get(kind, ())
    np.testing.assert_array_equal(*map(_entries, (again(x, *more), made(x, *more))))


def _entries(value):
    return np.concatenate([np.ravel(part) for part in jax.tree_util.tree_leaves(value)])


def test_checkpoints_are_kept():
    made = of_a_module.grad("x", checkpoint="blocks")
    assert pickle.loads(pickle.dumps(made)).made_by == made.made_by


def test_a_function_within_a_function_is_pickled_by_source():
    rate = 2.0

    def inner(x):
        return rate * x

    @tensor
    def loss(x, power: int = 2):
        return np.sum(inner(halved(x)) ** power)

    again = pickle.loads(pickle.dumps(loss))
    x = np.array([1.0, -1.0, 2.0])
    assert again is not loss
    assert again(x) == loss(x)
    assert again(x, 3) == loss(x, 3)
    np.testing.assert_array_equal(again.grad("x")(x), loss.grad("x")(x))
    rate = 5.0  # the pickle's values are those of when it was made
    assert again(x) != loss(x)
    assert pickle.loads(pickle.dumps(again))(x) == again(x)


def test_a_function_that_calls_itself_and_another_is_pickled_by_source():
    def minor(A, k):
        return determinant(np.delete(np.delete(A, 0, 0), k, 1))

    @tensor
    def determinant(A):
        if len(A) == 1:
            return A[0, 0]
        return sum((-1) ** k * A[0, k] * minor(A, k) for k in range(len(A)))

    A = np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 4.0]])
    again = pickle.loads(pickle.dumps(determinant))
    np.testing.assert_allclose(again(A), np.linalg.det(A))


CELL = """
import linecache, pickle, sys
import numpy as np
from jupyter_hvd.tensor import tensor

cell = '''
rate = 0.5

def decay(x):
    return rate * x

@tensor
def cell_loss(x: float, n: int = 3):
    return sum(decay(x) ** k for k in range(n))
'''
name = "/tmp/ipykernel_1/2.py"  # as the notebook's kernel calls a cell
linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
exec(compile(cell, name, "exec"), globals())
pickle.dump((cell_loss, cell_loss.grad("x")), sys.stdout.buffer)
"""


def test_a_function_of_a_cell_is_loaded_by_another_process():
    done = subprocess.run([sys.executable, "-c", CELL], capture_output=True, check=True)
    loss, slope = pickle.loads(done.stdout)
    assert (loss(2.0), slope(2.0)) == (3.0, 1.5)
    decay = loss.python.__globals__["decay"]
    assert inspect.getsource(decay) == "def decay(x):\n    return rate * x\n"


def test_copies_have_calls_of_their_own():
    def square(x: float):
        return x * x

    f = tensor(square)
    f(2.0)
    for made in (copy.copy(f), copy.deepcopy(f), copy.deepcopy(f.grad("x"))):
        assert made is not f
        made(3.0)
    assert f.last_sizes == {}
    assert copy.deepcopy(of_a_module) is not of_a_module
