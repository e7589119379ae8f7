"""What is inspected: a tensor function, the parameters to differentiate by, its sizes, and the data
that its relations have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

from ..tensor import TensorError, TensorFunction
from ..tensor.cost.counting import RelationData
from ..tensor.cost.evaluator import Evaluator
from ..tensor.cost.statements import ProgramCosts, Sizes
from ..tensor.cost.stored_values import StoredValues, list_stored_values
from ..tensor.frontend.bounds import reads, undecided
from ..tensor.instance import Instance
from ..tensor.language.predicates import (
    FALSE,
    Predicate,
    compare,
    conj,
    disj,
    exists_all,
    reserve_generated_names,
)
from ..tensor.language.terms import Gen, Iterate, Let, Sum, Term
from ..tensor.language.types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    ParameterType,
    Product,
    Real,
    Relation,
    TupleSet,
)
from ..tensor.polyhedral.sets import simplify_under
from ..tensor.reference.evaluate import Environment, holds
from ..tensor.ssa.normalize import normalize
from ..tensor.ssa.program import Recurrence
from ..tensor.tensor_function import DerivedFunction

BOUND = 4  # Theorems 6.1 and 6.55
START = 100
LARGEST = 1 << 20


@dataclass(frozen=True)
class Size:
    """A size from 1 to `high`, or several that go together: `names` are equal and move as one.

    `fixed` names the parameter whose data fix it.
    """

    names: tuple[str, ...]
    high: int
    fixed: str = ""

    @property
    def name(self) -> str:
        """The first of the size's names."""
        return self.names[0]


