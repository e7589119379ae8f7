"""Jacobians and Hessians as the entries of their supports, beside dense JAX."""

import inspect
import math
import pickle
import re

import jax
import numpy as np
import pytest
import sparse_programs
from sparse_programs import CASES, band, bundle, draw, graph, related, stencil_1d

from jupyter_hvd.tensor import TensorError, sparse_jacobian, tensor
from jupyter_hvd.tensor.lowering.cells import Batch
from jupyter_hvd.tensor.lowering.dataflow import FENCED


def _sparse(function, names, kind):
    made = function.jacobian if len(names) == 1 else function.hessian
    return made(*names, format=kind)


def _dense(name, names, args):
    """The derivative by JAX as a matrix."""
    plain = getattr(sparse_programs, f"{name}_jax")
    at = [[*inspect.signature(plain).parameters].index(x) for x in names]
    first = plain if len(at) == 1 else jax.grad(plain, at[0])
    found = jax.jacobian(first, at[-1])(*args)
    return np.asarray(found).reshape(-1, np.size(args[at[-1]]))


QUICK = ("band", "arrow", "stencil_2d", "graph", "related", "bundle", "kernel_matrix")


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if c[0] in QUICK else pytest.mark.thorough) for c in CASES],
    ids=" ".join,
)
def test_entries_are_those_of_jax(case):
    name, *names = case
    args = draw()[name]
    found = _sparse(getattr(sparse_programs, name), names, "csr")(*args)
    expected = _dense(name, names, args)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.toarray(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_pattern_has_no_structural_zeros(case):
    name, *names = case
    args = draw()[name]
    found = _sparse(getattr(sparse_programs, name), names, "coo").pattern(*args)
    there = np.argwhere(_dense(name, names, args))
    listed = np.stack([found.rows, found.columns], axis=1)
    if name == "graph":  # an edge from a vertex to itself has a derivative that cancels
        extra = {*map(tuple, listed.tolist())} - {*map(tuple, there.tolist())}
        assert extra == {(2, 2)}
    else:
        np.testing.assert_array_equal(listed, there)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c[0] not in ("graph", "related", "bundle", "hand")], ids=" ".join
)
def test_formula_counts_the_entries(case):
    name, *names = case
    args, function = draw()[name], getattr(sparse_programs, name)
    function(*args)
    found = function.sparsity(*names)
    sizes = function.last_sizes
    assert found.count.evaluate(**sizes) == _sparse(function, names, "coo").pattern(*args).count


def test_formats_agree():
    args = draw()["bundle"]
    expected = _dense("bundle", ["points"], args)
    for kind in ("csr", "csc"):
        found = bundle.jacobian("points", format=kind)(*args)
        assert found.format == kind
        assert found.has_sorted_indices
        np.testing.assert_allclose(found.toarray(), expected, rtol=1e-10)
    np.testing.assert_allclose(
        bundle.jacobian("points", format="bcoo")(*args).todense(), expected, rtol=1e-10
    )
    rows, columns, values = bundle.jacobian("points", format="coo")(*args)
    np.testing.assert_allclose(expected[rows, columns], values, rtol=1e-10)
    dense = bundle.jacobian("points", format="dense")(*args)
    assert dense.shape == (7, 2, 5, 3)
    np.testing.assert_allclose(dense.reshape(expected.shape), expected, rtol=1e-10)


def test_pattern_is_known_before_values_and_reused():
    jacobian = stencil_1d.jacobian("u")
    x = np.linspace(0.0, 1.0, 30)
    pattern = jacobian.pattern(x)
    assert jacobian.pattern(x + 1) is pattern
    first, second = jacobian(x), jacobian(x + 1)
    assert np.shares_memory(first.indices, second.indices)
    np.testing.assert_array_equal(first.indptr, pattern.row_starts)


