"""Products of whole arrays: sums of products of entries, with what guards them outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...language.affine import Affine
from ...language.predicates import compare, conj, in_range
from .reductions import axes_of, total
from .table import build, form

ONE = Affine.of(1)


def contracted(
    t: Any, spec: Sequence[Sequence[str]], out: Sequence[str], arrays: Sequence[Any]
) -> Any:
    """`⊞ out. Σ rest. x0[…]·x1[…]·…`, where each array's axes have names."""
    wholes = [t.whole(x) for x in arrays]
    sizes: dict[str, Affine] = {}
    for names, x in zip(spec, wholes, strict=True):
        dims = t.dims(x)
        if len(dims) != len(names):
            raise t.error(f"an array of {len(dims)} dimensions has {len(names)} letters here")
        for name, size in zip(names, dims, strict=True):
            sizes[name] = t.same(sizes[name], size) if name in sizes else size
    summed = [name for name in sizes if name not in out]
    # An operand whose entries are each read once stays where it is; any other gets a name first.
    every = set(sizes)
    operands = [
        t.plainly(x) if set(names) == every and len(set(names)) == len(names) else t.once(x)
        for names, x in zip(spec, wholes, strict=True)
    ]

    def entry(*at: Affine) -> Any:
        outer = dict(zip(out, at, strict=True))

        def term(*inner: Affine) -> Any:
            here = {**outer, **dict(zip(summed, inner, strict=True))}
            made: Any = None
            for names, x in zip(spec, operands, strict=True):
                factor = t.read(x, *(here[name] for name in names))
                made = factor if made is None else t.product(made, factor)
            return made

        return t.total([sizes[name] for name in summed], term, *operands)

    return t.build([sizes[name] for name in out], entry, *operands)


def _letters(k: int, start: str = "a") -> list[str]:
    return [chr(ord(start) + j) for j in range(k)]


@form("matmul")
def matmul(t: Any, a: Any, b: Any) -> Any:
    """`A @ B`: the last axis of A with the last but one of B; axes before these broadcast."""
    a, b = t.whole(a), t.whole(b)
    m, n = len(t.dims(a)), len(t.dims(b))
    if not m or not n:
        raise t.error("`@` takes arrays, not a scalar", "write `*`")
    if m <= 2 and n <= 2:
        left, right = ["i", "k"][2 - m :], ["k", "j"][:n]
        if m == 1:
            left = ["k"]
        return contracted(t, (left, right), [x for x in (*left, *right) if x != "k"], (a, b))
    lead = _letters(max(m, n) - 2, "p")
    outer = t.broadcast_dims([t.dims(a)[:-2], t.dims(b)[:-2]])
    a, b = (_stretched(t, x, outer) for x in (a, b))
    left = [
        *(lead[len(lead) - (len(t.dims(a)) - 2) :] if m > 1 else []),
        *(["i", "k"] if m > 1 else ["k"]),
    ]
    right = [
        *(lead[len(lead) - (len(t.dims(b)) - 2) :] if n > 1 else []),
        *(["k", "j"] if n > 1 else ["k"]),
    ]
    out = [*lead, *(["i"] if m > 1 else []), *(["j"] if n > 1 else [])]
    return contracted(t, (left, right), out, (a, b))


def _stretched(t: Any, x: Any, outer: Sequence[Affine]) -> Any:
    """x with its leading axes of size 1 as long as `outer`'s."""
    dims = t.dims(x)
    if len(dims) <= 2:
        return x
    own = dims[:-2]
    wanted = (*outer[len(outer) - len(own) :], *dims[-2:])
    return _repeated(t, x, wanted)


def _repeated(t: Any, x: Any, wanted: Sequence[Affine]) -> Any:
    """x with its axes of size 1 as long as they are wanted."""
    if tuple(wanted) == t.dims(x):
        return x
    x = t.once(x)
    return t.build(wanted, lambda *at: t._aligned(x, at), x)


@form("dot", method=True)
def dot(t: Any, a: Any, b: Any) -> Any:
    """`sum(a[i]*b[i])`; of more dimensions, the last axis of a with the last but one of b."""
    b = t.whole(b)
    return _summed_along(t, t.whole(a), b, -2 if len(t.dims(b)) > 1 else -1)


