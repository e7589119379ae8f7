"""Work that takes a while, beside the panel: XLA's estimates of plain JAX, measured times, plans and certificates."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

from ..tensor import TensorError
from ..tensor.cost.statements import Sizes
from ..tensor.jax.backend import kernel, plan_call
from ..tensor.jax.profile import profile
from ..tensor.jax.timing import LONGEST, compare_times, quartiles_of, time_interleaved
from ..tensor.language.types import Array, Product, Real
from ..tensor.measure import LONG, fit_growth
from . import plainjax, xla
from .report import Measured, Plain, State, Times
from .subject import Size, Subject

Progress = Callable[[int, int], None]
#: Is called often, and raises ProfileCancelledError once the work was cancelled.
Step = Callable[[], None]

ESTIMATED = 1 << 24  # entries of the largest array at which plain JAX is still compiled
MEASURED = 1 << 28  # entries in all at which something is still run
ROUNDS = 11  # in which value, gradient and plain JAX's run in turn, at least
GRID = (4, 16, 64, 256, 1024, 4096, 16384)
PROFILED = 10  # runs of each statement, of which the median is taken
POWERS = tuple(1 << k for k in range(2, 21))  # at which times over a size are measured
REPEATS = 7  # of which the shortest is taken

Key = tuple[tuple[str, int], ...]


def wanted_sizes(subject: Subject, sizes: Sizes, linked: bool) -> dict[str, list[tuple[int, Key]]]:
    """Return, for each size, the values at which plain JAX is estimated, each with all sizes.

    Values at which its dense arrays would be too large are left out.
    """
    return {
        size.name: [
            (n, tuple(sorted(here.items())))
            for n, here in subject.sizes_over(size, sizes, sorted({*GRID, sizes[size.name]}))
            if subject.dense_entries(here) <= ESTIMATED
        ]
        for size in subject.size_sliders(linked)
        if not size.fixed
    }


def estimate_plain(
    subject: Subject, sizes: Sizes, linked: bool, estimates: dict[Key, Any], step: Step
) -> Plain:
    """Return XLA's estimates of plain JAX's gradient; slow, since it compiles for each size.

    Args:
        estimates: earlier estimates by sizes; new ones are added.
        step: called before each; may raise to cancel.
    """
    if subject.missing_data:
        return Plain("failed", subject.version, subject.missing_data)
    for _, at in chain.from_iterable(wanted_sizes(subject, sizes, linked).values()):
        if at in estimates:
            continue
        step()
        with xla.jax_precision(subject):
            estimates[at] = xla.estimate_cost(*plainjax.plain_gradient(subject, dict(at)))
    return known_estimates(subject, sizes, linked, estimates)


def known_estimates(
    subject: Subject, sizes: Sizes, linked: bool, estimates: Mapping[Key, Any], message: str = ""
) -> Plain:
    """Return the estimates of plain JAX that are known at these sizes, without computing others.

    Args:
        message: why estimates failed.
    """
    wanted = wanted_sizes(subject, sizes, linked)
    found = {
        name: {n: estimates[at] for n, at in points if estimates.get(at)}
        for name, points in wanted.items()
    }
    is_complete = all(at in estimates for _, at in chain.from_iterable(wanted.values()))
    state: State = "failed" if message else "done" if is_complete else "pending"
    return Plain(state, subject.version, message, found)


def measure_subject(subject: Subject, sizes: Sizes, progress: Progress, step: Step) -> Measured:
    """Measure times and memory of value and gradient, by statement, and of plain JAX's gradient.

    Args:
        progress: called with the steps done and their number.
        step: called before each step; may raise to cancel.
    """
    require_room(subject, sizes)
    dense = subject.dense_entries(sizes)
    with_jax = subject.against is not None or dense <= MEASURED >> 2
    steps = [len(p.ssa.statements) + 1 for p in (subject.value, subject.adjoint)]
    total = sum(steps) + ROUNDS + (3 if with_jax else 2)
    done = 0

    def next_step(*_of_part: int) -> None:
        nonlocal done
        step()
        done = min(done + 1, total)
        progress(done, total)

    with xla.jax_precision(subject):
        arguments = xla.make_arguments(subject, sizes)
        dtype = xla.number_type(subject, arguments)
        value, adjoint = (
            profile(instance, sizes, given, PROFILED, next_step)
            for instance, given in subject.programs(arguments)
        )
        functions = xla.compile_kernels(subject, sizes, arguments)
        if with_jax:
            plain, _ = plainjax.plain_gradient(subject, sizes)
            functions.append(xla.compile_call(plain, xla.real_arguments(subject, arguments)))
        # In turn, so that one load of the machine meets all.
        found = time_interleaved(functions, ROUNDS, next_step, LONGEST)
    value_times, adjoint_times, *jax_times = found
    note = f"plain JAX would form an array of {dense:,} numbers; it was not run"
    return Measured(
        sizes=dict(sizes),
        at=spell_sizes(subject, sizes),
        repeats=len(value_times),
        device=xla.device_name(),
        dtype=dtype,
        value=quartiles_of(value_times),
        adjoint=quartiles_of(adjoint_times),
        value_bytes=value.total.bytes,
        adjoint_bytes=adjoint.total.bytes,
        value_statements={s.name: s.seconds for s in value.statements},
        adjoint_statements={s.name: s.seconds for s in adjoint.statements},
        jax_adjoint=quartiles_of(jax_times[0]) if jax_times else None,
        faster=compare_times(adjoint_times, jax_times[0]) if jax_times else None,
        note="" if with_jax else note,
    )


def sweep_sizes(
    subject: Subject, sizes: Sizes, size: Size, progress: Progress, step: Step
) -> Times:
    """Measure times of value and gradient at powers of two of one size; other sizes stay.

    Raises:
        TensorError: data are missing, or nothing can be measured at any size.
    """
    if subject.missing_data:
        raise TensorError(subject.missing_data)
    found: list[tuple[int, float, float]] = []
    over_size = subject.sizes_over(size, sizes, POWERS)
    tried = [point for point in over_size if count_entries(subject, point[1]) <= MEASURED]
    if not tried:
        raise TensorError(f"there is no size `{size.name}` at which this can be measured")
    with xla.jax_precision(subject):
        for k, (n, here) in enumerate(tried):
            progress(k, len(tried))
            step()
            arguments = xla.make_arguments(subject, here, is_random=True)
            kernels = xla.compile_kernels(subject, here, arguments)
            # What else the machine does makes none shorter.
            value, adjoint = map(min, time_interleaved(kernels, REPEATS, step))
            found.append((n, value, adjoint))
            if max(value, adjoint) > LONG:
                break
        dtype = xla.number_type(subject, arguments)
    over, values, adjoints = zip(*found, strict=True)
    seconds = {"value": values, "adjoint": adjoints}
    return Times(
        size=size.name,
        at={x: n for x, n in sizes.items() if x not in size.names},
        device=xla.device_name(),
        dtype=dtype,
        sizes=over,
        seconds=seconds,
        growth={kind: fit_growth(over, found) for kind, found in seconds.items()},
    )


def view_text(subject: Subject, sizes: Sizes, view: str) -> str:
    """Return the text of a view, "plan" or "certificate", at some sizes.

    Raises:
        TensorError: data of a relation are missing, the sizes are too large, or there is no such gradient.
    """
    require_room(subject, sizes)
    return plans_text(subject, sizes) if view == "plan" else certificate_text(subject, sizes)


def plans_text(subject: Subject, sizes: Sizes) -> str:
    """Return the tables of `f.plan(…)` and `f.grad(…).plan(…)`."""
    value, gradient = (
        plan_call(kernel(instance, sizes), tuple(given.values()))
        for instance, given in subject.programs(xla.make_arguments(subject, sizes))
    )
    return f"value\n{value}\n\ngradient by {', '.join(subject.wrt)}\n{gradient}"


def certificate_text(subject: Subject, sizes: Sizes) -> str:
    """Return the certificate as `f.certify(…)` prints it, for growth from these sizes on."""
    data = {
        x: subject.arguments[x]
        for x, t in subject.types
        if subject.arguments is not None and not isinstance(t, Real | Array | Product)
    }
    # Calls of a copy: those of the function itself would change what its cards tell of its last call.
    return str(copy.copy(subject.function).certify(*subject.wrt, sizes=sizes, **data))


def require_room(subject: Subject, sizes: Sizes) -> None:
    """Raise TensorError if data of a relation are missing, or arrays are too large for the program to run."""
    if subject.missing_data:
        raise TensorError(subject.missing_data)
    held = count_entries(subject, sizes)
    if held > MEASURED:
        raise TensorError(
            f"at these sizes the arrays hold {held:,} numbers", "choose smaller sizes to measure"
        )


def count_entries(subject: Subject, sizes: Sizes) -> int:
    """Return how many numbers all arrays of value and gradient hold."""
    return sum(
        subject.evaluate(line.entries, sizes) or 0
        for part in (subject.value, subject.adjoint)
        for line in part.lines
    )


def spell_sizes(subject: Subject, sizes: Sizes) -> str:
    """Return sizes as text; equal sizes that move together appear once."""
    return ", ".join(
        f"{group.name} = {sizes[group.name]}"
        for group in subject.size_sliders()
        if len({sizes[name] for name in group.names}) == 1
    ) or ", ".join(f"{name} = {n}" for name, n in sizes.items())
