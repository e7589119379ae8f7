"""Linear systems and decompositions, as loops that are written in the language itself: what a form here inlines is
Python, read as a user's function is.

A system is solved by Householder's reflections, which choose no pivots: their order is the same whatever the data are,
and they are as accurate as pivoted elimination, at twice its operations. Where a matrix is singular, a gradient may be nan.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...language.affine import Affine
from ...language.whole_functions import PREFIX
from .table import build, form


def root_or_zero(x: Any) -> Any:
    """The root, whose derivative at zero is taken for zero."""
    return np.sqrt(x if x > 0 else 1.0) if x > 0 else 0.0


def inverse_or_one(x: Any) -> Any:
    """`1/x`, whose derivative where x is not positive is taken for zero."""
    return 1 / (x if x > 0 else 1.0)


def triangularized(m: Any, rows: Any, steps: Any, root: Any, inverse: Any) -> Any:
    """m times reflections that make its first columns zero below the diagonal."""
    for k in range(steps):
        square = sum(m[i, k] * m[i, k] for i in range(rows) if k <= i)
        size = root(square) if m[k, k] >= 0 else -root(square)
        v = np.array([m[i, k] + size if i == k else m[i, k] if k < i else 0.0 for i in range(rows)])
        length = square + size * m[k, k]  # half of v·v
        scale = -inverse(length) if length > 0 else 0.0
        w = scale * np.array(
            [
                sum(v[i] * m[i, j] for i in range(rows) if k <= i) if k <= j else 0.0
                for j in range(m.shape[1])
            ]
        )
        m = np.array(
            [
                [m[i, j] + v[i] * w[j] if k <= i and k <= j else m[i, j] for j in range(m.shape[1])]
                for i in range(rows)
            ]
        )
    return m


PLAIN = np.sqrt, np.reciprocal
SAFE = root_or_zero, inverse_or_one


def back_substituted(r: Any, y: Any, n: Any) -> Any:
    """x where r @ x = y, r being zero below the diagonal."""
    for p in range(n):
        k = n - 1 - p
        row = y[k] / r[k, k]
        less = -row
        y = np.array(
            [
                [
                    y[i, j] + r[i, k] * less[j] if i < k else row[j] if i == k else y[i, j]
                    for j in range(y.shape[1])
                ]
                for i in range(n)
            ]
        )
    return y


def cholesky_factor(s: Any, n: Any) -> Any:
    """l where l @ l.T = s, which is taken to be symmetric; zero above the diagonal."""
    columns = []
    for k in range(n):
        scale = 1 / np.sqrt(s[k, k])
        c = np.array([s[i, k] * scale if k <= i else 0.0 for i in range(n)])
        less = -c
        s = np.array(
            [
                [s[i, j] + c[i] * less[j] if k < j and j <= i else 0.0 for j in range(n)]
                for i in range(n)
            ]
        )
        columns.append(c)
    return np.array(columns).T


def _square(t: Any, a: Any) -> tuple[Any, Any]:
    """A matrix, and how many rows and columns it has."""
    a = t.named(t.whole(a), "a")
    if len(t.dims(a)) != 2:
        raise t.error("this takes one matrix here", "map it over several: `jax.vmap(f)(a)`")
    return a, t.index(t.same(*t.dims(a)))


def _columns(t: Any, b: Any) -> Any:
    """The right-hand sides as a matrix."""
    b = t.whole(b)
    return build(t, "expand_dims", b, 1) if len(t.dims(b)) == 1 else b


def _as_given(t: Any, x: Any, b: Any) -> Any:
    """The solutions in the shape of the right-hand sides."""
    return t.subscript(x, (slice(None), 0)) if len(t.dims(t.whole(b))) == 1 else x


def _noted(t: Any, name: str, x: Any, *operands: Any) -> Any:
    """x, and that it is a function of whole arrays (`language/whole_functions`)."""
    first = [t.read(a, *[Affine.of(0)] * len(t.dims(a))) for a in operands]
    made = t.build(
        t.dims(x), lambda *at: t.function(PREFIX + name, t.read(x, *at), *first), x, *operands
    )
    return t.named(made, "whole")


@form("solve")
def solve(t: Any, a: Any, b: Any) -> Any:
    """`x` where `a @ x = b`, by reflections."""
    a, n = _square(t, a)
    y = t.named(_columns(t, b), "b")
    return _as_given(t, _noted(t, "solve", _solved(t, a, y, n), a, y), b)


def _solved(t: Any, a: Any, b: Any, n: Any) -> Any:
    m = build(t, "concatenate", [a, b], 1)
    r = t.once(t.defined_by(triangularized, m, n, t.binary(t.here, "-", n, 1), *PLAIN), "R")
    y = t.subscript(r, (slice(None), slice(n, None)))
    return t.defined_by(back_substituted, r, y, n)


@form("inv")
def inv(t: Any, a: Any) -> Any:
    """`solve(a, eye(n))`."""
    a, n = _square(t, a)
    return _noted(t, "inv", _solved(t, a, build(t, "eye", n), n), a)


@form("lstsq")
def lstsq(t: Any, a: Any, b: Any, rcond: Any = None) -> Any:
    """`x` of the least `sum((a @ x - b)**2)`, by reflections; a has at least as many rows as columns, of full rank."""
    a = t.once(t.whole(a), "a")
    rows, n = (t.index(size) for size in t.dims(a))
    if t.number(rows.affine) < t.number(n.affine):
        raise t.error(
            "`lstsq` with fewer rows than columns has many solutions", "`a.T @ solve(a @ a.T, b)`"
        )
    m = build(t, "concatenate", [a, _columns(t, b)], 1)
    r = t.once(t.defined_by(triangularized, m, rows, n, *PLAIN), "R")
    y = t.subscript(r, (slice(None, n), slice(n, None)))
    x = _as_given(t, t.defined_by(back_substituted, r, y, n), b)
    return (x, *(t.barred("`lstsq` gives the solution alone here") for _ in range(3)))


def _diagonal(t: Any, a: Any, n: Any, functions: Any) -> tuple[Any, Any]:
    """The diagonal of a matrix that reflections made triangular, and how many these were."""
    steps = t.binary(t.here, "-", n, 1)
    r = t.defined_by(triangularized, a, n, steps, *functions)
    return t.once(build(t, "diagonal", r), "diagonal"), t.number(steps.affine)


@form("det")
def det(t: Any, a: Any) -> Any:
    """The product of the diagonal that reflections leave, each of which changes its sign.

    One more reflection comes first, on the other side, so that of a singular matrix it is the last entry of the diagonal
    that is zero, of which no root is taken: the gradient is that of the minors. Where two are zero it is zero.
    """
    a, n = _square(t, a)
    d, steps = _diagonal(t, t.once(t.defined_by(mixed, a, n), "mixed"), n, SAFE)
    made = build(t, "prod", d)
    return _noted(t, "det", made if steps % 2 else t.negative(made), a)


def mixed(a: Any, n: Any) -> Any:
    """a times a reflection that no matrix is made for: only its last column depends on the others where a does."""
    v = np.array([1.5 + np.sin(j + 1.0) for j in range(n)])
    w = 2 / (v @ v) * (a @ v)
    return np.array([[a[i, j] - w[i] * v[j] for j in range(n)] for i in range(n)])


@form("slogdet")
def slogdet(t: Any, a: Any) -> Any:
    """The sign of `det(a)`, and `log(abs(det(a)))`."""
    a, n = _square(t, a)
    d, steps = _diagonal(t, a, n, PLAIN)
    sign = build(t, "prod", t.mapped("sign", d))
    log = build(t, "sum", t.mapped("log", t.mapped("abs", d)))
    return (
        _noted(t, "sign_of_det", t.negative(sign) if steps % 2 else sign, a),
        _noted(t, "log_of_det", log, a),
    )


@form("qr")
def qr(t: Any, a: Any, mode: str = "reduced") -> Any:
    """`Q` and `R` by reflections of `a` and, beside it, of the identity, which becomes `Q.T`."""
    if mode not in ("reduced", "complete", "r"):
        raise t.error(f"`qr` of mode {mode!r}", "'reduced', 'complete' or 'r'")
    a = t.once(t.whole(a), "a")
    if len(t.dims(a)) != 2:
        raise t.error("`qr` takes one matrix here", "map it over several: `jax.vmap(f)(a)`")
    rows, n = (t.number(size) for size in t.dims(a))
    fewer, steps = min(rows, n), min(rows - 1, n)
    both = build(t, "concatenate", [a, build(t, "eye", rows)], 1)
    if steps:
        both = t.once(t.defined_by(triangularized, both, rows, steps, *PLAIN), "R")
    kept = slice(None, rows if mode == "complete" else fewer)
    r = build(t, "triu", t.subscript(both, (kept, slice(None, n))))
    q = build(t, "transpose", t.subscript(both, (kept, slice(n, None))))
    return r if mode == "r" else (q, r)


@form("scipy.qr")
def qr_of_scipy(
    t: Any, a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full"
) -> Any:
    """`qr` whose factors are complete where nothing is said."""
    numpys = {"full": "complete", "economic": "reduced"}
    if mode not in numpys:
        raise t.error(f"`qr` of mode {mode!r}", "'full' or 'economic'")
    return qr(t, a, numpys[mode])


@form("cholesky")
def cholesky(t: Any, a: Any, lower: bool = True, upper: bool = False) -> Any:
    """`L` where `L @ L.T = a`, column by column; of a matrix that is not symmetric, of `(a + a.T)/2`."""
    a, n = _square(t, a)
    half = t.computed("*", 0.5, t.computed("+", a, build(t, "transpose", a)))
    made = _noted(t, "cholesky", t.defined_by(cholesky_factor, half, n), a)
    return build(t, "transpose", made) if upper or not lower else made


@form("scipy.cholesky")
def scipy_cholesky(t: Any, a: Any, lower: bool = False) -> Any:
    """As SciPy has it: the upper factor, where nothing is said."""
    return cholesky(t, a, lower)


@form("cho_factor")
def cho_factor(t: Any, a: Any, lower: bool = False) -> Any:
    """The factor, and whether it is the lower one."""
    return cholesky(t, a, lower), lower


@form("cho_solve")
def cho_solve(t: Any, c_and_lower: Any, b: Any) -> Any:
    """`x` where `L @ L.T @ x = b`."""
    c, lower = c_and_lower
    y = solve_triangular(t, c, b, 0 if lower else 1, lower)
    return solve_triangular(t, c, y, 1 if lower else 0, lower)


@form("solve_triangular")
def solve_triangular(t: Any, a: Any, b: Any, trans: Any = 0, lower: bool = False) -> Any:
    """`x` where `a @ x = b` and a is triangular, row by row."""
    a, n = _square(t, a)
    if trans in (1, "T"):
        a, lower = build(t, "transpose", a), not lower
    a, y = t.named(a, "a"), t.named(_columns(t, b), "b")
    if lower:
        turned = build(t, "flip", a), build(t, "flip", y, 0)
        x = build(t, "flip", t.defined_by(back_substituted, *turned, n), 0)
    else:
        x = t.defined_by(back_substituted, a, y, n)
    return _as_given(t, _noted(t, f"solve_{'lower' if lower else 'upper'}", x, a, y), b)


@form("matrix_power")
def matrix_power(t: Any, a: Any, n: Any) -> Any:
    """`a @ a @ …`, by squares."""
    if not isinstance(n, int) or n < 0:
        raise t.error("`matrix_power` takes a constant that is not negative", "`np.linalg.inv`")
    a, size = _square(t, a)
    made = None
    while n:
        if n % 2:
            made = a if made is None else t.once(t.matmul(made, a), "power")
        n //= 2
        a = t.once(t.matmul(a, a), "square") if n else a
    return build(t, "eye", size) if made is None else made


@form("multi_dot")
def multi_dot(t: Any, arrays: Any) -> Any:
    """`a @ b @ …`, from the left."""
    first, *rest = t.several(arrays)
    for x in rest:
        first = t.once(t.matmul(first, x))
    return first


INSTEAD = {
    "pinv": "`np.linalg.solve(a.T @ a, a.T)` where columns are independent",
    **dict.fromkeys(
        ("eigh", "eigvalsh", "eig", "eigvals"),
        "compute it outside and pass the factors; the largest eigenvalue is a loop, "
        "`for _ in range(200): v = a @ v; v = v / np.linalg.norm(v)`, then `v @ a @ v`",
    ),
    **dict.fromkeys(
        ("svd", "svdvals", "matrix_rank"),
        "compute it outside and pass the factors; the largest singular value is a loop, "
        "`for _ in range(200): v = a.T @ (a @ v); v = v / np.linalg.norm(v)`, then `np.linalg.norm(a @ v)`",
    ),
    "expm": "a loop over its series: `term = term @ a / (k + 1)`, `total = total + term`",
    **dict.fromkeys(("lu", "lu_factor", "lu_solve"), "`np.linalg.solve`, `det` and `qr` are there"),
    **dict.fromkeys(("schur", "sqrtm", "logm"), "compute it outside and pass the factors"),
}


def _refused(name: str) -> Any:
    def decomposed(t: Any, *_: Any, **__: Any) -> Any:
        """Refused: what iterates until it has converged, or is one of several."""
        raise t.error(
            f"`{name}` ends when its data have converged, or is one of several", INSTEAD[name]
        )

    return decomposed


for _name in INSTEAD:
    form(_name)(_refused(_name))
