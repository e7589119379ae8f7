"""All rules, in the order in which they are applied and listed."""

from __future__ import annotations

from . import global_batch, published, refusals, scale_steps, scale_up, setup
from .context import Rule

RULES: tuple[Rule, ...] = tuple(
    rule()
    for family in (setup, published, global_batch, scale_up, scale_steps, refusals)
    for rule in family.RULES
)
BY_CODE = {rule.code: rule for rule in RULES}
