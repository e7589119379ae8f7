"""Layouts follow the support; reads are views."""

from random import Random

import jax
import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.cost import counting
from jupyter_hvd.tensor.cost.counting import RelationData, count_points, holds_in_rows
from jupyter_hvd.tensor.jax.access import Space, read
from jupyter_hvd.tensor.jax.backend import kernel
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.predicates import (
    Exists,
    Related,
    compare,
    conj,
    conjuncts,
    disj,
    exists,
)
from jupyter_hvd.tensor.language.terms import Binder
from jupyter_hvd.tensor.language.types import IndexArray, Relation, TupleSet
from jupyter_hvd.tensor.lowering import coiteration as indexed
from jupyter_hvd.tensor.lowering import coo as tuples
from jupyter_hvd.tensor.polyhedral.entailment import drop_implied
from jupyter_hvd.tensor.polyhedral.lattice import disjoint_cases, make_frame, superset

I_, J_, K_ = (Affine.of(name) for name in "ijk")


def space(**extents):
    return tuple(Binder(i, Affine.of(n)) for i, n in extents.items())


def volume(p, **extents):
    return make_frame(list(extents), superset(space(**extents), p)).volume


def test_a_frame_has_the_lattice_that_equalities_leave():
    assert volume(compare("=", I_, J_), i=50, j=50) == 50
    assert volume(conj(compare("=", I_, J_), compare("=", J_, 3)), i=50, j=50) == 1
    assert volume(compare("=", I_ * 2, J_ * 3), i=100, j=100) == 34
    assert volume(compare("=", I_, J_ * 2), i=100, j=100) == 50
    assert volume(compare("=", I_, J_ + K_), i=9, j=3, k=4) == 12


def test_a_band_is_as_wide_as_its_differences():
    band = conj(compare("≤", I_ - J_, 2), compare("≤", J_ - I_, 1))
    assert volume(band, i=100, j=100) == 400
    assert volume(conj(band, compare("=", J_, K_)), i=100, j=100, k=100) == 400


def test_a_union_of_far_diagonals_is_taken_apart():
    far = disj(compare("=", I_, J_), compare("=", I_ + 30, J_))
    assert len(disjoint_cases(space(i=100, j=100), far)) == 2
    assert (
        len(disjoint_cases(space(i=100, j=100), disj(compare("=", I_, 0), compare("≤", 2, I_))))
        == 1
    )


def test_frames_hold_every_point():
    p = conj(compare("≤", I_ * 2 + J_, 9), compare("<", J_ - I_, 2), compare("=", K_, I_ - J_ + 1))
    f = make_frame(["i", "j", "k"], superset(space(i=6, j=6, k=6), p))
    inside = 0
    for i, j, k in np.ndindex(6, 6, 6):
        if 2 * i + j <= 9 and j - i < 2 and k == i - j + 1:
            at = {"i": i, "j": j, "k": k}
            u = {
                name: a.evaluate(at) for (name, _), a in zip(f.coordinates, f.inverse, strict=True)
            }
            assert all(0 <= u[name] < n.constant for name, n in f.coordinates)
            assert {v: a.evaluate(u) for v, a in f.forward} == at
            inside += 1
    assert inside > 5


READS = [
    ((6, 5), (J_, I_), {"i": 5, "j": 6}),
    ((6, 5), (I_ - 2, J_ + 1), {"i": 9, "j": 5}),
    ((6, 6), (I_, I_), {"i": 6}),
    ((6, 6), (I_, I_ + 2), {"i": 6}),
    ((6, 6), (I_, I_ + J_ - 1), {"i": 6, "j": 3}),
    ((12,), (I_ * 4 + J_,), {"i": 3, "j": 4}),
    ((12,), (I_ * 4 + J_ - 2,), {"i": 4, "j": 3}),
    ((12,), (I_ - J_,), {"i": 12, "j": 5}),
    ((12,), (I_ * 2 + 1,), {"i": 7}),
    ((12,), (Affine.of(11) - I_ * 3,), {"i": 4}),
    ((300,), (I_ + J_,), {"i": 150, "j": 150}),
    ((4, 3, 5), (Affine.of(2), J_, I_), {"i": 5, "j": 3}),
    ((4, 3, 5), (K_, I_ - 1, K_ + 1), {"i": 3, "k": 4}),
    ((4, 3), (I_ * 2, J_ + 9), {"i": 2, "j": 2}),
    ((3, 40), (I_ + J_, I_ * 7 - J_), {"i": 4, "j": 9}),
]


