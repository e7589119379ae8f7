"""The catalogue of silent errors: its page, a few of its verdicts, and right programs beside them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from catalogue import PAGE, judge_apart, judge_refusal, verify_text
from entries import ENTRIES, REFUSED, apply

BY_NAME = {entry.name: entry for entry in ENTRIES}
#: One of each way to find an error that only the catalogue has: other variables, a run on one rank, rates by examples seen.
QUICK = ("layers_frozen", "evaluation_mode", "decay_steps_not_divided")
AGAINST = [e.name for e in ENTRIES if e.finder == "verify --against" and e.edits]


def test_the_entries() -> None:
    assert len(BY_NAME) == len(ENTRIES) >= 60
    for entry in ENTRIES:
        if entry.finder == "verify --against":
            for text in (entry.original, entry.right_text, entry.text):
                compile(text, entry.name, "exec")


def test_an_edit_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="is there 2 times"):
        apply("a a", (("a", "b"),))


def test_the_page_is_of_these_entries_and_has_their_totals() -> None:
    page = PAGE.read_text()
    rows = [line.split(" | ") for line in page.splitlines() if line.count(" | ") == 5][0:]
    judged = {cells[0].removeprefix("| "): cells[3] for cells in rows if cells[0][2:] in BY_NAME}
    assert len(judged) >= 60
    missed = Counter(called == "**missed**" for called in judged.values())[True]
    found = len(judged) - missed
    assert f"| found | {found} " in page
    assert len(re.findall(r"^- \*\*", page, re.MULTILINE)) == missed
    assert found >= 0.95 * len(judged)


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: entry.name)
def test_refusals(entry) -> None:
    verdict = judge_refusal(entry)
    assert (verdict.found, verdict.named) == (True, True), verdict


@pytest.mark.slow
@pytest.mark.xdist_group("against")
@pytest.mark.parametrize("name", QUICK)
@pytest.mark.long
def test_errors_that_are_found(tmp_path: Path, name: str) -> None:
    verdict = judge_apart(BY_NAME[name], tmp_path, {})
    assert (verdict.found, verdict.named) == (True, True), verdict


@pytest.mark.slow
@pytest.mark.xdist_group("against")
@pytest.mark.long
def test_local_moments_differ_by_design(tmp_path: Path) -> None:
    entry = BY_NAME["evaluation_mode"]
    outcome = verify_text(tmp_path, entry.original, entry.right_text, {})
    assert outcome.holds, outcome
    assert "differs from one process by design: moments are local from step 1 on" in outcome.verdict
