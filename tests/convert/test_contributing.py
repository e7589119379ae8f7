"""The rule that `CONTRIBUTING.md` writes, taken from the page and run."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import engine
from jupyter_hvd.convert import rules as rules
from jupyter_hvd.convert.documentation import format_rule_page
from jupyter_hvd.convert.rules import BY_CODE, RULES
from jupyter_hvd.convert.rules.context import Rule
from jupyter_hvd.source.edits import apply_edits

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def rule(monkeypatch) -> Rule:
    """The rule of the page, in force."""
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    module = types.ModuleType("jupyter_hvd.convert.rules.logs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, str(PAGE), "exec"), module.__dict__)
    made: Rule = module.Log()
    monkeypatch.setattr(engine, "RULES", (*RULES, made))
    return made


def test_its_example(rule: Rule) -> None:
    assert rule.code not in BY_CODE, "the page's rule has a code of its own"
    for example in rule.examples:
        changes = convert_source(example.before).changes
        own = [edit for change in changes if change.rule == rule.code for edit in change.edits]
        assert apply_edits(example.before, own) == example.after


def test_its_page(rule: Rule) -> None:
    assert "an error may occur on one rank only" in format_rule_page(rule)
    assert "+    logging.info('trained')" in format_rule_page(rule)


def test_rules_do_not_import_one_another() -> None:
    """A rule's file is read alone: it imports helpers, and these import no rule."""
    texts = {file.stem: file.read_text() for file in Path(rules.__file__).parent.glob("[!_]*.py")}
    of_rules = {name for name, text in texts.items() if re.search(r'^    code = "HVD', text, re.M)}
    assert len(of_rules) == len(RULES)
    for text in texts.values():
        assert of_rules.isdisjoint(re.findall(r"^from \.(\w+) import", text, re.MULTILINE))
