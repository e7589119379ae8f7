"""What a function takes from outside: arrays of globals, of closures, of objects' attributes, and of parameters whose parts are
not all arrays of floats; and arrays of integers where a program computes with them.

Each array that a program reads becomes a parameter of the traced function, whose argument is looked up at each call by a
`Reference`: so it may be another array at the next call. Numbers, strings, functions and None are constants; a program is traced
anew when one is another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.pairs import Form, Laid
from ..language.terms import Term
from ..language.types import REAL, Parameter
from ..reference.evaluate import Environment, evaluate
from .signature import is_abstract, sizes_of

Arguments = Mapping[str, Any]
FLOAT64_DIGITS = 53  # bits of the integers up to which all are float64
AS_FLOATS = "as floats"  # a step from an array of integers to one of floats


@dataclass(frozen=True)
class OnHost:
    """A step from data to what a function of NumPy's makes of them, which is computed before each call: how many entries
    it has is data. `getitem` is a part, `sorted` a set of tuples as a table, `segments` the segment that each position lies in.
    """

    function: str
    given: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.function

    def __call__(self, value: Any) -> Any:
        if is_abstract(value):
            raise TensorError(
                f"`{self.function}` looks at integers, and under `jax.jit` they are not known",
                "compute it outside, and pass the result",
            )
        if self.function == "getitem":
            return np.asarray(value)[
                *(slice(*p) if isinstance(p, tuple) else p for p in self.given)
            ]
        if self.function == "sorted":
            return np.array(sorted(value), int).reshape(len(value), -1)
        if self.function == "segments":
            return _compute_segment_ids(np.asarray(value))
        made = getattr(np, self.function)(np.asarray(value), *self.given, **dict(self.named))
        return int(made) if isinstance(made, np.integer) else made


class EndsDescendError(Exception):
    """The ends of segments, `indptr`, do not ascend: positions may lie in none or in several."""


def _compute_segment_ids(ends: Any) -> Any:
    """Return the segment of each position below the last end. Positions before the first end get a number beyond all segments."""
    count = len(ends) - 1
    lengths = np.diff(ends)
    if count < 0 or ends[0] < 0 or (lengths < 0).any():
        raise EndsDescendError
    return np.repeat(np.arange(-1, count) % (count + 1), np.append(ends[:1], lengths))


ARGUMENTS = ""  # the name of all arguments of a call


@dataclass(frozen=True)
class Computed:
    """A step from the arguments of a call to a whole number that scalars and sizes among them decide: a term of these."""

    term: Term
    parameters: tuple[Parameter, ...]

    def __str__(self) -> str:
        return "count"

    def __call__(self, arguments: Arguments) -> int:
        if any(is_abstract(arguments[p.name]) for p in self.parameters if p.type == REAL):
            raise TensorError(
                "a number decides a size here, and under `jax.jit` it is not known",
                "compute the size outside, and pass it as an int that is static",
            )
        sizes = sizes_of(self.parameters, arguments)
        values = {p.name: float(arguments[p.name]) for p in self.parameters if p.type == REAL}
        return int(evaluate(self.term, Environment(values, sizes)))


@dataclass(frozen=True)
class FromStart:
    """A step from the arguments of a call to an array of integers, each so much more, as indices of an axis: negative ones count
    from its end. Its `size` is affine in the sizes "0", "1", … of these axes, or of integers where a reference has no axis.
    """

    of: Reference
    offset: int
    size: Affine
    axes: tuple[tuple[Reference, int | None], ...]

    def __str__(self) -> str:
        return f"{self.of.word}_from_start"

    def __call__(self, arguments: Arguments) -> Any:
        values = [(reference.value(arguments), axis) for reference, axis in self.axes]
        sizes = {
            str(k): int(value) if axis is None else np.shape(value)[axis]
            for k, (value, axis) in enumerate(values)
        }
        given = self.of.value(arguments)
        entries = given if is_abstract(given) else np.asarray(given, np.int64)
        entries = entries + self.offset
        return entries + self.size.evaluate(sizes) * (entries < 0)


class Surroundings:
    """Where a name's value is looked up: the globals and the closure of one function."""

    def __init__(self, value: Callable[[str], Any]) -> None:
        self.value = value


