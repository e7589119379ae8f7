"""`jupyter_hvd/locale`: translators find every string that a panel shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.pofile import read_po

ROOT = Path(__file__).parents[1]
CATALOGUE = ROOT / "jupyter_hvd" / "locale" / "jupyter_hvd.pot"
SOURCES = sorted((ROOT / "labextension" / "src").rglob("*.ts*"))
#: A call that translates, up to its first argument, and that argument if it is text.
CALL = re.compile(
    r"""\btrans\s*\.(?:__|_n|_p|gettext|ngettext)\(\s*('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")?"""
)


def translated(source: str) -> list[str]:
    """The texts that a TypeScript source asks a translation for; of a call without a text the empty one."""
    return [re.sub(r"\\(.)", r"\1", found[1:-1]) for found in CALL.findall(source)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_the_catalogue_has_every_text(path: Path) -> None:
    with CATALOGUE.open("rb") as file:
        known = {
            text for m in read_po(file) for text in ([m.id] if isinstance(m.id, str) else m.id)
        }
    missing = [text for text in translated(path.read_text()) if text not in known or not text]
    assert missing == [], "run `make translations`"


def test_texts_are_found() -> None:
    assert translated("trans.__('a') + this.trans._n(\n'%1 it\\'s', 'b') + trans.__(x)") == [
        "a",
        "%1 it's",
        "",
    ]
