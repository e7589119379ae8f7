"""`lint(f, x, …)`: where `jax.grad` of a plain JAX function grows faster than the function.

It measures as `certify` does, seconds over growing sizes, and asks XLA for the bytes of what it has compiled.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .language.errors import TensorError
from .measure import CALLS, LARGE, LEAST, LONG, SHORT, fit_doubled, measure_doubled

#: Exponents that differ by less are the same: a doubling of a size is measured to about a fifth.
MARGIN = 0.35
#: Bytes of a gradient, from which it matters how they grow.
MANY = 1 << 16

Grow = Callable[[int], Sequence[Any]]


@dataclass(frozen=True)
class MeasuredSize:
    """The measurements at one size: seconds of a call, and extra bytes, of the value and of value and gradient."""

    size: int
    value_seconds: float
    gradient_seconds: float
    value_bytes: int
    gradient_bytes: int


@dataclass(frozen=True)
class GradientGrowth:
    """The growth of time and memory when one size is doubled.

    Exponents are slopes on logarithmic axes; None, with the reason in `not_measured`, where they are unknown. `culprits` are
    the largest arrays that only the gradient creates: type, operation, line.
    """

    size: str
    steps: tuple[MeasuredSize, ...]
    seconds_exponents: tuple[float, float] | None
    bytes_exponents: tuple[float, float] | None
    not_measured: str | None
    culprits: tuple[str, ...]

    @property
    def slower(self) -> bool:
        """Whether the gradient's time grows faster than the function's."""
        found = self.seconds_exponents
        return found is not None and found[1] - found[0] > MARGIN

    @property
    def larger(self) -> bool:
        """Whether the gradient's memory grows faster than the function's, and than that of its arguments."""
        if self.bytes_exponents is None or self.steps[-1].gradient_bytes < MANY:
            return False
        value, gradient = self.bytes_exponents
        return gradient - max(1.0, value) > MARGIN

    def __str__(self) -> str:
        first, last = self.steps[0], self.steps[-1]
        ratio = last.gradient_seconds / last.value_seconds
        lines = [
            f"  {self.size} {first.size}…{last.size}: {1e3 * last.value_seconds:.3g} ms the value, "
            f"{1e3 * last.gradient_seconds:.3g} ms with its gradient, {ratio:.2f} times as long"
        ]
        if self.seconds_exponents is not None:
            value, gradient = self.seconds_exponents
            verdict = "THE GRADIENT GROWS FASTER" if self.slower else "equally fast"
            lines.append(
                f"    seconds grow as size^{value:.2f} (value), size^{gradient:.2f} (with gradient): {verdict}"
            )
        if self.bytes_exponents is not None:
            value, gradient = self.bytes_exponents
            verdict = "THE GRADIENT STORES MORE" if self.larger else "equally fast"
            lines.append(
                f"    bytes grow as size^{value:.2f}, to {last.value_bytes:,} (value), size^{gradient:.2f}, to "
                f"{last.gradient_bytes:,} (with gradient): {verdict}"
            )
        if self.not_measured:
            lines.append(f"    not measured: {self.not_measured}")
        if self.slower or self.larger:
            lines += [f"    only in the gradient: {culprit}" for culprit in self.culprits]
        return "\n".join(lines)


@dataclass(frozen=True)
class Lint:
    """The findings about a function. `str` prints them for people, `json()` for programs."""

    function: str
    wrt: tuple[int, ...]
    growths: tuple[GradientGrowth, ...]
    device: str
    jax: str

    @property
    def findings(self) -> tuple[GradientGrowth, ...]:
        """The sizes with which the gradient's time or memory grows faster than the function's."""
        return tuple(g for g in self.growths if g.slower or g.larger)

    def json(self) -> str:
        """Return all findings as one JSON object."""
        made = asdict(self)
        for written, growth in zip(made["growths"], self.growths, strict=True):
            written |= {"slower": growth.slower, "larger": growth.larger}
        return json.dumps(made, ensure_ascii=False, indent=2)

    def __str__(self) -> str:
        by = ", ".join(map(str, self.wrt))
        found = len(self.findings)
        counted = f"{found} of {len(self.growths)} sizes" if found else "nothing"
        return "\n".join(
            [
                f"{self.function}: jax.grad by argument {by}: {counted} to mend",
                *map(str, self.growths),
                f"  on {self.device}, JAX {self.jax}",
            ]
        )


def lint(
    function: Callable[..., Any],
    *arguments: Any,
    wrt: int | Sequence[int] | None = None,
    grow: Grow | None = None,
    start: int = 32,
) -> Lint:
    """Measure whether `jax.grad` of a function of arrays grows faster than the function; about ten seconds per size.

    Axes of equal length are one size, and each size is doubled separately, with the entries repeated.

    Args:
        wrt: the positions of the arguments to differentiate by, as in `jax.grad`; all of floats by default.
        grow: gives the arguments for n from `start` on, instead of doubling.

    Raises:
        TensorError: the function returns no scalar, or has no such argument.
    """
    import jax

    if grow is None and not arguments:
        raise TensorError(
            "nothing to call the function with", "give its arguments, or `grow=lambda n: (…)`"
        )
    if grow is not None and arguments:
        raise TensorError(
            "both arguments and `grow`", "leave one of them out: `grow(n)` gives all arguments"
        )
    given = tuple(grow(start)) if grow is not None else arguments
    places = _argument_positions(given, wrt)
    shape = jax.eval_shape(
        lambda *moved: function(*_replace_arguments(given, places, moved)),
        *_select_arguments(given, places),
    )
    if getattr(shape, "shape", None) != ():
        raise TensorError(
            f"`{_function_name(function)}` gives {shape}, and only a scalar has a gradient",
            "sum it, or lint `lambda *a: jnp.sum(f(*a))`",
        )
    if grow is not None:
        sizes = {"n": (start, lambda factor: tuple(grow(start * factor)))}
    else:
        sizes = {
            name: (length, partial(_repeat_axes, arguments, length))
            for name, length in _find_sizes(function, arguments).items()
        }
    if not sizes:
        raise TensorError("no argument is an array that could grow", "give `grow=lambda n: (…)`")
    growths = tuple(_measure_growth(function, places, name, *size) for name, size in sizes.items())
    device = str(jax.devices()[0].device_kind)
    return Lint(_function_name(function), places, growths, device, jax.__version__)


def _measure_growth(
    function: Callable[..., Any],
    positions: tuple[int, ...],
    name: str,
    start: int,
    arguments_at: Callable[[int], tuple[Any, ...]],
) -> GradientGrowth:
    """Double one size until a call takes long, and fit the exponents of times and memory.

    Args:
        positions: of the arguments to differentiate by.
        start: the size to begin with.
        arguments_at: the arguments for a multiple of it.
    """
    import numpy as np
    from jax import tree_util

    def step(factor: int) -> tuple[MeasuredSize, tuple[str, ...]] | None:
        arguments = arguments_at(factor)
        entries = sum(int(np.size(x)) for x in tree_util.tree_leaves(arguments))
        if factor > 1 and entries > LARGE:
            return None
        found = _measure_size(function, positions, arguments, start * factor)
        if found is None and factor == 1:
            raise TensorError(
                f"`{_function_name(function)}` takes more memory than there is",
                "begin with smaller arrays",
            )
        return found

    found = measure_doubled(step, lambda found: found[0].gradient_seconds > LONG)
    steps, culprits = tuple(each for each, _ in found), found[-1][1]
    # What is short measures what calling costs, and the gradient is never the shorter.
    long = [s for s in steps if s.value_seconds > SHORT]
    if len(long) < LEAST:
        long = [s for s in steps if s.gradient_seconds > SHORT]
    seconds = fit_doubled([(s.value_seconds, s.gradient_seconds) for s in long])
    bytes_ = fit_doubled([(s.value_bytes or 1.0, s.gradient_bytes or 1.0) for s in steps])
    why = (
        None
        if len(long) >= LEAST
        else "growth of seconds: calls are too short, or soon too long, to be compared"
    )
    return GradientGrowth(name, steps, seconds, bytes_, why, culprits)


def _measure_size(
    function: Callable[..., Any], positions: tuple[int, ...], arguments: tuple[Any, ...], size: int
) -> tuple[MeasuredSize, tuple[str, ...]] | None:
    """Measure one size, and list the arrays that only the gradient creates; None if memory does not suffice."""
    import jax

    from .jax.memory import free_bytes, needed_bytes
    from .jax.timing import median_seconds

    def value(*moved: Any) -> Any:
        return function(*_replace_arguments(arguments, positions, moved))

    both = jax.value_and_grad(value, tuple(range(len(positions))))
    moved = jax.tree_util.tree_map(jax.numpy.asarray, _select_arguments(arguments, positions))
    seconds, bytes_ = list[float](), list[int]()
    for f in (value, both):
        compiled = jax.jit(f).lower(*moved).compile()
        bytes_.append(needed_bytes(compiled))
        if bytes_[-1] > free_bytes() // 2:
            return None
        seconds.append(median_seconds(partial(compiled, *moved), CALLS))
    found = MeasuredSize(size, seconds[0], seconds[1], bytes_[0], bytes_[1])
    return found, _list_gradient_arrays(function, value, both, moved)


def _list_gradient_arrays(
    function: Callable[..., Any], value: Any, both: Any, moved: Sequence[Any]
) -> tuple[str, ...]:
    """Return the largest arrays that the gradient creates, of types of which the value creates none."""
    import jax

    source = inspect.getsourcefile(function) if inspect.isfunction(function) else None
    known = {str(x.aval) for _, x in _iterate_created_arrays(jax.make_jaxpr(value)(*moved).jaxpr)}
    found: dict[str, tuple[int, str]] = {}
    for equation, x in _iterate_created_arrays(jax.make_jaxpr(both)(*moved).jaxpr):
        type_, shape = str(x.aval), getattr(x.aval, "shape", ())
        if type_ not in known and math.prod(shape) * 8 > MANY:
            line = _find_source_line(equation, source)
            found.setdefault(type_, (math.prod(shape), f"{type_} by {equation.primitive}{line}"))
    return tuple(text for _, text in sorted(found.values(), reverse=True)[:3])


def _iterate_created_arrays(jaxpr: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each array that a jaxpr creates, also within loops and calls, with its equation."""
    for equation in jaxpr.eqns:
        for inner in equation.params.values():
            for part in inner if isinstance(inner, tuple | list) else (inner,):
                closed = getattr(part, "jaxpr", part)
                if hasattr(closed, "eqns"):
                    yield from _iterate_created_arrays(closed)
        for x in equation.outvars:
            yield equation, x


