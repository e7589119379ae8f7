"""`f.plan(*args)`: what is printed of a kernel is what runs."""

from pathlib import Path

import jax
import numpy as np
import pytest
from programs import CASES, gravity

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax import backend, execute
from jupyter_hvd.tensor.jax import kernel as kernel_module
from jupyter_hvd.tensor.lowering import dataflow, tiling
from jupyter_hvd.tensor.lowering.device import CPU, device_of
from jupyter_hvd.tensor.lowering.strategy import (
    Convolution,
    Multiplied,
    Reduced,
    Unrolled,
    choose_kernel,
)


@tensor
def residual(A, x, y):
    n, m = A.shape
    r = [sum(A[i, j] * x[j] for j in range(m)) - y[i] for i in range(n)]
    return sum(r[i] ** 2 for i in range(n))


@tensor
def below(A, x):
    n = len(x)
    return [sum(A[i, j] * x[j] for j in range(n) if j <= i) for i in range(n)]


@tensor
def edges(x, src, dst):
    return sum((x[src[e]] - x[dst[e]]) ** 2 for e in range(len(src)))


@tensor
def moving(x, c):
    n, k = len(x), len(c)
    return [sum(x[i + j] * c[j] for j in range(k)) for i in range(n - k + 1)]


def test_the_plan_of_a_residual_as_documented():
    A, x, y = (np.ones(shape, np.float32) for shape in ((3, 4), 4, 3))
    text = str(residual.plan(A, x, y))
    assert "X2      12 B  3          u0<3 Σ r0<4    dot_general: X0[u0, r0]·X1[r0]\n" in text
    guide = Path(__file__).parents[2] / "docs" / "tensor-language-reference.md"
    assert text in guide.read_text(), f"docs/tensor-language-reference.md should have\n{text}"


def lines(function, *arguments):
    """The lines of a plan, those of arguments and constants apart."""
    rows = str(function.plan(*arguments)).splitlines()[1:]
    return [row for row in rows if "argument " not in row and "constant " not in row]


def test_how_arrays_are_stored_and_made():
    A, x = np.ones((50, 50)), np.ones(50)
    src = np.arange(50)
    (dot,) = (row for row in lines(below, A, x) if "dot_general" in row)
    assert "where r0≤u0" in dot
    assert any("X0[δ0] with δ0 = src[u0]" in row for row in lines(edges, x, src, src))
    scatters = [row for row in lines(edges.grad("x"), x, src, src) if "scatter-add" in row]
    assert len(scatters) == 2
    assert all("[δ0] +=" in row for row in scatters)
    (window,) = lines(moving, x, np.ones(3))[:1]
    assert "3 contractions, one for each r0: X0[r0+u0]·X1[r0]" in window
    assert any("convolution" in row for row in lines(moving.vjp("c"), x, np.ones(3), np.ones(48)))
    pairs = {(k, k + 1) for k in range(9)}

    @tensor
    def linked(x, R):
        n = len(x)
        return sum(np.exp(x[i] - x[j]) for i in range(n) for j in range(n) if (i, j) in R)

    rows = str(linked.plan(x, pairs)).splitlines()
    assert any("9 at [ρR(g0,g1)] where R(g0, g1)" in row for row in rows)
    assert rows[-2].startswith("float64 on cpu; R: 9 tuples; returns ")
    assert "10 tuples" in str(linked.plan(x, pairs | {(20, 1)}))


def test_blocks_are_reported(blocks_of):
    blocks_of(300, 60)
    text = str(gravity.grad("x").plan(np.ones((20, 3), np.float32), np.ones(20, np.float32)))
    assert "19 times, 1 rows of β at a time:" in text
    assert "u0<1 u1<19 u2<3 where u0+β≤u1" in text


def test_blocks_that_add_long_rows_have_one_each(monkeypatch, blocks_of):
    """XLA adds up the rows of a block down their columns, which takes ten times as long once they are long."""
    blocks_of(300, 240)
    x, m = np.random.default_rng(0).normal(size=(20, 3)), np.ones(20)
    assert "5 times, 4 rows of β at a time:" in str(gravity.grad("x").plan(x, m))
    monkeypatch.setattr(tiling, "LONG", 19 * 3)
    assert "19 times, 1 rows of β at a time:" in str(gravity.grad("x").plan(x, m))
    np.testing.assert_allclose(gravity.grad("x")(x, m), gravity.grad("x").interpret(x, m))


