"""All rules, in the order in which they are applied and listed."""

from __future__ import annotations

from . import (
    apart,
    data,
    elsewhere,
    files,
    global_batch,
    gradient_tape,
    hidden_optimizers,
    hidden_updates,
    keras_fit,
    optimizers,
    rank_zero,
    refusals,
    restarts,
    scale_steps,
    scale_up,
    schedules,
    setup,
    turns,
    xla,
)
from .context import Rule

RULES: tuple[Rule, ...] = tuple(
    rule()
    for family in (
        setup,
        optimizers,
        schedules,
        hidden_optimizers,
        gradient_tape,
        xla,
        keras_fit,
        restarts,
        data,
        turns,
        rank_zero,
        files,
        apart,
        global_batch,
        scale_up,
        scale_steps,
        refusals,
        hidden_updates,
        elsewhere,
    )
    for rule in family.RULES
)
BY_CODE = {rule.code: rule for rule in RULES}
