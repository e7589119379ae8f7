"""Linear systems and decompositions: array-level functions, each defined by an equation, with its derivative to every order.

`solve` and `det` read the factors of a matrix, `factors(A)`, which are computed once for all that reads them, the derivative of
`solve` too. These have no derivative of their own: that goes through the matrix. What has several results gives them one below
the other: of `qr(A)` the first rows are Q, the rest R.

Where values are equal, or a singular value is 0, vectors have no derivative. What turns them into one another is taken for 0
there, so that what does not depend on their choice has its derivative: traces of powers, the nuclear norm. `solve` and
`log_of_det` of a singular matrix are no numbers; `det` is right there, and so is its first derivative.

A derivative of a decomposition has a body of products and triangular systems, and a cost by a lemma: differentiating an algorithm
operation by operation takes at most twice its own (Theorem 6.1 without the values), which bodies that suit a library of products
of matrices exceed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.definition import Definition, Dims, Work, register_definition
from ..language.function import find_function
from ..language.predicates import Predicate, compare, conj, disj
from ..language.terms import Add, Call, Const, Mul, Term, Var, entry, guard, lets
from ..language.types import array, dimensions
from ..reference.evaluate import Environment, evaluate
from .lemmas import below_condition, operations_where
from .matrices import Matrices

Changes = Sequence[Term | None]


def _twice_cost(cost: Callable[..., tuple[Work, ...]]) -> Callable[..., tuple[Work, ...]]:
    """Return twice the cost of an algorithm, which is the cost of its derivative. The first operand is the algorithm's."""
    return lambda a, *rest: tuple(replace(work, times=2 * work.times) for work in cost(a))


def _elimination_cost(n: Affine) -> tuple[Work, ...]:
    """Count the operations of Gaussian elimination: `2/3·n³`."""
    inner = conj(below_condition("ε0", "ε1"), below_condition("ε0", "ε2"))
    quotients = operations_where((n, n), below_condition("ε0", "ε1"), products=0, sums=0, calls=1)
    return (*operations_where((n, n, n), inner), *quotients)


def _substitution_cost(n: Affine, columns: Affine) -> tuple[Work, ...]:
    """Count the operations of a substitution with one triangle: `n²` for each column."""
    quotients = operations_where((n, columns), products=0, sums=0, calls=1)
    return (*operations_where((n, n, columns), below_condition("ε0", "ε1")), *quotients)


# Elimination


def _factor_matrix(a: Any) -> Any:
    """Compute the LU factors of a matrix, packed, with the permutation as last column; NaN for non-finite entries."""
    import scipy.linalg  # type: ignore[import-untyped]

    if not np.isfinite(a).all():
        return np.full((len(a), len(a) + 1), np.nan)
    place, lower, upper = scipy.linalg.lu(a, p_indices=True, check_finite=False)
    packed = np.tril(lower, -1) + upper
    return np.concatenate([packed, np.argsort(place)[:, None]], axis=1)


