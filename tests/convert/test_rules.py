"""The examples of every rule, and the page that is made from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options
from jupyter_hvd.convert.documentation import (
    HEADINGS,
    format_rule_page,
    format_rules_page,
    parse_sections,
)
from jupyter_hvd.convert.rules import RULES
from jupyter_hvd.convert.rules.base import Example
from jupyter_hvd.convert.rules.context import Rule
from jupyter_hvd.source.edits import apply_edits

EXAMPLES = [(rule, example) for rule in RULES for example in rule.examples]


@pytest.mark.parametrize(
    ("rule", "example"), EXAMPLES, ids=[f"{rule.code}-{n}" for n, (rule, _) in enumerate(EXAMPLES)]
)
def test_example(rule: Rule, example: Example) -> None:
    options = Options(ignore=example.ignore, batch=example.batch)
    conversion = convert_source(example.before, options=options)
    if example.after is None:
        assert conversion.status == "refused"
        assert rule.code in {d.code for d in conversion.diagnostics if d.severity == "error"}
        assert all(d.help for d in conversion.diagnostics)
    elif example.after == example.before:
        assert conversion.status in ("unchanged", "converted")
        assert rule.code in {d.code for d in conversion.diagnostics if d.help}
    else:
        own = [e for change in conversion.changes if change.rule == rule.code for e in change.edits]
        assert conversion.status == "converted"
        assert apply_edits(example.before, own) == example.after


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_rule_is_complete(rule: Rule) -> None:
    assert rule.code.startswith("HVD")
    assert rule.name
    assert rule.rationale.endswith(".")
    assert type(rule).__doc__
    assert rule.examples, "a rule is explained by an example"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_page_has_all_headings(rule: Rule) -> None:
    texts = parse_sections(rule)
    assert {*texts} == {"", *HEADINGS} - {"Example"}
    assert all(texts.values()), "no heading without a text"
    assert re.findall(r"^### (.*)$", format_rule_page(rule), re.MULTILINE) == [*HEADINGS]


def test_codes_are_unique() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)


def test_page_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "rules.md"
    assert page.read_text() == format_rules_page(RULES), "run `make docs`"
