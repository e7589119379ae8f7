"""docs/messages.md: every error, warning, refusal and reason, by package, with what to do.

python scripts/messages_page.py > docs/messages.md

A message is a string with a sentence in it. Those of one call, `Problem(node, message, help)`, make
one row. Values that are put into a message are shown as `⟨name⟩`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from modules_page import MARKUP, PACKAGE, ROOT, packages
from server_texts import FIELD, children, is_sentence, name_of

#: Calls whose strings are programs, patterns, tables of names, or the usage of commands.
LEFT_OUT = {
    *("program", "Example", "compile", "split", "fromkeys", "frozenset", "startswith", "join"),
    *("add_argument", "add_parser", "ArgumentParser", "MagicParser", "add"),
    *("_enter_function", "_enter_smooth", "EntryPoint", "getattr", "signature"),
}
#: Modules whose strings are tables of libraries' functions, programs, or headings of pages.
WITHOUT_MESSAGES = (
    *("convert/tensorflow", "analysis/scale_signatures.py", "convert/documentation.py"),
    "jobs/shared_runtime.py",
    *("tensor/derivative/elementary.py", "verify/against/report_page.py"),
)
#: Calls that tell a user something and go on.
WARNINGS = {"warn", "warning", "report_line", "report_once", "add_line"}
#: A string that no exception carries is a message if it has as many words. Shorter ones are parts of messages.
FEWEST_WORDS = 4


@dataclass(frozen=True)
class Message:
    """What a user reads at one place.

    Attributes:
        kind: the name of the exception, call or variable that it is given to.
        code: of the rule that says it, `HVD904`, or nothing.
        text: what is wrong, or why something is done.
        advice: what to do, where the program keeps that apart from the text.
    """

    path: Path
    kind: str
    code: str
    text: str
    advice: str = ""


def page() -> Iterator[str]:
    yield "# Messages"
    yield ""
    yield "All errors, warnings, refusals and reasons, by package. `make docs` writes this page from the code."
    yield "The second column has the [rule](rules.md) that says it, or the exception that carries it."
    yield "`⟨name⟩` stands for a value. `TensorError` adds the line of the source and marks the place in it."
    for folder in packages():
        rows = sorted({row for path in modules(folder) for row in map(as_row, messages(path))})
        if rows:
            yield ""
            yield f"## {'.'.join(folder.relative_to(ROOT).parts)}"
            yield ""
            yield "| module | code or kind | message | what to do |"
            yield "|---|---|---|---|"
            yield from rows


def modules(folder: Path) -> list[Path]:
    """The modules of a package that may have messages, in order."""
    return [
        path
        for path in sorted(folder.glob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(WITHOUT_MESSAGES)
    ]


def as_row(message: Message) -> str:
    carrier = message.kind if message.kind.endswith(("Error", "Exception")) else ""
    if message.kind in WARNINGS:
        carrier = "warning"
    first = (f"`{message.path.name}`", message.code or carrier)
    return f"| {' | '.join((*first, markdown(message.text), markdown(message.advice)))} |"


def markdown(text: str) -> str:
    """A text as a cell of a table: code stays code, all else is shown as it is."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:  # a lone backquote begins no code
        parts = [r"\`".join(parts)]
    parts[::2] = [MARKUP.sub(r"\\\1", part.replace("\\", "\\\\")) for part in parts[::2]]
    return re.sub(r"(?<!\\)\|", r"\\|", "`".join(parts))


def messages(path: Path) -> Iterator[Message]:
    """The messages of a module."""
    tree = ast.parse(path.read_text())
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    in_tensor = PACKAGE / "tensor" in path.parents

    def below(
        node: ast.AST, kind: str, code: str, names: Mapping[str, ast.expr]
    ) -> Iterator[Message]:
        match node:
            case ast.ClassDef():
                code = rule_code(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Module():
                names = {**names, **bound_texts(node)}
            case ast.Expr(value=ast.Constant()):
                return
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                kind = name_of(target) or kind
            case ast.Call(func=func):
                kind = name_of(func) or kind
                if kind in LEFT_OUT:
                    return
                is_raised = id(node) in raised
                given = [x.value if isinstance(x, ast.keyword) else x for x in arguments(node)]
                if is_raised:
                    given = [names.get(name_of(x), x) for x in given]
                    kind = "TensorError" if in_tensor and kind.islower() else kind
                found = [text for x in given if (text := text_of(x))]
                if not is_raised:  # names of colours, columns and kinds are no part of the message
                    found = [text for text in found if " " in text]
                elif kind.endswith("Error") and found and given and text_of(given[0]) is None:
                    found.insert(0, f"⟨{words_in(name_of(given[0])) or '…'}⟩")
                if found and (is_raised or any(map(is_message, found))):
                    yield Message(path, kind, code, found[0], "; ".join(found[1:]))
                for child in (func, *given):
                    if text_of(child) is None:
                        yield from below(child, kind, code, names)
                return
            case ast.Tuple(elts=[_, _] as both) if all(texts := [text_of(x) for x in both]):
                if any(is_message(text) for text in texts if text):
                    yield Message(path, kind, code, texts[0] or "", texts[1] or "")
                return
            case ast.expr() if (text := text_of(node)) is not None:
                if is_message(text):
                    yield Message(path, kind, code, text)
                return
        for name, child in children(node):
            if name not in ("annotation", "returns"):
                yield from below(child, kind, code, names)

    yield from below(tree, "text", "", {})


def arguments(call: ast.Call) -> list[ast.expr | ast.keyword]:
    return [*call.args, *call.keywords]


def rule_code(node: ast.ClassDef) -> str:
    """The code of a rule's class, `code = "HVD904"`, or nothing."""
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                return code
    return ""


def bound_texts(scope: ast.AST) -> dict[str, ast.expr]:
    """The texts that names of a function or module are bound to, without those within it."""
    return {
        target.id: statement.value
        for statement in getattr(scope, "body", [])
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name) and text_of(statement.value)
    }


def text_of(node: ast.expr) -> str | None:
    """The text of a string, or of what is put together from strings; None for all else."""
    match node:
        case ast.Constant(value=str(text)):
            return FIELD.sub(lambda field: f"⟨{words_in(field[0])}⟩", text)
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) or "" for value in values)
        case ast.FormattedValue(value=value):
            return f"⟨{words_in(name_of(value)) or '…'}⟩"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = (text_of(left), text_of(right))
            return None if parts == (None, None) else "".join(part or "⟨…⟩" for part in parts)
        case ast.IfExp(body=body, orelse=orelse):
            either = (text_of(body), text_of(orelse))
            return " / ".join(filter(None, either)) or None if None not in either else None
    return None


def words_in(name: str) -> str:
    """The words of a name or of a field of `str.format`."""
    return " ".join(re.findall(r"[A-Za-z]+|\d+", name))


def is_message(text: str) -> bool:
    """Whether a text is a message, not part of one, a program or a page."""
    return is_sentence(text) and len(text.split()) >= FEWEST_WORDS


def main() -> None:
    for line in page():
        print(line)


if __name__ == "__main__":
    main()
