"""Loops over few numbers that XLA for CPUs compiles as one kernel, whatever else is done with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.derivative.elementary import TABLE
from jupyter_hvd.tensor.jax import single_kernels
from jupyter_hvd.tensor.jax.elementwise import find_kernel

MARK = 'xla_cpu_small_call = "true"'


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def lowered(function, *arguments):
    """What XLA gets."""
    return jax.jit(function.jax).lower(*arguments).as_text()


@tensor
def pendulums(a, k):
    """Two that a spring connects, by short vectors whose entries are written."""
    x = a.copy()
    v = np.zeros(2)
    for _ in range(20):
        f = np.zeros(2)
        f[0] = -np.sin(x[0]) + k * (x[1] - x[0])
        f[1] = -np.sin(x[1]) + k * (x[0] - x[1])
        v = v + 0.1 * f
        x = x + 0.1 * v
    return np.sum(x * x)


def pendulums_jax(a, k):
    def iteration(carried, _):
        x, v = carried
        v = v + 0.1 * (k * (x[::-1] - x) - jnp.sin(x))
        return (x + 0.1 * v, v), None

    (x, _), _ = jax.lax.scan(iteration, (a, 0 * a), None, length=20)
    return jnp.sum(x * x)


@tensor
def recurrent(W, x, h):
    for t in range(len(x)):
        h = np.tanh(W @ h) + x[t]
    return np.sum(h * h)


@tensor
def best_path(emit, trans):
    n, m = emit.shape
    v = np.zeros((n, m))
    v[0] = emit[0]
    for t in range(1, n):
        for k in range(m):
            best = v[t - 1, 0] + trans[0, k]
            for j in range(1, m):
                best = max(best, v[t - 1, j] + trans[j, k])
            v[t, k] = best + emit[t, k]
    return np.max(v[n - 1])


def test_value_and_gradient_are_one_kernel_each():
    arguments = normal(2), 0.4
    assert lowered(pendulums.value_and_grad("a", "k"), *arguments).count(MARK) == 2
    compiled = jax.jit(pendulums.jax).lower(*arguments).compile().as_text()
    entry = compiled[compiled.index("\nENTRY") :]
    assert " while(" not in entry
    assert " call(" in entry


def test_small_products_are_part_of_the_kernel():
    arguments = normal(4, 4), normal(9, 4), normal(4)
    gradient = recurrent.value_and_grad("W", "h")
    assert lowered(gradient, *arguments).count(MARK) == 2
    assert str(gradient.plan(*arguments)).count("  sum of products: ") == 2  # W·h and its adjoint
    assert recurrent(*arguments) == pytest.approx(float(recurrent.python(*arguments)))


@pytest.mark.parametrize("n", [64, 2000])
def test_loops_over_larger_arrays_are_several_kernels(n):
    text = lowered(recurrent, normal(n, n), normal(3, n), normal(n))
    assert MARK not in text
    assert "dot_general" in text


def test_inner_loops_are_part_of_the_kernel():
    emit, trans = normal(7, 4), normal(4, 4)
    assert MARK in lowered(best_path.value_and_grad("emit", "trans"), emit, trans)
    value, (by_emit, by_trans) = best_path.value_and_grad("emit", "trans")(emit, trans)

    def direct(emit, trans):
        iteration = lambda v, e: (jnp.max(v[:, None] + trans, 0) + e, None)  # noqa: E731
        return jnp.max(jax.lax.scan(iteration, emit[0], emit[1:])[0])

    with jax.enable_x64(True):
        expected, gradients = jax.value_and_grad(direct, (0, 1))(
            jnp.asarray(emit), jnp.asarray(trans)
        )
    assert value == pytest.approx(float(expected))
    np.testing.assert_allclose(by_emit, gradients[0])
    np.testing.assert_allclose(by_trans, gradients[1])


def test_what_xla_leaves_to_libraries_is_not_in_the_kernel():
    @tensor
    def solved(A, x):
        for _ in range(5):
            x = np.linalg.solve(A, x) + 1
        return np.sum(x * x)

    @tensor
    def ordered(x):
        for _ in range(5):
            x = np.sort(np.sin(3 * x))
        return x[0]

    A, x = normal(3, 3) + 4 * np.eye(3), normal(3)
    for function, arguments in ((solved, (A, x)), (ordered, (x,))):
        assert MARK not in lowered(function, *arguments)
        assert function(*arguments) == pytest.approx(float(function.python(*arguments)))
        assert np.isfinite(function.grad("x")(*arguments)).all()


def test_entries_that_data_choose_are_read_and_their_gradients_scattered():
    @tensor
    def walked(p, follow):
        total = 0.0
        for t in range(len(follow)):
            total = np.sin(total) + p[follow[t]]
        return total

    p, follow = normal(5), np.array([0, 3, 3, 1, 4, 0, 2])
    value, gradient = walked.value_and_grad("p")(p, follow)

    def direct(p):
        total = 0.0
        for k in follow:
            total = jnp.sin(total) + p[k]
        return total

    with jax.enable_x64(True):
        expected, slopes = jax.value_and_grad(direct)(jnp.asarray(p))
    assert value == pytest.approx(float(expected))
    np.testing.assert_allclose(gradient, slopes)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_every_type_of_number(dtype):
    a = normal(2).astype(dtype)
    found = pendulums.grad("a")(a, dtype(0.4))
    with jax.enable_x64(True):
        expected = jax.grad(pendulums_jax)(jnp.asarray(a.astype(np.float64)), 0.4)
    assert found.dtype == dtype
    tolerance = 0.02 if dtype == np.float16 else 1e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_jax_differentiates_and_batches_the_kernel():
    with jax.enable_x64(True):
        many, k = jnp.asarray(normal(6, 2)), jnp.asarray(0.4)
        for change in (
            lambda f: jax.vmap(f, (0, None)),
            lambda f: jax.vmap(jax.grad(f), (0, None)),
            lambda f: jax.vmap(jax.jit(jax.hessian(f)), (0, None)),
            lambda f: jax.vmap(jax.jacfwd(f, 1), (0, None)),
            lambda f: jax.grad(lambda a, k: jax.jit(jax.vmap(f, (0, None)))(a, k).sum(), 1),
        ):
            np.testing.assert_allclose(
                change(pendulums.jax)(many, k), change(pendulums_jax)(many, k), atol=1e-9
            )
        batched = jax.jit(jax.vmap(pendulums.jax, (0, None))).lower(many, k).as_text()
    assert MARK not in batched


def test_without_jit():
    a = normal(2)
    with jax.disable_jit():
        found = jax.grad(pendulums.jax)(a, 0.4)
    np.testing.assert_allclose(found, pendulums.grad("a")(a, 0.4), rtol=1e-5)


def test_several_devices_have_no_marked_calls(monkeypatch):
    monkeypatch.setattr(jax, "device_count", lambda: 2)

    @tensor
    def logistic_map(r, x):
        for k in range(len(r)):
            x = r[k] * x * (1 - x)
        return x

    assert MARK not in lowered(logistic_map, np.full(9, 3.1), 0.3)


def test_arguments_that_a_loop_does_not_need_are_read():
    """XLA aborts where a function in one kernel has an argument that it does not read."""

    def loop(x, unused):
        iteration = lambda x, _: (0.5 * x + 0.0 * jnp.where(x > x, unused, 0).sum(0), None)  # noqa: E731
        return jax.lax.scan(iteration, x, None, length=40)

    run = jax.jit(lambda x, unused: single_kernels.in_one_kernel(loop, x, unused))
    x, unused = jnp.ones(3), jnp.ones((4, 3))
    assert MARK in run.lower(x, unused).as_text()
    np.testing.assert_allclose(run(x, unused)[0], 0.5**40 * x)


def test_branches_are_not_in_the_kernel():
    """XLA aborts at a branch that does not read what the other one reads."""

    def loop(x, y):
        def iteration(x, _):
            return jax.lax.cond(x.sum() > 1, lambda x, y: x * y, lambda x, _: x + 1, x, y), None

        return jax.lax.scan(iteration, x, None, length=40)

    run = jax.jit(lambda x, y: single_kernels.in_one_kernel(loop, x, y))
    x, y = jnp.ones(3), jnp.full(3, 0.2)
    assert MARK not in run.lower(x, y).as_text()
    np.testing.assert_allclose(run(x, y)[0], loop(x, y)[0], rtol=1e-6)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_elementary_function_is_compiled(name):
    x, function = jnp.linspace(0.2, 0.8, 3), find_kernel(name)
    arity = TABLE[name].arity

    def loop(x):
        iteration = lambda x, _: (0.3 + 0 * x + 1e-3 * function(*[x] * arity), None)  # noqa: E731
        return jax.lax.scan(iteration, x, None, length=40)

    run = jax.jit(lambda x: single_kernels.in_one_kernel(loop, x))
    np.testing.assert_allclose(run(x)[0], loop(x)[0], rtol=1e-5)
    assert MARK in run.lower(x).as_text()
