"""A loop that copies an array in each iteration, though it changes few entries, says which, why, and at which line."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from jupyter_hvd.tensor import certificate, tensor

LINES = Path(__file__).read_text(encoding="utf-8").splitlines()
X = np.random.default_rng(0).normal(size=40)


def two_rows(x):
    n = len(x) // 2
    y = np.zeros(2 * n + 2)
    for i in range(n):
        y[2 * i + 2] = 0.5 * y[2 * i] + x[2 * i]
        y[2 * i + 3] = 0.5 * y[2 * i + 1] + x[2 * i + 1] * y[2 * i]
    return np.sum(y)


def half_of_the_index(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i // 2] = y[i // 2] * 0.5 + x[i]
    return np.sum(y)


def any_earlier_entry(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i // 2] + x[i]
    return np.sum(y)


def all_earlier_entries(x):
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] + 0.1 * sum(y[j] for j in range(i))
    return np.sum(y)


def last_entry(x):
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = 0.5 * y[i - 1] + x[i]
    return np.sum(y)


def new_array(x):
    u = x
    for _ in range(50):
        u = np.array(
            [
                u[i] if i in (0, len(u) - 1) else u[i] + 0.1 * (u[i - 1] - 2 * u[i] + u[i + 1])
                for i in range(len(u))
            ]
        )
    return np.sum(u)


def again_for_each_factor(x):
    total = 0.0
    for k in range(3):
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i] = 0.5 * y[i // 2] + x[i] * k
        total += np.sum(y)
    return total


REASONS = {
    two_rows: ("an iteration changes 2 of its rows", "2 * i + 3]"),
    half_of_the_index: ("its index is no sum of multiples", "y[i // 2]"),
    any_earlier_entry: ("an iteration reads rows that any earlier one has stored", "y[i // 2]"),
    all_earlier_entries: ("an iteration reads rows that any earlier one has stored", "sum(y[j]"),
    again_for_each_factor: ("an iteration reads rows that any earlier one has stored", "y[i // 2]"),
}


def _line_with(function, text):
    first = function.__code__.co_firstlineno
    return next(k for k, line in enumerate(LINES, 1) if k > first and text in line)


@pytest.mark.parametrize("function", REASONS)
def test_plans_and_warnings_name_the_array_the_reason_and_the_line(function, monkeypatch):
    reason, read = REASONS[function]
    x = X if function is two_rows else X[:30]
    f = tensor(function)
    (copied,) = f.plan(x).copied
    assert copied.startswith(f"an iteration copies all of `y`: {reason}")
    assert copied in str(f.plan(x))
    assert copied.endswith(f"(line {_line_with(function, read)})")
    monkeypatch.setattr("jupyter_hvd.tensor.calls.COPIED", 100)
    with pytest.warns(UserWarning, match="an iteration copies all of `y`") as shown:
        f(x)
    assert shown[0].filename == __file__
    assert "y[" in LINES[shown[0].lineno - 1]


@pytest.mark.parametrize("function", [last_entry, new_array])
def test_loops_that_carry_what_they_need_say_nothing(function, monkeypatch):
    monkeypatch.setattr("jupyter_hvd.tensor.calls.COPIED", 0)
    f = tensor(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(X)
    assert f.plan(X).copied == ()


def test_a_warning_comes_once_and_only_if_the_copies_take_long(monkeypatch):
    f = tensor(two_rows)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        f(X)
        assert not shown
        monkeypatch.setattr("jupyter_hvd.tensor.calls.COPIED", 100)
        for n in (30, 20, 20):
            f(X[:n])
        f.grad("x")(X)
    assert len(shown) == 1


def test_a_gradient_and_a_certificate_name_the_array(monkeypatch):
    monkeypatch.setattr(certificate, "LARGE", 200)
    f = tensor(two_rows)
    assert "copies all of `y`" in str(f.grad("x").plan(X))
    f(X)
    found = f.certify("x", x=X)
    assert "loops                     an iteration copies all of `y`" in str(found)
