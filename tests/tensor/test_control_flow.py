"""`continue`, `break`, `while`, and names that have a value in one branch of an `if`: values are Python's, gradients as by
differences.
"""

import numpy as np
import pytest
from cases import entering
from differences import check, compiled

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(1)
X, P = R.normal(size=7), R.normal(size=(7, 2))
CASES = []
case = entering(CASES)


@case(P)
def name_of_one_branch(x):
    e = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                d = x[i] - x[j]
                e += np.sum(d * d)
        if x[i, 0] > 0:
            d = x[i, 1] ** 2
            e += d
    return e


@case(X)
def read_where_it_has_a_value(x):
    s = 0.0
    for i in range(len(x)):
        if i > 0:
            p = x[i - 1]
        if i > 2:
            s += p * x[i]
    return s


@case(X)
def continued(x):
    n, s = len(x), 0.0
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            if j > i + 2:
                s -= x[j]
                if x[j] > 0:
                    continue
                s += 0.5
            elif j == 0:
                continue
            else:
                s += x[i]
            s += x[i] * x[j] / (i - j)
        s = s * 0.9
    return s


@case(X)
def continued_in_a_recurrence(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if i == 0:
            y[i] = x[i]
            continue
        y[i] = 0.5 * y[i - 1] + x[i]
    return y


@case(X)
def ended_by_data(x):
    n, s = len(x), 0.0
    for i in range(n):
        for j in range(n):
            if x[i] * x[j] > 0.8:
                break
            s += x[i] * x[j]
        if s > 5:
            s += x[0]
            break
    return s


@case(X)
def ended_by_an_index(x):
    s = 0.0
    for i in range(len(x)):
        if i > 3:
            break
        if i == 1:
            continue
        s += x[i] ** 2
    return s


@case(X)
def newton(x):
    z = 1.0
    for _ in range(50):
        d = (z * z - 2 - x[0] ** 2) / (2 * z)
        z = z - d
        if abs(d) < 1e-10:
            break
    return z


@case(X)
def first_found(x):
    found = 0.0
    for i in range(len(x)):
        if x[i] > 0.2:
            found = x[i] ** 2
            break
    return found


@case(np.concatenate([X, X[:1]]))
def halved(x):
    while len(x) > 1:
        x = x[::2] + x[1::2] ** 2
    return x[0]


@case(X)
def counted(x):
    i, s = 0, 0.0
    while i < len(x):
        s += x[i] * i
        i += 2
    return s


@case(np.array([2.0, 5.0]))
def until_it_converges(x):
    """Newton's method: a count that is a size, on either side."""
    y, k, change = x, 0, 1.0
    while 3 * len(x) > k and change > 1e-9:
        new = 0.5 * (y + x / y)
        change = np.max(np.abs(new - y))
        y = new
        k += 1
    return y * k


@case(np.array([1.0, 0.2]))
def ended_by_its_count(x):
    k, s = 2, 0.0
    while s < 100 and k <= 4:
        s = s + x[0] * k + x[1] ** 2
        k = k + 1
    return s


@case(X)
def none_of_its_iterations(x):
    k, s = 0, x[0]
    while s > 100 and k < 3:
        s = s / 2
        k += 1
    return s


@case(np.array([2.5]))
def counted_behind_a_semicolon(x):
    e = x[0]
    k = 0
    while abs(e - 0.3 * np.sin(e) - x[0]) > 1e-12 and k < 6:
        e = e - (e - 0.3 * np.sin(e) - x[0]) / (1 - 0.3 * np.cos(e)); k += 1  # fmt: skip # noqa: E702
    return e


@case(X)
def within_another_loop(x):
    total = 0.0
    for i in range(len(x)):
        y = np.abs(x[i]) + 1
        while y > 0.1:  # at most 9
            y = y / 2
        total += y
    return total


@case(X)
def name_of_one_iteration(x):
    y = np.abs(x[0]) + 1
    while y > 0.1:  # at most 9
        less = 0.3 * y
        y = y - less
    return y


@case(np.ones(3))
def large_state(x):
    p, v = {"x": x, "v": x * 0}, 0.0
    while np.sum(p["x"]) > 1:  # at most 40
        p = {"x": p["x"] + 0.1 * p["v"], "v": p["v"] - 0.1 * p["x"]}
        v += 1.0
    return p["x"] * v


@case(X)
def list_that_is_filled(x):
    h = [x[0], x[1], 0.0]
    for i in range(3):
        h[i] = h[i] + x[i]
    return h[0] * h[1] * h[2]


@case(X)
def entries_swapped(x):
    h, y = np.array([x[0], x[1]]), x.copy()
    for i in range(len(x) - 1):
        h[0], s, h[1] = h[1], i + 1, h[0] + x[i]
        if y[i] > y[i + 1]:
            y[i], y[i + 1] = s * y[i + 1], y[i]
    return y * h[0] * h[1]


@case(X)
def names_of_nested_branches_in_a_short_loop(x):
    n, total = len(x), 0.0
    for i in range(n):
        near = 0.0
        for k in range(-1, 2):
            j = i + k
            if 0 <= j < n:
                w = x[j] * k
                if x[j] > 0:
                    z = w * w
                    near += z
                near += w
        total += near * x[i]
    return total


@case(X)
def neighbours_in_a_list_of_tuples(x):
    n, total = len(x), 0.0
    for i in range(n):
        for j, weight in [(i - 1, 0.5), (i + 1, 2.0)]:
            if 0 <= j < n:
                total += weight * x[i] * x[j]
        for step, weight in [(1, 0.5), (2, 3.0)]:
            total += weight * x[i] * x[(i + step) % n]
    return total


@case(X)
def entries_of_a_slice_whose_length_varies(x):
    total = 0.0
    for i in range(len(x)):
        rest = 0.0
        for v in x[i:]:
            rest += np.exp(v)
        total += x[i] / rest
        for v, w in zip(x[:i], x[::-1][:i], strict=False):
            total += v * w * x[i]
        for k, v in enumerate(x[:i]):
            total += k * v * x[i]
    return total


@case(X, np.array([True, False, True, True, False, True, True]))
def conditions_in_sorted_order(x, event):
    order, total = np.argsort(x), 0.0
    for k in range(len(x)):
        i = order[k]
        if not event[i]:
            continue
        risk = 0.0
        for j in order[k:]:
            risk += np.exp(x[j])
        total += x[i] - np.log(risk)
    return total


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_value_and_gradient(function, arguments):
    check(function, arguments)


def unset(x):
    s = 0.0
    for i in range(len(x)):
        if i % 2 == 0:
            p = x[i]
        s += p
    return s


def unset_by_data(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            p = x[i]
        s += p
    return s


@pytest.mark.parametrize("function", [unset, unset_by_data])
def test_a_name_is_read_where_it_may_have_no_value(function):
    with pytest.raises(TensorError, match=r"(?s)s \+= p.*in the other branch, too") as caught:
        tensor(function)(X)
    assert "history" not in str(caught.value)


def test_a_while_loop_that_data_decide_says_what_to_write():
    @tensor
    def grown(x):
        z = x[0]
        while z < 10:
            z = z * z + 1
        return z

    with pytest.raises(TensorError, match=r"while p and k < 100"):
        grown(X)


def lower_bound(a, v):
    low, high, k = 0, len(a) - 1, 0
    while low < high and k < 9:
        middle = (low + high) // 2
        if a[middle] < v:
            low = middle + 1
        else:
            high = middle
        k += 1
    return a[low] * v


def test_a_binary_search_has_a_bound_or_is_one_of_numpy():
    source = """
def f(a, v):
    low, high = 0, len(a)
    while low < high:
        middle = (low + high) // 2
        if a[middle] < v:
            low = middle + 1
        else:
            high = middle
    return a[low]
"""
    a = np.array([0.0, 1.0, 2.5, 3.0, 7.0])
    with pytest.raises(TensorError, match=r"binary search write `np.searchsorted"):
        tensor(compiled(source, "<binary search>"))(a, 2.7)
    check(lower_bound, (a, np.array(2.7)))


def test_a_while_loop_without_a_condition_says_what_to_write():
    def halved(x):
        while True:
            x = x / 2
            if x < 1:
                break
        return x

    with pytest.raises(TensorError, match=r"nothing says how often[\s\S]*# at most 100"):
        tensor(halved)


def test_a_counter_that_data_move_bounds_nothing():
    @tensor
    def grown(x):
        k = 0
        while x < 10 and k < 5:
            x = x * 2
            if x > 5:
                k += 1
        return x

    with pytest.raises(TensorError, match=r"while p and k < 100"):
        grown(1.0)


MOST = 9


def halved_until_small(x):
    y = x.copy()
    while np.sum(y) > 1:  # at most MOST
        y = y / 2
    return np.sum(y)


def test_a_loop_that_needs_more_iterations_than_it_may_have_is_not_a_number(monkeypatch):
    f = tensor(halved_until_small)
    assert f(np.ones(4)) == halved_until_small(np.ones(4))
    assert np.isnan(f(np.full(4, 1e6)))
    assert np.isnan(f.grad("x")(np.full(4, 1e6))).all()
    monkeypatch.setitem(globals(), "MOST", 30)
    assert f(np.full(4, 1e6)) == halved_until_small(np.full(4, 1e6))


def searched(x, level):
    low, high, total = 0, len(x), 0.0
    while low < high:  # at most 4
        middle = (low + high) // 2
        total += x[middle] ** 2
        if x[middle] < level:
            low = middle + 1
        else:
            high = middle
    return total * level


def test_a_while_loop_whose_first_condition_sizes_decide():
    """Data decide the others, and the first iteration counts for the bound."""
    check(searched, (np.sort(X), 0.1))
    assert np.isnan(tensor(searched)(np.sort(np.linspace(0, 1, 30)), 0.1))


def test_a_while_loop_costs_its_bound():
    f = tensor(halved_until_small)
    assert f.cost(np.ones(40)).total == f.cost(np.full(40, 1e6)).total


def test_an_import_inside_is_pythons():
    @tensor
    def total(x):
        from math import lgamma

        return sum(lgamma(v) for v in x)

    np.testing.assert_allclose(total(np.array([3.0, 4.0])), np.log(2) + np.log(6))


def test_a_list_of_words_is_a_constant():
    @tensor
    def chosen(x, words):
        return sum(x[0] if word == "a" else x[1] for word in words)

    assert chosen(np.array([2.0, 3.0]), ["a", "b", "a"]) == 7
    assert chosen(np.array([2.0, 3.0]), ["b"]) == 3
    np.testing.assert_allclose(chosen.grad("x")(np.ones(2), ["a", "b", "a"]), [2, 1])


def test_a_loop_that_may_end_costs_its_bound():
    f = tensor(first_found)
    costs = [f.cost(np.ones(n)).total for n in (10, 20, 40)]
    assert costs[2] - costs[1] == 2 * (costs[1] - costs[0])


def option(S, K, n: int):
    """A binomial tree: each iteration has one node fewer, and compares with an array as long."""
    V = np.maximum(S * 1.02 ** np.arange(n + 1) - K, 0.0)
    for k in range(1, n + 1):
        V = 0.5 * (V[1:] + V[:-1])
        V = np.maximum(V, S * 1.02 ** np.arange(n + 1 - k) - K)
    return V[0]


def test_an_array_that_each_iteration_shortens_beside_one_as_long():
    check(option, (np.array(1.0), 0.9, 5))


ROOTS = np.array([1.0, -1.0, 4.0])


def roots_after_continue(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] <= 0:
            continue
        s += x[i] * np.sqrt(x[i]) + np.log(x[i]) / x[i] ** 1.5
    return s


def roots_in_an_expression(x):
    return sum(np.sqrt(x[i]) if x[i] > 0 else np.arcsin(x[i] / 2) for i in range(len(x)))


def roots_in_branches(x):
    s = 0.0
    for v in x:
        if v > 0:
            s += np.sqrt(v)
        elif v < -0.5:
            s += np.sqrt(-v)
    return s


def roots_in_a_sum_and_behind_it(x):
    return x[0] if x[1] > 0 else sum(np.sqrt(np.abs(v)) for v in x) + np.sqrt(x[2])


@pytest.mark.parametrize(
    "f",
    [roots_after_continue, roots_in_an_expression, roots_in_branches, roots_in_a_sum_and_behind_it],
)
def test_a_branch_that_is_not_taken_has_no_part_in_the_gradient(f):
    """There the derivative of a root or a quotient is infinite, or no number."""
    check(f, (ROOTS,))


def until_small(x):
    y, k = x[0], 0
    while k < 12:
        step = (x[1] / y - y) / 2
        y += step
        k += 1
        if abs(step) < 1e-9:
            break
    return y * k


def until_small_without_end(x):
    y, k = x[0], 0
    while True:  # at most 12
        y = 0.5 * (y + x[1] / y)
        k += 1
        if abs(y * y - x[1]) < 1e-9 or k >= 9:
            break
    return y * k


@pytest.mark.parametrize("f", [until_small, until_small_without_end])
def test_a_while_loop_ends_by_break(f):
    check(f, (np.array([1.0, 3.0]),))


def test_a_bound_that_the_loop_changes_bounds_nothing():
    @tensor
    def grown(x):
        k, n = 0, 3
        while x < 100 and k < n:
            x = x * 2
            n = n + 1
            k += 1
        return x

    with pytest.raises(TensorError, match=r"while p and k < 100"):
        grown(1.0)


def test_a_break_that_is_not_reached_is_not_a_number():
    @tensor
    def endless(x):
        while True:  # at most 5
            x = x / 2
            if x < 1:
                break
        return x

    assert endless(8.0) == 0.5
    assert np.isnan(endless(1000.0))


def test_an_option_that_there_is_none_of_raises_in_a_loop():
    @tensor
    def weighted(x, kind="flat"):
        s = 0.0
        for v in x:
            if kind == "flat":
                s += v
            else:
                raise ValueError(kind)
        return s

    assert weighted(X) == pytest.approx(np.sum(X))
    with pytest.raises(TensorError, match=r"this raises ValueError\(kind\)"):
        weighted(X, "round")


def test_a_dictionary_is_asked_for_its_keys():
    after = {0: [1, 2], 1: [2], 2: []}

    @tensor
    def shortest(w):
        known = {}

        def cost(node):
            if node == 2:
                return 0.0
            if node in known:
                return known[node]
            known[node] = min([w[node] * n + cost(n) for n in after[node]])
            return known[node]

        return cost(0)

    assert shortest(np.array([1.0, 2.0])) == 2
    assert shortest(np.array([1.0, 0.5])) == 2


def test_map_unpacks():
    @tensor
    def cosine(x, y):
        def unit(z):
            return z / np.linalg.norm(z)

        a, b = map(unit, (x, y))
        return a @ b

    np.testing.assert_allclose(cosine(np.array([1.0, 0.0]), np.ones(2)), np.sqrt(0.5))


def test_integers_are_numbers_at_a_place_once_round():
    @tensor
    def energy(J, spins):
        n = len(J)
        return sum(J[i] * spins[i] * spins[(i + 1) % n] for i in range(n))

    J, spins = np.array([0.1, 0.2, 0.4]), np.array([1, -1, 1])
    np.testing.assert_allclose(energy(J, spins), np.sum(J * spins * np.roll(spins, -1)))
    np.testing.assert_allclose(energy.grad("J")(J, spins), spins * np.roll(spins, -1))


def kepler(x):
    chi2 = 0.0
    for m in x:
        anomaly, count = m, 0
        while True:
            step = (anomaly - 0.3 * np.sin(anomaly) - m) / (1 - 0.3 * np.cos(anomaly))
            anomaly -= step
            count += 1
            if abs(step) < 1e-9 or count >= 6:
                break
        chi2 += anomaly**2
    return chi2


def bisected(x):
    low, high, iterations = 0.0, 10.0, 0
    while True:
        iterations += 1
        middle = (low + high) / 2
        if iterations > 40:
            break
        if middle**2 < x[0]:
            low = middle
            continue
        high = middle
    return low + x[1] * iterations


def found_or_not(x):
    total, first = 0.0, 0.0
    for row in (x, x + 5):
        for i in range(len(row)):
            if row[i] > 4:
                first = row[i]
                break
        else:
            first = -row[0]
        total += first**2
    return total


def else_of_a_while(x):
    y, k = x[0], 0
    while k < 8:
        y = y / 2
        if y < 0.1:
            break
        k += 1
    else:
        y = y * 10
    return y + k


def else_without_break(x):
    total = 0.0
    for v in x:
        total += v * v
    else:
        total *= 2
    return total


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (kepler, np.array([0.3, 1.4, 2.9])),
        (found_or_not, np.array([0.5, -1.0, 2.0])),
        (else_of_a_while, np.array([3.0])),
        (else_of_a_while, np.array([300.0])),
        (else_without_break, X),
    ],
)
def test_loops_with_else_and_without_condition(f, x):
    check(f, (x,))


