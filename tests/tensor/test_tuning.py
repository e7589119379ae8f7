"""`f.tune`: every way to compute a program gives the same, and what is measured is remembered."""

import json
import os
import subprocess
import sys
import warnings
from copy import copy
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import CASES

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax import kernel as kernel_module
from jupyter_hvd.tensor.jax import stored_choices, tuning
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.jax.dense_candidate import DenseProgram
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.language.errors import TensorError
from jupyter_hvd.tensor.lowering import dataflow
from jupyter_hvd.tensor.lowering.choices import CANDIDATES, DENSE, MODEL, Choices


@pytest.fixture(autouse=True)
def forgetful(tmp_path, monkeypatch):
    """A cache of its own, and nothing known from before."""
    monkeypatch.setenv("JUPYTER_HVD_CACHE", str(tmp_path))
    monkeypatch.delenv("JUPYTER_HVD_TUNE")
    monkeypatch.setattr(stored_choices, "_make_once", {})
    monkeypatch.setattr(stored_choices, "_told", False)


@tensor
def blur(x):
    n = len(x)
    y = [x[i - 1] + 2 * x[i] + x[i + 1] if 0 < i < n - 1 else 0 for i in range(n)]
    return sum((y[i - 1] - y[i + 1]) ** 2 for i in range(1, n - 1))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def test_a_call_traces_jax_s_own_derivative_once(monkeypatch):
    """The trace that says whether it fits is the one that is compiled."""
    traced = []

    def run(self, plan, arrays, before=DenseProgram.run):
        traced.append(plan)
        return before(self, plan, arrays)

    @tensor
    def nearest(c, x):
        return np.sum(np.min((x[:, None] - c) ** 2, axis=1))

    monkeypatch.setattr(DenseProgram, "run", run)
    gradient, c, x = nearest.grad("c"), normal(4), normal(5, seed=1)
    np.testing.assert_allclose(gradient(c, x), gradient.interpret(c, x))
    assert len(traced) == 1


def some(case):
    """XLA takes half a minute for each way to compute the largest."""
    large = case.name == "as_rigid_as_possible"
    return pytest.param(case, id=case.name, marks=[pytest.mark.thorough] if large else [])


@pytest.mark.slow
@pytest.mark.usefixtures("kernels_kept")
@pytest.mark.parametrize("case", list(map(some, CASES)))
def test_each_way_gives_the_same(case, monkeypatch, blocks_of):
    for limit in ("FENCED", "COSTLY"):
        monkeypatch.setattr(dataflow, limit, 2)
    blocks_of(8, 4)
    cotangent = jax.tree_util.tree_map(np.ones_like, case.function(*case.arguments))
    call = case.function.vjp(*case.wrt).specialised(*case.arguments, cotangent)
    made = kernel(call.instance, call.sizes)
    with jax.enable_x64(True):
        operands = made.operands(tuple(call.arguments.values()))
        key = made.counts(operands), made.dtype(operands)
        plans = tuning.drop_equal_plans({way: made.compile(*key, way) for way in CANDIDATES})
        expected, *found = (
            jax.jit(partial(made.executed, plan))(operands) for plan in plans.values()
        )
    for values in found:
        jax.tree_util.tree_map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9), values, expected
        )


def test_a_table_of_times():
    x = jnp.linspace(0.0, 1.0, 300_000)
    steps = []
    found = blur.grad("x").tune(x, repeats=3, progress=lambda done, of: steps.append((done, of)))
    assert found.candidates[0].choices == MODEL
    assert len(found.candidates) > 1
    assert all(c.quartiles and c.quartiles[0] > 0 for c in found.candidates)
    assert str(found).count("chosen") == 1
    assert "by the model" in str(found)
    assert steps[-1] == (2 * len(found.candidates), 2 * len(found.candidates))


