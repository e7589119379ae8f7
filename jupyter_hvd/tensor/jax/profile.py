"""`f.profile(*args)`: where the operations, the bytes and the time of a compiled call go."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from ..cost import counting
from ..cost.counting import RelationData
from ..cost.formula import count_operations
from ..cost.statements import points_of
from ..language.predicates import TRUE
from ..language.printer import show
from ..language.terms import Term, uniquify
from ..lowering.roofline import describe_time
from ..ssa.program import (
    Addition,
    Program,
    Rhs,
    statement_terms,
)
from .backend import kernel
from .kernel import Kernel
from .memory import require_memory
from .precision import is_double, keeping_float64
from .timing import median_seconds

if TYPE_CHECKING:
    from ..instance import Instance

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class StatementProfile:
    """What one SSA statement costs at one call.

    `support` counts the points of its predicate, `operations` its additions, multiplications and
    primitive calls (Fig. 6), exactly. `bytes` are those of its operands and result as stored.
    `xla_flops` and `xla_bytes` are XLA's own estimates for the statement compiled alone, None
    where it gives none; `seconds` is the median of its measured times.
    """

    name: str
    statement: str
    predicate: str
    support: int
    operations: int
    bytes: int
    xla_flops: float | None
    xla_bytes: float | None
    seconds: float


@dataclass(frozen=True)
class Profile:
    """The statements in order, and the whole call: its operations and points add the statements'
    up, its bytes, estimates and seconds are those of the one fused kernel.

    `predicted` says what the device takes for it at least by its profile, None where JAX's own way is taken.
    """

    statements: tuple[StatementProfile, ...]
    total: StatementProfile
    compile_seconds: float
    predicted: str | None

    def __str__(self) -> str:
        lines = [
            f"{'operations':>12} {'bytes':>12} {'XLA flops':>12} {'seconds':>10}  statement",
            *(_format_row(s, f"{s.name} = {s.statement}") for s in (*self.statements,)),
            _format_row(self.total, "total"),
            *([self.predicted] if self.predicted is not None else []),
            f"compiled in {self.compile_seconds:.3f} s",
        ]
        return "\n".join(lines)


class ProfileCancelledError(Exception):
    """`cancelled()` said so."""


def _format_row(s: StatementProfile, what: str) -> str:
    """Return one statement as a row of the table."""
    flops = "" if s.xla_flops is None else f"{s.xla_flops:.4g}"
    return f"{s.operations:>12} {s.bytes:>12} {flops:>12} {s.seconds:>10.2e}  {what}"


def profile(
    instance: Instance,
    sizes: Mapping[str, int],
    arguments: Mapping[str, Any],
    repeats: int = 5,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
) -> Profile:
    """Run every statement by itself, and the whole, `repeats` times after one warm-up.

    `progress(done, total)` is called after each; `cancelled()` is asked between them and ends the
    profile with ProfileCancelledError.
    """
    made = kernel(instance, sizes, program=instance.ssa)
    given = tuple(arguments.values())
    with keeping_float64(is_double(made.kinds, given)):
        return _profile_kernel(made, instance.ssa, given, repeats, progress, cancelled)


def _profile_kernel(
    made: Kernel,
    program: Program,
    given: tuple[Any, ...],
    repeats: int,
    progress: Progress | None,
    cancelled: Cancelled | None,
) -> Profile:
    """Return the profile of a kernel at given arguments; see `profile`."""
    data = made.relations(given)
    steps = len(program.statements) + 1
    concrete = dict(statement_terms(made.program))
    found: list[StatementProfile] = []

    def report_progress() -> None:
        """Report progress, and end the profile if it was cancelled."""
        if progress is not None and found:
            progress(len(found), steps)
        if cancelled is not None and cancelled():
            raise ProfileCancelledError

    statements = program.statements
    terms, stages = statement_terms(program), made.stages(given)
    for statement, (name, term), stage in zip(statements, terms, stages, strict=True):
        report_progress()
        measured = _compile_and_time(stage.run, stage.operands, repeats)
        points, together = count_statement(made.program[name], concrete[name], data)
        found.append(
            StatementProfile(
                name,
                show(term),
                "" if (p := points_of(statement.rhs)[1]) == TRUE else show(p),
                points,
                together,
                _count_bytes((stage.operands, measured.result)),
                measured.flops,
                measured.bytes,
                measured.seconds,
            )
        )
        stage.keep(measured.result)
    report_progress()
    whole = _compile_and_time(made.run, made.operands(given), repeats)
    if progress is not None:
        progress(steps, steps)
    total = StatementProfile(
        "total",
        "",
        "",
        sum(s.support for s in found),
        sum(s.operations for s in found),
        whole.memory,
        whole.flops,
        whole.bytes,
        whole.seconds,
    )
    plan = made.plan(given)
    predicted = None if plan.choices.dense else describe_time(plan)
    return Profile(tuple(found), total, whole.compile_seconds, predicted)


def measure_call(
    instance: Instance, sizes: Mapping[str, int], arguments: Mapping[str, Any]
) -> tuple[int, float | None]:
    """Return the bytes that the compiled call allocates, arguments and result among them, and XLA's estimate of its flops."""
    made = kernel(instance, sizes)
    with keeping_float64(is_double(made.kinds, tuple(arguments.values()))):
        operands = made.operands(tuple(arguments.values()))
        found = _compile_and_time(made.run, operands, 1)
    return found.memory, found.flops


