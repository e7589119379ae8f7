"""Where a program sets a variable of its environment."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import argument, text_key
from .context import Context


def assignments(context: Context, variable: str) -> Iterator[cst.Assign]:
    """The statements `os.environ["VARIABLE"] = …`."""
    for assign in context.values.index.assigns:
        match assign.targets:
            case [cst.AssignTarget(target=cst.Subscript() as entry)] if (
                text_key(entry) == variable
                and context.values.qualified(entry.value) == "os.environ"
            ):
                yield assign


def settings(
    context: Context, variable: str
) -> Iterator[tuple[cst.Assign | cst.Call, cst.BaseExpression]]:
    """Every place that sets the variable, with the value that it gets."""
    for assign in assignments(context, variable):
        yield assign, assign.value
    for call in context.values.index.calls:
        match context.values.qualified(call.func):
            case "os.environ.setdefault" | "os.putenv":
                key, value = argument(call, "key", 0), argument(call, "value", 1)
                match key:
                    case cst.Arg(value=cst.SimpleString(evaluated_value=name)) if name == variable:
                        if value is not None:
                            yield call, value.value
            case "os.environ.update":
                if (given := argument(call, variable)) is not None:
                    yield call, given.value
