"""`f.certify("x")`: what a gradient or a sparse Jacobian costs by theorem, by count, and by the clock."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

from .cost.formula import Formula, cost_formula
from .cost.model import interface_size
from .cost.patterns import Sparsity
from .frontend.signature import relation
from .instance import Instance
from .language.depth import deep_recursion
from .language.errors import TensorError
from .language.types import Array, IndexArray, Product, Real, Relation, TupleSet, size_names
from .lowering.jacobian_cost import JacobianCost, derivative_factor
from .measure import (
    CALLS,
    LARGE,
    LEAST,
    LONG,
    MOST,
    SHORT,
    fit_doubled,
    fit_exponents,
    measure_doubled,
)
from .reference.evaluate import Environment
from .ssa.program import Recurrence

PAPER = "$IO(Dᵀ) ≤ 4·$IO: Theorem 6.55 of “Differentiating A Tensor Language”"
SHARED = ", $IO with how its largest entries share their derivative"
LOOPS = "$IO(Dᵀ) ≤ 4·($IO + I), I being the inputs and outputs of the iterations of loops: Theorem 2 of docs/recurrences.md"
ROWS = "$J ≤ ρ·$D ≤ {}·ρ·$, ρ entries being what a value depends on at most: the theorem of docs/jacobians.md"


class Differentiable(Protocol):
    """The interface of a tensor function that certification needs."""

    __name__: str
    last_sizes: dict[str, int] | None

    @property
    def instance(self) -> Instance: ...

    def __call__(self, **arguments: Any) -> Any: ...

    def value_and_grad(self, *names: str) -> Differentiable: ...


@dataclass(frozen=True)
class Point:
    """One choice of sizes: the operation counts, with the cost in reals (6.53), and the seconds of a call."""

    sizes: dict[str, int]
    value_operations: int
    gradient_operations: int
    value_io: int
    gradient_io: int
    value_seconds: float
    gradient_seconds: float


@dataclass(frozen=True)
class Kernel:
    """The compiled value and gradient at the largest sizes: its memory in bytes, and XLA's estimate of its operations."""

    bytes: int
    xla_flops: float | None