@form("vdot")
def vdot(t: Any, a: Any, b: Any) -> Any:
    """`sum(a[i]*b[i])`, of all entries of both."""
    return _summed_along(t, build(t, "ravel", a), build(t, "ravel", b), -1)


@form("inner")
def inner(t: Any, a: Any, b: Any) -> Any:
    """`sum(a[i]*b[i])`, along the last axes."""
    return _summed_along(t, t.whole(a), t.whole(b), -1)


def _summed_along(t: Any, a: Any, b: Any, axis: int) -> Any:
    """The product summed along the last axis of a and this one of b; of numbers, the product."""
    m, n = len(t.dims(a)), len(t.dims(b))
    if not m or not n:
        return t.computed("*", a, b)
    left, right = _letters(m), _letters(n, "p")
    right[axis] = left[-1]
    return contracted(t, (left, right), [x for x in (*left, *right) if x != left[-1]], (a, b))


@form("outer")
def outer(t: Any, a: Any, b: Any) -> Any:
    """`[[a[i]*b[j] for j in …] for i in …]`, of all entries of both."""
    a, b = build(t, "ravel", a), build(t, "ravel", b)
    return contracted(t, (["i"], ["j"]), ["i", "j"], (a, b))


@form("cross")
def cross(t: Any, a: Any, b: Any) -> Any:
    """`[a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]]`, along the last axes."""
    a, b = t.once(t.whole(a), "a"), t.once(t.whole(b), "b")
    for x in (a, b):
        if not t.dims(x) or t.number(t.dims(x)[-1]) != 3:
            raise t.error("`cross` takes vectors of three numbers", "write two of them out")

    def component(j: int) -> Any:
        k, l = (j + 1) % 3, (j + 2) % 3  # noqa: E741
        left = t.computed("*", _component(t, a, k), _component(t, b, l))
        return t.computed("-", left, t.computed("*", _component(t, a, l), _component(t, b, k)))

    return build(t, "stack", [component(j) for j in range(3)], -1)


def _component(t: Any, x: Any, k: int) -> Any:
    return t.subscript(x, (..., k))


