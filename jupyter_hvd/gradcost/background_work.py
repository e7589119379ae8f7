"""Work that takes a while, beside the panel: XLA's estimates of plain JAX, and measured times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..tensor import TensorError, calls
from ..tensor.cost.statements import Sizes
from ..tensor.jax.profile import ProfileCancelledError, profile
from .report import Measured, Plain, State
from .subject import Subject

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]

ESTIMATED = 1 << 24  # entries of the largest array at which plain JAX is still compiled
MEASURED = 1 << 28  # entries in all at which something is still run
ROUNDS = 11  # in which value, gradient and plain JAX's run in turn, at least
GRID = (4, 16, 64, 256, 1024, 4096, 16384)

Key = tuple[tuple[str, int], ...]


def sizes_key(sizes: Sizes) -> Key:
    return tuple(sorted(sizes.items()))


def wanted_sizes(subject: Subject, sizes: Sizes, linked: bool) -> dict[str, list[tuple[int, Key]]]:
    """Where plain JAX is asked about: over each size some sizes, the others as they stand, as far
    as a dense array has room.
    """
    found: dict[str, list[tuple[int, Key]]] = {}
    for size in subject.size_sliders(linked):
        name = size.name
        points = []
        for n in sorted({*GRID, sizes[name]}):
            here = {**sizes, **dict.fromkeys(size.names, n)}
            within = n <= size.high and subject.fits_data(here)
            if within and subject.dense_entries(here) <= ESTIMATED:
                points.append((n, sizes_key(here)))
        if not size.fixed:
            found[name] = points
    return found


def estimate_plain(
    subject: Subject, sizes: Sizes, linked: bool, known: dict[Key, Any], cancelled: Cancelled
) -> Plain:
    """XLA's estimates of plain JAX's gradient; `known` keeps those that are there already."""
    try:
        from . import plainjax, xla
        from .arguments import jax_precision
    except ImportError:
        return Plain("failed", subject.version, "JAX is not installed")
    if subject.missing_data:
        return Plain("failed", subject.version, subject.missing_data)
    for _, at in (
        point for points in wanted_sizes(subject, sizes, linked).values() for point in points
    ):
        if at in known:
            continue
        if cancelled():
            raise ProfileCancelledError
        with jax_precision(subject):
            both = plainjax.plain_jax(subject, dict(at))
            known[at] = xla.estimate_cost(both.adjoint, both.shapes)
    return known_estimates(subject, sizes, linked, known)


def known_estimates(
    subject: Subject, sizes: Sizes, linked: bool, known: Mapping[Key, Any], message: str = ""
) -> Plain:
    """What is known of plain JAX at these sizes."""
    flops: dict[str, tuple[tuple[int, float], ...]] = {}
    memory: dict[str, tuple[tuple[int, float], ...]] = {}
    whole = not message
    for name, points in wanted_sizes(subject, sizes, linked).items():
        found = [(n, known[at]) for n, at in points if known.get(at) is not None]
        whole = whole and all(at in known for _, at in points)
        flops[name] = tuple((n, e.flops) for n, e in found)
        memory[name] = tuple((n, float(e.memory)) for n, e in found)
    state: State = "failed" if message else "done" if whole else "pending"
    return Plain(state, subject.version, message, flops, memory)


def measure_subject(
    subject: Subject, sizes: Sizes, repeats: int, progress: Progress, cancelled: Cancelled
) -> Measured:
    """Times and bytes of value and gradient, statement by statement, and of plain JAX's, in the
    type in which the subject's own arguments are computed with.

    Raises ProfileCancelledError once `cancelled()` is true.
    """
    from .arguments import jax_precision

    if subject.missing_data:
        raise TensorError(subject.missing_data)
    require_room(subject, sizes)
    with jax_precision(subject):
        return _measure_parts(subject, sizes, repeats, progress, cancelled)


def require_room(subject: Subject, sizes: Sizes) -> None:
    """Raise TensorError where the arrays are too large for something to be run."""
    held = count_entries(subject, sizes)
    if held > MEASURED:
        raise TensorError(
            f"at these sizes the arrays hold {held:,} numbers", "choose smaller sizes to measure"
        )


def count_entries(subject: Subject, sizes: Sizes) -> int:
    """The numbers that all arrays of value and gradient hold."""
    return sum(
        subject.evaluate(line.entries, sizes) or 0
        for part in (subject.value, subject.adjoint)
        for line in part.lines
    )


def _measure_parts(
    subject: Subject, sizes: Sizes, repeats: int, progress: Progress, cancelled: Cancelled
) -> Measured:
    from ..tensor.jax.timing import faster, spread
    from . import xla
    from .arguments import at_sizes, number_type

    arguments = at_sizes(subject, sizes)
    own = {x: arguments[x] for x, _ in subject.types}
    dense = subject.dense_entries(sizes)
    with_jax = subject.against is not None or dense <= MEASURED >> 2
    steps = [len(p.ssa.statements) + 1 for p in (subject.value, subject.adjoint)]
    total = sum(steps) + ROUNDS + (3 if with_jax else 2)
    done = 0

    def next_step() -> None:
        nonlocal done
        if cancelled():
            raise ProfileCancelledError
        done = min(done + 1, total)
        progress(done, total)

    def count_step(_done: int, _steps: int) -> None:
        next_step()

    # The instances: a call of the function would change what its cards tell of its last call.
    calls.check(subject.instance, own, sizes)
    value = profile(subject.instance, sizes, own, repeats, count_step, cancelled)
    adjoint = profile(subject.adjoint_instance, sizes, arguments, repeats, count_step, cancelled)
    found = _time_interleaved(subject, sizes, arguments, own, with_jax, next_step)
    value_times, adjoint_times, *jax_times = found
    return Measured(
        sizes=dict(sizes),
        at=spell_sizes(subject, sizes),
        repeats=len(value_times),
        device=xla.device_name(),
        dtype=number_type(own),
        value=spread(value_times),
        adjoint=spread(adjoint_times),
        value_bytes=value.total.bytes,
        adjoint_bytes=adjoint.total.bytes,
        value_statements=_profile_seconds(value),
        adjoint_statements=_profile_seconds(adjoint),
        jax_adjoint=spread(jax_times[0]) if jax_times else None,
        faster=faster(adjoint_times, jax_times[0]) if jax_times else None,
        note=""
        if with_jax
        else f"plain JAX would form an array of {dense:,} numbers; it was not run",
    )


def _time_interleaved(
    subject: Subject,
    sizes: Sizes,
    arguments: Mapping[str, Any],
    own: Mapping[str, Any],
    with_jax: bool,
    step: Callable[[], None],
) -> list[list[float]]:
    """Seconds of value, gradient and plain JAX's gradient, run in turn, so that one load of the machine meets all."""
    from ..tensor.jax.timing import LONGEST, interleaved
    from . import plainjax, xla
    from .arguments import real_arguments

    functions = [
        xla.compiled_kernel(subject.instance, sizes, own),
        xla.compiled_kernel(subject.adjoint_instance, sizes, arguments),
    ]
    if with_jax:
        plain = plainjax.plain_jax(subject, sizes).adjoint
        functions.append(xla.compile_call(plain, real_arguments(subject, arguments)))
    return interleaved(functions, ROUNDS, step, LONGEST)


def spell_sizes(subject: Subject, sizes: Sizes) -> str:
    """Sizes for people: those that go together once."""
    return ", ".join(
        f"{group.name} = {sizes[group.name]}"
        for group in subject.size_sliders()
        if len({sizes[name] for name in group.names}) == 1
    ) or ", ".join(f"{name} = {n}" for name, n in sizes.items())


def _profile_seconds(profile: Any) -> Mapping[str, float]:
    return {s.name: s.seconds for s in profile.statements}
