"""`det` where it is zero, and `qr`, beside NumPy's, as accurate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from differences import check

from jupyter_hvd.tensor import TensorError, tensor
from jupyter_hvd.tensor.jax.precision import keeping_float64

S = np.random.default_rng(0).normal(size=(4, 4))
SINGULAR = {
    "regular": S,
    "a column is zero": S * [0, 1, 1, 1],
    "a row is zero": S * [[1], [0], [1], [1]],
    "two columns are one": S[:, [0, 0, 1, 2]],
    "of rank 2": S[:, :2] @ S[:2],
    "zero": np.zeros((4, 4)),
    "a diagonal": np.diag([1.0, 0.0, 2.0]),
    "integers": np.arange(9.0).reshape(3, 3),
    "a number": np.zeros((1, 1)),
}


def cofactors(A):
    """The gradient of the determinant: signed minors."""
    made = np.ones(A.shape)
    for i, j in np.ndindex(*A.shape):
        minor = np.delete(np.delete(A, i, 0), j, 1)
        made[i, j] = (-1) ** (i + j) * (np.linalg.det(minor) if len(minor) else 1)
    return made


@pytest.mark.parametrize("name", SINGULAR)
def test_the_gradient_of_a_determinant(name):
    @tensor
    def det(A):
        return np.linalg.det(A)

    A = SINGULAR[name]
    np.testing.assert_allclose(float(det.interpret(A)), np.linalg.det(A), atol=1e-13)
    found = np.asarray(det.grad("A").interpret(A), dtype=float)
    np.testing.assert_allclose(found, cofactors(A), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "double", "tolerance"),
    [
        *(((12, 12), True, 1e-12), ((12, 5), True, 1e-12), ((3, 5), True, 1e-12)),
        ((12, 5), False, 1e-5),  # the precision does not depend on the shape
    ],
)
def test_qr(shape, double, tolerance):
    @tensor
    def f(A, w, v):
        q, r = np.linalg.qr(A)
        return np.sum(q * w) + np.sum(np.sin(r) * v)

    def direct(A, w, v):
        q, r = jnp.linalg.qr(A)
        return jnp.sum(q * w) + jnp.sum(jnp.sin(r) * v)

    @tensor
    def factors(A):
        return np.linalg.qr(A)

    dtype = np.float64 if double else np.float32
    draw = np.random.default_rng(1).normal
    A = draw(size=shape).astype(dtype)
    expected = np.linalg.qr(A)
    w, v = (draw(size=x.shape).astype(dtype) for x in expected)
    with keeping_float64(double):
        for one, other in zip(factors(A), expected, strict=True):
            np.testing.assert_allclose(one, other, atol=tolerance * np.abs(other).max())
        if shape[0] >= shape[1]:  # JAX has no gradient of others
            gradient = np.asarray(jax.grad(direct)(*map(jnp.asarray, (A, w, v))))
            error = np.abs(f.grad("A")(A, w, v) - gradient).max()
            assert error < 4 * tolerance * np.abs(gradient).max()


def test_the_modes_of_qr():
    @tensor
    def f(A):
        return np.linalg.qr(A, mode="complete")[0] @ np.linalg.qr(A, "complete")[1]

    A = S[:, :2]
    np.testing.assert_allclose(np.asarray(f.interpret(A), dtype=float), A, atol=1e-12)


def test_what_to_write_instead():
    """The loop that the refusal shows gives the largest eigenvalue, and its gradient."""

    @tensor
    def refused(A):
        return np.linalg.eig(A)[0]

    with pytest.raises(TensorError, match=r"v = v / np\.linalg\.norm"):
        refused.interpret(S)

    @tensor
    def largest(A, v):
        for _ in range(200):
            v = A @ v
            v = v / np.linalg.norm(v)
        return v @ A @ v

    with keeping_float64(True):
        A = S @ S.T
        values, vectors = np.linalg.eigh(A)
        np.testing.assert_allclose(largest(A, np.ones(4)), values[-1], rtol=1e-9)
        gradient = largest.grad("A")(A, np.ones(4))
        np.testing.assert_allclose(gradient, np.outer(vectors[:, -1], vectors[:, -1]), atol=1e-9)


def test_one_side_of_a_full_svd():
    def smallest_direction(A):
        _, _, Vt = np.linalg.svd(A)
        return Vt[-1] / Vt[-1, 0]

    check(smallest_direction, (S[:, :3],))
    with pytest.raises(TensorError, match="no full U and V"):
        tensor(smallest_direction)(S[:3])
