"""`f.debug(…)` runs the Python function, in which `print` and breakpoints work; compiled calls leave these out."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor

X = np.array([1.0, 2.0, 4.0])
PRINTED = "half of [1. 2. 4.]\ny is 1.0, of shape (3,)\n2\n"


def half(x):
    print("half of", x)
    return x / 2


def shown(x):
    y = decorated_half(x) * 2
    print(
        f"y is {y[0]:.1f},",
        "of shape",
        y.shape,
    )
    for i in range(3):
        if y[0] > 1:
            print(i)
        y = y + i * np.sin(y)
    return np.sum(y)


with pytest.warns(
    UserWarning, match=r"compiled calls of `half` leave this out; `half.debug"
) as HALF:
    decorated_half = tensor(half)
with pytest.warns(UserWarning, match=r"compiled calls of `shown` leave this out") as SHOWN:
    f = tensor(shown)


def test_a_warning_names_the_line():
    lines = Path(__file__).read_text().splitlines()
    for (warning,), line in ((HALF, '    print("half of", x)'), (SHOWN, "    print(")):
        assert warning.filename == __file__
        assert lines[warning.lineno - 1] == line


def test_compiled_calls_print_nothing(capfd):
    expected = f.python(X)
    capfd.readouterr()
    np.testing.assert_allclose(f(X), expected)
    f.grad("x")(X)
    assert capfd.readouterr().out == ""


def test_debug_prints_in_the_functions_that_are_called_too(capfd):
    result = f.debug(X)
    assert capfd.readouterr().out == PRINTED
    assert isinstance(result, np.floating)
    np.testing.assert_allclose(result, f(X))


def test_debug_takes_arrays_of_jax_and_changes_none_of_the_callers():
    @tensor
    def first_cleared(x, parts):
        x = x.copy()
        x[0] = 0
        return np.sum(x) + parts["a"][0]

    given = X.copy()
    assert first_cleared.debug(jnp.asarray(given), {"a": given}) == 7
    np.testing.assert_array_equal(given, X)


def test_debug_checks_what_a_call_checks():
    @tensor
    def before(x):
        return sum(x[i - 1] for i in range(len(x)))

    assert before.python(X) == 7
    with pytest.raises(TensorError, match=r"reads index -1 at i=0"):
        before.debug(X)
    with pytest.raises(TensorError, match="derived"):
        f.grad("x").debug(X)