def test_the_fastest_is_taken_from_then_on(monkeypatch, tmp_path):
    monkeypatch.setattr(tuning, "_quartiles", lambda _: next(given))
    x = jnp.linspace(0.0, 1.0, 1000)
    gradient = blur.grad("x")
    before = gradient(x)
    given = iter([(2.0, 3.0, 4.0), (1.0, 1.5, 1.9), *[(2.0, 3.0, 4.0)] * 9])
    assert gradient.tune(x, repeats=1).chosen == Choices(fused=False)
    assert gradient.plan(x).choices == Choices(fused=False)
    np.testing.assert_allclose(gradient(x), before, rtol=1e-5)
    (file,) = (tmp_path / "kernels").iterdir()
    assert json.loads(file.read_text()) == {"omitted": ["fused"]}
    # About this size it counts too, at another and for the function itself it does not.
    assert gradient.plan(x[:700]).choices == Choices(fused=False)
    assert gradient.plan(x[:100]).choices == MODEL
    assert blur.plan(x).choices == MODEL


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [((2, 3, 4), (1, 2, 2.5), 0), ((2, 3, 4), (1, 1.5, 1.9), 1), ((2, 3, 4), (3, 3.1, 4), 0)],
)
def test_only_what_is_clearly_faster_is_chosen(first, second, taken):
    ways = CANDIDATES[:2]
    once = {way: [0.0] for way in ways}
    assert (
        tuning._choose_fastest(dict(zip(ways, (first, second), strict=True)), once) == ways[taken]
    )


@pytest.mark.parametrize(
    ("first", "second", "taken"),
    [
        ([3, 9, 3, 5, 3, 4, 3], [2, 8, 2, 6, 2, 3, 2], 1),
        ([3, 9, 3, 5, 3, 4, 3], [2, 8, 4, 6, 2, 3, 2], 0),
        ([3, 9, 3], [2, 8, 2], 0),
    ],
)
def test_what_is_faster_in_nearly_all_rounds_is_chosen_too(first, second, taken):
    ways = CANDIDATES[:2]
    turns = dict(zip(ways, (first, second), strict=True))
    quartiles = {way: tuning._quartiles(times) for way, times in turns.items()}
    assert tuning._choose_fastest(quartiles, turns) == ways[taken]


@pytest.mark.slow
def test_another_process_remembers():
    program = (
        "import jax.numpy as jnp, os, sys\n"
        "from test_tuning import blur\n"
        "from jupyter_hvd.tensor.lowering.choices import Choices\n"
        "from jupyter_hvd.tensor.jax import stored_choices\n"
        "g, x = blur.grad('x'), jnp.ones(64)\n"
        "found = g.plan(x).choices\n"
        "made = g.specialised(x)\n"
        "from jupyter_hvd.tensor.jax.backend import kernel\n"
        "k = kernel(made.instance, made.sizes)\n"
        "stored_choices.store_choice(k.digest(k.counts([x]), k.dtype([x])), Choices(apart=False))\n"
        "print(found)\n"
    )
    said = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        said.append(done.stdout.strip())
    assert said == ["by the model", "not apart"]


@pytest.mark.parametrize(
    "content", ["", "[]", '{"omitted": "fused"}', '{"omitted": ["speed"]}', "\x00"]
)
def test_what_is_no_choice_on_disk_is_left_alone(tmp_path, content):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "name.json").write_text(content)
    assert stored_choices.find_choice("name") is None