def test_pattern_follows_the_data():
    hessian = graph.hessian("x", format="csr")
    x = np.arange(5.0) ** 2
    assert hessian(x, np.array([0, 1]), np.array([1, 2])).nnz == 7
    moved = hessian(x, np.array([0, 1]), np.array([4, 4]))
    assert {*zip(*moved.nonzero(), strict=True)} >= {(0, 4), (1, 4)}
    assert moved[1, 2] == 0


def test_values_follow_the_data():
    hessian, x = graph.hessian("x", format="csr"), np.arange(5.0) ** 2
    edges = [np.array([0, 1, 1]), np.array([1, 2, 4])], [np.array([3, 0, 3]), np.array([4, 4, 0])]
    for src, dst in (*edges, edges[0]):
        expected = jax.hessian(sparse_programs.graph_jax)(x, src, dst)
        np.testing.assert_allclose(hessian(x, src, dst).toarray(), expected, rtol=1e-12)
        compiled = jax.jit(lambda x, at=(src, dst): graph.hessian("x", format="bcoo")(x, *at))
        np.testing.assert_allclose(compiled(x).todense(), expected, rtol=1e-12)


def test_pattern_follows_index_arrays_that_change_in_place():
    hessian, x = graph.hessian("x", format="csr"), np.arange(5.0) ** 2
    src, dst = np.array([0, 1]), np.array([1, 2])
    assert hessian(x, src, dst)[0, 1] != 0
    src[0], dst[0] = 3, 4
    found = hessian(x, src, dst)
    assert found[0, 1] == 0
    np.testing.assert_allclose(found.toarray(), jax.hessian(sparse_programs.graph_jax)(x, src, dst))


def test_values_and_entries_are_one_kernel():
    u = draw()["stencil_3d"][0]
    hessian = sparse_programs.stencil_3d.hessian("u", "u", format="csr")
    found, again = hessian(u), hessian(2 * u)
    np.testing.assert_allclose(again.data, 4 * found.data, rtol=1e-12)
    (prepared,) = hessian._known.values()
    (ready,) = prepared.ready.values()
    given = ready.operands([u, *prepared.places.values()])
    assert len(given) == 28
    assert len({*map(id, given)}) == 4  # all addends are read at the same points
    traced = jax.make_jaxpr(hessian.values)(u)
    assert not [e for e in traced.eqns if e.primitive.name != "jit"]
    assert len(traced.eqns) == 1


def test_repeated_entries_of_index_arrays_add_up():
    @tensor
    def picked(x, at):
        return sum(x[at[e]] ** 3 for e in range(len(at)))

    x, at = np.arange(1.0, 6.0), np.array([2, 0, 2, 2])
    found = picked.hessian("x", format="coo")(x, at)
    np.testing.assert_array_equal(found.rows, [0, 2])
    np.testing.assert_allclose(found.values, [6 * x[0], 3 * 6 * x[2]])


def test_a_value_that_structure_makes_zero_leaves_no_entry():
    @tensor
    def later(x, y):
        n = len(x)
        return [math.exp(x[i]) * sum(y[j] * y[j] for j in range(i + 1, n)) for i in range(n)]

    x = np.ones(4)
    assert later.jacobian("x").pattern(x, x).count == 3  # no number comes after the last one
    assert later.sparsity("x").count.evaluate(n=4, y_0=4) == 3


def test_a_full_jacobian_of_a_long_program_is_computed_by_entries(monkeypatch):
    monkeypatch.setattr(sparse_jacobian, "MANY", 1)

    @tensor
    def every(W, x):
        m, n = W.shape
        return [np.tanh(sum(W[i, j] * x[j] for j in range(n))) for i in range(m)]

    W, x = np.arange(6.0).reshape(2, 3) / 10, np.ones(3)
    jacobian = every.jacobian("x")
    expected = jax.jacobian(lambda x: jax.numpy.tanh(W @ x))(x)
    np.testing.assert_allclose(jacobian(W, x).toarray(), expected, rtol=1e-12)
    (prepared,) = jacobian._known.values()
    assert prepared.plan


