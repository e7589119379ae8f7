"""Linear systems and decompositions: NumPy's and SciPy's functions, by those of `derivative/linear_algebra`, with batch axes."""

from __future__ import annotations

from typing import Any

from ...derivative.linear_algebra import (
    CHOLESKY,
    DETERMINANT,
    EIGH,
    EXPM,
    FACTORS,
    INVERSE,
    LOG_OF_DET,
    QR,
    SIGN_OF_DET,
    SOLVE,
    SOLVE_LOWER,
    SOLVE_UPPER,
    SVD,
)
from ...language.affine import Affine
from ..tracers import UnreadableValue
from .table import applied, build, form


def _require_matrices(t: Any, a: Any) -> Any:
    """Return a matrix, or several of them, as a variable. Raises TensorError for fewer than two axes."""
    a = t.named(t.whole(a), "a")
    if len(t.dims(a)) < 2:
        raise t.error("this takes a matrix", "for one row or column: `x[None, :]`, `x[:, None]`")
    return a


def _require_square(t: Any, a: Any) -> Any:
    """Return square matrices as a variable. Raises TensorError if rows and columns differ."""
    a = _require_matrices(t, a)
    t.same(*t.dims(a)[-2:])
    return a


def _known_sizes(t: Any, a: Any) -> tuple[int, int]:
    """Return the numbers of rows and columns of a matrix."""
    rows, columns = t.dims(a)[-2:]
    return t.number(rows), t.number(columns)