@form("tensordot")
def tensordot(t: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """A sum over pairs of axes."""
    a, b = t.whole(a), t.whole(b)
    m, n = len(t.dims(a)), len(t.dims(b))
    if isinstance(axes, int):
        mine, theirs = list(range(m - axes, m)), list(range(axes))
    else:
        mine, theirs = ([x] if isinstance(x, int) else list(x) for x in t.listed(axes))
    left, right = _letters(m), _letters(n, "p")
    for j, k in zip(mine, theirs, strict=True):
        right[k] = left[j]
    shared = {left[j] for j in mine}
    return contracted(t, (left, right), [x for x in (*left, *right) if x not in shared], (a, b))


@form("einsum")
def einsum(t: Any, spec: Any, *arrays: Any) -> Any:
    """The sum that the letters say."""
    if not isinstance(spec, str):
        raise t.error("`einsum` takes its letters first", "write `np.einsum('ij,j->i', A, x)`")
    left, arrow, right = spec.replace(" ", "").partition("->")
    each = left.split(",")
    if not re.fullmatch(LETTERS, right) or not all(re.fullmatch(LETTERS, part) for part in each):
        raise t.error(f"`{spec}` is more than letters", "name every axis: `bij,bjk->bik`")
    if len(each) != len(arrays):
        raise t.error(f"`{spec}` names {len(each)} arrays, and there are {len(arrays)}")
    flat = re.sub(r"[,.]", "", left)
    if not arrow:
        right = "..." + "".join(sorted(x for x in set(flat) if flat.count(x) == 1))
    letters = right.replace("...", "")
    if not set(letters) <= set(flat) or len(set(letters)) < len(letters):
        raise t.error(f"`{right}` has a letter twice, or one that no array has")
    names, wholes = _unnamed(t, spec, each, arrays)
    if names and "..." not in right:
        raise t.error(f"`{spec}` leaves axes out that `...` stands for", "write `...` behind `->`")
    spelt = [_with_names(part, names, len(t.dims(x))) for part, x in zip(each, wholes, strict=True)]
    return contracted(t, spelt, _with_names(right, names, len(letters) + len(names)), wholes)


LETTERS = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"  # of one array


def _unnamed(
    t: Any, spec: str, each: Sequence[str], arrays: Sequence[Any]
) -> tuple[list[str], list[Any]]:
    """Names for the axes that `...` stands for, and the arrays with these broadcast against each other."""
    wholes = [t.whole(x) for x in arrays]
    spans: list[tuple[int, int]] = []
    for part, x in zip(each, wholes, strict=True):
        first, last = part.find("..."), len(t.dims(x)) - len(part.rpartition("...")[2])
        spans.append((first, last) if first >= 0 else (0, 0))
        if first > last:
            raise t.error(f"`{spec}`: `{part}` has more letters than its array has axes")
    outer = t.broadcast_dims([t.dims(x)[a:b] for x, (a, b) in zip(wholes, spans, strict=True)])
    made = []
    for x, (a, b) in zip(wholes, spans, strict=True):
        dims = t.dims(x)
        wanted = (*dims[:a], *outer[len(outer) - (b - a) :], *dims[b:]) if b > a else dims
        made.append(_repeated(t, x, wanted))
    return [f"…{k}" for k in range(len(outer))], made


def _with_names(part: str, names: Sequence[str], rank: int) -> list[str]:
    """The names of an array's axes, of the last ones that `...` stands for."""
    before, _, after = part.partition("...")
    several = rank - len(before) - len(after) if "..." in part else 0
    return [*before, *names[len(names) - several :], *after]


@form("trace", method=True)
def trace(t: Any, x: Any, offset: int = 0) -> Any:
    """`sum(A[i, i] for i in range(n))`."""
    return total(t, diagonal(t, x, offset))


@form("diagonal", method=True)
def diagonal(t: Any, x: Any, offset: int = 0) -> Any:
    """`[A[i, i] for i in range(n)]`; of an array that is not square, as many as there are."""
    x = t.once(t.whole(x))
    dims = t.dims(x)
    if len(dims) != 2 or not isinstance(offset, int):
        raise t.error("a diagonal is that of a matrix, its offset a constant")
    down, right = max(0, -offset), max(0, offset)
    rows, columns = dims[0] - down, dims[1] - right
    if rows != columns:
        rows = Affine.of(min(t.number(rows), t.number(columns)))
    return t.build([rows], lambda i: t.read(x, i + down, i + right), x)


@form("diag")
def diag(t: Any, x: Any, k: int = 0) -> Any:
    """`[[x[i] if i == j else 0 …] …]`, or the diagonal of a matrix."""
    x = t.whole(x)
    if len(t.dims(x)) == 2:
        return diagonal(t, x, k)
    if len(t.dims(x)) != 1 or not isinstance(k, int):
        raise t.error("`diag` takes an array of one or two dimensions")
    x = t.plainly(x)
    n = t.dims(x)[0] + abs(k)
    up = max(0, -k)

    def entry(i: Affine, j: Affine) -> Any:
        here = compare("=", i + k, j)
        if k:
            here = conj(here, in_range(i - up, t.dims(x)[0]))
        return t.conditioned(here, t.read(x, i - up))

    return t.build([n, n], entry, x)


@form("tril")
def tril(t: Any, x: Any, k: int = 0) -> Any:
    """`A[i, j] if j <= i + k else 0`."""
    return _triangle(t, x, lambda i, j: compare("≤", j, i + k))


@form("triu")
def triu(t: Any, x: Any, k: int = 0) -> Any:
    """`A[i, j] if i + k <= j else 0`."""
    return _triangle(t, x, lambda i, j: compare("≤", i + k, j))


def _triangle(t: Any, x: Any, within: Any) -> Any:
    x = t.plainly(t.whole(x))
    dims = t.dims(x)
    if len(dims) < 2:
        raise t.error("a triangle is that of a matrix")
    return t.build(dims, lambda *at: t.conditioned(within(*at[-2:]), t.read(x, *at)), x)


@form("kron")
def kron(t: Any, a: Any, b: Any) -> Any:
    """`a[i, j]·b[k, l]` at `[m·i + k, n·j + l]`."""
    from .shapes import reshape

    a, b = t.whole(a), t.whole(b)
    r = len(t.dims(a))
    if len(t.dims(b)) != r:
        raise t.error("`kron` takes two arrays of as many dimensions")
    left, right = _letters(r), _letters(r, "p")
    out = [x for pair in zip(left, right, strict=True) for x in pair]
    made = contracted(t, (left, right), out, (a, b))
    shape = [t.number(m) * t.number(n) for m, n in zip(t.dims(a), t.dims(b), strict=True)]
    return reshape(t, made, *shape)


@form("convolve")
def convolve(t: Any, a: Any, b: Any, mode: str = "full") -> Any:
    """`[sum(a[i - j]*b[j] for j in range(m) if 0 <= i - j < n) for i in range(n + m - 1)]`; `valid` and
    `same` are parts of it.
    """
    a, b = t.once(t.whole(a), "a"), t.once(t.whole(b), "b")
    n, m = t.dims(a)[0], t.dims(b)[0]
    if mode == "full":
        length, first = n + m - 1, Affine.of(0)
    else:
        count_n, count_m = t.number(n), t.number(m)
        if count_n < count_m:
            return convolve(t, b, a, mode)
        if mode == "valid":
            length, first = Affine.of(count_n - count_m + 1), Affine.of(count_m - 1)
        elif mode == "same":
            length, first = Affine.of(count_n), Affine.of((count_m - 1) // 2)
        else:
            raise t.error(f"`{mode}` is no mode", "write 'full', 'valid' or 'same'")

    def entry(i: Affine) -> Any:
        at = i + first

        def term(j: Affine) -> Any:
            here = in_range(at - j, n)
            if mode == "valid":
                return t.product(t.read(a, at - j), t.read(b, j))
            return t.conditioned(here, t.product(t.read(a, at - j), t.read(b, j)))

        return t.total([m], term, a, b)

    return t.build([length], entry, a, b)


@form("correlate")
def correlate(t: Any, a: Any, b: Any, mode: str = "valid") -> Any:
    """`convolve(a, b[::-1])`."""
    b = t.once(t.whole(b), "b")
    m = t.dims(b)[0]
    return convolve(t, a, t.build([m], lambda j: t.read(b, _last(m, j)), b), mode)


def _last(m: Affine, j: Affine) -> Affine:
    return m - 1 - j


@form("norm")
def norm(t: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A002
    """`sqrt(sum(x**2))`; of vectors `sum(|x|**p)**(1/p)` and `max(|x|)`, of matrices the largest sum of
    a row's or a column's `|x|`.
    """
    x = t.whole(x)
    axes = axes_of(t, axis, len(t.dims(x)))
    if ord is None or (ord == "fro" and len(axes) == 2) or (ord == 2 and len(axes) == 1):
        return t.mapped("sqrt", total(t, t.computed("**", x, 2), axis, keepdims))
    size = t.mapped("abs", x)
    if len(axes) == 1 and isinstance(ord, int | float):
        return _norm_of_vectors(t, size, ord, axes[0], keepdims)
    if len(axes) == 2 and ord in (1, -1, np.inf, -np.inf):
        if isinstance(axis, tuple) and axis[0] % len(t.dims(x)) != axes[0]:
            axes = axes[::-1]  # the rows' axis is named first
        summed, rest = axes if abs(ord) == 1 else axes[::-1]
        extreme = "max" if ord > 0 else "min"
        sums = total(t, size, summed, True)
        made = build(t, extreme, sums, rest, True)
        return made if keepdims else build(t, "squeeze", made, axes)
    raise t.error(
        f"the norm of order {ord!r}",
        "of matrices there are 'fro', 1, -1, inf and -inf; those of singular values are not there",
    )


def _norm_of_vectors(t: Any, size: Any, ord: Any, axis: int, keepdims: bool) -> Any:  # noqa: A002
    if abs(ord) == np.inf:
        return build(t, "max" if ord > 0 else "min", size, axis, keepdims)
    if ord == 0:
        return total(t, t._compare("!=", size, 0), axis, keepdims)
    if ord == 1:
        return total(t, size, axis, keepdims)
    return t.computed("**", total(t, t.computed("**", size, ord), axis, keepdims), 1 / ord)
