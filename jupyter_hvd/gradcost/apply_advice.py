"""Applies advice: changes the source, after both programs gave equal results on random values."""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import count, takewhile
from typing import Any

import jax
import numpy as np

from ..tensor import TensorError, tensor
from ..tensor.cost.statements import Sizes
from ..tensor.jax.precision import keeping_float64
from ..tensor.jax.sample_arguments import random_arguments
from ..tensor.language.errors import Place
from .advice import Adviser
from .background_work import Step
from .report import Locate
from .rewritten_source import Written, find_proposals
from .subject import Subject
from .view import Source
from .wording import format_number

DRAWS = 4
SMALL = 5
LARGEST = 1 << 20  # entries at which both programs are still run to be compared
#: Sums in another order differ by rounding: in float64 by far less than this share of the largest entry.
TOLERANCE = 1e-9

Costs = tuple[int | None, ...]
_NUMBERS = count()


@dataclass(frozen=True)
class Change:
    """Lines of a cell in other words: `before` are lines `first` to `last`, from 1 on.

    `value` and `gradient` are operations before and after, `draws` the random inputs that both programs
    were run on, and `difference` the largest between their results, as a share of the largest entry.
    """

    place: Source
    first: int
    last: int
    before: str
    after: str
    value: Costs
    gradient: Costs
    draws: int
    difference: float

    def json(self) -> dict[str, Any]:
        """Return the change as JSON for the panel, with its message."""
        return {**asdict(self), "message": self.message}

    @property
    def message(self) -> str:
        """What was done, to be said once the lines stand in the cell."""
        value, gradient = (" → ".join(map(format_number, c)) for c in (self.value, self.gradient))
        return (
            f"Same result on {self.draws} random inputs (difference at most {self.difference:.0e} of the largest entry): "
            f"value {value}, gradient {gradient} operations. Run the cell to use its new code."
        )


def accept_advice(
    adviser: Adviser, index: int, sizes: Sizes, locate: Locate, step: Step = lambda: None
) -> Change:
    """Return the cheapest change of the source by a rewriting whose results were equal on random values.

    Args:
        index: that of the rewriting in `adviser.candidates`.
        step: called repeatedly; may raise to cancel.

    Raises:
        TensorError: there is no such change; the message says why.
    """
    if not 0 <= index < len(adviser.candidates):
        raise TensorError("this advice no longer applies")
    subject = adviser.subject
    written = Written.of(subject.function)
    now = _count_operations(subject, sizes)
    cheaper: list[tuple[int, Subject, str]] = []
    refused: list[TensorError] = []
    for text in find_proposals(written, subject, adviser.candidates[index].rewriting, sizes):
        try:
            changed = rewrite_subject(subject, written, text)
            then = _count_operations(changed, sizes)
        except TensorError as error:
            refused.append(error)
            continue
        if now is not None and then is not None and then < now:
            cheaper.append((then, changed, text))
    for _, changed, text in sorted(cheaper, key=lambda found: found[0]):
        try:
            draws, difference = compare_programs(subject, changed, sizes, step)
        except TensorError as error:
            refused.append(error)
            continue
        first, last, old, new = changed_lines(written, text)
        both = subject, changed
        return Change(
            locate(Place(written.filename, first, 0, 0, "")),
            first,
            last,
            old,
            new,
            tuple(each.evaluate(each.value.total, sizes) for each in both),
            tuple(each.evaluate(each.adjoint.total, sizes) for each in both),
            draws,
            difference,
        )
    if refused:
        raise refused[0]
    raise TensorError(
        "this advice has no form that could be put into the cell and costs less",
        "write it by hand, and run the cell",
    )


def _count_operations(subject: Subject, sizes: Sizes) -> int | None:
    """Return the operations of value and gradient together, as the panel shows them; None if unknown."""
    return subject.evaluate.sum_formulas((subject.value.total, subject.adjoint.total), sizes)


def rewrite_subject(subject: Subject, written: Written, text: str) -> Subject:
    """Return the subject with another source text of its function.

    Raises:
        TensorError: the text is no tensor function of these types.
    """
    python = subject.function.python
    filename = f"<advice {next(_NUMBERS)}>"
    # Where the source is looked up; lines above keep the numbers.
    source = "\n" * (written.first - 1) + text
    linecache.cache[filename] = len(source), None, source.splitlines(keepends=True), filename
    namespace = dict(python.__globals__)
    # A cell's functions may be made tensor functions by `%%tensor` or by a decorator.
    namespace[written.name] = None
    exec(compile(source, filename, "exec", dont_inherit=True), namespace)  # noqa: S102 — the user's own function
    function = namespace[written.name]
    function = tensor(getattr(function, "python", function))
    instance = function.at({p.name: p for p in subject.instance.parameters})
    return replace(subject, function=function, instance=instance)