@pytest.mark.parametrize(("shape", "indices", "extents"), READS, ids=lambda x: str(x)[:40])
def test_reading_is_indexing_with_zeros_outside(shape, indices, extents):
    array = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    found, axes = read(array, indices, Space(dict(extents)))
    found = np.asarray(found)
    assert axes == tuple(i for i in extents if any(i in a.names for a in indices))
    for point in np.ndindex(*(extents[i] for i in axes)):
        at = dict(zip(axes, point, strict=True))
        place = tuple(a.evaluate(at) for a in indices)
        inside = all(0 <= k < n for k, n in zip(place, shape, strict=True))
        assert found[point] == (array[place] if inside else 0)


def test_index_tuples_are_not_stored():
    def looked_up(table, i, j):
        entries = {"i": (i, ("e",)), "j": (j, ("e",))}
        return read(table, (I_, J_), Space({"e": len(i)}, entries))[0]

    table = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    i, j = np.array([0, 2, -1, 3, 1, 1]), np.array([1, 3, 0, 0, 4, -1])
    np.testing.assert_array_equal(looked_up(table, i, j), [1, 11, 0, 0, 0, 0])
    many = np.zeros(100_000, np.int32)
    compiled = jax.jit(looked_up).lower(table, many, many).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < many.nbytes


def test_counts_follow_data():
    source = np.array([2, 0, 2, 1])
    data = {"src": RelationData(IndexArray((Affine.of(4),)), source)}
    p = conj(Related("src", (I_, J_)), compare("≤", 1, J_))
    assert count_points(space(i=4, j=3), p, data) == 3
    assert count_points(space(j=3), p, data, space(i=4)) == 2
    assert count_points(space(i=4, j=3, k=7), p, data) == 21


def test_counts_follow_the_tuples_of_a_set(monkeypatch):
    """Neither ranges of 10^5 values are crossed, nor is a table of any size made at once."""
    n = 10**5
    pairs = np.array([(7, 3), (8, 3), (n - 1, 0)], np.int32)
    mask = np.zeros((4, 5), bool)
    mask[3, 2] = mask[0, 4] = True
    data = {
        "R": RelationData(TupleSet(2), pairs),
        "S": RelationData(Relation((Affine.of(4), Affine.of(5))), mask),
    }
    e = Affine.of("e")
    tuples, back = Related("R", (I_, J_)), Related("R", (K_, J_))
    box = space(i=n, j=n, k=n)
    for block in (1, 1 << 22):
        monkeypatch.setattr(counting, "BLOCK", block)
        assert count_points(space(i=n, j=n), tuples, data) == 3
        assert count_points(box, conj(tuples, back), data) == 5
        assert count_points(box, conj(tuples, Related("S", (J_, K_))), data) == 3
        assert count_points(space(i=n), Related("S", (I_ * 2 - 1, I_)), data) == 1
        assert count_points(space(i=n, j=n), conj(Related("R", (I_ + J_, J_)), tuples), data) == 1
        shadow = Exists("e", Affine.of(n), Related("R", (e, I_)))
        assert count_points(space(i=n, j=n), conj(shadow, compare("<", J_, I_)), data) == 3
        assert count_points(space(j=n), tuples, data, space(i=n)) == 2


def random_predicate(random, indices, depth):
    kind = random.randrange(8) if depth else random.randrange(4)
    first, second = (Affine.of(random.choice(indices)) for _ in range(2))
    if kind < 3:
        return Related(random.choice("RS"), (first, second + random.choice((0, 0, 0, 1))))
    if kind == 3:
        return compare(random.choice("<≤="), first, second)
    if kind == 4:
        return disj(*(random_predicate(random, indices, depth - 1) for _ in range(2)))
    if kind == 5:
        return conj(*(random_predicate(random, indices, depth - 1) for _ in range(2)))
    index = random.choice("ijef")  # which may hide another
    body = random_predicate(random, [*indices, index, index], depth - 1)
    return exists(index, Affine.of(random.randrange(1, 4)), body)


