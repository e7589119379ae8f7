"""Numbers and sizes at the edge of what NumPy and JAX define: a slice from the end by nothing, infinities, powers of zero."""

import runpy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.language.parser import parse
from jupyter_hvd.tensor.language.terms import Const, Mul

U = np.array([1.0, 2.0, 3.0, 4.0, 5.0])


def interior(u, k):
    return np.sum(u[k:-k] ** 2)


def last(u, k):
    return np.sum(u[-k:])


def rows(u, k):
    return np.sum(np.outer(u, u)[:, :-k])


def zeroed(u, k):
    r = np.ones(len(u))
    r[-k:] = 0
    return np.sum(r * u)


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("function", [interior, last, rows, zeroed])
def test_a_slice_from_the_end_by_a_number_that_may_be_zero(function, k):
    f = tensor(function)
    assert float(f(U, k)) == function(U, k)
    step = 1e-6 * np.eye(5)
    expected = [(function(U + h, k) - function(U - h, k)) / 2e-6 for h in step]
    np.testing.assert_allclose(f.grad("u")(U, k), expected, rtol=1e-6, atol=1e-9)


def test_a_slice_from_the_end_by_a_size_that_is_zero():
    @tensor
    def along(x, y):
        return np.sum(x[-len(y) :])

    assert along(U, np.ones(2)) == 9
    for found in (along(U, np.ones(0)), along.interpret(U, np.ones(0))):
        assert found == along.python(U, np.ones(0))


def test_a_power_of_zero_by_its_exponent():
    @tensor
    def f(x, g):
        return np.sum(x**g)

    x = np.array([0.0, 0.5])
    expected = jax.grad(lambda x, g: jnp.sum(x**g), argnums=1)(x, 2.2)
    np.testing.assert_allclose(f.grad("g")(x, 2.2), expected, rtol=1e-6)


INFINITIES = [(-np.inf, -np.inf), (np.inf, np.inf), (-np.inf, 1.0), (np.inf, -np.inf), (1.0, 2.0)]


@pytest.mark.parametrize("pair", INFINITIES)
def test_sums_of_exponentials_of_infinities(pair):
    @tensor
    def both(x, y):
        return np.logaddexp(x, y)

    @tensor
    def all_of(x):
        return jax.nn.logsumexp(x)

    np.testing.assert_allclose(both(*pair), np.logaddexp(*pair))
    x = np.array(pair)
    np.testing.assert_allclose(all_of(x), jax.nn.logsumexp(x), rtol=1e-6)
    np.testing.assert_allclose(all_of.grad("x")(x), jax.grad(jax.nn.logsumexp)(x), rtol=1e-6)


X, A = np.arange(1.0, 5), np.arange(12.0).reshape(3, 4) + 1
NUMBERS = {
    "np.pad(x, k)": (X, (1, 0)),
    "np.repeat(x, k)": (X, (2, 0)),
    "np.tile(x, k)": (X, (2,)),
    "np.sum(x, axis=k)": (A, (1, 0)),
    "np.diff(x, k)": (X, (2,)),
    "x @ np.eye(4, k=k) @ x": (X, (1, -1)),
    "np.tril(x, k)": (A, (1, -1)),
    "np.pad(x, ((k, k), (0, 0)))": (A, (1,)),
    "np.diag(x, k)": (X, (1, 0)),
    "x[-k] * x[-k - 1]": (X, (1, 0, 2)),
}


def written(source, folder):
    """A tensor function that is written in a file, and the function itself."""
    (folder / "written.py").write_text(f"import numpy as np\n\n\n{source}")
    function = runpy.run_path(str(folder / "written.py"))["f"]
    return tensor(function), function


@pytest.mark.parametrize("text", NUMBERS)
def test_a_parameter_that_numpy_takes_as_a_number(text, tmp_path):
    f, function = written(f"def f(x, k):\n    return {text}\n", tmp_path)
    array, numbers = NUMBERS[text]
    for k in numbers:
        np.testing.assert_allclose(f(array, k), function(array, k))


