"""Bundles modules of this package into one file that runs without the package."""

from __future__ import annotations

import ast
from collections.abc import Sequence

FUTURE = "from __future__ import annotations"


def in_one_file(modules: Sequence[str]) -> str:
    """Join the source texts of modules of this package into one standalone Python file.

    Removes relative imports and `from __future__` lines. The docstring of the last module becomes that of the file.

    Args:
        modules: the source texts. Each comes after the modules that it imports.
    """
    bodies = [_module_body(text) for text in modules]
    last = ast.get_docstring(ast.parse(modules[-1])) or ""
    return f'"""{last}\n"""\n\n{FUTURE}\n\n' + "\n\n".join(bodies)


def _module_body(text: str) -> str:
    lines = text.splitlines()
    for node in ast.parse(text).body:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if node.lineno == 1:
                gone = True
            case ast.ImportFrom(module=module, level=level):
                gone = level > 0 or module == "__future__"
            case _:
                gone = False
        if gone:
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-2:] != ["", ""]):
            kept.append(line)
    return "\n".join(kept).rstrip() + "\n"
