#!/usr/bin/env python3
"""The sentences that the server and the kernel send to the panels, as templates for translators.

    scripts/server_texts.py            writes labextension/src/servertexts.json
    scripts/server_texts.py CATALOGUE  adds them to a catalogue of gettext

A sentence is a string of the sources below, or an f-string: its n-th value is `%n` in the template. The panels find the
template of a sentence that they are sent by its fixed words (`labextension/src/servertext.ts`). Any Python runs this.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "jupyter_hvd"
TEXTS = ROOT / "labextension" / "src" / "servertexts.json"
#: Modules whose strings reach a panel.
SOURCES = (
    *("convert/*.py", "convert/rules/*.py", "verify/**/*.py", "analysis/scale_*.py", "files.py"),
    *(
        "gradcost/advice.py",
        "gradcost/panel_comm.py",
        "gradcost/apply_advice.py",
        "gradcost/sections.py",
    ),
    *("gradcost/tables.py", "gradcost/charts.py", "gradcost/wording.py"),
    *("server/request_bodies.py", "server/routes.py", "server/verification.py", "server/worker.py"),
    *("launch/diagnosis.py", "notebook/control_channel.py", "notebook/network.py"),
)
#: A module among them that writes pages, which are not translated.
PAGES_OF_RULES = "convert/documentation.py"
#: The call that marks a text of one word.
MARKED = "translatable"
#: Calls whose strings are Python programs, patterns, lists of names, parts of a picture, or the command line's.
LEFT_OUT = {"program", "add_argument", "add_parser", "compile", "plot", "print", "split"}
#: How a line of Python, an annotation, or a part of a page begins.
CODE = ("import ", "# ", "[", "for %", "<", "Future[")
#: What `str.format` or another template is to fill in.
FIELD = re.compile(r"\{[^{}]*\}")


def template(node: ast.expr) -> str | None:
    """The template of a string or f-string; None for what is neither."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        parts = FIELD.split(node.value)
    elif isinstance(node, ast.JoinedStr):
        joined = [p.value if isinstance(p, ast.Constant) else "\0" for p in node.values]
        parts = "".join(map(str, joined)).split("\0")
    else:
        return None
    return parts[0] + "".join(f"%{n}{part}" for n, part in enumerate(parts[1:], 1))


def is_sentence(text: str) -> bool:
    """Whether a template has words to translate: two beside each other, and no lines of code."""
    has_words = re.search(r"[A-Za-z][a-z,’']* [a-z]", text) is not None
    return has_words and "\n" not in text and not text.startswith(CODE)


def sentences(tree: ast.Module) -> Iterator[str]:
    """The templates of a module, without docstrings."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.expr) and (text := template(node)) is not None:
            if is_sentence(text):
                yield text
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Call) and name_of(node.func) in LEFT_OUT:
            continue
        if isinstance(node, ast.Call) and name_of(node.func) == MARKED:
            yield from filter(None, map(template, node.args))
            continue
        left += (child for name, child in children(node) if name not in ("annotation", "returns"))


def children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The nodes right below one, each with the name of its field."""
    for name, value in ast.iter_fields(node):
        found = value if isinstance(value, list) else [value]
        yield from ((name, child) for child in found if isinstance(child, ast.AST))


def name_of(function: ast.expr) -> str:
    """The last part of a function's name."""
    return getattr(function, "attr", getattr(function, "id", ""))


def all_sentences() -> list[str]:
    """Every template once, in the order of the alphabet."""
    pages = PACKAGE / PAGES_OF_RULES
    files = [file for pattern in SOURCES for file in PACKAGE.glob(pattern) if file != pages]
    return sorted({text for file in files for text in sentences(ast.parse(file.read_bytes()))})


def entries(texts: list[str]) -> str:
    """The templates as entries of a catalogue, each once."""
    return "".join(
        f'\n#. sent by the server\nmsgid {json.dumps(text, ensure_ascii=False)}\nmsgstr ""\n'
        for text in texts
    )


def main(words: list[str]) -> None:
    texts = all_sentences()
    if not words:
        TEXTS.write_text(json.dumps(texts, indent=2, ensure_ascii=False) + "\n")
        return
    catalogue = Path(words[0])
    known = set(re.findall(r'^msgid (".*")$', catalogue.read_text(), re.M))
    new = [text for text in texts if json.dumps(text, ensure_ascii=False) not in known]
    with catalogue.open("a") as file:
        file.write(entries(new))


if __name__ == "__main__":
    main(sys.argv[1:])
