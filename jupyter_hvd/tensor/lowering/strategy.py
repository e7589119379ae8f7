"""How a contraction is run: `⊞out. Σ sums. [mask]·A[a]·B[b]`, from what is known of the step alone.

In order of preference:

1. without sums, the product of two views, masked;
2. a window (`x[i+j]`, i and j both axes) over a short axis: a convolution, or one contraction for
   each of its entries; over a long one, on CPUs, its slices one after the other;
3. a mask that each operand can take by itself: operands masked, then a product (`dot_general`); a
   relation or an inequality among fewer axes than all of them is an operand itself, of zeros and ones;
4. an inequality between an axis that is summed and another, `Σ s≤o+c`, which no operand has both: running sums along
   the first, read at the second;
5. a mask that couples operands: product, mask and sum in one reduction, which XLA fuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    And,
    Compare,
    Exists,
    Or,
    Predicate,
    Related,
    conjuncts,
    substitute,
)
from .dataflow import axes_of
from .device import Device
from .ir import Access, Contract, IndexLookup, Step

MATRIX = (
    1 << 20
)  # points of a sum from which on relations and inequalities in it are multiplied as matrices
TRIANGLE = 1 << 24  # entries of an inequality, at most, that are made for that
FEW = (
    1 << 12
)  # points of a sum up to an index that are masked rather than be summed one after the other
SCAN_KERNELS = 4  # of running sums on a device with many cores
FUSED = 1024  # points of a product in a loop on a CPU, up to which no library multiplies it
FUSED_IN_ALL = 3000  # points of all such products of an iteration, beyond which a library is faster
WINDOWS = 64  # entries of a window that are summed one after the other


@dataclass(frozen=True)
class Pointwise:
    """Operands multiplied point by point; nothing is summed."""

    def __str__(self) -> str:
        return "entry by entry"


@dataclass(frozen=True)
class Convolution:
    """`⊞w. Σs. long[±w±s+c]·short[±s+d]`."""

    long: Access
    short: Access

    def __str__(self) -> str:
        return "convolution"


@dataclass(frozen=True)
class Swept:
    """As `Convolution`, of a window that is long: one slice of `long` after the other is multiplied
    by an entry of `short` and added.
    """

    long: Access
    short: Access

    def __str__(self) -> str:
        return "slices added one after the other"


@dataclass(frozen=True)
class Unrolled:
    """One contraction for each of the values of an axis."""

    axis: str
    extent: int

    def __str__(self) -> str:
        return f"{self.extent} contractions, one for each {self.axis}"


@dataclass(frozen=True)
class Boxed:
    """The sums of windows of one operand, along one axis after the other: `windows` has the dimension and
    the axis of each, and how far apart the entries are.
    """

    windows: tuple[tuple[int, str, int], ...]

    def __str__(self) -> str:
        return "sums of windows, axis by axis"


Masks = tuple[tuple[Predicate, tuple[int, ...]], ...]


@dataclass(frozen=True)
class Multiplied:
    """Operands multiplied and summed. Of `masks`, each conjunct is taken by the operands with the
    given numbers; where there are none it is one itself, a matrix of zeros and ones, behind the
    others. `operands` has the axes of all. `fuses` says that a product that has no more terms than
    its largest operand has entries, of a matrix and a vector, is fused with what makes the operand.
    """

    operands: tuple[frozenset[str], ...]
    out: tuple[str, ...]
    masks: Masks
    fuses: bool = False

    def __str__(self) -> str:
        factors = [axes for axes in self.operands if axes]
        kept = frozenset[str]().union(*factors) & frozenset(self.out)
        if self.fuses and len(factors) > 1 and is_covered(factors):
            return Pairing.FUSED.value
        match len(factors):
            case 0:
                return "scaled"
            case 1:
                return "scaled" if factors[0] <= kept else "sum"
            case 2:
                return choose_pairing(factors[0], factors[1], kept).value
        return "several dot_generals, in opt_einsum's order"


@dataclass(frozen=True)
class Reduced:
    """Product, the `coupling` conjuncts as a mask of it, if any, and sum, in one reduction; other masks
    as in `Multiplied`.
    """

    coupling: tuple[Predicate, ...]
    masks: Masks

    def __str__(self) -> str:
        return "masked sum of products" if self.coupling else "sum of products"


@dataclass(frozen=True)
class Running:
    """`Σ s≤place` or, from the last, `Σ s≥place`: the running sums along s of the product of the operands that have s, which
    have the axes `kept` too, at `place`, an index by another axis; times the other operands. `masks` are as in `Multiplied`.
    """

    axis: str
    place: Affine
    from_last: bool
    kept: tuple[str, ...]
    masks: Masks

    def __str__(self) -> str:
        return f"running sums along {self.axis}"


Strategy = Pointwise | Convolution | Swept | Boxed | Unrolled | Multiplied | Running | Reduced


def split_scalars(action: Contract) -> tuple[Contract, tuple[Access, ...]]:
    """Return a contraction without its scalar factors, and these, which multiply the finished sum; they are no operands of
    matrix products or windows.
    """
    numbers = tuple(r for r in action.reads if not r.indices)
    rest = tuple(r for r in action.reads if r.indices)
    if not action.sums or not numbers or not rest:
        return action, ()
    return replace(action, reads=rest), numbers


def choose_kernel(action: Contract, device: Device) -> Strategy:
    """Return how to run a contraction on a kind of device."""
    if not action.sums:
        return Pointwise()
    action, _ = split_scalars(action)
    if (boxed := _box_windows(action)) is not None:
        return boxed
    if (axis := _window_axis(action)) is not None:
        pair = _as_correlation(action) if device.windows else None
        if pair is not None and action.extents[action.axes[0]] <= action.extents[action.sums[0][0]]:
            return Convolution(*pair)
        return Unrolled(axis, action.extents[axis])
    if device.windows and (found := _long_window(action)) is not None:
        return found
    extents, lookups = action.extents, action.lookups
    operands = [axes_of(r.indices, lookups) & extents.keys() for r in action.reads]
    masks: list[tuple[Predicate, tuple[int, ...]]] = []
    coupling: list[Predicate] = []
    beyond: list[tuple[Predicate, frozenset[str]]] = []
    for q in conjuncts(action.mask):
        axes = mask_axes(q, lookups) & extents.keys()
        hosts = tuple(k for k, has in enumerate(operands) if axes <= has)
        if hosts:
            masks.append((q, hosts))
        else:
            beyond.append((q, axes))
    if len(beyond) == 1:
        running = _as_running_sums(action, beyond[0][0], operands, tuple(masks))
        if running is not None and not _is_masked_faster(action, running, device):
            return running
    for q, axes in beyond:
        size = prod(extents[i] for i in axes)
        if _is_matrix(q, size) and max(MATRIX, 4 * size) <= prod(extents.values()):
            masks.append((q, ()))
            operands.append(axes)
        else:
            coupling.append(q)
    # A loop with calls of a library is not compiled as one kernel.
    if coupling or (device.in_loop and device.by_value and prod(extents.values()) <= FUSED):
        return Reduced(tuple(coupling), tuple(masks))
    return Multiplied(tuple(operands), action.axes, tuple(masks), device.many_cores)


def needs_library(steps: Iterable[Step], device: Device) -> bool:
    """Return whether a library is faster for the products of an iteration: some are large, or they are large together."""
    actions = (step.action for step in steps)
    products = [a for a in actions if isinstance(a, Contract) and len(a.reads) > 1]
    kernels = [choose_kernel(a, device) for a in products]
    if any("dot_general" in str(kernel) for kernel in kernels):
        return True
    fused = [isinstance(kernel, Reduced) and not kernel.coupling for kernel in kernels]
    terms = [prod(a.extents.values()) for a in products]
    return sum(n for n, one in zip(terms, fused, strict=True) if one) > FUSED_IN_ALL


def is_running(action: Contract, device: Device) -> bool:
    """Whether a contraction is running sums on a kind of device."""
    return any(isinstance(q, Compare) for q in conjuncts(action.mask)) and isinstance(
        choose_kernel(action, device), Running
    )


def _is_masked_faster(action: Contract, running: Running, device: Device) -> bool:
    """Whether masked terms take less time than running sums, which are several sequential kernels on a device with many cores."""
    if not device.many_cores:
        return False
    extents = action.extents
    summed = prod(extents[i] for i in (running.axis, *running.kept))
    masked = 2 * prod(extents.values()) / device.flop_rate("float32")
    return device.kernel + masked < SCAN_KERNELS * device.kernel + summed * device.running_sum


def _as_running_sums(
    action: Contract, q: Predicate, operands: Sequence[frozenset[str]], masks: Masks
) -> Running | None:
    """Return a sum up to an index, or from it on, as running sums, if these are not many more than what is read and made; else
    None.
    """
    extents = action.extents
    if not isinstance(q, Compare) or q.op == "=" or prod(extents.values()) < FEW:
        return None
    if len(q.names) != 2 or not q.names <= extents.keys():
        return None
    if any(abs(k) != 1 for _, k in q.difference.terms):
        return None
    there = sum(prod(extents[i] for i in has) for has in (*operands, action.axes))
    for s in (i for i, _ in action.sums if i in q.names):
        inside = [has for has in operands if s in has]
        if not inside or any(q.names <= has for has in inside):
            continue
        outside = frozenset(action.axes).union(*(has for has in operands if s not in has))
        kept = frozenset[str]().union(*inside) & outside
        if prod(extents[i] for i in (s, *kept)) <= 4 * there:
            turn = q.difference.coefficient(s)
            rest = q.difference - int(q.op == "<") - Affine.of(s) * turn  # ≥ -turn·s
            place = rest * -turn
            return Running(s, place, turn > 0, tuple([i for i in extents if i in kept]), masks)
    return None


def _is_matrix(q: Predicate, size: int) -> bool:
    """Whether a condition can be multiplied: a relation is there already, a triangle is made."""
    return isinstance(q, Related) or (isinstance(q, Compare) and size <= TRIANGLE)


def mask_axes(p: Predicate, lookups: Sequence[IndexLookup]) -> frozenset[str]:
    """Return the names that a mask runs over, also through lookups."""
    match p:
        case Compare():
            return axes_of((p.difference,), lookups)
        case Related(_, arguments):
            return axes_of(arguments, lookups)
        case And(parts) | Or(parts):
            return frozenset[str]().union(*(mask_axes(q, lookups) for q in parts))
        case Exists(index, _, body):
            bound = f"∃{index}"
            return mask_axes(substitute(body, {index: Affine.of(bound)}), lookups) - {bound}
    raise TypeError(p)


class Pairing(Enum):
    """How two operands are multiplied and summed."""

    FUSED = "fused multiply and sum"
    APART = "sums, multiplied"
    DOT = "dot_general"


def is_covered(operands: Sequence[AbstractSet[str]]) -> bool:
    """Whether one operand has the axes of all: then the product has no more terms than that operand has entries."""
    return any(has >= frozenset[str]().union(*operands) for has in operands)


def choose_pairing(
    left: AbstractSet[str], right: AbstractSet[str], out: AbstractSet[str]
) -> Pairing:
    """Choose how to multiply and sum two operands, from the names of their axes.

    FUSED: both have the same axes, and some axis remains; a batched `dot_general` is slower for many short dot products.
    APART: axes are summed, but no shared one; sum each operand before multiplying. DOT: `dot_general` in all other cases.

    Args:
        out: the axes of the result.
    """
    if out and left == right:
        return Pairing.FUSED
    if not (left & right) - out and not left | right <= out:
        return Pairing.APART
    return Pairing.DOT


# Windows


def _window_axis(action: Contract) -> str | None:
    """Return the shortest axis of a window, if it is short and something else is summed or kept; else None."""
    axes = action.extents.keys()
    found: set[str] = set()
    for r in action.reads:
        if all(a.names <= axes for a in r.indices):
            found |= window_axes(r.indices, action.extents)
    if not found or len(action.reads) < 2:
        return None
    axis = min(found, key=lambda i: action.extents[i])
    return axis if 1 < action.extents[axis] <= WINDOWS else None


def _box_windows(action: Contract) -> Boxed | None:
    """Return the windows of a sum of one operand's entries, if they are short: summed axis by axis, they take the sum of their
    lengths, not the product.
    """
    if len(action.reads) != 1 or action.mask != TRUE or action.lookups:
        return None
    (read,) = action.reads
    if any(not a.names <= action.extents.keys() for a in read.indices):
        return None
    short = window_axes(read.indices, action.extents)
    found = []
    for s, n in action.sums:
        dims = [d for d, a in enumerate(read.indices) if s in a.names]
        if s in short and len(dims) == 1 and 1 < n.constant <= WINDOWS:
            a = read.indices[dims[0]]
            if any(i in action.axes for i in a.names):
                found.append((dims[0], s, a.coefficient(s)))
    if not found:
        return None
    return Boxed(tuple(found))


def _as_correlation(action: Contract) -> tuple[Access, Access] | None:
    """Return A and B of `⊞w. Σs. A[±w±s+c]·B[±s+d]`; None for another contraction.

    If w is the shorter axis, XLA for CPUs runs a convolution well, and the dot products of an unrolled w badly.
    """
    if len(action.out) != 1 or len(action.sums) != 1 or action.mask != TRUE or action.scatter_to:
        return None
    if len(action.reads) != 2:
        return None
    ((w, _),), ((s, _),) = action.out, action.sums
    long, short = sorted(action.reads, key=lambda r: -len(r.indices[0].terms) if r.indices else 0)
    if len(long.indices) != 1 or len(short.indices) != 1:
        return None
    (a,), (b,) = long.indices, short.indices
    turns = a.coefficient(w), a.coefficient(s), b.coefficient(s)
    if {abs(k) for k in turns} != {1} or a.names != {w, s} or b.names != {s}:
        return None
    return long, short


def _long_window(action: Contract) -> Swept | None:
    """Return a correlation of which neither axis is short, for which gathering would make a matrix; else None."""
    pair = _as_correlation(action)
    if pair is None:
        return None
    kept, summed = action.extents.values()
    return Swept(*pair) if min(kept, summed) > WINDOWS and 8 * kept >= summed else None


def window_axes(indices: Sequence[Affine], extents: Mapping[str, int]) -> set[str]:
    """Return the axes of overlapping windows, which could otherwise only be read by gathering."""
    found: set[str] = set()
    for group in sharing_axes(indices):
        if len(group) > 1:
            continue
        terms = [(i, abs(k), extents[i]) for i, k in indices[group[0]].terms]
        terms = sorted(terms, key=lambda term: -term[1])
        while len(terms) > 1:
            (_, k, _), *rest = terms
            if sum(j * (n - 1) for _, j, n in rest) >= k:
                found |= {i for i, _, _ in terms}
                break
            terms = rest
    return found


def sharing_axes(indices: Sequence[Affine]) -> list[list[int]]:
    """Group the dimensions of a read whose indices share an axis."""
    groups: list[tuple[set[str], list[int]]] = []
    for d, a in enumerate(indices):
        names, dims = set(a.names), [d]
        for other in [g for g in groups if g[0] & names]:
            groups.remove(other)
            names, dims = names | other[0], [*other[1], *dims]
        groups.append((names, sorted(dims)))
    return sorted((dims for _, dims in groups), key=lambda dims: dims[0])
