"""Each definition of the prelude, on NumPy's arrays and in a tensor function, against the function that it defines, in calls that
are drawn from its signature.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from differences import slopes, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.frontend import forms  # noqa: F401 — it enters the definitions
from jupyter_hvd.tensor.prelude.definitions import DEFINITIONS, Definition

MODULES: dict[str, ModuleType] = {"numpy": np, "scipy": scipy, "jax": jax}
AXES = st.sampled_from([None, 0, 1, -1, -2, (0, 1)])
#: What parameters that are no arrays may be, by their names; those that are not here keep their defaults.
CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "axis": AXES,
    "bins": st.sampled_from([1, 3, [-0.5, 0.0, 1.0]]),
    "indices": st.sampled_from([0, -1, [1, 0, 1]]),
    "q": st.sampled_from([0.0, 0.3, 0.5, 1, [0.25, 0.6]]),
    "range": st.sampled_from([(-1.0, 1.0), (0.25, 3.0)]),
    **dict.fromkeys(("axis1", "axis2", "source", "destination"), st.sampled_from([0, 1, -1])),
    **dict.fromkeys(("keepdims", "increasing", "rowvar", "bias", "approximate"), st.booleans()),
    **dict.fromkeys(("k", "offset"), st.integers(-2, 2)),
    **dict.fromkeys(("half", "value", "dx", "negative_slope", "alpha", "nan"), st.floats(0.2, 2.0)),
    **dict.fromkeys(("loc", "scale"), st.floats(0.5, 2.0)),
    "ddof": st.integers(0, 1),
    "decimals": st.integers(-1, 2),
    "deg": st.integers(0, 2),
    "metric": st.sampled_from(["euclidean", "sqeuclidean", "cityblock", "chebyshev"]),
    "edge_order": st.integers(1, 2),
    "indices_or_sections": st.sampled_from([1, 2, [1], [1, 2]]),
    "mode": st.sampled_from(["full", "valid", "same"]),
    "n": st.integers(0, 2),
    "N": st.sampled_from([None, 1, 3]),
    "ord": st.sampled_from([None, 0, 1, 2, 3, -1, np.inf, -np.inf, "fro"]),
    "p": st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=4),
    "place": st.integers(0, 1),
    "reps": st.sampled_from([1, 2, (2, 1), (1, 2, 1)]),
}
POSITIVE = ("betaln", "entr", "logit", "polygamma", "rsqrt", "power", "float_power", "pow")
SHAPES = st.sampled_from([(4,), (1,), (0,), (3, 4), (2, 3), (3, 1), (0, 2), (2, 2, 3), ()])
#: What gives 0 of what is no number, where NumPy and JAX give what is none.
NUMBERS_ONLY = ("heaviside", "relu")
#: What SciPy gives of what is no number differs by the metric; least squares of equal points are not unique.
FLOATS_ONLY = ("cdist", "pdist", "polyfit")
#: What is open: the order on either side of an entry.
UNORDERED = ("partition", "argpartition")
SHAPES_OF = {
    "cross": st.sampled_from([(3,), (2, 3)]),
    "polyfit": st.just((4,)),
    **dict.fromkeys(("cdist", "pdist"), st.sampled_from([(3, 2), (2, 2)])),
}
#: Of fewer observations than `ddof` NumPy gives what is no number.
OBSERVATIONS = ("cov", "corrcoef", "var", "std", "nanvar", "nanstd")
#: What has a root, whose slope at 0 is none.
ROOTS = ("corrcoef", "nanstd", "norm", "std")


def function_of(definition: Definition) -> Any:
    """The function that is defined; None where the installed version does not have it."""
    found: Any = MODULES[definition.path[0]]
    for part in definition.path[1:]:
        found = getattr(found, part, None)
    return found


DEFINED = [one for one in DEFINITIONS if function_of(one) is not None and one.name not in UNORDERED]
NAMES = [".".join(one.path) for one in DEFINED]


@st.composite
def calls(draw: Any, definition: Definition) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays of one shape, or of shapes that broadcast, and what else a definition is called with."""
    shapes = SHAPES_OF.get(definition.name, SHAPES)
    shape = draw(shapes.filter(math.prod) if definition.name in OBSERVATIONS else shapes)
    kinds = ["float", "float", "int", "nan"]
    kinds = kinds[:3] if definition.name in NUMBERS_ONLY else kinds
    kind = draw(st.sampled_from(kinds[:1] if definition.name in FLOATS_ONLY else kinds))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    arrays, rest = {}, {}
    for name, parameter in inspect.signature(definition.body).parameters.items():
        required = parameter.default is inspect.Parameter.empty
        if parameter.annotation == "Array" or (required and name in "xym" and name not in CHOICES):
            if required or draw(st.booleans()):
                arrays[name] = _array(rng, shape, kind, definition.name in POSITIVE)
        elif parameter.annotation == "Arrays":
            arrays.update(
                {f"{name}{j}": _array(rng, shape, kind, positive=False) for j in range(2)}
            )
        elif name == "ddof" and definition.name.startswith("nan"):
            continue  # a row may have no numbers
        elif name in CHOICES and (required or draw(st.booleans())):
            rest[name] = draw(CHOICES[name])
    return arrays, rest