def test_a_disk_that_takes_nothing_is_reported_once(tmp_path):
    (tmp_path / "kernels").write_text("a file")
    x = jnp.ones(16)
    with pytest.warns(UserWarning, match="in this process only"):
        blur.tune(x, repeats=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blur.grad("x").tune(x, repeats=1)


def test_what_differs_or_fails_is_not_chosen(monkeypatch):
    compiled = tuning._compile_candidate

    def broken(made, plan, operands, lines):
        run = compiled(made, plan, operands, lines)
        if plan.choices.omitted == ("fused",):
            return lambda *arrays: run(*arrays) + 1
        if plan.choices != MODEL:
            raise TensorError("no memory")
        return run

    monkeypatch.setattr(tuning, "_compile_candidate", broken)
    found = blur.grad("x").tune(jnp.linspace(0.0, 1.0, 300_000), repeats=1)
    assert found.chosen == MODEL
    assert "its results differ" in str(found)
    assert "no memory" in str(found)


def slope_by_jax(x):
    return jax.grad(lambda x: jnp.sum(jnp.log(x) * x))(x)


@tensor
def entropies(x):
    return sum(np.log(x[i]) * x[i] for i in range(len(x)))


def test_a_large_first_call_measures_jaxs_own_way_beside_the_models(monkeypatch, tmp_path):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    monkeypatch.setattr(tuning, "SLOWER", 1000)
    monkeypatch.setattr(tuning, "BUSY", np.inf)
    measured = []
    monkeypatch.setattr(
        tuning, "_choose_fastest", lambda found, _: measured.append([*found]) or DENSE
    )
    x = jnp.linspace(0.5, 1.0, 4096)
    gradient = copy(entropies).grad("x")
    inside = jax.jit(gradient.jax)(x)  # where nothing can be measured
    assert not measured
    np.testing.assert_allclose(gradient(x), slope_by_jax(x), rtol=1e-5)
    assert measured == [[MODEL, DENSE]]
    assert gradient.plan(x).choices == DENSE
    assert "JAX's own" in str(gradient.plan(x))
    (file,) = (tmp_path / "kernels").iterdir()
    assert json.loads(file.read_text()) == {"dense": True}
    monkeypatch.setattr(stored_choices, "_make_once", {})  # as in another process
    np.testing.assert_allclose(entropies.grad("x")(x), inside, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(entropies.grad("x").jax)(x), inside, rtol=1e-5)
    assert len(measured) == 1
    monkeypatch.setenv("JUPYTER_HVD_TUNE", "never")
    entropies.grad("x")(x[:1500])
    assert len(measured) == 1


def test_a_first_call_plans_and_compiles_each_way_once(monkeypatch, caplog):
    monkeypatch.setattr(tuning, "LARGE", 1)
    monkeypatch.setattr(tuning, "SLOWER", np.inf)
    lower, lowered = kernel_module.lower, []
    monkeypatch.setattr(kernel_module, "lower", lambda *a: lowered.append(a) or lower(*a))
    gradient, x = copy(entropies).grad("x"), jnp.linspace(0.5, 1.0, 5000)
    with jax.log_compiles(True):
        gradient(x)
    compiled = [m for m in caplog.messages if m.startswith("Finished XLA compilation of jit(run)")]
    assert len(lowered) == 1
    assert len(compiled) == 2  # the model's and JAX's own


@pytest.mark.parametrize(
    ("model", "dense", "taken"),
    [(0.7, 0.1, DENSE), (0.7, 0.4, MODEL), (0.1, 0.7, MODEL), (11, 1, MODEL)],
)
def test_what_takes_long_once_is_given_up_for_what_is_much_faster(monkeypatch, model, dense, taken):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    seconds = iter([model, *([model] * 2 if model < 0.5 else []), dense, dense, dense])
    monkeypatch.setattr(tuning, "time_calls", lambda _: next(seconds))
    gradient, x = copy(entropies).grad("x"), jnp.linspace(0.5, 1.0, 4096)
    np.testing.assert_allclose(gradient(x), slope_by_jax(x), rtol=1e-5)
    assert gradient.plan(x).choices == taken


@pytest.mark.parametrize(
    ("model", "other", "settled"),
    [
        ((2, 2.1, 2.2), (2.1, 2.2, 2.3), True),  # alike, and nothing else runs
        ((2, 3, 4), (2.1, 3.1, 5), False),
        ((2, 3, 4), (5, 7, 9), True),  # nothing could make the other the faster one
        ((2, 3, 4), (4, 5, 9), False),
    ],
)
def test_choices_of_a_busy_machine_are_not_resolved(model, other, settled):
    assert tuning.is_conclusive({MODEL: model, DENSE: other}, MODEL) == settled


@pytest.mark.parametrize("settled", [True, False])
def test_a_first_call_keeps_on_disk_what_is_resolved(monkeypatch, tmp_path, settled):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    monkeypatch.setattr(tuning, "is_conclusive", lambda *_: settled)
    gradient, x = copy(entropies).grad("x"), jnp.linspace(0.5, 1.0, 4096)
    gradient(x)
    assert (tmp_path / "kernels").exists() == settled
    monkeypatch.setattr(tuning, "tune", None)
    gradient(x)  # this process measures once


def test_a_way_that_xla_cannot_go_is_reported_once(monkeypatch):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    monkeypatch.setattr(tuning, "_told", set())
    compiled = tuning._compile_candidate

    def broken(made, plan, operands, lines):
        if plan.choices == DENSE:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")
        return compiled(made, plan, operands, lines)

    monkeypatch.setattr(tuning, "_compile_candidate", broken)
    with pytest.warns(UserWarning, match="RESOURCE_EXHAUSTED"):
        copy(entropies).grad("x")(jnp.linspace(0.5, 1.0, 4096))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copy(entropies).grad("x")(jnp.linspace(0.5, 1.0, 9000))


def test_what_the_model_has_no_memory_for_is_computed_jaxs_way(monkeypatch):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    compiled = tuning._compile_candidate

    def small(made, plan, operands, lines):
        if plan.choices == MODEL:
            raise TensorError("no memory")
        return compiled(made, plan, operands, lines)

    monkeypatch.setattr(tuning, "_compile_candidate", small)
    gradient, x = copy(entropies).grad("x"), jnp.linspace(0.5, 1.0, 4096)
    np.testing.assert_allclose(gradient(x), slope_by_jax(x), rtol=1e-5)
    assert gradient.plan(x).choices == DENSE


@tensor
def likelihood(log_A, log_B):
    alpha = log_B[0]
    for t in range(1, log_B.shape[0]):
        s = alpha[:, None] + log_A
        m = np.max(s, axis=0)
        alpha = log_B[t] + m + np.log(np.sum(np.exp(s - m), axis=0))
    return np.sum(alpha)


@tensor
def largest_on_diagonal(x):
    n = len(x)
    D = [[x[i] if i == j else 0 for j in range(n)] for i in range(n)]
    return np.max(x) * sum(D[i][j] * D[i][j] for i in range(n) for j in range(n))


@tensor
def both_ends(x, y):
    h, n = 0 * y, len(x)
    for t in range(n):
        h = np.tanh(h + x[n - 1 - t] * y + (x[t - 1] if t > 0 else 0))
        h = 2 * h if t == 3 else h
    return np.sum(h)


def test_largest_entries_are_one_reduction_without_any_measuring():
    """In a loop that JAX writes out each iteration has a reduction of its own, and the model's way compiles sooner.

    Iterations over few numbers are one kernel.
    """
    A, B = np.linspace(0, 1, 1600).reshape(40, 40), np.linspace(0, 1, 2800).reshape(70, 40)
    gradient = likelihood.grad("log_A")
    assert gradient.plan(A, B).choices == DENSE
    gradient(A, B)
    assert gradient.plan(A, B).choices == DENSE
    assert gradient.plan(A, B[:5]).choices == MODEL
    assert gradient.plan(A[:3, :3], B[:, :3]).choices == MODEL
    assert entropies.grad("x").plan(B[0] + 1).choices == MODEL


def test_largest_entries_beside_what_is_sparse_are_halved():
    """In dense arrays n² entries would be made, of which the kernel visits n."""
    x = np.linspace(0, 1, 512)
    assert largest_on_diagonal.grad("x").plan(x).choices == MODEL


@pytest.mark.parametrize(
    ("function", "arguments", "wrt"),
    [
        (likelihood, (normal(3, 3), normal(50, 3, seed=1)), ("log_A", "log_B")),
        (both_ends, (normal(40), normal(3, seed=1)), ("x", "y")),
    ],
)
def test_long_loops_are_scans_in_jaxs_own_way(function, arguments, wrt):
    """They were written out, so that of more than 64 turns there was no such way."""
    for f in (function, function.grad(*wrt), function.value_and_grad(*wrt)):
        call = f.specialised(*arguments)
        made = kernel(call.instance, call.sizes)
        operands = made.operands(tuple(call.arguments.values()))
        key = made.counts(operands), made.dtype(operands)
        plan = made.compile(*key, DENSE)
        made.require_fit(plan, operands)
        assert "scan[" in str(jax.make_jaxpr(lambda *xs: made.executed(plan, xs))(*operands))  # noqa: B023
        found, expected = (made.executed(made.compile(*key, c), operands) for c in (DENSE, MODEL))
        jax.tree_util.tree_map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), found, expected
        )


