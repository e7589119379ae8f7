"""Products of arrays: sums of products of entries, with their guards moved outside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...language.affine import Affine
from ...language.predicates import in_range
from .table import form

ONE = Affine.of(1)


def contracted(
    t: Any, spec: Sequence[Sequence[str]], out: Sequence[str], arrays: Sequence[Any]
) -> Any:
    """Return `⊞ out. Σ rest. x0[…]·x1[…]·…`, a contraction of arrays.

    Args:
        spec: the names of each array's axes. out: the names of the result's axes.
    """
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
    """Return k letters, one per axis, from `start` on."""
    return [chr(ord(start) + j) for j in range(k)]


def _broadcast(t: Any, x: Any, wanted: Sequence[Affine]) -> Any:
    """Return x with its axes of size 1 repeated to the wanted sizes."""
    if tuple(wanted) == t.dims(x):
        return x
    x = t.once(x)
    return t.build(wanted, lambda *at: t._aligned(x, at), x)


@form("tensordot")
def tensordot(t: Any, a: Any, b: Any, axes: Any = 2) -> Any:
    """Build NumPy's `tensordot`: a sum of products over pairs of axes."""
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
    """Build NumPy's `einsum`: the sum of products that the letters describe."""
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
    names, wholes = _name_ellipsis(t, spec, each, arrays)
    if names and "..." not in right:
        raise t.error(f"`{spec}` leaves axes out that `...` stands for", "write `...` behind `->`")
    spelt = [
        _expand_names(part, names, len(t.dims(x))) for part, x in zip(each, wholes, strict=True)
    ]
    return contracted(t, spelt, _expand_names(right, names, len(letters) + len(names)), wholes)


LETTERS = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"  # of one array


def _name_ellipsis(
    t: Any, spec: str, letters: Sequence[str], arrays: Sequence[Any]
) -> tuple[list[str], list[Any]]:
    """Return names for the axes that `...` stands for in `einsum`, and the arrays broadcast along them."""
    wholes = [t.whole(x) for x in arrays]
    spans: list[tuple[int, int]] = []
    for part, x in zip(letters, wholes, strict=True):
        first, last = part.find("..."), len(t.dims(x)) - len(part.rpartition("...")[2])
        spans.append((first, last) if first >= 0 else (0, 0))
        if first > last:
            raise t.error(f"`{spec}`: `{part}` has more letters than its array has axes")
    outer = t.broadcast_dims([t.dims(x)[a:b] for x, (a, b) in zip(wholes, spans, strict=True)])
    made = []
    for x, (a, b) in zip(wholes, spans, strict=True):
        dims = t.dims(x)
        wanted = (*dims[:a], *outer[len(outer) - (b - a) :], *dims[b:]) if b > a else dims
        made.append(_broadcast(t, x, wanted))
    return [f"…{k}" for k in range(len(outer))], made


def _expand_names(part: str, names: Sequence[str], rank: int) -> list[str]:
    """Return the names of an array's axes, with those for `...` filled in."""
    before, _, after = part.partition("...")
    several = rank - len(before) - len(after) if "..." in part else 0
    return [*before, *names[len(names) - several :], *after]


@form("diagonal", method=True)
def diagonal(t: Any, x: Any, offset: int = 0) -> Any:
    """Build NumPy's `diagonal` of a matrix: `[A[i, i] for i in range(n)]`."""
    x = t.once(t.whole(x))
    dims = t.dims(x)
    if len(dims) != 2 or not isinstance(offset, int):
        raise t.error("a diagonal is that of a matrix, its offset a constant")
    down, right = max(0, -offset), max(0, offset)
    rows, columns = dims[0] - down, dims[1] - right
    if rows != columns:
        rows = Affine.of(min(t.number(rows), t.number(columns)))
    return t.build([rows], lambda i: t.read(x, i + down, i + right), x)


@form("convolve")
def convolve(t: Any, a: Any, b: Any, mode: str = "full") -> Any:
    """Build NumPy's `convolve`: `[sum(a[i - j]*b[j] for j in range(m) if 0 <= i - j < n) for i in range(n + m - 1)]`.

    The modes "valid" and "same" are parts of it.
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
            raise t.error(f"`{mode}` is not a mode", "write 'full', 'valid' or 'same'")

    def entry(i: Affine) -> Any:
        at = i + first

        def term(j: Affine) -> Any:
            here = in_range(at - j, n)
            if mode == "valid":
                return t.product(t.read(a, at - j), t.read(b, j))
            return t.conditioned(here, t.product(t.read(a, at - j), t.read(b, j)))

        return t.total([m], term, a, b)

    return t.build([length], entry, a, b)
