"""`@tensor`: a Python function as a program of the tensor language, and everything that follows
from it.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .cost.model import Cost, cost, interface
from .derivative.forward import derivative
from .derivative.reverse import adjoint
from .frontend import signature
from .frontend.signature import Parameter
from .frontend.trace import trace
from .frontend.tracing.traced import Traced
from .language.affine import Affine
from .language.errors import TensorError
from .language.predicates import compare, fresh
from .language.provenance import Origin, carrying
from .language.terms import Binders, Const, Gen, Guard, Lambda, Term, Var, gens, substitute
from .language.types import (
    REAL,
    Array,
    IndexArray,
    Integer,
    Layout,
    ParameterType,
    Product,
    Real,
    Relation,
    TupleSet,
    Type,
    dimensions,
    leaves,
)
from .reference.evaluate import Environment, evaluate
from .ssa.convert import to_ssa, to_term
from .ssa.normalize import normalize
from .ssa.program import Program
from .ssa.simplify import simplify

if TYPE_CHECKING:
    from .cost.formula import Formula
    from .frontend.bounds import Read
    from .frontend.rewrite import Rewritten
    from .jax.profile import Profile


Sizes = tuple[tuple[str, int], ...]


@dataclass(frozen=True, eq=False)
class Instance:
    """A tensor function at given types: its program, its Tensor SSA, and how its result is laid
    out.
    """

    parameters: tuple[Parameter, ...]
    traced: Traced
    checked: Traced

    @property
    def function(self) -> Lambda:
        return self.traced.function

    @property
    def layout(self) -> Layout:
        return self.traced.layout

    @cached_property
    def ssa(self) -> Program:
        places = {term: Origin(place=place) for term, place in self.traced.places.items()}
        with carrying(places):
            return simplify(to_ssa(normalize(self.function.body)))

    @cached_property
    def kernel(self) -> Callable[[Sizes], Callable[..., Any]]:
        """The compiled function for given sizes."""
        from .jax.backend import compiled

        return functools.cache(lambda sizes: compiled(self, dict(sizes)))

    @cached_property
    def shards(self) -> Callable[[Sizes, str, int | None], Callable[..., Any]]:
        """The compiled function for given sizes, an index and a number of devices to divide it
        among.
        """
        from .jax.backend import sharded

        return functools.cache(
            lambda sizes, index, devices: sharded(self, dict(sizes), index, devices)
        )

    @cached_property
    def undecided(self) -> Callable[[Sizes], tuple[Read, ...]]:
        """The reads that only data can show in range, for given sizes."""
        from .frontend.bounds import undecided

        return functools.cache(lambda sizes: undecided(self.checked, dict(sizes)))


class TensorFunction:
    """A function of the tensor language, called like the Python function that it was.

    Programs and costs are known as soon as types are: at once where every parameter is
    annotated, from the first call otherwise.
    """

    def __init__(
        self,
        name: str,
        parameters: inspect.Signature,
        resolve: Callable[[Mapping[str, Any] | None], Instance],
        python: Callable[..., Any] | None = None,
        rewritten: Rewritten | None = None,
    ) -> None:
        self.__name__ = name
        self.__signature__ = parameters
        self._resolve = resolve
        self._python = python
        self._rewritten = rewritten
        self._last: Instance | None = None
        self._shards: tuple[str, int | None] | None = None
        self.last_sizes: dict[str, int] | None = None
        if python is not None:
            functools.update_wrapper(self, python)

    def __repr__(self) -> str:
        return f"<tensor function {self.__name__}{self.__signature__}>"

    # Calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result, by a compiled JAX kernel for the arguments' sizes."""
        instance, arguments, sizes = self._at(args, kwargs)
        check_reads(instance, arguments, sizes)
        at = tuple(sorted(sizes.items()))
        kernel = instance.kernel(at) if self._shards is None else instance.shards(at, *self._shards)
        return laid_out(kernel(*arguments.values()), instance.layout)

    def interpret(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the reference evaluator: slow, straight from the semantics, exact on
        fractions.

        Arrays come as NumPy arrays; an array of tuples comes as a tuple of arrays.
        """
        instance, arguments, sizes = self._at(args, kwargs)
        check_reads(instance, arguments, sizes)
        env = _environment(instance, arguments, sizes)
        body = instance.function.body
        value = struct_of_arrays(evaluate(body, env), body.type)
        return laid_out(_numpy(value), instance.layout)

    def cost(self, *args: Any, **kwargs: Any) -> Cost:
        """The exact operation counts of `program` at these arguments, of which only sizes and
        relations matter.
        """
        instance, arguments, sizes = self._at(args, kwargs)
        counted = cost(instance.function.body, _environment(instance, arguments, sizes))
        return counted + Cost(interface=interface(instance.function, sizes))

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

        instance, arguments, sizes = self._at(args, kwargs)
        check_reads(instance, arguments, sizes)
        return profile(instance, sizes, arguments, repeats, progress, cancelled)

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
        """At the types of the last call, or of the annotations before any call."""
        if self._last is None:
            self._last = self._resolve(None)
        return self._last

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
        """The Python function as written."""
        if self._python is None:
            raise TensorError(
                f"`{self.__name__}` is derived, not written in Python", "print `.program` instead"
            )
        return self._python

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
        from .cost.formula import cost_formula

        return cost_formula(self.instance.function)

    # Derivatives

    def grad(self, *names: str) -> TensorFunction:
        """The gradient with respect to one parameter, or the tuple of gradients for several; the
        parameters stay.
        """
        wrt = self._differentiable(names)

        def derive(base: Instance) -> Derived:
            _require_scalar(base, self.__name__)
            program = adjoint(base.ssa, _typed(base, wrt), None)
            return Derived(program, (), _layout_of(base, wrt))

        return self._derived(f"grad_{self.__name__}", derive)

    def value_and_grad(self, *names: str) -> TensorFunction:
        """`(value, gradient)`, sharing work."""
        wrt = self._differentiable(names)

        def derive(base: Instance) -> Derived:
            _require_scalar(base, self.__name__)
            program = adjoint(base.ssa, _typed(base, wrt), None, keep=True)
            return Derived(program, (), (None, _layout_of(base, wrt)))

        return self._derived(f"value_and_grad_{self.__name__}", derive)

    def vjp(self, *names: str) -> TensorFunction:
        """The adjoint derivative: the parameters, then the cotangent `dy` of the result; gives
        those of the named parameters.
        """
        wrt = self._differentiable(names)

        def derive(base: Instance) -> Derived:
            type_ = soa(base.function.body.type)
            dy = fresh("dy", {x for x, _, _ in base.parameters})
            program = adjoint(base.ssa, _typed(base, wrt), (dy, type_))
            return Derived(program, ((dy, type_, base.layout),), _layout_of(base, wrt))

        return self._derived(f"vjp_{self.__name__}", derive, ("dy",))

    def jvp(self, *names: str) -> TensorFunction:
        """The forward derivative: the parameters, then the differentials `dx` of the named ones;
        gives that of the result.
        """
        wrt = self._differentiable(names)

        def derive(base: Instance) -> Derived:
            taken = {x for x, _, _ in base.parameters}
            types = {x: (t, layout) for x, t, layout in base.parameters}
            extra: list[Parameter] = []
            for x in wrt:
                dx = fresh(f"d{x}", taken)
                taken.add(dx)
                extra.append((dx, *types[x]))
            sigma: dict[str, Term] = {}
            for x, (dx, type_, _) in zip(wrt, extra, strict=True):
                assert isinstance(type_, Real | Array | Product)
                sigma[x] = Var(dx, type_)
            with carrying({}):
                moved = derivative(to_term(base.ssa), sigma)
                return Derived(to_ssa(normalize(moved)), tuple(extra), base.layout)

        return self._derived(f"jvp_{self.__name__}", derive, tuple(f"d{x}" for x in wrt))

    def hessian(self, name: str) -> TensorFunction:
        """The second derivative, materialised: for x with dimensions d, an array of dimensions d
        + d.

        `D(∇f)` applied to every one-hot array; simplification leaves no one-hot behind.
        """
        gradient = self.grad(name)

        def derive(base: Instance) -> Derived:
            (_, type_) = _typed(base, (name,))[0]
            if isinstance(type_, Product):
                raise TensorError(f"`{name}` is a tuple", "take the Hessian by one array at a time")
            taken = {*base.function.body.variables, *(x for x, _, _ in base.parameters)}
            outer = tuple((f"h{k}", size) for k, size in enumerate(dimensions(type_)))
            with carrying({}):
                moved = derivative(to_term(base.ssa), {name: Var(fresh("hot", taken), type_)})
                columns = substitute(moved, {fresh("hot", taken): _one_hot(outer)})
                program = to_ssa(normalize(gens(outer, columns)))
            return Derived(program, (), None)

        return gradient._derived(f"hessian_{self.__name__}", derive)

    def _derived(
        self,
        name: str,
        derive: Callable[[Instance], Derived],
        extra: tuple[str, ...] = (),
    ) -> TensorFunction:
        """The function whose instances `derive` makes from the instances of this one."""
        parameters = list(self.__signature__.parameters.values())
        taken = {p.name for p in parameters}
        for wanted in extra:
            unused = fresh(wanted, taken)
            taken.add(unused)
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters = [p.replace(default=inspect.Parameter.empty) for p in parameters]
            parameters.append(inspect.Parameter(unused, kind))

        @functools.cache
        def instance(base: Instance) -> Instance:
            derived = derive(base)
            program = simplify(derived.program)
            body = to_term(program)
            together = (*base.parameters, *derived.extra)
            function = Lambda("arg", tuple((x, t) for x, t, _ in together), body)
            made = Instance(together, Traced(function, derived.layout, {}, {}), base.checked)
            made.__dict__["ssa"] = program
            return made

        def resolve(arguments: Mapping[str, Any] | None) -> Instance:
            base = self.instance if arguments is None else self._resolve(arguments)
            made = instance(base)
            if arguments is not None:
                for x, type_, _ in made.parameters[len(base.parameters) :]:
                    signature.matches(x, type_, arguments[x])
            return made

        def program(types: Mapping[str, Parameter]) -> Instance:
            return instance(self.at({x: types[x] for x in self.__signature__.parameters}))

        made = TensorFunction(name, inspect.Signature(parameters), resolve)
        made._shards = self._shards
        made.at = program  # type: ignore[method-assign]
        made.derived_from = instance  # type: ignore[method-assign]
        return made

    def derived_from(self, base: Instance) -> Instance:
        """The instance of a derivative that an instance of the differentiated function has."""
        raise NotImplementedError

    def at(self, types: Mapping[str, Parameter]) -> Instance:
        """The instance at given parameter types."""
        raise NotImplementedError

    def _differentiable(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names:
            raise TensorError("differentiate by what?", f"name a parameter: {self.__signature__}")
        for name in names:
            if name not in self.__signature__.parameters:
                raise TensorError(
                    f"`{self.__name__}` has no parameter `{name}`", f"it has {self.__signature__}"
                )
        return names

    # Calls from other tensor functions

    def __tensor_inline__(
        self, tracer: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        arguments = self._bind(args, kwargs)
        if self._rewritten is not None:
            return tracer.inline(self.__name__, self._rewritten, arguments)
        types = {x: tracer.parameter(x, value) for x, value in arguments.items()}
        return tracer.apply(self.at(types).traced, arguments)


@dataclass(frozen=True)
class Derived:
    """A derivative: its SSA, the parameters that it adds, and its result's layout."""

    program: Program
    extra: tuple[Parameter, ...]
    layout: Layout


def tensor(function: Callable[..., Any]) -> TensorFunction:
    """Make a Python function a tensor function. Syntax that the language does not have raises
    TensorError at once.
    """
    from .frontend.rewrite import rewrite

    parameters = inspect.signature(function)
    rewritten = rewrite(function)
    annotated = {x: signature.declared(x, p.annotation) for x, p in parameters.parameters.items()}

    @functools.cache
    def at(types: tuple[Parameter, ...]) -> Instance:
        sizes = frozenset[str]().union(*(_size_names(t) for _, t, _ in types))
        traced = trace(function.__name__, rewritten, types, sizes)
        return Instance(types, traced, traced)

    @functools.cache
    def named(types: tuple[Parameter, ...]) -> Instance:
        instance = at(types)
        sizes = frozenset[str]().union(*(_size_names(t) for _, t, _ in types))
        return at(_renamed(types, instance.traced.size_names, sizes))

    def resolve(arguments: Mapping[str, Any] | None) -> Instance:
        types: list[Parameter] = []
        for x, type_ in annotated.items():
            if arguments is None:
                if type_ is None:
                    raise TensorError(
                        f"the type of `{x}` is not known yet",
                        f'annotate it, `{x}: Float[Array, "n"]`, or call `{function.__name__}` once',
                    )
                types.append((x, type_, None))
            elif type_ is None:
                types.append((x, *signature.observed(x, arguments[x])))
            else:
                types.append((x, signature.adapt(x, type_, arguments[x]), None))
        return named(tuple(types))

    made = TensorFunction(function.__name__, parameters, resolve, function, rewritten)
    made.at = lambda types: at(tuple(types.values()))  # type: ignore[method-assign]
    return made


def _size_names(type_: ParameterType) -> frozenset[str]:
    match type_:
        case Array(size, element):
            return size.names | _size_names(element)
        case Product(first, second):
            return _size_names(first) | _size_names(second)
        case Relation(dims) | IndexArray(dims):
            return frozenset[str]().union(*(n.names for n in dims))
    return frozenset()


def _renamed(
    types: tuple[Parameter, ...], names: Mapping[str, str], sizes: frozenset[str]
) -> tuple[Parameter, ...]:
    """Sizes named as the program names them: after `n = len(x)`, x has n entries."""
    integers = {x for x, t, _ in types if isinstance(t, Integer)}
    taken = set(sizes) | {x for x, _, _ in types}
    chosen: dict[str, Affine] = {}
    for size, wanted in names.items():
        if size in sizes and size not in integers and wanted not in taken:
            taken.add(wanted)
            chosen[size] = Affine.of(wanted)
    return tuple((x, _substituted(t, chosen), layout) for x, t, layout in types)


def _substituted(type_: Any, values: Mapping[str, Affine]) -> Any:
    match type_:
        case Array(size, element):
            return Array(size.substitute(values), _substituted(element, values))
        case Product(first, second):
            return Product(_substituted(first, values), _substituted(second, values))
        case Relation(dims) | IndexArray(dims):
            return type(type_)(tuple(n.substitute(values) for n in dims))
    return type_


def check_reads(instance: Instance, arguments: Mapping[str, Any], sizes: Mapping[str, int]) -> None:
    """Raise TensorError where a read is out of range.

    Under `jax.jit` and the like relations have no data yet, and what only they can show is not
    checked.
    """
    pending = instance.undecided(tuple(sorted(sizes.items())))
    lookups = instance.checked.lookups
    data = {x: arguments[x] for x, t, _ in instance.parameters if not _is_numeric(t)}
    if not (pending or lookups) or any(_is_abstract(value) for value in data.values()):
        return
    from .frontend.bounds import check

    indices = {x: np.asarray(v) for x, v in data.items() if not isinstance(v, set | frozenset)}
    relations = {
        x: signature.relation(t, data[x])
        for x, t, _ in instance.parameters
        if isinstance(t, Relation | IndexArray | TupleSet)
    }
    check(pending, lookups, Environment({}, dict(sizes), relations), indices)


def _is_numeric(type_: ParameterType) -> bool:
    return isinstance(type_, Real | Array | Product | Integer)


def _is_abstract(value: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def _environment(
    instance: Instance, arguments: Mapping[str, Any], sizes: dict[str, int]
) -> Environment:
    values, relations = {}, {}
    for x, type_, _ in instance.parameters:
        match type_:
            case Real() | Array() | Product():
                values[x] = signature.plain(type_, arguments[x])
            case Relation() | IndexArray() | TupleSet():
                relations[x] = signature.relation(type_, arguments[x])
    return Environment(values, dict(sizes), relations)


def _typed(base: Instance, wrt: tuple[str, ...]) -> tuple[tuple[str, Type], ...]:
    types = {x: t for x, t, _ in base.parameters}
    made = []
    for x in wrt:
        type_ = types[x]
        if not isinstance(type_, Real | Array | Product):
            raise TensorError(
                f"`{x}` is no real parameter, so nothing differentiates by it", "pass floats"
            )
        made.append((x, type_))
    return tuple(made)


def _layout_of(base: Instance, wrt: tuple[str, ...]) -> Layout:
    layouts = {x: layout for x, _, layout in base.parameters}
    return layouts[wrt[0]] if len(wrt) == 1 else tuple(layouts[x] for x in wrt)


def _require_scalar(base: Instance, name: str) -> None:
    if base.function.body.type != REAL:
        raise TensorError(
            f"`{name}` returns {base.function.body.type}, and only a scalar has a gradient",
            "use `.vjp` or `.jvp`",
        )


def _one_hot(outer: Binders) -> Term:
    """`⊞k. [k=h]·1` over the dimensions of h."""
    inner = tuple((f"k{j}", size) for j, (_, size) in enumerate(outer))
    body: Term = Const(1)
    for (k, _), (h, _) in reversed(tuple(zip(inner, outer, strict=True))):
        body = Guard(compare("=", k, h), body)
    for index, size in reversed(inner):
        body = Gen(index, size, body)
    return body


def soa(type_: Type) -> Type:
    """The struct-of-arrays form of a type, which pair elimination gives every output."""
    match type_:
        case Product(first, second):
            return Product(soa(first), soa(second))
        case Array(size, element):
            inner = soa(element)
            if isinstance(inner, Product):
                return Product(soa(Array(size, inner.first)), soa(Array(size, inner.second)))
            return Array(size, inner)
    return type_


def struct_of_arrays(value: Any, type_: Type) -> Any:
    """A value of a type in the struct-of-arrays form of that type."""
    match type_:
        case Product(first, second):
            return struct_of_arrays(value[0], first), struct_of_arrays(value[1], second)
        case Array(_, element):
            parts = leaves(soa(element))
            if len(parts) == 1:
                return value
            entries = [struct_of_arrays(entry, element) for entry in value]
            return _gather(soa(element), entries)
    return value


def _gather(type_: Type, entries: list[Any]) -> Any:
    if isinstance(type_, Product):
        return tuple(
            _gather(part, [entry[k] for entry in entries])
            for k, part in enumerate((type_.first, type_.second))
        )
    return entries


def laid_out(value: Any, layout: Layout) -> Any:
    """Nested pairs as the tuple that the program returned."""
    if layout is None:
        return value
    parts = []
    for k, inner in enumerate(layout):
        last = k == len(layout) - 1
        parts.append(laid_out(value if last else value[0], inner))
        value = value if last else value[1]
    return tuple(parts)


def _numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return _numpy(value[0]), _numpy(value[1])
    if not isinstance(value, list):
        return value
    array = np.array(value, dtype=object)
    exact = any(not isinstance(x, int | float) for x in array.flat)
    return array if exact else array.astype(float)