def compare_programs(
    original: Subject, changed: Subject, sizes: Sizes, step: Step
) -> tuple[int, float]:
    """Compare value and gradient of two programs on random inputs.

    Returns:
        The number of inputs, and the largest relative difference.

    Raises:
        TensorError: they differ, or there is no size at which both can be run.
    """
    # A call of the function itself would change what its cards tell of its last call.
    apart = replace(original, function=tensor(original.function.python))
    draws, largest = 0, 0.0
    with keeping_float64(True):
        for at in _small_sizes(original, sizes):
            for arguments in _draw_arguments(original, at):
                step()
                expected, found = (_compute_both(each, arguments) for each in (apart, changed))
                for part, result in found.items():
                    difference = _relative_difference(expected[part], result)
                    if not difference <= TOLERANCE:
                        shown = ", ".join(f"{name} = {n}" for name, n in at.items())
                        raise TensorError(
                            f"on random values at {shown} the {part} so written is another: "
                            f"it differs by {difference:.2g} of its largest entry",
                            "the cell is left as it is",
                        )
                    largest = max(largest, difference)
                draws += 1
    if draws == 0:
        raise TensorError(
            "at these sizes both programs are too large to compare", "choose smaller sizes"
        )
    return draws, largest


def _small_sizes(subject: Subject, sizes: Sizes) -> Iterator[Sizes]:
    """Yield small sizes, then the ones on display, where the arrays are not too large."""
    small = {n: v if n in subject.fixed_sizes else min(v, SMALL) for n, v in sizes.items()}
    told = []
    for at in (small, dict(sizes)):
        if subject.fits_data(at) and subject.dense_entries(at) <= LARGEST and at not in told:
            told.append(at)
            yield at


def _draw_arguments(subject: Subject, sizes: Sizes) -> Iterator[dict[str, Any]]:
    """Yield random arguments of the gradient: positive ones first, then those of either sign."""
    random = np.random.default_rng(1)
    for k in range(DRAWS):
        given = random_arguments(subject.adjoint_instance, sizes, subject.arguments)
        fixed = {x for x, _ in subject.types} - {*subject.differentiable_names}

        def draw_leaf(leaf: Any, signed: bool = k >= DRAWS // 2) -> Any:
            signs = random.choice([-1.0, 1.0], np.shape(leaf)) if signed else 1.0
            return np.asarray(leaf * random.uniform(0.5, 1.5, np.shape(leaf)) * signs)

        yield {
            x: v if x in fixed else jax.tree_util.tree_map(draw_leaf, v) for x, v in given.items()
        }


def _compute_both(subject: Subject, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return value and gradient at these arguments."""
    value = subject.function(**subject.own_arguments(arguments))
    return {"value": value, "gradient": subject.reverse(**arguments)}


def _relative_difference(expected: Any, actual: Any) -> float:
    """Return the largest difference of two results, relative to the largest entry; inf if the shapes differ.

    NaN and infinite entries must be in the same positions.
    """
    left, right = (
        np.concatenate([np.ravel(np.asarray(x, float)) for x in jax.tree_util.tree_leaves(both)])
        for both in (expected, actual)
    )
    if left.shape != right.shape or not np.array_equal(np.isfinite(left), np.isfinite(right)):
        return float("inf")
    finite = np.isfinite(left)
    apart = np.abs(left[finite] - right[finite]).max(initial=0.0)
    return float(apart / max(np.abs(left[finite]).max(initial=0.0), 1e-300))


def changed_lines(written: Written, text: str) -> tuple[int, int, str, str]:
    """Return the first and last line of the file that change, with the old and the new text of these lines."""
    old, new = written.text.splitlines(), text.splitlines()
    same = _common_prefix(old, new)
    rest = _common_prefix(old[same:][::-1], new[same:][::-1])
    end = len(old) - rest
    return (
        written.first + same,
        written.first + end - 1,
        "\n".join(old[same:end]),
        "\n".join(new[same : len(new) - rest]),
    )


def _common_prefix(first: list[str], second: list[str]) -> int:
    """Return how many lines at the start of two lists are equal."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