NAN = np.array([[1.0, np.nan, 2.0, 0.5, np.nan], [np.inf, 2.0, np.nan, -np.inf, 2.0]])
IN_ORDER = (
    *("np.sort(x)", "np.sort(x, axis=0)", "np.argsort(x, axis=1, kind='stable')"),
    *("np.median(x)", "np.median(x, axis=0)", "np.median(x, axis=1, keepdims=True)"),
    *("np.quantile(x, 0.3)", "np.quantile(x[0], 1.0)", "np.percentile(x, 75, axis=1)"),
    *("np.max(x, axis=0)", "np.min(x)", "np.argmax(x, axis=1)", "np.argmin(x)", "np.ptp(x)"),
    *("np.maximum(x, 1.0)", "np.fmax(x, 1.0)", "np.fmin(x, x[::-1])", "np.nansum(x, axis=0)"),
    *("np.searchsorted(x[1, :2], x[0])", "np.digitize(x[0], x[0, 2:3], right=True)"),
)


@pytest.mark.parametrize("text", IN_ORDER)
def test_what_is_no_number_in_order(text, tmp_path):
    """What is not NaN in the data is as NumPy has it, too."""
    f, function = written(f"def f(x):\n    return {text}\n", tmp_path)
    for x in (NAN, np.nan_to_num(NAN, nan=2.0), NAN[::-1]):
        np.testing.assert_array_equal(f(x), function(x))
        np.testing.assert_array_equal(f.interpret(x), function(x))


@pytest.mark.parametrize(
    "text", ["np.max(x, axis=1)", "np.min(x)", "np.ptp(x, axis=0)", "x[x < 2].max()"]
)
def test_entries_that_are_equal_share_as_in_jax(text, tmp_path):
    f, _ = written(f"def f(x):\n    return np.sum({text} ** 2)\n", tmp_path)
    x = np.array([[2.0, 1.0, 2.0, 2.0, -1.0], [0.0, -1.0, 0.0, 1.0, 1.0]])
    written_in_jax = {"x[x < 2].max()": "jnp.max(jnp.where(x < 2, x, -9))"}.get(
        text, text.replace("np", "jnp")
    )
    expected = jax.grad(lambda x: jnp.sum(eval(written_in_jax, {"jnp": jnp, "x": x}) ** 2))(x)
    np.testing.assert_allclose(f.grad("x")(x), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(f.grad("x").interpret(x), float), expected, rtol=1e-6)


def test_what_says_how_to_differentiate_costs_nothing():
    """A maximum is n - 1 operations, and its second derivative is none."""

    @tensor
    def f(x):
        return np.max(x) ** 2

    x = np.array([1.0, 3.0, 3.0, 2.0])
    assert "tangent" not in str(f.specialised(x).instance.ssa)
    assert "stopped" not in str(f.grad("x").specialised(x).instance.ssa)
    assert f.cost(x).total == f.cost_formula().evaluate(x_0=4) == 3 + 1
    assert "tangent" not in str(f.program)
    assert "tangent" in str(f.instance.traced.function)
    assert f.value_and_grad("x").cost(x).total <= 4 + (4 * 4 + 3) + 3
    np.testing.assert_allclose(f.hessian("x")(x), jax.hessian(lambda x: jnp.max(x) ** 2)(x))
    np.testing.assert_allclose(f.jvp("x")(x, np.ones(4)), 6.0)


def test_jax_differentiates_what_says_how():
    """`f.jax` is what JAX would make of the text, for its derivatives, too."""

    @tensor
    def f(x):
        return np.max(x) ** 2 + jnp.sum(jax.lax.stop_gradient(x) * x)

    x = jnp.array([2.0, 2.0, 2.0, 1.0])
    for function in (f.jax, jax.jit(f.jax)):
        np.testing.assert_allclose(jax.grad(function)(x), jax.grad(f.python)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(f.jax)(x), jax.hessian(f.python)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(f.jax)(x[None]), [f(x)], rtol=1e-6)


def test_descending_what_is_no_number_comes_first():
    @tensor
    def f(x):
        return jnp.argsort(x, descending=True)

    np.testing.assert_array_equal(f(NAN[0]), [1, 4, 2, 0, 3])


def test_derivatives_beside_what_is_no_number():
    @tensor
    def weighed(x):
        return np.sum(np.sort(x) * np.arange(5))

    @tensor
    def middle(x):
        return np.median(x)

    np.testing.assert_array_equal(weighed.grad("x")(NAN[0]), [1, 3, 2, 0, 4])
    np.testing.assert_array_equal(middle.grad("x")(NAN[0]), jax.grad(jnp.median)(NAN[0]))


