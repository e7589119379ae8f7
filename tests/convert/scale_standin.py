"""A stand-in for a training library, so that the scale analysis is tested by running programs in milliseconds.

`train(batch)` is a training step, `batches(rows)` one pass over the data, `size()` the number of ranks. `see` records
variables, and `evaluate` an evaluation, together with the number of examples that were seen so far.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import ModuleType
from unittest.mock import patch

import libcst as cst

from jupyter_hvd.analysis.module import Module
from jupyter_hvd.analysis.scale_edits import edit_around
from jupyter_hvd.analysis.scale_exponents import ScaleAnalysis
from jupyter_hvd.analysis.scale_signatures import (
    EditedExponents,
    EntryPoint,
    Signature,
    parse_signature,
)
from jupyter_hvd.analysis.values import ValueAnalysis
from jupyter_hvd.convert.tensorflow.library import TensorFlowLibrary

_FUNCTIONS = {
    "standin.batches": "batch_size: b -> [-b][b] 0",
    "standin.batch": "number: _, batch_size: b -> [b] 0",
    "standin.loss": "-> 0",
    "standin.evaluate": "-> 0",
    "standin.rows": "-> 0",
    "standin.schedule": "step: 0 -> 0",
    "standin.set_rate": "rate: 0 -> 0",
    "math.cos": "x: 0 -> 0",
    "math.sqrt": "x: r -> r/2",
}


_WHOLE = ("standin.given", "standin.rows")


class StandInScale:
    """What the scale analysis asks, answered for the stand-in."""

    def called(self, values: ValueAnalysis, call: cst.Call) -> Signature | None:
        text = _FUNCTIONS.get(values.qualified(call.func))
        return parse_signature(text) if text is not None else None

    def attribute(self, values: ValueAnalysis, node: cst.Attribute) -> Signature | None:
        return None

    def entry_point(self, values: ValueAnalysis, function: cst.CSTNode) -> EntryPoint | None:
        if isinstance(function, cst.FunctionDef) and function.name.value == "on_step":
            return EntryPoint(Fraction(-1), (Fraction(-1),), "runs once a step")
        return None

    def is_gradient(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        return False

    def is_conversion(self, name: str) -> bool:
        return False

    def operator_of(self, name: str) -> str:
        return ""

    def is_range(self, name: str) -> bool:
        return name == "builtins.range"

    def repeated_sizes(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        return ()

    def lengths_of_epochs(self, values: ValueAnalysis) -> Collection[cst.BaseExpression]:
        return ()

    def is_unscaled_size(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        return False

    def steps(self, values: ValueAnalysis) -> Mapping[cst.Call, Fraction | None]:
        calls = values.index.calls
        trained = [c for c in calls if values.qualified(c.func) == "standin.train"]
        return {call: Fraction(-1) for call in trained}

    def edited(self, values: ValueAnalysis) -> Mapping[cst.BaseExpression, EditedExponents]:
        return {size: EditedExponents(value=1) for size in batch_sizes(values)}

    def step_sites(self, values: ValueAnalysis) -> Collection[cst.Call]:
        return {site for step in self.steps(values) for site in values.calls.leading_to(step)}

    def fixed_loops(self, values: ValueAnalysis) -> Collection[cst.CSTNode]:
        return ()

    def may_count_steps(self, values: ValueAnalysis, call: cst.Call, name: str) -> bool:
        return False

    def is_data(self, values: ValueAnalysis, iterable: cst.BaseExpression) -> bool:
        return isinstance(iterable, cst.Call) and values.qualified(iterable.func) in _FUNCTIONS

    def accumulates(
        self, values: ValueAnalysis, call: cst.Call
    ) -> tuple[str, cst.BaseExpression] | None:
        return None

    def is_external(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        return values.qualified(getattr(node, "func", node)) == "standin.given"

    def is_whole(self, values: ValueAnalysis, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Call) and values.qualified(node.func) in _WHOLE


def batch_sizes(values: ValueAnalysis) -> list[cst.BaseExpression]:
    """The numbers that are multiplied: what `B` is set to."""
    bound = values.index.bound
    return [b.value for t, b in bound.items() if isinstance(t, cst.Name) and t.value == "B"]


def analyse(source: str) -> ScaleAnalysis:
    return ScaleAnalysis(ValueAnalysis(Module(source), TensorFlowLibrary()), StandInScale())


def scaled(source: str, analysis: ScaleAnalysis) -> str:
    """The program with all edits; `standin.size()` is the number of ranks. Batch sizes are multiplied as well."""
    module = analysis.module
    edits: list[tuple[int, int, str]] = []
    for size in batch_sizes(analysis.values):
        edits.append((module.span(size).end, 0, " * standin.size()"))
    for coercion in analysis.coercions:
        span = module.span(coercion.node)
        before, after = edit_around(
            coercion.node, module.parent(coercion.node), coercion, "standin.size()"
        )
        edits += [(span.start, 1, before), (span.end, 0, after)]
    text = source
    for offset, _, added in sorted(edits, reverse=True):
        text = text[:offset] + added + text[offset:]
    return text


@dataclass
class Trace:
    """What a program did.

    Attributes:
        seen: how many examples it has trained on.
        variables: for each name its values, each with the number of examples seen.
        evaluations: the numbers of examples seen at its evaluations.
    """

    seen: int = 0
    variables: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    evaluations: list[int] = field(default_factory=list)


def traced(source: str, size: int, rows: int, block: int) -> Trace:
    """Run a program on so many ranks.

    Args:
        rows: how many rows the data have. block: after how many examples the loss changes.

    Raises:
        RuntimeError: the program trains for too long.
    """
    trace = Trace()

    def batches(batch_size: int) -> Iterator[list[int]]:
        return (list(range(i, i + batch_size)) for i in range(0, rows, batch_size))

    def train(batch: Sequence[int]) -> None:
        trace.seen += len(batch)
        if trace.seen > 100 * rows:
            raise RuntimeError("no end")

    def loss() -> float:
        """A loss that falls, stays, and falls again."""
        number = (trace.seen - 1) // block
        return 1.0 / (1 + number - (number % 5) * (number % 7 > 3))

    def evaluate() -> float:
        trace.evaluations.append(trace.seen)
        return loss()

    def see(**variables: float) -> None:
        for name, value in variables.items():
            trace.variables.setdefault(name, []).append((trace.seen, float(value)))

    module = ModuleType("standin")
    module.__dict__.update(
        batches=batches,
        batch=lambda number, batch_size: [number] * batch_size,
        train=train,
        loss=loss,
        evaluate=evaluate,
        see=see,
        size=lambda: size,
        given=lambda number: number,
        set_rate=lambda rate: see(rate_set=rate),
        rows=lambda: rows,
    )
    with patch.dict(sys.modules, standin=module):
        exec(compile(source, "program", "exec"), {"__name__": "__main__"})
    return trace
