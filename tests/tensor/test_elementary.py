"""The table of elementary functions against `mpmath` and JAX: values, derivatives to third order, special points, kinks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from jupyter_hvd.tensor.derivative.elementary import TABLE, Elementary, find_elementary
from jupyter_hvd.tensor.derivative.forward import differential
from jupyter_hvd.tensor.jax.elementwise import evaluate_scalar, find_kernel
from jupyter_hvd.tensor.language.function import find_function, parameter_names
from jupyter_hvd.tensor.language.terms import Call, Const, Term, Var
from jupyter_hvd.tensor.language.types import REAL
from jupyter_hvd.tensor.reference.evaluate import Environment, evaluate

ORDERS = (0, 1, 2, 3)
POINTS = 6
STEPS = ("floor_divide", "greater", "less", "less_equal", "equal", "picks", "ties")
MADE = ("stopped", "finite", "tangent")  # what says how to differentiate, and computes nothing


def _or_zero(f: Callable[..., mpmath.mpf]) -> Callable[..., mpmath.mpf]:
    return lambda x, y: mpmath.mpf(0) if x == 0 else f(x, y)


#: What mpmath calls otherwise, or has not.
REFERENCES: Mapping[str, Callable[..., mpmath.mpf]] = {
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log(1 + mpmath.exp(x)),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "sinc": lambda x: mpmath.sincpi(x),
    "xlogy": lambda x, y: x * mpmath.log(y),
    "xlog1py": lambda x, y: x * mpmath.log1p(y),
    "xdivy": lambda x, y: x / y,
    "pow": lambda x, y: mpmath.power(x, y),
    "recip": lambda x: 1 / x,
    "lgamma": mpmath.loggamma,
    "abs": lambda x: abs(x),
    "rint": mpmath.nint,
    "trunc": lambda x: mpmath.floor(x) if x > 0 else mpmath.ceil(x),
    "floor_divide": lambda x, y: mpmath.floor(x / y),
    "mod": lambda x, y: x - y * mpmath.floor(x / y),
    "fmod": lambda x, y: x - y * (mpmath.floor(x / y) if x > 0 else mpmath.ceil(x / y)),
    "maximum": max,
    "minimum": min,
    "apart": lambda x, y: x - y,
    "greater": lambda x, y: mpmath.mpf(x > y),
    "less": lambda x, y: mpmath.mpf(x < y),
    "less_equal": lambda x, y: mpmath.mpf(x <= y),
    **dict.fromkeys(("equal", "picks", "ties"), lambda _x, _y: mpmath.mpf(0)),
    "kept": lambda c, x: x if c else mpmath.mpf(0),
    "dropped": lambda c, x: mpmath.mpf(0) if c else x,
}
COMPUTED = [name for name in TABLE if name not in MADE]


def reference(name: str) -> Callable[..., mpmath.mpf]:
    return REFERENCES[name] if name in REFERENCES else getattr(mpmath, name)


def derivative(name: str, by: tuple[int, ...]) -> Term:
    """The derivative by the arguments numbered so, one after the other."""
    f = find_function(name)
    names = parameter_names(f.arity)
    term: Term = Call(f, tuple(Var(x, REAL) for x in names))
    for k in by:
        term = differential(term, {names[k]: Const(1)}) or Const(0)
    return term


def value(term: Term, name: str, point: tuple[float, ...]) -> tuple[float, float]:
    """What the reference evaluator and what JAX make of a term."""
    names = parameter_names(find_function(name).arity)
    with np.errstate(all="ignore"):
        own = evaluate(term, Environment(dict(zip(names, point, strict=True))))
    arrays = [jnp.asarray(float(x)) for x in point]
    return float(own), float(
        evaluate_scalar(term, dict(zip(names, arrays, strict=True)), jnp.float64)
    )


def drawn(row: Elementary) -> list[tuple[float, ...]]:
    """Points within the domain, none near its ends."""
    rng = np.random.default_rng(5)
    ranges = []
    for low, high in row.domain:
        first = low if math.isfinite(low) else min(high - 3, -3.0)
        last = high if math.isfinite(high) else max(first + 3, 3.0)
        ranges.append((first, last))
    return [
        tuple(rng.uniform(a + (b - a) / 50, b - (b - a) / 50) for a, b in ranges)
        for _ in range(POINTS)
    ]


def directions(arity: int) -> list[tuple[int, ...]]:
    return [by for n in ORDERS for by in itertools.combinations_with_replacement(range(arity), n)]


def exact(name: str, by: tuple[int, ...], point: tuple[float, ...]) -> float:
    """The derivative by mpmath, at 60 digits."""
    counts = tuple(by.count(k) for k in range(len(point)))
    with mpmath.workdps(60):
        found = (
            mpmath.diff(reference(name), tuple(map(mpmath.mpf, point)), counts)
            if by
            else (reference(name)(*map(mpmath.mpf, point)))
        )
        return float(mpmath.re(found))


@pytest.mark.parametrize("name", COMPUTED)
def test_derivatives_to_third_order(name):
    row = TABLE[name]
    for by in directions(row.arity):
        term = derivative(name, by)
        for point in drawn(row):
            wanted = exact(name, by, point)
            for found in value(term, name, point):
                assert found == pytest.approx(wanted, rel=1e-9, abs=1e-11), (by, point)


#: Points at which a formula of a smooth function may be 0·∞, 0/0, or made of pieces that have kinks there.
TIES = {
    "softplus": [(0.0,), (-0.0,), (1e-9,), (40.0,), (-40.0,)],
    "sigmoid": [(0.0,), (-0.0,), (40.0,), (-40.0,)],
    "logaddexp": [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0 + 1e-9), (-30.0, 30.0)],
    "sinc": [(0.0,), (-0.0,), (1e-9,), (1e-3,), (1.0,), (2.0,), (0.636,), (1.59,), (1.6,), (9.0,)],
    "xlogy": [(0.0, 2.0), (-0.0, 0.5)],
    "xlog1py": [(0.0, 2.0), (0.0, 0.0)],
    "xdivy": [(0.0, 2.0), (0.0, 0.5)],
    "pow": [(1.0, 0.0), (2.0, 1.0), (2.0, 2.0), (1.0, 3.0), (0.5, -1.0)],
    "erf": [(0.0,), (-0.0,)],
    "erfc": [(0.0,), (6.0,)],
    "tanh": [(0.0,), (20.0,)],
    "cbrt": [(1.0,), (8.0,)],
    "hypot": [(0.0, 2.0), (3.0, 0.0), (-1.0, -1.0)],
    "atan2": [(0.0, 2.0), (0.0, 1.0), (1.0, 1.0)],
    "asin": [(0.0,), (1 - 1e-6,)],
    "acosh": [(1 + 1e-6,)],
    "mod": [(0.5, 2.0)],
    "fmod": [(0.5, 2.0), (-0.5, 2.0)],
}


@pytest.mark.parametrize("name", TIES)
def test_derivatives_where_formulas_are_critical(name):
    for by in directions(TABLE[name].arity):
        term = derivative(name, by)
        for point in TIES[name]:
            wanted = exact(name, by, point)
            for found in value(term, name, point):
                assert found == pytest.approx(wanted, rel=1e-7, abs=1e-11), (by, point)


@pytest.mark.parametrize("n", range(6))
@pytest.mark.parametrize("k", range(6))
def test_derivatives_of_whole_powers_at_zero(n, k):
    """Of `x**k` by x, n times."""
    term = derivative("pow", (0,) * n)
    wanted = float(math.factorial(k)) if n == k else 0.0
    for x in (0.0, -0.0):
        assert value(term, "pow", (x, float(k))) == (wanted, wanted)
    at_three = math.perm(k, n) * 3.0 ** (k - n)
    assert value(term, "pow", (-3.0, k)) == pytest.approx([(-1) ** (k - n) * at_three] * 2)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.special])
def test_values_at_special_points(name):
    row = TABLE[name]
    for point, wanted in row.special.items():
        own = float(row.compute(*point))
        found = float(find_kernel(name)(*(jnp.asarray(float(x)) for x in point)))
        np.testing.assert_allclose([own, found], [wanted] * 2, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if row.numpy])
def test_special_points_are_those_of_numpy(name):
    """What a program gets by NumPy's name is NumPy's value, or SciPy's."""
    import scipy.special

    row = TABLE[name]
    theirs = next(
        (getattr(m, x) for x in row.numpy for m in (np, scipy.special) if hasattr(m, x)), None
    )
    assert theirs is not None
    for point, wanted in row.special.items():
        with np.errstate(all="ignore"):
            found = float(theirs(*map(float, point)))
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-15)