def _submatrix(t: Any, x: Any, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    """Return the rows and columns of each matrix from a first number to below a second one."""
    (top, bottom), (left, right) = ((Affine.of(a), Affine.of(b)) for a, b in (rows, columns))
    dims = (*t.dims(x)[:-2], bottom - top, right - left)
    return t.build(dims, lambda *at: t.read(x, *at[:-2], at[-2] + top, at[-1] + left), x)


def _transpose_each(t: Any, x: Any) -> Any:
    """Return each matrix with its axes exchanged."""
    return build(t, "swapaxes", x, -1, -2)


def _as_columns(t: Any, a: Any, b: Any) -> Any:
    """Return the right-hand sides of systems as the columns of a matrix for each system."""
    b = t.whole(b)
    batch, sizes = t.dims(a)[:-2], t.dims(b)
    if len(sizes) == 1:
        b = t.named(b, "b")
        return t.named(
            t.build((*batch, *sizes, Affine.of(1)), lambda *at: t.read(b, at[-2]), b), "b"
        )
    if len(sizes) != len(batch) + 2:
        raise t.error("the number of right-hand sides differs from the number of systems")
    for one, other in zip(batch, sizes, strict=False):
        t.same(one, other)
    return t.named(b, "b")


def _restore_shape(t: Any, x: Any, b: Any) -> Any:
    """Return solutions in the shape of the right-hand sides."""
    return x if len(t.dims(t.whole(b))) > 1 else t.subscript(x, (..., 0))


@form("solve")
def solve(t: Any, a: Any, b: Any) -> Any:
    """Build NumPy's `solve`: x where `a @ x = b`, by elimination."""
    a = _require_square(t, a)
    columns = _as_columns(t, a, b)
    t.same(t.dims(a)[-1], t.dims(columns)[-2])
    return _restore_shape(t, applied(t, SOLVE, a, applied(t, FACTORS, a), columns), b)


@form("inv")
def inv(t: Any, a: Any) -> Any:
    """Build NumPy's `inv`: x where `a @ x` is the identity."""
    a = _require_square(t, a)
    return applied(t, INVERSE, a, applied(t, FACTORS, a))


@form("det")
def det(t: Any, a: Any) -> Any:
    """Build NumPy's `det`; its gradient is the matrix of cofactors, also of a singular matrix."""
    a = _require_square(t, a)
    return applied(t, DETERMINANT, a, applied(t, FACTORS, a))


@form("slogdet")
def slogdet(t: Any, a: Any) -> Any:
    """Build NumPy's `slogdet`: the sign of `det(a)`, and `log(abs(det(a)))`."""
    a = _require_square(t, a)
    factors = applied(t, FACTORS, a)
    return applied(t, SIGN_OF_DET, a, factors), applied(t, LOG_OF_DET, a, factors)


@form("lstsq")
def lstsq(t: Any, a: Any, b: Any, rcond: Any = None) -> Any:
    """Build NumPy's `lstsq`: x with the least `sum((a @ x - b)**2)`, by `qr`.

    a has full rank, and at least as many rows as columns. Its other results cannot be read.
    """
    a = _require_matrices(t, a)
    rows, n = _known_sizes(t, a)
    if rows < n:
        raise t.error(
            "`lstsq` with fewer rows than columns has many solutions", "`a.T @ solve(a @ a.T, b)`"
        )
    q, r = _tall_qr(t, a)
    right = t.once(build(t, "matmul", _transpose_each(t, q), _as_columns(t, a, b)), "b")
    x = _restore_shape(t, applied(t, SOLVE_UPPER, r, right), b)
    return (x, *(t.barred("`lstsq` returns only the solution here") for _ in range(3)))


def _tall_qr(t: Any, a: Any) -> tuple[Any, Any]:
    """Return Q and R of matrices with at least as many rows as columns."""
    packed = applied(t, QR, a)
    rows, n = t.dims(a)[-2:]
    return _submatrix(t, packed, (0, rows), (0, n)), _submatrix(t, packed, (rows, rows + n), (0, n))


@form("qr")
def qr(t: Any, a: Any, mode: str = "reduced") -> Any:
    """Build NumPy's `qr`: `Q` and `R = Q.T @ a`; a complete Q is that of a with columns of the identity appended."""
    if mode not in ("reduced", "complete", "r"):
        raise t.error(f"`qr` of mode {mode!r}", "'reduced', 'complete' or 'r'")
    a = _require_matrices(t, a)
    rows, n = t.dims(a)[-2:]
    if rows != n:
        rows, n = _known_sizes(t, a)
    if rows == n or n < rows:
        q, r = _tall_qr(t, a)
        if mode == "complete" and rows != n:
            more = _submatrix(t, build(t, "eye", rows), (0, rows), (n, rows))
            beside = t.named(build(t, "concatenate", [a, more], -1), "a")
            q, r = (
                _tall_qr(t, beside)[0],
                build(t, "concatenate", [r, build(t, "zeros", (rows - n, n))], 0),
            )
    else:
        q, r = _tall_qr(t, t.named(_submatrix(t, a, (0, rows), (0, rows)), "a"))
        rest = _submatrix(t, a, (0, rows), (rows, n))
        r = build(t, "concatenate", [r, build(t, "matmul", _transpose_each(t, q), rest)], -1)
    return r if mode == "r" else (q, r)


@form("scipy.qr")
def qr_of_scipy(
    t: Any, a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full"
) -> Any:
    """Build SciPy's `qr`, whose factors are complete by default."""
    numpys = {"full": "complete", "economic": "reduced"}
    if mode not in numpys:
        raise t.error(f"`qr` of mode {mode!r}", "'full' or 'economic'")
    return qr(t, a, numpys[mode])


@form("cholesky")
def cholesky(t: Any, a: Any, lower: bool = True, upper: bool = False) -> Any:
    """Build NumPy's `cholesky`: `L` where `L @ L.T = a`; of an asymmetric matrix, of `(a + a.T)/2`."""
    made = applied(t, CHOLESKY, _require_square(t, a))
    return _transpose_each(t, made) if upper or not lower else made


@form("scipy.cholesky")
def scipy_cholesky(t: Any, a: Any, lower: bool = False) -> Any:
    """Build SciPy's `cholesky`, which returns the upper factor by default."""
    return cholesky(t, a, lower)


@form("cho_factor")
def cho_factor(t: Any, a: Any, lower: bool = False) -> Any:
    """Build SciPy's `cho_factor`: the factor, and whether it is the lower one."""
    return cholesky(t, a, lower), lower


@form("cho_solve")
def cho_solve(t: Any, c_and_lower: Any, b: Any) -> Any:
    """Build SciPy's `cho_solve`: x where `L @ L.T @ x = b`."""
    c, lower = c_and_lower
    y = solve_triangular(t, c, b, 0 if lower else 1, lower)
    return solve_triangular(t, c, y, 1 if lower else 0, lower)


@form("solve_triangular")
def solve_triangular(t: Any, a: Any, b: Any, trans: Any = 0, lower: bool = False) -> Any:
    """Build SciPy's `solve_triangular`: x where `a @ x = b` and a is triangular."""
    a = _require_square(t, a)
    if trans in (1, "T"):
        a, lower = t.named(_transpose_each(t, a), "a"), not lower
    made = applied(t, SOLVE_LOWER if lower else SOLVE_UPPER, a, _as_columns(t, a, b))
    return _restore_shape(t, made, b)


@form("eigh")
def eigh(t: Any, a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Build NumPy's `eigh`: the eigenvalues of `(a + a.T)/2`, least first, and the eigenvectors as columns."""
    a = _require_square(t, a)
    n = t.dims(a)[-1]
    packed = applied(t, EIGH, a)
    return t.subscript(packed, (..., 0, slice(None))), _submatrix(t, packed, (1, n + 1), (0, n))


@form("eigvalsh")
def eigvalsh(t: Any, a: Any, UPLO: str = "L") -> Any:  # noqa: N803
    """Build NumPy's `eigvalsh`: the eigenvalues of `(a + a.T)/2`, least first."""
    return eigh(t, a)[0]


@form("svd")
def svd(t: Any, a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Build NumPy's `svd`: `U`, the singular values, largest first, and `V.T`."""
    a = _require_matrices(t, a)
    rows, n = t.dims(a)[-2:]
    if rows != n:
        rows, n = map(Affine.of, _known_sizes(t, a))
    packed = applied(t, SVD, a)
    k = t.dims(packed)[-1]
    values = t.subscript(packed, (..., t.index(rows), slice(None)))
    if not compute_uv:
        return values
    u = _submatrix(t, packed, (0, rows), (0, k))
    v = _submatrix(t, packed, (rows + 1, rows + n + 1), (0, k))
    full = rows != n and full_matrices  # of which the larger has columns beside those of the other
    u = UnreadableValue(*NOT_FULL) if full and t.number(rows) > t.number(n) else u
    v = (
        UnreadableValue(*NOT_FULL)
        if full and t.number(rows) < t.number(n)
        else _transpose_each(t, v)
    )
    return u, values, v


NOT_FULL = "`svd` gives no full U and V here", "`full_matrices=False`"


@form("svdvals")
def svdvals(t: Any, a: Any) -> Any:
    """Build SciPy's `svdvals`: the singular values, largest first."""
    return svd(t, a, compute_uv=False)


@form("pinv")
def pinv(t: Any, a: Any, rcond: float = 1e-15) -> Any:
    """Build NumPy's `pinv`: `V / s @ U.T`, of the singular values above `rcond` times the largest."""
    u, s, v = svd(t, a, full_matrices=False)
    s = t.named(s, "s")
    large = t._compare(">", s, t.computed("*", rcond, build(t, "max", s)))
    inverse = t.chosen(large, t.computed("/", 1.0, t.chosen(large, s, 1.0)), 0.0)
    return build(
        t, "matmul", t.computed("*", _transpose_each(t, v), inverse), _transpose_each(t, u)
    )


@form("expm")
def expm(t: Any, a: Any) -> Any:
    """Build SciPy's `expm`: the exponential of a matrix, `1 + a + a @ a / 2 + …`."""
    return applied(t, EXPM, _require_square(t, a))


@form("matrix_power")
def matrix_power(t: Any, a: Any, n: Any) -> Any:
    """Build NumPy's `matrix_power`, for constant powers that are not negative, by repeated squaring."""
    if not isinstance(n, int) or n < 0:
        raise t.error("`matrix_power` takes a constant that is not negative", "`np.linalg.inv`")
    a = _require_square(t, a)
    size = t.index(t.dims(a)[-1])
    made = None
    while n:
        if n % 2:
            made = a if made is None else t.once(build(t, "matmul", made, a), "power")
        n //= 2
        a = t.once(build(t, "matmul", a, a), "square") if n else a
    return build(t, "eye", size) if made is None else made


@form("multi_dot")
def multi_dot(t: Any, arrays: Any) -> Any:
    """Build NumPy's `multi_dot`: `a @ b @ …`, from the left."""
    first, *rest = t.several(arrays)
    for x in rest:
        first = t.once(build(t, "matmul", first, x))
    return first


INSTEAD = {
    **dict.fromkeys(
        ("eig", "eigvals"),
        "they may be complex; of a symmetric matrix `np.linalg.eigh`; the largest is a loop, "
        "`for _ in range(200): v = a @ v; v = v / np.linalg.norm(v)`, then `v @ a @ v`",
    ),
    "matrix_rank": "count singular values: `np.sum(np.linalg.svd(a, compute_uv=False) > 1e-10)`",
    **dict.fromkeys(("lu", "lu_factor", "lu_solve"), "`np.linalg.solve`, `det` and `qr` are there"),
    **dict.fromkeys(
        ("schur", "sqrtm", "logm"), "of a symmetric matrix by `np.linalg.eigh`, or outside of it"
    ),
}


def _make_refused_form(name: str) -> Any:
    """Return a form that raises TensorError with advice."""

    def decomposed(t: Any, *_: Any, **__: Any) -> Any:
        """Refuse functions that have no real result for all matrices, or several."""
        raise t.error(f"`{name}` is not in the tensor language", INSTEAD[name])

    return decomposed


for _name in INSTEAD:
    form(_name)(_make_refused_form(_name))
