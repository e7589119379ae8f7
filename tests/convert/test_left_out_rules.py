"""Each rule is needed: with it left out, a program of `tests/programs/`, or its own example, is not converted as expected."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jupyter_hvd import Options, convert_source
from jupyter_hvd.convert.rules import RULES
from jupyter_hvd.convert.rules.context import Rule

from ..suite import PROGRAMS, described, found


def conversions(rule: Rule) -> Iterator[str]:
    """What comes out of the programs and examples that the rule has a part in; "" for an error."""
    for program in PROGRAMS:
        if rule.code in program.expected:
            conversion = convert_source(program.source)
            yield f"{found(conversion)}\n{described(program.source, conversion)}"
    for example in rule.examples:
        options = Options(ignore=example.ignore, batch=example.batch)
        conversion = convert_source(example.before, options=options)
        yield f"{conversion.status}\n{conversion.code}"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_without_a_rule_a_conversion_differs(
    rule: Rule, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    record_property("mutant", "rules left out, by the expected conversions")
    expected = list(conversions(rule))
    monkeypatch.setattr(type(rule), "find", lambda *_: iter(()))
    monkeypatch.setattr(type(rule), "provide", lambda *_: None)
    without = conversions(rule)
    try:
        differs = any(e != w for e, w in zip(expected, without, strict=True))
    except Exception:  # another rule needs what this one provides
        differs = True
    assert differs
