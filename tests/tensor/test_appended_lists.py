"""Lists that loops append to, and their last entries read in the turns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_lists
from differences import check, compiled

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64
from jupyter_hvd.tensor.ssa.program import Recurrence


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


def several_in_an_iteration(x):
    y = [x[0], 0.5]
    for v in x:
        y.append(0.5 * y[-1] + v)
        y.append(y[-2] * y[-3] + 0.1 * v)
    return sum(v * v for v in y)


def read_where_it_is_appended_to(x):
    y, total = [x[0]], 0.0
    for i in range(len(x)):
        if i > 1:
            y.append(x[i] * 2)
            total = 0.5 * total + y[-1]
    return total + sum(v * v for v in y)


PROGRAMS = [last_entry, entry_before, after_appending, rows, beside_another]
PROGRAMS = [*PROGRAMS, two_before, two_before_by_index, one_before_what_is_appended]
PROGRAMS = [*PROGRAMS, several_in_an_iteration, read_where_it_is_appended_to]
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

    with pytest.raises(
        TensorError, match=r"`y` holds `y\[-1\]` itself, which each iteration changes"
    ):
        tensor(f)(np.ones(4))


def test_what_is_not_there_in_the_first_iteration_is_refused():
    def f(x):
        y = [x[0], x[1]]
        for v in x:
            y.append(y[-1] + y[-3] * v)
        return sum(y)

    with pytest.raises(TensorError, match="`y` has too few entries before the loop"):
        tensor(f)(np.ones(4))


def test_an_entry_that_may_be_another_in_each_iteration_is_to_have_a_name():
    @tensor
    def appended_to_in_a_branch(x):
        y, s = [0.5], 1.0
        for v in x:
            if v > 1:
                y.append(s)
            s = s * v + y[-1]
        return s

    @tensor
    def in_one_branch(x):
        y = []
        if x[0] > 0:
            y.append(x[0])
        else:
            y = x
        return sum(y)

    for f, message, advice in (
        (appended_to_in_a_branch, "may have been appended to", "`last = e`, `y.append"),
        (in_one_branch, "a list in one branch only", "append to it in both branches"),
    ):
        with pytest.raises(TensorError, match=message) as error:
            f(np.ones(3))
        assert advice in error.value.help


def by_index(x):
    y, s = [x[0]], 0.0
    for i in range(len(x)):
        y.append(x[i])
        y.append(2 * x[i])
        s = 0.5 * s + y[i]
    return s + y[-1]


def at_distances_that_grow(x):
    y = [x[0], x[1]]
    for i in range(2, len(x)):
        y.append(0.3 * y[-1] + 0.2 * y[i // 2])
    return sum(v * v for v in y)


def one_period_before(x):
    season = [0.5 * v for v in x[:3]]
    for t in range(3, len(x)):
        season.append(0.3 * x[t] + 0.7 * season[t - 3])
    return sum(v * v for v in season) + season[-1] * len(season)


def all_so_far(x):
    y = list(x)
    for v in x:
        y.append(0.1 * v * sum(y) + y[-1] * y[-2])
    return np.sum(np.array(y) ** 2)


def rows_of_a_comprehension(x):
    y = [k * x for k in range(1, 4)]
    for t in range(len(x)):
        y.append(np.sin(y[t]) + 0.1 * y[-1])
    return sum(np.sum(v * v) for v in y)


def moved_on(x):
    y = list(x)
    for _ in range(len(x)):
        y = [*y[1:], 0.5 * y[0] + y[1]]
    return sum(v * v for v in y)


def extended_by_one(x):
    y = list(x)
    for t in range(len(x)):
        y += [0.5 * y[t]]
    return sum(v * v for v in y)


def either_of_two(x):
    y = list(x)
    for t in range(len(x)):
        if x[t] > 0:
            y.append(0.5 * y[t])
        else:
            y.append(y[-1] - x[t])
    return sum(v * v for v in y)


def of_one_another(x):
    y, z = list(x), [2 * v for v in x]
    for t in range(len(x)):
        y.append(z[t] - y[-1])
        z.append(y[t] * z[-1])
    return sum(v * v for v in y) + sum(z)


GROWING = [by_index, at_distances_that_grow, one_period_before, all_so_far, moved_on]
GROWING = [*GROWING, rows_of_a_comprehension, extended_by_one, either_of_two, of_one_another]


@pytest.mark.parametrize("f", GROWING)
def test_lists_that_are_arrays_as_long_as_they_become(f):
    check(f, (MORE,))


def test_lists_drawn_at_random_are_those_of_python():
    """What is taken is right; and more than half of it is taken."""
    taken = drawn = faults = 0
    for seed in range(80):
        f = compiled(random_lists.program(seed), f"<lists {seed}>")
        R = np.random.default_rng(seed)
        x, k = R.normal(size=5), R.integers(0, 2, 5)
        try:
            expected = f(x, k)
        except (IndexError, ValueError):
            continue
        drawn += 1
        try:
            found = tensor(f).interpret(x, k)
        except TensorError as error:
            faults += "fault of jupyter_hvd" in str(error)
            continue
        taken += 1
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert taken > 0.6 * drawn
    assert not faults


def test_only_the_rows_that_are_read_are_carried():
    f = tensor(one_period_before)
    f(MORE)
    (loop,) = (s.rhs for s in f.ssa.statements if isinstance(s.rhs, Recurrence))
    assert loop.carried == ((), (), ())  # three numbers


def test_a_list_that_grows_is_not_read_by_another_name():
    def f(x):
        y = list(x)
        z = y
        for t in range(len(x)):
            y.append(0.5 * y[t])
        return sum(z)

    with pytest.raises(TensorError, match="shares its entries with `y`, which has been changed"):
        tensor(f)(MORE)


def test_a_list_within_its_own_loop_is_refused_in_plain_words():
    def f(x):
        y, s = [], 0.0
        for v in x:
            y.append(v)
            s = 0.5 * s + sum(w * w for w in y)
        return s

    with pytest.raises(TensorError, match=r"\d: `y` is a list that this loop appends to"):
        tensor(f)(np.ones(4))


def only_some(x):
    wealth, turnover = 1.0, []
    for t in range(len(x)):
        wealth *= 1 + 0.1 * x[t]
        if x[t] > 0.2 or (t + 1) % 3 == 0:
            cost = abs(x[t]) * wealth
            turnover.append(cost)
            wealth -= 0.1 * cost
    return wealth + sum(turnover) ** 2 / len(turnover) + np.mean(np.array(turnover) ** 2)


def only_some_that_are_independent(x):
    found = []
    for v in x:
        if v > 0:
            found.append(v**2)
    return np.sum(found) + np.max(found)


def either_way(x):
    smooth, last = [], 0.0
    for v in x:
        last = 0.5 * last + v
        if v > 0:
            smooth.append(last)
        elif v > -1:
            smooth.append(v * last)
        else:
            smooth.append(last**2)
    other = []
    for i in range(len(x)):
        if i % 2 == 0:
            other.append(x[i])
        else:
            other.append(x[i - 1] * x[i])
    return np.sum(np.diff(np.array(smooth)) ** 2) + smooth[-1] * other[1]


def pairs(x):
    distances = []
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            distances.append((x[i] - x[j]) ** 2)
    close = []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and abs(x[i] - x[j]) < 1:
                close.append(x[i] * x[j])
    squares = sum(c * c for c in close)
    longest = 0.0
    for d in distances:
        longest = max(longest, d)
    positive = 1.0
    for v in x[x > 0]:
        positive = positive * 0.5 + v
    return np.mean(distances) + max(distances) + sum(close) + squares + longest * positive


def several_at_once(x):
    path, level = [x[0]], x[0]
    for v in x:
        level = 0.9 * level + v
        path += [level, -v]
    flat = [1.0]
    for v in x:
        flat.extend([v, v * v])
    return path[2] * path[-1] + np.sum(np.diff(np.array(flat)) ** 2) + len(path) * path[1]


def turned_round(x):
    path = [x[0]]
    for k in range(1, len(x)):
        path.append(path[-1] * 0.5 + x[k])
    path.reverse()
    few = [x[0], x[1], x[2] * 2]
    few.reverse()
    few.sort(reverse=True)
    return path[0] * path[-1] ** 2 + few[0] * few[1] ** 2


def in_order(x):
    losses = sorted(-x, reverse=True)
    middle = sorted([x[0], x[1] * 2, x[2]])[1]
    y = x * 2
    y.sort()
    return losses[0] ** 2 + losses[1] + middle * y[0]


def of_labels(x):
    labels = [0]
    for c in LABELS:
        labels += [c, 0]
    total = 0.0
    for s in range(len(labels)):
        if s > 1 and labels[s] != 0 and labels[s] != labels[s - 2]:
            total += x[labels[s]] ** 2
        total += x[labels[s]] * s
    return total


def comprehensions(x):
    n = len(x)
    positive = [v * v for v in x if v > 0]
    gaps = [abs(x[i] - x[j]) for i in range(n) for j in range(i) if abs(x[i] - x[j]) < 1]
    table = np.array([x[i] * (j + 1) for i in range(n) for j in range(3)])
    even = [x[i] for i in range(n) if i % 2 == 0]
    return np.mean(positive) + sum(gaps) * len(gaps) + np.sum(np.diff(table) ** 2) + max(even)


def few_with_conditions(x):
    hits = []
    for center in (0.5, -0.2, 1.5):
        distance = x[0] - center
        if distance > 0:
            hits.append(distance**2)
    hits.append(x[1])
    return min(hits) + sum(hits)


LABELS = np.array([1, 3, 3, 2])
MORE = np.array([0.6, -0.3, 0.9, -1.4, 0.25, 1.2, -0.7])


@pytest.mark.parametrize(
    "f",
    [
        only_some,
        only_some_that_are_independent,
        either_way,
        pairs,
        several_at_once,
        turned_round,
        in_order,
        of_labels,
        comprehensions,
        few_with_conditions,
    ],
)
def test_lists_that_loops_make_otherwise(f):
    check(f, (MORE,))


def over_windows(a, win=3):
    h, w = a.shape
    kept = []
    for i in range(h - win + 1):
        for j in range(w - win + 1):
            p = a[i : i + win, j : j + win]
            mean, spread = p.mean(), p.var()
            kept.append((2 * mean + 0.1) * (spread + 0.2) / (mean**2 + spread))
    return np.mean(kept)


@pytest.mark.parametrize("shape", [(6, 7), (30, 30), (40, 20)])
def test_appends_in_two_loops_of_known_count_are_one_array(shape):
    a = np.random.default_rng(1).uniform(0.5, 1.5, shape)
    f = tensor(over_windows)
    np.testing.assert_allclose(f(a), over_windows(a), rtol=1e-12)
    assert len(str(f.plan(a)).splitlines()) < 100


def all_entries_so_far(x):
    y = []
    for v in x:
        y.append((1 - v * sum(y)) / (1 + v))
    return np.array(y)


def entries_so_far_of_an_array(x):
    y = np.zeros(len(x))
    for k in range(len(x)):
        y[k] = (1 - x[k] * np.sum(y[:k])) / (1 + x[k])
    return y


def test_a_list_that_is_read_whole_says_to_fill_an_array():
    x = np.linspace(0.1, 0.4, 6)
    with pytest.raises(TensorError, match=r"sum\(y\)[\s\S]*fill an array"):
        tensor(all_entries_so_far)(x)
    check(entries_so_far_of_an_array, (x,))
    np.testing.assert_allclose(entries_so_far_of_an_array(x), all_entries_so_far(x))
