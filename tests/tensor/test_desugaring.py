"""Statements that `frontend/desugaring` replaces by simpler ones: values are Python's, gradients as by differences."""

import itertools
import warnings
from itertools import combinations, permutations

import numpy as np
import pytest
import scipy.spatial.distance as distances
from cases import entering
from differences import check, compiled

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(3)
X = np.array([0.5, 1.2, -0.3, 2.0, 0.7])
P = R.normal(size=(4, 3))
CASES = []
case = entering(CASES)


@case(X)
def contexts_of_warnings(x):
    np.seterr(under="ignore")
    with np.errstate(all="ignore"), np.printoptions(precision=3):
        y = np.log(np.abs(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.sum(y)


@case(X, "b")
def matched_text(x, how):
    match how:
        case "a" | "b":
            y = x**2
        case "c":
            y = x * 2
        case _:
            raise ValueError(how)
    return np.sum(y)


@case(X)
def matched_number(x):
    match len(x):
        case 1:
            return x[0]
        case 2 if x[0] > 0:
            return x[1]
        case n if n > 3:
            return np.sum(x) * n
        case _:
            return 0.0


@case(X, None)
def matched_none(x, w):
    match w:
        case None:
            w = np.ones(len(x))
        case v:
            w = v * 2
    return np.sum(w * x**2)


@case(X, 3)
def positional_only(x, k, /):
    return np.sum(x**k)


def _squared(x, /):
    return x**2


@case(X)
def positional_only_helper(x):
    return np.sum(_squared(x))


@case(X)
def asserted(x):
    assert np.all(np.isfinite(x)), "not finite"
    total = 0.0
    for i in range(1, len(x)):
        assert i < len(x)
        assert x[i] > -5, f"{x[i]}"
        total = 0.5 * total + x[i] * x[i - 1]
    return total


@case(X)
def raised_under_a_condition_in_a_loop(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 1:
            scale = 2.0
        elif x[i] > -1:
            scale = 3.0
        else:
            raise ValueError("too small")
        total = total * 0.5 + scale * x[i]
    return total


@case(X, "newton")
def raised_in_a_while(x, how):
    z, k = 1.0, 0
    while abs(z * z - 2) > 1e-9 and k < 40:
        if how == "newton":
            z -= (z * z - 2 - 0.01 * x[0]) / (2 * z)
        else:
            raise ValueError(how)
        if z > 100:
            raise ValueError("diverges")
        k += 1
    return z


@case(X)
def returned_at_an_index(x):
    for i in range(len(x)):
        if i == 2:
            return x[i] ** 2 + x[i - 1]
    return 0.0


@case(X)
def returned_array(x):
    for i in range(len(x)):
        if x[i] > 1:
            return x[i] * x
    return x


@case(X)
def not_returned(x):
    for i in range(len(x)):
        if x[i] > 10:
            return x[i] * x
    return x**2


@case(X)
def returned_from_an_endless_loop(x):
    z = 1.0
    while True:  # at most 100
        step = (z * z - 2 - x[0] ** 2) / (2 * z)
        z = z - step
        if abs(step) < 1e-10:
            return z


@case(X)
def returned_from_a_loop_that_counts(x):
    z, count = 1.0, 0
    while True:
        step = (z * z - 2 - x[0] ** 2) / (2 * z)
        z = z - step
        count += 1
        if abs(step) < 1e-10 or count >= 60:
            return z * x[1]


@case(X)
def returned_from_two_loops(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            total += x[i] * x[j]
            if total > 1.5:
                return total * x[j]
        if total < -3:
            return total
    return total**2


@case(X)
def returned_after_a_loop_that_does_not(x):
    for i in range(len(x)):
        if x[i] > 5:
            break
    else:
        return x[0] ** 2
    return x[1]


@case(X)
def returned_of_short_written_loop(x):
    for k in (1, 2, 3):
        if x[k] > 1.5:
            return k * x[k]
    return x[0]


def _place_of(name):
    for k, known in enumerate(("a", "b", "c")):
        if known == name:
            return k
    raise KeyError(name)


def _has_more_than(x, bound):
    for v in x:  # noqa: SIM110 - a `return` in a loop is what it tests
        if v > bound:
            return True
    return False


@case(X)
def returned_by_helpers(x):
    total = x[_place_of("b")] ** 2
    if _has_more_than(x, 1.9):
        total += x[0]
    if _has_more_than(x, 2.1):
        total += x[1] ** 3
    return total


@case(X)
def named_in_a_condition(x):
    if (n := len(x)) > 3 and np.sum(x) > 0:
        return np.sum(x) / n
    y = 0.0
    if n > 9:
        y = 1.0
    elif (m := x[0]) > 0:
        y = m
    return y


@case(X)
def named_in_a_loop(x):
    z, k = 1.0, 0
    while (step := (z * z - 2 - x[0] ** 2) / (2 * z)) ** 2 > 1e-20 and k < 50:
        k += 1
        if k == 2:
            continue
        z -= step
    return z


@case(X)
def named_in_a_comprehension(x):
    return sum(y**2 for a in x if (y := a - 0.1) > 0) + max([z for a in x if (z := a * a) < 2])


@case(X)
def pairs(x):
    total, n = 0.0, len(x)
    for i, j in itertools.combinations(range(n), 2):
        if i + j == 4:
            continue
        total += x[i] * x[j] ** 2
    return total + sum(x[i] * x[j] - x[k] for i, j, k in combinations(range(1, n), 3))


@case(X)
def pairs_of_entries(x):
    total = 0.0
    for a, b in combinations(x, 2):
        if a > 1.5:
            break
        total += a * b**2
    far = sum((a - b) ** 2 for (i, a), (j, b) in combinations(enumerate(x, 1), 2) if j > i + 1)
    return total + far


@case(P)
def pairs_of_rows(points):
    return sum(np.sum((a - b) ** 2) ** 0.5 for a, b in combinations(points, 2))


@case(X)
def products(x):
    total = 0.0
    for i, v in itertools.product(range(3), x):
        total += (i + 1) * v**2
    for p in permutations(range(len(x)), 2):
        total += x[p[0]] / (1 + p[1])
    written = sum(k * v for k, v in itertools.product((1, 2), x))
    twice = sum(x[i] * x[j] for i, j in itertools.product(range(len(x)), repeat=2) if i != j)
    return total + written + twice


@case(X)
def left_at_once(x):
    total = 0.0
    for i, j in itertools.combinations_with_replacement(range(len(x)), 2):
        if x[i] * x[j] > 1.3:
            break
        total += x[i] * x[j]
    return total


@case(X)
def among_sizes_and_data(x):
    n, total = len(x), 0.0
    for i in range(n):
        if i not in (0, n - 1):
            total += x[i] ** 2
        if x[i] in [x[1], x[3]]:
            total += x[i] ** 3
    return total


@case(X)
def sorted_by_a_key(x):
    y = sorted(x, key=abs)
    z = sorted(x, key=lambda v: (v - 1) ** 2, reverse=True)
    order = sorted(range(len(x)), key=lambda i: -x[i])
    weights = np.arange(len(x))
    return (
        sum(y[i] * i for i in range(len(y))) + np.sum(np.array(z) * weights**2) + x[order[1]] ** 2
    )


@case(X)
def largest_by_a_key(x):
    best = max(range(len(x)), key=lambda i: x[i])
    return x[best] ** 2 + min(x, key=lambda v: (v - 0.4) ** 2) * 3 + max(x[0], x[2], key=abs)


@case(X)
def mean_of_nothing_beside_others(x):
    return np.sum(x) + (0.0 if np.isnan(np.mean(x[:0])) else 1.0)


@case(np.linspace(0.1, 2.0, 9))
def fitted_line(x):
    y = np.sin(x) * x[0]
    return np.polyfit(x, y, 2)[1] + np.sum(np.polyfit(x, np.stack([y, x**2], 1), 1, w=x))


@case(P)
def distances_of_rows(points):
    cross = distances.cdist(points, points[:2] * 2, "cityblock")
    own = distances.pdist(points) ** 2 + distances.pdist(points, "minkowski", p=3)
    return np.sum(cross) * own


@case(X)
def smallest_three(x):
    return np.sum(np.partition(x, 2)[:3] ** 2) + np.sum(x[np.argpartition(x, 1)[:2]])


@pytest.mark.parametrize(("function", "arguments"), CASES, ids=[f.__name__ for f, _ in CASES])
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def test_a_failed_assertion_or_an_error_in_a_loop_gives_nan():
    def positive(x):
        total = 0.0
        for i in range(len(x)):
            assert x[i] > 0
            total += np.log(x[i])
        return total, x

    def small(x):
        total = 0.0
        for v in x:
            if v > 3:
                raise ValueError("too large")
            total += v
        return total

    for function, bad in ((positive, [1.0, -1.0]), (small, [1.0, 4.0])):
        f = tensor(function)
        for given, expected in (([1.0, 2.0], np.isfinite), (bad, np.isnan)):
            found = f.interpret(np.array(given))
            assert all(
                np.all(expected(x)) for x in (found if isinstance(found, tuple) else [found])
            )
        with pytest.raises((AssertionError, ValueError)):
            f.debug(np.array(bad))


def test_assertions_that_sizes_decide_add_nothing_to_a_loop():
    def asserted(x):
        y = 0.0
        for i in range(1, len(x)):
            assert i < len(x)
            y = 0.5 * y + np.sin(x[i] * x[i - 1])
        return y

    def plain(x):
        y = 0.0
        for i in range(1, len(x)):
            y = 0.5 * y + np.sin(x[i] * x[i - 1])
        return y

    one, other = tensor(asserted), tensor(plain)
    assert one.cost(X) == other.cost(X)


def test_a_sum_with_assertions_stays_a_sum():
    @tensor
    def f(x):
        total = 0.0
        for i in range(len(x)):
            assert x[i] > -9
            total += x[i] ** 2
        return total

    f(X)
    assert "iterate" not in str(f.program)


def test_positional_only_parameters_are_named_by_paths():
    @tensor
    def f(x, y, /):
        return np.sum(x * y**2)

    x, y = np.arange(3.0), np.arange(1.0, 4.0)
    assert f(x, y) == np.sum(x * y**2)
    np.testing.assert_allclose(f.grad("y")(x, y), 2 * x * y)


REFUSED = {
    "    with open('a') as file:\n        return x": "`with` statement other than",
    "    with np.errstate(all='ignore') as state:\n        return x": "`with` statement other than",
    "    match x:\n        case [a, b]:\n            return a\n    return x": "other than constants",
    "    if x[0] > 0 and (y := x[1]) > 0:\n        return y\n    return x[0]": "`:=` inside",
    "    y = 1.0\n    return y + (y := x[0])": "`:=` inside",
    "    for i in range(len(x)):\n        if x[i] > 0:\n            return x[i]": "nothing is returned",
    "    for v in sum(x):\n        return v\n    return x[0]": "no entries to loop over",
    "    assert x > 0\n    return x": "an array",
    "    assert len(x) == 3\n    return x": "this assertion does not hold|do not go together",
    "    for i in range(len(x)):\n        for _ in range(i):\n            raise ValueError\n    return x": "raises ValueError",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body):
    function = compiled(f"def f(x):\n{body}\n", f"<{body}>")
    with pytest.raises(TensorError, match=REFUSED[body]):
        tensor(function).interpret(X)