def test_a_break_at_a_count_bounds_a_loop():
    x = np.array([7.0, 0.5])
    assert tensor(bisected)(x) == pytest.approx(bisected(x))


def test_a_count_that_continue_may_skip_bounds_nothing():
    def skipping(x):
        k = 0
        while True:
            x = x / 2
            if x > 1:
                continue
            k += 1
            if k >= 3:
                break
        return x

    with pytest.raises(TensorError, match="runs at most"):
        tensor(skipping)


GAPS = np.array([0.4, np.nan, 1.2, -0.3, np.inf, 0.8])


def filtered(p):
    m, variance, likelihood = p[0], 2.0, 0.0
    for t in range(len(GAPS)):
        variance = variance + p[1]
        observed = GAPS[t]
        if np.isfinite(observed):
            v = observed - m
            likelihood -= v * v / variance + np.log(variance)
            m = m + v * variance / (variance + p[2])
        likelihood += 0.1 * m
    return likelihood


def gaps_left_out(p):
    total = 0.0
    for t in range(len(GAPS) - 2):
        if np.isnan(GAPS[t]):
            continue
        total += (p[0] - p[1] * GAPS[t]) ** 2
    return total + sum(p[2] * (v if not np.isnan(v) else 0.5) for v in GAPS[:3])


