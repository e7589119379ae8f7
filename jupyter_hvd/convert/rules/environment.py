"""Where a program sets a variable of its environment."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...analysis.syntax import argument, text_key
from .context import Context


def find_assignments(context: Context, variable: str) -> Iterator[cst.Assign]:
    """Yield the statements `os.environ["VARIABLE"] = …`."""
    for assign in context.values.index.assigns:
        match assign.targets:
            case [cst.AssignTarget(target=cst.Subscript() as entry)] if (
                text_key(entry) == variable
                and context.values.qualified(entry.value) == "os.environ"
            ):
                yield assign


def find_settings(
    context: Context, variable: str
) -> Iterator[tuple[cst.Assign | cst.Call, cst.BaseExpression]]:
    """Yield the statements and calls that set an environment variable, each with the value."""
    for assign in find_assignments(context, variable):
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
