"""Whole numbers that data decide, as indices: `x[np.argmax(y)]`. Values are NumPy's, ties broken as NumPy breaks them; gradients
those of `jax.grad`, or of differences where NumPy writes in place.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import of_jax
import pytest
from public_functions import draw
from test_public_functions import by_differences

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

CASES = []


def case(*arguments):
    def enter(function):
        CASES.append((function, arguments, False))
        return function

    return enter


def written_in_place(*arguments):
    def enter(function):
        CASES.append((function, arguments, True))
        return function

    return enter


@case(draw(5), draw(5))
def best(x, scores):
    return x[np.argmax(scores)]


@case(draw(5, 4))
def best_of_each_row(A):
    return np.sum(A[np.arange(len(A)), np.argmax(A, axis=1)] ** 2)


@case(draw(3, 4), draw(3, 4))
def worst_of_each_column(A, B):
    return np.sum(np.take_along_axis(A, B.argmin(axis=0, keepdims=True), axis=0))


@case(draw(5), draw(5))
def in_order_of(x, y):
    return np.sum(x[np.argsort(y)] * np.arange(len(x)))


@case(draw(4, 3), draw(4, 3))
def rows_in_order(A, B):
    return np.sum(np.sin(np.take_along_axis(A, np.argsort(B, axis=1), axis=1)) * B)


@case(draw(6), draw(6))
def discounted_gain(scores, gains):
    ranked = gains[np.argsort(-scores)][:4]
    return np.sum(ranked / np.log2(np.arange(len(ranked)) + 2.0))


@case(draw(5))
def compared_with_an_index(x):
    return sum(x[k] * (k == np.argmax(x)) for k in range(len(x)))


@case(draw(4, 3), np.array([0, 1, 2, 1]))
def accuracy(A, labels):
    return (
        np.mean(labels == np.argmax(A, axis=1)) + np.mean(np.argmin(A, axis=1) != labels) * A[0, 0]
    )


@case(draw(4), draw(6))
def how_many_are_less(x, v):
    ordered = np.sort(x)
    return np.sum(
        v * np.searchsorted(ordered, v) + v**2 * np.searchsorted(ordered, v, side="right")
    )


@case(np.sort(draw(6)), draw(6), np.array([0.1, 0.5, 0.77, 1.1, 3.0]))
def between_points(xp, fp, x):
    return np.sum(np.interp(x, xp, fp) ** 2)


@case(draw(6), draw(6))
def floor_as_an_index(x, u):
    i = np.clip(np.floor(u * 4).astype(int), 0, len(x) - 2)
    return np.sum(x[i] * 0.5 + x[i + 1])


@case(draw(5, 3), draw(2, 3))
def clusters(X, C):
    labels = np.argmin(((X[:, None, :] - C[None, :, :]) ** 2).sum(axis=2), axis=1)
    return sum(np.sum(np.where((labels == k)[:, None], X - C[k], 0) ** 2) for k in range(2))


@case(draw(7))
def largest_three(x):
    values, places = jax.lax.top_k(x, 3)
    return np.sum(values**2) + x[places[1]]


@case(draw(4, 5))
def where_in_a_matrix(A):
    i, j = np.unravel_index(np.argmax(A), A.shape)
    return A[i, j] * 2 + A[i, 0] + A[0, j]


@case(draw(3, 4))
def rows_of_the_identity(A):
    return np.sum(np.eye(4)[A.argmax(axis=1)] * A)


@case(draw(3, 4))
def one_hot(A):
    return np.sum(jax.nn.one_hot(jnp.argmax(A, axis=1), 4) * A)


@case(draw(6), draw(6))
def chosen_by_a_place(x, y):
    k = np.argmax(x)
    return y[k] if k > 2 else x[k] * 2


@case(draw(5))
def neighbours(x):
    k = np.argmax(x)
    n = len(x)
    return x[(k + 1) % n] - x[np.clip(k - 1, 0, n - 1)]


@case(draw(6, 2), draw(6), draw(2))
def nearest_three(X, y, q):
    nearest = np.argsort(np.sqrt(((X - q) ** 2).sum(axis=1)))[:3]
    return np.mean(y[nearest])


@case(draw(6), draw(3))
def histogram(x, w):
    bins = np.digitize(x, np.array([0.5, 0.8]))
    return np.sum(np.bincount(bins, weights=x, minlength=3) * w)


@case(draw(5), draw(3))
def carried_place(x, w):
    i, s = np.argmin(x), 0.0
    for t in range(3):
        i = np.argmax(x * w[t] + i)
        s = s + x[i] * w[t]
    return s


@case(np.array([0.5, 1.0, 1.0, 0.2, 0.2, 1.0]), np.arange(6.0))
def ties(x, w):
    first = w[np.argmax(x)] + 10 * w[np.argmin(x)]
    return first + np.sum(w[np.argsort(x, stable=True)] * np.arange(6))


@case(draw(6), draw(6))
def first_that_is_large(x, y):
    return y[np.argmax(x > 0.8)] * x[0]


@written_in_place(draw(6, 3), draw(3, 3), draw(3))
def viterbi(obs, A, pi):
    T, n = obs.shape
    delta = np.log(pi) + obs[0]
    psi = np.zeros((T, n), dtype=int)
    for t in range(1, T):
        scores = delta[:, None] + np.log(A)
        psi[t] = np.argmax(scores, axis=0)
        delta = np.max(scores, axis=0) + obs[t]
    path = np.zeros(T, dtype=int)
    path[T - 1] = np.argmax(delta)
    for t in range(T - 2, -1, -1):
        path[t] = psi[t + 1, path[t + 1]]
    return sum(obs[t, path[t]] for t in range(T))


@written_in_place(draw(6, 3), draw(3, 3), draw(3))
def viterbi_by_lists(obs, A, pi):
    delta = np.log(pi) + obs[0]
    back = []
    for t in range(1, len(obs)):
        scores = delta[:, None] + np.log(A)
        back.append(np.argmax(scores, axis=0))
        delta = np.max(scores, axis=0) + obs[t]
    state = np.argmax(delta)
    total = obs[len(obs) - 1, state]
    for t in range(len(obs) - 2, -1, -1):
        state = back[t][state]
        total = total + obs[t, state]
    return total


@written_in_place(draw(5), 2)
def largest_kept(x, k):
    mask = np.zeros(len(x))
    mask[np.argsort(np.abs(x))[-k:]] = 1.0
    return np.sum(x * mask)


@written_in_place(draw(5))
def without_the_largest(x):
    y = x.copy()
    y[np.argmax(x)] = 0.0
    return np.sum(y**2)


@written_in_place(draw(6))
def ranks(x):
    order = np.argsort(x)
    ranks = np.zeros(len(x), dtype=int)
    ranks[order] = np.arange(len(x))
    return np.sum(ranks * x) + x[np.clip(ranks[0], 0, len(x) - 1)]


@written_in_place(draw(6), draw(6), draw(6))
def the_last_of_several_stays(x, y, z):
    places = np.clip((x * 3).astype(int), 0, 5)
    w = z * 1.0
    w[places] = y
    return np.sum(w * z)


@written_in_place(draw(3, 4), draw(3))
def one_in_each_row(A, v):
    B = A * 1.0
    B[np.arange(3), np.argmin(A, axis=1)] -= v
    return np.sum(B**2)


@written_in_place(draw(6, 3), draw(6))
def added_up_where_data_say(A, w):
    counts = np.zeros(3)
    for i in range(len(A)):
        counts[np.argmax(A[i])] += w[i]
    return np.sum(counts**2)


@written_in_place(draw(6), draw(6))
def largest_of_the_chosen(x, y):
    return np.max(x[x > 0.5]) + y[y < 1].min()


def of_one(function, arguments, in_place):
    parameters = list(inspect.signature(function).parameters)
    names = [
        n for n, a in zip(parameters, arguments, strict=True) if np.asarray(a).dtype.kind == "f"
    ]
    places = [parameters.index(name) for name in names]
    if in_place:
        return names, [by_differences(function, arguments, k) for k in places]
    with keeping_float64(True), pytest.MonkeyPatch.context() as patch:
        patch.setitem(function.__globals__, "np", jnp)
        inputs = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in arguments]
        return names, of_jax.gradients(function, places, inputs)


def close(found, expected, tolerance):
    for one, other in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, dtype=float), other, rtol=tolerance, atol=1e-7)


@pytest.mark.parametrize(
    ("function", "arguments", "in_place"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_value_and_gradient(function, arguments, in_place):
    f, expected = tensor(function), function(*arguments)
    names, gradients = of_one(function, arguments, in_place)
    np.testing.assert_allclose(float(f.interpret(*arguments)), expected, rtol=1e-7)
    close(f.grad(*names).interpret(*arguments), gradients, 1e-6)


#: In a loop, in a comprehension, stored, several at once.
COMPILED = (
    best_of_each_row,
    rows_in_order,
    between_points,
    carried_place,
    viterbi,
    ranks,
    histogram,
)


@pytest.mark.slow
@pytest.mark.parametrize("function", COMPILED, ids=[f.__name__ for f in COMPILED])
def test_kernels(function):
    arguments, in_place = next(rest for f, *rest in CASES if f is function)
    names, gradients = of_one(function, arguments, in_place)
    with keeping_float64(True):
        np.testing.assert_allclose(tensor(function)(*arguments), function(*arguments), rtol=1e-7)
        close(tensor(function).grad(*names)(*arguments), gradients, 1e-6)


def test_costs():
    """The largest, then the least of `i + n·[x[i] < top]`; of an entry at a place, a sum of n."""

    @tensor
    def place(x: 'Float[Array, "5"]'):  # noqa: F821
        return np.argmax(x)

    @tensor
    def entry(x: 'Float[Array, "n"]', u: float):  # noqa: F821
        return x[np.clip(np.floor(u).astype(int), 0, len(x) - 1)]

    assert str(place.cost_formula()) == "23"  # 5·n - 2
    rounded = 3  # floor, which is whole already, and both ends
    assert str(entry.cost_formula()) == f"3*n + {rounded - 1}"


def test_of_no_entries_the_largest_is_infinite():
    @tensor
    def f(x):
        return np.max(x[x > 5.0])

    assert f.interpret(np.arange(7.0)) == 6
    assert f(np.arange(3.0)) == -np.inf


def test_what_is_added_to_a_place_twice():
    """NumPy adds `y[p] += v` once to a place that p names twice; `np.bincount` adds all of it."""

    @tensor
    def f(y, p, v):
        z = y * 1.0
        z[p] += v
        return z.sum()

    for once in (f, f.interpret):
        assert once(np.zeros(3), np.array([1, 1]), np.array([2.0, 3.0])) == 3


def test_a_loop_without_iterations_leaves_what_it_began_with():
    """What is known of a place after a loop holds of its start, too: here it may be 4, and y has two entries."""

    @tensor
    def f(x, y, w):
        k = np.argmax(x)
        for v in w:
            k = np.argmax(y * v + k)
        return y[k]

    with pytest.raises(TensorError, match="reads index 2"):
        f.interpret(np.arange(5.0), np.arange(2.0), np.zeros(0))