KINKS = [(name, point) for name, row in TABLE.items() for point in row.kinks]


@pytest.mark.parametrize(("name", "point"), KINKS)
def test_derivatives_at_kinks_are_the_convention(name, point):
    wanted = TABLE[name].kinks[point]
    for k, slope in enumerate(wanted):
        assert value(derivative(name, (k,)), name, point) == (slope, slope)


#: Where JAX's derivative at a kink is another, and why it is not followed.
UNLIKE_JAX = {
    "abs": "JAX takes the one from the right, 1; PyTorch and TensorFlow 0, at which an L1 loss that fits is at rest",
    "hypot": "JAX takes 1/2 for each, which is in no direction the derivative; 0 is the middle",
}


@pytest.mark.parametrize(("name", "point"), KINKS)
def test_derivatives_at_kinks_are_those_of_jax(name, point):
    """But for those that are listed, with the reason."""
    point = [float(x) for x in point]
    found = jax.grad(find_kernel(name), range(len(point)))(*point)
    same = np.allclose(found, [float(x) for x in TABLE[name].kinks[tuple(point)]])
    assert same != (name in UNLIKE_JAX), found


def test_slopes_that_jax_takes_are_those_of_the_table():
    for name, row in TABLE.items():
        if not row.slope_of_jax:
            continue
        for point in [*drawn(row), *TIES.get(name, [])]:
            slopes = jax.grad(find_kernel(name), range(row.arity))(*map(float, point))
            for k, slope in enumerate(slopes):
                wanted = value(derivative(name, (k,)), name, point)[0]
                assert float(slope) == pytest.approx(wanted, rel=1e-12, abs=1e-15), (name, point)


def test_families_go_on_to_every_order():
    """`polygamma` and `sinc` have derivatives of any order, as rows that are made when they are wanted."""
    for name, point in (("lgamma", 2.5), ("sinc", 0.0), ("sinc", 0.4), ("sinc", 3.3)):
        found = value(derivative(name, (0,) * 7), name, (point,))
        assert found == pytest.approx([exact(name, (0,) * 7, (point,))] * 2, rel=1e-7, abs=1e-7)
    assert find_elementary("softplus1") is None
    with pytest.raises(KeyError):
        find_function("softplus1")