def test_small_statements_are_computed_together(monkeypatch):
    monkeypatch.setattr(sparse_jacobian, "MANY", 1)

    @tensor
    def arm(angles, p):
        for k in range(12):
            c, s = np.cos(angles[k]), np.sin(angles[k])
            p = np.array([[c, -s], [s, c]]) @ p
        return p

    def plain(angles, p):
        for k in range(12):
            c, s = jax.numpy.cos(angles[k]), jax.numpy.sin(angles[k])
            p = jax.numpy.array([[c, -s], [s, c]]) @ p
        return p

    angles, p = np.linspace(0.1, 2.0, 12), np.array([1.0, 0.5])
    jacobian = arm.jacobian("angles")
    expected = jax.jacobian(plain)(angles, p)
    np.testing.assert_allclose(jacobian(angles, p).toarray(), expected, rtol=1e-12)
    (prepared,) = jacobian._known.values()
    assert isinstance(prepared.plan[0], Batch)
    compiled = jax.jit(arm.jacobian("angles", format="coo"))(angles, p)
    np.testing.assert_allclose(compiled.values, expected.ravel(), rtol=1e-12)
    single = jacobian.values(angles.astype(np.float32), p.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected.ravel(), rtol=1e-4)


@pytest.mark.parametrize("name", ["arrow", "graph"])
def test_large_stages_are_computed_once(name):
    n = FENCED + 1
    random = np.random.default_rng(0)
    x, direction = random.uniform(0.5, 1.5, (2, n))
    index_arrays = (random.integers(0, n, n), random.integers(0, n, n)) if name == "graph" else ()
    hessian = getattr(sparse_programs, name).hessian("x", format="csr")
    found = hessian(x, *index_arrays) @ direction

    def gradient(x):
        return jax.grad(getattr(sparse_programs, f"{name}_jax"))(x, *index_arrays)

    expected = jax.jvp(gradient, (x,), (direction,))[1]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    traced = jax.make_jaxpr(lambda x: hessian.values(x, *index_arrays))(x)
    assert "cond[" in str(traced)


def test_functions_are_called_once_for_each_of_their_entries():
    u = np.linspace(0.0, 1.0, 5000)
    jacobian = stencil_1d.jacobian("u")
    compiled = jax.jit(jacobian.values).lower(u).compile().as_text()
    (call,) = (line for line in compiled.splitlines() if " exponential(" in line)
    assert f"f64[{len(u) - 2}]" in call
    (gather,) = re.findall(r"(?m)^%fused[^{]*\{(?:(?!^}).)* gather\(.*?^}", compiled, re.S)
    assert "exponential" not in gather


def test_statements_between_are_read_through():
    hessian = sparse_programs.arrow.hessian("x", format="coo")
    hessian(np.ones(5))
    (prepared,) = hessian._known.values()
    tangents = hessian._linear(hessian.base.instance).tangents
    assert len(prepared.plan) <= len(tangents) // 2


def test_empty_support():
    @tensor
    def ignores(x, y):  # noqa: ARG001
        return [y[i] * 2 for i in range(len(y))]

    found = ignores.jacobian("x")(np.ones(3), np.ones(4))
    assert found.shape == (4, 3)
    assert found.nnz == 0
    assert related.hessian("x", format="csr")(np.ones(4), np.zeros((4, 4), bool)).nnz == 0
    nobody = np.zeros(0, int)
    assert graph.hessian("x", format="csr")(np.ones(4), nobody, nobody).nnz == 0


def test_linear_map_needs_no_values():
    @tensor
    def shifted(x):
        return [x[i + 1] for i in range(len(x) - 1)]

    found = shifted.jacobian("x")(np.arange(5.0, dtype=np.float32))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray(), np.eye(4, 5, 1))


