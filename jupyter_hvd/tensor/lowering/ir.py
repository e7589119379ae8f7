"""What a kernel does, step by step: each step makes one array from arrays made before.

Steps are static: they know extents and affine indices, not data. Index variables of a step are its
own; `out` are the axes of its result, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..language.affine import Affine
from ..language.definition import Definition
from ..language.function import Function
from ..language.predicates import TRUE, Predicate, substitute
from ..language.terms import Binders, Number, index_names
from .loop_counters import counter_index

Subscripts = tuple[Affine, ...]
OFFSET = "β"  # the first row of a block of rows (`tiling`), in indices


@dataclass(frozen=True)
class IndexLookup:
    """`name := relation[subscripts]`, an entry of an index array as an index. With `searched`, the position of
    the tuple that begins with the subscripts in a table in order; where there is none, one outside of it.
    """

    name: str
    relation: str
    subscripts: Subscripts
    searched: bool = False

    def __str__(self) -> str:
        if not self.subscripts:
            return f"{self.name} = {counter_index(self.relation)}"
        inside = ", ".join(map(str, self.subscripts))
        at = f"ρ{self.relation}({inside})" if self.searched else f"{self.relation}[{inside}]"
        return f"{self.name} = {at}"

    def substitute(self, values: Mapping[str, Affine]) -> IndexLookup:
        """Return the lookup with names in the subscripts replaced."""
        return replace(self, subscripts=tuple([a.substitute(values) for a in self.subscripts]))


@dataclass(frozen=True)
class Access:
    """`array[indices]`, zero where an index lies outside; an index may use lookups."""

    array: str
    indices: Subscripts

    def substitute(self, values: Mapping[str, Affine]) -> Access:
        """Return the access with names in the indices replaced."""
        return Access(self.array, tuple([a.substitute(values) for a in self.indices]))


@dataclass(frozen=True)
class Rewriting:
    """How to replace the accesses, masks and lookups of an action."""

    access: Callable[[Access], Access]
    mask: Callable[[Predicate], Predicate]
    lookup: Callable[[IndexLookup], IndexLookup]

    @staticmethod
    def substituting(values: Mapping[str, Affine]) -> Rewriting:
        """Return the rewriting that replaces axes by affine expressions."""
        return Rewriting(
            lambda r: r.substitute(values),
            lambda p: substitute(p, values),
            lambda x: x.substitute(values),
        )


def extents_of(binders: Binders) -> tuple[int, ...]:
    """Return the sizes of binders at the sizes of a call."""
    return tuple([n.constant for _, n in binders])


class Action:
    """How an array is made."""

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The reads of single entries."""
        return ()

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        """The masks."""
        return ()

    @property
    def indirections(self) -> tuple[IndexLookup, ...]:
        """The lookups in index arrays that indices use."""
        return ()

    @property
    def loops(self) -> tuple[Scan, ...]:
        """The loops that are run, each with the plan of an iteration."""
        return ()

    @cached_property
    def sources(self) -> frozenset[str]:
        """The arrays that are read."""
        return frozenset(r.array for r in self.accesses)

    @cached_property
    def relations(self) -> frozenset[str]:
        """The relations that are consulted."""
        looked = (x.relation for x in self.indirections)
        masks = (r for p in self.conditions for r in p.relations)
        return frozenset((*looked, *masks))


@dataclass(frozen=True)
class Load(Action):
    """A component of a parameter: `π…π x`."""

    parameter: str
    path: tuple[int, ...]


@dataclass(frozen=True)
class Fill(Action):
    """A constant array; or one whose entries are numbers that an affine expression of the indices
    gives.
    """

    out: Binders
    value: Number | Affine


@dataclass(frozen=True)
class MadeRelation(Action):
    """A relation for the masks of later steps, made of a whole array."""

    array: str

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset((self.array,))


@dataclass(frozen=True)
class Nonzero(MadeRelation):
    """`result[…] = array[…] ≠ 0`."""


