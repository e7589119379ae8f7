"""The pages of the rules, made from the rules themselves."""

from __future__ import annotations

from difflib import unified_diff
from inspect import getdoc
from typing import Any

from ..rules.base import Rule


def rule_page(rule: Rule[Any]) -> str:
    """One rule in Markdown: what, why, and its examples as diffs."""
    title, _, body = (getdoc(type(rule)) or "").partition("\n")
    parts = [f"## {rule.code}: {rule.name}", title, body.strip(), f"*{rule.rationale}*"]
    for example in rule.examples:
        if example.note:
            parts.append(example.note)
        if example.after in (None, example.before):
            outcome = "Refused" if example.after is None else "Told"
            parts.append(f"{outcome}:\n\n```python\n{example.before.rstrip()}\n```")
        else:
            lines = list(
                unified_diff(
                    example.before.splitlines(), example.after.splitlines(), lineterm="", n=2
                )
            )[2:]
            parts.append(
                "```diff\n"
                + "\n".join(line for line in lines if not line.startswith("@@"))
                + "\n```"
            )
    return "\n\n".join(part for part in parts if part) + "\n"


def all_pages(rules: tuple[Rule[Any], ...]) -> str:
    """`docs/rules.md`."""
    head = (
        "# The rules\n\n"
        "Made by `make docs` from the rules in `jupyter_hvd/rules/`; every example is a test.\n"
        "`jupyter hvd rule CODE` prints one of them; `# hvd: ignore[CODE]` on a line silences it there.\n"
    )
    return head + "\n" + "\n".join(rule_page(rule) for rule in rules)


if __name__ == "__main__":
    from ..rules.tensorflow_horovod import RULES

    print(all_pages(RULES), end="")