def by_labels(x, labels, k: int):
    totals, counts = np.zeros(k), np.zeros(k)
    for i in range(len(x)):
        totals[labels[i]] += x[i] ** 2
        counts[labels[i]] += 1
    return np.sum(totals / counts)


def edges(x, labels, k: int):
    degree = np.zeros((k, 2))
    for i in range(len(x)):
        for j in range(2):
            degree[labels[i], j] -= x[i] * (j + 1)
    return np.sum(degree**2)


@pytest.mark.parametrize("function", [by_labels, edges])
def test_a_loop_that_adds_where_labels_say(function):
    f, labels = tensor(function), np.array([0, 2, 0, 1, 2])
    np.testing.assert_allclose(f(U, labels, 3), function(U, labels, 3))
    step = 1e-6 * np.eye(5)
    expected = [(function(U + h, labels, 3) - function(U - h, labels, 3)) / 2e-6 for h in step]
    np.testing.assert_allclose(f.grad("x")(U, labels, 3), expected, rtol=1e-6)
    with pytest.raises(TensorError, match="labels"):
        f(U, labels, 2)


def test_no_times_a_tile_is_reported():
    @tensor
    def f(x):
        return np.sum(np.tile(x, 0))

    with pytest.raises(TensorError, match="no times"):
        f(U)


def largest_so_far(x):
    m = -np.inf
    for i in range(len(x)):
        m = np.maximum(m, x[i])
    return m


def least_beyond(x):
    return np.min(np.where(x > 2.5, x, np.inf)) * 2


def attention(x):
    s = np.where(np.tril(np.ones((len(x), len(x)))) > 0, np.outer(x, x), -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.sum((p / p.sum(axis=-1, keepdims=True)) @ x)


def chain(x):
    a = np.array([0.0 if i == 0 else -np.inf for i in range(len(x))])
    for _ in range(40):
        a = np.logaddexp(a + x, np.roll(a, 1))
    return np.sum(np.exp(a - 150))


@pytest.mark.parametrize("function", [largest_so_far, least_beyond, attention, chain])
def test_infinity_as_a_constant(function):
    f = tensor(function)
    np.testing.assert_allclose(f(U), function(U), rtol=1e-12)
    np.testing.assert_allclose(f.interpret(U), function(U), rtol=1e-12)
    step = 1e-6 * np.eye(5)
    expected = [(function(U + h) - function(U - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(f.grad("x")(U), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinity_is_read_as_it_is_written(value):
    assert parse(str(Const(value)), {}) is Const(value)
    assert parse(str(Mul(Const(value), Const(2))), {}) is Mul(Const(value), Const(2))


def along_a_ring(x):
    n = len(x)
    return sum(x[i] * x[(i + 1) % n] for i in range(n))


def around(x):
    n = len(x)
    y = np.array([x[(i + 1) % n] - 2 * x[i] + x[(i - 1) % n] for i in range(n)])
    return np.sum(y**2)


def torus(x):
    A = np.outer(x, x)
    n, m = A.shape
    return sum(A[(i + 1) % n, (j - 2) % m] * A[i, j] for i in range(n) for j in range(m))


@pytest.mark.parametrize("function", [along_a_ring, around, torus])
def test_an_index_on_a_circle(function):
    f = tensor(function)
    np.testing.assert_allclose(f(U), function(U))
    step = 1e-6 * np.eye(5)
    expected = [(function(U + h) - function(U - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(f.grad("x")(U), expected, rtol=1e-5)


def test_an_index_more_than_once_round_is_refused():
    @tensor
    def f(x):
        n = len(x)
        return sum(x[(i + 3) % n] for i in range(n))

    assert f(U) == np.sum(U)
    with pytest.raises(TensorError, match="reads index"):
        f(U[:2])


def test_float64_stays_so_after_jax_s_own_gradient_of_the_same_array():
    """JAX took the array for its float32, and XLA failed: "expected f64[4], got f32[4]"."""
    largest = tensor(_largest_square)
    x = np.array([2.0, 2.0, 2.0, 1.0])
    jax.grad(largest.jax)(x)
    assert largest.grad("x")(x).dtype == np.float64
    assert largest(x) == 4.0


def _largest_square(x):
    return np.max(x**2)
