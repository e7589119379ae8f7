"""The JAX back end against the reference evaluator."""

import weakref
from contextlib import nullcontext
from dataclasses import replace
from random import Random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from random_loops import Loops
from random_programs import INPUTS, PARAMETERS, Draw, Scope, environment, value

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor import calls as calls_module
from jupyter_hvd.tensor.derivative import reverse as adjoint
from jupyter_hvd.tensor.derivative.transforms import Pulled
from jupyter_hvd.tensor.instance import Primal
from jupyter_hvd.tensor.jax import arguments, dense, memory, single_kernels
from jupyter_hvd.tensor.jax import kernel as kernel_module
from jupyter_hvd.tensor.jax.kernel import Kernel
from jupyter_hvd.tensor.language.pairs import soa, struct_of_arrays
from jupyter_hvd.tensor.language.terms import Lambda
from jupyter_hvd.tensor.language.types import TupleSet
from jupyter_hvd.tensor.lowering import coiteration as indexed
from jupyter_hvd.tensor.lowering import concatenations, coordinate_columns, lower, strategy, tiling
from jupyter_hvd.tensor.lowering.choices import CANDIDATES, DENSE, MODEL
from jupyter_hvd.tensor.lowering.coo import Tuples, true_entries
from jupyter_hvd.tensor.lowering.ir import Entrywise
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate
from jupyter_hvd.tensor.ssa import normalize as normal
from jupyter_hvd.tensor.ssa import simplify
from jupyter_hvd.tensor.ssa.convert import to_ssa, to_term


def leaves(value):
    if isinstance(value, tuple):
        return [leaf for part in value for leaf in leaves(part)]
    return [np.asarray(value, dtype=float)]


def arrays(value):
    if isinstance(value, tuple):
        return tuple(map(arrays, value))
    return np.asarray(value, dtype=float)


def relation_data(env, n, m, relation):
    holds = [[env.relations["R"]((i, j)) for j in range(m)] for i in range(n)]
    tuples = {(i, j) for i in range(n) for j in range(m) if holds[i][j]}
    source = [next(j for j in range(m) if env.relations["src"]((i, j))) for i in range(n)]
    array = np.array(holds)
    found = {"set": tuples, "array": array, "both": Tuples(array, true_entries(array))}
    return {"R": found[relation], "src": np.array(source)}


def compare(program, parameters, arguments, env, seed, primal=None, ways=(MODEL,)):
    expected = evaluate(to_term(program), env)
    kernel = Kernel(program, parameters, env.integers, primal)
    arrays = kernel.arrays(tuple(getattr(x, "mask", x) for x in arguments))
    operands = [x if isinstance(x, Tuples) else a for x, a in zip(arguments, arrays, strict=True)]
    for choices in ways:
        plan = kernel.compile(kernel.counts(operands), kernel.dtype(operands), choices)
        with jax.disable_jit():  # compiling would take nearly all of the time
            same(kernel.executed(plan, operands), expected, seed)
            if choices.dense and not kernel.plain.reason:
                same(
                    kernel.plain.run(plan, operands), expected, seed
                )  # and not what is left where it fails
    return kernel.plain is not None and not kernel.plain.reason


def same(found, expected, seed):
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-9, atol=1e-9, err_msg=str(seed))


@pytest.mark.parametrize(
    ("seeds", "depth", "relation"),
    [
        pytest.param(range(50), 4, "array", id="arrays"),
        pytest.param(range(400, 412), 5, "array", id="deep"),
        pytest.param(range(500, 540), 4, "set", id="sets"),
        pytest.param(range(650, 690), 4, "both", id="tuples"),
        pytest.param(range(50, 400), 4, "array", id="most arrays", marks=pytest.mark.thorough),
        pytest.param(range(412, 500), 5, "array", id="most deep", marks=pytest.mark.thorough),
        pytest.param(range(540, 650), 4, "set", id="most sets", marks=pytest.mark.thorough),
        pytest.param(range(690, 800), 4, "both", id="most tuples", marks=pytest.mark.thorough),
    ],
)
def test_random_programs_and_their_gradients_agree_with_the_evaluator(
    seeds, depth, relation, monkeypatch
):
    monkeypatch.setattr(indexed, "GATHER", 0)  # however few the points, go over the tuples
    agree(seeds, depth, relation)