def test_what_is_no_way_of_jaxs_is_looked_at_once(monkeypatch):
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    monkeypatch.setattr(kernel_module, "WORSE", 0)
    looked = []
    is_dense = Kernel.is_dense_worth_trying
    monkeypatch.setattr(
        Kernel, "is_dense_worth_trying", lambda *given: looked.append(1) or is_dense(*given)
    )

    @tensor
    def picked(x, src):
        return sum(x[src[e]] * x[e] for e in range(len(x)))

    gradient, x = picked.grad("x"), np.linspace(0.5, 1.0, 4096)
    for _ in range(3):  # an array of integers that can change is looked at in each call
        gradient(x, np.arange(4096))
    assert len(looked) == 1


@tensor
def banded(x):
    return sum(x[i] if i <= j <= i + 1 else 0 for i in range(len(x)) for j in range(len(x)))


@tensor
def slow_loop(x):
    y = 0
    for t in range(100):
        y = 0.5 * y + x[2 * t]
    return y


@tensor
def where_defined(x):
    n = len(x)
    y = [[np.sqrt(x[i] - x[j]) for j in range(n)] for i in range(n)]
    return sum(y[i][i] for i in range(n))


@pytest.mark.parametrize(
    ("function", "argument", "why"),
    [
        (slow_loop, jnp.ones(200), "more than 64 iterations"),
        (where_defined, jnp.ones(64), "never read"),
        (blur.hessian("x"), jnp.ones(64), "no such derivative"),
    ],
)
def test_where_jax_has_no_way_of_its_own(function, argument, why):
    found = function.tune(argument, repeats=1)
    assert why in next(c.reason for c in found.candidates if c.choices == DENSE)


