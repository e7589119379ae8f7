"""Shared parts of the rules about programs that cannot be converted."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from .base import Problem
from .context import Context, Rule


class Refusal(Rule):
    """A rule about programs that cannot be converted, whether they train or not."""

    refuses = True


def uses(
    context: Context,
    names: tuple[str, ...],
    message: str,
    advice: str,
    harmless: tuple[str, ...] = (),
    passed_over: Callable[[cst.CSTNode, str], bool] | None = None,
) -> Iterator[Problem]:
    """One problem for the first use of any of these names, those that end in a dot being prefixes, but for what is harmless,
    or passed over where it stands.
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
