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
    check_format,
    check_room,
    derivative_of,
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
        """A decorator that gives a function written in Python a derivative of its own. Raises TensorError for others."""
        message = (
            f"`{self.__name__}` is derived, and has its derivative from what it is derived from"
        )
        raise TensorError(message, "give that function one")

    def check_rule(self, arguments: Mapping[str, Any]) -> None:
        """Raise TensorError where a user has written another derivative than that of the function."""

    def grad(
        self, *names: Wrt, has_aux: bool = False, checkpoint: Checkpoint = False
    ) -> DerivedFunction:
        """The gradient of a scalar function, a function of the same parameters (6.20–6.49).

        With one name it has that parameter's shape, with several it is a tuple in their order; a number is a
        parameter's position, as in `jax.grad(f, argnums=0)`, and `params.w`, `params["w"]` and `layers[0].b` are parts.
        Raises TensorError where a name is no parameter or part, or no real one, or, once types are known, the result is no
        scalar. With `has_aux` the function returns `(scalar, aux)`, and this gives `(gradient, aux)`, as in JAX.

        A loop that carries values keeps what its iterations compute; with `checkpoint`, only what it
        carries, and its iterations are computed once more, the last first; with `checkpoint="blocks"`, that
        of one iteration in about √T, and those between are computed once more, T being their number
        (docs/recurrences.md).
        """
        return self._gradient("grad", names, has_aux=has_aux, checkpoint=checkpoint)

    def value_and_grad(
        self, *names: Wrt, has_aux: bool = False, checkpoint: Checkpoint = False
    ) -> DerivedFunction:
        """`(value, gradient)`, sharing work, or with `has_aux` `((value, aux), gradient)`; otherwise as `grad`."""
        return self._gradient("value_and_grad", names, has_aux=has_aux, checkpoint=checkpoint)

    def vjp(self, *names: Wrt, checkpoint: Checkpoint = False) -> DerivedFunction:
        """The adjoint derivative (6.20–6.49): takes the parameters, then the cotangent `dy`, of the
        result's shape; gives the cotangents of the named parameters, as `grad` does.
        """
        _check_checkpoint(checkpoint)
        derive = functools.partial(transforms.pullback, checkpoint=checkpoint)
        return self._make_derivative("vjp", names, derive, ("dy",), checkpoint=checkpoint)

    def jvp(self, *names: Wrt) -> DerivedFunction:
        """The forward derivative (6.1–6.16): takes the parameters, then a differential `dx` of each
        named one, of its shape and in the order of the names; gives that of the result.
        """
        known = self.check_names(names)
        extra = tuple(f"d{_path(x).word}" for x in known)
        return self._make_derivative("jvp", known, transforms.pushforward, extra)

    @overload
    def jacobian(self, *names: Wrt, format: Literal["dense"]) -> DerivedFunction: ...
    @overload
    def jacobian(self, *names: Wrt, format: SparseFormat = "csr") -> SparseJacobian: ...
    def jacobian(self, *names: Wrt, format: Format = "csr") -> SparseJacobian | DerivedFunction:  # noqa: A002
        """The Jacobian by one parameter, as sparse as it is (docs/jacobians.md): a matrix of as many rows as the result has
        entries and as many columns as the parameter has. "dense" is an array of the result's dimensions and then
        the parameter's. Raises TensorError where either is a tuple, and where not one parameter is named.
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
        """The second derivative of a scalar function by one parameter, or by one and then another: "dense" for x with
        dimensions d and y with dimensions e, an array of dimensions d + e; else as `jacobian` of the
        gradient by x. Raises TensorError where x or y is a tuple.
        """
        known = self.check_names(names)
        if len(known) > 2:
            raise TensorError("a Hessian is by one parameter or two", "take it block by block")
        return self.grad(known[0])._jacobian("hessian", known, known[-1], format, of=self)

    def sparsity(self, *names: Wrt) -> Sparsity:
        """Where the Jacobian by one parameter, or the Hessian by two, may be other than zero: as a formula, with the number of
        entries as one.
        """
        made = self.jacobian(*names) if len(names) == 1 else self.hessian(*names, format="csr")
        return made.sparsity

    def _jacobian(
        self,
        kind: str,
        names: tuple[str, ...],
        wrt: str,
        format: Format,  # noqa: A002
        of: TensorFunction | None = None,
    ) -> SparseJacobian | DerivedFunction:
        check_format(format)
        make = functools.partial(self._new_jacobian, kind, names, wrt, format, of or self)
        return self._make_once((kind, names, format), make)

    def _new_jacobian(
        self,
        kind: str,
        names: tuple[str, ...],
        wrt: str,
        format: Format,  # noqa: A002
        of: TensorFunction,
    ) -> SparseJacobian | DerivedFunction:
        name = f"{kind}_{of.__name__}"
        symmetric = kind == "hessian" and len({*names}) == 1

        def derive(base: Differentiable, wrt: tuple[str, ...]) -> Derivative:
            return dense_jacobian(base, name=wrt[0], symmetric=symmetric)

        dense = DenseJacobian(name, self, self._differentiate_by_paths((wrt,), derive))
        dense.made_by = of, kind, names, {"format": "dense"}
        if format == "dense":
            return dense
        if _path(wrt).keys:
            message = f"a sparse Jacobian is by a full parameter, and `{wrt}` is a part of one"
            raise TensorError(message, 'make it dense: `format="dense"`')
        made_by = of, kind, names, {"format": format}
        return SparseJacobian(name, self, wrt, format, dense, made_by, symmetric)

    def certify(
        self, *names: str, sizes: Mapping[str, int] | None = None, **given: Any
    ) -> Certificate:
        """What value and gradient cost: by formula, by theorem, and measured over growing sizes, in a few seconds. Of a Jacobian
        see `certify_jacobian`.

        `sizes` is where growth begins, the last call's if it is left out; relations and index arrays are given by name, and
        their sizes stay. Raises TensorError where either is missing, or there is no such gradient.
        """
        return certify(self, names, sizes, given)

    def certify_jacobian(
        self, *names: Wrt, sizes: Mapping[str, int] | None = None, **given: Any
    ) -> JacobianCertificate:
        """What the sparse Jacobian by one parameter costs, or the Hessian by two: the number of its entries by formula, its
        operations by theorem and by count, and the seconds of its values over growing sizes. Otherwise as `certify`.
        """
        made = self.jacobian(*names) if len(names) == 1 else self.hessian(*names, format="csr")
        return certify_jacobian(made, sizes or self.last_sizes, given)

    @property
    def tf(self) -> TensorFlowOp:
        """The function as a TensorFlow op, whose gradients by tensors and variables are `vjp`'s."""
        if self._tf is None or self._tf.function is not self:  # a copy's is not the original's
            self._tf = TensorFlowOp(self)
        return self._tf

    def check_names(self, wanted: tuple[Wrt, ...]) -> tuple[str, ...]:
        """The parameters to differentiate by, one or more, which are given by name, position or the path to a part. Raises
        TensorError where one is none.
        """
        parameters = [*self.__signature__.parameters]
        if not wanted:
            message = "no parameter to differentiate with respect to"
            raise TensorError(message, f"name one of {self.__signature__}")
        found = []
        for one in wanted:
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
        _check_checkpoint(checkpoint)
        value = kind == "value_and_grad"

        def derive(base: Differentiable, wrt: tuple[str, ...]) -> Derivative:
            self._require_scalar(base, has_aux)
            return transforms.gradient(
                base, wrt, value=value, has_aux=has_aux, checkpoint=checkpoint
            )

        return self._make_derivative(kind, names, derive, has_aux=has_aux, checkpoint=checkpoint)

    def _require_scalar(self, base: Differentiable, has_aux: bool) -> None:
        """Raises TensorError where the function has no scalar result; with `has_aux`, none as the first of two."""
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
        self.base.check_rule(arguments)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        own = self.base.__signature__.parameters
        self.base.check_rule({x: y for x, y in self._bind(args, kwargs).items() if x in own})
        return super()._checked(args, kwargs)

    def at(self, types: Mapping[str, Parameter]) -> Instance:
        return self.derived_from(
            self.base.at({x: types[x] for x in self.base.__signature__.parameters})
        )

    def captured(self, within: frozenset[CalledFunction | Helper] = frozenset()) -> Captured:
        return self.base.captured(within)

    def references(self) -> Mapping[Reference, str]:
        return self.base.references()

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
        instance = self.at(types)
        return tracer.apply(instance.traced, instance.checked.lookups, arguments)


class DenseJacobian(DerivedFunction):
    """A Jacobian as an array of the result's dimensions and then the parameter's."""

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
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
    made: DerivedFunction = derivative_of(function, kind, names, options)
    if made._shards == shards:
        return made
    made = copy.copy(made)  # the function remembers the other one
    made._shards, made._before = shards, PreviousCalls()
    return made


def _check_checkpoint(checkpoint: object) -> None:
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
