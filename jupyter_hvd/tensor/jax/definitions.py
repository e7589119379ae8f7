"""XLA's functions for array-level functions (`derivative/linear_algebra`, `derivative/sorting`), on batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax


def _lu_factors(a: Any) -> Any:
    """Return the packed LU factors of matrices, and the row permutation as one more column."""
    packed, _, order = lax.linalg.lu(a)
    return jnp.concatenate([packed, order.astype(a.dtype)[..., None]], -1)


def _row_order(factors: Any) -> Any:
    """Return for each row of the LU factors which row of the matrix it is."""
    return factors[..., -1].astype(jnp.int32)


def _solve_triangular(
    a: Any, b: Any, *, lower: bool, unit: bool = False, turned: bool = False
) -> Any:
    """Solve triangular systems from the left; `turned` transposes the matrix, `unit` takes its diagonal as ones."""
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, unit_diagonal=unit, transpose_a=turned
    )


def _solve(a: Any, factors: Any, b: Any) -> Any:
    """Solve `a·x = b` with the factors of `_lu_factors`."""
    packed = factors[..., :-1]
    b = jnp.take_along_axis(b, _row_order(factors)[..., None], -2)
    return _solve_triangular(
        packed, _solve_triangular(packed, b, lower=True, unit=True), lower=False
    )


def _solve_transposed(a: Any, factors: Any, b: Any) -> Any:
    """Solve `aᵀ·x = b` with the factors of `_lu_factors`."""
    packed = factors[..., :-1]
    b = _solve_triangular(packed, b, lower=False, turned=True)
    b = _solve_triangular(packed, b, lower=True, unit=True, turned=True)
    back = jnp.argsort(_row_order(factors), -1)
    return jnp.take_along_axis(b, back[..., None], -2)


def _invert(a: Any, factors: Any) -> Any:
    """Return the inverses of matrices from their LU factors."""
    return _solve(a, factors, jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _pivots(factors: Any) -> Any:
    """Return the diagonal of U of the LU factors."""
    return jnp.diagonal(factors[..., :-1], axis1=-2, axis2=-1)


def _permutation_sign(factors: Any) -> Any:
    """Return 1 if the row order is an even permutation, -1 if it is odd."""
    order = _row_order(factors)
    n = order.shape[-1]
    later = jnp.arange(n)[:, None] < jnp.arange(n)[None, :]
    turned = ((order[..., :, None] > order[..., None, :]) & later).sum((-2, -1))
    return (1 - 2 * (turned % 2)).astype(factors.dtype)


def _compute_cofactors(a: Any, factors: Any) -> Any:
    """Return the determinant times the inverse, by singular values if a pivot is zero."""
    diagonal = _pivots(factors)

    def regular() -> Any:
        det = _permutation_sign(factors) * diagonal.prod(-1)
        return det[..., None, None] * jnp.swapaxes(_invert(a, factors), -1, -2)

    def singular() -> Any:
        u, s, v = jnp.linalg.svd(a)
        n = s.shape[-1]
        others = jnp.where(jnp.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        sign = jnp.linalg.det(u) * jnp.linalg.det(v)
        return sign[..., None, None] * (u * others[..., None, :]) @ v

    return lax.cond((diagonal == 0).any(), singular, regular)


def _packed_qr(a: Any) -> Any:
    """Return Q and R of matrices, stacked along the rows."""
    return jnp.concatenate(jnp.linalg.qr(a), -2)


def _packed_eigh(a: Any) -> Any:
    """Return the eigenvalues of symmetric matrices as a row, and the eigenvectors as columns below it."""
    values, vectors = jnp.linalg.eigh(a)
    return jnp.concatenate([values[..., None, :], vectors], -2)


def _packed_svd(a: Any) -> Any:
    """Return U, the singular values as a row, and V (not transposed), stacked along the rows."""
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return jnp.concatenate([u, s[..., None, :], jnp.swapaxes(v, -1, -2)], -2)


#: The largest norm of a matrix for which the Padé approximant of degree 13 (7 in float32) is exact to rounding (Higham, "The
#: scaling and squaring method for the matrix exponential revisited", 2005), and the most squarings, beyond which all overflows.
APPROXIMATED, APPROXIMATED_FLOAT32, SQUARINGS = 5.371920351148152, 3.925724783138660, 16


def _expm(a: Any) -> Any:
    """Return the exponentials of matrices. JAX's own rounds the number of squarings down, which costs up to half of the
    digits.
    """
    if a.ndim > 2:
        return jax.vmap(_expm)(a)
    largest = APPROXIMATED if a.dtype == jnp.float64 else APPROXIMATED_FLOAT32
    wanted = jnp.ceil(jnp.log2(jnp.abs(a).sum(0).max() / largest))
    squarings = lax.stop_gradient(jnp.clip(wanted, 0, SQUARINGS))
    return lax.fori_loop(
        0,
        SQUARINGS,
        lambda k, x: lax.cond(k < squarings, lambda x: x @ x, lambda x: x, x),
        jsl.expm(a * 0.5**squarings),
    )


# Sorting


def _argsort_ascending(x: Any) -> Any:
    """Return the positions that sort the last axis, equal entries in their order."""
    return jnp.argsort(x, axis=-1, stable=True)


def _argsort_descending(x: Any) -> Any:
    """Return the positions that sort the last axis downwards, equal entries in their order."""
    return x.shape[-1] - 1 - jnp.flip(_argsort_ascending(jnp.flip(x, -1)), -1)


FEW = 1 << 12  # pairs that are compared before anything is searched for


def _search_sorted(among: Any, wanted: Any, side: str) -> Any:
    """Return `jnp.searchsorted` of one list, or of one list for each row."""
    if among.ndim > 1:
        return jax.vmap(lambda a, v: _search_sorted(a, v, side))(among, wanted)
    method = "compare_all" if among.size * wanted.size < FEW else "scan"
    return jnp.searchsorted(among, wanted, side=side, method=method)


#: XLA's counterpart of each definition without a body.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "factors": _lu_factors,
    "solve": _solve,
    "solve_transposed": _solve_transposed,
    "inverse": _invert,
    "det": lambda a, factors: _permutation_sign(factors) * _pivots(factors).prod(-1),
    "sign_of_det": lambda a, factors: (
        _permutation_sign(factors) * jnp.sign(_pivots(factors)).prod(-1)
    ),
    "log_of_det": lambda a, factors: jnp.log(jnp.abs(_pivots(factors))).sum(-1),
    "cofactors": _compute_cofactors,
    "solve_lower": lambda a, b: _solve_triangular(a, b, lower=True),
    "solve_upper": lambda a, b: _solve_triangular(a, b, lower=False),
    "cholesky": jnp.linalg.cholesky,
    "qr": _packed_qr,
    "eigh": _packed_eigh,
    "svd": _packed_svd,
    "expm": _expm,
    "order": _argsort_ascending,
    "descending_order": _argsort_descending,
    "count_below": lambda among, wanted: _search_sorted(among, wanted, "left"),
    "count_up_to": lambda among, wanted: _search_sorted(among, wanted, "right"),
    "expm_along": lambda a, e: jax.jvp(_expm, (a,), (e,))[1],
}