@dataclass(frozen=True)
class MakeIndexArray(MadeRelation):
    """The integers of an array as an index array, with all entries below `below`."""

    below: int


@dataclass(frozen=True)
class ReversedRow:
    """The rows of a loop that runs backwards: `count` rows of an array from `begin` on; with None, all of the array in the
    order of the iterations.
    """

    array: str
    begin: int | None = None


@dataclass(frozen=True)
class Scan(Action):
    """What a loop carries: of the values in `kept` the histories, one array each, of the others what
    the last iteration leaves. There are `count` turns of `body`, the plan of one, whose index is a relation
    (`turns.relation_of`). With `every`, also what every so many iterations begin with. With `backwards`, which
    says where each of `rows` is, the rows are gone through from the last. With `sums`, an iteration leaves at each
    place the sum of those parameters of the body, and no turn waits for another (`running`). With `solution`, turns are linear
    and are composed two by two (`linear`).
    """

    index: str
    count: int
    starts: tuple[str, ...]
    rows: tuple[str, ...]
    wholes: tuple[str, ...]
    body: Any
    kept: frozenset[int]
    consulted: frozenset[str]
    every: int = 0
    backwards: tuple[ReversedRow, ...] = ()
    sums: tuple[tuple[str, ...], ...] = ()
    solution: tuple[tuple[int, Any], ...] = ()

    @property
    def loops(self) -> tuple[Scan, ...]:
        return (self,)

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset((*self.starts, *self.rows, *self.wholes))

    @cached_property
    def relations(self) -> frozenset[str]:
        return self.consulted


@dataclass(frozen=True)
class ReusedRow:
    """A row of a loop in reverse: what the loop of values carries as the value number `place`, before an iteration or after
    it.
    """

    row: int
    place: int
    after: bool


@dataclass(frozen=True)
class Rerun(Action):
    """What the loop `back`, in reverse, carries, as of a `Scan`: in blocks of `length` turns, the values
    that it takes as the rows `taken` computed by the loop `again`, from what the blocks of the loop
    `source` began with. Of its other rows, `back` has the arrays, and `given` says which they are.
    """

    source: str
    length: int
    again: Scan
    back: Scan
    taken: tuple[ReusedRow, ...]
    given: tuple[int, ...]

    @property
    def loops(self) -> tuple[Scan, ...]:
        return (self.again, self.back)

    @cached_property
    def sources(self) -> frozenset[str]:
        return self.again.sources | self.back.sources | {self.source}

    @cached_property
    def relations(self) -> frozenset[str]:
        return self.again.relations | self.back.relations


@dataclass(frozen=True)
class Whole(Action):
    """An array-level function of some dimensions, which makes an array over `out`."""

    out: Binders
    definition: Definition
    operands: tuple[str, ...]
    dims: tuple[tuple[Affine, ...], ...]

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(self.operands)


@dataclass(frozen=True)
class Take(Action):
    """One of the results of a loop."""

    source: str
    place: int

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset((self.source,))