def test_jaxs_own_way_makes_no_array_much_larger_than_the_data(blocks_of):
    blocks_of(1, 1 << 18)
    found = banded.grad("x").tune(jnp.ones(300), repeats=1)
    assert "much larger" in next(c.reason for c in found.candidates if c.choices == DENSE)
    stored_choices.store_choice(digest_of(banded.grad("x"), jnp.ones(300)), DENSE)
    np.testing.assert_allclose(banded.grad("x")(jnp.ones(300)), [*np.full(299, 2.0), 1])


def digest_of(function, *arguments):
    made = function.specialised(*arguments)
    k = kernel(made.instance, made.sizes)
    return k.digest(k.counts(arguments), k.dtype(arguments))


@tensor
def looked_up(x, src, dst):
    n = len(src)
    sent = [sum(x[e] if dst[e] == i else 0 for e in range(n)) for i in range(n)]
    twice = sum(
        x[j] * x[k]
        for e in range(n)
        for j in range(n)
        for k in range(n)
        if src[k] == j and dst[e] == k
    )
    return twice + sum(sent[i] * sent[i] for i in range(n))


@tensor
def shorter(x, src):
    """Places from 3 on are none of those that are summed, though x is longer."""
    return sum(x[j] * x[j] for e in range(len(src)) for j in range(3) if src[e] == j)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (looked_up, (jnp.arange(1.0, 6.0), np.array([1, 0, 4, 4, 2]), np.array([3, 3, 0, 1, 4]))),
        (shorter, (jnp.arange(1.0, 6.0), np.array([1, 4, 2, 3, 0, 1]))),
    ],
)
def test_jaxs_own_way_looks_up_and_scatters(function, arguments):
    call = function.grad("x").specialised(*arguments)
    made = kernel(call.instance, call.sizes)
    operands = made.operands(tuple(call.arguments.values()))
    plan = made.compile(made.counts(operands), made.dtype(operands), DENSE)
    made.require_fit(plan, operands)
    expected = function.grad("x").interpret(*arguments)
    np.testing.assert_allclose(made.plain.run(plan, operands), expected, rtol=1e-6)


def by_jaxs_own_way(function, *arguments):
    call = function.specialised(*arguments)
    made = kernel(call.instance, call.sizes)
    plan = made.compile((), made.dtype(arguments), DENSE)
    made.require_fit(plan, arguments)
    return jax.jit(lambda *xs: made.plain.run(plan, xs)), arguments