def _array(rng: Any, shape: tuple[int, ...], kind: str, positive: bool) -> np.ndarray:
    values = rng.uniform(0.1, 0.9, shape) if positive else rng.uniform(-1.5, 1.5, shape)
    if kind == "int":
        return np.asarray(rng.integers(1, 5, shape))
    if kind == "nan":
        values = np.where(rng.uniform(size=shape) < 0.2, np.nan, values)
    return np.asarray(values)


def arguments_of(
    definition: Definition, arrays: Any, rest: Any
) -> tuple[list[str], dict[str, Any]]:
    """A call's positional arguments, as a program writes them, and those that are named."""
    written_out, named = [], {}
    for name, parameter in inspect.signature(definition.body).parameters.items():
        if parameter.annotation == "Arrays":
            written_out.append(f"[{', '.join(x for x in arrays if x.startswith(name))}]")
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        elif name in arrays or name in rest:
            text = name if name in arrays else repr(rest[name]).replace("inf", "np.inf")
            if parameter.default is inspect.Parameter.empty:
                written_out.append(text)
            else:
                named[name] = text
    return written_out, named


def program_of(definition: Definition, arrays: Any, rest: Any) -> Any:
    """A function of the arrays that makes the call."""
    positional, named = arguments_of(definition, arrays, rest)
    text = ", ".join((*positional, *(f"{x}={value}" for x, value in named.items())))
    source = f"{'.'.join(definition.path)}({text})".replace("numpy.", "np.", 1)
    return written(source, [*arrays], MODULES)


def result_of(function: Any, arrays: Any) -> Any:
    """What NumPy gives; None where it refuses."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function(*(x.copy() for x in arrays.values()))
    except Exception:
        return None


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if (
        np.size(found) == np.size(expected) == 0
    ):  # nested lists, of which the sizes behind a 0 are lost
        return
    assert np.shape(found) == np.shape(expected)
    found, expected = np.asarray(found, float), np.asarray(expected, float)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9, equal_nan=True)


def examples(count: int) -> Any:
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=count, deadline=None, derandomize=True, suppress_health_check=quiet
    )


@pytest.mark.parametrize("definition", DEFINED, ids=NAMES)
def test_on_numpys_arrays(definition: Definition) -> None:
    """Each definition, run as it is written, is the function."""

    @examples(25)
    @given(calls(definition))
    def run(call: Any) -> None:
        program = program_of(definition, *call)
        expected = result_of(program, call[0])
        if expected is not None:
            own = functools.reduce(getattr, definition.path[1:-1], MODULES[definition.path[0]])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(own, definition.name, definition.body)
                found = result_of(program, call[0])
            if found is not None:
                assert_same(found, expected)

    run()


def _checked(definition: Definition, count: int) -> None:
    accepted, taken = [], []

    @examples(count)
    @given(calls(definition))
    def run(call: Any) -> None:
        arrays, _ = call
        program = program_of(definition, *call)
        expected = result_of(program, arrays)
        if expected is None:
            return
        accepted.append(call)
        f = tensor(program)
        try:
            found = f.interpret(*arrays.values())
        except TensorError:
            return
        assert_same(found, expected)
        taken.append(call)
        first, *_ = arrays.values()
        smooth = first.dtype.kind == "f" and np.all(np.isfinite(first)) and first.size
        if smooth and getattr(expected, "dtype", None) is np.dtype(float):
            weights = np.random.default_rng(0).uniform(0.5, 1.5, np.shape(expected))
            weights = weights if np.ndim(expected) else float(weights)
            slope = f.vjp(next(iter(arrays))).interpret(*arrays.values(), weights)
            exact = slopes(program, [*arrays.values()], weights)
            if definition.name in ROOTS:
                exact = np.where(np.isfinite(slope), exact, slope)
            np.testing.assert_allclose(slope, exact, rtol=1e-4, atol=1e-5)

    run()
    assert taken or not accepted


@pytest.mark.parametrize("definition", DEFINED, ids=NAMES)
def test_in_a_tensor_function(definition: Definition) -> None:
    """A tensor function that calls it gives the same, and its gradient is that of finite differences."""
    _checked(definition, 6)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("definition", DEFINED, ids=NAMES)
def test_in_many_tensor_functions(definition: Definition) -> None:
    _checked(definition, 100)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("np.nanmean(x, axis=1)", "axis 1 is out of bounds for array of dimension 1"),
        ("np.cov(np.ones((2, 2, 2)) * x[0])", "m has more than 2 dimensions"),
        ("np.linalg.norm(x, 'nuc')", "Invalid norm order 'nuc' for vectors"),
        ("np.diag(np.ones((2, 2, 2)) * x[0])", "Input must be 1- or 2-d"),
        ("np.split(x, 3)", "array split does not result in an equal division"),
    ],
)
def test_refusals_have_numpys_reason_at_the_users_line(call: str, reason: str) -> None:
    with pytest.raises(TensorError, match=reason) as error:
        tensor(written(call, ["x"])).interpret(np.arange(4.0))
    assert error.value.place.text.strip() == f"return {call}"


def test_a_definition_of_what_a_loop_carries_leaves_the_refusal_to_the_loop() -> None:
    @tensor
    def f(x, A, y):
        for v in y:
            x = A @ x + v
        return x

    x, A, y = np.array([1.0, 2.0, 3.0]), np.eye(3) * 0.5, np.arange(40.0)
    np.testing.assert_allclose(f.interpret(x, A, y), f.python(x, A, y))
