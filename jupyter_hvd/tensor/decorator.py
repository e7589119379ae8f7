"""`@tensor`: a Python function as a program of the tensor language."""

from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pickle import PicklingError
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from .called_function import CalledFunction, Captured
from .calls import PreviousCalls
from .debugging import runs_in_python
from .frontend import signature
from .frontend.bounds import counted_from_the_end
from .frontend.captured_data import (
    EndsDescendError,
    Reference,
    has_constants,
    is_data,
    with_outside,
)
from .frontend.helpers import Helper, helper_of
from .frontend.lambdas import LAMBDA
from .frontend.trace import Context, Undecided, tensors, trace, trace_named
from .instance import Instance
from .language.errors import Place, TensorError
from .language.types import Array, Parameter, Real, Static
from .method import TensorMethod
from .pickling import (
    Source,
    compile_source,
    fill,
    is_importable,
    read_source,
    values_in_body,
    values_in_signature,
)
from .tensor_function import TensorFunction

if TYPE_CHECKING:
    from .frontend.rewrite import Rewritten
    from .lowering.sharding import Along

DEPTH = 4  # of parts in parts that are looked at
IMMUTABLE_TYPES = frozenset((NoneType, ModuleType, bool, int, float, complex, str))


@overload
def tensor(function: MethodType) -> TensorMethod: ...  # type: ignore[overload-overlap]
@overload
def tensor(function: Callable[..., Any]) -> TensorFunction: ...
def tensor(function: Callable[..., Any]) -> TensorFunction | TensorMethod:
    """Convert a Python function to a tensor function.

    Raises:
        TensorError: the function has syntax that the language lacks; errors that depend on types come later.
    """
    from .frontend.rewrite import rewrite

    if isinstance(function, MethodType):
        return TensorMethod(tensor(function.__func__), function.__self__)
    rewritten = rewrite(function)
    warn_of_debugging(function.__name__, rewritten.debugging)
    return WrittenFunction(function, rewritten)


def warn_of_debugging(name: str, positions: Sequence[Place]) -> None:
    """Warn, at the first statement that prints, that compiled calls do not run it."""
    for place in positions[:1]:
        message = f"compiled calls of `{name}` leave this out; `{name}.debug(…)` runs it"
        warnings.warn_explicit(message, UserWarning, place.filename, place.line)


@dataclass(frozen=True)
class Named:
    """An instance, and the types for which it was traced: those of its tensor parameters, and of the others."""

    parameters: tuple[Parameter, ...]
    instance: Instance


