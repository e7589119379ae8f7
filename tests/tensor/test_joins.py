"""Sums over several relations, run over the tuples on which they agree."""

from itertools import product

import jax
import numpy as np
import pytest
import random_joins

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.cost.counting import RelationData
from jupyter_hvd.tensor.jax import kernel as kernel_module
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.predicates import Related
from jupyter_hvd.tensor.language.types import TupleSet
from jupyter_hvd.tensor.lowering import coiteration, lower, relation_joins
from jupyter_hvd.tensor.lowering.coo import OUTSIDE
from jupyter_hvd.tensor.lowering.ir import Load
from jupyter_hvd.tensor.lowering.relation_joins import (
    Join,
    connected_groups,
    is_joinable,
    join_atoms,
    join_rows,
)


@tensor
def chain(R, S, a, b, c):
    n = len(c)
    return sum(
        a[i, j] * b[j, k] * c[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if (i, j) in R and (j, k) in S
    )


@tensor
def masked_chain(R, S, a, b, c):
    n = len(c)
    return sum(
        a[i, j] * b[j, k] * c[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if R[i, j] and S[j, k]
    )


@tensor
def dense_product(R, S, x, y):
    n = len(x)
    return [
        [sum(x[i] * y[j] * x[k] for j in range(n) if (i, j) in R and (j, k) in S) for k in range(n)]
        for i in range(n)
    ]


@tensor
def product_within(R, S, T, x, y):
    """A·B where T holds, and what is made of it."""
    n = len(x)
    C = [
        [
            sum(np.sin(x[i] - y[j]) * y[j] * x[k] for j in range(n) if (i, j) in R and (j, k) in S)
            if (i, k) in T
            else 0
            for k in range(n)
        ]
        for i in range(n)
    ]
    return sum(np.exp(C[i][k]) * x[k] for i in range(n) for k in range(n) if (i, k) in T)


@tensor
def congruence(R, T, a, d):
    """Aᵀ·D·A where T holds."""
    n = len(d)
    return [
        [
            sum(a[p, i] * d[p] * a[p, k] for p in range(n) if (p, i) in R and (p, k) in R)
            if (i, k) in T
            else 0
            for k in range(n)
        ]
        for i in range(n)
    ]


@tensor
def triangles(R, x):
    n = len(x)
    return sum(
        x[i] * x[j] * x[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if (i, j) in R and (j, k) in R and (i, k) in R
    )


@tensor
def count(R):
    return sum(
        1.0
        for i in range(9)
        for j in range(9)
        for k in range(9)
        if (i, j) in R and (j, k) in R and (k, i) in R
    )


@tensor
def three(W, R, S, x):
    """A ternary relation and two others, a chain whose links do not all meet."""
    n = len(x)
    return [
        sum(
            x[j] * x[k] * np.cos(x[m])
            for j in range(n)
            for k in range(n)
            for m in range(n)
            if (i, j, k) in W and (k, m) in R and (m, i) in S
        )
        for i in range(n)
    ]


@tensor
def shifted(R, S, x):
    """Indices that are shifted and turned round, and one that two relations give twice."""
    n = len(x)
    return sum(
        x[i] * x[j] * x[k]
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if i + 1 < n and (i + 1, n - 1 - j) in R and (n - 1 - j, k) in S and (k, k) in R
    )


@tensor
def loop(R, S, x):
    """What a loop carries, spread along both relations in each of its turns."""
    n = len(x)
    h = x
    for _ in range(3):
        h = [
            sum(
                np.tanh(h[k]) * x[j]
                for j in range(n)
                for k in range(n)
                if (i, j) in R and (j, k) in S
            )
            for i in range(n)
        ]
    return sum(h[i] for i in range(n))


def tuples(random, n, many, arity=2):
    """A set of so many tuples, or a few less."""
    return {tuple(map(int, p)) for p in random.integers(0, n, (many, arity))}


def mask(relation, n):
    found = np.zeros((n, n), bool)
    for p in relation:
        found[p] = True
    return found


@pytest.fixture
def eager(monkeypatch):
    """However few the points, what agrees is joined."""
    monkeypatch.setattr(coiteration, "SMALL", 1)


def joins_of(f, *arguments):
    return [str(x) for x in f.plan(*arguments).joins]


def agree(f, *arguments, rtol=1e-10):
    expected = np.asarray(f.interpret(*arguments), float)
    np.testing.assert_allclose(np.asarray(f(*arguments)), expected, rtol=rtol, atol=1e-12)


def cases(random, n, many):
    """Functions, arguments, and by what each has a gradient."""
    R, S, T = (tuples(random, n, many) for _ in range(3))
    W = tuples(random, n, 2 * many, 3)
    a, b = random.normal(size=(2, n, n))
    x, y = random.normal(size=(2, n))
    yield chain, (R, S, a, b, x), ("a", "c")
    yield product_within, (R, S, T, x, y), ("x", "y")
    yield congruence, (R, T, a, y), ()
    yield dense_product, (R, S, x, y), ()
    yield triangles, (R, x), ("x",)
    yield three, (W, R, S, x), ()
    yield shifted, (R, S, x), ("x",)
    yield loop, (R, S, x), ("x",)


NAMES = (
    "chain",
    "product_within",
    "congruence",
    "dense_product",
    "triangles",
    "three",
    "shifted",
    "loop",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("eager")
def test_values_and_gradients_are_the_references(name):
    random = np.random.default_rng(NAMES.index(name))
    for n, many in ((7, 18), (6, 5), (5, 25)):
        f, arguments, by = next(c for c in cases(random, n, many) if c[0].__name__ == name)
        agree(f, *arguments)
        for x in by:
            agree(f.grad(x), *arguments, rtol=1e-8)
        if not by:
            (last,) = list(f.__signature__.parameters)[-1:]
            result = np.asarray(f(*arguments))
            agree(f.vjp(last), *arguments, random.normal(size=result.shape), rtol=1e-8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("chain", ["R(a,b)⋈S(b,c)"]),
        ("product_within", ["R(a,b)⋈S(b,c)⋈T(a,c)"]),
        ("congruence", ["R(a,b)⋈R(a,c)⋈T(b,c)"]),
        ("triangles", ["R(a,b)⋈R(a,c)⋈R(b,c)"]),
        ("three", ["R(a,b)⋈S(b,c)⋈W(c,d,a)"]),
    ],
)
def test_what_is_joined(name, expected):
    random = np.random.default_rng(1)
    f, arguments, by = next(c for c in cases(random, 150, 400) if c[0].__name__ == name)
    assert joins_of(f, *arguments) == expected
    for x in by:
        assert joins_of(f.grad(x), *arguments) == expected


@pytest.mark.usefixtures("eager")
def test_relations_without_tuples_and_tuples_that_do_not_meet():
    random = np.random.default_rng(2)
    n = 6
    a, b = random.normal(size=(2, n, n))
    x, y = random.normal(size=(2, n))
    full = set(product(range(n), repeat=2))
    apart = {(i, 0) for i in range(n)}, {(1, k) for k in range(n)}
    for R, S in ((set(), full), (full, set()), (set(), set()), apart, ({(0, 0)}, {(0, 0)})):
        for f in (chain, chain.grad("a"), chain.grad("c")):
            agree(f, R, S, a, b, x)
        agree(dense_product, R, S, x, y)
        for T in (set(), full, {(5, 5)}, {(0, 0)}):
            agree(product_within, R, S, T, x, y)
            agree(product_within.grad("y"), R, S, T, x, y)
            agree(congruence, R, T, a, x)
    assert joins_of(chain, *apart, a, b, x) == ["R(a,b)⋈S(b,c)"]
    assert chain(*apart, a, b, x) == 0


def test_the_only_tuple_of_a_relation():
    """What it gives is no index of the result, which has its own relation."""
    random = np.random.default_rng(2)
    x, y = random.normal(size=(2, 6))
    full = set(product(range(6), repeat=2))
    agree(product_within, {(0, 0)}, {(0, 0)}, full, x, y)


def test_one_entry_of_what_is_stored_by_tuples():
    @tensor
    def at_two(R, x):
        y = [np.exp(x[i]) if (i,) in R else 0 for i in range(len(x))]
        return y[2] * x[1]

    for R in ({(1,), (2,), (4,)}, {(1,)}, {(2,)}):
        agree(at_two, R, np.arange(6.0))
        agree(at_two.grad("x"), R, np.arange(6.0))


@pytest.mark.usefixtures("eager")
def test_tuples_alone_are_counted():
    """Rows that only fill the table up count nothing."""
    random = np.random.default_rng(3)
    for many in (0, 3, 20, 40):
        R = tuples(random, 9, many)
        assert count(R) == sum(
            {(i, j), (j, k), (k, i)} <= R for i, j, k in product(range(9), repeat=3)
        )


@pytest.mark.parametrize("name", ["chain", "product_within", "triangles"])
def test_points_follow_the_tuples_that_agree(name):
    """As sizes double and each index has as many tuples as before, so do the points, and the bytes of what
    is made; along an index that a relation leaves open they would be four times as many.
    """
    points, made = [], []
    for n in (128, 256, 512, 1024):
        R, S, T = (
            {(i, (i + d) % n) for i in range(n) for d in ds} for ds in ((3, 7), (1, 5), (4, 8))
        )
        x, y = np.random.default_rng(n).normal(size=(2, n))
        if name == "chain":
            plan = chain.grad("c").plan(R, S, np.ones((n, n)), np.ones((n, n)), x)
        elif name == "triangles":
            plan = triangles.grad("x").plan(R | S | T, x)
        else:
            plan = product_within.grad("y").plan(R, S, T, x, y)
        points.append(plan.points)
        shapes = plan.shapes()
        steps = [s for s in plan.order if not isinstance(s.action, Load)]
        made.append(sum(plan.result_bytes(s, shapes) for s in steps))
    for found in points, made:
        assert max(np.diff(np.log2(found))) < 1.1, found


def test_the_cost_is_that_of_the_tuples_that_agree():
    random = np.random.default_rng(5)
    n = 24
    R = tuples(random, n, 60)
    found = sum({(i, j), (j, k), (i, k)} <= R for i, j, k in product(range(n), repeat=3))
    assert found > 5
    # Two multiplications for each, and additions but one.
    assert triangles.cost(R, np.ones(n)).total == 3 * found - 1


def test_what_does_not_pay_is_not_joined():
    random = np.random.default_rng(4)
    n = 40
    a, b = random.normal(size=(2, n, n))
    x = random.normal(size=n)
    full = set(product(range(n), repeat=2))
    assert joins_of(chain, tuples(random, 6, 8), tuples(random, 6, 8), a[:6, :6], b, x[:6]) == []
    assert joins_of(chain, {(0, j) for j in range(n)}, full, a, b, x) == []
    agree(chain.grad("c"), {(0, j) for j in range(n)}, full, a, b, x)


def test_no_more_tuples_than_there_is_room_for(monkeypatch):
    random = np.random.default_rng(6)
    n = 100
    R, S = tuples(random, n, 400), tuples(random, n, 400)
    a, b = random.normal(size=(2, n, n))
    arguments = R, S, a, b, random.normal(size=n)
    assert joins_of(chain, *arguments)
    monkeypatch.setattr(relation_joins, "MOST", 100)

    @tensor
    def another(R, S, a, b, c):
        return chain(R, S, a, b, c)

    assert joins_of(another, *arguments) == []
    agree(another, *arguments)


@pytest.mark.parametrize("n", [160])
def test_sparse_boolean_arrays(n):
    random = np.random.default_rng(7)
    R, S = tuples(random, n, 300), tuples(random, n, 300)
    a, b = random.normal(size=(2, n, n))
    c = random.normal(size=n)
    held = [jax.numpy.asarray(mask(x, n)) for x in (R, S)]
    for f, g in ((masked_chain, chain), (masked_chain.grad("c"), chain.grad("c"))):
        expected = g(R, S, a, b, c)
        assert joins_of(f, *held, a, b, c) == ["R(a,b)⋈S(b,c)"]
        for _ in range(2):  # the second time such a call is known
            np.testing.assert_allclose(f(*held, a, b, c), expected, rtol=1e-10)
        np.testing.assert_allclose(f(mask(R, n), mask(S, n), a, b, c), expected, rtol=1e-10)
        # Inside a jitted function they have no tuples, and nothing is joined.
        inside = jax.jit(f.jax)(*held, a, b, c)
        np.testing.assert_allclose(inside, expected, rtol=1e-10)


@pytest.mark.usefixtures("eager")
def test_sets_inside_a_jitted_function():
    random = np.random.default_rng(8)
    n = 7
    R, S = tuples(random, n, 18), tuples(random, n, 18)
    a, b = random.normal(size=(2, n, n))
    c = random.normal(size=n)
    inside = jax.jit(lambda c: chain.grad("c").jax(R, S, a, b, c))
    np.testing.assert_allclose(inside(c), chain.grad("c")(R, S, a, b, c), rtol=1e-10)
    by_jax = jax.grad(lambda c: chain.jax(R, S, a, b, c))(c)
    np.testing.assert_allclose(by_jax, chain.grad("c")(R, S, a, b, c), rtol=1e-10)


@pytest.mark.usefixtures("eager")
def test_types_of_numbers():
    random = np.random.default_rng(9)
    n = 7
    R, S = tuples(random, n, 18), tuples(random, n, 18)
    a, b = random.normal(size=(2, n, n))
    c = random.normal(size=n)
    single = [x.astype(np.float32) for x in (a, b, c)]
    assert chain(R, S, *single).dtype == np.float32
    assert chain(R, S, a, b, c).dtype == np.float64
    np.testing.assert_allclose(chain(R, S, *single), chain(R, S, a, b, c), rtol=1e-4)


@pytest.mark.usefixtures("eager")
def test_a_profile_and_the_ways_of_tuning():
    random = np.random.default_rng(10)
    f, arguments, _ = next(cases(random, 7, 18))
    profile = f.profile(*arguments, repeats=1)
    assert profile.total.operations == f.cost(*arguments).total
    assert not [c for c in f.tune(*arguments, repeats=2).candidates if "others" in c.reason]


def test_kernels_are_shared_by_numbers_of_tuples_up_to_a_power_of_two():
    random = np.random.default_rng(11)
    n = 150
    a, b = random.normal(size=(2, n, n))
    c = random.normal(size=n)
    held = [tuples(random, n, 300) for _ in range(2)]
    plans = set()
    for shift in range(4):
        R, S = ({((i + shift) % n, j) for i, j in x} for x in held)
        plans.add(str(masked_chain.plan(mask(R, n), mask(S, n), a, b, c)))
    assert len(plans) == 1


@tensor
def partly(R, S, T, x, y):
    """What a black box takes has a part that is stored by fewer tuples than it is computed for."""
    n = len(x)
    return sum(
        np.exp(x[i] + (y[j] * y[k] if (i, k) in T else 0))
        for i in range(n)
        for j in range(n)
        for k in range(n)
        if (i, j) in R and (j, k) in S
    )


def test_a_part_that_is_stored_by_other_tuples_is_sought(monkeypatch):
    random = np.random.default_rng(13)
    monkeypatch.setattr(lower, "LITTLE", 0)
    n = 40
    R, S, T = (tuples(random, n, 200) for _ in range(3))
    x, y = random.normal(size=(2, n))
    with monkeypatch.context() as eager:
        eager.setattr(coiteration, "SMALL", 1)
        for f in (partly, partly.grad("x"), partly.grad("y")):
            plan = f.plan(R, S, T, x, y)
            assert "R(a,b)⋈S(b,c)⋈T(a,c)" in map(str, plan.joins)
            assert max(np.prod(shape) for shape in plan.shapes().values()) < n**2
            expected = sum(
                np.exp(x[i] + (y[j] * y[k] if (i, k) in T else 0))
                for i, j in R
                for k in range(n)
                if (j, k) in S
            )
            if f is partly:
                assert "= ρR(a,b)⋈S(b,c)⋈T(a,c)(" in str(plan)
                np.testing.assert_allclose(f(R, S, T, x, y), expected, rtol=1e-10)
        few = (tuples(random, 6, 15) for _ in range(3))
        given = (*few, x[:6], y[:6])
        for f in (partly, partly.grad("x"), partly.grad("y")):
            agree(f, *given, rtol=1e-8)


# The tuples themselves


def test_tables_have_every_tuple_once_in_order_and_where_it_comes_from():
    random = np.random.default_rng(12)
    for sparse, _ in product((4, 0), range(60)):
        relation_joins.SPARSE, before = sparse, relation_joins.SPARSE
        try:
            check_table(random)
        finally:
            relation_joins.SPARSE = before


def check_table(random):
    n = int(random.integers(1, 5))
    arity = {"R": 2, "S": 2, "W": 3}
    related = {x: tuples(random, n, int(random.integers(0, 12)), k) for x, k in arity.items()}
    atoms = [atom(random, x, arity[x]) for x in random.choice([*arity], random.integers(2, 5))]
    if not all(map(is_joinable, atoms)) or len(connected_groups(atoms)) > 1:
        return
    at = join_atoms(atoms)
    assert join_atoms(atoms[::-1]) == at
    tables = {x: np.array(sorted(r)).reshape(len(r), arity[x]) for x, r in related.items()}
    rows = join_rows(at.relation, tables, 1 << 20).tolist()
    names = [a.name for a in at.arguments]
    found = [row[: len(names)] for row in rows]
    assert found == sorted(found)
    inside = [
        p for p in product(range(-3, 7), repeat=len(names)) if holds(atoms, related, names, p)
    ]
    assert [*map(tuple, found)] == inside
    for row in rows:
        here = dict(zip(at.relation.variables, row, strict=False))
        places = row[len(names) :]
        for q, place in zip(at.relation.atoms, places, strict=True):
            assert [*tables[q.relation][place]] == [a.evaluate(here) for a in q.arguments]


def holds(atoms, related, names, point):
    here = dict(zip(names, point, strict=True))
    return all(tuple(a.evaluate(here) for a in q.arguments) in related[q.relation] for q in atoms)


def atom(random, relation, arity):
    def argument():
        if random.random() < 0.1:
            return Affine.of(int(random.integers(0, 3)))
        index = Affine.of(str(random.choice([*"ijk"])))
        return index * int(random.choice([1, 1, 1, -1])) + int(random.choice([0, 0, 0, 1, 2]))

    return Related(str(relation), tuple(argument() for _ in range(arity)))


def test_names_do_not_depend_on_order_and_indices():
    i, j, k, m = map(Affine.of, "ijkm")
    one = join_atoms([Related("R", (i, j)), Related("S", (j, k))])
    other = join_atoms([Related("S", (i, m)), Related("R", (k, i))])
    assert one.relation == other.relation == "R(a,b)⋈S(b,c)"
    assert (one.arguments, other.arguments) == ((i, j, k), (k, i, m))
    within = join_atoms([one, Related("T", (k, m))])
    assert within.relation == "(R(a,b)⋈S(b,c))(a,b,c)⋈T(c,d)"
    assert isinstance(within.relation.atoms[0].relation, Join)


def test_rows_in_excess_lie_outside():
    at = join_atoms(
        [Related("R", (Affine.of("i"), Affine.of("j"))), Related("S", (Affine.of("j"),))]
    )
    tables = {"R": np.array([[0, 1], [1, 1], [2, 0], [3, 1]]), "S": np.array([[1]])}
    made = relation_joins.build_tables({at.relation: 10}, tables)[at.relation]
    assert made.tolist() == [[0, 1, 0, 0], [1, 1, 1, 0], [3, 1, 3, 0], [OUTSIDE] * 4]
    assert relation_joins.build_tables({at.relation: 2}, tables) == {}


# Random programs


@pytest.mark.parametrize(
    "seeds",
    [
        range(15),
        pytest.param(range(15, 150), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_random_programs_agree_with_the_evaluator(seeds, monkeypatch):
    monkeypatch.setattr(kernel_module, "is_sparse", lambda _: True)
    random_joins.join_always(monkeypatch.setattr)
    assert sum(random_joins.check(seed, 4) for seed in seeds) > len(seeds) / 4


def test_tuples_beyond_the_last_are_not_in_a_set():
    found = RelationData(TupleSet(2), np.array([[0, 2], [1, 0]]))
    columns = [np.array([0, 1, 1, 2]), np.array([2, 0, 2, 0])]  # (1, 2) lies within the ranges
    assert found.holds_at(columns).tolist() == [True, True, False, False]
