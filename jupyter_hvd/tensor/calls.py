"""One call of a tensor function: checks it, compiles it for its sizes, or interprets it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

import numpy as np

from .cost.counting import Data, cost_at
from .cost.model import Cost, interface_size
from .frontend.bounds import check_call, undecided
from .frontend.signature import environment
from .frontend.tracing.trace_result import Access
from .instance import Instance
from .language.depth import deep_recursion
from .language.pairs import from_pairs, struct_of_arrays
from .language.types import IndexArray, Relation, TupleSet
from .memo import Kept
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
MANY = 256  # calls of a function that are known again


class Call(NamedTuple):
    """The instance for some arguments, these by name, their sizes, and those of them that are constants of the program: the
    defaults of parameters that nothing was passed for.
    """

    instance: Instance
    arguments: dict[str, Any]
    sizes: dict[str, int]
    constants: Constants

    @deep_recursion()
    def check(self) -> None:
        """Raise TensorError where a read is out of range."""
        check(self.instance, self.arguments, self.sizes)

    @deep_recursion()
    def prepared(self, along: Along) -> tuple[Ready, tuple[Any, ...]]:
        """The compiled JAX kernel, and the arrays to run it on."""
        at = _key(self.sizes)
        prepare = (
            _sharded(self.instance, at, along)
            if along
            else compiled(self.instance, at, self.constants)
        )
        return prepare(tuple(self.arguments.values()))

    @deep_recursion()
    def interpreted(self) -> Any:
        """The result by the reference evaluator, laid out as the program returned it."""
        env = environment(self.instance.parameters, self.arguments, self.sizes)
        value = evaluate(self.instance.function.body, env)
        pairs = struct_of_arrays(value, self.instance.type)
        return from_pairs(_numpy(pairs), self.instance.layout)

    @deep_recursion()
    def cost(self) -> Cost:
        """The exact operation counts."""
        given = ((x, t, self.arguments[x]) for x, t, _ in self.instance.parameters)
        data = {x: Data.of(t, value) for x, t, value in given if isinstance(t, RELATIONS)}
        function = self.instance.function
        found = cost_at(function.body, self.sizes, data)
        return found + Cost(interface=interface_size(function, self.sizes))

    @deep_recursion()
    def profile(self, *options: Any) -> Profile:
        """Where operations, bytes and time go."""
        from .jax.profile import profile

        return profile(self.instance, self.sizes, self.arguments, *options)

    @deep_recursion()
    def tune(self, *options: Any) -> Tuning:
        """Which kernel is the fastest."""
        from .jax.backend import kernel, tuned

        made = kernel(self.instance, self.sizes, self.constants)
        return tuned(made, tuple(self.arguments.values()), *options)

    @deep_recursion()
    def plan(self) -> Plan:
        """How it is computed."""
        from .jax.backend import kernel, planned

        made = kernel(self.instance, self.sizes, self.constants)
        return planned(made, tuple(self.arguments.values()))


class Known(NamedTuple):
    """What a call found out: its instance and sizes, and the function that it ran."""

    instance: Instance
    sizes: dict[str, int]
    run: Callable[..., Any]
    order: (
        tuple[int, ...] | None
    )  # of the arguments those that it takes, where it does not take them all in order
    made: tuple[tuple[int, Any], ...]  # what was made of the entries of others, by position

    def operands(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """What it runs on."""
        if self.order is None:
            return arguments
        found: Sequence[Any] = arguments
        if self.made:
            found = [*arguments]
            for k, value in self.made:
                found[k] = value
        return tuple([found[k] for k in self.order])


class Same(NamedTuple):
    """An argument that counts by identity, by its position; of a set that may change, with what it held."""

    position: int
    value: ref[Any]
    held: frozenset[Any] | None

    @staticmethod
    def of(position: int, value: Any, forget: Callable[[Any], None]) -> Same:
        """Such an argument; `forget` is called when it is no more."""
        held = frozenset(value) if isinstance(value, set) else None
        return Same(position, ref(value, forget), held)

    def holds(self, arguments: tuple[Any, ...]) -> bool:
        """Whether it is the same in another call."""
        value = arguments[self.position]
        return self.value() is value and (self.held is None or self.held == value)


def is_distinguished_by_entries(value: Any) -> bool:
    """Whether calls with such an argument are told apart by its entries: an array of integers or booleans that is not large."""
    return type(value) is np.ndarray and value.dtype.kind in "iub" and value.nbytes <= SMALL


def _entries_apart(arguments: tuple[Any, ...]) -> tuple[tuple[Any, ...], Hashable]:
    """The arguments without NumPy's arrays of integers and booleans that are not large; and the entries of these, on which
    the checks of a call and its kernel depend.
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


class Before:
    """The calls of a function so far: one like them is neither checked nor planned again.

    Like is one with arrays of floats of the same types, the same JAX arrays of integers and
    booleans, which no one can change, NumPy arrays of these with the same entries, the same sets with the same tuples, and
    the same values from outside. No array and no set of the caller's is kept alive; of NumPy's small arrays of integers and
    booleans there are copies on the device.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[Known, tuple[Same, ...]]] = {}
        self._lasting: Callable[..., Any]  # JAX's side of it, once there is a call

    def find(self, arguments: tuple[Any, ...], outside: Hashable) -> Known | None:
        """What such a call found out; None where there was none."""
        if not self._known:
            return None
        others, entries = _entries_apart(arguments)
        known = self._known.get((self._lasting(others)[0], entries, outside))
        if known is None:
            return None
        return known[0] if all(same.holds(arguments) for same in known[1]) else None

    def keep(
        self,
        arguments: tuple[Any, ...],
        outside: Hashable,
        call: Call,
        run: Ready,
        names: tuple[str, ...],
    ) -> None:
        """Remember a call, where it can be told whether its arguments, which have these names, have changed."""
        from .jax.arguments import lasting

        self._lasting = lasting
        others, entries = _entries_apart(arguments)
        what, relations = lasting(others)
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
        known = Known(call.instance, call.sizes, run.kept(), None if in_order else order, made)
        self._known[key] = known, tuple(Same.of(k, arguments[k], forget) for k in relations)


def check(instance: Instance, arguments: Arguments, sizes: Sizes) -> None:
    """Raise TensorError where a read of the call is out of range."""
    pending = _undecided(instance, _key(sizes))
    check_call(instance.checked, pending, instance.parameters, arguments, sizes)


@Kept
def compiled(instance: Instance, sizes: Key, constants: Constants) -> Prepare:
    """The compiled functions at given sizes."""
    from .jax.backend import compiled

    return compiled(instance, dict(sizes), constants)


@Kept
def _sharded(instance: Instance, sizes: Key, along: Along) -> Prepare:
    from .jax.backend import sharded

    return sharded(instance, dict(sizes), along)


@Kept
def _undecided(instance: Instance, sizes: Key) -> tuple[Access, ...]:
    """The reads that only data can show in range."""
    return undecided(instance.checked, dict(sizes))


def _key(sizes: Sizes) -> Key:
    return tuple(sorted(sizes.items()))


def _numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return _numpy(value[0]), _numpy(value[1])
    if not isinstance(value, list):
        return value
    array = np.array(value, dtype=object)
    exact = any(not isinstance(x, int | float) for x in array.flat)
    return array if exact else array.astype(float)
