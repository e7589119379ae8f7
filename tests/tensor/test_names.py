"""What a program calls its sizes, indices and parameters changes nothing, not even where the compiler
calls its own so.
"""

from __future__ import annotations

import importlib.util
import re
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.language.affine import Affine
from jupyter_hvd.tensor.language.predicates import Exists, Related, compare, conj
from jupyter_hvd.tensor.language.terms import Binder
from jupyter_hvd.tensor.polyhedral import sets

SUMS = """
from jupyter_hvd.tensor import tensor

@tensor
def f(A, b, w):
    n = len(b)
    y = [sum(A[i, j] * b[j] for j in range(n) if j <= i) ** 2 for i in range(n)]
    z = [y[i + 1] - y[i] if i < n - 1 else w * n for i in range(n)]
    return sum(z[i] * z[i] * b[i] for i in range(n))
"""

LOOP = """
from jupyter_hvd.tensor import tensor

@tensor
def f(A, b, w):
    n = len(b)
    for t in range(n):
        b = [b[i] * w + A[t, i] * (1 if i >= t else 2) for i in range(n)]
    return sum(b[i] * b[i] for i in range(n))
"""

COUNT = """
from jupyter_hvd.tensor import tensor

@tensor
def f(A, b, n: int, w):
    return sum(A[i, i] * b[i] * n for i in range(n) if i < n - 1) * w
"""

ARGUMENTS = {
    "A": [[Fraction(3 * i + j + 1) for j in range(3)] for i in range(3)],
    "b": [Fraction(2), Fraction(-1), Fraction(3)],
    "n": 3,
    "w": Fraction(1, 2),
}


def results(source: str, renamed: dict[str, str], folder) -> list[object]:
    """The value, derivatives and costs of a function, of whose source some names are replaced."""
    for old, new in renamed.items():
        source = re.sub(rf"\b{old}\b", new, source)
    # A file of its own: of two of one length and one second, Python may take the first one's bytecode for the other's.
    path = Path(tempfile.mkdtemp(dir=folder)) / "written.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    f = module.f
    own = {new: old for old, new in renamed.items()}
    arguments = [ARGUMENTS[own.get(x, x)] for x in f.__signature__.parameters]
    b, A = renamed.get("b", "b"), renamed.get("A", "A")
    tangent = [Fraction(1), Fraction(2), Fraction(5)]
    derivatives = (f, f.grad(b), f.grad(A), f.hessian(b))
    values = [np.asarray(g.interpret(*arguments)).tolist() for g in derivatives]
    values.append(np.asarray(f.jvp(b).interpret(*arguments, tangent)).tolist())
    formulas = [str(g.cost_formula()) for g in (f, f.grad(b))]
    for new, old in own.items():
        formulas = [re.sub(rf"\b{new}(_\b)?", old, formula) for formula in formulas]
    return [*values, *formulas]


@pytest.mark.parametrize(
    ("source", "name", "others"),
    [
        (SUMS, "n", ("g0", "s0", "s1", "t0", "h0", "i0", "k0", "ι0")),
        (SUMS, "i", ("g0", "ι0", "κ0")),
        (SUMS, "j", ("s0", "ι0")),
        (SUMS, "b", ("X1", "X2", "X3")),
        (SUMS, "A", ("X2", "X4")),
        (LOOP, "t", ("g0", "s0", "τ0")),
        (LOOP, "n", ("g0", "s0")),
        (COUNT, "n", ("g0", "h0")),
    ],
)
def test_no_name_means_another_program(source, name, others, tmp_path):
    expected = results(source, {}, tmp_path)
    for other in others:
        assert results(source, {name: other}, tmp_path) == expected, other


def test_a_quantifier_may_bind_the_name_of_an_index_around_it():
    inside = conj(Related("R", (Affine.of("g0"),)), compare("≤", Affine.of("n"), Affine.of("g0")))
    found = sets.simplify(Exists("g0", Affine.of("m"), inside), (Binder("g0", Affine.of("n")),))
    assert str(found) == "∃ g_1:m. n≤g_1 ∧ R(g_1)"


def test_the_gradient_by_what_is_read_under_a_relation_of_other_size():
    @tensor
    def f(x, R, w):
        n = len(x)
        m = len(w)
        y = [w[j] * x[0] if R[j] and j >= n else 0 for j in range(m)]
        return sum(y[j] * y[j] for j in range(m))

    x, w = np.array([2.0, 3.0]), np.array([1.0, 2, 3, 4])
    R = np.array([False, False, True, True])
    np.testing.assert_allclose(f.grad("x")(x, R, w), [2 * 2.0 * (9 + 16), 0])