def test_what_comes_out_as_large_is_not_made_in_blocks(blocks_of):
    """Arrays of one dimension, and those of which blocks would leave as many entries, as here for the gradient."""
    blocks_of(30, 6)

    @tensor
    def huber(x, y, delta=0.2):
        apart = np.abs(x - y)
        near = np.minimum(apart, delta)
        return np.mean(0.5 * near**2 + delta * (apart - near))

    for x in (np.ones(40), np.ones((8, 5))):
        assert "of β at a time" not in str(huber.grad("x").plan(x, 2 * x))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_shapes_and_bytes_are_those_of_the_arrays(case, monkeypatch):
    """Step by step, what runs is as large as the plan says."""
    function = case.function.grad(*case.wrt) if case.name != "additions" else case.function
    instance, arguments, sizes, _ = function.specialised(*case.arguments)
    made = backend.kernel(instance, sizes)
    arrays = made.operands(tuple(arguments.values()))
    plan = made.plan(arrays)
    seen = []
    run = execute.run_action
    monkeypatch.setattr(execute, "run_action", lambda *given: seen.append(run(*given)) or seen[-1])
    with jax.disable_jit():
        execute.execute(plan, arrays)
    assert len(seen) == len(plan.order) == len(str(plan).splitlines()) - 3
    shapes = plan.shapes()
    for step, array in zip(plan.order, seen, strict=True):
        assert array.shape == shapes[step.name], step
        assert array.size * array.dtype.itemsize == plan.result_bytes(step, shapes), step
    assert plan.bound >= sum(array.nbytes for array in seen)


def test_a_plan_is_made_outside_the_trace(monkeypatch):
    tracing = []
    lower, run = kernel_module.lower, kernel_module.execute

    def traced(plan, arrays):
        tracing.append(True)
        found = run(plan, arrays)
        tracing.pop()
        return found

    def lowered(*given):
        assert not tracing
        planned.append(given)
        return lower(*given)

    planned = []
    monkeypatch.setattr(kernel_module, "execute", traced)
    monkeypatch.setattr(kernel_module, "lower", lowered)

    @tensor
    def energy(x, R):
        n = len(x)
        return sum(x[i] * x[j] for i in range(n) for j in range(n) if (i, j) in R)

    for pairs in ({(0, 1)}, {(1, 1), (2, 2)}, {(0, 2)}):
        assert energy(np.ones(3), pairs) == len(pairs)
    assert len(planned) == 2


H100 = device_of("gpu", "NVIDIA H100 80GB HBM3")


def test_strategies_follow_from_the_step():
    plan = below.plan(np.ones((50, 50)), np.ones(50))
    (step,) = (s.action for s in plan.steps if s.name == plan.output)
    assert isinstance(choose_kernel(step, CPU), Multiplied)
    (correlation,) = (
        s.action
        for s in moving.vjp("c").plan(np.ones(50), np.ones(3), np.ones(48)).steps
        if getattr(s.action, "sums", ())
    )
    assert isinstance(choose_kernel(correlation, CPU), Convolution)
    assert isinstance(choose_kernel(correlation, H100), Unrolled)

    @tensor
    def later(x, y):
        n, m = len(x), len(y)
        return sum(x[i] * y[j] for i in range(n) for j in range(m) if i < j)

    (coupled,) = (
        s.action for s in later.plan(np.ones(4), np.ones(5)).steps if getattr(s.action, "sums", ())
    )
    assert isinstance(choose_kernel(coupled, CPU), Reduced)


@tensor
def chamfer(P, Q):
    d = ((P[:, None, :] - Q[None, :, :]) ** 2).sum(-1)
    return d.min(axis=1).mean() + d.min(axis=0).mean()


def test_what_blocks_make_is_read_beyond_its_ends(monkeypatch, blocks_of):
    """From a million pairs on there was a `KeyError`: the distances are made in blocks, and their halves read apart."""
    blocks_of(100, 20)
    monkeypatch.setattr(dataflow, "FENCED", 1)
    P, Q = np.random.default_rng(0).normal(size=(2, 13, 3))
    for made in (chamfer, chamfer.grad("P")):
        assert not made.plan(P, Q).margins
        np.testing.assert_allclose(made(P, Q), made.interpret(P, Q), rtol=1e-9)