def test_random_counts_are_those_of_the_points(monkeypatch):
    sizes = {"i": 3, "j": 4, "k": 2}
    binders, grid = space(**sizes), np.indices(tuple(sizes.values()))
    columns = dict(zip(sizes, grid.reshape(3, -1), strict=True))
    for seed in range(1000):
        random, rng = Random(seed), np.random.default_rng(seed)
        monkeypatch.setattr(counting, "BLOCK", random.choice((1, 3, 1 << 22)))
        p = conj(*(random_predicate(random, "ijk", 2) for _ in range(2)))
        pairs = np.unique(rng.integers(-1, 5, (random.randrange(6), 2)), axis=0)
        entries = rng.random((4, 3)) < 0.5
        shape = Relation((Affine.of(4), Affine.of(3)))
        data = {"R": RelationData(TupleSet(2), pairs), "S": RelationData(shape, entries)}
        there = np.broadcast_to(holds_in_rows(p, columns, data), (24,)).reshape(3, 4, 2)
        assert count_points(binders, p, data) == there.sum(), seed
        assert count_points(binders[:2], p, data, binders[2:]) == there.any(2).sum(), seed


@pytest.mark.parametrize(
    "seeds",
    [
        range(400),
        pytest.param(range(400, 800), marks=pytest.mark.slow),
        pytest.param(range(800, 4000), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_quantifiers_are_dropped_only_where_the_rest_says_them(seeds):
    binders, places = space(i=3, j=3), np.indices((3, 3)).reshape(2, -1)
    columns, dropped = dict(zip("ij", places, strict=True)), 0
    for seed in seeds:
        random = Random(seed)
        p = conj(*(random_predicate(random, "ij", 3) for _ in range(3)))
        known = conj(*(random_predicate(random, "ij", 1) for _ in range(random.randrange(3))))
        left = drop_implied(p, known, binders)
        dropped += len(conjuncts(p)) - len(conjuncts(left))
        for trial in range(4):
            entries = np.random.default_rng(100 * seed + trial).random((2, 3, 3)) < 0.6
            dims = Relation((Affine.of(3), Affine.of(3)))
            data = {x: RelationData(dims, a) for x, a in zip("RS", entries, strict=True)}
            there = holds_in_rows(known, columns, data)
            assert not np.any(
                there & (holds_in_rows(p, columns, data) != holds_in_rows(left, columns, data))
            ), seed
    assert dropped > len(seeds) / 20


def test_a_quantifier_over_fewer_rows_is_kept():
    @tensor
    def total(x, R):
        n, m = R.shape
        return sum(
            x[j] for j in range(m) for i in range(n) if R[i, j] and any(R[e, j] for e in range(2))
        )

    x, R = np.array([1.0, 10.0, 100.0]), np.array([[1, 0, 0], [0, 1, 0], [1, 1, 1]], bool)
    assert total(x, R) == total.interpret(x, R) == 22


# What is stored


@tensor
def tridiagonal(a, b, w):
    n = len(a)
    A = [
        [
            (a[i] if i == j else 0) + (b[i] if i == j + 1 else 0) + (b[j] if j == i + 1 else 0)
            for j in range(n)
        ]
        for i in range(n)
    ]
    y = [sum(A[i][j] * w[j] for j in range(n)) for i in range(n)]
    return sum(w[i] * y[i] for i in range(n))


def largest(function, *arguments):
    """The entries of the largest array of a kernel, its traced intermediates included."""
    instance, named, sizes, _ = function._at(arguments, {})
    made = kernel(instance, sizes)
    jaxpr = jax.make_jaxpr(made.run)(*made.operands(tuple(named.values())))
    sizes = [v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars]
    return max(sizes)


def test_no_kernel_of_diagonals_makes_a_matrix():
    n = 1000
    a, b, w = np.ones(n), np.ones(n), np.ones(n)
    assert largest(tridiagonal, a, b, w) <= 4 * n
    assert largest(tridiagonal.grad("a", "b", "w"), a, b, w) <= 4 * n


def test_an_edge_energy_makes_no_incidence_matrix():
    @tensor
    def springs(x, src, dst):
        return sum((x[src[e]] - x[dst[e]]) ** 2 for e in range(len(src)))

    rng = np.random.default_rng(0)
    x, src, dst = rng.normal(size=300), rng.integers(0, 300, 1000), rng.integers(0, 300, 1000)
    assert largest(springs.grad("x"), x, src, dst) <= 2000
    assert largest(springs.hessian("x"), x, src, dst) <= 300 * 300


def test_a_set_of_tuples_is_run_over_tuple_by_tuple():
    @tensor
    def energy(x, y, R):
        n, m = len(x), len(y)
        return sum((x[i] - y[j]) ** 2 for i in range(n) for j in range(m) if (i, j) in R)

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=400), rng.normal(size=500)
    R = {(int(rng.integers(400)), int(rng.integers(500))) for _ in range(99)}
    assert largest(energy, x, y, R) <= 500
    assert largest(energy.grad("x", "y"), x, y, R) <= 500
    np.testing.assert_allclose(energy(x, y, R), sum((x[i] - y[j]) ** 2 for i, j in R), rtol=1e-9)


def sparse(rng, *shape):
    """A relation of which one entry in a hundred is true, enough of them to go over."""
    return rng.random(shape) < 0.01


def test_a_boolean_array_with_few_true_entries_is_run_over_by_these():
    @tensor
    def energy(x, y, R):
        n, m = len(x), len(y)
        return sum(np.exp(x[i] - y[j]) for i in range(n) for j in range(m) if R[i, j])

    rng = np.random.default_rng(0)
    x, y, R = rng.normal(size=200), rng.normal(size=300), sparse(rng, 200, 300)
    gradient = energy.grad("x", "y")
    assert largest(energy, x, y, R) <= 3 * 1024
    assert largest(gradient, x, y, R) <= 3 * 1024
    assert largest(energy, x, y, ~R) >= R.size
    weights = np.where(R, np.exp(x[:, None] - y), 0)
    np.testing.assert_allclose(energy(x, y, R), weights.sum(), rtol=1e-9)
    dx, dy = gradient(x, y, R)
    np.testing.assert_allclose(dx, weights.sum(1), rtol=1e-9)
    np.testing.assert_allclose(dy, -weights.sum(0), rtol=1e-9)
    # From outside: known while tracing, and not known.
    traced = jax.grad(lambda x: jax.jit(lambda x, R: energy.jax(x, y, R))(x, R))(x)
    np.testing.assert_allclose(traced, weights.sum(1), rtol=1e-9)
    closed = jax.jit(jax.vmap(jax.grad(lambda x: energy.jax(x, y, R))))(np.stack([x, x]))
    np.testing.assert_allclose(closed[1], weights.sum(1), rtol=1e-9)


@tensor
def arrived(w, dst, x):
    n = len(x)
    sent = [sum(np.sin(w[e]) for e in range(len(w)) if dst[e] == i) for i in range(n)]
    return sum(sent[i] ** 2 * x[i] for i in range(n))


@pytest.mark.parametrize("wrap", [np.asarray, jax.numpy.asarray])
def test_what_all_entries_are_below_is_not_asked_of_each(wrap):
    """Which they are is found out for each array, and counts no longer for another."""
    random = np.random.default_rng(0)
    w, x = random.normal(size=40), random.normal(size=8)
    gradient = arrived.grad("w")

    def below(dst):
        found = gradient(w, wrap(dst), x)
        np.testing.assert_allclose(found, gradient.interpret(w, dst, x), rtol=1e-5)
        np.testing.assert_allclose(jax.jit(gradient)(w, wrap(dst), x), found, rtol=1e-5)
        plan = gradient.plan(w, wrap(dst), x)
        return dict(plan.counts).get("dst"), "0≤δ0" in str(plan)

    within = random.integers(0, 8, 40)
    assert below(within) == (8, False)
    for outside, expected in ((-1, None), (8, 40), (39, 40), (40, None), (1000, None)):
        assert below(np.where(within == 3, outside, within)) == (expected, True)
    assert below(within[::-1].copy()) == (8, False)


def test_relations_of_a_few_more_tuples_share_a_kernel():
    @tensor
    def count(x, R):
        return sum(x[i] * x[j] for i in range(len(x)) for j in range(len(x)) if R[i, j])

    rng = np.random.default_rng(0)
    x, R = rng.normal(size=200), np.zeros((200, 200), bool)
    R.flat[rng.choice(R.size, 600, replace=False)] = True
    instance, _, sizes, _ = count._at((x, R), {})
    made = kernel(instance, sizes)
    for entries in (600, 1000, 0):
        R.flat[: max(0, entries - 600)] = True
        R &= entries > 0
        made.plan(made.operands((x, R)))
        np.testing.assert_allclose(count(x, R), x @ R @ x, rtol=1e-9, atol=1e-12)
    assert [dict(counts) for counts, _, _ in made.plans] == [{"R": 1024}, {"R": 1}]


def test_a_chain_of_relations_is_a_product_of_matrices():
    @tensor
    def paths(x, y, R, S):
        n, m = R.shape
        return sum(
            x[i] * y[k] for i in range(n) for j in range(m) for k in range(n) if R[i, j] and S[j, k]
        )

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=150), rng.normal(size=150)
    for R, S in (
        (sparse(rng, 150, 160), sparse(rng, 160, 150)),
        (~sparse(rng, 150, 160), sparse(rng, 160, 150)),
    ):
        assert largest(paths.grad("x", "y"), x, y, R, S) <= 150 * 160
        np.testing.assert_allclose(paths(x, y, R, S), x @ R @ S @ y, rtol=1e-9)
        np.testing.assert_allclose(paths.grad("x")(x, y, R, S), R @ (S @ y), rtol=1e-9)


@tensor
def two_hops(x, R, Q):
    n = len(x)
    return sum(
        np.exp(x[i] * x[k])
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if R[i, j] and Q[j, k]
    )


@tensor
def log_even(x, S):
    return sum(np.log(x[i]) for i in range(len(x)) if S[2 * i])


@tensor
def strided(x, S):
    n = len(x)
    return [sum(x[i] * x[k] for i in range(n) if S[i] and i == 2 * k) for k in range(n)]


@tensor
def next_but(x, S):
    n = len(x)
    return [sum(np.sin(x[i] * x[k]) for i in range(n) if S[i] and i + 1 == k) for k in range(n)]


@tensor
def cube(x, R):
    n = len(x)
    return [
        [[np.exp(x[i] - x[j]) if R[i, j] and i == k else 0 for k in range(n)] for j in range(n)]
        for i in range(n)
    ]


@tensor
def plain(x, R):
    n = len(x)
    return sum(np.exp(x[i] - x[j]) for i in range(n) for j in range(n) if R[i, j])


@tensor
def both_of_four(x, R, Q):
    n = 8
    return [
        [
            sum(
                np.log(x[j] * x[i]) for i in range(n) if R[2 * j, i] and not Q[k, j] and R[2 * k, j]
            )
            for k in range(n)
        ]
        for j in range(n)
    ]


def test_a_hessian_over_tuples_makes_no_cube():
    rng = np.random.default_rng(0)
    x, R = rng.normal(size=200), sparse(rng, 200, 200)
    assert largest(plain.hessian("x"), x, R) <= 200 * 512
    weights = np.where(R, np.exp(x[:, None] - x), 0)
    expected = np.diag(weights.sum(0) + weights.sum(1)) - weights - weights.T
    np.testing.assert_allclose(plain.hessian("x")(x, R), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gather", [0, 4])
@pytest.mark.parametrize(
    "function",
    [
        two_hops,
        two_hops.grad("x"),
        log_even.grad("x"),
        strided,
        next_but,
        next_but.vjp("x"),
        cube,
        plain.hessian("x"),
        both_of_four.vjp("x"),
    ],
    ids=lambda f: f.__name__,
)
def test_what_tuples_determine_together(function, gather, monkeypatch):
    monkeypatch.setattr(tuples, "SMALL", 0)
    monkeypatch.setattr(tuples, "DENSE", 3)
    monkeypatch.setattr(indexed, "GATHER", gather)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        given = {"x": rng.uniform(1, 2, 8), "S": rng.random(16) < 0.2, "dy": None}
        given |= {x: rng.random((16, 16)) < (0.02, 0.1, 0.3)[seed] for x in "RQ"}
        if "dy" in function.__signature__.parameters:
            given["dy"] = rng.normal(size=8 if function.__name__ == "vjp_next_but" else (8, 8))
        arguments = [given[x] for x in function.__signature__.parameters]
        instance, named, sizes, _ = function._at(arguments, {})
        made = kernel(instance, sizes)
        with jax.disable_jit():
            found = made.run(*made.operands(tuple(named.values())))
        expected = function.interpret(*arguments)
        np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-9, atol=1e-12)


def test_relations_keep_out_what_is_not_a_number():
    @tensor
    def flow(x, z, R, S):
        n = len(x)
        return sum(
            np.log(x[i]) * z[k]
            for i in range(n)
            for j in range(n)
            for k in range(n)
            if R[i, j] and S[j, k]
        )

    for n in (20, 120):  # point by point, and as matrices
        rng = np.random.default_rng(n)
        x, z = rng.uniform(1, 2, n), rng.normal(size=n)
        R, S = rng.random((n, n)) < 0.5, rng.random((n, n)) < 0.5
        R[0], x[0] = False, 0
        logs = np.log(x, out=np.zeros(n), where=x > 0)
        np.testing.assert_allclose(flow(x, z, R, S), logs @ R @ S @ z, rtol=1e-9)
        np.testing.assert_allclose(flow.grad("z")(x, z, R, S), logs @ R @ S, rtol=1e-9)


def test_blocks_hold_what_is_as_long_as_they_are(blocks_of):
    blocks_of(100, 50)

    @tensor
    def parts(x):
        n = len(x)
        y = [[np.exp(x[i] * x[j]) for j in range(n)] for i in range(n)]
        return (
            sum(y[i][j] for i in range(n - 4) for j in range(n)),
            sum(y[i][j] * y[i][j] for i in range(n) for j in range(n)),
            [sum(y[i][j] for j in range(n)) if i < n - 4 else x[i] for i in range(n)],
            [[y[i][j] * x[i] if i < n - 3 else x[j] for j in range(n)] for i in range(n)],
        )

    x = np.random.default_rng(0).uniform(size=20)
    for found, expected in zip(parts(x), parts.interpret(x), strict=True):
        np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-9)


