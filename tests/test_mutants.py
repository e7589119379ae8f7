"""Rules switched off, one at a time: `verify` must find out that the conversion is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options
from jupyter_hvd.rules.tensorflow_horovod.setup import Initialise
from jupyter_hvd.source.edits import Layer

from .ledger import verify

STEPS = 8

#: For each rule a program that needs it; without the rule, `verify` must find it out.
MUTANTS = {
    "HVD101": ("tape_tf_function", {"no rank stuck"}),
    "HVD103": ("fit_random_split", {"work divided"}),
    "HVD201": ("tape_tf_function", {"learning rate scaled"}),
    "HVD202": ("fit_sgd_call", {"ranks agree"}),
    "HVD203": ("fit_schedule", {"learning rate scaled"}),
    "HVD204": ("fit_own_schedule", {"one rank identical"}),  # Horovod cannot copy the optimizer
    "HVD205": ("fit_rate_scheduler", {"learning rate scaled"}),
    "HVD206": ("fit_rate_set", {"learning rate scaled"}),
    "HVD301": ("tape_tf_function", {"ranks agree"}),
    "HVD302": ("tape_tf_function", {"ranks agree", "broadcast once"}),
    "HVD303": ("tape_break_on_loss", {"no rank stuck"}),
    "HVD401": ("fit_sgd_call", {"ranks agree", "broadcast once"}),
    "HVD402": ("fit_callbacks_that_write", {"output from rank 0 only"}),
    "HVD403": ("fit_adam_string", {"output from rank 0 only"}),
    "HVD501": ("tape_take", {"work divided"}),
    "HVD502": ("tape_tf_function", {"work divided"}),
    "HVD503": ("fit_sgd_call", {"work divided"}),
    "HVD505": ("fit_generator", {"work divided"}),
    "HVD601": ("tape_top_level", {"output from rank 0 only"}),
    "HVD602": ("fit_saves", {"output from rank 0 only"}),
    "HVD603": ("fit_files", {"output from rank 0 only"}),
    "HVD604": ("fit_files", {"no rank stuck"}),
    "HVD606": ("fit_files", {"output from rank 0 only"}),
}


def without_start(provide):
    """The rule that starts Horovod, which no option leaves out, without the line that does."""

    def mutant(self, context, name, users):
        fix = provide(self, context, name, users)
        kept = (edit for edit in fix.edits if edit.priority != Layer.START) if fix else ()
        return replace(fix, edits=tuple(kept)) if fix else None

    return mutant


@pytest.mark.slow
@pytest.mark.parametrize("code", MUTANTS)
def test_mutant_is_found_out(code: str, monkeypatch) -> None:
    name, caught_by = MUTANTS[code]
    path = Path(__file__).parent / "programs" / f"{name}.py"
    steps = (
        60
        if code in ("HVD303", "HVD402", "HVD501", "HVD601", "HVD602", "HVD603", "HVD606")
        else STEPS
    )
    if code == "HVD101":
        monkeypatch.setattr(Initialise, "provide", without_start(Initialise.provide))
    verification = verify(
        path,
        2,
        steps=steps,
        timeout=45 if "no rank stuck" in caught_by else 240,
        options=Options(ignore=(code,)),
    )
    left = {change.rule for change in verification.conversion.changes}
    assert code not in left or code == "HVD101"
    assert code in {change.rule for change in convert_source(path.read_text()).changes}
    failed = {check.check for check in verification.checks if check.status == "fail"}
    assert caught_by <= failed, verification.checks
