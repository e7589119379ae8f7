"""What Python and NumPy do in place, by several names, with lists, and with arrays of integers or conditions: the
language has none of it, so that each such program gives what NumPy gives, or is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

x = np.random.default_rng(0).uniform(0.3, 1.3, 6)
A = np.random.default_rng(1).uniform(0.3, 1.3, (4, 4))
REFUSED, TAKEN = [], []


def refused(message, *arguments):
    def enter(function):
        REFUSED.append((function, message, arguments))
        return function

    return enter


def taken(*arguments):
    def enter(function):
        TAKEN.append((function, arguments))
        return function

    return enter


SHARED = "shares its entries"
BY_ANOTHER = "by another name"


@refused(SHARED, x)
def another_name(x):
    y = x.copy()
    z = y
    y[0] = 5.0
    return z.sum()


@refused(SHARED, x)
def added_in_place(x):
    y = x.copy()
    z = y
    y += 1
    return z.sum()


@refused(SHARED, x)
def a_view_is_written(x):
    y = x.copy()
    v = y[1:3]
    v[:] = 7.0
    return y.sum()


@refused(SHARED, x)
def a_view_is_read(x):
    y = x.copy()
    v = y[1:3]
    y[2] = 7.0
    return v.sum()


@refused(SHARED, A)
def a_row(A):
    B = A.copy()
    r = B[0]
    r += 3.0
    return B.sum()


@refused(SHARED, A)
def a_transpose(A):
    B = A.copy()
    C = B.T
    B[0, 1] = 2.0
    return C[1, 0] * A[0, 0]


@refused(SHARED, A)
def a_reshape(A):
    B = A * 1.0
    flat = B.reshape(-1)
    flat[3] = 2.0
    return B.sum()


@refused(SHARED, x)
def in_a_list(x):
    u = x.copy()
    states = [u, u * 2]
    u[0] = 0.0
    return states[0].sum() + states[1].sum()


@refused(SHARED, x)
def by_an_inner_function(x):
    def first_is_ten(v):
        v[0] = 10.0
        return v.sum()

    y = x.copy()
    s = first_is_ten(y)
    return s + y.sum()


@refused(SHARED, x)
def in_one_branch(x):
    y = x.copy()
    z = y
    if len(x) > 3:
        y[0] = 1.0
    else:
        y = y * 2
    return z.sum() + y.sum()


@refused(SHARED, x)
def by_what_data_decide(x):
    y = x.copy()
    z = y
    if x[0] > 0.5:
        y = y * 2
    else:
        y += 1
    return z.sum() + y.sum()


@refused(SHARED, x)
def after_a_loop(x):
    y = x.copy()
    z = y
    for i in range(len(x)):
        y[i] = 2 * x[i]
    return z.sum()


@refused(BY_ANOTHER, x)
def within_a_loop(x):
    y = x.copy()
    z = y
    for i in range(1, len(x)):
        y[i] = z[i - 1] * 2
    return y.sum()


@refused(BY_ANOTHER, x, 5)
def within_a_loop_that_carries(x, n: int):
    y = x.copy()
    z = y
    for _ in range(n):
        y[1:] = y[:-1] + z[1:]
    return y.sum()


@refused("are one array", x, 5)
def from_the_second_iteration_on(x, n: int):
    u = x.copy()
    new = u.copy()
    for _ in range(n):
        for i in range(1, 5):
            new[i] = 0.5 * (u[i - 1] + u[i + 1])
        u = new
    return u.sum()


@refused("all its entries are one array", x, 5)
def a_history_of_one_array(x, n: int):
    u = x.copy()
    history = []
    for _ in range(n):
        u += 0.1
        history.append(u)
    return np.array(history).sum()


@refused("the caller's", x)
def a_view_of_a_parameter(x):
    y = x[1:3]
    y[0] = 5.0
    return x.sum() + y.sum()


@refused("the caller's", x)
def no_copy(x):
    y = np.asarray(x)
    y[0] = 5.0
    return y.sum()


@refused(SHARED, x)
def a_list_by_two_names(x):
    a = [x[0], x[1]]
    b = a
    a.append(x[2])
    return b[-1] * x[0]


@refused("type int", x)
def rounded_by_arange(x):
    y = np.arange(6)
    y[0] = x[0] * 3
    return y.sum() + x[0]


@refused("type int", x)
def rounded_by_a_list_of_integers(x):
    y = np.array([1, 2, 3])
    y[0] = x[0] * 3
    return y.sum() + x[0]


@refused("type int", x)
def rounded_in_a_loop(x):
    y = np.full(6, 2)
    for i in range(6):
        y[i] = 3 * x[i]
    return y.sum()


@refused("is logic", x)
def or_of_arrays(x):
    return np.sum((x > 0.6) + (x < 0.9))


@refused("is logic", x)
def or_of_numbers(x):
    return ((x[0] > 0.1) + (x[1] > 0.1)) * x[2]


@refused("is logic", x)
def product_of_conditions(x):
    return ((x > 0.5) @ (x > 0.6)) * x[0]


@refused("is logic", x)
def exclusive_or(x):
    return np.sum(np.diff(x > 0.6) * x[1:])


@refused("one answer", x)
def lists_compared(x):
    return x[0] if [1, 2] == [1, 2] else x[1]


@taken(x)
def lists_joined(x):
    both = [x[0], x[1]] + [x[2], x[3]]  # noqa: RUF005
    return sum(v * (i + 1) for i, v in enumerate(both))


@taken(x)
def comprehensions_joined(x):
    both = [2 * v for v in x] + [3 * v for v in x]
    return np.array(both)


@taken(x)
def a_list_extended(x):
    a = [x[0]]
    a += [x[1]]
    a.append(x[2])
    return np.array(a) * len(a)


@taken(x)
def a_list_repeated(x):
    a = [x[0], x[1]] * 2
    return np.array(a)


@taken(x)
def a_list_of_zeros(x):
    y = [0.0] * len(x)
    for i in range(len(x)):
        y[i] = x[i] * 2
    return np.sum(np.array(y))


@taken(x)
def a_list_doubled_as_array(x):
    return 2 * np.array([x[0], x[1]])


@taken(x)
def shapes_joined(x):
    return (np.zeros(x.shape[:1] + (2,)) + x[0]) * np.ones((6,) + (2,) * 1)  # noqa: RUF005


@taken(x)
def copies(x):
    y = x.copy()
    z, w = y.copy(), y[1:] * 1.0
    first = y[0]
    y[0] = 5.0
    y += 1
    return z.sum() + 2 * w.sum() + 3 * y.sum() + first


@taken(x, 5)
def two_arrays_sequentially(x, n: int):
    u, new = x.copy(), x.copy()
    for _ in range(n):
        new[1:-1] = 0.5 * (u[:-2] + u[2:])
        u, new = new, u
    return u


@taken(x, 5)
def a_new_one_each_iteration(x, n: int):
    u = x.copy()
    for _ in range(n):
        new = u.copy()
        for i in range(1, 5):
            new[i] = 0.5 * (u[i - 1] + u[i + 1])
        u = new
    return u


@taken(x, 5)
def a_history_of_copies(x, n: int):
    u = x.copy()
    history = []
    for _ in range(n):
        u += 0.1
        history.append(u.copy())
    return np.array(history)


@taken(x)
def branches_apart(x):
    y = x.copy()
    for i in range(len(x)):
        if i < 3:
            y[i] = 1.0
        else:
            y[i] = y[i] * 2.0
    if len(x) > 3:
        y[0] = 3.0
    else:
        y[1] = 4.0
    return y


@taken(x)
def conditions_as_numbers(x):
    return np.sum(1.0 * (x > 0.6) + 1.0 * (x < 0.9)) * x[0] + ((x > 0.6) | (x < 0.5)) @ x


@pytest.mark.parametrize(
    ("function", "message", "arguments"), REFUSED, ids=lambda x: getattr(x, "__name__", "")
)
def test_what_the_language_cannot_know_is_refused(function, message, arguments) -> None:
    with pytest.raises(TensorError, match=message):
        tensor(function).interpret(*arguments)


@pytest.mark.parametrize(("function", "arguments"), TAKEN, ids=lambda x: getattr(x, "__name__", ""))
def test_the_value_is_numpy_s(function, arguments) -> None:
    found = tensor(function).interpret(*arguments)
    np.testing.assert_allclose(found, function(*arguments), rtol=1e-12)


def test_arrays_in_a_dictionary_are_seen_by_other_names():
    def by_name(x):
        d = {"a": x * 1.0, "b": x}
        y = d["a"]
        y[0] = 4.0
        return d["a"]

    def by_dictionary(x):
        d = {"a": x * 1.0, "b": x}
        e = d
        e["a"] = x * 2
        return d["a"]

    for function in (by_name, by_dictionary):
        with pytest.raises(TensorError, match="has been changed"):
            tensor(function)(x)


def test_an_entry_of_an_array_in_a_dictionary_is_stored():
    def stored(x):
        d = {"a": x * 1.0, "b": x}
        d["a"][0] = 9.0
        d["a"][1] += 1.0
        d["b"] = d["b"] * 2
        return d["a"] + d["b"]

    np.testing.assert_allclose(tensor(stored)(x), stored(x))


def test_a_loop_carries_a_dictionary_whose_parts_it_replaces():
    def leapfrog(x):
        state = {"p": x * 1.0, "v": x * 0.0}
        for _ in range(len(x)):
            state["v"] = state["v"] - 0.1 * state["p"]
            state["p"] = state["p"] + 0.1 * state["v"]
        return state["p"]

    np.testing.assert_allclose(tensor(leapfrog)(x), leapfrog(x))