@dataclass(frozen=True)
class Entrywise(Action):
    """An array over the box of `out`, of what is read at affine indices of these axes and of those that are summed or reduced."""

    out: Binders

    @property
    def summed(self) -> Binders:
        """The axes that are summed or reduced."""
        return ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the result's axes."""
        return index_names(self.out)

    @cached_property
    def extents(self) -> dict[str, int]:
        """The sizes of all axes, in order."""
        return {i: n.constant for i, n in (*self.out, *self.summed)}

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return extents_of(self.out)

    def entry_of(self, array: str) -> Access:
        """Return the entry of an array with the same axes that corresponds to the result's."""
        return Access(array, tuple(map(Affine.of, self.axes)))

    def rewritten(self, change: Rewriting) -> Entrywise:
        """Return the action with other accesses, masks and lookups on the same axes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Contract(Entrywise):
    """`result[out] = Σ sums. [mask]·read·read`, each term under lookups.

    With `scatter_to`, the result is indexed by those instead, entry by entry, and terms with equal
    places add up: indices over the step's variables and lookups, with the extents that they index.
    """

    sums: Binders
    reads: tuple[Access, ...]
    mask: Predicate = TRUE
    lookups: tuple[IndexLookup, ...] = ()
    scatter_to: tuple[tuple[Affine, int], ...] = ()

    @property
    def summed(self) -> Binders:
        return self.sums

    @property
    def accesses(self) -> tuple[Access, ...]:
        return self.reads

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        return (self.mask,)

    @property
    def indirections(self) -> tuple[IndexLookup, ...]:
        return self.lookups

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for _, n in self.scatter_to) or super().shape

    def rewritten(self, change: Rewriting) -> Contract:
        return replace(
            self,
            reads=tuple(map(change.access, self.reads)),
            mask=change.mask(self.mask),
            lookups=tuple(map(change.lookup, self.lookups)),
        )


@dataclass(frozen=True)
class Reduce(Entrywise):
    """`result[out]`: what a function of two numbers, by its name, makes of all that is read over `over`."""

    function: str
    over: Binders
    read: Access

    @property
    def summed(self) -> Binders:
        return self.over

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.read,)

    def rewritten(self, change: Rewriting) -> Reduce:
        return replace(self, read=change.access(self.read))


@dataclass(frozen=True)
class Masked:
    """An addend `[mask]·read`, times the scalars in `scale`; subtracted if `minus`."""

    read: Access
    mask: Predicate = TRUE
    lookups: tuple[IndexLookup, ...] = ()
    scale: tuple[str, ...] = ()
    minus: bool = False

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (self.read, *(Access(x, ()) for x in self.scale))

    def rewritten(self, change: Rewriting) -> Masked:
        return replace(
            self,
            read=change.access(self.read),
            mask=change.mask(self.mask),
            lookups=tuple(map(change.lookup, self.lookups)),
        )


@dataclass(frozen=True)
class Accumulate(Entrywise):
    """`result[out] = Σ addends`; where it is `parted`, part by part, cut where addends begin and end (`joined`)."""

    addends: tuple[Masked, ...]
    parted: bool = False

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(r for a in self.addends for r in a.accesses)

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        return tuple(a.mask for a in self.addends)

    @property
    def indirections(self) -> tuple[IndexLookup, ...]:
        return tuple(x for a in self.addends for x in a.lookups)

    def rewritten(self, change: Rewriting) -> Accumulate:
        return replace(self, addends=tuple(a.rewritten(change) for a in self.addends))


@dataclass(frozen=True)
class Apply(Entrywise):
    """`result[out] = [mask]·f(argument, …)`, each argument a sum of addends."""

    function: Function
    arguments: tuple[tuple[Masked, ...], ...]
    mask: Predicate = TRUE
    lookups: tuple[IndexLookup, ...] = ()

    @property
    def addends(self) -> tuple[Masked, ...]:
        """The addends of all arguments."""
        return tuple(a for argument in self.arguments for a in argument)

    @property
    def accesses(self) -> tuple[Access, ...]:
        return tuple(r for a in self.addends for r in a.accesses)

    @property
    def conditions(self) -> tuple[Predicate, ...]:
        return (self.mask, *(a.mask for a in self.addends))

    @property
    def indirections(self) -> tuple[IndexLookup, ...]:
        return (*self.lookups, *(x for a in self.addends for x in a.lookups))

    def rewritten(self, change: Rewriting) -> Apply:
        return replace(
            self,
            arguments=tuple(tuple(a.rewritten(change) for a in x) for x in self.arguments),
            mask=change.mask(self.mask),
            lookups=tuple(map(change.lookup, self.lookups)),
        )


@dataclass(frozen=True)
class Step:
    """`name = action`, for a statement of the SSA."""

    name: str
    action: Action
    statement: str

    @property
    def needs(self) -> frozenset[str]:
        """The arrays and relations that the step uses."""
        return self.action.sources | self.action.relations
