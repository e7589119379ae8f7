"""One call of a tensor function: checks it, compiles it for its sizes, or interprets it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from .cost.counting import RelationData, cost_at
from .cost.model import Cost, interface_size
from .frontend.bounds import check_call, undecided
from .frontend.signature import environment
from .frontend.tracing.trace_result import Access
from .instance import Instance
from .language.depth import deep_recursion
from .language.pairs import from_pairs, struct_of_arrays
from .language.types import IndexArray, Relation, TupleSet
from .memo import Memo
from .reference.evaluate import evaluate

if TYPE_CHECKING:
    from .jax.backend import Prepare, Ready
    from .jax.profile import Profile
    from .jax.tuning import Tuning
    from .lowering.plan import Plan
    from .lowering.sharding import Along

Arguments = Mapping[str, Any]  # by name, in the order of the parameters
Sizes = Mapping[str, int]
Key = tuple[tuple[str, int], ...]
Constants = tuple[tuple[str, float], ...]  # by the name of their parameter
RELATIONS = Relation | IndexArray | TupleSet
SMALL = (
    1 << 16
)  # bytes of an array whose entries are compared in less time than it takes to check them
COPIED = 1_000_000  # entries that all iterations of a loop may copy before a warning says so
_SHOWN: dict[str, dict[Any, Any]] = {}  # the warnings of each file that have been shown
MANY = 256  # calls of a function that are known again


class Call(NamedTuple):
    """One call: the instance for its arguments, the arguments by name, their sizes, and the constants.

    The constants are the defaults of parameters for which nothing was passed.
    """

    instance: Instance
    arguments: dict[str, Any]
    sizes: dict[str, int]
    constants: Constants

    @deep_recursion()
    def check(self) -> None:
        """Raise TensorError if a read is out of range."""
        check(self.instance, self.arguments, self.sizes)

    @deep_recursion()
    def compile_kernel(self, along: Along) -> tuple[Ready, tuple[Any, ...]]:
        """Return the compiled JAX kernel, and the arrays to run it on."""
        at = _sizes_key(self.sizes)
        prepare = (
            _prepare_sharded(self.instance, at, along)
            if along
            else compile_instance(self.instance, at, self.constants)
        )
        return prepare(tuple(self.arguments.values()))

    @deep_recursion()
    def interpret_call(self) -> Any:
        """Compute the result with the reference evaluator, in the layout that the program returned."""
        env = environment(self.instance.parameters, self.arguments, self.sizes)
        value = evaluate(self.instance.function.body, env)
        pairs = struct_of_arrays(value, self.instance.type)
        return from_pairs(_convert_lists(pairs), self.instance.layout)

    @deep_recursion()
    def cost(self) -> Cost:
        """Count the additions, multiplications and calls of `program` exactly, without computing anything."""
        given = ((x, t, self.arguments[x]) for x, t, _ in self.instance.parameters)
        data = {x: RelationData.of(t, value) for x, t, value in given if isinstance(t, RELATIONS)}
        function = self.instance.function
        found = cost_at(function.body, self.sizes, data)
        return found + Cost(interface=interface_size(function, self.sizes))

    @deep_recursion()
    def profile(self, *options: Any) -> Profile:
        """Measure where operations, bytes and time go."""
        from .jax.profile import profile

        return profile(self.instance, self.sizes, self.arguments, *options)

    @deep_recursion()
    def tune(self, *options: Any) -> Tuning:
        """Find the fastest kernel."""
        from .jax.backend import kernel, tune_call

        made = kernel(self.instance, self.sizes, self.constants)
        return tune_call(made, tuple(self.arguments.values()), *options)

    @deep_recursion()
    def plan(self) -> Plan:
        """Return the plan of the kernel."""
        from .jax.backend import kernel, plan_call

        made = kernel(self.instance, self.sizes, self.constants)
        found = plan_call(made, tuple(self.arguments.values()))
        return replace(found, copied=tuple(map(str, self.instance.carried_arrays)))

    def warn_of_copies(self) -> None:
        """Warn, once for each line, of loops that copy so much of an array that this call takes long for that."""
        for one in self.instance.carried_arrays:
            if one.place is not None and one.steps(self.sizes) >= COPIED:
                at = one.place
                shown = _SHOWN.setdefault(at.filename, {})
                warnings.warn_explicit(str(one), UserWarning, at.filename, at.line, registry=shown)


class CachedCall(NamedTuple):
    """The result of preparing a call: its instance, its sizes, and the compiled function."""

    instance: Instance
    sizes: dict[str, int]
    run: Callable[..., Any]
    order: (
        tuple[int, ...] | None
    )  # of the arguments those that it takes, where it does not take them all in order
    made: tuple[tuple[int, Any], ...]  # what was made of the entries of others, by position

    def operands(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arrays on which the compiled function runs."""
        if self.order is None:
            return arguments
        found: Sequence[Any] = arguments
        if self.made:
            found = [*arguments]
            for k, value in self.made:
                found[k] = value
        return tuple([found[k] for k in self.order])


