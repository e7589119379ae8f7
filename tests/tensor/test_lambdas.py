"""Lambdas as tensor functions, and as functions that one calls."""

import pickle

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.frontend.lambdas import as_definition

X = np.array([1.0, 2.0, 3.0])
LINE = "h = lambda x: np.sum(x) * 2.0\n"
square = lambda v: v * v  # noqa: E731
several = [tensor(lambda x, w=2.0: np.sum(w * x)), tensor(lambda x: np.sum(
    x * 3
))]  # fmt: skip


def scaled(a):
    return lambda x: a * np.sum(x)


def test_a_lambda_is_a_tensor_function():
    f = tensor(lambda x: np.sum(x**2))
    assert f(X) == 14
    np.testing.assert_allclose(f.grad("x")(X), 2 * X)
    assert f.debug(X) == 14


def test_of_several_on_a_line_it_is_the_right_one():
    assert [f(X) for f in several] == [12, 18]
    one, two = tensor(lambda x: np.sum(x) + 1), tensor(lambda x: np.sum(x) + 2)
    assert (one(X), two(X)) == (7, 8)


def test_it_is_found_wherever_it_is(tmp_path):
    """Such as on a line whose number is that of its last column."""
    module = tmp_path / "many.py"
    module.write_text(LINE * 60)
    for line in range(1, 61):
        names = {"np": np}
        exec(compile("\n" * (line - 1) + LINE, str(module), "exec"), names)
        assert as_definition(names["h"])[1] == line


def test_its_body_may_be_a_choice():
    """Of which no instruction spans all."""
    f = tensor(lambda x: np.sum(x) if len(x) > 2 else (x[0] * 5))
    g = tensor((lambda s: lambda x: x[0] * s if s else x[1])(0))
    assert (f(X), f(X[:2]), g(X)) == (6, 5, 2)


def test_it_has_the_values_of_its_closure():
    assert (tensor(scaled(2.0))(X), tensor(scaled(5.0))(X)) == (12, 30)


def test_a_tensor_function_calls_lambdas_from_outside():
    @tensor
    def total(x, h):
        return sum(square(v) for v in x) + np.sum(h(x))

    assert total(X, lambda v: v + 1) == 23
    assert total(X, np.negative) == 8
    np.testing.assert_allclose(total.grad("x")(X, lambda v: 3 * v), 2 * X + 3)


def test_an_error_shows_the_lambda():
    with pytest.raises(TensorError, match=r"test_lambdas\.py:\d+.*\n.*return x \+ unknown"):
        tensor(lambda x: x + unknown)(1.0)  # noqa: F821


def test_what_has_no_source_is_refused():
    with pytest.raises(TensorError, match="define it with `def`"):
        tensor(eval("lambda x: x"))


def test_it_is_pickled_as_little_as_pythons_own():
    with pytest.raises(pickle.PicklingError, match="use `def`"):
        pickle.dumps(tensor(lambda x: x))
