"""Sums along axes, functions made of them, and pairwise reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...derivative.extremes import LARGEST, SMALLEST
from ...derivative.sorting import DESCENDING_ORDER, ORDER
from ...language.affine import Affine
from ...language.definition import Definition
from ...language.predicates import compare
from .table import applied, attribute, build, form

ZERO, ONE = Affine.of(0), Affine.of(1)


def axes_of(t: Any, axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes that `axis=` selects, as nonnegative numbers; all for None."""
    if axis is None:
        return tuple(range(rank))
    made, axis = [], t.listed(axis)
    for a in axis if isinstance(axis, tuple | list) else (axis,):
        if not isinstance(a, int) or not -rank <= a < rank:
            raise t.error(f"axis {a!r} of an array of {rank} dimensions")
        made.append(a % rank)
    return tuple(sorted(made))


@form("sum", method=True)
def total(
    t: Any,
    x: Any,
    axis: Any = None,
    keepdims: bool = False,
    where: Any = None,
    initial: Any = None,
) -> Any:
    """Build NumPy's `sum` along axes."""
    x = t.plainly(t.whole(_mask_entries(t, x, where, 0)))
    dims = t.dims(x)
    gone = axes_of(t, axis, len(dims))
    kept = [k for k in range(len(dims)) if k not in gone]
    out = [ONE if k in gone else dims[k] for k in range(len(dims)) if keepdims or k not in gone]

    def entry(*at: Affine) -> Any:
        rest = dict(zip(kept, [at[k] for k in kept] if keepdims else at, strict=True))

        def term(*inner: Affine) -> Any:
            places = {**rest, **dict(zip(gone, inner, strict=True))}
            return t.read(x, *(places[k] for k in range(len(dims))))

        return t.total([dims[k] for k in gone], term, x)

    made = t.build(out, entry, x)
    return made if initial is None else t.computed("+", made, initial)


def _mask_entries(t: Any, x: Any, where: Any, other: Any) -> Any:
    """Return x where a condition holds, and another number elsewhere; x if there is no condition."""
    return x if where is None or where is True else t.chosen(where, x, other)


def total_of(t: Any, x: Any, start: Any = 0) -> Any:
    """Return Python's `sum(x, start)`, along the first axis."""
    x = t.listed_from(x)
    made = t.added_up(list(x)) if isinstance(x, tuple | list) else total(t, x, axis=0)
    return made if start == 0 else t.computed("+", start, made)


def count(t: Any, x: Any, axis: Any) -> Any:
    """Return the number of entries along axes, as a number to compute with."""
    dims = t.dims(t.whole(x))
    made: Any = 1
    for k in axes_of(t, axis, len(dims)):
        size = t.scalar_of(dims[k])
        made = size if made == 1 else t.computed("*", made, size)
    return made


# By halves: as many operations as entries less one, in ⌈log2 n⌉ statements


def halved(
    t: Any,
    x: Any,
    axis: Any,
    keepdims: bool,
    combine: Callable[[Any, Any], Any],
    of_none: Any = None,
) -> Any:
    """Return x with axes reduced by a binary operation, half of the entries at a time; for no entries, `of_none`."""
    x = t.whole(x)
    gone = axes_of(t, axis, len(t.dims(x)))
    for k in gone:
        x = _fold_axis(t, x, k, combine, of_none)
    return x if keepdims or not gone else build(t, "squeeze", x, gone)


def _fold_axis(t: Any, x: Any, axis: int, combine: Callable[[Any, Any], Any], of_none: Any) -> Any:
    """Reduce one axis by halves to size 1."""
    x = t.once(x)
    n = t.number(t.dims(x)[axis])
    if n == 0 and of_none is None:
        raise t.error("a reduction of no entries has no value")
    if n == 0:
        dims = [*t.dims(x)[:axis], ONE, *t.dims(x)[axis + 1 :]]
        return t.build(dims, lambda *_: t.whole(of_none))
    while n > 1:
        half = n // 2
        x = t.once(_fold_once(t, x, axis, n, half, combine), "half")
        n -= half
    return x


