"""XLA's functions for array-level functions (`derivative/linear_algebra`, `derivative/sorting`), on batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import lax


def _factors(a: Any) -> Any:
    packed, _, order = lax.linalg.lu(a)
    return jnp.concatenate([packed, order.astype(a.dtype)[..., None]], -1)


def _order(factors: Any) -> Any:
    """The row of the matrix that each row of its factors is."""
    return factors[..., -1].astype(jnp.int32)


def _triangular(a: Any, b: Any, *, lower: bool, unit: bool = False, turned: bool = False) -> Any:
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, unit_diagonal=unit, transpose_a=turned
    )


def _solved(a: Any, factors: Any, b: Any) -> Any:
    packed = factors[..., :-1]
    b = jnp.take_along_axis(b, _order(factors)[..., None], -2)
    return _triangular(packed, _triangular(packed, b, lower=True, unit=True), lower=False)


def _solved_transposed(a: Any, factors: Any, b: Any) -> Any:
    packed = factors[..., :-1]
    b = _triangular(packed, b, lower=False, turned=True)
    b = _triangular(packed, b, lower=True, unit=True, turned=True)
    back = jnp.argsort(_order(factors), -1)
    return jnp.take_along_axis(b, back[..., None], -2)


def _inverse(a: Any, factors: Any) -> Any:
    return _solved(a, factors, jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape))


def _diagonal(factors: Any) -> Any:
    return jnp.diagonal(factors[..., :-1], axis1=-2, axis2=-1)


def _parity(factors: Any) -> Any:
    """1 where the order of the rows is an even permutation, -1 where it is an odd one."""
    order = _order(factors)
    n = order.shape[-1]
    later = jnp.arange(n)[:, None] < jnp.arange(n)[None, :]
    turned = ((order[..., :, None] > order[..., None, :]) & later).sum((-2, -1))
    return (1 - 2 * (turned % 2)).astype(factors.dtype)


def _cofactors(a: Any, factors: Any) -> Any:
    """The determinant times the inverse, by singular values where a pivot is zero."""
    diagonal = _diagonal(factors)

    def regular() -> Any:
        det = _parity(factors) * diagonal.prod(-1)
        return det[..., None, None] * jnp.swapaxes(_inverse(a, factors), -1, -2)

    def singular() -> Any:
        u, s, v = jnp.linalg.svd(a)
        n = s.shape[-1]
        others = jnp.where(jnp.eye(n, dtype=bool), 1, s[..., None, :]).prod(-1)
        sign = jnp.linalg.det(u) * jnp.linalg.det(v)
        return sign[..., None, None] * (u * others[..., None, :]) @ v

    return lax.cond((diagonal == 0).any(), singular, regular)


def _qr(a: Any) -> Any:
    return jnp.concatenate(jnp.linalg.qr(a), -2)


def _eigh(a: Any) -> Any:
    values, vectors = jnp.linalg.eigh(a)
    return jnp.concatenate([values[..., None, :], vectors], -2)


def _svd(a: Any) -> Any:
    u, s, v = jnp.linalg.svd(a, full_matrices=False)
    return jnp.concatenate([u, s[..., None, :], jnp.swapaxes(v, -1, -2)], -2)


#: The largest norm of a matrix for which the Padé approximant of degree 13 (7 in float32) is exact to rounding (Higham, "The
#: scaling and squaring method for the matrix exponential revisited", 2005), and the most squarings, beyond which all overflows.
APPROXIMATED, APPROXIMATED_FLOAT32, SQUARINGS = 5.371920351148152, 3.925724783138660, 16


def _expm(a: Any) -> Any:
    """The exponential of matrices. JAX's own rounds the number of squarings down, which costs up to half of the digits."""
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


def _ascending(x: Any) -> Any:
    return jnp.argsort(x, axis=-1, stable=True)


def _descending(x: Any) -> Any:
    return x.shape[-1] - 1 - jnp.flip(_ascending(jnp.flip(x, -1)), -1)


FEW = 1 << 12  # pairs that are compared before anything is searched for


def _counted(among: Any, wanted: Any, side: str) -> Any:
    """As `jnp.searchsorted`, of one list or of one for each row."""
    if among.ndim > 1:
        return jax.vmap(lambda a, v: _counted(a, v, side))(among, wanted)
    method = "compare_all" if among.size * wanted.size < FEW else "scan"
    return jnp.searchsorted(among, wanted, side=side, method=method)


#: XLA's counterpart of each definition without a body.
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "factors": _factors,
    "solve": _solved,
    "solve_transposed": _solved_transposed,
    "inverse": _inverse,
    "det": lambda a, factors: _parity(factors) * _diagonal(factors).prod(-1),
    "sign_of_det": lambda a, factors: _parity(factors) * jnp.sign(_diagonal(factors)).prod(-1),
    "log_of_det": lambda a, factors: jnp.log(jnp.abs(_diagonal(factors))).sum(-1),
    "cofactors": _cofactors,
    "solve_lower": lambda a, b: _triangular(a, b, lower=True),
    "solve_upper": lambda a, b: _triangular(a, b, lower=False),
    "cholesky": jnp.linalg.cholesky,
    "qr": _qr,
    "eigh": _eigh,
    "svd": _svd,
    "expm": _expm,
    "order": _ascending,
    "descending_order": _descending,
    "count_below": lambda among, wanted: _counted(among, wanted, "left"),
    "count_up_to": lambda among, wanted: _counted(among, wanted, "right"),
    "expm_along": lambda a, e: jax.jvp(_expm, (a,), (e,))[1],
}
