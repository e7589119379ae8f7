"""What steps become before XLA fuses them, and that this changes no result."""

import jax
import numpy as np
import pytest
from programs import blur, catenary

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.jax import runtime
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.language.function import find_function
from jupyter_hvd.tensor.language.predicates import TRUE
from jupyter_hvd.tensor.lowering import concatenations, dataflow, strategy, tiling
from jupyter_hvd.tensor.lowering.choices import Choices
from jupyter_hvd.tensor.lowering.ir import Apply, Contract, Fill


@tensor
def tails(x):
    return np.sum(np.logaddexp.accumulate(x, axis=1) ** 2)


def test_what_several_arrays_take_long_over_is_computed_once(monkeypatch):
    """Each level of these sums is read by the next one, and by two derivatives."""
    x = normal(3, 20)
    monkeypatch.setattr(dataflow, "COSTLY", 1)
    monkeypatch.setattr(dataflow, "FENCED", 1 << 60)
    found = plan(tails.grad("x"), x)
    inside = [
        step.name
        for array in found.barriers
        for step in dataflow.fused_producers(found.steps, array, found.barriers)
        if getattr(step.action, "function", None) is find_function("logaddexp")
    ]
    assert inside
    assert len(inside) == len({*inside})
    agrees(tails.grad("x"), x)


def plan(function, *arguments):
    return function.plan(*arguments)


def made(function, *arguments):
    """How each array is made, by name."""
    rows = str(plan(function, *arguments)).splitlines()[1:-1]
    return {row.split()[0]: row for row in rows}


def agrees(function, *arguments, tolerance=1e-9):
    found, expected = function(*arguments), function.interpret(*arguments)
    jax.tree_util.tree_map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance),
        found,
        expected,
    )


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@tensor
def spread(q, x):
    n, d = x.shape
    return sum(np.exp(q[j]) * x[i, j] * x[i, j] for i in range(n) for j in range(d))


def test_what_repeats_entries_is_made_without_the_repetition():
    q, x = normal(4), normal(6, 4, seed=1)
    (row,) = (row for row in made(spread, q, x).values() if "exp(" in row)
    assert "exp(X0[u0])" in row
    agrees(spread.grad("q", "x"), q, x)


@tensor
def shorter(x):
    """Reads past the end of an array that repeats one number: zero there."""
    n = len(x)
    ones = [x[0] for i in range(n - 1)]
    return [x[i] * (ones[i] if i < n - 1 else 0) for i in range(n)]


def test_a_repetition_that_is_read_past_its_end_keeps_its_end():
    agrees(shorter, normal(5))
    agrees(shorter.vjp("x"), normal(5), normal(5, seed=1))


def test_a_stencil_and_its_adjoint_are_one_sum_each():
    u, f = normal(8, 8), normal(8, 8, seed=1)
    rows = made(blur.grad("u"), u, f).values()
    sums = [row for row in rows if "added:" in row]
    assert [row.count(" + ") + row.count(" - ") for row in sums] == [4, 1, 4]
    assert not any("entry by entry: X0[" in row for row in rows)
    agrees(blur.grad("u"), u, f)


@tensor
def columns(x, n: int):
    p = [[x[i] ** k for k in range(3)] for i in range(n)]
    return [p[i][0] + p[i][1] * p[i][2] for i in range(n)]