@dataclass(frozen=True)
class Reference:
    """How to come to a value: by a name in some surroundings, or a parameter's name where these are None, and then by
    attributes, `("X", True)`, and keys, `("X", False)`.
    """

    surroundings: Surroundings | None
    name: str
    steps: tuple[tuple[Any, bool], ...] = ()

    def attribute(self, name: str) -> Reference:
        """Return the reference to an attribute of this value."""
        return Reference(self.surroundings, self.name, (*self.steps, (name, True)))

    def entry(self, key: Any) -> Reference:
        """Return the reference to an entry of this value, by its key."""
        return Reference(self.surroundings, self.name, (*self.steps, (key, False)))

    def value(self, arguments: Arguments) -> Any:
        """Return the value at a call with these arguments."""
        if self.surroundings is not None:
            value = self.surroundings.value(self.name)
        else:
            value = arguments if self.name == ARGUMENTS else arguments[self.name]
        for key, is_attribute in self.steps:
            value = _follow_step(value, key, is_attribute)
        return value

    @cached_property
    def source(self) -> str:
        """The parameter whose argument alone determines this value, by a step that the package itself makes; '' for other
        references.
        """
        key = self.steps[0][0] if self.steps and self.surroundings is None else None
        return self.name if key is AS_FLOATS or isinstance(key, OnHost) else ""

    @property
    def as_floats(self) -> Reference:
        """The reference to this array of integers as floats."""
        return self.entry(AS_FLOATS)

    @property
    def word(self) -> str:
        """A name for the value, like what a user writes: `model_X` for `model.X`."""
        parts = [self.name, *(str(key) for key, _ in self.steps if key is not AS_FLOATS)]
        return re.sub(r"\W+", "_", "_".join(parts)).strip("_") or "outside"


def _follow_step(value: Any, key: Any, is_attribute: bool) -> Any:
    """Return an attribute, an entry, or what a computed step makes of a value."""
    if isinstance(key, OnHost | Computed | FromStart):
        return key(value)
    if key is AS_FLOATS:
        return _as_floats(value if hasattr(value, "astype") else np.asarray(value))
    if isinstance(value, Laid) and value.form.names and not isinstance(key, int):
        return value[value.form.names.index(key)]
    return getattr(value, key) if is_attribute else value[key]


def _as_floats(integers: Any) -> Any:
    """Return integers as floats: float64 for NumPy's, JAX's default type for JAX's. Within `jax.jit` the values are not known.

    Raises:
        TensorError: an integer is too large to be such a float.
    """
    floats = integers.astype(float)
    digits = np.finfo(floats.dtype).nmant + 1
    if 8 * integers.dtype.itemsize > digits and floats.size and not is_abstract(integers):
        values = np.asarray(integers)
        if max(int(values.max()), -int(values.min())) > 2**digits:
            raise TensorError(
                f"an array of integers that the program computes with has one beyond 2**{digits}, which {floats.dtype} does "
                "not hold exactly",
                "subtract what they have in common before the call: `k - k.min()`"
                if digits == FLOAT64_DIGITS
                else "pass them as a NumPy array, and they become float64",
            )
    return floats


class ArrayMet(Exception):  # noqa: N818 - no error
    """The program reads an array from outside: what is traced starts again with it as a parameter."""

    def __init__(
        self, reference: Reference, parameter: Parameter, shape: tuple[int, ...] = ()
    ) -> None:
        super().__init__(reference, parameter)
        self.reference = reference
        self.parameter = parameter
        self.shape = shape


class OutsideObject:
    """A stand-in for an object from outside, whose attributes are from outside, too."""

    def __init__(self, tracer: Any, reference: Reference, value: Any) -> None:
        self.tracer = tracer
        self.reference = reference
        self.value = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = getattr(self.value, name)
        except AttributeError as error:
            raise TensorError(str(error)) from None
        return self.tracer.from_outside(self.reference.attribute(name), value)