@pytest.mark.parametrize("f", [filtered, gaps_left_out])
def test_data_that_an_if_finds_missing_have_no_part_in_the_gradient(f):
    check(f, (np.array([0.5, 1.2, 0.7]),))


def counted_under_a_condition(p):
    x, total, k = p[0], 0.0, 0
    for step in range(1, 41):
        x = x * (1 - 0.02 * p[1] * x)
        if step % 10 == 0:
            total += (x - SEEN[k]) ** 2
            k += 1
    return total * k


SEEN = np.array([0.7, 0.5, 0.6, 0.4])


def flags(p):
    level, alive, hits = p[0], True, 0
    for v in SEEN:
        level = level * (1 + 0.3 * (v - p[1]))
        if level < 0.9:
            alive = False
        if alive:
            hits += 1
    codes = [{"a": 1, "b": 2}[c] for c in "abba"]
    return (level if alive else 2 * level) * (1 + hits) + (p[2] if hits else 0.0) * codes[1]


@pytest.mark.parametrize("f", [counted_under_a_condition, flags])
def test_counters_and_flags_that_loops_carry(f):
    made = check(f, (np.array([1.1, 0.3, 0.7]),))
    assert len(str(made.ssa).splitlines()) < 120  # not written out


MEMBERS = [(0, 1), (1, 2), (2, 0)]