def test_outer_products_inside_sums_are_not_formed():
    @tensor
    def kronecker(A, B, x):
        n, m = x.shape
        K = [
            [[[A[i, j] * B[p, q] for q in range(m)] for j in range(n)] for p in range(m)]
            for i in range(n)
        ]
        y = [
            [sum(K[i][p][j][q] * x[j, q] for j in range(n) for q in range(m)) for p in range(m)]
            for i in range(n)
        ]
        return sum(y[i][p] ** 2 for i in range(n) for p in range(m))

    rng = np.random.default_rng(0)
    A, B, x = rng.normal(size=(7, 7)), rng.normal(size=(6, 6)), rng.normal(size=(7, 6))
    assert largest(kronecker.grad("A", "B", "x"), A, B, x) <= 7 * 7 * 6
    expected = jax.grad(lambda x: ((A @ x @ B.T) ** 2).sum())(x)
    np.testing.assert_allclose(kronecker.grad("x")(A, B, x), expected, rtol=1e-9)


def test_blocks_of_a_flat_vector_are_a_reshape():
    @tensor
    def form(B, x):
        y = [
            [sum(B[b, i, j] * x[8 * b + j] for j in range(8)) for i in range(8)]
            for b in range(len(B))
        ]
        return sum(x[8 * b + i] * y[b][i] for b in range(len(B)) for i in range(8))

    rng = np.random.default_rng(0)
    B, x = rng.normal(size=(50, 8, 8)), rng.normal(size=400)
    assert largest(form.grad("B", "x"), B, x) <= 3200
    rows = x.reshape(50, 8)
    expected = np.einsum("bij,bj->bi", B, rows) + np.einsum("bij,bi->bj", B, rows)
    np.testing.assert_allclose(form.grad("x")(B, x), expected.ravel(), rtol=1e-9)


def test_a_band_is_stored_as_a_band():
    @tensor
    def form(A, x):
        n = len(x)
        y = [sum(A[i, j] * x[j] for j in range(n) if -2 <= i - j <= 2) for i in range(n)]
        return sum(x[i] * y[i] for i in range(n))

    rng = np.random.default_rng(0)
    A, x = rng.normal(size=(90, 90)), rng.normal(size=90)
    gap = np.arange(90)[:, None] - np.arange(90)
    band = np.where(np.abs(gap) <= 2, A, 0)
    np.testing.assert_allclose(form(A, x), x @ band @ x, rtol=1e-9)
    np.testing.assert_allclose(form.grad("x")(A, x), (band + band.T) @ x, rtol=1e-9)
