"""The pages of the rules, made from the rules themselves."""

from __future__ import annotations

import re
from difflib import unified_diff
from inspect import getdoc
from typing import Any

from .rules.base import Example, Rule

#: The headings of a rule's page, in their order. All but the example's are sections of the rule's docstring.
HEADINGS = (
    "What it changes",
    "Why",
    "Example",
    "Known problems",
    "When it does not apply",
)
#: Anchors of rules that have another name now.
FORMER_ANCHORS = {"HVD804": "hvd804-counts-of-steps"}


def parse_sections(rule: Rule[Any]) -> dict[str, str]:
    """Split a rule's docstring into its sections, by heading; the key of the title is ''."""
    title, _, body = (getdoc(type(rule)) or "").partition("\n")
    named = "|".join(HEADINGS)
    first, *others = re.split(rf"^({named}):\n", body, flags=re.MULTILINE)
    texts = zip(("", HEADINGS[0], *others[::2]), (title, first, *others[1::2]), strict=True)
    return {heading: text.strip() for heading, text in texts}


def format_rule_page(rule: Rule[Any]) -> str:
    """Return one rule's section of `docs/rules.md` in Markdown, under `HEADINGS`. Headings without text are left out."""
    found = parse_sections(rule)
    found["Why"] = f"*{rule.rationale}*\n\n{found.get('Why', '')}".strip()
    found["Example"] = "\n\n".join(map(format_example, rule.examples))
    parts = [f"## {rule.code}: {rule.name}", found[""]]
    for heading in HEADINGS:
        if text := found.get(heading):
            parts += [f"### {heading}", text]
    return "\n\n".join(part for part in parts if part) + "\n"


def format_example(example: Example) -> str:
    """Return an example in Markdown: a diff, or the program, where the rule refuses it or changes nothing."""
    if example.after in (None, example.before):
        outcome = "Refused" if example.after is None else "Reported, and left as it is"
        shown = f"{outcome}:\n\n```python\n{example.before.rstrip()}\n```"
    else:
        lines = list(
            unified_diff(example.before.splitlines(), example.after.splitlines(), lineterm="", n=2)
        )[2:]
        shown = (
            "```diff\n" + "\n".join(line for line in lines if not line.startswith("@@")) + "\n```"
        )
    return f"{example.note}\n\n{shown}" if example.note else shown


def format_rules_page(rules: tuple[Rule[Any], ...]) -> str:
    """Return the text of `docs/rules.md`."""
    head = (
        "# The rules\n\n"
        "Each rule makes one kind of change, or refuses one kind of program. `jupyter hvd rule CODE` prints one rule.\n"
        'Leave a rule out by `--ignore CODE`, by `ignore = ["CODE"]` under `[tool.jupyter-hvd]`, or on one line by\n'
        "`# hvd: ignore[CODE]`. `make docs` writes this page from `jupyter_hvd/convert/rules/`; every example is a test.\n"
    )
    pages = []
    for rule in rules:
        anchor = FORMER_ANCHORS.get(rule.code)
        pages.append((f'<a id="{anchor}"></a>\n\n' if anchor else "") + format_rule_page(rule))
    return head + "\n" + "\n".join(pages)


if __name__ == "__main__":
    from .rules import RULES

    print(format_rules_page(RULES), end="")