def _callable_by_name(function: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, with positional-only parameters as ordinary ones: derivatives name them."""
    declared = inspect.signature(function)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [
        x.replace(kind=kind) if x.kind is x.POSITIONAL_ONLY else x
        for x in declared.parameters.values()
    ]
    return declared.replace(parameters=parameters)


class WrittenFunction(TensorFunction):
    """A tensor function written in Python."""

    def __init__(self, function: Callable[..., Any], rewritten: Rewritten) -> None:
        super().__init__(function.__name__, _callable_by_name(function))
        functools.update_wrapper(self, function)
        self._python = function
        self._rewritten = self._body = rewritten
        self._rule: Rewritten | None = None  # the partial derivatives that a user has written
        self._checks_rule = False
        self._checked_rule: set[Instance] = set()
        self._traced = functools.lru_cache(maxsize=256)(self._trace)
        self._named = functools.lru_cache(maxsize=256)(self._trace_named)
        self._outside: dict[Reference, str] = {}  # parameters that arrays from outside are
        self._methods: dict[Callable[..., Any], None] = {}  # of its arguments, that it calls
        self._plain_arguments: Mapping[
            str, Any
        ] = {}  # what is given now for parameters that are no tensors
        # Index arrays that count from the end now, beside those of negative arguments.
        self._from_end: frozenset[str] = frozenset()
        self._ends_ascend = True  # of the segments that integers are the ends of, now
        self._last_captured: tuple[Captured, Captured] | None = (
            None  # values from outside, and their keys
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if runs_in_python():
            return self._python(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def __reduce__(self) -> Any:
        if is_importable(self):
            return self._python.__qualname__
        function = self._python
        assert isinstance(function, FunctionType)
        if self._rule is not None:
            raise PicklingError("a function with a derivative of its own is pickled by its module")
        if function.__code__.co_name == LAMBDA:
            raise PicklingError("a tensor function that is a lambda cannot be pickled: use `def`")
        given = read_source(function), values_in_signature(function), self._shards
        return _unpickle_function, given, values_in_body(function), None, None, _unpickle_globals

    def derivative(self, rule: Callable[..., Any], *, check: bool = True) -> Callable[..., Any]:
        """Set the function's partial derivatives to what `rule`, a function of the same parameters, returns.

        `rule` returns an array, or a tuple of one for each parameter of floats. Each has the result's dimensions and then
        the parameter's; or, where each entry of the result depends on one entry, their common shape. Inside `rule`, calls
        of the function mean its body. The first call of a derivative for its types compares both derivatives, and raises
        TensorError if they differ, unless `check=False`. Returns `rule`, so that it works as a decorator.
        """
        from .frontend.own_derivatives import with_own_derivative
        from .frontend.rewrite import rewrite

        self._rule, self._checks_rule = rewrite(rule), check
        self._rewritten = with_own_derivative(
            self.__name__, self._body, self._rule, self.__signature__, rule
        )
        self._traced.cache_clear()
        self._named.cache_clear()
        self._before, self._last, self._made, self._last_captured = PreviousCalls(), None, {}, None
        return rule

    def check_rule(self, arguments: Mapping[str, Any]) -> None:
        """Compare a user-defined derivative with the body's along one direction. Raises TensorError where they differ."""
        if self._rule is None or not self._checks_rule:
            return
        call = self.specialised(**arguments)
        given = call.instance.parameters
        if call.instance in self._checked_rule or any(
            signature.is_abstract(arguments[x]) for x in arguments
        ):
            return
        self._checked_rule.add(call.instance)  # before derivatives are called here
        real = [p.name for p in given if isinstance(p.type, Real | Array) and p.name in arguments]
        drawn = np.random.default_rng(0)
        along = [drawn.normal(size=np.shape(arguments[x])) for x in real]
        dtypes = [np.asarray(arguments[x]).dtype for x in real]
        along = [d.astype(t) if t.kind == "f" else d for d, t in zip(along, dtypes, strict=True)]
        values = [arguments[x] for x in self.__signature__.parameters]
        body = WrittenFunction(self._python, self._body)
        own, expected = (np.asarray(f.jvp(*real)(*values, *along)) for f in (self, body))
        tolerance = float(np.finfo(expected.dtype).eps) ** 0.5
        known = np.isfinite(expected)  # elsewhere the body's formula loses its digits
        most = np.max(np.abs(expected), initial=0.0, where=known)
        differs = known & ~np.isclose(own, expected, rtol=tolerance, atol=tolerance * most)
        if differs.any():
            self._checked_rule.discard(call.instance)
            at = tuple(map(int, np.argwhere(differs)[0]))
            where = f" at {list(at)}" if at else ""
            raise TensorError(
                f"the derivative that is written for `{self.__name__}` gives {own[at]:.6g}{where} along a random direction, "
                f"and that of the function itself {expected[at]:.6g}",
                f"correct it, or enter it by `{self.__name__}.derivative(…, check=False)`",
            )

    @property
    def python(self) -> Callable[..., Any]:
        """The Python function as written."""
        return self._python

    def at(self, types: Mapping[str, Parameter]) -> Instance:
        """Trace the function at these types; cached."""
        shapes = tuple(map(_read_outer_shape, self._outside))
        return self._traced(tuple(types.values()), (*self.captured(), shapes))

    def _trace(self, types: tuple[Parameter, ...], _captured: Captured) -> Instance:
        """Trace the function at these types."""
        own, traced = trace(self.__name__, self._rewritten, types, self._context)
        return Instance(own, traced, traced)

    @property
    def _context(self) -> Context:
        """Return what tracing depends on besides types: values from outside, lists, negative indices."""
        lists = frozenset(
            x for x, value in self._plain_arguments.items() if self._is_list(x, value)
        )
        signed = frozenset(
            x
            for x, value in self._plain_arguments.items()
            if signature.may_count_from_the_end(value)
        )
        signed |= self._from_end
        return Context(
            self._plain_arguments, self._outside, lists, signed, self._methods, self._ends_ascend
        )

    def _trace_named(self, types: tuple[Parameter, ...], _captured: Captured) -> Named | Undecided:
        """Trace the function with a name for each size; `Undecided` if some must be equal or are constants."""
        found = trace_named(self.__name__, self._rewritten, types, self._context)
        if isinstance(found, Undecided):
            return found
        types, traced = found
        return Named(types, Instance(tensors(types), traced, traced))

    def _resolve(self, arguments: Mapping[str, Any] | None) -> Instance:
        """Return the instance for these arguments, or for the annotated types if None."""
        self._plain_arguments = arguments or {}
        try:
            return self._find_instance(arguments)
        finally:
            self._plain_arguments = {}  # which keeps no array alive
            self._from_end, self._ends_ascend = frozenset(), True

    def _find_instance(self, arguments: Mapping[str, Any] | None) -> Instance:
        """Return the instance for these arguments: with the fewest equalities between sizes under which it traces."""
        types = tuple(self._parameter(x, arguments) for x in self._annotated)
        lists = [x for x, value in (arguments or {}).items() if self._is_list(x, value)]
        signed = [
            x for x, value in (arguments or {}).items() if signature.may_count_from_the_end(value)
        ]
        captured = (*self.captured(), *lists, "", *signed)
        found, refused = self._first_named(types, captured, arguments), None
        while True:
            sizes = None
            if arguments is not None:
                own = tensors(found.parameters)
                references = {name: reference for reference, name in self._outside.items()}
                try:
                    given = with_outside(own, arguments, references)
                except EndsDescendError:
                    self._ends_ascend = False
                    captured = (*captured, "", "")
                    found = self._first_named(types, captured, arguments)
                    continue
                sizes = signature.sizes_of(own, given)
            if isinstance(found, Named):
                if sizes is None:
                    return found.instance
                traced = found.instance.traced
                if (name := traced.cut_off(sizes)) is None:
                    found_now = counted_from_the_end(traced, own, given, sizes)
                    if found_now <= self._from_end:
                        return found.instance
                    self._from_end |= found_now
                    captured = (*captured, "", *sorted(found_now))
                    found = self._first_named(types, captured, arguments)
                    continue
                found = Undecided.of(found.parameters, name)
            refused = refused or found.met.refused
            try:
                found = self._named(found.decided(sizes), captured)
            except TensorError as error:
                raise refused or error from None

    def _first_named(
        self,
        types: tuple[Parameter, ...],
        captured: Captured,
        arguments: Mapping[str, Any] | None,
    ) -> Named | Undecided:
        """Trace with a name for each size, as `_named`; explain a failure that an integer traced by JAX causes."""
        try:
            return self._named(types, captured)
        except TensorError as error:
            if name := signature.unknown_integer(arguments or {}):
                message = f"`{name}` is an integer that JAX traces, and here: {error.message}"
                raise TensorError(message, signature.static(name), error.place) from None
            raise

    def _is_list(self, parameter: str, value: Any) -> bool:
        """Whether an argument of this function is a list, of which `+` and `*` are Python's."""
        is_own = parameter in self._annotated  # and no tangent, which a derivative takes besides
        return isinstance(value, list) and is_own and self._annotated[parameter] is None

    def references(self) -> Mapping[Reference, str]:
        """Return the values from outside that the function reads, with their parameters' names."""
        return self._outside

    def captured(self, within: frozenset[CalledFunction | Helper] = frozenset()) -> Captured:
        """Return a key of the values from outside on which the traced program depends.

        Args:
            within: functions whose keys are being computed; they are left out.
        """
        if self in within:
            return ()
        values = (*self._rewritten.captured(), *self._methods)
        seen = self._last_captured
        if (
            seen is not None
            and len(values) == len(seen[0])
            and all(map(operator.is_, values, seen[0]))
        ):
            return seen[1]  # in a microsecond
        found = tuple(_dependency_key(value, within | {self}) for value in values)
        if all(map(_is_same_by_identity, values)):
            self._last_captured = values, found
        return found

    def _parameter(self, x: str, arguments: Mapping[str, Any] | None) -> Parameter:
        """Return a parameter with its type: the annotated one, else that of its argument.

        Raises:
            TensorError: there is no annotation and there are no arguments, or they do not fit.
        """
        type_ = self._annotated[x]
        if arguments is None:
            if type_ is None:
                raise TensorError(
                    f"the type of `{x}` is not known yet",
                    f'annotate it, `{x}: Float[Array, "n"]`, or call `{self.__name__}` once',
                )
            return Parameter(x, type_, None)
        if type_ is None and has_constants(arguments[x]):
            return Parameter(x, Static(_dependency_key(arguments[x], frozenset())), None)
        if type_ is None:
            return Parameter(x, *signature.observed(x, arguments[x]))
        return Parameter(x, signature.adapt(x, type_, arguments[x]), None)

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        bound = inspect.BoundArguments(self.__signature__, OrderedDict(self._bind(args, kwargs)))
        in_rule = any(self._rule is one for one in tracer.stack if one is not None)
        rewritten = self._body if in_rule else self._rewritten
        return tracer.no_list(tracer.inline(self.__name__, rewritten, bound))


def _read_outer_shape(reference: Reference) -> tuple[int, ...]:
    """Return the shape of an outer array; None where the arguments of a call decide it."""
    if reference.surroundings is None:
        return ()
    with suppress(EndsDescendError):
        return getattr(reference.value({}), "shape", ())
    return ()


def _unpickle_function(
    source: Source, outer_values: dict[str, Any], shards: Along
) -> TensorFunction:
    """Create a pickled tensor function from its source, and the outer values of its signature."""
    made = tensor(compile_source(source, outer_values))
    made._shards = shards
    return made


def _unpickle_globals(function: WrittenFunction, values: dict[str, Any]) -> None:
    """Set the outer values that a pickled function uses."""
    fill(function.python, values)


def _dependency_key(value: Any, within: frozenset[CalledFunction | Helper]) -> Any:
    """Return a key of what a traced program depends on in a value from outside."""
    if isinstance(value, CalledFunction):
        return value, value.captured(within)
    if isinstance(value, MethodType):
        return _dependency_key(value.__func__, within), _snapshot_contents(value.__self__, DEPTH)
    if isinstance(value, functools.partial):
        given = _snapshot_contents(value.args, DEPTH), _snapshot_contents(value.keywords, DEPTH)
        return functools.partial, _dependency_key(value.func, within), given
    helper = helper_of(value)
    if helper is not None:
        inner = within | {helper}
        outside = () if helper in within else helper.captured()
        return value, tuple(_dependency_key(one, inner) for one in outside)
    return _snapshot_contents(value, DEPTH)


def _is_same_by_identity(value: Any) -> bool:
    """Whether a value is immutable, so that the same object always has the same contents."""
    if isinstance(value, CalledFunction) or helper_of(value) is not None:
        return False
    if isinstance(value, MethodType | functools.partial):
        return False
    return type(value) in IMMUTABLE_TYPES or callable(value) or _is_array(value)


def _is_array(value: Any) -> bool:
    """Whether a value from outside is array data."""
    return is_data(value) and not isinstance(value, set | frozenset)


def _snapshot_contents(value: Any, depth: int) -> Any:
    """Return the contents of a value. A list, dictionary or user-defined object may have other contents at the next call."""
    kind = type(value)
    if kind in IMMUTABLE_TYPES:
        return kind, value
    if is_data(value):  # a parameter, of which only the type counts
        with suppress(TensorError):  # which the program gets where it reads it
            return kind, signature.observed("x", value)
    if isinstance(value, set | frozenset):
        return kind, frozenset(value)
    if depth and isinstance(value, Mapping):
        return kind, tuple((x, _snapshot_contents(part, depth - 1)) for x, part in value.items())
    if depth and isinstance(value, list | tuple):
        return kind, tuple(_snapshot_contents(part, depth - 1) for part in value)
    if depth and hasattr(value, "__dict__") and not callable(value):
        return kind, id(value), _snapshot_contents(vars(value), depth - 1)
    try:
        hash(value)
    except TypeError:
        return kind, id(value)
    return kind, value
