"""`f.certify`: costs by formula, theorem, count and clock."""

import json

import numpy as np
import pytest

from jupyter_hvd.tensor import TensorError, certificate, tensor


@tensor
def energy(A, x):
    n = len(x)
    y = [sum(A[i, j] * x[j] for j in range(n)) for i in range(n)]
    return sum(x[i] * y[i] for i in range(n))


@tensor
def masked(R, x):
    n = len(x)
    return sum(x[i] * x[j] for i in range(n) for j in range(n) if R[i, j])


@tensor
def decayed(x, a, steps: int):
    h = 1.0
    for _ in range(steps):
        h = a * h + sum(x)
    return h


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(certificate, "LARGE", 20_000)


def test_what_is_certified():
    energy(np.ones((8, 8)), np.ones(8))
    found = energy.certify("x")
    assert found.value_cost == str(energy.cost_formula()) == "2*n**2 + n - 1"
    assert "Theorem 6.55" in found.theorem
    sizes = [p.sizes["n"] for p in found.points]
    assert sizes == [8 * 2**k for k in range(len(sizes))]
    assert len(sizes) >= 3
    for p in found.points:
        A, x = np.ones([p.sizes["n"]] * 2), np.ones(p.sizes["n"])
        assert p.value_operations == energy.cost(A, x).total
        assert p.value_io == energy.cost(A, x).io
        assert p.gradient_operations == energy.value_and_grad("x").cost(A, x).total
        assert p.gradient_io <= 4 * p.value_io
        assert p.value_seconds > 0 < p.gradient_seconds
    assert found.largest_ratio == max(p.gradient_io / p.value_io for p in found.points)
    assert found.operations_exponents == pytest.approx((2, 2), abs=0.1)
    last = found.points[-1].sizes["n"]
    assert found.kernel.bytes > 8 * last**2


def test_text_and_json_say_the_same():
    energy(np.ones((4, 4)), np.ones(4))
    found = energy.certify("x", sizes={"A_0": 4, "A_1": 4, "n": 4})
    text, data = str(found), json.loads(found.json())
    assert data["value_cost"] == found.value_cost
    assert found.value_cost in text
    assert data["points"][0]["sizes"] == {"A_0": 4, "A_1": 4, "n": 4}
    assert "Theorem 6.55" in text


def test_relations_are_given_and_do_not_grow():
    R = np.eye(5, dtype=bool)
    masked(R, np.ones(5))
    with pytest.raises(TensorError, match="`R` is data") as error:
        masked.certify("x")
    assert "masked.certify('x', R=R)" in error.value.help
    found = masked.certify("x", R=R)
    (point,) = (p for p in found.points if p.sizes == found.points[0].sizes)
    assert point.value_operations == masked.cost(R, np.ones(5)).total


def test_loops_have_a_theorem_of_their_own():
    decayed(np.ones(3), 0.5, 4)
    found = decayed.certify("x", "a")
    assert "Theorem 2" in found.theorem
    assert {p.sizes["steps"] for p in found.points} == {4}


def test_what_cannot_be_certified():
    @tensor
    def fresh(x: "Float[Array, 'n']"):  # noqa: F821
        return sum(x)

    @tensor
    def untyped(x):
        return sum(x)

    with pytest.raises(TensorError, match="the type of `x` is not known yet"):
        untyped.certify("x")
    with pytest.raises(TensorError, match="nothing says how large"):
        fresh.certify("x")
    with pytest.raises(TensorError, match="no parameter `y`"):
        fresh.certify("y")
    with pytest.raises(TensorError, match="no parameter to differentiate"):
        fresh.certify()


def test_what_is_certified_of_a_jacobian(monkeypatch):
    monkeypatch.setattr(certificate, "LARGE", 200)

    @tensor
    def band(x):
        n = len(x)
        return [x[i] ** 2 * x[i - 1] if i > 0 else x[i] for i in range(n)]

    band(np.ones(64))
    found = band.certify_jacobian("x")
    assert found.entries == str(band.sparsity("x").count)
    assert [p.sizes["n"] for p in found.points][:2] == [64, 128]
    for p in found.points:
        assert p.cost.entries == band.sparsity("x").count.evaluate(**p.sizes)
        assert p.cost.operations <= p.cost.bound <= 4 * 2 * p.function_operations
    shown = str(found)
    assert "ρ = 2" in shown
    assert f"{found.points[-1].cost.entries:,} at n" in shown
    assert json.loads(found.json())["points"][0]["cost"]["most_per_value"] == 2