@tensor
def ends(x):
    """The largest of columns, the smallest of rows, and the largest of all; one more that only two entries have."""
    top, low = np.max(x, axis=0), np.min(x, axis=1)
    twice = max(x[0, 0], x[1, 1])
    return np.sum(top**2) + np.sum(low**3) * np.max(x) + twice


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("shape", [(7, 4), (2, 5), (1, 3)])
def test_largest_entries_are_one_reduction_jaxs_own_way(shape, ties):
    x = np.random.default_rng(0).normal(size=shape)
    x = jnp.asarray(np.round(x) if ties else x)
    if shape[0] == 1:
        x = jnp.concatenate([x, x - 1])
    run, given = by_jaxs_own_way(ends.grad("x"), x)
    np.testing.assert_allclose(run(*given), ends.grad("x").interpret(*given), rtol=1e-5)
    jaxpr = str(jax.make_jaxpr(run)(*given))
    assert "reduce_max" in jaxpr
    assert "reduce_min" in jaxpr


def test_what_is_read_half_way_is_no_reduction():
    @tensor
    def half(x):
        once = [np.maximum(x[i], x[i + 2]) for i in range(2)]
        twice = [np.maximum(once[i], once[i + 1]) for i in range(1)]
        return twice[0] + 3 * once[0]

    x = jnp.array([1.0, 4.0, 3.0, 2.0])
    run, given = by_jaxs_own_way(half.grad("x"), x)
    expected = np.asarray(half.grad("x").interpret(x), float)
    np.testing.assert_allclose(run(*given), expected, rtol=1e-6)
    assert "reduce_max" not in str(jax.make_jaxpr(run)(*given))


def test_a_nan_among_the_entries_is_the_largest():
    @tensor
    def largest(x):
        return np.max(x) ** 2

    x = jnp.array([1.0, jnp.nan, 3.0, 2.0])
    run, given = by_jaxs_own_way(largest.grad("x"), x)
    np.testing.assert_array_equal(np.isnan(run(*given)), np.isnan(largest.grad("x")(x)))


def test_products_in_jaxs_own_way_are_those_of_matrices_where_there_are_some():
    @tensor
    def spread(x, W):
        y = x @ W
        return np.sum(np.var(y, axis=0))

    x, W = jnp.arange(12.0).reshape(4, 3), jnp.ones((3, 2))
    run, given = by_jaxs_own_way(spread.grad("W"), x, W)
    np.testing.assert_allclose(run(*given), spread.grad("W").interpret(*given), atol=1e-4)
    jaxpr = str(jax.make_jaxpr(run)(*given))
    assert jaxpr.count("dot_general") == 2
    assert "transpose[permutation=(1, 0)] f" not in jaxpr


@tensor
def lower_triangles(A, x):
    """Conditions on one factor, on none of them alone, and one that keeps a root from negative numbers."""
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n) if j <= i) for i in range(n)]
    z = sum(np.sqrt(x[j] - 1) * A[i, j] for i in range(n) for j in range(n) if j > 1 and i < j)
    return sum(y[i] ** 2 for i in range(n)) + z


def test_a_condition_on_a_factor_is_none_on_the_product_jaxs_own_way():
    A, x = jnp.arange(16.0).reshape(4, 4), jnp.array([1.0, 0.5, 3.0, 4.0])
    run, given = by_jaxs_own_way(lower_triangles.grad("A", "x"), A, x)
    expected = lower_triangles.grad("A", "x")(A, x)
    for found, other in zip(run(*given), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-5)
    assert "dot_general" in str(jax.make_jaxpr(run)(*given))


def test_no_nan_comes_of_what_a_condition_leaves_out():
    @tensor
    def guarded(x):
        return sum(np.sqrt(x[i]) / x[i] if i > 0 else 0 for i in range(len(x)))

    x = jnp.array([0.0, 1.0, 4.0, jnp.nan])[:3]
    call = guarded.grad("x").specialised(x)
    made = kernel(call.instance, call.sizes)
    run = made.plain.run(made.compile(made.counts([x]), made.dtype([x]), DENSE), [x])
    np.testing.assert_allclose(run, guarded.grad("x")(x), rtol=1e-6)


