"""Plans for a GPU, by its profile. They are made, and run, on the CPU."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import as_rigid_as_possible, diagonal_dot, gravity

import jupyter_hvd.tensor
from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.jax.devices import planned_for
from jupyter_hvd.tensor.language.units import in_seconds
from jupyter_hvd.tensor.lowering.choices import DENSE, MODEL
from jupyter_hvd.tensor.lowering.device import CPU, device_of, known_profiles
from jupyter_hvd.tensor.lowering.roofline import work_of

H100 = device_of("gpu", "NVIDIA H100 80GB HBM3")


def normal(*shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


@tensor
def mixture(a, mu, x):
    n, d, k = x.shape[0], x.shape[1], len(a)
    logs = [
        [a[c] - 0.5 * sum((x[i, j] - mu[c, j]) ** 2 for j in range(d)) for c in range(k)]
        for i in range(n)
    ]
    return sum(math.log(sum(math.exp(logs[i][c]) for c in range(k))) for i in range(n))


@tensor
def log_sum_exp(x):
    largest = x.max()
    return np.log(np.sum(np.exp(x - largest))) + largest


@tensor
def hmm_forward(A, B, pi, obs):
    alpha = pi * B[:, obs[0]]
    for t in range(1, len(obs)):
        alpha = (alpha @ A) * B[:, obs[t]]
    return np.log(alpha.sum())


@tensor
def moving_mean(x, decay):
    m = x[0]
    total = 0.0
    for t in range(1, len(x)):
        m = decay[t] * m + (1 - decay[t]) * x[t]
        total = total + np.sin(m)
    return total


@tensor
def logistic_map(x, r):
    for t in range(len(r)):
        x = r[t] * x * (1 - x)
    return x


def hidden_markov(count):
    rng = np.random.default_rng(0)
    A, B = rng.dirichlet(np.ones(5), 5), rng.dirichlet(np.ones(3), 5)
    return A, B, np.full(5, 0.2), rng.integers(0, 3, count).astype(np.int32)


@pytest.mark.parametrize(
    ("function", "wrt", "arguments"),
    [
        pytest.param(
            gravity, ("x", "m"), (normal(1500, 3), np.ones(1500, np.float32)), id="n-body"
        ),
        pytest.param(
            mixture, ("a", "mu"), (normal(25), normal(25, 10), normal(500, 10)), id="mixture"
        ),
        pytest.param(log_sum_exp, ("x",), (normal(10_000),), id="log-sum-exp"),
        pytest.param(
            as_rigid_as_possible,
            ("P", "a"),
            (
                (normal(64, 64), normal(64, 64)),
                normal(64, 64),
                (normal(64, 64), normal(64, 64)),
                np.ones((64, 64), bool),
                np.ones((64, 64), bool),
            ),
            id="as-rigid-as-possible",
        ),
    ],
)
def test_dense_programs_are_computed_in_dense_arrays(function, wrt, arguments):
    with planned_for(H100):
        assert function.grad(*wrt).plan(*arguments).choices == DENSE


def test_structure_is_kept_where_it_saves_most():
    with planned_for(H100):
        assert diagonal_dot.grad("x").plan(normal(2000)).choices == MODEL


def test_a_gpu_makes_nothing_in_blocks_that_fits_its_memory():
    x, m = normal(1500, 3), np.ones(1500, np.float32)
    made = gravity.grad("x")
    with planned_for(CPU):
        assert "rows of β at a time" in str(made.plan(x, m))
    with planned_for(H100):
        assert "rows of β at a time" not in str(made.plan(x, m))


LINEAR = [
    pytest.param(hmm_forward, "A", hidden_markov(200), "by matrices", id="matrices"),
    pytest.param(
        moving_mean,
        "x",
        (np.linspace(0, 3, 400), np.linspace(0.1, 0.9, 400)),
        "entry by entry",
        id="entries",
    ),
]


@pytest.mark.parametrize(("function", "wrt", "arguments", "form"), LINEAR)
def test_linear_loops_are_composed_two_by_two(function, wrt, arguments, form):
    expected = function.grad(wrt)(*arguments)
    with planned_for(H100):
        again = tensor(function.python).grad(wrt)
        plan = str(again.plan(*arguments))
        assert "composed pairwise" in plan
        assert form in plan
        np.testing.assert_allclose(again(*arguments), expected, rtol=1e-9)


def test_a_loop_that_is_not_linear_runs_one_iteration_after_the_other():
    r = np.linspace(2, 3, 40)
    with planned_for(H100):
        text = str(logistic_map.plan(0.3, r))
        assert "40 sequential iterations of t" in text
        assert "composed" not in text


def test_where_products_of_iterations_overflow_the_loop_runs_one_by_one():
    @tensor
    def scaled(x, factor):
        for t in range(len(factor)):
            x = factor[t] * x
        return x

    factor = np.full(400, 1e10)  # whose product is ∞, and 0·∞ is no number
    x = np.array([0.0, 0.0])
    with planned_for(H100):
        assert "composed pairwise" in str(scaled.plan(x, factor))
        np.testing.assert_array_equal(scaled(x, factor), x)


def test_a_device_without_a_profile_is_planned_for_as_the_slowest_of_its_platform():
    other = device_of("gpu", "NVIDIA L4")
    assert other.name == "NVIDIA L4"
    slowest = min(
        (d for d in known_profiles() if d.platform == "gpu"), key=lambda d: d.bytes_per_second
    )
    assert other.bytes_per_second == slowest.bytes_per_second
    assert device_of("cpu", "cpu") == CPU
    assert not device_of("tpu", "TPU v5").windows


def test_work_counts_what_is_stored_and_computed():
    x, y = np.ones((300, 200), np.float32), np.ones((200, 100), np.float32)
    work = work_of(tensor(lambda x, y: x @ y).plan(x, y))
    assert work.products == 2 * 300 * 200 * 100
    assert work.kernels == 1
    assert work.stored >= x.size + y.size + 300 * 100


def test_the_tensor_language_needs_no_installed_distribution():
    sources = Path(jupyter_hvd.tensor.__file__).parent.rglob("*.py")
    assert not [file for file in sources if "importlib.metadata" in file.read_text()]


def test_a_derivative_is_remembered_by_names_and_options():
    assert gravity.grad("x") is gravity.grad(0)
    assert gravity.grad("x") is not gravity.grad("x", checkpoint=True)
    assert gravity.grad("x") is not gravity.grad("m")
    assert gravity.value_and_grad("x") is gravity.value_and_grad("x")
    assert gravity.vjp("x") is gravity.vjp("x")
    assert gravity.jvp("x") is gravity.jvp("x")
    assert gravity.hessian("x") is gravity.hessian("x")
    assert gravity.hessian("x", format="csr") is not gravity.hessian("x")
    assert gravity.sharded("i").grad("x") is not gravity.grad("x")


def test_random_matrices_compose_as_they_do_one_after_the_other():
    @tensor
    def steps(A, b, x):
        for t in range(b.shape[0]):
            x = A @ x + b[t]
        return x.sum()

    A, b, x = (
        scale * normal(*shape).astype(float) for scale, *shape in ((0.4, 6, 6), (1, 50, 6), (1, 6))
    )

    def direct(A, b, x):
        for row in b:
            x = A @ x + row
        return x.sum()

    with planned_for(H100):
        assert "by matrices" in str(steps.plan(A, b, x))
        np.testing.assert_allclose(steps(A, b, x), direct(A, b, x), rtol=1e-9)
        with jax.enable_x64(True):
            expected = jax.grad(direct)(jnp.asarray(A), b, x)
        np.testing.assert_allclose(steps.grad("A")(A, b, x), expected, rtol=1e-9)


def test_products_of_matrices_and_vectors_are_fused_on_a_gpu():
    @tensor
    def form(x, m):
        n = len(x)
        return sum(m[i] * m[j] * np.exp(x[i] - x[j]) for i in range(n) for j in range(n))

    x, m = normal(50), normal(50)
    with planned_for(CPU):
        assert "dot_general" in str(form.plan(x, m))
        expected = form(x, m)
    with planned_for(H100):
        again = tensor(form.python)
        call = again.specialised(x, m)
        made = kernel(call.instance, call.sizes)
        plan = made.compile((), np.dtype(np.float32), MODEL)
        assert "dot_general" not in str(plan)
        np.testing.assert_allclose(made.executed(plan, (x, m)), expected, rtol=1e-5)


def test_a_plan_says_what_a_call_takes_at_least():
    x = jax.ShapeDtypeStruct((4096, 4096), jnp.float32)
    with planned_for(H100):
        said = str(tensor(lambda x, y: x @ y).plan(x, x)).splitlines()[-1]
    # 2·4096³ operations at 4.2e14 in a second; what is read and written takes less.
    parts = "arithmetic 327 µs, launch 100 µs"
    assert said == f"429 µs at least by the profile of NVIDIA H100: {parts}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.0, "2 s"), (0.0123, "12.3 ms"), (7e-6, "7 µs"), (5e-10, "0.5 ns"), (0.0, "0 ns")],
)
def test_times_in_words(seconds, text):
    assert in_seconds(seconds) == text