def _nan_if_singular(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a NumPy function so that it returns NaNs instead of raising LinAlgError."""

    def compute(*arrays: Any) -> Any:
        try:
            return function(*arrays)
        except np.linalg.LinAlgError:
            return np.full(arrays[-1].shape, np.nan)

    return compute


#: Triangles of `P A = L U` in one matrix, and behind them a column with the row of A that each row is.
FACTORS = register_definition(
    Definition(
        "factors",
        (2,),
        lambda a: (a[0], a[0] + 1),
        lambda a: _elimination_cost(a[0]),
        _factor_matrix,
    )
)


def _define_solving(transposed: bool) -> Definition:
    """Define the solution `X` of `A @ X = B`, or of `A.T @ X = B`, given the LU factors of A."""

    def tangent(m: Matrices, x: Sequence[Term], dx: Changes, y: Term) -> Term | None:
        a, f, _ = x
        da, _, db = dx
        if da is not None:
            moved = m.product(m.transposed(da) if transposed else da, y)
            db = m.negative(moved) if db is None else m.minus(db, moved)
        own = SOLVE_TRANSPOSED if transposed else SOLVE
        return None if db is None else m.apply_definition(own, a, f, db)

    def cotangent(m: Matrices, k: int, x: Sequence[Term], y: Term, dy: Term) -> Term | None:
        a, f, _ = x
        if k == 1:
            return None
        g = m.apply_definition(SOLVE if transposed else SOLVE_TRANSPOSED, a, f, dy)
        if k == 2:
            return g
        left, right = (y, g) if transposed else (g, y)
        return m.negative(m.product(left, m.transposed(right)))

    return register_definition(
        Definition(
            "solve_transposed" if transposed else "solve",
            (2, 2, 2),
            lambda a, f, b: b,
            lambda a, f, b: (
                *_substitution_cost(*b),
                *operations_where((*a, b[1]), below_condition("ε0", "ε1")),
            ),
            _nan_if_singular(lambda a, _, b: np.linalg.solve(a.T if transposed else a, b)),
            tangent,
            cotangent,
        )
    )


SOLVE = _define_solving(transposed=False)
SOLVE_TRANSPOSED = _define_solving(transposed=True)


def _inversion_cost(a: Dims, _: Dims) -> tuple[Work, ...]:
    """Count the operations that invert two triangles: `4/3·n³`, and a division for each entry."""
    inner = conj(below_condition("ε0", "ε1"), below_condition("ε0", "ε2"))
    quotients = operations_where(a, products=0, sums=0, calls=1)
    return (*operations_where((*a, a[0]), inner, products=2, sums=2), *quotients)


def _inverse_tangent(m: Matrices, x: Sequence[Term], dx: Changes, y: Term) -> Term | None:
    """Return the tangent of the inverse: `-y·da·y`."""
    return None if dx[0] is None else m.negative(m.product(y, dx[0], y))


def _inverse_cotangent(m: Matrices, k: int, x: Sequence[Term], y: Term, dy: Term) -> Term | None:
    """Return the cotangent of a matrix by that of its inverse: `-yᵀ·dy·yᵀ`; None for the factors."""
    turned = m.transposed(y)
    return None if k else m.negative(m.product(turned, dy, turned))


INVERSE = register_definition(
    Definition(
        "inverse",
        (2, 2),
        lambda a, f: a,
        _inversion_cost,
        _nan_if_singular(lambda a, _: np.linalg.inv(a)),
        _inverse_tangent,
        _inverse_cotangent,
    )
)


def _define_scalar_of_matrix(
    name: str,
    cost: Callable[..., tuple[Work, ...]],
    compute: Callable[..., Any],
    gradient: Callable[..., Term],
) -> Definition:
    """Define and register a scalar function of a matrix and its LU factors, with derivatives from its gradient.

    Args:
        gradient: the gradient, a matrix of the same shape.
    """

    def tangent(m: Matrices, x: Sequence[Term], dx: Changes, y: Term) -> Term | None:
        return None if dx[0] is None else m.inner(gradient(m, x), dx[0])

    def cotangent(m: Matrices, k: int, x: Sequence[Term], y: Term, dy: Term) -> Term | None:
        return None if k else m.scaled(dy, gradient(m, x))

    return register_definition(
        Definition(name, (2, 2), lambda a, f: (), cost, compute, tangent, cotangent)
    )


DETERMINANT = _define_scalar_of_matrix(
    "det",
    lambda a, f: operations_where((a[0],), sums=0),
    lambda a, f: np.linalg.det(a),
    lambda m, x: m.apply_definition(COFACTORS, *x),
)
LOG_OF_DET = _define_scalar_of_matrix(
    "log_of_det",
    lambda a, f: operations_where((a[0],), products=0, calls=1),
    lambda a, f: np.linalg.slogdet(a)[1],
    lambda m, x: m.transposed(m.apply_definition(INVERSE, *x)),
)
SIGN_OF_DET = register_definition(
    Definition(
        "sign_of_det",
        (2, 2),
        lambda a, f: (),
        lambda a, f: operations_where((a[0],), sums=0),
        lambda a, f: np.linalg.slogdet(a)[0],
    )
)


def _compute_cofactors(a: Any, _: Any) -> Any:
    """Compute the cofactor matrix from singular values, also for singular matrices."""
    u, s, v = np.linalg.svd(a)
    others = np.array([np.prod(np.delete(s, k)) for k in range(len(s))])
    return np.linalg.det(u) * np.linalg.det(v) * (u * others) @ v


def _differentiate_cofactors(m: Matrices, x: Sequence[Term], c: Term, d: Term) -> Term:
    """Compute `(⟨C, D⟩ C - C Dᵀ C) / det(A)`: the derivative of the cofactors C along D, and also the cotangent of A for that
    of C.
    """
    inverse = m.name_term(Call(find_function("recip"), (m.apply_definition(DETERMINANT, *x),)))
    both = m.minus(m.scaled(m.inner(c, d), c), m.product(c, m.transposed(d), c))
    return m.scaled(inverse, both)


#: The signed minors, the gradient of the determinant.
COFACTORS: Definition = register_definition(
    Definition(
        "cofactors",
        (2, 2),
        lambda a, f: a,
        _inversion_cost,
        _compute_cofactors,
        lambda m, x, dx, y: None if dx[0] is None else _differentiate_cofactors(m, x, y, dx[0]),
        lambda m, k, x, y, dy: None if k else _differentiate_cofactors(m, x, y, dy),
    )
)

# Triangles


def _define_triangular(lower: bool) -> Definition:
    """Define the solution `X` of `A @ X = B` for a triangular A; entries on the other side of the diagonal are not read."""

    def inside_triangle(i: Affine, j: Affine) -> Predicate:
        return compare("≤", j, i) if lower else compare("≤", i, j)

    def tangent(m: Matrices, x: Sequence[Term], dx: Changes, y: Term) -> Term | None:
        da, db = dx
        if da is not None:
            moved = m.product(da, y, within=inside_triangle)
            db = m.negative(moved) if db is None else m.minus(db, moved)
        return (
            None
            if db is None
            else m.apply_definition(SOLVE_LOWER if lower else SOLVE_UPPER, x[0], db)
        )

    def cotangent(m: Matrices, k: int, x: Sequence[Term], y: Term, dy: Term) -> Term | None:
        g = m.apply_definition(SOLVE_UPPER if lower else SOLVE_LOWER, m.transposed(x[0]), dy)
        return g if k else m.product(m.negative(g), m.transposed(y), where=inside_triangle)

    return register_definition(
        Definition(
            "solve_lower" if lower else "solve_upper",
            (2, 2),
            lambda a, b: b,
            lambda a, b: _substitution_cost(*b),
            _nan_if_singular(lambda a, b: np.linalg.solve(np.tril(a) if lower else np.triu(a), b)),
            tangent,
            cotangent,
        )
    )


SOLVE_LOWER = _define_triangular(lower=True)
SOLVE_UPPER = _define_triangular(lower=False)


def _compute_from_body(body: Callable[..., Term]) -> Callable[..., Any]:
    """Return the function that computes a definition by evaluating its body."""

    def compute(*arrays: Any) -> Any:
        values = {f"x{k}": x for k, x in enumerate(arrays)}
        m = Matrices(values)
        types = (array(tuple(map(Affine.of, x.shape))) for x in arrays)
        result = body(m, *(Var(x, t) for x, t in zip(values, types, strict=True)))
        env = Environment({x: value.tolist() for x, value in values.items()})
        return np.asarray(evaluate(lets(m.bindings, result), env), dtype=float)

    return compute


def _define_decomposition(
    name: str,
    dims: Callable[[Dims], Dims],
    cost: Callable[[Dims], tuple[Work, ...]],
    compute: Callable[[Any], Any],
    tangent: Callable[[Matrices, Term, Term, Term], Term],
    cotangent: Callable[[Matrices, Term, Term, Term], Term],
) -> Definition:
    """Define a function of one matrix. Its derivatives are definitions with a body over the matrix, the value and the
    direction.
    """
    bodies = {
        f"{name}_tangent": (lambda a, y, da: y, tangent),
        f"{name}_cotangent": (lambda a, y, dy: a, cotangent),
    }
    along, due = (
        register_definition(
            Definition(
                own, (2, 2, 2), shape, _twice_cost(cost), _compute_from_body(body), body=body
            )
        )
        for own, (shape, body) in bodies.items()
    )
    return register_definition(
        Definition(
            name,
            (2,),
            dims,
            cost,
            compute,
            lambda m, x, dx, y: (
                None if dx[0] is None else m.apply_definition(along, x[0], y, dx[0])
            ),
            lambda m, k, x, y, dy: m.apply_definition(due, x[0], y, dy),
        )
    )


def _cholesky_cost(a: Dims) -> tuple[Work, ...]:
    """Count the operations of a Cholesky decomposition: `n³/3`."""
    inner = conj(below_condition("ε0", "ε1"), compare("≤", "ε1", "ε2"))
    ends = operations_where(a, compare("≤", "ε0", "ε1"), products=0, sums=0, calls=1)
    return (*operations_where((*a, a[0]), inner), *ends)


def _cholesky_tangent(m: Matrices, _: Term, y: Term, da: Term) -> Term:
    """Compute `L Φ(L⁻¹ dS L⁻ᵀ)`, where Φ takes the lower triangle and half of the diagonal."""
    left = m.apply_definition(SOLVE_LOWER, y, m.symmetric(da))
    both = m.apply_definition(SOLVE_LOWER, y, m.transposed(left))
    return m.product(y, m.lower_half(both))


def _cholesky_cotangent(m: Matrices, _: Term, y: Term, dy: Term) -> Term:
    """Return the cotangent of a matrix by that of its Cholesky factor."""
    upper = m.transposed(y)
    left = m.apply_definition(SOLVE_UPPER, upper, m.lower_half(m.product(upper, dy)))
    return m.symmetric(m.apply_definition(SOLVE_UPPER, upper, m.transposed(left)))


#: `L` where `L @ L.T` is `(A + A.T)/2`.
CHOLESKY = _define_decomposition(
    "cholesky",
    lambda a: a,
    _cholesky_cost,
    _nan_if_singular(lambda a: np.linalg.cholesky((a + a.T) / 2)),
    _cholesky_tangent,
    _cholesky_cotangent,
)

# Orthogonal factors


def _pack_matrices(m: Matrices, *parts: Term) -> Term:
    """Stack matrices vertically into one matrix."""
    starts, rows = [], Affine.of(0)
    for x in parts:
        starts.append(rows)
        rows = rows + dimensions(x.type)[0]
    zero = Affine.of(0)
    blocks = ((x, start, zero) for x, start in zip(parts, starts, strict=True))
    return m.blocks((rows, dimensions(parts[0].type)[1]), *blocks)


def _unpack_qr(m: Matrices, x: Term, packed: Term) -> tuple[Term, Term]:
    """Return Q and R from their packed matrix."""
    rows, n = dimensions(x.type)
    return m.submatrix(packed, 0, 0, rows, n), m.submatrix(packed, rows, 0, n, n)


def _qr_tangent(m: Matrices, a: Term, y: Term, da: Term) -> Term:
    """Compute `Q (Ω - W) + X` and `(W - Ω) R`, where `X = dA R⁻¹`, `W = Qᵀ X`, and Ω is antisymmetric with W's lower triangle."""
    q, r = _unpack_qr(m, a, y)
    moved = m.transposed(m.apply_definition(SOLVE_LOWER, m.transposed(r), m.transposed(da)))
    w = m.product(m.transposed(q), moved)
    below = m.strictly_lower(w)
    turned = m.minus(m.minus(below, m.transposed(below)), w)
    return _pack_matrices(m, m.plus(m.product(q, turned), moved), m.negative(m.product(turned, r)))


def _qr_cotangent(m: Matrices, a: Term, y: Term, dy: Term) -> Term:
    """Compute `(Q̄ + Q M) R⁻ᵀ`, where M is the symmetric matrix with the lower triangle of `R R̄ᵀ - Q̄ᵀ Q`."""
    (q, r), (dq, dr) = _unpack_qr(m, a, y), _unpack_qr(m, a, dy)
    both = m.minus(m.product(r, m.transposed(dr)), m.product(m.transposed(dq), q))
    whole = m.plus(m.lower(both), m.transposed(m.strictly_lower(both)))
    made = m.plus(dq, m.product(q, whole))
    return m.transposed(m.apply_definition(SOLVE_UPPER, r, m.transposed(made)))


#: Q and R, of at least as many rows as columns.
QR = _define_decomposition(
    "qr",
    lambda a: (a[0] + a[1], a[1]),
    lambda a: operations_where((*a, a[1]), products=2, sums=2),
    lambda a: np.concatenate(np.linalg.qr(a)),
    _qr_tangent,
    _qr_cotangent,
)

# Eigenvalues and singular values


def _divide_by_gaps(m: Matrices, a: Term, gap: Callable[[Affine, Affine], Term]) -> Term:
    """Return `a[i, j] / gap(i, j)` off the diagonal; 0 on it, and where the gap is 0."""

    def at(i: Affine, j: Affine) -> Term:
        apart = disj(compare("<", i, j), compare("<", j, i))
        return guard(apart, Mul(entry(a, i, j), m.inverse_or_zero(gap(i, j))))

    return m.build(dimensions(a.type), at)


def _difference(x: Term, y: Term) -> Term:
    """Return `x - y`."""
    return Add(x, Mul(Const(-1), y))


def _unpack_vectors(m: Matrices, packed: Term) -> Term:
    """Return the eigenvectors from the packed result of `eigh`."""
    _, n = dimensions(packed.type)
    return m.submatrix(packed, 1, 0, n, n)


def _eigenvalue_gaps(y: Term) -> Callable[[Affine, Affine], Term]:
    """Return a function that gives the difference of eigenvalues j and i."""
    zero = Affine.of(0)
    return lambda i, j: _difference(entry(y, zero, j), entry(y, zero, i))


def _eigh_tangent(m: Matrices, _: Term, y: Term, da: Term) -> Term:
    """Return the tangent of eigenvalues and vectors, packed.

    With `P = Vᵀ dA V` these are the diagonal of P, and `V (P / gaps)`.
    """
    v = _unpack_vectors(m, y)
    p = m.product(m.transposed(v), m.symmetric(da), v)
    dw = m.build((Affine.of(1), dimensions(p.type)[1]), lambda _, j: entry(p, j, j))
    return _pack_matrices(m, dw, m.product(v, _divide_by_gaps(m, p, _eigenvalue_gaps(y))))


def _eigh_cotangent(m: Matrices, _: Term, y: Term, dy: Term) -> Term:
    """Return the cotangent of a symmetric matrix: `V (diag(w̄) + (Vᵀ V̄) / gaps) Vᵀ`."""
    v = _unpack_vectors(m, y)
    p = m.product(m.transposed(v), _unpack_vectors(m, dy))
    turned = _divide_by_gaps(m, p, _eigenvalue_gaps(y))
    on = m.build(
        dimensions(p.type),
        lambda i, j: guard(compare("=", i, j), entry(dy, Affine.of(0), j)),
    )
    return m.symmetric(m.product(v, m.plus(turned, on), m.transposed(v)))


def _eigh(a: Any) -> Any:
    """Compute eigenvalues and vectors with NumPy, packed as rows."""
    values, vectors = np.linalg.eigh((a + a.T) / 2)
    return np.concatenate([values[None], vectors])


#: The eigenvalues of `(A + A.T)/2` in a row, least first, and below it the eigenvectors as columns.
EIGH = _define_decomposition(
    "eigh",
    lambda a: (a[0] + 1, a[1]),
    lambda a: operations_where((*a, a[0]), products=5, sums=4),
    _nan_if_singular(_eigh),
    _eigh_tangent,
    _eigh_cotangent,
)


def _unpack_svd(m: Matrices, x: Term, packed: Term) -> tuple[Term, Term, Callable[[Affine], Term]]:
    """Split the packed result into U, V and a function for the singular values in the row between them."""
    (rows, n), (_, k) = dimensions(x.type), dimensions(packed.type)
    u, v = m.submatrix(packed, 0, 0, rows, k), m.submatrix(packed, rows + 1, 0, n, k)
    return u, v, lambda j: entry(packed, rows, j)


def _gap_of_squares(s: Callable[[Affine], Term]) -> Callable[[Affine, Affine], Term]:
    """Return a function that gives the difference of the squares of singular values j and i."""
    return lambda i, j: Mul(_difference(s(j), s(i)), Add(s(j), s(i)))


def _divide_by_values(m: Matrices, a: Term, s: Callable[[Affine], Term]) -> Term:
    """Return `a[i, j] / s(j)`, 0 where s(j) is 0."""
    return m.build(dimensions(a.type), lambda i, j: Mul(entry(a, i, j), m.inverse_or_zero(s(j))))


def _svd_tangent(m: Matrices, a: Term, y: Term, da: Term) -> Term:
    """Return the tangent of the singular value decomposition, packed.

    With `P = Uᵀ dA V` and `F[i, j] = 1/(s[j]² - s[i]²)`, that of U is `U (F∘(P S + S Pᵀ)) + (dA V - U P) S⁻¹`, that of
    the values the diagonal of P, and that of V as that of U with `dAᵀ`.
    """
    u, v, s = _unpack_svd(m, a, y)
    p = m.product(m.transposed(u), da, v)

    def rotate_basis(basis: Term, moved: Term, p: Term) -> Term:
        both = m.build(
            dimensions(p.type),
            lambda i, j: Add(Mul(entry(p, i, j), s(j)), Mul(s(i), entry(p, j, i))),
        )
        inside = m.product(basis, _divide_by_gaps(m, both, _gap_of_squares(s)))
        beyond = m.minus(moved, m.product(basis, p))
        return m.plus(inside, _divide_by_values(m, beyond, s))

    du = rotate_basis(u, m.product(da, v), p)
    dv = rotate_basis(v, m.product(m.transposed(da), u), m.transposed(p))
    ds = m.build((Affine.of(1), dimensions(p.type)[1]), lambda _, j: entry(p, j, j))
    return _pack_matrices(m, du, ds, dv)


def _svd_cotangent(m: Matrices, a: Term, y: Term, dy: Term) -> Term:
    """Return the cotangent of a matrix by that of its singular value decomposition.

    It is `(U (F∘(Uᵀ Ū - Ūᵀ U) S + S F∘(Vᵀ V̄ - V̄ᵀ V) + s̄) + (Ū - U Uᵀ Ū) S⁻¹) Vᵀ + U ((V̄ - V Vᵀ V̄) S⁻¹)ᵀ`.
    """
    (u, v, s), (du, dv, ds) = _unpack_svd(m, a, y), _unpack_svd(m, a, dy)

    def middle_factor(basis: Term, due: Term) -> tuple[Term, Term]:
        """Return `F∘(Bᵀ B̄ - B̄ᵀ B)`, and the part of B̄ orthogonal to B divided by the singular values."""
        p = m.product(m.transposed(basis), due)
        inside = _divide_by_gaps(m, m.minus(p, m.transposed(p)), _gap_of_squares(s))
        return inside, _divide_by_values(m, m.minus(due, m.product(basis, p)), s)

    (inside_u, beyond_u), (inside_v, beyond_v) = middle_factor(u, du), middle_factor(v, dv)
    core = m.build(
        dimensions(inside_u.type),
        lambda i, j: Add(
            Add(Mul(entry(inside_u, i, j), s(j)), Mul(s(i), entry(inside_v, i, j))),
            guard(compare("=", i, j), ds(j)),
        ),
    )
    left = m.plus(m.product(u, core), beyond_u)
    return m.plus(m.product(left, m.transposed(v)), m.product(u, m.transposed(beyond_v)))


def _smaller_size(m: Affine, n: Affine) -> Affine:
    """Return the smaller of two sizes; TypeError if their difference is not constant."""
    if not (m - n).is_constant:
        raise TypeError(f"which of {m} and {n} is the smaller is not known")
    return m if (m - n).constant < 0 else n


def _svd(a: Any) -> Any:
    """Compute the singular value decomposition with NumPy, packed as rows."""
    u, s, v = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, s[None], v.T])