@tensor
def three_times(x, n: int):
    p = [[x[i] ** k for k in range(3)] for i in range(n)]
    return [p[i][0] + p[n - 1 - i][0] * p[n // 2][0] + p[i][1] for i in range(n)]


def test_columns_by_their_numbers_are_read_once_each(monkeypatch):
    """An array of powers was kept from being fused, though each entry is read once: 50 times as long as JAX."""
    monkeypatch.setattr(dataflow, "FENCED", 1)
    x = np.abs(normal(8)) + 1
    assert not plan(columns, x, 8).barriers
    assert len(plan(three_times, x, 8).barriers) == 1
    agrees(columns, x, 8)
    agrees(columns.vjp("x"), x, 8, normal(8, seed=1))
    agrees(three_times, x, 8)


def test_columns_that_are_never_stored_are_not_made_in_blocks(blocks_of):
    blocks_of(16, 8)
    x = np.abs(normal(8)) + 1
    assert "rows of" not in str(plan(columns, x, 8))
    assert "rows of" in str(plan(summed_twice, normal(8)))
    agrees(columns.vjp("x"), x, 8, normal(8, seed=1))
    agrees(summed_twice.grad("x"), normal(8))


@tensor
def summed_twice(x):
    n = len(x)
    d = [[(x[i] - x[j]) ** 2 for j in range(n)] for i in range(n)]
    e = [[np.exp(-d[i][j]) for j in range(n)] for i in range(n)]
    return sum(e[i][j] * e[i][j] for i in range(n) for j in range(n))


@tensor
def coulomb(r):
    n, m = r.shape
    d = [[sum((r[i, k] - r[j, k]) ** 2 for k in range(m)) for j in range(n)] for i in range(n)]
    return sum(1 / np.sqrt(d[i][j]) if i != j else 0 for i in range(n) for j in range(n))


def test_differences_that_are_summed_are_made_again_behind_the_sum(monkeypatch):
    """They were stored in between, all n·n·m: 2.4 times as long as where they are made twice."""
    monkeypatch.setattr(dataflow, "FENCED", 1)
    gradient, r = coulomb.grad("r"), normal(5, 3)
    found = plan(gradient, r)
    steps = {step.name: step.action for step in found.steps}
    assert [steps[s.name].shape for s in found.remade.steps] == [(5, 5, 3)]
    assert found.remade.readers
    jaxpr = str(jax.make_jaxpr(gradient)(r))
    assert jaxpr.count("optimization_barrier") == 1
    slope = jax.grad(lambda r: np.sum(gradient.jax(r) ** 2))(r)
    monkeypatch.setattr(runtime, "_differentiates_barriers", lambda: False)
    fresh = tensor(coulomb.python).grad("r")
    assert "optimization_barrier" not in str(jax.make_jaxpr(fresh)(r))
    np.testing.assert_allclose(jax.grad(lambda r: np.sum(fresh.jax(r) ** 2))(r), slope, rtol=1e-9)
    agrees(fresh, r)
    without = jax.make_jaxpr(lambda r: plan_of(gradient, r, Choices.without(("apart",))))(r)
    assert "optimization_barrier" not in str(without)
    agrees(gradient, r)


def plan_of(function, x, choices):
    call = function.specialised(x)
    made = kernel(call.instance, call.sizes)
    operands = made.operands((x,))
    return made.executed(
        made.compile(made.counts(operands), made.dtype(operands), choices), operands
    )


def test_sums_have_no_condition_that_all_who_read_them_have():
    found = plan(coulomb.grad("r"), normal(5, 3))
    run = [step.action for step in found.order if hasattr(step, "action")]
    sums = [a for a in run if isinstance(a, Contract) and a.sums]
    assert sums
    assert all(a.mask == TRUE for a in sums)
    assert any(a.mask != TRUE for a in run if isinstance(a, Apply))


def test_a_stencil_of_a_stencil_is_stored_with_the_zeros_around_it(monkeypatch):
    u, f = normal(24, 22), normal(24, 22, seed=1)
    assert not plan(blur.grad("u"), u, f).barriers  # small
    monkeypatch.setattr(dataflow, "FENCED", 1)
    gradient = blur.grad("u")
    found = plan(gradient, u, f)
    (name,) = found.margins
    assert found.margins[name] == ((2, 2), (2, 2))
    assert f"{name} " in str(found)
    assert "not fused into what reads it" in str(found)
    instance, named, sizes, _ = gradient.specialised(u, f)
    jaxpr = str(jax.make_jaxpr(kernel(instance, sizes).run)(*named.values()))
    assert jaxpr.count("cond[") == 1
    assert "[26,24]" in jaxpr
    agrees(blur.grad("u"), u, f, tolerance=1e-6)


@tensor
def neighbours_of_picked(x, k):
    n, m = x.shape
    y = [[np.tanh(x[k[i], j]) for j in range(m)] for i in range(n)]
    z = [
        [
            y[i][j] + (y[i][j - 1] if j > 0 else 0) + (y[i][j + 1] if j < m - 1 else 0)
            for j in range(m)
        ]
        for i in range(n)
    ]
    return sum(z[i][j] ** 2 for i in range(n) for j in range(m))


def test_what_takes_long_has_no_zeros_around_it(monkeypatch):
    """XLA would compute it behind a branch for each entry, one after the other."""
    monkeypatch.setattr(dataflow, "FENCED", 1)
    x, k = normal(6, 5), np.array([0, 2, 1, 5, 5, 3])
    found = plan(neighbours_of_picked, x, k)
    assert found.barriers
    assert not found.margins
    agrees(neighbours_of_picked, x, k)
    agrees(neighbours_of_picked.grad("x"), x, k)


@tensor
def springs_in_rows(x, y, length):
    n, m = x.shape
    return sum(
        (np.sqrt((x[i, j + 1] - x[i, j]) ** 2 + (y[i, j + 1] - y[i, j]) ** 2) - length) ** 2
        for i in range(n)
        for j in range(m - 1)
    )


def test_what_takes_long_is_computed_before_it_is_shifted(monkeypatch):
    arguments = normal(3, 9), normal(3, 9, seed=1), 0.25
    monkeypatch.setattr(dataflow, "COSTLY", 1)
    monkeypatch.setattr(dataflow, "FENCED", 1 << 60)
    found = plan(springs_in_rows.grad("x", "y"), *arguments)
    by_name = {step.name: step for step in found.steps}
    inside = [step for x in found.margins for step in found.producers[x]]
    functions = [getattr(step.action, "function", None) for step in inside]
    assert len(found.margins) == 2
    assert len(found.barriers) == 3  # and what both have in common
    assert not any(functions)
    assert by_name.keys() >= found.barriers
    agrees(springs_in_rows.grad("x", "y"), *arguments)


def test_a_sum_along_one_axis_is_computed_part_by_part(monkeypatch):
    arguments = normal(9), normal(9, seed=1), 0.25
    expected = catenary.grad("x", "y").interpret(*arguments)
    monkeypatch.setattr(concatenations, "LEAST", 1)
    monkeypatch.setattr(dataflow, "COSTLY", 1)
    monkeypatch.setattr(dataflow, "FENCED", 1 << 60)
    gradient = catenary.grad("x", "y")
    assert not plan(gradient, *arguments).barriers
    instance, named, sizes, _ = gradient.specialised(*arguments)
    jaxpr = str(jax.make_jaxpr(kernel(instance, sizes).run)(*named.values()))
    assert jaxpr.count("concatenate") == 2
    assert "pad[" not in jaxpr
    assert "cond[" not in jaxpr
    for a, b in zip(gradient(*arguments), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@tensor
def rolled(a):
    around = np.roll(a, (1, 1), (0, 1)) + np.roll(a, (-1, 1), (0, 1)) + np.roll(a, 1, (0, 1))
    return np.sum((around - 3 * a) ** 2)


def test_a_number_is_taken_out_of_a_sum_so_that_several_have_it_in_common():
    """The adjoint rolls 2·r once, and 4·r once more in another direction."""
    a = normal(6, 7)
    rows = [row for row in made(rolled.grad("a"), a).values() if "added:" in row]
    shifted = [row for row in rows if "u1+1]" in row]
    assert len(shifted) == 1
    agrees(rolled.grad("a"), a)


def test_a_slope_is_computed_from_the_value():
    """Of which XLA makes a root, and a reciprocal root of all that the root is taken of."""
    arguments = normal(9), normal(9, seed=1), 0.25
    rows = made(catenary.grad("x"), *arguments).values()
    assert any("half_recip(" in row for row in rows)
    assert not any("sqrt′" in row for row in rows)
    agrees(catenary.grad("x"), *arguments)


@tensor
def differences_of_rows(x):
    n, m = x.shape
    return sum(abs(x[i + 1, j] - x[i, j]) ** 3 for i in range(n - 1) for j in range(m))


@tensor
def around_in_one_axis(x, w):
    n = len(x)
    return [w[0] * x[(i - 1) % n] + w[1] * x[i] + w[2] * x[(i + 1) % n] for i in range(n)]


@tensor
def banded_product(d, e, x):
    n = len(x)
    y = [d[i] * x[i] + (e[i] * x[i + 1] if i < n - 1 else 0) for i in range(n)]
    return sum(np.tanh(y[i]) for i in range(n)) + sum(y[i] * y[i + 3] for i in range(n - 3))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (differences_of_rows, [(9, 3)]),
        (around_in_one_axis, [(9,), (3,)]),
        (banded_product, [(9,), (8,), (9,)]),
        (rolled, [(5, 4)]),
    ],
)
def test_parts_agree_with_the_reference(function, shapes, monkeypatch):
    arguments = [normal(*shape, seed=k) for k, shape in enumerate(shapes)]
    monkeypatch.setattr(concatenations, "LEAST", 1)
    monkeypatch.setattr(dataflow, "COSTLY", 1)
    for wrt in function.__signature__.parameters:
        if function is around_in_one_axis:
            agrees(function.vjp(wrt), *arguments, normal(9, seed=7))
        else:
            agrees(function.grad(wrt), *arguments)


@tensor
def gates(z):
    n = len(z) // 2
    return sum(np.tanh(z[i]) * np.exp(z[n + i]) for i in range(n))


@tensor
def halves(x, y):
    n, m = len(x), len(y)
    return [(x[i] if i < n else 0) + (y[i - n] if i >= n else 0) for i in range(n + m)]


def test_pieces_side_by_side_are_put_side_by_side():
    x, y = normal(3), normal(4)
    for function, arguments in ((halves, (x, y)), (halves.vjp("x"), (x, y, normal(7)))):
        agrees(function, *arguments)
    instance, named, sizes, _ = halves.specialised(x, y)
    jaxpr = str(jax.make_jaxpr(kernel(instance, sizes).run)(*named.values()))
    assert "concatenate" in jaxpr
    assert "pad" not in jaxpr


@tensor
def forwards(x, y):
    return [sum(x[i + j] * y[j] for j in range(len(y))) for i in range(len(x) - len(y) + 1)]


@tensor
def against(x, y):
    n, m = len(x), len(y)
    return [sum(x[i - j + m - 1] * y[j] for j in range(m)) for i in range(n - m + 1)]


@tensor
def backwards(x, y):
    n, m = len(x), len(y)
    return [sum(x[n - 1 - i - j] * y[j] for j in range(m)) for i in range(n - m + 1)]


@tensor
def turned(x, y):
    n, m = len(x), len(y)
    return [sum(x[n - m - i + j] * y[m - 1 - j] for j in range(m)) for i in range(n - m + 1)]


@tensor
def past_the_end(x, y):
    n, m = len(x), len(y)
    return [sum((x[i + j] if i + j < n else 0) * y[j] for j in range(m)) for i in range(n)]


@pytest.mark.parametrize("function", [forwards, against, backwards, turned, past_the_end])
def test_a_long_window_is_swept(function):
    x, y = normal(170), normal(70, seed=1)
    assert "slices added one after the other" in str(plan(function, x, y))
    result = function.interpret(x, y)
    agrees(function, x, y)
    agrees(function.vjp("x", "y"), x, y, result)


def box_means(x):
    n, m = x.shape[0] - 6, x.shape[1] - 4
    return np.array(
        [
            [sum(x[i + p, j + q] for p in range(7) for q in range(5)) for j in range(m)]
            for i in range(n)
        ]
    )


def strided_windows(x):
    return np.array(
        [sum(x[2 * i + 3 * p] * 1.0 for p in range(4)) for i in range((len(x) - 9) // 2)]
    )


@pytest.mark.parametrize(
    ("function", "x"),
    [(box_means, normal(12, 9)), (strided_windows, normal(30))],
    ids=["boxes", "strides"],
)
def test_a_sum_of_windows_is_added_axis_by_axis(function, x):
    """Gathered, each window is written out, and a box of 7 × 7 took 38 times as long as 49 slices."""
    f = tensor(function)
    dy = normal(*np.shape(function(x)), seed=2)
    np.testing.assert_allclose(f(x), function(x), rtol=1e-5, atol=1e-5)
    agrees(f.vjp("x"), x, dy, tolerance=1e-5)
    assert "sums of windows, axis by axis" in str(plan(f, x))
    for g, arguments in ((f, (x,)), (f.vjp("x"), (x, dy))):
        assert "gather" not in str(jax.make_jaxpr(g.jax)(*arguments))


@tensor
def around(x):
    y = np.roll(x, (1, -1), (0, 1)) + np.roll(x, 1, 0)
    return np.sum((y - 3 * x) ** 2)


@tensor
def from_three(x, y):
    """Pieces of two arrays that cover an axis, a gap, and one that others cover already."""
    n = len(x)
    head = [x[i] if i < 2 else y[i] if i == 2 else x[i - 1] for i in range(n)]
    gap = [x[i] if i < 2 else y[i] if i > 2 else 0 for i in range(n)]
    over = [(x[i] if i < 3 else 0) + (y[i] if i >= 2 else 0) for i in range(n)]
    return [head[i] * gap[i] + over[i] for i in range(n)]


def test_what_goes_round_is_put_one_after_the_other():
    x = normal(5, 6)
    instance, arguments, sizes, _ = around.vjp("x").specialised(x, 1.0)
    jaxpr = str(jax.make_jaxpr(kernel(instance, sizes).run)(*arguments.values()))
    assert "concatenate" in jaxpr
    assert "pad" not in jaxpr
    assert "select" not in jaxpr
    agrees(around.grad("x"), x)
    agrees(from_three, normal(7), normal(7, seed=1))
    agrees(from_three.vjp("x", "y"), normal(7), normal(7, seed=1), normal(7, seed=2))


def test_what_goes_round_is_no_reason_to_compute_an_array_apart(monkeypatch):
    """Each of its entries is computed once for all parts together."""
    monkeypatch.setattr(dataflow, "FENCED", 2)

    @tensor
    def step(x):
        n = len(x)
        y = np.sin(x)
        return [(y[i - 1] if i > 0 else y[n - 1]) + y[i] for i in range(n)]

    assert not plan(step, normal(9)).barriers
    agrees(step, normal(9))


@tensor
def inertia(c, x):
    apart = x[:, None, :] - c[None, :, :]
    return np.sum(np.sum(apart**2, axis=2) ** 2)


@tensor
def down(x):
    return np.sum(np.sum(x, axis=0) ** 2)


@tensor
def down_weighted(x, g):
    return np.sum((g @ x) ** 2)


@tensor
def down_made(x, g):
    return np.sum((g @ np.tanh(x)) ** 2)


def test_a_product_of_a_stored_matrix_and_a_vector_is_left_to_xla(monkeypatch):
    monkeypatch.setattr(tiling, "LONG", 8)
    monkeypatch.setattr(tiling, "MANY", 3)
    g, x = normal(4), normal(4, 15)
    assert "times" not in str(plan(down_weighted, x, g))
    assert "4 times" in str(plan(down_made, x, g))
    agrees(down_weighted.grad("g"), x, g)
    agrees(down_made.grad("g"), x, g)


def test_long_rows_are_added_one_after_the_other(monkeypatch):
    monkeypatch.setattr(tiling, "LONG", 8)
    monkeypatch.setattr(tiling, "MANY", 3)
    c, x = normal(4, 3), normal(5, 3, seed=1)
    text = str(plan(inertia.grad("c"), c, x))
    assert "5 times, 1 rows of β at a time:" in text
    assert "1×4×3" in text
    assert "5×4×3" not in text.split("5 times")[1]
    agrees(inertia.grad("c"), c, x)
    agrees(inertia.grad("c", "x"), c, x)
    agrees(down.grad("x"), normal(4, 3, 5))
    assert "4 times" in str(plan(down, normal(4, 3, 5)))
    assert "times" not in str(plan(down, normal(2, 3, 5)))
    assert "times" not in str(plan(down, normal(4, 1, 5)))


@tensor
def nearest(c, x):
    return np.sum(np.min(np.sum((x[:, None, :] - c[None, :, :]) ** 2, axis=2), axis=1))


def test_sums_of_long_rows_are_preferred_to_jax_s_own_derivative(monkeypatch):
    """XLA goes down the columns in JAX's own derivative, too."""
    c, x = normal(4, 3), normal(5, 3, seed=1)
    assert plan(nearest.grad("c"), c, x).choices.dense
    monkeypatch.setattr(tiling, "LONG", 8)
    monkeypatch.setattr(tiling, "MANY", 3)
    again = tensor(nearest.python)
    assert not plan(again.grad("c"), c, x).choices.dense
    agrees(again.grad("c"), c, x)


@tensor
def spread_of_columns(x):
    spread = np.var(x, axis=0)
    return sum(spread[j] ** 2 for j in range(x.shape[1]))


@tensor
def both_ways(x):
    y = [[x[j, i] * x[j, i] for j in range(len(x))] for i in range(len(x))]
    return sum(
        y[i][j] * y[j][i] * (y[i][j] - x[i, j]) for i in range(len(x)) for j in range(len(x))
    )


def test_an_array_lies_as_what_it_is_made_of_lies():
    x = normal(5, 4)
    (row,) = (row for row in made(spread_of_columns, x).values() if row.count("X0[u1, u0]"))
    assert "5×4 at [g1, g0]" in row
    agrees(spread_of_columns, x)
    agrees(spread_of_columns.grad("x"), x)
    agrees(both_ways.grad("x"), x[:4])


@tensor
def one_row_repeated(x, v):
    """An array without one of its dimensions, and the others turned round."""
    n, m = x.shape
    y = [[[x[i, j] * v[j] for j in range(m)] for k in range(3)] for i in range(n)]
    z = [[[y[i][k][j] + x[i, j] for i in range(n)] for k in range(3)] for j in range(m)]
    return sum(z[j][k][i] ** 2 for j in range(m) for k in range(3) for i in range(n))


def test_an_array_without_a_dimension_lies_so_too():
    x, v = normal(5, 4), normal(4)
    assert any("at [g1, g0]" in row for row in made(one_row_repeated, x, v).values())
    agrees(one_row_repeated.grad("x", "v"), x, v)


@tensor
def later_rows(x, A):
    """Of each row the sum of the rows after it, and of all pairs of rows their products."""
    n, d = x.shape
    after = [[sum(x[j, q] for j in range(n) if i < j) for q in range(d)] for i in range(n)]
    pairs = sum(x[k, p] * x[m, p] for k in range(n) for m in range(n) for p in range(d) if k < m)
    return pairs + sum(after[i][q] * A[i, q] for i in range(n) for q in range(d))


@tensor
def strictly_upper(A, B):
    """The product of two matrices above its diagonal."""
    n, m = A.shape
    return [[sum(A[i, j] * B[j, k] for j in range(m) if i < k) for k in range(n)] for i in range(n)]


def test_an_inequality_of_the_result_is_a_matrix_that_is_multiplied(monkeypatch):
    monkeypatch.setattr(strategy, "MATRIX", 1)
    wide, other = normal(6, 24), normal(24, 6, seed=1)
    assert not any("masked sum" in row for row in made(strictly_upper, wide, other).values())
    agrees(strictly_upper, wide, other)


def test_a_sum_under_an_inequality_is_a_running_sum():
    x, A = normal(5, 7), normal(5, 7, seed=1)
    assert any("masked sum" in row for row in made(later_rows, x, A).values())
    tall, other = normal(70, 3), normal(70, 3, seed=1)
    rows = made(later_rows, tall, other).values()
    assert any("running sums" in row for row in rows)
    assert not any("masked sum" in row for row in rows)
    agrees(later_rows, tall, other)
    agrees(later_rows.grad("x", "A"), tall, other)


def test_numbers_times_constants_are_zero_beyond_an_array_too():
    """`2·s` in every entry, read before the first and behind the last."""

    @tensor
    def windows(x, w, s):
        n, v = len(x), [2 * s for _ in range(len(x))]
        return sum(
            v[i + j - 1] * w[j] * x[i]
            for i in range(n)
            for j in range(len(w))
            if 0 <= i + j - 1 < n
        )

    arguments = np.array([1.0, 2.0]), np.array([1.0, 2.0, 3.0]), 1.0
    assert windows(*arguments) == windows.python(*arguments) == 22
    np.testing.assert_allclose(
        windows.grad("x")(*arguments), windows.grad("x").interpret(*arguments).astype(float)
    )


@pytest.mark.parametrize(("step", "width", "start"), [(2, 2, 0), (3, 2, 1), (2, 1, 1), (4, 3, 0)])
def test_several_indices_are_digits_of_others(step, width, start):
    """Pools along two axes: what each entry is due is sent there once, whatever the sizes."""

    @tensor
    def pooled(X):
        n, m = X.shape
        return sum(
            sum(X[step * i + a + start, step * j + b] for a in range(width) for b in range(width))
            ** 3
            for i in range((n - start) // step)
            for j in range(m // step)
        )

    X = normal(13, 8)
    agrees(pooled.grad("X"), X)
    rows = [row for row in made(pooled.grad("X"), X).values() if "joined" in row]
    assert any(f"[{step}·r0+u0" in row and f"{step}·r1+u1" in row for row in rows) or width == 1


@tensor
def flattened(X, W):
    return np.sum(np.tanh(np.tanh(X).reshape(len(X), -1) @ W))


@tensor
def shuffled(X):
    """Axes in another order, then all but the last as one."""
    d = X.shape[-1]
    return np.sum(np.tanh(X.transpose(0, 3, 1, 2, 4)).reshape(-1, d)[2:] ** 3)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (flattened, (normal(3, 4, 2, 5), normal(40, 2))),
        (flattened, (normal(2, 2, 3, 2, 3), normal(36, 2))),
        (shuffled, (normal(2, 3, 2, 4, 3),)),
    ],
)
def test_any_number_of_axes_becomes_one_by_a_reshape(function, arguments):
    agrees(function, *arguments)
    agrees(function.grad("X"), *arguments)
    points = function.plan(*arguments).points
    assert points <= 8 * sum(map(np.size, arguments))


def test_pools_take_as_many_points_as_there_are():
    """Of maxima, too, whose share of each entry is looked at."""

    @tensor
    def pooled(X):
        n, m = X.shape
        return np.sum(X.reshape(n // 2, 2, m // 2, 2).max(axis=(1, 3)) ** 2)

    points = [pooled.grad("X").plan(normal(n, n)).points for n in (16, 32, 64)]
    assert points[1] <= 4 * points[0]
    assert points[2] <= 4 * points[1]


def test_numbers_are_no_operands_of_a_sum():
    """A long window that is scaled is swept like one that is not, and multiplied when it is done."""

    @tensor
    def scaled(x, y, s):
        n = len(x) - len(y)
        v = [3 * y[j] for j in range(len(y))]
        return [s * sum(v[j] * x[i + j] for j in range(len(y))) for i in range(n)]

    @tensor
    def bare(x, y):
        n = len(x) - len(y)
        return [sum(y[j] * x[i + j] for j in range(len(y))) for i in range(n)]

    x, y = normal(4000), normal(1000)
    (how,) = {
        row.split(" by ")[-1].split(": ")[0] for row in made(bare, x, y).values() if "Σ" in row
    }
    assert any(how.split("  ")[-1] in row for row in made(scaled, x, y, 2.0).values() if "Σ" in row)
    agrees(scaled, normal(40), normal(10), 2.0)


def test_a_number_that_all_sums_of_an_array_multiply_by_is_a_part_of_the_array():
    """Behind each sum it was a kernel of its own, and another array where the sum is kept from being fused."""

    @tensor
    def residual(A, x, y, c):
        n, m = A.shape
        r = [sum(A[i, j] * x[j] for j in range(m)) - y[i] for i in range(n)]
        return c * sum(r[i] ** 2 for i in range(n)) / n

    @tensor
    def two_ways(x, y):
        """One sum of the products is multiplied by 3, the other is not."""
        z = [x[i] * y[i] for i in range(len(x))]
        return sum(
            (3 * sum(z[j] * x[(i + j)] for j in range(20))) ** 2 for i in range(len(x) - 20)
        ) + sum(z[i] * z[j] for i in range(len(x)) for j in range(len(x)))

    A, x, y = normal(40, 30), normal(30), normal(40)
    for wrt in ("x", "A"):
        agrees(residual.grad(wrt), A, x, y, 1.5)
    plan = residual.grad("x").plan(A, x, y, 1.5)
    steps = {step.name: step.action for step in plan.order}
    constants = {name for name, action in steps.items() if isinstance(action, Fill)}
    sums = [action for action in steps.values() if getattr(action, "sums", ())]
    assert len(sums) == 2
    assert not any(action.sources & constants for action in sums)
    agrees(two_ways.grad("x"), normal(60), normal(60))


def test_addends_that_are_the_same_are_one():
    """The derivative of a square by its two factors was computed twice, for each entry."""

    @tensor
    def away(A):
        n, m = A.shape
        y = [sum(A[i, j] ** 2 for i in range(n)) / n for j in range(m)]
        return sum(np.abs(A[i, j] - y[j]) for i in range(n) for j in range(m))

    A = normal(7, 5)
    (row,) = (row for row in made(away.grad("A"), A).values() if "2″·" in row)
    assert row.count(" + ") == 1
    agrees(away.grad("A"), A)


@tensor
def looked_up_twice(A, p):
    k = np.clip(np.floor(p).astype(int), 0, A.shape[1] - 2)
    a = A[k, k] * (1 - p)
    b = A[k, k + 1] * p
    return np.sum((a + b) ** 2)


def test_what_is_made_again_waits_for_what_it_is_made_of(monkeypatch):
    """All of it was made for the first that reads some of it: a KeyError."""
    monkeypatch.setattr(dataflow, "FENCED", 64)
    A, p = normal(6, 6), np.linspace(0, 4.5, 20)
    agrees(looked_up_twice.grad("A"), A, p, tolerance=1e-6)