@pytest.mark.parametrize(
    "seeds",
    [
        range(40),
        pytest.param(range(800, 1000), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_random_programs_with_every_array_computed_apart(seeds, monkeypatch):
    """What XLA is kept from fusing, and the zeros that are stored around it."""
    monkeypatch.setattr(
        lower, "fusion_barriers", lambda steps: frozenset(s.name for s in steps if is_entrywise(s))
    )
    agree(seeds, 4, "array")


def is_entrywise(step):
    return isinstance(step.action, Entrywise) and bool(step.action.shape)


@pytest.mark.parametrize(
    "seeds",
    [
        range(1100, 1110),
        pytest.param(range(1110, 1250), marks=pytest.mark.thorough),
    ],
    ids=str,
)
def test_random_programs_agree_by_each_way_to_compute_them(seeds, monkeypatch):
    monkeypatch.setattr(tiling, "LONG", 1)
    monkeypatch.setattr(tiling, "MANY", 1)
    monkeypatch.setattr(strategy, "FEW", 1)
    monkeypatch.setattr(coordinate_columns, "LARGE", 1)
    monkeypatch.setattr(concatenations, "LEAST", 1)
    assert agree(seeds, 4, "array", CANDIDATES) > len(seeds) / 2  # by JAX's own, too


class Turning(Loops):
    """Loops of one turn at least: JAX cannot run one of none unless it is compiled."""

    def loop(self, scope, depth):
        while not (e := super().loop(scope, depth)).size.names and not e.size.constant:
            pass
        return e


@pytest.mark.parametrize(
    "seeds",
    [range(1250, 1253), pytest.param(range(1253, 1400), marks=pytest.mark.thorough)],
    ids=str,
)
def test_random_loops_that_are_scans_in_jaxs_own_way_agree(seeds, monkeypatch):
    monkeypatch.setattr(dense, "WRITTEN_OUT", 0)
    scanned = []
    of_one = dense.Dense.scan_with_rows
    monkeypatch.setattr(dense.Dense, "scan_with_rows", lambda *a: scanned.append(a) or of_one(*a))
    agree(seeds, 4, "array", (DENSE,), Turning)
    assert len(scanned) > len(seeds)


class Returned(Loops):
    """Programs that return what a loop leaves."""

    def program(self, depth):
        return Lambda("arg", PARAMETERS, self.loop(Scope(INPUTS), depth))


@pytest.mark.parametrize(
    "seeds",
    [range(1400, 1404), pytest.param(range(1404, 1500), marks=pytest.mark.thorough)],
    ids=str,
)
def test_random_loops_that_are_one_kernel_agree(seeds, monkeypatch):
    marked = []
    by_jit, is_small = jax.jit, single_kernels.is_small
    monkeypatch.setattr(
        single_kernels, "is_small", lambda x: marked.append(is_small(x)) or marked[-1]
    )
    monkeypatch.setattr(jax, "disable_jit", nullcontext)
    executed = Kernel.executed
    monkeypatch.setattr(
        Kernel, "executed", lambda *given: by_jit(lambda xs: executed(*given[:2], xs))(given[2])
    )
    agree(seeds, 3, "array", (MODEL,), Returned)
    assert any(marked)


def agree(seeds, depth, relation, ways=(MODEL,), draw=Draw):
    by_jax = 0
    kinds = [(x, TupleSet(2) if relation == "set" and x == "R" else t) for x, t in PARAMETERS]
    for seed in seeds:
        random = Random(seed)
        function = draw(random).program(depth)
        n, m = random.randrange(1, 4), random.randrange(1, 4)
        env = environment(random, n, m)
        data = relation_data(env, n, m, relation)
        arguments = [data[x] if x in data else arrays(env.values[x]) for x, _ in PARAMETERS]
        program = simplify.simplify(to_ssa(normal.normalize(function.body)))
        primal = Primal(function, program)
        compare(program, kinds, arguments, env, seed, primal, ways)
        type_ = soa(function.body.type)
        dy = value(Random(seed + 1), type_, env.integers)
        gradient = simplify.simplify(adjoint.adjoint(program, INPUTS, ("dy", type_)))
        env = Environment({**env.values, "dy": dy}, dict(env.integers), env.relations)
        primal = replace(primal, pulled=Pulled(tuple(dict(INPUTS)), by_cotangent=True))
        given = [*arguments, arrays(dy)]
        by_jax += compare(gradient, [*kinds, ("dy", type_)], given, env, seed, primal, ways)
    return by_jax


def test_random_programs_jitted_agree_with_the_evaluator():
    for seed in range(1000, 1025):
        random = Random(seed)
        function = Draw(random).program(4)
        n, m = random.randrange(1, 4), random.randrange(1, 4)
        env = environment(random, n, m)
        data = relation_data(env, n, m, "array")
        arguments = [data[x] if x in data else arrays(env.values[x]) for x, _ in PARAMETERS]
        program = simplify.simplify(to_ssa(normal.normalize(function.body)))
        kernel = Kernel(program, list(PARAMETERS), env.integers)
        found = jax.jit(kernel.run)(*kernel.arrays(tuple(arguments)))
        expected = struct_of_arrays(evaluate(function.body, env), function.body.type)
        for a, b in zip(leaves(found), leaves(expected), strict=True):
            np.testing.assert_allclose(a.ravel(), b.ravel(), rtol=1e-9, atol=1e-9)


def test_results_have_the_precision_of_the_arguments():
    @tensor
    def mean(x):
        return sum(x[i] for i in range(len(x))) / len(x)

    x = np.ones(3, np.float32)
    assert mean(x).dtype == np.float32
    assert mean(x.astype(np.float64)).dtype == np.float64
    assert mean(jax.numpy.ones(3, jax.numpy.bfloat16)).dtype == jax.numpy.bfloat16


def test_derivatives_by_jax_from_outside_stay_finite_behind_guards():
    @tensor
    def guarded(x):
        return sum(np.log(x[i]) if i > 0 else 0 for i in range(len(x)))

    found = jax.grad(guarded.jax)(np.array([0.0, 2.0, 4.0]))
    np.testing.assert_allclose(found, [0, 0.5, 0.25])


def test_arrays_of_the_other_byte_order_are_turned():
    @tensor
    def picked(x, s):
        return sum(x[s[e]] for e in range(len(s)))

    assert picked(np.arange(4.0).astype(">f4"), np.array([1, 3]).astype(">i4")) == 4


def test_masked_arrays_are_refused():
    @tensor
    def total(x):
        return sum(x[i] for i in range(len(x)))

    with pytest.raises(TensorError, match="getmaskarray"):
        total(np.ma.array([1.0, 2.0], mask=[False, True]))
    with pytest.raises(TensorError, match="masked"):
        total.interpret(np.ma.array([1.0, 2.0], mask=[False, True]))


@tensor
def outer(x):
    n = len(x)
    return [[x[i] * x[j] for j in range(n)] for i in range(n)]


@tensor
def product(A, B):
    n = len(A)
    return [[sum(A[i, k] * B[k, j] for k in range(n)) for j in range(n)] for i in range(n)]


def test_what_there_is_no_memory_for_is_refused():
    x = np.ones(10**6, np.float32)
    with pytest.raises(
        TensorError, match=r"take 4 TB, and .* are available: X\d+ has 1000000×1000000"
    ):
        outer(x)


def test_what_xla_never_stores_is_not_refused(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 4_000_000)
    monkeypatch.setattr(memory, "SMALL", 0)
    x, A = np.ones(2000), np.ones((300, 300))
    assert product(A, A)[0, 0] == 300
    with pytest.raises(TensorError, match="take 32 MB, and 4 MB are available"):
        outer(x)
    with pytest.raises(TensorError, match="take 32 MB"):
        outer.profile(x, repeats=1)
    assert jax.jit(outer.jax)(x[:10]).shape == (10, 10)


def test_what_is_read_is_found_once_for_all_numbers_of_tuples(monkeypatch):
    calls = []
    restrict = kernel_module.restrict_to_live
    monkeypatch.setattr(kernel_module, "restrict_to_live", lambda p: calls.append(p) or restrict(p))

    @tensor
    def energy(x, R):
        n = len(x)
        return sum(x[i] * x[j] for i in range(n) for j in range(n) if (i, j) in R)

    for count in range(1, 4):
        assert energy(np.ones(3), {(0, k) for k in range(count)}) == count
    assert len(calls) == 1


@tensor
def shifted(x):
    return x + 1e-12


@tensor
def enlarged(x):
    return [1e39 * x[i] for i in range(len(x))]


@tensor
def counted(n):
    return sum(1 for i in range(n))


def test_float64_in_is_float64_out_whatever_jax_does_by_default():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", False)
    try:
        assert np.asarray(shifted(1.0)) - 1 == shifted.python(1.0) - 1
        np.testing.assert_array_equal(enlarged(np.ones(2)), [1e39, 1e39])
        np.testing.assert_array_equal(enlarged([1.0]), [1e39])
        gradient = enlarged.vjp("x")(np.ones(2), np.array([1.0, 2.0]))
        np.testing.assert_array_equal(gradient, [1e39, 2e39])
        assert int(counted(2_147_483_653)) == 2_147_483_653
        assert enlarged.plan(np.ones(2)).dtype == np.float64
        # The arguments' own type, and JAX's inside JAX.
        for ones in (np.ones(2, np.float32), jnp.ones(2), jnp.ones(2, jnp.bfloat16)):
            assert enlarged(ones).dtype == ones.dtype
        assert jax.jit(enlarged.jax)(np.ones(2)).dtype == np.float32
        assert jax.jit(lambda: enlarged(np.ones(2)))().dtype == np.float32
        assert jax.vmap(shifted.jax)(np.ones(2)).dtype == np.float32
        assert all(s.bytes % 8 == 0 for s in enlarged.profile(np.ones(2), repeats=1).statements)
    finally:
        jax.config.update("jax_enable_x64", True)


# Calls like one before


@tensor
def spread(x, src, R, k):
    total = sum(x[src[e]] for e in range(len(src)))
    return total + sum(x[i] for i in range(len(x)) if R[i]) + k


def test_a_call_like_one_before_is_not_checked_again(monkeypatch):
    seen = []
    check = calls_module.check
    monkeypatch.setattr(calls_module, "check", lambda *call: seen.append(call) or check(*call))
    x, src, R = jnp.arange(4.0), jnp.array([1, 3]), jnp.array([True, False, False, True])
    for k, expected in ((1, 8.0), (1, 8.0), (2, 9.0), (2, 9.0)):
        assert spread(x, src, R, k) == expected
    assert spread(2 * x, src, R, 1) == 15.0
    assert len(seen) == 2
    # Others of the same types: their entries have to be looked at.
    assert spread(x, jnp.array([0, 2]), R, 1) == 6.0
    assert spread(x, src, jnp.array([False, True, False, False]), 1) == 6.0
    with pytest.raises(TensorError, match="reads index 4 of 4 entries"):
        spread(x, jnp.array([1, 4]), R, 1)
    assert len(seen) == 5
    assert spread.last_sizes["x_0"] == 4
    assert spread(jnp.arange(5.0), src, jnp.ones(5, bool), 0) == 14.0
    assert spread(np.arange(4.0), np.array([1, 3]), np.asarray(R), 1) == 8.0


def test_arrays_that_can_change_are_looked_at_in_each_call():
    x, src, R = np.arange(4.0), np.array([1, 3]), np.array([True, False, False, True])
    for _ in range(2):
        assert spread(x, src, R, 1) == 8.0
    src[:] = 0, 2
    assert spread(x, src, R, 1) == 6.0
    R[:] = False
    assert spread(x, src, R, 1) == 3.0
    src[0] = 4
    with pytest.raises(TensorError, match="reads index 4 of 4 entries"):
        spread(x, src, R, 1)


@tensor
def over_pairs(R, x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if (i, j) in R)


@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_is_sorted_once_for_as_long_as_it_holds_the_same(kind, monkeypatch):
    made = []
    sort_tuples = arguments.sort_tuples
    monkeypatch.setattr(arguments, "sort_tuples", lambda *a: made.append(a) or sort_tuples(*a))
    x, R = jnp.arange(4.0), kind({(3, 1), (1, 2)})
    gradient = over_pairs.grad("x")
    for _ in range(3):
        assert over_pairs(R, x) == 5.0
        np.testing.assert_array_equal(gradient(R, x), [0, 5, 1, 1])
    once = len(made)
    assert gradient(R, 2 * x)[1] == 10.0
    assert len(made) == once
    assert over_pairs(kind({(3, 3)}), x) == 9.0
    assert len(made) > once


def test_a_set_that_has_changed_is_another():
    x, R = jnp.arange(4.0), {(3, 1), (1, 2)}
    assert over_pairs(R, x) == over_pairs(R, x) == 5.0
    R.add((3, 3))
    assert over_pairs(R, x) == over_pairs(R, x) == 14.0
    R.remove((3, 1))
    R.remove((1, 2))
    assert over_pairs(R, x) == over_pairs(R, x) == 9.0
    known = len(over_pairs._before._known)
    del R
    assert len(over_pairs._before._known) == known - 1


def test_indices_that_no_array_has_are_no_others():
    x = np.arange(4.0)
    far = {(1, 2**32 + 2), (2**40, 1), (3, 2**70), (-(2**33), 0), (-(2**70), 1), (3, 2)}
    assert over_pairs(far, x) == over_pairs.interpret(far, x) == 6.0
    np.testing.assert_array_equal(over_pairs.grad("x")(far, x), [0, 0, 3, 2])


@tensor
def from_before(R, x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if (i - 3, j) in R)


def test_negative_entries_stay_what_they_are_beside_those_that_no_array_has():
    x = np.arange(4.0)
    for R in ({(-2, 3), (-1, 1)}, {(-2, 3), (-1, 1), (2**40, 1)}, {(-2, 3), (-1, 1), (0, 2**70)}):
        assert from_before(R, x) == from_before.interpret(R, x) == 5.0
        assert from_before.cost(R, x).total == from_before.cost({(-2, 3), (-1, 1)}, x).total == 3


def test_a_call_keeps_no_array_alive():
    x, src, R = jnp.arange(4.0), jnp.array([1, 3]), jnp.array([True, False, False, True])
    spread(x, src, R, 1)
    arrays = [weakref.ref(a) for a in (x, src, R)]
    known = len(spread._before._known)
    del x, src, R
    assert [a() for a in arrays] == [None] * 3
    assert len(spread._before._known) == known - 1


FACTOR = 2.0


@tensor
def scaled(x):
    return FACTOR * x


def test_what_is_outside_counts_in_calls_like_one_before(monkeypatch):
    x = jnp.float32(3)
    assert scaled(x) == scaled(x) == 6
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert scaled(x) == scaled(x) == 9


def test_each_type_of_numbers_is_computed_in():
    x = jnp.ones(2, jnp.float32)
    for _ in range(2):
        assert enlarged(np.ones(2))[0] == 1e39
        assert enlarged(x).dtype == np.float32
        jax.config.update("jax_enable_x64", False)
        try:
            assert enlarged(np.ones(2)).dtype == np.float64
            assert jax.jit(lambda: enlarged(np.ones(2)))().dtype == np.float32
        finally:
            jax.config.update("jax_enable_x64", True)
