"""The rule that `CONTRIBUTING.md` writes, taken from the page and run."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import engine
from jupyter_hvd.convert.documentation import rule_page
from jupyter_hvd.rules import tensorflow_horovod as rules
from jupyter_hvd.rules.tensorflow_horovod import BY_CODE, RULES
from jupyter_hvd.rules.tensorflow_horovod.context import Rule
from jupyter_hvd.source.edits import apply_edits

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def rule(monkeypatch) -> Rule:
    """The rule of the page, in force."""
    (source,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    module = types.ModuleType("jupyter_hvd.rules.tensorflow_horovod.logs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(source, str(PAGE), "exec"), module.__dict__)
    (made,) = (kind() for kind in module.RULES)
    monkeypatch.setattr(engine, "RULES", (*RULES, made))
    return made


def test_its_example(rule: Rule) -> None:
    assert rule.code not in BY_CODE, "the page's rule has a code of its own"
    for example in rule.examples:
        changes = convert_source(example.before).changes
        own = [edit for change in changes if change.rule == rule.code for edit in change.edits]
        assert apply_edits(example.before, own) == example.after


def test_its_page(rule: Rule) -> None:
    assert "What goes wrong on some rank alone" in rule_page(rule)
    assert "+    logging.info('trained')" in rule_page(rule)


def test_families_do_not_import_one_another() -> None:
    """As the page says, and helpers import no family."""
    folder = Path(rules.__file__).parent
    helpers = {"context", "environment", "questions", "imports"}
    for file in folder.glob("[!_]*.py"):
        assert set(re.findall(r"^from \.(\w+) import", file.read_text(), re.MULTILINE)) <= helpers
