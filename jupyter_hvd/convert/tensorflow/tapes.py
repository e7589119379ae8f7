"""The tapes whose gradients reach an update, each with all that is asked of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from ...analysis.index import Binding
from ...analysis.library import Value
from ...analysis.syntax import method
from ...analysis.values import ValueAnalysis
from .gradients import GRADIENT_METHODS
from .roles import Role

#: What tapes are asked for.
ASKING = GRADIENT_METHODS | {"jacobian", "batch_jacobian"}


@dataclass(frozen=True, eq=False)
class TrainingTape:
    """A tape whose gradients reach an update.

    Attributes:
        block: the `with` that records, None where the tape is made elsewhere.
        name: the name that the `with` gives it.
        training: the `gradient` calls that reach an update.
        others: the calls on the same tape that do not.
    """

    block: cst.With | None
    name: cst.Name | None
    training: tuple[cst.Call, ...]
    others: tuple[cst.Call, ...]


def find_training_tapes(
    values: ValueAnalysis, training_gradients: frozenset[cst.Call]
) -> Iterator[TrainingTape]:
    """Yield the tapes that are asked for these gradients, each with all calls on it."""
    asked: dict[Value | None, list[cst.Call]] = {}
    for call in values.index.calls:
        if method(call) in ASKING:
            assert isinstance(call.func, cst.Attribute)
            tapes: list[Value | None] = [*_tapes_of(values, call.func.value)]
            if not tapes and call in training_gradients:
                tapes = [None]
            for tape in tapes:
                asked.setdefault(tape, []).append(call)
    for tape, calls in asked.items():
        training = tuple(c for c in calls if c in training_gradients)
        others = tuple(c for c in calls if c not in training_gradients)
        if training:
            yield TrainingTape(*_find_block(values, tape), training, others)


def _tapes_of(values: ValueAnalysis, receiver: cst.BaseExpression) -> list[Value]:
    """Return the tapes that an expression may hold; where one name is bound to several, those of the bindings that reach it."""
    tapes = [v for v in values.of(receiver) if v.kind is Role.TAPE]
    if isinstance(receiver, cst.Name):
        reaching = values.definitions.reaching(receiver)
        bound = [b.value for b in reaching if isinstance(b, Binding)]
        return [v for v in tapes if v.node in bound] or tapes
    return tapes


def _find_block(
    values: ValueAnalysis, tape: Value | None
) -> tuple[cst.With | None, cst.Name | None]:
    """Return the `with` statement that records a tape, and its name there; (None, None) if it is elsewhere."""
    for block in values.index.withs if tape is not None else ():
        for item in block.items:
            match item:
                case cst.WithItem(item=made, asname=cst.AsName(name=cst.Name() as name)) if (
                    tape is not None and made is tape.node
                ):
                    return block, name
    return None, None
