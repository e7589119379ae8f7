"""NumPy's functions with the arguments and in the company that its users give them: values are NumPy's, gradients as by
differences; what is refused says what to write.
"""

import re

import numpy as np
import pytest
from cases import entering_by_name
from differences import check, written

from jupyter_hvd.tensor import TensorError, tensor

R = np.random.default_rng(5)
ARRAYS = {
    "x": R.normal(size=5),
    "y": R.normal(size=5),
    "z": R.normal(size=6),
    "A": R.normal(size=(4, 5)),
    "D": R.normal(size=(4, 4)),
    "T": R.normal(size=(2, 3, 4)),
    "P": R.normal(size=(6, 2)),
    "X": R.normal(size=(2, 70)),
    "edges": np.array([[0, 1], [1, 2], [5, 3], [2, 0]]),
    "k": -8,
    "keep": np.array([True, False, True, True, False]),
}
CASES = {}
case = entering_by_name(CASES)


def arguments(source):
    return {name: value for name, value in ARRAYS.items() if re.search(rf"\b{name}\b", source)}


SOURCES = (
    # what comes first of several
    "np.select([x > 0.5, x < -0.5], [x**2, -x], 0.1*x)", "np.select((x > y, x < 0), (x*y, 3.0))",
    "np.select([A > x, A < 0], [A*x, 3.0], default=x)",
    # differences
    "np.diff(x, prepend=0.0)", "np.diff(x, prepend=x[:1], append=x[-1])", "np.diff(A, n=2, axis=0, append=1.0)",
    "np.diff(A, axis=0, prepend=0, append=A[:1])", "np.gradient(x, 0.3)", "np.gradient(A, axis=0)",
    "np.gradient(A, 0.5, axis=-1)", "np.gradient(x, np.cumsum(y**2 + 1))", "np.gradient(A, np.cumsum(y**2 + 1), axis=1)",
    "np.gradient(A)[1] * np.gradient(A, 0.5, 2.0)[0]", "np.gradient(x, edge_order=2)", "np.gradient(x[:2])",
    # whole numbers and conditions as numbers
    "np.sum((edges[:, :1] == edges[:, 1:]) * z[0])", "np.sum((edges[:, :1] <= edges[:, 1:]) * z[0])",
    # reductions and tables of operations
    "np.maximum.reduce(A, 0)", "np.minimum.reduce(A, axis=None)", "np.add.reduce(A, axis=1, keepdims=True)",
    "np.multiply.reduce(A)", "np.maximum.reduce([x, y, x*y])", "np.logaddexp.reduce(x)", "np.fmax.reduce(A, axis=1)",
    "np.fmin.accumulate(x)",
    "np.logical_and.reduce([x > 0, y > 0]) * x", "np.logical_or.reduce((x > 0, y > 0)) * x", "np.mean((x, y), axis=0)",
    "np.hypot.outer(x, y)", "np.multiply.outer(x, A)", "np.less.outer(x, y) * x",
    # where and initial
    "np.max(x, initial=0.3)", "np.min(A, axis=1, initial=0.0, keepdims=True)", "np.max(A, axis=1, initial=-5.0, where=A < 0.5)",
    "np.max(x[:0], initial=2.0) * x", "np.sum(A, axis=0, initial=1.5, where=A > 0)", "np.mean(x, where=y > 0)",
    "np.prod(x, initial=3.0, where=x > 0)", "np.std(A, axis=1, where=A > -1)", "np.any(A > 0.5, axis=1, where=A < 1) * A[:, 0]",
    # products of nothing, and of sizes
    "np.prod(x[:0]) * x", "np.prod(A[:, :0], axis=1) * A[:, 0]", "np.prod(A.shape) * A", "np.prod(A.shape[2:]) * A",
    "T.reshape(len(T), np.prod(T.shape[1:]))",
    # the type and the result's array come before what else there is
    "np.sum(A, 0, float)", "A.mean(0, np.float64)", "np.var(A, 0, None, None, 1)", "np.max(A, 0, None, True)",
    "np.cumsum(A, 0, float)", "np.median(A, 1, None, False, True)", "np.quantile(A, 0.3, 0, None, False, 'linear', True)",
    # axes without a name
    "np.einsum('...i,i->...', T, D[0])", "np.einsum('...ij,kj->...ik', T, D)", "np.einsum('...ii->...i', T[:, :, :3])",
    "np.einsum('i...->...', T)", "np.einsum('...j,...j', T, A[:3, :4])", "np.einsum('...,...->...', D[0], D)",
    "np.einsum('b...d,b...d->b...', T, T)", "np.einsum('...i,...i->...', T[:, :1], T)",
    # pairs and edges
    "z[edges.T[0]] - z[edges.T[1]]", "D[np.triu_indices(len(D), 1)].sum()", "np.mean(D[np.tril_indices_from(D, -1)]**2)",
    "D[np.diag_indices_from(D)]",
    "D[np.diag_indices(len(D))]", "np.std(D[np.tril(np.ones((4, 4), dtype=bool))])", "D[np.triu_indices(4)]",
    # windows
    *(f"z * np.{name}(len(z))" for name in ("hanning", "hamming", "blackman", "bartlett")),
    *(f"X * np.{name}(X.shape[1])" for name in ("hanning", "hamming", "blackman", "bartlett")), "z * np.hanning(6)",
    # turned, by columns, on grids
    "np.rot90(A)", "np.rot90(A, -1)", "np.rot90(A, 2)", "np.rot90(T, 1, axes=(1, 2))", "A.reshape(-1, order='F')",
    "A.ravel(order='F')", "A.flatten('F')", "T.reshape((6, 4), order='F')", "np.reshape(z, (2, -1), 'F')", "np.dstack([x, y])",
    "np.dstack((A, A**2))", "np.dstack([T, T])", "A * np.mgrid[0:4, 0:5][1]", "A * np.mgrid[-1:1:4j, 0:1:5j][0]",
    "x * np.mgrid[0:5]", "A * np.indices(A.shape)[0]", "np.sum(A * np.ogrid[:A.shape[0], :A.shape[1]][1], axis=1)",
    "A[np.ix_([0, 2], [1, 3])]", "A[np.ix_(np.arange(2), [1, 3])]", "np.outer(z, z)[np.ix_(edges[:, 0], edges[:3, 1])]",
    "np.isclose(x, x[0], atol=0.5) * x", "np.allclose(x, x + 1e-9) * x",
    # slices as long as a turn says
    "sum(np.dot(x[:i], x[:i]) for i in range(len(x)))", "[np.sum(x[i:]) for i in range(len(x))]",
    "sum(np.mean(x[i:] * x[:-i]) for i in range(1, len(x)))", "[x[:i + 1] @ x[i::-1] for i in range(len(x))]",
    "sum(np.sum((A[:i] @ x - z[:i])**2) / i for i in range(1, len(A)))", "sum(np.max(x[:i]) for i in range(1, len(x)))",
    "sum(np.min(np.sum((P[:i] - P[i])**2, axis=1)) for i in range(1, len(P)))",
    # round and beyond
    "np.roll(x, 7)", "np.roll(x, -13)", "np.roll(A, (1, -2), axis=(0, 1))", "np.roll(A, 3, axis=(0, 1))", "np.roll(A, 6)",
    "np.roll(A, (1, 2), axis=0)", "np.roll(x, k)", "sum((k + 1.0) * x * np.roll(x, k) for k in range(len(x)))",
    "np.pad(x, 2, mode='symmetric')", "np.pad(A, ((1, 1), (2, 0)), mode='symmetric')", "np.pad(x, 5, mode='wrap')",
    "np.pad(x, 5, mode='reflect')", "np.pad(x[:1], (3, 2), 'reflect')",
    *(f"np.pad(x, (12, 7), mode='{mode}')" for mode in ("symmetric", "reflect", "edge", "wrap")),
    "np.pad(x, (2, 1), constant_values=(3.0, x[0]))", "np.pad(A, ((1, 2), (0, 1)), constant_values=((1.0, 2.0), (0, 3)))",
    "np.pad(A, ((1,), (2,)))",
)  # fmt: skip


