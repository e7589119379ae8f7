"""Tensor functions: what is written in Python and its derivatives have in common, and the
derivatives.
"""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import calls
from .cost.formula import Formula, cost_formula
from .cost.model import Cost, cost, interface
from .derivative import transforms
from .derivative.transforms import Derivative
from .frontend import signature
from .frontend.tracing.traced import Traced
from .instance import Instance
from .language.errors import TensorError
from .language.predicates import fresh
from .language.terms import Lambda
from .language.types import REAL, Parameter
from .ssa.convert import to_term
from .ssa.program import Program

if TYPE_CHECKING:
    from .jax.profile import Profile
    from .lowering.plan import Plan


Captured = tuple[Any, ...]  # what a function takes from outside, hashable


class TensorFunction(ABC):
    """A function of the tensor language, called like the Python function that it was.

    Programs and costs are known as soon as types are: at once where every parameter is
    annotated, from the first call otherwise.
    """

    def __init__(self, name: str, parameters: inspect.Signature) -> None:
        self.__name__ = name
        self.__signature__ = parameters
        self._last: Instance | None = None
        self._shards: tuple[str, int | None] | None = None
        self.last_sizes: dict[str, int] | None = None

    def __repr__(self) -> str:
        return f"<tensor function {self.__name__}{self.__signature__}>"

    @abstractmethod
    def at(self, types: Mapping[str, Parameter]) -> Instance:
        """The instance at given parameter types, sizes named as they are there."""

    @abstractmethod
    def _resolve(self, arguments: Mapping[str, Any] | None) -> Instance:
        """The instance for these arguments; for None, at the annotated types."""

    @abstractmethod
    def captured(self, within: frozenset[TensorFunction] = frozenset()) -> Captured:
        """The values from outside that its programs depend on, its own and those of the tensor
        functions that it calls, but for those that it is called `within`.
        """

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
        instance, arguments, sizes = self._checked(args, kwargs)
        return calls.run(instance, arguments, sizes, self._shards)

    def interpret(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the reference evaluator: slow, straight from the semantics, exact on
        fractions.

        Arrays come as NumPy arrays; an array of tuples comes as a tuple of arrays.
        """
        instance, arguments, sizes = self._checked(args, kwargs)
        return calls.interpreted(instance, arguments, sizes)

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """The exact operation counts of `program` at these arguments, of which only sizes and
        relations matter.
        """
        instance, arguments, sizes = self._at(args, kwargs)
        env = signature.environment(instance.parameters, arguments, sizes)
        return cost(instance.function.body, env) + Cost(
            interface=interface(instance.function, sizes)
        )

    def profile(
        self,
        *args: Any,
        repeats: int = 5,
        progress: Callable[[int, int], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
        **kwargs: Any,
    ) -> Profile:
        """Where operations, bytes and time of a call with these arguments go, statement by
        statement. Raises `ProfileCancelledError` once `cancelled()` is true.
        """
        from .jax.profile import profile

        instance, arguments, sizes = self._checked(args, kwargs)
        return profile(instance, sizes, arguments, repeats, progress, cancelled)

    def plan(self, *args: Any, **kwargs: Any) -> Plan:
        """How a call with these arguments is computed, which says why it is as fast as it is: its
        `str` has a line an array, with its bytes, how it is stored, the points that are visited and
        the loop or product that makes it. Nothing is computed.
        """
        from .jax.backend import planned

        instance, arguments, sizes = self.specialised(*args, **kwargs)
        return planned(instance, sizes, tuple(arguments.values()))

    def _checked(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Instance, dict[str, Any], dict[str, int]]:
        """As `_at`, where every read is in range; TensorError where one is not."""
        instance, arguments, sizes = self._at(args, kwargs)
        calls.check(instance, arguments, sizes)
        return instance, arguments, sizes

    def _at(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Instance, dict[str, Any], dict[str, int]]:
        """The instance for these arguments, the arguments by name, and their sizes."""
        instance, arguments, sizes = self.specialised(*args, **kwargs)
        self._last, self.last_sizes = instance, sizes
        return instance, arguments, sizes

    def specialised(
        self, *args: Any, **kwargs: Any
    ) -> tuple[Instance, dict[str, Any], dict[str, int]]:
        """The instance for these arguments, the arguments by name, and their sizes; nothing is
        computed.
        """
        arguments = self._bind(args, kwargs)
        instance = self._resolve(arguments)
        return instance, arguments, signature.sizes_of(instance.parameters, arguments)

    def _bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        try:
            bound = self.__signature__.bind(*args, **kwargs)
        except TypeError as error:
            raise TensorError(f"{self.__name__}{self.__signature__}: {error}") from error
        bound.apply_defaults()
        return dict(bound.arguments)

    # Programs

    @property
    def has_types(self) -> bool:
        """Whether a call has given it types; annotations may, too."""
        return self._last is not None

    @property
    def instance(self) -> Instance:
        """At the types of the last call, or of the annotations before any call. Raises TensorError
        where neither gives them.
        """
        if self._last is None:
            self._last = self._resolve(None)
        return self._last

    @property
    def compiled(self) -> int:
        """For how many sizes it is compiled at the types of the last call."""
        return calls.compiled.count(self.instance)

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
        """The Python function as written. Raises TensorError where there is none."""
        raise TensorError(
            f"`{self.__name__}` is derived, not written in Python", "print `.program` instead"
        )

    @property
    def jax(self) -> Callable[..., Any]:
        """The function as JAX sees it, to compose with `jax.jit`, `jax.vmap` and the like."""
        return self.__call__

    def sharded(self, index: str, devices: int | None = None) -> TensorFunction:
        """The same function, its sums over one index divided among JAX's devices, and so are its
        derivatives'.

        Each device has its share of the parameters that are read at that index. A gradient by
        the others is added up in one all-reduce. Calls raise TensorError where the devices
        (`devices` of them, all by default) cannot share the index's values equally.
        """
        made = copy.copy(self)
        made._shards = (index, devices)
        return made

    def cost_formula(self) -> Formula:
        """The total cost as a formula in the sizes, each at least 1."""
        return cost_formula(self.instance.function)

    # Derivatives

    def grad(self, *names: str) -> DerivedFunction:
        """The gradient of a scalar function, a function of the same parameters (6.20–6.49).

        With one name it has that parameter's shape, with several it is a tuple in their order.
        Raises TensorError where a name is no parameter or no real one, or, once types are known,
        the result is no scalar.
        """
        return self._gradient("grad", names, value=False)

    def value_and_grad(self, *names: str) -> DerivedFunction:
        """`(value, gradient)`, sharing work; otherwise as `grad`."""
        return self._gradient("value_and_grad", names, value=True)

    def vjp(self, *names: str) -> DerivedFunction:
        """The adjoint derivative (6.20–6.49): takes the parameters, then the cotangent `dy`, of the
        result's shape; gives the cotangents of the named parameters, as `grad` does.
        """
        return self._derived("vjp", names, transforms.pullback, ("dy",))

    def jvp(self, *names: str) -> DerivedFunction:
        """The forward derivative (6.1–6.16): takes the parameters, then a differential `dx` of each
        named one, of its shape and in the order of the names; gives that of the result.
        """
        return self._derived("jvp", names, transforms.pushforward, tuple(f"d{x}" for x in names))

    def hessian(self, name: str) -> DerivedFunction:
        """The second derivative, materialised: for x with dimensions d, an array of dimensions
        d + d. Raises TensorError where x is a tuple.
        """

        def derive(base: Instance) -> Derivative:
            return transforms.jacobian(base, name)

        return DerivedFunction(f"hessian_{self.__name__}", self.grad(name), derive)

    def check_names(self, names: tuple[str, ...]) -> None:
        """Raise TensorError unless these are parameters, one or more, to differentiate by."""
        if not names:
            raise TensorError("differentiate by what?", f"name a parameter: {self.__signature__}")
        for name in names:
            if name not in self.__signature__.parameters:
                message = f"`{self.__name__}` has no parameter `{name}`"
                raise TensorError(message, f"it has {self.__signature__}")

    def _gradient(self, kind: str, names: tuple[str, ...], *, value: bool) -> DerivedFunction:
        def derive(base: Instance, wrt: tuple[str, ...]) -> Derivative:
            if base.type != REAL:
                message = f"`{self.__name__}` returns {base.type}, and only a scalar has a gradient"
                raise TensorError(message, "use `.vjp` or `.jvp`")
            return transforms.gradient(base, wrt, value=value)

        return self._derived(kind, names, derive)

    def _derived(
        self,
        kind: str,
        names: tuple[str, ...],
        derive: Callable[[Instance, tuple[str, ...]], Derivative],
        extra: tuple[str, ...] = (),
    ) -> DerivedFunction:
        self.check_names(names)
        made = f"{kind}_{self.__name__}"
        return DerivedFunction(made, self, lambda base: derive(base, names), extra)


class DerivedFunction(TensorFunction):
    """A derivative: its instances are made from those of the function that it is the derivative
    of, whose parameters come first.
    """

    def __init__(
        self,
        name: str,
        base: TensorFunction,
        derive: Callable[[Instance], Derivative],
        extra: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, _extended(base.__signature__, extra))
        self._shards = base._shards
        self.base = base
        self.derive = derive
        self.derived_from = functools.cache(self._from)

    def _from(self, base: Instance) -> Instance:
        """The instance that belongs to an instance of the base."""
        derived = self.derive(base)
        parameters = (*base.parameters, *derived.extra)
        body = to_term(derived.program)
        function = Lambda("arg", tuple((p.name, p.type) for p in parameters), body)
        traced = Traced(function, derived.layout, {})
        return Instance(parameters, traced, base.checked, derived.program)

    def at(self, types: Mapping[str, Parameter]) -> Instance:
        return self.derived_from(
            self.base.at({x: types[x] for x in self.base.__signature__.parameters})
        )

    def captured(self, within: frozenset[TensorFunction] = frozenset()) -> Captured:
        return self.base.captured(within)

    def _resolve(self, arguments: Mapping[str, Any] | None) -> Instance:
        if arguments is None:
            return self.derived_from(self.base.instance)
        base = self.base._resolve(arguments)
        made = self.derived_from(base)
        for x, type_, _ in made.parameters[len(base.parameters) :]:
            signature.matches(x, type_, arguments[x])
        return made

    def __tensor_inline__(self, tracer: Any, args: Any, kwargs: Any) -> Any:
        arguments = self._bind(args, kwargs)
        types = {x: tracer.parameter(x, value) for x, value in arguments.items()}
        return tracer.apply(self.at(types).traced, arguments)


def _extended(signature_: inspect.Signature, extra: tuple[str, ...]) -> inspect.Signature:
    """The signature with more parameters, none of them optional."""
    if not extra:
        return signature_
    made = [p.replace(default=inspect.Parameter.empty) for p in signature_.parameters.values()]
    for wanted in extra:
        name = fresh(wanted, {p.name for p in made})
        made.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD))
    return inspect.Signature(made)
