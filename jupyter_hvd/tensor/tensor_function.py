"""Tensor functions and their derivatives, which are tensor functions."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Hashable, Mapping
from math import prod
from typing import Any, Literal, Self, TypeVar, overload

from .called_function import NEEDED, CalledFunction, Captured
from .calls import Call, PreviousCalls
from .certificate import Certificate, JacobianCertificate, certify, certify_jacobian
from .cost.patterns import Sparsity
from .derivative import transforms
from .derivative.reverse import Checkpoint
from .derivative.tangents import dense_jacobian
from .derivative.transforms import Derivative, Differentiable
from .frontend import signature
from .frontend.captured_data import Reference
from .frontend.helpers import Helper
from .frontend.tracing.trace_result import Traced
from .instance import Instance, Primal
from .language.depth import deep_recursion
from .language.errors import TensorError
from .language.predicates import fresh
from .language.terms import Lambda
from .language.types import REAL, Parameter, Product, dimensions
from .method import TensorMethod
from .parameter_paths import ParameterPath, derivative_by, parse_path
from .sparse_jacobian import (
    NO_ROOM,
    Format,
    SparseFormat,
    SparseJacobian,
    call_derivative_method,
    check_format,
    check_room,
)
from .ssa.convert import to_term
from .tensorflow_op import TensorFlowOp

Made = TypeVar("Made")
#: A parameter to differentiate by: its name, its position, or the path to a part of it, `params.w`.
Wrt = str | int


class TensorFunction(CalledFunction):
    """A tensor function: what it is when it is called, and its derivatives."""

    _tf: TensorFlowOp | None = None

    def __init__(self, name: str, parameters: inspect.Signature) -> None:
        super().__init__(name, parameters)
        self._made: dict[Hashable, Any] = {}

    def __get__(self, instance: object | None, _owner: type | None = None) -> Any:
        """Itself, or what it is as a method of an object."""
        return self if instance is None else TensorMethod(self, instance)

    def derivative(self, rule: Callable[..., Any], *, check: bool = True) -> Callable[..., Any]:
        """Refuse a derivative rule: only functions written in Python can have one.

        Raises:
            TensorError: always.
        """
        message = (
            f"`{self.__name__}` is derived, and has its derivative from what it is derived from"
        )
        raise TensorError(message, "give that function one")

    def check_rule(self, arguments: Mapping[str, Any]) -> None:
        """Raise TensorError where a user has written another derivative than that of the function."""

    def grad(
        self, *names: Wrt, has_aux: bool = False, checkpoint: Checkpoint = False
    ) -> DerivedFunction:
        """Return the gradient of a scalar function, as a function of the same parameters (6.20–6.49).

        With one name the gradient has that parameter's shape; with several it is a tuple in their order.

        Args:
            names: parameters; positions, as in `jax.grad(f, argnums=0)`; or parts such as `params.w`, `params["w"]`,
                `layers[0].b`.
            has_aux: the function returns `(scalar, aux)`, and the gradient returns `(gradient, aux)`, as in JAX.
            checkpoint: a loop that carries values stores what its iterations compute. With True, it stores only what it
                carries, and computes each iteration once more, the last first. With "blocks", it stores that of about √T
                of
                T iterations, and computes the others once more (docs/recurrences.md).

        Raises:
            TensorError: a name is no real parameter or part, or the result is no scalar (once types are known).
        """
        return self._gradient("grad", names, has_aux=has_aux, checkpoint=checkpoint)

    def value_and_grad(
        self, *names: Wrt, has_aux: bool = False, checkpoint: Checkpoint = False
    ) -> DerivedFunction:
        """Return a function that returns `(value, gradient)`, sharing work; otherwise as `grad`.

        With `has_aux` it returns `((value, aux), gradient)`.
        """
        return self._gradient("value_and_grad", names, has_aux=has_aux, checkpoint=checkpoint)

    def vjp(self, *names: Wrt, checkpoint: Checkpoint = False) -> DerivedFunction:
        """Return the adjoint derivative (6.20–6.49), for results of any shape.

        It takes the parameters, then the cotangent `dy`, of the result's shape, and returns the cotangents of the named
        parameters, as `grad` does.
        """
        _check_checkpoint(checkpoint)
        derive = functools.partial(transforms.pullback, checkpoint=checkpoint)
        return self._make_derivative("vjp", names, derive, ("dy",), checkpoint=checkpoint)

    def jvp(self, *names: Wrt) -> DerivedFunction:
        """Return the forward derivative (6.1–6.16).

        It takes the parameters, then a tangent `dx` for each named one, in the order of the names, and returns the
        tangent of the result.
        """
        known = self.check_names(names)
        extra = tuple(f"d{_path(x).word}" for x in known)
        return self._make_derivative("jvp", known, transforms.pushforward, extra)

    @overload
    def jacobian(self, *names: Wrt, format: Literal["dense"]) -> DerivedFunction: ...
    @overload
    def jacobian(self, *names: Wrt, format: SparseFormat = "csr") -> SparseJacobian: ...
    def jacobian(self, *names: Wrt, format: Format = "csr") -> SparseJacobian | DerivedFunction:  # noqa: A002
        """Return the Jacobian by one parameter, as a sparse matrix by default (docs/jacobians.md).

        It has a row for each entry of the result and a column for each entry of the parameter. With "dense" it is an
        array of the result's dimensions and then the parameter's.

        Raises:
            TensorError: result or parameter is a tuple, or not exactly one parameter is named.
        """
        known = self.check_names(names)
        if len(known) > 1:
            raise TensorError("a Jacobian is by one parameter", "take one for each of them")
        return self._jacobian("jacobian", known, known[0], format)

    @overload
    def hessian(self, *names: Wrt, format: Literal["dense"] = "dense") -> DerivedFunction: ...
    @overload
    def hessian(self, *names: Wrt, format: SparseFormat) -> SparseJacobian: ...
    def hessian(self, *names: Wrt, format: Format = "dense") -> SparseJacobian | DerivedFunction:  # noqa: A002
        """Return the second derivative of a scalar function by one parameter x, or by x and then y.

        With "dense" it is an array of x's dimensions and then y's; else as `jacobian` of the gradient by x.

        Raises:
            TensorError: x or y is a tuple.
        """
        known = self.check_names(names)
        if len(known) > 2:
            raise TensorError("a Hessian is by one parameter or two", "take it block by block")
        return self.grad(known[0])._jacobian("hessian", known, known[-1], format, owner=self)

    def sparsity(self, *names: Wrt) -> Sparsity:
        """Return where the Jacobian by one parameter, or the Hessian by two, may be nonzero.

        The result is a formula, with the number of entries as another one.
        """
        made = self.jacobian(*names) if len(names) == 1 else self.hessian(*names, format="csr")
        return made.sparsity

    def _jacobian(
        self,
        kind: str,
        names: tuple[str, ...],
        wrt: str,
        format: Format,  # noqa: A002
        owner: TensorFunction | None = None,
    ) -> SparseJacobian | DerivedFunction:
        """Return the Jacobian in a format; created once.

        Args:
            kind, names: the method that asked for it, and its arguments.
            wrt: the parameter.
            owner: the function that has this method, if it is not this one.
        """
        check_format(format)
        make = functools.partial(self._new_jacobian, kind, names, wrt, format, owner or self)
        return self._make_once((kind, names, format), make)

    def _new_jacobian(
        self,
        kind: str,
        names: tuple[str, ...],
        wrt: str,
        format: Format,  # noqa: A002
        owner: TensorFunction,
    ) -> SparseJacobian | DerivedFunction:
        """Create a Jacobian; arguments as for `_jacobian`."""
        name = f"{kind}_{owner.__name__}"
        symmetric = kind == "hessian" and len({*names}) == 1

        def derive(base: Differentiable, wrt: tuple[str, ...]) -> Derivative:
            return dense_jacobian(base, name=wrt[0], symmetric=symmetric)

        dense = DenseJacobian(name, self, self._differentiate_by_paths((wrt,), derive))
        dense.made_by = owner, kind, names, {"format": "dense"}
        if format == "dense":
            return dense
        if _path(wrt).keys:
            message = f"a sparse Jacobian is by a full parameter, and `{wrt}` is a part of one"
            raise TensorError(message, 'make it dense: `format="dense"`')
        made_by = owner, kind, names, {"format": format}
        return SparseJacobian(name, self, wrt, format, dense, made_by, symmetric)

    def certify(
        self, *names: str, sizes: Mapping[str, int] | None = None, **given: Any
    ) -> Certificate:
        """Measure in a few seconds what value and gradient cost: by formula, by theorem, over growing sizes.

        Args:
            sizes: where growth begins; those of the last call by default.
            given: relations and index arrays by name; their sizes stay.

        Raises:
            TensorError: sizes or data are missing, or there is no such gradient.
        """
        return certify(self, names, sizes, given)

    def certify_jacobian(
        self, *names: Wrt, sizes: Mapping[str, int] | None = None, **given: Any
    ) -> JacobianCertificate:
        """Measure what the sparse Jacobian by one parameter, or the Hessian by two, costs.

        That is the number of entries as a formula, operations by theorem and by count, and seconds over growing sizes.

        Args:
            sizes, given: as for `certify`.
        """
        made = self.jacobian(*names) if len(names) == 1 else self.hessian(*names, format="csr")
        return certify_jacobian(made, sizes or self.last_sizes, given)

    @property
    def tf(self) -> TensorFlowOp:
        """The function as a TensorFlow op, whose gradients by tensors and variables are `vjp`'s."""
        if self._tf is None or self._tf.function is not self:  # a copy's is not the original's
            self._tf = TensorFlowOp(self)
        return self._tf

    def check_names(self, requested: tuple[Wrt, ...]) -> tuple[str, ...]:
        """Return the names of the parameters or parts to differentiate by.

        Args:
            requested: names, positions, or paths to parts.

        Raises:
            TensorError: there are none, or one does not exist.
        """
        parameters = [*self.__signature__.parameters]
        if not requested:
            message = "no parameter to differentiate with respect to"
            raise TensorError(message, f"name one of {self.__signature__}")
        found = []
        for one in requested:
            path = parse_path(one) if isinstance(one, str) else None
            if path is not None and path.root in parameters:
                found.append(str(path))
            elif type(one) is int and -len(parameters) <= one < len(parameters):
                found.append(parameters[one])
            elif isinstance(one, str | int):
                message = f"`{self.__name__}` has no parameter `{one}`"
                raise TensorError(message, f"it has {self.__signature__}")
            else:
                message = f"parameters to differentiate by are names or positions, and this is {type(one).__name__}"
                first = parameters[0] if parameters else "x"
                raise TensorError(message, f'name them first, as in `f.grad("{first}")(…)`')
        return tuple(found)

    def _gradient(
        self, kind: str, names: tuple[Wrt, ...], *, has_aux: bool, checkpoint: Checkpoint
    ) -> DerivedFunction:
        """Return the gradient, with the value if `kind` is "value_and_grad"; created once."""
        _check_checkpoint(checkpoint)
        value = kind == "value_and_grad"

        def derive(base: Differentiable, wrt: tuple[str, ...]) -> Derivative:
            self._require_scalar(base, has_aux)
            return transforms.gradient(
                base, wrt, value=value, has_aux=has_aux, checkpoint=checkpoint
            )

        return self._make_derivative(kind, names, derive, has_aux=has_aux, checkpoint=checkpoint)

    def _require_scalar(self, base: Differentiable, has_aux: bool) -> None:
        """Raise TensorError unless the result is a scalar; with `has_aux`, the first of two."""
        pair = base.layout is not None and len(base.layout) == 2
        is_scalar_and_aux = pair and isinstance(base.type, Product) and base.type.first == REAL
        if has_aux and not is_scalar_and_aux:
            message = f"`{self.__name__}` does not return a scalar and something else"
            raise TensorError(message, "end it with `return loss, aux`, or leave out `has_aux`")
        if not has_aux and base.type != REAL:
            message = f"`{self.__name__}` returns {base.type}, and only a scalar has a gradient"
            advice = "use `.vjp` or `.jvp`"
            if is_scalar_and_aux:
                advice = "use `has_aux=True` if it returns `(loss, aux)`, or `.vjp` or `.jvp`"
            raise TensorError(message, advice)

    def _make_derivative(
        self,
        kind: str,
        wanted: tuple[Wrt, ...],
        derive: Callable[[Differentiable, tuple[str, ...]], Derivative],
        extra: tuple[str, ...] = (),
        **options: Any,
    ) -> DerivedFunction:
        """Return the derivative that the method `kind` makes for these names and options."""
        names = self.check_names(wanted)

        def make() -> DerivedFunction:
            name = f"{kind}_{self.__name__}"
            made = DerivedFunction(name, self, self._differentiate_by_paths(names, derive), extra)
            made.made_by = self, kind, names, options
            return made

        return self._make_once((kind, names, *sorted(options.items())), make)

    def _make_once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Make a value for a key once, so that `f.grad("x")(…)` neither derives nor compiles at each call."""
        if key not in self._made:
            self._made[key] = make()
        found: Made = self._made[key]
        return found

    def __copy__(self) -> Self:
        made = super().__copy__()
        made._made = {}  # of the original
        return made

    def _differentiate_by_paths(
        self,
        names: tuple[str, ...],
        derive: Callable[[Differentiable, tuple[str, ...]], Derivative],
    ) -> Callable[[Instance], Derivative]:
        """Return the function that differentiates an instance by parameters and parts of them."""
        paths = tuple(map(_path, names))

        def derived(base: Instance) -> Derivative:
            return derivative_by(base, dict(base.checked.outside), paths, derive)

        return derived


class DerivedFunction(TensorFunction):
    """A derivative. Its instances are made from those of the function that it differentiates, whose parameters come first."""

    def __init__(
        self,
        name: str,
        base: TensorFunction,
        derive: Callable[[Instance], Derivative],
        extra: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, _extend_signature(base.__signature__, extra))
        self._shards = base._shards
        self.base = base
        self.derive = derive
        self.derived_from = functools.cache(self._from)
        self.made_by: tuple[TensorFunction, str, tuple[str, ...], dict[str, Any]] | None = None

    def __reduce__(self) -> Any:
        assert self.made_by is not None
        return _derivative_of, (*self.made_by, self._shards)

    @deep_recursion()
    def _from(self, base: Instance) -> Instance:
        """Return the derivative's instance for an instance of the base."""
        derived = self.derive(base)
        parameters = (*base.parameters, *derived.extra)
        body = to_term(derived.program)
        function = Lambda("arg", tuple((p.name, p.type) for p in parameters), body)
        traced = Traced(function, derived.layout, {}, outside=base.checked.outside)
        primal = None
        if derived.pulled is not None:
            primal = Primal(base.traced.function, base.ssa, derived.pulled)
        return Instance(parameters, traced, base.checked, derived.program, primal)

    def check_rule(self, arguments: Mapping[str, Any]) -> None:
        """Compare the derivative rule of the function, if it has one, with its derivative.

        Raises:
            TensorError: they differ.
        """
        self.base.check_rule(arguments)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Check a call, and the derivative rule at its first call."""
        own = self.base.__signature__.parameters
        self.base.check_rule({x: y for x, y in self._bind(args, kwargs).items() if x in own})
        return super()._checked(args, kwargs)

    def at(self, types: Mapping[str, Parameter]) -> Instance:
        """Return the derivative's instance at these types."""
        return self.derived_from(
            self.base.at({x: types[x] for x in self.base.__signature__.parameters})
        )

    def captured(self, within: frozenset[CalledFunction | Helper] = frozenset()) -> Captured:
        """Return the key of the outer values of the function that is differentiated."""
        return self.base.captured(within)

    def references(self) -> Mapping[Reference, str]:
        """Return the outer values that the function reads, with their parameters' names."""
        return self.base.references()

    def _resolve(self, arguments: Mapping[str, Any] | None) -> Instance:
        """Return the derivative's instance for these arguments, or for the annotated types if None."""
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
        instance = self.at(types)
        return tracer.apply(instance.traced, instance.checked.lookups, arguments)