def assembled(p):
    K = np.eye(3)
    for m, (i, j) in enumerate(MEMBERS):
        dof = [i, j]
        K[np.ix_(dof, dof)] += p[m] * np.array([[1.0, -0.5], [-0.5, 2.0]])
    means = []
    for k in range(2):
        members = SEEN[0.55 + k < SEEN]
        if len(members) > 0:
            means.append(members.mean() * p[k])
        else:
            means.append(p[2])
    return np.sum(K**3) + K[0, 2] * means[0] + means[1] ** 2


def test_blocks_of_a_matrix_and_lists_of_branches():
    check(assembled, (np.array([1.1, 0.3, 0.7]),))


LINKS = {"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": ["a"]}


def ranked(p):
    names = sorted(LINKS)
    rank = {name: 1 / len(names) for name in names}
    for _ in range(4):
        new = {}
        for name in names:
            inflow = sum(rank[src] / len(LINKS[src]) for src in names if name in LINKS[src])
            new[name] = (1 - p[0]) / len(names) + p[0] * inflow
        rank = new
    return rank["d"] ** 2 + rank["a"] * p[1]


def test_dictionaries_by_comprehension():
    check(ranked, (np.array([0.85, 2.0]),))


def assigned_last(p):
    for _ in range(3):
        nearest = np.argmin((SEEN[:, None] - p[None, :]) ** 2, axis=1)
        p = p * 0.9 + 0.1 * SEEN[nearest[0]]
    return np.sum((SEEN - p[nearest]) ** 2)


def test_what_a_loop_assigns_last_stays_an_index():
    check(assigned_last, (np.array([1.1, 0.35, 0.7]),))


def checked(p):
    if p[0] <= 0:
        raise ValueError("no scale")
    rate = float("nan")
    gaps = np.full(4, np.nan)
    for i in range(1, len(SEEN)):
        gaps[i] = (SEEN[i] - SEEN[i - 1]) * p[1]
    for v in SEEN:
        if v < 0.55:
            rate = v * p[2]
            break
    return rate / p[0] + np.nansum(gaps**2)


def test_what_raises_where_data_decide_is_not_a_number_and_numbers_may_be_none():
    f = check(checked, (np.array([1.1, 0.35, 0.7]),))
    assert np.isnan(f(np.array([-1.0, 0.35, 0.7])))
    with pytest.raises(ValueError, match="no scale"):
        f.debug(np.array([-1.0, 0.35, 0.7]))