@dataclass(frozen=True, eq=False)
class Subject:
    """A tensor function, differentiated by `wrt`, at the types of `arguments` or of its
    annotations.
    """

    function: TensorFunction
    wrt: tuple[str, ...]
    instance: Instance
    start: Mapping[str, int]
    arguments: Mapping[str, Any] | None = None
    against: Any = None
    label: str = ""

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.label or self.function.__name__

    @property
    def version(self) -> str:
        """The user's own version in JAX by its name; nothing where there is none."""
        if self.against is None:
            return ""
        return str(getattr(self.against, "__name__", "the given function"))

    @cached_property
    def is_scalar(self) -> bool:
        """Whether the function returns one real number."""
        return self.instance.function.body.type == REAL

    @cached_property
    def reverse(self) -> DerivedFunction:
        """The gradient; of what is no scalar, the adjoint."""
        return (self.function.grad if self.is_scalar else self.function.vjp)(*self.wrt)

    @cached_property
    def adjoint_instance(self) -> Instance:
        """The gradient at the types of the subject."""
        instance: Instance = self.reverse.derived_from(self.instance)
        return instance

    @cached_property
    def value(self) -> ProgramCosts:
        """The costs of the function itself."""
        return _instance_costs(self.instance)

    @cached_property
    def differentiated(self) -> ProgramCosts:
        """The value as its derivative sees it, by which that is bounded: with how largest entries share it."""
        whole = self.instance.traced.function
        return ProgramCosts(whole, self.instance.ssa) if self.instance.has_markers else self.value

    @cached_property
    def forward(self) -> ProgramCosts:
        """The costs of the forward derivative (`jvp`) by `wrt`."""
        return _instance_costs(self.function.jvp(*self.wrt).derived_from(self.instance))

    @cached_property
    def adjoint(self) -> ProgramCosts:
        """The costs of the gradient; of what is no scalar, of the adjoint."""
        return _instance_costs(self.adjoint_instance)

    @cached_property
    def kept(self) -> tuple[StoredValues, ...]:
        """The values that the gradient stores in its loops; () without loops, and for a derived function."""
        loops = any(isinstance(line.rhs, Recurrence) for line in self.value.lines)
        if not loops or isinstance(self.function, DerivedFunction):
            return ()
        derive = self.function.grad if self.is_scalar else self.function.vjp
        carried = derive(*self.wrt, checkpoint=True).derived_from(self.instance)
        return list_stored_values(self.adjoint, _instance_costs(carried))

    @cached_property
    def evaluate(self) -> Evaluator:
        """The evaluator of cost formulas on the data of the subject's relations and index arrays."""
        return Evaluator(self.data)

    @cached_property
    def data(self) -> dict[str, RelationData]:
        """The data of relations and index arrays, by parameter; empty without arguments."""
        if self.arguments is None:
            return {}
        return {
            x: RelationData.of(t, self.arguments[x])
            for x, t, _ in self.instance.parameters
            if isinstance(t, Relation | IndexArray | TupleSet)
        }

    @cached_property
    def normal(self) -> Term:
        """The program as a block of lets over flat terms, as a user of arrays would write it."""
        return normalize(self.instance.function.body)

    def dense_entries(self, sizes: Sizes) -> int:
        """Return the size, in entries, of the largest array that the program would form without sparsity."""
        largest, e = 1, self.normal
        while isinstance(e, Let):
            largest, e = max(largest, _dense_entries(e.value, sizes)), e.body
        return max(largest, _dense_entries(e, sizes))

    def own_arguments(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's arguments from those of its gradient."""
        return {x: arguments[x] for x, _ in self.types}

    def programs(
        self, arguments: Mapping[str, Any]
    ) -> tuple[tuple[Instance, Mapping[str, Any]], ...]:
        """Return the instances of value and gradient, each with its arguments."""
        return (self.instance, self.own_arguments(arguments)), (self.adjoint_instance, arguments)

    @property
    def types(self) -> list[tuple[str, ParameterType]]:
        """The parameters' names and types, in order."""
        return [(x, t) for x, t, _ in self.instance.parameters]

    @property
    def differentiable_names(self) -> tuple[str, ...]:
        """The names of the parameters by which the subject can be differentiated: numbers, arrays and tuples."""
        return tuple(x for x, t in self.types if isinstance(t, Real | Array | Product))

    @property
    def missing_data(self) -> str:
        """What to say where data decide the costs that nobody has given; nothing where none are
        missing.
        """
        data = [x for x, t in self.types if isinstance(t, Relation | IndexArray | TupleSet)]
        if not data or self.arguments is not None:
            return ""
        names, call = " and ".join(f"`{x}`" for x in data), ", ".join(x for x, _ in self.types)
        return (
            f"The data of {names} decide the cost: inspect a call, `%gradcost {self.name}({call})`."
        )

    @cached_property
    def fixed_sizes(self) -> dict[str, str]:
        """The sizes that the data of a relation or an index array fix."""
        found: dict[str, str] = {}
        for x, t in self.types:
            if self.arguments is not None and isinstance(t, Relation | IndexArray):
                found |= dict.fromkeys(_size_names(t), x)
        for lookup in self.instance.checked.lookups:
            found |= dict.fromkeys(sorted(lookup.size.names), lookup.relation)
        return found

    def differentiate_by(self, wrt: Sequence[str]) -> Subject:
        """Return this subject with other parameters to differentiate by; all real ones if none is named.

        Raises:
            TensorError: there is no such parameter.
        """
        names = tuple(wrt) or self.differentiable_names
        if not names:
            raise TensorError(f"`{self.name}` has no real parameter to differentiate by")
        self.function.check_names(names)
        return replace(self, wrt=names)

    # Sizes

    @cached_property
    def out_of_range(self) -> tuple[Predicate, ...]:
        """For each read that some sizes bring out of range: at which sizes."""
        bad = []
        for read in reads(self.instance.checked):
            below, above = compare("<", read.index, 0), compare("≤", read.size, read.index)
            p = conj(read.condition, disj(below, above))
            if not p.relations:
                bad.append(simplify_under(exists_all(read.binders, p), conj()))
        return tuple(dict.fromkeys(p for p in bad if p != FALSE))

    def fits_data(self, sizes: Sizes) -> bool:
        """Whether all reads are in range at these sizes."""
        here = Environment(integers=dict(sizes))
        return not any(holds(p, here) for p in self.out_of_range)

    def sizes_over(
        self, size: Size, sizes: Sizes, values: Iterable[int]
    ) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield the given values of one size at which all reads are in range, each with all sizes."""
        for n in values:
            here = {**sizes, **dict.fromkeys(size.names, n)}
            if n <= size.high and self.fits_data(here):
                yield n, here

    def require_in_range(self, sizes: Sizes) -> None:
        """Raise TensorError, with a counter-example, if a read is out of range at these sizes."""
        if not self.fits_data(sizes):
            undecided(self.instance.checked, sizes)

    def size_sliders(self, linked: bool = True) -> tuple[Size, ...]:
        """Return the sizes that the user can choose; equal ones that reads connect are one if `linked`."""
        groups = {name: {name} for name in self.start}
        for tied in self._read_together if linked else ():
            for a, b in combinations([n for n in self.start if n in tied], 2):
                if self.start[a] == self.start[b]:
                    both = groups[a] | groups[b]
                    groups |= dict.fromkeys(both, both)
        order = sorted(self.start, key=lambda name: "_" in name)
        joined = dict.fromkeys(tuple(n for n in order if n in groups[name]) for name in order)
        return tuple(map(self._make_size, joined))

    def _make_size(self, names: tuple[str, ...]) -> Size:
        """Return a slider for sizes that move together, with its upper end."""
        top = max(4096, *(16 * self.start[name] for name in names))
        fixed = next((self.fixed_sizes[name] for name in names if name in self.fixed_sizes), "")
        return Size(names, min(LARGEST, 1 << (top - 1).bit_length()), fixed)

    @cached_property
    def _read_together(self) -> tuple[frozenset[str], ...]:
        """For each read of a variable: the sizes of what is read, and of the loops in whose indices it is read."""
        found = []
        for read in reads(self.instance.checked):
            ranges = (n.names for index, n in read.binders if index in read.index.names)
            found.append(read.size.names.union(*ranges))
        return tuple(dict.fromkeys(found))


def _instance_costs(instance: Instance) -> ProgramCosts:
    """Return the costs of an instance's program."""
    return ProgramCosts(instance.function, instance.ssa)


WRITTEN_OUT = 1 << 16  # entries that take XLA as long as an iteration which is written out


def _dense_entries(e: Term, sizes: Sizes) -> int:
    """Return the size of the largest array in a term without sparsity; at least 1."""
    match e:
        case Gen(_, size, body) | Sum(_, size, body):
            return max(0, size.evaluate(sizes)) * _dense_entries(body, sizes)
        case Iterate(_, size, _, starts, body):
            turn = max(WRITTEN_OUT, _dense_entries(body, sizes))
            return max(
                max(0, size.evaluate(sizes)) * turn, *(_dense_entries(e, sizes) for e in starts)
            )
    return max((_dense_entries(child, sizes) for child in e.children), default=1)


def make_subject(
    function: Any,
    wrt: Sequence[str] = (),
    call: tuple[tuple[Any, ...], Mapping[str, Any]] | None = None,
    against: Any = None,
    label: str = "",
) -> Subject:
    """Return a tensor function to inspect.

    Args:
        wrt: parameters to differentiate by; all real ones by default.
        call: arguments; without them, the types are those of the last call, or the annotated ones.
        against: the same function in JAX, for comparison.
        label: the name to show.

    Raises:
        TensorError: it is no tensor function, or cannot be differentiated so.
    """
    if not isinstance(function, TensorFunction):
        name = getattr(function, "__name__", repr(function))
        raise TensorError(
            f"`{name}` is not a tensor function",
            "put `%%tensor` on top of its cell, or `@tensor` on top of it",
        )
    arguments: Mapping[str, Any] | None = None
    if call is not None:
        instance, arguments, start, _ = function.specialised(*call[0], **call[1])
    else:
        instance = function.instance
        start = function.last_sizes or {}
    names = _list_size_names(instance)
    known = {name: max(1, start[name]) for name in names if name in start}
    made = Subject(function, (), instance, known, arguments, against, label).differentiate_by(wrt)
    return made if len(known) == len(names) else replace(made, start=_first_fit(made, names))


def _list_size_names(instance: Instance) -> list[str]:
    """Return the names of all sizes, in the order of the parameters and their axes."""
    found: dict[str, None] = {}
    for x, type_, _ in instance.parameters:
        if isinstance(type_, Integer):
            found[reserve_generated_names(x)] = None
        found |= dict.fromkeys(_size_names(type_))
    return list(found)


def _size_names(type_: ParameterType) -> Iterator[str]:
    """Yield the names of the sizes in a type."""
    match type_:
        case Array(size, element):
            yield from sorted(size.names)
            yield from _size_names(element)
        case Product(first, second):
            yield from _size_names(first)
            yield from _size_names(second)
        case Relation(dims) | IndexArray(dims):
            for n in dims:
                yield from sorted(n.names)


def _first_fit(made: Subject, names: Sequence[str]) -> dict[str, int]:
    """Return sizes at which all reads are in range, if some are found; known sizes stay."""
    start = dict.fromkeys(names, START) | dict(made.start)
    free = [name for name in names if name not in made.start]
    for tried in product((START, START // 2, START // 4, 8, 4, 2, 1), repeat=min(len(free), 5)):
        sizes = start | dict(zip(free, tried, strict=False))
        if made.fits_data(sizes):
            return sizes
    return start
