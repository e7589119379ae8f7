"""The common base of tensor functions and derivatives: calls, costs, plans."""

from __future__ import annotations

import copy
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from .calls import Call, PreviousCalls, compile_instance, is_distinguished_by_entries
from .cost.formula import Formula, cost_formula
from .cost.model import Cost
from .debugging import run_in_python
from .frontend import signature
from .frontend.captured_data import Reference, with_outside
from .instance import Instance
from .language.errors import TensorError, as_tensor_error
from .language.pairs import convert_number_list, from_pairs, has_parts, lay_out
from .language.terms import Lambda
from .language.types import Parameter
from .ssa.program import Program

if TYPE_CHECKING:
    from .frontend.helpers import Helper
    from .jax.profile import Profile
    from .jax.tuning import Tuning
    from .lowering.plan import Plan
    from .lowering.sharding import Along


Captured = tuple[Any, ...]  # what a function takes from outside, hashable


class NoDefault:
    """Marks a parameter without a default that follows parameters with one, which Python's signatures do not allow."""

    def __repr__(self) -> str:
        return "<needed>"


NEEDED = NoDefault()


class CalledFunction(ABC):
    """A function of the tensor language, called like the Python function that it was made from.

    Programs and costs are known when types are: at once where every parameter is annotated, otherwise from the first call.
    Source functions and derivatives differ in how they make an instance from types.
    """

    def __init__(self, name: str, parameters: inspect.Signature) -> None:
        self.__name__ = name
        self.__signature__ = parameters
        empty = inspect.Parameter.empty
        self._names = tuple(parameters.parameters)
        self._defaults = tuple(
            NEEDED if p.default is empty else p.default for p in parameters.parameters.values()
        )
        self._annotated = {
            x: signature.declared(x, p.annotation) for x, p in parameters.parameters.items()
        }
        self._before = PreviousCalls()
        self._last: Instance | None = None
        self._shards: Along = ()
        self.last_sizes: dict[str, int] | None = None

    def __copy__(self) -> Self:
        made = object.__new__(type(self))
        made.__dict__ |= self.__dict__
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy with calls of its own; what it was made from does not change."""
        made = copy.copy(self)
        made._before = PreviousCalls()
        return made

    def __repr__(self) -> str:
        return f"<tensor function {self.__name__}{self.__signature__}>"

    @abstractmethod
    def at(self, types: Mapping[str, Parameter]) -> Instance:
        """Return the instance at given parameter types, with sizes named as in these types."""

    @abstractmethod
    def _resolve(self, arguments: Mapping[str, Any] | None) -> Instance:
        """Return the instance for these arguments; for None, at the annotated types."""

    @abstractmethod
    def captured(self, within: frozenset[CalledFunction | Helper] = frozenset()) -> Captured:
        """Return a key of the outer values on which its programs depend, also of tensor functions that it calls.

        Args:
            within: functions that are being examined already, so that recursion ends.
        """

    @abstractmethod
    def references(self) -> Mapping[Reference, str]:
        """Return the outer arrays that its programs read, with the names of their parameters."""

    @abstractmethod
    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        """What a call from another tensor function is, to its tracer."""

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result, by a compiled JAX kernel for the arguments' sizes.

        Takes the parameters in the order in which they are declared, those that a derivative adds
        last. An array of tuples comes back as a tuple of arrays. Raises TensorError where the
        arguments do not fit the types or each other, or a read is out of range.
        """
        try:
            return self._run_cached_kernel(args, kwargs)
        except (TensorError, FloatingPointError):  # which `jax_debug_nans` raises
            raise
        except Exception as error:
            raise as_tensor_error(self.__name__, error) from error

    def _run_cached_kernel(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function; reuse the kernel of an earlier call with equal shapes.

        As `__call__`, without the conversion of unexpected exceptions to TensorError.
        """
        complete = self._lay_out_arguments(self._order_arguments(args, kwargs))
        passed = len(args), *kwargs  # what is not passed is a constant
        outside = self.captured(), *passed
        extended = self._append_outer_arrays(complete)
        known = None if extended is None else self._before.find(extended, outside)
        if known is None:
            call = self._checked(args, kwargs)
            call.warn_of_copies()
            run, arrays = call.compile_kernel(self._shards)
            found = run.on(arrays)
            extended = self._append_outer_arrays(complete)
            outside = self.captured(), *passed  # the call may have met some of it
            if extended is not None:
                names = (*self._names, *self.references().values())
                self._before.store(extended, outside, call, run, names)
            return from_pairs(found, call.instance.layout)
        assert extended is not None
        self._last, self.last_sizes = known.instance, known.sizes
        return from_pairs(known.run(*known.operands(extended)), known.instance.layout)

    def debug(self, *args: Any, **kwargs: Any) -> Any:
        """Run the Python function itself on NumPy copies of the arguments, so that `print` and breakpoints work in it.

        The same holds in the tensor functions that it calls. Then the checks of a call are made: raises TensorError where
        types or
        sizes do not fit, a read is out of range, or the function is a derivative.
        """
        result = run_in_python(self.python, args, kwargs)
        self._checked(args, kwargs)
        return result

    def interpret(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the result with the reference evaluator: slow, directly from the semantics, exact on fractions.

        Arrays are returned as NumPy arrays; an array of tuples as a tuple of arrays.
        """
        return self._checked(args, kwargs).interpret_call()

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """Count the additions, multiplications and calls of `program` exactly for these arguments.

        Only their sizes and relations matter; nothing is computed.
        """
        return self._at(args, kwargs).cost()

    def profile(
        self,
        *args: Any,
        repeats: int = 5,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        **kwargs: Any,
    ) -> Profile:
        """Measure where operations, bytes and time of a call with these arguments go, statement by statement.

        Raises `ProfileCancelledError` once `cancelled()` is true.
        """
        return self._checked(args, kwargs).profile(repeats, progress, cancelled)

    def tune(
        self,
        *args: Any,
        repeats: int = 15,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        **kwargs: Any,
    ) -> Tuning:
        """Time the candidates for a call with these arguments, and use the fastest for similar sizes from now on.

        Later processes use it, too. All candidates give the same up to rounding, and the cost model's choice stays unless
        another is clearly faster. The `str` of the result is a table of the times.

        Raises:
            TensorError: the function is sharded.
            TuningCancelledError: `cancelled()` is true.
        """
        if self._shards:
            message = "a function that is divided among devices is not tuned"
            raise TensorError(message, "tune the function itself")
        found = self._checked(args, kwargs).tune(repeats, progress, cancelled)
        self._before = PreviousCalls()
        return found

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """Return how a call with these arguments would be computed, without computing anything.

        Its `str` has a line per array: bytes, storage, the points that are visited, and the loop or product that makes
        it.
        """
        return self.specialised(*args, **kwargs).plan()

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the call as `_at` does, and check its reads. Raises TensorError where one is out of range or an unexpected
        error occurs.
        """
        try:
            call = self._at(args, kwargs)
            call.check()
        except TensorError:
            raise
        except Exception as error:
            raise as_tensor_error(self.__name__, error) from error
        return call

    def _at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Return the call for these arguments, and remember its types and sizes as the last ones."""
        call = self.specialised(*args, **kwargs)
        self._last, self.last_sizes = call.instance, call.sizes
        return call

    def specialised(self, *args: Any, **kwargs: Any) -> Call:
        """Return the instance for these arguments, the arguments by name, and their sizes; nothing is computed."""
        arguments = self._bind(args, kwargs)
        passed = self.__signature__.bind(*args, **kwargs).arguments.keys()
        left = ((x, value) for x, value in arguments.items() if x not in passed)
        constants = tuple((x, value) for x, value in left if type(value) is float)
        instance = self._resolve(arguments)
        references = dict(instance.checked.outside)
        arguments = with_outside(instance.parameters, arguments, references)
        sizes = signature.sizes_of(instance.parameters, arguments)
        return Call(instance, arguments, sizes, constants)

    def _order_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ...] | None:
        """Return the arguments in parameter order, with defaults, or None where they do not fit: `_bind` reports why.

        This takes about a microsecond.
        """
        n = len(args)
        if not kwargs and n == len(self._names):
            return args
        left = self._names[n:]
        if not kwargs.keys() <= {*left}:
            return None
        rest = [kwargs.get(x, y) for x, y in zip(left, self._defaults[n:], strict=True)]
        return None if any(value is NEEDED for value in rest) else (*args, *rest)

    def _append_outer_arrays(self, complete: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """Append the current outer arrays to the arguments; None where one of them is gone.

        An array made from one argument, whose entries already distinguish calls, is given as None.
        """
        references = self.references()
        if complete is None or not references:
            return complete
        arguments, found = dict(zip(self._names, complete, strict=True)), [*complete]
        try:
            for reference in references:
                made = reference.source and is_distinguished_by_entries(arguments[reference.source])
                found.append(None if made else reference.value(arguments))
        except Exception:  # whatever a property raises
            return None
        return tuple(found)

    def _lay_out_arguments(self, complete: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """Convert lists, dictionaries and the like in the arguments to tuples and arrays."""
        if complete is None or not any(map(has_parts, complete)):
            return complete
        return tuple(map(self.lay_out_argument, self._names, complete))

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter, in the function's layout.

        Raises:
            TensorError: they do not fit the signature.
        """
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TensorError(f"{self.__name__}{self.__signature__}: {error}") from error
        bound.apply_defaults()
        for x, value in bound.arguments.items():
            if value is NEEDED:
                message = f"{self.__name__}{self.__signature__}: missing a required argument: '{x}'"
                raise TensorError(message)
        return {x: self.lay_out_argument(x, value) for x, value in bound.arguments.items()}

    def lay_out_argument(self, parameter: str, value: Any) -> Any:
        """Convert an argument to tuples and arrays; a list is an array if the parameter is declared as one."""
        return lay_out(value) if self._annotated[parameter] is None else convert_number_list(value)

    # Programs

    @property
    def has_types(self) -> bool:
        """Whether its types are known, from a call or from annotations."""
        return self._last is not None

    @property
    def instance(self) -> Instance:
        """The instance at the types of the last call, or of the annotations before any call.

        Raises TensorError where neither gives them.
        """
        if self._last is None:
            self._last = self._resolve(None)
        return self._last

    @property
    def compiled(self) -> int:
        """The number of size combinations for which it is compiled, at the types of the last call."""
        return compile_instance.count(self.instance)

    @property
    def program(self) -> Lambda:
        """The core program."""
        return self.instance.function

    @property
    def ssa(self) -> Program:
        """Its Tensor SSA, simplified."""
        return self.instance.ssa

    @property
    def python(self) -> Callable[..., Any]:
        """The source function in Python. Raises TensorError where there is none."""
        raise TensorError(
            f"`{self.__name__}` is derived, not written in Python", "print `.program` instead"
        )

    @property
    def jax(self) -> Callable[..., Any]:
        """The function for JAX, to compose with `jax.jit`, `jax.vmap` and the like. Its signature shows which parameters are
        static.
        """
        return self

    def sharded(self, index: str, devices: int | None = None) -> Self:
        """Return this function with its sums over one index, and its derivatives', divided among devices.

        Each device gets its shard of the parameters that are read at that index, and the rows of its neighbours that are
        read beyond it, `x[k+1]`. Gradients by other parameters are added up in one all-reduce. With `f.sharded("i",
        2).sharded("j")` the devices form a grid. Calls raise TensorError if an array is read across shards in another
        way.

        Args:
            devices: their number; all of JAX's by default.

        Raises:
            TensorError: this index is divided already.
        """
        if index in dict(self._shards):
            raise TensorError(f"`{index}` is divided already", "name another index")
        made = copy.copy(self)
        made._shards, made._before = (*self._shards, (index, devices)), PreviousCalls()
        return made

    def cost_formula(self) -> Formula:
        """Return the total number of operations as a formula in the sizes, each at least 1."""
        return cost_formula(self.instance.function)
