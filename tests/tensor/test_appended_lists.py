"""Lists that loops append to, and their last entries read in the turns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64


def last_entry(x):
    y = [x[0]]
    for i in range(1, len(x)):
        y.append(0.5 * y[-1] + x[i])
    return sum(v * v for v in y)


def entry_before(x):
    y = [2.0, x[0]]
    for i in range(1, len(x)):
        y.append(0.5 * y[i] + x[i])
    return sum(v * v for v in y)


def after_appending(x):
    y, total = [x[0]], 0.0
    for v in x[1:]:
        y.append(0.5 * y[-1] * v)
        total = 0.9 * total + y[-1]
    return total + sum(v * v for v in y)


def rows(x):
    y = [x]
    for _ in range(3):
        y.append(np.sin(y[-1]) + x)
    return sum(np.sum(v * v) for v in y)


def beside_another(x):
    y, h = [x[0]], 1.0
    for v in x:
        h = 0.5 * h + v
        y.append(y[-1] * h)
    return sum(v * v for v in y) + h


def first_entries_stay(x):
    y = [1.0, x[0]]
    for v in x[1:]:
        y.append(2 * v)
    return sum(v * v for v in y) + y[0] * y[-1]


def several_loops(x):
    y = []
    for v in x:
        y.append(v)
    for v in x[1:]:
        y.append(v * v)
    return sum(v * v for v in y) + len(y)


def read_in_an_inner_loop_and_a_branch(x):
    y, total = [x[0]], 0.0
    for i in range(len(x)):
        y.append(x[i] * y[-1])
        for j in range(2):
            total += y[-1] * j * x[j]
        total = 0.5 * (total + (y[-1] if x[i] > 1 else 0))
    return total + sum(v * v for v in y)


def two_before(x):
    y = [1.0, x[0]]
    for v in x[1:]:
        y.append(0.5 * y[-1] + 0.1 * y[-2] * v)
    return sum(v * v for v in y)


def two_before_by_index(x):
    y = [x[0], x[1]]
    for i in range(2, len(x)):
        y.append(0.5 * y[i - 1] - 0.3 * y[i - 2] + x[i])
    return sum(v * v for v in y)


def one_before_what_is_appended(x):
    y, total = [x[0]], 0.0
    for v in x[1:]:
        y.append(0.5 * y[-1] * v)
        total = 0.9 * total + y[-1] * y[-2]
    return total + sum(v * v for v in y)


PROGRAMS = [last_entry, entry_before, after_appending, rows, beside_another]
PROGRAMS = [*PROGRAMS, two_before, two_before_by_index, one_before_what_is_appended]
PROGRAMS = [*PROGRAMS, first_entries_stay, several_loops, read_in_an_inner_loop_and_a_branch]


@pytest.mark.parametrize("f", PROGRAMS)
@pytest.mark.parametrize("n", [2, 5, 40])
def test_value_and_gradient(f, n):
    x = np.random.default_rng(n).uniform(0.5, 1.5, n)
    made = tensor(f)
    with keeping_float64(True):
        np.testing.assert_allclose(made(x), f(x), rtol=1e-12)
        np.testing.assert_allclose(float(made.interpret(x)), f(x), rtol=1e-12)
        plain = f if f is not rows else _rows_in_jax
        np.testing.assert_allclose(made.grad("x")(x), jax.grad(plain)(jnp.asarray(x)), rtol=1e-10)


def _rows_in_jax(x):
    y = [x]
    for _ in range(3):
        y.append(jnp.sin(y[-1]) + x)
    return sum(jnp.sum(v * v) for v in y)


def test_an_entry_that_is_changed_in_place_is_refused():
    """In NumPy `h += 1` changes the list's entry, too."""

    def f(x):
        y = [x.copy()]
        for _ in range(len(x)):
            h = y[-1]
            h += 1.0
            y.append(h * 2)
        return sum(np.sum(v) for v in y)

    with pytest.raises(TensorError, match=r"`y` holds `y\[-1\]` itself, which each turn changes"):
        tensor(f)(np.ones(4))


def test_what_is_not_there_in_the_first_turn_is_refused():
    def f(x):
        y = [x[0], x[1]]
        for v in x:
            y.append(y[-1] + y[-3] * v)
        return sum(y)

    with pytest.raises(TensorError, match="`y` has too few entries before the loop"):
        tensor(f)(np.ones(4))


def test_what_is_read_at_distances_that_grow_is_refused():
    def f(x):
        y = [x[0], x[1]]
        for i in range(2, len(x)):
            y.append(y[-1] + y[i // 2])
        return sum(y)

    with pytest.raises(TensorError, match="`y` is a list that this loop appends to"):
        tensor(f)(np.ones(4))


def test_a_list_within_its_own_loop_is_refused_in_plain_words():
    def f(x):
        y, s = [], 0.0
        for v in x:
            y.append(v)
            s = 0.5 * s + sum(w * w for w in y)
        return s

    with pytest.raises(TensorError, match=r"\d: `y` is a list that this loop appends to"):
        tensor(f)(np.ones(4))
