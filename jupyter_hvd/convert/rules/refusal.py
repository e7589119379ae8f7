"""Shared parts of the rules about programs that cannot be converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from .base import Problem
from .context import Context, Rule


class Refusal(Rule):
    """A rule about programs that cannot be converted, whether they train or not."""

    refuses = True


def report_first_use(
    context: Context,
    names: tuple[str, ...],
    message: str,
    advice: str,
    harmless: tuple[str, ...] = (),
    passed_over: Callable[[cst.CSTNode, str], bool] | None = None,
) -> Iterator[Problem]:
    """Yield one problem, at the first use of any of these names.

    Args:
        names: canonical names; those that end in a dot are prefixes.
        message: what is wrong, with `{name}` for the name in the program.
        harmless: names and their parts that are no problem.
        passed_over: whether a use is no problem because of where it is.
    """
    for node in (
        *context.values.index.attributes,
        *(call.func for call in context.values.index.calls),
    ):
        name = context.values.qualified(node)
        if any(f"{name}.".startswith(f"{other}.") for other in harmless):
            continue
        if any(
            name == wanted or (wanted.endswith(".") and name.startswith(wanted)) for wanted in names
        ) and not (passed_over and passed_over(node, name)):
            yield Problem(node, message.format(name=context.module.text(node)), advice)
            return