@dataclass(frozen=True)
class Certificate:
    """The cost of value and gradient. `str` prints it for people, `json()` for programs.

    `gradient` always stands for value and gradient together. Exponents are slopes of operations or seconds against sizes, on
    logarithmic axes, where all sizes grow in proportion; None, with the reason in `not_measured`, where they are unknown.
    """

    function: str
    wrt: tuple[str, ...]
    value_cost: str
    gradient_cost: str
    theorem: str
    largest_ratio: float
    points: tuple[Point, ...]
    operations_exponents: tuple[float, float] | None
    seconds_exponents: tuple[float, float] | None
    not_measured: str | None
    kernel: Kernel
    device: str
    jax: str
    copied: tuple[str, ...] = ()  # arrays that loops copy in each iteration, and why

    def json(self) -> str:
        """Return all figures as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)

    def __str__(self) -> str:
        names = ", ".join(self.wrt)
        grown = " ".join(
            f"{name} {self.points[0].sizes[name]}…{last}"
            if len(self.points) > 1
            else f"{name} {last}"
            for name, last in self.points[-1].sizes.items()
        )
        lines = [
            f"{self.function}: value, and gradient by {names}",
            f"  value costs               {self.value_cost}",
            f"  value and gradient cost   {self.gradient_cost}",
            f"  bound                     {self.theorem}",
            f"  counted                   $IO(Dᵀ)/$IO at most {self.largest_ratio:.3f}, at {grown}",
        ]
        for what, exponents in (
            ("operations", self.operations_exponents),
            ("seconds", self.seconds_exponents),
        ):
            if exponents is not None:
                value, gradient = exponents
                lines.append(
                    f"  {what + ' grow as':26}size^{value:.2f} (value), size^{gradient:.2f} (with gradient)"
                )
        lines += [f"  loops                     {one}" for one in self.copied]
        last = self.points[-1]
        lines.append(
            f"  measured                  {1e3 * last.value_seconds:.3g} ms the value, {1e3 * last.gradient_seconds:.3g} ms "
            f"with its gradient, {last.gradient_seconds / last.value_seconds:.2f} times as long"
        )
        if self.not_measured:
            lines.append(f"  not measured              {self.not_measured}")
        flops = (
            "" if self.kernel.xla_flops is None else f", {self.kernel.xla_flops:,.0f} flops by XLA"
        )
        lines.append(f"  kernel                    {self.kernel.bytes:,} bytes{flops}")
        return "\n".join([*lines, f"  on                        {self.device}, JAX {self.jax}"])


@deep_recursion()
def certify(
    function: Differentiable,
    wrt: tuple[str, ...],
    sizes: Mapping[str, int] | None,
    data: Mapping[str, Any],
) -> Certificate:
    """Measure what value and gradient cost over growing sizes; see `TensorFunction.certify`."""
    import jax

    instance, both = function.instance, function.value_and_grad(*wrt)
    start, growing, data = _choose_start(function, ", ".join(map(repr, wrt)), sizes, data)
    formulas = cost_formula(instance.function), cost_formula(both.instance.function)

    def point(factor: int) -> Point | None:
        at = _scale_sizes(start, growing, factor)
        entries = sum(interface_size(i.function, at) for i in (instance, both.instance))
        if factor > 1 and entries > LARGE:
            return None
        return _measure_point((function, both), formulas, at, data)

    points = measure_doubled(point, lambda p: not growing or p.gradient_seconds > LONG)
    why = None if growing else "growth: every size is that of an array that was given"
    long = [p for p in points if p.value_seconds > SHORT]
    if why is None and len(long) < LEAST:
        why = "growth of seconds: calls are too short, or soon too long, to be compared"
    counted = fit_doubled([(p.value_operations, p.gradient_operations) for p in points])
    timed = fit_doubled([(p.value_seconds, p.gradient_seconds) for p in long])
    loops = any(isinstance(s.rhs, Recurrence) for s in instance.ssa.statements)
    return Certificate(
        function=function.__name__,
        wrt=wrt,
        value_cost=str(formulas[0]),
        gradient_cost=str(formulas[1]),
        theorem=(LOOPS if loops else PAPER) + (SHARED if instance.has_markers else ""),
        largest_ratio=max(p.gradient_io / max(1, p.value_io) for p in points),
        points=tuple(points),
        operations_exponents=counted if growing else None,
        seconds_exponents=timed if why is None else None,
        not_measured=why,
        kernel=_measure_kernel(both, instance, points[-1].sizes, data),
        device=str(jax.devices()[0].device_kind),
        jax=jax.__version__,
        copied=tuple(map(str, instance.carried_arrays)),
    )


class SparseDerivative(Protocol):
    """The interface of a sparse Jacobian that certification needs; `base` is the function that it differentiates."""

    __name__: str
    wrt: str
    base: Any

    @property
    def sparsity(self) -> Sparsity: ...

    def cost(self, **arguments: Any) -> JacobianCost: ...

    def values(self, **arguments: Any) -> Any: ...


@dataclass(frozen=True)
class JacobianPoint:
    """One choice of sizes: the operation counts of the Jacobian and of the function, and the seconds for the values."""

    sizes: dict[str, int]
    cost: JacobianCost
    function_operations: int
    seconds: float


@dataclass(frozen=True)
class JacobianCertificate:
    """The cost of a sparse Jacobian. `str` prints it for people, `json()` for programs.

    `exponents` are slopes of operations and of seconds against the number of entries, on logarithmic axes; None where there
    are too few points.
    """

    function: str
    wrt: str
    entries: str
    points: tuple[JacobianPoint, ...]
    exponents: tuple[float, float] | None
    theorem: str

    def json(self) -> str:
        """Return all figures as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)

    def __str__(self) -> str:
        last = self.points[-1]
        grown = ", ".join(f"{name} = {n:,}" for name, n in last.sizes.items())
        ratio = max(p.cost.operations / max(1, p.cost.bound) for p in self.points)
        lines = [
            f"{self.function}: by {self.wrt}",
            f"  entries         {self.entries}; {last.cost.entries:,} at {grown}",
            f"  bound           {self.theorem}",
            f"  counted         ρ = {last.cost.most_per_value:,}; $J/(ρ·$D) at most {ratio:.3f}; "
            f"{last.cost.operations / max(1, last.cost.entries):.1f} operations an entry",
        ]
        if self.exponents is not None:
            operations, seconds = self.exponents
            lines.append(
                f"  grow as         entries^{operations:.2f} (operations), entries^{seconds:.2f} (seconds)"
            )
        return "\n".join([*lines, f"  measured        {1e3 * last.seconds:.3g} ms the values"])


