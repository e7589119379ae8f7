"""The words and sentences of the pages, and the names in the package, follow docs/glossary.md."""

from __future__ import annotations

import ast
import importlib
import re
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
#: Words that names still have, with how many names. These numbers may only become smaller.
#: Each word to replace counts wherever it occurs in a name, of the package, the tests or the extension.
NAMES_LEFT = {
    "anew": 2,
    "black box": 1,
    "lifeline": 1,
    "lifelines": 1,
    "settled": 2,
    "told": 27,
    "turn": 15,
    "turns": 17,
}
#: Parameters, fields and constants of the package that are called by such a word alone, which says no role.
VAGUE_NAMES_LEFT = {
    "among": 8,
    "asked": 9,
    "beside": 9,
    "each": 13,
    "found": 46,
    "given": 31,
    "here": 11,
    "kept": 21,
    "known": 31,
    "one": 23,
    "ours": 2,
    "own": 12,
    "place": 89,
    "places": 26,
    "seen": 22,
    "theirs": 0,
    "there": 1,
    "two": 2,
    "what": 2,
    "whole": 24,
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


@dataclass
class Names:
    """The names that a module has.

    Attributes:
        definitions: of the module itself, its classes and functions.
        values: of its parameters, fields and constants.
    """

    definitions: list[str]
    values: list[str]


@cache
def names(path: Path) -> Names:
    """The names in a module of Python."""
    tree = ast.parse(path.read_text())
    found = Names([path.stem], [])
    constants = [target for node in tree.body for target in targets(node)]
    fields: list[ast.expr] = []
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                found.definitions.append(node.name)
            case ast.ClassDef():
                found.definitions.append(node.name)
                constants += [target for part in node.body for target in targets(part)]
            case ast.arg() if node.arg not in ("self", "cls"):
                found.values.append(node.arg)
            case ast.Assign() | ast.AnnAssign():
                fields += targets(node)
    for part in (part for target in constants for part in ast.walk(target)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.values.append(part.id)
    for part in (part for target in fields for part in ast.walk(target)):
        match part:
            case ast.Attribute(ast.Name("self"), name, ast.Store()):
                found.values.append(name)
    return found


def targets(node: ast.stmt) -> list[ast.expr]:
    """What a statement assigns to."""
    match node:
        case ast.Assign(targets=assigned):
            return assigned
        case ast.AnnAssign(target=target):
            return [target]
    return []


def names_in_typescript(path: Path) -> Iterator[str]:
    """The names of a module of the extension, and those that it declares."""
    yield path.stem
    declared = r"\b(?:const|let|function|class|interface|type|enum)\s+(\w+)"
    typed = r"^\s*(?:(?:private|protected|public|readonly|static)\s+)*(\w+)\??:"
    yield from re.findall(declared, path.read_text())
    yield from re.findall(typed, path.read_text(), re.MULTILINE)


def own_modules(folder: str, pattern: str) -> list[Path]:
    """Modules that are no programs for tests to convert."""
    programs = {"programs", "scaled", "originals", "right", "wrong", "notebooks"}
    return [
        path for path in sorted((ROOT / folder).rglob(pattern)) if programs.isdisjoint(path.parts)
    ]


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


def check_counts(found: dict[str, list[str]], allowed: dict[str, int]) -> None:
    """Fail if more names than allowed have a word."""
    more = {word: shown for word, shown in found.items() if len(shown) > allowed.get(word, 0)}
    lines = [
        f"{len(shown)} names with `{word}`, and {allowed.get(word, 0)} are allowed: rename one of\n  "
        + "\n  ".join(shown)
        for word, shown in more.items()
    ]
    assert not more, "\n".join(lines)


def test_names_use_the_terms_of_the_glossary() -> None:
    instead = {
        word: "; ".join(row.instead)
        for row in replacements()
        if "names" in row.checked_in
        for word in row.words
    }
    wrong = re.compile(rf"\b(?:{'|'.join(instead)})\b")
    found: dict[str, list[str]] = {}
    for path in [*own_modules("jupyter_hvd", "*.py"), *own_modules("tests", "*.py")]:
        for name in (*names(path).definitions, *names(path).values):
            for word in wrong.findall(words_of(name)):
                found.setdefault(word, []).append(f"{own_name(path)}: {name}: {instead[word]}")
    for path in own_modules("labextension/src", "*.ts*"):
        for name in names_in_typescript(path):
            for word in wrong.findall(words_of(name)):
                found.setdefault(word, []).append(f"{own_name(path)}: {name}: {instead[word]}")
    check_counts(found, NAMES_LEFT)


def test_names_of_values_say_their_role() -> None:
    found: dict[str, list[str]] = {}
    for path in own_modules("jupyter_hvd", "*.py"):
        for name in names(path).values:
            word = words_of(name)
            if word in VAGUE_NAMES_LEFT:
                found.setdefault(word, []).append(f"{own_name(path)}: {name}")
    check_counts(found, VAGUE_NAMES_LEFT)


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


def test_which_names_are_read(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "CONSTANT = 1\n"
        "class Kind:\n"
        "    field: int = 0\n"
        "    def method(self, parameter, *rest):\n"
        "        local = self.attribute = self.other.ignored = parameter\n"
    )
    found = names(path)
    assert found.definitions == ["module", "Kind", "method"]
    assert sorted(found.values) == ["CONSTANT", "attribute", "field", "parameter", "rest"]
    path = tmp_path / "panel.ts"
    path.write_text("export class Panel {\n  private readonly told: string;\n}\nconst turn = 1;\n")
    assert [*names_in_typescript(path)] == ["panel", "Panel", "turn", "told"]