class ArgumentIdentity(NamedTuple):
    """An argument that is compared by identity, with its position; a set, which may change, also with its contents."""

    position: int
    value: ref[Any]
    held: frozenset[Any] | None

    @staticmethod
    def of(position: int, value: Any, forget: Callable[[Any], None]) -> ArgumentIdentity:
        """Make the identity of an argument. `forget` is called when the argument is freed."""
        held = frozenset(value) if isinstance(value, set) else None
        return ArgumentIdentity(position, ref(value, forget), held)

    def holds(self, arguments: tuple[Any, ...]) -> bool:
        """Whether another call has the same argument."""
        value = arguments[self.position]
        return self.value() is value and (self.held is None or self.held == value)


def is_distinguished_by_entries(value: Any) -> bool:
    """Whether calls are distinguished by this argument's entries: a small array of integers or booleans."""
    return type(value) is np.ndarray and value.dtype.kind in "iub" and value.nbytes <= SMALL


def _split_off_entries(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Hashable]:
    """Split off the entries of small NumPy arrays of integers and booleans, on which a call's checks and kernel depend.

    Returns:
        the arguments without these arrays, and their entries.
    """
    if np.ndarray not in {*map(type, arguments)}:
        return arguments, ()
    others, entries = [], []
    for value in arguments:
        if is_distinguished_by_entries(value):
            entries.append((value.shape, value.dtype.str, value.tobytes()))
            value = None
        others.append(value)
    return tuple(others), tuple(entries)


class PreviousCalls:
    """The earlier calls of a function. A call equal to one of them is neither checked nor planned again.

    Calls are equal if they have float arrays of the same types, the same JAX arrays of integers and booleans (which are
    immutable), NumPy arrays of these with the same entries, the same sets with the same tuples, and the same outer values.
    No
    array or set of the caller is kept alive; small NumPy arrays of integers and booleans are copied to the device.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[CachedCall, tuple[ArgumentIdentity, ...]]] = {}
        self._lasting: Callable[..., Any]  # JAX's side of it, once there is a call

    def find(self, arguments: tuple[Any, ...], outside: Hashable) -> CachedCall | None:
        """Return what an equal earlier call has prepared; None if there was none."""
        if not self._known:
            return None
        others, entries = _split_off_entries(arguments)
        known = self._known.get((self._lasting(others)[0], entries, outside))
        if known is None:
            return None
        return known[0] if all(same.holds(arguments) for same in known[1]) else None

    def store(
        self,
        arguments: tuple[Any, ...],
        outside: Hashable,
        call: Call,
        run: Ready,
        names: tuple[str, ...],
    ) -> None:
        """Store a call, if a change of its arguments can be detected. `names` are the names of the arguments."""
        from .jax.arguments import cache_key

        self._lasting = cache_key
        others, entries = _split_off_entries(arguments)
        what, relations = cache_key(others)
        if what is None:
            return
        if len(self._known) >= MANY:
            self._known.clear()
        key = what, entries, outside

        def forget(_: Any) -> None:
            self._known.pop(key, None)

        order = tuple([names.index(p.name) for p in call.instance.parameters])
        made = tuple(
            (k, run.on_device(call.arguments[names[k]]))
            for k in order
            if others[k] is None and call.arguments[names[k]] is not None
        )
        in_order = order == tuple(range(len(arguments))) and not made
        known = CachedCall(call.instance, call.sizes, run.kept(), None if in_order else order, made)
        self._known[key] = (
            known,
            tuple(ArgumentIdentity.of(k, arguments[k], forget) for k in relations),
        )


def check(instance: Instance, arguments: Arguments, sizes: Sizes) -> None:
    """Raise TensorError where a read of the call is out of range."""
    pending = _find_undecided_reads(instance, _sizes_key(sizes))
    check_call(instance.checked, pending, instance.parameters, arguments, sizes)


@Memo
def compile_instance(instance: Instance, sizes: Key, constants: Constants) -> Prepare:
    """Return the compiled functions at given sizes."""
    from .jax.backend import compile_instance

    return compile_instance(instance, dict(sizes), constants)


@Memo
def _prepare_sharded(instance: Instance, sizes: Key, along: Along) -> Prepare:
    """Compile an instance for these sizes, divided among devices along some indices."""
    from .jax.backend import compile_sharded

    return compile_sharded(instance, dict(sizes), along)


@Memo
def _find_undecided_reads(instance: Instance, sizes: Key) -> tuple[Access, ...]:
    """Return the reads of which only the data show whether they are in range."""
    return undecided(instance.checked, dict(sizes))


def _sizes_key(sizes: Sizes) -> Key:
    """Return sizes as a hashable key."""
    return tuple(sorted(sizes.items()))


def _convert_lists(value: Any) -> Any:
    """Convert lists in an argument to arrays of floats, or of objects if an entry is no int or float."""
    if isinstance(value, tuple):
        return _convert_lists(value[0]), _convert_lists(value[1])
    if not isinstance(value, list):
        return value
    array = np.array(value, dtype=object)
    exact = any(not isinstance(x, int | float) for x in array.flat)
    return array if exact else array.astype(float)