#: U, the singular values in a row, largest first, and V, one below the other, where `U S Vᵀ` is the matrix.
SVD = _define_decomposition(
    "svd",
    lambda a: (a[0] + a[1] + 1, _smaller_size(*a)),
    lambda a: operations_where((*a, _smaller_size(*a)), products=7, sums=7),
    _nan_if_singular(_svd),
    _svd_tangent,
    _svd_cotangent,
)

# The exponential of a matrix


def _expm(a: Any) -> Any:
    """Compute the matrix exponential with SciPy."""
    import scipy.linalg

    return scipy.linalg.expm(a)


def _expm_along(a: Any, e: Any) -> Any:
    """Compute the derivative of the matrix exponential at a along e with SciPy."""
    import scipy.linalg

    return scipy.linalg.expm_frechet(a, e, compute_expm=False)


EXPM = register_definition(
    Definition(
        "expm",
        (2,),
        lambda a: a,
        lambda a: operations_where((*a, a[0]), products=13, sums=13),
        _expm,
        lambda m, x, dx, y: None if dx[0] is None else m.apply_definition(EXPM_ALONG, x[0], dx[0]),
        lambda m, k, x, y, dy: m.apply_definition(EXPM_ALONG, m.transposed(x[0]), dy),
    )
)


def _expm_second_derivative(m: Matrices, a: Term, e: Term, d: Term) -> Term:
    """Compute the second derivative of the matrix exponential along two directions: the upper right block of the first
    derivative of a block matrix.
    """
    n, _ = dimensions(a.type)
    zero, dims = Affine.of(0), (n * 2, n * 2)
    whole = m.blocks(dims, (a, zero, zero), (d, zero, n), (a, n, n))
    along = m.blocks(dims, (e, zero, zero), (e, n, n))
    return m.submatrix(m.apply_definition(EXPM_ALONG, whole, along), 0, n, n, n)


def _along_tangent(m: Matrices, x: Sequence[Term], dx: Changes, y: Term) -> Term | None:
    """Return the tangent of `expm_along`; None if it is zero."""
    (a, e), (da, de) = x, dx
    first = None if de is None else m.apply_definition(EXPM_ALONG, a, de)
    if da is None:
        return first
    second = _expm_second_derivative(m, a, e, da)
    return second if first is None else m.plus(first, second)


def _along_cotangent(m: Matrices, k: int, x: Sequence[Term], y: Term, dy: Term) -> Term | None:
    """Return the cotangent of one argument of `expm_along`."""
    a, e = (m.transposed(part) for part in x)
    return m.apply_definition(EXPM_ALONG, a, dy) if k else _expm_second_derivative(m, a, e, dy)


#: The derivative of the exponential of A along E.
EXPM_ALONG: Definition = register_definition(
    Definition(
        "expm_along",
        (2, 2),
        lambda a, e: a,
        lambda a, e: operations_where((*a, a[0]), products=26, sums=26),
        _expm_along,
        _along_tangent,
        _along_cotangent,
    )
)
