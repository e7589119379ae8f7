"""The words and sentences of the pages, and the names in the package, follow docs/glossary.md."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jupyter_hvd"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
LONGEST = 35  # words of a sentence
MOST_SENTENCES = 2  # of a message
#: Words to replace that names of the package still have. These numbers may only become smaller.
NAMES_LEFT = {
    "anew": 1,
    "turn": 1,
}


@dataclass(frozen=True)
class Replacement:
    """A row of the table in the glossary: words, what to write, and where that is checked."""

    words: tuple[str, ...]
    instead: tuple[str, ...]
    checked_in: tuple[str, ...]


@cache
def replacements() -> tuple[Replacement, ...]:
    text = (ROOT / "docs" / "glossary.md").read_text().split("## Words to replace")[1]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return tuple(
        Replacement(*(tuple(re.split(r"[,;] ", cell)) for cell in row)) for row in rows[1:]
    )


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each paragraph, heading and item.

    Tables and blocks of code are left out, code within a line is one word, and links are their text.
    """
    in_table = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        if token.type != "inline" or in_table:
            continue
        parts = (
            {"text": child.content, "softbreak": " ", "hardbreak": " ", "code_inline": "code"}.get(
                child.type, ""
            )
            for child in token.children or ()
        )
        assert token.map is not None
        yield token.map[0] + 1, "".join(parts)


def long_sentences(text: str) -> list[tuple[int, str]]:
    """The sentences of more than `LONGEST` words, each with its paragraph's line."""
    return [
        (line, sentence)
        for line, paragraph in paragraphs(text)
        for sentence in re.split(r"(?<=[.!?;:])\s+", paragraph)
        if len(sentence.split()) > LONGEST
    ]


def words_to_replace(text: str) -> list[tuple[int, str, str]]:
    """Each word of the table in a page: its paragraph's line, the word, and what to write."""
    found = []
    for line, paragraph in paragraphs(text):
        for row in replacements():
            if "prose" not in row.checked_in:
                continue
            for right in row.instead:
                paragraph = re.sub(rf"\b{re.escape(right)}", "", paragraph, flags=re.IGNORECASE)
            wrong = "|".join(map(re.escape, row.words))
            for match in re.finditer(rf"\b(?:{wrong})\b", paragraph, re.IGNORECASE):
                found.append((line, match[0], "; ".join(row.instead)))
    return found


def names(path: Path) -> Iterator[str]:
    """The names of a module and of its classes and functions."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def words_of(name: str) -> str:
    """The words of a name, in small letters: `HeartbeatClient` has `lifeline client`."""
    return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)).lower()


def own_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_sentences_are_short(path: Path) -> None:
    found = long_sentences(path.read_text())
    shown = "\n".join(f"{own_name(path)}:{line}: {sentence}" for line, sentence in found)
    assert not found, f"split these sentences:\n{shown}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_the_terms_of_the_glossary(path: Path) -> None:
    if path.name == "glossary.md":  # its table has them
        return
    found = words_to_replace(path.read_text())
    shown = "\n".join(
        f'{own_name(path)}:{line}: "{word}", write: {right}' for line, word, right in found
    )
    assert not found, shown


def test_names_use_the_terms_of_the_glossary() -> None:
    instead = {
        word: "; ".join(row.instead)
        for row in replacements()
        if "names" in row.checked_in
        for word in row.words
    }
    wrong = re.compile(rf"\b(?:{'|'.join(instead)})\b")
    found: Counter[str] = Counter()
    shown = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for name in names(path):
            for word in wrong.findall(words_of(name)):
                found[word] += 1
                shown.append(f"{own_name(path)}: {name}, write: {instead[word]}")
    more = {word for word in found if found[word] > NAMES_LEFT.get(word, 0)}
    assert not more, f"new names with {more}:\n" + "\n".join(shown)


def script(name: str) -> ModuleType:
    """A module of `scripts/`, which may import others there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts")
        return importlib.import_module(name)


@pytest.mark.parametrize("name", ["modules", "messages"])
def test_pages_made_from_the_code_are_current(name: str) -> None:
    made = "\n".join(script(f"{name}_page").page()) + "\n"
    message = f"run  python scripts/{name}_page.py > docs/{name}.md"
    assert made == (ROOT / "docs" / f"{name}.md").read_text(), message


def test_messages_are_short_and_use_the_terms_of_the_glossary() -> None:
    page = script("messages_page")
    found = []
    for folder in page.packages():
        for message in (m for path in page.modules(folder) for m in page.messages(path)):
            text = f"{message.text}\n\n{message.advice}"
            wrong = [f'"{word}", write: {right}' for _, word, right in words_to_replace(text)]
            if len(re.findall(r"[.!?](?=\s|$)", text)) > MOST_SENTENCES:
                wrong.append(f"more than {MOST_SENTENCES} sentences")
            if wrong:
                found.append(f"{own_name(message.path)}: {text.strip()}: {'; '.join(wrong)}")
    assert not found, "\n".join(found)


def test_modules_that_the_architecture_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w/]+\.py)`", text))
    files = [
        f"/{own_name(path)}"
        for folder in ("jupyter_hvd", "tests", "scripts")
        for path in (ROOT / folder).rglob("*.py")
    ]
    gone = sorted(path for path in named if not any(x.endswith(f"/{path}") for x in files))
    assert not gone, f"docs/architecture.md names modules that are not there: {gone}"


def test_what_is_counted() -> None:
    long = " ".join(["word"] * LONGEST)
    assert not long_sentences(f"{long}.")
    assert not long_sentences(f"{long}; {long}")
    assert not long_sentences(f"| a |\n|---|\n| {long} {long} |\n\n    {long} {long}")
    assert long_sentences(f"Yes.\n\n- {long}\n  more.") == [(3, f"{long} more.")]
    assert [x[:2] for x in words_to_replace("A\n\nthe *reaper* and the process reaper")] == [
        (3, "reaper")
    ]
    assert not words_to_replace("`reaper`, unreapered")
    assert words_of("HeartbeatClient") == "heartbeat client"
