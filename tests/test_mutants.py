"""Rules switched off, one at a time: `verify` must find out that the conversion is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection
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
    "HVD204": ("fit_own_schedule", {"learning rate scaled"}),
    "HVD205": ("fit_rate_scheduler", {"learning rate scaled"}),
    "HVD206": ("fit_rate_set", {"learning rate scaled"}),
    "HVD207": ("fit_loaded", {"ranks agree"}),
    "HVD301": ("tape_tf_function", {"ranks agree"}),
    "HVD302": ("tape_tf_function", {"ranks agree", "broadcast once"}),
    "HVD303": ("tape_break_on_loss", {"no rank stuck"}),
    "HVD305": ("tape_kept_in_dict", {"ranks agree"}),
    "HVD306": ("tape_jit_compiled", {"no rank stuck"}),
    "HVD401": ("fit_sgd_call", {"ranks agree", "broadcast once"}),
    "HVD402": ("fit_callbacks_that_write", {"output from rank 0 only"}),
    "HVD403": ("fit_adam_string", {"output from rank 0 only"}),
    "HVD404": ("fit_hidden_arguments", {"ranks agree", "work divided"}),
    "HVD408": ("fit_estimators", {"work divided"}),
    "HVD501": ("tape_take", {"work divided"}),
    "HVD502": ("tape_tf_function", {"work divided"}),
    "HVD503": ("fit_sgd_call", {"work divided"}),
    "HVD505": ("fit_generator", {"work divided"}),
    "HVD601": ("tape_top_level", {"output from rank 0 only"}),
    "HVD602": ("fit_saves", {"output from rank 0 only"}),
    "HVD603": ("fit_files", {"output from rank 0 only"}),
    "HVD604": ("fit_files", {"no rank stuck"}),
    "HVD606": ("fit_files", {"output from rank 0 only"}),
    "HVD608": ("fit_changes_files", {"no rank stuck"}),
}


#: Rules that generated programs show to be needed, in seconds (`tests/generated`): here for `make test-thorough`.
SHOWN_ELSEWHERE = (
    *("HVD103", "HVD201", "HVD203", "HVD206", "HVD401", "HVD403", "HVD501", "HVD502", "HVD503"),
    *("HVD505", "HVD601", "HVD602", "HVD603"),
)
#: What is said of the step in which ranks part.
CAUSES = {
    "HVD202": ", by line 13: `model.fit(",
    "HVD301": "`: the gradients that were applied differ, so they were not averaged",
    "HVD302": "first after step 1, by line ",
}


def without_start(provide):
    """The rule that starts Horovod, which no option leaves out, without the line that does."""

    def mutant(self, context, name, users):
        fix = provide(self, context, name, users)
        kept = (edit for edit in fix.edits if edit.priority != Layer.START) if fix else ()
        return replace(fix, edits=tuple(kept)) if fix else None

    return mutant


def case(code: str, others: Collection[str]):
    return pytest.param(code, marks=[pytest.mark.thorough] if code in others else [])


@pytest.mark.slow
@pytest.mark.parametrize("code", [case(code, SHOWN_ELSEWHERE) for code in MUTANTS])
def test_mutant_is_found_out(code: str, monkeypatch, record_property) -> None:
    record_property("mutant", "a rule left out, for verify")
    name, caught_by = MUTANTS[code]
    path = Path(__file__).parent / "programs" / f"{name}.py"
    steps = (
        60
        if code
        in (
            "HVD303",
            "HVD402",
            "HVD501",
            "HVD601",
            "HVD602",
            "HVD603",
            "HVD606",
            "HVD608",
            "HVD207",
        )
        else STEPS
    )
    if code == "HVD101":
        monkeypatch.setattr(Initialise, "provide", without_start(Initialise.provide))
    verification = verify(
        path,
        2,
        steps=steps,
        timeout=45 if "no rank stuck" in caught_by else 240,
        options=Options(ignore=(code,), guard=False),  # which would be quicker
    )
    left = {change.rule for change in verification.conversion.changes}
    assert code not in left or code == "HVD101"
    whole = convert_source(path.read_text())
    assert code in {c.rule for c in whole.changes} | {d.code for d in whole.diagnostics}
    (agree,) = (check.detail for check in verification.checks if check.check == "ranks agree")
    assert CAUSES.get(code, "") in agree
    failed = {check.check for check in verification.checks if check.status == "fail"}
    assert caught_by <= failed, verification.checks


#: Of the mutants, those whose ranks part or wait for one another: the guard stops them without `verify`.
STOPPED = ("HVD202", "HVD301", "HVD302", "HVD303", "HVD401")


@pytest.mark.slow
@pytest.mark.parametrize("code", [case(code, ("HVD202", "HVD302")) for code in STOPPED])
def test_mutant_is_stopped_by_the_guard(code: str, tmp_path: Path, record_property) -> None:
    record_property("mutant", "a rule left out, for the guard")
    text = (Path(__file__).parent / "programs" / f"{MUTANTS[code][0]}.py").read_text()
    if code == "HVD303":  # with losses of their own, ranks may leave the loop together by chance
        small = "loss * 10 ** int(__import__('os').environ['HOROVOD_RANK']) < 5"
        assert "loss < 0.65" in text
        text = text.replace("loss < 0.65", small)
    assert re.search(r"See: jupyter hvd rule HVD\d{3}", stopped(tmp_path, text, code))


@pytest.mark.slow
def test_updates_that_nothing_counts_are_compared_at_the_end(tmp_path: Path) -> None:
    text = (Path(__file__).parent / "programs" / "tape_tf_function.py").read_text()
    left = text.replace("loss = step(bx, by)", "loss = step(bx, by)  # hvd: ignore[HVD302]")
    assert left != text
    assert "After training " in stopped(tmp_path, left, "HVD301")


def stopped(folder: Path, text: str, code: str) -> str:
    """What a program says that is converted without a rule, run on two ranks, and stopped."""
    path = folder / "mutant.py"
    path.write_text(text)
    command = [sys.executable, "-m", "jupyter_hvd", "run", str(path), "-n", "2", "--ignore", code]
    done = subprocess.run(
        [*command, "--timeout", "120"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stdout + done.stderr