@pytest.mark.parametrize("source", SOURCES)
def test_spellings(source):
    given = arguments(source)
    check(written(source, [*given]), tuple(given.values()))


@case(ARRAYS["x"], ARRAYS["y"])
def attention_of_what_is_kept(x, y):
    n = len(x)
    causal = np.tril(np.ones((n, n), dtype=bool))
    keep = y > 0
    mask = causal & keep[None, :] | np.eye(n, dtype=bool)
    scores = np.where(mask, np.outer(x, x), -np.inf)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ y


@case(ARRAYS["x"], ARRAYS["keep"])
def a_mask_of_a_table_and_an_argument(x, keep):
    mask = np.tri(len(x), dtype=bool) & keep[None, :]
    return np.where(~mask, np.outer(x, x), 0.5)


@case(ARRAYS["x"], ARRAYS["y"])
def pairs_of_what_is_valid(x, y):
    valid = y > 0
    pair = valid[:, None] & valid[None, :]
    pair = pair & ~np.eye(len(x), dtype=bool)
    return np.sum((x[:, None] - x[None, :]) ** 2 * pair) / np.sum(pair)


@case(ARRAYS["x"], ARRAYS["y"])
def what_just_one_condition_holds_of(x, y):
    a, b = x > 0, y > 0
    both, either = a & b, a | b
    only = either & ~both
    return np.where(only, x * y, x) + np.sum(only) * x[0]