def _find_source_line(equation: Any, source: str | None) -> str:
    """Return the line, in the function's own file, of the operation."""
    traceback = getattr(equation.source_info, "traceback", None)
    for frame in getattr(traceback, "frames", ()):
        if source is not None and frame.file_name == source:
            return f", {Path(source).name}:{frame.line_num}"
    return ""


def _argument_positions(
    arguments: Sequence[Any], wrt: int | Sequence[int] | None
) -> tuple[int, ...]:
    """Return the positions of the arguments to differentiate by: all of floats by default.

    Raises:
        TensorError: one is not of floats, or there is none.
    """
    if wrt is None:
        places = tuple(k for k, a in enumerate(arguments) if _is_real(a))
    else:
        places = (wrt,) if isinstance(wrt, int) else tuple(wrt)
    wrong = [k for k in places if not (0 <= k < len(arguments) and _is_real(arguments[k]))]
    if wrong or not places:
        which = f"argument {wrong[0]}" if wrong else "no argument"
        raise TensorError(f"{which} is of floats, to differentiate by", "give arrays of floats")
    return places


def _is_real(argument: Any) -> bool:
    """Whether an argument consists of floats only."""
    import jax
    import numpy as np

    leaves = jax.tree_util.tree_leaves(argument)
    return bool(leaves) and all(
        isinstance(x, float) or np.issubdtype(getattr(x, "dtype", int), np.floating) for x in leaves
    )