@dataclass(frozen=True)
class _Measured:
    result: Any
    flops: float | None
    bytes: float | None
    seconds: float
    compile_seconds: float
    memory: int


def _compile_and_time(run: Callable[..., Any], operands: Any, repeats: int) -> _Measured:
    """Return the result, the time and XLA's estimates of a function."""
    began = time.perf_counter()
    compiled = jax.jit(run).lower(*operands).compile()
    compile_seconds = time.perf_counter() - began
    require_memory(compiled)
    result = jax.block_until_ready(compiled(*operands))
    seconds = median_seconds(lambda: compiled(*operands), repeats)
    flops, moved = xla_estimates(compiled)
    memory = _count_bytes((operands, result)) + temporary_bytes(compiled)
    return _Measured(result, flops, moved, seconds, compile_seconds, memory)


def xla_estimates(compiled: Any) -> tuple[float | None, float | None]:
    """Return XLA's own `flops` and `bytes accessed`, None where it gives none; older JAX gives them in a list."""
    try:
        analysis = compiled.cost_analysis()
    except Exception:  # some platforms have none
        return None, None
    if isinstance(analysis, list):
        analysis = analysis[0] if analysis else {}
    analysis = analysis or {}
    return analysis.get("flops"), analysis.get("bytes accessed")


def temporary_bytes(compiled: Any) -> int:
    """Return the bytes that a compiled function allocates beside its arguments and result; 0 if XLA does not say."""
    try:
        return int(compiled.memory_analysis().temp_size_in_bytes)
    except Exception:  # some platforms have none
        return 0


def _count_bytes(values: Any) -> int:
    """Return the bytes of all arrays in nested values."""
    return sum(
        leaf.size * leaf.dtype.itemsize
        for leaf in jax.tree_util.tree_leaves(values)
        if hasattr(leaf, "dtype")
    )


def count_statement(rhs: Rhs, term: Term, data: Mapping[str, RelationData]) -> tuple[int, int]:
    """Return the points of a statement's predicate and the operations of its term, at concrete sizes."""
    made = count_operations(uniquify(term))
    together = sum(
        o.times * counting.count_points(o.binders, o.condition, data, o.sums) for o in made
    )
    if isinstance(rhs, Addition):  # not the union: tuples of two relations are not joined
        both = (counting.count_points(rhs.gens, p, data) for p in (rhs.left_mask, rhs.right_mask))
        return sum(both) - together, together
    return counting.count_points(*points_of(rhs), data), together