class OutsideMethod:
    """A stand-in for a method of an object from outside."""

    def __init__(self, method: Any, owner: OutsideObject) -> None:
        self.method = method
        self.owner = owner

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        return tracer.applied(self.method.__func__, self.owner, *args, **kwargs)


class Record(Laid):
    """A stand-in for a dataclass or a named tuple from outside, whose methods `method_of` knows."""

    method_of: Callable[[Record, Form, str], Any]

    def __new__(
        cls, parts: Sequence[Any], form: Form, method_of: Callable[[Record, Form, str], Any]
    ) -> Record:
        made = super().__new__(cls, parts, form)
        assert isinstance(made, Record)
        made.method_of = method_of
        return made

    def with_parts(self, parts: Iterable[Any]) -> Record:
        """Return a record of the same class with other parts."""
        return Record(tuple(parts), self.form, self.method_of)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("form", "method_of") or name in self.form.names:
            return super().__getattr__(name)
        return self.method_of(self, self.form, name)


def is_data(value: Any) -> bool:
    """Whether a value is an array of NumPy or JAX, or a set of index tuples."""
    if isinstance(value, np.ndarray | type):
        return isinstance(value, np.ndarray)
    if isinstance(value, set | frozenset):
        return bool(value) and all(isinstance(part, tuple) for part in value)
    return hasattr(value, "__array_namespace__") and hasattr(value, "dtype")


def is_object(value: Any) -> bool:
    """Whether a value is an object of a user-defined class; not a number, array, function or module."""
    if isinstance(value, type | ModuleType) or callable(value) or is_data(value):
        return False
    return is_dataclass(value) or (
        hasattr(value, "__dict__") and not type(value).__module__.startswith(("numpy", "jax"))
    )


def is_method(value: Any) -> bool:
    """Whether a value is a method bound to an object; a tensor function may be one, too."""
    return isinstance(value, MethodType) or (
        hasattr(type(value), "__tensor_inline__") and hasattr(value, "__func__")
    )


def is_constant(value: Any) -> bool:
    """Whether a value is opaque to the language, so that only Python uses it, during tracing."""
    if value is None or type(value) in (bool, str, bytes) or isinstance(value, type | ModuleType):
        return True
    return callable(value) and not hasattr(value, "dtype") and not hasattr(value, "__array__")


def has_constants(value: Any) -> bool:
    """Whether an argument is or contains a constant, an integer, a condition or a set."""
    if isinstance(value, tuple):
        return any(is_static_part(part) for part in value)
    if isinstance(value, set | frozenset):  # one of index tuples is a relation
        return not is_data(value)
    return is_constant(value) or (is_object(value) and not is_dataclass(value))


def is_static_part(value: Any) -> bool:
    """Whether a part of an argument is neither a float nor an array of floats."""
    if isinstance(value, tuple):
        return any(map(is_static_part, value))
    if isinstance(value, int | set | frozenset):
        return True
    kind = getattr(getattr(value, "dtype", None), "kind", "f")
    return kind in "biu" or has_constants(value)


def parts_of(value: Any) -> Iterator[tuple[Any, bool, Any]]:
    """Yield the parts of a container or an object: the key, whether it is an attribute's name, and the part."""
    if isinstance(value, Laid) and value.form.names:
        yield from ((x, False, part) for x, part in zip(value.form.names, value, strict=True))
    elif isinstance(value, tuple | list):
        yield from ((k, False, part) for k, part in enumerate(value))
    elif isinstance(value, Mapping):
        yield from ((x, False, part) for x, part in value.items())
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((field.name, True, getattr(value, field.name)) for field in fields(value))


def has_data(value: Any) -> bool:
    """Whether a container has an array in it, or an object that may have one."""
    return (
        is_data(value) or is_object(value) or any(has_data(part) for _, _, part in parts_of(value))
    )


def with_outside(
    parameters: Sequence[Parameter], arguments: Arguments, references: Mapping[str, Reference]
) -> dict[str, Any]:
    """Return the arguments of these parameters, in order; for those from outside, their present values."""
    return {
        p.name: arguments[p.name] if p.name in arguments else references[p.name].value(arguments)
        for p in parameters
    }
