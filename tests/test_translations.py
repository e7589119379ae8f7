"""`jupyter_hvd/locale`: translators find every string that a panel shows."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1]
CATALOGUE = ROOT / "jupyter_hvd" / "locale" / "jupyter_hvd.pot"
SOURCES = sorted((ROOT / "labextension" / "src").rglob("*.ts*"))
#: A call that translates, up to its first argument, and that argument if it is text.
CALL = re.compile(
    r"""\btrans\s*\.(?:__|_n|_p|gettext|ngettext)\(\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")?"""
)


@cache
def server_texts() -> ModuleType:
    """`scripts/server_texts.py`."""
    spec = importlib.util.spec_from_file_location(
        "server_texts", ROOT / "scripts" / "server_texts.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def catalogue() -> frozenset[str]:
    with CATALOGUE.open("rb") as file:
        return frozenset(
            text for m in read_po(file) for text in ([m.id] if isinstance(m.id, str) else m.id)
        )


def translated(source: str) -> list[str]:
    """The texts that a TypeScript source asks a translation for; of a call without a text the empty one."""
    return [re.sub(r"\\(.)", r"\1", found[1:-1]) for found in CALL.findall(source)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_catalogue_has_every_text(path: Path) -> None:
    missing = [text for text in translated(path.read_text()) if text not in catalogue() or not text]
    assert missing == [], "run `make translations`"


def test_texts_are_found() -> None:
    assert translated("trans.__('a') + this.trans._n(\n'%1 it\\'s', 'b') + trans.__(x)") == [
        "a",
        "%1 it's",
        "",
    ]


def test_the_catalogue_has_what_the_server_sends() -> None:
    texts = server_texts().all_sentences()
    assert json.loads(server_texts().TEXTS.read_text()) == texts, "run `make translations`"
    assert set(texts) - catalogue() == set(), "run `make translations`"


def test_templates_of_sentences() -> None:
    source = """
class Rule:
    "The docstring of a rule is no sentence of a panel."
    rationale = "One is enough."
    def find(self, name: "a type of it") -> "another type":
        yield Problem(f"{name}: {name!r} is no list of {2 * n} rows", "give {name} a length")
        yield program("this is a program of the user's")
        raise KeyError("name")
"""
    assert sorted(server_texts().sentences(ast.parse(source))) == [
        "%1: %2 is no list of %3 rows",
        "One is enough.",
        "give %1 a length",
    ]
