"""The functions of `jupyter_hvd.runtime` as text, to be written into a program that must do without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import libcst as cst

from ... import runtime

#: What stands at the top of the runtime's modules for type checkers alone.
_TYPING = frozenset({"__future__", "collections.abc", "typing"})


@dataclass(frozen=True)
class Definition:
    """A name at the top level of the runtime.

    Attributes:
        index: orders definitions, what one needs to be executed before it.
        stands_apart: blank lines stand before it: a class, what is made of one, a function.
        needs: the other names that it uses.
    """

    name: str
    index: int
    stands_apart: bool
    statement: cst.BaseStatement
    needs: tuple[str, ...]

    @property
    def is_import(self) -> bool:
        match self.statement:
            case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom()]):
                return True
        return False


@cache
def definitions() -> Mapping[str, Definition]:
    """All names at the top level of the runtime's modules: imports first, constants, classes, functions."""
    statements: dict[str, cst.BaseStatement] = {}
    for file in sorted(Path(runtime.__file__).parent.glob("[!_]*.py")):
        for statement in cst.parse_module(file.read_text()).body:
            for name, bare in _bound(statement):
                statements[name] = bare
    classes = {name for name, found in statements.items() if isinstance(found, cst.ClassDef)}
    ranks = {name: _rank(statement, classes) for name, statement in statements.items()}
    return {
        name: Definition(
            name,
            index,
            ranks[name] > 1,
            statements[name],
            _names(statements[name], statements.keys() - {name}),
        )
        for index, name in enumerate(sorted(statements, key=ranks.__getitem__))
    }


def _rank(statement: cst.BaseStatement, classes: set[str]) -> int:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom()]):
            return 0
        case cst.ClassDef():
            return 2
        case cst.SimpleStatementLine():
            return 3 if _names(statement, classes) else 1
    return 4


def _bound(
    statement: cst.BaseStatement | cst.SimpleStatementLine,
) -> list[tuple[str, cst.BaseStatement]]:
    """The names that a statement binds, each with a statement that binds it alone, without annotations."""
    match statement:
        case cst.FunctionDef(name=cst.Name(value=name)) | cst.ClassDef(name=cst.Name(value=name)):
            bare = statement.visit(_Bare())
            assert isinstance(bare, (cst.FunctionDef, cst.ClassDef))
            return [(name, bare.with_changes(leading_lines=()))]
        case cst.SimpleStatementLine(
            body=[cst.AnnAssign(target=cst.Name(value=name), value=cst.BaseExpression() as value)]
        ):
            target = cst.AssignTarget(cst.Name(name))
            return [(name, cst.SimpleStatementLine([cst.Assign([target], value)]))]
        case cst.SimpleStatementLine(
            body=[cst.ImportFrom(module=cst.BaseExpression() as module, relative=[], names=names)]
        ) if not isinstance(names, cst.ImportStar):
            source = cst.Module([]).code_for_node(module)
            return [
                (alias.evaluated_name, _import(source, alias.evaluated_name))
                for alias in names
                if source not in _TYPING
            ]
        case cst.SimpleStatementLine(body=[cst.Import(names=names)]):
            return [(alias.evaluated_name, _import(None, alias.evaluated_name)) for alias in names]
    return []


def _import(module: str | None, name: str) -> cst.SimpleStatementLine:
    alias = [cst.ImportAlias(cst.Name(name))]
    if module is None:
        return cst.SimpleStatementLine([cst.Import(alias)])
    return cst.SimpleStatementLine([cst.ImportFrom(cst.Name(module), alias)])


class _Bare(cst.CSTTransformer):
    """A function or a class as one writes it in a notebook: no annotations, and a docstring of one paragraph."""

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        if updated_node.annotation is None or updated_node.default is None:
            return updated_node.with_changes(annotation=None)
        tight = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
        return updated_node.with_changes(annotation=None, equal=tight)

    def leave_FunctionDef(
        self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef
    ) -> cst.FunctionDef:
        return updated_node.with_changes(returns=None)

    def leave_AnnAssign(
        self, original_node: cst.AnnAssign, updated_node: cst.AnnAssign
    ) -> cst.Assign:
        assert updated_node.value is not None
        return cst.Assign([cst.AssignTarget(updated_node.target)], updated_node.value)

    def leave_SimpleString(
        self, original_node: cst.SimpleString, updated_node: cst.SimpleString
    ) -> cst.SimpleString:
        if not updated_node.value.startswith('"""'):
            return updated_node
        first = updated_node.raw_value.partition("\n\n")[0].rstrip()
        return updated_node.with_changes(value=f'"""{first}"""')

    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        comment = updated_node.comment
        if comment is not None and comment.value.startswith(("# type:", "# noqa")):
            return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))
        return updated_node


class _Names(cst.CSTVisitor):
    """The names that a statement uses; not those of attributes, nor of keyword arguments."""

    def __init__(self) -> None:
        self.found: dict[str, None] = {}

    def visit_Name(self, node: cst.Name) -> None:
        self.found[node.value] = None

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False


def _names(statement: cst.BaseStatement, known: set[str]) -> tuple[str, ...]:
    visitor = _Names()
    statement.visit(visitor)
    return tuple(name for name in visitor.found if name in known)


class _Renaming(cst.CSTTransformer):
    """The same code with other names for what is defined at the top level."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(
            value=self.names.get(updated_node.value, updated_node.value)
        )

    def leave_Attribute(
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def text_of(definition: Definition, names: Mapping[str, str], step: str) -> str:
    """A definition as it is written into a program.

    Args:
        names: for each name of the runtime the one that it has in the program.
        step: what a block is indented by.
    """
    used = tuple((name, names[name]) for name in (definition.name, *definition.needs))
    return _written(definition, used, step)


@lru_cache(maxsize=1024)  # most programs leave the names as they are
def _written(definition: Definition, used: tuple[tuple[str, str], ...], step: str) -> str:
    names = dict(used)
    name = names[definition.name]
    module = cst.Module([], default_indent=step)
    if definition.is_import:
        text = module.code_for_node(definition.statement).strip()
        return text if name == definition.name else f"{text} as {name}"
    return module.code_for_node(definition.statement.visit(_Renaming(names))).strip()  # type: ignore[arg-type]