def test_pickles():
    x = draw()["band"][0]
    again = pickle.loads(pickle.dumps(band.jacobian("x", format="csc")))
    assert again(x).format == "csc"


def test_identity_is_sparse():
    @tensor
    def itself(x):
        return x

    found = itself.jacobian("x")(np.ones(100_000))
    assert found.nnz == 100_000
    assert (found.data == 1).all()


def test_sparse_tuples_need_no_square_array():
    @tensor
    def bonds(x, R):
        n = len(x)
        return sum((x[i] - x[j]) ** 4 for i in range(n) for j in range(n) if (i, j) in R)

    n = 40_000
    found = bonds.hessian("x", format="csr")(
        np.linspace(0, 1, n), {(i, i + 1) for i in range(n - 1)}
    )
    assert found.nnz == 3 * n - 2


def test_entries_between_bounds_are_listed_without_the_box():
    n = 50_000
    assert sparse_programs.kernel_matrix.jacobian("x").pattern(np.ones(n)).count == 5 * n - 6


def test_under_jit():
    x = draw()["band"][0]
    found = jax.jit(lambda x: band.jacobian("x", format="bcoo")(x))(x)
    np.testing.assert_allclose(found.todense(), _dense("band", ["x"], (x,)), rtol=1e-10)
    args = draw()["graph"]
    with pytest.raises(TensorError, match="decides which entries there are, and JAX traces it"):
        jax.jit(lambda *a: graph.hessian("x", format="bcoo")(*a))(*args)


def test_without_structure_it_is_dense_and_says_so():
    @tensor
    def everything(W, x):
        m, n = W.shape
        return [np.tanh(sum(W[i, j] * x[j] for j in range(n))) for i in range(m)]

    @tensor
    def loop(x):
        h = 0.0
        for t in range(len(x)):
            h = np.tanh(h + x[t])
        return h

    W, x = np.arange(6.0).reshape(2, 3) / 10, np.ones(3)
    with pytest.warns(UserWarning, match="every entry"):
        found = everything.jacobian("x")(W, x)
    np.testing.assert_allclose(
        found.toarray(), jax.jacobian(lambda x: np.tanh(1) * 0 + jax.numpy.tanh(W @ x))(x)
    )
    with pytest.warns(UserWarning, match="loop"):
        found = loop.jacobian("x")(x)
    assert found.shape == (1, 3)
    assert found.nnz == 3


def test_refuses_what_does_not_fit():
    n = 4_000_000
    x = np.zeros(n, np.float32)
    with pytest.raises(TensorError, match="takes 64 TB") as refused:
        band.jacobian("x", format="dense")(x)
    advice = '`band.jacobian("x", format="csr")`: 7,999,999 entries, 192 MB'
    assert advice in str(refused.value)

    with pytest.raises(TensorError, match="the dense Jacobian takes 64 TB") as refused:
        sparse_programs.arrow.hessian("x")(x)
    advice = '`arrow.hessian("x", format="csr")`: 11,999,998 entries, 288 MB'
    assert advice in str(refused.value)

    @tensor
    def full(x):
        n = len(x)
        return sum(x[i] for i in range(n)) ** 3

    with pytest.raises(TensorError, match="the Jacobian has 16000000000000 entries"):
        full.hessian("x", format="csr")(x)
    with pytest.raises(TensorError, match=r"use `\.jvp` and `\.vjp`"):
        full.hessian("x")(x)


def test_refuses_what_it_does_not_know():
    with pytest.raises(TensorError, match="csv"):
        band.jacobian("x", format="csv")
    with pytest.raises(TensorError, match="no parameter"):
        band.jacobian("y")
    with pytest.raises(TensorError, match="by one parameter"):
        band.jacobian("x", "x")
    with pytest.raises(TensorError, match="name them first"):
        band.jacobian(np.ones(3), np.ones(3))

    @tensor
    def two(x):
        return [x[i] for i in range(len(x))], sum(x[i] for i in range(len(x)))

    with pytest.raises(TensorError, match="returns a tuple"):
        two.jacobian("x")(np.ones(3))


