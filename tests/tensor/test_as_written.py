"""Branches, slices and loops as users of NumPy write them: values as NumPy has them, gradients as by differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import random_stores
from cases import entering_by_name
from differences import check, compiled, written
from scipy.special import logsumexp

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(0)
X, A, Z = R.uniform(0.3, 1.3, 5), R.uniform(0.3, 1.3, (4, 5)), R.normal(size=6)
CASES = {}
case = entering_by_name(CASES)


@case(Z)
def returns_in_branches(x):
    if x[0] > 0:
        if x[1] > 0:
            return x[0] * x[1]
        return x[2]
    return x.sum()


@case(Z)
def returns_in_some_branches(x):
    if x[0] > 0:
        if x[1] > 0:
            return x[0] * x[1]
    elif x[3] > 1:
        return x[4] * 2
    y = x * 2
    return y.sum()


@case(Z)
def what_follows_a_branch_that_may_return(x):
    s = 0.0
    if x[0] > 0:
        s = x[1]
        if x[2] > 0:
            return s * 2
        s = s + 1
    return s * x[3]


@case(Z, 2)
def returns_where_numbers_decide(x, k):
    if k == 0:
        return x.sum()
    if k == 2:
        if len(x) > 3:
            return (x**2).sum()
        return x[0]
    return x[1]


@case(Z)
def slices_past_the_end(x):
    return x[:100].sum() + x[2:50].sum()


@case(Z)
def slices_from_before_the_start(x):
    return x[-100:].sum() + x[:-100].sum()


@case(Z)
def a_slice_that_is_shorter(x):
    return np.concatenate([x[:3], x[3:10]])


@case(A)
def slices_of_columns(A):
    return A[:3, :10].sum(axis=1)


@case(Z, 4)
def an_end_that_is_given(x, k):
    return x[: k * 2].sum()


@case(Z)
def an_empty_slice(x):
    return x[10:].sum()


@case(X)
def multiplied_in_place(x):
    y = np.ones(len(x))
    for i in range(len(x)):
        y[i] *= x[i]
    return y


@case(X)
def divided_in_place(x):
    y = x.copy()
    for i in range(len(x)):
        y[i] /= 1 + x[i]
    return y


@case(X)
def multiplied_by_the_entry_before(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] *= y[i - 1]
    return y


@case(A)
def multiplied_in_two_loops(x):
    y = x.copy()
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i, j] *= x[0, j]
    return y


@case(A)
def a_power_in_place(x):
    y = x.copy()
    for i in range(x.shape[0]):
        y[i] **= 2
    return y


@case(A)
def rows_divided_by_their_sums(x):
    y = x.copy()
    for i in range(x.shape[0]):
        y[i, :] /= y[i].sum()
    return y


@case(A)
def a_row_multiplied_many_times(x):
    y = x.copy()
    for i in range(x.shape[0]):
        y[0] *= x[i]
    return y


@case(X)
def assigned_again_where_indices_say(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i]
        if i > 1:
            y[i] = x[i] ** 2
    return y


@case(Z)
def assigned_again_where_data_say(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i]
        if x[i] > 0.2:
            y[i] = x[i] ** 2
    return y


@case(Z)
def assigned_in_both_branches(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > 0.2:
            y[i] = x[i] ** 2
        else:
            y[i] = -x[i]
    return y


@case(Z)
def assigned_in_one_branch(x):
    y = x.copy()
    for i in range(len(x)):
        if x[i] > 0.2:
            y[i] = x[i] ** 2
    return y


@case(Z)
def assigned_added_to_and_read(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i]
        y[i] += 1.0
        y[i] = y[i] * 2
    return y


@case(Z)
def added_to_and_the_next_assigned(x):
    y = np.zeros(len(x))
    for i in range(len(x) - 1):
        y[i] += x[i]
        y[i + 1] = 2 * x[i]
    return y


@case(Z)
def the_next_assigned_and_added_to(x):
    y = np.zeros(len(x))
    for i in range(len(x) - 1):
        y[i + 1] = 2 * x[i]
        y[i] += x[i]
    return y


@case(Z)
def assigned_and_added_to(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i]
        y[i] += x[i] ** 2
    return y


@case(Z)
def added_to_and_assigned(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] += x[i] ** 2
        y[i] = x[i]
    return y


@case(Z)
def the_first_added_to_and_each_assigned(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[0] += x[i] ** 2
        y[i] = x[i]
    return y


@case(A, np.array([0, 1, 1, 0]))
def added_where_arrays_say_in_a_loop(x, lab):
    c = np.zeros((2, 5))
    for _ in range(2):
        c[lab] += x
    return c


@case(Z)
def logsumexp_with_infinities(x):
    y = np.where(np.arange(len(x)) < 2, -np.inf, x)
    return logsumexp(y)


@case(A)
def where_data_say_in_two_loops(x):
    y = np.zeros(x.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 0.8:
                y[i, j] = x[i, j] ** 2
            else:
                y[i, j] = -1.0
    return y


@case(A)
def a_column_and_the_others(x):
    y = np.zeros(x.shape)
    for i in range(x.shape[0]):
        y[i, 0] = x[i, 1] ** 2
        y[i, 1:] = 3 * x[i, :-1]
    return y


@case(X)
def multiplied_after_the_one_before_was_assigned(x):
    y = x.copy()
    for i in range(len(x) - 1):
        y[i] *= x[i]
        y[i + 1] = 2 * x[i]
    return y


@case(X)
def the_last_of_all_iterations(x):
    y = np.zeros(2)
    for i in range(len(x)):
        y[0] = x[i]
    return y


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name):
    check(*CASES[name])


def test_tuples_in_branches_on_data():
    @tensor
    def parts(x):
        if x[0] > 0:
            return x[0], {"a": x[1:3]}
        return x[1], {"a": x[2:4]}

    for x in (np.arange(-1.0, 4.0), np.arange(1.0, 6.0)):
        first, rest = parts(x)
        assert first == parts.python(x)[0]
        np.testing.assert_allclose(rest["a"], parts.python(x)[1]["a"])


def test_an_array_that_is_read_by_another_name_is_refused():
    @tensor
    def shared(x):
        y = x.copy()
        z = y
        for i in range(len(x)):
            y[i] *= z[0]
        return y

    with pytest.raises(TensorError, match="by another name"):
        shared(X)


@pytest.mark.parametrize("program", [random_stores.program, random_stores.program_of_brackets])
def test_stores_drawn_at_random_are_what_numpy_stores(program):
    """What is taken is right; and more than half of it is taken."""
    taken = drawn = faults = 0
    for seed in range(60):
        f = compiled(program(seed), f"<stores {seed} {program.__name__}>")
        R = np.random.default_rng(seed)
        x, A, k = R.normal(size=5), R.normal(size=(6, 6)), R.integers(0, 5, 5)
        try:
            with np.errstate(all="ignore"):
                expected = f(x, A, k)
        except (IndexError, ValueError, TypeError):
            continue
        drawn += 1
        try:
            found = tensor(f).interpret(x, A, k)
        except TensorError as error:
            faults += "fault of jupyter_hvd" in str(error)
            continue
        taken += 1
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    assert taken > 0.6 * drawn
    assert not faults


@tensor
def checked(x, y):
    if len(x) != len(y):
        raise ValueError("lengths differ")
    if x.ndim != 1:
        raise ValueError("a vector, please")
    return np.sum(x**2 * y)


def test_what_is_raised_where_sizes_decide():
    np.testing.assert_allclose(checked(X, X), np.sum(X**3))
    np.testing.assert_allclose(checked.grad("x")(X, X), 2 * X**2)
    with pytest.raises(TensorError, match="lengths differ"):
        checked(X, X[1:])
    with pytest.raises(TensorError, match="a vector, please"):
        checked(A, A)


def test_where_data_would_raise_the_result_is_no_number():
    @tensor
    def large(x):
        if x[0] > 10:
            raise ValueError("large")
        return np.sum(x)

    small, big = X / 100, X + 100
    np.testing.assert_allclose(large(small), np.sum(small))
    np.testing.assert_allclose(large.grad("x")(small), np.ones_like(X))
    assert np.isnan(large(big))
    with pytest.raises(ValueError, match="large"):
        large.debug(big)


Q = np.array([1.0, np.nan, np.inf, -np.inf, 0.5, -2.0])
M = np.array([[1.0, np.nan, 2.0], [3.0, 4.0, 5.0]])
MISSING = {
    "np.where(np.isnan(x), 0.0, x * 1.0)": Q,
    "np.isfinite(x) * 1.0": Q,
    "np.where(np.isinf(x), 0.0, 2 * x)": Q,
    "np.isposinf(x) + 2.0 * np.isneginf(x)": Q,
    "np.nan_to_num(x)": Q,
    "np.nan_to_num(x, nan=1.0, posinf=3.0, neginf=-3.0) * 2": Q,
    "np.nanmean(x, axis=0)": M,
    "np.nanmax(x, axis=1) + np.nanmin(x)": M,
    "np.nanstd(x)": M,
    "np.nanvar(x, axis=1, ddof=1)": M,
    "np.copysign(x, -1.0)": Q[4:],
    "np.insert(x, 1, x[0]) + np.insert(x, -1, 2.0)": Q[4:],
    "np.vander(x, 3).sum(axis=0)": Q[4:],
}


@pytest.mark.parametrize("source", MISSING)
def test_what_is_no_number(source):
    x = MISSING[source]

    def plain(x):
        return eval(source, {"np": jnp}, {"x": x})

    f = tensor(written(source, ["x"]))
    with jax.enable_x64(True):
        expected, slope = plain(x), jax.grad(lambda x: jnp.sum(plain(x)))(x)
    ones = np.ones(np.shape(expected)) if np.ndim(expected) else 1.0
    for found in (f(x), f.interpret(x)):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(f.vjp("x")(x, ones), slope, rtol=1e-6)


def test_the_evaluator_goes_beyond_what_is_finite_as_numpy_does():
    @tensor
    def beyond(x):
        return np.array(
            [np.log(x[0]), np.exp(x[1]), 1 / x[0], np.sqrt(x[2]), x[0] ** x[2], np.floor(x[3])]
        )

    x = np.array([0.0, 1e4, -1.0, np.inf])
    with np.errstate(all="ignore"):
        expected = beyond.python(x)
    np.testing.assert_array_equal(beyond.interpret(x), expected)


@tensor
def powers(x, k):
    return np.sum(k * x**2) + np.sum(x**k)


@tensor
def beginning(x, k):
    return np.sum(x[:k])


def test_an_integer_under_jit_is_a_number():
    for gradient in (
        jax.jit(powers.grad("x").jax),
        jax.grad(powers.jax),
        jax.jit(jax.grad(powers.jax)),
    ):
        np.testing.assert_allclose(gradient(X, 3), 6 * X + 3 * X**2, rtol=1e-6)
    rows = jax.vmap(powers.jax, in_axes=(0, None))(A, 2)
    np.testing.assert_allclose(rows, 3 * np.sum(A**2, axis=1), rtol=1e-6)


def test_an_integer_under_jit_is_a_size_where_it_is_static():
    with pytest.raises(TensorError, match="`k` is an integer that JAX traces") as refused:
        jax.jit(beginning.jax)(X, 2)
    assert 'static_argnames="k"' in str(refused.value)
    static = jax.jit(beginning.jax, static_argnames="k")
    np.testing.assert_allclose(static(X, 2), X[:2].sum(), rtol=1e-6)


def test_a_declared_integer_under_jit_is_refused():
    @tensor
    def declared(x, k: int):
        return np.sum(x[:k])

    with pytest.raises(TensorError, match="declared an integer") as refused:
        jax.jit(declared.jax)(X, 2)
    assert "static_argnames" in str(refused.value)