@deep_recursion()
def certify_jacobian(
    jacobian: SparseDerivative, sizes: Mapping[str, int] | None, data: Mapping[str, Any]
) -> JacobianCertificate:
    """Measure what a sparse Jacobian costs over growing sizes; see `TensorFunction.certify_jacobian`."""
    from .jax.timing import median_seconds

    function = jacobian.base
    start, growing, data = _choose_start(function, repr(jacobian.wrt), sizes, data)

    def point(factor: int) -> JacobianPoint:
        at = _scale_sizes(start, growing, factor)
        arguments = _make_arguments(function.instance, at, data)
        outside = dict(function.instance.checked.outside)
        own = {x: value for x, value in arguments.items() if x not in outside}
        cost = jacobian.cost(**own)
        seconds = median_seconds(partial(jacobian.values, **own), CALLS)
        return JacobianPoint(at, cost, function.cost(**own).total, seconds)

    points = measure_doubled(
        point, lambda p: not growing or p.seconds > LONG or p.cost.entries > LARGE
    )
    long = [p for p in points if p.seconds > SHORT][-MOST:]
    return JacobianCertificate(
        jacobian.__name__,
        jacobian.wrt,
        str(jacobian.sparsity.count),
        tuple(points),
        fit_exponents(
            [max(1, p.cost.entries) for p in long],
            [(max(1, p.cost.operations), p.seconds) for p in long],
        ),
        ROWS.format(derivative_factor(function.instance.ssa)),
    )


def _choose_start(
    function: Any, names: str, sizes: Mapping[str, int] | None, data: Mapping[str, Any]
) -> tuple[dict[str, int], frozenset[str], dict[str, Any]]:
    """Return the initial sizes, those that grow, and the constant data.

    Raises:
        TensorError: a size or data are missing.
    """
    instance = function.instance
    start = dict(sizes or function.last_sizes or {})
    relations = {x for x, t, _ in instance.parameters if not isinstance(t, Real | Array | Product)}
    outside = {x: r for x, r in instance.checked.outside if x in relations and r.surroundings}
    data = {**{x: r.value({}) for x, r in outside.items()}, **data}
    if missing := sorted(relations - data.keys() - start.keys()):
        raise TensorError(
            f"`{missing[0]}` is data that no random numbers can stand for",
            f"give it by name: `{function.__name__}.certify({names}, {missing[0]}={missing[0]})`",
        )
    wanted = {n for _, t, _ in instance.parameters for n in size_names(t)} | (
        relations - data.keys()
    )
    if unknown := sorted(wanted - start.keys()):
        raise TensorError(
            f"nothing says how large `{unknown[0]}` is",
            f"call `{function.__name__}` once, or give `sizes={{{unknown[0]!r}: 100}}`",
        )
    fixed = {n for x, t, _ in instance.parameters if x in relations for n in (*size_names(t), x)}
    growing = {n for n in start if n not in fixed}
    return start, frozenset(growing), data


def _scale_sizes(start: Mapping[str, int], growing: Collection[str], factor: int) -> dict[str, int]:
    """Multiply the growing sizes by a factor."""
    return {n: k * factor if n in growing else k for n, k in start.items()}


def _make_arguments(
    instance: Instance, sizes: Mapping[str, int], data: Mapping[str, Any]
) -> dict[str, Any]:
    """Return random arguments of an instance at some sizes, with the given data."""
    from .jax.sample_arguments import random_arguments

    return random_arguments(instance, sizes, data) | dict(data)


def _measure_point(
    functions: tuple[Differentiable, Differentiable],
    formulas: tuple[Formula, Formula],
    sizes: dict[str, int],
    data: Mapping[str, Any],
) -> Point:
    """Measure a function, and its value and gradient, at some sizes."""
    from .jax.timing import median_seconds

    instances = [function.instance for function in functions]
    arguments = _make_arguments(instances[0], sizes, data)

    holds = {
        x: relation(t, arguments[x])
        for x, t, _ in instances[0].parameters
        if isinstance(t, Relation | IndexArray | TupleSet)
    }
    env = Environment(integers=sizes, relations=holds)
    value, gradient = (formula.evaluate(env) for formula in formulas)
    # The value, which comes with the gradient, counts as dy does, which is an input of Dᵀ (6.55) and 1 here.
    ends = [interface_size(instance.function, sizes) for instance in instances]
    outside = dict(instances[0].checked.outside)
    own = {x: value for x, value in arguments.items() if x not in outside}
    seconds = [median_seconds(partial(function, **own), CALLS) for function in functions]
    return Point(sizes, value, gradient, value + ends[0], gradient + ends[1], *seconds)


def _measure_kernel(
    both: Differentiable, instance: Instance, sizes: Mapping[str, int], data: Mapping[str, Any]
) -> Kernel:
    """Measure memory and flops of the kernel of value and gradient."""
    from .jax.profile import measure_call

    bytes_, flops = measure_call(both.instance, sizes, _make_arguments(instance, sizes, data))
    return Kernel(bytes_, flops)


__all__ = ["Certificate", "JacobianCertificate", "certify", "certify_jacobian"]