def _fold_once(
    t: Any, x: Any, axis: int, n: int, half: int, combine: Callable[[Any, Any], Any]
) -> Any:
    """Combine the two halves of an axis of size n entry by entry; an odd middle entry stays."""
    dims = list(t.dims(x))
    dims[axis] = Affine.of(n - half)

    def entry(*at: Affine) -> Any:
        i = at[axis]

        def place(k: Affine) -> tuple[Affine, ...]:
            return (*at[:axis], k, *at[axis + 1 :])

        if n % 2 == 0:
            return combine(t.read(x, *at), t.read(x, *place(i + half)))
        # The middle one waits for the next round.
        paired = compare("<", i, half)
        both = t.under(paired, lambda: combine(t.read(x, *at), t.read(x, *place(i + (n - half)))))
        alone = compare("=", i, half)
        return t.plus_of(both, t.conditioned(alone, t.read(x, *at)))

    return t.build(dims, entry, x)


@form("prod", "product", method=True)
def prod(
    t: Any,
    x: Any,
    axis: Any = None,
    keepdims: bool = False,
    where: Any = None,
    initial: Any = None,
) -> Any:
    """Build NumPy's `prod`, by halving, so that its derivative divides by nothing."""
    if (
        isinstance(x, list)
        and axis is None
        and not keepdims
        and (sizes := t.as_sizes(x)) is not None
    ):
        return _product_of_sizes(t, sizes)
    x = _mask_entries(t, x, where, 1)
    made = halved(t, x, axis, keepdims, lambda a, b: t.computed("*", a, b), of_none=1)
    return made if initial is None else t.computed("*", made, initial)


def _product_of_sizes(t: Any, sizes: Sequence[Affine]) -> Any:
    """Return the product of sizes, such as `np.prod(x.shape)`; as an index expression if it is affine."""
    unknown = [n for n in sizes if not n.is_constant]
    if len(unknown) > 1:
        return math.prod(t.number(n) for n in sizes)
    whole = math.prod(n.constant for n in sizes if n.is_constant)
    return t.index(unknown[0] * whole) if unknown else whole