class DenseJacobian(DerivedFunction):
    """A Jacobian as an array of the result's dimensions and then the parameter's."""

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Check a call, and that the dense array fits into memory; if not, advise a sparse one."""
        call = super()._checked(args, kwargs)
        assert self.made_by is not None
        of, kind, names, _ = self.made_by
        extents = (n.evaluate(call.sizes) for n in dimensions(call.instance.type))

        def smaller(room: int) -> str:
            if _path(names[-1]).keys:
                return NO_ROOM
            sparse: SparseJacobian = getattr(of, kind)(*names, format="csr")
            return sparse.advice(call.arguments, call.sizes, room)

        check_room(call, prod(max(0, n) for n in extents), smaller)
        return call


def _path(name: str) -> ParameterPath:
    """Parse a path that is known to be valid."""
    path = parse_path(name)
    assert path is not None
    return path


def _derivative_of(
    function: TensorFunction,
    kind: str,
    names: tuple[str, ...],
    options: dict[str, Any],
    shards: Any,
) -> DerivedFunction:
    """Recreate a pickled derivative, divided among devices as it was."""
    made: DerivedFunction = call_derivative_method(function, kind, names, options)
    if made._shards == shards:
        return made
    made = copy.copy(made)  # the function remembers the other one
    made._shards, made._before = shards, PreviousCalls()
    return made


def _check_checkpoint(checkpoint: object) -> None:
    """Raise TensorError unless `checkpoint` is a bool or "blocks"."""
    if not isinstance(checkpoint, bool) and checkpoint != "blocks":
        message = f"`checkpoint={checkpoint!r}` says nothing"
        advice = 'it is False, True, which stores what loops carry, or "blocks", which stores that of one iteration in √T'
        raise TensorError(message, advice)


def _extend_signature(signature_: inspect.Signature, extra: tuple[str, ...]) -> inspect.Signature:
    """Add parameters without defaults to a signature."""
    made = [*signature_.parameters.values()]
    optional = any(p.default is not inspect.Parameter.empty for p in made)
    for wanted in extra:
        name = fresh(wanted, {p.name for p in made})
        default = NEEDED if optional else inspect.Parameter.empty
        made.append(
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
        )
    return inspect.Signature(made)