def test_cancelled():
    with pytest.raises(tuning.TuningCancelledError):
        blur.tune(jnp.ones(16), cancelled=lambda: True)
    assert not stored_choices._make_once or set(stored_choices._make_once.values()) == {None}


def test_a_sharded_function_is_not_tuned():
    with pytest.raises(TensorError, match="tune the function itself"):
        blur.sharded("i").tune(jnp.ones(16))


def test_arguments_are_checked():
    with pytest.raises(TensorError, match="x"):
        blur.tune("none")


@tensor
def apart_from_columns(A):
    n, m = A.shape
    y = [np.log(sum(np.exp(A[i, j]) for i in range(n))) for j in range(m)]
    return sum(np.tanh(A[i, j] - y[j]) ** 2 / 3 for i in range(n) for j in range(m))


@tensor
def gated(w, x, h):
    n = len(x)
    gates = [[w[g, j] * (x[j] if g < 2 else h[j]) for j in range(n)] for g in range(3)]
    return sum(np.tanh(gates[0][j]) * gates[2][j] + gates[1][j] for j in range(n))


def in_dense_arrays(gradient, *arguments):
    """JAX's own way to compute a gradient, as a jaxpr, and its result."""
    call = gradient.specialised(*arguments)
    made = kernel(call.instance, call.sizes)
    operands = made.operands(tuple(call.arguments.values()))
    plan = made.compile(made.counts(operands), made.dtype(operands), DENSE)
    jaxpr = jax.make_jaxpr(lambda *xs: made.executed(plan, xs))(*operands)
    return str(jaxpr), made.executed(plan, operands)


def test_rows_that_are_read_by_their_numbers_are_arrays_of_their_own():
    arguments = normal(3, 20), normal(20, seed=1), normal(20, seed=2)
    text, found = in_dense_arrays(gated.grad("w"), *arguments)
    assert "select_n" not in text
    np.testing.assert_allclose(found, gated.grad("w").interpret(*arguments), rtol=1e-6)


def test_jaxs_own_way_is_what_a_jax_user_writes():
    """No array is turned round to be summed, and smooth functions have JAX's own slopes."""
    text, _ = in_dense_arrays(apart_from_columns.grad("A"), normal(40, 30))
    assert "transpose[" not in text
    assert "custom_jvp_call" not in text
    assert "dot_general" not in text
    assert text.count("sub ") >= 2  # the columns' logarithms, and in the slope of tanh


def test_a_first_call_compiles_no_long_program(monkeypatch):
    """Twenty turns of a wave, written out, took XLA a minute."""
    monkeypatch.setattr(tuning, "LARGE", 1 << 10)
    monkeypatch.setattr(tuning, "LINES", 5)
    x = jnp.linspace(0.5, 1.0, 4096)
    np.testing.assert_allclose(entropies.grad("x")(x), slope_by_jax(x), rtol=1e-5)
    assert entropies.grad("x").plan(x).choices == MODEL
    assert "long to compile" not in str(entropies.grad("x").tune(x, repeats=1))


def test_loops_that_jax_would_write_out_are_not_traced_for_their_reductions(monkeypatch):
    from scipy.special import logsumexp

    @tensor
    def soft_alignment(x, y):
        n, m = len(x), len(y)
        R = np.zeros((n + 1, m + 1))
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                before = np.array([-R[i - 1, j], -R[i, j - 1], -R[i - 1, j - 1]])
                R[i, j] = (x[i - 1] - y[j - 1]) ** 2 - logsumexp(before)
        return R[n, m]

    def traced(*_):
        raise AssertionError("JAX traces every iteration")

    monkeypatch.setattr(Kernel, "is_dense_worth_trying", traced)
    x, y = np.linspace(0, 1, 4), np.linspace(0.2, 0.9, 4)
    found, moved = soft_alignment.grad("x")(x, y), np.array([0, 1e-6, 0, 0])
    change = soft_alignment(x + moved, y) - soft_alignment(x - moved, y)
    np.testing.assert_allclose(found[1], change / 2e-6, rtol=1e-5)