def _select_arguments(arguments: Sequence[Any], positions: Sequence[int]) -> list[Any]:
    """Return the arguments at some positions."""
    return [arguments[k] for k in positions]


def _replace_arguments(
    arguments: Sequence[Any], positions: Sequence[int], replacements: Sequence[Any]
) -> list[Any]:
    """Return the arguments with those at some positions replaced."""
    put = dict(zip(positions, replacements, strict=True))
    return [put.get(k, a) for k, a in enumerate(arguments)]


def _find_sizes(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, int]:
    """Return the lengths of axes, each named after the first axis of this length."""
    from jax import tree_util

    found: dict[int, str] = {}
    for name, argument in zip(_parameter_names(function, len(arguments)), arguments, strict=True):
        for path, leaf in tree_util.tree_flatten_with_path(argument)[0]:
            for axis, length in enumerate(getattr(leaf, "shape", ())):
                at = f"{name}{tree_util.keystr(path)}.shape[{axis}]"
                if length > 1:
                    found.setdefault(length, at)
    return {name: length for length, name in found.items()}


def _parameter_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return names for the first `count` arguments: of the parameters, else "argument 3"."""
    try:
        names = [x for x, p in inspect.signature(function).parameters.items() if p.kind in (0, 1)]
    except (TypeError, ValueError):
        names = []
    return (names + [f"argument {k}" for k in range(count)][len(names) :])[:count]


def _repeat_axes(arguments: Sequence[Any], length: int, factor: int) -> tuple[Any, ...]:
    """Repeat the entries along every axis of a length, `factor` times."""
    import numpy as np
    from jax import tree_util

    def repeated(x: Any) -> Any:
        shape = getattr(x, "shape", ())
        if length not in shape:
            return x
        return np.tile(np.asarray(x), [factor if n == length else 1 for n in shape])

    return tuple(tree_util.tree_map(repeated, arguments))


def _function_name(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of its type."""
    return getattr(function, "__name__", type(function).__name__)


__all__ = ["GradientGrowth", "Lint", "MeasuredSize", "lint"]