@case(ARRAYS["x"], ARRAYS["y"])
def masks_by_the_functions_of_logic(x, y):
    n = len(x)
    causal = np.arange(n)[:, None] >= np.arange(n)
    mask = np.logical_and(causal, (y > 0).astype(bool))
    return np.where(np.logical_not(mask), 0, np.outer(x, x))


@case(ARRAYS["z"], ARRAYS["edges"])
def along_edges(z, edges):
    i, j = edges.T
    return np.sum((z[i] - z[j]) ** 2) / len(edges)


@case(ARRAYS["P"])
def a_potential_of_all_pairs(P):
    i, j = np.triu_indices(len(P), 1)
    d = P[i] - P[j]
    r = np.linalg.norm(d, axis=1)
    return np.sum(1 / r**2 + np.exp(-r) * d[:, 0]) / len(i) + np.sum(np.abs(i - j) * P[i, 0])


@case(ARRAYS["D"])
def what_is_stored_in_triangles(D):
    n = len(D)
    upper = np.triu_indices(n, 1)
    C = D.copy()
    C[upper] = D.T[upper]
    C[np.tril_indices(n, -1)] *= 2
    C[np.diag_indices(n)] = np.exp(np.diag(C))
    return C


@case(ARRAYS["x"])
def a_triangle_of_a_vector(x):
    n = 3
    L = np.zeros((n, n))
    L[np.triu_indices(n, 1)] = x[:3]
    return L - 2 * L.T


@case(ARRAYS["D"] + 3 * np.eye(4), ARRAYS["x"][:4])
def back_substitution(U, b):
    n = len(b)
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - U[i, i + 1 :] @ x[i + 1 :]) / U[i, i]
    return x


@case(ARRAYS["D"] @ ARRAYS["D"].T + np.eye(4))
def cholesky_by_rows(A):
    n = len(A)
    L = np.zeros((n, n))
    for j in range(n):
        L[j, j] = np.sqrt(A[j, j] - np.sum(L[j, :j] ** 2))
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - np.sum(L[i, :j] * L[j, :j])) / L[j, j]
    return L


@case(ARRAYS["D"] @ ARRAYS["D"].T + np.eye(4))
def elimination_row_by_row(A):
    n = len(A)
    U = A.copy()
    for k in range(n - 1):
        for i in range(k + 1, n):
            U[i, k:] -= U[i, k] / U[k, k] * U[k, k:]
    return np.sum(np.log(np.abs(np.diag(U))))


@case(ARRAYS["x"])
def stored_along_slices(x):
    y, z = np.zeros(len(x)), x * 1.0
    for i in range(1, len(x)):
        y[i:] += 0.5 * i * x[:-i]
        y[i:] -= x[i]
    for i in range(1, len(x)):
        z[:i] *= 0.9
        z[:i] = z[:i] + z[i]
    return y * z