def test_sparsity_is_written():
    x = draw()["band"][0]
    band(x)
    assert (
        str(band.sparsity("x")) == "(i0; j0) in i0:n, j0:n where i0≤j0+1 ∧ j0≤i0\nentries: 2*n - 1"
    )


def test_mixed_hessian_is_dense_by_default():
    args = draw()["chain"]
    found = sparse_programs.chain.hessian("p", "rest")(*args)
    assert found.shape == (7, 2, 6)


@pytest.mark.parametrize("name", ["arrow", "graph", "stencil_3d"])
def test_hessian_is_computed_on_one_side_of_the_diagonal(name):
    args, function = draw()[name], getattr(sparse_programs, name)
    wrt = next(names for case, *names in CASES if case == name)
    hessian = function.hessian(*wrt, format="csr")
    found = hessian(*args)
    assert (found != found.T).nnz == 0  # equal in every bit
    np.testing.assert_allclose(found.toarray(), _dense(name, wrt, args), rtol=1e-10, atol=1e-12)
    (prepared,) = hessian._known.values()
    rows, columns = prepared.pattern.rows, prepared.pattern.columns
    computed = np.count_nonzero(rows <= columns)
    assert sparse_jacobian._find_mirror_entries(prepared.pattern).max() + 1 == computed < len(rows)
    assert prepared.plan[-1].size == len(rows)
    assert not any(addend.steps for addend in prepared.plan[-1].addends)


def test_cost_is_counted():
    x = draw()["band"][0]
    found = band.jacobian("x").cost(x)
    n = len(x)
    assert found.entries == 2 * n - 1
    assert found.most_per_value == 2
    assert found.operations <= found.bound
    assert found.derivative == band.jvp("x").cost(x, x).total


def test_patterns_are_drawn():
    args = draw()
    sparse_programs.arrow(*args["arrow"])
    shown = sparse_programs.arrow.sparsity("x", "x")._repr_html_()
    assert "entries: 3*n - 2" in shown
    assert "at n = 12" in shown
    assert (
        shown.count("M") == 12 + 10
    )  # a full row and column, and what is left of the diagonal: runs of squares
    graph(*args["graph"])
    assert "<svg" not in graph.sparsity("x", "x")._repr_html_()
    large = stencil_1d.jacobian("u").pattern(np.zeros(600))._repr_html_()
    assert "600 × 600, 1,796 entries" in large


@pytest.mark.parametrize("name", ["stencil_2d", "stencil_3d"])
def test_counts_of_stencils_are_polynomials(name):
    function, args = getattr(sparse_programs, name), draw()[name]
    wrt = next(names for case, *names in CASES if case == name)
    function(*args)
    found = function.sparsity(*wrt).count
    assert not found.counts
    assert ("5*m*n" if name == "stencil_2d" else "7*depth*m*n") in str(found)
    for sides in ((1, 1, 1), (1, 4, 2), (2, 2, 2), (3, 5, 4)):
        shape = sides[: np.ndim(args[0])]
        sizes = dict(zip(("n", "m", "depth"), shape, strict=False))
        derivative = _sparse(function, wrt, "coo")
        assert found.evaluate(**sizes) == derivative.pattern(np.ones(shape)).count


def test_formats_that_jax_cannot_trace_say_which_can_be():
    u = np.ones(8)
    dense = stencil_1d.jacobian("u", format="dense")(u)
    for form in ("csr", "csc"):
        with pytest.raises(TensorError, match="bcoo"):
            jax.jit(stencil_1d.jacobian("u", format=form))(u)
    traced = jax.jit(lambda u: stencil_1d.jacobian("u", format="bcoo")(u).todense())(u)
    np.testing.assert_allclose(traced, dense)
