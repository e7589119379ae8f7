"""All rules, in the order in which they are applied and listed."""

from __future__ import annotations

from . import (
    data,
    files,
    gradient_tape,
    keras_fit,
    optimizers,
    rank_zero,
    refusals,
    schedules,
    setup,
)
from .context import Rule

RULES: tuple[Rule, ...] = tuple(
    rule()
    for family in (
        setup,
        optimizers,
        schedules,
        gradient_tape,
        keras_fit,
        data,
        rank_zero,
        files,
        refusals,
    )
    for rule in family.RULES
)
BY_CODE = {rule.code: rule for rule in RULES}