@form("largest")
def largest(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Build NumPy's `max`: `-inf` for no entries. Its derivative is zero."""
    return _extreme_along(t, LARGEST, x, axis, keepdims)


def smallest(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Build NumPy's `min`: `inf` for no entries. Its derivative is zero."""
    return _extreme_along(t, SMALLEST, x, axis, keepdims)


def _extreme_along(
    t: Any, definitions: Sequence[Definition], x: Any, axis: Any, keepdims: bool
) -> Any:
    """Return the largest or smallest entry along axes, by the definition for this number of axes."""
    x = t.whole(x)
    rank = len(t.dims(x))
    gone = axes_of(t, axis, rank)
    if not gone:
        return x
    kept = [k for k in range(rank) if k not in gone]
    for k in gone:
        _refuse_varying(t, t.dims(x)[k])
    rows = x if [*kept, *gone] == [*range(rank)] else build(t, "transpose", x, (*kept, *gone))
    made = applied(t, definitions[len(gone) - 1], t.named(rows, "x"))
    return build(t, "expand_dims", made, gone) if keepdims else made


def _refuse_varying(t: Any, size: Affine) -> None:
    """Raise TensorError for a size that depends on an index."""
    if size.names & {i for i, _ in t.binders}:
        t.number(size)


def _make_extreme_form(
    extreme: Callable[..., Any], function: str, end: float
) -> Callable[..., Any]:
    """Return the form of `max` or `min`.

    Args:
        extreme: the reduction without gradient. function: the binary function. end: the value for masked entries.
    """

    def build(
        t: Any,
        x: Any,
        axis: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        x = _mask_for_extreme(t, x, axis, initial, where, end)
        made = _extreme_with_gradient(t, x, axis, keepdims, extreme, function)
        return made if initial is None else t.mapped(function, made, initial)

    build.__doc__ = f"The {extreme.__name__} entry; equal entries share the derivative equally."
    return build


form("max", "amax", method=True)(_make_extreme_form(largest, "maximum", -math.inf))
form("min", "amin", method=True)(_make_extreme_form(smallest, "minimum", math.inf))


def _mask_for_extreme(t: Any, x: Any, axis: Any, initial: Any, where: Any, end: float) -> Any:
    """Return the entries where a condition holds, and `end` elsewhere. Without an initial value, require entries."""
    if where is not None and where is not True and initial is None:
        raise t.error("this has no value where the condition never holds", "say so: `initial=0`")
    x = t.whole(x)
    if initial is None:
        require_entries(t, x, axis)
    return _mask_entries(t, x, where, end)


def require_entries(t: Any, x: Any, axis: Any) -> None:
    """Refuse an array that has no entries along some of these axes: here, or where a call's sizes say so."""
    dims = t.dims(x)
    for k in axes_of(t, axis, len(dims)):
        if dims[k] == ZERO:
            raise t.error("a reduction of no entries has no value")
        if not dims[k].is_constant:
            t.looked("the reduction", "the array", ZERO, dims[k], k)


def _extreme_with_gradient(
    t: Any, x: Any, axis: Any, keepdims: bool, extreme: Callable[..., Any], function: str
) -> Any:
    """Return `top + Σ tangent(x, x == top)/Σ (x == top)`, whose gradient is shared by equal entries; top is constant to the
    derivative.
    """
    x = t.once(t.whole(x))
    dims = [t.dims(x)[k] for k in axes_of(t, axis, len(t.dims(x)))]
    if all(n.is_constant for n in dims) and math.prod(n.constant for n in dims) in (1, 2):
        return halved(t, x, axis, keepdims, lambda a, b: t.mapped(function, a, b))
    top = t.once(extreme(t, x, axis, keepdims=True), "top")
    best = t.once(t.mapped("equal", x, top), "best")
    # None of them equals what is no number.
    count = t.mapped("maximum", total(t, best, axis, keepdims=True), 1)
    share = t.once(t.mapped("recip", count), "share")
    slopes = total(t, t.mapped("tangent", x, best), axis, keepdims=True)
    made = t.computed("+", top, t.computed("*", share, slopes))
    return made if keepdims else build(t, "squeeze", made, axes_of(t, axis, len(t.dims(x))))


@form("any", method=True)
def any_(t: Any, x: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """Build NumPy's `any`: the largest of `x != 0` and 0."""
    x = _mask_entries(t, t._compare("!=", t.whole(x), 0), where, 0)
    return t.mapped("maximum", largest(t, x, axis, keepdims), 0)


@form("all", method=True)
def all_(t: Any, x: Any, axis: Any = None, keepdims: bool = False, where: Any = None) -> Any:
    """Build NumPy's `all`: the smallest of `x != 0` and 1."""
    x = _mask_entries(t, t._compare("!=", t.whole(x), 0), where, 1)
    return t.mapped("minimum", smallest(t, x, axis, keepdims), 1)


@form("fft", "ifft", "rfft", "irfft", "fft2", "ifft2", "fftn", "rfft2")
def refuse_transform(t: Any, *_: Any, **__: Any) -> Any:
    """Refuse Fourier transforms, since numbers are real here."""
    raise t.error(
        "a Fourier transform is complex, and numbers are real here",
        "write its sums of `np.cos` and `np.sin`; or transform outside, and pass the result",
    )


# In order


def order(t: Any, x: Any, axis: int, descending: bool = False) -> Any:
    """Return the indices that sort the entries along an axis, equal ones in their order, NaN last."""
    last = len(t.dims(x)) - 1
    rows = t.named(x if axis == last else build(t, "moveaxis", x, axis, last), "x")
    made = applied(t, DESCENDING_ORDER if descending else ORDER, rows)
    made = made if axis == last else build(t, "moveaxis", made, last, axis)
    return t.ranging(made, ZERO, t.dims(x)[axis])


def along_one(t: Any, x: Any, axis: Any) -> tuple[Any, int]:
    """Return x, flattened if `axis` is None, with the axis as a nonnegative number."""
    x = t.whole(x)
    if axis is None:
        x, axis = build(t, "ravel", x), 0
    (k,) = axes_of(t, axis, len(t.dims(x)))
    return t.once(x, "x"), k


@form("sort")
def sort(t: Any, x: Any, axis: Any = -1, descending: bool = False) -> Any:
    """Build NumPy's `sort`: `take_along_axis(x, argsort(x))`."""
    x, axis = along_one(t, x, axis)
    return build(t, "take_along_axis", x, order(t, x, axis, descending), axis)


@form(
    *("nonzero", "partition", "argpartition", "lexsort", "flatnonzero", "nanmedian"),
    *("argwhere", "nanargmax", "nanargmin"),
    method=True,
)
def refuse_search(t: Any, *_: Any, **__: Any) -> Any:
    """Refuse functions whose number or order of results data decide."""
    raise t.error(
        "how many entries this gives, or in what order, is what data decide",
        "keep every entry: `np.where(p, x, 0)`, `x[p].sum()`, `np.argsort(x)`; or compute it outside, and pass "
        "the integers as an index array",
    )


# Prefixes, by doubling: n·log2(n) operations at most, in ⌈log2 n⌉ statements


def prefixes(t: Any, x: Any, axis: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Return what an associative operation makes of each prefix, by doubling."""
    x = t.whole(x)
    if axis is None:
        x, axis = build(t, "ravel", x), 0
    (k,) = axes_of(t, axis, len(t.dims(x)))
    x = t.once(x)
    n, reach = t.number(t.dims(x)[k]), 1
    while reach < n:
        x = t.once(_double_prefixes(t, x, k, reach, combine), "prefix")
        reach *= 2
    return x


def _double_prefixes(
    t: Any, x: Any, axis: int, reach: int, combine: Callable[[Any, Any], Any]
) -> Any:
    """Combine each entry with the one `reach` positions before it."""

    def entry(*at: Affine) -> Any:
        i = at[axis]
        before = t.read(x, *at[:axis], i - reach, *at[axis + 1 :])
        here = t.read(x, *at)
        far = t.under(compare("≤", reach, i), lambda: combine(before, here))
        return t.plus_of(far, t.conditioned(compare("<", i, reach), here))

    return t.build(t.dims(x), entry, x)


@form("cumsum", method=True)
def cumsum(t: Any, x: Any, axis: Any = None) -> Any:
    """Build NumPy's `cumsum`: `[sum(x[j] for j in range(i + 1)) for i in range(n)]`, each from the one before it."""
    x = t.whole(x)
    if axis is None:
        x, axis = build(t, "ravel", x), 0
    (k,) = axes_of(t, axis, len(t.dims(x)))
    made = build(t, "itertools.accumulate", build(t, "moveaxis", x, k, 0) if k else x)
    return build(t, "moveaxis", made, 0, k) if k else made


@form("cumprod", method=True)
def cumprod(t: Any, x: Any, axis: Any = None) -> Any:
    """Build NumPy's `cumprod`: products of prefixes, by doubling."""
    return prefixes(t, x, axis, lambda a, b: t.computed("*", a, b))


@attribute("ndim")
def ndim(t: Any, x: Any) -> Any:
    """Return the number of axes."""
    return len(t.dims(t.whole(x)))


@attribute("size")
def size(t: Any, x: Any) -> Any:
    """Return the number of entries."""
    return count(t, x, None)