@case(ARRAYS["x"])
def branches_on_all_entries(x):
    if np.any(x > 0):
        y, s = x**2, 1.0
    else:
        y, s = -x, 2.0
    if not np.all(x > -10) or np.allclose(x, 0):
        return np.sum(x)
    return s * np.sum(np.sin(y))


@case(ARRAYS["z"], ARRAYS["edges"])
def forces_of_springs(z, edges):
    i, j = edges.T
    f, K = np.zeros(len(z)), np.zeros((6, 6))
    d = np.tanh(z[i] - z[j])
    np.add.at(f, i, d)
    np.subtract.at(f, j, d)
    np.add.at(K, (i, j), d)
    np.add.at(f, [0, 0, 1], z[:3])
    return f + K @ z


@case(ARRAYS["D"], ARRAYS["z"])
def what_changes_in_place(D, z):
    G = D @ D.T
    np.fill_diagonal(G, z[:4])
    y, w = np.zeros(4), D[0].copy()
    y.fill(z[0])
    w[1] = 2.0
    np.copyto(y, w * y)
    for k in range(3):
        B = D * (k + 1)
        np.fill_diagonal(B, 0.0)
        y = y + B.sum(axis=0)
    return G @ y


@case(ARRAYS["D"])
def pairs_of_views(D):
    pos = np.roll(np.arange(4), 2)
    return D[np.arange(4), pos] + D[0][np.tile(np.arange(2), 2)]


@case(ARRAYS["x"], ARRAYS["y"])
def what_is_asserted_of_sizes(x, y):
    assert x.ndim == 1
    assert x.shape == y.shape, f"{x.shape} and {y.shape}"
    assert len(x) > 2
    if x.shape != y.shape:
        raise ValueError(x.shape)
    return x * y


@pytest.mark.parametrize("name", CASES)
def test_in_company(name):
    check(*CASES[name])


REFUSED = (
    ("sum(np.sum(x[: i - 1]) for i in range(len(x)))", "0 <= i-1"),
    ("sum(np.sum(A.T[:i, :i]) for i in range(len(A)))", "sum(x[j] for j in range(i))"),
    ("[x[:i] for i in range(len(x))]", "np.sum(x[:i])"),
    ("A.ravel(order='K')", "`C` or `F`"),
    ("np.einsum('...i->i', T)", "`...` behind `->`"),
    ("sum(z[list(i)] for i in zip(*edges))", "edges.T"),
    ("D[0, np.triu_indices(len(D))[0]]", "D[i, j]"),
    ("np.sum(A, 0, None, x)", "out"),
    ("np.max(x, where=x > 0)", "initial=0"),
    ("np.select([x, y], [x, y])", "x > 0"),
    ("np.pad(x, 1, mode='mean')", "'symmetric'"),
    ("np.pad(x, -1)", "x[1:-1]"),
    ("np.diff(x, -1)", "non-negative"),
)


@pytest.mark.parametrize(("source", "advice"), REFUSED)
def test_refused(source, advice):
    given = arguments(source)
    with pytest.raises(TensorError) as error:
        tensor(written(source, [*given])).interpret(*given.values())
    assert advice in str(error.value)
    assert error.value.place


def test_what_is_asserted():
    @tensor
    def of_sizes(x, y):
        assert len(x) == len(y), "sizes"
        return x @ y

    with pytest.raises(TensorError, match="do not go together"):
        of_sizes(np.ones(3), np.ones(4))


def test_slices_that_do_not_fit():
    @tensor
    def of_numbers(x, v):
        y = np.zeros(len(x))
        for i in range(len(x) - 1):
            y[i : i + 2] += v * x[i]
        return y

    @tensor
    def of_iterations(x):
        y = np.zeros(len(x))
        for i in range(1, len(x)):
            y[i:] += x[:i]
        return y

    with pytest.raises(TensorError, match="go together"):
        of_numbers(np.ones(5), np.ones(3))
    with pytest.raises(TensorError, match="do not go together"):
        of_iterations(np.ones(5))
